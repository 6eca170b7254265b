//! Sockets that get copies of the ICMP messages by which routers tell of a packet that was too long, and that have the kernel use a
//! neighbour.
//!
//! Sources: raw(7), icmp(7), ip(7), ipv6(7), `include/uapi/linux/icmp.h` and `icmpv6.h`, RFC 792, RFC 1191, RFC 4443, RFC 8201.

use std::io;
use std::mem::zeroed;
use std::net::{IpAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// `ICMP_FILTER` of `linux/icmp.h`, at the level `SOL_RAW`.
const ICMP_FILTER: libc::c_int = 1;
const SOL_RAW: libc::c_int = 255;
/// `ICMPV6_FILTER` of `linux/icmpv6.h`, at the level `IPPROTO_ICMPV6`.
const ICMPV6_FILTER: libc::c_int = 1;
const DESTINATION_UNREACHABLE: u8 = 3;
const FRAGMENTATION_NEEDED: u32 = 4;
const PACKET_TOO_BIG: u8 = 2;

/// A raw socket, close-on-exec and non-blocking, that hears of IPv4 packets that needed to be fragmented and might not be.
/// What it gives begins with an IPv4 header. In the network namespace of the calling thread.
///
/// # Errors
/// socket(2) or setsockopt(2) failed: `EPERM` without CAP_NET_RAW.
pub fn fragmentation_needed() -> io::Result<OwnedFd> {
    let socket = raw_socket(libc::AF_INET, libc::IPPROTO_ICMP)?;
    // A bit for each type that is not wanted.
    let unwanted = !(1_u32 << DESTINATION_UNREACHABLE);
    set(&socket, SOL_RAW, ICMP_FILTER, &unwanted)?;
    // Ports that are closed are told of by the same type: the second byte behind the IPv4 header is the code.
    let mut steps = [
        step(libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH, 0, 0, 0),
        step(libc::BPF_LD | libc::BPF_B | libc::BPF_IND, 0, 0, 1),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, FRAGMENTATION_NEEDED),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, u32::MAX),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, 0),
    ];
    let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    set(&socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)?;
    Ok(socket)
}

/// The same of IPv6 packets. What it gives begins with an ICMPv6 header.
///
/// # Errors
/// As [`fragmentation_needed`]; `EAFNOSUPPORT` without IPv6.
pub fn packet_too_big() -> io::Result<OwnedFd> {
    let socket = raw_socket(libc::AF_INET6, libc::IPPROTO_ICMPV6)?;
    let mut unwanted = [u32::MAX; 8];
    unwanted[usize::from(PACKET_TOO_BIG >> 5)] &= !(1 << (PACKET_TOO_BIG & 31));
    set(&socket, libc::IPPROTO_ICMPV6, ICMPV6_FILTER, &unwanted)?;
    Ok(socket)
}

/// An echo reply without data: whoever gets one that was not asked for drops it without a word.
const ECHO_REPLY_V4: [u8; 8] = [0, 0, 0xff, 0xff, 0, 0, 0, 0];
/// The kernel fills the checksum in.
const ECHO_REPLY_V6: [u8; 8] = [129, 0, 0, 0, 0, 0, 0, 0];
/// A control message of either family, with its header.
const CONTROL_BYTES: usize = 48;

/// Room for a control message, aligned as the header of one.
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

/// Sends a neighbour an ICMP echo reply that it did not ask for, without waiting: of a neighbour that the kernel sends to it makes sure
/// that it is there. It takes no lock of the network's configuration, which netlink would wait for (RTM_NEWNEIGH with
/// NTF_USE). `socket` is one of [`fragmentation_needed`] or [`packet_too_big`], of the neighbour's family.
///
/// # Errors
/// sendmsg(2) failed: `EPERM` where a filter drops such packets, `EAGAIN` where the device has no room.
pub fn greet(socket: impl AsFd, ifindex: u32, neighbour: IpAddr) -> io::Result<()> {
    match neighbour {
        IpAddr::V4(address) => {
            let to = sockaddr_v4(SocketAddrV4::new(address, 0));
            // SAFETY: a structure of integers; zero leaves the source to the kernel.
            let mut through: libc::in_pktinfo = unsafe { zeroed() };
            through.ipi_ifindex = ifindex.cast_signed();
            send(socket, &to, &ECHO_REPLY_V4, libc::IPPROTO_IP, libc::IP_PKTINFO, &through)
        }
        IpAddr::V6(address) => {
            let to = sockaddr_v6(SocketAddrV6::new(address, 0, 0, ifindex));
            // SAFETY: as above.
            let mut through: libc::in6_pktinfo = unsafe { zeroed() };
            through.ipi6_ifindex = ifindex;
            send(socket, &to, &ECHO_REPLY_V6, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &through)
        }
    }
}

fn sockaddr_v4(address: SocketAddrV4) -> libc::sockaddr_in {
    // SAFETY: a structure of integers.
    let mut name: libc::sockaddr_in = unsafe { zeroed() };
    name.sin_family = libc::AF_INET as libc::sa_family_t;
    name.sin_addr.s_addr = u32::from_ne_bytes(address.ip().octets());
    name
}

fn sockaddr_v6(address: SocketAddrV6) -> libc::sockaddr_in6 {
    // SAFETY: a structure of integers.
    let mut name: libc::sockaddr_in6 = unsafe { zeroed() };
    name.sin6_family = libc::AF_INET6 as libc::sa_family_t;
    name.sin6_addr.s6_addr = address.ip().octets();
    name.sin6_scope_id = address.scope_id();
    name
}

/// sendmsg(2) with one control message.
fn send<N, C: Copy>(
    socket: impl AsFd,
    to: &N,
    packet: &[u8],
    level: libc::c_int,
    kind: libc::c_int,
    value: &C,
) -> io::Result<()> {
    let mut control = Control([0; CONTROL_BYTES]);
    let mut piece = libc::iovec { iov_base: packet.as_ptr().cast_mut().cast(), iov_len: packet.len() };
    let value_bytes = size_of::<C>() as libc::c_uint;
    // SAFETY: a structure of integers and null pointers; CMSG_SPACE computes.
    let (mut message, control_bytes): (libc::msghdr, _) = unsafe { (zeroed(), libc::CMSG_SPACE(value_bytes) as usize) };
    assert!(control_bytes <= CONTROL_BYTES, "a control message has its room");
    message.msg_name = (&raw const *to).cast_mut().cast();
    message.msg_namelen = size_of::<N>() as libc::socklen_t;
    (message.msg_iov, message.msg_iovlen) = (&raw mut piece, 1);
    (message.msg_control, message.msg_controllen) = (control.0.as_mut_ptr().cast(), control_bytes as _);
    // SAFETY: the room for control messages holds one with a value of this size, as asserted above, and is aligned for its header;
    // what the header of the message points to lives in this frame or the caller's, and the kernel only reads it.
    let result = unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = level;
        (*header).cmsg_type = kind;
        (*header).cmsg_len = libc::CMSG_LEN(value_bytes) as _;
        libc::CMSG_DATA(header).cast::<C>().write_unaligned(*value);
        libc::sendmsg(socket.as_fd().as_raw_fd(), &raw const message, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

const fn step(code: u32, if_true: u8, if_false: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: if_true, jf: if_false, k }
}

fn raw_socket(family: libc::c_int, protocol: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: socket(2) takes three numbers and touches no memory.
    let number = unsafe { libc::socket(family, libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, protocol) };
    if number < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given this number to us, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

fn set<T>(socket: &OwnedFd, level: libc::c_int, option: libc::c_int, value: &T) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` is a live value of the stated length; a program that it points to lives in the caller's frame.
    let result = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const *value).cast(), len) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
