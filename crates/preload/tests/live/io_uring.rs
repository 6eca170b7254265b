//! Programs that use io_uring: its requests bypass the library, so such a program's sockets are the kernel's. Needs root,
//! veth and a C compiler (or says SKIP).

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::process::{Child, Stdio};
use std::time::Duration;

use nearwire_lab::{Cable, VirtualCable, VirtualCableOptions, program_under_test};

use crate::beside_an_agent;
use crate::common::{WAITS, compiled, library, missing, tried};

const PORT: u16 = 5000;
/// How `tests/c/io_uring.c` says that this kernel has no io_uring, or none for this process.
const NO_IO_URING: i32 = 77;
const REASON: &str = "the program uses io_uring";

/// What the program said at its end, and what the library did.
struct Said {
    heard: String,
    stats: String,
}

/// Runs the program with ten datagrams for it. `None` without io_uring.
fn run(program: &str, when: &str, (spin, mode): (&str, &str)) -> Option<Said> {
    let cable = VirtualCable::lay(VirtualCableOptions::default()).unwrap();
    let (near, far) = (cable.near(), cable.far());
    let to = (near.ipv4, PORT);
    let peer = far.namespace.enter(|| UdpSocket::bind((far.ipv4, 0))).unwrap().unwrap();
    let mut command = program_under_test(compiled(program));
    command.args([&near.ipv4.to_string(), &PORT.to_string(), when]).env("LD_PRELOAD", library());
    command.envs([("NEARWIRE_SPIN", spin), ("NEARWIRE_MODE", mode), ("NEARWIRE_STATS", "true")]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = near.namespace.enter(|| command.spawn()).unwrap().unwrap();
    let mut heard = String::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap) {
        match line.as_str() {
            "bound" => peer.send_to(b"before", to).map(drop).unwrap(),
            "ready" => (0..10).for_each(|_| peer.send_to(b"hello", to).map(drop).unwrap()),
            _ => heard = line,
        }
    }
    said(child, heard)
}

/// `None` without io_uring.
fn said(mut child: Child, heard: String) -> Option<Said> {
    let mut stats = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stats).unwrap();
    let status = child.wait().unwrap();
    if status.code() == Some(NO_IO_URING) {
        assert!(std::env::var_os("NEARWIRE_REQUIRE").is_none(), "NEARWIRE_REQUIRE is set, but there is no io_uring");
        println!("SKIP no io_uring");
        return None;
    }
    assert!(status.success(), "{status}: {heard}\n{stats}");
    Some(Said { heard, stats })
}

/// Runs the program with a connection, by an agent.
fn run_stream(program: &str, who: &str, (spin, mode): (&str, &str)) -> Option<Said> {
    let cable = VirtualCable::lay(VirtualCableOptions::default()).unwrap();
    let (near, far) = (cable.near(), cable.far());
    let mut command = program_under_test(compiled(program));
    command.args([&near.ipv4.to_string(), &PORT.to_string(), who]).env("LD_PRELOAD", library());
    command.envs([("NEARWIRE_SPIN", spin), ("NEARWIRE_MODE", mode), ("NEARWIRE_STATS", "true")]);
    command.env("NEARWIRE_ADOPT", "eager").stdout(Stdio::piped()).stderr(Stdio::piped());
    beside_an_agent(near, || {
        let mut child = near.namespace.enter(|| command.spawn()).unwrap().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        assert_eq!(lines.next().as_deref(), Some("bound"));
        let mut peer = far.namespace.enter(|| TcpStream::connect((near.ipv4, PORT))).unwrap().unwrap();
        peer.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut exchange = || peer.write_all(b"hello").and_then(|()| peer.read_exact(&mut [0; 5]));
        // The program ends where it has no io_uring, or hears nothing.
        while exchange().is_ok() {}
        said(child, lines.next().unwrap_or_default())
    })
}

#[track_caller]
fn hears_all_by_kernel(program: &str, when: &str) {
    if missing() {
        return;
    }
    for &waits in tried(&WAITS) {
        let Some(said) = run(program, when, waits) else { return };
        assert_eq!(said.heard, "10 of 10", "{waits:?}: {}", said.stats);
        assert!(said.stats.contains(REASON), "{waits:?}: {}", said.stats);
    }
}

#[test]
fn descriptors_added_to_an_epoll_set_by_io_uring_are_heard_of() {
    hears_all_by_kernel("io_uring", "first");
}

#[test]
fn accelerated_socket_is_the_kernels_when_io_uring_is_set_up() {
    hears_all_by_kernel("io_uring", "later");
}

#[test]
fn accelerated_socket_is_the_kernels_when_a_child_sets_io_uring_up() {
    if missing() {
        return;
    }
    for &waits in tried(&WAITS) {
        let Some(said) = run("io_uring", "child", waits) else { return };
        assert_eq!(said.heard, "10 of 10", "{waits:?}: {}", said.stats);
    }
}

#[test]
fn io_uring_set_up_without_the_c_library_is_found_before_the_first_socket() {
    hears_all_by_kernel("io_uring_raw", "first");
    hears_all_by_kernel("io_uring_raw", "later");
}

#[track_caller]
fn hears_all_of_its_connection_by_kernel(program: &str, who: &str, is_adopted: bool) {
    if missing() {
        return;
    }
    for &waits in tried(&WAITS) {
        let Some(said) = run_stream(program, who, waits) else { return };
        assert_eq!(said.heard, "10 of 10", "{waits:?}: {}", said.stats);
        assert_eq!(said.stats.contains(" 1 connections adopted"), is_adopted, "{waits:?}: {}", said.stats);
        assert!(who != "stream" || said.stats.contains(REASON), "{waits:?}: {}", said.stats);
    }
}

#[test]
fn adopted_connection_is_the_kernels_when_io_uring_is_set_up() {
    hears_all_of_its_connection_by_kernel("io_uring", "stream", true);
}

#[test]
fn adopted_connection_is_the_kernels_when_a_child_sets_io_uring_up() {
    hears_all_of_its_connection_by_kernel("io_uring", "stream child", true);
}

#[test]
fn connection_of_a_program_with_io_uring_of_its_own_is_not_adopted() {
    hears_all_of_its_connection_by_kernel("io_uring_raw", "stream", false);
}

#[test]
fn strict_refuses_the_sockets_of_a_program_with_io_uring() {
    if missing() {
        return;
    }
    let cable = VirtualCable::lay(VirtualCableOptions::default()).unwrap();
    for &(spin, mode) in tried(&WAITS) {
        let mut command = program_under_test(compiled("io_uring_raw"));
        command.args([&cable.near().ipv4.to_string(), "5000", "first"]).env("LD_PRELOAD", library());
        command.envs([("NEARWIRE_SPIN", spin), ("NEARWIRE_MODE", mode), ("NEARWIRE_STRICT", "true")]);
        let output = cable.near().namespace.enter(|| command.output()).unwrap().unwrap();
        // bind(2) fails.
        assert!(matches!(output.status.code(), Some(1 | NO_IO_URING)), "spin {spin}, {mode}: {output:?}");
    }
}
