//! Kicks: the system call that has the kernel send what a TX ring shows it. In copy mode the kernel does all of a frame's way within it.
//!
//! Where the socket prefers busy polling, a kick runs the driver's receive round, and the kernel takes that for a round that has sent too
//! (`xsk_no_wakeup`, net/xdp/xsk.c). Drivers that send by a round of its own (virtio_net, am65-cpsw) then send nothing, until some interrupt does:
//! what such a kick has left in the ring, poll(2) has the driver send, which asks nobody (`xsk_poll`).

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use super::queue::Queue;
use super::rings::Pushed;

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

/// Has the driver send what a kick that ran its receive round has left.
#[cold]
pub(super) fn wake(socket: &OwnedFd, queue: Option<&Queue>) {
    let _turn = queue.and_then(Queue::turn);
    // No event is asked for. A failure is that of a kick, which the next one tells.
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let _ = poll(&mut [PollFd::new(socket, PollFlags::empty())], Some(&now));
}

/// The system call that has the kernel take what a TX queue shows it.
#[derive(Debug)]
pub struct Kick {
    /// Open as long as the kick: the number cannot become that of another socket, even when the port is closed. There until the
    /// kick is dropped.
    socket: Option<Arc<OwnedFd>>,
    /// Where senders take turns.
    queue: Option<Arc<Queue>>,
    /// What the driver's round may leave in the ring.
    pushed: Option<Pushed>,
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
    pub(super) fn new(socket: &Arc<OwnedFd>, queue: &Arc<Queue>, pushed: Option<Pushed>) -> Kick {
        Kick { socket: Some(Arc::clone(socket)), queue: queue.takes_turns().then(|| Arc::clone(queue)), pushed }
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
            let took = kick(socket, self.queue.as_deref());
            if self.pushed.as_ref().is_some_and(|pushed| !pushed.are_taken()) {
                wake(socket, self.queue.as_deref());
            }
            match took {
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
