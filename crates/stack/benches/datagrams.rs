//! What a 64-byte datagram costs in this stack alone: `cargo bench -p nearwire-stack`.
//!
//! Each line is the median over rounds of the mean of a round, and the fastest round. The frames lie in the cache, as
//! those of a spinning reader do. Other work on the machine shows in the distance of the two figures.

#[path = "../tests/common/mod.rs"]
mod common;

use std::hint::black_box;
use std::net::Ipv4Addr;
use std::time::Instant;

use common::{Host, at, pair, v4, v6};
use nearwire_stack::{Arrival, EndpointId, Message, ReceiveChecksum, Take, UdpOptions, Verdict};

/// Short rounds, many of them: some fall between what others do on the machine.
const ROUNDS: usize = 1001;
const DATAGRAMS: u32 = 4_000;
const PAYLOAD: [u8; 64] = [0x5a; 64];

/// Median and least mean of a round, nanoseconds.
fn measure(mut once: impl FnMut()) -> (f64, f64) {
    let mut means: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            (0..DATAGRAMS).for_each(|_| once());
            start.elapsed().as_nanos() as f64 / f64::from(DATAGRAMS)
        })
        .collect();
    means.sort_by(f64::total_cmp);
    (means[ROUNDS / 2], means[0])
}

fn line(what: &str, (median_ns, least_ns): (f64, f64)) {
    println!("{what:<72}{median_ns:>8.1} ns{least_ns:>8.1} ns");
}

fn receive_in_place(host: &mut Host, frame: &[u8], id: EndpointId) -> (f64, f64) {
    let arrival = Arrival { port: host.port, frame, received_ns: 1, checksum: ReceiveChecksum::Verify };
    measure(|| {
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

fn send(host: &mut Host, id: EndpointId, message: &Message<'_>) -> (f64, f64) {
    let mut frame = [0_u8; 1514];
    measure(|| {
        let outgoing = host.stack.udp_send(id, black_box(message)).expect("has a way");
        black_box(outgoing.write(black_box(&mut frame)));
    })
}

fn receiving() {
    let (mut far, mut near) = pair();
    let sender = far.endpoint(at(v4(1), 7));
    let frame = far.send(sender, &Message::to(&PAYLOAD, at(v4(2), 4000))).expect("has a way");

    let bound = near.endpoint(at(Ipv4Addr::UNSPECIFIED.into(), 4000));
    line("receive, IPv4, 1 endpoint, bound to any address", receive_in_place(&mut near, &frame, bound));
    near.stack.udp_close(bound);

    let connected = near.connected(at(v4(2), 4000), at(v4(1), 7));
    line("receive, IPv4, 1 endpoint, connected", receive_in_place(&mut near, &frame, connected));
    for port in 10_000..19_999 {
        near.endpoint(at(v4(2), port));
    }
    line("receive, IPv4, the same among 10 000 on ports of their own", receive_in_place(&mut near, &frame, connected));

    let (_, mut near) = pair();
    let shared = UdpOptions { reuse_port: true, ..UdpOptions::default() };
    let mut one = None;
    for port in 7..10_007_u16 {
        let id = near.endpoint_with(at(v4(2), 4000), shared);
        near.stack.udp_connect(id, at(v4(1), port), None).expect("has a way");
        one = one.or(Some(id));
    }
    let one = one.expect("there are some");
    line("receive, IPv4, connected, 10 000 connected on the same port", receive_in_place(&mut near, &frame, one));

    let (mut far, mut near) = pair();
    let sender = far.endpoint(at(v6(1), 7));
    let frame = far.send(sender, &Message::to(&PAYLOAD, at(v6(2), 4000))).expect("has a way");
    let connected = near.connected(at(v6(2), 4000), at(v6(1), 7));
    line("receive, IPv6, 1 endpoint, connected", receive_in_place(&mut near, &frame, connected));

    let arrival = Arrival { port: near.port, frame: &frame, received_ns: 1, checksum: ReceiveChecksum::Verify };
    let queued = measure(|| {
        near.stack.receive(black_box(&arrival), |_, _| Take::Queue);
        black_box(near.stack.udp_read(connected, |datagram| datagram.payload[0]));
    });
    line("receive, IPv6, queued and read", queued);
}

fn sending() {
    let (mut near, _) = pair();
    let connected = near.connected(at(v4(1), 4000), at(v4(2), 7));
    line("send, IPv4, connected", send(&mut near, connected, &Message::new(&PAYLOAD)));
    line("send, IPv4, connected, 1400 bytes", send(&mut near, connected, &Message::new(&[0x5a; 1400])));
    let unconnected = near.endpoint(at(v4(1), 4001));
    line("send, IPv4, to an address", send(&mut near, unconnected, &Message::to(&PAYLOAD, at(v4(2), 7))));
    let connected = near.connected(at(v6(1), 4000), at(v6(2), 7));
    line("send, IPv6, connected", send(&mut near, connected, &Message::new(&PAYLOAD)));

    let mut frame = [0_u8; 1514];
    let targets = [1, 2].map(|last| Message::to(&PAYLOAD, at(v4(2), last)));
    let mut turn = 0;
    let resolved = measure(|| {
        turn ^= 1;
        let outgoing = near.stack.udp_send(unconnected, black_box(&targets[turn])).expect("has a way");
        black_box(outgoing.write(black_box(&mut frame)));
    });
    line("send, IPv4, to another address each time: route and neighbour looked up", resolved);
}

fn main() {
    println!("{:<72}{:>11}{:>11}", "64-byte payload unless said; per datagram", "median", "least");
    receiving();
    sending();
}
