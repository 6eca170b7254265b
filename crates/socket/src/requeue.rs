//! Datagrams that wait in the stack, given back to the kernel: other processes can read them then.
//!
//! A datagram is sent once more, from the address it came from, by a raw socket whose packets to an address of this host
//! pass the loopback device (raw(7), IPPROTO_RAW; the packet keeps the route of its sending, so nobody asks whether
//! that source may come from there). The kernel queues it at the shadow. AF_XDP wants the capability of raw sockets
//! anyway.
//!
//! Where the loopback device is down, as in a network namespace that nobody has set up, what is sent there is lost: all stays.
//!
//! It then has come by the loopback device, and now: a socket that is told of the interface or the time, or takes what comes
//! by one device alone, keeps what waits. Group datagrams and link-local ones stay too, and what came before the
//! socket was connected, from somebody else than its peer or to another address: the shadow would not take it.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use nearwire_stack::Datagram;
use nearwire_sys::descriptor::place;
use nearwire_wire::checksum::Sum;
use nearwire_wire::ipv4::{HEADER_BYTES_MIN, Ipv4Header};
use nearwire_wire::ipv6::{self, Ipv6Header};
use nearwire_wire::udp::{self, UdpHeader, checksum_field};
use rustix::net::{AddressFamily, Protocol, SendFlags, SocketFlags, SocketType, sendto, socket_with};

use crate::engine::Engine;
use crate::host::Host;
use crate::socket::Socket;

/// Gives back what waits for a socket, as far as that changes nothing the program is told. The first one that cannot go
/// stays, and all behind it. Whether any went.
pub(crate) fn requeue<H: Host>(socket: &mut Socket, engine: &mut Engine<H>) -> bool {
    let (Some(endpoint), Some(local)) = (socket.endpoint(), socket.ends.local) else { return false };
    let waiting = engine.stack_ref().udp_waiting(endpoint);
    let asked = *socket.ancillary();
    let is_bound_to_device = socket.kept().is_some_and(|kept| kept.options.device.is_some());
    if waiting == 0 || is_bound_to_device || !engine.has_loopback() {
        return false;
    }
    let peer = socket.ends.peer();
    if asked.wants_times().is_some() || asked.packet_info || asked.packet_info_v6 || asked.drops {
        return false;
    }
    let mut sender = Sender::default();
    for _ in 0..waiting {
        let sent = engine.stack_ref().udp_peek(endpoint, |datagram| {
            let is_of_peer = peer.is_none_or(|peer| is_same(peer, datagram.source));
            let own = local.ip().to_canonical();
            let is_to_own = own.is_unspecified() || own == datagram.destination;
            is_of_peer && is_to_own && sender.send(datagram, local.port())
        });
        if sent != Some(true) {
            break;
        }
        engine.stack().udp_read(endpoint, |_| ());
        socket.shadow.read_first();
    }
    engine.stack_ref().udp_waiting(endpoint) < waiting
}

/// The same address and port, whether an IPv4 address is written as one of IPv6 or not.
fn is_same(one: SocketAddr, other: SocketAddr) -> bool {
    (one.ip().to_canonical(), one.port()) == (other.ip().to_canonical(), other.port())
}

/// Raw sockets, opened when needed.
#[derive(Default)]
pub(crate) struct Sender {
    v4: Option<OwnedFd>,
    v6: Option<OwnedFd>,
    packet: Vec<u8>,
}

impl Sender {
    /// Sends it to the address that it was for, on this host. `false`: the kernel refuses, or it is for several.
    pub(crate) fn send(&mut self, datagram: &Datagram<'_>, local_port: u16) -> bool {
        let Some(written) = self.write(datagram, local_port) else { return false };
        let (raw, family) = match datagram.destination {
            IpAddr::V4(_) => (&mut self.v4, AddressFamily::INET),
            IpAddr::V6(_) => (&mut self.v6, AddressFamily::INET6),
        };
        if raw.is_none() {
            *raw = socket_with(family, SocketType::RAW, SocketFlags::CLOEXEC, Some(RAW)).ok().map(place);
        }
        let Some(raw) = raw else { return false };
        sendto(raw, &self.packet, SendFlags::DONTWAIT, &SocketAddr::new(written, 0)).is_ok()
    }

    /// The packet as it came, as far as the program can tell. Gives the destination.
    fn write(&mut self, datagram: &Datagram<'_>, destination_port: u16) -> Option<IpAddr> {
        let Datagram { payload, source, destination, ttl, tos, .. } = *datagram;
        let source_port = source.port();
        let udp_bytes = u16::try_from(udp::HEADER_BYTES + payload.len()).ok()?;
        self.packet.clear();
        let pseudo = match (source.ip(), destination) {
            (IpAddr::V4(source), IpAddr::V4(to)) if !to.is_multicast() && !to.is_broadcast() => {
                self.packet.resize(HEADER_BYTES_MIN + usize::from(udp_bytes), 0);
                let header = Ipv4Header {
                    tos,
                    identification: 0,
                    dont_fragment: true,
                    more_fragments: false,
                    fragment_offset: 0,
                    ttl,
                    protocol: udp::PROTOCOL,
                    source,
                    destination: to,
                };
                header.write(&mut self.packet).ok()?;
                Sum::default().pseudo_v4(source, to, udp::PROTOCOL, udp_bytes)
            }
            (IpAddr::V6(source), IpAddr::V6(to)) if !to.is_multicast() && !to.is_unicast_link_local() => {
                self.packet.resize(ipv6::HEADER_BYTES + usize::from(udp_bytes), 0);
                let header = Ipv6Header {
                    traffic_class: tos,
                    flow_label: 0,
                    next_header: udp::PROTOCOL,
                    hop_limit: ttl,
                    source,
                    destination: to,
                };
                header.write(&mut self.packet).ok()?;
                Sum::default().pseudo_v6(source, to, udp::PROTOCOL, udp_bytes)
            }
            _ => return None,
        };
        let at = self.packet.len() - usize::from(udp_bytes);
        let body = self.packet.get_mut(at..)?;
        UdpHeader { source_port, destination_port, checksum: [0; 2] }.write(body).ok()?.copy_from_slice(payload);
        let checksum = checksum_field(pseudo.bytes(body));
        UdpHeader { source_port, destination_port, checksum }.write(body).ok()?;
        Some(destination)
    }
}

const RAW: Protocol = Protocol::from_raw(match std::num::NonZeroU32::new(libc::IPPROTO_RAW as u32) {
    Some(number) => number,
    None => std::num::NonZeroU32::MIN,
});
