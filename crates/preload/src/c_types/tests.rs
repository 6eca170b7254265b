use std::mem::{MaybeUninit, zeroed};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::os::fd::AsRawFd;
use std::ptr;

use libc::{c_int, c_void, iovec, msghdr, sockaddr, socklen_t};
use proptest::collection::vec;
use proptest::prelude::*;
use rustix::io::Errno;

use super::address::{Encoded, Name, mapped, read, unmapped, write};
use super::control::{ControlWriter, ReceiveControl, SendControl, TimeForm, parse};
use super::message::{read_incoming, read_outgoing};
use super::segments::{BYTES_MAX, Of, SEGMENTS_MAX, Segments, single};
use super::*;

fn name(bytes: &[u8]) -> Name {
    // SAFETY: the slice's own length.
    unsafe { read(bytes.as_ptr().cast(), bytes.len() as socklen_t) }
}

fn addresses() -> impl Strategy<Value = SocketAddr> {
    let v6 = any::<([u8; 16], u16, u32, u32)>()
        .prop_map(|(ip, port, flow, scope)| SocketAddrV6::new(ip.into(), port, flow, scope).into());
    prop_oneof![any::<([u8; 4], u16)>().prop_map(SocketAddr::from), v6]
}

proptest! {
    #[test]
    fn address_written_and_read_is_the_same(address in addresses(), room in 0_usize..40) {
        let mut bytes = [0xee_u8; 41];
        let mut length = room as socklen_t;
        // SAFETY: there are `room` bytes, from an odd address.
        unsafe { write(&address, bytes[1..].as_mut_ptr().cast(), &raw mut length) }.unwrap();
        let full = if address.is_ipv4() { 16 } else { 28 };
        prop_assert_eq!(length, full);
        prop_assert_eq!(&bytes[1 + room.min(full as usize)..], &[0xee; 41][1 + room.min(full as usize)..]);
        if room >= full as usize {
            prop_assert_eq!(name(&bytes[1..][..full as usize]), Name::Ip(address));
        }
    }

    #[test]
    fn any_bytes_as_control_messages_are_parsed_or_left_to_the_kernel(bytes in vec(any::<u8>(), 0..200)) {
        let _ = parse(&bytes);
    }

    #[test]
    fn segments_gather_and_scatter_are_inverse(lengths in vec(0_usize..50, 0..12), skip in 0_usize..80, room in 0_usize..700) {
        let total: usize = lengths.iter().sum();
        let source: Vec<u8> = (0..total).map(|at| at as u8).collect();
        let mut target = vec![0xee_u8; total];
        let (mut at, mut reads, mut writes) = (0, Vec::new(), Vec::new());
        let start = target.as_mut_ptr();
        for length in &lengths {
            reads.push(iovec { iov_base: source[at..].as_ptr().cast_mut().cast(), iov_len: *length });
            writes.push(iovec { iov_base: start.wrapping_add(at).cast(), iov_len: *length });
            at += length;
        }
        let mut gathered = vec![MaybeUninit::new(0); room];
        // SAFETY: arrays and what they point to live until the end; `target` is not used in between.
        let (copied, scattered) = unsafe {
            let from = Segments::new(reads.as_ptr(), reads.len(), Of::Message).unwrap();
            prop_assert_eq!(from.slices().flatten().copied().collect::<Vec<_>>(), source.clone());
            prop_assert_eq!(from.total_bytes(), total);
            let into = Segments::new(writes.as_ptr(), writes.len(), Of::Vector).unwrap();
            (from.gather(&mut gathered), into.scatter(&source, skip).unwrap())
        };
        prop_assert_eq!((copied, scattered), (total.min(room), total.saturating_sub(skip)));
        // SAFETY: all were set at the start.
        let gathered: Vec<u8> = gathered.iter().map(|byte| unsafe { byte.assume_init() }).collect();
        prop_assert_eq!(&gathered[..copied], &source[..copied]);
        prop_assert_eq!(&target[total - scattered..], &source[..scattered]);
        prop_assert!(target[..total - scattered].iter().all(|byte| *byte == 0xee));
    }
}

#[test]
fn odd_addresses_are_left_to_the_kernel() {
    let v6: SocketAddr = SocketAddrV6::new(Ipv6Addr::LOCALHOST, 7, 5, 9).into();
    let encoded = Encoded::new(&v6);
    let without_scope = SocketAddrV6::new(Ipv6Addr::LOCALHOST, 7, 5, 0).into();
    assert_eq!(name(&encoded.bytes()[..24]), Name::Ip(without_scope));
    assert_eq!(name(&encoded.bytes()[..23]), Name::Kernel);
    assert_eq!(name(&Encoded::new(&"1.2.3.4:5".parse().unwrap()).bytes()[..15]), Name::Kernel);
    assert_eq!((name(&[0; 129]), name(&[0; 16]), name(&[])), (Name::Kernel, Name::Kernel, Name::None));
    // SAFETY: nothing is read through such pointers.
    unsafe {
        assert_eq!(read(ptr::null(), 16), Name::None);
        assert_eq!(read(ptr::without_provenance(8), 16), Name::Kernel);
        let mut negative = socklen_t::MAX;
        let mut room = zeroed::<sockaddr>();
        assert_eq!(write(&v6, &raw mut room, &raw mut negative), Err(Errno::INVAL));
        assert_eq!(write(&v6, &raw mut room, ptr::null_mut()), Err(Errno::FAULT));
        assert_eq!(write(&v6, ptr::null_mut(), ptr::null_mut()), Ok(()));
    }
}

#[test]
fn mapped_addresses_turn_both_ways_and_scopes_stay() {
    let four: SocketAddr = "10.0.0.1:80".parse().unwrap();
    let six: SocketAddr = "[::ffff:10.0.0.1]:80".parse().unwrap();
    let local: SocketAddr = SocketAddrV6::new("fe80::1".parse().unwrap(), 1, 2, 3).into();
    assert_eq!((mapped(four), unmapped(six), unmapped(four)), (six, four, four));
    assert_eq!((mapped(local), unmapped(local)), (local, local));
}

#[test]
fn pointers_that_fault_for_certain_are_found() {
    let byte = 1_u8;
    assert!(is_plausible(&raw const byte, 1) && is_plausible::<u8>(ptr::null(), 0));
    for bad in [0, 4095, 65535, END, 1 << 63, usize::MAX] {
        assert!(!is_plausible::<u8>(ptr::without_provenance(bad), 1), "{bad:x}");
    }
    assert!(!is_plausible(&raw const byte, usize::MAX) && !is_plausible(&raw const byte, END));
}

#[test]
fn arrays_the_kernel_refuses_are_refused_with_its_error() {
    let byte = [1_u8; 4];
    let good = single(byte.as_ptr().cast(), 4);
    let check = |array: &[iovec], of| {
        // SAFETY: nothing is read through the segments.
        unsafe { Segments::new(array.as_ptr(), array.len(), of) }.map(|segments| segments.total_bytes())
    };
    assert_eq!(check(&good, Of::Message), Ok(4));
    let many = vec![good[0]; SEGMENTS_MAX + 1];
    assert_eq!((check(&many, Of::Message), check(&many, Of::Vector)), (Err(Errno::MSGSIZE), Err(Errno::INVAL)));
    assert_eq!(check(&many[1..], Of::Message), Ok(4 * SEGMENTS_MAX));
    let negative = [iovec { iov_base: good[0].iov_base, iov_len: usize::MAX }];
    assert_eq!(check(&negative, Of::Message), Err(Errno::INVAL));
    assert_eq!(check(&single(ptr::null(), 1), Of::Message), Err(Errno::FAULT));
    assert_eq!(check(&single(ptr::null(), 0), Of::Message), Ok(0));
    let long = iovec { iov_base: good[0].iov_base, iov_len: BYTES_MAX };
    assert_eq!(check(&[long, long], Of::Message), Ok(BYTES_MAX));
    // SAFETY: nothing is read through such a pointer.
    let nowhere = unsafe { Segments::new(ptr::null(), 1, Of::Vector) };
    assert_eq!(nowhere.map(|_| ()), Err(Errno::FAULT));
}

/// What a writer makes of this with so much room.
fn written(control: &ReceiveControl, room: usize) -> (Vec<u8>, bool) {
    let mut bytes = vec![0xee; room];
    // SAFETY: the vector's own length.
    let mut writer = unsafe { ControlWriter::new(bytes.as_mut_ptr().cast(), room) };
    control.write(&mut writer);
    let (used, truncated) = (writer.used_bytes(), writer.is_truncated());
    bytes.truncate(used);
    (bytes, truncated)
}

/// The kernel's answer for the datagram that waits.
fn received(socket: &UdpSocket, room: usize) -> (Vec<u8>, bool) {
    let (mut bytes, mut data) = (vec![0xee_u8; room], [0_u8; 64]);
    let mut segment = single(data.as_mut_ptr().cast(), data.len());
    // SAFETY: all pointers are to variables with their lengths.
    let (used, flags) = unsafe {
        let mut message = zeroed::<msghdr>();
        (message.msg_iov, message.msg_iovlen) = (segment.as_mut_ptr(), 1);
        (message.msg_control, message.msg_controllen) = (bytes.as_mut_ptr().cast(), room);
        assert!(libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_PEEK) >= 0);
        (message.msg_controllen, message.msg_flags)
    };
    bytes.truncate(used);
    (bytes, flags & libc::MSG_CTRUNC != 0)
}

fn option(socket: &UdpSocket, level: c_int, name: c_int, value: c_int) {
    let address = (&raw const value).cast::<c_void>();
    // SAFETY: an int.
    assert_eq!(unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, address, 4) }, 0, "{level} {name}");
}

/// Data of the message of this kind, in what the kernel wrote.
fn data_of(control: &[u8], level: c_int, kind: c_int) -> Option<&[u8]> {
    let mut rest = control;
    while rest.len() >= 16 {
        let length = usize::from_ne_bytes(rest[..8].try_into().unwrap());
        let this = [8, 12].map(|at| c_int::from_ne_bytes(rest[at..at + 4].try_into().unwrap()));
        if this == [level, kind] {
            return Some(&rest[16..length]);
        }
        rest = rest.get(length.next_multiple_of(8)..).unwrap_or_default();
    }
    None
}

fn time_ns(bytes: &[u8], tick_ns: u64) -> u64 {
    let [seconds, ticks] = [0, 8].map(|at| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap()));
    seconds * 1_000_000_000 + ticks * tick_ns
}

#[track_caller]
fn same_as_kernel_at_every_size(socket: &UdpSocket, control: &ReceiveControl) {
    for room in 0..=300 {
        assert_eq!(written(control, room), received(socket, room), "{room} bytes of room");
    }
}

const LOCAL: Ipv4Addr = Ipv4Addr::LOCALHOST;

#[test]
fn control_messages_of_ipv4_are_the_kernels_at_every_size() {
    let receiver = UdpSocket::bind((LOCAL, 0)).unwrap();
    for name in [libc::IP_PKTINFO, libc::IP_RECVTTL, libc::IP_RECVTOS, libc::IP_RECVORIGDSTADDR] {
        option(&receiver, libc::SOL_IP, name, 1);
    }
    option(&receiver, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1);
    const SOFTWARE: u32 = libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
    option(&receiver, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, SOFTWARE.cast_signed());
    let sender = UdpSocket::bind((LOCAL, 0)).unwrap();
    option(&sender, libc::SOL_IP, libc::IP_TOS, 0xb8);
    sender.set_ttl(33).unwrap();
    let target = receiver.local_addr().unwrap();
    sender.send_to(b"near", target).unwrap();

    let (kernel, _) = received(&receiver, 512);
    let arrived_ns = time_ns(data_of(&kernel, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS).unwrap(), 1);
    let control = ReceiveControl {
        time_ns: Some((TimeForm::Nanoseconds, arrived_ns)),
        timestamping_ns: Some((arrived_ns, 0)),
        ipv4: Some((1, LOCAL, LOCAL)),
        ttl: Some(33),
        tos: Some(0xb8),
        original_destination: Some(target),
        ..ReceiveControl::default()
    };
    same_as_kernel_at_every_size(&receiver, &control);
}

#[test]
fn control_messages_after_drops_are_the_kernels_at_every_size() {
    let receiver = UdpSocket::bind((LOCAL, 0)).unwrap();
    option(&receiver, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1);
    option(&receiver, libc::SOL_SOCKET, libc::SO_TIMESTAMP, 1);
    option(&receiver, libc::SOL_SOCKET, libc::SO_RCVBUF, 1);
    let sender = UdpSocket::bind((LOCAL, 0)).unwrap();
    let target = receiver.local_addr().unwrap();
    for _ in 0..50 {
        sender.send_to(&[0; 1000], target).unwrap();
    }
    receiver.set_nonblocking(true).unwrap();
    while receiver.recv(&mut [0; 1000]).is_ok() {}
    sender.send_to(b"near", target).unwrap();

    let (kernel, _) = received(&receiver, 512);
    let dropped = data_of(&kernel, libc::SOL_SOCKET, libc::SO_RXQ_OVFL).unwrap();
    let arrived = data_of(&kernel, libc::SOL_SOCKET, libc::SO_TIMESTAMP).unwrap();
    let control = ReceiveControl {
        time_ns: Some((TimeForm::Microseconds, time_ns(arrived, 1000))),
        overflow_frames: Some(u32::from_ne_bytes(dropped.try_into().unwrap())),
        ..ReceiveControl::default()
    };
    same_as_kernel_at_every_size(&receiver, &control);
}

#[test]
fn control_messages_of_ipv6_are_the_kernels_at_every_size() {
    let Ok(receiver) = UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)) else {
        assert!(std::env::var_os("NEARWIRE_REQUIRE").is_none(), "NEARWIRE_REQUIRE is set, and there is no IPv6");
        return println!("SKIP no IPv6");
    };
    const IPV6_RECVORIGDSTADDR: c_int = 74;
    for name in [libc::IPV6_RECVPKTINFO, libc::IPV6_RECVHOPLIMIT, libc::IPV6_RECVTCLASS, IPV6_RECVORIGDSTADDR] {
        option(&receiver, libc::SOL_IPV6, name, 1);
    }
    let sender = UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).unwrap();
    option(&sender, libc::SOL_IPV6, libc::IPV6_TCLASS, 0x20);
    option(&sender, libc::SOL_IPV6, libc::IPV6_UNICAST_HOPS, 9);
    let target = receiver.local_addr().unwrap();
    sender.send_to(b"near", target).unwrap();
    let control = ReceiveControl {
        ipv6: Some((1, Ipv6Addr::LOCALHOST)),
        hop_limit: Some(9),
        traffic_class: Some(0x20),
        original_destination: Some(target),
        ..ReceiveControl::default()
    };
    same_as_kernel_at_every_size(&receiver, &control);
}

fn messages(list: &[(c_int, c_int, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0_u8; 512];
    // SAFETY: the vector's own length.
    let mut writer = unsafe { ControlWriter::new(bytes.as_mut_ptr().cast(), bytes.len()) };
    list.iter().for_each(|(level, kind, data)| writer.put(*level, *kind, data));
    let used = writer.used_bytes();
    bytes.truncate(used);
    bytes
}

#[test]
fn control_messages_of_a_send_are_understood() {
    let info4 = [[2, 0, 0, 0], [10, 0, 0, 1], [0; 4]];
    let mut info6 = Ipv6Addr::LOCALHOST.octets().to_vec();
    info6.extend(3_u32.to_ne_bytes());
    let bytes = messages(&[
        (libc::SOL_IP, libc::IP_PKTINFO, info4.as_flattened()),
        (libc::SOL_IP, libc::IP_TTL, &7_i32.to_ne_bytes()),
        (libc::SOL_IP, libc::IP_TOS, &[0xb8]),
        (libc::SOL_IPV6, libc::IPV6_PKTINFO, &info6),
        (libc::SOL_IPV6, libc::IPV6_HOPLIMIT, &64_i32.to_ne_bytes()),
        (libc::SOL_IPV6, libc::IPV6_TCLASS, &(-1_i32).to_ne_bytes()),
    ]);
    let expected = SendControl {
        ipv4: Some((2, Ipv4Addr::new(10, 0, 0, 1))),
        ipv6: Some((3, Ipv6Addr::LOCALHOST)),
        ttl: Some(7),
        tos: Some(0xb8),
        hop_limit: Some(64),
        traffic_class: None,
    };
    assert_eq!((parse(&bytes), parse(&[])), (Some(expected), Some(SendControl::default())));
    let alone = |level, kind, data: &[u8]| parse(&messages(&[(level, kind, data)]));
    for value in [0, -1, 256] {
        assert_eq!(alone(libc::SOL_IP, libc::IP_TTL, &i32::to_ne_bytes(value)), None, "TTL {value}");
    }
    assert_eq!(alone(libc::SOL_IP, libc::IP_TTL, &[7]), None);
    assert_eq!(alone(libc::SOL_IP, libc::IP_TOS, &(-1_i32).to_ne_bytes()), None);
    assert_eq!(alone(libc::SOL_SOCKET, libc::SCM_RIGHTS, &[0; 4]), None);
    assert_eq!(alone(libc::SOL_UDP, libc::UDP_SEGMENT, &[0; 2]), None);
    let mut too_long = bytes.clone();
    too_long[..8].copy_from_slice(&600_usize.to_ne_bytes());
    assert_eq!(parse(&too_long), None);
    too_long[..8].copy_from_slice(&15_usize.to_ne_bytes());
    assert_eq!(parse(&too_long), None);
}

#[test]
fn header_received_into_is_filled_as_by_the_kernel() {
    let receiver = UdpSocket::bind((LOCAL, 0)).unwrap();
    option(&receiver, libc::SOL_IP, libc::IP_RECVTTL, 1);
    let sender = UdpSocket::bind((LOCAL, 0)).unwrap();
    sender.send_to(b"nearwire", receiver.local_addr().unwrap()).unwrap();
    let source = sender.local_addr().unwrap();
    for (name_room, control_room) in [(128, 64), (16, 24), (3, 20), (0, 0)] {
        let ask = |ours: bool| {
            let (mut data, mut source_bytes, mut control_bytes) = ([0_u8; 5], [0xee_u8; 128], [0xee_u8; 64]);
            let mut segment = single(data.as_mut_ptr().cast(), data.len());
            // SAFETY: all pointers are to variables with their lengths.
            let fields = unsafe {
                let mut message = zeroed::<msghdr>();
                (message.msg_iov, message.msg_iovlen) = (segment.as_mut_ptr(), 1);
                (message.msg_name, message.msg_namelen) = (source_bytes.as_mut_ptr().cast(), name_room);
                (message.msg_control, message.msg_controllen) = (control_bytes.as_mut_ptr().cast(), control_room);
                if ours {
                    let mut incoming = read_incoming(&raw mut message).unwrap();
                    assert_eq!(incoming.segments.scatter(b"nearwire", 0), Ok(5));
                    ReceiveControl { ttl: Some(64), ..ReceiveControl::default() }.write(&mut incoming.control);
                    incoming.finish(Some(&source), libc::MSG_TRUNC).unwrap();
                } else {
                    libc::recvmsg(receiver.as_raw_fd(), &raw mut message, libc::MSG_PEEK);
                }
                (message.msg_namelen, message.msg_controllen, message.msg_flags)
            };
            (fields, data, source_bytes, control_bytes)
        };
        assert_eq!(ask(true), ask(false), "{name_room} {control_room}");
    }
}

#[test]
fn header_sent_is_read_and_bad_ones_are_refused() {
    let data = *b"near";
    let mut segment = single(data.as_ptr().cast(), data.len());
    let target: SocketAddr = "1.2.3.4:5".parse().unwrap();
    let encoded = Encoded::new(&target);
    let control = messages(&[(libc::SOL_IP, libc::IP_TTL, &7_i32.to_ne_bytes())]);
    // SAFETY: all pointers are to variables with their lengths, or refused before they are followed.
    unsafe {
        let mut message = zeroed::<msghdr>();
        (message.msg_iov, message.msg_iovlen) = (segment.as_mut_ptr(), 1);
        (message.msg_name, message.msg_namelen) = (encoded.bytes().as_ptr().cast_mut().cast(), 16);
        (message.msg_control, message.msg_controllen) = (control.as_ptr().cast_mut().cast(), control.len());
        let outgoing = read_outgoing(&raw const message).unwrap();
        assert_eq!((outgoing.name, outgoing.segments.total_bytes()), (Name::Ip(target), 4));
        assert_eq!(parse(outgoing.control).unwrap().ttl, Some(7));
        let refused = |message: msghdr| read_outgoing(&raw const message).map(|_| ()).unwrap_err();
        assert_eq!(refused(msghdr { msg_namelen: u32::MAX, ..message }), Errno::INVAL);
        assert_eq!(refused(msghdr { msg_iovlen: 1025, ..message }), Errno::MSGSIZE);
        assert_eq!(refused(msghdr { msg_controllen: 1 << 31, ..message }), Errno::NOBUFS);
        assert_eq!(refused(msghdr { msg_iov: ptr::null_mut(), ..message }), Errno::FAULT);
        assert_eq!(read_outgoing(ptr::null()).map(|_| ()), Err(Errno::FAULT));
        assert_eq!(read_incoming(ptr::without_provenance_mut(64)).map(|_| ()).unwrap_err(), Errno::FAULT);
    }
}

#[test]
fn segment_that_points_nowhere_received_into_fails_where_bytes_get_there() {
    let mut room = [0_u8; 4];
    let [good] = single(room.as_mut_ptr().cast(), room.len());
    let segments = [good, iovec { iov_base: ptr::null_mut(), iov_len: 3 }];
    let of_kernel = [good, iovec { iov_base: ptr::without_provenance_mut(usize::MAX - 4096), iov_len: 3 }];
    // SAFETY: the first segment is a variable, the second is never followed.
    unsafe {
        let into = Segments::to_receive(segments.as_ptr(), 2, Of::Vector).unwrap();
        assert_eq!(into.scatter(b"near", 0), Ok(4));
        assert_eq!(into.scatter(b"nearw", 0), Err(Errno::FAULT));
        assert_eq!(Segments::new(segments.as_ptr(), 2, Of::Vector).map(|_| ()), Err(Errno::FAULT));
        assert_eq!(Segments::to_receive(of_kernel.as_ptr(), 2, Of::Vector).map(|_| ()), Err(Errno::FAULT));
    }
    assert_eq!(&room, b"near");
}
