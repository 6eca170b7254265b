//! How a call waits: spin first, then sleep in the kernel on the watch and the program's own descriptors together.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::config::Spin;

/// Turns between two looks at the clock: a turn looks at the ports and takes 20 to 60 ns.
const TURNS_PER_CLOCK_READ: u32 = 32;

/// Threads of this process that spin now.
static SPINNING: AtomicU32 = AtomicU32::new(0);
/// What they spent so far, nanoseconds.
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
    /// As long as they wait, in at most so many threads at once: one more would take the CPU from another.
    Forever {
        /// Threads that may.
        threads_most: u32,
    },
    /// This long.
    Time(Duration),
}

impl SpinFor {
    /// What the configuration says of this machine.
    #[must_use]
    pub fn choose(spin: Spin) -> SpinFor {
        let allowed = std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32);
        SpinFor::on_cpus(spin, allowed, online_cpus())
    }

    /// `Auto` leaves a CPU to the others: it spins in one thread less than there are CPUs that the process may use, or in one.
    fn on_cpus(spin: Spin, allowed: u32, online: u32) -> SpinFor {
        match (spin, spin.on(online)) {
            (_, Spin::For(time)) => SpinFor::Time(time),
            (Spin::Auto, _) => SpinFor::Forever { threads_most: allowed.saturating_sub(1).max(1) },
            _ => SpinFor::Forever { threads_most: u32::MAX },
        }
    }
}

/// CPUs of the machine, whoever may use them; 1 where the kernel does not say.
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
    /// Gives up.
    TimedOut,
}

/// One call that waits.
#[derive(Debug)]
pub struct Waiter {
    spin: SpinFor,
    timeout: Option<Duration>,
    started: Option<Instant>,
    turns: u32,
    spins: bool,
    is_counted: bool,
    /// Of the time since it began, what is counted in [`SPUN_NS`].
    told: Duration,
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
            started: None,
            turns: 0,
            spins: true,
            is_counted: false,
            told: Duration::ZERO,
            untold_turns: 0,
        }
    }

    /// What is left of the time; `None`: it waits for ever.
    #[must_use]
    pub fn rest(&self) -> Option<Duration> {
        let waited = self.started.map_or(Duration::ZERO, |started| started.elapsed());
        self.timeout.map(|timeout| timeout.saturating_sub(waited))
    }

    /// Nothing was found.
    #[inline]
    pub fn pause(&mut self) -> Pause {
        self.turns = self.turns.wrapping_add(1);
        if self.spins && self.started.is_some() && !self.turns.is_multiple_of(TURNS_PER_CLOCK_READ) {
            // No PAUSE instruction: on current processors it takes 140 cycles, as long as the turn itself, and what comes
            // within is seen so much later.
            self.untold_turns += 1;
            return Pause::Again;
        }
        self.pause_by_clock()
    }

    fn pause_by_clock(&mut self) -> Pause {
        let started = *self.started.get_or_insert_with(Instant::now);
        let waited = started.elapsed();
        if self.timeout.is_some_and(|timeout| waited >= timeout) {
            return Pause::TimedOut;
        }
        if self.spins {
            // On the way, as a call may spin for ever.
            self.count_spun(waited);
            self.spins = self.may_spin(waited);
        }
        if self.spins {
            return Pause::Again;
        }
        self.end_spinning();
        Pause::Sleep(self.timeout.map(|timeout| timeout.saturating_sub(waited)))
    }

    fn may_spin(&mut self, waited: Duration) -> bool {
        let may = match self.spin {
            SpinFor::Time(time) => waited < time,
            SpinFor::Forever { threads_most } => self.is_counted || SPINNING.load(Relaxed) < threads_most,
        };
        if may && !self.is_counted && !matches!(self.spin, SpinFor::Forever { threads_most: u32::MAX }) {
            self.is_counted = true;
            SPINNING.fetch_add(1, Relaxed);
        }
        may
    }

    fn end_spinning(&mut self) {
        if std::mem::take(&mut self.is_counted) {
            SPINNING.fetch_sub(1, Relaxed);
        }
        let turns = u64::from(self.untold_turns);
        if turns == 0 {
            return;
        }
        // Threads that lose a count here measure another wait.
        let waits = WAITS.load(Relaxed).wrapping_add(1);
        WAITS.store(waits, Relaxed);
        if waits.is_multiple_of(WAITS_PER_CLOCK_READ)
            && let Some(started) = self.started
        {
            self.count_spun(started.elapsed());
        } else {
            self.untold_turns = 0;
            // Not one addition that no thread can lose: that takes 6 ns of the datagram's way to the program. Two waits that end
            // in the same nanoseconds count as one, of thousands.
            let spun_ns = TURNS_NS.load(Relaxed) * turns / u64::from(TURNS_PER_CLOCK_READ);
            SPUN_NS.store(SPUN_NS.load(Relaxed).wrapping_add(spun_ns), Relaxed);
        }
    }

    fn count_spun(&mut self, spun: Duration) {
        let more_ns = spun.saturating_sub(std::mem::replace(&mut self.told, spun)).as_nanos() as u64;
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeout_of_zero_paused_gives_up_at_once() {
        let mut waiter = Waiter::new(SpinFor::Time(Duration::ZERO), Some(Duration::ZERO));
        assert_eq!(waiter.pause(), Pause::TimedOut);
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
        let mut waiter = Waiter::new(SpinFor::Forever { threads_most: u32::MAX }, Some(Duration::from_millis(2)));
        let started = Instant::now();
        loop {
            match waiter.pause() {
                Pause::Again => {}
                Pause::TimedOut => break,
                Pause::Sleep(_) => panic!("it spins"),
            }
        }
        assert!(started.elapsed() >= Duration::from_millis(2));
    }

    #[test]
    fn automatic_spinning_chosen_leaves_a_cpu_to_the_others() {
        assert_eq!(SpinFor::on_cpus(Spin::Auto, 4, 8), SpinFor::Forever { threads_most: 3 });
        assert_eq!(SpinFor::on_cpus(Spin::Auto, 1, 8), SpinFor::Forever { threads_most: 1 });
        assert_eq!(SpinFor::on_cpus(Spin::Auto, 1, 1), SpinFor::Time(Duration::ZERO));
    }

    #[test]
    fn short_waits_that_end_between_clock_reads_are_counted_by_their_turns() {
        let spin = SpinFor::Forever { threads_most: u32::MAX };
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
            spent += one.elapsed();
        }
        // Other tests of this process spin too, so there is no upper limit.
        let told_ns = spun_ns() - before_ns;
        assert!(u128::from(told_ns) > spent.as_nanos() / 4, "{told_ns} of {spent:?}");
    }

    #[test]
    fn no_thread_may_spin_paused_sleeps() {
        let mut waiter = Waiter::new(SpinFor::Forever { threads_most: 0 }, None);
        assert_eq!(waiter.pause(), Pause::Sleep(None));
    }
}
