//! Looks at what does not come by a port: when they are due, and what follows from them.

use std::ops::BitOr;
use std::time::Duration;

use nearwire_frames::EnginePort;
use nearwire_stack::{Take, Update};

use super::watch::{Other, Seen};
use super::{Attached, Engine, FRAMES_LEFT_MOST, Takers, take_frame};
use crate::host::{Host, Tables, at_home};
use crate::kernel_tables::News;
use crate::now::Now;
use crate::reason::Reason;

/// How long what comes by the kernel may go unseen by a call that spins: 40 000 ticks are 8 to 40 us. A look costs about
/// 200 ns, so it takes one to two percent of the time.
const LOOK_AFTER_TICKS: u64 = 40_000;
/// How often drops are reported that only a system call reveals, and lost ports are asked for: 2^28 ticks are about a tenth of a second.
const TELL_AFTER_TICKS: u64 = 1 << 28;
/// A send looks when it has sent: while the answer is on its way, the look delays nobody. Sooner than a call that spins
/// would, so that a program that sends and receives in turn looks there and nowhere else.
const LOOK_AFTER_SEND_TICKS: u64 = LOOK_AFTER_TICKS / 2;
/// How long sleeps that found the watch quiet may stand for looks: 0.2 to 1 ms.
const QUIET_MOST_TICKS: u64 = 25 * LOOK_AFTER_TICKS;
/// When nobody looked for this long, a send looks before: it may have to tell an error.
const LOOK_BEFORE_SEND_TICKS: u64 = 4 * LOOK_AFTER_TICKS;
/// Data that comes by the kernel makes one ask whether frames still come to the ports, no more often than this: a question costs
/// under 1 us a port, and waits while anybody changes an interface. So a port is not asked that has frames since it last was.
const PORTS_CHECKED_EVERY: Duration = Duration::from_millis(100);
/// Waits for errors that came to nothing: so many at once, and then one in 1 to 2 ms. In a flood of error messages for others,
/// a receive in a thousand is held up, and what comes for the socket itself is told up to [`LOOK_AFTER_TICKS`] later.
pub(super) const ERROR_WAITS_AT_ONCE: u32 = 8;
pub(super) const ERROR_WAIT_EVERY_TICKS: u64 = 4_000_000;
/// The kernel ends the XDP program of an agent that was killed 1 to 20 ms after its connections, and later where CPUs are busy. It is
/// asked whether it has.
const PROGRAM_ENDS_WITHIN: Duration = Duration::from_secs(1);
const PROGRAM_ASKED_FOR_EVERY: Duration = Duration::from_micros(200);
/// After the kernel refused its tables it is asked again no sooner.
const TABLES_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// When a send looks at the watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookAroundSend {
    /// Somebody looked just now.
    No,
    /// When the datagram is on its way.
    After,
    /// First of all.
    Before,
}

/// What a look found besides shadows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Looked {
    /// Addresses of this host came or went: flows have to follow.
    pub addresses_changed: bool,
    /// An interface may have a port that could not have one before.
    pub links_changed: bool,
    /// A port is gone.
    pub ports_failed: bool,
    /// Flows were taken from ports, and their sockets are to follow.
    pub flows_revoked: bool,
    /// The agent said something.
    pub holder_told: bool,
}

impl BitOr for Looked {
    type Output = Looked;

    /// What either found.
    fn bitor(self, other: Looked) -> Looked {
        Looked {
            addresses_changed: self.addresses_changed | other.addresses_changed,
            links_changed: self.links_changed | other.links_changed,
            ports_failed: self.ports_failed | other.ports_failed,
            flows_revoked: self.flows_revoked | other.flows_revoked,
            holder_told: self.holder_told | other.holder_told,
        }
    }
}

impl<H: Host> Engine<H> {
    /// Whether the watch was last looked at long enough ago.
    #[inline]
    #[must_use]
    pub fn is_look_due(&self, now: Now) -> bool {
        self.is_capture_wanted || now.ticks.wrapping_sub(self.looked_ticks) > LOOK_AFTER_TICKS
    }

    /// Whether the kernel may have an error for a socket since the watch was last looked at: what came before a frame is to be told
    /// before it. Not where nearly all errors are for others.
    #[inline]
    #[must_use]
    pub fn has_new_errors(&self) -> bool {
        self.errors_passed() != self.errors_looked && self.heeds_errors
    }

    /// A call begins to wait for an error. [`Engine::error_came`], if it comes.
    pub(crate) fn awaits_error(&mut self, now_ticks: u64) {
        self.error_waits.take(now_ticks);
    }

    /// What a call waited for has come.
    pub(crate) fn error_came(&mut self) {
        self.error_waits.give_back();
    }

    #[inline]
    fn errors_passed(&self) -> u64 {
        self.interfaces.attached.iter().fold(0, |sum, attached| sum.wrapping_add(attached.port.errors_passed()))
    }

    /// When a send should look.
    #[inline]
    #[must_use]
    pub fn look_around_send(&self, now: Now) -> LookAroundSend {
        let ago_ticks = now.ticks.wrapping_sub(self.looked_ticks);
        if ago_ticks <= LOOK_AFTER_SEND_TICKS {
            LookAroundSend::No
        } else if ago_ticks <= LOOK_BEFORE_SEND_TICKS {
            LookAroundSend::After
        } else {
            LookAroundSend::Before
        }
    }

    /// A thread slept on the watch, and the watch had nothing when it woke: as good as a look, so that none is due. What else
    /// a look does is done every [`QUIET_MOST_TICKS`] all the same.
    pub fn watch_was_quiet(&mut self, now: Now) {
        if !self.is_capture_wanted && now.ticks.wrapping_sub(self.followed_ticks) < QUIET_MOST_TICKS {
            self.looked_ticks = now.ticks;
        }
    }

    /// Whether nobody has looked for long.
    pub(crate) fn is_quiet(&self, now: Now) -> bool {
        now.ticks.wrapping_sub(self.followed_ticks) >= QUIET_MOST_TICKS
    }

    /// Looks at the watch: takes in news of the kernel's tables, and hands each shadow that has something to `shadow`.
    pub fn look(&mut self, now: Now, shadow: impl FnMut(u32, Seen)) -> Looked {
        self.looked_ticks = now.ticks;
        self.followed_ticks = self.looked_ticks;
        self.errors_looked = self.errors_passed();
        self.heeds_errors = self.error_waits.is_left(now.ticks);
        self.interfaces.attached.iter_mut().for_each(|attached| attached.port.find_lost());
        self.follow_capture_request(now);
        self.follow_capture();
        let mut shadow = shadow;
        let (mut has_news, mut has_path_errors, mut by_kernel) = (false, false, false);
        let mut by_holder = std::mem::take(&mut self.has_holder_told);
        self.watch.look(
            |token, seen| {
                by_kernel |= seen.data;
                shadow(token, seen);
            },
            |other| match other {
                Other::Tables => has_news = true,
                Other::PathErrors => has_path_errors = true,
                Other::Holder => by_holder = true,
            },
        );
        let mut looked = Looked::default();
        if has_news || self.tables_lost_ns.is_some() {
            looked = self.take_news(now);
        }
        if has_path_errors || self.paths.has_something() {
            self.follow_paths(now);
        }
        // All engines have one connection to the agent: another one may have read what is for this one.
        by_holder |= self.is_told_by_holder();
        looked.holder_told = by_holder;
        looked.flows_revoked |= (by_kernel || by_holder) && self.check_ports(now, by_holder);
        if self.has_failed {
            self.has_failed = false;
            looked.ports_failed = self.drop_failed_ports(now);
        }
        self.confirm_neighbours();
        if self.looked_ticks.wrapping_sub(self.told_ticks) > TELL_AFTER_TICKS {
            self.told_ticks = self.looked_ticks;
            self.tell_port_drops();
            self.check_capture(now);
            looked.links_changed |= self.interfaces.want_ports_back(now);
        }
        looked
    }

    /// Whether an agent that holds a port has said something that nobody has followed, or is gone.
    pub(crate) fn is_told_by_holder(&self) -> bool {
        self.interfaces.attached.iter().any(|attached| attached.port.is_told())
    }

    /// The same of shadows alone; the rest is there at the next look.
    pub fn look_at_shadows_alone(&mut self, shadow: impl FnMut(u32, Seen)) {
        let Engine { watch, has_holder_told, .. } = self;
        watch.look(shadow, |other| *has_holder_told |= other == Other::Holder);
    }

    /// Netlink has something.
    fn take_news(&mut self, now: Now) -> Looked {
        // What has come is judged by what was true when it came.
        self.take_in_all(now);
        let Engine { host, stack, tables, interfaces, .. } = self;
        let mut looked = Looked::default();
        let mut apply = |update: Update| {
            let changes = interfaces.note(host, &update);
            looked.addresses_changed |= changes.addresses;
            looked.links_changed |= changes.links;
            stack.update(update);
        };
        // Refused, the news are lost as well.
        let is_lost = matches!(tables.read(&mut apply), Ok(News::Lost) | Err(_)) || self.tables_lost_ns.is_some();
        if is_lost && self.tables_lost_ns.is_none_or(|since_ns| now.since(since_ns) > TABLES_AGAIN_AFTER) {
            self.tables_lost_ns = Some(now.monotonic_ns());
            if let Ok(known) = self.tables.snapshot() {
                self.tables_lost_ns = None;
                self.interfaces.resync(&self.host, &known);
                self.stack.resync(known);
                (looked.addresses_changed, looked.links_changed) = (true, true);
            }
        }
        self.has_failed |= self.interfaces.attached.iter().any(|attached| attached.failed.is_some());
        looked
    }

    /// Data came by the kernel: from this host, as a fragment, for a group, or because a port receives nothing any more. `by_holder`: the
    /// agent that holds a port reported something. Returns whether flows were taken from ports.
    fn check_ports(&mut self, now: Now, by_holder: bool) -> bool {
        let is_early = self.ports_checked_ns.is_some_and(|checked_ns| now.since(checked_ns) < PORTS_CHECKED_EVERY);
        if is_early && !by_holder {
            return false;
        }
        self.ports_checked_ns = Some(now.monotonic_ns());
        self.interfaces.check_ports();
        self.has_failed |= self.interfaces.attached.iter().any(|attached| attached.failed.is_some());
        let mut ports = self.interfaces.attached.iter_mut();
        ports.any(|attached| attached.port.has_revoked())
    }

    /// The kernel does not see our frames, so it is notified of neighbours that are in use: by a packet to each, and where that cannot be by
    /// netlink, which waits while anybody changes an interface.
    fn confirm_neighbours(&mut self) {
        while let Some((ifindex, address)) = self.stack.take_stale_neighbour() {
            if !self.paths.errors.use_neighbour(ifindex, address) {
                // Refused, the entry stays stale, and usable.
                let _ = self.tables.use_neighbour(ifindex, address);
            }
        }
    }

    /// The kernel ends an agent's connections before its XDP programs: frames come to the rings until those are at an end too. The program of
    /// the next agent may be there by now.
    pub(super) fn outlast_agents_programs(&mut self, now: Now) {
        let gone = self.interfaces.attached.iter().filter(|attached| attached.failed == Some(Reason::AgentGone));
        let program = |attached: &Attached<H::Port>| Some((attached.name.clone(), attached.port.about().program_id?));
        let programs: Vec<(String, u32)> = gone.filter_map(program).collect();
        let is_any_there = |engine: &Engine<H>| {
            let present = |name| Some(engine.host.interface_facts(name).ok()?.program?.program_id);
            let is_any = || programs.iter().any(|(name, program_id)| present(name) == Some(*program_id));
            at_home(engine.interfaces.home.as_deref(), is_any).unwrap_or(false)
        };
        let time = |engine: &Engine<H>| Duration::from_nanos(engine.host.clocks().monotonic_ns);
        let begun = time(self);
        while is_any_there(self) && time(self) - begun < PROGRAM_ENDS_WITHIN {
            self.take_in_all(now);
            self.host.pause(PROGRAM_ASKED_FOR_EVERY);
        }
        if !programs.is_empty() {
            self.take_in_all(now);
        }
    }

    /// Removes failed ports, with what they have received: the kernel serves their sockets from now on.
    fn drop_failed_ports(&mut self, now: Now) -> bool {
        self.outlast_agents_programs(now);
        let Engine { host, stack, interfaces, capture, late, kernels_segments, flows, .. } = self;
        let mut any = false;
        while let Some(mut attached) = interfaces.take_failed(now) {
            any = true;
            for _ in 0..FRAMES_LEFT_MOST {
                let to = Takers { host, stack, late, kernels_segments, flows, capture };
                let taken = take_frame(now, &mut attached, to, true, &mut |_, _| Take::Queue);
                let Ok(Some(_)) = taken else { break };
            }
            stack.detach_port(attached.port_id);
        }
        self.has_lost_ports |= any;
        self.next_port = 0;
        interfaces.changed |= any;
        any
    }
}
