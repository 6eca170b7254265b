//! Which settings are measured, and why the others are not.

use std::collections::BTreeMap;
use std::time::SystemTime;

use nearwire_bench::bed::TestBed;
use nearwire_host::change::RootHost;
use nearwire_host::check::{Day, Finding, check};
use nearwire_host::tune::{Prepared, prepare};
use nearwire_host::{Goal, Write};
use nearwire_worth::cable_host::CableHost;
use nearwire_worth::never::{why_never, why_no_reset};
use nearwire_worth::result::Candidate;
use nearwire_worth::switch::{Keep, Placed};

use super::is_to_another_host;
use crate::args::tune::{ChangesArgs, MeasureArgs};
use crate::commands::selection::Selection;
use crate::commands::tune::{checked, in_use, sort_out};
use crate::exit::{self, Failure, OrExit};

/// What is measured.
pub struct Candidates {
    /// The profile's name.
    pub profile: String,
    /// Each setting.
    pub settings: Vec<Candidate>,
    /// The places of each setting.
    pub placed: Vec<Placed>,
    /// Settings that differ and are not measured, and why.
    pub left: Vec<(String, String)>,
}

impl Candidates {
    /// Checks this host and the near end of the cable, where there is one.
    pub fn find(args: &MeasureArgs, bed: Option<&TestBed>, host: &mut CableHost) -> Result<Self, Failure> {
        let (selection, findings) = checked(&changes_args(args, bed))?;
        let has_ends = !host.ends().is_empty();
        let in_use = if args.selection.nic.is_empty() { in_use::interfaces(&selection.root) } else { BTreeMap::new() };
        // With a cable of its own, other interfaces take no part in the measurement.
        let of_host: Vec<Finding> =
            findings.into_iter().filter(|finding| !has_ends || finding.interface.is_none()).collect();
        let of_near = at_near_end(args, &selection, host)?;
        let (mut goals, mut left) = sort_out(&of_host, &in_use);
        let (of_end, more) = sort_out(&of_near, &BTreeMap::new());
        goals.extend(of_end);
        left.extend(more);
        let profile = selection.profile.name.clone();
        let mut found = Self { profile, settings: Vec::new(), placed: Vec::new(), left };
        let from = |goal: &Goal| {
            let mut all = of_host.iter().chain(&of_near);
            let finding = all.find(|finding| finding.id() == goal.id());
            finding.map_or_else(String::new, |finding| finding.found.in_words())
        };
        for goal in goals {
            let placed = match never(&goal, is_to_another_host(&args.cable), !args.command.is_empty()) {
                Some(why) => Err(why.to_owned()),
                None => place(&goal, host)?,
            };
            match placed {
                Ok(placed) => {
                    found.settings.push(candidate(&goal, &placed, from(&goal)));
                    found.placed.push(placed);
                }
                Err(why) => found.left.push((goal.id(), why)),
            }
        }
        Ok(found)
    }
}

/// As for `nearwire tune apply`; towards another host the interface of the cable is the one that counts.
fn changes_args(args: &MeasureArgs, bed: Option<&TestBed>) -> ChangesArgs {
    let mut selection = args.selection.clone();
    if let Some(bed) = bed.filter(|_| is_to_another_host(&args.cable) && selection.nic.is_empty()) {
        selection.nic = bed.interfaces();
    }
    ChangesArgs { selection, only: args.only.clone(), i_accept_risk: Vec::new() }
}

/// What differs at the near end of a cable; the far end gets the same values.
fn at_near_end(args: &MeasureArgs, selection: &Selection, host: &mut CableHost) -> Result<Vec<Finding>, Failure> {
    let Some(near) = host.ends().first_mut() else { return Ok(Vec::new()) };
    let interfaces = [near.interface().to_owned()];
    let of = |host: &mut RootHost| check(host.root(), &selection.profile, &interfaces, selection.plan.as_ref(), &[]);
    let mut findings = near.within(of).or_exit(exit::CANNOT)?;
    let is_meant = |id: &str| args.only.is_empty() || args.only.iter().any(|only| only == id);
    findings.retain(|finding| finding.interface.is_some() && is_meant(finding.wish.setting.id));
    // Waivers of what does not differ are told by check.
    let _ = selection.waivers.apply(&mut findings, &Day::of(SystemTime::now()));
    Ok(findings)
}

/// Why a setting is not switched, whatever the host says.
fn never(goal: &Goal, to_another_host: bool, by_command: bool) -> Option<&'static str> {
    let setting = goal.setting;
    let why = match why_no_reset(setting) {
        _ if setting.write == Write::Service && goal.value.starts_with("running") => {
            // What irqbalance moves is no value of the service, so that nobody would move it back.
            Some("it would be started, and what it changes then stays when it is stopped again")
        }
        Some(_) if by_command => Some("it resets the link, which would cut the command's connections"),
        why => why.filter(|_| to_another_host),
    };
    why_never(setting).or(why)
}

/// The places of a setting, or why it has none.
fn place(goal: &Goal, host: &mut CableHost) -> Result<Result<Placed, String>, Failure> {
    if goal.setting.write == Write::PmQos {
        let latency_us = goal.value.parse().map_err(|_| format!("'{}' is no number of microseconds", goal.value));
        return Ok(latency_us.map(Placed::Request));
    }
    if host.is_parameter_of_ends(goal.setting).or_exit(exit::CANNOT)?
        && let Err(error) = host.take_over(goal.setting)
    {
        return Ok(Err(error.to_string()));
    }
    let at_place = |host: &mut RootHost, interface: Option<&str>| {
        let interface = interface.map(str::to_owned).or_else(|| goal.interface.clone());
        prepare(host, &[Goal { interface, ..goal.clone() }], &[])
    };
    let (prepared, keep) = host.at_places_of(goal.setting, at_place).or_exit(exit::CANNOT)?;
    let mut all = Prepared::default();
    for one in prepared {
        all.changes.extend(one.changes);
        all.later.extend(one.later);
        all.failed.extend(one.failed);
        all.refused.extend(one.refused);
    }
    Ok(placed(all, keep))
}

fn placed(prepared: Prepared, keep: Keep) -> Result<Placed, String> {
    let Prepared { changes, later, failed, refused } = prepared;
    if !changes.is_empty() {
        return Ok(Placed::Written { changes, keep });
    }
    let refused = refused.first().map(|_| "it lowers security".to_owned());
    let later = later.first().map(|(_, why)| why.to_string());
    let failed = failed.first().map(|(_, error)| error.to_string());
    Err(refused.or(later).or(failed).unwrap_or_else(|| "there is nothing to write".to_owned()))
}

/// From and to in the words of the places where these agree, else in those of the check.
fn candidate(goal: &Goal, placed: &Placed, from: String) -> Candidate {
    let of_check = |from| Candidate { id: goal.id(), from, to: goal.value.clone() };
    let Placed::Written { changes, .. } = placed else { return of_check(from) };
    let first = &changes[0];
    if changes.iter().any(|change| change.found != first.found || change.wanted != first.wanted) {
        return of_check(from);
    }
    let shown = |word: &str| if word.is_empty() { "none".to_owned() } else { word.to_owned() };
    Candidate { id: goal.id(), from: shown(&first.found), to: shown(&first.wanted) }
}
