//! Whether a value is as wanted.

use super::Outcome;
use crate::number::numbers;
use crate::profile::{CpuRelation, Wanted};
use crate::read::placement::NOTHING_ISOLATED;
use crate::read::split;
use crate::setting::Value;
use crate::{CpuSet, CpuSetError, Reading, Setting};

/// What a comparison gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Judgement {
    /// As wanted, or better.
    Right,
    /// Not as wanted.
    Wrong,
    /// There is nothing to compare.
    Unjudged(Outcome),
}

impl Judgement {
    fn of(is_right: bool) -> Self {
        if is_right { Self::Right } else { Self::Wrong }
    }

    fn unknown(why: String) -> Self {
        Self::Unjudged(Outcome::Unknown { why })
    }
}

/// Judges a reading. `wanted` names CPUs by number; `cpus` are those that count of a setting that
/// each CPU has.
pub(super) fn judge(setting: &Setting, wanted: &Wanted, cpus: Option<&CpuSet>, found: &Reading) -> Judgement {
    let value = match found {
        Reading::Value(value) => value,
        Reading::Unsupported if *wanted == Wanted::Absent => return Judgement::Right,
        Reading::Unsupported => return Judgement::Unjudged(Outcome::Unsupported),
        Reading::NeedsRoot => return Judgement::Unjudged(Outcome::NeedsRoot),
        Reading::Unknown { why } => return Judgement::unknown(why.clone()),
    };
    // What is on isolated CPUs cannot be judged as long as there are none.
    if value == NOTHING_ISOLATED && *wanted != Wanted::Absent {
        return Judgement::Unjudged(Outcome::NotApplicable { why: format!("{NOTHING_ISOLATED} now") });
    }
    let Some(parts) = split(value) else {
        return one(setting, wanted, value);
    };
    let counts = |labels: &str| match (cpus, CpuSet::from_list(labels)) {
        (Some(cpus), Ok(labels)) => labels.iter().any(|label| cpus.contains(label)),
        _ => true,
    };
    let judged: Vec<_> = parts
        .iter()
        .filter(|(_, labels)| counts(labels))
        .map(|(value, _)| match *value {
            // The words that stand for missing readings among others; see `condense`.
            "unsupported" => Judgement::Right,
            "needs root" => Judgement::Unjudged(Outcome::NeedsRoot),
            "unknown" => Judgement::unknown(format!("a part of it could not be read: {}", found_text(found))),
            value => one(setting, wanted, value),
        })
        .collect();
    let first = |wanted: fn(&Judgement) -> bool| judged.iter().find(|judgement| wanted(judgement)).cloned();
    first(|judgement| *judgement == Judgement::Wrong)
        .or_else(|| first(|judgement| matches!(judgement, Judgement::Unjudged(_))))
        .unwrap_or(Judgement::Right)
}

/// Whether the value of one place fulfils a wish.
pub(crate) fn is_fulfilled(setting: &Setting, wanted: &Wanted, value: &str) -> bool {
    one(setting, wanted, value) == Judgement::Right
}

fn found_text(found: &Reading) -> &str {
    found.as_value().unwrap_or_default()
}

fn one(setting: &Setting, wanted: &Wanted, value: &str) -> Judgement {
    // What the driver lets nobody change is no mistake of the host's.
    if let Some(value) = value.strip_suffix(" [fixed]") {
        return match one(setting, wanted, value) {
            Judgement::Wrong => Judgement::Unjudged(Outcome::Unsupported),
            judgement => judgement,
        };
    }
    match wanted {
        Wanted::Equal(wanted) => equal(setting, wanted, value),
        Wanted::AtLeast(least) => compare(setting, least, value, |found, least| found >= least),
        Wanted::AtMost(most) => compare(setting, most, value, |found, most| found <= most),
        Wanted::OneOf(values) => {
            let judged: Vec<_> = values.iter().map(|wanted| equal(setting, wanted, value)).collect();
            let right = judged.iter().find(|judgement| **judgement == Judgement::Right);
            right.or(judged.first()).cloned().unwrap_or(Judgement::Wrong)
        }
        Wanted::Contains(word) => Judgement::of(words(value).any(|found| found == word)),
        Wanted::Lacks(unwanted) => Judgement::of(!words(value).any(|found| unwanted.iter().any(|word| word == found))),
        Wanted::Absent => Judgement::of(is_nothing(value)),
        Wanted::SameAs(other) | Wanted::AtLeastOf(other) | Wanted::AtMostOf(other) => {
            Judgement::unknown(format!("{} could not be read", other.id))
        }
        Wanted::Cpus(relation, group) => match (group.list(), cpus(value)) {
            (Some(group), Ok(found)) => Judgement::of(relation.holds(&found, group)),
            // `none`, `not set`, or what a mask of a queue that is the only one reads as.
            (Some(group), Err(_)) if is_nothing(value) => Judgement::of(relation.holds(&CpuSet::default(), group)),
            (_, Err(error)) => Judgement::unknown(format!("{value}: {error}")),
            (None, Ok(_)) => Judgement::unknown(format!("{group} are not known")),
        },
    }
}

fn words(value: &str) -> impl Iterator<Item = &str> {
    value.split([' ', ',']).filter(|word| !word.is_empty())
}

/// The words for a thing that is not there.
fn is_nothing(value: &str) -> bool {
    matches!(value, "" | "none" | "not set" | "not installed" | "(null)" | NOTHING_ISOLATED)
}

fn equal(setting: &Setting, wanted: &str, value: &str) -> Judgement {
    match setting.value {
        Value::Switch => match (switch(wanted), switch(value)) {
            (Some(wanted), Some(found)) => Judgement::of(wanted == found),
            _ => Judgement::unknown(format!("{value} is neither on nor off")),
        },
        Value::CpuList => match (cpus(wanted), cpus(value)) {
            (Ok(wanted), Ok(found)) => Judgement::of(wanted == found),
            _ => Judgement::of(wanted == value),
        },
        Value::Number(_) => match (numbers(setting, wanted), numbers(setting, value)) {
            (Some(wanted), Some(found)) => Judgement::of(wanted == found),
            _ => Judgement::of(wanted == value),
        },
        Value::Text | Value::Word(_) => Judgement::of(wanted == value),
    }
}

/// A list of CPUs, without the flags that `isolcpus=managed_irq,domain,2-3` has before it.
fn cpus(text: &str) -> Result<CpuSet, CpuSetError> {
    let is_flag = |part: &&str| part.starts_with(|c: char| c.is_ascii_lowercase());
    let flags_bytes: usize = text.split(',').take_while(is_flag).map(|flag| flag.len() + 1).sum();
    CpuSet::from_list(text.get(flags_bytes..).unwrap_or(text))
}

/// On or off; of `on, active` the first word counts.
fn switch(text: &str) -> Option<bool> {
    Value::switch(text.split(',').next().unwrap_or_default())
}

/// Number by number; of CPUs their count.
fn compare(setting: &Setting, limit_text: &str, value: &str, holds: fn(f64, f64) -> bool) -> Judgement {
    let found = match setting.value {
        Value::CpuList if is_nothing(value) => Some(vec![0.0]),
        #[expect(clippy::cast_precision_loss, reason = "CPUs are few")]
        Value::CpuList => cpus(value).ok().map(|cpus| vec![cpus.iter().count() as f64]),
        _ => numbers(setting, value),
    };
    let limit = match setting.value {
        Value::CpuList => limit_text.parse().ok().map(|limit| vec![limit]),
        _ => numbers(setting, limit_text),
    };
    match (found, limit) {
        (None, _) if setting.value == Value::Text => match (version(value), version(limit_text)) {
            (Some(found), Some(limit)) => Judgement::of(holds_version(&found, &limit, holds)),
            _ => Judgement::unknown(format!("{value} cannot be compared with {limit_text}")),
        },
        (Some(found), Some(limit)) if found.len() >= limit.len() => {
            Judgement::of(found.iter().zip(&limit).all(|(&found, &limit)| holds(found, limit)))
        }
        _ => Judgement::unknown(format!("{value} cannot be compared with a number")),
    }
}

/// The numbers at the start of a version: `6.12.0-7-amd64` has 6, 12, 0.
fn version(text: &str) -> Option<Vec<u32>> {
    let end = text.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(text.len());
    let numbers: Vec<u32> = text[..end].split('.').map_while(|part| part.parse().ok()).collect();
    (!numbers.is_empty()).then_some(numbers)
}

/// `None` where one of them is no version.
pub(super) fn is_version_at_least(found: &str, least: &str) -> Option<bool> {
    Some(holds_version(&version(found)?, &version(least)?, |found, least| found >= least))
}

/// By the first number that differs; missing ones count as 0.
fn holds_version(found: &[u32], limit: &[u32], holds: fn(f64, f64) -> bool) -> bool {
    let at = |numbers: &[u32], index: usize| f64::from(numbers.get(index).copied().unwrap_or(0));
    let pairs = (0..limit.len()).map(|index| (at(found, index), at(limit, index)));
    let differs = pairs.into_iter().find(|(found, limit)| found != limit);
    let (found, limit) = differs.unwrap_or((0.0, 0.0));
    holds(found, limit)
}

impl CpuRelation {
    fn holds(self, found: &CpuSet, group: &CpuSet) -> bool {
        let is_within = || found.iter().all(|cpu| group.contains(cpu));
        let covers = || group.iter().all(|cpu| found.contains(cpu));
        match self {
            Self::Equal => is_within() && covers(),
            Self::Within => is_within(),
            Self::Cover => covers(),
            Self::ApartFrom => !found.iter().any(|cpu| group.contains(cpu)),
        }
    }
}
