//! `nearwire tune export`: makes files that keep the values over a boot.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use anyhow::Context;
use nearwire_host::change::Change;
use nearwire_host::check::{Finding, Outcome as Found};
use nearwire_host::export::{Export, Format, Interface, Request, Verdict, export, validate, why_no_file};
use nearwire_host::journal::{HostIdentity, Journal};
use nearwire_host::topology::Topology;
use nearwire_host::{Goal, Root};

use super::{accepted, checked, journal_directory};
use crate::args::tune::ExportArgs;
use crate::commands::selection::Selection;
use crate::exit::{self, Failure, OrExit, Outcome};
use crate::output;

pub fn run(args: &ExportArgs) -> Outcome {
    let (selection, findings) = checked(&args.changes)?;
    let goals = goals(&selection, &findings, args)?;
    let interfaces: Vec<_> = selection.interfaces.iter().map(|name| Interface::read(&selection.root, name)).collect();
    let program = installed_program(&selection.root);
    let profile = &selection.profile.name;
    let command_line = selection.root.read("/proc/cmdline").ok();
    let smt_siblings = &Topology::read(&selection.root).smt_siblings();
    let request = Request {
        profile,
        goals: &goals,
        program: program.as_deref(),
        interfaces: &interfaces,
        command_line: command_line.as_deref(),
        smt_siblings,
    };
    let exports: Vec<Export> = formats(args).into_iter().map(|format| export(format, &request)).collect();
    if let Some(directory) = &args.output {
        for export in &exports {
            export
                .write_below(directory)
                .with_context(|| format!("write below {}", directory.display()))
                .or_exit(exit::FAILED)?;
        }
    }
    output::print_of_host(&(text(&exports, args.output.is_some()) + &without_goal(&findings)))?;
    if args.validate { validated(&exports) } else { Ok(()) }
}

/// This program's path on the host that the files are for, if it is in a directory where packages or administrators put programs: other
/// directories may be gone at the next boot.
fn installed_program(root: &Root) -> Option<String> {
    const DIRECTORIES: [&str; 5] = ["/usr/bin/", "/usr/sbin/", "/usr/local/bin/", "/usr/local/sbin/", "/opt/"];
    let path = std::env::current_exe().ok().filter(|_| root.is_live())?.into_os_string().into_string().ok()?;
    DIRECTORIES.iter().any(|directory| path.starts_with(directory)).then_some(path)
}

fn formats(args: &ExportArgs) -> Vec<Format> {
    let chosen = [
        (args.grub, Format::Grub),
        (args.sysctl, Format::Sysctl),
        (args.systemd, Format::Systemd),
        (args.udev, Format::Udev),
        (args.tuned_profile, Format::TunedProfile),
        (args.ansible, Format::Ansible),
    ];
    chosen.into_iter().filter_map(|(is_chosen, format)| is_chosen.then_some(format)).collect()
}

/// The goals of what differs, what was applied, and what the user accepts the risk of.
fn goals(selection: &Selection, findings: &[Finding], args: &ExportArgs) -> Result<Vec<Goal>, Failure> {
    let applied = applied(&selection.root, args)?;
    let wanted = findings.iter().filter(|finding| match finding.outcome {
        Found::Differs => true,
        Found::Right => args.all || applied.contains(&finding.id()),
        _ => false,
    });
    let mut goals: Vec<_> = wanted.filter_map(Finding::lasting_goal).collect();
    goals.extend(accepted(selection, &args.changes.i_accept_risk));
    Ok(goals)
}

/// The settings that a journal has in effect, by id with the interface in brackets. Values that were only held while others were
/// written are left out.
fn applied(root: &Root, args: &ExportArgs) -> Result<BTreeSet<String>, Failure> {
    // Without a named journal nothing was applied to a copy.
    if args.journal.journal.is_none() && !root.is_live() {
        return Ok(BTreeSet::new());
    }
    let directory = journal_directory(&args.journal, &args.changes.selection.root)?;
    let content = Journal::look(&directory, &HostIdentity::of(root)).map_err(super::journal_failure)?;
    let blocks = content.as_ref().into_iter().flat_map(nearwire_host::journal::Content::in_effect);
    let changes = blocks.flat_map(|block| &block.entries).map(|entry| &entry.change);
    Ok(changes.filter(|change| !change.is_as_wanted()).filter_map(of_setting).collect())
}

/// The setting that a change belongs to: `nic.irq-affinity[eth0]` for that of one vector, `cpu.governor` for that of one CPU.
fn of_setting(change: &Change) -> Option<String> {
    Some(change.setting()?.instance(change.target.device().map(|device| device.interface.as_str())))
}

/// Each file with its path, or only the paths when the files were written.
fn text(exports: &[Export], is_written: bool) -> String {
    let mut text = String::new();
    for export in exports {
        for file in &export.files {
            // Writing to a string cannot fail.
            let _ = match is_written {
                true => writeln!(text, "{}", file.path),
                false => writeln!(text, "# ---- {}\n{}", file.path, file.text),
            };
        }
        for command in &export.after {
            let _ = writeln!(text, "# then: {command}");
        }
    }
    for (id, why) in kept_nowhere(exports) {
        let _ = writeln!(text, "# not here: {id}: {why}");
    }
    if exports.iter().all(|export| export.files.is_empty()) {
        text.push_str("# Nothing to keep in this format.\n");
    }
    text
}

/// What differs and cannot be said in any file.
fn without_goal(findings: &[Finding]) -> String {
    let differs = |finding: &&Finding| finding.outcome == Found::Differs && finding.lasting_goal().is_none();
    let line = |finding: &Finding| format!("# not here: {}: {}\n", finding.id(), why_no_file(finding.wish.setting));
    findings.iter().filter(differs).map(line).collect()
}

/// The goals that no chosen format holds, each with the reason of the first.
fn kept_nowhere(exports: &[Export]) -> Vec<(&str, &str)> {
    let mut nowhere: Vec<(&str, &str)> = Vec::new();
    for advice in exports.iter().flat_map(|export| &export.left_out) {
        let is_left_out = |export: &Export| export.left_out.iter().any(|other| other.id == advice.id);
        if exports.iter().all(is_left_out) && !nowhere.iter().any(|(id, _)| *id == advice.id) {
            nowhere.push((&advice.id, &advice.why));
        }
    }
    nowhere
}

/// The verdicts of the tools. A refused file is a failure of this program.
fn validated(exports: &[Export]) -> Outcome {
    let directory = tempfile::tempdir().context("make a directory for the files").or_exit(exit::FAILED)?;
    for export in exports {
        export.write_below(directory.path()).context("write the files to validate").or_exit(exit::FAILED)?;
    }
    let verdicts = validate(directory.path()).context("ask the tools").or_exit(exit::FAILED)?;
    let mut text = String::new();
    for verdict in &verdicts {
        let _ = writeln!(text, "# {verdict}");
    }
    output::print_of_host(&text)?;
    let refused = verdicts.iter().filter(|verdict| matches!(verdict, Verdict::Refused { .. })).count();
    match refused {
        0 => Ok(()),
        count => {
            let error = anyhow::anyhow!("{count} files are refused by the tools that read them; please report this");
            Err(Failure { code: exit::FAILED, error: Some(error) })
        }
    }
}
