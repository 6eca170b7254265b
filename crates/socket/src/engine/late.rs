//! Frames that come to a port although their flow has just left it: the program in the kernel had decided before, and the device had not
//! put them into the ring.
//!
//! The socket is the kernel's by then, or another engine's, and nobody here takes them. They are sent to its shadow (`requeue.rs`), so that
//! nothing is lost; those that came to its new place in the meantime may be read before them. A socket that is closed has the kernel refuse
//! them, as it would have. A process without the capability of raw sockets has the agent send them.
//!
//! What comes to a flow that is open here is for a socket here, or for nobody: the kernel may have another answer by then, as when the
//! socket has been connected to where the datagram is from.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use nearwire_agent::give_back::{GivenBack, Received, Sender};
use nearwire_frames::FlowSocket;
use nearwire_frames::steering::FlowFilter;
use nearwire_stack::Datagram;
use nearwire_wire::ethernet::{EtherType, EthernetHeader};
use nearwire_wire::ipv4::Ipv4Header;
use nearwire_wire::ipv6::Ipv6Header;
use nearwire_wire::udp::{self, UdpDatagram};

use super::flows::Flows;
use crate::host::{Home, at_home};
use crate::now::Now;

/// After so long no frame is on its way, on however busy a host: 40 ms at 5 GHz, 200 at 1. Later on a frame for nobody comes from
/// a peer that a connected socket does not want, and is dropped.
pub(super) const LATE_TICKS: u64 = 200_000_000;

/// As many flows that have left are remembered: what the agent is asked for must be few, and a program hands over few sockets at once.
const LEFT_MOST: usize = 256;

/// See the module.
#[derive(Default)]
pub(super) struct LateFrames {
    until_ticks: Option<u64>,
    /// The flows that left lately, and whose they were, the latest last.
    left: Vec<(FlowFilter, FlowSocket)>,
    sender: Sender,
    /// Raw sockets belong to it.
    home: Option<Arc<Home>>,
}

impl LateFrames {
    /// `home`: the network namespace of the ports.
    pub(super) fn of(home: Option<Arc<Home>>) -> LateFrames {
        LateFrames { home, ..LateFrames::default() }
    }

    /// Flows of a socket have left.
    pub(super) fn expect(&mut self, now: Now, flows: &[FlowFilter], socket: FlowSocket) {
        if !self.are_expected(now) {
            self.left.clear();
        }
        self.left.retain(|(flow, _)| !flows.contains(flow));
        self.left.extend(flows.iter().map(|flow| (*flow, socket)));
        self.left.drain(..self.left.len().saturating_sub(LEFT_MOST));
        self.until_ticks = Some(now.ticks.wrapping_add(LATE_TICKS));
    }

    /// Gives a frame for which the stack has no endpoint to the kernel, if it is one of these. `flows`: those that are open here. `by_agent`
    /// has the agent send a datagram to the shadow it was for.
    #[cold]
    pub(super) fn take(
        &mut self,
        now: Now,
        frame: &[u8],
        flows: &Flows,
        by_agent: impl FnOnce(FlowSocket, &Received<'_>),
    ) {
        if !self.are_expected(now) {
            return;
        }
        if let Some((datagram, port)) = datagram_of(frame)
            && !flows.take(datagram.destination, port)
        {
            let datagram = received(&datagram, port);
            // The kernel may refuse it: the socket is closed.
            if send_at_home(&mut self.sender, self.home.as_deref(), &datagram) == GivenBack::NotAllowed
                && let Some(socket) = self.socket_of(datagram.destination)
            {
                by_agent(socket, &datagram);
            }
        }
    }

    fn are_expected(&self, now: Now) -> bool {
        self.until_ticks.is_some_and(|until_ticks| until_ticks.wrapping_sub(now.ticks) <= LATE_TICKS)
    }

    /// The socket that had a flow, if its descriptor is still its own: the agent sends to the port that the socket it is shown is bound to.
    fn socket_of(&self, destination: SocketAddr) -> Option<FlowSocket> {
        let is_its = |flow: &FlowFilter| (flow.address, flow.port) == (destination.ip(), destination.port());
        let (_, socket) = self.left.iter().rev().find(|(flow, _)| is_its(flow))?;
        let is_open = rustix::fs::fstat(socket).is_ok_and(|stat| stat.st_ino == socket.inode);
        is_open.then_some(*socket)
    }
}

/// Sends a datagram to its shadow, by a raw socket of the engine's network namespace.
pub(crate) fn send_at_home(sender: &mut Sender, home: Option<&Home>, datagram: &Received<'_>) -> GivenBack {
    let destination = datagram.destination.ip();
    if !sender.is_open_for(destination) {
        let _ = at_home(home, || sender.open_for(destination));
    }
    // Not open, it would be opened where the thread is.
    if sender.is_open_for(destination) { sender.send(datagram) } else { GivenBack::NotAllowed }
}

/// A datagram of the stack's, which is for a port.
pub(crate) fn received<'a>(datagram: &Datagram<'a>, port: u16) -> Received<'a> {
    let Datagram { payload, source, destination, ttl, tos, .. } = *datagram;
    Received { source, destination: SocketAddr::new(destination, port), ttl, tos, payload }
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
        is_by_kernel: false,
    };
    Some((datagram, udp.header.destination_port))
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr, UdpSocket};
    use std::os::fd::AsRawFd;
    use std::time::Duration;

    use nearwire_frames::steering::Transport;
    use nearwire_lab::{Cable, VirtualCable, VirtualCableOptions, made_or_skip};
    use nearwire_sys::descriptor::Descriptor;
    use nearwire_wire::MacAddress;
    use nearwire_wire::checksum::Sum;
    use nearwire_wire::ethernet::VlanTags;
    use nearwire_wire::udp::{HEADER_BYTES, UdpHeader};
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

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

    fn flow_socket(socket: &UdpSocket) -> FlowSocket {
        let inode = rustix::fs::fstat(socket).unwrap().st_ino;
        FlowSocket { descriptor: Descriptor::new(socket.as_raw_fd()).unwrap(), inode }
    }

    #[test]
    fn late_frame_without_the_capability_of_raw_sockets_the_agent_is_shown_the_socket_it_was_for_and_no_other() {
        let dropped = std::thread::spawn(|| {
            // Of this thread alone.
            let mut sets = capabilities(None).unwrap();
            sets.effective -= CapabilitySet::NET_RAW;
            set_capabilities(None, sets).unwrap();
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            let flow_socket = flow_socket(&socket);
            let own = socket.local_addr().unwrap();
            let flow = FlowFilter { transport: Transport::Udp, address: own.ip(), port: own.port() };
            let frame = frame("127.0.0.1:999".parse().unwrap(), own, b"late");
            let (now, none) = (Now::default(), Flows::default());
            let asked = |late: &mut LateFrames| {
                let mut asked = None;
                late.take(now, &frame, &none, |socket, datagram| asked = Some((socket, datagram.payload.to_vec())));
                asked
            };
            let mut late = LateFrames::default();
            assert_eq!(asked(&mut late), None, "none was expected");
            late.expect(now, &[FlowFilter { port: 1, ..flow }], flow_socket);
            assert_eq!(asked(&mut late), None, "another flow left");
            late.expect(now, &[flow], flow_socket);
            assert_eq!(asked(&mut late), Some((flow_socket, b"late".to_vec())));
            late.expect(now, &[flow], FlowSocket { inode: flow_socket.inode + 1, ..flow_socket });
            assert_eq!(asked(&mut late), None, "the descriptor is another socket's now");
        });
        dropped.join().unwrap();
    }

    #[test]
    fn frame_that_comes_after_its_flow_has_left_reaches_the_socket_by_the_kernel() {
        let Some(cable) = made_or_skip(VirtualCable::lay(VirtualCableOptions::default())) else { return };
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
                    let flow_socket = flow_socket(&socket);
                    let never = |_, _: &Received<'_>| panic!("the process may send it itself");
                    let (mut late, mut buffer) = (LateFrames::default(), [0; 64]);
                    let mut now = Now::default();
                    let flow = FlowFilter { transport: Transport::Udp, address: own, port: 6000 };
                    let [open, closed] = [Flows::of_one(flow), Flows::default()];
                    late.take(now, &frame, &closed, never);
                    late.expect(now, &[flow], flow_socket);
                    late.take(now, &frame, &open, never);
                    assert!(socket.recv(&mut buffer).is_err(), "none was expected, or its flow is open here");
                    late.take(now, &frame, &closed, never);
                    assert_eq!(socket.recv_from(&mut buffer).unwrap(), (4, source));
                    assert_eq!(&buffer[..4], b"late");
                    now.ticks += 2 * LATE_TICKS;
                    late.take(now, &frame, &closed, never);
                    assert!(socket.recv(&mut buffer).is_err(), "that is not late any more");
                }
            })
            .unwrap();
    }
}
