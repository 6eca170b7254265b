//! The timer thread: one of the library's own, which does what is due while the program computes.
//!
//! | what is due | from when on there is a thread |
//! |---|---|
//! | datagrams that `send_coalescing` holds back leave | the first time that something is held |
//! | what waits at a socket goes to a child that reads it | the first call after a fork with sockets that were used, if the child lives then |
//! | what is due of TCP connections that the stack carries | the first that is adopted |
//! | what waits at an inherited socket goes to another process that reads it | its first use, by the agent |
//!
//! It sleeps until its bell is rung. While datagrams may be held it looks every half of that time, without entering a gate, and enters when it finds
//! the same datagrams twice; so none waits for longer than that time and what it takes to wake a thread. When nothing was held for
//! `IDLE_LOOKS` looks it leaves the watch until something is.
//!
//! It keeps off the CPU that the program called from where there is another, has all signals blocked, and is not there in
//! a child of fork, which starts its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use nearwire_socket::{Bell, Held, Pace, Sight, Sockets, StreamsDue};
use nearwire_sys::affinity;
use nearwire_sys::tsc::monotonic_raw_ns;

use crate::signals::mask::HeldSignals;
use crate::state::{self, Subject};

/// Looks that find nothing new before it leaves the watch.
const IDLE_LOOKS: u32 = 20;
/// What it needs: it calls the library and allocates little.
const STACK_BYTES: usize = 128 * 1024;
/// What no engine takes would have it look again and again.
const AGENT_IS_HEARD_EVERY: Duration = Duration::from_millis(10);
const NAME: &str = "nearwire-timer";

static EXISTS: AtomicBool = AtomicBool::new(false);
static IS_FORBIDDEN: AtomicBool = AtomicBool::new(false);

/// Has what an engine holds back sent in time. If no thread can be started, nothing is held any more.
#[cold]
pub fn watch(engine: usize, held: &Held) {
    held.watch();
    if !begin() {
        state::with_subject(Subject::Engine(engine), Sockets::stop_coalescing);
    }
}

/// The program is about to filter its system calls (seccomp(2)): one that allows no thread may end the process for it.
pub fn forbid() {
    IS_FORBIDDEN.store(true, Relaxed);
}

/// Whether it does.
pub fn is_forbidden() -> bool {
    IS_FORBIDDEN.load(Relaxed)
}

/// Starts the thread, or rings its bell. `false`: none can be started.
#[cold]
pub fn begin() -> bool {
    if IS_FORBIDDEN.load(Relaxed) && !EXISTS.load(Relaxed) {
        return false;
    }
    let Some(bell) = state::with(Sockets::bell).flatten() else { return false };
    bell.ring();
    if EXISTS.swap(true, Relaxed) {
        return true;
    }
    state::with(|sockets| sockets.answers_children(true));
    let cpu = affinity::current_cpu();
    let signals = HeldSignals::hold();
    let thread = std::thread::Builder::new().name(NAME.to_owned()).stack_size(STACK_BYTES);
    let began = thread.spawn(move || serve(&bell, cpu)).is_ok();
    drop(signals);
    if !began {
        EXISTS.store(false, Relaxed);
        state::with(|sockets| sockets.answers_children(false));
    }
    began
}

/// In a child of fork.
pub fn after_fork_in_child() {
    EXISTS.store(false, Relaxed);
}

/// Before the program ends.
pub fn send_the_rest() {
    if EXISTS.load(Relaxed) {
        state::engines().for_each(send_what_is_held);
    }
}

fn send_what_is_held(engine: usize) {
    // With the kick outside the gate: a thread that is put off its CPU within would keep the program waiting.
    state::send_with(Subject::Engine(engine), Sockets::kick);
}

fn serve(bell: &Bell, program_cpu: u32) {
    // Refused, it works with what it has: a CPU that it shares, and sleeps that the kernel rounds up.
    let _ = affinity::avoid_cpu(program_cpu);
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    let (mut watches, mut every, mut agent, mut streams) = (Vec::new(), None, None, Streams::default());
    loop {
        let of_held = every.filter(|_| !watches.is_empty());
        let of_streams = streams.due.map(|due| due.saturating_duration_since(Instant::now()));
        let woken = bell.wait(agent, of_held.into_iter().chain(of_streams).min());
        if woken.other_is_readable {
            state::with_each(Sockets::look);
            std::thread::sleep(AGENT_IS_HEARD_EVERY);
        }
        if woken.rang {
            answer_children();
            every = state::with(|sockets| sockets.send_coalescing() / 2);
            state::engines().for_each(|engine| begin_watch(&mut watches, engine));
        }
        if woken.rang || woken.other_is_readable {
            agent = state::with(|sockets| sockets.agent()).flatten();
        }
        streams.follow(woken.rang);
        watches.retain_mut(HeldWatch::goes_on);
    }
}

/// The connections that the stack carries.
#[derive(Default)]
struct Streams {
    /// When something of them is due; `None`: there are none.
    due: Option<Instant>,
    /// What threads of the program have done of it by themselves.
    by_others: Option<StreamsDue>,
    pace: Pace,
    /// When this thread has last looked, CLOCK_MONOTONIC_RAW.
    looked_ns: u64,
}

impl Streams {
    /// Does what is due, unless a thread of the program does. Not at every look for what is held: to enter a gate ends the program's run of sends, and
    /// takes the bias from its thread.
    fn follow(&mut self, rang: bool) {
        if !rang && self.due.is_none_or(|due| due > Instant::now()) {
            return;
        }
        let without = || self.by_others.as_ref()?.sleep_without_looking(self.looked_ns);
        if !rang && let Some(sleep) = without() {
            self.due = Some(Instant::now() + sleep);
            return;
        }
        let within = state::with(|sockets| {
            sockets.look_at_streams(&mut self.pace).map(|within| (within, sockets.streams_due()))
        });
        self.looked_ns = monotonic_raw_ns();
        let (due, by_others) = within.flatten().unzip();
        (self.due, self.by_others) = (due.map(|within| Instant::now() + within), by_others);
    }
}

/// What children claimed is theirs.
fn answer_children() {
    if let Some(claims) = state::with(|sockets| sockets.claims()) {
        state::with_each(Sockets::answer_children);
        state::with(|sockets| sockets.answered_children(claims));
    }
}

/// An engine whose held datagrams are watched.
struct HeldWatch {
    engine: usize,
    held: Arc<Held>,
    last: Sight,
    idle_looks: u32,
}

/// Watches what an engine holds by, if that is wanted and not done yet.
fn begin_watch(watches: &mut Vec<HeldWatch>, engine: usize) {
    // As a send, it does not end the run of sends.
    let Some(held) = state::send_with(Subject::Engine(engine), |sockets| sockets.watched()).flatten() else { return };
    if !watches.iter().any(|watch| Arc::ptr_eq(&watch.held, &held)) {
        watches.push(HeldWatch { engine, last: held.look(), held, idle_looks: 0 });
    }
}

impl HeldWatch {
    /// Looks, and sends what it saw the last time too. `false`: there is nothing to watch for now.
    fn goes_on(&mut self) -> bool {
        let now = self.held.look();
        self.idle_looks = if now == self.last { self.idle_looks + 1 } else { 0 };
        if now == self.last && now.is_held() {
            send_what_is_held(self.engine);
        }
        self.last = now;
        self.idle_looks < IDLE_LOOKS || !self.held.leave()
    }
}
