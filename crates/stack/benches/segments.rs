//! What TCP costs in this stack alone: `cargo bench -p nearwire-stack --bench segments`.
//!
//! Words after `--` choose the cases whose names have them. All cases take turns in short rounds; each line is the median and the least of the rounds' means. The frames lie in the cache.

#[path = "../tests/common/mod.rs"]
mod common;

use std::cell::Cell;
use std::hint::black_box;
use std::net::UdpSocket;
use std::rc::Rc;
use std::time::{Duration, Instant};

use common::tcp::Agreed;
use common::{Host, at, pair, v4, v6};
use nearwire_stack::{Arrival, ConnectionId, PreparedMessage, ReceiveChecksum, Take, TcpOptions};

const ROUNDS: usize = 301;
const TURNS: u32 = 1_000;
/// Between two messages.
const GAP_NS: u64 = 10_000;

const AFTER_CALLS: &str = "64 bytes there and back, IPv4, after system calls (with 8 clock reads)";

struct End {
    host: Host,
    id: ConnectionId,
    frame: [u8; 1514],
}

impl End {
    /// Sends what is to be sent; each frame arrives at the other end at once.
    fn transmit(&mut self, to: &mut End, now_ns: u64) {
        while let Some(segment) = self.host.stack.poll_transmit(now_ns) {
            let len_bytes = segment.write(&mut self.frame);
            to.host.stack.tcp_time(now_ns);
            let frame = &self.frame[..len_bytes];
            let checksum = ReceiveChecksum::Verify;
            let arrival = Arrival { port: to.host.port, frame, received_ns: 0, device_ns: 0, checksum };
            black_box(to.host.stack.receive(&arrival, |_, _| Take::Queue));
        }
    }

    fn read(&mut self) -> usize {
        let mut into = [0; 64 << 10];
        self.host.stack.tcp_read(self.id, &mut into).unwrap_or(0)
    }
}

/// Two ends; `idle`: so many other connections on each of them.
fn ends(six: bool, idle: u16) -> (End, End) {
    let (one, two) = pair();
    let addresses = if six { [v6(1), v6(2)] } else { [v4(1), v4(2)] };
    let end = |index: usize, mut host: Host| {
        let mut adopt = |port| {
            let ends = [at(addresses[0], port), at(addresses[1], 80)];
            let agreed = Agreed { window_bytes: [1 << 20; 2], ..Agreed::default() };
            let facts = agreed.facts(index, ends[index], ends[1 - index]);
            let options = TcpOptions { no_delay: true, ..TcpOptions::default() };
            host.stack.tcp_adopt(&facts, options, 0).expect("can be adopted")
        };
        let id = adopt(4000);
        for port in 0..idle {
            adopt(5000 + port);
        }
        End { host, id, frame: [0; 1514] }
    };
    (end(0, one), end(1, two))
}

/// A message there and one back.
fn ping_pong(six: bool, idle: u16) -> impl FnMut() {
    let (mut one, mut two) = ends(six, idle);
    let mut now_ns = 0;
    move || {
        now_ns += GAP_NS;
        one.host.stack.tcp_write(one.id, now_ns, &[0x5a; 64], false).expect("has room");
        one.transmit(&mut two, now_ns);
        assert_eq!(two.read(), 64);
        two.host.stack.tcp_write(two.id, now_ns, &[0xa5; 64], false).expect("has room");
        two.transmit(&mut one, now_ns);
        assert_eq!(one.read(), 64);
    }
}

/// As [`ping_pong`], with a datagram through the kernel's loopback between two calls of the stack: its code and data are no longer in the
/// innermost caches, as after the system call that sends a frame. Only the stack is timed.
fn ping_pong_after_system_calls(timed: &Rc<Cell<Duration>>) -> impl FnMut() + use<> {
    let (mut one, mut two) = ends(false, 0);
    let mut now_ns = 0;
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let own = socket.local_addr().expect("bound");
    let timed = Rc::clone(timed);
    let between = move || {
        socket.send_to(&[0; 64], own).expect("loopback takes it");
        socket.recv(&mut [0; 64]).expect("it came");
    };
    let time = move |what: &mut dyn FnMut()| {
        between();
        let start = Instant::now();
        what();
        timed.set(timed.get() + start.elapsed());
    };
    move || {
        now_ns += GAP_NS;
        for (from, to) in [(0, 1), (1, 0)] {
            let ends = [&mut one, &mut two];
            let [one, two] = ends;
            let (from, to) = if from < to { (one, two) } else { (two, one) };
            let mut len_bytes = 0;
            time(&mut || {
                from.host.stack.tcp_write(from.id, now_ns, &[0x5a; 64], false).expect("has room");
                while let Some(segment) = from.host.stack.poll_transmit(now_ns) {
                    len_bytes = segment.write(&mut from.frame);
                }
            });
            time(&mut || {
                to.host.stack.tcp_time(now_ns);
                let frame = &from.frame[..len_bytes];
                let checksum = ReceiveChecksum::Verify;
                let arrival = Arrival { port: to.host.port, frame, received_ns: 0, device_ns: 0, checksum };
                black_box(to.host.stack.receive(&arrival, |_, _| Take::Queue));
                assert_eq!(to.read(), 64);
            });
        }
    }
}

/// A write of ten full segments, and the acknowledgements back.
fn bulk() -> impl FnMut() {
    let (mut one, mut two) = ends(false, 0);
    let mut now_ns = 0;
    let data = vec![0x5a; 14_480];
    move || {
        now_ns += GAP_NS;
        one.host.stack.tcp_write(one.id, now_ns, &data, false).expect("has room");
        one.transmit(&mut two, now_ns);
        assert_eq!(two.read(), data.len());
        two.transmit(&mut one, now_ns);
        one.transmit(&mut two, now_ns);
    }
}

/// A message there, written or laid out in advance, and a byte back.
fn message(bytes: usize, is_prepared: bool) -> impl FnMut() {
    let (mut one, mut two) = ends(false, 0);
    let message = PreparedMessage::new(&vec![0x5a; bytes]);
    let mut now_ns = 0;
    one.host.stack.tcp_write(one.id, now_ns, &[0], false).expect("has room");
    one.transmit(&mut two, now_ns);
    two.read();
    let (headers_bytes, _) = one.host.stack.tcp_layout(one.id).expect("the way is known");
    one.frame[headers_bytes..headers_bytes + bytes].copy_from_slice(message.bytes());
    move || {
        now_ns += GAP_NS;
        one.host.stack.tcp_write_whole(one.id, now_ns, message.bytes()).expect("has room");
        let segment = one.host.stack.tcp_transmit(one.id, now_ns).expect("may be sent");
        let frame = &mut one.frame[..headers_bytes + bytes];
        match is_prepared {
            true => assert_eq!(segment.write_headers(frame, &message), frame.len()),
            false => assert_eq!(segment.write(frame), frame.len()),
        }
        two.host.stack.tcp_time(now_ns);
        let arrival =
            Arrival { port: two.host.port, frame, received_ns: 0, device_ns: 0, checksum: ReceiveChecksum::Verify };
        black_box(two.host.stack.receive(&arrival, |_, _| Take::Queue));
        two.read();
        two.host.stack.tcp_write(two.id, now_ns, &[0], false).expect("has room");
        two.transmit(&mut one, now_ns);
        one.read();
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    type Round = Box<dyn FnMut()>;
    let timed = Rc::new(Cell::new(Duration::ZERO));
    let mut cases: Vec<(&str, Round, Vec<f64>)> = [
        ("64 bytes there and back, IPv4", Box::new(ping_pong(false, 0)) as Round),
        ("64 bytes there and back, IPv6", Box::new(ping_pong(true, 0))),
        ("64 bytes there and back, IPv4, among 50 000 idle connections", Box::new(ping_pong(false, 50_000))),
        (AFTER_CALLS, Box::new(ping_pong_after_system_calls(&timed))),
        ("14 480 bytes there, and acknowledgements", Box::new(bulk())),
        ("message of 64 bytes written, and a byte back", Box::new(message(64, false))),
        ("message of 64 bytes prepared, and a byte back", Box::new(message(64, true))),
        ("message of 1400 bytes written, and a byte back", Box::new(message(1400, false))),
        ("message of 1400 bytes prepared, and a byte back", Box::new(message(1400, true))),
    ]
    .into_iter()
    .filter(|(what, _)| words.iter().all(|word| what.contains(word.as_str())))
    .map(|(what, once)| (what, once, Vec::new()))
    .collect();
    for _ in 0..ROUNDS {
        for (what, once, means_ns) in &mut cases {
            timed.set(Duration::ZERO);
            let start = Instant::now();
            (0..TURNS).for_each(|_| once());
            let took = if *what == AFTER_CALLS { timed.get() } else { start.elapsed() };
            means_ns.push(took.as_nanos() as f64 / f64::from(TURNS));
        }
    }
    println!("{:<64}{:>11}{:>11}", "both ends and all layers; per turn", "median", "least");
    for (what, _, mut means_ns) in cases {
        means_ns.sort_by(f64::total_cmp);
        println!("{what:<64}{:>8.1} ns{:>8.1} ns", means_ns[ROUNDS / 2], means_ns[0]);
    }
}
