//! `nearwire check`: compares a host with a profile.

mod json;
mod probes;
mod text;

use nearwire_host::change::RootHost;
use nearwire_host::check::{Finding, check};

use super::selection::Selection;
use crate::args::check::CheckArgs;
use crate::exit::{self, Failure, Outcome};
use crate::output;
use probes::Probes;

/// What was checked, and the result.
struct Checked {
    selection: Selection,
    findings: Vec<Finding>,
    probes: Probes,
}

pub fn run(args: &CheckArgs) -> Outcome {
    let selection = Selection::open(&args.selection)?;
    let probes = Probes::run(&selection.root, args)?;
    let Selection { root, profile, interfaces, plan, .. } = &selection;
    let findings = check(root, profile, interfaces, plan.as_ref(), &probes.readings());
    let checked = Checked { selection, findings, probes };
    let mut host = RootHost::new(checked.selection.root.untraced());
    let page = if args.json { json::page(&checked, &mut host) } else { text::page(&checked, &mut host, args.all) };
    output::print_of_host(&page)?;
    match checked.findings.iter().any(|finding| finding.outcome.is_difference()) {
        true => Err(Failure::silent(exit::DIFFERENCE)),
        false => Ok(()),
    }
}
