//! What is compared with what, and how a difference is told.

use std::fmt::Write as _;

use nearwire_lab::emulated_host::{is_everything_wanted, is_inside};

use crate::ways::{Run, number_of};

/// Lines before the first difference that are told.
const LINES_BEFORE: usize = 8;
/// Lines from the first difference on that are told of each trace.
const LINES_AFTER: usize = 5;

/// Scripts that also run where a thread is within a call for ever, and where it decides itself: what comes to a thread in the
/// middle of a call, errors too, threads that share sockets, groups, options, and what changes under a call that spins. By an agent each of
/// them has one of two ways besides the usual one.
const ALSO_FOREVER: [&str; 15] = [
    "cancel.",
    "errors.",
    "exec.",
    "fork.",
    "handlers.",
    "jumps.",
    "messages.",
    "multicast.",
    "namespaces.",
    "options.",
    "path_mtu.",
    "reuseport.",
    "signals.",
    "threads.",
    "timestamps.",
];

/// Files of scripts of TCP begin with this, which the library serves with an agent only.
const CONNECTIONS: &str = "tcp";

/// All ways of the library.
const ALL: &[Run] = &[Run::Sleeping, Run::Spinning, Run::Forever, Run::Auto];
/// Without that in which threads decide themselves: how they do has nothing to do with the kernel, so in emulation none does.
const ALL_IN_EMULATION: &[Run] = &[Run::Sleeping, Run::Spinning, Run::Forever];
/// All ways by an agent, and what one script in two has.
const ALL_BY_AGENT: &[Run] = &[Run::ByAgentSleeping, Run::ByAgent, Run::ByAgentForever];
const BY_AGENT_AND_FOREVER: &[Run] = &[Run::ByAgent, Run::ByAgentForever];
const BY_AGENT_AND_SLEEPING: &[Run] = &[Run::ByAgent, Run::ByAgentSleeping];

/// What is held against the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    Library,
    /// The library by shares of an agent's ports.
    ByAgent,
    Kernel,
}

impl Comparison {
    /// What `NEARWIRE_SCRIPTS` says.
    pub fn chosen() -> Self {
        match std::env::var("NEARWIRE_SCRIPTS").as_deref() {
            Err(_) => Self::Library,
            Ok("kernel") => Self::Kernel,
            Ok("agent") => Self::ByAgent,
            Ok(other) => panic!("NEARWIRE_SCRIPTS is '{other}'; it may be 'kernel' or 'agent'"),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Library => "library against kernel",
            Self::ByAgent => "library by the agent against kernel",
            Self::Kernel => "kernel against kernel",
        }
    }

    pub fn runs(self) -> &'static [Run] {
        match self {
            Self::Library => &[Run::Sleeping, Run::Spinning],
            Self::ByAgent => &[Run::ByAgent],
            Self::Kernel => &[Run::KernelAgain],
        }
    }

    /// The same for generated sequences, a cable each.
    pub fn runs_of_sequences(self) -> &'static [Run] {
        match self {
            Self::Library if is_inside() => ALL_IN_EMULATION,
            Self::Library => ALL,
            Self::ByAgent => ALL_BY_AGENT,
            Self::Kernel => self.runs(),
        }
    }

    /// The same for generated sequences of calls on connections.
    pub fn runs_of_connections(self) -> &'static [Run] {
        self.runs_of(CONNECTIONS)
    }

    /// The same for a script.
    pub fn runs_of(self, script: &str) -> &'static [Run] {
        let is_also_forever = ALSO_FOREVER.iter().any(|file| script.starts_with(file));
        match self {
            Self::Library if is_also_forever => {
                if is_inside() {
                    ALL_IN_EMULATION
                } else {
                    ALL
                }
            }
            // With a port of its own it leaves them to the kernel.
            Self::Library if script.starts_with(CONNECTIONS) => &[Run::Spinning],
            Self::ByAgent if script.starts_with(CONNECTIONS) => BY_AGENT_AND_FOREVER,
            // In emulation each run takes a second, and few scripts are to take little time.
            Self::ByAgent if is_also_forever && is_inside() && !is_everything_wanted() => self.runs(),
            // One of the two took 20 s for all of them. The number's last bit chooses modes.
            Self::ByAgent if is_also_forever && number_of(script) & 2 == 0 => BY_AGENT_AND_FOREVER,
            Self::ByAgent if is_also_forever => BY_AGENT_AND_SLEEPING,
            _ => self.runs(),
        }
    }
}

/// Runs of the kernel after the first one, before a trace that it did not give is a difference.
const FURTHER_KERNEL_RUNS: usize = 3;

/// What the kernel traces. That may be more than one trace: whether a datagram from this host is there when `sendto` returns,
/// for example, depends on whether softirqs run at once or are left to ksoftirqd. So the kernel is asked again before a trace is
/// called different, and each trace that it gives is correct.
pub struct Truth(Vec<String>);

impl Truth {
    pub fn of(trace: String) -> Self {
        Self(vec![trace])
    }

    /// One more that is correct.
    pub fn add(&mut self, trace: String) {
        if !self.0.contains(&trace) {
            self.0.push(trace);
        }
    }

    /// Where a trace differs from each of the kernel's; `kernel` runs it there once more.
    pub fn difference(&mut self, other: &str, name: &str, mut kernel: impl FnMut() -> String) -> Option<String> {
        let mut told = None;
        for trace in &self.0 {
            let differs = difference(trace, other, name)?;
            told.get_or_insert(differs);
        }
        for _ in 0..FURTHER_KERNEL_RUNS {
            let trace = kernel();
            if trace == other {
                self.add(trace);
                return None;
            }
        }
        told
    }

    /// Tells if the kernel gave more than one trace that was compared with.
    pub fn note(&self) -> String {
        match self.0.len() {
            1 => String::new(),
            ways => format!(", of {ways} ways of the kernel"),
        }
    }
}

/// Where two traces part, with what stands around it. Nothing if they are equal.
pub fn difference(truth: &str, other: &str, name: &str) -> Option<String> {
    if truth == other {
        return None;
    }
    let (truth, other): (Vec<_>, Vec<_>) = (truth.lines().collect(), other.lines().collect());
    let equal = truth.iter().zip(&other).take_while(|(one, two)| one == two).count();
    let stream = truth[..equal].iter().rev().find(|line| line.starts_with('[')).unwrap_or(&"");
    let mut text = format!("  line {} of the trace, in {stream}:\n", equal + 1);
    for line in &truth[equal.saturating_sub(LINES_BEFORE)..equal] {
        writeln!(text, "      {line}").unwrap();
    }
    for (whose, lines) in [("kernel", &truth), (name, &other)] {
        for line in lines.iter().skip(equal).take(LINES_AFTER) {
            writeln!(text, "    {} {whose}: {line}", if whose == "kernel" { '-' } else { '+' }).unwrap();
        }
        if lines.len() <= equal {
            writeln!(text, "    ({whose} ends here)").unwrap();
        }
    }
    Some(text)
}
