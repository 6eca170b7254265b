//! What a 64-byte datagram costs in this stack alone: `cargo bench -p nearwire-stack`.
//!
//! All cases take turns in short rounds; each line is the median and the least of the rounds' means. The frames lie in
//! the cache, as those of a spinning reader do. Other work on the machine shows in the distance of the two figures.

#[path = "../tests/common/mod.rs"]
mod common;

use std::hint::black_box;
use std::net::Ipv4Addr;
use std::time::Instant;

use common::{Host, at, pair, v4, v6};
use nearwire_stack::{Arrival, EndpointId, Message, ReceiveChecksum, Take, UdpOptions, Verdict};

const ROUNDS: usize = 601;
const DATAGRAMS: u32 = 2_000;
const PAYLOAD: [u8; 64] = [0x5a; 64];

/// One kind of datagram, and the mean of each round, nanoseconds.
struct Case {
    what: &'static str,
    round: Box<dyn FnMut()>,
    means_ns: Vec<f64>,
}

fn case(what: &'static str, mut once: impl FnMut() + 'static) -> Case {
    let round = Box::new(move || (0..DATAGRAMS).for_each(|_| once()));
    Case { what, round, means_ns: Vec::with_capacity(ROUNDS) }
}

fn measure(cases: &mut [Case]) {
    for _ in 0..ROUNDS {
        for case in cases.iter_mut() {
            let start = Instant::now();
            (case.round)();
            case.means_ns.push(start.elapsed().as_nanos() as f64 / f64::from(DATAGRAMS));
        }
    }
    println!("{:<72}{:>11}{:>11}", "64-byte payload unless said; per datagram", "median", "least");
    for case in cases {
        case.means_ns.sort_by(f64::total_cmp);
        println!("{:<72}{:>8.1} ns{:>8.1} ns", case.what, case.means_ns[ROUNDS / 2], case.means_ns[0]);
    }
}

fn frame(six: bool) -> Vec<u8> {
    let (mut sender, _) = pair();
    let (from, to) = if six { (v6(1), v6(2)) } else { (v4(1), v4(2)) };
    let id = sender.endpoint(at(from, 7));
    sender.send(id, &Message::to(&PAYLOAD, at(to, 4000))).expect("has a way")
}

/// The reader waits, and the datagram is lent to it.
fn in_place(what: &'static str, mut host: Host, id: EndpointId, frame: Vec<u8>) -> Case {
    case(what, move || {
        let arrival =
            Arrival { port: host.port, frame: &frame, received_ns: 1, device_ns: 0, checksum: ReceiveChecksum::Verify };
        let mut sum = 0_u64;
        let verdict = host.stack.receive(black_box(&arrival), |endpoint, datagram| {
            if endpoint == id {
                sum += datagram.payload.len() as u64;
                Take::Consumed
            } else {
                Take::Queue
            }
        });
        assert!(matches!(verdict, Verdict::Delivered { .. }));
        black_box(sum);
    })
}

fn sent(what: &'static str, mut host: Host, id: EndpointId, messages: Vec<Message<'static>>) -> Case {
    let mut frame = [0_u8; 1514];
    let mut turn = 0;
    case(what, move || {
        turn = if turn + 1 == messages.len() { 0 } else { turn + 1 };
        let outgoing = host.stack.udp_send(id, black_box(&messages[turn])).expect("has a way");
        black_box(outgoing.write(black_box(&mut frame)));
    })
}

fn receiving() -> Vec<Case> {
    let (_, mut near) = pair();
    let bound = near.endpoint(at(Ipv4Addr::UNSPECIFIED.into(), 4000));
    let to_any = in_place("receive, IPv4, 1 endpoint, bound to any address", near, bound, frame(false));

    let (_, mut near) = pair();
    let connected = near.connected(at(v4(2), 4000), at(v4(1), 7));
    let alone = in_place("receive, IPv4, 1 endpoint, connected", near, connected, frame(false));

    let (_, mut near) = pair();
    let connected = near.connected(at(v4(2), 4000), at(v4(1), 7));
    for port in 10_000..19_999 {
        near.endpoint(at(v4(2), port));
    }
    let among = "receive, IPv4, the same among 10 000 on ports of their own";
    let among = in_place(among, near, connected, frame(false));

    let (_, mut near) = pair();
    let shared = UdpOptions { reuse_port: true, ..UdpOptions::default() };
    let first = near.endpoint_with(at(v4(2), 4000), shared);
    near.stack.udp_connect(first, at(v4(1), 7), None).expect("has a way");
    for port in 8..10_007_u16 {
        let id = near.endpoint_with(at(v4(2), 4000), shared);
        near.stack.udp_connect(id, at(v4(1), port), None).expect("has a way");
    }
    let same_port = "receive, IPv4, connected, 10 000 connected on the same port";
    let same_port = in_place(same_port, near, first, frame(false));

    let (_, mut near) = pair();
    let connected = near.connected(at(v6(2), 4000), at(v6(1), 7));
    let six = in_place("receive, IPv6, 1 endpoint, connected", near, connected, frame(true));

    let (_, mut near) = pair();
    let connected = near.connected(at(v4(2), 4000), at(v4(1), 7));
    let bytes = frame(false);
    let queued = case("receive, IPv4, queued and read", move || {
        near.receive(black_box(&bytes));
        black_box(near.stack.udp_read(connected, |datagram| datagram.payload[0]));
    });
    vec![to_any, alone, among, same_port, six, queued]
}

fn sending() -> Vec<Case> {
    let connected = |six: bool| {
        let (mut near, _) = pair();
        let (from, to) = if six { (v6(1), v6(2)) } else { (v4(1), v4(2)) };
        let id = near.connected(at(from, 4000), at(to, 7));
        (near, id)
    };
    let unconnected = || {
        let (mut near, _) = pair();
        let id = near.endpoint(at(v4(1), 4000));
        (near, id)
    };
    let ((a, a_id), (b, b_id), (c, c_id)) = (connected(false), connected(false), connected(true));
    let ((d, d_id), (e, e_id)) = (unconnected(), unconnected());
    let to = |port| Message::to(&PAYLOAD, at(v4(2), port));
    vec![
        sent("send, IPv4, connected", a, a_id, vec![Message::new(&PAYLOAD)]),
        sent("send, IPv4, connected, 1400 bytes", b, b_id, vec![Message::new(&[0x5a; 1400])]),
        sent("send, IPv6, connected", c, c_id, vec![Message::new(&PAYLOAD)]),
        sent("send, IPv4, to an address", d, d_id, vec![to(7)]),
        sent("send, IPv4, to another address each time: all looked up", e, e_id, vec![to(7), to(8)]),
    ]
}

fn main() {
    let mut cases = receiving();
    cases.extend(sending());
    measure(&mut cases);
}
