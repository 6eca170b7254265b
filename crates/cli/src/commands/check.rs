//! `nearwire check`: compares a host with a profile.

mod effects;
mod fleet;
mod json;
mod probes;
mod text;

use nearwire_host::change::RootHost;
use nearwire_host::check::Finding;
use nearwire_host::profile::Weight;

use super::selection::Selection;
use crate::args::check::CheckArgs;
use crate::exit::{self, Failure, Outcome};
use crate::output;
use effects::Effects;
use probes::Probes;

/// What was checked, and the result.
struct Checked {
    selection: Selection,
    findings: Vec<Finding>,
    /// Differences that weigh less than was asked for.
    lighter: usize,
    /// Waivers of what does not differ, for a person.
    unused_waivers: Vec<String>,
    probes: Probes,
    /// What settings were worth on this kind of host, where that was measured.
    effects: Effects,
}

pub fn run(args: &CheckArgs) -> Outcome {
    if !args.hosts.is_empty() {
        return fleet::run(args);
    }
    let selection = Selection::open(&args.selection)?;
    let probes = Probes::run(&selection.root, args)?;
    let (mut findings, unused_waivers) = selection.check(&probes.readings());
    let lighter = leave_lighter_out(&mut findings, args);
    let effects = Effects::open(&selection, args);
    effects.sort(&mut findings);
    let checked = Checked { selection, findings, lighter, unused_waivers, probes, effects };
    let mut host = RootHost::new(checked.selection.root.untraced());
    let page = if args.json { json::page(&checked, &mut host) } else { text::page(&checked, &mut host, args.all) };
    output::print_of_host(&page)?;
    outcome(args, checked.findings.iter().filter(|one| one.outcome.is_difference()).map(|one| one.wish.weight))
}

/// The exit code for differences of these weights: that of the worst one.
fn outcome(args: &CheckArgs, differing: impl Iterator<Item = Weight>) -> Outcome {
    let code_of = |worst| args.exit_code.iter().rfind(|(weight, _)| *weight == worst).map(|(_, code)| *code);
    match differing.min().map(|worst| code_of(worst).unwrap_or(exit::DIFFERENCE)) {
        None | Some(0) => Ok(()),
        Some(code) => Err(Failure::silent(code)),
    }
}

/// Leaves out what differs and weighs less than asked for; how much that was.
fn leave_lighter_out(findings: &mut Vec<Finding>, args: &CheckArgs) -> usize {
    let all = findings.len();
    findings.retain(|finding| !finding.outcome.is_difference() || finding.wish.weight <= args.min_weight);
    all - findings.len()
}
