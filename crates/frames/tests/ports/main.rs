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
mod senders;
mod shares;
mod tx_queues;

use nearwire_lab::emulated_host::{HostHardware, HostNic, NicKind, OwnTests, StockKernel};

fn tests() -> OwnTests {
    let programs = ["ip", "setpriv", "prlimit"];
    let hardware = HostHardware { nics: vec![HostNic::new(NicKind::VirtioNet); 2], ..HostHardware::default() };
    OwnTests::new(&["cable", "jumbo", "overflow", "tx_queues", "raw", "senders", "shares"])
        .with_programs(&programs)
        .on(hardware)
}

#[test]
fn ports_on_stock_kernel_6_1() {
    tests().run_or_skip(StockKernel::Linux6_1);
}

#[test]
fn ports_on_stock_kernel_6_12() {
    tests().run_or_skip(StockKernel::Linux6_12);
}
