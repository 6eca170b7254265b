//! What to keep in mind of a comparison.

use super::{Comparison, Figure, rounds};
use crate::record::{Experiment, Record, Warning};
use crate::statistics::trend::median;

/// Code of the note that A and B were measured on what is not the same machine.
pub(super) const MACHINE_DIFFERS: &str = "machine-differs";
/// Largest ratio between the distances of two CPUs that are taken as the same.
const CACHE_LINE_RATIO: f64 = 1.5;

fn note(code: &str, text: String, advice: &str) -> Warning {
    Warning { code: code.to_owned(), text, advice: advice.to_owned() }
}

pub(super) fn notes(a: &Record, b: &Record, comparison: &Comparison) -> Vec<Warning> {
    let mut notes = vec![note(
        "not-interleaved",
        format!(
            "A ({}) and B ({}) are separate runs: whatever else changed in between is in every figure",
            a.started_at, b.started_at
        ),
        "confirm a verdict that matters by measuring A and B again in the opposite order, or as \
            cells of one experiment",
    )];
    notes.extend(machine_differs(a, b));
    notes.extend(only_alone(comparison));
    notes.extend(interrupted(a, b));
    notes.extend(few_rounds(a, b));
    notes.extend(no_interval(comparison));
    notes.extend(what_differs(a, b));
    notes
}

/// The distance between the two CPUs has no network in it. Where it differs, the hypervisor has moved the CPUs, or others
/// were used, and every figure is one of another machine.
fn machine_differs(a: &Record, b: &Record) -> Option<Warning> {
    let distance_ns = |record: &Record| {
        let rounds = record.runs.iter().flat_map(|run| &run.rounds);
        let probes: Vec<f64> = rounds.filter_map(|round| round.cache_line_ns).filter(|&ns| ns > 0.0).collect();
        median(&probes)
    };
    let (a_ns, b_ns) = (distance_ns(a)?, distance_ns(b)?);
    (a_ns.max(b_ns) > a_ns.min(b_ns) * CACHE_LINE_RATIO).then(|| {
        note(
            MACHINE_DIFFERS,
            format!(
                "a cache line took {a_ns:.0} ns between the two CPUs in A and {b_ns:.0} ns in B: the CPUs are not \
                where they were, and the latency of every path follows"
            ),
            "measure both again until the distance is the same, or pin the virtual CPUs on the hypervisor",
        )
    })
}

fn only_alone(comparison: &Comparison) -> Option<Warning> {
    let alone = comparison.figures().filter(|figure| figure.is_only_alone()).count();
    let tested = comparison.figures().filter(|figure| figure.p_value.is_some()).count();
    let by_chance = tested as f64 * comparison.options.wrong();
    (alone > 0).then(|| {
        note(
            "only-alone",
            format!(
                "{alone} differences hold for their figure alone and not among {tested} figures, of which about \
                {by_chance:.1} differ by chance; they do not count"
            ),
            "measure longer or with more rounds, or compare fewer cells",
        )
    })
}

fn interrupted(a: &Record, b: &Record) -> Option<Warning> {
    let which = match (a.interrupted, b.interrupted) {
        (false, false) => return None,
        (true, false) => "A was",
        (false, true) => "B was",
        (true, true) => "A and B were",
    };
    Some(note("interrupted", format!("{which} ended by Ctrl-C before all rounds had run"), "measure again to the end"))
}

fn few_rounds(a: &Record, b: &Record) -> Option<Warning> {
    let fewest = a.runs.iter().chain(&b.runs).map(|run| run.rounds.len()).min().unwrap_or(0);
    (fewest < rounds::FEW_ROUNDS).then(|| {
        note(
            "few-rounds",
            format!(
                "a cell has only {fewest} rounds: how much rounds differ is hardly known, and \
                intervals are wide or missing"
            ),
            "measure with --rounds 10 or more",
        )
    })
}

fn no_interval(comparison: &Comparison) -> Option<Warning> {
    let is_without = |figure: &&Figure| figure.quantity.is_cpu() && figure.is_confirmed && figure.interval.is_none();
    let differ = comparison.figures().filter(is_without).count();
    (differ > 0).then(|| {
        note(
            "no-interval",
            format!(
                "{differ} CPU times differ by more than {} %: a record has them for the whole run only, so they have no \
                interval and the stated confidence does not cover them",
                comparison.options.cpu_threshold_percent
            ),
            "measure both with this version, which keeps the CPU time of each round, or raise --cpu-threshold",
        )
    })
}

fn what_differs(a: &Record, b: &Record) -> Vec<Warning> {
    let (ea, eb) = (&a.experiment, &b.experiment);
    let fault = |experiment: &Experiment| experiment.fault.clone().unwrap_or_default();
    let mut notes = Vec::new();
    for (what, in_a, in_b) in [
        ("workload", &ea.workload, &eb.workload),
        ("cable", &ea.cable, &eb.cable),
        ("cable detail", &ea.cable_detail, &eb.cable_detail),
        ("CPUs", &cpus(ea), &cpus(eb)),
        ("fault", &fault(ea), &fault(eb)),
        ("clock", &a.clock.source, &b.clock.source),
        ("nearwire version", &a.nearwire_version, &b.nearwire_version),
    ] {
        if in_a != in_b {
            let text = format!("the {what} differs: A has `{in_a}`, B has `{in_b}`");
            notes.push(note("differs", text, "a verdict is about everything that differs, this too"));
        }
    }
    if ea.timeout_ns != eb.timeout_ns {
        let ms = |ns: u64| ns as f64 / 1e6;
        let text = format!(
            "the timeout differs: A has {} ms, B has {} ms; answers that come later are lost",
            ms(ea.timeout_ns),
            ms(eb.timeout_ns)
        );
        notes.push(note("differs", text, "measure both with the same --timeout to compare their loss"));
    }
    notes
}

fn cpus(experiment: &Experiment) -> String {
    let name = |cpu: Option<u32>| cpu.map_or_else(|| "any".to_owned(), |cpu| cpu.to_string());
    format!("{},{}", name(experiment.cpu_initiator), name(experiment.cpu_responder))
}
