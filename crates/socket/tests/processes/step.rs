//! One thing that happens. Which program or socket it is about is a number of any size, taken among those that there are: a sequence means
//! something still when steps of it are left out.

use crate::random::Random;

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A datagram, or a few, from the other host.
    Arrive,
    Receive,
    Wait,
    Send,
    Look,
    Open,
    Close,
    Connect,
    KeepWithKernel,
    Lend,
    Start,
    Fork,
    Exec,
    Exit,
    Kill,
    /// Killed within the call that is made next.
    KillWithin,
    Timers,
    AgentHears,
    AgentEnds,
    AgentStarts,
    LinkChanges,
    TimePasses,
}

/// How often each comes.
const WEIGHTS: [(Kind, u64); 22] = [
    (Kind::Arrive, 240),
    (Kind::Receive, 120),
    (Kind::Wait, 100),
    (Kind::Send, 60),
    (Kind::Look, 40),
    (Kind::Open, 60),
    (Kind::Close, 40),
    (Kind::Connect, 20),
    (Kind::KeepWithKernel, 6),
    (Kind::Lend, 20),
    (Kind::Start, 20),
    (Kind::Fork, 70),
    (Kind::Exec, 25),
    (Kind::Exit, 20),
    (Kind::Kill, 20),
    (Kind::KillWithin, 10),
    (Kind::Timers, 40),
    (Kind::AgentHears, 50),
    (Kind::AgentEnds, 10),
    (Kind::AgentStarts, 15),
    (Kind::LinkChanges, 15),
    (Kind::TimePasses, 12),
];

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    pub kind: Kind,
    /// Which program, which socket, and what else is to be chosen.
    pub program: u64,
    pub socket: u64,
    pub more: u64,
    /// Time before it.
    pub gap_ns: u64,
}

impl Step {
    pub fn any(random: &mut Random) -> Step {
        let sum = WEIGHTS.iter().map(|(_, weight)| weight).sum();
        let mut at = random.below(sum);
        let mut weights = WEIGHTS.iter();
        let kind = loop {
            let (kind, weight) = weights.next().expect("it is below their sum");
            match at.checked_sub(*weight) {
                Some(rest) => at = rest,
                None => break *kind,
            }
        };
        let gap_ns = random.below(5_000);
        Step {
            kind,
            program: random.below(1 << 20),
            socket: random.below(1 << 20),
            more: random.below(1 << 20),
            gap_ns,
        }
    }
}
