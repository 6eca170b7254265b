//! What is measured under both values of a setting: a path of `nearwire bench`, or the user's own command.

pub mod command;
pub mod path;
pub mod readers;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A figure of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// Half of the round trip, median, nanoseconds. Of a command: its latency as printed, which may be a round trip or
    /// the time of a request ([`command::UserCommand::latency`] says).
    P50Ns,
    /// The same, of which one of a hundred is longer.
    P99Ns,
    /// The same, of which one of a thousand is longer.
    P999Ns,
    /// CPU time of a message, nanoseconds.
    CpuPerMessageNs,
    /// Messages, requests or transactions in a second.
    RatePerSecond,
    /// Bits in a second.
    BitsPerSecond,
    /// A number that the user's expression finds, of which less is better.
    Less,
    /// The same, of which more is better.
    More,
}

impl Figure {
    /// The figure as a column of a table is called.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Figure::P50Ns => "p50",
            Figure::P99Ns => "p99",
            Figure::P999Ns => "p99.9",
            Figure::CpuPerMessageNs => "CPU/message",
            Figure::RatePerSecond => "rate/s",
            Figure::BitsPerSecond => "bits/s",
            Figure::Less => "less is better",
            Figure::More => "more is better",
        }
    }

    /// Whether it is a time in nanoseconds.
    #[must_use]
    pub const fn is_time(self) -> bool {
        matches!(self, Figure::P50Ns | Figure::P99Ns | Figure::P999Ns | Figure::CpuPerMessageNs)
    }

    /// Whether a greater value is the better one.
    #[must_use]
    pub const fn more_is_better(self) -> bool {
        matches!(self, Figure::RatePerSecond | Figure::BitsPerSecond | Figure::More)
    }
}

/// What one run came to.
pub type Figures = BTreeMap<Figure, f64>;

/// Why a run came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum SubjectError {
    /// It could not be started.
    #[error("'{what}' could not be started: {why}")]
    Start {
        /// The path or the command.
        what: String,
        /// What the kernel said.
        why: String,
    },
    /// It ran and failed.
    #[error("'{what}' failed: {why}")]
    Failed {
        /// The path or the command.
        what: String,
        /// Its last lines.
        why: String,
    },
    /// It ran, and what it printed holds no figure.
    #[error("no figure was found in what '{what}' printed; {why}")]
    NoFigure {
        /// The path or the command.
        what: String,
        /// What was looked for.
        why: String,
    },
}

/// Something that is run once per value of a setting and round.
pub trait Subject {
    /// How it is called in tables: `udp/spin`, or the command line.
    fn name(&self) -> String;
    /// Runs it once. All runs of a subject have the same figures.
    ///
    /// # Errors
    /// See [`SubjectError`].
    fn run(&mut self) -> Result<Figures, SubjectError>;
}
