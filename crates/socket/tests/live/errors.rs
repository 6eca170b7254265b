//! Error messages of ICMP that come by the port of an accelerated socket.

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

use nearwire_frames::EnginePort;
use nearwire_socket::config::Mode;
use nearwire_sys::tsc::rough_ticks;

use crate::near::Near;

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

/// What half of the receives take at most, ticks, each after `before`.
fn median_ticks(near: &mut Near, socket: &UdpSocket, peer: &UdpSocket, mut before: impl FnMut()) -> u64 {
    let to = SocketAddr::new(near.near().ipv4.into(), 5000);
    let mut taken: Vec<u64> = (0..ROUNDS)
        .map(|_| {
            before();
            peer.send_to(b"in", to).unwrap();
            let mut longest = 0;
            loop {
                let began_ticks = rough_ticks();
                let received = near.try_receive(socket);
                longest = longest.max(rough_ticks() - began_ticks);
                if received.is_some_and(|(_, payload)| payload == b"in") {
                    break longest;
                }
            }
        })
        .collect();
    taken.sort_unstable();
    taken[taken.len() / 2]
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
        let errors = |near: &mut Near| near.sockets.engine().unwrap().attached().next().unwrap().port.errors_passed();
        let calm_ticks = median_ticks(&mut near, &socket, &peer, || {});
        let errors_before = errors(&mut near);
        let flood_ticks = median_ticks(&mut near, &socket, &peer, || {
            other.send_to(b"nobody listens", closed).unwrap();
        });
        let errors = errors(&mut near) - errors_before;
        println!("{mode:?}: {errors} errors; a receive takes {calm_ticks} ticks, {flood_ticks} in the flood");
        assert!(errors >= u64::from(ROUNDS) / 2, "{mode:?}: {errors} errors");
        assert!(flood_ticks < calm_ticks + HELD_UP_TICKS / 2, "{mode:?}: {calm_ticks}, and {flood_ticks} in the flood");
    }
}
