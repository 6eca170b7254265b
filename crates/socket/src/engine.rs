//! The engine: ports on interfaces, the stack above them, and the kernel's tables that the stack goes by.
//!
//! One engine serves all accelerated sockets of a process. It is opened when the first socket is accelerated, in the
//! network namespace of the thread that does it.
//!
//! A frame: [`Engine::poll`] -> a port lends it -> `stack.receive` -> the datagram is offered to the reader that waits, or
//! queued at its endpoint. A datagram: [`Engine::send`] -> `stack.udp_send` -> written into the port's buffer -> one kick.
//!
//! What does not come by a port comes by the *watch* ([`Watch`]): shadows with data of the kernel's, news of its tables.

mod attached;
mod flows;
mod watch;

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, OwnedFd};

use nearwire_frames::PortError;
use nearwire_frames::port::Port;
use nearwire_frames::steering::FlowFilter;
use nearwire_stack::{
    Arrival, Datagram, EndpointId, LinkKind, Message, NeedsKernel, Offers, Stack, StackConfig, Take, Update, Verdict,
};
use nearwire_sys::descriptor::{Descriptor, place};
use nearwire_sys::tsc::rough_ticks;

use crate::config::Config;
use crate::kernel_tables::{KernelTables, News};
use crate::reason::Reason;

pub use attached::Attached;
use attached::Interfaces;
use flows::Flows;
pub use watch::{Seen, Watch};

/// How long what comes by the kernel may go unseen by a call that spins: 40 000 ticks are 8 to 40 us. A look costs about
/// 200 ns, so it takes one to two percent of the time.
const LOOK_AFTER_TICKS: u64 = 40_000;
/// Frames taken from ports in one [`Engine::poll_all`]. What came before a call has to be at its socket when the call looks,
/// so this is a full ring; more comes while that is taken, and does not keep the call for ever.
pub(crate) const FRAMES_AT_ONCE: u32 = attached::FILL_FRAMES;

/// No port has longer frames.
const FRAME_BYTES_MOST: usize = 4096;

/// What became of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It is in the port's ring.
    Queued,
    /// The original call has to be made on the shadow.
    Kernel(NeedsKernel),
    /// The port has no room, even after a kick.
    Full,
}

/// Counters of an engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineCounters {
    /// Looks at ports that found nothing.
    pub empty_polls: u64,
    /// Frames taken from ports.
    pub frames: u64,
    /// Frames taken that no socket of ours wanted: lost to everybody.
    pub stray_frames: u64,
    /// Looks at the watch.
    pub looks: u64,
}

/// See the module.
pub struct Engine {
    stack: Stack,
    tables: KernelTables,
    interfaces: Interfaces,
    flows: Flows,
    watch: Watch,
    looked_ticks: u64,
    next_port: usize,
    counters: EngineCounters,
    /// The first failure of a port; what it served goes by the kernel.
    failure: Option<PortError>,
    stamps: bool,
}

impl Engine {
    /// Opens it without ports: they are opened as sockets need them.
    ///
    /// # Errors
    /// The kernel does not tell its tables, or refuses an epoll descriptor.
    pub fn open(config: &Config) -> Result<Engine, Reason> {
        let mut secret = [0_u8; 8];
        // Without random numbers the tables work, and an attacker can make them slow: no reason to do without them.
        let _ = rustix::rand::getrandom(&mut secret, rustix::rand::GetRandomFlags::empty());
        let (tables, known) =
            KernelTables::open_with(|descriptor| Ok(place(descriptor))).map_err(|_| Reason::EngineFailed)?;
        let mut stack_config = StackConfig::new(u64::from_ne_bytes(secret));
        if known.iter().any(|update| is_wider_than(update, stack_config.queue_slot_bytes)) {
            stack_config.queue_slot_bytes = FRAME_BYTES_MOST;
        }
        let mut stack = Stack::new(stack_config);
        let mut interfaces = Interfaces::new(config);
        for update in known {
            interfaces.note(&update);
            stack.update(update);
        }
        let watch = Watch::open().map_err(|_| Reason::EngineFailed)?;
        watch.add_tables(tables.as_fd()).map_err(|_| Reason::EngineFailed)?;
        Ok(Engine {
            stack,
            tables,
            interfaces,
            flows: Flows::default(),
            watch,
            looked_ticks: 0,
            next_port: 0,
            counters: EngineCounters::default(),
            failure: None,
            stamps: false,
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

    /// Counters since the engine was opened.
    #[must_use]
    pub const fn counters(&self) -> &EngineCounters {
        &self.counters
    }

    /// The ports there are.
    pub fn attached(&self) -> impl Iterator<Item = &Attached> {
        self.interfaces.attached.iter()
    }

    /// Has frames stamped with the time of day from now on: a clock read each, so only when a socket asked for it.
    pub fn want_stamps(&mut self) {
        self.stamps = true;
    }

    /// Makes sure that the interfaces that traffic of a socket may cross have ports.
    ///
    /// # Errors
    /// None of them can have one: the reason of the first.
    pub fn attach(&mut self, local: IpAddr, remote: Option<IpAddr>, device: Option<u32>) -> Result<(), Reason> {
        let by_route = remote.and_then(|remote| self.stack.interface_for(remote, device).ok());
        let Engine { interfaces, stack, watch, flows, .. } = self;
        interfaces.attach(local, device.or(by_route), |ifindex, port| {
            for socket in port.receive_sockets() {
                watch.add_port(socket).map_err(|source| PortError::Kernel {
                    tried: "wait for an AF_XDP socket",
                    interface: port.config().interface.clone(),
                    source,
                })?;
            }
            flows.add_all_to(port)?;
            // Checksums are computed and verified here: AF_XDP offers neither on every driver.
            Ok(stack.attach_port(ifindex, Offers::default()))
        })
    }

    /// Adds the flows of an endpoint to all ports.
    ///
    /// # Errors
    /// A port's table is full, or the kernel refused; then none of them is added.
    pub fn add_flows(&mut self, wanted: &[FlowFilter]) -> Result<(), Reason> {
        self.flows.add(wanted, &mut self.interfaces.attached)
    }

    /// Removes them; what another endpoint wants too stays.
    pub fn remove_flows(&mut self, unwanted: &[FlowFilter]) {
        self.flows.remove(unwanted, &mut self.interfaces.attached);
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

    /// The interface that an address lies on.
    #[must_use]
    pub fn interface_with(&self, address: IpAddr) -> Option<u32> {
        self.interfaces.interface_with(address)
    }

    /// Has the watch tell of a shadow.
    ///
    /// # Errors
    /// epoll_ctl(2) failed: `ENOSPC` for too many watches, `EBADF` for a number that is not open.
    pub fn watch_shadow(&self, shadow: Descriptor, token: u32) -> io::Result<()> {
        self.watch.add_shadow(shadow, token)
    }

    /// Ends it.
    pub fn unwatch_shadow(&self, shadow: Descriptor) {
        self.watch.remove(shadow.as_fd());
    }

    /// Takes one frame from one port, the ports in turn. `false`: none has any.
    #[inline]
    pub fn poll(&mut self, mut reader: impl FnMut(EndpointId, &Datagram<'_>) -> Take) -> bool {
        let Engine { stack, interfaces, counters, stamps, failure, .. } = self;
        let ports = interfaces.attached.len();
        for _ in 0..ports {
            let Some(attached) = interfaces.attached.get_mut(self.next_port) else { break };
            self.next_port = if self.next_port + 1 >= ports { 0 } else { self.next_port + 1 };
            let received_ns = if *stamps { time_of_day_ns() } else { 0 };
            let (port, checksum) = (attached.port_id, attached.receive_checksum());
            let judged = attached
                .port
                .receive(|frame| stack.receive(&Arrival { port, frame, received_ns, checksum }, &mut reader));
            match judged {
                Ok(Some(verdict)) => {
                    counters.frames += 1;
                    counters.stray_frames += u64::from(is_stray(verdict));
                    return true;
                }
                Ok(None) => {}
                Err(error) => {
                    attached.failed = true;
                    failure.get_or_insert(error);
                }
            }
        }
        counters.empty_polls += 1;
        false
    }

    /// Takes what is in the ports, up to a bound, into the queues of endpoints.
    pub fn poll_all(&mut self) -> u32 {
        (0..FRAMES_AT_ONCE).take_while(|_| self.poll(|_, _| Take::Queue)).count() as u32
    }

    /// Puts a datagram into its port's ring; [`Engine::flush`] has it sent.
    #[inline]
    pub fn send(&mut self, endpoint: EndpointId, message: &Message<'_>) -> Sent {
        let Engine { stack, interfaces, .. } = self;
        let outgoing = match stack.udp_send(endpoint, message) {
            Ok(outgoing) => outgoing,
            Err(reason) => return Sent::Kernel(reason),
        };
        let (port, len_bytes) = (outgoing.port(), outgoing.len_bytes());
        let Some(attached) = interfaces.by_port(port) else { return Sent::Kernel(NeedsKernel::NoPort) };
        attached.unsent = true;
        match attached.port.queue_with(len_bytes, |frame| {
            outgoing.write(frame);
        }) {
            Ok(true) => Sent::Queued,
            Ok(false) => Sent::Full,
            Err(_) => Sent::Kernel(NeedsKernel::NoPort),
        }
    }

    /// Has the kernel send what is queued.
    #[inline]
    pub fn flush(&mut self) {
        for attached in self.interfaces.attached.iter_mut().filter(|attached| attached.unsent) {
            attached.unsent = false;
            if let Err(error) = attached.port.flush() {
                attached.failed = true;
                self.failure.get_or_insert(error);
            }
        }
    }

    /// Whether the watch was last looked at long enough ago.
    #[inline]
    #[must_use]
    pub fn is_look_due(&self) -> bool {
        rough_ticks().wrapping_sub(self.looked_ticks) > LOOK_AFTER_TICKS
    }

    /// Looks at the watch: takes in news of the kernel's tables, and hands each shadow that has something to `shadow`.
    pub fn look(&mut self, shadow: impl FnMut(u32, Seen)) -> Looked {
        self.looked_ticks = rough_ticks();
        self.counters.looks += 1;
        let Engine { watch, .. } = self;
        let mut has_news = false;
        watch.look(shadow, || has_news = true);
        let mut looked = Looked::default();
        if has_news {
            looked.addresses_changed = self.take_news();
        }
        if self.failure.take().is_some() || self.interfaces.attached.iter().any(|attached| attached.failed) {
            looked.ports_failed = self.drop_failed_ports();
        }
        self.confirm_neighbours();
        looked
    }

    /// Netlink has something. Says whether addresses changed.
    fn take_news(&mut self) -> bool {
        let Engine { stack, tables, interfaces, .. } = self;
        let mut addresses_changed = false;
        let mut apply = |update: Update| {
            addresses_changed |= interfaces.note(&update);
            stack.update(update);
        };
        if let Ok(News::Lost) = tables.read(&mut apply)
            && let Ok(known) = tables.snapshot()
        {
            interfaces.forget_addresses();
            for update in &known {
                interfaces.note(update);
            }
            stack.resync(known);
            addresses_changed = true;
        }
        addresses_changed
    }

    /// The kernel does not see our frames, so it is told of neighbours that are in use.
    fn confirm_neighbours(&mut self) {
        while let Some((ifindex, address)) = self.stack.take_stale_neighbour() {
            // Refused, the entry stays stale, and usable.
            let _ = self.tables.use_neighbour(ifindex, address);
        }
    }

    /// An interface that went away, or whose queue was taken: the kernel serves what it served.
    fn drop_failed_ports(&mut self) -> bool {
        let Engine { stack, interfaces, .. } = self;
        let before = interfaces.attached.len();
        interfaces.attached.retain(|attached| {
            if attached.failed {
                stack.detach_port(attached.port_id);
            }
            !attached.failed
        });
        self.next_port = 0;
        interfaces.attached.len() < before
    }
}

/// What a look found besides shadows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Looked {
    /// Addresses of this host came or went: flows have to follow.
    pub addresses_changed: bool,
    /// A port is gone.
    pub ports_failed: bool,
}

/// Whether an interface carries datagrams longer than so many bytes.
fn is_wider_than(update: &Update, bytes: usize) -> bool {
    matches!(update, Update::NewLink(link) if link.kind == LinkKind::Ethernet && link.mtu_bytes as usize > bytes)
}

fn is_stray(verdict: Verdict) -> bool {
    use nearwire_stack::Dropped;
    matches!(verdict, Verdict::NotOurs(_) | Verdict::Dropped(Dropped::NoPorts | Dropped::IgnoredMulti))
}

/// Nanoseconds since 1970: what SO_TIMESTAMP says.
fn time_of_day_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// An epoll descriptor out of the program's way.
fn new_epoll() -> io::Result<OwnedFd> {
    Ok(place(rustix::event::epoll::create(rustix::event::epoll::CreateFlags::CLOEXEC)?))
}
