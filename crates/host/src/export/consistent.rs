//! What the goals of one export say about each other and about the running command line.

use super::{LeftOut, Request, words};
use crate::setting::Value;
use crate::{CpuSet, Goal};

/// Words that can stand before the CPUs in `isolcpus=` (`housekeeping_isolcpus_setup` of
/// `kernel/sched/isolation.c`).
const ISOLCPUS_FLAGS: [&str; 3] = ["nohz", "domain", "managed_irq"];

/// The words before the CPUs in a value of `isolcpus=`.
pub(crate) fn isolcpus_flags(value: &str) -> Option<String> {
    let flags: Vec<_> = value.split(',').take_while(|word| ISOLCPUS_FLAGS.contains(word)).collect();
    (!flags.is_empty()).then(|| flags.join(","))
}

/// The values that an option has on a command line, in order; without `=` the empty text.
pub(super) fn values<'t>(command_line: &'t str, option: &str) -> Vec<&'t str> {
    let words = command_line.split_whitespace().take_while(|word| *word != "--");
    let named = words.map(|word| word.split_once('=').unwrap_or((word, "")));
    named.filter(|(name, _)| *name == option).map(|(_, value)| value).collect()
}

/// A word for the command line with what the running one says beside its CPUs: a list without the words before it would
/// let managed interrupts back on isolated CPUs.
pub(super) fn with_flags(option: &str, text: &str, command_line: Option<&str>) -> String {
    let Some(cpus) = text.strip_prefix("isolcpus=").filter(|_| option == "isolcpus") else { return text.to_owned() };
    let running = command_line.map(|line| values(line, option)).unwrap_or_default();
    match running.last().and_then(|value| isolcpus_flags(value)) {
        Some(flags) if isolcpus_flags(cpus).is_none() => format!("isolcpus={flags},{cpus}"),
        _ => text.to_owned(),
    }
}

/// Whether a goal switches SMT off.
fn is_smt_off(goal: &Goal) -> bool {
    match goal.setting.id {
        "cpu.smt" => goal.value == "off",
        "boot.nosmt" => words::switch(&goal.value).unwrap_or(!words::is_nothing(&goal.value)),
        "boot.mitigations" | "cpu.mitigations" => goal.value.split(',').any(|word| word == "nosmt"),
        _ => false,
    }
}

/// The goals, without the CPUs that one of them takes offline in the values of the others and among the CPUs they are for.
pub(super) fn without_lost_cpus(request: &Request<'_>) -> (Vec<Goal>, Vec<LeftOut>) {
    let by = request.goals.iter().find(|goal| is_smt_off(goal)).filter(|_| !request.smt_siblings.is_empty());
    let Some(by) = by else { return (request.goals.to_vec(), Vec::new()) };
    let (mut goals, mut left_out) = (Vec::new(), Vec::new());
    for goal in request.goals {
        let listed = match goal.setting.value {
            Value::CpuList => words::cpus(&goal.value).ok(),
            _ => None,
        };
        let sets = [&listed, &goal.cpus];
        let lost: CpuSet = sets.into_iter().flatten().flat_map(|cpus| shared(cpus, request.smt_siblings).0).collect();
        if lost.is_empty() {
            goals.push(goal.clone());
            continue;
        }
        let why = format!("CPUs {lost} of it: {} takes them offline with SMT", by.id());
        left_out.push(LeftOut { id: words::one_line(&goal.id()), why });
        let [value, cpus] = sets.map(|set| set.as_ref().map(|cpus| shared(cpus, request.smt_siblings).1));
        if [&value, &cpus].into_iter().flatten().all(|kept| !kept.is_empty()) {
            let value = value.map_or_else(|| goal.value.clone(), |kept| CpuSet::from_iter(kept).to_string());
            goals.push(Goal { value, cpus: cpus.map(CpuSet::from_iter), ..goal.clone() });
        }
    }
    (goals, left_out)
}

/// Those of the CPUs that are among others, and those that are not.
fn shared(cpus: &CpuSet, others: &CpuSet) -> (Vec<u32>, Vec<u32>) {
    cpus.iter().partition(|cpu| others.contains(*cpu))
}
