//! Sockets that get copies of the ICMP messages by which routers tell of a packet that was too long.
//!
//! Sources: raw(7), icmp(7), `include/uapi/linux/icmp.h` and `icmpv6.h`, RFC 1191, RFC 8201.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

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
