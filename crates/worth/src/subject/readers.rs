//! Finds the figures in what a command printed: by tables of what tools print, or by a user's expression.
//!
//! A tool is recognised by its output. Numbers are taken as printed and converted to the unit of their
//! [`Figure`](super::Figure): where a tool prints round trips, its figures are round trips, as [`Recognised::latency`]
//! says.

mod columns;
mod expression;
mod form;
mod json;
mod reading;
mod text;
mod tools;
mod units;

#[cfg(test)]
mod tests;

pub use expression::{Expression, ExpressionError};
pub use form::Reader;
pub use reading::{ReadError, Reading};
pub use tools::READERS;
pub use units::NumberError;

use form::{Form, Notation};

/// What a command printed, as text: without colours, and a line that was printed over is a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Printed {
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// What was found in an output.
#[derive(Clone, Debug)]
pub struct Recognised {
    /// The tool that printed it.
    pub reader: &'static Reader,
    /// What its latency is, in words; none where it prints no latency.
    pub latency: Option<&'static str>,
    /// The numbers.
    pub reading: Reading,
}

/// Why there is no figure in an output.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadersError {
    /// No such reader.
    #[error("no reader is called '{name}'; there are {}", names(&READERS))]
    Unknown {
        /// The name.
        name: String,
    },
    /// No tool was recognised.
    #[error(
        "looked for the following; name the figure with --figure 'REGEX' where a command prints something else{}",
        looked_for(readers)
    )]
    NotRecognised {
        /// The readers that were tried.
        readers: Vec<&'static Reader>,
    },
    /// Several were.
    #[error("it holds results of {}; name one with --reader, or the figure with --figure 'REGEX'", names(readers))]
    Ambiguous {
        /// The tools.
        readers: Vec<&'static Reader>,
    },
    /// It was recognised, and does not hold a result.
    #[error("read as the output of {reader}: {source}")]
    Read {
        /// The tool.
        reader: &'static str,
        /// What is wrong with it.
        source: ReadError,
    },
    /// A user's expression does not match.
    #[error("looked for '{pattern}' in standard output and standard error")]
    NoMatch {
        /// The expression.
        pattern: String,
    },
    /// It matches at several places.
    #[error("'{pattern}' matches {} times ({}); let it match once", found.len(), first(found))]
    Matches {
        /// The expression.
        pattern: String,
        /// What the group matched.
        found: Vec<String>,
    },
    /// What it matches is no number.
    #[error("'{pattern}': {source}")]
    Number {
        /// The expression.
        pattern: String,
        /// What stands there.
        source: NumberError,
    },
}

/// Matches that a message shows.
const SHOWN_MAX: usize = 5;

impl Printed {
    /// Of the bytes that a command printed.
    #[must_use]
    pub fn new(stdout: &[u8], stderr: &[u8]) -> Printed {
        Printed { stdout: plain(stdout), stderr: plain(stderr) }
    }
}

/// The reader of this name.
///
/// # Errors
/// There is none.
pub fn reader(name: &str) -> Result<&'static Reader, ReadersError> {
    let known = READERS.into_iter().find(|reader| reader.name == name);
    known.ok_or_else(|| ReadersError::Unknown { name: name.to_owned() })
}

/// Reads an output by the only one of these readers that recognises it.
///
/// # Errors
/// None does, several do, or the output holds no result.
pub fn read(printed: &Printed, readers: &[&'static Reader]) -> Result<Recognised, ReadersError> {
    let found = readers.iter().filter_map(|reader| Some((*reader, recognise(printed, reader)?)));
    let mut found: Vec<_> = found.collect();
    if found.len() > 1 {
        return Err(ReadersError::Ambiguous { readers: found.into_iter().map(|(reader, _)| reader).collect() });
    }
    let Some((reader, form)) = found.pop() else {
        return Err(ReadersError::NotRecognised { readers: readers.to_vec() });
    };
    let error = |source| ReadersError::Read { reader: reader.name, source };
    let reading = read_form(printed, form, reader.of_several).map_err(error)?;
    if reading.figures().is_empty() {
        return Err(error(ReadError::NoNumber { known_by: form.known_by }));
    }
    Ok(Recognised { reader, latency: form.latency, reading })
}

/// The number that a user's expression finds.
///
/// # Errors
/// It matches nowhere or at several places, or no number.
pub fn read_expression(printed: &Printed, expression: &Expression) -> Result<f64, ReadersError> {
    let pattern = || expression.pattern().to_owned();
    let found = [&printed.stdout, &printed.stderr].map(|text| expression.matches(text)).concat();
    match found[..] {
        [] => Err(ReadersError::NoMatch { pattern: pattern() }),
        [number] => units::parse(number).map_err(|source| ReadersError::Number { pattern: pattern(), source }),
        _ => {
            let found = found.into_iter().map(str::to_owned).collect();
            Err(ReadersError::Matches { pattern: pattern(), found })
        }
    }
}

/// The first form of a tool that the output has.
fn recognise(printed: &Printed, reader: &Reader) -> Option<&'static Form> {
    let text = &printed.stdout;
    reader.forms.iter().find(|form| match &form.notation {
        Notation::Text { marks, .. } => text::has_marks(text, marks),
        Notation::Json { marks, .. } => json::object(text, marks).is_some(),
        Notation::Columns { marks, .. } => columns::table(text, marks).is_some(),
    })
}

fn read_form(printed: &Printed, form: &Form, of_several: &str) -> Result<Reading, ReadError> {
    let text = &printed.stdout;
    match &form.notation {
        Notation::Text { rules, .. } => text::read(text, rules, of_several),
        Notation::Json { marks, error, parts, rules } => match json::object(text, marks) {
            Some(object) => json::read(&object, *error, parts, rules, of_several),
            None => Ok(Reading::default()),
        },
        Notation::Columns { marks, rules } => match columns::table(text, marks) {
            Some((titles, rows)) => columns::read(&titles, &rows, rules, of_several),
            None => Ok(Reading::default()),
        },
    }
}

fn names(readers: &[&'static Reader]) -> String {
    readers.iter().map(|reader| reader.name).collect::<Vec<_>>().join(", ")
}

fn looked_for(readers: &[&'static Reader]) -> String {
    let forms = readers.iter().flat_map(|reader| reader.forms);
    forms.map(|form| format!("\n  {}", form.known_by)).collect()
}

/// The first of many matches.
fn first(found: &[String]) -> String {
    found.iter().take(SHOWN_MAX).cloned().collect::<Vec<_>>().join(", ")
}

/// Text without colours (ECMA-48, `ESC [ ... letter`), with a carriage return as the end of a line.
fn plain(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes).replace("\r\n", "\n").replace('\r', "\n");
    let mut plain = String::with_capacity(text.len());
    let mut parts = text.split("\u{1b}[");
    plain.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let end = part.find(|c: char| c.is_ascii_alphabetic()).map_or(0, |end| end + 1);
        plain.push_str(&part[end..]);
    }
    plain
}
