//! From round trips to figures: quantiles with intervals, mean, slow events, and what to doubt.
//!
//! A [`Distribution`] belongs to one cell. It takes the round trips of one round after another and, at the
//! end, gives a [`Summary`] for the record. Nothing here is on the path of a message: rounds are handed over
//! when they are finished.
//!
//! A message that was lost has no latency, and it was slower than every message that came back. So quantiles are taken
//! over all messages that were sent, and the lost ones rank above all others. A quantile whose rank falls among them
//! has no value. Least, greatest, mean and standard deviation are those of the messages that came back.
//!
//! - [`rank`]: which order statistic a quantile is, how many samples support it, and its interval.
//! - [`spread`]: how much wider the interval must be because neighbouring samples resemble each other.
//! - [`student`]: Student's distribution at any level.
//! - [`trend`] and [`modes`]: whether the figures drifted, or are a mixture of two states.

mod distribution;
mod doubts;
pub mod modes;
mod moments;
mod quantiles;
pub mod rank;
pub mod spread;
mod store;
pub mod student;
pub mod trend;

pub use distribution::{Distribution, RoundFigures, Summary};
pub use doubts::doubts;
pub use quantiles::{PERCENTS, is_lost, quantiles_of};
