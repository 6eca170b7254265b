//! `udp/spin`, `tcp/spin`: a non-blocking receive, again and again, as `sockperf --nonblocked`. Burns a CPU and saves
//! the wake-up.

use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use super::socket::{POLLS_PER_CLOCK_READ, Waiting};
use super::{PathError, Setup};
use crate::endpoint::Deadline;

/// Asks recv(2) with MSG_DONTWAIT until something is there.
pub struct Spin;

impl Waiting for Spin {
    fn prepare(_socket: BorrowedFd<'_>, _setup: &Setup) -> Result<Spin, PathError> {
        Ok(Spin)
    }

    #[inline]
    fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        buffer: &mut [u8],
        flags: RecvFlags,
        deadline: &Deadline,
    ) -> Result<Option<usize>, Errno> {
        let mut polls = 0_u32;
        loop {
            match recv(socket, &mut *buffer, flags | RecvFlags::DONTWAIT) {
                Ok((_, bytes)) => return Ok(Some(bytes)),
                Err(Errno::AGAIN | Errno::INTR) => polls += 1,
                Err(errno) => return Err(errno),
            }
            if polls.is_multiple_of(POLLS_PER_CLOCK_READ) && deadline.passed() {
                return Ok(None);
            }
        }
    }
}
