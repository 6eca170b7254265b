//! The program's epoll fds: which set each fd names, which sockets of ours are registered with the kernel
//! until they are accelerated, and how the rest is divided between the kernel's set and ours ([`crate::epoll`]).

mod calls;
mod in_kernel;
mod moving;
pub mod plain;
mod ready;

use std::collections::HashMap;
use std::os::fd::OwnedFd;

use nearwire_sys::descriptor::{Descriptor, place};
use rustix::event::{EventfdFlags, epoll as kernel, eventfd};
use rustix::io::Errno;

use crate::epoll::{EpollSets, Events, SetId};
use crate::id::SocketId;
use in_kernel::Registered;

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
    fds: u32,
    /// One of them.
    descriptor: Option<Descriptor>,
    /// Descriptors registered with the kernel, at most: those that were closed are not counted out.
    kernel_members: u32,
    asked_kernel_ticks: u64,
    /// Other processes have it too, since a fork.
    is_shared: bool,
    /// Ours filled the room that the program gave, and nothing had happened since the call before: it does not read what
    /// it is notified of, or has much to do. The kernel's half is next.
    is_kernels_turn: bool,
    /// The kernel's half filled the room because it had not been asked for long, as it never has of a program that works
    /// between its calls. Ours is next.
    is_our_turn: bool,
    /// `Sets::raised` at the last call.
    raised: u64,
    /// Whether sockets concern it, and at which generation that was found.
    concerns: Option<(u64, Concerns)>,
    /// The kernel's set has the event that calls plain waiters.
    is_called: bool,
    /// A thread has waited for it: it stays in this engine.
    is_settled: bool,
    /// A call has waited for it: what comes into it is used.
    is_used: bool,
}

/// Whether accelerated sockets concern a wait for a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Concerns {
    /// No socket of ours is in it: the kernel alone.
    No,
    /// A socket is in it that the kernel serves as yet: sleep at once.
    Later,
    /// An accelerated socket is in it.
    Now,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Sets {
    epoll: EpollSets,
    fds: HashMap<i32, SetId>,
    halves: Vec<Half>,
    /// Registrations of sockets of ours that are not accelerated.
    waiting: HashMap<SocketId, Vec<Registered>>,
    /// Times that something happened at a socket.
    raised: u64,
    /// Always readable; put into the kernel's set to call plain waiters.
    call: Option<OwnedFd>,
    /// What was done in shared sets since the last fork, by set and fd: children do not know of it.
    since_fork: HashMap<(SetId, i32), (SocketId, Operation)>,
    /// A shared set was closed here: what is registered in it another process has to put into the kernel's.
    has_closed_shared: bool,
    /// Sockets that children have claimed who had closed shared sets.
    claimed_without_sets: Vec<SocketId>,
    /// Numbers of sets that were closed here, and that the first engine gave out.
    freed: Vec<SetId>,
}

impl Sets {
    /// Those of an engine that is not the first, which gives out the numbers.
    pub(crate) fn following() -> Sets {
        Sets { epoll: EpollSets::following(), ..Sets::default() }
    }

    pub(crate) fn opened(&mut self, fd: i32) {
        self.closing(fd);
        let set = self.epoll.open();
        if self.halves.len() <= set.index() {
            self.halves.resize_with(set.index() + 1, Half::default);
        }
        self.halves[set.index()] = Half { fds: 1, descriptor: Descriptor::new(fd), ..Half::default() };
        self.fds.insert(fd, set);
    }

    /// How many accelerated sockets and sets are in the set that an fd names.
    pub(crate) fn accelerated_in(&self, fd: i32) -> usize {
        self.find(fd).map_or(0, |set| self.epoll.len(set))
    }

    #[inline]
    pub(crate) fn find(&self, fd: i32) -> Option<SetId> {
        if self.fds.is_empty() { None } else { self.fds.get(&fd).copied() }
    }

    pub(crate) fn duplicated(&mut self, old: i32, new: i32) {
        let Some(set) = self.find(old) else { return };
        self.halves[set.index()].fds += 1;
        self.fds.insert(new, set);
    }

    pub(crate) fn closing(&mut self, fd: i32) {
        plain::closing(fd);
        let Some(set) = self.fds.remove(&fd) else { return };
        let half = &mut self.halves[set.index()];
        half.fds -= 1;
        if half.fds > 0 {
            let other = self.fds.iter().find(|(_, of)| **of == set).map(|(fd, _)| *fd);
            half.descriptor = other.and_then(Descriptor::new);
            return;
        }
        self.has_closed_shared |= half.is_shared;
        self.since_fork.retain(|(of, _), _| *of != set);
        self.freed.extend(self.epoll.close(set));
        for registered in self.waiting.values_mut() {
            registered.retain(|registered| registered.set != set);
        }
    }

    pub(crate) fn remove_socket(&mut self, id: SocketId) {
        self.epoll.remove_socket(id);
        self.waiting.remove(&id);
        self.since_fork.retain(|_, (of, _)| *of != id);
    }

    /// Processes part: what is registered now is known to both, but not to children of earlier forks that live (`has_others`).
    pub(crate) fn forked(&mut self, has_others: bool) {
        if !has_others {
            self.since_fork.clear();
        }
        self.has_closed_shared = false;
        self.halves.iter_mut().for_each(|half| half.is_shared = half.fds > 0);
    }

    /// No other process has the sets any more.
    pub(crate) fn children_ended(&mut self) {
        self.since_fork.clear();
        self.halves.iter_mut().for_each(|half| half.is_shared = false);
    }

    /// Whether a socket is registered in any set here.
    pub(crate) fn has(&self, id: SocketId) -> bool {
        self.epoll.registrations_of(id).next().is_some()
    }

    /// Whether a set has reported all that has happened at a socket, by an edge-triggered registration.
    pub(crate) fn have_told(&self, id: SocketId) -> bool {
        self.epoll.registrations_of(id).any(|registration| self.epoll.has_told(&registration))
    }

    /// Something happened at a socket; whether a set can tell more than before.
    #[inline]
    pub(crate) fn raise(&mut self, id: SocketId, happened: Events) -> bool {
        self.raised = self.raised.wrapping_add(1);
        self.epoll.raise(id, happened)
    }

    /// Calls the threads that wait plainly for sets that sockets are in now.
    pub(crate) fn call_plain_waiters(&mut self) {
        for (fd, set) in &self.fds {
            let half = &mut self.halves[set.index()];
            if half.is_called || !plain::is_waited_for(*fd) {
                continue;
            }
            if self.call.is_none() {
                self.call = eventfd(1, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok().map(place);
            }
            if let (Some(call), Some(descriptor)) = (&self.call, Descriptor::new(*fd)) {
                let data = kernel::EventData::new_u64(plain::choose_call_data());
                half.is_called = kernel::add(descriptor, call, data, kernel::EventFlags::IN).is_ok();
            }
        }
    }

    fn plain_waiters_left(&mut self, set: SetId) {
        let is_waited_for = self.fds.iter().any(|(fd, of)| *of == set && plain::is_waited_for(*fd));
        let half = &mut self.halves[set.index()];
        if !is_waited_for
            && half.is_called
            && let (Some(call), Some(descriptor)) = (&self.call, half.descriptor)
        {
            half.is_called = kernel::delete(descriptor, call).is_err();
        }
    }
}

/// What the caller knows of the kernel's half of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Nothing: the first look of a call, or the half became ready.
    NotYet,
    /// It was asked in this call.
    Before,
    /// It was asked just now, since [`AskKernel::First`] said so.
    JustNow,
}

/// Whether to ask the kernel's half of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskKernel {
    /// No.
    No,
    /// Yes, for the room that is left.
    Too,
    /// Yes, and it has all the room: nothing was delivered. Collect again for what is left, with [`Asked::JustNow`].
    First,
}

/// What an attempt to collect events found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collected {
    /// Events delivered.
    pub count: usize,
    /// What to do about the kernel's half.
    pub ask_kernel: AskKernel,
}
