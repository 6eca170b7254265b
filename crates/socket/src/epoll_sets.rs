//! The program's epoll descriptors: which set each number names, which sockets of ours are registered with the kernel
//! until they are accelerated, and how the rest is divided between the kernel's set and ours ([`crate::epoll`]).

use std::collections::HashMap;

use nearwire_sys::descriptor::Descriptor;
use nearwire_sys::tsc::rough_ticks;
use rustix::event::epoll as kernel;
use rustix::io::Errno;

use crate::epoll::{Delivery, EpollSets, Events, Interest, SetId, Target};
use crate::id::SocketId;
use crate::sockets::Sockets;
use crate::udp_socket::UdpSocket;

/// How long the kernel's half of a set may go unasked while ours has events: see `engine::LOOK_AFTER_TICKS`.
const ASK_KERNEL_AFTER_TICKS: u64 = 40_000;

/// What epoll_ctl(2) is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// `EPOLL_CTL_ADD`.
    Add,
    /// `EPOLL_CTL_MOD`.
    Modify,
    /// `EPOLL_CTL_DEL`.
    Delete,
}

/// Who does what epoll_ctl(2) asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// The original call; when it succeeded, [`Sockets::epoll_noted`].
    Kernel,
    /// It is done.
    Done,
    /// It fails so.
    Failed(Errno),
}

/// What a set of the program is beside its registrations.
#[derive(Debug, Default)]
struct Half {
    /// Numbers it is known by.
    numbers: u32,
    /// One of them.
    descriptor: Option<Descriptor>,
    /// Descriptors registered with the kernel, at most: those that were closed are not counted out.
    kernel_members: u32,
    asked_kernel_ticks: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Sets {
    epoll: EpollSets,
    numbers: HashMap<i32, SetId>,
    halves: Vec<Half>,
    /// Registrations with the kernel of sockets of ours that are not accelerated.
    waiting: HashMap<SocketId, Vec<(SetId, Interest)>>,
}

impl Sets {
    pub(crate) fn opened(&mut self, number: i32) {
        self.closing(number);
        let set = self.epoll.open();
        if self.halves.len() <= set.index() {
            self.halves.resize_with(set.index() + 1, Half::default);
        }
        self.halves[set.index()] = Half { numbers: 1, descriptor: Descriptor::new(number), ..Half::default() };
        self.numbers.insert(number, set);
    }

    #[inline]
    pub(crate) fn find(&self, number: i32) -> Option<SetId> {
        if self.numbers.is_empty() { None } else { self.numbers.get(&number).copied() }
    }

    pub(crate) fn duplicated(&mut self, old: i32, new: i32) {
        let Some(set) = self.find(old) else { return };
        self.halves[set.index()].numbers += 1;
        self.numbers.insert(new, set);
    }

    pub(crate) fn closing(&mut self, number: i32) {
        let Some(set) = self.numbers.remove(&number) else { return };
        let half = &mut self.halves[set.index()];
        half.numbers -= 1;
        if half.numbers > 0 {
            let other = self.numbers.iter().find(|(_, of)| **of == set).map(|(number, _)| *number);
            half.descriptor = other.and_then(Descriptor::new);
            return;
        }
        self.epoll.close(set);
        for registered in self.waiting.values_mut() {
            registered.retain(|(of, _)| *of != set);
        }
    }

    pub(crate) fn remove_socket(&mut self, id: SocketId) {
        self.epoll.remove_socket(id);
        self.waiting.remove(&id);
    }

    /// A socket is accelerated from now on: what the kernel watched is watched here.
    pub(crate) fn accelerated(&mut self, id: SocketId, state: Events) {
        for (set, interest) in self.waiting.remove(&id).unwrap_or_default() {
            let half = &mut self.halves[set.index()];
            let removed = half.descriptor.zip(Descriptor::new(interest.fd)).map(|(set, fd)| kernel::delete(set, fd));
            if removed == Some(Ok(())) {
                half.kernel_members = half.kernel_members.saturating_sub(1);
                // There cannot be one yet, so nothing is in the way.
                let _ = self.epoll.add(set, id, interest, state);
            }
        }
    }

    /// A socket is the kernel's from now on: the other way.
    pub(crate) fn handed_over(&mut self, id: SocketId) {
        let registered: Vec<_> = self.epoll.registrations_of(id).collect();
        for registration in registered {
            let (set, interest) = (registration.set, registration.interest);
            let half = &mut self.halves[set.index()];
            if let Some((set, fd)) = half.descriptor.zip(Descriptor::new(interest.fd)) {
                let flags = kernel::EventFlags::from_bits_retain(interest.events.bits());
                if kernel::add(set, fd, kernel::EventData::new_u64(interest.data), flags).is_ok() {
                    half.kernel_members += 1;
                }
            }
            self.waiting.entry(id).or_default().push((set, interest));
        }
        self.epoll.remove_socket(id);
    }

    /// Something happened at a socket.
    #[inline]
    pub(crate) fn raise(&mut self, id: SocketId, is_data: bool, is_error: bool) {
        let mut happened = Events::empty();
        if is_data {
            happened |= Events::ARRIVED;
        }
        if is_error {
            happened |= Events::ERR;
        }
        self.epoll.raise(id, happened);
        // Sleeping threads all wake and look, so nobody is chosen.
        while self.epoll.next_wake().is_some() {}
    }

    fn note(&mut self, set: SetId, operation: Operation, id: Option<SocketId>, interest: Interest) {
        let half = &mut self.halves[set.index()];
        match operation {
            Operation::Add => half.kernel_members += 1,
            Operation::Delete => half.kernel_members = half.kernel_members.saturating_sub(1),
            Operation::Modify => {}
        }
        let Some(id) = id else { return };
        let registered = self.waiting.entry(id).or_default();
        registered.retain(|(of, known)| (*of, known.fd) != (set, interest.fd));
        if operation != Operation::Delete {
            registered.push((set, interest));
        }
    }
}

/// What an attempt to collect events found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collected {
    /// Events delivered.
    pub count: usize,
    /// The kernel's half has members and was not asked lately.
    pub ask_kernel: bool,
}

impl Sockets {
    /// epoll_create(2) gave a number.
    pub fn epoll_opened(&mut self, number: i32) {
        self.sets.opened(number);
    }

    /// Decides who does what epoll_ctl(2) asks for, and does it where it is ours.
    pub fn epoll_control(&mut self, set: i32, operation: Operation, interest: Interest) -> Control {
        let Some(set) = self.sets.find(set) else { return Control::Kernel };
        if operation != Operation::Delete {
            self.settle_if_bound(interest.fd);
        }
        let Some(id) = self.find(interest.fd) else { return Control::Kernel };
        if !self.get(id).is_some_and(UdpSocket::is_answered_here) {
            return Control::Kernel;
        }
        let state = self.readiness_of(id);
        let target = Target::Socket(id);
        let done = match operation {
            Operation::Add => self.sets.epoll.add(set, id, interest, state),
            Operation::Modify => self.sets.epoll.modify(set, target, interest, |_| state),
            Operation::Delete => self.sets.epoll.remove(set, interest.fd, target),
        };
        while self.sets.epoll.next_wake().is_some() {}
        self.wake_sleepers();
        match done {
            Ok(()) => Control::Done,
            Err(error) => Control::Failed(error.errno()),
        }
    }

    /// The kernel did what epoll_ctl(2) asked for.
    pub fn epoll_noted(&mut self, set: i32, operation: Operation, interest: Interest) {
        let Some(set) = self.sets.find(set) else { return };
        if let Some(inner) = self.sets.find(interest.fd) {
            self.note_nested(set, inner, operation, interest);
        }
        let id = self.find(interest.fd);
        self.sets.note(set, operation, id, interest);
    }

    fn note_nested(&mut self, outer: SetId, inner: SetId, operation: Operation, interest: Interest) {
        let (sets, mut state) = self.sets_and_state();
        // The kernel accepted it, so it is neither there twice nor missing.
        let _ = match operation {
            Operation::Add => sets.epoll.add_set(outer, inner, interest, &mut state),
            Operation::Modify => sets.epoll.modify(outer, Target::Set(inner), interest, &mut state),
            Operation::Delete => sets.epoll.remove(outer, interest.fd, Target::Set(inner)),
        };
    }

    /// Whether epoll_wait(2) on a number concerns accelerated sockets now, or may while it waits.
    #[must_use]
    pub fn epoll_concerns(&self, number: i32) -> bool {
        self.sets.find(number).is_some() && self.socket_count() > 0
    }

    /// Takes in what there is and delivers up to `most` events. `first`: of this call of the program's, which sees
    /// what the kernel has at once.
    pub fn epoll_collect(
        &mut self,
        number: i32,
        most: usize,
        first: bool,
        deliver: impl FnMut(Delivery),
    ) -> Option<Collected> {
        let set = self.sets.find(number)?;
        self.take_in();
        let (sets, state) = self.sets_and_state();
        let count = sets.epoll.collect(set, most, state, deliver);
        while sets.epoll.next_wake().is_some() {}
        let half = &mut sets.halves[set.index()];
        let now_ticks = rough_ticks();
        let is_due = now_ticks.wrapping_sub(half.asked_kernel_ticks) > ASK_KERNEL_AFTER_TICKS;
        let ask_kernel = half.kernel_members > 0 && count < most && (is_due || (first && count == 0));
        if ask_kernel {
            half.asked_kernel_ticks = now_ticks;
        }
        Some(Collected { count, ask_kernel })
    }

    /// Whether poll(2) on an epoll descriptor would find events of accelerated sockets.
    pub fn epoll_is_ready(&mut self, number: i32) -> Option<bool> {
        let set = self.sets.find(number)?;
        let (sets, state) = self.sets_and_state();
        Some(sets.epoll.is_ready(set, state))
    }

    /// Whether a number names an epoll set with accelerated sockets, directly or in sets inside.
    #[must_use]
    pub fn is_epoll_of_ours(&self, number: i32) -> bool {
        self.sets.find(number).is_some_and(|set| !self.sets.epoll.is_empty(set))
    }
}
