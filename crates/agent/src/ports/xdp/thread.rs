//! The thread that has the port of an interface.
//!
//! To open a port, a share of it, or to close it may take seconds: a driver sets its device up anew, and whoever attaches, binds or asks waits for
//! the kernel's lock of all interfaces, which somebody else may hold for as long. The agent's loop answers other programs meanwhile. The flows of
//! a share need no such lock, and stay with the loop.
//!
//! A port is closed with its last share. But an opening may take the link down, and so a program that opens a share and closes it again in a loop
//! would keep the link from everybody else: then the port stays open for some seconds more ([`LinkLosses`]).

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, SeqCst};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use nearwire_frames::PortError;
use nearwire_frames::engine_port::locks_generic_rings;
use nearwire_frames::interface::InterfaceFacts;
use nearwire_frames::ports::xdp::{TimesWanted, XdpMode, XdpPort, maps_bound_rings};
use nearwire_frames::steering::SteeringTable;
use nearwire_sys::bpf::program_name;

use super::rest::Rest;
use super::size::{sized, ways};
use crate::message::{Cause, Text};
use crate::ports::{Opened, Wanted};

/// An interface may lose its link once in so long by openings of its port,
const LINK_LOSS_EVERY: Duration = Duration::from_secs(5);
/// and so many times without a break: programs that are started one after the other, each in another mode, find no port in their way.
const LINK_LOSSES_AT_ONCE: u32 = 5;
const PREDECESSOR_ASKED_FOR_EVERY: Duration = Duration::from_millis(2);
/// Names of our programs begin so.
const OWN_PROGRAM: &str = "nw_";

/// What the thread is to do, one after the other. It ends, and the port with it, when nobody can ask any more.
enum Job {
    Open(Wanted),
    /// The share with this number of the port's.
    Recover(u32),
    /// For this share of the agent's.
    WantTimes(u32),
    /// A flow came to a port that rests.
    Wake,
    /// The last flow was closed.
    Unused,
    /// Is the interface still there?
    Look,
}

/// What the thread says.
pub(super) struct Told {
    /// Which thread: the number that it was started with.
    pub(super) thread: u32,
    pub(super) what: What,
}

pub(super) enum What {
    Opened {
        share: u32,
        opened: Result<Given, Cause>,
    },
    Times {
        share: u32,
        done: Result<(), Cause>,
    },
    Lost,
    /// The port that rested is awake.
    Awake(Result<(), Cause>),
    /// It has no port any more, after it was asked for so many shares.
    Idle {
        opens: u32,
    },
}

/// A share of the port.
pub(super) struct Given {
    /// Its number at the port.
    pub(super) number: u32,
    pub(super) table: SteeringTable,
    pub(super) opened: Opened,
}

/// Where the thread says it.
#[derive(Debug, Clone)]
pub(super) struct Teller {
    pub(super) told: Sender<Told>,
    /// Readable then.
    pub(super) bell: Arc<OwnedFd>,
}

/// The loop's end of it.
#[derive(Debug)]
pub(super) struct PortThread {
    pub(super) number: u32,
    jobs: Sender<Job>,
    /// It is to look, and has not begun to.
    is_to_look: Arc<AtomicBool>,
    is_resting: Arc<AtomicBool>,
    /// Shares that it was asked for.
    pub(super) opens: u32,
}

impl PortThread {
    /// Starts it in the network namespace of the calling thread. `young_until`: until then the last agent's program may be on the interface.
    pub(super) fn start(number: u32, teller: Teller, young_until: Instant) -> io::Result<PortThread> {
        let (jobs, of_thread) = channel();
        let is_to_look = Arc::new(AtomicBool::new(false));
        let losses = LinkLosses { until: Instant::now() };
        let rest = Rest::default();
        let is_resting = rest.flag();
        let of_keeper = Arc::clone(&is_to_look);
        let mut keeper =
            Keeper { number, teller, young_until, is_to_look: of_keeper, held: None, rest, losses, opens: 0 };
        std::thread::Builder::new().name("nearwire-port".to_owned()).spawn(move || keeper.work(&of_thread))?;
        Ok(PortThread { number, jobs, is_to_look, is_resting, opens: 0 })
    }

    /// To the thread, which is there as long as its jobs can be sent.
    fn ask(&self, job: Job) {
        let _ = self.jobs.send(job);
    }

    pub(super) fn open(&mut self, wanted: &Wanted) {
        self.opens += 1;
        self.ask(Job::Open(wanted.clone()));
    }

    pub(super) fn recover(&self, number: u32) {
        self.ask(Job::Recover(number));
    }

    pub(super) fn want_times(&self, share: u32) {
        self.ask(Job::WantTimes(share));
    }

    /// A flow was added to the table. Whether the port serves it: else it is woken, and [`What::Awake`] follows.
    pub(super) fn flow_came(&self) -> bool {
        let is_awake = self.is_awake();
        if !is_awake {
            self.ask(Job::Wake);
        }
        is_awake
    }

    /// Whether its port is attached.
    pub(super) fn is_awake(&self) -> bool {
        !self.is_resting.load(SeqCst)
    }

    /// The last flow was taken out of the table.
    pub(super) fn flows_gone(&self) {
        self.ask(Job::Unused);
    }

    pub(super) fn look(&self) {
        // One look is enough for all that came before it.
        if !self.is_to_look.swap(true, AcqRel) {
            self.ask(Job::Look);
        }
    }
}

struct Keeper {
    number: u32,
    teller: Teller,
    young_until: Instant,
    is_to_look: Arc<AtomicBool>,
    held: Option<Held>,
    rest: Rest,
    losses: LinkLosses,
    /// Shares that it was asked for.
    opens: u32,
}

/// How often the link may have been lost by openings of the port: a generic cell rate algorithm (ITU-T I.371).
struct LinkLosses {
    /// Then all losses are forgotten.
    until: Instant,
}

impl LinkLosses {
    fn add(&mut self, now: Instant) {
        self.until = self.until.max(now) + LINK_LOSS_EVERY;
    }

    /// From when on another one is allowed; not in the past.
    fn allow_another_at(&self, now: Instant) -> Instant {
        let forgotten = LINK_LOSS_EVERY * (LINK_LOSSES_AT_ONCE - 1);
        self.until.checked_sub(forgotten).map_or(now, |at| at.max(now))
    }
}

/// The port.
pub(super) struct Held {
    pub(super) port: XdpPort,
    /// The user of all its shares.
    uid: u32,
    ifindex: u32,
    name: String,
    /// Numbers of the shares that programs have.
    given: BTreeSet<u32>,
}

fn refused(error: &PortError) -> Cause {
    Cause::Port { words: Text::cut(&error.to_string()) }
}

impl Keeper {
    fn work(&mut self, jobs: &Receiver<Job>) {
        loop {
            match self.next(jobs) {
                Ok(job) => self.act(job),
                Err(RecvTimeoutError::Timeout) if self.held.as_ref().is_some_and(Held::is_given) => {
                    self.held.iter_mut().for_each(|held| self.rest.begin(&mut held.port));
                }
                Err(RecvTimeoutError::Timeout) if self.held.is_some() => self.close(),
                Err(RecvTimeoutError::Timeout) => {
                    self.tell(What::Idle { opens: self.opens });
                    match jobs.recv() {
                        Ok(job) => self.act(job),
                        Err(_) => return,
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// The next job, unless the port is to be closed before, or all of it forgotten.
    fn next(&self, jobs: &Receiver<Job>) -> Result<Job, RecvTimeoutError> {
        let now = Instant::now();
        let until = match &self.held {
            Some(held) if held.is_given() => match self.rest.due() {
                Some(due) => due,
                None => return jobs.recv().map_err(RecvTimeoutError::from),
            },
            Some(held) if held.is_there() => self.losses.allow_another_at(now),
            Some(_) => now,
            None => self.losses.until,
        };
        jobs.recv_timeout(until.saturating_duration_since(now))
    }

    fn act(&mut self, job: Job) {
        match job {
            Job::Open(wanted) => {
                self.opens += 1;
                let what = What::Opened { share: wanted.share, opened: self.open(&wanted) };
                self.tell(what);
            }
            Job::Recover(number) => {
                if let Some(held) = self.held.as_mut().filter(|held| held.given.contains(&number)) {
                    held.given.remove(&number);
                    // What the kernel refuses to take out of the maps is taken out before the number is another's.
                    let _ = held.port.recover(number);
                    self.rest.flows_gone();
                }
            }
            Job::WantTimes(share) => {
                let done = self
                    .wake()
                    .and_then(|()| self.held.as_mut().map_or(Err(Cause::NoSuchShare { share }), Held::want_times));
                self.tell(What::Times { share, done });
            }
            Job::Wake => {
                let awake = self.wake();
                self.tell(What::Awake(awake));
            }
            Job::Unused => self.rest.flows_gone(),
            Job::Look => {
                self.is_to_look.swap(false, AcqRel);
                if self.held.as_ref().is_some_and(|held| !held.is_there()) {
                    self.tell(What::Lost);
                }
            }
        }
    }

    /// Closes the port.
    fn close(&mut self) {
        self.held = None;
        self.rest.forget();
    }

    fn wake(&mut self) -> Result<(), Cause> {
        let Some(held) = &mut self.held else { return Ok(()) };
        self.rest.end(&mut held.port).map_err(|error| refused(&error))
    }

    fn tell(&self, what: What) {
        // The agent may have ended.
        let _ = self.teller.told.send(Told { thread: self.number, what });
        let _ = rustix::io::write(&*self.teller.bell, &1u64.to_ne_bytes());
    }

    fn open(&mut self, wanted: &Wanted) -> Result<Given, Cause> {
        if let Some(words) = why_no_shares() {
            return Err(Cause::Port { words: Text::cut(words) });
        }
        // A port that nobody uses is for its user alone, and for the interface that it was opened on.
        let is_of_it = |held: &Held| held.is_given() || held.uid == wanted.uid && held.is_there();
        if self.held.as_ref().is_some_and(|held| !is_of_it(held)) {
            self.close();
        }
        self.rest.share_came();
        if let Some(held) = &mut self.held {
            return held.give();
        }
        self.await_predecessor(&wanted.interface);
        let opened = Held::open(&wanted.interface, wanted.uid, wanted.memory_bytes);
        let held = self.held.insert(opened.map_err(|error| refused(&error))?);
        if held.port.may_have_taken_link_down() {
            self.losses.add(Instant::now());
        }
        held.give()
    }

    /// Waits until the last agent's program is off an interface.
    fn await_predecessor(&self, interface: &str) {
        let program = || InterfaceFacts::read(interface).ok()?.program;
        let is_own = |id| program_name(id).is_ok_and(|name| name.starts_with(OWN_PROGRAM));
        while Instant::now() < self.young_until && program().is_some_and(|program| is_own(program.program_id)) {
            std::thread::sleep(PREDECESSOR_ASKED_FOR_EVERY);
        }
    }
}

/// Why no program can have a share on this kernel, if so. Asked before a port is opened, for which many a driver takes the link down.
pub(super) fn why_no_shares() -> Option<&'static str> {
    (!maps_bound_rings()).then_some("this kernel maps no rings of an AF_XDP socket that is bound, as Linux 6.4 does")
}

impl Held {
    /// In the first way that works. `memory_bytes`: 0 for as much as is usual.
    pub(super) fn open(interface: &str, uid: u32, memory_bytes: u64) -> Result<Held, PortError> {
        let facts = InterfaceFacts::read(interface)?;
        let mut first = None;
        for config in ways(&facts) {
            match XdpPort::open(&sized(config, &facts, memory_bytes)) {
                Ok(port) => {
                    let (ifindex, name) = (facts.ifindex, facts.name);
                    return Ok(Held { port, uid, ifindex, name, given: BTreeSet::new() });
                }
                Err(error) => first = first.or(Some(error)),
            }
        }
        Err(first.unwrap_or_else(|| PortError::NoSuchInterface { interface: interface.to_owned() }))
    }

    fn give(&mut self) -> Result<Given, Cause> {
        if self.takes_one_share() && self.is_given() {
            let words = format!(
                "{} is in generic mode, in which this kernel does not lock the fill ring that programs share (before Linux 6.15), \
                 and a program has it",
                self.name
            );
            return Err(Cause::Port { words: Text::cut(&words) });
        }
        let handed = self.port.hand_over().map_err(|error| refused(&error))?;
        let number = handed.number;
        let table = self.port.steering_of(number).ok_or(Cause::OtherInterface { ifindex: self.ifindex })?;
        let opened = Opened {
            memory_bytes: if self.is_given() { 0 } else { memory_bytes(&handed.fds) },
            description: handed.description,
            descriptors: handed.fds,
            ifindex: self.ifindex,
            carrier_within_ms: u32::try_from(self.port.link_is_due_within().as_millis()).unwrap_or(u32::MAX),
        };
        self.given.insert(number);
        Ok(Given { number, table, opened })
    }

    /// Whether programs have shares.
    fn is_given(&self) -> bool {
        !self.given.is_empty()
    }

    /// Whether only one socket of a queue may get frames.
    fn takes_one_share(&self) -> bool {
        self.port.config().mode == XdpMode::Generic && !locks_generic_rings()
    }

    fn want_times(&mut self) -> Result<(), Cause> {
        self.port.want_times(TimesWanted::Kernel);
        self.port.no_kernel_times().map_or(Ok(()), |error| Err(refused(error)))
    }

    fn is_there(&self) -> bool {
        InterfaceFacts::read(&self.name).is_ok_and(|facts| facts.ifindex == self.ifindex && facts.up)
    }
}

/// The memory of a port's queues: every second descriptor, as far as there are pairs.
fn memory_bytes(descriptors: &[OwnedFd]) -> u64 {
    let memory = descriptors.chunks_exact(2).map(|pair| &pair[0]);
    let size =
        |memory: &OwnedFd| rustix::fs::fstat(memory).map_or(0, |facts| u64::try_from(facts.st_size).unwrap_or(0));
    memory.map(size).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openings_without_end_take_the_link_once_in_five_seconds() {
        let begun = Instant::now();
        let mut losses = LinkLosses { until: begun };
        let mut now = begun;
        let mut taken = Vec::new();
        for _ in 0..12 {
            losses.add(now);
            taken.push((now - begun).as_secs());
            now = losses.allow_another_at(now);
        }
        assert_eq!(taken, [0, 0, 0, 0, 0, 5, 10, 15, 20, 25, 30, 35]);
    }

    #[test]
    fn openings_now_and_then_are_not_held_up() {
        let mut now = Instant::now();
        let mut losses = LinkLosses { until: now };
        for _ in 0..100 {
            losses.add(now);
            assert_eq!(losses.allow_another_at(now), now);
            now += LINK_LOSS_EVERY;
        }
    }
}
