//! Generated sequences of calls.
use crate::programs::Programs;
pub fn compare(_programs: &Programs) {}
