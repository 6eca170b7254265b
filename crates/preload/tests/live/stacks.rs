//! The library runs on the stacks of the program's threads, which may be as small as 16 KiB: no call needs more than 8 KiB of
//! them. Needs namespaces and a C compiler (or says SKIP).

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use nearwire_lab::{Cable, CableEnd, VirtualCable, VirtualCableOptions, program_under_test};

use crate::beside_an_agent;
use crate::common::{compiled, library, missing, tried};

/// What a call may take of the caller's stack, the C library's part included.
const STACK_BYTES_MOST: u64 = 8192;
/// How calls wait. With `auto` sockets are lent to the kernel beside threads that compute.
const SPINS: [&str; 4] = ["0", "50us", "forever", "auto"];
/// Where the far end answers, by UDP and by TCP.
const ECHO_PORT: u16 = 7;
/// Where the program takes connections.
const SERVING_PORT: u16 = 6003;
/// Until the far end gives up.
const PATIENCE: Duration = Duration::from_secs(3);

/// Answers until nothing comes for a while.
fn echo(socket: &UdpSocket) {
    let mut buffer = [0; 4000];
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    while let Ok((length, from)) = socket.recv_from(&mut buffer) {
        let _ = socket.send_to(&buffer[..length], from);
    }
}

/// Answers what comes by a connection, and by one of its own to the program's port, until both end; again for each that is made until `is_over`.
fn echo_connections(listener: &TcpListener, near: Ipv4Addr, is_over: &AtomicBool) {
    let echo = |mut stream: TcpStream| {
        let mut buffer = [0; 100];
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        while let Ok(length @ 1..) = stream.read(&mut buffer) {
            if stream.write_all(&buffer[..length]).is_err() {
                return;
            }
        }
    };
    listener.set_nonblocking(true).unwrap();
    while !is_over.load(Relaxed) {
        let Ok((accepted, _)) = listener.accept() else {
            std::thread::sleep(Duration::from_millis(1));
            continue;
        };
        accepted.set_nonblocking(false).unwrap();
        let made = TcpStream::connect((near, SERVING_PORT)).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| echo(accepted));
            echo(made);
        });
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
    let listener = far.namespace.enter(|| TcpListener::bind((far.ipv4, ECHO_PORT))).unwrap().unwrap();
    let mut command = program_under_test(&program);
    command.arg(near.ipv4.to_string()).arg(far.ipv4.to_string());
    let of_6 = |end: &CableEnd| if end.ipv6_usable { end.ipv6.to_string() } else { "none".to_owned() };
    command.arg(of_6(near)).arg(of_6(far)).args(more);
    command.env("LD_PRELOAD", library()).env("NEARWIRE_SPIN", spin).env("NEARWIRE_MODE", "generic");
    command.env("NEARWIRE_ADOPT", "eager").env("NEARWIRE_STATS", "1");
    let mut run = || near.namespace.enter(|| command.output()).unwrap().unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| echo(&socket));
        scope.spawn(|| far.namespace.enter(|| echo_connections(&listener, near.ipv4, &is_over)).unwrap());
        let ran = match by {
            By::Itself => run(),
            By::Agent => beside_an_agent(near, run),
        };
        is_over.store(true, Relaxed);
        let out = String::from_utf8_lossy(&ran.stdout).into_owned();
        let told = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{by:?}, spin {spin}: {}: {out}{told}", ran.status);
        assert_eq!(told.contains("connections adopted"), by == By::Agent, "{by:?}, spin {spin}: {told}");
        out
    })
}

fn measure(by: By) {
    if missing() {
        return;
    }
    for spin in SPINS {
        let said = said(by, spin, &[]);
        let is_deep = |line: &&str| {
            line.rsplit_once(' ')
                .is_some_and(|(_, bytes)| bytes.parse::<u64>().is_ok_and(|bytes| bytes > STACK_BYTES_MOST))
        };
        let deep: Vec<&str> = said.lines().filter(is_deep).collect();
        println!("{by:?}, spin {spin}:\n{said}");
        assert!(deep.is_empty() && said.ends_with("end\n"), "{by:?}, spin {spin}:\n{}", deep.join("\n"));
        // On one CPU such calls sleep at once, and leave nothing to decide.
        let is_lent = spin == "auto" && std::thread::available_parallelism().unwrap().get() > 1;
        assert_eq!(said.contains("sendto that takes back"), is_lent, "{by:?}, spin {spin}:\n{said}");
    }
}

#[test]
fn no_call_needs_more_than_8_kib_of_the_callers_stack() {
    measure(By::Itself);
}

#[test]
fn no_call_by_the_agent_needs_more_than_8_kib_of_the_callers_stack() {
    measure(By::Agent);
}

#[test]
fn threads_with_the_smallest_stacks_make_every_call() {
    if missing() {
        return;
    }
    let by_agent = SPINS.map(|spin| (By::Agent, spin));
    let cases = [&by_agent[..], &[(By::Itself, "50us")]].concat();
    for &(by, spin) in tried(&cases) {
        assert_eq!(said(by, spin, &["small"]), "end\n", "{by:?}, spin {spin}");
    }
}
