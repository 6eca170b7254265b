//! Regular expressions over what a command printed, which may be any bytes.

use regex_automata::meta::{Builder, Config, Regex};
use regex_automata::util::captures::Captures;
use regex_automata::util::syntax;

/// Why an expression cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionError {
    /// It is not one.
    #[error("'{pattern}' is not a regular expression: {why}")]
    Syntax {
        /// The expression.
        pattern: String,
        /// Where it ends to be one.
        why: String,
    },
    /// The figure is what the group matches.
    #[error("'{pattern}' has {groups} groups; put the figure, and nothing else, in parentheses: '([0-9.]+) usec'")]
    Groups {
        /// The expression.
        pattern: String,
        /// How many it has.
        groups: usize,
    },
}

/// A user's expression with one group, the figure.
#[derive(Clone, Debug)]
pub struct Expression {
    pattern: String,
    regex: Regex,
}

impl Expression {
    /// An expression in the syntax of the crate `regex`, over bytes; `^` and `$` are the ends of lines.
    ///
    /// # Errors
    /// It is none, or has not one group.
    pub fn new(pattern: &str) -> Result<Expression, ExpressionError> {
        let regex = compile(pattern)?;
        match regex.group_info().group_len(regex_automata::PatternID::ZERO).saturating_sub(1) {
            1 => Ok(Expression { pattern: pattern.to_owned(), regex }),
            groups => Err(ExpressionError::Groups { pattern: pattern.to_owned(), groups }),
        }
    }

    /// As the user wrote it.
    #[must_use]
    pub fn pattern(&self) -> &str {
        &self.pattern
    }

    /// What the group matched, at each place.
    pub(super) fn matches<'text>(&self, text: &'text str) -> Vec<&'text str> {
        let groups = self.regex.captures_iter(text).filter_map(|captures| captures.get_group(1));
        groups.filter_map(|span| text.get(span.range())).collect()
    }
}

/// Compiles an expression over bytes, in which `^` and `$` are the ends of lines.
pub(super) fn compile(pattern: &str) -> Result<Regex, ExpressionError> {
    let syntax = syntax::Config::new().unicode(false).utf8(false).multi_line(true);
    let config = Config::new().utf8_empty(false);
    Builder::new().configure(config).syntax(syntax).build(pattern).map_err(|error| {
        let why = error.syntax_error().map_or_else(|| error.to_string(), ToString::to_string);
        ExpressionError::Syntax { pattern: pattern.to_owned(), why }
    })
}

/// What the named group matched.
pub(super) fn group<'text>(captures: &Captures, name: &str, text: &'text str) -> Option<&'text str> {
    captures.get_group_by_name(name).and_then(|span| text.get(span.range()))
}
