//! Registrations of sockets of ours that the kernel serves, as yet or again.
//!
//! A one-shot registration that has delivered has no equivalent in the kernel but one that delivered there: what is added is armed for
//! `EPOLLERR` and `EPOLLHUP` at least. One that has delivered here is therefore kept out of the kernel's set until the program modifies it,
//! or until another program gets the set by exec(2), which knows nothing of it else.

use std::os::fd::{AsFd, AsRawFd};

use nearwire_frames::FlowSocket;
use nearwire_sys::descriptor::{self, Descriptor, stays_open};
use rustix::event::{PollFd, PollFlags, Timespec, epoll as kernel};
use rustix::fs::fstat;
use rustix::io::Errno;

use super::{Operation, Sets, ready};
use crate::epoll::{Events, Interest, Registration, SetId, Target};
use crate::id::SocketId;

/// How a registration becomes the kernel's.
#[derive(Debug, Clone, Copy)]
struct How {
    /// A child has done it for the sets that are shared.
    by_child: bool,
    /// What was told here, if it still is true of the socket.
    told: Events,
}

/// One of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Registered {
    pub(super) set: SetId,
    pub(super) interest: Interest,
    /// It is one-shot and has delivered here: the kernel's set does not have it, unless it was left to another program.
    is_disarmed: bool,
}

impl Sets {
    /// A socket is accelerated from now on: what the kernel watched is watched here.
    pub(crate) fn accelerated(&mut self, id: SocketId, state: Events) {
        for Registered { set, interest, is_disarmed } in self.waiting.remove(&id).unwrap_or_default() {
            let half = &mut self.halves[set.index()];
            let Some((descriptor, fd)) = half.descriptor.zip(Descriptor::new(interest.fd)) else { continue };
            let is_one_shot = interest.events.contains(Events::ONESHOT);
            let has_delivered = is_disarmed || is_one_shot && has_delivered_in_kernel(descriptor, interest.fd);
            let deleted = kernel::delete(descriptor, fd);
            if !is_disarmed {
                if deleted.is_err() {
                    continue;
                }
                half.kernel_members = half.kernel_members.saturating_sub(1);
            }
            // There cannot be one yet, so nothing is in the way.
            let _ = self.epoll.add(set, id, interest, state);
            if has_delivered {
                self.epoll.disarm(set, interest.fd, Target::Socket(id));
            }
        }
    }

    /// Sockets that the kernel serves, as yet or again, and of which a set is to tell what can be received.
    pub(super) fn kernels_read_in(&self, set: SetId) -> impl Iterator<Item = SocketId> {
        let reads = |known: &Registered| known.interest.events.intersects(Events::ARRIVED);
        let is_in = move |of: &[Registered]| of.iter().any(|known| known.set == set && reads(known));
        self.waiting.iter().filter(move |(_, of)| is_in(of)).map(|(id, _)| *id)
    }

    /// A registration in a shared set was added, modified or deleted here.
    pub(super) fn done_since_fork(&mut self, set: SetId, id: SocketId, operation: Operation, fd: i32) {
        let known = self.since_fork.entry((set, fd)).or_insert((id, operation));
        // What was added after the fork stays new to children, however it is modified.
        if operation != Operation::Modify {
            *known = (id, operation);
        }
    }

    /// Whether a set that others have too was closed here.
    pub(crate) fn has_closed_shared(&self) -> bool {
        self.has_closed_shared
    }

    /// A child claims a socket, and had closed shared sets: it may not have put the socket into the kernel's.
    pub(crate) fn claimed_without_sets(&mut self, id: SocketId) {
        self.claimed_without_sets.push(id);
    }

    /// The reverse: the kernel serves a socket from now on. `was_true`: what could be reported here before. `by_child`: a child has done it for the sets that are shared, as they were
    /// at the fork, and what it has changed, deleted or been notified of since holds.
    pub(crate) fn handed_over(&mut self, id: SocketId, socket: FlowSocket, was_true: Events, by_child: bool) {
        let told = |registration| {
            let told = if self.epoll.has_told(&registration) { was_true } else { Events::empty() };
            (registration, told)
        };
        let registered: Vec<_> = self.epoll.registrations_of(id).map(told).collect();
        let without_sets = self.claimed_without_sets.extract_if(.., |claimed| *claimed == id).count() > 0;
        for (registration, told) in registered {
            let (set, mut interest) = (registration.set, registration.interest);
            if registration.is_armed() {
                let how = How { by_child: by_child && !without_sets, told };
                interest.fd = match names(interest.fd, socket.inode) {
                    true => {
                        self.register(set, interest, how);
                        interest.fd
                    }
                    false => self.register_by_own_number(set, interest, socket, how),
                };
            }
            let is_disarmed = !registration.is_armed();
            self.waiting.entry(id).or_default().push(Registered { set, interest, is_disarmed });
        }
        self.epoll.remove_socket(id);
        if by_child {
            self.delete_again(id);
        }
    }

    /// A child has put a socket into the kernel's sets that are shared, which report what they get back: not by registrations that have reported them.
    pub(crate) fn take_out_of_kernels(&self, id: SocketId) {
        let told = self.epoll.registrations_of(id).filter(|registration| self.epoll.has_told(registration));
        for Registration { set, interest, .. } in told {
            let half = self.halves.get(set.index()).filter(|half| half.is_shared);
            if let Some((set, fd)) = half.and_then(|half| half.descriptor).zip(Descriptor::new(interest.fd)) {
                ready::take_out(set, fd, interest.data);
            }
        }
    }

    fn register(&mut self, id: SetId, interest: Interest, How { by_child, told }: How) {
        let half = &mut self.halves[id.index()];
        let Some((set, fd)) = half.descriptor.zip(Descriptor::new(interest.fd)) else { return };
        let (data, flags) = as_kernel_has(&interest);
        let changed = self.since_fork.get(&(id, interest.fd));
        let registered = match changed.map(|(_, operation)| *operation) {
            None if by_child && half.is_shared => Ok(()),
            Some(Operation::Modify) if by_child => kernel::modify(set, fd, data, flags),
            None => add(set, fd, &interest, told),
            Some(_) => match add(set, fd, &interest, told) {
                // As it was at the fork.
                Err(Errno::EXIST) => kernel::modify(set, fd, data, flags),
                added => added,
            },
        };
        match registered {
            Ok(()) | Err(Errno::EXIST) => half.kernel_members += 1,
            Err(_) => {}
        }
    }

    /// The program has closed the fd that it registered, and has another file at that fd, or none; the registration lives as long as
    /// the socket has an fd (epoll(7), question 6). The kernel gets it by an fd of ours, which no call of the program can name.
    fn register_by_own_number(&mut self, id: SetId, interest: Interest, socket: FlowSocket, how: How) -> i32 {
        let half = &mut self.halves[id.index()];
        if how.by_child && half.is_shared {
            // By a number of the child's.
            half.kernel_members += 1;
            return interest.fd;
        }
        let copied = half.descriptor.zip(descriptor::copy(socket.descriptor.as_fd()).ok());
        let Some((set, own)) = copied else { return interest.fd };
        let number = own.as_raw_fd();
        let added = Descriptor::new(number).map(|own| add(set, own, &interest, how.told));
        half.kernel_members += u32::from(added == Some(Ok(())));
        descriptor::close(own);
        number
    }

    /// A child has put into the kernel's sets what was deleted here since the fork.
    fn delete_again(&mut self, id: SocketId) {
        let deleted = self.since_fork.iter().filter(|(_, done)| **done == (id, Operation::Delete));
        for ((set, fd), _) in deleted {
            let set = self.halves.get(set.index()).and_then(|half| half.descriptor);
            if let Some((set, fd)) = set.zip(Descriptor::new(*fd)) {
                // It may have deleted it too.
                let _ = kernel::delete(set, fd);
            }
        }
    }

    /// Another program gets the socket by exec(2). What has delivered here is put into those sets that it gets too: armed for
    /// `EPOLLERR` and `EPOLLHUP`, which the kernel's own would not be, but there, as the program expects that modifies it. Where there
    /// is such an event already, the set would report it at once: the registration is left out.
    pub(crate) fn leave_disarmed_to_program(&self, id: SocketId) {
        for Registered { set, interest, .. } in
            self.waiting.get(&id).into_iter().flatten().filter(|known| known.is_disarmed)
        {
            let mut fds = self.fds.iter().filter(|(_, of)| *of == set).filter_map(|(fd, _)| Descriptor::new(*fd));
            let Some((kept, fd)) = fds.find(|fd| stays_open(*fd)).zip(Descriptor::new(interest.fd)) else {
                continue;
            };
            if !has_error(fd) {
                let data = kernel::EventData::new_u64(interest.data);
                // There already, as another process that has the set has modified it, it stays as it is.
                let _ = kernel::add(kept, fd, data, kernel::EventFlags::ONESHOT);
            }
        }
    }

    /// What epoll_ctl(2) asks of a registration that the kernel's set does not have; `None`: it has it, or there is none.
    pub(super) fn control_disarmed(
        &mut self,
        id: SocketId,
        set: SetId,
        operation: Operation,
        interest: Interest,
    ) -> Option<Result<(), Errno>> {
        let registered = self.waiting.get_mut(&id)?;
        let is_it = |known: &Registered| known.set == set && known.interest.fd == interest.fd && known.is_disarmed;
        let at = registered.iter().position(is_it)?;
        Some(match operation {
            Operation::Add => Err(Errno::EXIST),
            Operation::Delete => {
                registered.remove(at);
                // It has it where it was left to another program, or modified by another process.
                if let Some((set, fd)) = self.halves[set.index()].descriptor.zip(Descriptor::new(interest.fd)) {
                    let _ = kernel::delete(set, fd);
                }
                Ok(())
            }
            Operation::Modify if interest.events.contains(Events::EXCLUSIVE) => Err(Errno::INVAL),
            Operation::Modify => {
                let half = &mut self.halves[set.index()];
                let (descriptor, fd) = half.descriptor.zip(Descriptor::new(interest.fd))?;
                let (data, flags) = as_kernel_has(&interest);
                // Another process that has the set may have modified it before.
                let done = match kernel::add(descriptor, fd, data, flags) {
                    Err(Errno::EXIST) => kernel::modify(descriptor, fd, data, flags),
                    done => done,
                };
                if done.is_ok() {
                    half.kernel_members += 1;
                    registered[at] = Registered { set, interest, is_disarmed: false };
                }
                done
            }
        })
    }

    /// The kernel did what epoll_ctl(2) asked for.
    pub(super) fn note(&mut self, set: SetId, operation: Operation, id: Option<SocketId>, interest: Interest) {
        let half = &mut self.halves[set.index()];
        match operation {
            Operation::Add => half.kernel_members += 1,
            Operation::Delete => half.kernel_members = half.kernel_members.saturating_sub(1),
            Operation::Modify => {}
        }
        let Some(id) = id else { return };
        let registered = self.waiting.entry(id).or_default();
        registered.retain(|known| (known.set, known.interest.fd) != (set, interest.fd));
        if operation != Operation::Delete {
            registered.push(Registered { set, interest, is_disarmed: false });
        }
    }
}

/// Whether an fd is one of a socket's.
fn names(fd: i32, inode: u64) -> bool {
    Descriptor::new(fd).is_some_and(|fd| fstat(fd).is_ok_and(|found| found.st_ino == inode))
}

/// Adds it to the kernel's set, which tells at once what is true. `told`: of that not these.
fn add(set: Descriptor, fd: Descriptor, interest: &Interest, told: Events) -> Result<(), Errno> {
    let (data, flags) = as_kernel_has(interest);
    let told = if told.is_empty() { told } else { told & ready::true_of(fd, interest.events) };
    kernel::add(set, fd, data, flags)?;
    if !told.is_empty() && !(ready::take_out(set, fd, interest.data) - told).is_empty() {
        // More has come meanwhile.
        kernel::modify(set, fd, data, flags)?;
    }
    Ok(())
}

fn as_kernel_has(interest: &Interest) -> (kernel::EventData, kernel::EventFlags) {
    (kernel::EventData::new_u64(interest.data), kernel::EventFlags::from_bits_retain(interest.events.bits()))
}

/// Whether poll(2) tells what nobody need ask for.
fn has_error(fd: Descriptor) -> bool {
    let mut polled = [PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::empty())];
    rustix::event::poll(&mut polled, Some(&Timespec::default())).is_ok_and(|found| found > 0)
}

/// Whether the kernel has delivered a one-shot registration: it has no event left then.
fn has_delivered_in_kernel(set: Descriptor, fd: i32) -> bool {
    ready::known_to_kernel(set).iter().any(|known| known.fd == fd && (known.events - Events::FLAGS).is_empty())
}
