//! Sockets move.

use std::net::SocketAddr;
use std::sync::Arc;

use rustix::process::getpid;

use super::{Component, FirstUse, Found, Member, Moved, OPEN_AGAIN_AFTER, SETTLED_TICKS, SOCKETS_MOST, Wish};
use crate::engine::Engine;
use crate::epoll_sets::Sets;
use crate::host::{Host, at_home};
use crate::id::SocketId;
use crate::reason::Reason;
use crate::sharing::overlap;
use crate::socket::{Membership, Service, Socket};
use crate::sockets::{EngineState, Sockets};

impl<H: Host> Sockets<H> {
    /// What the calls since the last question ask for.
    #[inline]
    pub fn take_wish(&mut self) -> Wish {
        std::mem::take(&mut self.siblings.wish)
    }

    /// Whether this is not the first engine.
    #[inline]
    pub(crate) const fn is_branch(&self) -> bool {
        self.siblings.number != 0
    }

    /// A socket needs what the first engine has alone.
    pub(crate) fn wish_for_first(&mut self, id: SocketId) {
        if self.is_branch() {
            self.want_in_first([id]);
        }
    }

    fn want_in_first(&mut self, ids: impl IntoIterator<Item = SocketId>) {
        self.siblings.wanted_in_first.extend(ids);
        if !self.siblings.wanted_in_first.is_empty() && self.siblings.wish != Wish::OnlyFirstEngine {
            self.siblings.wish = Wish::FirstEngine;
        }
    }

    /// What [`Wish::FirstEngine`] is about: sockets of this engine, and those of others where this is the first.
    pub fn take_wanted_in_first(&mut self) -> Vec<SocketId> {
        std::mem::take(&mut self.siblings.wanted_in_first)
    }

    /// An interface came or went.
    pub(crate) fn wish_for_only_first(&mut self) {
        if self.is_branch() || self.siblings.branches > 0 {
            self.siblings.wish = Wish::OnlyFirstEngine;
        }
    }

    /// Other engines have ended, and with them what they had of interfaces that the first may open again.
    pub fn others_ended(&mut self) {
        if let Some(engine) = self.engine() {
            engine.retry_interfaces();
        }
        self.ids().for_each(|id| self.attach_again(id));
        self.tell_engine();
    }

    /// Whether there can be several engines; `None`: not now.
    fn may_open(&mut self) -> Option<bool> {
        if self.config.engines == Some(1) {
            return Some(false);
        }
        let waits = self.engine_ref().is_none_or(Engine::is_captured);
        (!waits).then_some(true)
    }

    /// No socket and no set is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.table.sockets().next().is_none() && self.sets.is_empty()
    }

    /// It lost a port, which only the first engine opens.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        self.engine_ref().is_none_or(|engine| engine.has_lost_ports())
    }

    /// What an fd names.
    fn member_of(&self, fd: i32) -> Option<Member> {
        self.find(fd).map(Member::Socket).or_else(|| self.sets.find(fd).map(Member::Set))
    }

    /// Whether another engine may be opened: the last attempt did not fail just now.
    pub fn may_try_to_open_branch(&mut self) -> bool {
        let now = self.time();
        self.siblings.branch_failed_ns.is_none_or(|since_ns| now.since(since_ns) > OPEN_AGAIN_AFTER)
    }

    /// Opens engine `number`, a branch with ports on the interfaces of this one. `None`: a port has no share left, or the kernel refuses
    /// something.
    pub fn open_branch(&mut self, number: u32) -> Option<Sockets<H>> {
        let branch = self.try_to_open_branch(number);
        self.siblings.branch_failed_ns = branch.is_none().then(|| self.time().monotonic_ns());
        branch
    }

    fn try_to_open_branch(&mut self, number: u32) -> Option<Sockets<H>> {
        if self.config.engines.is_some_and(|most| number >= most) {
            return None;
        }
        let page = self.page.for_engine(number);
        let config = self.config.clone();
        let engine = self.engine()?;
        // The branch reads the tables of the namespace that the thread is in.
        let engine = at_home(engine.home().as_deref(), || engine.open_branch(&config, &page)).ok()?.ok()?;
        self.siblings.branches += 1;
        self.page.set_engine_count(self.siblings.branches + 1);
        let mut branch = Sockets::with_page(self.host.clone(), config, &self.program, page);
        (branch.siblings.number, branch.engine) = (number, EngineState::Open(Box::new(engine)));
        branch.sets = Sets::following();
        branch.reserve_sleep_descriptors(getpid().as_raw_nonzero().get().cast_unsigned());
        branch.own_inodes = Arc::clone(&self.own_inodes);
        branch.children = self.children.of_another_engine();
        Some(branch)
    }

    /// Ends a branch of this engine: it has no ports any more. All that it had has been moved.
    pub fn take_back(&mut self, branch: &mut Sockets<H>) {
        self.take_freed(branch);
        if let (Some(engine), Some(other)) = (self.engine(), branch.engine())
            && engine.take_back(other)
        {
            self.siblings.branches -= 1;
            self.page.set_engine_count(self.siblings.branches + 1);
        }
    }

    /// Whether threads sleep by descriptors of this engine, which it is to keep so long.
    #[must_use]
    pub fn has_sleepers(&self) -> bool {
        self.sleepers.any_asleep()
    }

    /// A thread is about to receive from what these fds name, or to wait for them, which nobody did before.
    pub fn first_use(&mut self, fds: &[i32]) -> FirstUse {
        // What ended children shared may move again, and what goes is to have its frames.
        self.follow_children();
        let _ = self.has_children();
        self.claim_free(fds);
        let may_open = self.may_open();
        if may_open != Some(true) {
            return may_open.map_or(FirstUse::Later, |_| FirstUse::Stays);
        }
        fds.iter().for_each(|fd| self.settle_if_bound(*fd));
        let awaits = |id: &&SocketId| self.get(**id).is_some_and(Socket::awaits_first_use);
        let servers: Vec<SocketId> = self.all_of(fds, &[]).sockets.iter().filter(awaits).copied().collect();
        servers.into_iter().for_each(|id| self.settle(id, None));
        // What was another process's until now had none, and other engines get what this one has.
        self.open_ports_for(fds);
        let Some(component) = self.component_of(fds) else { return FirstUse::Stays };
        let sockets = || component.sockets.iter().filter_map(|id| self.get(*id));
        if sockets().any(Socket::is_accelerated) {
            FirstUse::Moves(component)
        } else if sockets().any(|socket| matches!(socket.service, Service::Open)) {
            FirstUse::Undecided(component)
        } else {
            FirstUse::Stays
        }
    }

    /// What belongs to what these fds name, where another engine can have it.
    #[must_use]
    pub fn component_of(&self, fds: &[i32]) -> Option<Component> {
        let members = fds.iter().filter_map(|fd| self.member_of(*fd)).collect();
        let may_move = |component: &Component, member| component.sockets.len() < SOCKETS_MOST && self.may_move(member);
        self.gather(members, may_move).filter(|component| !component.sockets.is_empty() || component.has_sets())
    }

    /// What belongs to what these fds name, and to these sockets.
    #[must_use]
    pub fn all_of(&self, fds: &[i32], sockets: &[SocketId]) -> Component {
        let fds = fds.iter().filter_map(|fd| self.member_of(*fd));
        let sockets = sockets.iter().filter(|id| self.get(**id).is_some()).map(|id| Member::Socket(*id));
        self.gather(fds.chain(sockets).collect(), |_, _| true).unwrap_or_default()
    }

    /// These members and what belongs to them. `None`: one of them is not wanted beside what was found before.
    ///
    /// Its cost grows with what is found, not with its square: a set may have thousands of sockets, and each of them a first use.
    fn gather(&self, mut rest: Vec<Member>, is_wanted: impl Fn(&Component, Member) -> bool) -> Option<Component> {
        let (mut component, mut found) = (Component::default(), Found::default());
        while let Some(member) = rest.pop() {
            if !found.is_new(member) {
                continue;
            }
            if !is_wanted(&component, member) {
                return None;
            }
            match member {
                Member::Socket(id) => {
                    component.sockets.push(id);
                    rest.extend(self.sets.sets_of(id).map(Member::Set));
                }
                Member::Set(set) => {
                    component.sets.push(set);
                    let is_in = |id: &SocketId| self.sets.sets_of(*id).any(|of| of == set);
                    rest.extend(self.ids().filter(is_in).map(Member::Socket));
                }
            }
        }
        Some(component)
    }

    fn may_move(&self, member: Member) -> bool {
        let id = match member {
            Member::Socket(id) => id,
            Member::Set(set) => return self.sets.may_move(set),
        };
        let Some(socket) = self.get(id) else { return false };
        let is_plain = socket.inherited.is_none() && socket.leftover.is_none() && !socket.is_settled;
        is_plain && !(socket.is_accelerated() && socket.wants_stamps()) && self.beside(id).next().is_none()
    }

    /// Other accelerated sockets in this engine that could get the same datagrams. Of several at one port (SO_REUSEPORT) the kernel
    /// gives a client's datagrams to the same socket for as long as they are the same, and programs keep what they know of the client
    /// there; another stack chooses otherwise.
    pub(crate) fn beside(&self, id: SocketId) -> impl Iterator<Item = SocketId> {
        let may_share = |socket: &&Socket| socket.is_accelerated() && socket.may_share_port();
        let local = self.get(id).filter(may_share).and_then(|socket| socket.ends.local);
        let shares = move |other: &Socket| {
            other.is_accelerated()
                && local.zip(other.ends.local).is_some_and(|(local, other)| could_share(local, other))
        };
        local
            .into_iter()
            .flat_map(|_| self.ids())
            .filter(move |other| *other != id && self.get(*other).is_some_and(shares))
    }

    /// The same in other engines.
    fn away_beside(&self, id: SocketId) -> impl Iterator<Item = SocketId> {
        let local = self.get(id).filter(|socket| socket.is_accelerated()).and_then(|socket| socket.ends.local);
        let shares = move |other: SocketAddr| local.is_some_and(|local| could_share(local, other));
        self.siblings.away.iter().filter(move |(_, other)| other.is_some_and(shares)).map(|(of, _)| *of)
    }

    /// Whether a socket that gets the same datagrams is used already. Those in other engines are.
    pub(crate) fn has_used_beside(&self, id: SocketId) -> bool {
        let is_used = |other| self.get(other).is_some_and(|other| other.is_used);
        self.away_beside(id).next().is_some() || self.beside(id).any(is_used)
    }

    /// A thread uses what these fds name.
    pub fn used(&mut self, fds: &[i32]) {
        let component = self.all_of(fds, &[]);
        self.use_component(&component);
    }

    /// The same of a component.
    pub fn use_component(&mut self, component: &Component) {
        // Sets report sockets in the order of arrival.
        self.look();
        // What is in sets inside, too: it is seldom that there are any.
        if self.sets.used(&component.sets) {
            return self.use_all_sockets();
        }
        component.sockets.iter().for_each(|id| self.use_socket(*id));
    }

    /// The same of all sockets.
    pub(crate) fn use_all_sockets(&mut self) {
        self.ids().for_each(|id| self.use_socket(id));
    }

    /// What these fds name belongs to this engine from now on.
    pub fn settle_here(&mut self, fds: &[i32]) {
        for fd in fds {
            match self.find(*fd) {
                Some(id) => {
                    if let Some(socket) = self.get_mut(id) {
                        socket.is_settled = true;
                    }
                }
                None => self.sets.settle(*fd),
            }
        }
    }

    fn everything(&self) -> Component {
        Component { sockets: self.ids().filter(|id| self.get(*id).is_some()).collect(), sets: self.sets.all() }
    }

    /// Moves all to the first engine, where all may move once more. `moved` hears of each while nobody else can.
    pub fn move_all_to(&mut self, first: &mut Sockets<H>, moved: impl FnMut(Moved)) {
        let component = self.everything();
        self.move_back_to(first, &component, moved);
        for id in &component.sockets {
            if let Some(socket) = first.get_mut(*id) {
                socket.is_settled = false;
            }
        }
        component.sets.iter().for_each(|set| first.sets.begin_again(*set));
    }

    /// Moves a component to the first engine, as [`Sockets::move_to`].
    pub fn move_back_to(&mut self, first: &mut Sockets<H>, component: &Component, moved: impl FnMut(Moved)) {
        self.move_to(first, component, moved);
        first.take_freed(self);
        first.siblings.away.retain(|(of, _)| !component.sockets.contains(of));
        for id in &component.sockets {
            first.settle_after_move(*id);
            first.call_those_beside(*id);
        }
    }

    /// Numbers of what was closed elsewhere are free again.
    fn take_freed(&mut self, other: &mut Sockets<H>) {
        for id in std::mem::take(&mut other.siblings.freed) {
            self.siblings.away.retain(|(of, _)| *of != id);
            self.table.free_place(id);
        }
        self.sets.take_freed(&mut other.sets);
    }

    /// Has another engine receive by all ports that this one has; whether it does.
    pub fn give_ports(&mut self, to: &mut Sockets<H>) -> bool {
        match (self.engine(), to.engine()) {
            (Some(engine), Some(other)) => engine.give_ports(other).is_ok(),
            _ => false,
        }
    }

    /// Moves a component to another engine. `moved` hears of each while nobody else can.
    pub fn move_to(&mut self, to: &mut Sockets<H>, component: &Component, mut moved: impl FnMut(Moved)) {
        self.flush();
        to.flush();
        self.take_freed_if_first(to);
        let has_flows = component.sockets.iter().any(|id| self.get(*id).is_some_and(Socket::has_flows));
        for id in &component.sockets {
            self.move_flows(*id, to);
        }
        let begun_ticks = self.host.ticks();
        while has_flows && self.host.ticks().wrapping_sub(begun_ticks) < SETTLED_TICKS {
            self.take_in_all_frames();
        }
        let told = self.told_of_shadows(&component.sockets);
        for id in &component.sockets {
            self.move_socket(*id, to);
        }
        for fd in self.move_fds(to, component) {
            moved(Moved::Fd(fd));
        }
        component.sockets.iter().for_each(|id| moved(Moved::Socket(*id)));
        to.children.take_from(&self.children);
        component.sockets.iter().for_each(|id| to.expect_others_at(*id));
        to.sets.join(self.sets.part(component));
        to.tell_of_shadows(&told);
        for sockets in [&mut *self, &mut *to] {
            sockets.raise_readable();
            sockets.service_changed();
        }
    }

    /// In the child of a fork: all that another engine of the parent's had is this one's.
    pub(crate) fn take_all_of(&mut self, mut other: Sockets<H>, mut moved: impl FnMut(Moved)) {
        let all = other.everything();
        for id in &all.sockets {
            if let Some(socket) = other.table.take(*id) {
                self.table.put(*id, socket);
            }
        }
        other.move_fds(self, &all).into_iter().for_each(|fd| moved(Moved::Fd(fd)));
        all.sockets.iter().for_each(|id| moved(Moved::Socket(*id)));
        self.take_freed(&mut other);
        self.sets.join(other.sets.part(&all));
        self.inherits |= other.inherits;
    }

    /// There are no other engines any more.
    pub(crate) fn no_others(&mut self) {
        self.siblings.away.clear();
        self.siblings.wanted_in_first.clear();
        (self.siblings.branches, self.siblings.branch_failed_ns, self.siblings.wish) = (0, None, Wish::Nothing);
    }

    fn take_freed_if_first(&mut self, to: &mut Sockets<H>) {
        if !self.is_branch() {
            self.take_freed(to);
        }
    }

    /// Frames for a socket come to the other engine from now on.
    fn move_flows(&mut self, id: SocketId, to: &mut Sockets<H>) {
        let now = self.time();
        let Some((socket, engine)) = self.with_engine(id) else { return };
        let Service::Accelerated(accelerated) = &socket.service else { return };
        let handed = match to.engine() {
            Some(other) => engine.hand_flows(now, other, &accelerated.flows, accelerated.flow_socket(socket.shadow.fd)),
            None => Err(Reason::EngineFailed),
        };
        if let Err(reason) = handed {
            self.hand_over(id, reason);
        }
    }

    /// The socket itself, with its endpoint.
    fn move_socket(&mut self, id: SocketId, to: &mut Sockets<H>) {
        let Some((socket, engine)) = self.with_engine(id) else { return };
        let endpoint = socket.endpoint();
        let shadow = socket.shadow.fd;
        if let Some(endpoint) = endpoint {
            engine.unwatch_shadow(shadow);
            for joined in &socket.udp.memberships {
                // Refused, it is in no group.
                let _ = engine.stack().udp_leave(endpoint, joined.ifindex, joined.group);
            }
        }
        let taken = endpoint.and_then(|endpoint| engine.stack().udp_take(endpoint));
        let Some(mut socket) = self.table.take(id) else { return };
        if !self.is_branch() {
            self.siblings.away.push((id, socket.ends.local));
        }
        if self.sharing.leave(id) {
            to.sharing.enter(id);
        }
        if let Some(writer) = socket.slot.writer() {
            writer.set_engine_number(to.siblings.number);
        }
        let Some(other) = to.engine() else { return };
        let moved = taken.map(|taken| other.stack().udp_put(taken));
        socket.udp.own_addresses = other.first_addresses_v4();
        socket.is_settled = true;
        match (&mut socket.service, moved) {
            (Service::Accelerated(accelerated), Some(endpoint)) => accelerated.endpoint = endpoint,
            (_, moved) => socket.leftover = moved,
        }
        if let Some(endpoint) = moved {
            let _ = other.watch_shadow(shadow, id.index() as u32);
            for Membership { ifindex, group, filter } in &socket.udp.memberships {
                // Accepted by the other stack, which knows the same interfaces.
                let _ = other.stack().udp_join(endpoint, *ifindex, *group, filter);
            }
            to.table.own(id, endpoint);
        }
        to.table.put(id, socket);
    }

    /// Numbers of the component are the other's.
    fn move_fds(&mut self, to: &mut Sockets<H>, component: &Component) -> Vec<i32> {
        let mut fds = Vec::new();
        for fd in 0..self.table.fds_end() {
            if let Some(id) = self.find(fd).filter(|id| component.sockets.contains(id)) {
                self.table.unname(fd);
                to.table.name(fd, id);
                fds.push(fd);
            }
        }
        fds.extend(self.sets.fds_of(&component.sets));
        fds
    }

    /// A socket that came back: it may have been bound or connected where it could not be accelerated.
    fn settle_after_move(&mut self, id: SocketId) {
        let Some(socket) = self.get(id) else { return };
        let shadow_fd = socket.shadow.fd.number();
        let remote: Option<SocketAddr> = socket.ends.peer();
        let is_bound = socket.ends.has_port();
        let is_open = matches!(socket.service, Service::Open) && !socket.is_young();
        if is_open && (is_bound && self.get(id).is_some_and(|socket| socket.ends.is_server()) || remote.is_some()) {
            self.settle(id, remote);
        }
        if self.get(id).is_some_and(Socket::is_accelerated) {
            self.option_changed(shadow_fd, None);
        }
    }

    /// Whether this engine, which is not the first, has the ports that an accelerated socket needs, and can tell what it asks for.
    pub(crate) fn has_what_it_needs(&self, socket: &Socket) -> bool {
        !socket.wants_stamps() && self.why_not_served(socket).is_none()
    }

    /// A socket was accelerated in the first engine: those that other engines have and that could get the same datagrams come
    /// to it.
    pub(crate) fn call_those_beside(&mut self, id: SocketId) {
        let ids: Vec<SocketId> = self.away_beside(id).collect();
        self.want_in_first(ids);
    }

    /// Whether a socket that is about to be accelerated here, in an engine that is not the first, can be.
    pub(crate) fn can_settle_here(&mut self, id: SocketId, remote: Option<SocketAddr>) -> bool {
        let Some(socket) = self.get(id) else { return false };
        let kept = crate::kept::Kept::read(socket.shadow.fd, socket.family);
        let Ok(local) = crate::kept::local_address(socket.shadow.fd) else { return false };
        let is_plain = kept.options.device.is_none()
            && !kept.options.reuse_address
            && !kept.options.reuse_port
            && kept.ancillary.wants_times().is_none();
        let remote = remote.map(|remote| remote.ip().to_canonical());
        is_plain
            && self.engine_ref().is_some_and(|engine| engine.is_served(local.ip().to_canonical(), remote, None).is_ok())
    }
}

/// Whether sockets that are bound there could get the same datagrams.
fn could_share(one: SocketAddr, other: SocketAddr) -> bool {
    one.port() == other.port() && overlap(one.ip(), other.ip())
}
