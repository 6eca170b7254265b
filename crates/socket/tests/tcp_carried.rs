//! Connections that change between the kernel and our stack while both ends send, with the kernel at the far end: every byte comes once and in
//! order. On a real kernel over a veth pair; needs root (or says SKIP). `NEARWIRE_CARRIES=N`: so many changes each way in each storm.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

#[path = "../../agent/tests/streams/mod.rs"]
mod streams;

use std::io::{Read, Write};
use std::net::{IpAddr, TcpStream};
use std::time::{Duration, Instant};

use nearwire_agent::give_back::{GivenBack, Sender};
use nearwire_frames::fault::FaultPort;
use nearwire_frames::ports::xdp::{Steer, XdpConfig, XdpMode, XdpPort};
use nearwire_frames::{Port, RawPort};
use nearwire_lab::{Cable, CableEnd};
use nearwire_socket::kernel_tables::KernelTables;
use nearwire_socket::tcp::Carried;
use nearwire_stack::{
    Arrival, Offers, PortId, ReceiveChecksum, Stack, StackConfig, TcpCallError, TcpCounters, TcpOptions,
};
use nearwire_sys::tsc::monotonic_raw_ns;
use streams::{Course, Random, cable_or_skip, connect, flow};

const ETHERNET_BYTES: usize = 14;
/// So many go each way for each change of the owner.
const BYTES_A_CHANGE: u64 = 5_000;
/// For the rest of the bytes, after the last change.
const PATIENCE: Duration = Duration::from_secs(60);

type Now = fn() -> u64;

/// The near end past the kernel: a port with faults under a stack.
struct Near {
    port: FaultPort<XdpPort, Now>,
    stack: Stack,
    attached: PortId,
}

impl Near {
    fn open(end: &CableEnd, fault: &str, seed: u64) -> Near {
        end.namespace
            .enter(|| {
                let config = XdpConfig::new(&end.interface, XdpMode::Generic, Steer::Filters);
                let port = XdpPort::open(&config).unwrap();
                let ifindex = nearwire_frames::interface::InterfaceFacts::read(&end.interface).unwrap().ifindex;
                let (_, known) = KernelTables::open().unwrap();
                let mut stack = Stack::new(StackConfig::new(seed));
                known.into_iter().for_each(|update| stack.update(update));
                let attached = stack.attach_port(ifindex, Offers::default());
                let port = FaultPort::new(port, fault.parse().unwrap(), seed, monotonic_raw_ns as Now);
                Near { port, stack, attached }
            })
            .unwrap()
    }

    /// Takes frames in, and sends what is due.
    fn drive(&mut self) {
        let Near { port, stack, attached } = self;
        stack.tcp_time(monotonic_raw_ns());
        while let Some(()) = port
            .receive(|frame| {
                let checksum = ReceiveChecksum::Verify;
                stack.receive(&Arrival { port: *attached, frame, received_ns: 0, device_ns: 0, checksum }, |_, _| {
                    unreachable!("no datagram has a flow")
                });
            })
            .unwrap()
        {}
        while let Some(segment) = stack.poll_transmit(monotonic_raw_ns()) {
            let len_bytes = segment.len_bytes();
            // Without room it was not sent, and is once more.
            let queued = port.queue_with(len_bytes, |frame| {
                segment.write(frame);
            });
            if !queued.unwrap() {
                break;
            }
        }
        port.flush().unwrap();
    }

    fn turn(&mut self, carried: &Carried, course: &mut Course, most: usize, until: u64) {
        match self.stack.tcp_write(carried.id(), monotonic_raw_ns(), &course.next(most, until), false) {
            Ok(taken) => course.written += taken as u64,
            Err(error) => assert_eq!(error, TcpCallError::WouldBlock, "write after {} bytes", course.written),
        }
        self.drive();
        let mut buffer = [0; 16 << 10];
        loop {
            match self.stack.tcp_read(carried.id(), &mut buffer) {
                Ok(0) => panic!("the stream ended after {} bytes", course.read),
                Ok(len) => course.take(&buffer[..len]),
                Err(TcpCallError::WouldBlock) => return,
                Err(error) => panic!("read after {} bytes: {error}", course.read),
            }
        }
    }

    /// Gives the kernel what came to the port after the connection was released.
    fn give_back(&mut self, sender: &mut Sender, to: IpAddr) {
        while let Some(sent) =
            self.port.inner_mut().receive(|frame| sender.send_packet(&frame[ETHERNET_BYTES..], to)).unwrap()
        {
            assert_eq!(sent, GivenBack::Done);
        }
    }
}

/// The connection changes its owner so often each way, while `5000` bytes a change go in both directions.
fn storm(address: fn(&CableEnd) -> IpAddr, accepted: bool, fault: &str, seed: u64) -> TcpCounters {
    let Some(cable) = cable_or_skip() else { return TcpCounters::default() };
    let carries = std::env::var("NEARWIRE_CARRIES").map_or(300, |count| count.parse().unwrap());
    let (near, far) = (cable.near(), cable.far());
    let [near_stream, far_stream] = connect(near, far, address, accepted);
    let mut here = Near::open(near, fault, seed);
    let all_bytes = carries * BYTES_A_CHANGE;
    let slipped = std::thread::scope(|scope| {
        let far_stream = &far_stream;
        let far = scope.spawn(move || drive_far(far_stream, all_bytes, seed));
        let mut one = Course::new(1, 2);
        let slipped = change_owners(near, &mut here, &near_stream, &mut one, carries);
        let until = Instant::now() + PATIENCE;
        while one.read < all_bytes || !far.is_finished() {
            one.turn(&near_stream, 20_000, all_bytes);
            assert!(Instant::now() < until, "{} of {all_bytes} bytes read, {} written", one.read, one.written);
        }
        slipped
    });
    let counters = here.stack.tcp_counters();
    println!("{carries} changes each way, {all_bytes} bytes each way, {slipped} bytes slipped; {counters:?}");
    *counters
}

/// The far end, which the kernel has.
fn drive_far(stream: &TcpStream, all_bytes: u64, seed: u64) {
    let (mut course, mut random) = (Course::new(2, 1), Random(!seed));
    let until = Instant::now() + PATIENCE + Duration::from_micros(10 * all_bytes);
    while course.read < all_bytes || course.written < all_bytes {
        course.turn(stream, random.below(20_000) as usize, all_bytes);
        std::thread::sleep(Duration::from_micros(random.below(200)));
        assert!(Instant::now() < until, "{} of {all_bytes} bytes read, {} written", course.read, course.written);
    }
}

/// The near end: the kernel has it for a while, then the stack, and so on; how many bytes slipped to the parked shadow.
fn change_owners(end: &CableEnd, here: &mut Near, stream: &TcpStream, course: &mut Course, carries: u64) -> usize {
    let (local, filter) = (stream.local_addr().unwrap().ip(), flow(stream));
    let (mut sender, mut random, mut slipped) = (Sender::default(), Random(carries), 0);
    let all_bytes = carries * BYTES_A_CHANGE;
    let options = TcpOptions { retransmit_floor_ns: 5_000_000, ..TcpOptions::default() };
    for _ in 0..carries {
        for _ in 0..random.below(3) {
            course.turn(stream, random.below(20_000) as usize, all_bytes);
        }
        here.port.inner_mut().add_filter(filter).unwrap();
        let mut carried = Carried::adopt(stream, &mut here.stack, options, monotonic_raw_ns()).unwrap();
        for _ in 0..random.below(12) {
            slipped += carried.merge_slipped(stream, &mut here.stack, monotonic_raw_ns()).unwrap();
            here.turn(&carried, course, random.below(20_000) as usize, all_bytes);
            // At times so long that what was lost is found to be.
            std::thread::sleep(Duration::from_micros(random.below(3) * random.below(300)));
        }
        let released = end.namespace.enter(|| carried.release(stream, &mut here.stack, monotonic_raw_ns()));
        released.unwrap().unwrap();
        here.port.inner_mut().remove_filter(filter).unwrap();
        end.namespace.enter(|| here.give_back(&mut sender, local)).unwrap();
    }
    slipped
}

const V4: fn(&CableEnd) -> IpAddr = |end| end.ipv4.into();
const V6: fn(&CableEnd) -> IpAddr = |end| end.ipv6.into();

#[test]
fn accepted_connection_carried_now_and_then_while_both_ends_send_loses_nothing() {
    storm(V4, true, "loss=0%", 1);
}

#[test]
fn connected_connection_carried_now_and_then_while_both_ends_send_loses_nothing() {
    storm(V4, false, "loss=0%", 2);
}

#[test]
fn ipv6_connection_carried_now_and_then_while_both_ends_send_loses_nothing() {
    storm(V6, true, "loss=0%", 3);
}

#[test]
fn connection_carried_over_a_faulty_wire_loses_nothing() {
    let counters = storm(V4, true, "loss=3%,duplicate=1%,reorder=2%,corrupt=0.2%,on=both", 4);
    assert!(counters.adopted == 0 || counters.retransmitted_segments > 0, "{counters:?}");
}

#[test]
fn bytes_that_slipped_to_the_parked_shadow_are_read_from_the_stack_and_not_once_more_from_the_kernel() {
    let Some(cable) = cable_or_skip() else { return };
    let (near, far) = (cable.near(), cable.far());
    let [near_stream, mut far_stream] = connect(near, far, V4, true);
    let mut here = Near::open(near, "loss=0%", 5);
    let mut read = [0; 16];
    let mut carried = Carried::adopt(&near_stream, &mut here.stack, TcpOptions::default(), monotonic_raw_ns()).unwrap();
    // No flow stands there yet.
    far_stream.write_all(b"slipped").unwrap();
    std::thread::sleep(Duration::from_millis(20));
    here.port.inner_mut().add_filter(flow(&near_stream)).unwrap();
    let slipped = |carried: &mut Carried, here: &mut Near| {
        carried.merge_slipped(&near_stream, &mut here.stack, monotonic_raw_ns()).unwrap()
    };
    assert_eq!([slipped(&mut carried, &mut here), slipped(&mut carried, &mut here)], [7, 0]);
    assert_eq!(here.stack.tcp_read(carried.id(), &mut read), Ok(7));
    assert_eq!(&read[..7], b"slipped");
    far_stream.write_all(b"more").unwrap();
    std::thread::sleep(Duration::from_millis(20));
    here.drive();
    assert_eq!(here.stack.tcp_read(carried.id(), &mut read), Ok(4));
    assert_eq!(&read[..4], b"more");
    let released = near.namespace.enter(|| carried.release(&near_stream, &mut here.stack, monotonic_raw_ns()));
    released.unwrap().unwrap();
    here.port.inner_mut().remove_filter(flow(&near_stream)).unwrap();
    far_stream.write_all(b"kernel").unwrap();
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!((&near_stream).read(&mut read).unwrap(), 6);
    assert_eq!(&read[..6], b"kernel");
}
