//! `nearwire capture` over a virtual cable of the test's own: what the file holds, and how a capture ends.

use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::common::pcapng::{by_tcpdump, read};
use crate::common::{assert_says, command, kill, may_run, nearwire, text};
use nearwire_lab::{Cable, VirtualCable, VirtualCableOptions};
use rustix::process::Signal;

fn cable() -> Option<VirtualCable> {
    may_run().then(|| VirtualCable::lay(VirtualCableOptions::default()).unwrap())
}

/// Starts a capture on the far end and waits until it captures.
fn start(cable: &VirtualCable, file: &Path, arguments: &[&str]) -> Child {
    let mut capture = command(&["capture", "nw1", "-o"]);
    capture.arg(file).args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = cable.far().namespace.enter(|| capture.spawn().unwrap()).unwrap();
    let mut first = String::new();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    said.read_line(&mut first).unwrap();
    if !first.starts_with("capturing on nw1") {
        said.read_to_string(&mut first).unwrap();
        panic!("{first}");
    }
    child
}

/// Sends datagrams with these first bytes to a port of the far end.
fn send(cable: &VirtualCable, port: u16, numbers: std::ops::Range<u8>) {
    let socket = cable.near().namespace.enter(|| UdpSocket::bind((cable.near().ipv4, 0)).unwrap()).unwrap();
    for number in numbers {
        socket.send_to(&[number; 20], (cable.far().ipv4, port)).unwrap();
    }
}

fn ended(child: Child) -> String {
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    text(&output)
}

#[test]
fn datagrams_captured_are_in_the_file_with_time_and_direction() {
    let Some(cable) = cable() else { return };
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("frames.pcapng");
    let now_ns = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let before_ns = now_ns();
    let capture = start(&cable, &file, &["--udp", "7000", "--count", "10"]);
    send(&cable, 7001, 0..5);
    send(&cable, 7000, 0..10);
    let said = ended(capture);
    assert!(said.starts_with("10 frames in ") && said.ends_with("frames.pcapng, 0 dropped\n"), "{said}");
    let found = read(&file);
    assert_eq!((found.interfaces.as_slice(), found.received, found.dropped), (&["nw1".to_owned()][..], 10, 0));
    assert_eq!(found.packets.len(), 10);
    let mut last_ns = before_ns;
    for (number, packet) in (0..).zip(&found.packets) {
        assert_eq!((packet.direction, &packet.bytes[42..]), (1, &[number; 20][..]));
        assert!(last_ns <= packet.time_ns && packet.time_ns <= now_ns(), "times go up and lie within the test");
        last_ns = packet.time_ns;
    }
    if let Some(lines) = by_tcpdump(&file) {
        assert_eq!(lines.len(), 10);
        // It takes the port for that of a file system, and says nothing of UDP.
        assert!(lines.iter().all(|line| line.contains("> 10.77.0.2.7000: ")), "{lines:?}");
    }
}

#[test]
fn interrupted_capture_leaves_a_whole_file() {
    let Some(cable) = cable() else { return };
    for signal in [Signal::INT, Signal::TERM] {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("frames.pcapng");
        let capture = start(&cable, &file, &["--ether-type", "0x0800"]);
        send(&cable, 7000, 0..3);
        // The far kernel has no socket there: it answers with ICMP, which goes the other way.
        std::thread::sleep(Duration::from_millis(200));
        kill(capture.id(), signal);
        ended(capture);
        let found = read(&file);
        let of = |direction: u32| found.packets.iter().filter(|packet| packet.direction == direction).count();
        assert_eq!((of(1), of(2)), (3, 3), "three datagrams came, three refusals went");
    }
}

#[test]
fn time_over_ends_the_capture_and_own_frames_may_be_left_out() {
    let Some(cable) = cable() else { return };
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("frames.pcapng");
    let capture = start(&cable, &file, &["--time", "300ms", "--inbound", "--ether-type", "0x0800"]);
    send(&cable, 7000, 0..3);
    ended(capture);
    let found = read(&file);
    assert_eq!((found.packets.len(), found.packets.iter().filter(|packet| packet.direction == 2).count()), (3, 0));
}

#[test]
fn frames_beyond_the_ring_are_counted_as_dropped() {
    let Some(cable) = cable() else { return };
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("frames.pcapng");
    let capture = start(&cable, &file, &["--ring", "4", "--inbound", "--udp", "7000"]);
    // Stopped, it cannot read: four frames fit.
    kill(capture.id(), Signal::STOP);
    send(&cable, 7000, 0..20);
    kill(capture.id(), Signal::CONT);
    std::thread::sleep(Duration::from_millis(200));
    kill(capture.id(), Signal::INT);
    let said = ended(capture);
    let found = read(&file);
    assert_eq!((found.packets.len(), found.dropped, found.received), (4, 16, 20), "{said}");
    assert!(said.contains("16 dropped"), "{said}");
}

#[test]
fn interface_removed_capture_ends_with_a_whole_file_and_says_so() {
    let Some(cable) = cable() else { return };
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("frames.pcapng");
    let capture = start(&cable, &file, &["--udp", "7000"]);
    send(&cable, 7000, 0..3);
    std::thread::sleep(Duration::from_millis(100));
    let gone = cable.far().namespace.enter(|| Command::new("ip").args(["link", "del", "nw1"]).status().unwrap());
    assert!(gone.unwrap().success());
    // Nobody reads standard error any more, which once made a panic of the message.
    let output = capture.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(4));
    assert_eq!(read(&file).packets.len(), 3);
}

#[test]
fn impossible_captures_say_what_is_wrong() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("frames.pcapng").display().to_string();
    assert_says(&nearwire(&["capture", "nw-none", "-o", &file]), 2, &["nw-none: no such interface"]);
    assert_says(&nearwire(&["capture", "nw0", "-o", &file, "--udp", "host:1"]), 2, &["is not a port like 7000"]);
    assert_says(&nearwire(&["capture", "nw0"]), 2, &["--output"]);
    if may_run() {
        let ring = nearwire(&["capture", "lo", "-o", &file, "--ring", "5"]);
        assert_says(&ring, 2, &["ring_slots is 5", "power of two"]);
        let full = nearwire(&["capture", "lo", "-o", "/nowhere/frames.pcapng"]);
        assert_says(&full, 4, &["create /nowhere/frames.pcapng"]);
    }
}
