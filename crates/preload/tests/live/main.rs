//! Programs in C with the library preloaded, over a cable: on this machine's kernel, and on the distribution's in emulated hosts.
//!
//! Names of files begin those of tests: `cargo test -p nearwire-preload --test live faults`.
#![allow(clippy::unwrap_used, reason = "what these functions do is test")]

mod bursts;
#[path = "../common/mod.rs"]
mod common;
mod faults;
mod io_uring;
mod processes;
mod stacks;
mod stamping;

use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;

use nearwire_agent::life::serve;
use nearwire_agent::ports::xdp::XdpPorts;
use nearwire_agent::server::Stay;
use nearwire_lab::CableEnd;
use nearwire_lab::emulated_host::{HostHardware, OwnTests, StockKernel, is_inside};

/// What the kernel has a part in. Each takes seconds in emulation.
const TESTS: [&str; 12] = [
    "bursts::burst_beyond_the_default",
    "bursts::burst_for_forty",
    "bursts::ring_that_fills",
    "faults::interface_down_and_up",
    "faults::link_that_flaps",
    "faults::program_detached",
    "faults::program_that_changes_its_root",
    "faults::program_with_another_root",
    "io_uring",
    "processes::",
    // How deep each call goes is measured on this machine alone: what the dynamic linker saves depends on the processor.
    "stacks::threads_with",
    "stamping::",
];

/// Runs `test` at an end of a cable where an agent is.
fn beside_an_agent<R>(near: &CableEnd, test: impl FnOnce() -> R) -> R {
    let (ready, is_ready) = channel();
    let start = || {
        std::thread::spawn(move || {
            // In an emulated host a program may need more than half a second until its first socket.
            let stay = Stay::Linger(Duration::from_millis(if is_inside() { 1500 } else { 500 }));
            serve(XdpPorts::new().unwrap(), Path::new("/none"), stay, || ready.send(()).unwrap()).unwrap();
        })
    };
    let agent = near.namespace.enter(start).unwrap();
    is_ready.recv().unwrap();
    let result = test();
    agent.join().unwrap();
    result
}

fn on_stock_kernel(kernel: StockKernel) {
    if common::missing() {
        return;
    }
    let programs =
        ["bursts", "puppet", "io_uring", "io_uring_raw", "processes", "stacks", "stamping"].map(common::compiled);
    let tests = OwnTests::new(&TESTS).with_programs(&["ip", "sh", "env", "setpriv", "prlimit", "timeout", "true"]);
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
