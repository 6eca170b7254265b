//! What a process does with sockets that others have too.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use nearwire_sys::descriptor::{Descriptor, inode_of, stays_open};
use nearwire_sys::own_stack;
use rustix::process::{getpid, getppid};

use super::answer::ANSWER_WITHIN;
use super::parent::Parent;
use super::{CLAIM_REASON, CLAIMED_WITHOUT_SETS, Children, Inherited, ROUNDS_MOST};
use crate::direct;
use crate::engine::{Engine, Watch};
use crate::engines::Moved;
use crate::epoll::Events;
use crate::host::Host;
use crate::id::SocketId;
use crate::kept::local_address;
use crate::reason::Reason;
use crate::requeue::{Altered, requeue};
use crate::sending::Leaving;
use crate::sleepers::Sleepers;
use crate::socket::{Accelerated, Service, Socket};
use crate::sockets::{EngineState, Sockets};

impl<H: Host> Sockets<H> {
    /// fork(2) follows.
    pub fn prepare_fork(&mut self) {
        // What is held leaves before what the child sends.
        self.end_send_run();
        // What earlier children said is about registrations of before this fork.
        let has_others = self.has_children();
        self.follow_children();
        self.settle_young();
        let has_connections = self.share_streams(has_others);
        let has_sockets = self.table.sockets().any(|socket| socket.is_accelerated() || socket.leftover.is_some());
        // What comes to a port only one of the two processes has, and the other takes it from that one.
        if has_sockets && !self.asks_agent() {
            self.use_all_sockets();
        }
        if !(has_connections || has_sockets) {
            return;
        }
        self.children.forked = true;
        let agent = self.host.known_agent();
        for socket in self.table.sockets_mut() {
            let is_shared_already = socket.is_inherited || (socket.is_of_children && has_others);
            let before = socket.shared_by_agent.filter(|_| is_shared_already);
            (socket.is_of_children, socket.shared_by_agent) = (true, before.or(agent));
        }
        self.children.family.descendants().before_fork();
        self.children.pid = Some(getpid());
        // Before the fork, for both.
        let _ = (self.children.family.words(), self.children.family.bell());
        self.sets.forked(has_others);
        if self.table.sockets().any(|socket| socket.has_flows() || socket.leftover.is_some()) {
            self.pause_for_fork();
        }
        self.children.since_fork = self.watch_for_child();
    }

    /// The kernel gets what comes from now on, and what waits.
    fn pause_for_fork(&mut self) {
        let now = self.time();
        let Some(engine) = self.engine() else { return };
        let is_paused = engine.pause();
        let _ = (0..ROUNDS_MOST).take_while(|_| engine.poll_all(now) > 0).count();
        // What the kernel got for want of room is behind what was in the rings, which goes to it now.
        if self.is_overflow_next() {
            self.follow_overflow();
        }
        self.children.paused = true;
        if !is_paused {
            // The agent has ended, and the kernel has not taken its program down.
            self.children.has_what_stays = true;
            self.answers_children(true);
        }
        self.raise_readable();
        self.tell_of_shadows(&[]);
        for id in self.ids() {
            let Some((socket, engine)) = self.with_engine(id) else { continue };
            let waits = socket.endpoint().is_some_and(|endpoint| engine.stack_ref().udp_waiting(endpoint) > 0);
            let stays = waits && self.would_be_chosen_anew(id);
            let Some(socket) = self.get(id) else { continue };
            if waits && !stays {
                // What the shadow has of a socket that the kernel serves is newer than what waits here, and goes behind it.
                if !socket.is_accelerated() && socket.shadow.is_readable() {
                    self.take_over(id);
                }
                self.give_waiting_back(id, false);
            }
            if stays {
                // A child that reads it waits for the answer, also while the thread starts that gives it.
                self.children.has_what_stays = true;
                self.answers_children(true);
            }
            self.drop_leftover_if_read(id, false);
        }
    }

    /// A child puts sockets into the kernel's sets, which report what is true at that time. Sets have reported what came before the fork; this
    /// tells the child what came afterwards. `None`: no set has reported a socket, or there can be no watch.
    fn watch_for_child(&self) -> Option<Watch> {
        let told = |id: &SocketId| self.get(*id).is_some_and(Socket::is_answered_here) && self.sets.have_told(*id);
        let mut told = self.ids().filter(told).peekable();
        told.peek()?;
        let watch = Watch::open().ok()?;
        for id in told {
            watch.add_shadow(self.get(id)?.shadow.fd, id.index() as u32).ok()?;
        }
        watch.look(|_, _| (), |_| ());
        Some(watch)
    }

    /// In the child: sets report what has come since the fork. Where that is not known they report what is true.
    fn hear_since_fork(&mut self, id: SocketId, parent: &Parent) {
        let Some(watch) = &parent.since_fork else {
            self.sets.raise(id, Events::empty());
            return;
        };
        let sets = &mut self.sets;
        watch.look(
            |token, seen| {
                let mut happened = Events::empty();
                happened.set(Events::ARRIVED, seen.data);
                happened.set(Events::ERR, seen.error);
                sets.raise(SocketId::new(token), happened);
            },
            |_| (),
        );
    }

    /// Whether the kernel might give what waits at a socket to another one of its port, in this process or, where an agent lets several have
    /// it, in others. It stays here then, until somebody else reads the socket.
    fn would_be_chosen_anew(&mut self, id: SocketId) -> bool {
        if self.beside(id).next().is_some() {
            return true;
        }
        let shared = self.get(id).filter(|socket| socket.has_reuse_port()).map(|socket| socket.shadow.fd);
        let Some(shadow) = shared.filter(|_| self.asks_agent()) else { return false };
        local_address(shadow).map_or(true, |local| self.may_others_get(local))
    }

    /// In the parent. Whether datagrams stayed here that a child may want before this process calls again: the timer thread has to give them.
    pub fn after_fork_in_parent(&mut self) -> bool {
        self.children.since_fork = None;
        self.children.family.descendants().after_fork();
        std::mem::take(&mut self.children.has_what_stays)
    }

    /// Whether there may be children that have sockets of this process. What they said is followed before they are forgotten.
    pub(crate) fn has_children(&mut self) -> bool {
        if !self.children.forked || !self.children.family.descendants().have_ended() {
            return self.children.forked;
        }
        self.follow_children();
        self.children.forked = false;
        self.sets.children_ended();
        false
    }

    /// This process is the child of a fork. `was_prepared`: by [`Sockets::prepare_fork`]; else the filters are in force, and what
    /// answers a datagram of the child's would be the parent's. `others`: the parent's other engines, all of whose sockets this one has
    /// from now on; `moved` hears of each.
    pub fn after_fork_in_child(
        &mut self,
        was_prepared: bool,
        others: impl IntoIterator<Item = Sockets<H>>,
        mut moved: impl FnMut(Moved),
    ) {
        direct::clear_all();
        self.forget_streams();
        self.claims_to_send = !was_prepared;
        let parent = self.leave_engine_to_parent();
        for mut other in others {
            let _ = other.leave_engine_to_parent();
            self.take_all_of(other, &mut moved);
        }
        self.no_others();
        let descendants = std::mem::take(&mut *self.children.family.descendants()).in_child();
        let streams = std::mem::take(&mut self.children.streams).in_child(&parent, was_prepared);
        self.inherits |= streams.are_inherited();
        self.children = Children { streams, ..Children::default() };
        *self.children.family.descendants() = descendants;
        self.own_inodes.forked();
        self.begin_page();
    }

    /// In the child of a fork: what an engine has is the parent's, whose sockets it serves.
    fn leave_engine_to_parent(&mut self) -> Arc<Parent> {
        let has_agent = self.asks_agent();
        let filters = match std::mem::replace(&mut self.engine, EngineState::Closed) {
            EngineState::Open(engine) => engine.into_filters_of_parent(),
            EngineState::Closed | EngineState::Refused(..) => Vec::new(),
        };
        self.host.forked();
        let family = &self.children.family;
        let (words, bell) = (family.words.get().cloned(), family.bell.get().cloned());
        let since_fork = self.children.since_fork.take();
        let parent = Arc::new(Parent { pid: self.children.pid.or_else(getppid), filters, words, bell, since_fork });
        for socket in self.table.sockets_mut() {
            (socket.leftover, socket.shadow.has_data, socket.shadow.has_error) = (None, false, false);
            socket.is_inherited = true;
            if socket.is_shared_with_others() && has_agent {
                // The agent hears of this process when it uses the socket too.
                let (inode, parent) = (socket.file.inode, parent.clone());
                socket.service = Service::Kernel(Reason::NotUsed.into());
                socket.inherited = Some(Inherited { flows: Vec::new(), inode, parent, is_free: true });
                self.inherits = true;
            }
            if !socket.is_accelerated() {
                continue;
            }
            let is_free = has_agent && !socket.is_used;
            let reason = if is_free { Reason::NotUsed } else { Reason::AfterFork };
            let before = std::mem::replace(&mut socket.service, Service::Kernel(reason.into()));
            if let Service::Accelerated(Accelerated { flows, inode, .. }) = before {
                socket.inherited = Some(Inherited { flows, inode, parent: parent.clone(), is_free });
                self.inherits = true;
            }
        }
        self.sleepers = Sleepers::default();
        // What is held is the parent's, and so is the timer thread.
        self.leaving = Leaving::new(&self.config);
        self.sets.forked(false);
        parent
    }

    /// Does what children asked for, and has filters that were paused for them in force again.
    #[inline]
    pub(crate) fn follow_children(&mut self) {
        if self.children.want_something() {
            self.do_what_children_want();
        }
    }

    /// In the first call after a fork: the agent is asked, which goes deep.
    #[cold]
    #[inline(never)]
    fn do_what_children_want(&mut self) {
        own_stack::run(|| self.do_what_children_want_here());
    }

    fn do_what_children_want_here(&mut self) {
        if std::mem::take(&mut self.children.answered_before_exec) {
            self.answers_children(true);
        }
        if std::mem::take(&mut self.children.paused)
            && let Some(engine) = self.engine()
        {
            engine.resume();
            self.look();
            self.order_what_came_meanwhile();
            self.children.wants_timer_thread |= !self.children.family.descendants().have_ended();
        }
        self.wish_for_timer_thread();
        self.follow_claims();
    }

    /// Gives children what they claimed.
    pub(crate) fn follow_claims(&mut self) {
        for (id, reason) in std::mem::take(&mut self.children.claims) {
            // It had this process's sets, and left them as they are.
            self.give_back(id, reason, false);
        }
        let claimed = self.children.claimed();
        if std::mem::replace(&mut self.children.followed, claimed) == claimed {
            return;
        }
        let Some(words) = self.children.family.words.get().cloned() else { return };
        self.follow_claimed_streams();
        for id in self.ids() {
            let Some(inode) = self.get(id).and_then(Socket::inode) else { continue };
            let Some(word) = words.get(id.index() + 1).filter(|word| word.load(Relaxed) >> 8 == inode) else {
                continue;
            };
            let word = word.swap(0, Relaxed);
            if word != 0 {
                let reason = Reason::ALL.get((word & CLAIM_REASON) as usize).copied().unwrap_or(Reason::ReadByChild);
                if word & CLAIMED_WITHOUT_SETS != 0 {
                    self.sets.claimed_without_sets(id);
                }
                self.give_back(id, reason, true);
            }
        }
    }

    /// The shadows have what came while the filters were paused: it is older than what the ports will bring, and newer than what
    /// could not be given back and waits here still.
    fn order_what_came_meanwhile(&mut self) {
        for id in self.ids() {
            let Some((socket, engine)) = self.with_engine(id) else { continue };
            let Some(endpoint) = socket.endpoint().filter(|_| socket.is_accelerated()) else { continue };
            let waits_here = engine.stack_ref().udp_waiting(endpoint) > 0;
            if socket.shadow.is_first() || (socket.shadow.has_data && !waits_here) {
                socket.shadow.read_first();
            } else if socket.shadow.has_data {
                self.take_over(id);
            }
        }
        self.raise_readable();
    }

    /// Gives a socket to the kernel, and what waits with it. `by_child`: a child has registered it with the kernel's
    /// epoll sets that both have.
    pub(crate) fn give_back(&mut self, id: SocketId, reason: Reason, by_child: bool) {
        let flows = match self.get(id).map(|socket| &socket.service) {
            Some(Service::Accelerated(Accelerated { flows, .. })) => flows.clone(),
            Some(Service::Open) if self.get(id).is_some_and(is_undecided) => return self.hand_over(id, reason),
            _ => return,
        };
        self.hand_over_to(id, reason, by_child);
        self.give_waiting_back(id, by_child);
        if let Some(engine) = self.engine() {
            engine.restore_flows(&flows);
        }
        self.drop_leftover_if_read(id, by_child);
    }

    /// The socket an fd names is used in a way that its parent, if it was inherited, must know of.
    #[inline]
    pub(crate) fn claim_fd(&mut self, fd: i32) {
        if self.inherits
            && let Some(id) = self.find(fd)
        {
            self.claim_stream(fd);
            self.claim(id, Reason::ReadByChild);
        }
    }

    /// Takes an inherited socket from the parent.
    #[cold]
    pub(crate) fn claim(&mut self, id: SocketId, reason: Reason) {
        let Some(inherited) = self.get_mut(id).and_then(|socket| socket.inherited.take()) else { return };
        self.hear_since_fork(id, &inherited.parent);
        if inherited.is_free && reason == Reason::ReadByChild {
            return self.take_free(id);
        }
        let Inherited { flows, inode, parent, .. } = inherited;
        let Some(shadow) = self.get(id).map(|socket| socket.shadow.fd) else { return };
        // The parent changes what is in the kernel's sets by then, and it may learn of the claim before the agent reports that its flows have ended.
        self.put_into_kernels_sets(id, false);
        let claims = parent.words.as_ref().and_then(|words| words.get(id.index() + 1)).and_then(|word| {
            let without_sets = if self.sets.has_closed_shared() { CLAIMED_WITHOUT_SETS } else { 0 };
            word.store(inode << 8 | without_sets | reason as u64, Relaxed);
            parent.note_claim()
        });
        for filters in &parent.filters {
            flows.iter().for_each(|flow| filters.withdraw(*flow, shadow));
        }
        if let Some(claims) = claims {
            parent.await_answer(claims, ANSWER_WITHIN, &self.host);
        }
        if parent.has_ended() && reason == Reason::ReadByChild {
            self.settle_anew(id);
        } else if flows.is_empty() || parent.filters.is_empty() {
            // The parent had no port any more, and another process may have the flow since.
            self.leave_flow_of_others(id);
        }
    }

    /// Looks now and then whether the other processes that used sockets of this one have ended: the calls for these are the kernel's, and look
    /// at nothing.
    #[inline]
    pub(crate) fn follow_shared_sockets(&mut self) {
        if self.has_shared_sockets {
            self.look_if_quiet();
        }
    }

    #[cold]
    fn look_if_quiet(&mut self) {
        let now = self.time();
        if self.engine_ref().is_some_and(|engine| engine.is_quiet(now)) {
            self.look();
        }
    }

    /// The last process at sockets that several used has them again.
    pub(crate) fn take_those_alone(&mut self) {
        for cookie in self.engine().map(Engine::take_alone).unwrap_or_default() {
            let is_it = |id: &SocketId| self.get(*id).is_some_and(|socket| socket.is_shared_with_others_as(cookie));
            if let Some(id) = self.ids().find(is_it) {
                self.settle_anew(id);
            }
        }
        let is_shared = |socket: &Socket| socket.is_shared_with_others();
        self.has_shared_sockets = self.table.sockets().any(is_shared);
    }

    /// Decides anew who serves a socket that was another process's.
    fn settle_anew(&mut self, id: SocketId) {
        let Some(socket) = self.get_mut(id) else { return };
        socket.service = Service::Open;
        let (inode, peer) = (socket.file.inode, socket.ends.peer());
        self.own_inodes.add(inode);
        self.settle(id, peer);
    }

    /// An inherited socket that nobody has used yet is this process's, unless another one is faster.
    fn take_free(&mut self, id: SocketId) {
        self.settle_anew(id);
        if self.get(id).is_some_and(Socket::is_accelerated) {
            let state = self.readiness_of(id);
            self.sets.raise(id, state);
            self.announce_inherited();
        } else {
            if !self.get(id).is_some_and(Socket::is_shared_with_others) {
                // What comes is the kernel's, also where another process has the flow or will want it.
                self.leave_flow_of_others(id);
            }
            self.await_what_waits_elsewhere(id);
            self.put_into_kernels_sets(id, false);
        }
    }

    /// A thread of this process waits for what these fds name: what is free of it is the process's.
    pub(crate) fn claim_free(&mut self, fds: &[i32]) {
        if !self.inherits {
            return;
        }
        for id in self.all_of(fds, &[]).sockets() {
            if self.get(*id).is_some_and(Socket::is_free) {
                self.claim(*id, Reason::ReadByChild);
            }
        }
    }

    /// A child that executed another program is no child any more, and that program may have sockets of this process: the agent was told, and has
    /// taken their flows, so what waits at them goes to the kernel.
    pub(crate) fn hear_of_programs_executed(&mut self) {
        if self.asks_agent() {
            self.look();
        }
    }

    /// The process ends, or its sockets are closed by exec(2): what waits at those that others have too is theirs.
    pub fn leave_to_others(&mut self) {
        let has_children = self.has_children();
        if !has_children && self.table.sockets().any(|socket| socket.is_of_children && has_something(socket)) {
            self.hear_of_programs_executed();
        }
        for id in self.ids() {
            let is_of_others = |socket: &Socket| socket.is_inherited || has_children;
            if self.get(id).is_some_and(|socket| has_something(socket) && is_of_others(socket)) {
                self.give_back(id, Reason::AfterFork, false);
                self.leave_leftover(id);
            }
        }
    }

    /// Sets were inherited too, and sockets in them are registered nowhere in the kernel.
    pub(crate) fn claim_registered(&mut self) {
        if !self.inherits {
            return;
        }
        self.claim_registered_streams();
        for id in self.ids() {
            if self.get(id).is_some_and(|socket| socket.inherited.is_some()) && self.sets.has(id) {
                self.claim(id, Reason::ReadByChild);
            }
        }
    }

    /// The process that sockets were inherited from, while it lives.
    #[must_use]
    pub fn waits_for_parent(&self) -> bool {
        let mut inherited = self.table.sockets().filter_map(|socket| socket.inherited.as_ref());
        self.inherits && inherited.any(|inherited| !inherited.is_free && !inherited.parent.has_ended())
    }

    /// Another process gets the socket that an fd names.
    pub fn passed(&mut self, fd: i32, reason: Reason) {
        let Some(id) = self.find(fd) else { return };
        self.claim(id, reason);
        // From now on the agent does not know which process reads it, so no other process that has it gets its flow.
        self.leave_flow_of_others(id);
        self.give_back(id, reason, false);
        if reason == Reason::HandedOverByExec {
            self.sets.leave_disarmed_to_program(id);
        }
    }

    /// Whether other processes may have a socket by fork(2).
    pub(crate) fn may_be_of_others(&self, id: SocketId) -> bool {
        let may_be = |socket: &Socket| socket.is_inherited || (self.children.forked && socket.is_of_children);
        self.get(id).is_some_and(may_be)
    }

    /// exec(2) follows: sockets that the new program finds go back to the kernel, and what waits at those that are closed is for others who have
    /// them.
    pub fn prepare_exec(&mut self) {
        for fd in 0..self.table.fds_end() {
            let Some(id) = self.find(fd) else { continue };
            if Descriptor::new(fd).is_some_and(stays_open) {
                self.passed(fd, Reason::HandedOverByExec);
                self.leave_leftover(id);
            }
        }
        self.leave_to_others();
        self.leave_children_unanswered();
    }

    /// exec(2) follows in a child of vfork(2), which has its parent's memory, this very value, and descriptors of its own.
    /// It may have put sockets under other fds unseen; the fds of before and the standard streams are looked at.
    pub fn prepare_exec_of_vfork(&mut self) {
        let fds = (0..3).chain((3..self.table.fds_end()).filter(|fd| self.find(*fd).is_some()));
        let open = fds.filter_map(Descriptor::new).filter(|fd| stays_open(*fd));
        let inodes: Vec<u64> = open.filter_map(inode_of).collect();
        for id in self.ids() {
            if !self.get(id).is_some_and(|socket| inodes.contains(&socket.file.inode)) {
                continue;
            }
            if self.get(id).is_some_and(is_undecided) {
                self.give_back(id, Reason::HandedOverByExec, false);
                continue;
            }
            self.take_in_frames();
            let Some((socket, engine)) = self.with_engine(id) else { continue };
            if let Service::Accelerated(Accelerated { flows, .. }) = &socket.service {
                engine.withdraw_flows(flows, socket.shadow.fd);
                requeue(socket, engine, Altered::Stays);
                self.children.forked = true;
                self.children.claims.push((id, Reason::HandedOverByExec));
            }
        }
    }

    /// Forgets an fd that no longer names its socket: it was closed by a system call that nobody saw. Whether it did.
    pub(crate) fn forget_if_closed(&mut self, id: SocketId) -> bool {
        let Some(socket) = self.get(id) else { return false };
        let (shadow, known) = (socket.shadow.fd, socket.inode());
        let is_closed = known.is_some() && inode_of(shadow) != known;
        if is_closed {
            self.forget_fd(shadow.number());
        }
        is_closed
    }
}

/// Whether the kernel has a socket as long as it is not used, or not enough.
/// What others are to have of it.
const fn has_something(socket: &Socket) -> bool {
    socket.has_flows() || socket.leftover.is_some()
}

const fn is_undecided(socket: &Socket) -> bool {
    socket.is_young() || socket.awaits_first_use()
}
