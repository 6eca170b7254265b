//! Options of netlink sockets that rustix lacks.
//!
//! Source: netlink(7), `include/uapi/linux/netlink.h`.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// `NETLINK_ADD_MEMBERSHIP`: hears what the kernel says to this group, also where its number is above the 32 that
/// bind(2) takes.
///
/// # Errors
/// EINVAL where the kernel does not have the group, EPERM where it is not for everyone.
pub fn add_membership(socket: impl AsFd, group: u32) -> io::Result<()> {
    // SAFETY: the option value is a live u32 and the length passed is its size.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_NETLINK,
            libc::NETLINK_ADD_MEMBERSHIP,
            (&raw const group).cast(),
            size_of::<u32>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn socket_that_is_not_netlink_is_refused() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(add_membership(&socket, 1).is_err());
    }

    #[test]
    fn group_that_no_kernel_has_is_refused() {
        let socket = netlink_sys::Socket::new(netlink_sys::protocols::NETLINK_ROUTE).unwrap();
        add_membership(&socket, libc::RTNLGRP_LINK).unwrap();
        assert_eq!(add_membership(&socket, 100_000).unwrap_err().raw_os_error(), Some(libc::EINVAL));
    }
}
