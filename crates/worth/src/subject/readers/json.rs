//! Numbers in a JSON object.

use serde_json::Value;

use super::form::{Field, Part};
use super::reading::{ReadError, Reading, words};
use super::units::{Unit, convert};

/// The first object that begins a line and has all these members: some tools write notes before it.
pub(super) fn object(text: &str, marks: &[&str]) -> Option<Value> {
    let starts = text.match_indices('{').map(|(at, _)| at);
    let of_lines = starts.filter(|at| text[..*at].bytes().next_back().is_none_or(|byte| byte == b'\n'));
    let mut parsed = of_lines.take(OBJECTS_MAX).filter_map(|at| {
        let mut values = serde_json::Deserializer::from_str(&text[at..]).into_iter::<Value>();
        values.next().and_then(Result::ok)
    });
    parsed.find(|value| marks.iter().all(|mark| value.pointer(mark).is_some()))
}

/// Lines that are tried as the begin of an object.
const OBJECTS_MAX: usize = 64;

/// Reads the only part in use.
///
/// # Errors
/// Several are in use, a number is none, or the tool reports an error.
pub(super) fn read(
    object: &Value,
    error: Option<&str>,
    parts: &[Part],
    rules: &[Field],
    of_several: &str,
) -> Result<Reading, ReadError> {
    if let Some(text) = error.and_then(|at| object.pointer(at)).and_then(Value::as_str) {
        return Err(ReadError::Reported { text: text.to_owned() });
    }
    let in_use = parts.iter().filter_map(|part| {
        let value = object.pointer(part.at)?;
        let mut numbers = part.used.iter().filter_map(|at| value.pointer(at)?.as_f64());
        numbers.any(|number| number > 0.0).then_some(value)
    });
    let in_use: Vec<_> = in_use.collect();
    match in_use[..] {
        [] => Ok(Reading::default()),
        [part] => fields(part, rules),
        _ => {
            let (what, advice) = ("a result".to_owned(), of_several.to_owned());
            Err(ReadError::Several { what, count: in_use.len(), advice })
        }
    }
}

fn fields(part: &Value, rules: &[Field]) -> Result<Reading, ReadError> {
    let mut reading = Reading::default();
    for rule in rules {
        let Some(Value::Number(number)) = part.pointer(rule.at).filter(|_| !reading.has(rule.quantity)) else {
            continue;
        };
        let unit = match rule.unit {
            Unit::Is(unit) => unit,
            Unit::Beside | Unit::At(_) => "",
        };
        let error = |source| ReadError::Number { what: words(rule.quantity).to_owned(), source };
        reading.put(rule.quantity, convert(rule.quantity, &number.to_string(), unit).map_err(error)?);
    }
    Ok(reading)
}
