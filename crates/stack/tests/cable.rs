//! Two stacks over an in-memory cable that loses, duplicates, reorders and corrupts.

mod common;

use std::collections::HashMap;

use common::{Host, at, pair, v4, v6};
use nearwire_frames::Port;
use nearwire_frames::fault::{FaultConfig, FaultPort, Probability};
use nearwire_frames::ports::memory::{MemoryPort, memory_pair};
use nearwire_stack::{Arrival, EndpointId, Family, Message, ReceiveChecksum, Take, UdpOptions, Verdict};
use proptest::prelude::*;

/// A message that nobody else sends: its number, then bytes that depend on it.
fn message(number: u32, len_bytes: usize) -> Vec<u8> {
    let fill = (0..len_bytes).map(|at| (number as usize * 31 + at * 7) as u8);
    number.to_be_bytes().into_iter().chain(fill).collect()
}

fn send(host: &mut Host, port: &mut impl Port, id: EndpointId, payload: &[u8]) {
    let outgoing = host.stack.udp_send(id, &Message::new(payload)).expect("has a way");
    let len_bytes = outgoing.len_bytes();
    let queued = port.queue_with(len_bytes, |frame| assert_eq!(outgoing.write(frame), len_bytes));
    assert!(queued.expect("open"));
    port.flush().expect("open");
}

/// Takes in what is there; some datagrams are read in place, others queued and read later.
fn receive_all(host: &mut Host, port: &mut impl Port, id: EndpointId, in_place: bool, got: &mut Vec<Vec<u8>>) {
    loop {
        let now_ns = got.len() as u64;
        let verdict = port.receive(|frame| {
            let arrival = Arrival {
                port: host.port,
                frame,
                received_ns: now_ns,
                device_ns: 0,
                checksum: ReceiveChecksum::Verify,
            };
            host.stack.receive(&arrival, |endpoint, datagram| {
                assert_eq!(endpoint, id);
                if in_place {
                    got.push(datagram.payload.to_vec());
                    Take::Consumed
                } else {
                    Take::Queue
                }
            })
        });
        if verdict.expect("open").is_none() {
            break;
        }
    }
    while let Some(payload) = host.read(id) {
        got.push(payload);
    }
}

type Faulty = FaultPort<MemoryPort, Box<dyn FnMut() -> u64>>;

fn cable(faults: FaultConfig, seed: u64) -> (Faulty, Faulty) {
    let (a, b) = memory_pair(256);
    let end = |port, seed| {
        let mut now_ns = 0;
        // Time passes with every look, so that what is held back comes out.
        let clock: Box<dyn FnMut() -> u64> = Box::new(move || {
            now_ns += 20_000;
            now_ns
        });
        FaultPort::new(port, faults, seed, clock)
    };
    (end(a, seed), end(b, seed + 1))
}

/// What arrived is what was sent, each message at most as often as the cable made copies, and the counters know of all.
fn simulate(faults: FaultConfig, seed: u64, six: bool, messages: u32) {
    let (mut one, mut two) = pair();
    let (mut port_one, mut port_two) = cable(faults, seed);
    let (from, to) = if six { (v6(1), v6(2)) } else { (v4(1), v4(2)) };
    let (a, b) = (one.connected(at(from, 7), at(to, 9)), two.connected(at(to, 9), at(from, 7)));
    let mut got = [Vec::new(), Vec::new()];
    for number in 0..messages {
        let payload = message(number, number as usize * 13 % 1400);
        send(&mut one, &mut port_one, a, &payload);
        send(&mut two, &mut port_two, b, &payload);
        let in_place = number % 3 == 0;
        receive_all(&mut two, &mut port_two, b, in_place, &mut got[0]);
        receive_all(&mut one, &mut port_one, a, in_place, &mut got[1]);
    }
    for _ in 0..20 {
        receive_all(&mut two, &mut port_two, b, false, &mut got[0]);
        receive_all(&mut one, &mut port_one, a, false, &mut got[1]);
    }
    let family = if six { Family::V6 } else { Family::V4 };
    for (host, port, got) in [(&two, &port_two, &got[0]), (&one, &port_one, &got[1])] {
        let mut times: HashMap<u32, u32> = HashMap::new();
        for payload in got {
            let number = u32::from_be_bytes(payload[..4].try_into().expect("has a number"));
            assert!(number < messages);
            assert_eq!(*payload, message(number, number as usize * 13 % 1400), "byte for byte");
            *times.entry(number).or_default() += 1;
        }
        assert!(times.values().all(|times| *times <= 2));
        let faults = port.receive_counts();
        let arrived = faults.frames - faults.lost_frames + faults.duplicated_frames;
        let statistics = host.stack.statistics();
        assert_eq!(statistics.frames, arrived);
        assert_eq!(statistics.delivered_frames, got.len() as u64);
        assert_eq!(statistics.udp(family).in_datagrams, got.len() as u64);
        assert_eq!(statistics.udp(family).out_datagrams, u64::from(messages));
        let refused = statistics.dropped_frames() + statistics.not_ours_frames();
        assert_eq!(statistics.delivered_frames + refused, arrived);
        // A corrupt frame may arrive twice; a harmless flip (a source hardware address) is delivered.
        assert!(refused <= 2 * faults.corrupted_frames, "only corrupt frames are refused");
    }
}

fn probability(ppm: u32) -> Probability {
    Probability::from_ppm(ppm).expect("below a million")
}

#[test]
fn cable_without_faults_delivers_everything_in_order() {
    let (mut one, mut two) = pair();
    let (mut port_one, mut port_two) = memory_pair(16);
    let a = one.connected(at(v4(1), 7), at(v4(2), 9));
    let b = two.endpoint(at(v4(2), 9));
    let mut got = Vec::new();
    let sent: Vec<_> = (0..100).map(|number| message(number, 10)).collect();
    for payload in &sent {
        send(&mut one, &mut port_one, a, payload);
        receive_all(&mut two, &mut port_two, b, false, &mut got);
    }
    assert_eq!(got, sent);
}

#[test]
fn flood_beyond_the_receive_buffer_loses_the_newest_and_counts_them() {
    let (mut one, mut two) = pair();
    let a = one.connected(at(v4(1), 7), at(v4(2), 9));
    let options = UdpOptions { receive_buffer_bytes: 10_000, ..UdpOptions::default() };
    let b = two.endpoint_with(at(v4(2), 9), options);
    let mut delivered = 0_u32;
    for number in 0..100 {
        let frame = one.send(a, &Message::new(&message(number, 50))).expect("has a way");
        delivered += u32::from(matches!(two.receive(&frame), Verdict::Delivered { .. }));
    }
    let got: Vec<_> = std::iter::from_fn(|| two.read(b)).collect();
    assert_eq!(got, (0..delivered).map(|number| message(number, 50)).collect::<Vec<_>>());
    assert_eq!(two.stack.statistics().udp(Family::V4).rcvbuf_errors, u64::from(100 - delivered));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn cable_with_any_faults_delivers_only_what_was_sent(
        loss in 0..300_000_u32, duplicate in 0..300_000_u32, reorder in 0..500_000_u32, corrupt in 0..300_000_u32,
        seed: u32, six: bool,
    ) {
        let faults = FaultConfig {
            loss: probability(loss),
            duplicate: probability(duplicate),
            reorder: probability(reorder),
            corrupt: probability(corrupt),
            ..FaultConfig::default()
        };
        simulate(faults, seed.into(), six, 150);
    }
}
