//! Sockets move.

use std::net::SocketAddr;
use std::sync::Arc;

use rustix::process::getpid;

use super::{Component, FOUND_AGAIN_AFTER, Member, Moved, SETTLED_TICKS, SOCKETS_MOST, Wish};
use crate::engine::Engine;
use crate::epoll_sets::Sets;
use crate::host::Host;
use crate::id::SocketId;
use crate::reason::Reason;
use crate::send_run::Held;
use crate::sockets::{EngineState, Sockets};
use crate::udp_socket::{Service, UdpSocket};

impl<H: Host> Sockets<H> {
    /// What the calls since the last question ask for.
    #[inline]
    pub fn take_wish(&mut self) -> Wish {
        std::mem::take(&mut self.wish)
    }

    /// Whether this is not the first engine.
    #[inline]
    pub(crate) const fn is_branch(&self) -> bool {
        self.number != 0
    }

    /// The first engine is to have all again, where it is not.
    pub(crate) fn wish_for_first(&mut self) {
        if (self.is_branch() || !self.away.is_empty()) && self.wish != Wish::OnlyFirstEngine {
            self.wish = Wish::FirstEngine;
        }
    }

    /// An interface came or went.
    pub(crate) fn wish_for_only_first(&mut self) {
        if self.is_branch() || self.founded > 0 {
            self.wish = Wish::OnlyFirstEngine;
        }
    }

    /// Other engines have ended, and with them what they had of interfaces that the first may open again.
    pub fn others_ended(&mut self) {
        if let Some(engine) = self.engine() {
            engine.retry_interfaces();
        }
        (0..self.socket_count()).for_each(|index| self.attach_again(SocketId::new(index as u32)));
        self.tell_engine();
    }

    /// A thread of several that use this engine used a socket.
    pub fn note_use(&mut self, id: SocketId, thread: usize, changes: u32) {
        if self.get_mut(id).is_some_and(|socket| socket.usage.note(thread, changes) && !socket.usage.is_polled) {
            self.wish_for_own();
        }
    }

    /// The same of all that one call of poll(2) waits for. Whether the thread should have it in an engine of its own.
    pub fn note_poll(&mut self, numbers: &[i32], thread: usize, changes: u32) -> bool {
        let mut is_own = false;
        for (at, number) in numbers.iter().enumerate() {
            let usage = match self.find(*number) {
                Some(id) => self.get_mut(id).map(|socket| &mut socket.usage),
                None => self.sets.usage_of(*number),
            };
            let Some(usage) = usage else { continue };
            usage.is_polled |= numbers.len() > 1;
            // The first speaks for all.
            is_own |= at == 0 && usage.note(thread, changes);
        }
        is_own && self.may_want_own()
    }

    /// The same of what a number names.
    pub fn note_use_of_number(&mut self, number: i32, thread: usize, changes: u32) {
        match self.find(number) {
            Some(id) => self.note_use(id, thread, changes),
            None => {
                if self.sets.usage_of(number).is_some_and(|usage| usage.note(thread, changes)) {
                    self.wish_for_own();
                }
            }
        }
    }

    fn wish_for_own(&mut self) {
        if self.may_want_own() {
            self.wish = Wish::OwnEngine;
        }
    }

    fn may_want_own(&mut self) -> bool {
        let may_found = self.may_found() && !self.has_children();
        // What children said may have made one.
        may_found && self.wish == Wish::Nothing
    }

    /// Whether several engines are wanted and can be at all.
    fn may_found(&mut self) -> bool {
        let now = self.time();
        let is_captured = self.engine_ref().is_none_or(Engine::is_captured);
        let is_late = self.founding_failed_ns.is_none_or(|since_ns| now.since(since_ns) > FOUND_AGAIN_AFTER);
        is_late && !is_captured && self.config.engines != Some(1) && !self.inherits
    }

    /// No socket and no set is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sockets.iter().all(Option::is_none) && self.sets.is_empty()
    }

    /// It lost a port, which only the first engine opens.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        self.engine_ref().is_none_or(|engine| engine.has_lost_ports())
    }

    /// What a number names.
    fn member_of(&self, number: i32) -> Option<Member> {
        self.find(number).map(Member::Socket).or_else(|| self.sets.find(number).map(Member::Set))
    }

    /// Founds engine `number`, with ports on the interfaces that this one has. `None`: a port has no share left, or the
    /// kernel refuses something.
    /// `held`: by which an engine of this number held datagrams back before.
    pub fn found_engine(&mut self, number: u32, held: Option<Arc<Held>>) -> Option<Sockets<H>> {
        let mut founded = self.try_to_found(number);
        if let (Some(founded), Some(held)) = (&mut founded, held) {
            founded.leaving.run.hold_by(held);
        }
        self.founding_failed_ns = founded.is_none().then(|| self.time().monotonic_ns());
        founded
    }

    fn try_to_found(&mut self, number: u32) -> Option<Sockets<H>> {
        if self.config.engines.is_some_and(|most| number >= most) {
            return None;
        }
        let page = self.page.for_engine(number);
        let config = self.config.clone();
        let engine = self.engine()?.found(&config, &page).ok()?;
        self.founded += 1;
        self.page.set_engine_count(self.founded + 1);
        let mut founded = Sockets::with_page(self.host.clone(), config, &self.program, page);
        (founded.number, founded.engine) = (number, EngineState::Open(Box::new(engine)));
        founded.namespace = self.namespace;
        founded.sets = Sets::following();
        founded.reserve_beds(getpid().as_raw_nonzero().get().cast_unsigned());
        founded.own_inodes = Arc::clone(&self.own_inodes);
        Some(founded)
    }

    /// Ends an engine that this one founded: it has no ports any more. All that it had has been moved.
    pub fn take_back(&mut self, founded: &mut Sockets<H>) {
        self.take_freed(founded);
        if let (Some(engine), Some(other)) = (self.engine(), founded.engine())
            && engine.take_back(other)
        {
            self.founded -= 1;
            self.page.set_engine_count(self.founded + 1);
        }
    }

    /// Whether threads sleep by descriptors of this engine, which it is to keep so long.
    #[must_use]
    pub fn has_sleepers(&self) -> bool {
        self.sleepers.any_asleep()
    }

    /// What belongs to what these numbers name, if it can be in another engine than the first and `thread` alone uses it.
    pub fn component_of(&mut self, thread: usize, numbers: &[i32]) -> Option<Component> {
        let members = numbers.iter().filter_map(|number| self.member_of(*number));
        self.component_with(thread, members.collect())
    }

    /// The same of a socket.
    pub fn component_of_socket(&mut self, thread: usize, id: SocketId) -> Option<Component> {
        self.component_with(thread, vec![Member::Socket(id)])
    }

    fn component_with(&mut self, thread: usize, members: Vec<Member>) -> Option<Component> {
        let mut component = Component::default();
        members.into_iter().for_each(|member| self.gather(&mut component, member));
        if component.sockets.len() > SOCKETS_MOST {
            return None;
        }
        let may_all = component.sockets.iter().all(|id| self.may_move(*id, thread))
            && component.sets.iter().all(|set| self.sets.may_move(*set, thread));
        let any = component.sockets.iter().any(|id| self.get(*id).is_some_and(UdpSocket::is_accelerated));
        (may_all && any).then_some(component)
    }

    fn gather(&self, component: &mut Component, member: Member) {
        if component.sockets.len() > SOCKETS_MOST {
            return;
        }
        match member {
            Member::Socket(id) if !component.sockets.contains(&id) => {
                component.sockets.push(id);
                for set in self.sets.sets_of(id) {
                    self.gather(component, Member::Set(set));
                }
            }
            Member::Set(set) if !component.sets.contains(&set) => {
                component.sets.push(set);
                let ids = (0..self.socket_count()).map(|index| SocketId::new(index as u32));
                for id in ids.filter(|id| self.sets.sets_of(*id).contains(&set)) {
                    self.gather(component, Member::Socket(id));
                }
            }
            Member::Socket(_) | Member::Set(_) => {}
        }
    }

    fn may_move(&self, id: SocketId, thread: usize) -> bool {
        let Some(socket) = self.get(id) else { return false };
        let is_plain = socket.inherited.is_none() && socket.leftover.is_none() && socket.memberships.is_empty();
        if !is_plain || socket.usage.is_of_another(thread) {
            return false;
        }
        match &socket.service {
            Service::Accelerated(_) => socket.may_leave_first() && self.has_port_alone(id, socket),
            Service::Open | Service::Kernel(_) => true,
        }
    }

    /// No other socket of this process is at its port. Of several at one port (SO_REUSEPORT) the kernel gives a client's
    /// datagrams to the same socket for as long as they are the same, and programs keep what they know of the client there;
    /// after a move the choice would be another one.
    fn has_port_alone(&self, id: SocketId, socket: &UdpSocket) -> bool {
        if !socket.may_share_port() {
            return true;
        }
        let port_of = |socket: &UdpSocket| socket.local.map(|local| local.port());
        let others = self.sockets.iter().enumerate().filter(|(index, _)| *index != id.index());
        others
            .filter_map(|(_, other)| other.as_ref())
            .all(|other| !other.is_accelerated() || port_of(other) != port_of(socket))
    }

    /// Moves all to the first engine. `moved` hears of each while nobody else can.
    pub fn move_all_to(&mut self, first: &mut Sockets<H>, moved: impl FnMut(Moved)) {
        let ids = (0..self.socket_count()).map(|index| SocketId::new(index as u32));
        let component =
            Component { sockets: ids.filter(|id| self.get(*id).is_some()).collect(), sets: self.sets.all() };
        self.move_to(first, &component, moved);
        first.take_freed(self);
        for id in component.sockets {
            first.away.retain(|(of, _)| *of != id);
            first.settle_after_move(id);
        }
    }

    /// Numbers of what was closed elsewhere are free again.
    fn take_freed(&mut self, other: &mut Sockets<H>) {
        for id in std::mem::take(&mut other.freed) {
            self.away.retain(|(of, _)| *of != id);
            self.free_place(id);
        }
        self.sets.take_freed(&mut other.sets);
    }

    /// Moves a component to another engine. `moved` hears of each while nobody else can.
    pub fn move_to(&mut self, to: &mut Sockets<H>, component: &Component, mut moved: impl FnMut(Moved)) {
        self.flush();
        to.flush();
        self.take_freed_if_first(to);
        for id in &component.sockets {
            self.move_flows(*id, to);
        }
        let begun_ticks = self.host.ticks();
        while self.host.ticks().wrapping_sub(begun_ticks) < SETTLED_TICKS {
            self.take_in_all_frames();
        }
        for id in &component.sockets {
            self.move_socket(*id, to);
        }
        for number in self.move_numbers(to, component) {
            moved(Moved::Number(number));
        }
        component.sockets.iter().for_each(|id| moved(Moved::Socket(*id)));
        to.sets.join(self.sets.part(component));
        for sockets in [&mut *self, &mut *to] {
            sockets.raise_readable();
            sockets.service_changed();
        }
    }

    fn take_freed_if_first(&mut self, to: &mut Sockets<H>) {
        if !self.is_branch() {
            self.take_freed(to);
        }
    }

    /// Frames for a socket come to the other engine from now on.
    fn move_flows(&mut self, id: SocketId, to: &mut Sockets<H>) {
        let Some((socket, engine)) = self.with_engine(id) else { return };
        let Service::Accelerated(accelerated) = &socket.service else { return };
        let handed = match to.engine() {
            Some(other) => engine.hand_flows(other, &accelerated.flows, accelerated.flow_socket(socket.shadow)),
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
        let shadow = socket.shadow;
        let is_accelerated = socket.is_accelerated();
        let taken = endpoint.and_then(|endpoint| engine.stack().udp_take(endpoint));
        if is_accelerated {
            engine.unwatch_shadow(shadow);
        }
        let Some(mut socket) = self.sockets.get_mut(id.index()).and_then(Option::take) else { return };
        if !self.is_branch() {
            self.away.push((id, socket.local.map_or(0, |local| local.port())));
        }
        if self.sharing.leave(id) {
            to.sharing.enter(id);
        }
        if let Some(writer) = socket.slot.writer() {
            writer.set_engine_number(to.number);
        }
        let Some(other) = to.engine() else { return };
        let moved = taken.map(|taken| other.stack().udp_put(taken));
        socket.own_addresses = other.first_addresses_v4();
        socket.usage.begin_again();
        match (&mut socket.service, moved) {
            (Service::Accelerated(accelerated), Some(endpoint)) => {
                accelerated.endpoint = endpoint;
                let _ = other.watch_shadow(shadow, id.index() as u32);
                // The watch tells of edges, and one may just have passed.
                socket.may_have_data();
            }
            (_, moved) => socket.leftover = moved,
        }
        if let Some(endpoint) = moved {
            to.own(id, endpoint);
        }
        to.put_socket(id, socket);
    }

    /// Numbers of the component are the other's.
    fn move_numbers(&mut self, to: &mut Sockets<H>, component: &Component) -> Vec<i32> {
        let mut numbers = Vec::new();
        for number in 0..self.number_count() {
            if let Some(id) = self.find(number).filter(|id| component.sockets.contains(id)) {
                self.unname(number);
                to.name(number, id);
                numbers.push(number);
            }
        }
        numbers.extend(self.sets.numbers_of(&component.sets));
        numbers
    }

    /// A socket that came back: it may have been bound or connected where it could not be accelerated.
    fn settle_after_move(&mut self, id: SocketId) {
        let Some(socket) = self.get_mut(id) else { return };
        let memberships = std::mem::take(&mut socket.memberships);
        let shadow_number = socket.shadow.number();
        let remote: Option<SocketAddr> = socket.remote.filter(|_| socket.is_connected);
        let is_bound = socket.local.is_some_and(|local| local.port() != 0);
        let is_open = matches!(socket.service, Service::Open);
        for joined in memberships {
            self.joined(shadow_number, joined.ifindex, joined.group, joined.filter);
        }
        if is_open && (is_bound && self.get(id).is_some_and(|socket| socket.is_server) || remote.is_some()) {
            self.settle(id, remote);
        }
        if self.get(id).is_some_and(UdpSocket::is_accelerated) {
            self.option_changed(shadow_number);
        }
    }

    /// A socket was accelerated in the first engine: it may be one more at the port of one that another engine has.
    pub(crate) fn ask_those_away(&mut self, id: SocketId) {
        let Some(socket) = self.get(id) else { return };
        let port = socket.local.map_or(0, |local| local.port());
        if self.away.iter().any(|(_, other)| *other == port) {
            self.wish_for_first();
        }
    }

    /// Whether a socket that is about to be accelerated here, in an engine that is not the first, can be.
    pub(crate) fn can_settle_here(&mut self, id: SocketId, remote: Option<SocketAddr>) -> bool {
        let Some(socket) = self.get(id) else { return false };
        let kept = crate::shadow::Kept::read(socket.shadow, socket.family);
        let Ok(local) = crate::shadow::local_address(socket.shadow) else { return false };
        let is_plain = kept.options.device.is_none()
            && !kept.options.reuse_address
            && !kept.options.reuse_port
            && kept.ancillary.wants_times().is_none()
            && socket.memberships.is_empty();
        let remote = remote.map(|remote| remote.ip().to_canonical());
        is_plain
            && self.engine_ref().is_some_and(|engine| engine.is_served(local.ip().to_canonical(), remote, None).is_ok())
    }
}

impl UdpSocket {
    /// An accelerated socket that needs nothing that only the first engine has.
    pub(crate) fn may_leave_first(&self) -> bool {
        let Some(kept) = self.kept() else { return false };
        let options = &kept.options;
        let has_no_times = kept.ancillary.wants_times().is_none() && !self.asks_stamps;
        options.device.is_none() && has_no_times && (!options.reuse_address || self.shares_by_reuseport())
    }

    /// Others may have its port too: the kernel lets them.
    fn may_share_port(&self) -> bool {
        self.kept().is_none_or(|kept| kept.options.reuse_address || kept.options.reuse_port)
    }

    /// Among sockets at its port the kernel chooses by SO_REUSEPORT alone: it is bound, unconnected and in no group.
    fn shares_by_reuseport(&self) -> bool {
        let is_plain = self.local.is_some() && !self.is_connected && self.memberships.is_empty();
        is_plain && self.kept().is_some_and(|kept| kept.options.reuse_port)
    }
}
