//! The engine: ports on interfaces, the stack above them, and the kernel's tables that the stack goes by.
//!
//! One engine serves all accelerated sockets of a process. It is opened when the first socket is accelerated, in the
//! network namespace of the thread that does it.
//!
//! A frame: [`Engine::poll`] -> a port lends it -> `stack.receive` -> the datagram is offered to the reader that waits, or
//! queued at its endpoint. A datagram: [`Engine::send`] -> `stack.udp_send` -> written into the port's buffer -> one kick.
//!
//! What does not come by a port comes by the *watch* ([`Watch`]): shadows with data of the kernel's, news of its tables.
//!
//! No thread works behind the program: UDP has no timers. Before a send after a pause the watch is looked at, and news that
//! overran their buffer meanwhile are made up for by reading the tables anew; a neighbour is confirmed when it is used.

mod allowance;
mod attached;
mod branch;
mod capture;
mod connections;
mod flows;
mod interfaces;
mod late;
mod link;
mod looking;
mod overflow;
mod paths;
mod sending;
mod tell;
mod warming;
mod watch;

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;

use nearwire_agent::give_back::Received;
use nearwire_frames::capture::Direction;
use nearwire_frames::ports::xdp::{FrameTimes, TimesWanted};
use nearwire_frames::steering::FlowFilter;
use nearwire_frames::{EnginePort, FlowSocket, PortError, PortFilters, RevokedFlow};
use nearwire_stack::{
    Arrival, Datagram, Dropped, EndpointId, LinkKind, NotOurs, Offers, Stack, StackConfig, Take, Update, Verdict,
};
use nearwire_sys::descriptor::{Descriptor, place};
use thiserror::Error;

use crate::config::Config;
use crate::host::{self, Home, Host, Tables, ThisHost, at_home};
use crate::kernel_tables::TablesError;
use crate::now::Now;
use crate::reason::Reason;
use crate::status::{Counter, Writer};

use allowance::Allowance;
pub use attached::Attached;
use capture::Capture;
pub(crate) use connections::Ending;
use connections::KernelsSegments;
use flows::Flows;
use interfaces::Interfaces;
pub use interfaces::Opening;
use late::LateFrames;
pub(crate) use late::{received, send_at_home};
pub use looking::{LookAroundSend, Looked};
use paths::Paths;
pub use sending::{EngineKick, EngineKicked, Sent};
use tell::Told;
use warming::Warming;
pub use watch::{Seen, Watch};

/// More sockets than this a thread does not sleep on one by one: the kernel takes 50 ns for each.
pub const PORTS_SLEPT_ON: usize = 8;
/// Frames taken from ports in one [`Engine::poll_all`]. What came before a call has to be at its socket when the call looks,
/// so this is a full ring; more comes while that is taken, and does not keep the call for ever.
pub(crate) const FRAMES_AT_ONCE: u32 = host::FILL_FRAMES;
/// What a ring holds, as SO_RCVBUF would charge it if the frames were small. A reader that takes its own datagrams out of the ring
/// has that much beside its receive buffer; one that asks by poll(2) or epoll(7) first has it in the queue.
const RING_BYTES: u64 = FRAMES_AT_ONCE as u64 * 1024;
/// Datagrams that are longer wait in memory that is allocated for each: slots for the largest MTU there is would be 64 KiB.
const SLOT_BYTES_MOST: usize = 16 * 1024;
/// Frames that a port's rings may hold when it is given up.
const FRAMES_LEFT_MOST: u32 = 1 << 16;
/// See the module.
pub struct Engine<H: Host = ThisHost> {
    host: H,
    stack: Stack,
    tables: H::Tables,
    interfaces: Interfaces<H::Port>,
    flows: Flows,
    watch: Watch,
    /// When what the watch has was last known.
    looked_ticks: u64,
    /// When it was last looked at, with all that belongs to a look.
    followed_ticks: u64,
    /// Of all ports, [`EnginePort::errors_passed`] when the watch was last looked at.
    errors_looked: u64,
    /// Of waits for errors that came to nothing, in ticks; and whether any was left at the last look.
    error_waits: Allowance,
    heeds_errors: bool,
    next_port: usize,
    page: Writer,
    /// A capture is running.
    capture: Option<Capture>,
    /// The last request of a capture that was answered.
    capture_asked: u64,
    told_ticks: u64,
    /// A port failed since the last look.
    has_failed: bool,
    /// The agent that holds a port has reported something, and no look has followed yet.
    has_holder_told: bool,
    /// Of the monotonic clock.
    ports_checked_ns: Option<u64>,
    /// The tables are not the kernel's any more, and could not be read anew at this time of the monotonic clock.
    tables_lost_ns: Option<u64>,
    /// The times that sockets asked for.
    times: Option<TimesWanted>,
    /// The watch reports frames.
    watches_ports: bool,
    /// The TX queue that is sent on.
    tx_queue: usize,
    /// Another engine of the process opened this one, and opens all ports.
    is_branch: bool,
    /// A port was lost.
    has_lost_ports: bool,
    /// The parent engine took the ports back.
    has_ended: bool,
    /// A capture is wanted, which the first engine begins.
    is_capture_wanted: bool,
    /// The statistics as they were told last.
    told: Told,
    warming: Warming,
    late: LateFrames,
    kernels_segments: KernelsSegments,
    paths: Paths,
    /// What is in the ports stays there for now.
    is_holding: bool,
}

impl<H: Host> Engine<H> {
    /// Opens it without ports: they are opened as sockets need them.
    ///
    /// # Errors
    /// The kernel does not report its tables, or refuses an epoll descriptor.
    pub fn open(host: H, config: &Config, page: Writer) -> Result<Engine<H>, OpenError> {
        let home = host.home().map_err(|source| OpenError::Namespace { source })?.map(Arc::new);
        let (tables, known) = host.open_tables()?;
        let mut stack_config = StackConfig { asks_paths: true, ..StackConfig::new(host.secret()) };
        let widest_bytes = known.iter().map(mtu_bytes).fold(stack_config.queue_slot_bytes, usize::max);
        stack_config.queue_slot_bytes = widest_bytes.next_multiple_of(2048).min(SLOT_BYTES_MOST);
        let mut stack = Stack::new(stack_config);
        stack.udp_allow_beyond_buffer(RING_BYTES);
        let mut interfaces = Interfaces::new(config, home.clone());
        for update in known {
            interfaces.note(&host, &update);
            stack.update(update);
        }
        let failed = |source| OpenError::Watch { source };
        let watch = Watch::open().map_err(failed)?;
        watch.add_tables(tables.descriptor()).map_err(failed)?;
        let paths = Paths::new(host.open_path_errors());
        paths.errors.sockets().try_for_each(|socket| watch.add_path_errors(socket)).map_err(failed)?;
        Ok(Engine {
            host,
            stack,
            tables,
            interfaces,
            flows: Flows::default(),
            watch,
            looked_ticks: 0,
            followed_ticks: 0,
            errors_looked: 0,
            error_waits: Allowance::new(looking::ERROR_WAITS_AT_ONCE, looking::ERROR_WAIT_EVERY_TICKS),
            heeds_errors: true,
            next_port: 0,
            page,
            capture: None,
            capture_asked: 0,
            told_ticks: 0,
            has_failed: false,
            has_holder_told: false,
            ports_checked_ns: None,
            tables_lost_ns: None,
            times: None,
            watches_ports: false,
            tx_queue: 0,
            is_branch: false,
            has_lost_ports: false,
            has_ended: false,
            is_capture_wanted: false,
            told: Told::default(),
            warming: Warming::default(),
            late: LateFrames::of(home),
            kernels_segments: KernelsSegments::default(),
            paths,
            is_holding: false,
        })
    }

    /// The stack, for endpoints' lives.
    pub fn stack(&mut self) -> &mut Stack {
        &mut self.stack
    }

    /// The stack, to look at.
    #[must_use]
    pub const fn stack_ref(&self) -> &Stack {
        &self.stack
    }

    /// What a sleeping call waits for.
    #[must_use]
    pub const fn watch(&self) -> &Watch {
        &self.watch
    }

    /// The ports there are.
    pub fn attached(&self) -> impl Iterator<Item = &Attached<H::Port>> {
        self.interfaces.attached.iter()
    }

    /// Has frames carry times from now on, which costs each of them, so only when a socket asked for it. A port whose
    /// program cannot is served by the clock when a call takes the frame out of the ring.
    pub fn want_times(&mut self, wanted: TimesWanted) {
        if self.times >= Some(wanted) {
            return;
        }
        self.times = Some(wanted);
        self.interfaces.changed = true;
        let Interfaces { attached, home, .. } = &mut self.interfaces;
        // Elsewhere the ports keep the times that they have.
        let _ = at_home(home.as_deref(), || attached.iter_mut().for_each(|attached| attached.want_times(wanted)));
    }

    /// Whether the kernel may have times of a device for a socket, which its port has not.
    #[must_use]
    pub fn lacks_device_times(&self, local: IpAddr, remote: Option<IpAddr>, device: Option<u32>) -> bool {
        self.interfaces.lack_device_times(&self.host, local, self.wanted_interface(remote, device))
    }

    /// Makes sure that the interfaces that traffic of a socket may cross have ports, or can have some, and will, as `opening` says.
    ///
    /// # Errors
    /// None of them can have one: the reason of the first.
    pub fn attach(
        &mut self,
        now: Now,
        local: IpAddr,
        remote: Option<IpAddr>,
        device: Option<u32>,
        opening: Opening,
    ) -> Result<(), Reason> {
        let wanted = self.wanted_interface(remote, device);
        let Engine { host, interfaces, stack, watch, flows, watches_ports, times, capture, .. } = self;
        let outcome = interfaces.attach(now, host, (local, wanted, opening), |ifindex, port| {
            if *watches_ports {
                watch_port(watch, port)?;
            }
            watch_holder(watch, port)?;
            flows.add_all_to(port)?;
            if let Some(wanted) = *times {
                port.want_times(wanted);
            }
            // Checksums are computed and verified here: AF_XDP offers neither on every driver.
            Ok(stack.attach_port(ifindex, Offers::default()))
        });
        if let Some(capture) = capture {
            capture.describe(&interfaces.attached);
        }
        outcome
    }

    /// Why no port takes what comes for a socket: the kernel serves it then, though it is accelerated.
    ///
    /// # Errors
    /// The reason.
    pub fn is_served(&self, local: IpAddr, remote: Option<IpAddr>, device: Option<u32>) -> Result<(), Reason> {
        self.interfaces.why_not(local, self.wanted_interface(remote, device))
    }

    fn wanted_interface(&self, remote: Option<IpAddr>, device: Option<u32>) -> Option<u32> {
        device.or_else(|| remote.and_then(|remote| self.stack.interface_for(remote, device).ok()))
    }

    /// The sockets that frames come by.
    pub fn receive_sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.interfaces.attached.iter().flat_map(|attached| attached.port.receive_sockets())
    }

    /// Another number whenever they are others.
    #[must_use]
    pub const fn ports_generation(&self) -> u64 {
        self.interfaces.generation
    }

    /// What a thread sleeps on besides the watch, to be woken by frames. Each is slept on by itself where there are few: the kernel wakes a thread that waits for
    /// a socket on the CPU where the sender ran, as it does for its own sockets, and one that waits for a set of them on another.
    pub fn sleep_on_ports(&mut self) -> [Option<RawFd>; PORTS_SLEPT_ON] {
        let mut ports = [None; PORTS_SLEPT_ON];
        if self.watches_ports || self.receive_sockets().nth(PORTS_SLEPT_ON).is_some() {
            self.watch_ports();
            return ports;
        }
        ports.iter_mut().zip(self.receive_sockets()).for_each(|(port, socket)| *port = Some(socket.as_raw_fd()));
        ports
    }

    /// Has the watch report frames, for threads that sleep on it. From then on each frame costs its sender a call into
    /// the watch, so it is not done for threads that spin.
    pub fn watch_ports(&mut self) {
        if std::mem::replace(&mut self.watches_ports, true) {
            return;
        }
        for attached in &mut self.interfaces.attached {
            if let Err(error) = watch_port(&self.watch, &attached.port) {
                attached.failed = Some(Reason::of_failure(&error));
                self.has_failed = true;
            }
        }
    }

    /// How many flows the ports take.
    #[must_use]
    pub fn flow_count(&self) -> usize {
        self.flows.len()
    }

    /// Adds the flows of a socket to all ports.
    ///
    /// # Errors
    /// A port's table is full, or the kernel or the agent refused; then none of them is added.
    pub fn add_flows(&mut self, wanted: &[FlowFilter], socket: FlowSocket) -> Result<(), Reason> {
        let added = self.flows.add(wanted, socket, &mut self.interfaces.attached);
        self.has_failed |= added.is_err();
        added
    }

    /// Removes them; what another socket wants too stays.
    pub fn remove_flows(&mut self, unwanted: &[FlowFilter], socket: FlowSocket) {
        self.flows.remove(unwanted, socket, &mut self.interfaces.attached);
        self.has_failed |= self.interfaces.attached.iter().any(|attached| attached.failed.is_some());
    }

    /// The same of a socket that stays open, here or in other processes: what is in the rings, and on its way there, is not lost. Where the agent
    /// is gone, frames come until the kernel has taken its program down, which is waited for.
    pub(crate) fn leave_flows(&mut self, now: Now, flows: &[FlowFilter], socket: FlowSocket) {
        // What is in the rings is for whom it is for while the flow is open here: another process may have connected the socket to its sender by now.
        self.take_in_all(now);
        self.remove_flows(flows, socket);
        self.late.expect(now, flows, socket);
        self.take_in_all(now);
        if self.has_failed {
            self.outlast_agents_programs(now);
        }
    }

    /// The program has a socket under another fd.
    pub(crate) fn rename_socket(&mut self, socket: FlowSocket) {
        self.flows.rename(socket);
    }

    /// The network namespace that it was opened in.
    pub(crate) fn home(&self) -> Option<Arc<Home>> {
        self.interfaces.home.clone()
    }

    /// Has the agent send a datagram to the shadow it was for. Whether the kernel has it.
    pub(crate) fn give_back(&self, shadow: Descriptor, datagram: &Received<'_>) -> bool {
        self.host.give_back(shadow, datagram)
    }

    /// Says that a socket without flows was connected, or is not any more.
    pub(crate) fn show_connection(&mut self, socket: FlowSocket) {
        // One agent has all ports.
        if let Some(attached) = self.interfaces.attached.first_mut() {
            attached.port.show_connection(socket);
        }
    }

    /// Flows that were taken from this process, or that a port that came back was not given, as another has a right to them too.
    pub(crate) fn take_revoked(&mut self) -> Vec<RevokedFlow> {
        let revoked = self.interfaces.attached.iter_mut().flat_map(|attached| attached.port.take_revoked());
        revoked.chain(self.flows.take_refused()).collect()
    }

    /// Whether a port that came back was not given flows.
    pub(crate) const fn has_refused_flows(&self) -> bool {
        self.flows.has_refused()
    }

    /// Sockets that no other process uses any more, by their cookies.
    pub(crate) fn take_alone(&mut self) -> Vec<u64> {
        self.interfaces.attached.iter_mut().flat_map(|attached| attached.port.take_alone()).collect()
    }

    /// Has the ports take nothing until [`Engine::resume`]; one system call a port. `false`: one of them goes on.
    pub fn pause(&mut self) -> bool {
        // Refused, frames come by the port as before.
        self.interfaces.filters().filter(|table| table.pause().is_err()).count() == 0
    }

    /// Ends [`Engine::pause`].
    pub fn resume(&mut self) {
        for table in self.interfaces.filters() {
            // Refused, packets stay with the kernel, which has the sockets too.
            let _ = table.resume();
        }
    }

    /// Takes flows out of the kernel's maps and nothing else, see [`PortFilters::withdraw`].
    pub fn withdraw_flows(&mut self, flows: &[FlowFilter], socket: Descriptor) {
        for table in self.interfaces.filters() {
            flows.iter().for_each(|flow| table.withdraw(*flow, socket));
        }
    }

    /// Puts flows that endpoints still want into the kernel's maps again, after a child withdrew them.
    pub fn restore_flows(&mut self, flows: &[FlowFilter]) {
        for table in self.interfaces.filters() {
            flows.iter().for_each(|flow| table.restore(*flow));
        }
    }

    /// For the child of a fork: closes its copies of all descriptors and gives the filters, whose maps the parent still
    /// uses.
    #[must_use]
    pub fn into_filters_of_parent(self) -> Vec<Box<dyn PortFilters>> {
        let Engine { stack, interfaces, capture, .. } = self;
        // Memory of the parent's, not to be copied for being freed.
        std::mem::forget(stack);
        if let Some(capture) = capture {
            capture.leave_to_parent();
        }
        interfaces.attached.into_iter().filter_map(|attached| attached.port.into_filters_of_parent()).collect()
    }

    /// Addresses of this host that datagrams from the wire may be for.
    pub fn own_addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.interfaces.own_addresses()
    }

    /// The IPv4 addresses of each interface, the first of them first.
    #[must_use]
    pub fn first_addresses_v4(&self) -> Vec<(u32, Ipv4Addr)> {
        self.interfaces.first_addresses_v4()
    }

    /// Whether packets of this host to itself arrive.
    #[must_use]
    pub(crate) fn has_loopback(&self) -> bool {
        self.interfaces.has_loopback()
    }

    /// The interface that an address lies on.
    #[must_use]
    pub fn interface_with(&self, address: IpAddr) -> Option<u32> {
        self.interfaces.interface_with(address)
    }

    /// Has the watch report a shadow.
    ///
    /// # Errors
    /// epoll_ctl(2) failed: `ENOSPC` for too many watches, `EBADF` for an fd that is not open.
    pub fn watch_shadow(&self, shadow: Descriptor, token: u32) -> io::Result<()> {
        self.watch.add_shadow(shadow, token)
    }

    /// Ends it.
    pub fn unwatch_shadow(&self, shadow: Descriptor) {
        self.watch.remove(shadow.as_fd());
    }

    /// Takes one frame from one port, the ports in turn. `false`: none has any.
    #[inline]
    pub fn poll(&mut self, now: Now, mut reader: impl FnMut(EndpointId, &Datagram<'_>) -> Take) -> bool {
        // What waits is captured, where that was asked while the program slept or was busy elsewhere.
        self.follow_capture_request(now);
        if self.is_holding {
            return false;
        }
        let Engine { host, stack, interfaces, page, times, has_failed, capture, late, kernels_segments, flows, .. } =
            self;
        let ports = interfaces.attached.len();
        for _ in 0..ports {
            let Some(attached) = interfaces.attached.get_mut(self.next_port) else { break };
            self.next_port = if self.next_port + 1 >= ports { 0 } else { self.next_port + 1 };
            if attached.failed.is_some() {
                continue;
            }
            let to = Takers { host, stack, late, kernels_segments, flows, capture };
            match take_frame(now, attached, to, times.is_some(), &mut reader) {
                Ok(Some(_)) => {
                    return true;
                }
                Ok(None) => {}
                Err(error) => {
                    attached.failed = Some(Reason::of_failure(&error));
                    *has_failed = true;
                }
            }
        }
        page.count(Counter::PollsEmpty, 1);
        if let Some(endpoint) = self.warming.nothing_came() {
            self.stack.udp_warm(endpoint);
        }
        false
    }

    /// Takes what is in the ports, up to a bound, into the queues of endpoints.
    pub fn poll_all(&mut self, now: Now) -> u32 {
        (0..FRAMES_AT_ONCE).take_while(|_| self.poll(now, |_, _| Take::Queue)).count() as u32
    }

    /// Whether frames are stamped with the time of day of the call, which has to be exact then.
    #[inline]
    pub(crate) fn stamps(&self) -> bool {
        self.times.is_some() || self.capture.is_some() || self.is_capture_requested()
    }

    /// Takes in all that the ports have: where what came before a change is to be distinguished from what comes after. How many.
    pub fn take_in_all(&mut self, now: Now) -> u32 {
        if self.is_holding {
            self.begin_settling();
            self.end_hold();
        }
        let taken = (0..FRAMES_LEFT_MOST).take_while(|_| self.poll(now, |_, _| Take::Queue)).count() as u32;
        if self.interfaces.attached.iter().any(|attached| attached.failed.is_some()) {
            return taken + self.take_in_failed(now);
        }
        taken
    }

    /// The same of ports that receive no more: what they have came before they failed.
    #[cold]
    fn take_in_failed(&mut self, now: Now) -> u32 {
        let Engine { host, stack, interfaces, times, capture, late, kernels_segments, flows, .. } = self;
        let mut taken = 0;
        for attached in interfaces.attached.iter_mut().filter(|attached| attached.failed.is_some()) {
            for _ in 0..FRAMES_LEFT_MOST {
                let to = Takers { host, stack, late, kernels_segments, flows, capture };
                let Ok(Some(_)) = take_frame(now, attached, to, times.is_some(), &mut |_, _| Take::Queue) else {
                    break;
                };
                taken += 1;
            }
        }
        taken
    }
}

/// What of an engine takes the frames of its ports.
struct Takers<'a, H> {
    host: &'a H,
    stack: &'a mut Stack,
    late: &'a mut LateFrames,
    kernels_segments: &'a mut KernelsSegments,
    flows: &'a Flows,
    capture: &'a mut Option<Capture>,
}

/// Has the stack take a port's next frame in, and the capture before. `stamps`: with the time of its arrival.
#[inline(always)]
fn take_frame<H: Host>(
    now: Now,
    attached: &mut Attached<H::Port>,
    to: Takers<'_, H>,
    stamps: bool,
    reader: &mut impl FnMut(EndpointId, &Datagram<'_>) -> Take,
) -> Result<Option<Verdict>, PortError> {
    let Takers { host, stack, late, kernels_segments, flows, capture } = to;
    let (port, checksum, ifindex) = (attached.port_id, attached.receive_checksum(), attached.ifindex);
    attached.port.receive_timed(|frame, times| {
        if let Some(capture) = capture {
            capture.record(now, ifindex, Direction::Inbound, frame);
        }
        let (received_ns, device_ns) = if stamps { in_ns(times, now) } else { (0, 0) };
        let verdict = stack.receive(&Arrival { port, frame, received_ns, device_ns, checksum }, &mut *reader);
        if let Verdict::Ending { connection } = verdict {
            kernels_segments.take_ending(connection, frame);
        }
        if verdict == Verdict::NotOurs(NotOurs::NoConnection) {
            kernels_segments.take_late(now, frame);
        }
        if verdict == Verdict::Dropped(Dropped::NoPorts) {
            late.take(now, frame, flows, |socket, datagram| {
                // Refused, it is lost.
                let _ = host.give_back(socket.descriptor, datagram);
            });
        }
        verdict
    })
}

/// Why an engine could not be opened: which step failed, and on what.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The kernel's tables.
    #[error(transparent)]
    Tables(#[from] TablesError),
    /// A descriptor of the network namespace.
    #[error("open a socket to know the network namespace by: {source}")]
    Namespace {
        /// The cause.
        source: io::Error,
    },
    /// What a sleeping call waits for.
    #[error("make an epoll set to wait on: {source}")]
    Watch {
        /// The cause.
        source: io::Error,
    },
}

impl OpenError {
    /// In a word.
    #[must_use]
    pub fn reason(&self) -> Reason {
        match self {
            Self::Namespace { source }
            | Self::Watch { source }
            | Self::Tables(
                TablesError::Socket { source, .. }
                | TablesError::Refused { source, .. }
                | TablesError::Groups { source, .. },
            ) => Reason::of_error(source),
        }
    }
}

/// Of an interface that datagrams come by.
fn mtu_bytes(update: &Update) -> usize {
    match update {
        Update::NewLink(link) if link.kind == LinkKind::Ethernet => link.mtu_bytes as usize,
        _ => 0,
    }
}

fn watch_port(watch: &Watch, port: &impl EnginePort) -> Result<(), PortError> {
    port.receive_sockets().try_for_each(|socket| watch.add_port(socket)).map_err(|source| PortError::Kernel {
        tried: "wait for an AF_XDP socket",
        interface: port.about().interface.to_owned(),
        source,
    })
}

fn watch_holder(watch: &Watch, port: &impl EnginePort) -> Result<(), PortError> {
    port.guard().map_or(Ok(()), |holder| watch.add_holder(holder)).map_err(|source| PortError::Kernel {
        tried: "wait for the agent",
        interface: port.about().interface.to_owned(),
        source,
    })
}

/// When the host had a frame, nanoseconds since 1970, and the device by its own clock; 0: that does not say. Of what came
/// before the port's program took times, it is now.
#[inline]
fn in_ns(times: FrameTimes, now: Now) -> (u64, u64) {
    (times.kernel_ns.unwrap_or(now.clocks.time_of_day_ns), times.device_ns.unwrap_or(0))
}

/// An epoll descriptor out of the program's way.
pub(crate) fn new_epoll() -> io::Result<OwnedFd> {
    Ok(place(rustix::event::epoll::create(rustix::event::epoll::CreateFlags::CLOEXEC)?))
}
