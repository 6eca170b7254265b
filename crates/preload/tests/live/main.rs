//! Programs in C with the library preloaded, over a cable: on this machine's kernel, and on the distribution's in emulated hosts.
//!
//! Names of files begin those of tests: `cargo test -p nearwire-preload --test live faults`.
#![allow(clippy::unwrap_used, reason = "what these functions do is test")]

mod bursts;
#[path = "../common/mod.rs"]
mod common;
mod faults;
mod io_uring;
mod stacks;
mod stamping;

use nearwire_lab::emulated_host::{HostHardware, OwnTests, StockKernel};

/// What the kernel has a part in. Each takes seconds in emulation.
const TESTS: [&str; 10] = [
    "bursts::burst_beyond_the_default",
    "bursts::burst_for_forty",
    "bursts::ring_that_fills",
    "faults::interface_down_and_up",
    "faults::link_that_flaps",
    "faults::program_detached",
    "faults::program_that_changes_its_root",
    "faults::program_with_another_root",
    "io_uring",
    // How deep each call goes is measured on this machine alone: what the dynamic linker saves depends on the processor.
    "stacks::threads_with",
];

fn on_stock_kernel(kernel: StockKernel) {
    if common::missing() {
        return;
    }
    let programs = ["bursts", "puppet", "io_uring", "io_uring_raw", "stacks", "stamping"].map(common::compiled);
    let tests = OwnTests::new(&TESTS).with_programs(&["ip", "sh", "env", "setpriv", "prlimit", "true"]);
    let tests = programs.into_iter().fold(tests.with_file(common::library()), OwnTests::with_file);
    tests.on(HostHardware { cores_per_package: 1, ..HostHardware::default() }).run_or_skip(kernel);
}

#[test]
fn programs_on_stock_kernel_6_1() {
    on_stock_kernel(StockKernel::Linux6_1);
}

#[test]
fn programs_on_stock_kernel_6_12() {
    on_stock_kernel(StockKernel::Linux6_12);
}

#[test]
#[ignore = "minutes: make test-kernels"]
fn programs_on_stock_kernel_newest() {
    on_stock_kernel(StockKernel::Newest);
}
