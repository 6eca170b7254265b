//! What was read from an output.

use std::collections::BTreeMap;

use super::units::NumberError;
use super::units::Quantity;
use crate::subject::{Figure, Figures};

/// Why an output of a known form holds no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The form was recognised, and none of its numbers is there.
    #[error("it begins like {known_by}, and holds no result: was it cut off?")]
    NoNumber {
        /// By what it is known.
        known_by: &'static str,
    },
    /// One number would have to be chosen.
    #[error("{what} stands there {count} times; {advice}")]
    Several {
        /// Which number.
        what: String,
        /// How often.
        count: usize,
        /// What to do.
        advice: String,
    },
    /// A number that is none.
    #[error("{what}: {source}")]
    Number {
        /// Which number.
        what: String,
        /// What stands there.
        source: NumberError,
    },
    /// The tool reports an error of its own.
    #[error("it reports an error: {text}")]
    Reported {
        /// What it says.
        text: String,
    },
}

/// The numbers of one output, in the units of their quantities.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    numbers: BTreeMap<Quantity, f64>,
}

impl Reading {
    /// Notes a number.
    pub(super) fn put(&mut self, quantity: Quantity, number: f64) {
        self.numbers.insert(quantity, number);
    }

    /// Whether the number is known.
    pub(super) fn has(&self, quantity: Quantity) -> bool {
        self.numbers.contains_key(&quantity)
    }

    /// The figures.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let figure = |(quantity, number): (&Quantity, &f64)| match quantity {
            Quantity::Figure(figure) => Some((*figure, *number)),
            Quantity::Messages | Quantity::Elapsed => None,
        };
        self.numbers.iter().filter_map(figure).collect()
    }

    /// Messages of the run: as printed, or of rate and time. None if neither is known.
    #[must_use]
    pub fn messages(&self) -> Option<f64> {
        let get = |quantity| self.numbers.get(&quantity).copied();
        let of_rate = || {
            let elapsed_ns = get(Quantity::Elapsed)?;
            Some(get(Quantity::Figure(Figure::RatePerSecond))? * elapsed_ns / 1e9)
        };
        get(Quantity::Messages).or_else(of_rate).filter(|messages| *messages >= 1.0)
    }
}

/// A quantity in words.
pub(super) fn words(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::Figure(Figure::P50Ns) => "the median",
        Quantity::Figure(Figure::P99Ns) => "the percentile 99",
        Quantity::Figure(Figure::P999Ns) => "the percentile 99.9",
        Quantity::Figure(Figure::CpuPerMessageNs) => "the CPU time of a message",
        Quantity::Figure(Figure::RatePerSecond) => "the rate",
        Quantity::Figure(Figure::BitsPerSecond) => "the bit rate",
        Quantity::Figure(Figure::Less | Figure::More) => "the figure",
        Quantity::Messages => "the number of messages",
        Quantity::Elapsed => "the time it took",
    }
}
