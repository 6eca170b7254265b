//! Frames that find no room, and that the kernel gets. On a real kernel over a veth pair. Needs root (or says SKIP).

use std::net::{Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};

use nearwire_frames::interface::InterfaceFacts;
use nearwire_frames::ports::xdp::{Overflow, Steer, TimesWanted, XdpConfig, XdpMode, XdpPort};
use nearwire_frames::steering::{Filter, FlowFilter, Transport};
use nearwire_frames::xdp::tells_hidden_tags;
use nearwire_frames::{Port, RawPort};

use crate::common::{Cable, FAR, NEAR, cable_or_skip, ip};

const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const PORT: u16 = 7000;
const PATIENCE: Duration = Duration::from_secs(5);

/// A port with room for some frames, the kernel's socket for the same flow, and who sends to both.
fn open(cable: &Cable, mode: XdpMode) -> (XdpPort, UdpSocket, UdpSocket) {
    cable.near(|| ip(&format!("address replace {ADDRESS}/24 dev {NEAR}"))).unwrap();
    cable.far(|| ip(&format!("address replace 10.9.0.2/24 dev {FAR}"))).unwrap();
    let config = XdpConfig {
        rx_queues: vec![0, 1],
        tx_queues: true,
        overflow: Overflow::Kernel,
        ..XdpConfig::new(NEAR, mode, Steer::Filters)
    };
    let mut port = cable.near(|| XdpPort::open(&config)).unwrap();
    let flow = FlowFilter { transport: Transport::Udp, address: ADDRESS.into(), port: PORT };
    port.add_filter(Filter::Flow(flow)).unwrap();
    let shadow = cable.near(|| UdpSocket::bind((ADDRESS, PORT))).unwrap();
    shadow.set_nonblocking(true).unwrap();
    // Under a native program, veth of Linux 6.1 gives each datagram a page, which counts.
    rustix::net::sockopt::set_socket_recv_buffer_size_force(&shadow, 8 << 20).unwrap();
    let sender = cable.far(|| UdpSocket::bind("10.9.0.2:0")).unwrap();
    sender.connect((ADDRESS, PORT)).unwrap();
    (port, shadow, sender)
}

/// Who has the kernel's lock of all interfaces, as to attach a program to another one, would hold up whoever spins.
#[test]
fn port_looked_at_in_vain_asks_nothing_of_its_interface() {
    let Some(cable) = cable_or_skip() else { return };
    let (mut port, shadow, sender) = open(&cable, XdpMode::Generic);
    let program = port.facts().program_id;
    assert_eq!(cable.near(|| nearwire_sys::bpf::detach_links_of(program)).unwrap(), 1);
    for _ in 0..1 << 20 {
        assert!(port.receive(|_| ()).unwrap().is_none(), "it would say that the program is gone");
    }
    assert!(!port.is_attached());
    send(&sender, 0..3);
    assert_eq!(until(3, || from_kernel(&shadow)), [0, 1, 2], "the kernel has what comes");
}

/// A port of sockets in the driver of veth, which tells what tag it took out (Linux 6.8): tagged frames are the kernel's, and are seen in
/// an emulated host (`preload/tests/vlans.rs`). Frames without a tag, and times of the device, are as without the question.
#[test]
fn port_whose_program_asks_for_tags_receives_frames_without_any() {
    let Some(cable) = cable_or_skip() else { return };
    for mode in [XdpMode::Generic, XdpMode::NativeCopy] {
        let (mut port, shadow, sender) = open(&cable, mode);
        let ifindex = cable.near(|| InterfaceFacts::read(NEAR).unwrap().ifindex);
        let tells = cable.near(|| tells_hidden_tags(ifindex));
        assert_eq!(port.asks_for_tags(), tells && mode == XdpMode::NativeCopy, "{mode}");
        for wanted in [None, Some(TimesWanted::Kernel), Some(TimesWanted::Device)] {
            let _ = wanted.map(|wanted| cable.near(|| port.want_times(wanted)));
            send(&sender, 0..50);
            assert_eq!(until(50, || from_port(&mut port)), (0..50).collect::<Vec<_>>(), "{mode}, {wanted:?}");
        }
        assert_eq!(from_kernel(&shadow), [0_u32; 0], "{mode}");
    }
}

fn send(sender: &UdpSocket, numbers: std::ops::Range<u32>) {
    for number in numbers {
        sender.send(&number.to_be_bytes()).unwrap();
    }
}

fn from_port(port: &mut XdpPort) -> Vec<u32> {
    let number = |frame: &[u8]| u32::from_be_bytes(*frame[42..].first_chunk().unwrap());
    std::iter::from_fn(|| port.receive(number).unwrap()).collect()
}

fn from_kernel(shadow: &UdpSocket) -> Vec<u32> {
    let mut bytes = [0; 4];
    std::iter::from_fn(|| shadow.recv(&mut bytes).is_ok().then(|| u32::from_be_bytes(bytes))).collect()
}

/// All that comes until there are so many numbers.
fn until(frames: usize, mut read: impl FnMut() -> Vec<u32>) -> Vec<u32> {
    let (until, mut numbers) = (Instant::now() + PATIENCE, read());
    while numbers.len() < frames && Instant::now() < until {
        std::thread::yield_now();
        numbers.extend(read());
    }
    numbers
}

#[test]
fn burst_beyond_the_ring_is_the_kernels_in_order_and_what_comes_after_settling_the_ports() {
    let Some(cable) = cable_or_skip() else { return };
    for mode in [XdpMode::Generic, XdpMode::NativeCopy] {
        let (mut port, shadow, sender) = open(&cable, mode);
        for round in 0..20 {
            send(&sender, 0..200);
            let by_port = until(1, || from_port(&mut port));
            let by_kernel = until(200 - by_port.len(), || from_kernel(&shadow));
            // Neighbours are resolved while the first wait.
            assert!((80..=128).contains(&by_port.len()), "{mode} {round}: {} of 200", by_port.len());
            let all = [by_port.clone(), by_kernel.clone()].concat();
            assert_eq!(all, (0..200).collect::<Vec<_>>(), "{mode} {round}");
            assert!(port.is_overflowing());
            send(&sender, 200..210);
            assert_eq!(until(10, || from_kernel(&shadow)), (200..210).collect::<Vec<_>>(), "{mode} {round}");
            assert_eq!(from_port(&mut port), [0_u32; 0], "{mode} {round}");
            assert_eq!(port.begin_settling(), by_kernel.len() as u64 + 10);
            port.settle_overflow();
            send(&sender, 300..320);
            assert_eq!(until(20, || from_port(&mut port)), (300..320).collect::<Vec<_>>(), "{mode} {round}");
            assert_eq!(from_kernel(&shadow), [0_u32; 0]);
        }
        assert_eq!(port.statistics().receive_dropped_frames, 0);
        assert!(port.overflowed_frames() >= 20 * 82);
    }
}
