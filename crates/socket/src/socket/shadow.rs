//! The shadow of a socket: the kernel's own, behind the fd of the program, and what is known of its contents.

use nearwire_sys::descriptor::Descriptor;
use nearwire_sys::socket::int_option;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// A shadow that gets more and more from this host must not be read for ever.
const OLDER_MOST: u16 = 4096;

/// What is received first: what the shadow has, what waits in the queue, or what the ports bring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// The queue, then the shadow; the ports fill the queue.
    QueueFirst,
    /// What the shadow has came before what waits in the queue: so many datagrams of it, at most, are read first.
    ShadowFirst { datagrams: u16 },
    /// The queue, then the shadow, then the ports: the shadow has datagrams that came before those of the ports, and that the
    /// receive buffer has no room for.
    PortsLast,
}

/// What a receive by the shadow's fd found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShadowSaid {
    /// A datagram or an error, which is taken.
    Read,
    /// The same, and it is still there (MSG_PEEK).
    Peeked,
    /// Nothing.
    Nothing,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Shadow {
    /// One of the program's fds of it.
    pub(crate) fd: Descriptor,
    /// It may have a datagram.
    pub(crate) has_data: bool,
    /// It may have an error.
    pub(crate) has_error: bool,
    /// The error is something in the error queue, and the program wants to be told by POLLPRI (`SO_SELECT_ERR_QUEUE`).
    pub(crate) has_priority: bool,
    /// Its error queue may hold a report that no receive returns (`MSG_ERRQUEUE` alone reads it).
    pub(crate) has_report: bool,
    /// It was connected once, or asked for errors (`IP_RECVERR`): the kernel tells it of ICMP messages.
    pub(crate) hears_errors: bool,
    /// The kernel gathers a datagram of several sends (MSG_MORE): the sends that follow belong to it.
    pub(crate) is_corked: bool,
    /// SO_RCVTIMEO was set to a negative time, which the kernel keeps as "never wait" and does not report.
    pub(crate) never_waits: bool,
    pub(crate) order: Order,
    /// An error that a call could not tell, for the next one: what the kernel keeps in `sk_err`. 0: none.
    pub(crate) pending_error: i32,
    /// Datagrams that it dropped for want of room, as far as it has reported them.
    pub(crate) dropped: u32,
    /// How often it was found that it may have something: what a thread learns from it is old when that changed while it asked.
    pub(crate) news: u32,
}

impl Shadow {
    pub(super) const fn new(fd: Descriptor) -> Shadow {
        Shadow {
            fd,
            has_data: false,
            has_error: false,
            has_priority: false,
            has_report: false,
            hears_errors: false,
            is_corked: false,
            never_waits: false,
            order: Order::QueueFirst,
            pending_error: 0,
            dropped: 0,
            news: 0,
        }
    }

    /// It may have a datagram.
    pub(crate) const fn may_have_data(&mut self) {
        self.has_data = true;
        self.news = self.news.wrapping_add(1);
    }

    /// What it has is read before the queue.
    #[inline]
    pub(crate) const fn is_first(&self) -> bool {
        matches!(self.order, Order::ShadowFirst { .. })
    }

    /// All that it has came before what the ports will bring.
    pub(crate) fn read_first(&mut self) {
        self.may_have_data();
        self.comes_first(OLDER_MOST);
    }

    /// So many datagrams, at most, came before what will wait in the queue.
    pub(crate) fn comes_first(&mut self, datagrams: u16) {
        self.order = match self.order {
            Order::QueueFirst => Order::ShadowFirst { datagrams },
            Order::ShadowFirst { datagrams: before } => Order::ShadowFirst { datagrams: before.max(datagrams) },
            Order::PortsLast => Order::PortsLast,
        };
    }

    /// The queue comes first now. Whether the shadow did.
    pub(crate) fn end_first(&mut self) -> bool {
        let was_first = self.is_first();
        if was_first {
            self.order = Order::QueueFirst;
        }
        was_first
    }

    /// A receive by its fd was tried.
    pub(crate) const fn was_read(&mut self, said: ShadowSaid) {
        if let Order::ShadowFirst { datagrams } = self.order {
            self.order = match (said, datagrams) {
                // What was peeked at is what the next call gets, whatever the ports bring meanwhile.
                (ShadowSaid::Peeked, _) => self.order,
                (ShadowSaid::Nothing, _) | (ShadowSaid::Read, 0 | 1) => Order::QueueFirst,
                (ShadowSaid::Read, more) => Order::ShadowFirst { datagrams: more - 1 },
            };
        } else if matches!((said, self.order), (ShadowSaid::Peeked, Order::QueueFirst)) {
            self.order = Order::ShadowFirst { datagrams: 1 };
        }
    }

    /// Asks the kernel what it has.
    pub(crate) fn look(&mut self) {
        let found = self.events();
        self.has_data = found.contains(PollFlags::IN);
        if !self.has_data {
            self.end_first();
        }
        self.has_error = found.contains(PollFlags::ERR);
        self.has_priority = found.contains(PollFlags::PRI);
    }

    pub(crate) fn events(&self) -> PollFlags {
        polled(self.fd, PollFlags::IN | PollFlags::PRI)
    }

    /// Whether the kernel has something to read for it, as the kernel says; nothing is noted.
    pub(crate) fn is_readable(&self) -> bool {
        self.events().contains(PollFlags::IN)
    }

    /// All that the kernel says of it.
    #[cold]
    pub(crate) fn all_events(&self) -> PollFlags {
        polled(self.fd, PollFlags::all())
    }

    /// Takes the error that the kernel keeps for the next call.
    pub(crate) fn take_error(&self) -> Option<i32> {
        int_option(self.fd, libc::SOL_SOCKET, libc::SO_ERROR).ok().filter(|error| *error != 0)
    }
}

/// What poll(2) says at once; nothing, where it is refused.
fn polled(socket: Descriptor, asked: PollFlags) -> PollFlags {
    let mut polled = [PollFd::new(&socket, asked)];
    poll(&mut polled, Some(&Timespec::default())).map_or(PollFlags::empty(), |_| polled[0].revents())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shadow(order: Order) -> Shadow {
        Shadow { order, ..Shadow::new(Descriptor::new(0).expect("a number")) }
    }

    #[test]
    fn shadow_first_read_so_often_lets_the_queue_be_first() {
        let mut shadow = shadow(Order::QueueFirst);
        shadow.comes_first(2);
        shadow.was_read(ShadowSaid::Read);
        assert!(shadow.is_first());
        shadow.was_read(ShadowSaid::Read);
        assert_eq!(shadow.order, Order::QueueFirst);
    }

    #[test]
    fn shadow_first_found_empty_lets_the_queue_be_first() {
        let mut shadow = shadow(Order::QueueFirst);
        shadow.read_first();
        shadow.was_read(ShadowSaid::Nothing);
        assert_eq!(shadow.order, Order::QueueFirst);
    }

    #[test]
    fn shadow_peeked_at_is_read_next() {
        let mut shadow = shadow(Order::QueueFirst);
        shadow.was_read(ShadowSaid::Peeked);
        assert!(shadow.is_first());
        shadow.was_read(ShadowSaid::Peeked);
        shadow.was_read(ShadowSaid::Read);
        assert_eq!(shadow.order, Order::QueueFirst);
    }

    #[test]
    fn ports_that_come_last_stay_last_until_the_shadow_was_taken_over() {
        let mut shadow = shadow(Order::PortsLast);
        shadow.read_first();
        shadow.was_read(ShadowSaid::Read);
        assert!(!shadow.end_first());
        assert_eq!(shadow.order, Order::PortsLast);
    }
}
