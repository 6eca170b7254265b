//! Ports on a real kernel: this machine's, and the distribution's in emulated hosts.
//!
//! Names of files begin those of tests: `cargo test -p nearwire-frames --test ports shares`.
#![allow(clippy::unwrap_used, reason = "what these functions do is test")]

mod cable;
#[path = "../common/mod.rs"]
mod common;
mod jumbo;
mod overflow;
mod raw;
mod shares;
mod tx_queues;

use nearwire_lab::emulated_host::{OwnTests, StockKernel};

fn tests() -> OwnTests {
    let programs = ["ip", "setpriv", "prlimit"];
    OwnTests::new(&["cable", "jumbo", "overflow", "tx_queues", "raw", "shares"]).with_programs(&programs)
}

#[test]
fn ports_on_stock_kernel_6_1() {
    tests().run_or_skip(StockKernel::Linux6_1);
}

#[test]
fn ports_on_stock_kernel_6_12() {
    tests().run_or_skip(StockKernel::Linux6_12);
}
