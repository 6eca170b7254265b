//! While somebody changes an interface the kernel keeps a lock (rtnl), for seconds with some drivers, that many questions about the network
//! wait for. What the library asks in the middle of calls does not. Needs namespaces, a C compiler and userfaultfd(2) (or says SKIP).
#![allow(clippy::unwrap_used, reason = "what these functions do is test")]

mod common;

use std::io::{BufRead, BufReader, Write};
use std::net::UdpSocket;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use common::{cable_with_peer_or_skip, compiled, library};
use nearwire_lab::{Cable, Namespace, program_under_test};

const PORT: u16 = 7300;
/// The lock is kept for so long. A call that waited for it would answer no sooner.
const KEPT: Duration = Duration::from_millis(600);
const LATE: Duration = Duration::from_millis(300);
const PAUSE: Duration = Duration::from_millis(2);

/// A program that is ended with the test.
struct Running {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Running {
    fn start(namespace: &Namespace, command: &mut Command) -> Running {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = namespace.enter(|| command.spawn()).unwrap().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Running { child, lines }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn go_on(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ip(namespace: &Namespace, arguments: &str) -> String {
    let run = || Command::new("ip").args(arguments.split_ascii_whitespace()).output();
    let output = namespace.enter(run).unwrap().unwrap();
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Keeps the lock when it is told to. `None`: there is no way to.
fn holder(program: &std::path::Path) -> Option<(Running, Namespace)> {
    let elsewhere = Namespace::new().unwrap();
    ip(&elsewhere, "link add name nwl0 type veth peer name nwl1");
    let mut holder = Running::start(&elsewhere, Command::new(program).args(["hold", "nwl0"]));
    let said = holder.line();
    if said == "ready" {
        return Some((holder, elsewhere));
    }
    assert!(std::env::var_os("NEARWIRE_REQUIRE").is_none(), "NEARWIRE_REQUIRE is set, but: {said}");
    println!("SKIP {said}");
    None
}

/// From a question to its answer.
fn asked(peer: &UdpSocket) -> Duration {
    let began = Instant::now();
    peer.send(b"question").unwrap();
    peer.recv(&mut [0; 64]).unwrap();
    began.elapsed()
}

#[test]
fn interface_changed_for_long_holds_no_receive_up_that_confirms_a_neighbour_or_checks_its_port() {
    let Some((cable, peer)) = cable_with_peer_or_skip(Duration::from_secs(5)) else { return };
    let program = compiled("network_lock");
    let Some((mut holder, _elsewhere)) = holder(&program) else { return };
    let (near, far) = (cable.near(), cable.far());
    let mut server = program_under_test(&program);
    server.args(["echo", &PORT.to_string()]).env("LD_PRELOAD", library()).env("NEARWIRE_SPIN", "forever");
    server.env("NEARWIRE_STRICT", "1");
    let mut server = Running::start(&near.namespace, &mut server);
    assert_eq!(server.line(), "ready");
    peer.connect((near.ipv4, PORT)).unwrap();
    let local = near.namespace.enter(|| UdpSocket::bind((near.ipv4, 0))).unwrap().unwrap();
    local.connect((near.ipv4, PORT)).unwrap();
    for _ in 0..100 {
        asked(&peer);
    }
    let mac = far.mac.map(|byte| format!("{byte:02x}")).join(":");
    ip(&near.namespace, &format!("neigh replace {} lladdr {mac} dev {} nud stale", far.ipv4, near.interface));

    holder.go_on();
    assert_eq!(holder.line(), "held");
    let mut waits = Command::new("ip").args(["link", "show", "lo"]).stdout(Stdio::null()).spawn().unwrap();
    let (began, mut longest, mut questions) = (Instant::now(), Duration::ZERO, 0);
    while began.elapsed() < KEPT {
        // By the kernel: what comes by no port has the library ask whether the port is still there.
        local.send(b"of this host").unwrap();
        longest = longest.max(asked(&peer));
        questions += 1;
        std::thread::sleep(PAUSE);
    }
    assert!(waits.try_wait().unwrap().is_none(), "nobody has the lock");
    holder.go_on();
    assert_eq!(holder.line(), "free");
    waits.wait().unwrap();
    println!("{questions} questions, the longest took {longest:?}");
    assert!(longest < LATE, "an answer took {longest:?} of {questions}");
    let neighbour = ip(&near.namespace, &format!("neigh show {}", far.ipv4));
    assert!(!neighbour.contains("STALE"), "it was used: {neighbour}");
}
