//! What a check comes to, in a line: how much differs and how weightily, and what could not be judged, by cause.

use std::fmt;

use super::{Finding, Outcome};
use crate::ReadFrom;
use crate::profile::Weight;

/// Causes that the line names; the page has all of them.
const CAUSES_IN_LINE: usize = 3;

/// Findings that could not be judged for the same cause.
#[derive(Debug)]
pub struct Unjudged<'a> {
    /// The cause, for a person.
    pub cause: String,
    /// What would answer them: a command, a document, a place to look.
    pub answer: Option<String>,
    /// These, in the order of the check.
    pub findings: Vec<&'a Finding>,
}

impl Unjudged<'_> {
    /// The settings, each once however many interfaces have it.
    #[must_use]
    pub fn settings(&self) -> Vec<&'static str> {
        let mut ids: Vec<&str> = Vec::new();
        for finding in &self.findings {
            if !ids.contains(&finding.wish.setting.id) {
                ids.push(finding.wish.setting.id);
            }
        }
        ids
    }
}

/// What a check comes to. `Display` is the line.
#[derive(Debug)]
pub struct Summary<'a> {
    /// How many differ, the weightiest first; weights of which there are none are left out.
    pub differing: Vec<(Weight, usize)>,
    /// How many differences are waived.
    pub waived: usize,
    /// How many wishes count on this host and kernel.
    pub counting: usize,
    /// What could not be judged, the most frequent cause first.
    pub unjudged: Vec<Unjudged<'a>>,
}

impl<'a> Summary<'a> {
    /// Of the findings of a check.
    #[must_use]
    pub fn of(findings: &'a [Finding]) -> Self {
        let differ = |weight: Weight| {
            let count = findings.iter().filter(|one| one.outcome.is_difference() && one.wish.weight == weight).count();
            (count > 0).then_some((weight, count))
        };
        let counts = |one: &&Finding| !matches!(one.outcome, Outcome::NotApplicable { .. } | Outcome::Unsupported);
        Self {
            differing: Weight::NAMES.iter().filter_map(|(_, weight)| differ(*weight)).collect(),
            waived: findings.iter().filter(|one| matches!(one.outcome, Outcome::Waived(_))).count(),
            counting: findings.iter().filter(counts).count(),
            unjudged: unjudged(findings),
        }
    }
}

fn unjudged(findings: &[Finding]) -> Vec<Unjudged<'_>> {
    let mut causes: Vec<Unjudged<'_>> = Vec::new();
    for finding in findings {
        let Some((cause, answer)) = cause(finding) else { continue };
        match causes.iter_mut().find(|known| known.cause == cause && known.answer == answer) {
            Some(known) => known.findings.push(finding),
            None => causes.push(Unjudged { cause, answer, findings: vec![finding] }),
        }
    }
    causes.sort_by_key(|cause| std::cmp::Reverse(cause.findings.len()));
    causes
}

/// Why a finding was not judged, and what would answer it.
fn cause(finding: &Finding) -> Option<(String, Option<String>)> {
    match (&finding.outcome, finding.wish.setting.read) {
        (Outcome::NeedsRoot, _) => {
            Some(("only root may read it".to_owned(), Some("the same command as root".to_owned())))
        }
        (Outcome::Unknown { .. }, ReadFrom::Elsewhere { why, look }) => Some((why.to_owned(), Some(look.to_owned()))),
        (Outcome::Unknown { why }, _) => Some(match why.split_once(" has no copy of ") {
            Some((_, path)) => {
                let answer = "nearwire snapshot on the host itself, as root, copies it".to_owned();
                (format!("the copy has no {}", top_of(path)), Some(answer))
            }
            // Readers that know who could tell say so behind these words.
            None => match why.split_once("; see ") {
                Some((cause, look)) => (cause.to_owned(), Some(look.to_owned())),
                None => (why.clone(), None),
            },
        }),
        _ => None,
    }
}

/// `/proc/sys` of `/proc/sys/vm/swappiness`: what an archive has as a whole or not at all.
fn top_of(path: &str) -> &str {
    let parts = match path {
        path if path.starts_with("/sys/devices/system/") => 4,
        path if path.starts_with("/sys/") => 3,
        _ => 2,
    };
    let end = path.match_indices('/').nth(parts).map_or(path.len(), |(at, _)| at);
    &path[..end]
}

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.differing.is_empty() {
            f.write_str("nothing differs")?;
        } else {
            let counted: Vec<_> =
                self.differing.iter().map(|(weight, count)| format!("{count} {}", weight.name())).collect();
            f.write_str(&counted.join(", "))?;
        }
        if self.waived > 0 {
            write!(f, " and {} waived", self.waived)?;
        }
        let count = self.unjudged.iter().map(|cause| cause.findings.len()).sum::<usize>();
        if count > 0 {
            let named = self.unjudged.iter().take(CAUSES_IN_LINE);
            let mut causes: Vec<_> = named.map(|of| format!("{}: {}", of.findings.len(), of.cause)).collect();
            let others: usize = self.unjudged.iter().skip(CAUSES_IN_LINE).map(|of| of.findings.len()).sum();
            causes.extend((others > 0).then(|| format!("{others}: other causes")));
            write!(f, "; {count} of {} not judged ({})", self.counting, causes.join("; "))?;
        }
        Ok(())
    }
}
