//! What the output of a tool looks like, as data.

use super::units::{Quantity, Unit};

/// One tool whose output is understood.
#[derive(Debug, PartialEq, Eq)]
pub struct Reader {
    /// The tool's name, by which it can be chosen.
    pub name: &'static str,
    /// The kinds of output that the tool has.
    pub forms: &'static [Form],
    /// What to do when the tool printed more results than one.
    pub of_several: &'static str,
}

/// One kind of output.
#[derive(Debug, PartialEq, Eq)]
pub struct Form {
    /// By what it is known, in words for messages.
    pub known_by: &'static str,
    /// What its latency is, in words for tables: it is taken as printed. None where no latency is printed.
    pub latency: Option<&'static str>,
    /// How it is written.
    pub notation: Notation,
}

/// How an output is written.
#[derive(Debug, PartialEq, Eq)]
pub enum Notation {
    /// Lines for people.
    Text {
        /// Expressions that all match such an output.
        marks: &'static [&'static str],
        /// Where its numbers are.
        rules: &'static [Rule],
    },
    /// One JSON object, perhaps after some lines of text.
    Json {
        /// Pointers (RFC 6901) that all exist in such an object.
        marks: &'static [&'static str],
        /// The pointer to an error that the tool reports, as text.
        error: Option<&'static str>,
        /// The objects that may hold the result. Exactly one is in use.
        parts: &'static [Part],
        /// Where its numbers are, within the part.
        rules: &'static [Field],
    },
    /// A line of titles, and a line of values for each result.
    Columns {
        /// Titles that all exist.
        marks: &'static [&'static str],
        /// Which column has which number.
        rules: &'static [Field],
    },
}

/// A number in a text.
#[derive(Debug, PartialEq, Eq)]
pub struct Rule {
    /// What it is. Of several rules for one quantity the first that matches counts.
    pub quantity: Quantity,
    /// An expression with the number as the group `value`, and as `unit` its unit where that is not fixed. It is over
    /// bytes, `^` and `$` are the ends of lines.
    pub pattern: &'static str,
    /// The unit.
    pub unit: Unit,
}

/// A number with a name: a member of a JSON object, or a column.
#[derive(Debug, PartialEq, Eq)]
pub struct Field {
    /// What it is. Of several fields for one quantity the first that exists counts.
    pub quantity: Quantity,
    /// The pointer (RFC 6901) within the part, or the title of the column.
    pub at: &'static str,
    /// The unit.
    pub unit: Unit,
}

/// An object that may hold the result.
#[derive(Debug, PartialEq, Eq)]
pub struct Part {
    /// The pointer to it.
    pub at: &'static str,
    /// Pointers, within the part, to numbers of which one is above zero when the part is in use.
    pub used: &'static [&'static str],
}
