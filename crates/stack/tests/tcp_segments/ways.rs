//! Frames: whose they are, how they are made, and the way that they take.

use std::net::IpAddr;

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use nearwire_stack::{
    AdoptError, ConnectionId, Dropped, NeedsKernel, NeighbourState, NotOurs, Path, StackConfig, TcpOptions, Update,
    Verdict,
};

use crate::common::tcp::{Agreed, frames, segment};
use crate::common::{Host, IFINDEX, at, host, host_with, neighbour, pair, v4, v6};

const MS: u64 = 1_000_000;

fn adopt(host: &mut Host, end: usize, addresses: [IpAddr; 2]) -> ConnectionId {
    let ends = [at(addresses[0], 4000), at(addresses[1], 80)];
    let facts = Agreed::default().facts(end, ends[end], ends[1 - end]);
    host.stack.tcp_adopt(&facts, TcpOptions::default(), 0).expect("can be adopted")
}

//= test RFC 9293 3.1
#[test]
fn frames_have_the_checksums_that_etherparse_calculates_and_arrive() {
    for addresses in [[v4(1), v4(2)], [v6(1), v6(2)]] {
        let (mut one, mut two) = pair();
        let (near, far) = (adopt(&mut one, 0, addresses), adopt(&mut two, 1, addresses));
        one.stack.tcp_write(near, 0, &[0x5a; 301], false).expect("has room");
        let sent = frames(&mut one.stack, 0);
        let packet = SlicedPacket::from_ethernet(&sent[0]).expect("well formed");
        let Some(TransportSlice::Tcp(tcp)) = packet.transport else { panic!("a segment") };
        let calculated = match packet.net.expect("a packet") {
            NetSlice::Ipv4(ip) => {
                let header = ip.header();
                assert_eq!(header.header_checksum(), header.to_header().calc_header_checksum());
                tcp.to_header().calc_checksum_ipv4_raw(header.source(), header.destination(), tcp.payload())
            }
            NetSlice::Ipv6(ip) => {
                let header = ip.header();
                tcp.to_header().calc_checksum_ipv6_raw(header.source(), header.destination(), tcp.payload())
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(Ok(tcp.checksum()), calculated);
        assert_eq!(two.receive(&sent[0]), Verdict::Segment { connection: far });
        assert_eq!(two.stack.take_ready(), Some(far));
        let mut into = [0; 400];
        assert_eq!(two.stack.tcp_read(far, &mut into), Ok(301));
        assert!(into[..301].iter().all(|byte| *byte == 0x5a));
    }
}

#[test]
fn segment_of_no_connection_is_the_kernels_and_a_corrupt_one_is_dropped() {
    let (mut one, mut two) = pair();
    let near = adopt(&mut one, 0, [v4(1), v4(2)]);
    one.stack.tcp_write(near, 0, b"hello", false).expect("has room");
    let mut sent = frames(&mut one.stack, 0).remove(0);
    assert_eq!(two.receive(&sent), Verdict::NotOurs(NotOurs::NoConnection));
    let far = adopt(&mut two, 1, [v4(1), v4(2)]);
    let last = sent.len() - 1;
    sent[last] ^= 1;
    assert_eq!(two.receive(&sent), Verdict::Dropped(Dropped::TcpInCsumErrors));
    sent[last] ^= 1;
    assert_eq!(two.receive(&sent), Verdict::Segment { connection: far });
    two.stack.tcp_remove(far);
    assert_eq!(two.receive(&sent), Verdict::NotOurs(NotOurs::NoConnection));
}

#[test]
fn path_that_nobody_has_asked_about_is_asked_about_and_segments_are_as_long_as_it_takes() {
    for (addresses, longest) in [([v4(1), v4(2)], 1460), ([v6(1), v6(2)], 1440)] {
        let mut one = host_with(1, &[2], StackConfig { asks_paths: true, ..StackConfig::new(1) });
        let near = adopt(&mut one, 0, addresses);
        one.stack.tcp_write(near, 0, &[7; 5000], false).expect("has room");
        assert_eq!(frames(&mut one.stack, 0).len(), 0, "until the kernel has answered");
        assert_eq!(one.stack.take_path_question(), Some((IFINDEX, addresses[1])));
        let learn = |mtu_bytes| Update::Path {
            ifindex: IFINDEX,
            destination: addresses[1],
            path: Some(Path { mtu_bytes, ..Path::default() }),
        };
        one.stack.update(learn(None));
        let payload_bytes = |frame: &[u8]| segment(frame).expect("a segment").2.len();
        let sent = frames(&mut one.stack, 0);
        assert!((longest - 12..=longest).contains(&payload_bytes(&sent[0])), "{}", payload_bytes(&sent[0]));
        // A kernel that does not answer is told from a path.
        one.stack.update(learn(Some(1)));
        one.stack.tcp_write(near, 0, &[7; 5000], false).expect("has room");
        let sent = frames(&mut one.stack, 0);
        assert!(payload_bytes(&sent[0]) > 400, "{}", payload_bytes(&sent[0]));
    }
}

#[test]
fn connection_is_adopted_once() {
    let mut one = host(1, &[2]);
    let first = adopt(&mut one, 0, [v4(1), v4(2)]);
    let facts = Agreed::default().facts(0, at(v4(1), 4000), at(v4(2), 80));
    let again = one.stack.tcp_adopt(&facts, TcpOptions::default(), 0);
    assert_eq!(again, Err(AdoptError::AlreadyHere { local: facts.local, peer: facts.peer }));
    assert_eq!(one.stack.tcp_find(facts.local, facts.peer), Some(first));
    let crossed = Agreed::default().facts(0, at(v4(1), 4000), at(v6(2), 80));
    assert!(matches!(one.stack.tcp_adopt(&crossed, TcpOptions::default(), 0), Err(AdoptError::Addresses { .. })));
}

#[test]
fn facts_come_back_as_they_were_told() {
    let mut one = host(1, &[2]);
    let mapped = |address: IpAddr| match address {
        IpAddr::V4(address) => IpAddr::V6(address.to_ipv6_mapped()),
        six => six,
    };
    for [local, peer] in [[v4(1), v4(2)], [v6(1), v6(2)], [mapped(v4(1)), mapped(v4(2))]] {
        let mut facts = Agreed::default().facts(0, at(local, 4000), at(peer, 80));
        (facts.sent, facts.unsent, facts.unread) = (vec![1; 3000], vec![2; 500], vec![3; 700]);
        facts.window.receive_sequence = facts.window.receive_sequence.wrapping_sub(200);
        facts.is_write_shut = true;
        let id = one.stack.tcp_adopt(&facts, TcpOptions::default(), MS).expect("can be adopted");
        assert_eq!(one.stack.tcp_export(id, MS), Ok(facts));
    }
}

#[test]
fn connection_without_a_neighbour_says_so_and_goes_on_when_there_is_one() {
    let mut one = host(1, &[]);
    let id = adopt(&mut one, 0, [v4(1), v4(2)]);
    one.stack.tcp_write(id, 0, b"hello", false).expect("has room");
    assert!(one.stack.poll_transmit(0).is_none());
    assert_eq!(one.stack.take_ready(), Some(id));
    let stuck = |host: &Host| host.stack.tcp_readiness(id).and_then(|readiness| readiness.stuck);
    assert_eq!(stuck(&one), Some(NeedsKernel::NeighbourUnresolved));
    one.stack.update(neighbour(v4(2), 2, NeighbourState::Reachable));
    assert_eq!(frames(&mut one.stack, MS).len(), 1);
    assert_eq!(stuck(&one), None);
}

#[test]
fn smaller_path_cuts_segments_that_are_sent_again() {
    let mut one = host(1, &[2]);
    let id = adopt(&mut one, 0, [v4(1), v4(2)]);
    one.stack.tcp_write(id, 0, &[1; 1400], false).expect("has room");
    let payloads = |frames: &[Vec<u8>]| -> Vec<usize> {
        frames.iter().filter_map(|frame| segment(frame)).map(|(_, _, payload, _)| payload.len()).collect()
    };
    assert_eq!(payloads(&frames(&mut one.stack, 0)), [1400]);
    let path = Path { mtu_bytes: Some(1000), ..Path::default() };
    one.stack.update(Update::Path { ifindex: IFINDEX, destination: v4(2), path: Some(path) });
    // Of 1000 bytes, headers and timestamps leave 948.
    assert_eq!(payloads(&frames(&mut one.stack, 1001 * MS)), [948, 452]);
}

#[test]
fn segment_that_found_no_room_in_a_port_comes_again() {
    let mut one = host(1, &[2]);
    let id = adopt(&mut one, 0, [v4(1), v4(2)]);
    one.stack.tcp_write(id, 0, b"hello", false).expect("has room");
    let outgoing = one.stack.tcp_transmit(id, 0).expect("in the same call");
    assert_eq!((outgoing.payload_bytes(), outgoing.port()), (5, one.port));
    assert_eq!(outgoing.write(&mut [0; 10]), 0);
    assert!(one.stack.poll_transmit(0).is_some(), "and was not sent");
    assert_eq!(one.stack.tcp_info(id).expect("is here").unsent_bytes, 5);
    assert_eq!(frames(&mut one.stack, 0).len(), 1);
    assert_eq!(one.stack.tcp_info(id).expect("is here").unacknowledged_bytes, 5);
}

#[test]
fn connections_with_much_to_send_take_turns() {
    let mut one = host(1, &[2]);
    for port in [80, 81] {
        let facts = Agreed::default().facts(0, at(v4(1), 4000), at(v4(2), port));
        let id = one.stack.tcp_adopt(&facts, TcpOptions::default(), 0).expect("can be adopted");
        one.stack.tcp_write(id, 0, &[0; 3000], false).expect("has room");
    }
    let sent = frames(&mut one.stack, 0);
    let ports: Vec<u16> =
        sent.iter().filter_map(|frame| segment(frame)).map(|(header, ..)| header.destination_port).collect();
    assert_eq!(ports, [80, 81, 80, 81, 80, 81]);
}

#[test]
fn idle_connections_have_no_deadlines() {
    let mut one = host(1, &[2]);
    for port in 1..=10_000 {
        let facts = Agreed::default().facts(0, at(v4(1), 4000), at(v4(2), port));
        one.stack.tcp_adopt(&facts, TcpOptions::default(), 0).expect("can be adopted");
    }
    assert!(frames(&mut one.stack, 0).is_empty());
    assert_eq!((one.stack.next_deadline(), one.stack.tcp_connections()), (None, 10_000));
}

#[test]
fn path_is_in_doubt_when_a_long_segment_was_sent_again_twice_for_nothing() {
    for (bytes, is_long) in [(1400, true), (400, false)] {
        let (mut one, mut two) = pair();
        let id = adopt(&mut one, 0, [v4(1), v4(2)]);
        let far = adopt(&mut two, 1, [v4(1), v4(2)]);
        two.stack.tcp_write(far, 0, b"hello", false).expect("has room");
        frames(&mut two.stack, 0).iter().for_each(|frame| _ = one.receive(frame));
        one.stack.tcp_write(id, 0, &vec![1; bytes], false).expect("has room");
        frames(&mut one.stack, 0);
        let in_doubt = |host: &Host| host.stack.tcp_readiness(id).expect("is here").path_in_doubt;
        frames(&mut one.stack, 1500 * MS);
        assert!(!in_doubt(&one), "{bytes}");
        while one.stack.take_ready().is_some() {}
        frames(&mut one.stack, 10_000 * MS);
        assert_eq!(in_doubt(&one), is_long, "{bytes}");
        assert_eq!(one.stack.take_ready(), is_long.then_some(id), "{bytes}");
    }
}

#[test]
fn connection_that_hears_nothing_says_so_after_a_timeout_until_it_hears_something() {
    let (mut one, mut two) = pair();
    let id = adopt(&mut one, 0, [v4(1), v4(2)]);
    adopt(&mut two, 1, [v4(1), v4(2)]);
    let is_unheard = |host: &Host| host.stack.tcp_readiness(id).expect("is here").unheard;
    one.stack.tcp_write(id, 0, b"hello", false).expect("has room");
    frames(&mut one.stack, 0);
    assert!(!is_unheard(&one));
    while one.stack.take_ready().is_some() {}
    let again = frames(&mut one.stack, 2000 * MS);
    assert!(!again.is_empty() && is_unheard(&one));
    assert_eq!(one.stack.take_ready(), Some(id));
    again.iter().for_each(|frame| _ = two.receive(frame));
    let answers = frames(&mut two.stack, 2100 * MS);
    assert!(!answers.is_empty());
    answers.iter().for_each(|frame| _ = one.receive(frame));
    assert!(!is_unheard(&one));
}
