//! Datagrams that wait in the stack, given back to the kernel: other processes can read them then.
//!
//! A datagram is sent once more over the loopback device ([`nearwire_agent::give_back`]), by the agent where this process may not. The kernel
//! queues it at the shadow.
//!
//! Where the loopback device is down, as in a network namespace that nobody has set up, what is sent there is lost: all stays.
//!
//! Limit: of sockets that share the port by SO_REUSEPORT the kernel chooses one anew, so another than the one that had it may get it.
//!
//! It then has come by the loopback device, and now: a socket that reports the interface or the time keeps what waits as long as this process
//! can read it ([`Altered`]). One that takes what comes by one device alone always does. So do group datagrams and link-local ones, and what came
//! before the socket was connected, from somebody else than its peer or to another address: the shadow would not take it. What its peer has sent
//! goes back past those.

use std::net::SocketAddr;

use nearwire_agent::give_back::{GivenBack, Sender};

use crate::engine::{Engine, received, send_at_home};
use crate::host::Host;
use crate::socket::Socket;

/// What becomes of datagrams that the shadow does not take, or with which the reader would get another time or interface after they went back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Altered {
    /// They stay: this process reads them. Where the reader would get another time or interface, all stay.
    Stays,
    /// They go: this process forgets what stays. A time or an interface that is not the true one is less than no datagram.
    Goes,
}

/// Gives back what waits for a socket. Whether any went.
pub(crate) fn requeue<H: Host>(socket: &mut Socket, engine: &mut Engine<H>, altered: Altered) -> bool {
    let (Some(endpoint), Some(local)) = (socket.endpoint(), socket.ends.local) else { return false };
    let waiting = engine.stack_ref().udp_waiting(endpoint);
    let asked = *socket.ancillary();
    let is_bound_to_device = socket.kept().is_some_and(|kept| kept.options.device.is_some());
    if waiting == 0 || is_bound_to_device || !engine.has_loopback() {
        return false;
    }
    let peer = socket.ends.peer();
    let is_told = asked.wants_times().is_some() || asked.packet_info || asked.packet_info_v6 || asked.drops;
    if is_told && altered == Altered::Stays {
        return false;
    }
    let (mut sender, shadow, home) = (Sender::default(), socket.shadow.fd, engine.home());
    let (mut is_refused, mut is_oldest_here) = (false, false);
    for at in 0..waiting {
        let sent = engine.stack_ref().udp_peek(endpoint, |datagram| {
            let is_of_peer = peer.is_none_or(|peer| is_same(peer, datagram.source));
            let own = local.ip().to_canonical();
            let is_to_own = own.is_unspecified() || own == datagram.destination;
            if !is_of_peer || !is_to_own || is_refused {
                return false;
            }
            let datagram = received(datagram, local.port());
            let is_sent = match send_at_home(&mut sender, home.as_deref(), &datagram) {
                GivenBack::NotAllowed => engine.give_back(shadow, &datagram),
                done => done == GivenBack::Done,
            };
            // Those behind it would be read before it.
            is_refused = !is_sent && altered == Altered::Stays;
            is_sent
        });
        if sent != Some(true) && altered == Altered::Stays {
            engine.stack().udp_put_last(endpoint);
            is_oldest_here |= at == 0;
            continue;
        }
        engine.stack().udp_read(endpoint, |_| ());
        if !is_oldest_here {
            socket.shadow.read_first();
        }
    }
    engine.stack_ref().udp_waiting(endpoint) < waiting
}

/// The same address and port, whether an IPv4 address is written as one of IPv6 or not.
fn is_same(one: SocketAddr, other: SocketAddr) -> bool {
    (one.ip().to_canonical(), one.port()) == (other.ip().to_canonical(), other.port())
}
