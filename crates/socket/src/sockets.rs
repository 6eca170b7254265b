//! All sockets of a process: the numbers they are known by, their lives, and who serves them.
//!
//! The program's call is made on the shadow first, by the caller of these functions; what the kernel accepted is followed
//! here. So the kernel's errors are the program's errors, and a socket that cannot be accelerated just stays as it is.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use nearwire_frames::steering::{FlowFilter, Transport};
use nearwire_stack::{EndpointId, Family, SourceFilter, UdpOptions};
use nearwire_sys::descriptor::{Descriptor, place};

use crate::config::{self, Config, Role, Use};
use crate::engine::Engine;
use crate::epoll_sets::Sets;
use crate::handover::{Children, inode_of};
use crate::id::SocketId;
use crate::reason::{Reason, Why};
use crate::sending::Leaving;
use crate::shadow::{self, Kept};
use crate::sharing::Sharing;
use crate::sleepers::Sleepers;
use crate::status::{Counter, Slot, Writer};
use crate::udp_socket::{Accelerated, Membership, Service, UdpSocket};
use crate::wait::online_cpus;

/// An engine that was refused is tried again after this time: a limit may have been raised, descriptors closed.
const ENGINE_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Not opened yet, open, or why it cannot be.
pub(crate) enum EngineState {
    Closed,
    Open(Box<Engine>),
    /// Why, and when it was tried.
    Refused(Reason, Instant),
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
    pub(crate) sleepers: Sleepers,
    /// Changes when another one serves a socket, so that calls that wait look anew who does.
    pub(crate) generation: u64,
    /// What others are told of all this.
    pub(crate) page: Writer,
    pub(crate) children: Children,
    /// Sockets were inherited from a process that accelerates them.
    pub(crate) inherits: bool,
    /// An inherited socket is claimed also when this process sends by it.
    pub(crate) claims_to_send: bool,
    pub(crate) sharing: Sharing,
    pub(crate) leaving: Leaving,
}

impl Sockets {
    /// None yet. `program` is the executable's file name, as rules name it.
    #[must_use]
    pub fn new(config: Config, program: &str) -> Sockets {
        Sockets {
            page: Writer::of_self(&config, online_cpus()),
            leaving: Leaving::new(&config),
            config,
            program: program.to_owned(),
            numbers: Vec::new(),
            sockets: Vec::new(),
            free: Vec::new(),
            engine: EngineState::Closed,
            owners: Vec::new(),
            sets: Sets::default(),
            sleepers: Sleepers::default(),
            generation: 0,
            children: Children::default(),
            inherits: false,
            claims_to_send: false,
            sharing: Sharing::default(),
        }
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
            EngineState::Closed | EngineState::Refused(..) => None,
        }
    }

    /// The same, to look at.
    #[must_use]
    pub fn engine_ref(&self) -> Option<&Engine> {
        match &self.engine {
            EngineState::Open(engine) => Some(engine),
            EngineState::Closed | EngineState::Refused(..) => None,
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
        let index = self.free.pop().unwrap_or(self.sockets.len() as u32);
        let slot = Slot::new(self.page.clone(), index as usize);
        match slot.writer() {
            Some(writer) => writer.open(number),
            None => self.page.count(Counter::SocketsWithoutSlot, 1),
        }
        let socket = UdpSocket::new(shadow, family, is_nonblocking, slot);
        match self.sockets.get_mut(index as usize) {
            Some(place) => *place = Some(socket),
            None => self.sockets.push(Some(socket)),
        }
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

    /// All numbers of sockets are below.
    pub(crate) fn number_count(&self) -> i32 {
        self.numbers.len() as i32
    }

    pub(crate) fn forget_number(&mut self, number: i32) {
        let Some(id) = self.find(number) else { return };
        self.numbers[number as usize] = 0;
        let Some(socket) = self.get_mut(id) else { return };
        socket.numbers -= 1;
        if socket.numbers == 0 {
            if socket.holders == 0 || !self.keep_open(id) {
                self.close(id);
            }
            return;
        }
        if socket.shadow.number() == number {
            let other = self.numbers.iter().position(|place| *place == id.index() as u32 + 1);
            let other = other.and_then(|number| Descriptor::new(i32::try_from(number).ok()?));
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
        if let Some((socket, engine)) = self.with_engine(id) {
            engine.unwatch_shadow(socket.shadow);
            socket.shadow = other;
            if socket.is_accelerated() {
                let _ = engine.watch_shadow(other, id.index() as u32);
                // The watch tells of edges, and one may just have passed.
                socket.shadow_has_data = true;
            }
        } else if let Some(socket) = self.get_mut(id) {
            socket.shadow = other;
        }
    }

    /// A call begins to wait at a socket: it lives until [`Sockets::release`].
    pub fn hold(&mut self, id: SocketId) {
        if let Some(socket) = self.get_mut(id) {
            socket.holders += 1;
        }
    }

    /// The call ends. Its socket, where all numbers were closed meanwhile, does too.
    pub fn release(&mut self, id: SocketId) {
        let Some(socket) = self.get_mut(id) else { return };
        socket.holders = socket.holders.saturating_sub(1);
        if socket.holders == 0 && socket.numbers == 0 {
            self.close(id);
        }
    }

    /// Before a number is closed or becomes a copy of another: a socket that a call waits at keeps its shadow.
    pub fn keep_if_held(&mut self, number: i32) {
        let Some(id) = self.find(number) else { return };
        if self.get(id).is_some_and(|socket| socket.holders > 0 && socket.numbers == 1) {
            self.keep_open(id);
        }
    }

    fn keep_open(&mut self, id: SocketId) -> bool {
        let Some(socket) = self.get(id) else { return false };
        if socket.kept_open.is_some() {
            return true;
        }
        let Ok(copy) = rustix::io::fcntl_dupfd_cloexec(socket.shadow, 0) else { return false };
        let copy = place(copy);
        let Some(other) = Descriptor::new(copy.as_raw_fd()) else { return false };
        self.move_shadow(id, other);
        if let Some(socket) = self.get_mut(id) {
            socket.kept_open = Some(copy);
        }
        true
    }

    /// The number by which the kernel knows a socket now.
    #[must_use]
    pub fn shadow_number(&self, id: SocketId) -> Option<i32> {
        self.get(id).map(|socket| socket.shadow.number())
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
        self.take_in_all_frames();
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
        if let Some(writer) = self.get(id).and_then(|socket| socket.slot.writer()) {
            writer.close();
        }
        self.sockets[id.index()] = None;
        self.free.push(id.index() as u32);
        self.generation += 1;
    }

    /// Places for sockets, open or not.
    #[must_use]
    pub fn socket_count(&self) -> usize {
        self.sockets.len()
    }

    /// O_NONBLOCK changed.
    pub fn set_nonblocking(&mut self, number: i32, is_nonblocking: bool) {
        self.claim_number(number);
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
                self.tell(id);
                return;
            }
        }
        self.settle(id, None);
    }

    /// connect(2) succeeded.
    pub fn connected(&mut self, number: i32) {
        self.claim_number(number);
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
        self.tell(id);
    }

    /// The stack and the flows follow a connect or disconnect. What has come before is for whom it was for then.
    fn follow_connection(&mut self, id: SocketId, remote: Option<SocketAddr>) {
        self.take_in_all_frames();
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
        self.claim_number(number);
        let Some(id) = self.find(number) else { return };
        let Some(socket) = self.get_mut(id) else { return };
        if !socket.is_accelerated() {
            // Read when it matters.
            socket.keep(None);
            return;
        }
        let kept = Kept::read(socket.shadow, socket.family);
        socket.keep(Some(kept));
        if let Some((level, name)) = kept.only_kernel {
            self.hand_over(id, Why::option(level, name));
            return;
        }
        let Some((socket, engine)) = self.with_engine(id) else { return };
        if let Some(wanted) = kept.ancillary.wants_times() {
            engine.want_times(wanted);
        }
        let Some(endpoint) = socket.endpoint() else { return };
        if kept.ancillary.tells_device_time()
            && reach(socket).is_some_and(|(local, remote, device)| engine.lacks_device_times(local, remote, device))
        {
            self.hand_over(id, Why::option(shadow::TIMESTAMPING.0, shadow::TIMESTAMPING.1));
            return;
        }
        let options = complete(kept.options, engine);
        let before = engine.stack_ref().udp_options(endpoint).copied();
        engine.stack().udp_configure(endpoint, |current| *current = options);
        if before.is_some_and(|before| before.device != options.device)
            && let Err(reason) = self.follow_device(id, options.device)
        {
            self.hand_over(id, reason);
        }
        self.tell_engine();
    }

    /// SO_BINDTODEVICE changed: the interface needs a port, and another socket may have the same port on another one.
    fn follow_device(&mut self, id: SocketId, device: Option<u32>) -> Result<(), Reason> {
        let Some((socket, engine)) = self.with_engine(id) else { return Ok(()) };
        let local = socket.local.map_or(IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), |local| local.ip().to_canonical());
        engine.attach(local, socket.remote.map(|remote| remote.ip().to_canonical()), device)?;
        self.ask_sharing(id)
    }

    /// Something was done to a socket that only the kernel can follow.
    pub fn only_kernel(&mut self, number: i32, why: impl Into<Why>) {
        self.claim_number(number);
        if let Some(id) = self.find(number) {
            self.hand_over(id, why);
        }
    }

    /// A group was joined on an interface, or the sources wanted of it changed; `ifindex` 0: the kernel chose one.
    pub fn joined(&mut self, number: i32, ifindex: u32, group: IpAddr, filter: SourceFilter) {
        self.claim_number(number);
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
        self.claim_number(number);
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
                self.page.count(Counter::SocketsAccelerated, 1);
                self.service_changed();
            }
            Err(why) => {
                if let Some(socket) = self.get_mut(id) {
                    socket.service = Service::Kernel(why);
                }
            }
        }
        self.tell_engine();
        self.tell(id);
    }

    fn accelerate(&mut self, id: SocketId, remote: Option<SocketAddr>) -> Result<Accelerated, Why> {
        self.take_in_all_frames();
        // The tables may have changed since the last look: the address may be one of today.
        self.look();
        self.ask_rules(id, remote)?;
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
        let engine = self.open_engine()?;
        if local_ip.is_loopback() || remote_ip.is_some_and(|remote| is_local(engine, remote)) {
            return Err(Reason::Loopback.into());
        }
        engine.attach(local_ip, remote_ip, kept.options.device)?;
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
        if self.owners.len() <= endpoint.index() {
            self.owners.resize(endpoint.index() + 1, id);
        }
        self.owners[endpoint.index()] = id;
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

    fn open_engine(&mut self) -> Result<&mut Engine, Reason> {
        let is_due = match &self.engine {
            EngineState::Closed => true,
            EngineState::Open(_) => false,
            EngineState::Refused(_, since) => since.elapsed() > ENGINE_AGAIN_AFTER,
        };
        if is_due {
            self.engine = match Engine::open(&self.config, self.page.clone()) {
                Ok(engine) => EngineState::Open(Box::new(engine)),
                Err(reason) => EngineState::Refused(reason, Instant::now()),
            };
            // Those that sleep do so without the watch.
            self.sleepers.wake_all();
        }
        match &mut self.engine {
            EngineState::Open(engine) => Ok(engine),
            EngineState::Refused(reason, _) => Err(*reason),
            EngineState::Closed => Err(Reason::EngineFailed),
        }
    }

    /// Has ports opened where they are missing, after an interface came up or an address came. Where none can be had the
    /// kernel serves the socket, and [`Sockets::reason`] says why.
    pub(crate) fn attach_again(&mut self, id: SocketId) {
        let Some((local, remote, device)) = self.get(id).and_then(reach) else { return };
        if let Some(engine) = self.engine() {
            let _ = engine.attach(local, remote, device);
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
            return;
        }
        let before = std::mem::replace(&mut socket.service, Service::Kernel(why));
        let Service::Accelerated(Accelerated { endpoint, flows, .. }) = before else { return };
        let shadow = socket.shadow;
        (socket.shadow_has_data, socket.shadow_is_older) = (true, false);
        self.page.count(Counter::SocketsGivenBack, 1);
        self.tell(id);
        let Some(engine) = self.engine() else { return };
        engine.remove_flows(&flows);
        engine.unwatch_shadow(shadow);
        // Frames for it may be in the ring still.
        engine.take_in_all();
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
    }
}

/// What says by which interfaces traffic of an accelerated socket goes: local address, peer, device.
fn reach(socket: &UdpSocket) -> Option<(IpAddr, Option<IpAddr>, Option<u32>)> {
    let Service::Accelerated(Accelerated { first_remote, .. }) = &socket.service else { return None };
    let connected = socket.remote.filter(|_| socket.is_connected).map(|remote| remote.ip().to_canonical());
    let device = socket.kept().and_then(|kept| kept.options.device);
    Some((socket.local?.ip().to_canonical(), connected.or(*first_remote), device))
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
