//! Whether children of fork(2) live that may have sockets of this process.
//!
//! Each fork has a pipe whose writing end the child alone keeps, and children of its own after it. It closes when the last of them
//! ends or executes another program, and the reading end hangs up. No signal is taken from the program for it, no process
//! is waited for, and children of children count too.

use std::os::fd::{AsFd, OwnedFd};

use nearwire_sys::descriptor::place;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};

/// Forks that are followed at a time: each takes a descriptor here and in its children. With more there may be children for ever.
const FORKS_MOST: usize = 16;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Descendants {
    /// Of forks whose children may live.
    reading: Vec<OwnedFd>,
    /// For children that are about to be made.
    writing: Option<OwnedFd>,
    /// Forks of this process's ancestors: open as long as it lives.
    above: Vec<OwnedFd>,
    /// There was a fork without a pipe.
    is_unknown: bool,
}

impl Descendants {
    /// fork(2) follows.
    pub(crate) fn before_fork(&mut self) {
        self.reading.retain(|end| !has_hung_up(end));
        if self.is_unknown || self.writing.is_some() {
            // The engines of the process share one.
            return;
        }
        self.is_unknown = true;
        if self.reading.len() < FORKS_MOST
            && let Ok((reading, writing)) = pipe_with(PipeFlags::CLOEXEC)
        {
            self.reading.push(place(reading));
            self.writing = Some(place(writing));
            self.is_unknown = false;
        }
    }

    /// The fork is over, in the parent.
    pub(crate) fn after_fork(&mut self) {
        self.writing = None;
    }

    /// What the child makes of it.
    pub(crate) fn in_child(self) -> Descendants {
        let Descendants { mut above, writing, .. } = self;
        above.extend(writing);
        Descendants { above, ..Descendants::default() }
    }

    /// Whether all have ended, or executed another program. One system call a fork.
    pub(crate) fn have_ended(&mut self) -> bool {
        self.reading.retain(|end| !has_hung_up(end));
        self.reading.is_empty() && !self.is_unknown
    }
}

fn has_hung_up(end: &OwnedFd) -> bool {
    let mut polled = [PollFd::from_borrowed_fd(end.as_fd(), PollFlags::empty())];
    // Refused, they may live.
    poll(&mut polled, Some(&Timespec::default())).is_ok() && polled[0].revents().contains(PollFlags::HUP)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descendants_have_ended_when_nobody_has_the_writing_end() {
        let mut parent = Descendants::default();
        assert!(parent.have_ended());
        parent.before_fork();
        let childs = parent.writing.as_ref().unwrap().try_clone().unwrap();
        assert!(!parent.have_ended(), "about to be made");
        parent.after_fork();
        assert!(!parent.have_ended());
        let grandchilds = Descendants { writing: Some(childs), ..Descendants::default() }.in_child().in_child();
        assert!(!parent.have_ended());
        drop(grandchilds);
        assert!(parent.have_ended());
    }

    #[test]
    fn forks_that_are_not_followed_never_end() {
        let mut parent = Descendants::default();
        let mut children = Vec::new();
        for _ in 0..=FORKS_MOST {
            parent.before_fork();
            children.push(std::mem::take(&mut parent.writing));
        }
        assert!(parent.reading.len() == FORKS_MOST);
        drop(children);
        assert!(!parent.have_ended());
    }
}
