//! What each setting of a host is worth: rounds with and without it, and what they differ by.
#![forbid(unsafe_code)]

pub mod noise;
pub mod subject;
pub mod vary;

pub use subject::{Figure, Figures, Subject, SubjectError};
