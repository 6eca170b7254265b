//! How a file words a value, and the one word that the catalogue has for it.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::CpuSet;
use crate::read::one_line;
use crate::setting::Value;

/// A word that a target cannot have.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{word:?} is not {wanted}")]
pub struct WordError {
    /// The word.
    pub word: String,
    /// What it should be.
    pub wanted: &'static str,
}

/// How a file words a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// As it is, white space made single.
    Text,
    /// `on` and `off` by these texts; a third text, such as the 2 of some files, stays as it is.
    Switch {
        /// The text for on; `0` in a file that switches something off.
        on: String,
        /// The text for off.
        off: String,
    },
    /// CPUs as a list, `0-3,8`.
    CpuList,
    /// CPUs as a mask, `0000010f`.
    CpuMask,
    /// All choices with the present one in brackets; the bare word is written.
    Choice,
    /// A list of controllers in which this one is (`on`) or is not; written `+cpuset` or `-cpuset`
    /// (`cgroup.subtree_control`).
    Controller(String),
}

const ON: [&str; 6] = ["on", "1", "yes", "y", "true", "enabled"];
const OFF: [&str; 6] = ["off", "0", "no", "n", "false", "disabled"];

impl Form {
    /// A switch of 1 and 0.
    #[must_use]
    pub fn switch() -> Self {
        Self::Switch { on: "1".to_owned(), off: "0".to_owned() }
    }

    /// The usual wording of a kind of value.
    pub(super) fn of(value: Value) -> Self {
        match value {
            Value::Switch => Self::switch(),
            Value::CpuList => Self::CpuList,
            Value::Text | Value::Number(_) | Value::Word(_) => Self::Text,
        }
    }

    /// The catalogue's word for a file's text.
    pub(super) fn word(&self, text: &str) -> Result<String, WordError> {
        let text = one_line(text);
        match self {
            Self::Text => Ok(text),
            Self::Controller(name) => {
                Ok(if text.split(' ').any(|word| word == name) { "on" } else { "off" }.to_owned())
            }
            Self::Switch { on, .. } if text.eq_ignore_ascii_case(on) => Ok("on".to_owned()),
            Self::Switch { off, .. } if text.eq_ignore_ascii_case(off) => Ok("off".to_owned()),
            Self::Switch { .. } => Ok(text),
            Self::CpuList => cpus(&text, CpuSet::from_list(&text)),
            Self::CpuMask => cpus(&text, CpuSet::from_mask(&text)),
            Self::Choice => {
                let marked = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
                marked.map(|(word, _)| word.to_owned()).ok_or(WordError { word: text, wanted: "a choice in brackets" })
            }
        }
    }

    /// The text that a file wants for a word in its normal form.
    pub(super) fn text(&self, word: &str) -> String {
        match (self, word) {
            (Self::Switch { on, .. }, "on") => on.clone(),
            (Self::Switch { off, .. }, "off") => off.clone(),
            (Self::Controller(name), "on") => format!("+{name}"),
            (Self::Controller(name), _) => format!("-{name}"),
            (Self::CpuMask, list) => CpuSet::from_list(list_of(list)).unwrap_or_default().to_mask(),
            (Self::CpuList, list) => list_of(list).to_owned(),
            (_, word) => word.to_owned(),
        }
    }

    /// What reads back after a word was written over the text of `before`, as the kernel words it: in a copy of a host's
    /// files nobody else does it.
    pub(super) fn reads_back(&self, before: &str, word: &str) -> String {
        let text = self.text(word);
        match self {
            Self::Choice => {
                let choices = before.split_whitespace().map(|choice| choice.trim_matches(['[', ']']));
                let marked: Vec<_> = choices
                    .map(|choice| if choice == text { format!("[{choice}]") } else { choice.to_owned() })
                    .collect();
                if marked.iter().any(|choice| choice.starts_with('[')) { marked.join(" ") } else { text }
            }
            Self::Text if before.contains('\t') => text.split_whitespace().collect::<Vec<_>>().join("\t"),
            Self::CpuMask => as_wide_as(before.trim(), &text),
            _ => text,
        }
    }

    /// The one way to write a word that may be written in several.
    pub(super) fn normal(&self, word: &str) -> Result<String, WordError> {
        let word = one_line(word);
        match self {
            Self::Switch { .. } | Self::Controller(_) => Ok(switch(&word).map_or(word, str::to_owned)),
            Self::CpuList | Self::CpuMask => cpus(&word, CpuSet::from_list(list_of(&word))),
            Self::Text | Self::Choice if word.is_empty() => Err(WordError { word, wanted: "a value" }),
            Self::Text | Self::Choice => Ok(word),
        }
    }
}

/// A mask in as many groups of as many digits as another one, where it fits.
fn as_wide_as(before: &str, mask: &str) -> String {
    let mut digits = mask.bytes().filter(|byte| *byte != b',').rev();
    let padded: Vec<u8> =
        before.bytes().rev().map(|byte| if byte == b',' { b',' } else { digits.next().unwrap_or(b'0') }).collect();
    let fits = digits.all(|digit| digit == b'0');
    let text = padded.into_iter().rev().map(char::from).collect();
    if fits && !before.is_empty() { text } else { mask.to_owned() }
}

/// `on` or `off` by any of their words.
pub(super) fn switch(word: &str) -> Option<&'static str> {
    let is_in = |words: [&str; 6]| words.iter().any(|known| word.eq_ignore_ascii_case(known));
    match () {
        () if is_in(ON) => Some("on"),
        () if is_in(OFF) => Some("off"),
        () => None,
    }
}

/// The empty set prints as a word.
fn list_of(word: &str) -> &str {
    if word == "none" { "" } else { word }
}

fn cpus(text: &str, set: Result<CpuSet, crate::CpuSetError>) -> Result<String, WordError> {
    set.map(|set| set.to_string()).map_err(|_| WordError { word: text.to_owned(), wanted: "a set of CPUs" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_text_read_and_written_is_the_same() {
        let inverted = Form::Switch { on: "0".to_owned(), off: "1".to_owned() };
        let yes = Form::Switch { on: "Y".to_owned(), off: "N".to_owned() };
        for (form, text, word, written) in [
            (Form::Text, "4096\t131072\t6291456", "4096 131072 6291456", "4096 131072 6291456"),
            (Form::switch(), "1", "on", "1"),
            (Form::switch(), "2", "2", "2"),
            (inverted.clone(), "1", "off", "1"),
            (inverted, "0", "on", "0"),
            (yes, "N", "off", "N"),
            (Form::CpuList, "0-3,8", "0-3,8", "0-3,8"),
            (Form::CpuMask, "0000,0000010f", "0-3,8", "0000010f"),
            (Form::CpuMask, "00000000", "none", "00000000"),
            (Form::Choice, "always [madvise] never", "madvise", "madvise"),
            (Form::Controller("cpuset".to_owned()), "cpuset cpu io", "on", "+cpuset"),
            (Form::Controller("cpu".to_owned()), "cpuset io", "off", "-cpu"),
        ] {
            assert_eq!(form.word(text).as_deref(), Ok(word), "{text}");
            assert_eq!(form.text(word), written, "{text}");
            assert_eq!(form.normal(word).as_deref(), Ok(word), "{text}");
        }
    }

    #[test]
    fn text_in_a_copy_is_worded_as_by_the_kernel() {
        for (form, before, word, after) in [
            (Form::Choice, "always [madvise] never", "never", "always madvise [never]"),
            (Form::Choice, "always [madvise] never", "defer", "defer"),
            (Form::Text, "4096\t131072\t6291456", "4096 65536 1", "4096\t65536\t1"),
            (Form::Text, "60", "10", "10"),
            (Form::CpuMask, "00000000,0000ffff", "0-3", "00000000,0000000f"),
            (Form::CpuMask, "ff", "none", "00"),
            (Form::CpuMask, "f", "0-7", "000000ff"),
            (Form::switch(), "1", "off", "0"),
        ] {
            assert_eq!(form.reads_back(before, word), after, "{before}");
        }
    }

    #[test]
    fn wanted_word_in_other_words_is_made_normal() {
        assert_eq!(Form::switch().normal("1").as_deref(), Ok("on"));
        assert_eq!(Form::switch().normal("No").as_deref(), Ok("off"));
        assert_eq!(Form::CpuMask.normal("3,1,2").as_deref(), Ok("1-3"));
        assert_eq!(Form::CpuList.normal("none").as_deref(), Ok("none"));
        assert!(Form::CpuList.normal("all").is_err());
        assert!(Form::Text.normal(" ").is_err());
        assert!(Form::Choice.word("always madvise").is_err());
    }
}
