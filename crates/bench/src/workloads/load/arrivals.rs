//! How messages are spread over time.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How messages are spread over time, at the same average rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Arrivals {
    /// The same time between any two: what a loop of a control system sends.
    Fixed,
    /// A Poisson process: what many independent users send.
    Poisson,
    /// So many at once, and then none until the average is met again.
    Bursts(u32),
}

/// Most messages of a burst.
const BURST_MOST: u32 = 65_536;

/// Words that say no spread.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is no spread of messages; give fixed, poisson or bursts=N (2 to {BURST_MOST} messages at once)")]
pub struct ArrivalsError {
    /// What was given.
    text: String,
}

impl FromStr for Arrivals {
    type Err = ArrivalsError;

    fn from_str(text: &str) -> Result<Arrivals, ArrivalsError> {
        let burst = || {
            let messages = text.strip_prefix("bursts=")?.parse().ok()?;
            (2..=BURST_MOST).contains(&messages).then_some(Arrivals::Bursts(messages))
        };
        match text {
            "fixed" => Ok(Arrivals::Fixed),
            "poisson" => Ok(Arrivals::Poisson),
            _ => burst().ok_or_else(|| ArrivalsError { text: text.to_owned() }),
        }
    }
}

impl fmt::Display for Arrivals {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Arrivals::Fixed => out.pad("fixed"),
            Arrivals::Poisson => out.pad("poisson"),
            Arrivals::Bursts(messages) => out.pad(&format!("bursts={messages}")),
        }
    }
}

impl TryFrom<String> for Arrivals {
    type Error = ArrivalsError;

    fn try_from(text: String) -> Result<Arrivals, ArrivalsError> {
        text.parse()
    }
}

impl From<Arrivals> for String {
    fn from(arrivals: Arrivals) -> String {
        arrivals.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_are_written() {
        for arrivals in [Arrivals::Fixed, Arrivals::Poisson, Arrivals::Bursts(2), Arrivals::Bursts(BURST_MOST)] {
            assert_eq!(arrivals.to_string().parse(), Ok(arrivals));
        }
    }

    #[test]
    fn other_words_are_refused_with_those_that_are_known() {
        for text in ["", "uniform", "bursts", "bursts=", "bursts=1", "bursts=65537", "bursts=-4", "Fixed"] {
            let error = text.parse::<Arrivals>().unwrap_err().to_string();
            assert!(error.contains("poisson") && error.contains(text), "{error}");
        }
    }
}
