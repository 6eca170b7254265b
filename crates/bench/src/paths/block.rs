//! `udp/block`, `tcp/block`: the receive sleeps and the kernel wakes it. What most programs do, and the slowest: on two
//! CPUs it costs a wake-up from idle, which has no network in it.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{RecvFlags, recv};

use super::socket::{SLEEP_NS, Waiting};
use super::{PathError, Setup};
use crate::endpoint::Deadline;

/// Sleeps in recv(2).
pub struct Block;

impl Waiting for Block {
    fn prepare(socket: BorrowedFd<'_>, _setup: &Setup) -> Result<Block, PathError> {
        set_socket_timeout(socket, Timeout::Recv, Some(Duration::from_nanos(SLEEP_NS)))
            .map_err(PathError::io("set SO_RCVTIMEO"))?;
        Ok(Block)
    }

    #[inline]
    fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        buffer: &mut [u8],
        flags: RecvFlags,
        deadline: &Deadline,
    ) -> Result<Option<usize>, Errno> {
        loop {
            match recv(socket, &mut *buffer, flags) {
                Ok((_, bytes)) => return Ok(Some(bytes)),
                Err(Errno::AGAIN | Errno::INTR) if deadline.passed() => return Ok(None),
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }
}
