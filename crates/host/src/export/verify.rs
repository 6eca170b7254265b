//! What came of exported files after a boot: each value is in force, or is named with what was found and why.
//!
//! A comment of each file names the settings and their values ([`super::text`]), so that the files need no list beside
//! them and can be looked at wherever they are: below the directory they were written to, or on the host.

mod cause;

use super::command_line::huge_pages;
use super::text::{self, MADE_BY, Said};
use crate::change::is_rounded;
use crate::check::{Finding, Outcome, check};
use crate::profile::{CpuGroup, CpuRelation, Profile, Verdict, Wanted, Weight, Wish};
use crate::{CpuSet, NicFact, ReadFrom, Reading, Root};

/// Where exported files are on a host.
const DIRECTORIES: [&str; 12] = [
    "/etc/default/grub.d",
    "/etc/sysctl.d",
    "/etc/tmpfiles.d",
    "/etc/systemd/system",
    "/etc/systemd/system-preset",
    "/etc/systemd/system.conf.d",
    "/etc/systemd/network",
    "/etc/modprobe.d",
    "/etc/udev/rules.d",
    "/etc/tuned/nearwire",
    "/etc/tuned/profiles/nearwire",
    "/etc/nearwire",
];

/// An exported file, wherever it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// Where it belongs on the host.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// One exported value and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// The setting's id, with the interface in brackets.
    pub id: String,
    /// The value that was exported.
    pub wanted: String,
    /// The file that has it.
    pub file: String,
    /// What came of it.
    pub state: State,
}

/// What came of an exported value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// The host has it.
    InForce,
    /// The host has it now, and the next boot may lose it.
    NotKept {
        /// The cause.
        cause: String,
    },
    /// The host has another value.
    NotInForce {
        /// The value.
        found: String,
        /// The likely cause, and what to do.
        cause: String,
    },
    /// It could not be found out.
    Unknown {
        /// Why not.
        why: String,
    },
}

/// The exported files that are installed on a host.
#[must_use]
pub fn installed(root: &Root) -> Vec<Exported> {
    let mut directories: Vec<String> = DIRECTORIES.map(str::to_owned).into();
    // Variables of services are in a directory for each.
    let units = root.list("/etc/systemd/system").unwrap_or_default();
    directories
        .extend(units.iter().filter(|name| name.ends_with(".d")).map(|name| format!("/etc/systemd/system/{name}")));
    let mut found = Vec::new();
    for directory in directories {
        for name in root.list(&directory).unwrap_or_default() {
            let path = format!("{directory}/{name}");
            // A directory cannot be read, and the name tells most other files apart.
            if (name.contains("nearwire") || directory.contains("nearwire"))
                && let Ok(text) = root.text(&path)
                && text.lines().take(2).any(|line| line.starts_with(MADE_BY))
            {
                found.push(Exported { path, text });
            }
        }
    }
    found
}

/// What came of the values of some files on a host, in the order of the files. A value that several of them have comes
/// once, with the first.
#[must_use]
pub fn verify(root: &Root, files: &[Exported]) -> Vec<Verified> {
    let mut said: Vec<(String, Said)> = Vec::new();
    for (path, value) in files.iter().flat_map(values) {
        if !said.iter().any(|(_, earlier)| *earlier == value) {
            said.push((path, value));
        }
    }
    let mut interfaces: Vec<String> = said.iter().filter_map(|(_, said)| said.interface.clone()).collect();
    interfaces.sort_unstable();
    interfaces.dedup();
    let found = findings(root, &said, &interfaces);
    said.into_iter()
        .map(|(path, said)| {
            let finding = found.iter().find(|finding| is_of(finding, &said));
            let state = finding.map_or_else(
                || State::Unknown { why: "it belongs to another interface or host".to_owned() },
                |finding| state(root, &path, &said, finding),
            );
            Verified { id: instance(&said), wanted: said.value, file: path, state }
        })
        .collect()
}

fn instance(said: &Said) -> String {
    let cpus = said.cpus.as_ref().map_or_else(String::new, |cpus| format!(" on CPUs {cpus}"));
    said.setting.instance(said.interface.as_deref()) + &cpus
}

/// The values that a file has, each with the path of the file on the host. In a playbook these are the files that it
/// lays down.
fn values(file: &Exported) -> Vec<(String, Said)> {
    let mut path = file.path.clone();
    let mut found = Vec::new();
    for line in file.text.lines() {
        if let Some(laid_down) = line.trim().strip_prefix("dest: ") {
            laid_down.clone_into(&mut path);
        }
        found.extend(text::said(line).map(|value| (path.clone(), value)));
    }
    found
}

/// An interrupt goes to one of the CPUs that it may go to.
fn wanted(said: &Said) -> Wanted {
    match (said.setting.read, CpuSet::from_list(&said.value)) {
        (ReadFrom::Nic(NicFact::IrqAffinity), Ok(cpus)) => Wanted::Cpus(CpuRelation::Within, CpuGroup::List(cpus)),
        _ => Wanted::Equal(said.value.clone()),
    }
}

fn findings(root: &Root, said: &[(String, Said)], interfaces: &[String]) -> Vec<Finding> {
    let wish = |said: &Said| Wish {
        setting: said.setting,
        wanted: wanted(said),
        on: said.cpus.clone().map(CpuGroup::List),
        or: None,
        or_wanted: None,
        reason: "It was exported.".to_owned(),
        source: "the exported file".to_owned(),
        weight: Weight::Medium,
        when: Vec::new(),
        fix: None,
        verdict: Verdict::Holds,
        today: None,
        printed: None,
    };
    let profile = Profile {
        name: "exported".to_owned(),
        purpose: "What was exported".to_owned(),
        extends: Vec::new(),
        wishes: said.iter().map(|(_, said)| wish(said)).collect(),
        left_out: Vec::new(),
    };
    check(root, &profile, interfaces, None, &[])
}

fn is_of(finding: &Finding, said: &Said) -> bool {
    finding.wish.setting == said.setting
        && (finding.interface == said.interface || !said.setting.is_of_interfaces())
        && finding.wish.wanted == wanted(said)
        && finding.wish.on.as_ref().and_then(CpuGroup::list) == said.cpus.as_ref()
}

fn state(root: &Root, path: &str, said: &Said, finding: &Finding) -> State {
    let is_there = root.text(path);
    let says_so = |text: &str| text.lines().filter_map(text::said).any(|other| other == *said);
    match (&finding.outcome, &finding.found) {
        (Outcome::Right, _) => match is_there {
            Ok(_) => State::InForce,
            Err(_) => State::NotKept { cause: format!("{path} is not installed: the next boot loses it") },
        },
        (_, Reading::Value(found)) if is_as_good(said, found) => State::InForce,
        (Outcome::Differs | Outcome::Owned(_), Reading::Value(found)) => {
            let cause = match (&is_there, &finding.outcome) {
                (Err(_), _) => format!("{path} is not installed"),
                (Ok(text), _) if !says_so(text) => {
                    format!("{path} on this host says nothing of it: it is not the file that was exported")
                }
                // Our own files make their reader the owner of what they say.
                (_, Outcome::Owned(owner)) if !owner.tool.contains("nearwire") => {
                    format!("{} sets it: {}", owner.tool, owner.advice)
                }
                _ => cause::of(root, path, said),
            };
            State::NotInForce { found: found.clone(), cause }
        }
        (Outcome::NotApplicable { why } | Outcome::Unknown { why }, _) => State::Unknown { why: why.clone() },
        (Outcome::NeedsRoot, _) => State::Unknown { why: "only root may read it".to_owned() },
        _ => State::Unknown { why: "this host, kernel or device does not have the setting".to_owned() },
    }
}

/// Whether a value that is not the wanted one in letters has what was asked for: huge pages, some of which are in use,
/// or a number that a device rounds.
fn is_as_good(said: &Said, found: &str) -> bool {
    if said.setting.id == "memory.huge-pages" {
        let pools = (huge_pages(&said.value), huge_pages(found));
        return matches!(pools, (Some(wanted), Some(found)) if wanted.iter().all(|pool| found.contains(pool)));
    }
    is_rounded(said.setting, &said.value, found)
}
