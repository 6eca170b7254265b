//! Raw-frame calls and steering by filters on a real kernel, over a veth pair between two namespaces of their own. Needs
//! root (or says SKIP).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::common::{Cable, FAR, NEAR, cable_or_skip, ip, ip_output};
use nearwire_frames::ports::packet::{PacketConfig, PacketPort};
use nearwire_frames::ports::xdp::{NoDeviceTimes, Steer, TimesWanted, XdpConfig, XdpMode, XdpPort};
use nearwire_frames::steering::{Filter, FlowFilter, FrameFilter, Transport};
use nearwire_frames::{Port, PortError, RawPort, TimeSource};

const ETHER_TYPE: u16 = 0x88b5;
const PATIENCE: Duration = Duration::from_secs(5);
const NEAR_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const FAR_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);
const V4: [IpAddr; 2] = [IpAddr::V4(NEAR_ADDRESS), IpAddr::V4(FAR_ADDRESS)];

fn frame(number: u32, len_bytes: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    frame.extend(ETHER_TYPE.to_be_bytes());
    frame.extend(number.to_be_bytes());
    frame.resize(len_bytes, 0x5a);
    frame
}

fn of_type() -> Filter {
    Filter::Frame(FrameFilter { ether_type: Some(ETHER_TYPE), ..FrameFilter::default() })
}

fn flow6(port: u16) -> Filter {
    Filter::Flow(FlowFilter { transport: Transport::Udp, address: v6(FAR_ADDRESS).into(), port })
}

fn flow(transport: Transport, address: Ipv4Addr, port: u16) -> Filter {
    Filter::Flow(FlowFilter { transport, address: address.into(), port })
}

/// The next frame, waited for, and whether it stays as it is while lent.
fn next(port: &mut impl RawPort) -> Vec<u8> {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        if let Some(lent) = port.lend().unwrap() {
            let copy = lent.bytes.to_vec();
            assert!(matches!(port.lend(), Err(PortError::OutOfTurn { .. })), "one frame is lent at a time");
            port.give_back().unwrap();
            return copy;
        }
        port.wait(Some(Duration::from_millis(10))).unwrap();
    }
    panic!("no frame within {PATIENCE:?} on {}: {:?}", port.describe(), port.statistics());
}

fn nothing_comes(port: &mut impl RawPort) {
    assert!(!port.wait(Some(Duration::from_millis(50))).unwrap() || port.lend().unwrap().is_none());
}

fn xdp_pair(cable: &Cable, mode: XdpMode) -> (XdpPort, XdpPort) {
    let config = |interface| XdpConfig { prepared_frames: 2, ..XdpConfig::new(interface, mode, Steer::Filters) };
    let near = cable.near(|| XdpPort::open(&config(NEAR))).unwrap();
    (near, cable.far(|| XdpPort::open(&config(FAR))).unwrap())
}

fn packet_pair(cable: &Cable) -> (PacketPort, PacketPort) {
    let config = |interface| PacketConfig { prepared_frames: 2, ..PacketConfig::new(interface, Steer::Filters) };
    let near = cable.near(|| PacketPort::open(&config(NEAR))).unwrap();
    (near, cable.far(|| PacketPort::open(&config(FAR))).unwrap())
}

/// Everything a pair of raw ports must do, whatever their kind.
fn exercise(near: &mut impl RawPort, far: &mut impl RawPort) {
    filters(near, far);
    far.add_filter(of_type()).unwrap();
    in_place(near, far);
    resident(near, far);
    warm(near, far);
    lent_while_others_come(near, far);
}

fn filters(near: &mut impl RawPort, far: &mut impl RawPort) {
    assert!(near.send(&frame(1, 60)).unwrap());
    nothing_comes(far);
    far.add_filter(of_type()).unwrap();
    assert!(matches!(far.add_filter(of_type()), Err(PortError::Filter { .. })));
    assert!(near.send(&frame(2, 60)).unwrap());
    assert_eq!(next(far), frame(2, 60));
    far.remove_filter(of_type()).unwrap();
    assert!(matches!(far.remove_filter(of_type()), Err(PortError::Filter { .. })));
    assert!(near.send(&frame(3, 60)).unwrap());
    nothing_comes(far);
}

fn in_place(near: &mut impl RawPort, far: &mut impl RawPort) {
    for len_bytes in [18, 60, 1514] {
        let wanted = frame(7, len_bytes);
        let buffer = near.begin_send(1514).unwrap().unwrap();
        buffer[..len_bytes].copy_from_slice(&wanted);
        assert!(matches!(near.begin_send(60), Err(PortError::OutOfTurn { .. })));
        assert!(matches!(near.end_send(1515), Err(PortError::OutOfTurn { .. })), "longer than begun");
        assert!(matches!(near.end_send(13), Err(PortError::FrameLength { .. })), "the send stays begun");
        assert!(near.end_send(len_bytes).unwrap());
        assert_eq!(next(far), wanted);
    }
    near.begin_send(60).unwrap().unwrap().fill(0xff);
    near.abort_send().unwrap();
    assert!(matches!(near.abort_send(), Err(PortError::OutOfTurn { .. })));
    assert!(matches!(near.end_send(60), Err(PortError::OutOfTurn { .. })));
    assert!(matches!(near.begin_send(1 << 20), Err(PortError::FrameLength { .. })));
    assert!(matches!(far.give_back(), Err(PortError::OutOfTurn { .. })));
    nothing_comes(far);
    // No buffer was lost on the way.
    for _ in 0..1000 {
        assert!(near.begin_send(60).unwrap().is_some());
        near.abort_send().unwrap();
    }
}

fn resident(near: &mut impl RawPort, far: &mut impl RawPort) {
    let first = near.prepare(&frame(1, 60)).unwrap();
    let second = near.prepare(&frame(2, 60)).unwrap();
    assert_eq!(near.prepared_most(), 2);
    let first = near.replace_prepared(first, &frame(11, 200)).unwrap().unwrap();
    for (prepared, wanted) in [(first, frame(11, 200)), (second, frame(2, 60)), (first, frame(11, 200))] {
        assert!(near.send_prepared(prepared, |_| ()).unwrap());
        assert_eq!(next(far), wanted);
    }
    let first = near.replace_prepared(first, &frame(12, 18)).unwrap().unwrap();
    assert!(near.send_prepared(first, |_| ()).unwrap());
    assert_eq!(next(far), frame(12, 18));
}

fn warm(near: &mut impl RawPort, far: &mut impl RawPort) {
    let before = near.statistics().sent_frames;
    for _ in 0..1000 {
        near.warm_send(&frame(0xdead, 60)).unwrap();
    }
    assert_eq!(near.statistics().sent_frames, before);
    nothing_comes(far);
    assert!(near.send(&frame(9, 60)).unwrap());
    assert_eq!(next(far), frame(9, 60));
}

/// A lent frame stays as it is while a hundred others are received.
fn lent_while_others_come(near: &mut impl RawPort, far: &mut impl RawPort) {
    assert!(near.send(&frame(1000, 60)).unwrap());
    while far.lend().unwrap().is_none() {}
    let kept = far.receive(|_| ()).unwrap();
    assert!(kept.is_none());
    for number in 0..100 {
        assert!(near.send(&frame(number, 60)).unwrap());
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(copy) = far.receive(<[u8]>::to_vec).unwrap() {
                assert_eq!(copy, frame(number, 60));
                break;
            }
            assert!(Instant::now() < until, "frame {number} did not come");
        }
    }
    far.give_back().unwrap();
    assert!(near.send(&frame(1001, 60)).unwrap());
    assert_eq!(next(far), frame(1001, 60));
}

#[test]
fn generic_and_native_ports_do_all_raw_calls() {
    let Some(cable) = cable_or_skip() else { return };
    for mode in [XdpMode::Generic, XdpMode::NativeCopy] {
        let (mut near, mut far) = xdp_pair(&cable, mode);
        assert_eq!(far.time_source(), TimeSource::Program);
        exercise(&mut near, &mut far);
    }
}

#[test]
fn packet_ports_do_all_raw_calls() {
    let Some(cable) = cable_or_skip() else { return };
    let (mut near, mut far) = packet_pair(&cable);
    exercise(&mut near, &mut far);
}

/// More frames than the ring has slots come while one is lent: it stays, and the ring goes on when it is given back.
#[test]
fn packet_ring_come_round_to_the_lent_slot_stops_there() {
    let Some(cable) = cable_or_skip() else { return };
    let mut near = cable.near(|| PacketPort::open(&PacketConfig::new(NEAR, Steer::All))).unwrap();
    let config = PacketConfig { ring_slots: 4, ..PacketConfig::new(FAR, Steer::EtherType(ETHER_TYPE)) };
    let mut far = cable.far(|| PacketPort::open(&config)).unwrap();
    for number in 0..6 {
        assert!(near.send(&frame(number, 60)).unwrap());
    }
    assert_eq!(far.lend().unwrap().unwrap().bytes, frame(0, 60));
    let mut others = Vec::new();
    while let Some(copy) = far.receive(<[u8]>::to_vec).unwrap() {
        others.push(copy);
    }
    assert_eq!(others, [frame(1, 60), frame(2, 60), frame(3, 60)]);
    assert_eq!(far.statistics().receive_dropped_frames, 2);
    far.give_back().unwrap();
    assert!(near.send(&frame(7, 60)).unwrap());
    assert_eq!(next(&mut far), frame(7, 60));
}

#[test]
fn packet_frame_lent_has_the_kernels_time_and_direction() {
    let Some(cable) = hosts() else { return };
    let config = |interface| PacketConfig { outgoing: true, ..PacketConfig::new(interface, Steer::Filters) };
    let mut near = cable.near(|| PacketPort::open(&config(NEAR))).unwrap();
    let mut far = cable.far(|| PacketPort::open(&config(FAR))).unwrap();
    for port in [&mut near, &mut far] {
        port.add_filter(flow(Transport::Udp, FAR_ADDRESS, 7000)).unwrap();
    }
    let now_ns = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let before_ns = now_ns();
    kernel_exchange(&cable, V4, 7000);
    let after_ns = now_ns();
    for (port, outgoing) in [(&mut near, true), (&mut far, false)] {
        let lent = port.lend().unwrap().unwrap();
        let stamp = lent.stamp.unwrap();
        assert_eq!((lent.outgoing, stamp.source), (outgoing, TimeSource::Kernel));
        assert!((before_ns..=after_ns).contains(&stamp.time_ns), "{before_ns} {} {after_ns}", stamp.time_ns);
        port.give_back().unwrap();
    }
}

fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64
}

/// The times that frames come with are of the driver, not of reading.
fn frames_have_the_kernels_time(near: &mut XdpPort, far: &mut XdpPort) {
    for number in 0..300 {
        let before_ns = now_ns();
        assert!(near.send(&frame(number, 60)).unwrap());
        assert!(far.wait(Some(PATIENCE)).unwrap());
        let there_ns = now_ns();
        if number < 3 {
            std::thread::sleep(Duration::from_millis(5));
        }
        let lent = far.lend().unwrap().unwrap();
        let stamp = lent.stamp.unwrap();
        assert_eq!((lent.bytes, stamp.source), (&frame(number, 60)[..], TimeSource::Kernel));
        assert!((before_ns..=there_ns).contains(&stamp.time_ns), "{before_ns} {} {there_ns}", stamp.time_ns);
        far.give_back().unwrap();
    }
}

#[test]
fn times_wanted_frames_of_every_mode_and_rule_have_the_kernels() {
    let Some(cable) = cable_or_skip() else { return };
    for mode in [XdpMode::Generic, XdpMode::NativeCopy] {
        // Not `Steer::All`: the kernel's own frames come when they will.
        for steer in [Steer::EtherType(ETHER_TYPE), Steer::Filters] {
            let open = |name| XdpPort::open(&XdpConfig::new(name, mode, steer)).unwrap();
            let (mut near, mut far) = (cable.near(|| open(NEAR)), cable.far(|| open(FAR)));
            if steer == Steer::Filters {
                far.add_filter(of_type()).unwrap();
            }
            assert!(near.send(&frame(0, 60)).unwrap());
            assert!(far.wait(Some(PATIENCE)).unwrap());
            assert_eq!(far.lend().unwrap().unwrap().stamp, None, "nobody asked");
            far.give_back().unwrap();
            assert_eq!(cable.far(|| far.want_times(TimesWanted::Kernel)), TimeSource::Kernel);
            assert!(far.is_attached());
            assert!(far.describe().ends_with(", times by the kernel"), "{}", far.describe());
            frames_have_the_kernels_time(&mut near, &mut far);
        }
    }
}

/// veth tells the times of frames that have one, which no frame has whose sender is a program of this machine.
#[test]
fn times_of_the_device_wanted_native_veth_is_asked_and_has_none_of_a_frame() {
    let Some(cable) = cable_or_skip() else { return };
    let (mut near, mut far) = xdp_pair(&cable, XdpMode::NativeCopy);
    far.add_filter(of_type()).unwrap();
    match cable.far(|| far.want_times(TimesWanted::Device)) {
        TimeSource::Hardware => assert!(far.no_device_times().is_none()),
        // A kernel before 6.6, or without type information.
        other => println!("SKIP {other:?}: {}", far.no_device_times().unwrap()),
    }
    assert!(far.is_attached());
    frames_have_the_kernels_time(&mut near, &mut far);
    far.remove_filter(of_type()).unwrap();
    assert!(near.send(&frame(1, 60)).unwrap());
    nothing_comes(&mut far);
}

#[test]
fn times_of_the_device_wanted_where_there_are_none_the_kernels_are_had_and_the_reason_said() {
    let Some(cable) = cable_or_skip() else { return };
    let (mut near, mut far) = xdp_pair(&cable, XdpMode::Generic);
    far.add_filter(of_type()).unwrap();
    assert_eq!(cable.far(|| far.want_times(TimesWanted::Device)), TimeSource::Kernel);
    assert!(matches!(far.no_device_times(), Some(NoDeviceTimes::Generic)));
    assert!(far.describe().contains("generic mode has none"), "{}", far.describe());
    frames_have_the_kernels_time(&mut near, &mut far);
}

/// A program is bound to an interface of the thread's network namespace: another one by the same name is not taken for it.
#[test]
fn times_of_the_device_wanted_from_another_namespace_its_interface_is_not_taken() {
    let Some(cable) = cable_or_skip() else { return };
    let (_near, mut far) = xdp_pair(&cable, XdpMode::NativeCopy);
    let found = cable.near(|| {
        ip(&format!("link add {FAR} index 11 type veth peer name other")).unwrap();
        far.want_times(TimesWanted::Device)
    });
    assert_eq!(found, TimeSource::Kernel);
    let why = far.no_device_times();
    assert!(matches!(why, Some(NoDeviceTimes::Elsewhere { .. })), "{why:?}");
}

#[test]
fn port_detached_asked_for_times_has_none_and_says_why() {
    let Some(cable) = cable_or_skip() else { return };
    let (_near, mut far) = xdp_pair(&cable, XdpMode::Generic);
    far.detach();
    assert_eq!(cable.far(|| far.want_times(TimesWanted::Kernel)), TimeSource::Program);
    assert!(far.no_kernel_times().is_some());
    assert!(far.describe().contains("without times: "), "{}", far.describe());
}

#[test]
fn port_of_a_fixed_rule_given_a_filter_refuses() {
    let Some(cable) = cable_or_skip() else { return };
    let mut port = cable.near(|| XdpPort::open(&XdpConfig::new(NEAR, XdpMode::Generic, Steer::All))).unwrap();
    let refused = port.add_filter(of_type()).unwrap_err().to_string();
    assert!(refused.contains("Steer::Filters"), "{refused}");
}

/// The IPv6 address beside an IPv4 address.
fn v6(address: Ipv4Addr) -> Ipv6Addr {
    Ipv6Addr::new(0xfd09, 0, 0, 0, 0, 0, 0, u16::from(address.octets()[3]))
}

/// Two hosts with addresses, IPv4 and IPv6.
fn hosts() -> Option<Cable> {
    let cable = cable_or_skip()?;
    for (side, interface, address) in [(true, NEAR, NEAR_ADDRESS), (false, FAR, FAR_ADDRESS)] {
        let dress = || {
            ip(&format!("addr add {address}/24 dev {interface}"))?;
            ip(&format!("addr add {}/64 dev {interface} nodad", v6(address)))?;
            ip("link set lo up")
        };
        if side { cable.near(dress) } else { cable.far(dress) }.unwrap();
    }
    Some(cable)
}

fn udp(address: IpAddr, port: u16) -> UdpSocket {
    let socket = UdpSocket::bind((address, port)).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// One datagram through the kernels of both sides, back and forth: they have to find each other's MAC address for it.
fn kernel_exchange(cable: &Cable, [near_address, far_address]: [IpAddr; 2], port: u16) {
    let near = cable.near(|| udp(near_address, 0));
    let far = cable.far(|| udp(far_address, port));
    let mut buffer = [0; 64];
    near.send_to(b"there", (far_address, port)).unwrap();
    let (length, from) = far.recv_from(&mut buffer).unwrap();
    assert_eq!(&buffer[..length], b"there");
    far.send_to(b"back", from).unwrap();
    assert_eq!(near.recv(&mut buffer).unwrap(), 4);
}

/// ICMP echo (RFC 792), asked of the far kernel through a raw socket.
fn ping(cable: &Cable) {
    use rustix::net::{
        AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, ipproto, recv, sendto, socket_with,
    };
    // Type 8, code 0, checksum of the whole, identifier and number 0, no data.
    const ECHO: [u8; 8] = [8, 0, 0xf7, 0xff, 0, 0, 0, 0];
    let flags = SocketFlags::CLOEXEC;
    let socket = cable.near(|| socket_with(AddressFamily::INET, SocketType::RAW, flags, Some(ipproto::ICMP))).unwrap();
    rustix::net::sockopt::set_socket_timeout(&socket, rustix::net::sockopt::Timeout::Recv, Some(PATIENCE)).unwrap();
    sendto(&socket, &ECHO, SendFlags::empty(), &SocketAddr::from((FAR_ADDRESS, 0))).unwrap();
    let mut packet = [0; 64];
    let (length, _) = recv(&socket, &mut packet, RecvFlags::empty()).unwrap();
    assert_eq!((packet[20], &packet[24..length]), (0, &ECHO[4..]), "an echo reply behind an IPv4 header");
}

#[test]
fn port_taken_by_filter_kernel_keeps_arp_ping_and_other_ports() {
    let Some(cable) = hosts() else { return };
    for mode in [XdpMode::Generic, XdpMode::NativeCopy] {
        let both = XdpConfig { rx_queues: vec![0, 1], ..XdpConfig::new(FAR, mode, Steer::Filters) };
        let mut far = cable.far(|| XdpPort::open(&both)).unwrap();
        far.add_filter(flow(Transport::Udp, FAR_ADDRESS, 7000)).unwrap();
        far.add_filter(flow6(7000)).unwrap();
        cable.near(|| ip("neigh flush all")).unwrap();
        cable.far(|| ip("neigh flush all")).unwrap();
        let listening = cable.far(|| udp(FAR_ADDRESS.into(), 7000));
        listening.set_nonblocking(true).unwrap();
        let near = cable.near(|| udp(NEAR_ADDRESS.into(), 0));
        for number in 0..20_u8 {
            near.send_to(&[number; 5], (FAR_ADDRESS, 7000)).unwrap();
            let taken = next(&mut far);
            assert_eq!(
                (taken.len(), &taken[36..38], &taken[42..]),
                (47, &7000_u16.to_be_bytes()[..], &[number; 5][..])
            );
        }
        assert!(listening.recv(&mut [0; 8]).is_err(), "the kernel's socket gets nothing of what the port takes");
        let near6 = cable.near(|| udp(v6(NEAR_ADDRESS).into(), 0));
        near6.send_to(b"six", (v6(FAR_ADDRESS), 7000)).unwrap();
        assert_eq!(&next(&mut far)[62..], b"six");
        kernel_exchange(&cable, V4, 7001);
        kernel_exchange(&cable, [v6(NEAR_ADDRESS).into(), v6(FAR_ADDRESS).into()], 7001);
        ping(&cable);
        assert_eq!(far.statistics().received_frames, 21, "nothing but the flow came to the port");

        far.remove_filter(flow(Transport::Udp, FAR_ADDRESS, 7000)).unwrap();
        near.send_to(b"kernel", SocketAddr::new(IpAddr::V4(FAR_ADDRESS), 7000)).unwrap();
        listening.set_nonblocking(false).unwrap();
        assert_eq!(listening.recv(&mut [0; 8]).unwrap(), 6, "with the filter gone it is the kernel's again");
    }
    assert!(!cable.far(|| ip_output(&format!("link show {FAR}"))).contains("xdp"), "closed ports leave no program");
}
