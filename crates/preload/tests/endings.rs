//! Servers that end by a signal end as on the kernel: whatever they wait in, and whether datagrams come all the time or not. The same program
//! runs with the kernel and with the library. Needs namespaces and a C compiler (or says SKIP).
#![allow(clippy::unwrap_used, reason = "what these functions do is test")]

mod common;

use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdout, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use common::{cable_with_peer_or_skip, compiled, library};
use nearwire_lab::{Cable, Namespace, VirtualCable, program_under_test};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

const PORT: u16 = 7000;
/// The first of the program and those of its threads.
const PORTS: u16 = 4;
const SPINS: [&str; 3] = ["0", "50us", "forever"];
/// A server that is not gone by now does not end by the signal. The kernel's take milliseconds.
const PATIENCE: Duration = Duration::from_secs(4);
/// A call that begins anew after the handler (SA_RESTART) ends with the next datagram only: as it does on the kernel.
const STAYS: Duration = Duration::from_millis(150);
const SIGTERM: i32 = 15;

/// Ways of calls that wait: "calls" ends with EINTR. Those in which a handler runs and the call begins anew stand in [`RESTARTING`].
const CALLS: [&str; 14] = [
    "calls",
    "calls-timeout",
    "calls-timeout-restart",
    "calls-exits",
    "calls-exits-restart",
    "calls-exits-orderly",
    "calls-jumps",
    "calls-jumps-restart",
    "calls-shuts-down-restart",
    "calls-once",
    "calls-default",
    COINCIDING,
    "calls-nonblocking",
    "calls-nonblocking-restart",
];
/// A signal comes each millisecond after which calls begin anew.
const COINCIDING: &str = "calls-often";
const RESTARTING: [&str; 5] = [
    "calls-restart",
    "calls-by-signal",
    "calls-often-restart",
    "calls-messages-restart",
    "calls-messages-first-restart",
];
const MESSAGES: [&str; 2] = ["calls-messages", "calls-messages-first"];
const LOOPS: [&str; 16] = [
    "flag-poll",
    "flag-select",
    "flag-epoll",
    "flag-epoll-one-event",
    "masked-poll",
    "masked-select",
    "masked-epoll",
    "masked-epoll-one-event",
    "signalfd-poll",
    "signalfd-select",
    "signalfd-epoll",
    "signalfd-epoll-one-event",
    "pipe-poll",
    "pipe-select",
    "pipe-epoll",
    "pipe-epoll-one-event",
];
const THREADS: [&str; 5] =
    ["threads-suspends", "threads-others-pipe", "threads-sigwait-flag", "threads-sigwait-exit", "threads-pipe"];

/// Servers whose handler tells that it ran.
const TELLING: [&str; 11] = [
    "calls-tells",
    "calls-tells-restart",
    "calls-tells-timeout",
    "calls-tells-messages-first",
    "calls-tells-nonblocking",
    "flag-tells-poll",
    "flag-tells-select",
    "flag-tells-epoll",
    "masked-tells-poll",
    "masked-tells-select",
    "masked-tells-epoll",
];
const SIGNALS: u32 = 400;

/// What a server is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Traffic {
    /// A few datagrams before the signal.
    Calm,
    /// As many as go, all the time.
    Flood,
}

struct Bed {
    cable: VirtualCable,
    peer: UdpSocket,
}

impl Bed {
    fn or_skip() -> Option<Bed> {
        let (cable, peer) = cable_with_peer_or_skip(PATIENCE)?;
        Some(Bed { cable, peer })
    }

    fn near(&self) -> &Namespace {
        &self.cable.near().namespace
    }

    fn start(&self, way: &str, spin: Option<&str>) -> Server {
        let mut command = program_under_test(compiled_once());
        command.args([way, &self.cable.near().ipv4.to_string(), &PORT.to_string()]).stdout(Stdio::piped());
        if let Some(spin) = spin {
            command.env("LD_PRELOAD", library()).env("NEARWIRE_SPIN", spin).env("NEARWIRE_STRICT", "1");
        }
        let mut child = self.near().enter(|| command.spawn()).unwrap().unwrap();
        let mut line = String::new();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        said.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n", "{way} {spin:?}");
        Server { child, said }
    }

    /// Its socket is served by now, and the call that waits has begun.
    fn greet(&self, way: &str) {
        let echoes = !way.contains("messages");
        // Where the first thread waits for the signal alone, another one echoes.
        let is_anothers = way == "threads-suspends" || way.starts_with("threads") && way.ends_with("pipe");
        let port = PORT + u16::from(is_anothers);
        for _ in 0..4 {
            self.peer.send_to(b"greeting", (self.cable.near().ipv4, port)).unwrap();
            if echoes {
                self.peer.recv(&mut [0; 16]).unwrap();
            }
        }
        // Where nothing comes back the first call that receives may still be at work, whose end is that of no restarted one.
        std::thread::sleep(Duration::from_millis(if echoes { 5 } else { 100 }));
    }

    /// Sends to all ports until it is told to end.
    fn flood(&self, is_over: &AtomicBool) {
        let peer = self.cable.far().namespace.enter(|| UdpSocket::bind((self.cable.far().ipv4, 0))).unwrap().unwrap();
        while !is_over.load(Relaxed) {
            for port in PORT..PORT + PORTS {
                // Refused by ICMP when the server is gone.
                let _ = peer.send_to(&[0; 64], (self.cable.near().ipv4, port));
            }
        }
    }

    /// How a server ends that is asked to. `None`: it does not.
    fn ended(&self, way: &str, spin: Option<&str>, traffic: Traffic) -> Option<ExitStatus> {
        let mut server = self.start(way, spin);
        self.greet(way);
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            if traffic == Traffic::Flood {
                scope.spawn(|| self.flood(&is_over));
                std::thread::sleep(Duration::from_millis(20));
            }
            server.ask_to_end();
            if way == COINCIDING {
                // Where both signals come at once the kernel decides by the other one that the call begins anew.
                for _ in 0..PATIENCE.as_millis() / STAYS.as_millis() {
                    if server.wait(STAYS).is_some() {
                        break;
                    }
                    server.ask_to_end();
                }
            }
            let ended =
                server.wait(if RESTARTING.contains(&way) && traffic == Traffic::Calm { STAYS } else { PATIENCE });
            is_over.store(true, Relaxed);
            ended
        })
    }

    /// Servers of these ways end as on the kernel.
    fn end_as_on_the_kernel(&self, ways: &[&str], traffic: Traffic) {
        let mut differing = Vec::new();
        for way in ways {
            let kernel = self.ended(way, None, traffic);
            for spin in SPINS {
                let began = Instant::now();
                let ours = self.ended(way, Some(spin), traffic);
                if ours != kernel {
                    differing
                        .push(format!("{way}, spin {spin}: kernel {kernel:?}, ours {ours:?} in {:?}", began.elapsed()));
                }
            }
        }
        assert!(differing.is_empty(), "{traffic:?}: {differing:#?}");
    }
}

fn compiled_once() -> &'static std::path::Path {
    static PROGRAM: std::sync::OnceLock<std::path::PathBuf> = std::sync::OnceLock::new();
    PROGRAM.get_or_init(|| compiled("endings"))
}

struct Server {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Server {
    fn ask_to_end(&self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    }

    /// Whether its handler tells of a signal before patience ends.
    fn tells(&mut self) -> bool {
        let limit = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
        let mut polled = [PollFd::new(self.said.get_ref(), PollFlags::IN)];
        poll(&mut polled, Some(&limit)).unwrap() == 1 && self.said.read_exact(&mut [0]).is_ok()
    }

    fn wait(&mut self, patience: Duration) -> Option<ExitStatus> {
        let give_up = Instant::now() + patience;
        while Instant::now() < give_up {
            if let Some(status) = self.child.try_wait().unwrap() {
                return Some(status);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        None
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn server_that_waits_in_a_call_ends_by_a_signal_as_on_the_kernel() {
    let Some(bed) = Bed::or_skip() else { return };
    for traffic in [Traffic::Calm, Traffic::Flood] {
        bed.end_as_on_the_kernel(&CALLS, traffic);
        bed.end_as_on_the_kernel(&MESSAGES, traffic);
    }
}

#[test]
fn server_whose_call_begins_anew_ends_with_the_next_datagram_as_on_the_kernel() {
    let Some(bed) = Bed::or_skip() else { return };
    for traffic in [Traffic::Calm, Traffic::Flood] {
        bed.end_as_on_the_kernel(&RESTARTING, traffic);
    }
}

#[test]
fn server_that_waits_for_descriptors_ends_by_a_signal_as_on_the_kernel() {
    let Some(bed) = Bed::or_skip() else { return };
    bed.end_as_on_the_kernel(&LOOPS, Traffic::Calm);
}

#[test]
fn server_that_waits_for_descriptors_and_always_finds_some_ends_by_a_signal_as_on_the_kernel() {
    let Some(bed) = Bed::or_skip() else { return };
    bed.end_as_on_the_kernel(&LOOPS, Traffic::Flood);
}

#[test]
fn server_of_several_threads_ends_by_a_signal_as_on_the_kernel() {
    let Some(bed) = Bed::or_skip() else { return };
    for traffic in [Traffic::Calm, Traffic::Flood] {
        bed.end_as_on_the_kernel(&THREADS, traffic);
    }
}

#[test]
fn signal_without_a_handler_ends_a_server_that_spins() {
    let Some(bed) = Bed::or_skip() else { return };
    for spin in SPINS {
        let ended = bed.ended("calls-default", Some(spin), Traffic::Calm).unwrap();
        assert_eq!(ended.signal(), Some(SIGTERM));
    }
}

#[test]
fn handler_runs_at_once_whenever_the_signal_comes() {
    let Some(bed) = Bed::or_skip() else { return };
    // A fixed sequence of moments, from within the calls that a datagram causes to long after them.
    let mut moment = 1_u32;
    let mut next = |most: u32| {
        moment = moment.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (moment >> 8) % most
    };
    for way in TELLING {
        for spin in SPINS {
            let mut server = bed.start(way, Some(spin));
            bed.greet(way);
            for number in 0..SIGNALS {
                for _ in 0..next(3) {
                    bed.peer.send_to(b"question", (bed.cable.near().ipv4, PORT)).unwrap();
                }
                let until = Instant::now() + Duration::from_nanos(next(60_000).into());
                while Instant::now() < until {}
                server.ask_to_end();
                assert!(server.tells(), "{way}, spin {spin}: the handler of signal {number} does not run");
            }
        }
    }
}
