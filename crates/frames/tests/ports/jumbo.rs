//! Frames longer than a buffer of packet memory, on a real kernel over a veth pair with an MTU of 9000. Needs root (or says SKIP).

use std::net::{Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};

use crate::common::{Cable, FAR, NEAR, cable_of_queues_or_skip, cable_or_skip, ip};
use nearwire_frames::interface::InterfaceFacts;
use nearwire_frames::ports::xdp::{
    Candidate, Overflow, Side, Steer, TimesWanted, XdpConfig, XdpMode, XdpPort, candidates,
};
use nearwire_frames::steering::{Filter, FlowFilter, Transport};
use nearwire_frames::{Port, PortError, RawPort};

const MTU_BYTES: usize = 9000;
const ETHER_TYPE: u16 = 0x88b5;
const STEER: Steer = Steer::EtherType(ETHER_TYPE);
const PATIENCE: Duration = Duration::from_secs(5);
const MODES: [XdpMode; 2] = [XdpMode::Generic, XdpMode::NativeCopy];
const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const FAR_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);
const PORT: u16 = 7000;
const HEADERS_BYTES: usize = 14 + 20 + 8;
/// At and beside the ends of one, two and three buffers, of 3840 bytes to receive and 4096 to send, and of what veth leaves in one page.
const LENGTHS: [usize; 20] = [
    60, 1514, 3506, 3520, 3521, 3839, 3840, 3841, 4095, 4096, 4097, 7679, 7680, 7681, 8191, 8192, 8193, 8999, 9013,
    9014,
];

/// A cable for jumbo frames, and whether this kernel lets frames lie in several buffers (Linux 6.6).
fn jumbo_cable_or_skip() -> Option<(Cable, bool)> {
    cable_of_mtu_or_skip(MTU_BYTES, 2)
}

/// Where the kernel sends to a port: it chooses the queue, on which native veth delivers.
fn jumbo_cable_of_one_queue_or_skip() -> Option<(Cable, bool)> {
    cable_of_mtu_or_skip(MTU_BYTES, 1)
}

fn cable_of_mtu_or_skip(mtu_bytes: usize, queues: u32) -> Option<(Cable, bool)> {
    let cable = cable_of_queues_or_skip(queues)?;
    for (end, address) in [(NEAR, ADDRESS), (FAR, FAR_ADDRESS)] {
        let set = || {
            ip(&format!("link set {end} mtu {mtu_bytes}")).unwrap();
            ip(&format!("addr add {address}/24 dev {end}")).unwrap();
        };
        if end == NEAR { cable.near(set) } else { cable.far(set) }
    }
    Some((cable, has_multi_buffer()))
}

fn has_multi_buffer() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(6))
}

fn frame(number: u32, len_bytes: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    frame.extend(ETHER_TYPE.to_be_bytes());
    frame.extend(number.to_be_bytes());
    // No two places of buffers have the same bytes: 251 is prime.
    frame.extend((frame.len()..len_bytes).map(|at| ((at + number as usize) % 251) as u8));
    frame
}

fn pairs(cable: &Cable) -> Vec<(Candidate, Candidate)> {
    let near = cable.near(|| candidates(&InterfaceFacts::read(NEAR).unwrap(), Side::Near, STEER));
    let far = cable.far(|| candidates(&InterfaceFacts::read(FAR).unwrap(), Side::Far, STEER));
    near.into_iter().zip(far).collect()
}

fn open_pair(cable: &Cable, mode: XdpMode, frame_size_bytes: u32) -> (XdpPort, XdpPort) {
    let config = |interface| XdpConfig { frame_size_bytes, ..XdpConfig::new(interface, mode, STEER) };
    let near = cable.near(|| XdpPort::open(&config(NEAR))).unwrap();
    (near, cable.far(|| XdpPort::open(&config(FAR))).unwrap())
}

/// A port that takes UDP datagrams to [`PORT`].
fn open_steered(cable: &Cable, mode: XdpMode, overflow: Overflow) -> XdpPort {
    let config = XdpConfig { frame_size_bytes: 4096, overflow, ..XdpConfig::new(NEAR, mode, Steer::Filters) };
    let mut port = cable.near(|| XdpPort::open(&config)).unwrap();
    port.add_filter(flow(PORT)).unwrap();
    port
}

fn flow(port: u16) -> Filter {
    Filter::Flow(FlowFilter { transport: Transport::Udp, address: ADDRESS.into(), port })
}

fn kernel_sender(cable: &Cable) -> UdpSocket {
    let sender = cable.far(|| UdpSocket::bind((FAR_ADDRESS, 0))).unwrap();
    sender.connect((ADDRESS, PORT)).unwrap();
    sender
}

fn kernel_receiver(cable: &Cable) -> UdpSocket {
    let receiver = cable.near(|| UdpSocket::bind((ADDRESS, PORT))).unwrap();
    receiver.set_nonblocking(true).unwrap();
    // The kernel charges 12 KiB and more for each.
    rustix::net::sockopt::set_socket_recv_buffer_size_force(&receiver, 4 << 20).unwrap();
    receiver
}

/// What `look` finds, waited for.
#[track_caller]
fn waited<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "{what}: nothing within {PATIENCE:?}");
    }
}

#[track_caller]
fn next(port: &mut XdpPort) -> Vec<u8> {
    let what = port.describe();
    waited(&what, || port.receive(<[u8]>::to_vec).unwrap())
}

#[test]
fn frames_of_every_length_pass_whole_in_every_mode() {
    let Some((cable, true)) = jumbo_cable_or_skip() else { return };
    for (near, far) in pairs(&cable) {
        let label = near.label;
        let mut near = cable.near(|| XdpPort::open(&near.config)).unwrap();
        let mut far = cable.far(|| XdpPort::open(&far.config)).unwrap();
        assert!(near.facts().multi_buffer && !near.describe().contains("the kernel's"), "{label}");
        for (number, len_bytes) in LENGTHS.into_iter().enumerate() {
            let frame = frame(number as u32, len_bytes);
            assert!(near.send(&frame).unwrap());
            assert!(next(&mut far) == frame, "{len_bytes} bytes, {label}");
            assert!(far.send(&frame).unwrap());
            assert!(next(&mut near) == frame, "{len_bytes} bytes back, {label}");
        }
        let too_long = vec![0; MTU_BYTES + 15];
        assert!(matches!(near.queue(&too_long), Err(PortError::FrameLength { most_bytes: 9014, .. })), "{label}");
    }
}

#[test]
fn frames_of_the_largest_mtu_pass_whole() {
    let Some((cable, true)) = cable_of_mtu_or_skip(65_535, 1) else { return };
    for mode in MODES {
        let (mut near, mut far) = open_pair(&cable, mode, 4096);
        for round in 0..20 {
            for len_bytes in [60, 9014, 61_440, 65_536, 65_549] {
                let frame = frame(round, len_bytes);
                assert!(near.send(&frame).unwrap());
                assert!(next(&mut far) == frame, "{len_bytes} bytes in {mode}");
            }
        }
    }
}

#[test]
fn bursts_pass_without_loss_and_all_buffers_come_back() {
    let Some((cable, true)) = jumbo_cable_or_skip() else { return };
    for (mode, frame_size_bytes) in MODES.into_iter().flat_map(|mode| [(mode, 4096), (mode, 2048)]) {
        let (mut near, mut far) = open_pair(&cable, mode, frame_size_bytes);
        // 128 buffers: 42 frames of three, 21 of six.
        let burst = if frame_size_bytes == 4096 { 40 } else { 20 };
        for round in 0..100 {
            let lengths = |number: u32| LENGTHS[(number as usize * 7 + round) % LENGTHS.len()];
            let frames: Vec<_> = (0..burst).map(|number| frame(number, lengths(number))).collect();
            for frame in &frames {
                assert!(near.queue(frame).unwrap(), "{mode}, {frame_size_bytes}, round {round}");
            }
            near.flush().unwrap();
            for frame in &frames {
                assert!(next(&mut far) == *frame, "{mode}, {frame_size_bytes}, round {round}");
            }
        }
        assert_eq!(far.statistics().receive_dropped_frames, 0);
        assert_eq!(near.statistics().send_refused_frames, 0);
        assert_eq!(far.statistics().received_frames, 100 * u64::from(burst));
    }
}

#[test]
fn more_frames_than_buffers_are_sent_once_the_first_are_gone() {
    let Some((cable, true)) = jumbo_cable_or_skip() else { return };
    for mode in MODES {
        let (mut near, mut far) = open_pair(&cable, mode, 4096);
        let (mut sent, mut received) = (0, 0);
        while received < 500 {
            if sent < 500 && sent - received < 30 && near.send(&frame(sent, 9014)).unwrap() {
                sent += 1;
            }
            if let Some(frame_received) = far.receive(<[u8]>::to_vec).unwrap() {
                assert!(frame_received == frame(received, 9014), "{mode}, frame {received}");
                received += 1;
            }
        }
        assert_eq!(near.statistics().sent_frames, 500);
    }
}

#[test]
fn resident_frames_and_frames_made_in_place_are_sent_whole() {
    let Some((cable, true)) = jumbo_cable_or_skip() else { return };
    for mode in MODES {
        let (mut near, mut far) = open_pair(&cable, mode, 4096);
        let residents = [4000, 5000, 9014].map(|len_bytes| near.prepare(&frame(0, len_bytes)).unwrap());
        for number in 1..100_u32 {
            for resident in residents {
                let mut wanted = frame(0, resident.len_bytes());
                wanted[14..18].copy_from_slice(&number.to_be_bytes());
                let patch = |bytes: &mut [u8]| bytes[14..18].copy_from_slice(&number.to_be_bytes());
                assert!(near.send_prepared(resident, patch).unwrap());
                assert!(next(&mut far) == wanted, "{mode}, {number}");
            }
            let made = frame(number, 8193);
            near.begin_send(9014).unwrap().unwrap()[..8193].copy_from_slice(&made);
            assert!(near.end_send(8193).unwrap());
            assert!(next(&mut far) == made, "{mode}, {number}");
            near.warm_send(&made).unwrap();
        }
        assert_eq!(far.receive(<[u8]>::len).unwrap(), None, "nothing is sent to warm");
    }
}

#[test]
fn frame_that_is_lent_stays_as_it_is_while_others_come() {
    let Some((cable, true)) = jumbo_cable_or_skip() else { return };
    for mode in MODES {
        let (mut near, mut far) = open_pair(&cable, mode, 4096);
        assert!(near.send(&frame(0, 9014)).unwrap());
        let what = far.describe();
        waited(&what, || far.lend().unwrap().map(|_| ()));
        for number in 1..20 {
            assert!(near.send(&frame(number, 9014)).unwrap());
            assert!(next(&mut far) == frame(number, 9014));
            assert!(far.lent().unwrap().bytes == frame(0, 9014), "{mode}, after {number}");
        }
        far.give_back().unwrap();
        assert!(near.send(&frame(20, 5000)).unwrap());
        assert!(next(&mut far) == frame(20, 5000));
    }
}

#[test]
fn datagrams_of_the_kernel_are_taken_whole_by_filters_with_times() {
    let Some((cable, true)) = jumbo_cable_of_one_queue_or_skip() else { return };
    for mode in MODES {
        let mut port = open_steered(&cable, mode, Overflow::Drop);
        let sender = kernel_sender(&cable);
        for times in [None, Some(TimesWanted::Kernel), Some(TimesWanted::Device)] {
            let _ = times.map(|wanted| cable.near(|| port.want_times(wanted)));
            for len_bytes in LENGTHS {
                let payload = &frame(7, len_bytes)[..len_bytes.min(9014) - HEADERS_BYTES];
                assert_eq!(sender.send(payload).unwrap(), payload.len());
                let what = port.describe();
                let (received, stamp) =
                    waited(&what, || port.receive_timed(|frame, times| (frame.to_vec(), times.kernel_ns)).unwrap());
                assert!(received[HEADERS_BYTES..] == *payload, "{} bytes, {what}", payload.len());
                assert_eq!(stamp.is_some(), times.is_some(), "{} bytes, {what}", payload.len());
            }
        }
    }
}

#[test]
fn tagged_datagrams_are_taken_whole_by_filters() {
    let Some((cable, true)) = jumbo_cable_or_skip() else { return };
    for mode in MODES {
        let mut port = open_steered(&cable, mode, Overflow::Drop);
        let config = XdpConfig { frame_size_bytes: 4096, ..XdpConfig::new(FAR, mode, STEER) };
        let mut far = cable.far(|| XdpPort::open(&config)).unwrap();
        for payload_bytes in [100_u16, 3788, 3800, 8000, 8968] {
            for (packet_says, is_taken) in [(payload_bytes, true), (payload_bytes + 1, false)] {
                let mut tagged = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x81, 0, 0, 5, 8, 0, 0x45, 0];
                tagged.extend((packet_says + 28).to_be_bytes());
                tagged.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 9, 0, 2, 10, 9, 0, 1]);
                tagged.extend([9, 9, 0x1b, 0x58]);
                tagged.extend((packet_says + 8).to_be_bytes());
                tagged.extend([0, 0]);
                tagged.resize(tagged.len() + usize::from(payload_bytes), 0x5a);
                assert!(far.send(&tagged).unwrap());
                if is_taken {
                    assert!(next(&mut port) == tagged, "{payload_bytes} bytes in {mode}");
                } else {
                    assert!(!port.wait(Some(Duration::from_millis(5))).unwrap(), "the packet is not whole, {mode}");
                }
            }
        }
    }
}

/// The number in a datagram, which must be whole.
fn number_of(payload: &[u8]) -> u32 {
    let number = u32::from_be_bytes(*payload.first_chunk().unwrap());
    assert!(*payload == datagram(number), "datagram {number} of {} bytes", payload.len());
    number
}

fn datagram(number: u32) -> Vec<u8> {
    let len_bytes = [8000, 100, 3798, 3799, 8972, 5000][number as usize % 6];
    let mut datagram = frame(number, len_bytes + 14)[14..].to_vec();
    datagram[..4].copy_from_slice(&number.to_be_bytes());
    datagram
}

fn from_port(port: &mut XdpPort) -> Vec<u32> {
    std::iter::from_fn(|| port.receive(|frame| number_of(&frame[HEADERS_BYTES..])).unwrap()).collect()
}

fn from_kernel(socket: &UdpSocket) -> Vec<u32> {
    let mut bytes = [0; 10_000];
    std::iter::from_fn(|| socket.recv(&mut bytes).ok().map(|len_bytes| number_of(&bytes[..len_bytes]))).collect()
}

#[test]
fn burst_beyond_the_buffers_is_the_kernels_in_order_and_what_comes_after_settling_the_ports() {
    let Some((cable, true)) = jumbo_cable_of_one_queue_or_skip() else { return };
    for mode in MODES {
        let mut port = open_steered(&cable, mode, Overflow::Kernel);
        let (sender, shadow) = (kernel_sender(&cable), kernel_receiver(&cable));
        for round in 0..20 {
            (0..80).for_each(|number| assert!(sender.send(&datagram(number)).is_ok()));
            let mut by_port = Vec::new();
            waited("the first", || {
                by_port.extend(from_port(&mut port));
                (!by_port.is_empty()).then_some(())
            });
            let mut by_kernel = Vec::new();
            let left = 80 - by_port.len();
            waited("the rest", || {
                by_kernel.extend(from_kernel(&shadow));
                (by_kernel.len() == left).then_some(())
            });
            assert!((25..=60).contains(&by_port.len()), "{mode} {round}: {} of 80", by_port.len());
            assert_eq!([by_port, by_kernel].concat(), (0..80).collect::<Vec<_>>(), "{mode} {round}");
            assert!(port.is_overflowing());
            assert_eq!(port.begin_settling(), left as u64);
            port.settle_overflow();
            // Over and over through all buffers, a few at a time: each frame's buffers are given back.
            for number in 0..100 {
                assert!(sender.send(&datagram(number)).is_ok());
                waited("one more", || Some(from_port(&mut port)).filter(|numbers| *numbers == [number]));
            }
            assert!(!port.is_overflowing(), "{mode} {round}");
        }
        assert_eq!(port.statistics().receive_dropped_frames, 0);
    }
}

#[test]
fn share_of_a_port_receives_and_sends_whole_frames() {
    let Some((cable, true)) = jumbo_cable_or_skip() else { return };
    for mode in MODES {
        let config = |interface| XdpConfig {
            frame_size_bytes: 4096,
            rx_queues: vec![0, 1],
            tx_queues: true,
            shares: 2,
            ..XdpConfig::new(interface, mode, Steer::Filters)
        };
        let mut near = cable.near(|| XdpPort::open(&config(NEAR))).unwrap();
        let mut share = cable.near(|| near.share()).unwrap();
        share.add_filter(flow(PORT)).unwrap();
        let (sender, shadow) = (kernel_sender(&cable), cable.far(|| UdpSocket::bind((FAR_ADDRESS, PORT))).unwrap());
        shadow.set_read_timeout(Some(PATIENCE)).unwrap();
        for number in 0..200 {
            sender.send(&datagram(number)).unwrap();
            waited("a datagram", || Some(from_port(&mut share)).filter(|numbers| *numbers == [number]));
        }
        cable.near(|| near.unshare(share)).unwrap();
        near.add_filter(flow(PORT)).unwrap();
        for number in 0..200 {
            sender.send(&datagram(number)).unwrap();
            waited("a datagram", || Some(from_port(&mut near)).filter(|numbers| *numbers == [number]));
        }
        assert_eq!(near.statistics().receive_dropped_frames, 0);
    }
}

#[test]
fn kernel_without_frames_of_several_buffers_keeps_what_is_longer_than_one_and_says_so() {
    let Some((cable, false)) = jumbo_cable_of_one_queue_or_skip() else { return };
    let mut port = open_steered(&cable, XdpMode::Generic, Overflow::Kernel);
    assert!(!port.facts().multi_buffer);
    let said = port.describe();
    assert!(said.contains("up to 3840 bytes") && said.contains("Linux 6.6"), "{said}");
    assert!(matches!(port.queue(&frame(0, 3841)), Err(PortError::FrameLength { most_bytes: 3840, .. })));
    let (sender, shadow) = (kernel_sender(&cable), kernel_receiver(&cable));
    for (number, by_port) in [(1, true), (2, true), (3, false), (4, false)] {
        sender.send(&datagram(number)).unwrap();
        let numbers = if by_port {
            waited("a short one", || Some(from_port(&mut port)).filter(|n| !n.is_empty()))
        } else {
            waited("a long one", || Some(from_kernel(&shadow)).filter(|n| !n.is_empty()))
        };
        assert_eq!(numbers, [number]);
    }
    let native = XdpConfig { frame_size_bytes: 4096, ..XdpConfig::new(FAR, XdpMode::NativeCopy, STEER) };
    let refused = cable.far(|| XdpPort::open(&native)).unwrap_err();
    assert!(matches!(refused, PortError::AttachRefused { mtu_bytes: 9000, .. }), "{refused}");
}

#[test]
fn frames_of_the_usual_mtu_lie_in_one_buffer() {
    let Some(cable) = cable_or_skip() else { return };
    for mode in MODES {
        let port = cable.near(|| XdpPort::open(&XdpConfig::new(NEAR, mode, STEER))).unwrap();
        assert!(!port.facts().multi_buffer);
    }
}
