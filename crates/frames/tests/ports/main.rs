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
    let pair = |(segment, kind)| vec![HostNic { segment, ..HostNic::new(kind) }; 2];
    let kinds = [NicKind::VirtioNet, NicKind::E1000e, NicKind::Vmxnet3];
    let hardware = HostHardware { nics: (0..).zip(kinds).flat_map(pair).collect(), ..HostHardware::default() };
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

#[test]
#[ignore = "minutes: make test-kernels"]
fn ports_on_stock_kernel_newest() {
    tests().run_or_skip(StockKernel::Newest);
}
