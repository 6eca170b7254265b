//! `udp/epoll`, `tcp/epoll`: epoll_wait(2) sleeps, then a non-blocking receive, as most event loops do.

use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use super::socket::{SLEEP_NS, Waiting};
use super::{PathError, Setup};
use crate::endpoint::Deadline;

const SLEEP: Timespec = Timespec { tv_sec: 0, tv_nsec: SLEEP_NS as i64 };

/// Sleeps in epoll_wait(2), level-triggered.
pub struct Epoll {
    pub(super) set: OwnedFd,
}

impl Waiting for Epoll {
    fn prepare(socket: BorrowedFd<'_>, _setup: &Setup) -> Result<Epoll, PathError> {
        let set = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(PathError::io("make an epoll set"))?;
        epoll::add(&set, socket, epoll::EventData::new_u64(0), epoll::EventFlags::IN)
            .map_err(PathError::io("add the socket to an epoll set"))?;
        Ok(Epoll { set })
    }

    #[inline]
    fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        buffer: &mut [u8],
        flags: RecvFlags,
        deadline: &Deadline,
    ) -> Result<Option<usize>, Errno> {
        let mut events = [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }];
        loop {
            let ready = match epoll::wait(&self.set, &mut events[..], Some(&SLEEP)) {
                Ok(ready) => ready > 0,
                Err(Errno::INTR) => false,
                Err(errno) => return Err(errno),
            };
            if ready {
                match recv(socket, &mut *buffer, flags | RecvFlags::DONTWAIT) {
                    Ok((_, bytes)) => return Ok(Some(bytes)),
                    Err(Errno::AGAIN | Errno::INTR) => {}
                    Err(errno) => return Err(errno),
                }
            }
            if deadline.passed() {
                return Ok(None);
            }
        }
    }
}
