//! The library runs on the stacks of the program's threads, which may be as small as 16 KiB: no call needs more than 8 KiB of
//! them. Needs namespaces and a C compiler (or says SKIP).

use std::net::UdpSocket;
use std::time::Duration;

use nearwire_lab::{Cable, VirtualCable, VirtualCableOptions, program_under_test};

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

/// What the program says, with an end that answers.
fn said(spin: &str, more: &[&str]) -> String {
    let program = compiled("stacks");
    let cable = VirtualCable::lay(VirtualCableOptions { queues: 1, ..VirtualCableOptions::default() }).unwrap();
    let (near, far) = (cable.near(), cable.far());
    let socket = far.namespace.enter(|| UdpSocket::bind((far.ipv4, ECHO_PORT))).unwrap().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| echo(&socket));
        let mut command = program_under_test(&program);
        command.arg(near.ipv4.to_string()).arg(far.ipv4.to_string()).args(more).env("LD_PRELOAD", library());
        command.env("NEARWIRE_SPIN", spin).env("NEARWIRE_MODE", "generic");
        let ran = near.namespace.enter(|| command.output()).unwrap().unwrap();
        let out = String::from_utf8_lossy(&ran.stdout).into_owned();
        assert!(ran.status.success(), "{}: {out}{}", ran.status, String::from_utf8_lossy(&ran.stderr));
        out
    })
}

#[test]
fn no_call_needs_more_than_8_kib_of_the_callers_stack() {
    if missing() {
        return;
    }
    for spin in tried(&["50us", "0"]) {
        let said = said(spin, &[]);
        let deep: Vec<&str> = said
            .lines()
            .filter(|line| {
                line.rsplit_once(' ').and_then(|(_, bytes)| bytes.parse().ok()).unwrap_or(0) > STACK_BYTES_MOST
            })
            .collect();
        println!("{said}");
        assert!(deep.is_empty() && said.ends_with("end\n"), "spin {spin}:\n{}", deep.join("\n"));
    }
}

#[test]
fn threads_with_the_smallest_stacks_make_every_call() {
    if missing() {
        return;
    }
    assert_eq!(said("50us", &["small"]), "end\n");
}
