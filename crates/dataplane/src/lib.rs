//! Frames a second, loss and latency of a *device under test*: what stands between a generator and a sink.
//!
//! A [`trial`] is one run at one rate. What a device carries is found by many of them.
#![forbid(unsafe_code)]

pub mod bed;
pub mod device;
pub mod ports;
pub mod tester;
pub mod topology;
pub mod traffic;
pub mod trial;
