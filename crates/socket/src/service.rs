//! Who serves a socket: it is decided when it has an address or first sends, and again when what it was decided by changes.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use nearwire_frames::steering::{FlowFilter, Transport};
use nearwire_stack::{EndpointId, Family, UdpOptions};
use nearwire_sys::socket::netns_cookie;
use rustix::net::{AddressFamily, SocketType};

use crate::config::{self, Role, Use};
use crate::engine::Engine;
use crate::handover::inode_of;
use crate::host::Host;
use crate::id::SocketId;
use crate::reason::{Reason, Why};
use crate::shadow::{self, Kept};
use crate::sockets::{EngineState, Sockets};
use crate::status::Counter;
use crate::udp_socket::{Accelerated, Service, UdpSocket};

/// An engine that was refused is tried again after this time: a limit may have been raised, descriptors closed.
const ENGINE_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// That of the calling thread, in which sockets are opened now.
fn present_namespace() -> Option<u64> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None).ok()?;
    netns_cookie(socket).ok()
}

impl<H: Host> Sockets<H> {
    /// Decides who serves a socket that has an address, or is about to send to `remote`.
    pub(crate) fn settle(&mut self, id: SocketId, remote: Option<SocketAddr>) {
        let Some(socket) = self.get_mut(id) else { return };
        if !matches!(socket.service, Service::Open) {
            return;
        }
        if self.is_branch() && !self.can_settle_here(id, remote) {
            self.wish_for_first();
            return;
        }
        match self.accelerate(id, remote) {
            Ok(accelerated) => {
                if let Some(socket) = self.get_mut(id) {
                    socket.service = Service::Accelerated(accelerated);
                    // What came before the filter is there, and nobody told of it.
                    socket.may_have_data();
                    socket.shadow_has_error = false;
                }
                self.ask_those_away(id);
                let state = self.readiness_of(id);
                self.sets.accelerated(id, state);
                self.page.count(Counter::SocketsAccelerated, 1);
                self.service_changed();
            }
            Err(why) => {
                if let Some(socket) = self.get_mut(id) {
                    socket.service = Service::Kernel(why);
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
        let kept = Kept::read(socket.shadow, socket.family);
        socket.keep(Some(kept));
        if let Some((level, name)) = kept.only_kernel {
            return Err(Why::option(level, name));
        }
        self.ask_sharing(id)?;
        let Some(socket) = self.get(id) else { return Err(Reason::NotBound.into()) };
        let mut local = shadow::local_address(socket.shadow).map_err(|_| Reason::AddressRefused)?;
        let shadow = socket.shadow;
        let (family, is_connected) = (socket.family, socket.is_connected);
        let local_ip = local.ip().to_canonical();
        self.open_engine()?;
        // A program may have come into another (setns, unshare) before it opened the socket, or since.
        if netns_cookie(shadow).ok() != self.namespace {
            return Err(Reason::OtherNamespace.into());
        }
        let now = self.now;
        let engine = self.open_engine()?;
        if local_ip.is_loopback() || remote_ip.is_some_and(|remote| is_local(engine, remote)) {
            return Err(Reason::Loopback.into());
        }
        engine.attach(now, local_ip, remote_ip, kept.options.device)?;
        if local.port() == 0 {
            shadow::bind_to_any(shadow, family).map_err(|_| Reason::NotBound)?;
            local = shadow::local_address(shadow).map_err(|_| Reason::AddressRefused)?;
        }
        let options = complete(kept.options, engine);
        if let Some(wanted) = kept.ancillary.wants_times() {
            engine.want_times(wanted);
        }
        if kept.ancillary.tells_device_time()
            && engine.lacks_device_times(local.ip().to_canonical(), remote_ip, kept.options.device)
        {
            return Err(Why::option(shadow::TIMESTAMPING.0, shadow::TIMESTAMPING.1));
        }
        let endpoint = engine.stack().udp_open(family, options);
        let entered = self.enter_stack(id, endpoint, local, remote.filter(|_| is_connected));
        let entered = entered.map(|entered| Accelerated { first_remote: remote_ip, ..entered });
        Ok(entered.inspect_err(|_| {
            if let Some(engine) = self.engine() {
                engine.stack().udp_close(endpoint);
            }
        })?)
    }

    /// Binds the endpoint as the shadow is bound, and has the ports take its packets.
    fn enter_stack(
        &mut self,
        id: SocketId,
        endpoint: EndpointId,
        local: SocketAddr,
        remote: Option<SocketAddr>,
    ) -> Result<Accelerated, Reason> {
        let Some((socket, engine)) = self.with_engine(id) else { return Err(Reason::NotBound) };
        (socket.local, socket.remote) = (Some(local), remote.or(socket.remote));
        let (bound, source) = match remote {
            // Bound to no address before it was connected, it is again when it is disconnected.
            Some(_) if !socket.is_server => (any_of(socket.family, local.port()), Some(local.ip())),
            Some(_) => (local, Some(local.ip())),
            None => (local, None),
        };
        engine.stack().udp_bind(endpoint, bound).map_err(|_| Reason::AddressRefused)?;
        if let Some(remote) = remote {
            engine.stack().udp_connect(endpoint, remote, source).map_err(|_| Reason::Route)?;
        }
        for joined in &socket.memberships {
            let joining = engine.stack().udp_join(endpoint, joined.ifindex, joined.group, &joined.filter);
            joining.map_err(|_| Reason::AddressRefused)?;
        }
        let inode = inode_of(socket.shadow).ok_or(Reason::NotBound)?;
        let flows = flows_of(socket, engine, endpoint);
        socket.own_addresses = engine.first_addresses_v4();
        engine.watch_shadow(socket.shadow, id.index() as u32).map_err(|_| Reason::EngineFailed)?;
        if let Err(reason) = engine.add_flows(&flows) {
            engine.unwatch_shadow(socket.shadow);
            return Err(reason);
        }
        self.own(id, endpoint);
        Ok(Accelerated { endpoint, flows, first_remote: None, inode })
    }

    fn ask_rules(&self, id: SocketId, remote: Option<SocketAddr>) -> Result<(), Why> {
        let Some(socket) = self.get(id) else { return Err(Reason::NotBound.into()) };
        let pair = |address: SocketAddr| (address.ip().to_canonical(), address.port());
        let asked = config::Socket {
            program: &self.program,
            role: if socket.is_server { Role::Server } else { Role::Client },
            local: shadow::local_address(socket.shadow).ok().map(pair),
            remote: remote.map(pair),
        };
        match self.config.decide(&asked) {
            (Use::Nearwire, _) => Ok(()),
            (Use::Kernel, number) => Err(Why::rule(number)),
        }
    }

    pub(crate) fn open_engine(&mut self) -> Result<&mut Engine<H>, Reason> {
        let is_due = match &self.engine {
            EngineState::Closed => true,
            EngineState::Open(_) => false,
            EngineState::Refused(_, since_ns) => self.now.since(*since_ns) > ENGINE_AGAIN_AFTER,
        };
        if is_due {
            self.namespace = present_namespace();
            self.engine = match Engine::open(self.host.clone(), &self.config, self.page.clone()) {
                Ok(engine) => EngineState::Open(Box::new(engine)),
                Err(error) => EngineState::Refused(error, self.now.monotonic_ns()),
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
        let Some((local, remote, device)) = self.get(id).and_then(reach) else { return };
        let now = self.now;
        if let Some(engine) = self.engine() {
            let _ = engine.attach(now, local, remote, device);
        }
    }

    /// Why no port takes what comes for an accelerated socket.
    pub(crate) fn why_not_served(&self, socket: &UdpSocket) -> Option<Reason> {
        let EngineState::Open(engine) = &self.engine else { return None };
        let (local, remote, device) = reach(socket)?;
        engine.is_served(local, remote, device).err()
    }

    /// Adds and removes flows after addresses, groups or the connection changed.
    pub(crate) fn follow_addresses(&mut self, id: SocketId) -> Result<(), Reason> {
        let Some((socket, engine)) = self.with_engine(id) else { return Ok(()) };
        let Service::Accelerated(Accelerated { endpoint, .. }) = &socket.service else { return Ok(()) };
        let wanted = flows_of(socket, engine, *endpoint);
        socket.own_addresses = engine.first_addresses_v4();
        // Added before the old ones go, so that no packet falls in between.
        engine.add_flows(&wanted)?;
        if let Service::Accelerated(Accelerated { flows, .. }) = &mut socket.service {
            engine.remove_flows(flows);
            *flows = wanted;
        }
        Ok(())
    }

    /// Gives a socket back to the kernel. What was taken for it before is read first.
    pub(crate) fn hand_over(&mut self, id: SocketId, why: impl Into<Why>) {
        self.hand_over_to(id, why, false);
    }

    pub(crate) fn hand_over_to(&mut self, id: SocketId, why: impl Into<Why>, by_child: bool) {
        let why = why.into();
        let Some(socket) = self.get_mut(id) else { return };
        if !socket.is_accelerated() {
            socket.service = Service::Kernel(why);
            self.tell(id);
            self.follow_kernel_service(id);
            return;
        }
        let before = std::mem::replace(&mut socket.service, Service::Kernel(why));
        let Service::Accelerated(Accelerated { endpoint, flows, .. }) = before else { return };
        let shadow = socket.shadow;
        socket.may_have_data();
        socket.shadow_is_older = false;
        self.page.count(Counter::SocketsGivenBack, 1);
        self.tell(id);
        let now = self.now;
        let Some(engine) = self.engine() else { return };
        engine.remove_flows(&flows);
        engine.unwatch_shadow(shadow);
        // Frames for it may be in the ring still.
        engine.take_in_all(now);
        let waits = engine.stack().udp_waiting(endpoint) > 0;
        if !waits {
            engine.stack().udp_close(endpoint);
        }
        if let Some(socket) = self.get_mut(id) {
            socket.leftover = waits.then_some(endpoint);
        }
        self.raise_readable();
        if !waits {
            // Else when that is read: the kernel's set does not know of it.
            self.sets.handed_over(id, by_child);
        }
        self.service_changed();
        self.follow_kernel_service(id);
    }
}

/// What says by which interfaces traffic of an accelerated socket goes: local address, peer, device.
pub(crate) fn reach(socket: &UdpSocket) -> Option<(IpAddr, Option<IpAddr>, Option<u32>)> {
    let Service::Accelerated(Accelerated { first_remote, .. }) = &socket.service else { return None };
    let connected = socket.remote.filter(|_| socket.is_connected).map(|remote| remote.ip().to_canonical());
    let device = socket.kept().and_then(|kept| kept.options.device);
    Some((socket.local?.ip().to_canonical(), connected.or(*first_remote), device))
}

/// Options as the stack wants them: IP_MULTICAST_IF names an interface by an address of it.
pub(crate) fn complete<H: Host>(options: UdpOptions, engine: &Engine<H>) -> UdpOptions {
    let Some(mut interface) = options.multicast_interface else { return options };
    if interface.ifindex == 0 {
        interface.ifindex = interface.source.and_then(|source| engine.interface_with(source)).unwrap_or(0);
    }
    UdpOptions { multicast_interface: Some(interface).filter(|interface| interface.ifindex != 0), ..options }
}

const fn any_of(family: Family, port: u16) -> SocketAddr {
    use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};
    match family {
        Family::V4 => SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port)),
        Family::V6 => SocketAddr::V6(SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, port, 0, 0)),
    }
}

pub(crate) fn is_local<H: Host>(engine: &Engine<H>, address: IpAddr) -> bool {
    let address = address.to_canonical();
    address.is_loopback() || engine.interface_with(address).is_some()
}

/// The packets that an endpoint wants: to its own address, or to all of this host, and to its groups. Broadcasts stay with
/// the kernel: they are for other programs too. So are groups, and a copy that the kernel would make is one we cannot: where
/// another process may have the port too, the kernel serves the socket (`sharing.rs`).
fn flows_of<H: Host>(socket: &UdpSocket, engine: &Engine<H>, endpoint: EndpointId) -> Vec<FlowFilter> {
    let Some(local) = engine.stack_ref().udp_local(endpoint) else { return Vec::new() };
    let flow = |address: IpAddr| FlowFilter { transport: Transport::Udp, address, port: local.port() };
    let bound = local.ip().to_canonical();
    let v6_only = socket.kept().is_some_and(|kept| kept.options.v6_only);
    let takes = |address: &IpAddr| match socket.family {
        Family::V4 => address.is_ipv4(),
        Family::V6 => address.is_ipv6() || !v6_only,
    };
    let mut flows: Vec<FlowFilter> = if bound.is_unspecified() {
        engine.own_addresses().filter(takes).map(flow).collect()
    } else if engine.interface_with(bound).is_some() {
        vec![flow(bound)]
    } else {
        // A group, or an address that was removed.
        Vec::new()
    };
    let groups = socket.memberships.iter().map(|joined| joined.group);
    flows.extend(groups.filter(|group| bound.is_unspecified() || bound == *group).map(flow));
    flows.sort_unstable();
    flows.dedup();
    flows
}
