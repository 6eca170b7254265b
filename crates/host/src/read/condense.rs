//! Many readings of one thing in one line.

use crate::{CpuSet, Reading};

/// Makes one reading of those of several CPUs, queues or interrupts: the common one when all are
/// equal, else `value (labels), value (labels)` in the order of first appearance. Labels that are
/// all numbers are printed as a list with ranges. Of readings that are all unknown the first one says why. No reading at all is
/// `Unsupported`.
pub(crate) fn condense(readings: Vec<(String, Reading)>) -> Reading {
    let mut groups: Vec<(Reading, Vec<String>)> = Vec::new();
    for (label, reading) in readings {
        match groups.iter_mut().find(|(known, _)| *known == reading) {
            Some((_, labels)) => labels.push(label),
            None => groups.push((reading, vec![label])),
        }
    }
    if groups.len() <= 1 || groups.iter().all(|(reading, _)| matches!(reading, Reading::Unknown { .. })) {
        groups.truncate(1);
        return groups.pop().map_or(Reading::Unsupported, |(only, _)| only);
    }
    let texts = groups.iter().map(|(reading, labels)| format!("{} ({})", word(reading), label(labels)));
    Reading::Value(texts.collect::<Vec<_>>().join(", "))
}

fn word(reading: &Reading) -> &str {
    match reading {
        Reading::Value(value) => value,
        Reading::Unsupported => "unsupported",
        Reading::NeedsRoot => "needs root",
        Reading::Unknown { .. } => "unknown",
    }
}

fn label(labels: &[String]) -> String {
    let numbers: Option<CpuSet> = labels.iter().map(|label| label.parse::<u32>().ok()).collect();
    numbers.map_or_else(|| labels.join(" "), |numbers| numbers.to_string())
}

/// The parts of a text made by [`condense`] with their labels; `None` for a text with one value.
pub(crate) fn split(text: &str) -> Option<Vec<(&str, &str)>> {
    let mut parts = Vec::new();
    let mut rest = text;
    loop {
        let (value, after) = rest.split_once(" (")?;
        let (labels, after) = after.split_once(')')?;
        parts.push((value, labels));
        rest = match after.strip_prefix(", ") {
            Some(next) => next,
            None if after.is_empty() && parts.len() > 1 => return Some(parts),
            None => return None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condensed(values: &[(&str, &str)]) -> Reading {
        let readings = values.iter().map(|(label, value)| ((*label).to_owned(), Reading::value(value)));
        condense(readings.collect())
    }

    #[test]
    fn equal_readings_condensed_are_one() {
        assert_eq!(condensed(&[("0", "a"), ("1", "a")]), Reading::value("a"));
        assert_eq!(condensed(&[]), Reading::Unsupported);
        let needs_root = vec![("0".to_owned(), Reading::NeedsRoot); 2];
        assert_eq!(condense(needs_root), Reading::NeedsRoot);
    }

    #[test]
    fn different_readings_condensed_name_their_owners() {
        let cpus = condensed(&[("0", "a"), ("1", "b"), ("2", "a"), ("3", "a")]);
        assert_eq!(cpus, Reading::value("a (0,2-3), b (1)"));
        let queues = condensed(&[("rx-0", "a"), ("rx-1", "b"), ("rx-2", "a")]);
        assert_eq!(queues, Reading::value("a (rx-0 rx-2), b (rx-1)"));
    }

    #[test]
    fn unknown_readings_condensed_give_the_first_reason() {
        let unknown = |cpu: u32| (cpu.to_string(), Reading::unknown(format!("no copy of cpu{cpu}")));
        assert_eq!(condense((0..3).map(unknown).collect()), Reading::unknown("no copy of cpu0"));
    }

    #[test]
    fn condensed_readings_split_are_the_same() {
        let parts = |text| split(text);
        assert_eq!(parts("a (0,2-3), b (1)"), Some(vec![("a", "0,2-3"), ("b", "1")]));
        assert_eq!(parts("0-3,8 (rx-0 rx-2), none (rx-1)"), Some(vec![("0-3,8", "rx-0 rx-2"), ("none", "rx-1")]));
        for single in ["powersave", "", "Intel(R) Xeon(R) CPU E5-2620 v3", "Debian 12 (bookworm)", "30 on 2, 31 on 2-3"]
        {
            assert_eq!(parts(single), None, "{single}");
        }
    }
}
