//! Kicks: the system call that has the kernel send what a TX ring shows it. In copy mode the kernel does all of a frame's way within it.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};

use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use super::queue::Queue;

/// Kicks in one flush. The kernel takes 32 buffers a kick, so this covers 2048; a device that does not take
/// frames is left alone after that, and the next flush goes on.
pub(super) const KICKS_MOST: u32 = 64;

/// What the kernel made of a kick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Took {
    /// It has nothing left to take.
    All,
    /// There may be more.
    Part,
    /// There may be more, and the device dropped one frame (veth: the peer's queue is full) and completed it.
    PartAndDroppedOne,
}

/// One system call. `queue`: where the socket sends, if senders there take turns.
#[inline]
pub(super) fn kick(socket: &OwnedFd, queue: Option<&Queue>) -> io::Result<Took> {
    let _turn = queue.and_then(Queue::turn);
    match send(socket, &[], SendFlags::DONTWAIT) {
        Ok(_) => Ok(Took::All),
        Err(Errno::AGAIN | Errno::NOBUFS) => Ok(Took::Part),
        Err(Errno::BUSY) => Ok(Took::PartAndDroppedOne),
        Err(errno) => Err(errno.into()),
    }
}

/// The system call that has the kernel take what a TX queue shows it.
#[derive(Debug)]
pub struct Kick {
    /// Open as long as the kick: the number cannot become that of another socket, even when the port is closed. There until the
    /// kick is dropped.
    socket: Option<Arc<OwnedFd>>,
    /// Where senders take turns.
    queue: Option<Arc<Queue>>,
}

impl Drop for Kick {
    /// Where the port was closed meanwhile the kick is the last to have the socket, which keeps the queue busy while it is open.
    fn drop(&mut self) {
        if let Some(socket) = self.socket.take().and_then(Arc::into_inner) {
            nearwire_sys::descriptor::close(socket);
        }
    }
}

/// What came of a kick.
#[derive(Debug)]
#[must_use]
pub struct Kicked {
    /// Which was kicked, by its place in memory, which no other gets as long as this is here. It does not keep the socket open.
    pub(super) socket: Weak<OwnedFd>,
    pub(super) refused_frames: u64,
    /// The kernel may not have taken all.
    pub(super) is_unfinished: bool,
    pub(super) failed: Option<io::Error>,
}

impl Kick {
    #[inline]
    pub(super) fn new(socket: &Arc<OwnedFd>, queue: &Arc<Queue>) -> Kick {
        Kick { socket: Some(Arc::clone(socket)), queue: queue.takes_turns().then(|| Arc::clone(queue)) }
    }

    /// Makes it. `None`: all is sent, and nothing is left to be passed to [`XdpPort::kicked`](super::XdpPort::kicked).
    #[inline]
    pub fn make(self) -> Option<Kicked> {
        let socket = self.socket.as_ref()?;
        let kicked = |refused_frames, is_unfinished, failed| {
            Some(Kicked { socket: Arc::downgrade(socket), refused_frames, is_unfinished, failed })
        };
        let mut refused_frames = 0;
        for _ in 0..KICKS_MOST {
            match kick(socket, self.queue.as_deref()) {
                Ok(Took::All) if refused_frames == 0 => return None,
                Ok(Took::All) => return kicked(refused_frames, false, None),
                Ok(Took::Part) => {}
                Ok(Took::PartAndDroppedOne) => refused_frames += 1,
                Err(source) => return kicked(refused_frames, false, Some(source)),
            }
        }
        kicked(refused_frames, true, None)
    }
}
