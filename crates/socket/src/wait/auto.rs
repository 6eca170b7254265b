//! What `spin = "auto"` does, decided for each thread.
//!
//! A thread whose messages come soon spins. Once others want its CPU, which shows in the time that it lost to them and
//! in the host's table of spinners, no rule tells what is best: spinning wins where both ends spin in their
//! time slices, giving way where the ends share a CPU, sleeping where what feeds the thread has to run first. So it measures:
//! for the first parts of each second it spins, gives way, and sleeps, and for the rest it does what passed most messages.
//! The parts are those of the clock that all programs of the host have, so that the two ends of a conversation try the same
//! at the same time: one alone that spins while the other sleeps finds nothing out.
//!
//! Nothing in here reads a clock or asks the kernel: a [`World`] does, and tests have one of their own.

/// Later than this after it was begun, a wait is no longer worth a CPU: to be woken costs a hundredth of it to a tenth.
pub const SOON_NS: u64 = 200_000;
/// Between two looks at what else goes on: 1 us each.
const LOOK_NS: u64 = 2_000_000;
/// A thread that waits this long gives way once, so that a neighbour neither waits for the end of a time slice nor stays
/// unnoticed.
const GIVE_WAY_NS: u64 = 20_000;
/// A part of a cycle: 17 ms, which are a few time slices.
const PART_SHIFT: u32 = 24;
/// 1.1 s.
const PARTS: u64 = 64;
const CYCLE_NS: u64 = PARTS << PART_SHIFT;
/// CPU time lost to others that makes a contest, when it comes faster than a tenth of the time leaks away: the kernel's own
/// threads preempt on every CPU, hundreds of times a second under load, and for microseconds.
const CONTEST_NS: u64 = 6_000_000;
const LEAK: u64 = 10;
/// What a contest goes on for, lost between two looks.
const GOES_ON_NS: u64 = 1_000_000;
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
}

/// The decisions for one thread. Times are of CLOCK_MONOTONIC, which all processes of the host share, nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Auto {
    lateness: u8,
    contest: Option<Contest>,
    /// CPU time lost to others, less what leaked away.
    lost_ns: u64,
    looked_ns: u64,
    gave_way_ns: u64,
    is_in_table: bool,
}

/// Others want the CPU.
#[derive(Clone, Copy, Debug)]
struct Contest {
    why: Why,
    until_ns: u64,
    /// The part that is measured: its number, what is done, when it began, and waits so far.
    part: u64,
    doing: Doing,
    part_ns: u64,
    waits: u64,
    /// Waits a second by [`Doing`], as last measured.
    rates: [Option<u64>; 3],
}

impl Contest {
    const fn new(why: Why, now_ns: u64) -> Contest {
        let until_ns = now_ns + 2 * CYCLE_NS;
        Contest { why, until_ns, part: u64::MAX, doing: Doing::Sleeps, part_ns: now_ns, waits: 0, rates: [None; 3] }
    }

    /// A number of the part, the same for all that are no trials in a cycle, and what is tried in it.
    fn part_of(now_ns: u64) -> (u64, Option<Doing>) {
        let (cycle, part) = (now_ns / CYCLE_NS, (now_ns % CYCLE_NS) >> PART_SHIFT);
        let trial = [Doing::Spins, Doing::GivesWay, Doing::Sleeps].get(part as usize).copied();
        (cycle * 4 + part.min(3), trial)
    }

    /// Sleeping takes nothing from others, so what takes more has to be better by a twentieth.
    fn best(&self) -> Doing {
        let rate = |doing: Doing| self.rates[doing as usize].unwrap_or(0);
        let awake = if rate(Doing::Spins) >= rate(Doing::GivesWay) { Doing::Spins } else { Doing::GivesWay };
        if rate(awake) > rate(Doing::Sleeps) / 20 * 21 { awake } else { Doing::Sleeps }
    }

    /// What is to be done now. A part that is over is measured first.
    fn follow(&mut self, now_ns: u64) -> Doing {
        let (part, trial) = Contest::part_of(now_ns);
        if part == self.part {
            return self.doing;
        }
        let took_ns = now_ns.saturating_sub(self.part_ns);
        if self.part != u64::MAX && took_ns >= 1 << (PART_SHIFT - 1) {
            let rate = (u128::from(self.waits) * 1_000_000_000 / u128::from(took_ns)) as u64;
            let slot = &mut self.rates[self.doing as usize];
            // Programs that come and go change what is best: half of it is forgotten each time.
            *slot = Some(slot.map_or(rate, |before| (before + rate) / 2));
        }
        (self.part, self.part_ns, self.waits) = (part, now_ns, 0);
        self.doing = trial.unwrap_or_else(|| self.best());
        self.doing
    }
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
        Auto { lateness: 0, contest: None, lost_ns: 0, looked_ns: 0, gave_way_ns: 0, is_in_table: false }
    }

    /// A wait begins.
    #[inline]
    pub fn begin(&mut self, now_ns: u64, world: &mut impl World) -> Doing {
        self.lateness = self.lateness.saturating_sub(1);
        if let Some(contest) = &mut self.contest {
            contest.waits += 1;
        }
        self.gave_way_ns = now_ns;
        self.step(now_ns, world)
    }

    /// It has waited so long awake.
    pub fn turn(&mut self, now_ns: u64, waited_ns: u64, world: &mut impl World) -> Doing {
        if waited_ns >= SOON_NS {
            self.late();
            self.leave_table(world);
            return Doing::Sleeps;
        }
        let doing = self.step(now_ns, world);
        let is_long = self.contest.is_none() && now_ns.saturating_sub(self.gave_way_ns) >= GIVE_WAY_NS;
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
        match &self.contest {
            Some(contest) => (contest.doing, contest.why),
            None if self.lateness >= LATE_FROM => (Doing::Sleeps, Why::Late),
            None => (Doing::Spins, Why::Calm),
        }
    }

    fn late(&mut self) {
        self.lateness = (self.lateness + LATE).min(LATE_MOST);
    }

    #[inline]
    fn step(&mut self, now_ns: u64, world: &mut impl World) -> Doing {
        let mut doing = self.choose(now_ns);
        if doing != Doing::Sleeps && now_ns.saturating_sub(self.looked_ns) >= LOOK_NS {
            self.look(doing, now_ns, world);
            doing = self.choose(now_ns);
        }
        if doing == Doing::Sleeps {
            self.leave_table(world);
        }
        doing
    }

    #[inline]
    fn choose(&mut self, now_ns: u64) -> Doing {
        if self.contest.is_some() {
            return self.follow_contest(now_ns);
        }
        if self.lateness >= LATE_FROM { Doing::Sleeps } else { Doing::Spins }
    }

    fn follow_contest(&mut self, now_ns: u64) -> Doing {
        match &mut self.contest {
            Some(contest) if now_ns < contest.until_ns => contest.follow(now_ns),
            _ => {
                (self.contest, self.lost_ns) = (None, 0);
                self.choose(now_ns)
            }
        }
    }

    #[cold]
    fn look(&mut self, doing: Doing, now_ns: u64, world: &mut impl World) {
        let lost_ns = world.lost_ns(now_ns);
        let has_room = world.spins(now_ns);
        self.is_in_table = true;
        let leaked_ns = now_ns.saturating_sub(self.looked_ns) / LEAK;
        self.looked_ns = now_ns;
        self.lost_ns = self.lost_ns.saturating_sub(leaked_ns) + lost_ns;
        match &mut self.contest {
            // What gives way is preempted because it does.
            Some(contest) if doing == Doing::Spins && (lost_ns >= GOES_ON_NS || !has_room) => {
                contest.until_ns = now_ns + 2 * CYCLE_NS;
            }
            Some(_) => {}
            None if !has_room => self.contest = Some(Contest::new(Why::Crowded, now_ns)),
            None if self.lost_ns >= CONTEST_NS => self.contest = Some(Contest::new(Why::Preempted, now_ns)),
            None => {}
        }
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
