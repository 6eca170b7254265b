//! Threads that wait at the same time, each in its own way: what arrives is delivered once, and no thread sleeps while its
//! data waits. Needs namespaces and a C compiler (or says SKIP).
#![allow(clippy::unwrap_used, reason = "what these functions do is test")]

mod common;

use std::io::{BufRead, BufReader, Read, Seek};
use std::path::Path;
use std::process::{Child, Command, Stdio};
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
    let cable = VirtualCable::lay(VirtualCableOptions::default()).unwrap();
    everything_is_answered_once_by(&cable, |program| start(&cable, program, "receive", Some(spin)));
}

fn everything_is_answered_once_by(cable: &VirtualCable, receiver: impl FnOnce(&Path) -> Child) {
    let program = compiled("waiting");
    let mut receiver = receiver(&program);
    let mut output = BufReader::new(receiver.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    let mut sender = start(cable, &program, "send", None);
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

/// Ended when this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts programs on the first CPU: they run where the thread that starts them does.
fn on_one_cpu<R: Send>(start: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|scope| {
        let started = scope.spawn(|| {
            nearwire_sys::affinity::pin_current_thread_to(&[0]).unwrap();
            start()
        });
        started.join().unwrap()
    })
}

/// Their sockets are lent to the kernel and taken back meanwhile, whichever way their threads wait.
#[test]
fn threads_whose_cpu_others_want_get_every_datagram_once() {
    if missing() {
        return;
    }
    let cable = VirtualCable::lay(VirtualCableOptions::default()).unwrap();
    let neighbour = on_one_cpu(|| Running(Command::new("yes").stdout(Stdio::null()).spawn().unwrap()));
    let mut told = tempfile::tempfile().unwrap();
    everything_is_answered_once_by(&cable, |program| {
        on_one_cpu(|| {
            let mut command = program_under_test(program);
            command.args(["receive", &cable.near().ipv4.to_string(), PORT]).stdout(Stdio::piped());
            command.env("LD_PRELOAD", library()).env("NEARWIRE_SPIN", "auto").env("NEARWIRE_STATS", "1");
            command.stderr(told.try_clone().unwrap());
            cable.near().namespace.enter(|| command.spawn()).unwrap().unwrap()
        })
    });
    drop(neighbour);
    let mut text = String::new();
    told.rewind().unwrap();
    told.read_to_string(&mut text).unwrap();
    let told = |line: &str| line.trim().strip_suffix(" times a socket was lent to the kernel")?.parse::<u32>().ok();
    assert!(text.lines().find_map(told) > Some(0), "none was lent: {text}");
}

/// Answers that a program gets from another one on the same CPU.
fn answers_on_one_cpu(program: &Path, spin: Option<&str>) -> u64 {
    let cable = VirtualCable::lay(VirtualCableOptions::default()).unwrap();
    let at = cable.far().ipv4.to_string();
    let start = |end: &nearwire_lab::CableEnd, mode: &str| {
        let mut command = program_under_test(program);
        command.args([mode, &at, PORT, "3000"]).stdout(Stdio::piped());
        if let Some(spin) = spin {
            command.env("LD_PRELOAD", library()).env("NEARWIRE_SPIN", spin).env("NEARWIRE_MODE", "generic");
        }
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
fn two_programs_on_one_cpu_pass_about_as_many_messages_as_by_the_kernel() {
    if missing() {
        return;
    }
    let program = compiled("one_cpu");
    // By turns, as the machine may be busy for a time. The library that is compiled for tests is several times slower.
    let rounds = [(); 3].map(|()| (answers_on_one_cpu(&program, None), answers_on_one_cpu(&program, Some("auto"))));
    println!("answers in 1.5 s by the kernel, and with the library: {rounds:?}");
    let (kernel, auto) = rounds.iter().fold((0, 0), |sums, round| (sums.0 + round.0, sums.1 + round.1));
    assert!(auto * 2 >= kernel, "{rounds:?}");
}
