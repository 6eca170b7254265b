//! The library runs on the stacks of the program's threads, which may be as small as 16 KiB: no call needs more than 8 KiB of
//! them. Needs namespaces and a C compiler (or says SKIP).

use std::net::UdpSocket;
use std::time::Duration;

use nearwire_lab::{Cable, CableEnd, VirtualCable, VirtualCableOptions, program_under_test};

use crate::beside_an_agent;
use crate::common::{compiled, library, missing, tried};

/// What a call may take of the caller's stack, the C library's part included.
const STACK_BYTES_MOST: u64 = 8192;
/// Where the far end answers.
const ECHO_PORT: u16 = 7;

/// Answers until nothing comes for a while.
fn echo(socket: &UdpSocket) {
    let mut buffer = [0; 4000];
    socket.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
    while let Ok((length, from)) = socket.recv_from(&mut buffer) {
        let _ = socket.send_to(&buffer[..length], from);
    }
}

/// Who opens the program's ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Itself,
    Agent,
}

/// What the program says, with an end that answers.
fn said(by: By, spin: &str, more: &[&str]) -> String {
    let program = compiled("stacks");
    let cable = VirtualCable::lay(VirtualCableOptions { queues: 1, ..VirtualCableOptions::default() }).unwrap();
    let (near, far) = (cable.near(), cable.far());
    let any = if far.ipv6_usable { "[::]" } else { "0.0.0.0" };
    let socket = far.namespace.enter(|| UdpSocket::bind(format!("{any}:{ECHO_PORT}"))).unwrap().unwrap();
    let mut command = program_under_test(&program);
    command.arg(near.ipv4.to_string()).arg(far.ipv4.to_string());
    let of_6 = |end: &CableEnd| if end.ipv6_usable { end.ipv6.to_string() } else { "none".to_owned() };
    command.arg(of_6(near)).arg(of_6(far)).args(more);
    command.env("LD_PRELOAD", library()).env("NEARWIRE_SPIN", spin).env("NEARWIRE_MODE", "generic");
    let mut run = || near.namespace.enter(|| command.output()).unwrap().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| echo(&socket));
        let ran = match by {
            By::Itself => run(),
            By::Agent => beside_an_agent(near, run),
        };
        let out = String::from_utf8_lossy(&ran.stdout).into_owned();
        assert!(ran.status.success(), "{}: {out}{}", ran.status, String::from_utf8_lossy(&ran.stderr));
        out
    })
}

fn measure(by: By, spins: &[&str]) {
    if missing() {
        return;
    }
    for spin in tried(spins) {
        let said = said(by, spin, &[]);
        let is_deep = |line: &&str| {
            line.rsplit_once(' ')
                .is_some_and(|(_, bytes)| bytes.parse::<u64>().is_ok_and(|bytes| bytes > STACK_BYTES_MOST))
        };
        let deep: Vec<&str> = said.lines().filter(is_deep).collect();
        println!("{by:?}, spin {spin}:\n{said}");
        assert!(deep.is_empty() && said.ends_with("end\n"), "{by:?}, spin {spin}:\n{}", deep.join("\n"));
    }
}

#[test]
fn no_call_needs_more_than_8_kib_of_the_callers_stack() {
    measure(By::Itself, &["0", "50us", "auto"]);
}

#[test]
fn no_call_by_the_agent_needs_more_than_8_kib_of_the_callers_stack() {
    measure(By::Agent, &["0", "50us", "auto"]);
}

#[test]
fn threads_with_the_smallest_stacks_make_every_call() {
    if missing() {
        return;
    }
    assert_eq!(said(By::Itself, "50us", &["small"]), "end\n");
    assert_eq!(said(By::Agent, "auto", &["small"]), "end\n");
}
