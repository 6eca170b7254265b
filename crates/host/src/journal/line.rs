//! One record in one line: `{"crc32":"8 digits","record":{...}}`. The sum is over the record's text
//! as it stands, and the line ends in a line feed, so that a torn line is told from a whole one.

use super::{JournalError, Record, disk};

const START: &str = "{\"crc32\":\"";
const MIDDLE: &str = "\",\"record\":";
const DIGITS: usize = 8;

/// A record as its line.
pub(super) fn line(record: &Record) -> Result<String, JournalError> {
    let text = serde_json::to_string(record).map_err(|error| disk("write", "journal".as_ref())(error.into()))?;
    Ok(format!("{START}{:08x}{MIDDLE}{text}}}\n", sum(&text)))
}

/// Whether these bytes may be what a crash left of a line.
pub(super) fn may_be_torn(bytes: &[u8]) -> bool {
    let length = bytes.len().min(START.len());
    bytes[..length] == START.as_bytes()[..length]
}

/// The record's text of a whole line without its line feed.
pub(super) fn text(line: &str) -> Result<&str, String> {
    let rest = line.strip_prefix(START).ok_or("it does not begin like a record")?;
    let (digits, rest) = rest.split_at_checked(DIGITS).ok_or("it is too short")?;
    let text = rest.strip_prefix(MIDDLE).and_then(|rest| rest.strip_suffix('}')).ok_or("it does not end")?;
    match u32::from_str_radix(digits, 16) {
        Ok(expected) if expected == sum(text) => Ok(text),
        _ => Err("the check sum is another one".to_owned()),
    }
}

fn sum(text: &str) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(text.as_bytes());
    crc.sum()
}
