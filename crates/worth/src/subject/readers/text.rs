//! Numbers in lines for people.

use super::expression::{compile, group};
use super::form::Rule;
use super::reading::{ReadError, Reading, words};
use super::units::{Unit, convert};

/// Whether all expressions match. One that is no expression matches nothing; a test looks at all tables.
pub(super) fn has_marks(text: &str, marks: &[&str]) -> bool {
    marks.iter().all(|mark| compile(mark).is_ok_and(|regex| regex.is_match(text)))
}

/// Reads what the rules find.
///
/// # Errors
/// A number stands there more than once, or is none.
pub(super) fn read(text: &str, rules: &[Rule], of_several: &str) -> Result<Reading, ReadError> {
    let mut reading = Reading::default();
    for rule in rules {
        if reading.has(rule.quantity) {
            continue;
        }
        let found = matches(text, rule);
        match found[..] {
            [] => {}
            [(number, unit)] => {
                let error = |source| ReadError::Number { what: words(rule.quantity).to_owned(), source };
                reading.put(rule.quantity, convert(rule.quantity, number, unit).map_err(error)?);
            }
            _ => {
                let what = words(rule.quantity).to_owned();
                return Err(ReadError::Several { what, count: found.len(), advice: of_several.to_owned() });
            }
        }
    }
    Ok(reading)
}

/// Number and unit, at each place where a rule matches.
fn matches<'text>(text: &'text str, rule: &Rule) -> Vec<(&'text str, &'text str)> {
    let Ok(regex) = compile(rule.pattern) else { return Vec::new() };
    let found = regex.captures_iter(text).filter_map(|captures| {
        let number = group(&captures, "value", text)?;
        match rule.unit {
            Unit::Is(unit) => Some((number, unit)),
            Unit::Beside | Unit::At(_) => Some((number, group(&captures, "unit", text).unwrap_or_default())),
        }
    });
    found.collect()
}
