//! Error messages of ICMP that come by the port of an accelerated socket.
#![allow(clippy::unwrap_used, reason = "what these functions do is test")]

mod near;

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

use nearwire_frames::EnginePort;
use nearwire_socket::config::Mode;
use nearwire_sys::tsc::rough_ticks;

use near::{By, Near};

/// Every datagram that is refused is answered.
const UNLIMITED: [(&str, &str); 3] = [
    ("/proc/sys/net/ipv4/icmp_ratelimit", "0"),
    ("/proc/sys/net/ipv4/icmp_msgs_per_sec", "1000000"),
    ("/proc/sys/net/ipv4/icmp_msgs_burst", "1000000"),
];
const ROUNDS: u32 = 2000;
/// As long as a receive waits for an error that is for another socket.
const HELD_UP_TICKS: u64 = 20_000;

/// A socket that is connected to a peer, so that the kernel tells it of errors.
fn connected(near: &mut Near) -> (UdpSocket, UdpSocket) {
    let peer = near.peer();
    let socket = near.open("0.0.0.0:5000");
    near.is_past_the_kernel_soon(&peer, &socket);
    let connect = || socket.connect(peer.local_addr().unwrap());
    near.near().namespace.clone().enter(connect).unwrap().unwrap();
    near.sockets().connected(socket.as_raw_fd());
    near.is_past_the_kernel_soon(&peer, &socket);
    (socket, peer)
}

#[test]
fn flood_of_errors_for_others_holds_few_receives_up() {
    for mode in [Mode::Generic, Mode::Native] {
        let Some(mut near) = Near::or_skip(mode) else { return };
        let set = |(path, value): (&str, &str)| match std::fs::write(path, value) {
            // This kernel has no such limit for each namespace.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            outcome => outcome.unwrap(),
        };
        near.far().namespace.enter(|| UNLIMITED.into_iter().for_each(set)).unwrap();
        let (socket, peer) = connected(&mut near);
        let other = near.near().namespace.clone().enter(|| UdpSocket::bind("0.0.0.0:0")).unwrap().unwrap();
        let closed = SocketAddr::new(near.far().ipv4.into(), 9);
        let to = SocketAddr::new(near.near().ipv4.into(), 5000);
        let errors = |near: &mut Near| near.sockets.engine().unwrap().attached().next().unwrap().port.errors_passed();
        let (before, mut held_up) = (errors(&mut near), 0);
        for _ in 0..ROUNDS {
            other.send_to(b"nobody listens", closed).unwrap();
            peer.send_to(b"in", to).unwrap();
            loop {
                let began_ticks = rough_ticks();
                let received = near.try_receive(&socket);
                held_up += u32::from(rough_ticks() - began_ticks >= HELD_UP_TICKS);
                if received.is_some_and(|(by, payload)| by == By::Port && payload == b"in") {
                    break;
                }
            }
        }
        let errors = errors(&mut near) - before;
        println!("{mode:?}: {errors} errors, {held_up} of {ROUNDS} receives held up");
        assert!(errors >= u64::from(ROUNDS) / 2, "{mode:?}: {errors} errors");
        assert!(held_up < ROUNDS / 4, "{mode:?}: {held_up} of {ROUNDS} were held up");
    }
}
