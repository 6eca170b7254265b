//! Datagrams that arrive while the program computes: what the kernel's receive buffers would keep is kept, in its order. The same
//! program runs with the kernel and with the library. Needs namespaces and a C compiler (or says SKIP).

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use nearwire_lab::{Cable, VirtualCable, VirtualCableOptions, program_under_test};

use crate::common::{compiled, library, missing, times, tried};

const FIRST_PORT: u16 = 6000;
const SPINS: [&str; 3] = ["0", "50us", "forever"];
const WAYS: [&str; 6] = ["epoll", "block", "nonblock", "recvmmsg", "poll", "epoll-edge"];
/// SO_RCVBUF, bytes.
const LARGE_BUFFER_BYTES: u32 = 16 << 20;

/// A bed with a sender at the far end.
struct Bed {
    cable: VirtualCable,
    sender: UdpSocket,
}

/// What is read and how.
#[derive(Clone, Copy)]
struct Reading {
    way: &'static str,
    sockets: u16,
    /// 0: the default.
    buffer_bytes: u32,
    is_connected: bool,
}

/// The program, which ends with its standard input.
struct Reader {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

/// What a socket got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Got {
    datagrams: u32,
    disordered: u32,
}

impl Bed {
    fn or_skip(queues: u32) -> Option<Bed> {
        if missing() {
            return None;
        }
        let cable = VirtualCable::lay(VirtualCableOptions { queues, ..VirtualCableOptions::default() }).unwrap();
        let sender = cable.far().namespace.enter(|| UdpSocket::bind((cable.far().ipv4, 0))).unwrap().unwrap();
        Some(Bed { cable, sender })
    }

    /// `spin`: how the library waits; `None`: the kernel serves.
    fn start(&self, reading: Reading, spin: Option<&str>) -> Reader {
        let Reading { way, sockets, buffer_bytes, is_connected } = reading;
        let far = self.sender.local_addr().unwrap();
        let (peer, peer_port) = if is_connected { (far.ip().to_string(), far.port()) } else { ("-".to_owned(), 0) };
        let mut command = program_under_test(compiled("bursts"));
        command.args([way, &sockets.to_string(), &buffer_bytes.to_string(), &self.cable.near().ipv4.to_string()]);
        command.args([FIRST_PORT.to_string(), peer, peer_port.to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        if let Some(spin) = spin {
            command.env("LD_PRELOAD", library()).env("NEARWIRE_SPIN", spin).env("NEARWIRE_STRICT", "1");
            if let Ok(mode) = std::env::var("NEARWIRE_TEST_MODE") {
                command.env("NEARWIRE_MODE", mode);
            }
        }
        let mut child = self.cable.near().namespace.enter(|| command.spawn()).unwrap().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut reader = Reader { stdin: child.stdin.take(), stdout, child };
        assert_eq!(reader.line(), "ready\n");
        reader
    }

    /// Sends as many datagrams to each socket, in turn, numbered for each.
    fn send(&self, sockets: u16, numbers: std::ops::Range<u32>) {
        for number in numbers {
            for socket in 0..sockets {
                let to = SocketAddr::new(self.cable.near().ipv4.into(), FIRST_PORT + socket);
                self.sender.send_to(&number.to_ne_bytes(), to).unwrap();
            }
        }
    }

    /// The same to one socket.
    fn send_to_one(&self, socket: u16, numbers: std::ops::Range<u32>) {
        let to = SocketAddr::new(self.cable.near().ipv4.into(), FIRST_PORT + socket);
        for number in numbers {
            self.sender.send_to(&number.to_ne_bytes(), to).unwrap();
        }
    }

    /// What the sockets get of bursts, each sent while the program computes.
    fn bursts(&self, reading: Reading, spin: Option<&str>, each: u32, rounds: u32) -> Vec<Vec<Got>> {
        let mut reader = self.start(reading, spin);
        // The neighbour is known then, and the engine open.
        self.send(reading.sockets, 0..1);
        reader.tell("go");
        let round = |_| {
            self.send(reading.sockets, 0..each);
            reader.tell("go")
        };
        (0..rounds).map(round).collect()
    }
}

impl Reader {
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line
    }

    fn tell(&mut self, what: &str) -> Vec<Got> {
        self.ask(what);
        self.answer()
    }

    fn ask(&mut self, what: &str) {
        writeln!(self.stdin.as_mut().unwrap(), "{what}").unwrap();
    }

    fn answer(&mut self) -> Vec<Got> {
        let line = self.line();
        let got = |word: &str| {
            let (datagrams, disordered) = word.split_once('/').unwrap();
            Got { datagrams: datagrams.parse().unwrap(), disordered: disordered.parse().unwrap() }
        };
        line.split_ascii_whitespace().map(got).collect()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}

fn total(got: &[Got]) -> u32 {
    got.iter().map(|got| got.datagrams).sum()
}

/// As much as the kernel keeps, of each socket and in order, whatever the way it is read by.
#[track_caller]
fn keeps_what_the_kernel_keeps(bed: &Bed, reading: Reading, each: u32, rounds: u32) {
    let rounds = times(rounds, 1);
    let kernel = bed.bursts(reading, None, each, 1).remove(0);
    assert_eq!(kernel.len(), usize::from(reading.sockets));
    for spin in SPINS {
        for (round, got) in bed.bursts(reading, Some(spin), each, rounds).iter().enumerate() {
            let Reading { way, sockets, .. } = reading;
            let (ours, kernels) = (total(got), total(&kernel));
            println!(
                "{way}, {sockets} sockets, spin {spin}: {ours} of {}, kernel {kernels}",
                each * u32::from(sockets)
            );
            let disordered: u32 = got.iter().map(|got| got.disordered).sum();
            assert_eq!(disordered, 0, "{way} {spin} {round}: {got:?}");
            let fewer = got.iter().zip(&kernel).position(|(ours, kernel)| ours.datagrams < kernel.datagrams);
            assert_eq!(fewer, None, "{way} {spin} {round}: kernel {kernel:?}, ours {got:?}");
        }
    }
}

const READING: Reading = Reading { way: "block", sockets: 1, buffer_bytes: 0, is_connected: false };

#[test]
fn burst_for_forty_sockets_that_the_kernel_keeps_is_kept() {
    for &queues in tried(&[2, 1]) {
        let Some(bed) = Bed::or_skip(queues) else { return };
        for way in tried(&["poll", "nonblock", "epoll", "epoll-edge"]) {
            keeps_what_the_kernel_keeps(&bed, Reading { way, sockets: 40, ..READING }, 150, 2);
        }
    }
}

#[test]
fn burst_within_a_large_receive_buffer_is_kept() {
    let Some(bed) = Bed::or_skip(1) else { return };
    for way in tried(&WAYS) {
        let reading = Reading { way, buffer_bytes: LARGE_BUFFER_BYTES, ..READING };
        keeps_what_the_kernel_keeps(&bed, reading, 9000, 2);
    }
}

#[test]
fn burst_beyond_the_default_receive_buffer_is_kept_as_far_as_by_the_kernel() {
    let Some(bed) = Bed::or_skip(1) else { return };
    for way in tried(&WAYS) {
        keeps_what_the_kernel_keeps(&bed, Reading { way, ..READING }, 6000, 2);
    }
}

#[test]
fn burst_for_connected_sockets_is_kept() {
    let Some(bed) = Bed::or_skip(2) else { return };
    for way in tried(&["block", "epoll"]) {
        let reading = Reading { way, buffer_bytes: LARGE_BUFFER_BYTES, is_connected: true, ..READING };
        keeps_what_the_kernel_keeps(&bed, reading, 7000, 2);
        keeps_what_the_kernel_keeps(&bed, Reading { sockets: 20, ..reading }, 400, 1);
    }
}

#[test]
fn stream_read_with_pauses_arrives_whole_and_in_order() {
    const DATAGRAMS: u32 = 60_000;
    for &queues in tried(&[1, 2]) {
        let Some(bed) = Bed::or_skip(queues) else { return };
        for way in tried(&["nonblock", "recvmmsg", "poll", "epoll", "epoll-edge"]) {
            for (spin, pause_ms) in [("0", 30), ("forever", 30), ("50us", 5)] {
                let reading = Reading { way, buffer_bytes: 2 * LARGE_BUFFER_BYTES, sockets: 1, ..READING };
                let mut reader = bed.start(reading, Some(spin));
                bed.send(1, 0..1);
                reader.tell("go");
                reader.ask(&format!("pause {pause_ms} {}", DATAGRAMS - 1));
                bed.send(1, 0..DATAGRAMS);
                let got = reader.answer();
                println!("{way}, {queues} queues, spin {spin}: {got:?}");
                assert_eq!(got, [Got { datagrams: DATAGRAMS, disordered: 0 }], "{way} {spin}");
            }
        }
    }
}

/// Frames are held back while older datagrams may be under way to the kernel's socket, as where that dropped some. A ring that
/// fills in that time, while the program computes, has older ones than what goes by the kernel then.
#[test]
fn ring_that_fills_while_its_frames_are_held_back_is_read_in_order() {
    /// More than rings and a receive buffer of the default size have room for, so that some are dropped.
    const DROPPING: u32 = 6000;
    /// A little more than the ring of the first engine has room for, where there may be others.
    const FILLING: u32 = 2052;
    let Some(bed) = Bed::or_skip(1) else { return };
    for way in tried(&["recvmmsg", "nonblock", "poll", "epoll-edge"]) {
        for spin in SPINS {
            let mut reader = bed.start(Reading { way, sockets: 2, ..READING }, Some(spin));
            bed.send(2, 0..1);
            reader.tell("go");
            for round in 0..times(3, 1) {
                bed.send_to_one(0, 0..DROPPING);
                reader.tell("once");
                bed.send_to_one(1, 0..FILLING);
                let got = reader.tell("go");
                println!("{way}, spin {spin}: {got:?}");
                assert_eq!(got[1], Got { datagrams: FILLING, disordered: 0 }, "{way} {spin} {round}");
            }
        }
    }
}
