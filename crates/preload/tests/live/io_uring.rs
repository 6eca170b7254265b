//! Programs that use io_uring: its requests bypass the library, so such a program's sockets are the kernel's. Needs root,
//! veth and a C compiler (or says SKIP).

use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::process::Stdio;

use nearwire_lab::{Cable, VirtualCable, VirtualCableOptions, program_under_test};

use crate::common::{compiled, library, missing};

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
fn run(program: &str, when: &str, variables: &[(&str, &str)]) -> Option<Said> {
    let cable = VirtualCable::lay(VirtualCableOptions::default()).unwrap();
    let (near, far) = (cable.near(), cable.far());
    let to = (near.ipv4, PORT);
    let peer = far.namespace.enter(|| UdpSocket::bind((far.ipv4, 0))).unwrap().unwrap();
    let mut command = program_under_test(compiled(program));
    command.args([&near.ipv4.to_string(), &PORT.to_string(), when]).env("LD_PRELOAD", library());
    command.envs([("NEARWIRE_SPIN", "50us"), ("NEARWIRE_MODE", "generic"), ("NEARWIRE_STATS", "true")]);
    command.envs(variables.iter().copied()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = near.namespace.enter(|| command.spawn()).unwrap().unwrap();
    let mut heard = String::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap) {
        match line.as_str() {
            "bound" => peer.send_to(b"before", to).map(drop).unwrap(),
            "ready" => (0..10).for_each(|_| peer.send_to(b"hello", to).map(drop).unwrap()),
            _ => heard = line,
        }
    }
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

#[track_caller]
fn hears_all_by_kernel(program: &str, when: &str) {
    if missing() {
        return;
    }
    let Some(said) = run(program, when, &[]) else { return };
    assert_eq!(said.heard, "10 of 10", "{}", said.stats);
    assert!(said.stats.contains(REASON), "{}", said.stats);
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
fn io_uring_set_up_without_the_c_library_is_found_before_the_first_socket() {
    hears_all_by_kernel("io_uring_raw", "first");
    hears_all_by_kernel("io_uring_raw", "later");
}

#[test]
fn strict_refuses_the_sockets_of_a_program_with_io_uring() {
    if missing() {
        return;
    }
    let cable = VirtualCable::lay(VirtualCableOptions::default()).unwrap();
    let mut command = program_under_test(compiled("io_uring_raw"));
    command.args([&cable.near().ipv4.to_string(), "5000", "first"]).env("LD_PRELOAD", library());
    command.envs([("NEARWIRE_MODE", "generic"), ("NEARWIRE_STRICT", "true")]);
    let output = cable.near().namespace.enter(|| command.output()).unwrap().unwrap();
    // bind(2) fails.
    assert!(matches!(output.status.code(), Some(1 | NO_IO_URING)), "{output:?}");
}
