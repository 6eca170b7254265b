//! Who serves a socket: it is decided when it has an address or first sends, and again when what it was decided by changes.

mod kernel_first;
mod lent;
pub(crate) mod reach;

use std::net::SocketAddr;
use std::time::Duration;

use nearwire_frames::FlowSocket;
use nearwire_stack::{EndpointId, Family};
use nearwire_sys::descriptor::inode_of;
use nearwire_sys::own_stack;

use crate::config::{self, Role, Use};
use crate::engine::{Engine, Opening};
use crate::host::Host;
use crate::id::SocketId;
use crate::kept::{self, Kept};
use crate::reason::{Reason, Why};
use crate::socket::{Accelerated, Service, Socket};
use crate::sockets::{EngineState, Sockets};
use crate::status::Counter;
use reach::{Reach, complete, flows_of, is_local, reach};

/// An engine that was refused is tried again after this time: a limit may have been raised, descriptors closed.
const ENGINE_AGAIN_AFTER: Duration = Duration::from_secs(1);

impl<H: Host> Sockets<H> {
    /// Decides who serves a socket that has an address, or is about to send to `remote`. Not while datagrams wait here from before it lost the
    /// address that it had: the kernel serves it until they are read.
    pub(crate) fn settle(&mut self, id: SocketId, remote: Option<SocketAddr>) {
        let Some(socket) = self.get_mut(id) else { return };
        if matches!(socket.service, Service::Open) && socket.leftover.is_none() {
            // To announce a socket goes deep, as to open a flow.
            own_stack::run(|| self.settle_open(id, remote));
        }
    }

    fn settle_open(&mut self, id: SocketId, remote: Option<SocketAddr>) {
        if self.is_branch() && !self.can_settle_here(id, remote) {
            self.wish_for_first(id);
            return;
        }
        let was_lent = self.get(id).is_some_and(Socket::is_lent);
        if was_lent && !self.end_lending(id) {
            return;
        }
        match self.accelerate(id, remote) {
            Ok(accelerated) => {
                let before = self.config.datagrams_by_kernel_first();
                if let Some(socket) = self.get(id).filter(|socket| was_lent || socket.kernel_first < before) {
                    self.let_leave(socket.shadow.fd);
                }
                if let Some(socket) = self.get_mut(id) {
                    socket.service = Service::Accelerated(accelerated);
                    // What came before the filter is there, and nobody reported it.
                    socket.shadow.may_have_data();
                    socket.shadow.has_error = false;
                }
                self.call_those_beside(id);
                if self.is_used_by_now(id) {
                    self.use_with_those_beside(id);
                } else {
                    self.announce(id, true);
                }
                let state = self.readiness_of(id);
                self.sets.accelerated(id, state);
                self.sets.call_plain_waiters();
                self.page.count(Counter::SocketsAccelerated, u64::from(!was_lent));
                self.service_changed();
            }
            Err(why) => {
                let is_for_good = matches!(why.reason, Reason::UnsupportedOption | Reason::RuleSaysKernel);
                if let Some(socket) = self.get_mut(id) {
                    socket.service = Service::Kernel(why);
                }
                if is_for_good && self.may_be_of_others(id) {
                    self.leave_flow_of_others(id);
                }
                self.follow_kernel_service(id);
            }
        }
        self.tell_engine();
        self.tell(id);
    }

    fn accelerate(&mut self, id: SocketId, remote: Option<SocketAddr>) -> Result<Accelerated, Why> {
        if self.mistake.is_some() {
            return Err(Reason::ConfigurationWrong.into());
        }
        self.take_in_all_frames();
        // The tables may have changed since the last look: the address may be one of today.
        self.look();
        self.ask_rules(id, remote)?;
        if self.has_io_uring {
            return Err(Reason::IoUring.into());
        }
        let remote_ip = remote.map(|remote| remote.ip().to_canonical());
        let Some(socket) = self.get_mut(id) else { return Err(Reason::NotBound.into()) };
        let kept = Kept::read(socket.shadow.fd, socket.family);
        socket.keep(Some(kept));
        if let Some((level, name)) = kept.only_kernel {
            return Err(Why::option(level, name));
        }
        let asked_agent = self.asks_agent();
        self.ask_sharing(id)?;
        let Some(socket) = self.get(id) else { return Err(Reason::NotBound.into()) };
        let mut local = kept::local_address(socket.shadow.fd).map_err(|_| Reason::AddressRefused)?;
        let shadow = socket.shadow.fd;
        let (family, is_connected) = (socket.family, socket.ends.is_connected);
        let sends_to = remote.filter(|_| !is_connected);
        let longest_v6_packet_bytes = socket.udp.longest_v6_packet_bytes;
        let local_ip = local.ip().to_canonical();
        self.open_engine()?;
        let is_used = self.is_used_by_now(id);
        let engine = self.open_engine()?;
        // A program may have come into another (setns, unshare) before it opened the socket, or since.
        if engine.home().is_some_and(|home| !home.has(shadow)) {
            return Err(Reason::OtherNamespace.into());
        }
        if local_ip.is_loopback() || remote_ip.is_some_and(|remote| is_local(engine, remote)) {
            return Err(Reason::Loopback.into());
        }
        self.attach((local_ip, remote_ip, kept.options.device), Opening::of(is_used))?;
        // A port may have been opened that is not the agent's: then it is this process that has to ask who shares it.
        if asked_agent && !self.asks_agent() {
            self.ask_sharing(id)?;
        }
        let engine = self.open_engine()?;
        if local.port() == 0 {
            kept::bind_to_any(shadow, family).map_err(|_| Reason::NotBound)?;
            local = kept::local_address(shadow).map_err(|_| Reason::AddressRefused)?;
        }
        let options = complete(kept.options, longest_v6_packet_bytes, engine);
        if let Some(wanted) = kept.ancillary.wants_times() {
            engine.want_times(wanted);
        }
        if kept.ancillary.tells_device_time()
            && engine.lacks_device_times(local.ip().to_canonical(), remote_ip, kept.options.device)
        {
            return Err(Why::option(kept::TIMESTAMPING.0, kept::TIMESTAMPING.1));
        }
        let endpoint = engine.stack().udp_open(family, options);
        let entered = self.enter_stack(id, endpoint, local, remote.filter(|_| is_connected));
        let entered = entered.map(|entered| Accelerated { first_remote: remote_ip, ..entered });
        // Where it is settled once more, after it was lent to the kernel, its traffic goes by the same interface.
        self.get_mut(id).into_iter().for_each(|socket| socket.ends.sent_to = sends_to.or(socket.ends.sent_to));
        Ok(entered.inspect_err(|_| {
            if let Some(engine) = self.engine() {
                engine.stack().udp_close(endpoint);
            }
        })?)
    }

    /// Binds the endpoint as the shadow is bound, and watches the shadow. The ports take its packets from its first use on.
    fn enter_stack(
        &mut self,
        id: SocketId,
        endpoint: EndpointId,
        local: SocketAddr,
        remote: Option<SocketAddr>,
    ) -> Result<Accelerated, Reason> {
        let Some((socket, engine)) = self.with_engine(id) else { return Err(Reason::NotBound) };
        (socket.ends.local, socket.ends.remote) = (Some(local), remote.or(socket.ends.remote));
        let (bound, source) = match (remote, socket.ends.bound_to) {
            // Bound to no address before it was connected, it is again when it is disconnected.
            (Some(_), None) => (any_of(socket.family, local.port()), Some(local.ip())),
            (Some(_), Some(to)) if to.ip().to_canonical().is_unspecified() => (to, Some(local.ip())),
            (Some(_), Some(_)) => (local, Some(local.ip())),
            (None, _) => (local, None),
        };
        engine.stack().udp_bind(endpoint, bound).map_err(|_| Reason::AddressRefused)?;
        if let Some(remote) = remote {
            engine.stack().udp_connect(endpoint, remote, source).map_err(|_| Reason::Route)?;
        }
        for joined in &socket.udp.memberships {
            let joining = engine.stack().udp_join(endpoint, joined.ifindex, joined.group, &joined.filter);
            joining.map_err(|_| Reason::AddressRefused)?;
        }
        let inode = inode_of(socket.shadow.fd).ok_or(Reason::NotBound)?;
        socket.udp.own_addresses = engine.first_addresses_v4();
        engine.watch_shadow(socket.shadow.fd, id.index() as u32).map_err(|_| Reason::EngineFailed)?;
        self.table.own(id, endpoint);
        Ok(Accelerated { endpoint, flows: Vec::new(), first_remote: None, inode })
    }

    /// Whether a socket that has just got its address was used before, or others at its port are, or has to have its flow at once.
    pub(crate) fn is_used_by_now(&self, id: SocketId) -> bool {
        self.get(id).is_some_and(|socket| socket.is_used || socket.is_preferred_by_peer()) || self.has_used_beside(id)
    }

    /// Opens the ports that are missing on the way of a socket's traffic ([`Engine::attach`]). Where one that was lost comes back, and other
    /// processes have a right to flows of it, their sockets are the kernel's.
    pub(crate) fn attach(&mut self, (local, remote, device): Reach, opening: Opening) -> Result<(), Reason> {
        let now = self.time();
        let Some(engine) = self.engine() else { return Ok(()) };
        let attached = engine.attach(now, local, remote, device, opening);
        if engine.has_refused_flows() {
            self.give_up_revoked();
        }
        attached
    }

    /// Opens the ports that are missing for a socket that is used from now on. Those of the agent's are of the user that this process has now.
    fn open_ports_of(&mut self, id: SocketId) -> Result<(), Why> {
        let Some(reach) = self.get(id).and_then(reach).filter(|_| !self.is_branch()) else { return Ok(()) };
        let asked_agent = self.asks_agent();
        let Some(before) = self.engine_ref().map(Engine::ports_generation) else { return Ok(()) };
        let attached = self.attach(reach, Opening::Now);
        let Some(engine) = self.engine_ref() else { return Ok(()) };
        let (local, remote, device) = reach;
        let is_as_before = engine.ports_generation() == before;
        let lacks_times = engine.lacks_device_times(local, remote, device);
        self.tell_engine();
        attached?;
        if is_as_before {
            return Ok(());
        }
        if lacks_times && self.get(id).and_then(Socket::kept).is_some_and(|kept| kept.ancillary.tells_device_time()) {
            return Err(Why::option(kept::TIMESTAMPING.0, kept::TIMESTAMPING.1));
        }
        if asked_agent && !self.asks_agent() {
            self.ask_sharing(id)?;
        }
        // To an agent that knows this process by another user, or not at all, they are new.
        let unused = |socket: &Socket| socket.is_accelerated() && !socket.is_used;
        let unused: Vec<SocketId> = self.ids().filter(|id| self.get(*id).is_some_and(unused)).collect();
        unused.into_iter().for_each(|id| self.announce(id, true));
        Ok(())
    }

    /// Opens the ports that what these fds name needs, before it is decided which engine has it: other engines have the ports that the first
    /// one has.
    pub fn open_ports_for(&mut self, fds: &[i32]) {
        for id in self.all_of(fds, &[]).sockets {
            let is_new = |socket: &Socket| !socket.is_used && !socket.is_young();
            if self.get(id).is_some_and(is_new)
                && let Err(why) = self.open_ports_of(id)
            {
                self.hand_over(id, why);
            }
        }
    }

    /// Tells the agent of a socket that shares its port and that nobody has used, so that it knows that the flow comes later; or never. The
    /// latter also of one that other processes may have, who would have its flow.
    fn announce(&mut self, id: SocketId, is_to_be_used: bool) {
        let have_others = || self.may_be_of_others(id) || self.get(id).is_some_and(Socket::is_shared_with_others);
        let leaves_others = !is_to_be_used && have_others() && self.asks_agent();
        let Some(socket) = self.get(id).filter(|_| leaves_others || self.engine_ref().is_some()) else { return };
        if (leaves_others || socket.has_reuse_port()) && !(socket.is_used && is_to_be_used) {
            let socket = FlowSocket { descriptor: socket.shadow.fd, inode: socket.file.inode };
            self.host.announce(socket, is_to_be_used);
        }
    }

    /// Other processes that have a socket have no flow of it from now on.
    pub(crate) fn leave_flow_of_others(&mut self, id: SocketId) {
        self.announce(id, false);
    }

    /// The kernel serves a socket in all processes that have it.
    pub(crate) fn leave_to_kernel_with_others(&mut self, id: SocketId) {
        self.leave_flow_of_others(id);
        self.give_back(id, Reason::SharedSocket, false);
    }

    /// The same of all sockets that this process has inherited and may use.
    pub(crate) fn announce_inherited(&mut self) {
        for id in self.ids() {
            if self.get(id).is_some_and(Socket::is_free) {
                self.announce(id, true);
            }
        }
    }

    /// A socket is used from now on: its frames come to the ports of this engine, and those of all at its port.
    pub(crate) fn use_socket(&mut self, id: SocketId) {
        if self.get(id).is_some_and(Socket::awaits_first_use) {
            self.settle(id, None);
        }
        if self.get(id).is_some_and(|socket| !socket.is_used && !socket.is_young()) {
            self.use_with_those_beside(id);
        }
    }

    /// The kernel chooses among all that are bound to a port, used or not.
    fn use_with_those_beside(&mut self, id: SocketId) {
        let mut next = Some(id);
        while let Some(id) = next {
            let Some(socket) = self.get_mut(id) else { return };
            socket.is_used = true;
            // Goes deep, by the agent above all.
            own_stack::run(|| self.open_flows(id));
            self.tell(id);
            next = self.beside(id).find(|other| self.get(*other).is_some_and(|other| !other.is_used));
        }
    }

    /// Has frames of an accelerated socket come to the ports. What the kernel has by then, or gets of what was on its way, is older
    /// than all that will be in the rings: it is taken over.
    fn open_flows(&mut self, id: SocketId) {
        // Also one that has ended by now may have connected it.
        if self.get(id).is_some_and(Socket::was_shared) {
            self.follow_peer_of_others(id);
        }
        let opened = self.open_ports_of(id);
        if let Err(why) = opened.and_then(|()| Ok(self.follow_addresses(id)?)) {
            return self.hand_over(id, why);
        }
        if !self.get(id).is_some_and(Socket::is_accelerated) {
            return;
        }
        if self.is_of_others_under_former_agent(id) {
            return self.leave_to_kernel_with_others(id);
        }
        if self.may_be_of_others(id) && !self.is_served_by_port(id) {
            // Without a port for now: what comes is the kernel's, also where another process has had a flow of it, and all who have the
            // socket read what it has.
            self.leave_flow_of_others(id);
            return;
        }
        self.expect_others_at(id);
        if self.get(id).is_some_and(|socket| socket.shadow.is_readable()) {
            self.take_over_older(id);
        }
    }

    /// Whether others may have a socket that they got by fork(2) under another agent than serves this process. This one does not hear of those who
    /// have no agent any more and read what the kernel has.
    pub(crate) fn is_of_others_under_former_agent(&self, id: SocketId) -> bool {
        let shared_by = self.get(id).and_then(|socket| socket.shared_by_agent);
        self.may_be_of_others(id) && shared_by.is_some_and(|agent| self.host.known_agent() != Some(agent))
    }

    fn is_served_by_port(&self, id: SocketId) -> bool {
        self.get(id).is_some_and(|socket| socket.has_flows() && self.why_not_served(socket).is_none())
    }

    pub(super) fn ask_rules(&self, id: SocketId, remote: Option<SocketAddr>) -> Result<(), Why> {
        let Some(socket) = self.get(id) else { return Err(Reason::NotBound.into()) };
        let pair = |address: SocketAddr| (address.ip().to_canonical(), address.port());
        let bound_to = socket.ends.bound_to.filter(|_| socket.awaits_first_use());
        let asked = config::Socket {
            program: &self.program,
            role: if socket.ends.is_server() { Role::Server } else { Role::Client },
            local: bound_to.or_else(|| kept::local_address(socket.shadow.fd).ok()).map(pair),
            remote: remote.map(pair),
        };
        match self.config.decide(&asked) {
            (Use::Nearwire, _) => Ok(()),
            (Use::Kernel, number) => Err(Why::rule(number)),
        }
    }

    pub(crate) fn open_engine(&mut self) -> Result<&mut Engine<H>, Reason> {
        // Asked only where it is not open, which is seldom.
        let now = if matches!(self.engine, EngineState::Open(_)) { self.now } else { self.time() };
        let is_due = match &self.engine {
            EngineState::Closed => true,
            EngineState::Open(_) => false,
            EngineState::Refused(_, since_ns) => now.since(*since_ns) > ENGINE_AGAIN_AFTER,
        };
        if is_due {
            self.engine = match Engine::open(self.host.clone(), &self.config, self.page.clone()) {
                Ok(engine) => EngineState::Open(Box::new(engine)),
                Err(error) => EngineState::Refused(error, now.monotonic_ns()),
            };
            // Those that sleep do so without the watch.
            self.sleepers.wake_all();
        }
        match &mut self.engine {
            EngineState::Open(engine) => Ok(engine),
            EngineState::Refused(error, _) => Err(error.reason()),
            EngineState::Closed => Err(Reason::EngineFailed),
        }
    }

    /// Has ports opened where they are missing, after an interface came up or an address came. Where none can be had the
    /// kernel serves the socket, and [`Sockets::reason`] says why.
    pub(crate) fn attach_again(&mut self, id: SocketId) {
        let Some(reach) = self.get(id).and_then(reach) else { return };
        let _ = self.attach(reach, Opening::of(self.is_used_by_now(id)));
        if self.get(id).is_some_and(Socket::is_accelerated) {
            self.announce(id, true);
        }
    }

    /// Why no port takes what comes for an accelerated socket.
    pub(crate) fn why_not_served(&self, socket: &Socket) -> Option<Reason> {
        let EngineState::Open(engine) = &self.engine else { return None };
        let (local, remote, device) = reach(socket)?;
        engine.is_served(local, remote, device).err()
    }

    /// Adds and removes flows, of a socket that is used, after addresses, groups or the connection changed.
    pub(crate) fn follow_addresses(&mut self, id: SocketId) -> Result<(), Reason> {
        let Some((socket, engine)) = self.with_engine(id) else { return Ok(()) };
        let Service::Accelerated(accelerated) = &socket.service else { return Ok(()) };
        let flow_socket = accelerated.flow_socket(socket.shadow.fd);
        let wanted = if socket.is_used { flows_of(socket, engine, accelerated.endpoint) } else { Vec::new() };
        socket.udp.own_addresses = engine.first_addresses_v4();
        // Added before the old ones go, so that no packet falls in between.
        engine.add_flows(&wanted, flow_socket)?;
        if let Service::Accelerated(Accelerated { flows, .. }) = &mut socket.service {
            engine.remove_flows(flows, flow_socket);
            *flows = wanted;
        }
        self.learn_drops(id);
        Ok(())
    }

    /// Gives a socket back to the kernel. What was taken for it before is read first, unless its shadow has older datagrams.
    pub(crate) fn hand_over(&mut self, id: SocketId, why: impl Into<Why>) {
        self.hand_over_to(id, why, false);
    }

    pub(crate) fn hand_over_to(&mut self, id: SocketId, why: impl Into<Why>, by_child: bool) {
        let why = why.into();
        let Some(socket) = self.get_mut(id) else { return };
        let leaves_to_others = matches!(why.reason, Reason::SharedSocket | Reason::AfterFork | Reason::ReadByChild);
        if !socket.is_accelerated() {
            socket.service = Service::Kernel(why);
            self.tell(id);
            if !leaves_to_others && self.may_be_of_others(id) {
                self.leave_flow_of_others(id);
            }
            self.follow_kernel_service(id);
            return;
        }
        if why.reason == Reason::SharedSocket {
            self.has_shared_sockets = true;
        } else if !leaves_to_others {
            self.leave_flow_of_others(id);
        }
        let Some(socket) = self.get_mut(id) else { return };
        let before = std::mem::replace(&mut socket.service, Service::Kernel(why));
        let Service::Accelerated(accelerated) = before else { return };
        let (shadow, endpoint) = (socket.shadow.fd, accelerated.endpoint);
        socket.shadow.may_have_data();
        let shadow_was_first = socket.shadow.end_first();
        let counter = if why.reason == Reason::CpusWanted { Counter::SocketsLent } else { Counter::SocketsGivenBack };
        self.page.count(counter, 1);
        self.tell(id);
        let now = self.time();
        let Some(engine) = self.engine() else { return };
        let flow_socket = accelerated.flow_socket(shadow);
        engine.leave_flows(now, &accelerated.flows, flow_socket);
        let Some((socket, engine)) = self.with_engine(id) else { return };
        socket.leftover = Some(endpoint);
        let waits = engine.stack_ref().udp_waiting(endpoint) > 0;
        self.raise_readable();
        // Others who have it read what the kernel has; also a program that a child has executed.
        if waits && (shadow_was_first || self.get(id).is_some_and(Socket::was_shared)) {
            self.give_waiting_back(id, by_child);
        }
        // Else when that is read: the kernel's set does not know of it.
        self.drop_leftover_if_read(id, by_child);
        self.service_changed();
        self.follow_kernel_service(id);
    }

    /// The kernel reports a socket from now on, in the sets that it is in.
    pub(crate) fn put_into_kernels_sets(&mut self, id: SocketId, by_child: bool) {
        // What has come is told by the kernel, unless it was told here.
        self.tell_of_shadows(&[]);
        let Some(socket) = self.get(id) else { return };
        let socket = FlowSocket { descriptor: socket.shadow.fd, inode: socket.file.inode };
        self.sets.handed_over(id, socket, crate::epoll::Events::all(), by_child);
    }
}

const fn any_of(family: Family, port: u16) -> SocketAddr {
    use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};
    match family {
        Family::V4 => SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port)),
        Family::V6 => SocketAddr::V6(SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, port, 0, 0)),
    }
}
