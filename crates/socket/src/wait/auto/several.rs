//! Whether the kernel passes more messages of several connections that one thread waits for, while nobody else wants its CPU.
//!
//! A thread that spins answers each message as it comes, and wakes the far end for each. Where that one has many connections and no more CPU than it
//! needs, to be woken is what keeps it: a slower server answers several at once, and has more done (an echo server with eight connections passed 0.87 of the
//! kernel's messages, and 0.94 measuring so). Where the server does some work for a message it is the other way round (a store with 50: 1.27). So it is measured: the kernel's way between
//! two times of ours. What passes as many either way, as messages that come at their own time, is ours.
//!
//! ```text
//!  rests -> before -> by the kernel -> after -> rests, longer each time            the kernel passed no more
//!             ^                          `----> chosen for a time, longer each time, and then before again
//! ```

use super::Doing;

/// Fewer messages a second than these keep nobody: sleeping and waking is a tenth of the time between them.
const LEAST_PER_S: u64 = 20_000;
/// How long each way is measured: several times the time slices of whoever else runs for a moment.
const MEASURED_NS: u64 = 40_000_000;
/// Connections change their owner, 100 us each.
const SETTLES_NS: u64 = 20_000_000;
/// A thread that was away for so long has measured nothing.
const AWAY_NS: u64 = 4 * MEASURED_NS;
/// By how much more the kernel has to pass: two times of the same differ by less.
const GAIN_PERCENT: u64 = 105;
/// After the begin of a connection caches are cold, and programs begin.
const FIRST_NS: u64 = 200_000_000;
const TRIED_AGAIN_NS: u64 = 4_000_000_000;
const CHOSEN_NS: u64 = 4_000_000_000;
const LONGEST_NS: u64 = 256_000_000_000;

/// See the module. Times are of CLOCK_MONOTONIC, ns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Several {
    state: State,
    since_ns: u64,
    /// The thread's messages by then.
    passed: u64,
    has_settled: bool,
    /// Messages a second: before, and by the kernel.
    rates: [u64; 2],
    /// When the next trial is, or the time for which the kernel was chosen is over; 0: it has not begun.
    next_ns: u64,
    rests_ns: u64,
    chosen_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Rests,
    Before,
    ByKernel,
    After,
    Chosen,
}

impl Several {
    pub(super) const fn new() -> Several {
        Several {
            state: State::Rests,
            since_ns: 0,
            passed: 0,
            has_settled: true,
            rates: [0; 2],
            next_ns: 0,
            rests_ns: TRIED_AGAIN_NS,
            chosen_ns: CHOSEN_NS,
        }
    }

    /// Whether the thread leaves its connections to the kernel. `connections`: so many of them are carried.
    #[inline]
    pub(super) fn leaves_to_kernel(&mut self, now_ns: u64, passed: u64, connections: usize) -> bool {
        match self.state {
            State::Rests if connections < 2 || now_ns < self.next_ns => false,
            _ => self.follow(now_ns, passed),
        }
    }

    /// What it does.
    pub(super) const fn doing(&self) -> Option<Doing> {
        match self.state {
            State::ByKernel | State::Chosen => Some(Doing::ByKernel),
            State::Rests | State::Before | State::After => None,
        }
    }

    /// Others want the CPU, and what is measured meanwhile tells nothing.
    pub(super) const fn rest(&mut self, now_ns: u64) {
        (self.state, self.next_ns) = (State::Rests, now_ns + TRIED_AGAIN_NS);
    }

    #[cold]
    fn follow(&mut self, now_ns: u64, passed: u64) -> bool {
        let took_ns = now_ns.saturating_sub(self.since_ns);
        match self.state {
            State::Rests if self.next_ns == 0 => self.next_ns = now_ns + FIRST_NS,
            State::Rests => self.go_to(State::Before, now_ns, passed),
            State::Chosen if now_ns < self.next_ns => {}
            State::Chosen => self.go_to(State::Before, now_ns, passed),
            _ if took_ns > AWAY_NS => self.rest(now_ns),
            _ if !self.has_settled => {
                if took_ns >= SETTLES_NS {
                    (self.has_settled, self.since_ns, self.passed) = (true, now_ns, passed);
                }
            }
            _ if took_ns < MEASURED_NS => {}
            _ => self.measured(now_ns, passed, passed.saturating_sub(self.passed) * 1_000_000_000 / took_ns),
        }
        self.doing().is_some()
    }

    fn go_to(&mut self, state: State, now_ns: u64, passed: u64) {
        // What it does is another thing than before.
        let settles = matches!(state, State::ByKernel | State::After) || self.state == State::Chosen;
        (self.state, self.since_ns, self.passed, self.has_settled) = (state, now_ns, passed, !settles);
    }

    fn measured(&mut self, now_ns: u64, passed: u64, rate: u64) {
        match self.state {
            State::Before if rate < LEAST_PER_S => self.rest(now_ns),
            State::Before => {
                self.rates[0] = rate;
                self.go_to(State::ByKernel, now_ns, passed);
            }
            State::ByKernel => {
                self.rates[1] = rate;
                self.go_to(State::After, now_ns, passed);
            }
            _ => self.choose(now_ns, passed, rate),
        }
    }

    fn choose(&mut self, now_ns: u64, passed: u64, after: u64) {
        let [before, by_kernel] = self.rates;
        if by_kernel * 100 > before.max(after) * GAIN_PERCENT {
            self.go_to(State::Chosen, now_ns, passed);
            self.next_ns = now_ns + self.chosen_ns;
            (self.chosen_ns, self.rests_ns) = ((self.chosen_ns * 2).min(LONGEST_NS), TRIED_AGAIN_NS);
        } else {
            (self.state, self.next_ns) = (State::Rests, now_ns + self.rests_ns);
            (self.rests_ns, self.chosen_ns) = ((self.rests_ns * 2).min(LONGEST_NS), CHOSEN_NS);
        }
    }
}
