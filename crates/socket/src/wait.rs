//! How a call waits: spin first, then sleep in the kernel on the watch and the program's own descriptors together.

pub mod auto;
mod spinners;

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use nearwire_sys::usage::ThreadUsage;
use rustix::thread::sched_yield;
use rustix::time::{ClockId, clock_gettime};

use crate::config::Spin;
use crate::status::Waiting;
use auto::{Auto, Doing, Why, World};
use spinners::Place;

/// Turns between two looks at the clock: a turn looks at the ports and takes 20 to 60 ns.
const TURNS_PER_CLOCK_READ: u32 = 32;

/// The same for a thread that lets others run in between.
const TURNS_PER_GIVING_WAY: u32 = 4;

/// What threads of this process spent spinning so far, nanoseconds.
static SPUN_NS: AtomicU64 = AtomicU64::new(0);
/// What [`TURNS_PER_CLOCK_READ`] turns took when last measured. A wait that ends is counted by its turns: its end is a
/// datagram that the program waits for, and the clock read costs 25 ns of that.
static TURNS_NS: AtomicU64 = AtomicU64::new(0);
/// Waits that ended between two clock reads. One of [`WAITS_PER_CLOCK_READ`] is measured all the same: a program may have no
/// longer ones.
static WAITS: AtomicU32 = AtomicU32::new(0);
const WAITS_PER_CLOCK_READ: u32 = 256;
/// No processor makes them faster.
const TURNS_NS_LEAST: u64 = 100;

/// Nanoseconds that calls of this process spent spinning.
#[must_use]
pub fn spun_ns() -> u64 {
    SPUN_NS.load(Relaxed)
}

/// How long calls spin, after looking at the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpinFor {
    /// As [`auto`] decides for each thread.
    Auto,
    /// As long as they wait.
    Forever,
    /// This long.
    Time(Duration),
}

impl SpinFor {
    /// What the configuration says of this machine.
    #[must_use]
    pub fn choose(spin: Spin) -> SpinFor {
        let chosen = SpinFor::on_cpus(spin, online_cpus());
        COUNTS_MESSAGES.store(chosen == SpinFor::Auto, Relaxed);
        if !matches!(chosen, SpinFor::Time(_)) {
            spinners::open();
        }
        chosen
    }

    const fn on_cpus(spin: Spin, online: u32) -> SpinFor {
        match spin.on(online) {
            Spin::For(time) => SpinFor::Time(time),
            Spin::Auto => SpinFor::Auto,
            Spin::Forever => SpinFor::Forever,
        }
    }
}

/// CPUs of the machine, including those that this process may not use; 1 if the kernel does not say.
#[must_use]
pub fn online_cpus() -> u32 {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let count = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(last.trim().parse::<u32>().ok()?.checked_sub(first.trim().parse().ok()?)? + 1)
    };
    text.split(',').filter_map(count).sum::<u32>().max(1)
}

/// What a waiting call does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// Looks again.
    Again,
    /// Sleeps, at most so long.
    Sleep(Option<Duration>),
    /// Lends what it waits for to the kernel, as far as that can be, and looks again. Once a wait.
    Lend,
    /// The time is over: looks once more before it gives up. What came in the time is found then, however long the thread was off
    /// its CPU since it last looked, as the kernel looks when the timer of a sleep has expired (`ep_poll`).
    LastLook,
    /// Gives up.
    TimedOut,
}

/// What a thread knows of its waits, and its place among those that spin.
struct OfThread {
    /// Copied and put back: a handler that jumps out of a wait leaves it as it was.
    auto: Cell<Auto>,
    place: Cell<Place>,
    /// What it had used when that was last asked, and when.
    used: Cell<(u64, ThreadUsage)>,
    /// When a thread that spins forever last said so.
    told_ns: Cell<u64>,
    /// Messages that it has received.
    passed: Cell<u64>,
    /// Connections that were carried when it last received one by one of them.
    connections: Cell<usize>,
}

thread_local! {
    /// Nothing in it is dropped, and nothing is allocated for it.
    static OF_THREAD: OfThread =
        const {
            OfThread {
                auto: Cell::new(Auto::new()),
                place: Cell::new(Place::NONE),
                used: Cell::new((0, ThreadUsage { cpu_ns: 0, voluntary_switches: 0, involuntary_switches: 0 })),
                told_ns: Cell::new(0),
                passed: Cell::new(0),
                connections: Cell::new(0),
            }
        };
}

/// Threads decide themselves how they wait, and so what they receive is counted. Else it is not: a variable of the thread is reached by
/// a call into the dynamic linker.
static COUNTS_MESSAGES: AtomicBool = AtomicBool::new(false);

/// The thread has received a message.
#[inline]
pub(crate) fn count_message() {
    count_messages(1);
}

/// The same of several.
#[inline]
pub(crate) fn count_messages(messages: u64) {
    if COUNTS_MESSAGES.load(Relaxed) {
        OF_THREAD.with(|own| own.passed.set(own.passed.get().wrapping_add(messages)));
    }
}

/// The thread has received something by one of so many connections.
#[inline]
pub(crate) fn count_message_by_one_of(connections: usize) {
    if COUNTS_MESSAGES.load(Relaxed) {
        OF_THREAD.with(|own| {
            own.passed.set(own.passed.get().wrapping_add(1));
            own.connections.set(connections);
        });
    }
}

/// Of a time in which a thread used so much, how long others had its CPU. Where it slept too, only a guess is left: what they
/// had it for at the times they took it, a part of a time slice each.
fn lost_ns(time_ns: u64, used: &ThreadUsage) -> u64 {
    const A_TIME_NS: u64 = 200_000;
    let off_ns = time_ns.saturating_sub(used.cpu_ns);
    match (used.involuntary_switches, used.voluntary_switches) {
        (0, _) => 0,
        (_, 0) => off_ns,
        (times, _) => off_ns.min(times * A_TIME_NS),
    }
}

/// A thread that spins forever reports it so often.
const TELL_NS: u64 = 10_000_000;

impl World for &OfThread {
    fn lost_ns(&mut self, now_ns: u64) -> u64 {
        let (before, used) = (self.used.get(), ThreadUsage::now());
        self.used.set((now_ns, used));
        if before.0 == 0 { 0 } else { lost_ns(now_ns.saturating_sub(before.0), &used.since(&before.1)) }
    }

    fn give_way(&mut self) {
        sched_yield();
    }

    fn passed(&self) -> u64 {
        self.passed.get()
    }

    fn is_movable(&self) -> bool {
        spinners::is_movable()
    }

    fn connections(&self) -> usize {
        self.connections.get()
    }

    fn spins(&mut self, now_ns: u64) -> bool {
        let mut place = self.place.get();
        let has_room = place.spins(now_ns);
        self.place.set(place);
        has_room
    }

    fn sleeps(&mut self) {
        let mut place = self.place.get();
        place.sleeps();
        self.place.set(place);
    }
}

/// What a thread with `spin = "auto"` last did, and why: the number of a [`status::Waiting`](crate::status::Waiting).
static DOES: AtomicU64 = AtomicU64::new(0);

/// What a thread with `spin = "auto"` last did, and why.
#[must_use]
pub fn does() -> u64 {
    DOES.load(Relaxed)
}

fn tell((doing, why): (Doing, Why)) {
    let number = Waiting::of(doing, why) as u64;
    // Most often it stays, and the line with it in other CPUs' caches.
    if DOES.load(Relaxed) != number {
        DOES.store(number, Relaxed);
    }
}

/// CLOCK_MONOTONIC, nanoseconds; never 0.
#[inline]
#[must_use]
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs() + 1
}

/// Tells the threads of the process apart.
pub(crate) fn this_thread() -> usize {
    OF_THREAD.with(|own| std::ptr::from_ref(own) as usize)
}

/// Whether the calling thread leaves the sockets that it has lent to the kernel there.
pub(crate) fn stays_by_kernel(now_ns: u64) -> bool {
    OF_THREAD.with(|mut own| {
        let mut auto = own.auto.get();
        let stays = auto.stays_by_kernel(now_ns, &mut own);
        own.auto.set(auto);
        tell(auto.now());
        stays
    })
}

/// Whether the calling thread lends connections to the kernel, and nothing else: nobody wants its CPU.
pub(crate) fn lends_only_connections() -> bool {
    OF_THREAD.with(|own| own.auto.get().now().1 == Why::Several)
}

/// One call that waits.
#[derive(Debug)]
pub struct Waiter {
    spin: SpinFor,
    timeout: Option<Duration>,
    /// 0: not yet.
    started_ns: u64,
    turns: u32,
    /// One less than the turns between two looks at the clock, which are a power of two.
    turns_mask: u32,
    spins: bool,
    slept: bool,
    /// What it waits for is to be lent to the kernel before it sleeps.
    lends: bool,
    /// The time is over, and the last look was asked for.
    is_over: bool,
    /// Of the time since it began, what is counted in [`SPUN_NS`].
    told_ns: u64,
    /// Turns since then.
    untold_turns: u32,
}

impl Waiter {
    /// A call that waits at most `timeout`.
    #[must_use]
    pub const fn new(spin: SpinFor, timeout: Option<Duration>) -> Waiter {
        Waiter {
            spin,
            timeout,
            started_ns: 0,
            turns: 0,
            turns_mask: TURNS_PER_CLOCK_READ - 1,
            spins: true,
            slept: false,
            lends: false,
            is_over: false,
            told_ns: 0,
            untold_turns: 0,
        }
    }

    /// What is left of the time; `None`: it waits for ever.
    #[must_use]
    pub fn rest(&self) -> Option<Duration> {
        let waited_ns = if self.started_ns == 0 { 0 } else { now_ns().saturating_sub(self.started_ns) };
        self.timeout.map(|timeout| timeout.saturating_sub(Duration::from_nanos(waited_ns)))
    }

    /// Whether the present look is the last one.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.is_over
    }

    /// Nothing was found.
    #[inline]
    pub fn pause(&mut self) -> Pause {
        self.turns = self.turns.wrapping_add(1);
        if self.spins && self.started_ns != 0 && self.turns & self.turns_mask != 0 {
            // No PAUSE instruction: on current processors it takes 140 cycles, as long as the turn itself, and what comes
            // within is seen so much later.
            self.untold_turns += 1;
            return Pause::Again;
        }
        self.pause_by_clock(now_ns())
    }

    fn pause_by_clock(&mut self, now_ns: u64) -> Pause {
        let is_first = self.started_ns == 0;
        if is_first {
            self.started_ns = now_ns;
        }
        let waited_ns = now_ns.saturating_sub(self.started_ns);
        let waited = Duration::from_nanos(waited_ns);
        if let Some(timeout) = self.timeout.filter(|timeout| waited >= *timeout) {
            // Without time there is one look, which has been.
            let was_over = std::mem::replace(&mut self.is_over, true) || timeout == Duration::ZERO;
            self.spins = false;
            return if was_over { Pause::TimedOut } else { Pause::LastLook };
        }
        if self.spins {
            // On the way, as a call may spin for ever.
            self.count_spun(waited_ns);
            self.spins = self.may_spin(is_first, now_ns, waited_ns);
        }
        if self.spins {
            return Pause::Again;
        }
        self.end_spinning();
        if std::mem::take(&mut self.lends) {
            return Pause::Lend;
        }
        self.slept = true;
        Pause::Sleep(self.timeout.map(|timeout| timeout.saturating_sub(waited)))
    }

    #[inline]
    fn may_spin(&mut self, is_first: bool, now_ns: u64, waited_ns: u64) -> bool {
        match self.spin {
            SpinFor::Time(time) => Duration::from_nanos(waited_ns) < time,
            SpinFor::Forever => {
                OF_THREAD.with(|own| {
                    if now_ns.saturating_sub(own.told_ns.get()) >= TELL_NS {
                        own.told_ns.set(now_ns);
                        let mut place = own.place.get();
                        place.tells(now_ns);
                        own.place.set(place);
                    }
                });
                true
            }
            SpinFor::Auto => OF_THREAD.with(|mut own| {
                let mut auto = own.auto.get();
                let doing =
                    if is_first { auto.begin(now_ns, &mut own) } else { auto.turn(now_ns, waited_ns, &mut own) };
                own.auto.set(auto);
                tell(auto.now());
                self.turns_mask =
                    if doing == Doing::GivesWay { TURNS_PER_GIVING_WAY } else { TURNS_PER_CLOCK_READ } - 1;
                self.lends = doing == Doing::ByKernel;
                doing.is_awake()
            }),
        }
    }

    fn end_spinning(&mut self) {
        let turns = u64::from(self.untold_turns);
        if turns == 0 {
            return;
        }
        // Threads that lose a count here measure another wait.
        let waits = WAITS.load(Relaxed).wrapping_add(1);
        WAITS.store(waits, Relaxed);
        if waits.is_multiple_of(WAITS_PER_CLOCK_READ) && self.started_ns != 0 {
            self.count_spun(now_ns().saturating_sub(self.started_ns));
        } else {
            self.untold_turns = 0;
            // Not one addition that no thread can lose: that takes 6 ns of the datagram's way to the program. Two waits that end
            // in the same nanoseconds count as one, of thousands.
            let spun_ns = TURNS_NS.load(Relaxed) * turns / u64::from(TURNS_PER_CLOCK_READ);
            SPUN_NS.store(SPUN_NS.load(Relaxed).wrapping_add(spun_ns), Relaxed);
        }
    }

    fn count_spun(&mut self, spun_ns: u64) {
        let more_ns = spun_ns.saturating_sub(std::mem::replace(&mut self.told_ns, spun_ns));
        let turns = u64::from(std::mem::take(&mut self.untold_turns)) + 1;
        if turns > 1 {
            // A thread that was put off its CPU meanwhile took longer than its turns: at most twice as long is believed.
            let believed_ns = TURNS_NS.load(Relaxed).max(TURNS_NS_LEAST) * 2;
            TURNS_NS.store((more_ns * u64::from(TURNS_PER_CLOCK_READ) / turns).min(believed_ns), Relaxed);
        }
        SPUN_NS.fetch_add(more_ns, Relaxed);
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.end_spinning();
        if self.slept && self.spin == SpinFor::Auto {
            let waited_ns = now_ns().saturating_sub(self.started_ns);
            OF_THREAD.with(|own| {
                let mut auto = own.auto.get();
                auto.slept(waited_ns);
                own.auto.set(auto);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn timeout_of_zero_paused_gives_up_at_once() {
        let mut waiter = Waiter::new(SpinFor::Time(Duration::ZERO), Some(Duration::ZERO));
        assert_eq!(waiter.pause(), Pause::TimedOut);
    }

    #[test]
    fn thread_off_its_cpu_until_the_time_is_over_looks_once_more() {
        for spin in [SpinFor::Forever, SpinFor::Auto, SpinFor::Time(Duration::ZERO)] {
            let mut waiter = Waiter::new(spin, Some(Duration::from_millis(1)));
            let _ = waiter.pause();
            std::thread::sleep(Duration::from_millis(2));
            let ends = std::iter::repeat_with(|| waiter.pause()).skip_while(|pause| *pause == Pause::Again);
            assert_eq!(ends.take(2).collect::<Vec<_>>(), [Pause::LastLook, Pause::TimedOut], "{spin:?}");
        }
    }

    #[test]
    fn spinning_time_over_sleeps_for_the_rest() {
        let mut waiter = Waiter::new(SpinFor::Time(Duration::ZERO), Some(Duration::from_secs(5)));
        let Pause::Sleep(Some(rest)) = waiter.pause() else { panic!("it sleeps") };
        assert!(rest <= Duration::from_secs(5) && rest > Duration::from_secs(4));
        let mut waiter = Waiter::new(SpinFor::Time(Duration::ZERO), None);
        assert_eq!(waiter.pause(), Pause::Sleep(None));
    }

    #[test]
    fn spinning_forever_paused_never_sleeps_and_times_out() {
        let mut waiter = Waiter::new(SpinFor::Forever, Some(Duration::from_millis(2)));
        let started = Instant::now();
        loop {
            match waiter.pause() {
                Pause::Again | Pause::LastLook => {}
                Pause::TimedOut => break,
                Pause::Sleep(_) | Pause::Lend => panic!("it spins"),
            }
        }
        assert!(started.elapsed() >= Duration::from_millis(2));
    }

    #[test]
    fn time_off_the_cpu_is_lost_where_others_took_it_and_not_where_the_thread_slept() {
        let used = |involuntary_switches, voluntary_switches| ThreadUsage {
            cpu_ns: 4_000_000,
            involuntary_switches,
            voluntary_switches,
        };
        assert_eq!(lost_ns(8_000_000, &used(1, 0)), 4_000_000);
        assert_eq!(lost_ns(8_000_000, &used(0, 9)), 0);
        assert_eq!(lost_ns(8_000_000, &used(2, 9)), 400_000);
    }

    #[test]
    fn automatic_spinning_chosen_on_one_cpu_sleeps() {
        assert_eq!(SpinFor::on_cpus(Spin::Auto, 8), SpinFor::Auto);
        assert_eq!(SpinFor::on_cpus(Spin::Auto, 1), SpinFor::Time(Duration::ZERO));
    }

    const PUT_OFF: Duration = Duration::from_micros(100);

    #[test]
    fn short_waits_that_end_between_clock_reads_are_counted_by_their_turns() {
        let spin = SpinFor::Forever;
        let began = Instant::now();
        let before_ns = spun_ns();
        let mut spent = Duration::ZERO;
        while began.elapsed() < Duration::from_millis(50) {
            let one = Instant::now();
            let mut waiter = Waiter::new(spin, None);
            (0..TURNS_PER_CLOCK_READ / 2).for_each(|_| {
                let _ = waiter.pause();
            });
            drop(waiter);
            // Longer than any of them is only one in which another thread had the CPU.
            spent += Some(one.elapsed()).filter(|took| *took < PUT_OFF).unwrap_or_default();
        }
        // Other tests of this process spin too, so there is no upper limit.
        let told_ns = spun_ns() - before_ns;
        assert!(u128::from(told_ns) > spent.as_nanos() / 4, "{told_ns} of {spent:?}");
    }
}
