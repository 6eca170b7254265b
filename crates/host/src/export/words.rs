//! Values as the kernel's files take them: from the words a setting is read in to the words it is
//! written in, and nothing but letters that such words have.

use thiserror::Error;

use crate::setting::{Persist, ReadFrom, Value};
use crate::{CpuSet, NicFact, Setting};

/// Why a value cannot be written.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub(crate) enum WordError {
    /// Neither on nor off.
    #[error("{value:?} is neither on nor off")]
    Switch {
        /// The value.
        value: String,
    },
    /// Not a number.
    #[error("{value:?} is not a whole number")]
    Number {
        /// The value.
        value: String,
    },
    /// Not a list of CPUs.
    #[error("{value:?} is not a list of CPUs")]
    Cpus {
        /// The value.
        value: String,
    },
    /// Not one of the words the setting knows.
    #[error("{value:?} is not one of {}", known.join(", "))]
    Word {
        /// The value.
        value: String,
        /// The words.
        known: Vec<&'static str>,
    },
    /// A letter that no value has.
    #[error("{value:?} has characters that no value of this setting has")]
    Characters {
        /// The value.
        value: String,
    },
}

/// Words that stand where a number would be, and that the kernel takes there too.
const WORDS_FOR_NUMBERS: [(&str, &str); 1] = [("cpu.pm-qos-resume-latency-us", "n/a")];

/// Settings whose number is read in hexadecimal without `0x` and written in the notation of C
/// (`check_interval` in `arch/x86/kernel/cpu/mce/core.c`).
const HEXADECIMAL: [&str; 1] = ["noise.machine-check-interval"];

/// A text in one line that ends no comment and continues none: what a reader does not see, and the
/// backslash, become spaces.
pub(super) fn one_line(text: &str) -> String {
    let plain = |c: char| if (c.is_alphanumeric() || c.is_ascii_graphic()) && c != '\\' { c } else { ' ' };
    let text: String = text.chars().map(plain).take(400).collect();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The text to write to the setting's own file, without a newline.
///
/// # Errors
/// See [`WordError`].
pub(crate) fn written(setting: &Setting, value: &str) -> Result<String, WordError> {
    if WORDS_FOR_NUMBERS.contains(&(setting.id, value)) {
        return Ok(value.to_owned());
    }
    if HEXADECIMAL.contains(&setting.id) {
        let is_hex = (1..=16).contains(&value.len()) && value.bytes().all(|b| b.is_ascii_hexdigit());
        return if is_hex { Ok(format!("0x{value}")) } else { Err(WordError::Number { value: value.to_owned() }) };
    }
    match (setting.value, setting.read) {
        (_, ReadFrom::CpuMask(_) | ReadFrom::Nic(NicFact::QueueMask(..))) => cpus(value).map(|cpus| mask(&cpus)),
        (Value::Switch, _) => switch(value).map(|is_on| if is_on { "1" } else { "0" }.to_owned()),
        (Value::Number(_), _) => number(value),
        (Value::CpuList, _) => list(value),
        (Value::Word(known), _) => one_of(value, known),
        (Value::Text, _) => text(value),
    }
}

/// Whether a word means on.
pub(crate) fn switch(value: &str) -> Result<bool, WordError> {
    Value::switch(value).ok_or_else(|| WordError::Switch { value: value.to_owned() })
}

/// A whole number in decimal, perhaps with a sign.
pub(crate) fn number(value: &str) -> Result<String, WordError> {
    let digits = value.strip_prefix('-').unwrap_or(value);
    let is_number = (1..=20).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    if is_number { Ok(value.to_owned()) } else { Err(WordError::Number { value: value.to_owned() }) }
}

/// A set of CPUs; `none` is the empty one.
pub(crate) fn cpus(value: &str) -> Result<CpuSet, WordError> {
    let value = value.trim();
    match value {
        "none" => Ok(CpuSet::default()),
        "" => Err(WordError::Cpus { value: value.to_owned() }),
        _ => CpuSet::from_list(value).map_err(|_| WordError::Cpus { value: value.to_owned() }),
    }
}

/// CPUs as a list that is not empty: an empty text is no value to most files.
pub(crate) fn list(value: &str) -> Result<String, WordError> {
    let cpus = cpus(value)?;
    if cpus.is_empty() { Err(WordError::Cpus { value: value.to_owned() }) } else { Ok(cpus.to_string()) }
}

/// CPUs as a mask without zeros at its head.
pub(crate) fn mask(cpus: &CpuSet) -> String {
    let mask = cpus.to_mask();
    let digits = mask.trim_start_matches('0');
    if digits.is_empty() { "0".to_owned() } else { digits.to_owned() }
}

/// One of the known words; `ratelimit:N` stands for every number.
pub(crate) fn one_of(value: &str, known: &[&'static str]) -> Result<String, WordError> {
    let is_known = known.iter().any(|word| match word.strip_suffix(":N") {
        Some(stem) => {
            let rest = value.strip_prefix(stem).and_then(|rest| rest.strip_prefix(':'));
            rest.is_some_and(|count| number(count).is_ok())
        }
        None => *word == value,
    });
    if is_known {
        Ok(value.to_owned())
    } else {
        Err(WordError::Word { value: value.to_owned(), known: known.to_vec() })
    }
}

/// Words with a space between, of letters that mean nothing to a shell, to systemd, to udev or to
/// a template.
pub(crate) fn text(value: &str) -> Result<String, WordError> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_.,:+=/@-".contains(c);
    let words: Vec<_> = value.split(' ').collect();
    let is_text = words.iter().all(|word| !word.is_empty() && word.chars().all(is_plain));
    if is_text && value.len() <= 512 {
        Ok(value.to_owned())
    } else {
        Err(WordError::Characters { value: shown(value) })
    }
}

/// One word of [`text`].
pub(crate) fn word(value: &str) -> Result<String, WordError> {
    if value.contains(' ') { Err(WordError::Characters { value: shown(value) }) } else { text(value) }
}

/// The beginning of a value that may be long.
fn shown(value: &str) -> String {
    value.chars().take(80).collect()
}

/// Whether the value says that there is to be nothing.
pub(crate) fn is_nothing(value: &str) -> bool {
    matches!(value, "not set" | "none")
}

/// The words for the command line that the row names.
pub(crate) fn command_line_forms(setting: &Setting) -> impl Iterator<Item = &'static str> {
    setting.persist.iter().filter_map(|persist| match persist {
        Persist::CommandLine(words) => Some(*words),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue;
    use proptest::prelude::*;

    fn written_as(id: &str, value: &str) -> Option<String> {
        written(catalogue::setting(id).unwrap(), value).ok()
    }

    #[test]
    fn value_of_each_kind_is_written_as_its_file_takes_it() {
        let cases = [
            ("kernel.watchdog", "off", "0"),
            ("kernel.watchdog_cpumask", "0-1", "0-1"),
            ("net.core.rps_default_mask", "0-1", "3"),
            ("cpu.workqueue-affinity", "0,33", "2,00000001"),
            ("nic.rps-cpus", "none", "0"),
            ("cpu.pm-qos-resume-latency-us", "n/a", "n/a"),
            ("noise.machine-check-interval", "12c", "0x12c"),
            ("kernel.sched_rt_runtime_us", "-1", "-1"),
            ("net.ipv4.tcp_rmem", "4096 131072 6291456", "4096 131072 6291456"),
            ("memory.thp.defrag", "defer+madvise", "defer+madvise"),
        ];
        for (id, value, text) in cases {
            assert_eq!(written_as(id, value).as_deref(), Some(text), "{id} {value}");
        }
    }

    #[test]
    fn value_that_is_none_of_its_kind_is_refused() {
        let cases = [
            ("kernel.watchdog", "maybe"),
            ("net.core.busy_poll", "50; reboot"),
            ("net.core.busy_poll", "n/a"),
            ("net.core.busy_poll", ""),
            ("memory.thp", "sometimes"),
            ("kernel.watchdog_cpumask", "none"),
            ("net.ipv4.tcp_congestion_control", "$(reboot)"),
            ("net.ipv4.tcp_congestion_control", "cubic\nkernel.panic = 1"),
            ("net.ipv4.tcp_rmem", "1  2"),
        ];
        for (id, value) in cases {
            assert_eq!(written_as(id, value), None, "{id} {value}");
        }
    }

    proptest! {
        #[test]
        fn mask_made_of_cpus_reads_as_them(cpus in proptest::collection::btree_set(0..600u32, 0..40)) {
            let set: CpuSet = cpus.into_iter().collect();
            prop_assert_eq!(CpuSet::from_mask(&mask(&set)), Ok(set));
        }

        #[test]
        fn text_written_has_no_letter_that_means_something(value in ".*") {
            if let Ok(text) = text(&value) {
                let means_something = |c: char| c.is_control() || "$`\\\"'%{}|;&<>#()*?[]~!".contains(c);
                prop_assert!(!text.contains(means_something), "{}", text);
            }
        }
    }
}
