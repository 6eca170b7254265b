//! The bell of a process's timer thread, which does what is due while the program computes: whoever has something for it rings.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use nearwire_sys::descriptor::{Descriptor, place};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

/// An eventfd(2). A child of fork(2) has it from its parent, and rings to be answered by the parent.
#[derive(Debug)]
pub struct Bell {
    fd: OwnedFd,
}

impl Bell {
    pub(crate) fn new() -> io::Result<Bell> {
        Ok(Bell { fd: place(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?) })
    }

    /// Wakes the thread, or keeps it from its next sleep.
    pub fn ring(&self) {
        // Refused where it was rung very often and nobody has heard it: it will be heard.
        let _ = rustix::io::write(&self.fd, &1_u64.to_ne_bytes());
    }

    /// Sleeps until it is rung, `other` is readable, or for so long.
    #[must_use]
    pub fn wait(&self, other: Option<Descriptor>, at_most: Option<Duration>) -> Woken {
        let at_most = at_most.and_then(|time| Timespec::try_from(time).ok());
        let polled_for = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
        let mut polled = [self.fd.as_fd(), other.as_ref().map_or(self.fd.as_fd(), AsFd::as_fd)].map(polled_for);
        // Interrupted, it is heard the next time.
        let _ = poll(&mut polled, at_most.as_ref());
        let [rang, other_is_readable] = polled.map(|polled| !polled.revents().is_empty());
        let other_is_readable = other_is_readable && other.is_some();
        if rang {
            let _ = rustix::io::read(&self.fd, &mut [0_u8; 8]);
        }
        Woken { rang, other_is_readable }
    }
}

/// What ended a sleep; neither where it was the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Woken {
    /// The bell was rung.
    pub rang: bool,
    /// There is something to read, or nobody will ever write.
    pub other_is_readable: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bell_that_was_rung_twice_wakes_once_and_then_sleeps_as_long_as_asked() {
        let bell = Bell::new().unwrap();
        bell.ring();
        bell.ring();
        assert!(bell.wait(None, None).rang);
        assert!(!bell.wait(None, Some(Duration::from_millis(1))).rang);
    }
}
