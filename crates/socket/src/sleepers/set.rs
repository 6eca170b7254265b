//! All that ends a thread's sleep, behind one descriptor: a wait for one takes the kernel less than poll(2) of five, however
//! many queues a port has. With both ends of sockperf asleep on one CPU half a round trip went from 5.65 to 5.48 us by it and by
//! what else a sleep saves (a look at the watch); the kernel's own takes 5.37 (6 interleaved rounds, two queues, veth, 6.18).
//!
//! Whether the thread is woken where the sender runs, as by poll(2), is up to `ep_poll_callback`: kernels in which it passes the
//! sender's hint on (`wake_up_sync`) do so, older ones let the scheduler choose.
//!
//! A frame that arrives while its port is in such a set costs its sender a call into the set, also while the thread is
//! awake, so the ports of a thread that spins are taken out again ([`Set::rest`]).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::event::epoll::{EventData, EventFlags, add, delete};

/// What an event of a set says by its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum EndOfSleep {
    /// The watch has something.
    Watch = 1,
    /// Another thread, or a signal.
    Wake = 2,
    /// A frame.
    Port = 3,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Set {
    epoll: OwnedFd,
    watch: RawFd,
    /// Of the ports that are in it; `None`: none are.
    generation: Option<u64>,
}

impl Set {
    pub(crate) fn new(epoll: OwnedFd, wake: BorrowedFd<'_>, watch: BorrowedFd<'_>) -> io::Result<Set> {
        let set = Set { epoll, watch: watch.as_raw_fd(), generation: None };
        set.add(wake, EndOfSleep::Wake)?;
        set.add(watch, EndOfSleep::Watch)?;
        Ok(set)
    }

    fn add(&self, fd: BorrowedFd<'_>, what: EndOfSleep) -> rustix::io::Result<()> {
        add(&self.epoll, fd, EventData::new_u64(what as u64), EventFlags::IN)
    }

    /// Whether it is of this watch, and has these ports or none.
    pub(crate) fn fits(&self, watch: BorrowedFd<'_>, generation: u64) -> bool {
        self.watch == watch.as_raw_fd() && self.generation.is_none_or(|own| own == generation)
    }

    /// Puts the ports in, if they are not.
    pub(crate) fn put_in<'p>(
        &mut self,
        generation: u64,
        mut ports: impl Iterator<Item = BorrowedFd<'p>>,
    ) -> rustix::io::Result<()> {
        if self.generation.is_none() {
            ports.try_for_each(|port| self.add(port, EndOfSleep::Port))?;
            self.generation = Some(generation);
        }
        Ok(())
    }

    /// Takes the ports out.
    pub(crate) fn rest<'p>(&mut self, ports: impl Iterator<Item = BorrowedFd<'p>>) {
        if self.generation.take().is_some() {
            ports.for_each(|port| {
                let _ = delete(&self.epoll, port);
            });
        }
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

    use super::*;
    use crate::engine::new_epoll;

    fn event(is_readable: bool) -> OwnedFd {
        eventfd(u32::from(is_readable), EventfdFlags::NONBLOCK).unwrap()
    }

    fn ends_sleep(set: &Set) -> bool {
        let mut polled = [PollFd::new(&set.epoll, PollFlags::IN)];
        poll(&mut polled, Some(&Timespec::default())).unwrap() == 1
    }

    #[test]
    fn set_of_a_thread_that_spins_is_told_of_no_frames_until_it_sleeps_again() {
        let (wake, watch, port) = (event(false), event(false), event(true));
        let ports = || [port.as_fd()].into_iter();
        let mut set = Set::new(new_epoll().unwrap(), wake.as_fd(), watch.as_fd()).unwrap();
        assert!(!ends_sleep(&set));
        set.put_in(1, ports()).unwrap();
        assert!(ends_sleep(&set));
        set.rest(ports());
        assert!(!ends_sleep(&set) && set.fits(watch.as_fd(), 2), "it has no ports, so others may come");
        set.put_in(2, ports()).unwrap();
        assert!(ends_sleep(&set));
    }

    #[test]
    fn set_with_other_ports_or_another_watch_does_not_fit() {
        let (wake, watch, port) = (event(false), event(false), event(false));
        let mut set = Set::new(new_epoll().unwrap(), wake.as_fd(), watch.as_fd()).unwrap();
        set.put_in(1, [port.as_fd()].into_iter()).unwrap();
        assert!(set.fits(watch.as_fd(), 1) && !set.fits(watch.as_fd(), 2) && !set.fits(port.as_fd(), 1));
    }
}
