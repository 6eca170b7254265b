//! Packet sockets and their options, which rustix does not have.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::PortError;
use crate::interface::InterfaceFacts;

/// A socket that sends on `facts`, past the queueing discipline, and receives nothing.
pub(super) fn open_sending(facts: &InterfaceFacts) -> Result<OwnedFd, PortError> {
    let refused = |source: io::Error| PortError::refused("open an AF_PACKET socket for sending", &facts.name, source);
    let socket = open_silent().map_err(refused)?;
    set(&socket, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1_i32).map_err(refused)?;
    bind(&socket, facts.ifindex, 0).map_err(refused)?;
    Ok(socket)
}

/// A packet socket of protocol 0: it receives nothing before it is bound to a protocol.
pub(super) fn open_silent() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?)
}

/// Binds to an interface, for frames of `protocol` (`ETH_P_*`, host order; 0 for none).
pub(super) fn bind(socket: &OwnedFd, ifindex: u32, protocol: u16) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: protocol.to_be(),
        sll_ifindex: ifindex.cast_signed(),
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    // SAFETY: the address is a live local and the length passed is its size.
    let result = unsafe {
        libc::bind(socket.as_raw_fd(), (&raw const address).cast(), size_of::<libc::sockaddr_ll>() as libc::socklen_t)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Option values that are plain data.
///
/// # Safety
/// The type has no padding that the kernel would read as data and holds no pointer that must be valid afterwards.
pub(super) unsafe trait OptionValue {}

// SAFETY: an integer.
unsafe impl OptionValue for i32 {}
// SAFETY: four integers of four bytes.
unsafe impl OptionValue for libc::tpacket_req {}

/// setsockopt(2).
pub(super) fn set<T: OptionValue>(
    socket: &OwnedFd,
    level: libc::c_int,
    option: libc::c_int,
    value: &T,
) -> io::Result<()> {
    // SAFETY: `value` is live and the length passed is its size.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Lets only frames through for which the classic BPF `program` returns other than 0.
pub(super) fn set_filter(socket: &OwnedFd, program: &[libc::sock_filter]) -> io::Result<()> {
    let filter = libc::sock_fprog { len: program.len() as libc::c_ushort, filter: program.as_ptr().cast_mut() };
    // SAFETY: the kernel reads `len` instructions at `filter`, which `program` has, and copies them.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const filter).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// `PACKET_STATISTICS`: frames this socket was given, of them dropped. Reading resets both.
pub(super) fn take_statistics(socket: &OwnedFd) -> io::Result<libc::tpacket_stats> {
    let mut statistics = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
    let mut len = size_of::<libc::tpacket_stats>() as libc::socklen_t;
    // SAFETY: `statistics` and `len` are live locals, and `len` states the size.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            (&raw mut statistics).cast(),
            &mut len,
        )
    };
    if result == 0 { Ok(statistics) } else { Err(io::Error::last_os_error()) }
}
