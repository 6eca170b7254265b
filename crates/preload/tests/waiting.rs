//! Threads that wait at the same time, each in its own way: what arrives is delivered once, and no thread sleeps while its
//! data waits. Needs namespaces and a C compiler (or says SKIP).
#![allow(clippy::unwrap_used, reason = "what these functions do is test")]

mod common;

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use common::{compiled, library, missing};
use nearwire_lab::{Cable, VirtualCable, VirtualCableOptions, program_under_test};

const PORT: &str = "6000";
/// A program that has not ended by then hangs.
const TIMEOUT: Duration = Duration::from_secs(15);
/// How long the far end sends.
const SENDING_MS: &str = "3000";
/// CPU time in a second of which most threads sleep: the library's own wakings, and the kernel's accounting.
const IDLE_US_MOST: u64 = 20_000;

/// The program at one end of the cable; with `spin`, with the library.
fn start(cable: &VirtualCable, program: &Path, mode: &str, spin: Option<&str>) -> Child {
    let end = if mode == "send" { cable.far() } else { cable.near() };
    let mut command = program_under_test(program);
    command.arg(mode).arg(cable.near().ipv4.to_string()).arg(PORT).arg(SENDING_MS).stdout(Stdio::piped());
    if let Some(spin) = spin {
        command.env("LD_PRELOAD", library()).env("NEARWIRE_SPIN", spin).env("NEARWIRE_MODE", "generic");
    }
    end.namespace.enter(|| command.spawn()).unwrap().unwrap()
}

/// What the program said to its end.
fn said(mut child: Child, mut output: impl Read) -> String {
    let deadline = Instant::now() + TIMEOUT;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status.to_string();
        }
        if Instant::now() > deadline {
            child.kill().unwrap();
            break format!("hung; {}", child.wait().unwrap());
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let mut text = String::new();
    output.read_to_string(&mut text).unwrap();
    format!("{text}{status}")
}

fn everything_is_answered_once(spin: &str) {
    if missing() {
        return;
    }
    let program = compiled("waiting");
    let cable = VirtualCable::lay(VirtualCableOptions::default()).unwrap();
    let mut receiver = start(&cable, &program, "receive", Some(spin));
    let mut output = BufReader::new(receiver.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    let mut sender = start(&cable, &program, "send", None);
    let sent = sender.stdout.take().unwrap();
    let sent = said(sender, sent);
    if !sent.starts_with("all of ") {
        receiver.kill().unwrap();
    }
    let received = said(receiver, output);
    assert!(sent.starts_with("all of ") && received == "end\nexit status: 0", "{sent}; receiver: {received}");
    println!("{sent}");
}

#[test]
fn threads_that_sleep_waiting_get_every_datagram_once() {
    everything_is_answered_once("0");
}

#[test]
fn threads_that_spin_waiting_get_every_datagram_once() {
    everything_is_answered_once("forever");
}

#[test]
fn threads_that_spin_for_a_while_waiting_get_every_datagram_once() {
    everything_is_answered_once("50us");
}

#[test]
fn waiting_process_idle_uses_no_cpu() {
    if missing() {
        return;
    }
    let program = compiled("waiting");
    let cable = VirtualCable::lay(VirtualCableOptions::default()).unwrap();
    let mut child = start(&cable, &program, "idle", Some("50us"));
    let output = child.stdout.take().unwrap();
    let said = said(child, output);
    let used_us: u64 = said.lines().next().and_then(|line| line.parse().ok()).unwrap_or_else(|| panic!("{said}"));
    assert!(used_us < IDLE_US_MOST, "{used_us} us of CPU time in a second without traffic");
}

/// Answers that a program gets from another one on the same CPU.
fn answers_on_one_cpu(program: &Path, spin: &str) -> u64 {
    let cable = VirtualCable::lay(VirtualCableOptions::default()).unwrap();
    let at = cable.far().ipv4.to_string();
    let start = |end: &nearwire_lab::CableEnd, mode: &str| {
        let mut command = program_under_test(program);
        command.args([mode, &at, PORT, "3000"]).stdout(Stdio::piped());
        command.env("LD_PRELOAD", library()).env("NEARWIRE_SPIN", spin).env("NEARWIRE_MODE", "generic");
        end.namespace.enter(|| command.spawn()).unwrap().unwrap()
    };
    let mut server = start(cable.far(), "echo");
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    let mut client = start(cable.near(), "ask");
    let output = client.stdout.take().unwrap();
    let said = said(client, output);
    server.kill().unwrap();
    server.wait().unwrap();
    said.lines().next().and_then(|line| line.parse().ok()).unwrap_or_else(|| panic!("{said}"))
}

#[test]
fn two_programs_on_one_cpu_are_not_slowed_down_by_spinning() {
    if missing() {
        return;
    }
    let program = compiled("one_cpu");
    // Against sleeping in the library, which compiled for tests is slower than the kernel in everything.
    let (sleeping, auto) = (answers_on_one_cpu(&program, "0"), answers_on_one_cpu(&program, "auto"));
    println!("answers in 1.5 s: sleeping {sleeping}, auto {auto}");
    assert!(auto * 2 >= sleeping, "sleeping {sleeping}, auto {auto}");
}
