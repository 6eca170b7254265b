//! Options of sockets and of epoll that rustix does not have, most of them for busy polling.
//!
//! Sources: `include/uapi/asm-generic/socket.h`, `include/uapi/linux/eventpoll.h` (`struct epoll_params`, Linux 6.9).

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

mod memory;

pub use memory::{KERNEL_BYTES_OF_A_DATAGRAM, Memory};

/// `SO_BUSY_POLL`: how long a blocking receive polls the device queue before it sleeps. Raising it above
/// `net.core.busy_read` needs CAP_NET_ADMIN.
///
/// # Errors
/// setsockopt(2) failed.
pub fn set_busy_poll_us(socket: impl AsFd, busy_poll_us: u32) -> io::Result<()> {
    set_int_option(socket, libc::SOL_SOCKET, libc::SO_BUSY_POLL, busy_poll_us as libc::c_int)
}

/// `SO_PREFER_BUSY_POLL`: leave the device queue to the polling socket where the driver's timers allow it. Needs
/// CAP_NET_ADMIN in the initial user namespace.
///
/// # Errors
/// setsockopt(2) failed.
pub fn set_prefer_busy_poll(socket: impl AsFd, prefer: bool) -> io::Result<()> {
    set_int_option(socket, libc::SOL_SOCKET, libc::SO_PREFER_BUSY_POLL, libc::c_int::from(prefer))
}

/// `SO_BUSY_POLL_BUDGET`: packets taken in one poll of the device queue. Above 8 it needs CAP_NET_ADMIN.
///
/// # Errors
/// setsockopt(2) failed.
pub fn set_busy_poll_budget_packets(socket: impl AsFd, budget_packets: u16) -> io::Result<()> {
    set_int_option(socket, libc::SOL_SOCKET, libc::SO_BUSY_POLL_BUDGET, libc::c_int::from(budget_packets))
}

/// `SO_INCOMING_NAPI_ID`: which device queue the socket's last packet came from; 0 when none is known, and then the
/// kernel cannot busy poll for this socket.
///
/// # Errors
/// getsockopt(2) failed.
pub fn incoming_napi_id(socket: impl AsFd) -> io::Result<u32> {
    int_option(socket, libc::SOL_SOCKET, libc::SO_INCOMING_NAPI_ID).map(|id| id as u32)
}

/// `SO_BUF_LOCK` of include/uapi/asm-generic/socket.h.
const SO_BUF_LOCK: libc::c_int = 72;

/// `SO_BUF_LOCK`: which of its buffers keep the size that was asked for; the kernel changes that of the others. 1: sending, 2: receiving.
///
/// # Errors
/// getsockopt(2) failed.
pub fn buffer_locks(socket: impl AsFd) -> io::Result<i32> {
    int_option(socket, libc::SOL_SOCKET, SO_BUF_LOCK)
}

/// Sets it.
///
/// # Errors
/// setsockopt(2) failed.
pub fn set_buffer_locks(socket: impl AsFd, locks: i32) -> io::Result<()> {
    set_int_option(socket, libc::SOL_SOCKET, SO_BUF_LOCK, locks)
}

/// `TCP_NOTSENT_LOWAT`: how many bytes may be written and not sent; 0: what the host says (`net.ipv4.tcp_notsent_lowat`).
///
/// # Errors
/// getsockopt(2) failed.
pub fn unsent_most_bytes(socket: impl AsFd) -> io::Result<u32> {
    int_option(socket, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT).map(libc::c_int::cast_unsigned)
}

/// Sets it.
///
/// # Errors
/// setsockopt(2) failed.
pub fn set_unsent_most_bytes(socket: impl AsFd, bytes: u32) -> io::Result<()> {
    set_int_option(socket, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, bytes.cast_signed())
}

/// `SO_NETNS_COOKIE` of include/uapi/asm-generic/socket.h.
const SO_NETNS_COOKIE: libc::c_int = 71;

/// A number of the network namespace that a socket belongs to, which no other has since the system started.
///
/// # Errors
/// getsockopt(2) failed: `ENOPROTOOPT` before Linux 5.14.
pub fn netns_cookie(socket: impl AsFd) -> io::Result<u64> {
    let mut cookie: u64 = 0;
    let mut len = size_of::<u64>() as libc::socklen_t;
    let number = socket.as_fd().as_raw_fd();
    // SAFETY: `cookie` and `len` are live locals, and `len` states the size of `cookie`.
    let result =
        unsafe { libc::getsockopt(number, libc::SOL_SOCKET, SO_NETNS_COOKIE, (&raw mut cookie).cast(), &mut len) };
    if result == 0 { Ok(cookie) } else { Err(io::Error::last_os_error()) }
}

/// An option whose value is an `int`, of any level.
///
/// # Errors
/// getsockopt(2) failed: `ENOPROTOOPT` for an option that the kernel or the socket does not have.
pub fn int_option(socket: impl AsFd, level: libc::c_int, option: libc::c_int) -> io::Result<libc::c_int> {
    let mut value: libc::c_int = 0;
    let mut len = size_of::<libc::c_int>() as libc::socklen_t;
    let number = socket.as_fd().as_raw_fd();
    // SAFETY: `value` and `len` are live locals, and `len` states the size of `value`.
    let result = unsafe { libc::getsockopt(number, level, option, (&raw mut value).cast(), &mut len) };
    if result == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

/// `SO_PEERPIDFD` of include/uapi/asm-generic/socket.h.
const SO_PEERPIDFD: libc::c_int = 77;

/// `SO_PEERPIDFD` (Linux 6.5): the process that connected a Unix socket, as a pidfd, also if it is in a PID namespace that the caller does
/// not see.
///
/// # Errors
/// `ENOPROTOOPT`: an older kernel. `ESRCH`: the process is gone.
pub fn peer_process(socket: impl AsFd) -> io::Result<OwnedFd> {
    let number = int_option(socket, libc::SOL_SOCKET, SO_PEERPIDFD)?;
    // SAFETY: the kernel has opened this descriptor for this call, so nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// An option whose value is of several bytes, of any level: how many the kernel wrote. Some options read what the buffer
/// begins with.
///
/// # Errors
/// getsockopt(2) failed.
pub fn option_bytes(socket: impl AsFd, level: libc::c_int, option: libc::c_int, value: &mut [u8]) -> io::Result<usize> {
    let mut len = libc::socklen_t::try_from(value.len()).unwrap_or(libc::socklen_t::MAX);
    let number = socket.as_fd().as_raw_fd();
    // SAFETY: `value` is a live buffer of at least `len` bytes, and `len` a live local.
    let result = unsafe { libc::getsockopt(number, level, option, value.as_mut_ptr().cast(), &mut len) };
    if result == 0 { Ok(len as usize) } else { Err(io::Error::last_os_error()) }
}

/// Has the kernel drop what comes to a TCP socket with fewer hops left (RFC 5082; `IP_MINTTL`, `IPV6_MINHOPCOUNT`); 0: nothing. `local`: its own address.
///
/// # Errors
/// setsockopt(2) failed.
pub fn set_least_hops(socket: impl AsFd, local: IpAddr, hops: u8) -> io::Result<()> {
    let (level, option) = match local.to_canonical() {
        IpAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_MINTTL),
        IpAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_MINHOPCOUNT),
    };
    set_int_option(socket, level, option, hops.into())
}

/// setsockopt(2) of a number.
///
/// # Errors
/// setsockopt(2) failed.
pub fn set_int_option(
    socket: impl AsFd,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    // SAFETY: the option value is a live c_int and the length passed is its size.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Has an interface receive every frame on its wire, whatever its filters of addresses and VLANs, for as long as what is returned is
/// open: a packet socket that receives nothing itself (`PACKET_MR_PROMISC`, packet(7)). CAP_NET_RAW.
///
/// # Errors
/// `EPERM` without the capability, `ENODEV` for no such interface.
pub fn hold_promiscuous(ifindex: u32) -> io::Result<OwnedFd> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
    // Without a protocol it hears nothing.
    let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    let request = libc::packet_mreq {
        mr_ifindex: ifindex.cast_signed(),
        mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    // SAFETY: the option value is a live `packet_mreq` and the length passed is its size.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_ADD_MEMBERSHIP,
            (&raw const request).cast(),
            size_of::<libc::packet_mreq>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(socket) } else { Err(io::Error::last_os_error()) }
}

/// `struct epoll_params` of linux/eventpoll.h.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct EpollParams {
    busy_poll_usecs: u32,
    busy_poll_budget: u16,
    prefer_busy_poll: u8,
    __pad: u8,
}

/// `_IOW(0x8A, 0x01, struct epoll_params)`.
const EPIOCSPARAMS: libc::c_ulong = 0x4008_8A01;

/// `EPIOCSPARAMS`: busy polling of everything in one epoll set.
///
/// # Errors
/// ENOTTY or EINVAL before Linux 6.9, EPERM for a budget above 64 without CAP_NET_ADMIN.
pub fn set_epoll_busy_poll(
    epoll: impl AsFd,
    busy_poll_us: u32,
    budget_packets: u16,
    prefer_busy_poll: bool,
) -> io::Result<()> {
    let params = EpollParams {
        busy_poll_usecs: busy_poll_us,
        busy_poll_budget: budget_packets,
        prefer_busy_poll: u8::from(prefer_busy_poll),
        __pad: 0,
    };
    // SAFETY: the ioctl reads one `struct epoll_params` from the pointer, which is a live local of that layout.
    let result = unsafe { libc::ioctl(epoll.as_fd().as_raw_fd(), EPIOCSPARAMS as _, &params) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn epoll_params_has_the_kernels_layout() {
        assert_eq!(size_of::<EpollParams>(), 8);
        assert_eq!(offset_of!(EpollParams, busy_poll_usecs), 0);
        assert_eq!(offset_of!(EpollParams, busy_poll_budget), 4);
        assert_eq!(offset_of!(EpollParams, prefer_busy_poll), 6);
        assert_eq!(EPIOCSPARAMS, (1 << 30) | ((size_of::<EpollParams>() as libc::c_ulong) << 16) | (0x8A << 8) | 1);
    }

    #[test]
    fn fresh_socket_has_no_napi_id() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert_eq!(incoming_napi_id(&socket).unwrap(), 0);
    }
}
