//! What `spin = "auto"` does, decided for each thread.
//!
//! A thread whose messages come soon spins. Once others want its CPU, which shows in the time that it lost to them and
//! in the host's table of spinners, no rule tells what is best: spinning wins where both ends spin in their
//! time slices, giving way where the ends share a CPU, sleeping where what feeds the thread has to run first, the kernel's own sockets where
//! no CPU is left for us. So it measures ([`contest`]).
//!
//! While nobody wants the CPU it measures too, for several connections of TCP, whether the kernel passes more of their messages ([`several`]).
//!
//! Nothing in here reads a clock or asks the kernel: a [`World`] does, and tests have one of their own.

mod contest;
mod several;

use contest::Contest;
use several::Several;

/// Later than this after it was begun, a wait is no longer worth a CPU: to be woken costs a hundredth of it to a tenth.
pub const SOON_NS: u64 = 200_000;
/// Between two looks at what else goes on: 1 us each.
const LOOK_NS: u64 = 2_000_000;
/// The same of a thread whose CPU others want: the far end answers within this or has no CPU itself, and the answer wakes the
/// thread sooner than the end of its time slice would let the far end run.
const SOON_IN_CONTEST_NS: u64 = 50_000;
/// A thread that waits this long gives way once, so that a neighbour neither waits for the end of a time slice nor stays
/// unnoticed.
const GIVE_WAY_NS: u64 = 20_000;
/// CPU time lost to others that makes a contest, when it comes faster than a tenth of the time leaks away: the kernel's own
/// threads preempt on every CPU, hundreds of times a second under load, and for microseconds.
const CONTEST_NS: u64 = 6_000_000;
const LEAK: u64 = 10;
/// What a contest goes on for, lost between two looks.
const GOES_ON_NS: u64 = 1_000_000;
/// Looks in succession that find more spinners than CPUs: programs that begin and end spin for a moment.
const CROWDED_LOOKS: u8 = 2;
/// What was learned of a contest is still good for the next when that begins so soon.
const KNOWN_NS: u64 = 10_000_000_000;
/// Late waits weigh more than those that end soon: after a burst that ended the next begins with a sleep.
const LATE: u8 = 4;
const LATE_FROM: u8 = 8;
const LATE_MOST: u8 = 16;

/// What a waiting thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// Looks all the time.
    Spins,
    /// Looks, and lets others run in between.
    GivesWay,
    /// Sleeps in the kernel.
    Sleeps,
    /// Lends its sockets to the kernel, and sleeps in its calls. Those that cannot be lent it sleeps for.
    ByKernel,
}

impl Doing {
    pub(super) const fn is_awake(self) -> bool {
        matches!(self, Doing::Spins | Doing::GivesWay)
    }
}

/// Why it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Messages come soon, and nobody else wants the CPU.
    Calm,
    /// Messages come late.
    Late,
    /// It was preempted.
    Preempted,
    /// More threads spin on the host than there are CPUs for.
    Crowded,
    /// It waits for several connections.
    Several,
}

/// What is asked of the kernel and of other programs.
pub trait World {
    /// How long the thread could have run and others had its CPU since this was last asked, nanoseconds.
    fn lost_ns(&mut self, now_ns: u64) -> u64;
    /// Lets others run.
    fn give_way(&mut self);
    /// Tells the host's table that the thread spins; whether there is a CPU for each that does.
    fn spins(&mut self, now_ns: u64) -> bool;
    /// Tells it that the thread does not.
    fn sleeps(&mut self);
    /// Messages that the thread has received so far: what ways to wait are compared by.
    fn passed(&self) -> u64;
    /// Whether it may run on several CPUs.
    fn is_movable(&self) -> bool;
    /// How many connections were carried when a message of one last came.
    fn connections(&self) -> usize;
}

/// The decisions for one thread. Times are of CLOCK_MONOTONIC, which all processes of the host share, nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Auto {
    lateness: u8,
    /// Looks that found no CPU for all that spin.
    crowded: u8,
    is_contested: bool,
    /// The present one, or the last.
    contest: Contest,
    several: Several,
    ended_ns: u64,
    /// CPU time lost to others, less what leaked away.
    lost_ns: u64,
    looked_ns: u64,
    gave_way_ns: u64,
    is_in_table: bool,
    waits: u64,
}

impl Default for Auto {
    fn default() -> Self {
        Self::new()
    }
}

impl Auto {
    /// A thread that has not waited yet.
    #[must_use]
    pub const fn new() -> Auto {
        Auto {
            lateness: 0,
            crowded: 0,
            is_contested: false,
            contest: Contest::new(Why::Calm, false),
            several: Several::new(),
            ended_ns: 0,
            lost_ns: 0,
            looked_ns: 0,
            gave_way_ns: 0,
            is_in_table: false,
            waits: 0,
        }
    }

    /// A wait begins.
    #[inline]
    pub fn begin(&mut self, now_ns: u64, world: &mut impl World) -> Doing {
        self.lateness = self.lateness.saturating_sub(1);
        self.waits += 1;
        self.gave_way_ns = now_ns;
        self.step(now_ns, world)
    }

    /// It has waited so long awake.
    pub fn turn(&mut self, now_ns: u64, waited_ns: u64, world: &mut impl World) -> Doing {
        if waited_ns >= if self.is_contested { SOON_IN_CONTEST_NS } else { SOON_NS } {
            self.slept(waited_ns);
            self.leave_table(world);
            return Doing::Sleeps;
        }
        let doing = self.step(now_ns, world);
        let is_long = !self.is_contested && now_ns.saturating_sub(self.gave_way_ns) >= GIVE_WAY_NS;
        if doing == Doing::GivesWay || (doing == Doing::Spins && is_long) {
            world.give_way();
            self.gave_way_ns = now_ns;
        }
        doing
    }

    /// A wait that slept ended, so long after its begin.
    pub fn slept(&mut self, waited_ns: u64) {
        if waited_ns >= SOON_NS {
            self.late();
        }
    }

    /// What the thread does, and why.
    #[must_use]
    pub fn now(&self) -> (Doing, Why) {
        if self.is_contested {
            (self.contest.doing, self.contest.why)
        } else if let Some(doing) = self.several.doing() {
            (doing, Why::Several)
        } else if self.lateness >= LATE_FROM {
            (Doing::Sleeps, Why::Late)
        } else {
            (Doing::Spins, Why::Calm)
        }
    }

    fn late(&mut self) {
        self.lateness = (self.lateness + LATE).min(LATE_MOST);
    }

    #[inline]
    fn step(&mut self, now_ns: u64, world: &mut impl World) -> Doing {
        let mut doing = self.choose(now_ns, world);
        if doing.is_awake() && now_ns.saturating_sub(self.looked_ns) >= LOOK_NS {
            self.look(doing, now_ns, world);
            doing = self.choose(now_ns, world);
        }
        if !doing.is_awake() {
            self.leave_table(world);
        }
        doing
    }

    /// Whether the thread, which has lent its sockets to the kernel, leaves them there.
    pub fn stays_by_kernel(&mut self, now_ns: u64, world: &mut impl World) -> bool {
        self.choose(now_ns, world) == Doing::ByKernel
    }

    #[inline]
    fn choose(&mut self, now_ns: u64, world: &mut impl World) -> Doing {
        if !self.is_contested {
            if self.several.leaves_to_kernel(now_ns, world.passed(), world.connections()) {
                return Doing::ByKernel;
            }
            return if self.lateness >= LATE_FROM { Doing::Sleeps } else { Doing::Spins };
        }
        let before = self.contest.doing;
        // One that waits for what other threads receive is measured by its waits.
        let passed = Some(world.passed()).filter(|passed| *passed > 0).unwrap_or(self.waits);
        let doing = self.contest.follow(now_ns, passed);
        if doing != before {
            // What others had of the CPU before tells nothing of what is done from now on.
            world.lost_ns(now_ns);
            self.looked_ns = now_ns;
        }
        doing
    }

    #[cold]
    fn look(&mut self, doing: Doing, now_ns: u64, world: &mut impl World) {
        let (lost_ns, has_room) = (world.lost_ns(now_ns), world.spins(now_ns));
        self.is_in_table = true;
        let since_ns = now_ns.saturating_sub(self.looked_ns);
        self.looked_ns = now_ns;
        self.lost_ns = self.lost_ns.saturating_sub(since_ns / LEAK) + lost_ns;
        self.crowded = if has_room { 0 } else { (self.crowded + 1).min(CROWDED_LOOKS) };
        if self.is_contested {
            let somebody_did = lost_ns >= GOES_ON_NS || !has_room;
            // What gives way is preempted because it does.
            if doing == Doing::Spins && self.contest.is_over(since_ns.min(2 * LOOK_NS), somebody_did) {
                (self.is_contested, self.ended_ns, self.lost_ns) = (false, now_ns, 0);
            }
        } else if self.crowded == CROWDED_LOOKS {
            self.contend(Why::Crowded, now_ns, world);
        } else if self.lost_ns >= CONTEST_NS {
            self.contend(Why::Preempted, now_ns, world);
        }
    }

    fn contend(&mut self, why: Why, now_ns: u64, world: &impl World) {
        if self.ended_ns == 0 || now_ns.saturating_sub(self.ended_ns) > KNOWN_NS {
            self.contest = Contest::new(why, world.is_movable());
        } else {
            self.contest.again(why);
        }
        self.is_contested = true;
        self.several.rest(now_ns);
    }

    #[inline]
    fn leave_table(&mut self, world: &mut impl World) {
        if std::mem::take(&mut self.is_in_table) {
            world.sleeps();
        }
    }
}

#[cfg(test)]
mod tests;
