//! Every kind of XDP program that this crate makes, loaded and attached on the kernel that runs, and on stock kernels.

#![allow(clippy::unwrap_used, reason = "what these functions do is test")]

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::num::NonZeroU64;
use std::os::unix::fs::OpenOptionsExt;
use std::rc::Rc;

use nearwire_lab::emulated_host::{OwnTests, StockKernel, is_inside};
use nearwire_sys::bpf::{LoadError, LoadOptions, Map, Program};
use nearwire_sys::netdev::{XdpReceiveMetadata, xdp_receive_metadata};

use super::programs::{pass, pass_with, steer, steer_all};
use super::stamps::{DEVICE_TIME, DeviceClock, Stamps};
use super::tags::TagQuestion;
use super::{AttachMode, XdpAttachment};
use crate::interface::InterfaceFacts;
use crate::steering::{Capacity, Counting, SteeringTable};
use crate::test_cable::{NEAR, cable_or_skip, ip};

const MARK: NonZeroU64 = NonZeroU64::new(0x0123_4567_89ab_cdef).unwrap();
/// Shares of the ports.
const SHARES: u32 = 8;
/// Of a port's buffers, of jumbo frames, and no limit; of jumbo frames in several buffers; of bundles in generic mode.
fn capacities() -> [Capacity; 5] {
    let jumbo = Capacity { frame_most_bytes: 9018, buffer_bytes: Some(3840), in_pieces: true };
    let bundles = Capacity { frame_most_bytes: 65_557, buffer_bytes: Some(1792), in_pieces: false };
    [3000.into(), 9018.into(), (1 << 16).into(), jumbo, bundles]
}

/// A kind of program.
struct Kind {
    name: String,
    /// To an interface.
    is_bound: bool,
    load: Box<dyn Fn() -> Result<Program, LoadError>>,
}

type Load = Box<dyn Fn(&Map) -> Result<Program, LoadError>>;

/// All kinds. Those that are bound to an interface are for `ifindex`.
fn every_program(ifindex: u32) -> Vec<Kind> {
    let sockets = Rc::new(Map::xskmap("sockets", 2 * SHARES).unwrap());
    let device = device_clock(ifindex);
    let clocks = [Some(DeviceClock::None), Some(DeviceClock::Standing(7)), device].into_iter().flatten();
    let stamps = clocks.map(|device| Some(Stamps { mark: MARK, device }));
    let multi_buffer = LoadOptions { multi_buffer: true, ..LoadOptions::default() };
    let mut kinds = vec![
        Kind { name: "pass".to_owned(), is_bound: false, load: Box::new(pass) },
        Kind {
            name: "pass, several buffers".to_owned(),
            is_bound: false,
            load: Box::new(move || pass_with(multi_buffer)),
        },
    ];
    let question = InterfaceFacts::read(NEAR).ok().and_then(|facts| TagQuestion::of(&facts));
    for capacity in capacities().into_iter().filter(|_| question.is_some()) {
        let table = SteeringTable::with_credits(NEAR, capacity, SHARES, 1, Counting::OneCpu).unwrap();
        let sockets = Rc::clone(&sockets);
        let load = Box::new(move || table.asking_program(&sockets, MARK, question));
        kinds.push(Kind { name: format!("filters and tags, {capacity:?}"), is_bound: true, load });
    }
    for stamps in stamps.chain([None]) {
        let is_bound = stamps.is_some_and(|stamps| Some(stamps.device) == device);
        let mut add = |name: String, load: Load| {
            let sockets = Rc::clone(&sockets);
            let load = Box::new(move || load(&sockets));
            kinds.push(Kind { name: format!("{name}, {stamps:?}"), is_bound, load });
        };
        for several in [false, true] {
            add(format!("all, {several}"), Box::new(move |sockets| steer_all(sockets, stamps, several)));
            for ether_type in [0x0800, 0x88b5] {
                let load = move |sockets: &Map| steer(sockets, ether_type, stamps, several);
                add(format!("EtherType {ether_type:#x}, {several}"), Box::new(load));
            }
        }
        for capacity in capacities() {
            let credits = |counting| SteeringTable::with_credits(NEAR, capacity, SHARES, 1, counting).unwrap();
            let mut tables = vec![SteeringTable::new(NEAR, capacity, SHARES).unwrap()];
            if capacity.buffer_bytes.is_some() {
                tables.extend([Counting::OneCpu, Counting::SeveralCpus].map(credits));
            }
            for table in tables.into_iter().map(Rc::new) {
                let ready = Rc::clone(&table);
                let load = move |sockets: &Map| table.stamped_program(sockets, stamps);
                add(format!("filters, {capacity:?}"), Box::new(load));
                if stamps.is_none() {
                    let load = move |sockets: &Map| ready.ready_program(sockets, MARK);
                    add(format!("filters, {capacity:?}, times when asked"), Box::new(load));
                }
            }
        }
    }
    kinds
}

/// The driver's clock, where kernel and driver tell times of frames.
fn device_clock(ifindex: u32) -> Option<DeviceClock> {
    let tells = xdp_receive_metadata(ifindex).is_ok_and(|tells| tells.contains(XdpReceiveMetadata::TIMESTAMP));
    let function = nearwire_sys::btf::kernel_function(DEVICE_TIME).unwrap().filter(|_| tells)?;
    Some(DeviceClock::Driver { function, ifindex })
}

#[test]
fn programs_of_every_kind_load_and_attach() {
    let Some(cable) = cable_or_skip() else { return };
    cable.near(|| {
        let ifindex = InterfaceFacts::read(NEAR).unwrap().ifindex;
        let kinds = every_program(ifindex);
        println!("{} kinds, {} of them bound", kinds.len(), kinds.iter().filter(|kind| kind.is_bound).count());
        let mut refused = Vec::new();
        for Kind { name, is_bound, load } in kinds {
            let program = match load() {
                Ok(program) => program,
                Err(error) => {
                    refused.push(format!("{name}: {error}"));
                    continue;
                }
            };
            for mode in [AttachMode::Native, AttachMode::Generic] {
                // A bound program runs in the driver only.
                if mode == AttachMode::Native || !is_bound {
                    let facts = InterfaceFacts::read(NEAR).unwrap();
                    if let Err(error) = XdpAttachment::attach(&program, &facts, mode) {
                        refused.push(format!("{name}, {mode}: {error}"));
                    }
                }
            }
        }
        assert!(refused.is_empty(), "{}", refused.join("\n"));
    });
}

/// A program that outgrows its pages while the kernel works on it leaves a stale address behind, which the end of its interface
/// follows. Not on this machine: the kernel would not be whole afterwards.
#[test]
fn interface_removed_under_programs_bound_to_it_leaves_the_kernel_whole() {
    if !is_inside() {
        return;
    }
    let mut messages = KernelMessages::from_now_on();
    for number in 0.. {
        let Some(cable) = cable_or_skip() else { return };
        let more = cable.near(|| {
            let facts = InterfaceFacts::read(NEAR).unwrap();
            let bound: Vec<_> = every_program(facts.ifindex).into_iter().filter(|kind| kind.is_bound).collect();
            let Some(kind) = bound.get(number) else { return false };
            let program = (kind.load)().unwrap();
            let attached = XdpAttachment::attach(&program, &facts, AttachMode::Native).unwrap();
            println!("{}", kind.name);
            ip(&format!("link del {NEAR}")).unwrap();
            drop(attached);
            true
        });
        if !more {
            break;
        }
    }
    let messages = messages.read();
    for word in ["Oops", "BUG:", "WARNING:", "use-after-free"] {
        assert!(!messages.contains(word), "{messages}");
    }
}

/// What the kernel says from one moment on: what it said at its start has to do with the processor and its faults.
struct KernelMessages(File);

impl KernelMessages {
    fn from_now_on() -> Self {
        let mut device = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open("/dev/kmsg").unwrap();
        device.seek(SeekFrom::End(0)).unwrap();
        Self(device)
    }

    /// One record a read, until there is none (Documentation/ABI/testing/dev-kmsg).
    fn read(&mut self) -> String {
        let (mut messages, mut record) = (String::new(), [0; 8192]);
        loop {
            match self.0.read(&mut record) {
                Ok(length) => messages.push_str(&String::from_utf8_lossy(&record[..length])),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return messages,
                // Overwritten before it was read: newer ones follow.
                Err(error) if error.raw_os_error() == Some(libc::EPIPE) => {}
                Err(error) => panic!("/dev/kmsg: {error}"),
            }
        }
    }
}

/// What the kernel decides: programs, and what they do with frames.
fn tests() -> OwnTests {
    OwnTests::new(&["xdp::kinds", "ports::xdp::tests", "steering::tests"])
        .without(&["random", "table_full"])
        .with_programs(&["ip"])
}

#[test]
fn programs_on_stock_kernel_6_1() {
    tests().run_or_skip(StockKernel::Linux6_1);
}

#[test]
fn programs_on_stock_kernel_6_12() {
    tests().run_or_skip(StockKernel::Linux6_12);
}

#[test]
fn programs_on_stock_kernel_newest() {
    tests().run_or_skip(StockKernel::Newest);
}
