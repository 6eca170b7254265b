//! What is best while others want the CPU: measured, as no rule tells.
//!
//! Time is cut into cycles of 16 parts of 17 ms. In the first part of a cycle the thread spins, in the second it gives way, in the
//! third it sleeps; in the others it does what passed most messages. What passed fewer is tried again two cycles later, then four,
//! and so on up to 32 (8.6 s); what passed less than half, in fewer of them still: trials of what is bad are so rare that not one
//! message in a hundred meets one. The parts are those of the clock that all programs of the host have, so that the two ends of
//! a conversation try the same at the same time: one alone that spins while the other sleeps finds nothing out.

use super::{Doing, Why};

/// 17 ms, which are a few time slices.
pub(super) const PART_SHIFT: u32 = 24;
/// 268 ms.
pub(super) const CYCLE_SHIFT: u32 = PART_SHIFT + 4;
const LEVEL_MOST: u8 = 5;
/// Spinning for so long with nobody who wants the CPU ends a contest: two trials.
const QUIET_NS: u64 = 3 << (PART_SHIFT - 1);
const TRIALS: [Doing; 3] = [Doing::Spins, Doing::GivesWay, Doing::Sleeps];

/// Others want the CPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Contest {
    pub why: Why,
    pub doing: Doing,
    /// What is measured: in which cycle and part it began, when, and what the thread had passed by then.
    at: (u64, u64),
    is_trial: bool,
    began_ns: u64,
    passed: u64,
    /// One more than the messages a second by [`Doing`]; 0: not tried yet.
    rates: [u32; 3],
    /// It is tried in each cycle whose number can be divided by two to the power of this.
    levels: [u8; 3],
    quiet_ns: u64,
}

impl Contest {
    pub(super) const fn new(why: Why) -> Contest {
        Contest {
            why,
            doing: Doing::Sleeps,
            at: (0, 0),
            is_trial: false,
            began_ns: 0,
            passed: 0,
            rates: [0; 3],
            levels: [0; 3],
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
        let at = (now_ns >> CYCLE_SHIFT, now_ns >> PART_SHIFT);
        if at != self.at {
            self.go_to(at, now_ns, passed);
        }
        self.doing
    }

    #[cold]
    fn go_to(&mut self, at: (u64, u64), now_ns: u64, passed: u64) {
        let trial = self.trial_at(at);
        let goes_on = trial.is_none() && !self.is_trial && at.0 == self.at.0;
        self.at = at;
        if goes_on {
            return;
        }
        self.measure(now_ns, passed);
        self.doing = trial.unwrap_or_else(|| self.best());
        (self.is_trial, self.began_ns, self.passed) = (trial.is_some(), now_ns, passed);
    }

    fn trial_at(&self, (cycle, part): (u64, u64)) -> Option<Doing> {
        let doing = *TRIALS.get((part - (cycle << (CYCLE_SHIFT - PART_SHIFT))) as usize)?;
        let level = self.levels[doing as usize];
        (cycle & ((1 << level) - 1) == 0).then_some(doing)
    }

    fn measure(&mut self, now_ns: u64, passed: u64) {
        let took_ns = now_ns.saturating_sub(self.began_ns);
        if self.began_ns == 0 || took_ns < 1 << (PART_SHIFT - 1) {
            return;
        }
        let before = self.best();
        let messages = u128::from(passed.saturating_sub(self.passed));
        let rate = (messages * 1_000_000_000 / u128::from(took_ns)).min(u128::from(u32::MAX / 2)) as u32 + 1;
        let slot = &mut self.rates[self.doing as usize];
        // Programs that come and go change what is best: half of it is forgotten each time.
        *slot = if *slot == 0 { rate } else { slot.midpoint(rate) };
        let best = self.best();
        if best != before {
            // Either is tried soon again, until it is sure.
            (self.levels[best as usize], self.levels[before as usize]) = (0, 0);
        } else if self.is_trial && self.doing != best {
            let is_bad = self.rates[self.doing as usize] < self.rates[best as usize] / 2;
            let level = &mut self.levels[self.doing as usize];
            *level = (*level + if is_bad { 2 } else { 1 }).min(LEVEL_MOST);
        }
    }

    /// Sleeping takes nothing from others, so what takes more has to be better by a tenth.
    fn best(&self) -> Doing {
        let rate = |doing: Doing| u64::from(self.rates[doing as usize]);
        let awake = if rate(Doing::Spins) >= rate(Doing::GivesWay) { Doing::Spins } else { Doing::GivesWay };
        if rate(awake) * 10 > rate(Doing::Sleeps) * 11 { awake } else { Doing::Sleeps }
    }

    /// The thread span for so long, and somebody wanted its CPU or nobody did; whether the contest is over.
    pub(super) fn is_over(&mut self, span_ns: u64, somebody_did: bool) -> bool {
        self.quiet_ns = if somebody_did { 0 } else { self.quiet_ns + span_ns };
        self.quiet_ns >= QUIET_NS
    }
}
