//! All sockets of a process: their fds, their lives, and who serves them.
//!
//! The program's call is made on the shadow first, by the caller of these functions; what the kernel accepted is followed
//! here. So the kernel's errors are the program's errors, and a socket that cannot be accelerated just stays as it is.

mod table;

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;

use nearwire_stack::{Family, SourceFilter};
use nearwire_sys::descriptor::{self, Descriptor};
use nearwire_sys::tsc::PacedClock;

use crate::config::Config;
use crate::direct;
use crate::engine::{Engine, OpenError, Opening};
use crate::engines::Siblings;
use crate::epoll::Events;
use crate::epoll_sets::Sets;
use crate::handover::Children;
use crate::host::{Host, ThisHost};
use crate::id::SocketId;
use crate::kept::{self, Kept};
use crate::now::Now;
use crate::overflow::Overflow;
use crate::reason::{Reason, Why};
use crate::sending::Leaving;
use crate::service::reach::{complete, is_local, reach};
use crate::sharing::{OwnInodes, Sharing};
use crate::sleepers::Sleepers;
use crate::socket::{Accelerated, Membership, Service, Socket};
use crate::status::{Counter, Slot, Writer};
use crate::streams::Streams;
use crate::wait::online_cpus;
use table::Table;

/// Not opened yet, open, or why it cannot be.
pub(crate) enum EngineState<H: Host> {
    Closed,
    Open(Box<Engine<H>>),
    /// Why, and when it was tried, nanoseconds of the monotonic clock.
    Refused(OpenError, u64),
}

/// See the module.
pub struct Sockets<H: Host = ThisHost> {
    /// The machine that they are on.
    pub(crate) host: H,
    /// The time of the call that goes on, or of one before.
    pub(crate) now: Now,
    /// The monotonic clock between two readings.
    paced: PacedClock,
    is_time_known: bool,
    pub(crate) config: Config,
    pub(crate) program: String,
    pub(crate) table: Table,
    pub(crate) engine: EngineState<H>,
    pub(crate) sets: Sets,
    pub(crate) sleepers: Sleepers,
    /// Changes when another one serves a socket, so that calls that wait look anew who does.
    pub(crate) generation: u64,
    /// What others learn of all this.
    pub(crate) page: Writer,
    pub(crate) children: Children,
    /// Sockets were inherited from a process that accelerates them.
    pub(crate) inherits: bool,
    /// The kernel serves sockets as other processes use them, which may end.
    pub(crate) has_shared_sockets: bool,
    /// An inherited socket is claimed also when this process sends by it.
    pub(crate) claims_to_send: bool,
    pub(crate) sharing: Sharing,
    pub(crate) leaving: Leaving<H::Port>,
    pub(crate) overflow: Overflow,
    /// TCP connections that the stack carries; in the first engine.
    pub(crate) streams: Streams,
    /// Of all engines.
    pub(crate) own_inodes: Arc<OwnInodes>,
    pub(crate) siblings: Siblings,
    /// The program uses io_uring.
    pub(crate) has_io_uring: bool,
    /// What is wrong with the configuration: nothing is accelerated.
    pub(crate) mistake: Option<String>,
}

impl<H: Host> Sockets<H> {
    /// None yet. `program` is the executable's file name, as rules name it.
    #[must_use]
    pub fn new(host: H, config: Config, program: &str) -> Sockets<H> {
        let page = Writer::of_self(&config, online_cpus());
        Sockets::with_page(host, config, program, page)
    }

    /// The same, which tells what it does on a page that there is.
    pub(crate) fn with_page(host: H, config: Config, program: &str, page: Writer) -> Sockets<H> {
        Sockets {
            host,
            now: Now::default(),
            paced: PacedClock::default(),
            is_time_known: false,
            page,
            leaving: Leaving::new(&config),
            overflow: Overflow::default(),
            streams: Streams::default(),
            config,
            program: program.to_owned(),
            engine: EngineState::Closed,
            sets: Sets::default(),
            sleepers: Sleepers::default(),
            generation: 0,
            children: Children::default(),
            inherits: false,
            has_shared_sockets: false,
            claims_to_send: false,
            sharing: Sharing::default(),
            own_inodes: Arc::default(),
            table: Table::default(),
            siblings: Siblings::default(),
            has_io_uring: false,
            mistake: None,
        }
    }

    /// The same, none of which is ever accelerated: there is a mistake in the configuration, whose text is told.
    #[must_use]
    pub fn with_mistake(mut self, mistake: String) -> Sockets<H> {
        self.mistake = Some(mistake);
        self.tell_engine();
        self
    }

    /// A call begins: its time is another one than that of the call before.
    #[inline]
    pub fn enter(&mut self) {
        self.is_time_known = false;
    }

    /// The time of the call. The host is asked once a call, when it matters: to look at the counter of the CPU takes 20 ns in a
    /// virtual machine, which a datagram that is in the ring need not wait for.
    #[inline]
    pub(crate) fn time(&mut self) -> Now {
        if !std::mem::replace(&mut self.is_time_known, true) {
            let stamps = self.engine_ref().is_some_and(Engine::stamps);
            let host = &self.host;
            self.now.advance(&mut self.paced, stamps, || host.ticks(), || host.clocks());
        }
        self.now
    }

    /// The time now, of a call that has taken long.
    pub(crate) fn time_anew(&mut self) -> Now {
        self.is_time_known = false;
        self.time()
    }

    /// The time of the call where frames are stamped with it, and else that of an earlier call.
    #[inline]
    pub(crate) fn time_of_frames(&mut self) -> Now {
        if self.engine_ref().is_some_and(Engine::stamps) { self.time() } else { self.now }
    }

    /// The socket that an fd names.
    #[inline]
    #[must_use]
    pub fn find(&self, fd: i32) -> Option<SocketId> {
        self.table.find(fd)
    }

    #[inline]
    pub(crate) fn get(&self, id: SocketId) -> Option<&Socket> {
        self.table.get(id)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: SocketId) -> Option<&mut Socket> {
        self.table.get_mut(id)
    }

    /// The socket and the engine together.
    #[inline]
    pub(crate) fn with_engine(&mut self, id: SocketId) -> Option<(&mut Socket, &mut Engine<H>)> {
        match &mut self.engine {
            EngineState::Open(engine) => Some((self.table.get_mut(id)?, engine)),
            EngineState::Closed | EngineState::Refused(..) => None,
        }
    }

    /// The engine, once a socket needed it.
    #[inline]
    pub fn engine(&mut self) -> Option<&mut Engine<H>> {
        match &mut self.engine {
            EngineState::Open(engine) => Some(engine),
            EngineState::Closed | EngineState::Refused(..) => None,
        }
    }

    /// The same, to look at.
    #[must_use]
    pub fn engine_ref(&self) -> Option<&Engine<H>> {
        match &self.engine {
            EngineState::Open(engine) => Some(engine),
            EngineState::Closed | EngineState::Refused(..) => None,
        }
    }

    /// Whether an fd names an accelerated socket.
    #[must_use]
    pub fn is_accelerated(&self, fd: i32) -> bool {
        self.find(fd).and_then(|id| self.get(id)).is_some_and(Socket::is_accelerated)
    }

    /// A UDP socket was opened. In the first engine; what place it got.
    pub fn opened(&mut self, fd: i32, family: Family, is_nonblocking: bool) -> Option<SocketId> {
        let shadow = Descriptor::new(fd)?;
        self.forget_fd(fd);
        let id = self.table.new_place();
        let slot = Slot::new(&self.page, id.index());
        match slot.writer() {
            Some(writer) => writer.open(fd),
            None => self.page.count(Counter::SocketsWithoutSlot, 1),
        }
        let kernel_first = self.kernel_first_of_new();
        let socket = Socket::new(shadow, family, is_nonblocking, slot, kernel_first);
        self.own_inodes.add(socket.file.inode);
        self.table.put(id, socket);
        self.table.name(fd, id);
        Some(id)
    }

    /// `new` names the same open file as `old` from now on: dup(2) and its kin, which closed what `new` named before.
    pub fn duplicated(&mut self, old: i32, new: i32) {
        if old == new {
            return;
        }
        self.closing(new);
        if let Some(id) = self.find(old) {
            // Calls by the other fd would not be seen.
            self.end_lending_for_all(id);
            if let Some(socket) = self.get_mut(id) {
                socket.file.fds += 1;
            }
            self.table.name(new, id);
        }
        self.sets.duplicated(old, new);
    }

    /// An fd is about to be closed. The last fd of a socket closes it.
    pub fn closing(&mut self, fd: i32) {
        self.sets.closing(fd);
        self.leave_to_others_of(fd);
        self.forget_fd(fd);
    }

    /// Another process may have the socket that this one closes for good: it reads what waits, and the kernel's sets report it
    /// as long as the child has it.
    fn leave_to_others_of(&mut self, fd: i32) {
        let Some(id) = self.find(fd) else { return };
        let Some(socket) = self.get(id).filter(|socket| socket.file.fds == 1 && !socket.file.is_held()) else { return };
        let (is_inherited, is_of_children) = (socket.is_inherited, socket.is_of_children);
        let has_children = self.has_children();
        if is_of_children && !has_children {
            self.hear_of_programs_executed();
        }
        if is_inherited || has_children {
            self.give_back(id, Reason::AfterFork, false);
            self.leave_leftover(id);
        }
    }

    pub(crate) fn forget_fd(&mut self, fd: i32) {
        direct::clear(fd);
        let Some(id) = self.find(fd) else { return };
        self.table.unname(fd);
        let Some(socket) = self.get_mut(id) else { return };
        socket.file.fds -= 1;
        if socket.file.fds == 0 {
            if !socket.file.is_held() || !self.keep_open(id) {
                self.close(id);
            }
            return;
        }
        if socket.shadow.fd.number() == fd {
            let other = self.table.fd_of(id).and_then(Descriptor::new);
            if let Some(other) = other {
                self.move_shadow(id, other);
            }
            if let (Some(other), Some(writer)) = (other, self.get(id).and_then(|socket| socket.slot.writer())) {
                writer.set_fd(other.number());
            }
        }
    }

    /// Knows the shadow by another descriptor from now on.
    fn move_shadow(&mut self, id: SocketId, other: Descriptor) {
        let told = self.told_of_shadows(&[id]);
        if let Some((socket, engine)) = self.with_engine(id) {
            engine.unwatch_shadow(socket.shadow.fd);
            socket.shadow.fd = other;
            if let Service::Accelerated(accelerated) = &socket.service {
                engine.rename_socket(accelerated.flow_socket(other));
            }
            if socket.is_answered_here() {
                let _ = engine.watch_shadow(other, id.index() as u32);
                self.tell_of_shadows(&told);
            }
        } else if let Some(socket) = self.get_mut(id) {
            socket.shadow.fd = other;
        }
    }

    /// A call begins to wait at a socket: it lives until [`Sockets::release`].
    pub fn hold(&mut self, id: SocketId) -> u32 {
        self.get_mut(id).map_or(0, |socket| socket.file.hold())
    }

    /// The call ends. Its socket, where all fds were closed meanwhile, does too.
    pub fn release(&mut self, id: SocketId, ticket: u32) {
        let Some(socket) = self.get_mut(id) else { return };
        socket.file.release(ticket);
        if socket.file.is_over() {
            self.close(id);
        }
    }

    /// Whether another call waits at the socket for longer than the one with this ticket.
    #[inline]
    #[must_use]
    pub fn is_behind(&self, id: SocketId, ticket: u32) -> bool {
        self.get(id).is_some_and(|socket| socket.file.is_behind(ticket))
    }

    /// Before an fd becomes a copy of another: as long as it names the socket, what a child has is left to it, and a
    /// socket that a call waits at keeps its shadow.
    pub fn replacing(&mut self, fd: i32) {
        self.leave_to_others_of(fd);
        let Some(id) = self.find(fd) else { return };
        if self.get(id).is_some_and(|socket| socket.file.is_held() && socket.file.fds == 1) {
            self.keep_open(id);
        }
    }

    fn keep_open(&mut self, id: SocketId) -> bool {
        let Some(socket) = self.get(id) else { return false };
        if socket.file.kept_open.is_some() {
            return true;
        }
        let Ok(copy) = descriptor::copy(socket.shadow.fd.as_fd()) else { return false };
        let Some(other) = Descriptor::new(copy.as_raw_fd()) else { return false };
        self.move_shadow(id, other);
        if let Some(socket) = self.get_mut(id) {
            socket.file.kept_open = Some(copy);
        }
        true
    }

    /// An fd by which the kernel knows a socket now.
    #[must_use]
    pub fn shadow_fd(&self, id: SocketId) -> Option<i32> {
        self.get(id).map(|socket| socket.shadow.fd.number())
    }

    /// Another one serves a socket: calls that wait look anew.
    pub(crate) fn service_changed(&mut self) {
        self.generation += 1;
        self.sleepers.wake_all();
    }

    /// See the field: compare two for a change.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    fn close(&mut self, id: SocketId) {
        // What has come for it goes with it, and not to another socket that is bound to its port next.
        if self.get(id).is_some_and(Socket::is_answered_here) {
            self.take_in_all_frames();
        }
        self.sets.remove_socket(id);
        if let Some((socket, engine)) = self.with_engine(id) {
            if let Some(endpoint) = socket.endpoint() {
                engine.stack().udp_close(endpoint);
                engine.unwatch_shadow(socket.shadow.fd);
            }
            if let Service::Accelerated(accelerated) = &socket.service {
                engine.remove_flows(&accelerated.flows, accelerated.flow_socket(socket.shadow.fd));
            }
        }
        if let Some(socket) = self.table.take(id) {
            self.own_inodes.remove(socket.file.inode);
            if let Some(writer) = socket.slot.writer() {
                writer.close();
            }
        }
        if self.is_branch() {
            self.siblings.freed.push(id);
        } else {
            self.table.free_place(id);
        }
        self.generation += 1;
    }

    /// Places for sockets, open or not.
    #[must_use]
    pub fn socket_count(&self) -> usize {
        self.table.len()
    }

    /// The ids of all places, with a socket or without. Borrows nothing, so that sockets may be changed meanwhile.
    pub(crate) fn ids(&self) -> impl Iterator<Item = SocketId> + use<H> {
        (0..self.table.len() as u32).map(SocketId::new)
    }

    /// O_NONBLOCK changed.
    pub fn set_nonblocking(&mut self, fd: i32, is_nonblocking: bool) {
        self.claim_fd(fd);
        if let Some(socket) = self.find(fd).and_then(|id| self.get_mut(id)) {
            socket.file.is_nonblocking = is_nonblocking;
        }
    }

    /// bind(2) succeeded; `wanted` is what the program asked for. With a port of its choice the socket is a server and it is decided now
    /// who serves it, or with its first use; else when it is first used.
    pub fn bound(&mut self, fd: i32, wanted: SocketAddr) {
        let Some(id) = self.find(fd) else { return };
        let is_branch = self.is_branch();
        let Some(socket) = self.get_mut(id) else { return };
        socket.ends.bound_to = Some(wanted).filter(|wanted| wanted.port() != 0);
        if socket.is_young() {
            socket.ends.is_unread = true;
            return self.tell(id);
        }
        if self.bound_for_later(id) {
            return;
        }
        let Some(socket) = self.get_mut(id) else { return };
        if !socket.ends.is_server() || is_branch {
            socket.ends.local = kept::local_address(socket.shadow.fd).ok();
        }
        if !socket.ends.is_server() {
            self.tell(id);
            return;
        }
        self.settle(id, None);
        self.follow_kernel_service(id);
    }

    /// connect(2) succeeded.
    pub fn connected(&mut self, fd: i32) {
        self.claim_fd(fd);
        let Some(id) = self.find(fd) else { return };
        if self.get(id).is_some_and(|socket| socket.is_of_children) && self.has_children() {
            return self.connected_with_children(id);
        }
        let Some(socket) = self.get_mut(id) else { return };
        if socket.awaits_first_use() {
            self.is_clients(id);
        }
        let Some(socket) = self.get_mut(id) else { return };
        if socket.is_young() && !socket.is_lent() {
            return self.connected_young(id);
        }
        socket.read_peer();
        let remote = socket.ends.remote;
        match (&socket.service, remote) {
            (Service::Open, Some(remote)) => self.settle(id, Some(remote)),
            (Service::Accelerated(_), _) => {
                let may_share = socket.may_share_port();
                // The process that it was inherited from may have its flow, and the agent is to judge who has it now.
                let is_used_now = socket.is_preferred_by_peer() || socket.is_inherited;
                self.follow_connection(id, remote);
                if is_used_now {
                    self.use_socket(id);
                }
                if may_share {
                    // Its address is another one, at which there may be others.
                    self.wish_for_first(id);
                    self.call_those_beside(id);
                }
                self.show_connection(id);
            }
            (Service::Kernel(_), _) => self.show_kernel_connection(id),
            // One that is lent was disconnected.
            (Service::Open, None) => {}
        }
        self.tell(id);
    }

    /// The same of a socket that children may have, whose stack would not know of it: the kernel serves all of them.
    #[cold]
    fn connected_with_children(&mut self, id: SocketId) {
        self.take_in_all_frames();
        let Some(socket) = self.get_mut(id) else { return };
        socket.read_peer();
        // Until the last frame has come: from now on only what the peer sends is the socket's.
        if let Some((socket, engine)) = self.with_engine(id)
            && let (Some(endpoint), Some(remote)) = (socket.endpoint(), socket.ends.remote)
            && let Ok(local) = kept::local_address(socket.shadow.fd)
        {
            let _ = engine.stack().udp_connect(endpoint, remote, Some(local.ip()));
        }
        self.leave_to_kernel_with_others(id);
        self.show_kernel_connection(id);
        self.tell(id);
    }

    /// Another process connected a socket that this one has too, and is about to use.
    #[cold]
    pub(crate) fn follow_peer_of_others(&mut self, id: SocketId) {
        let Some(socket) = self.get_mut(id).filter(|socket| socket.is_accelerated()) else { return };
        let before = socket.ends.remote;
        socket.read_peer();
        let remote = socket.ends.remote;
        if remote != before {
            self.follow_connection(id, remote);
        }
    }

    /// The stack and the flows follow a connect or disconnect. What has come before is for whom it was for then.
    fn follow_connection(&mut self, id: SocketId, remote: Option<SocketAddr>) {
        self.take_in_all_frames();
        let Some((socket, engine)) = self.with_engine(id) else { return };
        let Service::Accelerated(Accelerated { endpoint, .. }) = &socket.service else { return };
        let endpoint = *endpoint;
        let local = kept::local_address(socket.shadow.fd).ok();
        socket.ends.local = local;
        let outcome = match (remote, local) {
            (Some(remote), Some(local)) if is_local(engine, remote.ip()) || local.ip().is_loopback() => {
                Err(Reason::Loopback)
            }
            (Some(remote), Some(local)) => {
                engine.stack().udp_connect(endpoint, remote, Some(local.ip())).map_err(|_| Reason::Route)
            }
            (_, Some(local)) if local.port() != 0 => {
                engine.stack().udp_disconnect(endpoint);
                Ok(())
            }
            // Disconnected, the kernel gave a port up that it had chosen itself.
            _ => Err(Reason::NotBound),
        };
        match outcome.and_then(|()| self.follow_addresses(id)) {
            Ok(()) => {}
            Err(Reason::NotBound) => {
                self.hand_over(id, Reason::NotBound);
                if let Some(socket) = self.get_mut(id) {
                    socket.service = Service::Open;
                }
            }
            Err(reason) => self.hand_over(id, reason),
        }
    }

    /// An option was set, of this level and name; `None`: any may have been. Reads back what the kernel has now.
    pub fn option_changed(&mut self, fd: i32, option: Option<(i32, i32)>) {
        self.claim_fd(fd);
        let Some(id) = self.find(fd) else { return };
        let Some(socket) = self.get_mut(id) else { return };
        socket.has_options = true;
        if !socket.is_accelerated() {
            // Read when it matters, as to what waits here still.
            let kept = socket.leftover.is_some().then(|| Kept::read(socket.shadow.fd, socket.family));
            socket.keep(kept);
            if socket.awaits_first_use() && kept::may_share_port(socket.shadow.fd) {
                self.settle(id, None);
            }
            return;
        }
        let (shadow, family) = (socket.shadow.fd, socket.family);
        let kept = match (socket.kept(), option) {
            (Some(before), Some(option)) => before.read_again(shadow, family, option),
            _ => Kept::read(shadow, family),
        };
        socket.keep(Some(kept));
        if let Some((level, name)) = kept.only_kernel {
            self.hand_over(id, Why::option(level, name));
            return;
        }
        if self.is_branch() && !self.get(id).is_some_and(|socket| self.has_what_it_needs(socket)) {
            // What is missing here is done there.
            return self.wish_for_first(id);
        }
        self.learn_drops(id);
        let Some((socket, engine)) = self.with_engine(id) else { return };
        if let Some(wanted) = kept.ancillary.wants_times() {
            engine.want_times(wanted);
        }
        let Some(endpoint) = socket.endpoint() else { return };
        if kept.ancillary.tells_device_time()
            && reach(socket).is_some_and(|(local, remote, device)| engine.lacks_device_times(local, remote, device))
        {
            self.hand_over(id, Why::option(kept::TIMESTAMPING.0, kept::TIMESTAMPING.1));
            return;
        }
        let options = complete(kept.options, socket.udp.longest_v6_packet_bytes, engine);
        let before = engine.stack_ref().udp_options(endpoint).copied();
        engine.stack().udp_configure(endpoint, |current| *current = options);
        if before.is_some_and(|before| before.device != options.device)
            && let Err(reason) = self.follow_device(id, options.device)
        {
            self.hand_over(id, reason);
        }
        self.tell_engine();
    }

    /// IPV6_MTU was set: longer packets are the kernel's to fragment; 0: as the path has it.
    pub fn longest_packet_set(&mut self, fd: i32, v6_packet_bytes: u32) {
        if let Some(socket) = self.find(fd).and_then(|id| self.get_mut(id)) {
            socket.udp.longest_v6_packet_bytes = Some(v6_packet_bytes).filter(|bytes| *bytes != 0);
        }
    }

    /// SO_BINDTODEVICE changed: the interface needs a port, and another socket may have the same port on another one.
    fn follow_device(&mut self, id: SocketId, device: Option<u32>) -> Result<(), Reason> {
        let is_used = self.is_used_by_now(id);
        let Some(socket) = self.get(id) else { return Ok(()) };
        let local =
            socket.ends.local.map_or(IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), |local| local.ip().to_canonical());
        let remote = socket.ends.remote.map(|remote| remote.ip().to_canonical());
        self.attach((local, remote, device), Opening::of(is_used))?;
        self.ask_sharing(id)
    }

    /// The program uses io_uring, by which it may receive from any of its sockets: all are the kernel's from now on, with what
    /// waits at them.
    pub fn io_uring_used(&mut self) {
        if std::mem::replace(&mut self.has_io_uring, true) {
            return;
        }
        self.ids().for_each(|id| self.give_back(id, Reason::IoUring, false));
        self.leave_all_streams(Reason::IoUring);
    }

    /// Something was done to a socket that only the kernel can follow.
    pub fn only_kernel(&mut self, fd: i32, why: impl Into<Why>) {
        self.claim_fd(fd);
        if let Some(id) = self.find(fd) {
            self.hand_over(id, why);
        }
    }

    /// shutdown(2) was called, and may have said that the socket is not connected. The kernel notifies all who watch a socket of
    /// it, whatever they asked for; those that are still in our sets, because of datagrams that wait, are told here.
    pub fn shut_down(&mut self, fd: i32) {
        if let Some(id) = self.find(fd)
            && self.get(id).is_some_and(Socket::is_answered_here)
        {
            // The watch knows of it too.
            self.tell_of_shadows(&[]);
            self.sets.raise(id, Events::empty());
            self.sleepers.wake_for(id);
        }
    }

    /// A group was joined on an interface, or the sources wanted of it changed; `ifindex` 0: the kernel chose one.
    pub fn joined(&mut self, fd: i32, ifindex: u32, group: IpAddr, filter: SourceFilter) {
        self.claim_fd(fd);
        let Some(id) = self.find(fd) else { return };
        let ifindex = if ifindex == 0 { self.interface_to(group) } else { ifindex };
        let Some(socket) = self.get_mut(id) else { return };
        socket.udp.memberships.retain(|known| (known.ifindex, known.group) != (ifindex, group));
        socket.udp.memberships.push(Membership { ifindex, group, filter: filter.clone() });
        if let Some((socket, engine)) = self.with_engine(id)
            && let Service::Accelerated(Accelerated { endpoint, .. }) = &socket.service
        {
            let joined =
                engine.stack().udp_join(*endpoint, ifindex, group, &filter).map_err(|_| Reason::AddressRefused);
            if let Err(reason) = joined.and_then(|()| self.follow_addresses(id)).and_then(|()| self.ask_sharing(id)) {
                self.hand_over(id, reason);
            }
        }
    }

    /// A group was left.
    pub fn left(&mut self, fd: i32, ifindex: u32, group: IpAddr) {
        self.claim_fd(fd);
        let Some(id) = self.find(fd) else { return };
        let Some(socket) = self.get_mut(id) else { return };
        let at = socket
            .udp
            .memberships
            .iter()
            .position(|known| known.group == group && (ifindex == 0 || known.ifindex == ifindex));
        let Some(at) = at else { return };
        let left = socket.udp.memberships.remove(at);
        if let Some((socket, engine)) = self.with_engine(id)
            && let Service::Accelerated(Accelerated { endpoint, .. }) = &socket.service
        {
            // The stack knows what was joined while it served the socket, which is all of it.
            let _ = engine.stack().udp_leave(*endpoint, left.ifindex, left.group);
            let _ = self.follow_addresses(id);
        }
    }

    /// The sources wanted of a group, as joined so far.
    #[must_use]
    pub fn membership(&self, fd: i32, ifindex: u32, group: IpAddr) -> Option<&SourceFilter> {
        let socket = self.find(fd).and_then(|id| self.get(id))?;
        let fits = |known: &&Membership| known.group == group && (ifindex == 0 || known.ifindex == ifindex);
        socket.udp.memberships.iter().find(fits).map(|known| &known.filter)
    }

    /// The interface that an address of this host lies on: what IP_ADD_MEMBERSHIP may name it by.
    pub fn interface_with(&mut self, address: IpAddr) -> Option<u32> {
        self.open_engine().ok()?.interface_with(address)
    }

    fn interface_to(&mut self, group: IpAddr) -> u32 {
        self.open_engine().ok().and_then(|engine| engine.stack_ref().interface_for(group, None).ok()).unwrap_or(0)
    }
}
