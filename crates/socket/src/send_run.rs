//! Datagrams that a program sends one after the other, held back for a moment so that one kick sends many.
//!
//! A kick is a system call that costs about as much as what it does for one frame, and takes [`KICK_FRAMES`]. The first
//! [`IMMEDIATE`] datagrams of a run leave at once, each by a kick of its own. Those behind them are held until there are
//! enough for a kick, the program makes any other call, or the time of `send_coalescing` is over. A run ends with a pause for
//! the time of [`PAUSE_KICKS`] while nothing is held: to look at the clock costs a send that is held a tenth of what it takes.
//!
//! The timer thread of the process watches the time of `send_coalescing`, as the program may never call again ([`Held`]).
//!
//! Off unless configured: the end of a burst waits up to that time, which a program that wants latency has no use for.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32};

/// Frames that a kick takes in copy mode (`TX_BATCH_SIZE` in `net/xdp/xsk.c`).
const KICK_FRAMES: u32 = 32;
/// Datagrams of a run that are not held: a request and its answer, a short burst.
const IMMEDIATE: u32 = 8;
/// A pause that ends a run: the program could have had this many kicks in it, so they are not what keeps it.
const PAUSE_KICKS: u64 = 8;

/// Whether datagrams are held, for the timer thread, which looks without entering anything.
#[derive(Debug, Default)]
pub struct Held {
    /// Odd while some are held; another number each time.
    number: AtomicU32,
    /// The timer thread looks.
    is_watched: AtomicBool,
}

/// What the timer thread saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sight(u32);

impl Sight {
    /// Whether datagrams were held.
    #[must_use]
    pub const fn is_held(self) -> bool {
        self.0 & 1 == 1
    }
}

impl Held {
    /// What is held now. Where two looks are equal, the same datagrams are held.
    #[must_use]
    pub fn look(&self) -> Sight {
        Sight(self.number.load(SeqCst))
    }

    /// The timer thread looks from now on.
    pub fn watch(&self) {
        self.is_watched.store(true, SeqCst);
    }

    /// Whether the timer thread looks.
    #[must_use]
    pub fn is_watched(&self) -> bool {
        self.is_watched.load(SeqCst)
    }

    /// The timer thread has found nothing for a while, and looks no more until something is held; `false`: something is.
    #[must_use]
    pub fn leave(&self) -> bool {
        self.is_watched.store(false, SeqCst);
        // After the announcement: either this sees what is held, or who holds it sees that nobody watches.
        let is_left = !self.look().is_held();
        if !is_left {
            self.watch();
        }
        is_left
    }
}

/// The run of a process.
#[derive(Debug)]
pub(crate) struct SendRun {
    /// Off: every datagram is kicked.
    is_on: bool,
    datagrams: u32,
    held_datagrams: u32,
    last_ticks: u64,
    /// What a kick of one takes: the least of this run.
    kick_ticks: u64,
    held: Arc<Held>,
    /// Something is held and nobody watches its time.
    is_unwatched: bool,
}

impl SendRun {
    pub(crate) fn new(is_on: bool) -> SendRun {
        let held = Arc::default();
        SendRun {
            is_on,
            datagrams: 0,
            held_datagrams: 0,
            last_ticks: 0,
            kick_ticks: u64::MAX,
            held,
            is_unwatched: false,
        }
    }

    /// What the timer thread looks at.
    pub(crate) fn held(&self) -> &Arc<Held> {
        &self.held
    }

    /// Whether anything is ever held.
    pub(crate) const fn is_on(&self) -> bool {
        self.is_on
    }

    /// Whether a datagram that was queued at this time is to be kicked now.
    #[inline]
    pub(crate) fn kicks(&mut self, now_ticks: u64) -> bool {
        if !self.is_on {
            return true;
        }
        let gap_ticks = now_ticks.wrapping_sub(std::mem::replace(&mut self.last_ticks, now_ticks));
        // While some are held the clock was not looked at.
        if self.held_datagrams == 0 && gap_ticks / PAUSE_KICKS > self.kick_ticks {
            self.begin();
        }
        self.datagrams = self.datagrams.saturating_add(1);
        if self.datagrams < IMMEDIATE || self.held_datagrams + 1 >= KICK_FRAMES {
            return true;
        }
        if self.held_datagrams == 0 {
            self.held.number.fetch_add(1, SeqCst);
            self.is_unwatched = !self.held.is_watched();
        }
        self.held_datagrams += 1;
        false
    }

    /// Whether the next datagram is held whatever the time: others are, and there is room for more in a kick.
    #[inline]
    pub(crate) const fn holds_another(&self) -> bool {
        self.held_datagrams != 0 && self.held_datagrams + 1 < KICK_FRAMES
    }

    /// It is.
    #[inline]
    pub(crate) fn hold_another(&mut self) {
        self.datagrams = self.datagrams.saturating_add(1);
        self.held_datagrams += 1;
    }

    /// All that was queued has been kicked.
    #[inline]
    pub(crate) fn kicked(&mut self) {
        if self.held_datagrams != 0 {
            self.held_datagrams = 0;
            // One writer at a time: the thread inside the gate.
            self.held.number.store(self.held.number.load(Relaxed).wrapping_add(1), Release);
        }
    }

    /// A datagram that was queued at this time has been kicked.
    #[inline]
    pub(crate) fn kick_took(&mut self, queued_ticks: u64, now_ticks: impl FnOnce() -> u64) {
        if !self.is_on {
            return;
        }
        let now_ticks = now_ticks();
        if self.datagrams < IMMEDIATE {
            self.kick_ticks = self.kick_ticks.min(now_ticks.wrapping_sub(queued_ticks));
        } else {
            // Of the kick that ends a batch: what passes until the next datagram is the program's.
            self.last_ticks = now_ticks;
        }
    }

    fn begin(&mut self) {
        (self.datagrams, self.kick_ticks) = (0, u64::MAX);
    }

    /// The program does something else. `true`: what is held is to be kicked.
    #[inline]
    pub(crate) fn end(&mut self) -> bool {
        if self.datagrams != 0 {
            self.begin();
        }
        self.held_datagrams != 0
    }

    /// Datagrams that are held and that no thread watches; reported once each time.
    #[inline]
    pub(crate) fn take_unwatched(&mut self) -> Option<Arc<Held>> {
        std::mem::take(&mut self.is_unwatched).then(|| Arc::clone(&self.held))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ticks between sends of a run, and those of a kick.
    const STEP_TICKS: u64 = 1_000;

    /// Sends so many, one after the other, and says how many were kicked at once or with those before them.
    fn kicks_of(run: &mut SendRun, from_ticks: u64, datagrams: u64) -> u32 {
        let mut kicks = 0;
        for at in 0..datagrams {
            let now_ticks = from_ticks + at * STEP_TICKS;
            if run.holds_another() {
                run.hold_another();
            } else if run.kicks(now_ticks) {
                run.kicked();
                run.kick_took(now_ticks, || now_ticks + STEP_TICKS);
                kicks += 1;
            }
        }
        kicks
    }

    #[test]
    fn off_by_default_every_datagram_is_kicked() {
        let mut run = SendRun::new(false);
        assert_eq!(kicks_of(&mut run, 0, 1000), 1000);
        assert!(!run.end());
    }

    #[test]
    fn long_run_is_kicked_by_the_batch_after_its_beginning() {
        let mut run = SendRun::new(true);
        let held = Arc::clone(&run.held);
        let kicks = kicks_of(&mut run, 0, u64::from(IMMEDIATE + 10 * KICK_FRAMES));
        assert!((IMMEDIATE + 9..=IMMEDIATE + 11).contains(&kicks), "{kicks}");
        assert_eq!(held.look().is_held(), run.end());
    }

    #[test]
    fn held_datagrams_then_another_call_are_due() {
        let mut run = SendRun::new(true);
        kicks_of(&mut run, 0, u64::from(IMMEDIATE) + 5);
        let before = run.held.look();
        assert!(before.is_held());
        assert!(run.end());
        run.kicked();
        assert!(!run.held.look().is_held());
        assert!(!run.end());
        // A new run, so its first leave at once.
        assert_eq!(kicks_of(&mut run, 100 * STEP_TICKS, 3), 3);
    }

    #[test]
    fn pause_while_nothing_is_held_ends_the_run_with_the_next_datagram() {
        let mut run = SendRun::new(true);
        kicks_of(&mut run, 0, u64::from(IMMEDIATE) + 5);
        assert!(run.held.look().is_held() && run.holds_another());
        // The timer thread sends them.
        run.kicked();
        assert!(!run.holds_another());
        assert!(run.kicks(100 * STEP_TICKS));
    }

    #[test]
    fn watch_is_asked_for_once_each_time_and_not_while_there_is_one() {
        let mut run = SendRun::new(true);
        kicks_of(&mut run, 0, u64::from(IMMEDIATE) + 5);
        let held = run.take_unwatched().expect("nobody watches");
        assert!(run.take_unwatched().is_none());
        held.watch();
        kicks_of(&mut run, 20 * STEP_TICKS, 2 * u64::from(KICK_FRAMES));
        assert!(run.take_unwatched().is_none(), "it is watched");
    }

    #[test]
    fn watch_is_left_only_while_nothing_is_held_and_asked_for_again() {
        let mut run = SendRun::new(true);
        let held = Arc::clone(run.held());
        held.watch();
        kicks_of(&mut run, 0, u64::from(IMMEDIATE) + 5);
        assert!(!held.leave() && held.is_watched(), "something is held");
        run.kicked();
        assert!(held.leave() && !held.is_watched());
        kicks_of(&mut run, 100 * STEP_TICKS, u64::from(IMMEDIATE) + 5);
        assert!(run.take_unwatched().is_some());
    }
}
