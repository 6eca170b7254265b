//! All that ends a thread's sleep, behind one descriptor: a wait for one takes the kernel half a microsecond less than
//! poll(2) of five, however many queues a port has.
//!
//! A frame that arrives while its port is in such a set costs whoever sends it a call into the set, also while the thread is
//! awake, so the ports of a thread that spins are taken out again ([`Set::rest`]).

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

use nearwire_sys::descriptor::place;
use rustix::event::epoll::{CreateFlags, EventData, EventFlags, add, create, delete};

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
    pub(crate) fn new(wake: BorrowedFd<'_>, watch: BorrowedFd<'_>) -> rustix::io::Result<Set> {
        let set = Set { epoll: place(create(CreateFlags::CLOEXEC)?), watch: watch.as_raw_fd(), generation: None };
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
