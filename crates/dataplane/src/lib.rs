//! Frames a second, loss and latency of a *device under test*: what stands between a generator and a sink.
//!
//! A [`trial`] is one run at one rate. What a device carries is found by many of them: [`search`].
#![forbid(unsafe_code)]

pub mod search;
pub mod trial;
