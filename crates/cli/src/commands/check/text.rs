//! Findings as text.

use std::fmt::Write as _;

use nearwire_host::Reading;
use nearwire_host::change::RootHost;
use nearwire_host::check::{Finding, Outcome, Summary, Waiver, counts};

use super::{Checked, Selection};
use crate::output::{terminal_width, wrapped};

/// The label of a command that fixes a difference at once.
const NOW: &str = "now";

/// The summary, then differences in full, the weightiest first; of other findings ids and counts. With `all`, every finding in full.
pub(super) fn page(checked: &Checked, host: &mut RootHost, all: bool) -> String {
    let summary = Summary::of(&checked.findings);
    let mut text = head(checked, &summary);
    let shown = checked.findings.iter().filter(|finding| all || finding.outcome.is_difference());
    for (at, finding) in shown.enumerate() {
        if at == 0 {
            text.push('\n');
        }
        full(&mut text, host, finding, checked.effects.in_words(finding));
    }
    if !all {
        waived(&mut text, checked);
        not_judged(&mut text, &summary);
        not_advised(&mut text, checked);
    }
    text.push_str(&checked.probes.text());
    foot(&mut text, checked, all);
    text
}

fn head(checked: &Checked, summary: &Summary<'_>) -> String {
    let Selection { profile, default_reason, interfaces, .. } = &checked.selection;
    let width = terminal_width();
    let mut text = wrapped(&format!("{summary}."), 0, width) + "\n";
    let profile = wrapped(&format!("Profile {}: {}", profile.name, profile.purpose), 0, width);
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{profile}");
    if let Some(reason) = default_reason {
        let reason = format!("(It is the default, because {reason}; --profile names another.)");
        let _ = writeln!(text, "{}", wrapped(&reason, 0, width));
    }
    let names = if interfaces.is_empty() { "none".to_owned() } else { interfaces.join(", ") };
    let _ = writeln!(text, "Interfaces: {names}");
    text
}

fn full(text: &mut String, host: &mut RootHost, finding: &Finding, measured: Option<String>) {
    let word = match &finding.outcome {
        Outcome::Right => "ok",
        Outcome::Differs | Outcome::Owned(_) => "DIFFERS",
        Outcome::Waived(_) => "waived",
        Outcome::NotAdvised => "not advised",
        Outcome::NotApplicable { .. } => "n/a",
        Outcome::Unsupported => "unsupported",
        Outcome::Unknown { .. } => "unknown",
        Outcome::NeedsRoot => "needs root",
    };
    let weight = finding.wish.weight.name();
    let on = finding.cpus.as_ref().map_or(String::new(), |cpus| format!(" on CPUs {cpus}"));
    let _ = writeln!(text, "  {word:<11}  {weight:<6}  {}", finding.id());
    let width = terminal_width();
    let line = |text: &mut String, label: &str, words: &str| {
        // A command is not broken, so that it can be copied into a shell.
        let width = width.filter(|_| label != NOW);
        let _ = writeln!(text, "{}", wrapped(&format!("    {label:<7}  {words}"), 13, width));
    };
    line(text, "found", &found(&finding.found));
    line(text, "wanted", &format!("{}{on}", finding.wanted));
    if let Some(measured) = measured {
        line(text, "worth", &measured);
    }
    line(text, "why", &finding.wish.reason);
    line(text, "source", &finding.wish.source);
    match &finding.outcome {
        Outcome::Owned(owner) => line(text, "owner", &format!("{}: {}", owner.tool, owner.advice)),
        Outcome::NotApplicable { why } => line(text, "but", why),
        Outcome::Waived(waiver) => {
            let Waiver { reason, owner, until, .. } = &**waiver;
            line(text, "waived", &format!("until {until}, {owner}: {reason}"));
        }
        _ => {}
    }
    if let Some(today) = &finding.wish.today {
        line(text, "today", &format!("{}: {today}", finding.wish.verdict.name()));
    }
    if let Some(note) = &finding.note {
        line(text, "note", note);
    }
    if let Some((command, more)) = finding.now(host) {
        let others = if more > 0 { format!("  (and {more} more: nearwire tune plan --script)") } else { String::new() };
        line(text, NOW, &format!("{command}{others}"));
    }
    for fix in finding.fixes() {
        line(text, fix.when.name(), &fix.text);
    }
}

fn found(reading: &Reading) -> String {
    match reading {
        Reading::NeedsRoot => "only root may read it".to_owned(),
        Reading::Unknown { why } => why.clone(),
        reading => reading.in_words(),
    }
}

/// Differences that somebody has accepted.
fn waived(text: &mut String, checked: &Checked) {
    let mut lines = String::new();
    for finding in &checked.findings {
        let Outcome::Waived(waiver) = &finding.outcome else { continue };
        let Waiver { reason, owner, until, .. } = &**waiver;
        let line = format!("  {}  {}, until {until}, {owner}: {reason}", finding.id(), found(&finding.found));
        let _ = writeln!(lines, "{}", wrapped(&line, 4, terminal_width()));
    }
    if !lines.is_empty() {
        let _ = write!(text, "\nWaived\n{lines}");
    }
    if !checked.unused_waivers.is_empty() {
        let unused = format!("Waivers of what does not differ: {}", checked.unused_waivers.join(", "));
        let _ = writeln!(text, "\n{}", wrapped(&unused, 0, terminal_width()));
    }
}

/// What could not be judged, by cause, with what would answer it.
fn not_judged(text: &mut String, summary: &Summary<'_>) {
    if !summary.unjudged.is_empty() {
        text.push_str("\nNot judged\n");
    }
    for of in &summary.unjudged {
        let width = terminal_width();
        let line = format!("  {:>3}  {}: {}", of.findings.len(), of.cause, of.settings().join(", "));
        let _ = writeln!(text, "{}", wrapped(&line, 7, width));
        if let Some(answer) = &of.answer {
            let _ = writeln!(text, "{}", wrapped(&format!("       answer: {answer}"), 15, width));
        }
    }
}

fn not_advised(text: &mut String, checked: &Checked) {
    let of = checked.findings.iter().filter(|finding| finding.outcome == Outcome::NotAdvised);
    let mut ids: Vec<&str> = of.map(|finding| finding.wish.setting.id).collect();
    // A setting of interfaces is named once, not once for each interface.
    ids.dedup();
    if !ids.is_empty() {
        let line = format!("Printed, but not advised today: {}", ids.join(", "));
        let _ = writeln!(text, "\n{}", wrapped(&line, 0, terminal_width()));
    }
}

fn foot(text: &mut String, checked: &Checked, all: bool) {
    let words = |name: &'static str| match name {
        "not-advised" => "not advised",
        "needs-root" => "need root",
        "not-applicable" => "not applicable",
        "owned" => "owned by another tool",
        "differs" => "differ",
        name => name,
    };
    let counted = counts(&checked.findings).into_iter().filter(|(name, count)| *count > 0 || *name == "differs");
    let counted: Vec<_> = counted.map(|(name, count)| format!("{count} {}", words(name))).collect();
    let _ = writeln!(text, "\n{} wishes: {}.", checked.findings.len(), counted.join(", "));
    if checked.lighter > 0 {
        let _ = writeln!(text, "{} more differ and weigh less: --min-weight leaves them out.", checked.lighter);
    }
    if !all {
        let _ = writeln!(text, "--all shows every wish; nearwire settings ID explains a setting.");
    }
}
