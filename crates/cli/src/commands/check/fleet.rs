//! `nearwire check SNAPSHOT...`: several hosts by one profile.

mod html;
mod json;
mod text;

use std::path::{Path, PathBuf};

use anyhow::Context;
use nearwire_host::check::Summary;
use nearwire_host::check::fleet::{Member, Row, rows};
use nearwire_host::profile::Profile;

use super::{leave_lighter_out, outcome};
use crate::args::HostSource;
use crate::args::check::{CheckArgs, SelectionArgs};
use crate::commands::selection::Selection;
use crate::exit::{self, Failure, OrExit, Outcome};
use crate::output;

/// Hosts that were checked, and what differs.
struct Fleet {
    profile: Profile,
    members: Vec<Member>,
    rows: Vec<Row>,
    /// The host that the others should be like, by its place among the members.
    baseline: Option<usize>,
    /// Hosts that could not be checked: file, why.
    unreadable: Vec<(PathBuf, String)>,
}

impl Fleet {
    fn summary(&self, member: &Member) -> String {
        Summary::of(&member.findings).to_string()
    }

    /// Hosts that have another value than the baseline; none without a baseline.
    fn unlike(&self, row: &Row) -> Vec<usize> {
        self.baseline.map(|baseline| row.unlike(baseline)).unwrap_or_default()
    }

    fn names<'a>(&'a self, members: &'a [usize]) -> impl Iterator<Item = &'a str> {
        members.iter().map(|member| self.members[*member].name.as_str())
    }
}

pub fn run(args: &CheckArgs) -> Outcome {
    let fleet = read(args)?;
    if let Some(path) = &args.report {
        let written = std::fs::write(path, html::page(&fleet));
        written.with_context(|| format!("write the report {}", path.display())).or_exit(exit::FAILED)?;
    }
    output::print_of_host(&if args.json { json::page(&fleet) } else { text::page(&fleet) })?;
    if !fleet.unreadable.is_empty() {
        return Err(Failure::silent(exit::USAGE));
    }
    let differing = fleet.rows.iter().filter(|row| row.differing() > 0 || !fleet.unlike(row).is_empty());
    outcome(args, differing.map(|row| row.weight))
}

fn read(args: &CheckArgs) -> Result<Fleet, Failure> {
    let profile = Profile::load(args.selection.profile()).or_exit(exit::USAGE)?;
    let mut fleet = Fleet { profile, members: Vec::new(), rows: Vec::new(), baseline: None, unreadable: Vec::new() };
    // The baseline may be one of the hosts.
    let extra = args.baseline.iter().filter(|file| !args.hosts.contains(file));
    for file in extra.chain(&args.hosts) {
        match member(args, file, &fleet.members) {
            Ok(member) => {
                if args.baseline.as_ref() == Some(file) {
                    fleet.baseline = Some(fleet.members.len());
                }
                fleet.members.push(member);
            }
            Err(why) => {
                output::note(&format!("nearwire: {}: {why}", file.display()));
                fleet.unreadable.push((file.clone(), why));
            }
        }
    }
    fleet.rows = rows(&fleet.members);
    Ok(fleet)
}

fn member(args: &CheckArgs, file: &Path, others: &[Member]) -> Result<Member, String> {
    let (sysroot, snapshot) = match file.is_dir() {
        true => (Some(file.to_owned()), None),
        false => (None, Some(file.to_owned())),
    };
    let selection = SelectionArgs { root: HostSource { sysroot, snapshot }, ..args.selection.clone() };
    let opened = Selection::open(&selection);
    let selection = opened.map_err(|failure| failure.error.as_ref().map_or_else(String::new, output::with_causes))?;
    let (mut findings, _) = selection.check(&[]);
    leave_lighter_out(&mut findings, args);
    Ok(Member { name: name_of(file, others), findings })
}

/// `db1` of `snapshots/db1.tar.zst`; the whole path where another host is called so.
fn name_of(file: &Path, others: &[Member]) -> String {
    let whole = file.display().to_string();
    let last = file.file_name().map_or(whole.clone(), |name| name.to_string_lossy().into_owned());
    let short = last.split(".tar").next().unwrap_or(&last).to_owned();
    if short.is_empty() || others.iter().any(|other| other.name == short) { whole } else { short }
}
