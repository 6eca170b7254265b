//! A program of an ordinary user, without any capability, answers UDP past the kernel by a share that the agent gave it. On a real
//! kernel over a veth pair; needs root (or says SKIP).
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod bed;

use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nearwire_agent::client::Client;
use nearwire_agent::message::Answer;
use nearwire_frames::Port;
use nearwire_frames::ports::xdp::XdpPort;
use nearwire_frames::xdp::{AttachMode, attach_pass};

use bed::{AgentBed, await_events};

const NOBODY: u32 = 65_534;
const INTERFACE: &str = "NEARWIRE_TEST_INTERFACE";
const ADDRESSES_AT: usize = 26;
const PORTS_AT: usize = 34;
const CHECKSUM_AT: usize = 40;

/// Not a test: the program of the ordinary user.
#[test]
#[ignore = "it is started by the others"]
fn as_an_ordinary_user() {
    let Ok(interface) = std::env::var(INTERFACE) else { return };
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    assert!(status.contains("CapEff:\t0000000000000000"), "{status}");
    let mut client = Client::connect("echo").unwrap();
    let share = client.open_share(&interface, 0).unwrap();
    let mut port = XdpPort::from_handed(&share.description, share.descriptors).unwrap();
    let shadow = UdpSocket::bind("0.0.0.0:0").unwrap();
    shadow.set_nonblocking(true).unwrap();
    client.open_flow(share.share, None, &shadow).unwrap();
    println!("PEER {}", shadow.local_addr().unwrap().port());
    loop {
        // What the kernel's own socket gets has not gone past it.
        assert!(shadow.recv(&mut [0; 64]).is_err());
        if let Some(answer) = port.receive(answer).unwrap() {
            assert!(port.send(&answer).unwrap());
        }
    }
}

/// The same frame from its receiver to its sender; without checksum, which IPv4 allows.
fn answer(frame: &[u8]) -> Vec<u8> {
    let mut answer = frame.to_vec();
    answer[..6].copy_from_slice(&frame[6..12]);
    answer[6..12].copy_from_slice(&frame[..6]);
    let swap = |answer: &mut [u8], at: usize, len: usize| {
        answer[at..at + len].copy_from_slice(&frame[at + len..at + 2 * len]);
        answer[at + len..at + 2 * len].copy_from_slice(&frame[at..at + len]);
    };
    swap(&mut answer, ADDRESSES_AT, 4);
    swap(&mut answer, PORTS_AT, 2);
    answer[CHECKSUM_AT..CHECKSUM_AT + 2].fill(0);
    answer
}

struct Bed(AgentBed);

impl Bed {
    fn new() -> Option<Bed> {
        AgentBed::lay_or_skip(&format!("[[allow]]\nusers = [{NOBODY}]")).map(Bed)
    }

    /// A program of the ordinary user, and its port.
    fn program(&self) -> (Child, u16) {
        let near = self.0.near();
        let mut command = Command::new("/proc/self/exe");
        command.args(["--exact", "as_an_ordinary_user", "--ignored", "--nocapture"]);
        command.env(INTERFACE, &near.interface).uid(NOBODY).gid(NOBODY).stdout(Stdio::piped());
        let mut program = near.namespace.enter(|| command.spawn().unwrap()).unwrap();
        let lines = BufReader::new(program.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut ports = lines.filter_map(|line| line.split_once("PEER ").map(|(_, port)| port.parse().unwrap()));
        (program, ports.next().expect("the program says its port"))
    }

    fn far(&self) -> UdpSocket {
        let socket = self.0.far().namespace.enter(|| UdpSocket::bind("0.0.0.0:0").unwrap()).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        socket
    }

    fn echo(&self, socket: &UdpSocket, port: u16, number: u32) -> bool {
        socket.send_to(&number.to_be_bytes(), (self.0.near().ipv4, port)).unwrap();
        let mut answer = [0; 64];
        let came = socket.recv_from(&mut answer);
        came.is_ok_and(|(len, from)| answer[..len] == number.to_be_bytes() && from.port() == port)
    }
}

fn end(mut program: Child) {
    assert!(program.try_wait().unwrap().is_none(), "it runs");
    program.kill().unwrap();
    program.wait().unwrap();
}

#[test]
fn programs_of_an_ordinary_user_answer_past_the_kernel_and_leave_nothing_when_killed() {
    let Some(bed) = Bed::new() else { return };
    let (first, port) = bed.program();
    let (second, other) = bed.program();
    let far = bed.far();
    for number in 0..500 {
        assert!(bed.echo(&far, port, number), "datagram {number} to the first");
        assert!(bed.echo(&far, other, number), "datagram {number} to the second");
    }
    end(first);
    for number in 0..100 {
        assert!(bed.echo(&far, other, number), "datagram {number} beside one that was killed");
    }
    let (third, port) = bed.program();
    for number in 0..100 {
        assert!(bed.echo(&far, port, number) && bed.echo(&far, other, number), "datagram {number}");
    }
    [second, third].into_iter().for_each(end);
    bed.0.end();
}

#[test]
fn interface_that_has_the_program_of_the_last_agent_still_is_waited_for() {
    let Some(bed) = Bed::new() else { return };
    let near = bed.0.near().clone();
    // What ends it takes as long as the kernel of a busy machine takes for a process that was killed.
    let of_the_last = || attach_pass(&near.interface, AttachMode::Generic).unwrap();
    let of_the_last = near.namespace.enter(of_the_last).unwrap();
    let ends = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        drop(of_the_last);
    });
    let mut client = near.namespace.enter(|| Client::connect("test").unwrap()).unwrap();
    client.open_share(&near.interface, 0).unwrap();
    ends.join().unwrap();
    drop(client);
    bed.0.end();
}

#[test]
fn link_down_revokes_the_shares_of_its_interface() {
    let Some(bed) = Bed::new() else { return };
    let near = bed.0.near().clone();
    let mut client = near.namespace.enter(|| Client::connect("test").unwrap()).unwrap();
    let share = client.open_share(&near.interface, 0).unwrap();
    assert!(share.memory_bytes > 0 && bed.0.has_program());
    bed.0.set_link("down");
    let events = await_events(&mut client);
    let is_revoked = |event: &Answer| matches!(event, Answer::ShareRevoked { share: told, .. } if *told == share.share);
    assert!(matches!(&events[..], [event] if is_revoked(event)), "{events:?}");
    drop(client);
    bed.0.end();
}
