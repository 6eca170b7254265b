//! What is best while others want the CPU: measured, as no rule tells.
//!
//! Time is cut into cycles of 16 parts of 17 ms. In the first part of a cycle the thread spins, in the second it gives way, in the
//! third it sleeps, in the fourth its sockets are the kernel's; in the others it does what passed most messages. What passed fewer is
//! tried again two cycles later, then four, and so on up to 32 (8.6 s), what passed less than three quarters after eight, then 32, and a trial
//! that goes badly is over after a quarter of its part (three, after the kernel's way): not one message in a hundred meets a trial of
//! what is bad. The parts are those of the clock that all programs of the host have, so that the two ends of a conversation try the
//! same at the same time: one alone that spins while the other sleeps finds nothing out.
//!
//! At first nothing is known, and the kernel's way is measured, which the others are to surpass. Then each is tried for four parts, as
//! the scheduler needs some time to find CPUs for threads that spin, but for one part where it passes less than half. With four parts
//! of each, whatever they showed, an event loop on busy CPUs answered 0.77 of the kernel's messages in its first three seconds, and 1.04 of
//! them so.

use super::{Doing, Why};

/// 17 ms, which are a few time slices.
pub(super) const PART_SHIFT: u32 = 24;
/// 268 ms.
pub(super) const CYCLE_SHIFT: u32 = PART_SHIFT + 4;
/// How much of a part a trial has to show that it does not go badly.
const QUARTER_SHIFT: u32 = PART_SHIFT - 2;
/// The first trials are in this cycle and the next, as the one in which a contest begins has few parts left perhaps.
const FIRST_CYCLES: u64 = 2;
/// What comes after the kernel's way is measured from then on: flows are opened, and the port may have rested (8 ms until its program is
/// attached, in which the kernel has the frames).
const SETTLES_NS: u64 = 1 << (PART_SHIFT - 1);
const LEVEL_MOST: u8 = 5;
/// By how many levels at once what passes less than three quarters goes: it is tried again after 2.1 s, then after 8.6. With two, and one for
/// what passes more than half, four programs on two CPUs had 0.90 of the kernel's messages in their third second, as their port
/// came back for each trial.
const LEVELS_OF_BAD: u8 = 3;
/// Spinning for so long with nobody who wants the CPU ends a contest: two trials.
const QUIET_NS: u64 = 3 << (PART_SHIFT - 1);
/// By how much sleeping has to pass more messages than the kernel's way. Trials differ by more than that, as the scheduler has two
/// threads that wake each other on one CPU for a part of the time and on two for another, and nothing is to be slower than the kernel.
const GAIN_OF_SLEEP_PERCENT: u64 = 120;
/// By how much being awake has to pass more messages than those two, which take nothing from others.
const GAIN_PERCENT: u64 = 110;
/// The same of a thread that may run on several CPUs. The scheduler has two that wake each other on one CPU for a part of the time,
/// where sleeping passes several times as many messages as a trial on two CPUs finds; being awake keeps them apart. Measured on two CPUs
/// that others want too, thousand messages a second: asleep on one CPU 45, on two 13; spinning on two 21.
const GAIN_OF_MOVABLE_PERCENT: u64 = 300;
/// The windows of the first trials.
const FIRST_SHIFT: u32 = PART_SHIFT + 2;
const TRIALS: [Doing; 4] = [Doing::Spins, Doing::GivesWay, Doing::Sleeps, Doing::ByKernel];

/// Others want the CPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Contest {
    pub why: Why,
    pub doing: Doing,
    is_movable: bool,
    /// The cycle, and the quarter of a part.
    at: (u64, u64),
    /// What is measured: when it began, and what the thread had passed by then.
    is_trial: bool,
    settles: bool,
    began_ns: u64,
    passed: u64,
    /// By [`Doing`], as [`rate_of`] gives them; 0: not tried yet.
    rates: [u32; 4],
    /// It is tried in each cycle whose number can be divided by two to the power of this.
    levels: [u8; 4],
    /// The highest of those that need the ports, as the present cycle began.
    level_of_ports: u8,
    /// The one it began in, or began again in.
    first_cycle: u64,
    /// The part in which a trial was broken off.
    is_over_in: Option<u64>,
    quiet_ns: u64,
}

impl Contest {
    pub(super) const fn new(why: Why, is_movable: bool) -> Contest {
        Contest {
            why,
            doing: Doing::Sleeps,
            is_movable,
            at: (0, 0),
            is_trial: false,
            settles: false,
            began_ns: 0,
            passed: 0,
            rates: [0; 4],
            levels: [0; 4],
            level_of_ports: 0,
            first_cycle: 0,
            is_over_in: None,
            quiet_ns: 0,
        }
    }

    /// It goes on after a time in which nobody wanted the CPU, with what it knew.
    pub(super) fn again(&mut self, why: Why) {
        (self.why, self.began_ns, self.quiet_ns, self.at) = (why, 0, 0, (0, 0));
    }

    /// What is to be done now; `passed`: messages so far. What is over is measured first.
    #[inline]
    pub(super) fn follow(&mut self, now_ns: u64, passed: u64) -> Doing {
        let at = (now_ns >> CYCLE_SHIFT, now_ns >> QUARTER_SHIFT);
        if at != self.at {
            self.go_to(at, now_ns, passed);
        }
        self.doing
    }

    #[cold]
    fn go_to(&mut self, at: (u64, u64), now_ns: u64, passed: u64) {
        if self.at == (0, 0) {
            self.first_cycle = at.0;
        }
        if at.0 != self.at.0 {
            let [spins, gives_way, sleeps, _] = self.levels;
            self.level_of_ports = spins.max(gives_way).max(sleeps);
        }
        let (cycle, part) = (at.0, (at.1 >> 2) - (at.0 << (CYCLE_SHIFT - PART_SHIFT)));
        let was_over = self.is_over_in == Some(at.1 >> 2);
        let trial_now = |contest: &Self| contest.trial_at(cycle, part).filter(|_| !was_over);
        let trial = trial_now(self);
        let is_same = self.is_trial == trial.is_some() && trial.is_none_or(|trial| trial == self.doing);
        // The first of all, which goes on while nothing is known, is measured at the end of its window.
        let is_window_over = self.knows_nothing() && now_ns >> FIRST_SHIFT != self.began_ns >> FIRST_SHIFT;
        let goes_on = is_same && cycle == self.at.0 && !is_window_over;
        self.at = at;
        if goes_on && self.settles {
            return self.settle(now_ns, passed);
        }
        if goes_on && !(self.is_trial && self.goes_badly(now_ns, passed)) {
            return;
        }
        self.measure(now_ns, passed);
        self.is_over_in = goes_on.then_some(at.1 >> 2);
        // What was measured just now need not be tried.
        let trial = if goes_on { None } else { trial_now(self) };
        let next = trial.unwrap_or_else(|| self.best());
        self.settles = self.doing == Doing::ByKernel && next != Doing::ByKernel;
        self.doing = next;
        (self.is_trial, self.began_ns, self.passed) = (trial.is_some(), now_ns, passed);
    }

    fn settle(&mut self, now_ns: u64, passed: u64) {
        if now_ns.saturating_sub(self.began_ns) >= SETTLES_NS {
            (self.settles, self.began_ns, self.passed) = (false, now_ns, passed);
        }
    }

    fn knows_nothing(&self) -> bool {
        self.rates == [0; 4]
    }

    fn trial_at(&self, cycle: u64, part: u64) -> Option<Doing> {
        if cycle < self.first_cycle + FIRST_CYCLES && self.rates.contains(&0) {
            if self.knows_nothing() {
                return Some(Doing::ByKernel);
            }
            let first = TRIALS.get((part >> (FIRST_SHIFT - PART_SHIFT)) as usize).copied();
            return first.filter(|doing| self.rates[*doing as usize] == 0);
        }
        let doing = *TRIALS.get(part as usize)?;
        (cycle & ((1 << self.level_of(doing)) - 1) == 0).then_some(doing)
    }

    /// By how rarely it is tried. What needs the ports is tried in the same cycles where the kernel's way is best: its ports rest meanwhile, and
    /// to wake them costs the host 24 ms of a CPU.
    fn level_of(&self, doing: Doing) -> u8 {
        let needs_ports = doing != Doing::ByKernel && self.best() == Doing::ByKernel;
        if needs_ports { self.level_of_ports } else { self.levels[doing as usize] }
    }

    /// What was found worse before, and is again; or what is tried for the first time, and is far worse.
    fn goes_badly(&self, now_ns: u64, passed: u64) -> bool {
        let (best, took_ns) = (self.best(), now_ns.saturating_sub(self.began_ns));
        let rate = u64::from(rate_of(passed.saturating_sub(self.passed), took_ns));
        let of_best = u64::from(self.rates[best as usize]);
        let is_first = self.rates[self.doing as usize] == 0 && took_ns >> PART_SHIFT > 0;
        let is_worse_again = self.levels[self.doing as usize] > 0 && rate * 4 < of_best * 3;
        self.doing != best && (is_worse_again || is_first && rate * 2 < of_best)
    }

    fn measure(&mut self, now_ns: u64, passed: u64) {
        let took_ns = now_ns.saturating_sub(self.began_ns);
        if self.began_ns == 0 || took_ns < 3 << (QUARTER_SHIFT - 2) {
            return;
        }
        let before = self.best();
        let rate = rate_of(passed.saturating_sub(self.passed), took_ns);
        let slot = &mut self.rates[self.doing as usize];
        // Programs that come and go change what is best: half of it is forgotten each time.
        *slot = if *slot == 0 { rate } else { slot.midpoint(rate) };
        let best = self.best();
        if best != before {
            // Either is tried soon again, until it is sure.
            (self.levels[best as usize], self.levels[before as usize]) = (0, 0);
        } else if self.is_trial && self.doing != best {
            let is_bad = u64::from(self.rates[self.doing as usize]) * 4 < u64::from(self.rates[best as usize]) * 3;
            let level = &mut self.levels[self.doing as usize];
            *level = (*level + if is_bad { LEVELS_OF_BAD } else { 1 }).min(LEVEL_MOST);
        }
    }

    fn best(&self) -> Doing {
        let (asleep, by_kernel) = (self.rates[Doing::Sleeps as usize], self.rates[Doing::ByKernel as usize]);
        let sleep_gains = u64::from(asleep) * 100 > u64::from(by_kernel) * GAIN_OF_SLEEP_PERCENT;
        let not_awake = if sleep_gains { Doing::Sleeps } else { Doing::ByKernel };
        let gains = |doing: Doing, percent: u64| {
            let rate = self.rates[doing as usize];
            (u64::from(rate) * 100 > u64::from(asleep.max(by_kernel)) * percent).then_some((rate, doing))
        };
        let percent = if self.is_movable { GAIN_OF_MOVABLE_PERCENT } else { GAIN_PERCENT };
        // Among spinners all give way, and none is kept from running for a time slice.
        let giving_way_percent = if self.why == Why::Crowded { GAIN_PERCENT } else { percent };
        let awake = [gains(Doing::GivesWay, giving_way_percent), gains(Doing::Spins, percent)];
        awake.into_iter().flatten().max_by_key(|(rate, _)| *rate).map_or(not_awake, |(_, doing)| doing)
    }

    /// The thread span for so long, and somebody wanted its CPU or nobody did; whether the contest is over.
    pub(super) fn is_over(&mut self, span_ns: u64, somebody_did: bool) -> bool {
        self.quiet_ns = if somebody_did { 0 } else { self.quiet_ns + span_ns };
        self.quiet_ns >= QUIET_NS
    }
}

/// One more than the messages a second, so that it is never 0.
fn rate_of(messages: u64, took_ns: u64) -> u32 {
    (u128::from(messages) * 1_000_000_000 / u128::from(took_ns.max(1))).min(u128::from(u32::MAX / 2)) as u32 + 1
}
