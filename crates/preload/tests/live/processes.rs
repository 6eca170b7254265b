//! Accelerated programs that fork, execute and end: what the scripts of `differential` cannot see, which is whether datagrams
//! still pass the kernel by. Needs network namespaces, AF_XDP and a C compiler (or says SKIP).

use std::net::UdpSocket;
use std::path::PathBuf;
use std::sync::OnceLock;

use nearwire_lab::{Cable, VirtualCable, VirtualCableOptions, program_under_test};

use crate::common::{WAITS, compiled, library, missing, tried};

/// Exchanges in one measurement (`ROUNDS` of `processes.c`).
const ROUNDS: u32 = 100;
/// Of these, what may come by the kernel after a fork: until the parent has looked, and what came before a filter.
const BY_KERNEL_MOST: u32 = 5;

/// What a scenario printed, for each way to wait that is tried; nothing where it cannot run.
fn said(scenario: &str) -> impl Iterator<Item = String> {
    let waits = if missing() { Vec::new() } else { tried(&WAITS) };
    waits.into_iter().map(move |&waits| said_with(scenario, waits))
}

fn said_with(scenario: &str, (spin, mode): (&str, &str)) -> String {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| compiled("processes"));
    let cable = VirtualCable::lay(VirtualCableOptions::default()).unwrap();
    let (near, far) = (cable.near(), cable.far());
    let echo = far.namespace.enter(|| UdpSocket::bind((far.ipv4, 7))).unwrap().unwrap();
    // Ends with the test's process.
    std::thread::spawn(move || {
        let mut data = [0; 2048];
        while let Ok((length, from)) = echo.recv_from(&mut data) {
            let _ = echo.send_to(&data[..length], from);
        }
    });
    let mut command = program_under_test("timeout");
    command.arg("20").arg(program).arg(scenario).arg(far.ipv4.to_string());
    command.env("LD_PRELOAD", library()).env("NEARWIRE_SPIN", spin).env("NEARWIRE_MODE", mode);
    let ran = near.namespace.enter(|| command.output()).unwrap().unwrap();
    let (out, errors) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success() && errors.is_empty(), "{scenario}, spin {spin}: {}: {out}{errors}", ran.status);
    println!("{scenario}, spin {spin}, {mode}:\n{out}");
    out.into_owned()
}

/// Of a line "who: came N, by kernel M".
fn measured(said: &str, who: &str) -> (u32, u32) {
    let line = said.lines().find_map(|line| line.strip_prefix(who)?.strip_prefix(": came "));
    let (came, by_kernel) = line.unwrap_or_else(|| panic!("no '{who}' in {said}")).split_once(", by kernel ").unwrap();
    (came.parse().unwrap(), by_kernel.parse().unwrap())
}

fn assert_accelerated(said: &str, who: &str) {
    let (came, by_kernel) = measured(said, who);
    assert_eq!(came, ROUNDS, "{who}: all came");
    assert!(by_kernel <= BY_KERNEL_MOST, "{who}: {by_kernel} of {came} came by the kernel");
}

fn assert_by_kernel(said: &str, who: &str) {
    assert_eq!(measured(said, who), (ROUNDS, ROUNDS), "{who}");
}

#[test]
fn children_and_helpers_started_leave_the_parent_accelerated() {
    for said in said("helpers") {
        for who in [
            "alone",
            "after a child",
            "after fork and exec",
            "after popen",
            "after vfork that closed",
            "after clone by syscall",
        ] {
            assert_accelerated(&said, who);
        }
    }
}

#[test]
fn socket_kept_open_over_execl_of_a_child_is_the_kernels() {
    for said in said("leaked") {
        assert_by_kernel(&said, "after execl with it");
    }
}

#[test]
fn parent_killed_frees_the_interface_for_the_child() {
    for said in said("killed") {
        assert_accelerated(&said, "own socket");
        assert_accelerated(&said, "inherited socket");
    }
}

#[test]
fn daemon_whose_parent_ended_is_accelerated() {
    for said in said("daemon") {
        assert_accelerated(&said, "daemon");
    }
}

#[test]
fn workers_that_wait_in_sets_of_their_own_read_everything_together() {
    for said in said("workers") {
        assert!(said.contains("read together: 200\n"), "{said}");
    }
}

#[test]
fn forking_server_serves_every_request_and_stays_accelerated() {
    for said in said("forking") {
        assert!(said.contains("served: 20\n"), "{said}");
        assert_accelerated(&said, "server");
    }
}

#[test]
#[ignore = "a measurement: prints what a fork costs"]
fn fork_with_an_accelerated_socket_costs() {
    said("cost").for_each(drop);
}
