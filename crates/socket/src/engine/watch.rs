//! One epoll descriptor over everything that is not a frame: shadows with data or errors of the kernel's, news of its
//! tables, and frames for those that sleep. A spinning call looks at it now and then; a sleeping one waits for it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nearwire_sys::descriptor::Descriptor;
use rustix::event::Timespec;
use rustix::event::epoll::{Event, EventData, EventFlags, add, delete, wait};
use rustix::io::Errno;

/// What the kernel has at a shadow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// A datagram.
    pub data: bool,
    /// An error, as after an ICMP message, or something in the error queue.
    pub error: bool,
}

/// What else there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Other {
    /// News of the kernel's tables.
    Tables,
    /// A router reported a packet that was too long.
    PathErrors,
    /// The agent that holds a port has reported something, or is gone.
    Holder,
}

/// Tokens above those of shadows.
const TABLES: u64 = 1 << 32;
const PORT: u64 = 2 << 32;
const PATH_ERRORS: u64 = 3 << 32;
const HOLDER: u64 = 4 << 32;

const EVENTS_AT_ONCE: usize = 32;

/// See the module.
#[derive(Debug)]
pub struct Watch {
    epoll: OwnedFd,
}

impl Watch {
    pub(crate) fn open() -> io::Result<Watch> {
        Ok(Watch { epoll: super::new_epoll()? })
    }

    pub(super) fn add_tables(&self, tables: BorrowedFd<'_>) -> io::Result<()> {
        Ok(add(&self.epoll, tables, EventData::new_u64(TABLES), EventFlags::IN)?)
    }

    pub(super) fn add_path_errors(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        Ok(add(&self.epoll, socket, EventData::new_u64(PATH_ERRORS), EventFlags::IN)?)
    }

    pub(super) fn add_port(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        Ok(add(&self.epoll, socket, EventData::new_u64(PORT), EventFlags::IN)?)
    }

    /// Edge-triggered: a holder that is gone is reported once. Several ports may have one.
    pub(super) fn add_holder(&self, connection: BorrowedFd<'_>) -> io::Result<()> {
        self.add_edges(connection, HOLDER, EventFlags::IN)
    }

    /// Edge-triggered: what is seen is remembered at the socket until the kernel has no more.
    pub(crate) fn add_shadow(&self, shadow: Descriptor, token: u32) -> io::Result<()> {
        self.add_edges(shadow.as_fd(), u64::from(token), EventFlags::IN | EventFlags::ERR)
    }

    /// What is there already stays.
    fn add_edges(&self, fd: BorrowedFd<'_>, token: u64, flags: EventFlags) -> io::Result<()> {
        match add(&self.epoll, fd, EventData::new_u64(token), flags | EventFlags::ET) {
            Err(Errno::EXIST) => Ok(()),
            added => Ok(added?),
        }
    }

    pub(super) fn remove(&self, descriptor: BorrowedFd<'_>) {
        // Gone already, where the program closed it behind our back.
        let _ = delete(&self.epoll, descriptor);
    }

    /// What there is, without waiting.
    pub(crate) fn look(&self, mut shadow: impl FnMut(u32, Seen), mut other: impl FnMut(Other)) {
        let mut events = [Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; EVENTS_AT_ONCE];
        loop {
            let Ok(found) = wait(&self.epoll, &mut events[..], Some(&Timespec::default())) else { return };
            let mut shadows = 0;
            for event in &events[..found] {
                match event.data.u64() {
                    TABLES => other(Other::Tables),
                    PATH_ERRORS => other(Other::PathErrors),
                    HOLDER => other(Other::Holder),
                    PORT => {}
                    token => {
                        shadows += 1;
                        let flags = event.flags;
                        let data = flags.contains(EventFlags::IN);
                        let error = flags.intersects(EventFlags::ERR | EventFlags::HUP);
                        shadow(token as u32, Seen { data, error });
                    }
                }
            }
            // Level-triggered ones come again and again; only shadows can fill several rounds.
            if found < EVENTS_AT_ONCE || shadows == 0 {
                return;
            }
        }
    }

    /// The descriptor to sleep on.
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}
