//! Programs with several threads, whose sockets move between engines while they work: every datagram comes back to whom it is
//! for, whatever the program does meanwhile. Needs namespaces and a C compiler (or says SKIP).
#![allow(clippy::unwrap_used, reason = "what these functions do is test")]

mod common;

use std::net::UdpSocket;
use std::process::Output;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use common::{compiled, library, missing};
use nearwire_lab::{Cable, VirtualCable, VirtualCableOptions, program_under_test};

/// Each a socket of its own.
const THREADS: u32 = 3;
const ROUNDS: u32 = 20_000;
/// Where each way to wait is tried.
const ROUNDS_EACH: u32 = 3_000;

/// Sends everything back until `is_over`.
fn echo(socket: &UdpSocket, is_over: &AtomicBool) {
    let mut datagram = [0; 64];
    while !is_over.load(Relaxed) {
        if let Ok((length, from)) = socket.recv_from(&mut datagram) {
            socket.send_to(&datagram[..length], from).unwrap();
        }
    }
}

/// Runs the program with the library on a cable with so many queues.
fn ran(queues: u32, variables: &[(&str, &str)], way: &str, disturbances: &[&str]) -> Option<Output> {
    ran_for(ROUNDS, queues, variables, way, disturbances)
}

fn ran_for(rounds: u32, queues: u32, variables: &[(&str, &str)], way: &str, disturbances: &[&str]) -> Option<Output> {
    if missing() {
        return None;
    }
    let program = compiled("engines");
    let cable = VirtualCable::lay(VirtualCableOptions { queues, ..VirtualCableOptions::default() }).unwrap();
    let far = cable.far().namespace.enter(|| UdpSocket::bind((cable.far().ipv4, 0))).unwrap().unwrap();
    far.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let at = far.local_addr().unwrap();
    let mut command = program_under_test(program);
    command.args([way, &at.ip().to_string(), &at.port().to_string(), &THREADS.to_string(), &rounds.to_string()]);
    command.args(disturbances).env("LD_PRELOAD", library()).env("NEARWIRE_STATS", "1").env("NEARWIRE_STRICT", "1");
    command.envs(variables.iter().copied());
    let is_over = AtomicBool::new(false);
    let output = std::thread::scope(|scope| {
        scope.spawn(|| echo(&far, &is_over));
        let output = cable.near().namespace.enter(|| command.output()).unwrap().unwrap();
        is_over.store(true, Relaxed);
        output
    });
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{way} {disturbances:?}: {}\n{text}", output.status);
    Some(output)
}

/// How many engines there were at the end.
fn engines(output: &Output) -> u32 {
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().find(|line| line.contains(" engines"));
    line.and_then(|line| line.split(" engines").next()?.split_ascii_whitespace().last()?.parse().ok()).unwrap_or(1)
}

/// With `auto` sockets are the kernel's where others want the CPUs, and in no engine.
const STAYS: (&str, &str) = ("NEARWIRE_SPIN", "50us");

#[test]
fn threads_with_a_queue_each_get_an_engine_each() {
    for way in ["blocking", "nonblocking", "epoll", "poll", "polls", "select"] {
        let Some(output) = ran(4, &[STAYS], way, &["nothing"]) else { return };
        assert!(engines(&output) > 1, "{way}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn threads_on_one_queue_get_an_engine_each() {
    let Some(output) = ran(1, &[STAYS], "epoll", &["nothing"]) else { return };
    assert!(engines(&output) > 1, "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn engines_configured_are_the_most_there_are() {
    let Some(output) = ran(4, &[("NEARWIRE_ENGINES", "1")], "epoll", &["nothing"]) else { return };
    assert_eq!(engines(&output), 1);
}

#[test]
fn other_thread_copies_polls_and_sets_options_meanwhile() {
    for way in ["blocking", "epoll"] {
        ran(4, &[], way, &["dup", "poll", "option", "open"]);
    }
}

#[test]
fn other_thread_registers_all_sockets_in_one_set_meanwhile() {
    for way in ["blocking", "epoll", "poll", "polls"] {
        ran(4, &[], way, &["set", "nested"]);
    }
}

#[test]
fn other_thread_does_what_only_the_first_engine_can_meanwhile() {
    for way in ["blocking", "epoll"] {
        ran(4, &[], way, &["group", "times", "connect"]);
    }
}

/// Sockets stay in engines where others want the CPUs, however calls wait.
const SPINS: [&str; 3] = ["0", "50us", "forever"];

/// With every way to wait there are several engines at the end.
#[track_caller]
fn go_on_in_an_engine_each(ways: &[&str], disturbance: &str) {
    for (spin, way) in SPINS.iter().flat_map(|spin| ways.iter().map(move |way| (spin, way))) {
        let spins = [("NEARWIRE_SPIN", *spin)];
        let Some(output) = ran_for(ROUNDS_EACH, 4, &spins, way, &[disturbance]) else { return };
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(engines(&output) > 1, "{way} {disturbance}, spin {spin}: {text}");
    }
}

#[test]
fn engines_go_on_while_another_thread_forks() {
    go_on_in_an_engine_each(&["blocking", "epoll", "bursts"], "fork");
}

#[test]
fn children_that_end_or_execute_leave_threads_an_engine_each() {
    for children in ["fork-once", "fork-twice", "exec"] {
        go_on_in_an_engine_each(&["blocking", "epoll"], children);
    }
}

#[test]
fn engines_go_on_beside_a_child_that_lives() {
    go_on_in_an_engine_each(&["blocking", "epoll"], "child");
}

#[test]
fn threads_spin_in_native_mode() {
    ran(4, &[("NEARWIRE_MODE", "native"), ("NEARWIRE_SPIN", "100us")], "epoll", &["dup", "set"]);
}
