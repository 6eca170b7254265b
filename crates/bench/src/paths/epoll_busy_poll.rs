//! `udp/epoll-busy-poll`, `tcp/epoll-busy-poll`: epoll_wait(2) polls the device queue of the set's sockets before it
//! sleeps (`EPIOCSPARAMS`, Linux 6.9).

use std::os::fd::BorrowedFd;

use nearwire_sys::socket::set_epoll_busy_poll;
use rustix::io::Errno;
use rustix::net::RecvFlags;

use super::busy_poll::napi_remark;
use super::epoll::Epoll;
use super::socket::Waiting;
use super::{PathError, Setup};
use crate::endpoint::{Deadline, Remark};

/// Sleeps in epoll_wait(2), after polling.
pub struct EpollBusyPoll {
    epoll: Epoll,
}

impl Waiting for EpollBusyPoll {
    fn prepare(socket: BorrowedFd<'_>, setup: &Setup) -> Result<EpollBusyPoll, PathError> {
        let epoll = Epoll::prepare(socket, setup)?;
        set_epoll_busy_poll(&epoll.set, setup.busy_poll_us, setup.busy_poll_budget_packets, true)
            .map_err(PathError::io("set EPIOCSPARAMS (Linux 6.9)"))?;
        Ok(EpollBusyPoll { epoll })
    }

    #[inline]
    fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        buffer: &mut [u8],
        flags: RecvFlags,
        deadline: &Deadline,
    ) -> Result<Option<usize>, Errno> {
        self.epoll.receive(socket, buffer, flags, deadline)
    }

    fn remarks(&self, socket: BorrowedFd<'_>) -> Vec<Remark> {
        napi_remark(socket)
    }
}
