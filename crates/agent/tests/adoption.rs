//! Connections that are adopted and released again while both ends send, beside the kernel at the far end. On a real kernel over a veth
//! pair; needs root (or says SKIP). `NEARWIRE_ADOPTIONS=N`: so many in each storm.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod streams;

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use nearwire_agent::adoption::{AdoptionError, Set, adopt, end_by, release, slipped};
use nearwire_agent::give_back::{GivenBack, Sender};
use nearwire_frames::ports::xdp::{Steer, XdpConfig, XdpMode, XdpPort};
use nearwire_frames::{Port, RawPort};
use nearwire_lab::{Cable, CableEnd};
use nearwire_sys::tcp_repair::set_repair;
use rustix::net::sockopt::{set_socket_reuseaddr, socket_reuseaddr};
use streams::{Course, Random, cable_or_skip, connect, flow};

const ETHERNET_BYTES: usize = 14;
const PATIENCE: Duration = Duration::from_secs(20);

/// Gives the kernel what came to the port.
fn give_back(port: &mut XdpPort, sender: &mut Sender, to: SocketAddr) -> u32 {
    let mut count = 0;
    while let Some(sent) = port.receive(|frame| sender.send_packet(&frame[ETHERNET_BYTES..], to.ip())).unwrap() {
        assert_eq!(sent, GivenBack::Done);
        count += 1;
    }
    count
}

/// Adopts and releases a connection so often while `bytes` for each of these go both ways.
fn storm(address: fn(&CableEnd) -> IpAddr, accepted: bool, seed: u64) {
    let Some(cable) = cable_or_skip() else { return };
    let adoptions = std::env::var("NEARWIRE_ADOPTIONS").map_or(400, |count| count.parse().unwrap());
    let (near, far) = (cable.near(), cable.far());
    let config = XdpConfig::new(&near.interface, XdpMode::Generic, Steer::Filters);
    let mut port = near.namespace.enter(|| XdpPort::open(&config)).unwrap().unwrap();
    let mut sender = Sender::default();
    let [near_stream, far_stream] = connect(near, far, address, accepted);
    let (local, filter) = (near_stream.local_addr().unwrap(), flow(&near_stream));
    let (mut one, mut other) = (Course::new(1, 2), Course::new(2, 1));
    let (mut random, mut given_back, mut slips) = (Random(seed), 0, 0);
    let all_bytes = adoptions * 5_000;
    for _ in 0..adoptions {
        for _ in 0..random.below(3) {
            one.turn(&near_stream, random.below(20_000) as usize, all_bytes);
            other.turn(&far_stream, random.below(20_000) as usize, all_bytes);
        }
        port.add_filter(filter).unwrap();
        let mut connection = adopt(&near_stream).unwrap();
        for _ in 0..random.below(3) {
            other.turn(&far_stream, random.below(20_000) as usize, all_bytes);
        }
        let came = slipped(&near_stream).unwrap();
        slips += usize::from(!came.is_empty());
        connection.next_sequence = connection.next_sequence.wrapping_add(came.len() as u32);
        connection.unread.extend(came);
        near.namespace.enter(|| release(&near_stream, &connection)).unwrap().unwrap();
        port.remove_filter(filter).unwrap();
        given_back += near.namespace.enter(|| give_back(&mut port, &mut sender, local)).unwrap();
    }
    let until = Instant::now() + PATIENCE;
    while one.read < all_bytes || other.read < all_bytes {
        one.turn(&near_stream, 20_000, all_bytes);
        other.turn(&far_stream, 20_000, all_bytes);
        assert!(Instant::now() < until, "{} and {} of {all_bytes} bytes", one.read, other.read);
    }
    println!("{adoptions} adoptions, {all_bytes} bytes each way, {given_back} frames given back, {slips} slipped");
}

#[test]
fn accepted_connection_adopted_and_released_while_both_ends_send_loses_nothing() {
    storm(|end| end.ipv4.into(), true, 1);
}

#[test]
fn connected_connection_adopted_and_released_while_both_ends_send_loses_nothing() {
    storm(|end| end.ipv4.into(), false, 2);
}

#[test]
fn ipv6_connection_adopted_and_released_while_both_ends_send_loses_nothing() {
    storm(|end| end.ipv6.into(), true, 3);
}

#[test]
fn socket_that_is_not_connected_is_not_adopted() {
    let Some(cable) = cable_or_skip() else { return };
    let (near, far) = cable
        .near()
        .namespace
        .enter(|| {
            let listener = TcpListener::bind("0.0.0.0:0").unwrap();
            let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            (near, listener.accept().unwrap().0)
        })
        .unwrap();
    far.shutdown(std::net::Shutdown::Write).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    let refused = adopt(&near).unwrap_err();
    assert!(matches!(refused, AdoptionError::NotEstablished { state: 8 }), "{refused}");
    // It goes on as it was.
    (&near).write_all(b"still").unwrap();
    let mut buffer = [0; 5];
    (&far).read_exact(&mut buffer).unwrap();
    assert_eq!(&buffer, b"still");
}

/// As the kernel's own is after it was given up.
#[test]
fn connection_that_is_ended_reads_as_ended_and_keeps_its_address_option() {
    let Some(cable) = cable_or_skip() else { return };
    let (near, far) = (cable.near(), cable.far());
    for reuses in [false, true] {
        let [mut stream, mut far_stream] = connect(near, far, |end| end.ipv4.into(), false);
        set_socket_reuseaddr(&stream, reuses).unwrap();
        let connection = adopt(&stream).unwrap();
        assert_eq!(connection.set, Set { reuse_address: reuses, keepalive: false });
        end_by(&stream, connection.set, &|repair| set_repair(&stream, repair)).unwrap();
        assert_eq!(socket_reuseaddr(&stream).unwrap(), reuses);
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
        assert_eq!(stream.write(&[0]).unwrap_err().kind(), ErrorKind::BrokenPipe);
        assert_eq!(stream.take_error().unwrap().map(|error| error.kind()), None);
        assert_eq!(far_stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock, "nothing is sent");
    }
}
