//! AF_XDP: frames between a network queue and our own memory, past the kernel's stack.
//!
//! A socket is bound to one queue and has packet memory (UMEM) and four rings. A buffer goes round:
//!
//! ```text
//!   receive:  free --fill ring--> kernel --RX ring--> read in place --+
//!               ^-----------------------------------------------------+
//!   send:     free --TX ring--> kernel (kick) --completion ring--> free
//! ```
//!
//! A port is one socket a receive queue, plus one for sending when that is separate. An XDP program, attached as long
//! as the port lives, hands the port's frames to the sockets and all others to the kernel. Several ports may share the queues of
//! one, each with sockets and filters of its own (`share`).
//!
//! A port is its process's own: a child of fork(2) has neither memory nor rings, and must not use the port.
//!
//! Invariant: closing the port, or killing the process, leaves no program and no socket, and the kernel gets all frames
//! again. Source: `Documentation/networking/af_xdp.rst`, `net/xdp/xsk.c`.

mod assembly;
mod busy_poll;
mod candidates;
mod circulation;
mod config;
mod control;
mod description;
mod division;
mod entries;
mod fill;
mod handed;
mod hold;
mod holder;
mod kernel;
mod kick;
mod number;
mod overflow;
mod queue;
mod raw;
mod receive;
mod rings;
mod rooms;
mod seats;
mod send;
mod share;
mod shared_ring;
mod socket;
mod spare;
mod times;
mod turn;
mod tx_queues;
mod umem;
mod zero_copy;

pub use candidates::{Candidate, Side, candidates, first_of_each_mode};
pub use config::{Overflow, Steer, XdpConfig, XdpMode, fill_frames};
pub use handed::Handed;
pub use kernel::maps_bound_rings;
pub use kick::{Kick, Kicked};
pub use spare::prepare_memory;
pub use times::{FrameTimes, NoDeviceTimes, TimesWanted};

pub use crate::steering::SHARES_MOST;

use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nearwire_sys::bpf::{LoadError, Map, Program};

use crate::PortError;
use crate::interface::InterfaceFacts;
use crate::port::{Port, PortStatistics, PreparedFrame};
use crate::ports::limits::FrameLimits;
use crate::steering::SteeringTable;
use crate::xdp::stamps::Record;
use crate::xdp::tags::TagQuestion;
use crate::xdp::{XdpAttachment, programs};

use circulation::Circulation;
use division::{Division, share_areas};
use entries::Entries;
use hold::Hold;
use number::Number;
use receive::{Receiver, Taken};
use rooms::Rooms;
use seats::Seat;
use send::{PreparedSend, Sender};
use socket::SocketSpec;
use times::Times;

/// What the kernel keeps free before a received frame (`XDP_PACKET_HEADROOM`).
const RECEIVE_HEADROOM_BYTES: usize = 256;
/// Empty looks between two questions whether the interface is still there: about every millisecond of spinning, at the
/// price of one system call of 90 ns.
const EMPTY_LOOKS_PER_CHECK: u32 = 1 << 17;
/// The same where each look is a system call.
const POLLS_PER_CHECK: u32 = 1 << 11;
/// Such questions for one whether the program is still attached, which takes a microsecond, or as long as somebody has the kernel's
/// lock of all interfaces: whoever attaches a program or makes interfaces has it for milliseconds, and for seconds on a busy host.
const CHECKS_PER_LOOK_AT_PROGRAM: u32 = 4;
/// How long a link that was there may take to come back when a driver set itself up anew: copper at 10 Gb/s takes several seconds.
const CARRIER_PATIENCE: Duration = Duration::from_secs(10);
const CARRIER_POLL: Duration = Duration::from_millis(2);
/// Why frames longer than a buffer are the kernel's.
const NO_MULTI_BUFFER: &str =
    "this kernel, or driver in zero-copy mode, has no AF_XDP frames of several buffers, as Linux 6.6 has";

/// What opening a port found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XdpFacts {
    /// The kernel confirmed zero-copy on every socket.
    pub zero_copy: bool,
    /// The kernel's id of the attached program.
    pub program_id: u32,
    /// Frames longer than a buffer lie in several; without, they are the kernel's.
    pub multi_buffer: bool,
}

/// An open AF_XDP port.
#[derive(Debug)]
pub struct XdpPort {
    // Detached first: with the program gone the kernel has its frames back while sockets and memory are taken down.
    attachment: Hold,
    /// The one that is attached, of the port that attached it.
    program: Option<Program>,
    /// The map of sockets; none in a share that another process gave.
    sockets: Option<Arc<Map>>,
    /// The filters, for a port opened with [`Steer::Filters`].
    steering: Option<SteeringTable>,
    receivers: Box<[Receiver]>,
    /// The receiver whose turn it is.
    next: usize,
    /// The frame that is lent, its receiver and its times.
    lent: Option<(usize, FrameTimes, Taken)>,
    /// An empty look runs the driver's receive path.
    busy_polls: bool,
    /// The receiver that had the last frame: the others' queues are polled less often.
    last: usize,
    /// Why no look polls, where it was to.
    no_busy_poll: Option<PortError>,
    /// An empty look does something: it polls, wakes drivers that ask for it, or gives buffers back that others want too.
    acts_when_empty: bool,
    sender: Sender,
    /// Of TX queues behind the first.
    other_senders: Vec<Sender>,
    empty_looks: u32,
    received_frames: u64,
    limits: FrameLimits,
    /// Frames may lie in several buffers, received ones in so many.
    multi_buffer: Option<u32>,
    times: Times,
    config: XdpConfig,
    facts: XdpFacts,
    /// Of the receiving interface.
    ifindex: u32,
    /// A share's places in the map of sockets: given up before its number, which is another's then.
    entries: Option<Entries>,
    /// Which share it is.
    number: Number,
    /// How the memory of each receive queue is divided. Empty in a share.
    divisions: Vec<Division>,
    /// The sockets of shares, and until when frames may come for those that are over.
    seats: Vec<Seat>,
    /// What each share in another process may leave unread.
    rooms: Rooms,
    circulation: Circulation,
    reclaims_until: Option<Instant>,
    /// Until then the link may be away, as its driver set itself up anew and nobody waited for it.
    link_due: Option<Instant>,
}

impl XdpPort {
    /// Opens the port in the network namespace of the calling thread.
    ///
    /// # Errors
    /// One variant for each cause: missing interface, interface down, queue out of range or taken, mode not supported,
    /// a program already there, memory limit, capability.
    pub fn open(config: &XdpConfig) -> Result<XdpPort, PortError> {
        let receiving = InterfaceFacts::read(&config.interface)?;
        let sending = match &config.tx_interface {
            Some(name) => InterfaceFacts::read(name)?,
            None => receiving.clone(),
        };
        config.check(&receiving, &sending)?;
        crate::xdp::refuse_if_present(&receiving)?;
        let mut sockets = open_sockets(config, &receiving, &sending)?;
        let multi_buffer = Some(config.frame_buffers(&receiving)).filter(|_| sockets.multi_buffer);
        let Steered { attachment, program, map, steering, ready } =
            steer_to(config, &receiving, &mut sockets.receivers, multi_buffer)?;
        // Now and not by the first frame: what is sent before the link is back is lost.
        let mut link_due = None;
        for facts in [&receiving, &sending].into_iter().filter(|facts| may_reset(config, facts)) {
            if config.awaits_carrier {
                await_carrier(&facts.name, config.mode, CARRIER_PATIENCE)?;
            } else {
                link_due = Some(Instant::now() + CARRIER_PATIENCE);
            }
        }
        let limits = if sockets.multi_buffer {
            let area_bytes = socket::area_buffers(&sending, config.frame_size_bytes) * config.frame_size_bytes;
            FrameLimits::new(&sending, area_bytes as usize, "")
        } else {
            FrameLimits::new(&sending, config.buffer_bytes() as usize, NO_MULTI_BUFFER)
        };
        let facts = XdpFacts {
            zero_copy: sockets.zero_copy,
            program_id: attachment.program_id(),
            multi_buffer: sockets.multi_buffer,
        };
        let mut port = XdpPort {
            facts,
            attachment: Hold::Own(Arc::new(attachment)),
            program: Some(program),
            sockets: Some(Arc::new(map)),
            steering,
            receivers: sockets.receivers.into_boxed_slice(),
            next: 0,
            lent: None,
            busy_polls: false,
            last: 0,
            no_busy_poll: None,
            acts_when_empty: config.mode == XdpMode::ZeroCopy,
            sender: sockets.sender,
            other_senders: sockets.other_senders,
            empty_looks: 0,
            received_frames: 0,
            limits,
            multi_buffer,
            times: Times::new(ready),
            config: config.clone(),
            ifindex: receiving.ifindex,
            entries: None,
            number: Number::first(),
            divisions: sockets.divisions,
            seats: Vec::new(),
            rooms: Rooms::of(config, multi_buffer),
            circulation: Circulation::of(config, multi_buffer),
            reclaims_until: None,
            link_due,
        };
        if config.busy_poll_us > 0 {
            port.no_busy_poll = port.set_busy_poll(config.busy_poll_us).err();
        }
        Ok(port)
    }

    /// What opening the port found.
    #[must_use]
    pub fn facts(&self) -> &XdpFacts {
        &self.facts
    }

    /// How the port was opened.
    #[must_use]
    pub fn config(&self) -> &XdpConfig {
        &self.config
    }

    /// How long the link may still be away, because the driver set itself up anew when the port was opened; for [`await_carrier`]. Zero of a port that
    /// [waited](XdpConfig::awaits_carrier).
    #[must_use]
    pub fn link_is_due_within(&self) -> Duration {
        self.link_due.map_or(Duration::ZERO, |due| due.saturating_duration_since(Instant::now()))
    }

    /// Whether opening the port may have taken the link down for a time, and so may the next opening. Known of a port that did not
    /// [wait](XdpConfig::awaits_carrier).
    #[must_use]
    pub fn may_have_taken_link_down(&self) -> bool {
        self.link_due.is_some()
    }

    /// Whether the program that hands frames over is still attached. One system call; nobody reports it: rtnetlink is silent
    /// about programs that links attach.
    #[must_use]
    pub fn is_attached(&self) -> bool {
        self.attachment.is_in_force()
    }

    /// Frames whose VLAN tag the device took out are the kernel's ([`Overflow::Kernel`], in native and zero-copy mode, where the driver reports
    /// the tag). Without this, filters match them as untagged frames.
    #[must_use]
    pub fn asks_for_tags(&self) -> bool {
        self.steering.as_ref().is_some_and(SteeringTable::asks_for_tags)
    }

    /// Detaches the program: the kernel has all frames from now on, those of shares too, and those in the rings can still be read. A
    /// share's own program this is not, so called of one it changes nothing but what that share says.
    pub fn detach(&mut self) {
        self.attachment = Hold::Nothing;
    }

    /// Detaches the program of a port in generic mode until [`XdpPort::wake`]: the kernel has all frames, without the copy that it makes of
    /// each for such a program. It costs an attachment and its end, which took 8 and 16 ms (veth, Linux 6.18, 200 times each, p50); in other modes
    /// it would reset many a device, and there is no such copy. Whether the port rests: not where its mode is another one, or shares in this
    /// process receive by its program.
    pub fn rest(&mut self) -> bool {
        if self.config.mode != XdpMode::Generic || self.program.is_none() {
            return false;
        }
        if let Hold::Own(attachment) = &mut self.attachment
            && Arc::get_mut(attachment).is_some()
        {
            self.attachment = Hold::Resting;
        }
        matches!(self.attachment, Hold::Resting)
    }

    /// Attaches the program of a port that [rests](XdpPort::rest) again; nothing otherwise.
    ///
    /// # Errors
    /// The interface has another program now, or the kernel refuses: the port goes on resting.
    pub fn wake(&mut self) -> Result<(), PortError> {
        let (Hold::Resting, Some(program)) = (&self.attachment, &self.program) else { return Ok(()) };
        let facts = InterfaceFacts::read(&self.config.interface)?;
        let attachment = XdpAttachment::attach(program, &facts, self.config.mode.attach_mode())?;
        self.attachment = Hold::Own(Arc::new(attachment));
        Ok(())
    }

    /// The sockets it receives by, to wait for in an epoll set of the caller's.
    pub fn receive_sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.receivers.iter().map(Receiver::socket)
    }

    fn decide_acts_when_empty(&mut self) {
        let has_shares = self.seats.iter().any(|seat| matches!(seat.used, seats::SeatUse::Here));
        self.acts_when_empty =
            has_shares || self.reclaims_until.is_some() || self.busy_polls || self.config.mode == XdpMode::ZeroCopy;
    }

    /// The filters, for a port opened with [`Steer::Filters`].
    pub fn steering_table(&mut self) -> Option<&mut SteeringTable> {
        self.steering.as_mut()
    }

    /// For the child of a fork: closes the child's copies of the descriptors, which would keep the queues and the program
    /// when the parent ends, and gives the filters, whose maps the parent still uses. Packet memory and rings are not
    /// there in a child. The descriptors of shares are closed with the port that they were made of.
    #[must_use]
    pub fn into_filters_of_parent(self) -> Option<SteeringTable> {
        let XdpPort { attachment, steering, receivers, sender, other_senders, seats, entries, .. } = self;
        if let Hold::Own(attachment) = attachment
            && let Some(attachment) = Arc::into_inner(attachment)
        {
            attachment.close_copy();
        }
        if let Some(entries) = entries {
            entries.leave_to_parent();
            std::mem::forget((receivers, sender, other_senders));
            return steering;
        }
        let sockets = receivers.iter().map(Receiver::socket).chain([sender.socket()]);
        let sockets = sockets.chain(seats.iter().flat_map(Seat::fds));
        let queues = receivers.iter().map(Receiver::queue).chain([sender.queue_of_socket()]);
        // Senders of other TX queues are on sockets that receive.
        let fds = sockets.chain(queues.filter_map(|queue| queue.memory().memory()));
        let mut numbers: Vec<_> = fds.map(|fd| fd.as_raw_fd()).collect();
        numbers.sort_unstable();
        numbers.dedup();
        // Dropped, they would unmap addresses where the child has nothing, or something of its own by now.
        std::mem::forget((receivers, sender, other_senders, seats));
        for number in numbers {
            // SAFETY: the values that owned the descriptors are forgotten, and each number is here once.
            drop(unsafe { OwnedFd::from_raw_fd(number) });
        }
        steering
    }

    /// As [`Port::receive`], with the frame's times: none before [`XdpPort::want_times`], and of frames that came before.
    ///
    /// # Errors
    /// As [`Port::receive`].
    #[inline]
    pub fn receive_timed<R>(&mut self, read: impl FnOnce(&[u8], FrameTimes) -> R) -> Result<Option<R>, PortError> {
        self.receive_with(|frame, record, times| read(frame, times.of(record)))
    }

    #[inline]
    fn receive_with<R>(&mut self, read: impl FnOnce(&[u8], Record, &mut Times) -> R) -> Result<Option<R>, PortError> {
        let mut read = Some(read);
        let receivers = self.receivers.len();
        for _ in 0..receivers {
            let turn = self.next;
            let (receiver, times) = (&mut self.receivers[turn], &mut self.times);
            // One frame, then the next queue's turn: a busy queue does not starve another.
            self.next = if self.next + 1 == receivers { 0 } else { self.next + 1 };
            let lent = receiver.receive(|frame, record| read.take().map(|read| read(frame, record, times)));
            if let Some(result) = lent.flatten() {
                self.received_frames += 1;
                self.last = turn;
                return Ok(Some(result));
            }
        }
        self.empty()?;
        Ok(None)
    }

    /// No frame on any queue: wakes drivers that ask for it, and finds out now and then whether there still is one.
    #[inline]
    fn empty(&mut self) -> Result<(), PortError> {
        self.empty_looks = self.empty_looks.wrapping_add(1);
        let check = self.empty_looks.is_multiple_of(EMPTY_LOOKS_PER_CHECK);
        if check || self.acts_when_empty { self.act_when_empty(check) } else { Ok(()) }
    }

    fn act_when_empty(&mut self, check: bool) -> Result<(), PortError> {
        if !self.seats.is_empty() {
            self.reclaim();
        }
        if check || self.busy_polls && self.empty_looks.is_multiple_of(POLLS_PER_CHECK) {
            self.check_program()?;
            return self.wake_receivers(|_, _| true);
        }
        if self.busy_polls {
            let polled = self.polled_now();
            return self.wake_receivers(|at, receiver| polled.includes(at) || receiver.needs_wakeup());
        }
        if self.config.mode == XdpMode::ZeroCopy {
            return self.wake_receivers(|_, receiver| receiver.needs_wakeup());
        }
        Ok(())
    }

    /// Nobody reports a program that was taken off: a port would wait for ever. Where the kernel gets what overflows, the reader
    /// looks at the kernel's sockets too, finds what comes there, and asks then.
    fn check_program(&self) -> Result<(), PortError> {
        if self.config.overflow == Overflow::Kernel {
            return Ok(());
        }
        let every = CHECKS_PER_LOOK_AT_PROGRAM * if self.busy_polls { POLLS_PER_CHECK } else { EMPTY_LOOKS_PER_CHECK };
        if !self.empty_looks.is_multiple_of(every) || self.attachment.is_nothing() || self.is_attached() {
            return Ok(());
        }
        Err(PortError::ProgramDetached { interface: self.config.interface.clone(), program_id: self.facts.program_id })
    }

    fn wake_receivers(&self, which: impl Fn(usize, &Receiver) -> bool) -> Result<(), PortError> {
        for (at, receiver) in self.receivers.iter().enumerate() {
            if which(at, receiver) {
                receiver.wake().map_err(|source| gone(&self.config.interface, source))?;
            }
        }
        Ok(())
    }
}

/// Whether a link that is there may go away for a while when the port is opened: what resets a device is a program in its driver, or its queues in
/// zero-copy.
fn may_reset(config: &XdpConfig, facts: &InterfaceFacts) -> bool {
    config.mode != XdpMode::Generic && !facts.is_veth() && facts.carrier
}

/// Waits until the link of an interface is back that was there before a port was opened on it, in the network namespace of the calling thread. Anybody
/// may: it needs no capability. An interface that is gone is not waited for.
///
/// # Errors
/// [`PortError::NoCarrier`]: it was not back in time.
pub fn await_carrier(interface: &str, mode: XdpMode, patience: Duration) -> Result<(), PortError> {
    let begun = Instant::now();
    while InterfaceFacts::has_carrier(interface) == Some(false) {
        if begun.elapsed() > patience {
            let waited_ms = patience.as_millis() as u64;
            return Err(PortError::NoCarrier { interface: interface.to_owned(), mode: mode.name(), waited_ms });
        }
        std::thread::sleep(CARRIER_POLL);
    }
    Ok(())
}

/// A system call on an open port failed: the interface is gone or down, or something that has no name of its own.
#[cold]
fn gone(interface: &str, source: io::Error) -> PortError {
    let interface = interface.to_owned();
    match source.raw_os_error() {
        Some(libc::ENXIO | libc::ENETDOWN | libc::ENODEV) => PortError::InterfaceGone { interface, source },
        _ => PortError::Kernel { tried: "use an AF_XDP socket", interface, source },
    }
}

struct OpenSockets {
    receivers: Vec<Receiver>,
    sender: Sender,
    other_senders: Vec<Sender>,
    /// Of the receive queues.
    divisions: Vec<Division>,
    zero_copy: bool,
    multi_buffer: bool,
}

fn open_sockets(
    config: &XdpConfig,
    receiving: &InterfaceFacts,
    sending: &InterfaceFacts,
) -> Result<OpenSockets, PortError> {
    let mut receivers = Vec::with_capacity(config.rx_queues.len());
    let mut sender = None;
    let (mut other_senders, mut divisions) = (Vec::new(), Vec::new());
    let mut zero_copy = true;
    let mut multi_buffer = config.wants_multi_buffer([receiving, sending]);
    let receive_only = SocketSpec {
        facts: receiving,
        queue: 0,
        mode: config.mode,
        frame_size_bytes: config.frame_size_bytes,
        fill_frames: config.fill_frames,
        first_used_frames: circulation::first_used(config),
        rx_ring_slots: config.rx_ring_slots,
        tx_frames: 0,
        prepared_frames: 0,
        share_areas: 0,
        share_tx_frames: config.tx_frames,
        huge_pages: config.huge_pages,
        keeps_memory_fd: config.hands_over,
        multi_buffer,
        longest_frame_bytes: config.longest_frame_bytes(receiving),
    };
    let (tx_frames, prepared_frames) = (config.tx_frames, config.prepared_frames);
    for (at, &queue) in config.rx_queues.iter().enumerate() {
        let is_first = !config.sends_separately() && queue == config.tx_queue;
        let tx_frames = if is_first || config.tx_queues { tx_frames } else { 0 };
        let prepared_frames = if is_first { prepared_frames } else { 0 };
        let share_areas = share_areas(at, config.rx_queues.len() as u32, config.shares);
        let spec = SocketSpec { queue, tx_frames, prepared_frames, share_areas, multi_buffer, ..receive_only };
        let halves = spec.open()?;
        multi_buffer = halves.multi_buffer;
        divisions.push(halves.division);
        receivers.extend(halves.receiver);
        if is_first {
            sender = halves.sender;
        } else {
            other_senders.extend(halves.sender);
        }
        zero_copy &= halves.zero_copy;
    }
    if config.sends_separately() {
        let queue = config.tx_queue;
        // In zero-copy mode it would take over the receive side of that queue, and the kernel would get nothing from it any more.
        let mode = if config.mode == XdpMode::ZeroCopy { XdpMode::NativeCopy } else { config.mode };
        let send_only =
            SocketSpec { facts: sending, queue, mode, tx_frames, prepared_frames, fill_frames: 0, ..receive_only };
        let halves = SocketSpec { multi_buffer, ..send_only }.open()?;
        multi_buffer = halves.multi_buffer;
        sender = halves.sender;
    }
    let sender = sender.ok_or_else(|| PortError::Config {
        interface: config.interface.clone(),
        setting: "tx_queue",
        found: u64::from(config.tx_queue),
        wanted: "one of rx_queues, or separate_tx_socket",
    })?;
    Ok(OpenSockets { receivers, sender, other_senders, divisions, zero_copy, multi_buffer })
}

/// A program that hands frames over.
struct Steered {
    attachment: XdpAttachment,
    program: Program,
    map: Map,
    steering: Option<SteeringTable>,
    /// With what it marks records when it is told to.
    ready: Option<NonZeroU64>,
}

/// Loads the program, gives it the sockets and attaches it.
fn steer_to(
    config: &XdpConfig,
    receiving: &InterfaceFacts,
    receivers: &mut [Receiver],
    multi_buffer: Option<u32>,
) -> Result<Steered, PortError> {
    let interface = &config.interface;
    let refused = |source: io::Error| PortError::refused("fill the map of AF_XDP sockets", interface, source);
    let is_shareable = config.steer == Steer::Filters;
    let places = if is_shareable { config.shares } else { 1 };
    let map = Map::xskmap("nw_sockets", receiving.bindable_queues() * places).map_err(refused)?;
    for (&queue, receiver) in config.rx_queues.iter().zip(&*receivers) {
        let place = if is_shareable { config.place_of(queue, 0) } else { queue };
        map.set_socket(place, receiver.socket()).map_err(refused)?;
    }
    let steering = match config.steer {
        Steer::Filters => Some(overflow::steering_table(config, receiving.mtu_bytes, receivers, multi_buffer)?),
        Steer::EtherType(_) | Steer::All => None,
    };
    let asking = steering.as_ref().and_then(|steering| attach_asking(config, receiving, steering, &map));
    if let Some((attachment, program, mark)) = asking {
        return Ok(Steered { attachment, program, map, steering, ready: Some(mark) });
    }
    let mut ready = None;
    let program = match (config.steer, &steering) {
        (Steer::EtherType(ether_type), _) => programs::steer(&map, ether_type, None, multi_buffer.is_some()),
        (_, Some(steering)) => loaded(steering, &map).map(|loaded| {
            ready = loaded.ready.ok();
            loaded.program
        }),
        (_, None) => programs::steer_all(&map, None, multi_buffer.is_some()),
    };
    let program = program.map_err(|error| crate::xdp::rejected(interface, error))?;
    let attachment = XdpAttachment::attach(&program, receiving, config.mode.attach_mode())?;
    Ok(Steered { attachment, program, map, steering, ready })
}

/// Attaches the program of a port of sockets that asks the driver for tags that the device took out. `None`: the port is to do without.
fn attach_asking(
    config: &XdpConfig,
    receiving: &InterfaceFacts,
    steering: &SteeringTable,
    sockets: &Map,
) -> Option<(XdpAttachment, Program, NonZeroU64)> {
    if config.mode == XdpMode::Generic || config.overflow != Overflow::Kernel {
        return None;
    }
    let question = TagQuestion::of(receiving)?;
    let mark = times::new_mark().ok()?;
    let program = steering.asking_program(sockets, mark, Some(question)).ok()?;
    let attachment = XdpAttachment::attach(&program, receiving, config.mode.attach_mode()).ok()?;
    steering.set_asking(question);
    Some((attachment, program, mark))
}

/// A program of filters.
struct Loaded {
    program: Program,
    /// With what it marks records when it is told to; or why it cannot.
    ready: io::Result<NonZeroU64>,
}

fn loaded(steering: &SteeringTable, sockets: &Map) -> Result<Loaded, LoadError> {
    let with_times = times::new_mark().and_then(|mark| {
        let program = steering.ready_program(sockets, mark).map_err(io::Error::other)?;
        Ok(Loaded { program, ready: Ok(mark) })
    });
    // The kernel has no such clock for programs (before Linux 6.1): frames can do without.
    with_times.or_else(|error| Ok(Loaded { program: steering.program(sockets)?, ready: Err(error) }))
}

impl XdpPort {
    /// Loads the program that a port with filters would have on an interface, as [`XdpPort::open`] does, and lets it go. Nothing is attached. Says why such a
    /// port's frames could have no times, if so.
    ///
    /// # Errors
    /// The kernel refuses the program, or its maps.
    pub fn try_program(config: &XdpConfig, facts: &InterfaceFacts) -> Result<Option<io::Error>, PortError> {
        let interface = &config.interface;
        let multi_buffer = config.wants_multi_buffer([facts, facts]).then(|| config.frame_buffers(facts));
        let steering = overflow::steering_table(config, facts.mtu_bytes, &mut [], multi_buffer)?;
        let refused = |source: io::Error| PortError::refused("make the map of AF_XDP sockets", interface, source);
        let sockets = Map::xskmap("nw_probe", config.shares).map_err(refused)?;
        let loaded = loaded(&steering, &sockets).map_err(|error| crate::xdp::rejected(interface, error))?;
        Ok(loaded.ready.err())
    }
}

impl Port for XdpPort {
    #[inline]
    fn receive<R>(&mut self, read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, PortError> {
        self.receive_with(|frame, _, _| read(frame))
    }

    #[inline]
    fn queue(&mut self, frame: &[u8]) -> Result<bool, PortError> {
        self.limits.check(frame)?;
        Ok(self.sender.queue(frame))
    }

    #[inline]
    fn queue_with(&mut self, len_bytes: usize, write: impl FnOnce(&mut [u8])) -> Result<bool, PortError> {
        self.queue_on(0, len_bytes, write)
    }

    #[inline]
    fn flush(&mut self) -> Result<(), PortError> {
        self.flush_on(0)
    }

    fn prepare(&mut self, frame: &[u8]) -> Result<PreparedFrame, PortError> {
        self.limits.check(frame)?;
        match self.sender.prepare(frame) {
            Some(slot) => Ok(PreparedFrame { slot, len_bytes: frame.len() as u32 }),
            None => Err(PortError::NoPreparedSlot {
                interface: self.config.sending_interface().to_owned(),
                slots: self.sender.prepared_slots(),
            }),
        }
    }

    #[inline]
    fn send_prepared(&mut self, frame: PreparedFrame, patch: impl FnOnce(&mut [u8])) -> Result<bool, PortError> {
        match self.sender.queue_prepared(frame.slot, frame.len_bytes, patch) {
            PreparedSend::Sent => self.flush().map(|()| true),
            PreparedSend::InFlight => self.flush().map(|()| false),
            PreparedSend::Unknown => Err(PortError::UnknownPreparedFrame {
                interface: self.config.sending_interface().to_owned(),
                slot: frame.slot,
                slots: self.sender.prepared_frames(),
            }),
        }
    }

    fn statistics(&self) -> PortStatistics {
        let senders = || self.other_senders.iter().chain([&self.sender]);
        PortStatistics {
            received_frames: self.received_frames,
            sent_frames: senders().map(|sender| sender.sent_frames).sum(),
            receive_dropped_frames: self.receivers.iter().map(Receiver::dropped_frames).sum(),
            send_refused_frames: senders().map(|sender| sender.refused_frames).sum(),
            kicks: senders().map(|sender| sender.kicks).sum(),
        }
    }

    fn describe(&self) -> String {
        let XdpConfig { interface, mode, rx_queues, tx_queue, .. } = &self.config;
        let rx: Vec<String> = rx_queues.iter().map(u32::to_string).collect();
        let rx = rx.join("+");
        let socket = if self.config.separate_tx_socket { " on a socket of its own" } else { "" };
        let times = self.times.in_words() + &self.busy_poll_in_words() + &self.limits.in_words();
        let share = match self.share_number() {
            0 => String::new(),
            number => format!("share {number} of "),
        };
        match &self.config.tx_interface {
            Some(other) => {
                format!("AF_XDP {mode} on {interface}, rx queue {rx}, tx queue {tx_queue} of {other}{times}")
            }
            None => format!("{share}AF_XDP {mode} on {interface}, rx queue {rx}, tx queue {tx_queue}{socket}{times}"),
        }
    }
}

#[cfg(test)]
mod tests;
