//! The command over cables: measurements, captures, and what accelerated programs tell. On this machine's kernel, and on the
//! distribution's in emulated hosts.
//!
//! Names of files begin those of tests: `cargo test -p nearwire-cli --test live capture_process`.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod bench;
mod by_agent;
mod bypass;
mod capture;
mod capture_process;
#[path = "../common/mod.rs"]
mod common;
mod connections;
mod dataplane;
mod dry_run;
mod forward;
mod guests;
mod inherited;
mod jumbo;
mod kills;
mod load;
mod ownership;
mod requests;
mod shared_port;
mod stations;
mod status_live;
mod tcp_bursts;
mod tcp_postgresql;
mod tcp_processes;
mod tcp_programs;
mod tcp_servers;
mod tcp_storms;
mod tcp_ways;
mod users;

use nearwire_lab::emulated_host::{HostHardware, OwnTests, StockKernel};

/// What the kernel has a part in, and not the words of refusals. Each takes seconds in emulation.
const TESTS: [&str; 23] = [
    "bench::every_named_path",
    "capture::datagrams_captured",
    "capture::frames_beyond_the_ring",
    "capture::interface_removed",
    "capture_process::capture_with_limits",
    "capture_process::capturer_killed",
    "connections::agent_killed",
    "connections::link_down",
    "connections::program_killed",
    "dry_run::",
    "forward::frames_of_a_generator",
    "jumbo::datagrams_of_accelerated",
    "jumbo::kernel_without",
    "stations::sink_without_settings",
    "status_live::program_running",
    "status_live::interface_of_another_process",
    "status_live::times_asked_for",
    "status_live::stats_asked_for",
    "tcp_bursts::connection_that_sends_bulk",
    "tcp_bursts::segment_that_its_sender_left",
    "tcp_servers::server_that_may",
    "tcp_storms::",
    "tcp_ways::",
];

fn tests() -> OwnTests {
    let library = std::env::current_exe().unwrap().with_file_name("libnearwire_preload.so");
    let programs = ["env", "ip", "tcpdump", "setpriv", "prlimit", "sh"];
    let modules = ["socket", "os", "errno", "time", "struct", "threading", "ctypes", "signal", "encodings.idna"];
    OwnTests::new(&TESTS)
        .with_programs(&programs)
        .with_python(&modules)
        .with_file(common::NEARWIRE)
        .with_file(library)
        .on(HostHardware { cores_per_package: 1, ..HostHardware::default() })
}

#[test]
fn command_on_stock_kernel_6_1() {
    tests().run_or_skip(StockKernel::Linux6_1);
}

#[test]
fn command_on_stock_kernel_6_12() {
    tests().run_or_skip(StockKernel::Linux6_12);
}

#[test]
#[ignore = "minutes: make test-kernels"]
fn command_on_stock_kernel_newest() {
    tests().run_or_skip(StockKernel::Newest);
}
