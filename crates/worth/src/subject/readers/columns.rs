//! Numbers below titles: comma-separated values.

use super::form::Field;
use super::reading::{ReadError, Reading, words};
use super::units::{Unit, convert, is_unit_of};

/// The line that has all these titles, and the lines of as many values that follow it.
pub(super) fn table<'text>(text: &'text str, marks: &[&str]) -> Option<(Vec<&'text str>, Vec<Vec<&'text str>>)> {
    let mut lines = text.lines();
    let titles = lines.by_ref().map(cells).find(|titles| marks.iter().all(|mark| titles.contains(mark)))?;
    let rows = lines.map(cells).filter(|values| values.len() == titles.len()).collect();
    Some((titles, rows))
}

/// Titles and values have no commas in them, and perhaps quotation marks around them.
fn cells(line: &str) -> Vec<&str> {
    line.split(',').map(|cell| cell.trim().trim_matches('"')).collect()
}

/// Reads the only line of values.
///
/// # Errors
/// There are several, or a number is none.
pub(super) fn read(
    titles: &[&str],
    rows: &[Vec<&str>],
    rules: &[Field],
    of_several: &str,
) -> Result<Reading, ReadError> {
    let values = match rows {
        [] => return Ok(Reading::default()),
        [values] => values,
        _ => {
            let (what, advice) = ("a line of results".to_owned(), of_several.to_owned());
            return Err(ReadError::Several { what, count: rows.len(), advice });
        }
    };
    let cell = |title: &str| {
        let column = titles.iter().position(|known| *known == title)?;
        values.get(column).copied()
    };
    let mut reading = Reading::default();
    for rule in rules.iter() {
        let Some(number) = cell(rule.at).filter(|_| !reading.has(rule.quantity)) else { continue };
        let unit = match rule.unit {
            Unit::Is(unit) => unit,
            Unit::Beside => "",
            Unit::At(title) => match cell(title) {
                Some(unit) if is_unit_of(rule.quantity, unit) => unit,
                _ => continue,
            },
        };
        let error = |source| ReadError::Number { what: words(rule.quantity).to_owned(), source };
        reading.put(rule.quantity, convert(rule.quantity, number, unit).map_err(error)?);
    }
    Ok(reading)
}
