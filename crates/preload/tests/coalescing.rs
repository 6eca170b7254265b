//! `send_coalescing`: what is held back arrives, in order, in time, whatever the program does next. Needs namespaces and a C
//! compiler (or says SKIP).
#![allow(clippy::unwrap_used, reason = "what these functions do is test")]

mod common;

use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::Output;
use std::time::Duration;

use common::{compiled, library, missing};
use nearwire_lab::{Cable, VirtualCable, VirtualCableOptions, program_under_test};

/// Behind several kicks, and not at the end of one.
const DATAGRAMS: u32 = 8 + 5 * 32 + 13;
/// What the program waits at the end of "pause" is many times that, what `send_coalescing` allows a thousandth.
const LATE_NS_MOST: i64 = 100_000_000;

struct Bed {
    cable: VirtualCable,
    program: PathBuf,
    far: UdpSocket,
}

impl Bed {
    fn lay() -> Bed {
        let program = compiled("coalescing");
        let cable = VirtualCable::lay(VirtualCableOptions::default()).unwrap();
        let far = cable.far().namespace.enter(|| UdpSocket::bind((cable.far().ipv4, 0))).unwrap().unwrap();
        far.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        Bed { cable, program, far }
    }

    /// Runs the program at the near end; the numbers it printed.
    fn run(&self, mode: &str, coalescing: &str) -> Vec<i64> {
        let end = self.far.local_addr().unwrap();
        let mut command = program_under_test(&self.program);
        command.args([mode, &end.ip().to_string(), &end.port().to_string(), &DATAGRAMS.to_string()]);
        command.env("LD_PRELOAD", library()).env("NEARWIRE_SEND_COALESCING", coalescing).env("NEARWIRE_SPIN", "50us");
        let Output { status, stdout, stderr } =
            self.cable.near().namespace.enter(|| command.output()).unwrap().unwrap();
        assert!(status.success(), "{status}: {}", String::from_utf8_lossy(&stderr));
        String::from_utf8(stdout).unwrap().split_whitespace().map(|word| word.parse().unwrap()).collect()
    }

    /// Receives while `program` runs, until all have come; the numbers in them, and when the last came.
    fn receive(&self) -> (Vec<u32>, i64) {
        let (mut numbers, mut last_ns) = (Vec::new(), 0);
        let mut datagram = [0; 64];
        while numbers.len() < DATAGRAMS as usize
            && let Ok(length) = self.far.recv(&mut datagram)
        {
            last_ns = monotonic_ns();
            numbers.push(u32::from_ne_bytes(datagram[..length].try_into().unwrap()));
        }
        (numbers, last_ns)
    }
}

fn monotonic_ns() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// Runs the program in a mode; what it printed, what arrived, and when the last did.
fn sent(mode: &str, coalescing: &str) -> Option<(Vec<i64>, Vec<u32>, i64)> {
    if missing() {
        return None;
    }
    let bed = Bed::lay();
    let (printed, (numbers, last_ns)) = std::thread::scope(|scope| {
        let receiving = scope.spawn(|| bed.receive());
        (bed.run(mode, coalescing), receiving.join().unwrap())
    });
    Some((printed, numbers, last_ns))
}

fn all() -> Vec<u32> {
    (0..DATAGRAMS).collect()
}

#[test]
fn burst_then_no_call_leaves_in_time() {
    let Some((printed, numbers, last_ns)) = sent("pause", "100us") else { return };
    assert_eq!(numbers, all());
    let late_ns = last_ns - printed[0];
    assert!(late_ns < LATE_NS_MOST, "the last came {late_ns} ns after it was sent");
    assert_eq!(printed[1], 2, "threads: the program's and the library's");
}

#[test]
fn burst_then_the_end_of_the_program_leaves_whole() {
    for mode in ["return", "exit"] {
        // So long that only the end can have sent them.
        let Some((_, numbers, _)) = sent(mode, "10ms") else { return };
        assert_eq!(numbers, all(), "{mode}");
    }
}

#[test]
fn burst_then_a_fork_leaves_once_and_the_child_has_a_thread_of_its_own() {
    let Some((_, numbers, _)) = sent("fork", "10ms") else { return };
    assert_eq!(numbers, all());
}

#[test]
fn burst_by_default_has_no_thread() {
    let Some((printed, numbers, _)) = sent("pause", "0") else { return };
    assert_eq!((numbers, printed[1]), (all(), 1));
}

#[test]
fn request_is_never_held() {
    if missing() {
        return;
    }
    let bed = Bed::lay();
    let printed = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut datagram = [0; 64];
            for _ in 0..DATAGRAMS {
                let (length, from) = bed.far.recv_from(&mut datagram).unwrap();
                bed.far.send_to(&datagram[..length], from).unwrap();
            }
        });
        bed.run("ask", "10ms")
    });
    let held_ns = i64::from(DATAGRAMS) * 10_000_000;
    assert!(printed[0] < held_ns / 2, "{printed:?}");
}
