//! The socket on which the kernel reports news.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nearwire_sys::descriptor::place;
use nearwire_sys::netlink;
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, recv, socket_with, sockopt};

use super::TablesError;

/// Room for news that nobody has read, as the kernel counts it: some thousand routes.
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;

/// Groups below 33, which bind(2) takes as bits (`enum rtnetlink_groups`).
const GROUPS: [u32; 9] = [
    libc::RTNLGRP_LINK,
    libc::RTNLGRP_NEIGH,
    libc::RTNLGRP_IPV4_IFADDR,
    libc::RTNLGRP_IPV6_IFADDR,
    libc::RTNLGRP_IPV4_ROUTE,
    libc::RTNLGRP_IPV6_ROUTE,
    libc::RTNLGRP_IPV4_RULE,
    libc::RTNLGRP_IPV6_RULE,
    RTNLGRP_NEXTHOP,
];
const RTNLGRP_NEXTHOP: u32 = 32;
/// Linux 6.14.
const RTNLGRP_IPV4_MCADDR: u32 = 37;
/// Linux 6.14.
const RTNLGRP_IPV6_MCADDR: u32 = 38;

/// A netlink socket that hears of all that matters.
#[derive(Debug)]
pub(super) struct Subscription(OwnedFd);

/// What a look at the socket found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrived {
    Nothing,
    Datagram {
        len_bytes: usize,
    },
    /// The kernel dropped messages, or one was longer than the buffer.
    Lost,
}

impl Subscription {
    /// `true` with it: the kernel reports groups too.
    pub(super) fn open() -> Result<(Self, bool), TablesError> {
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None);
        let socket = place(socket.map_err(TablesError::socket("open a socket of NETLINK_ROUTE"))?);
        // The first is for CAP_NET_ADMIN; without it the system's limit holds.
        if sockopt::set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER_BYTES).is_err() {
            sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER_BYTES).ok();
        }
        let bits = GROUPS.into_iter().fold(0, |bits, group| bits | 1 << (group - 1));
        let failed = TablesError::socket("subscribe to the kernel's network tables");
        bind(&socket, &SocketAddrNetlink::new(0, bits)).map_err(failed)?;
        let are_groups_told = [RTNLGRP_IPV4_MCADDR, RTNLGRP_IPV6_MCADDR]
            .iter()
            .all(|group| netlink::add_membership(&socket, *group).is_ok());
        Ok((Self(socket), are_groups_told))
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Takes one datagram without waiting.
    pub(super) fn receive(&self, buffer: &mut [u8]) -> Result<Arrived, TablesError> {
        match recv(&self.0, &mut *buffer, RecvFlags::DONTWAIT | RecvFlags::TRUNC) {
            Ok((_, len_bytes)) if len_bytes > buffer.len() => Ok(Arrived::Lost),
            Ok((len_bytes, _)) => Ok(Arrived::Datagram { len_bytes }),
            Err(Errno::AGAIN) => Ok(Arrived::Nothing),
            Err(Errno::NOBUFS) => Ok(Arrived::Lost),
            Err(Errno::INTR) => self.receive(buffer),
            Err(errno) => Err(TablesError::socket("read news of the kernel's network tables")(errno)),
        }
    }

    /// Drops all that waits.
    pub(super) fn discard(&self, buffer: &mut [u8]) -> Result<(), TablesError> {
        while self.receive(buffer)? != Arrived::Nothing {}
        Ok(())
    }

    /// Whether something waits, or was lost.
    pub(super) fn has_news(&self) -> bool {
        !matches!(recv(&self.0, &mut [0; 1], RecvFlags::DONTWAIT | RecvFlags::PEEK), Err(Errno::AGAIN))
    }
}
