//! Connections change their owner: between the kernel and the stack.

use std::net::SocketAddr;
use std::time::Duration;

use nearwire_agent::adoption::{self, AdoptionError};
use nearwire_frames::FlowSocket;
use nearwire_frames::steering::{ExactFlow, Transport};
use nearwire_sys::descriptor::{Descriptor, inode_of};
use nearwire_sys::tcp_repair::Repair;
use rustix::net::sockopt::socket_keepalive;

use super::due::{Pace, StreamsDue};
use super::not_adopted::{CALLS_UNTIL_TRIED_AGAIN, NotAdopted};
use super::options::StreamOptions;
use super::{Adoption, CONNECTION_TOKEN, Stream, way};
use crate::config::{self, Adopt, Role, Use};
use crate::direct;
use crate::engine::{Ending, Engine, Opening};
use crate::epoll::Events;
use crate::handover::Access;
use crate::host::Host;
use crate::id::SocketId;
use crate::kept::{local_address, peer_address};
use crate::reason::{Reason, Why};
use crate::service::reach::is_local;
use crate::sockets::Sockets;
use crate::status::{Counter, Writer};
use crate::tcp::{Carried, CarryError};

/// Calls that the kernel gets first by `auto`; doubled for each connection of late that was not worth it, so many times at most.
const FIRST_CALLS: u16 = 2;
const DOUBLINGS_MOST: u32 = 6;
/// Calls that the stack serves of a connection that was worth it.
const CALLS_WORTH_IT: u64 = 32;
/// Of one that was released because the kernel got its frames, calls that the kernel gets: each time so many times more.
const CALLS_GROW_BY: u16 = 8;

/// What happens to a connection when the kernel has it again.
#[derive(Clone, Copy, Debug)]
pub(super) enum Next<'a> {
    GoOn,
    /// The program closes it: the kernel sends FIN or RST.
    Close,
    /// The kernel gets the segment that ends it: before what came behind it, as an end after a FIN is another error.
    Ending(&'a Ending),
}

impl<H: Host> Sockets<H> {
    /// A connection may come to be: so many calls on it go to the kernel before it is adopted. `false`: it never is.
    pub fn stream_opened(&mut self, fd: i32) -> bool {
        if self.config.adopt == Adopt::Never {
            return false;
        }
        // Configuration and rules decide when it is connected.
        self.close_stream(fd);
        let id = self.table.new_place();
        self.table.reserve(id);
        self.table.name(fd, id);
        self.allow_first_calls(fd);
        self.streams.calls_after_too_long.remove(&fd);
        self.streams.bulk.remove(&fd);
        self.streams.one_thread.forget(fd);
        self.mistake.is_none() && !self.has_io_uring
    }

    /// So many calls on it go to the kernel before it is adopted.
    pub(crate) fn allow_first_calls(&self, fd: i32) {
        direct::allow(fd, self.first_calls());
    }

    fn first_calls(&self) -> u16 {
        if self.config.adopt == Adopt::Eager { 0 } else { FIRST_CALLS << self.streams.short_lives.min(DOUBLINGS_MOST) }
    }

    /// The program or the far end is about to end a connection. To adopt one and to release it takes some 105 us (veth), and a call gains 9 us where threads
    /// sleep, less where they do not: where connections end before, as those of a server of web pages, the next ones are adopted after more calls.
    pub(super) fn learn_from_life(&mut self, fd: i32) {
        let before = self.streams.get(fd).and_then(|stream| stream.calls_before);
        let Some((before, now)) = before.zip(self.calls_served(fd)) else { return };
        let is_worth_it = now.saturating_sub(before) >= CALLS_WORTH_IT;
        self.streams.unheard -= u32::from(is_worth_it && self.streams.unheard > 0);
        match is_worth_it {
            true => self.streams.short_lives = self.streams.short_lives.saturating_sub(1),
            false => self.was_not_worth_it(),
        }
    }

    /// What was done to adopt a connection was for nothing: the next ones are considered after more calls.
    pub(super) fn was_not_worth_it(&mut self) {
        self.streams.short_lives = (self.streams.short_lives + 1).min(DOUBLINGS_MOST);
    }

    /// The calls that the kernel was to get were made. `is_server`: a listener accepted it.
    pub fn adopt_stream(&mut self, fd: i32, is_server: bool) -> Adoption {
        if self.is_carried(fd) {
            return Adoption::Carried;
        }
        match self.stream_access(fd) {
            Access::Alone => {}
            Access::AfterParent => {
                direct::allow(fd, CALLS_UNTIL_TRIED_AGAIN);
                return Adoption::Later;
            }
            Access::Shared => {
                direct::allow_for_good(fd);
                return Adoption::Never(Reason::ReadByChild);
            }
        }
        if self.stays_lent(fd) || self.stays_for_bulk(fd, self.first_calls()) || self.stays_with_its_thread(fd) {
            return Adoption::Later;
        }
        if !direct::end(fd) {
            direct::allow(fd, 1);
            return Adoption::Later;
        }
        self.tell_attempt(fd);
        if !self.expect_claim_of(fd) {
            return Adoption::Never(Reason::ReadByChild);
        }
        let adopted = self.try_adoption(fd, is_server);
        // Also where the connection could not be had: its engine may be the first.
        self.tell_engine();
        if adopted.is_err() {
            self.answer_claim_of(fd);
        }
        match adopted {
            Ok(ifindex) => {
                self.page.count(Counter::ConnectionsAdopted, 1);
                self.tell_adopted(fd, ifindex);
                // There is a timer thread from now on.
                self.answers_children(true);
                Adoption::Carried
            }
            Err(NotAdopted::Yet { calls }) => {
                self.tell_kept(fd, None);
                direct::allow(fd, calls);
                Adoption::Later
            }
            Err(NotAdopted::Ever(why)) => {
                self.tell_kept(fd, Some(why));
                direct::allow_for_good(fd);
                Adoption::Never(why.reason)
            }
        }
    }

    /// By which interface.
    fn try_adoption(&mut self, fd: i32, is_server: bool) -> Result<u32, NotAdopted> {
        let shadow = Descriptor::new(fd).ok_or(Reason::NotBound)?;
        let id = self.find(fd).ok_or(Reason::NotBound)?;
        let local = local_address(shadow).map_err(|_| Reason::NotBound)?;
        let remote = peer_address(shadow).ok_or(NotAdopted::YET)?;
        self.ask_rules_of_stream(local, remote, is_server)?;
        if !adoption::is_adoptable(shadow) {
            if adoption::has_ended(shadow) {
                self.was_not_worth_it();
            }
            return Err(NotAdopted::YET);
        }
        let [local_ip, remote_ip] = [local, remote].map(|address| address.ip().to_canonical());
        let minds_bulk = self.minds_bulk();
        let engine = self.open_engine()?;
        if engine.home().is_some_and(|home| !home.has(shadow)) {
            return Err(Reason::OtherNamespace.into());
        }
        if local_ip.is_loopback() || is_local(engine, remote_ip) {
            return Err(Reason::Loopback.into());
        }
        if engine.is_overflowing() {
            return Err(NotAdopted::YET);
        }
        if self.streams.unheard >= way::UNHEARD_MOST {
            return Err(Reason::ComesElsewhere.into());
        }
        let is_patient = self.config.adopt == Adopt::Auto;
        self.attach((local_ip, Some(remote_ip), None), if is_patient { Opening::Beside } else { Opening::Now })?;
        let Some(engine) = self.engine() else { return Err(Reason::EngineFailed.into()) };
        if is_patient && engine.is_served(local_ip, Some(remote_ip), None).is_err() {
            return Err(NotAdopted::YET);
        }
        let ifindex = way::interface_between(engine, local, remote)?;
        let has_keepalive = socket_keepalive(shadow).map_err(|_| Reason::EngineFailed)?;
        let mut options = StreamOptions::read(shadow, local.is_ipv4(), has_keepalive)?;
        let offloads = engine.offloads_towards(remote_ip).unwrap_or_default();
        options.tcp.tells_bulk = minds_bulk;
        (options.tcp.device_cuts, options.tcp.device_joins) = (offloads.cuts, offloads.joins);
        let inode = inode_of(shadow).ok_or(Reason::NotBound)?;
        let flow = ExactFlow::between(Transport::Tcp, local, remote);
        let socket = FlowSocket { descriptor: shadow, inode };
        if is_patient {
            self.hears(fd, flow, socket)?;
        }
        let Some(engine) = self.engine() else { return Err(Reason::EngineFailed.into()) };
        engine.open_connection(flow, socket)?;
        // Before, as the kernel's sets would tell that it is disconnected for a moment.
        self.sets.accelerated(id, Events::empty());
        let (host, page, now_ns) = (self.host.clone(), self.page.clone(), self.time_anew().exact_ns());
        let Some(engine) = self.engine() else { return Err(Reason::EngineFailed.into()) };
        match carry((&host, &page), engine, shadow, &options, now_ns) {
            Ok(carried) => {
                let calls_before = self.calls_served(fd);
                let stream =
                    Stream { id, shadow, inode, carried, flow, options, calls_before, slips: 0, has_told_error: false };
                self.streams.put(fd, stream);
                self.sets.raise(id, Events::ARRIVED | Events::SENDABLE);
                self.sets.call_plain_waiters();
                self.service_changed();
                Ok(ifindex)
            }
            Err(why) => {
                engine.close_connection(flow);
                // It is not known whether the kernel's sets had reported what is true of it: reported twice is better than never.
                self.sets.raise(id, Events::ARRIVED | Events::SENDABLE);
                self.sets.handed_over(id, socket, Events::empty(), false);
                Err(why)
            }
        }
    }

    fn ask_rules_of_stream(&self, local: SocketAddr, remote: SocketAddr, is_server: bool) -> Result<(), Why> {
        if self.mistake.is_some() {
            return Err(Reason::ConfigurationWrong.into());
        }
        if self.has_io_uring {
            return Err(Reason::IoUring.into());
        }
        let pair = |address: SocketAddr| Some((address.ip().to_canonical(), address.port()));
        let role = if is_server { Role::Server } else { Role::Client };
        let asked = config::Socket { program: &self.program, role, local: pair(local), remote: pair(remote) };
        match self.config.decide(&asked) {
            (Use::Nearwire, _) => Ok(()),
            (Use::Kernel, number) => Err(Why::rule(number)),
        }
    }

    /// Whether the stack carries what an fd names.
    #[must_use]
    pub fn is_carried(&self, fd: i32) -> bool {
        self.streams.get(fd).is_some()
    }

    /// Something that only the kernel does is about to be done to a connection: it has it from now on, until some calls more were made.
    pub fn release_stream(&mut self, fd: i32) {
        self.claim_stream(fd);
        self.drive_streams();
        self.release_where_routed(fd, Reason::KernelCall);
    }

    /// The same for good.
    pub fn leave_stream(&mut self, fd: i32) {
        self.claim_stream(fd);
        self.learn_from_life(fd);
        self.leave_stream_for(fd, Reason::KernelCallForGood);
        self.tell_children_of_others(fd);
    }

    /// The kernel has all connections that are carried for good.
    pub(crate) fn leave_all_streams(&mut self, reason: Reason) {
        self.streams.fds().into_iter().for_each(|fd| self.leave_stream_for(fd, reason));
    }

    pub(crate) fn leave_stream_for(&mut self, fd: i32, reason: Reason) {
        self.drive_streams();
        self.release_now(fd, reason);
        self.tell_left(fd, reason);
        self.streams.lent.remove(&fd);
        direct::allow_for_good(fd);
    }

    /// An fd is about to be closed: the kernel ends its connection.
    pub fn close_stream(&mut self, fd: i32) {
        if self.is_carried(fd) {
            self.learn_from_life(fd);
            self.drive_streams();
            self.release_to(fd, Reason::KernelCallForGood, Next::Close);
        }
        self.stop_hearing(fd);
        self.tell_closed(fd);
        self.tell_children_of_close(fd);
        self.streams.lent.remove(&fd);
        self.streams.bulk.remove(&fd);
        direct::clear(fd);
        if let Some(id) = self.find(fd).filter(|id| self.get(*id).is_none()) {
            self.sets.remove_socket(id);
            self.table.unname(fd);
            self.table.free_place(id);
        }
    }

    /// The number, in epoll sets, of what an fd names, if the stack carries it.
    #[must_use]
    pub fn carried(&self, fd: i32) -> Option<SocketId> {
        self.streams.get(fd).map(|stream| stream.id)
    }

    /// The inode of one that the stack carries.
    pub(crate) fn inode_of_stream(&self, fd: i32) -> Option<u64> {
        self.streams.get(fd).map(|stream| stream.inode)
    }

    /// In the child of a fork: its parent carries them, and has this memory too, which is not to be copied for being freed.
    pub(crate) fn forget_streams(&mut self) {
        std::mem::forget(std::mem::take(&mut self.streams));
    }

    /// A sender on this machine leaves it to a device to cut what it sends, and the kernel has one buffer for a frame (before Linux 6.6): such segments were
    /// dropped. It has all connections until that has been so for no one of them for some time.
    #[cold]
    pub(super) fn release_too_long(&mut self) {
        for fd in self.streams.fds() {
            self.release_now(fd, Reason::FramesByKernel);
            self.allow_more_calls(fd);
        }
    }

    /// So many calls on it go to the kernel before it is tried again, each time more.
    pub(super) fn allow_more_calls(&mut self, fd: i32) {
        let calls = self.streams.calls_after_too_long.entry(fd).or_insert(CALLS_UNTIL_TRIED_AGAIN);
        direct::allow(fd, *calls);
        *calls = calls.saturating_mul(CALLS_GROW_BY);
    }

    /// Gives a connection to the kernel.
    pub(super) fn release_now(&mut self, fd: i32, reason: Reason) {
        self.release_to(fd, reason, Next::GoOn);
    }

    /// The same, and what happens to it next.
    pub(super) fn release_to(&mut self, fd: i32, reason: Reason, next: Next<'_>) {
        self.tell_round_trip(fd);
        self.raise_streams();
        let was_true = self.carried(fd).map_or(Events::empty(), |id| self.readiness_of(id));
        let Some(stream) = self.streams.take(fd) else { return };
        let Stream { id: socket, shadow, inode, carried, flow, .. } = *stream;
        let (id, set, host) = (carried.id(), carried.set(), self.host.clone());
        let now_ns = self.time_anew().exact_ns();
        let Some(engine) = self.engine() else { return };
        engine.unwatch_shadow(shadow);
        let privileges = |asked| host.set_privileged(shadow, asked);
        let how = if matches!(next, Next::GoOn) { Repair::Thaw } else { Repair::ThawSilently };
        let released = carried.release_by(shadow, engine.stack(), now_ns, how, &privileges);
        if let Err((why, _)) = released {
            self.page.count(Counter::ConnectionsLost, u64::from(matches!(why, CarryError::Kernel(_))));
            // It has ended, or has no owner: the agent resets the far end when the socket is closed. What the kernel refuses here it refused before.
            if let Some(engine) = self.engine() {
                engine.stack().tcp_remove(id);
            }
            let _ = adoption::end_by(shadow, set, &privileges);
        }
        // Before anything comes to the kernel's socket: an edge of which the kernel's sets do not know is never told.
        self.sets.handed_over(socket, FlowSocket { descriptor: shadow, inode }, was_true, false);
        let now = self.time();
        if let Some(engine) = self.engine() {
            if let Next::Ending(ending) = next {
                engine.give_ending(shadow, ending);
            }
            engine.close_connection(flow);
            // What came since its facts were taken.
            engine.expect_late_segments(now, flow, FlowSocket { descriptor: shadow, inode });
            engine.take_in_all(now);
            engine.give_late_segments();
        }
        self.raise_readable();
        self.raise_streams();
        self.page.count(Counter::ConnectionsReleased, 1);
        self.tell_released(fd, reason);
        // Calls that wait for it wait in the kernel from now on.
        self.service_changed();
    }

    /// Something went wrong in the library, and nothing of it is trusted: the kernel's sockets are ended ones, and the agent tells the far ends when they are closed.
    pub fn abandon_streams(&mut self) {
        let host = self.host.clone();
        for fd in self.streams.fds() {
            let Some(stream) = self.streams.take(fd) else { continue };
            let (shadow, inode) = (stream.shadow, stream.inode);
            // Refused, it is parked still, and closed as one.
            let _ = adoption::end_by(shadow, stream.carried.set(), &|asked| host.set_privileged(shadow, asked));
            self.sets.handed_over(stream.id, FlowSocket { descriptor: shadow, inode }, Events::empty(), false);
        }
    }

    /// What the timer thread does at a look ([`Sockets::drive_streams`]), and how long it may sleep until the next; `None`: no connection is carried.
    pub fn look_at_streams(&mut self, pace: &mut Pace) -> Option<Duration> {
        let before_frames = self.frames_taken();
        self.drive_streams();
        self.tell_round_trips();
        let within = pace.looked(self.frames_taken().saturating_sub(before_frames));
        self.streams.are_carried().then(|| self.streams_due_within().unwrap_or(within).min(within))
    }

    fn frames_taken(&self) -> u64 {
        self.engine_ref().map_or(0, |engine| engine.stack_ref().statistics().frames)
    }

    /// By which the timer thread knows that others look.
    #[must_use]
    pub fn streams_due(&self) -> StreamsDue {
        self.streams.due.clone()
    }

    /// How long a thread may sleep until something of a connection is due; `None`: as long as it likes.
    pub fn streams_due_within(&mut self) -> Option<Duration> {
        if !self.streams.are_carried() {
            return None;
        }
        let due_ns = self.engine_ref()?.stack_ref().next_deadline()?;
        Some(Duration::from_nanos(due_ns.saturating_sub(self.time().exact_ns())))
    }
}

/// Has the stack carry a connection whose flow is open.
fn carry<H: Host>(
    (host, page): (&H, &Writer),
    engine: &mut Engine<H>,
    shadow: Descriptor,
    options: &StreamOptions,
    now_ns: u64,
) -> Result<Carried, NotAdopted> {
    let privileges = |asked| host.set_privileged(shadow, asked);
    let carried = Carried::adopt_by(shadow, engine.stack(), options.tcp, now_ns, &privileges);
    let carried = carried.inspect_err(|error| {
        let is_lost = matches!(error, CarryError::Kernel(AdoptionError::Lost { .. }));
        page.count(Counter::ConnectionsLost, u64::from(is_lost));
    });
    let carried = carried.map_err(|error| match error {
        CarryError::Kernel(
            AdoptionError::NotEstablished { .. } | AdoptionError::Unsteady { .. } | AdoptionError::Urgent { .. },
        ) => NotAdopted::YET,
        CarryError::Kernel(AdoptionError::System { source, .. })
            if source.kind() == std::io::ErrorKind::PermissionDenied =>
        {
            Reason::NoCapability.into()
        }
        CarryError::Kernel(_) | CarryError::Adopt(_) | CarryError::Export(_) => Reason::EngineFailed.into(),
    })?;
    // Refused, what slips is merged when it is released.
    let _ = engine.watch_shadow(shadow, CONNECTION_TOKEN | shadow.number().cast_unsigned());
    Ok(carried)
}
