//! Warming finds the answer that an endpoint may get next, and nobody can tell that it was done.

mod common;

use std::net::{Ipv4Addr, SocketAddr};

use common::{Host, at, host, mac, neighbour, pair, v4, v6};
use nearwire_stack::{EndpointId, Message, NeighbourState, Offers, Route, UdpOptions, Update, Verdict};

/// A host with an endpoint that sent, and to where, unless it is connected.
struct Sent {
    what: &'static str,
    host: Host,
    id: EndpointId,
    to: Option<SocketAddr>,
}

fn those_that_sent() -> [Sent; 4] {
    let (any, far) = (at(Ipv4Addr::UNSPECIFIED.into(), 7), at(v4(2), 9));
    [
        ("connected", false, at(v4(1), 7), Some(far), None),
        ("unconnected", false, any, None, Some(far)),
        ("IPv6", false, at(v6(1), 7), Some(at(v6(2), 9)), None),
        ("sums left to the port", true, any, None, Some(far)),
    ]
    .map(|(what, send_checksum, local, remote, to)| {
        let (mut host, _) = pair();
        if send_checksum {
            host.stack.detach_port(host.port);
            host.port = host.stack.attach_port(common::IFINDEX, Offers { send_checksum });
        }
        let id = match remote {
            Some(remote) => host.connected(local, remote),
            None => host.endpoint(local),
        };
        host.send(id, &Message { to, ..Message::new(b"request") }).expect("a neighbour");
        Sent { what, host, id, to }
    })
}

#[test]
fn endpoint_that_sent_warmed_finds_its_answer_and_counts_nothing() {
    for (warmed, mut twin) in those_that_sent().into_iter().zip(those_that_sent()) {
        let Sent { what, mut host, id, to } = warmed;
        let before = host.stack.statistics().clone();
        assert!(host.stack.udp_warm(id), "{what}");
        assert_eq!(*host.stack.statistics(), before, "{what}");
        assert_eq!((host.read(id), host.stack.take_readable()), (None, None), "{what}");
        let next = Message { to, ..Message::new(b"next") };
        assert_eq!(host.send(id, &next), twin.host.send(twin.id, &next), "{what}: the next frame is the same");
    }
}

#[test]
fn endpoint_that_never_sent_or_closed_warmed_does_nothing() {
    let (mut host, _) = pair();
    let id = host.endpoint(at(v4(1), 7));
    assert!(!host.stack.udp_warm(id));
    host.stack.udp_close(id);
    assert!(!host.stack.udp_warm(id));
}

#[test]
fn way_that_changed_since_warmed_is_left_to_the_next_send() {
    let (mut host, _) = pair();
    let id = host.connected(at(v4(1), 7), at(v4(2), 9));
    host.send(id, &Message::new(b"request")).expect("a neighbour");
    host.stack.update(neighbour(v4(2), 3, NeighbourState::Reachable));
    assert!(!host.stack.udp_warm(id));
    let frame = host.send(id, &Message::new(b"next")).expect("a neighbour");
    assert_eq!(frame[..6], mac(3).0);
    assert!(host.stack.udp_warm(id));
}

#[test]
fn group_sent_to_warmed_does_nothing() {
    let mut host = host(1, &[]);
    let route = Route::on_link(Ipv4Addr::UNSPECIFIED.into(), 0, common::IFINDEX);
    host.stack.update(Update::NewRoute { route, replaces: false });
    let id = host.endpoint(at(v4(1), 7));
    host.send(id, &Message::to(b"news", at(Ipv4Addr::new(239, 0, 0, 9).into(), 9)))
        .expect("a group needs no neighbour");
    assert!(!host.stack.udp_warm(id));
}

#[test]
fn datagrams_that_wait_warmed_stay_as_they_are() {
    let (mut host, mut far) = pair();
    let shared = UdpOptions { reuse_port: true, ..UdpOptions::default() };
    let ids = [(); 4].map(|()| host.endpoint_with(at(v4(1), 7), shared));
    let peer = far.connected(at(v4(2), 9), at(v4(1), 7));
    let frame = far.send(peer, &Message::new(b"waits")).expect("a neighbour");
    let Verdict::Delivered { endpoint, .. } = host.receive(&frame) else { panic!("one of them has it") };
    for id in ids {
        host.send(id, &Message::to(b"request", at(v4(2), 9))).expect("a neighbour");
        // The answer is for one of them, whoever asked.
        assert_eq!(host.stack.udp_warm(id), id == endpoint);
    }
    assert_eq!(host.stack.udp_waiting(endpoint), 1);
    assert_eq!(host.read(endpoint).as_deref(), Some(&b"waits"[..]));
    assert_eq!(host.read(endpoint), None);
}
