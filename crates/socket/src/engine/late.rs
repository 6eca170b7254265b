//! Frames that come to a port although their flow has just left it: the program in the kernel had decided before, and the device had not
//! put them into the ring.
//!
//! The socket is the kernel's by then, or another engine's, and nobody here takes them. They are sent to its shadow (`requeue.rs`), so that
//! nothing is lost; those that came to its new place in the meantime may be read before them. A socket that is closed has the kernel refuse
//! them, as it would have. A process without the capability of raw sockets (a share of the agent's) loses them.
//!
//! What comes to a flow that is open here is for a socket here, or for nobody: the kernel may have another answer by then, as when the
//! socket has been connected to where the datagram is from.

use std::net::{IpAddr, SocketAddr};

use nearwire_agent::give_back::Sender;
use nearwire_stack::Datagram;
use nearwire_wire::ethernet::{EtherType, EthernetHeader};
use nearwire_wire::ipv4::Ipv4Header;
use nearwire_wire::ipv6::Ipv6Header;
use nearwire_wire::udp::{self, UdpDatagram};

use super::flows::Flows;
use crate::now::Now;
use crate::requeue::received;

/// After so long no frame is on its way, on however busy a host: 40 ms at 5 GHz, 200 at 1. Later on a frame for nobody comes from
/// a peer that a connected socket does not want, and is dropped.
const LATE_TICKS: u64 = 200_000_000;

/// See the module.
#[derive(Default)]
pub(super) struct LateFrames {
    until_ticks: Option<u64>,
    sender: Sender,
}

impl LateFrames {
    /// A flow has left.
    pub(super) fn expect(&mut self, now: Now) {
        self.until_ticks = Some(now.ticks.wrapping_add(LATE_TICKS));
    }

    /// Gives a frame for which the stack has no endpoint to the kernel, if it is one of these. `flows`: those that are open here.
    #[cold]
    pub(super) fn take(&mut self, now: Now, frame: &[u8], flows: &Flows) {
        let is_late = |until_ticks: u64| until_ticks.wrapping_sub(now.ticks) <= LATE_TICKS;
        if !self.until_ticks.is_some_and(is_late) {
            return;
        }
        if let Some((datagram, port)) = datagram_of(frame)
            && !flows.take(datagram.destination, port)
        {
            // The kernel may refuse it: the socket is closed.
            self.sender.send(&received(&datagram, port));
        }
    }
}

/// The datagram of a frame that the stack has found to be right, and the port that it is for.
fn datagram_of(frame: &[u8]) -> Option<(Datagram<'_>, u16)> {
    let (header, packet) = EthernetHeader::parse(frame).ok()?;
    let (source, destination, ttl, tos, payload): (IpAddr, IpAddr, u8, u8, &[u8]) = match header.ethertype {
        EtherType::IPV4 => {
            let packet = Ipv4Header::parse(packet).ok()?;
            let header = packet.header;
            (header.source.into(), header.destination.into(), header.ttl, header.tos, packet.payload)
        }
        EtherType::IPV6 => {
            let (header, payload) =
                Ipv6Header::parse(packet).ok().filter(|(header, _)| header.next_header == udp::PROTOCOL)?;
            (header.source.into(), header.destination.into(), header.hop_limit, header.traffic_class, payload)
        }
        _ => return None,
    };
    let udp = UdpDatagram::parse(payload).ok()?;
    let datagram = Datagram {
        payload: udp.payload(),
        source: SocketAddr::new(source, udp.header.source_port),
        destination,
        ifindex: 0,
        ttl,
        tos,
        received_ns: 0,
        device_ns: 0,
        dropped_before: 0,
    };
    Some((datagram, udp.header.destination_port))
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr, UdpSocket};
    use std::time::Duration;

    use nearwire_frames::steering::{FlowFilter, Transport};
    use nearwire_lab::{Cable, VirtualCable, VirtualCableOptions};
    use nearwire_wire::MacAddress;
    use nearwire_wire::checksum::Sum;
    use nearwire_wire::ethernet::VlanTags;
    use nearwire_wire::udp::{HEADER_BYTES, UdpHeader};

    use super::*;

    fn frame(source: SocketAddr, to: SocketAddr, payload: &[u8]) -> Vec<u8> {
        let udp_bytes = HEADER_BYTES + payload.len();
        let mut body = vec![0; udp_bytes];
        let header = UdpHeader { source_port: source.port(), destination_port: to.port(), checksum: [0; 2] };
        header.write(&mut body).unwrap().copy_from_slice(payload);
        let (ethertype, mut packet) = match (source.ip(), to.ip()) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let header = Ipv4Header {
                    tos: 0,
                    identification: 7,
                    dont_fragment: true,
                    more_fragments: false,
                    fragment_offset: 0,
                    ttl: 64,
                    protocol: udp::PROTOCOL,
                    source,
                    destination,
                };
                let mut packet = vec![0; 20 + udp_bytes];
                header.write(&mut packet).unwrap();
                (EtherType::IPV4, packet)
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let header = Ipv6Header {
                    traffic_class: 0,
                    flow_label: 0,
                    next_header: udp::PROTOCOL,
                    hop_limit: 64,
                    source,
                    destination,
                };
                let mut packet = vec![0; 40 + udp_bytes];
                header.write(&mut packet).unwrap();
                // Left to the card, as over a virtual Ethernet pair.
                let sum = Sum::default().pseudo_v6(source, destination, udp::PROTOCOL, udp_bytes as u16);
                body[6..8].copy_from_slice(&udp::checksum_field(sum));
                (EtherType::IPV6, packet)
            }
            _ => panic!("addresses of one family"),
        };
        let at = packet.len() - udp_bytes;
        packet[at..].copy_from_slice(&body);
        let mac = MacAddress([2, 0, 0, 0, 0, 1]);
        let mut frame = vec![0; 14 + packet.len()];
        let ethernet = EthernetHeader { destination: mac, source: mac, tags: VlanTags::None, ethertype };
        ethernet.write(&mut frame).unwrap().copy_from_slice(&packet);
        frame
    }

    #[test]
    fn frame_that_comes_after_its_flow_has_left_reaches_the_socket_by_the_kernel() {
        let Ok(cable) = VirtualCable::lay(VirtualCableOptions::default()).inspect_err(|error| {
            assert!(std::env::var_os("NEARWIRE_REQUIRE").is_none(), "{error}");
            println!("SKIP {error}");
        }) else {
            return;
        };
        let (near, far) = (cable.near(), cable.far());
        near.namespace
            .enter(|| {
                for (own, peer, any) in [
                    (IpAddr::from(near.ipv4), IpAddr::from(far.ipv4), IpAddr::from(Ipv4Addr::UNSPECIFIED)),
                    (near.ipv6.into(), far.ipv6.into(), Ipv6Addr::UNSPECIFIED.into()),
                ] {
                    let socket = UdpSocket::bind((any, 6000)).unwrap();
                    socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
                    let source = SocketAddr::new(peer, 999);
                    let frame = frame(source, SocketAddr::new(own, 6000), b"late");
                    let (mut late, mut buffer) = (LateFrames::default(), [0; 64]);
                    let mut now = Now::default();
                    let flow = FlowFilter { transport: Transport::Udp, address: own, port: 6000 };
                    let [open, closed] = [Flows::of_one(flow), Flows::default()];
                    late.take(now, &frame, &closed);
                    late.expect(now);
                    late.take(now, &frame, &open);
                    assert!(socket.recv(&mut buffer).is_err(), "none was expected, or its flow is open here");
                    late.take(now, &frame, &closed);
                    assert_eq!(socket.recv_from(&mut buffer).unwrap(), (4, source));
                    assert_eq!(&buffer[..4], b"late");
                    now.ticks += 2 * LATE_TICKS;
                    late.take(now, &frame, &closed);
                    assert!(socket.recv(&mut buffer).is_err(), "that is not late any more");
                }
            })
            .unwrap();
    }
}
