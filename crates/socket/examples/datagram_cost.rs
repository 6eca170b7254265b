//! What a datagram costs in this crate, without the gate and the C calls around it: nanoseconds of a send into the port's
//! ring and of a receive of what is in it, over a virtual cable. Needs root.
//!
//! `cargo run --release -p nearwire-socket --example datagram_cost`

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Instant;

use nearwire_lab::{Cable, VirtualCable, VirtualCableOptions};
use nearwire_socket::config::{Config, Mode};
use nearwire_socket::{Family, Message, Receive, Send, ShadowSaid, Sockets, ThisHost};

const DATAGRAMS: u32 = 64;
const ROUNDS: usize = 2000;

/// The time, which each call is told first.
fn enter(sockets: &mut Sockets) {
    sockets.enter();
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cable = VirtualCable::lay(VirtualCableOptions::default())?;
    let (near, far) = (cable.near(), cable.far());
    let peer = far.namespace.enter(|| UdpSocket::bind((far.ipv4, 7001)))??;
    let sends_to: SocketAddr = (far.ipv4, 7001).into();
    near.namespace.enter(|| -> Result<(), Box<dyn std::error::Error>> {
        let shadow = UdpSocket::bind((near.ipv4, 7000))?;
        let number = shadow.as_raw_fd();
        let mut sockets = Sockets::new(
            ThisHost::default(),
            Config { mode: Mode::Native, kernel_first: 0, ..Config::default() },
            "datagram_cost",
        );
        enter(&mut sockets);
        sockets.opened(number, Family::V4, false);
        sockets.bound(number, shadow.local_addr()?);
        sockets.used(&[number]);
        println!("not accelerated because: {:?}", sockets.reason(number));
        // The addresses of both ends are found by the kernel.
        shadow.send_to(b"x", sends_to)?;
        peer.send_to(b"x", (near.ipv4, 7000))?;
        let (mut sends, mut receives) = (Vec::new(), Vec::new());
        let message = Message { to: Some(sends_to), ..Message::new(&[0; 64]) };
        for _ in 0..ROUNDS {
            enter(&mut sockets);
            sockets.look();
            if let Receive::Shadow(news) = sockets.receive(number, false, |_| ()) {
                sockets.shadow_answered(number, news, ShadowSaid::Nothing);
            }
            let started = Instant::now();
            let done = (0..DATAGRAMS)
                .filter(|_| {
                    enter(&mut sockets);
                    sockets.send(number, &message, true) == Send::Done
                })
                .count();
            let took = started.elapsed();
            sockets.flush();
            if done == DATAGRAMS as usize {
                sends.push(took.as_nanos() as u64);
            }
            for _ in 0..DATAGRAMS {
                peer.send_to(&[0; 64], (near.ipv4, 7000))?;
            }
            enter(&mut sockets);
            sockets.look();
            let started = Instant::now();
            let mut done = 0;
            let mut receive = || {
                enter(&mut sockets);
                sockets.receive(number, false, |delivery| delivery.datagram.payload.len())
            };
            while let Receive::Done(_) = receive() {
                done += 1;
            }
            if done == DATAGRAMS {
                receives.push(started.elapsed().as_nanos() as u64);
            }
        }
        for (what, mut times) in [("send", sends), ("receive", receives)] {
            times.sort_unstable();
            let at =
                |part: usize| times.get(times.len() * part / 100).copied().unwrap_or(0) as f64 / f64::from(DATAGRAMS);
            println!("{what}: {:.1} ns (least tenth {:.1}), of {} rounds", at(50), at(10), times.len());
        }
        Ok(())
    })?
}
