//! Records as text: our own table, and the formats that users of other tools already parse.
//!
//! The formats of other tools show half round trips, as those tools do, and none invents a figure: what the
//! samples do not support is left out, or marked where the format has no way to leave it out.

mod csv;
mod exanic;
mod load_lines;
mod netpipe;
mod sockperf;
mod style;
mod table;
mod table_notes;
pub mod units;

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::json::{WriteError, write_json};
use crate::record::{Latency, Record};

pub(crate) use csv::{quoted, trimmed};
pub(crate) use load_lines::load_lines;
pub(crate) use style::{Ink, by_size};
pub(crate) use table::folded;
pub use table::{TableOptions, render_table};
pub(crate) use table_notes::{hanging, names};

/// What a record is printed as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// Our table for terminals.
    #[default]
    Table,
    /// Lines of `exanic_perf_test`.
    Exanic,
    /// Lines of `sockperf ping-pong`.
    Sockperf,
    /// Columns of NetPIPE's `np.out`.
    Netpipe,
    /// One row a cell.
    Csv,
    /// The record itself.
    Json,
}

impl Format {
    /// Every format, in the order of the documentation.
    pub const ALL: [Self; 6] = [Self::Table, Self::Exanic, Self::Sockperf, Self::Netpipe, Self::Csv, Self::Json];

    /// Name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Exanic => "exanic",
            Self::Sockperf => "sockperf",
            Self::Netpipe => "netpipe",
            Self::Csv => "csv",
            Self::Json => "json",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// A name that no format has.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("unknown format `{found}`; choose one of table, exanic, sockperf, netpipe, csv, json")]
pub struct UnknownFormat {
    /// What was given.
    pub found: String,
}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|format| format.name() == name)
            .ok_or_else(|| UnknownFormat { found: name.to_owned() })
    }
}

/// Why a record could not be rendered.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RenderError {
    /// The record cannot be expressed as JSON.
    #[error(transparent)]
    Json(#[from] WriteError),
    /// Another tool's format has no place for it.
    #[error(
        "print a record of {workload} as {format}: that format has half round trips of ping-pong only; take table, csv or json"
    )]
    NotOfPingPong {
        /// What was asked for.
        format: Format,
        /// The record's workload.
        workload: String,
    },
}

impl Format {
    /// Whether it has a place for more than half round trips.
    #[must_use]
    pub const fn is_of_any_workload(self) -> bool {
        match self {
            Self::Table | Self::Csv | Self::Json => true,
            Self::Exanic | Self::Sockperf | Self::Netpipe => false,
        }
    }
}

/// Renders a record; the table comes without colours and 120 columns wide (see [`render_table`]).
///
/// # Errors
/// See [`RenderError`].
pub fn render(record: &Record, format: Format) -> Result<String, RenderError> {
    if record.experiment.latency != Latency::HalfRtt && !format.is_of_any_workload() {
        return Err(RenderError::NotOfPingPong { format, workload: record.experiment.workload.clone() });
    }
    Ok(match format {
        Format::Table => render_table(record, TableOptions::default()),
        Format::Exanic => exanic::render(record),
        Format::Sockperf => sockperf::render(record),
        Format::Netpipe => netpipe::render(record),
        Format::Csv => csv::render(record),
        Format::Json => write_json(record)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_parses_its_own_name() {
        for format in Format::ALL {
            assert_eq!(format.to_string().parse(), Ok(format));
        }
    }

    #[test]
    fn unknown_format_names_the_choices() {
        let message = "xml".parse::<Format>().unwrap_err().to_string();
        for format in Format::ALL {
            assert!(message.contains(format.name()), "{message}");
        }
    }
}
