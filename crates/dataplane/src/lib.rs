//! Frames a second, loss and latency of a *device under test*: what stands between a generator and a sink.
//!
//! A [`trial`] is one run at one rate. What a device carries is found by many of them: [`search`]. A [`forwarder`] is a device of our own:
//! ports, and a [`function`] that says what becomes of each frame.
#![forbid(unsafe_code)]

pub mod bed;
pub mod device;
pub mod experiment;
pub mod forwarder;
pub mod function;
pub mod ports;
pub mod search;
pub mod tester;
pub mod topology;
pub mod traffic;
pub mod trial;
