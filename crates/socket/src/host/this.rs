//! The machine that the process runs on: AF_XDP ports in the network namespace of the calling thread, rtnetlink.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nearwire_agent::adoption::Privileged;
use nearwire_agent::give_back::{Ip, Received};
use nearwire_frames::interface::InterfaceFacts;
use nearwire_frames::port::Port;
use nearwire_frames::ports::xdp::{
    Overflow, XdpConfig, XdpMode, XdpPort, fill_frames as ring_frames, first_of_each_mode,
};
use nearwire_frames::{FlowSocket, PortError};
use nearwire_stack::Update;
use nearwire_sys::descriptor::Descriptor;
use nearwire_sys::ethtool::{Interface, SoTimestamping};
use nearwire_sys::tsc::{monotonic_raw_ns, rough_ticks, time_of_day_ns};

use rustix::thread::{CapabilitySet, capabilities};

use super::agent::{Link, NotDone};
use super::at_start::AgentAtStart;
use super::home::{Home, any_socket, present_namespace};
use super::port::HostPort;
use super::{AgentPid, Host, Offloads, PortWanted};
use crate::config::{Agent, Config, Mode};
use crate::kernel_tables::{KernelTables, PathErrors, TablesError, vlan_tags};
use crate::now::Clocks;
use crate::reason::Reason;
use crate::wait::online_cpus;

/// Buffers to receive into, each queue: what bursts may bring, for all sockets together, while the program does not call. The kernel gets
/// what comes beyond, at its own price.
/// The kernel's own buffer of one socket holds about 280 small datagrams by default, so this is the share of fourteen
/// sockets that are all full, and 8 MiB.
///
/// All of them pass through the caches one after the other. What fewer would be worth, as half round trips of 64 bytes (sockperf
/// under `run` at both ends, veth, pinned, spin forever, seven interleaved rounds, medians of p50 / p99 in us): 4096 buffers 1.562 /
/// 1.857, 256 1.512 / 1.782, 64 1.517 / 1.677, with sockperf tp the same rates. A port that took all but 256 out of the ring after
/// 131 072 calm frames, and reported its room to the program that much more often, gained nothing: 1.502 / 1.662 beside 1.492 / 1.677.
pub(crate) const FILL_FRAMES: u32 = 4096;
/// Where RLIMIT_MEMLOCK, 8 MiB by default, does not allow these: two sockets' worth.
const FILL_FRAMES_LOCKED: u32 = 512;
/// The same, over all queues of an interface.
const FILL_FRAMES_MOST: u32 = 8192;
const TX_FRAMES: u32 = 256;
/// Devices with more queues send on one: their packet memory would be several MiB for few threads.
const TX_QUEUES_MOST: u32 = 16;
/// Engines of one process that can have a share of a port: each has half a MiB of send buffers.
const SHARES_OF_PORT: u32 = 8;
/// An agent takes a program off an interface in 5 to 50 ms.
const AGENT_CLOSES_WITHIN: Duration = Duration::from_millis(500);
/// The same where nobody else can have a share: on a host that is slow it takes longer, and there is an end of it.
const AGENT_CLOSES_AT_LAST: Duration = Duration::from_secs(5);

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct ThisHost {
    agent: Arc<Link>,
    /// Cookie of the network namespace in which an agent served the program when it was started.
    had_agent_in: Option<u64>,
}

impl Host for ThisHost {
    type Port = HostPort;
    type Tables = KernelTables;

    fn home(&self) -> io::Result<Option<Home>> {
        Home::here()
    }

    fn open_tables(&self) -> Result<(KernelTables, Vec<Update>), TablesError> {
        KernelTables::open()
    }

    fn open_path_errors(&self) -> PathErrors {
        PathErrors::open()
    }

    fn interface_name(&self, ifindex: u32) -> io::Result<String> {
        Ok(rustix::net::netdevice::index_to_name_inlined(any_socket()?, ifindex)?.as_str().to_owned())
    }

    fn interface_facts(&self, name: &str) -> Result<InterfaceFacts, PortError> {
        InterfaceFacts::read(name)
    }

    fn hides_tags(&self, name: &str, is_veth: bool) -> bool {
        vlan_tags::hides_tags(name, is_veth)
    }

    fn offloads(&self, name: &str) -> Offloads {
        let Ok(interface) = Interface::open(name) else { return Offloads::default() };
        Offloads {
            cuts: interface.cuts_segments().unwrap_or(false),
            joins: interface.joins_segments().unwrap_or(false),
        }
    }

    fn stamps_received(&self, name: &str) -> bool {
        let stamps = || {
            let times = Interface::open(name).ok()?.timestamping().ok()?;
            Some(times.so_timestamping.contains(SoTimestamping::RX_HARDWARE))
        };
        stamps().unwrap_or(false)
    }

    fn open_port(&self, facts: &InterfaceFacts, wanted: PortWanted) -> Result<HostPort, PortError> {
        let own = || open_port(facts, wanted.mode, wanted.engines_most);
        let instead = |no_share| match own() {
            Ok(port) => Ok(HostPort::own_for_want_of_share(port, no_share, self.agent.present())),
            Err(error) => Err(more_telling(no_share, error)),
        };
        if wanted.agent == Agent::Off {
            return own().map(HostPort::own);
        }
        match self.share_of_agent(facts, wanted.mode) {
            Ok(port) => Ok(port),
            Err(NotOpened::NoAgent) => own().map(HostPort::own),
            // It is to come back to the next agent's, by which all programs on the interface can.
            Err(NotOpened::Gone(error)) => Err(error),
            // A port of its own would take the link down once more.
            Err(NotOpened::Refused(error @ PortError::NoCarrier { .. })) => Err(error),
            Err(NotOpened::Refused(error)) => instead(error),
            Err(NotOpened::Unusable(error, within)) => {
                await_no_program(&facts.name, within);
                instead(error)
            }
        }
    }

    fn begin_port(&self, name: &str, wanted: PortWanted) -> bool {
        // What goes wrong it will say when it opens one.
        wanted.agent == Agent::Off
            || self.agent.connected().and_then(|connected| connected.begin_share(name)).unwrap_or(true)
    }

    fn is_port_awaited(&self, name: &str, wanted: PortWanted) -> bool {
        let is_there = || self.agent.present()?.is_share_there(name).ok()?;
        wanted.agent != Agent::Off && is_there() == Some(false)
    }

    fn is_served_by_agent(&self, wanted: PortWanted) -> bool {
        wanted.agent != Agent::Off && self.agent.connected().is_ok()
    }

    fn known_agent(&self) -> Option<AgentPid> {
        self.agent.known_agent()
    }

    fn agent(&self) -> Option<Descriptor> {
        self.agent.present().map(|connected| connected.descriptor())
    }

    fn announce(&self, socket: FlowSocket, is_to_be_used: bool) {
        // An agent that has begun since must know what is left to the kernel.
        let connected = if is_to_be_used { self.agent.present() } else { self.agent.connected().ok() };
        // Refused, it is a stranger to the agent until it is used.
        let _ = connected.map(|connected| connected.ask(|client| client.announce(socket, is_to_be_used)));
    }

    fn give_back(&self, shadow: Descriptor, datagram: &Received<'_>) -> bool {
        let asked = self.agent.present().map(|connected| connected.ask(|client| client.give_back(shadow, datagram)));
        matches!(asked, Some(Ok(())))
    }

    fn give_segment(&self, shadow: Descriptor, ip: Ip, segment: &[u8]) {
        // Refused, the far end sends it again.
        let _ = self.agent.present().map(|connected| connected.ask(|client| client.give_segment(shadow, ip, segment)));
    }

    fn may_release(&self) -> bool {
        let may_itself = || capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::NET_ADMIN));
        may_itself() || self.agent.connected().is_ok()
    }

    fn set_privileged(&self, shadow: Descriptor, asked: Privileged) -> io::Result<()> {
        match asked.set(shadow) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let connected = self.agent.connected().map_err(|_| error)?;
                let refused = |_| io::Error::from(io::ErrorKind::PermissionDenied);
                connected.ask(|client| client.set_privileged(shadow, asked)).map_err(refused)
            }
            done => done,
        }
    }

    fn forked(&mut self) {
        self.agent.leave_to_parent();
        self.agent = Arc::new(self.agent.of_child());
    }

    fn secret(&self) -> u64 {
        let mut secret = [0_u8; 8];
        // Without random numbers the tables work, and an attacker can make them slow: no reason to do without them.
        let _ = rustix::rand::getrandom(&mut secret, rustix::rand::GetRandomFlags::empty());
        u64::from_ne_bytes(secret)
    }

    #[inline]
    fn ticks(&self) -> u64 {
        rough_ticks()
    }

    #[cold]
    fn clocks(&self) -> Clocks {
        Clocks { monotonic_ns: monotonic_raw_ns(), time_of_day_ns: time_of_day_ns() }
    }
}

/// Why there is no share of the agent's.
enum NotOpened {
    NoAgent,
    Gone(PortError),
    Refused(PortError),
    /// There was one, in a mode that is not wanted, or that the kernel does not map for this program. Given back, it is closed within so long.
    Unusable(PortError, Duration),
}

impl ThisHost {
    /// For a program that an agent served when it was started: `None` for any other.
    #[must_use]
    pub fn with_agent(agent: Option<AgentAtStart>) -> ThisHost {
        let link = Link::with_pass(agent.and_then(|agent| agent.pass));
        ThisHost { agent: Arc::new(link), had_agent_in: agent.map(|agent| agent.namespace) }
    }

    fn share_of_agent(&self, facts: &InterfaceFacts, mode: Mode) -> Result<HostPort, NotOpened> {
        let name = &facts.name;
        let connected = self.agent.connected().map_err(|not_done| match not_done {
            // Killed since. Its programs on the interface wait for the next one, which this process must not keep from it.
            NotDone::NoAgent if self.had_agent_in.is_some_and(|had| present_namespace() == Some(had)) => {
                NotOpened::Gone(not_done.into_error(name))
            }
            NotDone::NoAgent => NotOpened::NoAgent,
            NotDone::Gone => NotOpened::Gone(not_done.into_error(name)),
            NotDone::Refused(..) => NotOpened::Refused(not_done.into_error(name)),
        })?;
        let port = HostPort::of_agent(&connected, name).map_err(|error| match error {
            PortError::HolderGone { .. } => NotOpened::Gone(error),
            // Before Linux 6.4, where no program can have a share.
            PortError::Kernel { .. } => NotOpened::Unusable(error, AGENT_CLOSES_AT_LAST),
            error => NotOpened::Refused(error),
        })?;
        if is_allowed(mode, port.as_xdp().config().mode) {
            return Ok(port);
        }
        let words = format!("its port is in {} mode, and the configuration wants another", port.as_xdp().config().mode);
        Err(NotOpened::Unusable(PortError::ShareRefused { interface: name.clone(), words }, AGENT_CLOSES_WITHIN))
    }
}

/// Waits until the agent has closed the port of which this program had the only share; not long, since others may have shares.
fn await_no_program(interface: &str, within: Duration) {
    let until = Instant::now() + within;
    let has_program = || InterfaceFacts::read(interface).is_ok_and(|facts| facts.program.is_some());
    while has_program() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Which of two errors is reported where the agent gives no share and the program cannot open a port of its own: the agent's, as its share would need no
/// rights of the program; but a limit of the process comes first, as its user can change it.
fn more_telling(of_agent: PortError, own: PortError) -> PortError {
    match Reason::of_port(&own) {
        Reason::MemoryLimit | Reason::DescriptorLimit => own,
        _ => of_agent,
    }
}

fn is_allowed(wanted: Mode, mode: XdpMode) -> bool {
    match wanted {
        Mode::Auto => true,
        Mode::Native => mode != XdpMode::Generic,
        Mode::Generic => mode == XdpMode::Generic,
    }
}

/// Opens a port in the first of the ways that may be used and works, on all receive queues: datagrams arrive on the
/// queue that the device chooses.
fn open_port(facts: &InterfaceFacts, mode: Mode, engines_most: u32) -> Result<XdpPort, PortError> {
    // Each takes a part of what the rings hold and of the packet memory, and more threads than CPUs are not in one another's way.
    let shares = engines_most.min(facts.rx_queues.max(online_cpus()));
    let mut refused = None;
    let mut has_lost_link = false;
    for config in first_of_each_mode(facts) {
        let may_reset = config.mode != XdpMode::Generic;
        // Where a reset has lost the link, another one would have the program wait for it as long.
        if !is_allowed(mode, config.mode) || has_lost_link && may_reset {
            continue;
        }
        let open = |fill_frames, shares| XdpPort::open(&sized(config.clone(), facts, fill_frames, shares));
        let opened = match open(FILL_FRAMES, shares) {
            // Send buffers too, of as many engines as there are queues.
            Err(PortError::MemoryLimit { .. }) => open(FILL_FRAMES_LOCKED, shares.min(facts.rx_queues)),
            opened => opened,
        };
        match opened {
            Ok(port) => return Ok(port),
            Err(error) => {
                has_lost_link |= matches!(error, PortError::NoCarrier { .. });
                refused = refused.or(Some(error));
            }
        }
    }
    Err(refused.unwrap_or_else(|| PortError::NoSuchInterface { interface: facts.name.clone() }))
}

impl ThisHost {
    /// Opens a port on an interface of the calling thread's network namespace as an engine would, closes it, and says what it was, and its mode.
    /// `starts_agent`: the engine's would be a share of an agent's that is started for the program.
    pub(crate) fn try_port(
        &self,
        facts: &InterfaceFacts,
        config: &Config,
        starts_agent: bool,
    ) -> Result<(String, XdpMode), PortError> {
        let wanted = PortWanted::of(config);
        let found = |port: HostPort| (port.describe(), port.as_xdp().config().mode);
        if !starts_agent {
            return self.open_port(facts, wanted).map(found);
        }
        let own =
            || open_port(facts, wanted.mode, wanted.engines_most).map(|port| (port.describe(), port.config().mode));
        // As with a share of an agent that runs: see `Host::open_port`.
        match nearwire_agent::ports::xdp::try_share(&facts.name) {
            Ok((mode, words)) if is_allowed(wanted.mode, mode) => Ok((words + ", by the agent", mode)),
            Ok(_) => own(),
            Err(error @ PortError::NoCarrier { .. }) => Err(error),
            Err(error) => own().map_err(|own| more_telling(error, own)),
        }
    }
}

/// Loads the program that a port on an interface would have first; says why frames could have no times, if so.
pub(crate) fn try_program(facts: &InterfaceFacts, mode: Mode) -> Result<Option<io::Error>, PortError> {
    let mut refused = None;
    for config in first_of_each_mode(facts).into_iter().filter(|config| is_allowed(mode, config.mode)) {
        match XdpPort::try_program(&sized(config, facts, FILL_FRAMES, SHARES_OF_PORT), facts) {
            Ok(no_times) => return Ok(no_times),
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    Err(refused.unwrap_or_else(|| PortError::NoSuchInterface { interface: facts.name.clone() }))
}

fn sized(config: XdpConfig, facts: &InterfaceFacts, fill_frames_most: u32, shares: u32) -> XdpConfig {
    let config = config.with_buffers_for(facts);
    let queues = facts.rx_queues.max(1);
    let share = FILL_FRAMES_MOST / queues;
    let fill_frames = (1 << share.max(64).ilog2()).min(fill_frames_most);
    // In zero-copy mode the device receives into them: never fewer than its ring takes. In the others it has buffers of its own, and what
    // finds none of these goes to the kernel.
    let fill_frames = match config.mode {
        XdpMode::ZeroCopy => ring_frames(facts, config.mode, fill_frames),
        XdpMode::NativeCopy | XdpMode::Generic => fill_frames,
    };
    let shares = shares.clamp(1, SHARES_OF_PORT);
    let others = shares - 1;
    XdpConfig {
        // All of them, as the device chooses. Where the way wants a socket of its own to send, the one of the last
        // queue sends: it seldom receives, and the CPU of the peer does not write what ours writes.
        rx_queues: (0..queues).collect(),
        tx_queue: config.tx_queue.min(queues - 1),
        separate_tx_socket: false,
        tx_queues: queues <= TX_QUEUES_MOST,
        shares,
        fill_frames,
        overflow: Overflow::Kernel,
        // An engine whose thread does not call keeps what its rings hold from the others: all rings together hold less
        // than there is.
        //
        // In zero-copy mode the kernel's own frames come in the same buffers: half stay for them, whatever is left unread.
        rx_ring_slots: if others == 0 && config.mode != XdpMode::ZeroCopy { fill_frames } else { fill_frames / 2 },
        share_ring_slots: 1 << ((fill_frames / 2).saturating_sub(1) / others.max(1)).max(16).ilog2(),
        // In the same memory, however many buffers a frame takes.
        tx_frames: TX_FRAMES / (facts.frame_most_bytes() as u32).div_ceil(config.frame_size_bytes).clamp(1, 8),
        prepared_frames: 0,
        ..config
    }
}
