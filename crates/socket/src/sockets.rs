//! All sockets of a process: the numbers they are known by, their lives, and who serves them.
//!
//! The program's call is made on the shadow first, by the caller of these functions; what the kernel accepted is followed
//! here. So the kernel's errors are the program's errors, and a socket that cannot be accelerated just stays as it is.

use std::net::{IpAddr, SocketAddr};

use nearwire_frames::steering::{FlowFilter, Transport};
use nearwire_stack::{EndpointId, Family, SourceFilter, UdpOptions};
use nearwire_sys::descriptor::Descriptor;

use crate::config::{self, Config, Role, Use};
use crate::engine::Engine;
use crate::epoll_sets::Sets;
use crate::id::SocketId;
use crate::reason::Reason;
use crate::shadow::{self, Kept};
use crate::sharing::Sharing;
use crate::udp_socket::{Accelerated, Membership, Service, UdpSocket};

/// Not opened yet, open, or why it cannot be.
pub(crate) enum EngineState {
    Closed,
    Open(Box<Engine>),
    Refused(Reason),
}

/// See the module.
pub struct Sockets {
    pub(crate) config: Config,
    program: String,
    /// By number: the socket's index plus 1; 0: none of ours.
    numbers: Vec<u32>,
    pub(crate) sockets: Vec<Option<UdpSocket>>,
    free: Vec<u32>,
    pub(crate) engine: EngineState,
    /// By endpoint index.
    owners: Vec<SocketId>,
    pub(crate) sets: Sets,
    /// Threads that sleep on the watch.
    pub(crate) sleepers: u32,
    hand_overs: u64,
    pub(crate) sharing: Sharing,
}

impl Sockets {
    /// None yet. `program` is the executable's file name, as rules name it.
    #[must_use]
    pub fn new(config: Config, program: &str) -> Sockets {
        Sockets {
            config,
            program: program.to_owned(),
            numbers: Vec::new(),
            sockets: Vec::new(),
            free: Vec::new(),
            engine: EngineState::Closed,
            owners: Vec::new(),
            sets: Sets::default(),
            sleepers: 0,
            hand_overs: 0,
            sharing: Sharing::default(),
        }
    }

    /// How many sockets were given to the kernel so far. When it has changed, what waits for sockets asks anew who serves
    /// them.
    #[inline]
    #[must_use]
    pub const fn hand_overs(&self) -> u64 {
        self.hand_overs
    }

    /// The socket that a number names.
    #[inline]
    #[must_use]
    pub fn find(&self, number: i32) -> Option<SocketId> {
        let place = self.numbers.get(usize::try_from(number).ok()?)?;
        place.checked_sub(1).map(SocketId::new)
    }

    #[inline]
    pub(crate) fn get(&self, id: SocketId) -> Option<&UdpSocket> {
        self.sockets.get(id.index())?.as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: SocketId) -> Option<&mut UdpSocket> {
        self.sockets.get_mut(id.index())?.as_mut()
    }

    /// The socket and the engine together.
    #[inline]
    pub(crate) fn with_engine(&mut self, id: SocketId) -> Option<(&mut UdpSocket, &mut Engine)> {
        match (self.sockets.get_mut(id.index())?.as_mut(), &mut self.engine) {
            (Some(socket), EngineState::Open(engine)) => Some((socket, engine)),
            _ => None,
        }
    }

    /// The engine, once a socket needed it.
    #[inline]
    pub fn engine(&mut self) -> Option<&mut Engine> {
        match &mut self.engine {
            EngineState::Open(engine) => Some(engine),
            EngineState::Closed | EngineState::Refused(_) => None,
        }
    }

    /// The socket that an endpoint belongs to.
    #[inline]
    pub(crate) fn owner(&self, endpoint: EndpointId) -> Option<SocketId> {
        let id = *self.owners.get(endpoint.index())?;
        (self.get(id)?.endpoint() == Some(endpoint)).then_some(id)
    }

    /// Whether a number names an accelerated socket.
    #[must_use]
    pub fn is_accelerated(&self, number: i32) -> bool {
        self.find(number).and_then(|id| self.get(id)).is_some_and(UdpSocket::is_accelerated)
    }

    /// A UDP socket was opened.
    pub fn opened(&mut self, number: i32, family: Family, is_nonblocking: bool) {
        let Some(shadow) = Descriptor::new(number) else { return };
        self.forget_number(number);
        let socket = UdpSocket::new(shadow, family, is_nonblocking);
        let index = match self.free.pop() {
            Some(index) => {
                self.sockets[index as usize] = Some(socket);
                index
            }
            None => {
                self.sockets.push(Some(socket));
                (self.sockets.len() - 1) as u32
            }
        };
        self.name(number, SocketId::new(index));
    }

    fn name(&mut self, number: i32, id: SocketId) {
        let Ok(at) = usize::try_from(number) else { return };
        if self.numbers.len() <= at {
            self.numbers.resize(at + 1, 0);
        }
        self.numbers[at] = id.index() as u32 + 1;
    }

    /// `new` names the same open file as `old` from now on: dup(2) and its kin, which closed what `new` named before.
    pub fn duplicated(&mut self, old: i32, new: i32) {
        if old == new {
            return;
        }
        self.closing(new);
        if let Some(id) = self.find(old) {
            if let Some(socket) = self.get_mut(id) {
                socket.numbers += 1;
            }
            self.name(new, id);
        }
        self.sets.duplicated(old, new);
    }

    /// A number is about to be closed. The last one of a socket closes it.
    pub fn closing(&mut self, number: i32) {
        self.sets.closing(number);
        self.forget_number(number);
    }

    fn forget_number(&mut self, number: i32) {
        let Some(id) = self.find(number) else { return };
        self.numbers[number as usize] = 0;
        let Some(socket) = self.get_mut(id) else { return };
        socket.numbers -= 1;
        if socket.numbers == 0 {
            self.close(id);
            return;
        }
        if socket.shadow.number() == number {
            let other = self.numbers.iter().position(|place| *place == id.index() as u32 + 1);
            let other = other.and_then(|number| Descriptor::new(i32::try_from(number).ok()?));
            if let (Some(other), Some((socket, engine))) = (other, self.with_engine(id)) {
                engine.unwatch_shadow(socket.shadow);
                socket.shadow = other;
                if socket.is_accelerated() {
                    let _ = engine.watch_shadow(other, id.index() as u32);
                }
            } else if let (Some(other), Some(socket)) = (other, self.get_mut(id)) {
                socket.shadow = other;
            }
        }
    }

    fn close(&mut self, id: SocketId) {
        // What has come for it goes with it, and not to another socket that is bound to its port next.
        self.take_in_frames();
        self.sets.remove_socket(id);
        if let Some((socket, engine)) = self.with_engine(id) {
            if let Some(endpoint) = socket.endpoint() {
                engine.stack().udp_close(endpoint);
            }
            if let Service::Accelerated(Accelerated { flows, .. }) = &socket.service {
                engine.remove_flows(flows);
                engine.unwatch_shadow(socket.shadow);
            }
        }
        self.sockets[id.index()] = None;
        self.free.push(id.index() as u32);
    }

    /// Places for sockets, open or not.
    #[must_use]
    pub fn socket_count(&self) -> usize {
        self.sockets.len()
    }

    /// O_NONBLOCK changed.
    pub fn set_nonblocking(&mut self, number: i32, is_nonblocking: bool) {
        if let Some(socket) = self.find(number).and_then(|id| self.get_mut(id)) {
            socket.is_nonblocking = is_nonblocking;
        }
    }

    /// bind(2) succeeded; `wanted_port` is what the program asked for. With a port of its choice the socket is a server and
    /// it is decided now who serves it; else when it is first used.
    pub fn bound(&mut self, number: i32, wanted_port: u16) {
        let Some(id) = self.find(number) else { return };
        if let Some(socket) = self.get_mut(id) {
            socket.is_server = wanted_port != 0;
            if !socket.is_server {
                socket.local = shadow::local_address(socket.shadow).ok();
                return;
            }
        }
        self.settle(id, None);
    }

    /// connect(2) succeeded.
    pub fn connected(&mut self, number: i32) {
        let Some(id) = self.find(number) else { return };
        let Some(socket) = self.get_mut(id) else { return };
        let remote = shadow::peer_address(socket.shadow);
        socket.is_connected = remote.is_some();
        socket.remote = remote;
        match (&socket.service, remote) {
            (Service::Open, Some(remote)) => self.settle(id, Some(remote)),
            (Service::Accelerated(_), _) => self.follow_connection(id, remote),
            _ => {}
        }
    }

    /// The stack and the flows follow a connect or disconnect. What has come before is for whom it was for then.
    fn follow_connection(&mut self, id: SocketId, remote: Option<SocketAddr>) {
        self.take_in_frames();
        let Some((socket, engine)) = self.with_engine(id) else { return };
        let Service::Accelerated(Accelerated { endpoint, .. }) = &socket.service else { return };
        let endpoint = *endpoint;
        let local = shadow::local_address(socket.shadow).ok();
        socket.local = local;
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

    /// An option was set: read back what the kernel has now.
    pub fn option_changed(&mut self, number: i32) {
        let Some(id) = self.find(number) else { return };
        let Some(socket) = self.get_mut(id) else { return };
        if !socket.is_accelerated() {
            // Read when it matters.
            socket.kept = None;
            return;
        }
        let kept = Kept::read(socket.shadow, socket.family);
        socket.kept = Some(kept);
        if kept.only_kernel {
            self.hand_over(id, Reason::UnsupportedOption);
            return;
        }
        let Some((socket, engine)) = self.with_engine(id) else { return };
        if kept.ancillary.wants_time() {
            engine.want_stamps();
        }
        let Some(endpoint) = socket.endpoint() else { return };
        let options = complete(kept.options, engine);
        let before = engine.stack_ref().udp_options(endpoint).copied();
        engine.stack().udp_configure(endpoint, |current| *current = options);
        if before.is_some_and(|before| before.device != options.device)
            && let Err(reason) = self.follow_device(id, options.device)
        {
            self.hand_over(id, reason);
        }
    }

    /// SO_BINDTODEVICE changed: the interface needs a port, and another socket may have the same port on another one.
    fn follow_device(&mut self, id: SocketId, device: Option<u32>) -> Result<(), Reason> {
        let Some((socket, engine)) = self.with_engine(id) else { return Ok(()) };
        let local = socket.local.map_or(IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), |local| local.ip().to_canonical());
        engine.attach(local, socket.remote.map(|remote| remote.ip().to_canonical()), device)?;
        self.ask_sharing(id)
    }

    /// Something was done to a socket that only the kernel can follow.
    pub fn only_kernel(&mut self, number: i32, reason: Reason) {
        if let Some(id) = self.find(number) {
            self.hand_over(id, reason);
        }
    }

    /// A group was joined on an interface, or the sources wanted of it changed; `ifindex` 0: the kernel chose one.
    pub fn joined(&mut self, number: i32, ifindex: u32, group: IpAddr, filter: SourceFilter) {
        let Some(id) = self.find(number) else { return };
        let ifindex = if ifindex == 0 { self.interface_to(group) } else { ifindex };
        let Some(socket) = self.get_mut(id) else { return };
        socket.memberships.retain(|known| (known.ifindex, known.group) != (ifindex, group));
        socket.memberships.push(Membership { ifindex, group, filter: filter.clone() });
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
    pub fn left(&mut self, number: i32, ifindex: u32, group: IpAddr) {
        let Some(id) = self.find(number) else { return };
        let Some(socket) = self.get_mut(id) else { return };
        let at = socket
            .memberships
            .iter()
            .position(|known| known.group == group && (ifindex == 0 || known.ifindex == ifindex));
        let Some(at) = at else { return };
        let left = socket.memberships.remove(at);
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
    pub fn membership(&self, number: i32, ifindex: u32, group: IpAddr) -> Option<&SourceFilter> {
        let socket = self.find(number).and_then(|id| self.get(id))?;
        let fits = |known: &&Membership| known.group == group && (ifindex == 0 || known.ifindex == ifindex);
        socket.memberships.iter().find(fits).map(|known| &known.filter)
    }

    /// The interface that an address of this host lies on: what IP_ADD_MEMBERSHIP may name it by.
    pub fn interface_with(&mut self, address: IpAddr) -> Option<u32> {
        self.open_engine().ok()?.interface_with(address)
    }

    fn interface_to(&mut self, group: IpAddr) -> u32 {
        self.open_engine().ok().and_then(|engine| engine.stack_ref().interface_for(group, None).ok()).unwrap_or(0)
    }

    /// Decides who serves a socket that has an address, or is about to send to `remote`.
    pub(crate) fn settle(&mut self, id: SocketId, remote: Option<SocketAddr>) {
        let Some(socket) = self.get_mut(id) else { return };
        if !matches!(socket.service, Service::Open) {
            return;
        }
        match self.accelerate(id, remote) {
            Ok(accelerated) => {
                if let Some(socket) = self.get_mut(id) {
                    socket.service = Service::Accelerated(accelerated);
                    // What came before the filter is there, and nobody told of it.
                    socket.shadow_has_data = true;
                    socket.shadow_has_error = false;
                }
                let state = self.readiness_of(id);
                self.sets.accelerated(id, state);
            }
            Err(reason) => {
                if let Some(socket) = self.get_mut(id) {
                    socket.service = Service::Kernel(reason);
                }
            }
        }
    }

    fn accelerate(&mut self, id: SocketId, remote: Option<SocketAddr>) -> Result<Accelerated, Reason> {
        self.take_in_frames();
        self.ask_rules(id, remote)?;
        let remote_ip = remote.map(|remote| remote.ip().to_canonical());
        let Some(socket) = self.get_mut(id) else { return Err(Reason::NotBound) };
        let kept = Kept::read(socket.shadow, socket.family);
        socket.kept = Some(kept);
        if kept.only_kernel {
            return Err(Reason::UnsupportedOption);
        }
        self.ask_sharing(id)?;
        let Some(socket) = self.get(id) else { return Err(Reason::NotBound) };
        let mut local = shadow::local_address(socket.shadow).map_err(|_| Reason::AddressRefused)?;
        let shadow = socket.shadow;
        let (family, is_connected) = (socket.family, socket.is_connected);
        let local_ip = local.ip().to_canonical();
        let engine = self.open_engine()?;
        if local_ip.is_loopback() || remote_ip.is_some_and(|remote| is_local(engine, remote)) {
            return Err(Reason::Loopback);
        }
        engine.attach(local_ip, remote_ip, kept.options.device)?;
        if local.port() == 0 {
            shadow::bind_to_any(shadow, family).map_err(|_| Reason::NotBound)?;
            local = shadow::local_address(shadow).map_err(|_| Reason::AddressRefused)?;
        }
        let options = complete(kept.options, engine);
        if kept.ancillary.wants_time() {
            engine.want_stamps();
        }
        let endpoint = engine.stack().udp_open(family, options);
        self.enter_stack(id, endpoint, local, remote.filter(|_| is_connected)).inspect_err(|_| {
            if let Some(engine) = self.engine() {
                engine.stack().udp_close(endpoint);
            }
        })
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
        let flows = flows_of(socket, engine, endpoint);
        socket.own_addresses = engine.first_addresses_v4();
        engine.watch_shadow(socket.shadow, id.index() as u32).map_err(|_| Reason::EngineFailed)?;
        if let Err(reason) = engine.add_flows(&flows) {
            engine.unwatch_shadow(socket.shadow);
            return Err(reason);
        }
        if self.owners.len() <= endpoint.index() {
            self.owners.resize(endpoint.index() + 1, id);
        }
        self.owners[endpoint.index()] = id;
        Ok(Accelerated { endpoint, flows })
    }

    fn ask_rules(&self, id: SocketId, remote: Option<SocketAddr>) -> Result<(), Reason> {
        let Some(socket) = self.get(id) else { return Err(Reason::NotBound) };
        let pair = |address: SocketAddr| (address.ip().to_canonical(), address.port());
        let asked = config::Socket {
            program: &self.program,
            role: if socket.is_server { Role::Server } else { Role::Client },
            local: shadow::local_address(socket.shadow).ok().map(pair),
            remote: remote.map(pair),
        };
        match self.config.decide(&asked) {
            (Use::Nearwire, _) => Ok(()),
            (Use::Kernel, _) => Err(Reason::RuleSaysKernel),
        }
    }

    fn open_engine(&mut self) -> Result<&mut Engine, Reason> {
        if let EngineState::Closed = self.engine {
            self.engine = match Engine::open(&self.config) {
                Ok(engine) => EngineState::Open(Box::new(engine)),
                Err(reason) => EngineState::Refused(reason),
            };
        }
        match &mut self.engine {
            EngineState::Open(engine) => Ok(engine),
            EngineState::Refused(reason) => Err(*reason),
            EngineState::Closed => Err(Reason::EngineFailed),
        }
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
    pub(crate) fn hand_over(&mut self, id: SocketId, reason: Reason) {
        let Some(socket) = self.get_mut(id) else { return };
        if !socket.is_accelerated() {
            socket.service = Service::Kernel(reason);
            return;
        }
        self.hand_overs += 1;
        let Some(socket) = self.get_mut(id) else { return };
        let before = std::mem::replace(&mut socket.service, Service::Kernel(reason));
        let Service::Accelerated(Accelerated { endpoint, flows }) = before else { return };
        let shadow = socket.shadow;
        socket.shadow_has_data = true;
        let Some(engine) = self.engine() else { return };
        engine.remove_flows(&flows);
        engine.unwatch_shadow(shadow);
        // Frames for it may be in the ring still.
        engine.poll_all();
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
            self.sets.handed_over(id);
        }
        // Calls that wait for it look, and find it the kernel's.
        self.wake_sleepers();
    }
}

/// Options as the stack wants them: IP_MULTICAST_IF names an interface by an address of it.
fn complete(options: UdpOptions, engine: &Engine) -> UdpOptions {
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

fn is_local(engine: &Engine, address: IpAddr) -> bool {
    let address = address.to_canonical();
    address.is_loopback() || engine.interface_with(address).is_some()
}

/// The packets that an endpoint wants: to its own address, or to all of this host, and to its groups. Broadcasts stay with
/// the kernel: they are for other programs too. So are groups, and a copy that the kernel would make is one we cannot: where
/// another process may have the port too, the kernel serves the socket (`sharing.rs`).
fn flows_of(socket: &UdpSocket, engine: &Engine, endpoint: EndpointId) -> Vec<FlowFilter> {
    let Some(local) = engine.stack_ref().udp_local(endpoint) else { return Vec::new() };
    let flow = |address: IpAddr| FlowFilter { transport: Transport::Udp, address, port: local.port() };
    let bound = local.ip().to_canonical();
    let v6_only = socket.kept.is_some_and(|kept| kept.options.v6_only);
    let takes = |address: &IpAddr| match socket.family {
        Family::V4 => address.is_ipv4(),
        Family::V6 => address.is_ipv6() || !v6_only,
    };
    let mut flows: Vec<FlowFilter> = if bound.is_unspecified() {
        engine.own_addresses().filter(takes).map(flow).collect()
    } else if bound.is_multicast() {
        Vec::new()
    } else {
        vec![flow(bound)]
    };
    let groups = socket.memberships.iter().map(|joined| joined.group);
    flows.extend(groups.filter(|group| bound.is_unspecified() || bound == *group).map(flow));
    flows.sort_unstable();
    flows.dedup();
    flows
}
