//! The default CPUs of a measurement with both ends on one host.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::{Cpu, Topology};
use crate::CpuSet;

/// Two CPUs, one for each end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuPair {
    /// For the initiator.
    pub first: u32,
    /// For the responder.
    pub second: u32,
    /// Why these, in one line for a person.
    pub explanation: String,
}

/// How good a pair is, most important first; the largest wins.
type Merit = (bool, bool, usize, bool, Reverse<u32>, Reverse<u32>);

/// Chooses two CPUs among the online ones that the process is `allowed` to run on (empty: all).
///
/// In this order: different physical cores; the same package and memory node; isolated; not the
/// core of CPU 0, which the kernel burdens most, when there are more than two cores; the lowest
/// numbers. With one CPU, both ends get it. With none known, both get the first allowed one.
///
/// `isolcpus=` takes its CPUs out of the affinity that processes inherit. They are then not
/// allowed, thus not chosen, and the explanation says how to get them.
#[must_use]
pub fn choose_cpus(topology: &Topology, allowed: &[u32]) -> CpuPair {
    let is_allowed = |cpu: &&Cpu| allowed.is_empty() || allowed.contains(&cpu.id);
    let usable: Vec<&Cpu> = topology.cpus().iter().filter(is_allowed).collect();
    let cores: BTreeSet<_> = usable.iter().map(|cpu| cpu.siblings.iter().next()).collect();
    let merit = |a: &Cpu, b: &Cpu| -> Merit {
        let burdened = |cpu: &Cpu| topology.share_core(cpu.id, 0);
        (
            !topology.share_core(a.id, b.id),
            is_near(a, b),
            usize::from(a.is_isolated) + usize::from(b.is_isolated),
            cores.len() <= 2 || !(burdened(a) || burdened(b)),
            Reverse(a.id),
            Reverse(b.id),
        )
    };
    let pairs = usable.iter().enumerate().flat_map(|(at, a)| usable[at + 1..].iter().map(move |b| (*a, *b)));
    match pairs.max_by_key(|(a, b)| merit(a, b)) {
        Some((a, b)) => CpuPair {
            first: a.id,
            second: b.id,
            explanation: explain(topology, a, b, cores.len()) + &unused(topology, allowed),
        },
        None => only(usable.first().copied(), allowed),
    }
}

/// The numbers of packages repeat in each book of s390, so their lowest CPUs count where they are known.
fn is_near(a: &Cpu, b: &Cpu) -> bool {
    (a.package, a.package_first, a.node) == (b.package, b.package_first, b.node)
}

fn explain(topology: &Topology, a: &Cpu, b: &Cpu, cores: usize) -> String {
    let mut words = vec![if topology.share_core(a.id, b.id) {
        "two threads of one core, the only one allowed".to_owned()
    } else if !is_near(a, b) {
        "two cores of different packages or memory nodes, for want of two in one".to_owned()
    } else {
        let on = |what, id: Option<u32>| id.map_or(String::new(), |id| format!(", {what} {id}"));
        let place = on("package", a.package) + &on("node", a.node);
        format!("two cores{place}")
    }];
    match (a.is_isolated, b.is_isolated) {
        (true, true) => words.push("both isolated".to_owned()),
        (true, false) => words.push(format!("CPU {} isolated", a.id)),
        (false, true) => words.push(format!("CPU {} isolated", b.id)),
        (false, false) => words.push("not isolated".to_owned()),
    }
    if cores > 2 && !topology.share_core(a.id, 0) && !topology.share_core(b.id, 0) {
        words.push("away from CPU 0".to_owned());
    }
    format!("CPUs {} and {}: {}", a.id, b.id, words.join("; "))
}

/// Names isolated CPUs that the process may not use.
fn unused(topology: &Topology, allowed: &[u32]) -> String {
    let is_out = |cpu: &&Cpu| cpu.is_isolated && !allowed.is_empty() && !allowed.contains(&cpu.id);
    let out: CpuSet = topology.cpus().iter().filter(is_out).map(|cpu| cpu.id).collect();
    if out.is_empty() {
        return String::new();
    }
    format!("; isolated CPUs {out} are outside this process's affinity (taskset -c {out} gives them)")
}

fn only(cpu: Option<&Cpu>, allowed: &[u32]) -> CpuPair {
    let (id, why) = match cpu {
        Some(cpu) => (cpu.id, "the only one allowed"),
        None => (allowed.iter().copied().min().unwrap_or(0), "no allowed CPU is known to be online"),
    };
    CpuPair { first: id, second: id, explanation: format!("both ends share CPU {id}: {why}") }
}
