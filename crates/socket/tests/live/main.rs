//! Sockets past the kernel on a virtual cable. Needs root and veth (or says SKIP).
#![allow(clippy::unwrap_used, reason = "what these functions do is test")]

#[path = "../common/mod.rs"]
mod common;
mod engine;
mod engines;
mod errors;
#[path = "../near/mod.rs"]
mod near;
mod sharing;
mod vlan;
