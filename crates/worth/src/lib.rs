//! What each setting of a host is worth: rounds with and without it, and what they differ by.
//!
//! ```text
//! rounds, screening      in which order which values are measured
//!    | run::measure      sets values by a Switch, runs each Subject
//!    v
//! estimate               pairs of runs -> a change with an interval
//!    | verdict           all settings together: better, worse, no effect, noise
//!    v
//! result::Measured       what tables, pages and files are made of
//! ```
//!
//! * [`subject`]: what is run under both values, a path of `nearwire bench` or a command;
//! * [`switch`]: values of a host, by way of its journal; [`cable_host`]: the host and the ends of a cable;
//! * [`store`]: results by host, for `nearwire check`;
//! * [`mod@never`]: what is switched by neither;
//! * [`vary`]: the values of `nearwire bench --vary`; [`noise`]: what disturbs the CPUs of a measurement.
#![forbid(unsafe_code)]

pub mod cable_host;
pub mod estimate;
pub mod interacts;
pub mod never;
pub mod noise;
pub mod result;
pub mod rounds;
pub mod run;
pub mod screening;
pub mod store;
pub mod subject;
pub mod switch;
mod unconfirmed;
pub mod vary;
pub mod verdict;
pub mod words;

pub use subject::{Figure, Figures, Subject, SubjectError};
