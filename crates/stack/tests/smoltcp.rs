//! A second opinion: smoltcp at the far end of the cable, in memory.

mod common;
#[path = "common/smoltcp_wire.rs"]
mod smoltcp_wire;

use common::{Host, IFINDEX, at, host, mac, v4, v6};
use nearwire_stack::{EndpointId, Link, Message, Update, Verdict};
use proptest::prelude::*;
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::socket::udp::{PacketBuffer, PacketMetadata, Socket};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpAddress, IpCidr, IpEndpoint};
use smoltcp_wire::Wire;

/// Host 2, served by smoltcp, with a socket on port 9.
struct Peer {
    interface: Interface,
    sockets: SocketSet<'static>,
    socket: SocketHandle,
    wire: Wire,
}

fn peer() -> Peer {
    let mut wire = Wire::of_frames(9014);
    let address = EthernetAddress(mac(2).0);
    let mut interface = Interface::new(Config::new(HardwareAddress::Ethernet(address)), &mut wire, Instant::ZERO);
    interface.update_ip_addrs(|addresses| {
        for (address, len) in [(v4(2), 24), (v6(2), 64)] {
            addresses.push(IpCidr::new(address.into(), len)).expect("room");
        }
    });
    let buffer = || PacketBuffer::new(vec![PacketMetadata::EMPTY; 8], vec![0; 4096]);
    let mut socket = Socket::new(buffer(), buffer());
    socket.bind(9).expect("free");
    let mut sockets = SocketSet::new(Vec::new());
    let socket = sockets.add(socket);
    Peer { interface, sockets, socket, wire }
}

impl Peer {
    fn poll(&mut self) {
        self.interface.poll(Instant::ZERO, &mut self.wire, &mut self.sockets);
    }

    /// What the socket got: payload and sender.
    fn received(&mut self, frame: Vec<u8>) -> Option<(Vec<u8>, IpEndpoint)> {
        self.wire.towards.push_back(frame);
        self.poll();
        let socket = self.sockets.get_mut::<Socket<'_>>(self.socket);
        socket.recv().ok().map(|(payload, meta)| (payload.to_vec(), meta.endpoint))
    }

    /// The frame of a datagram. smoltcp asks for the hardware address first; it learned it from a frame of ours.
    fn sends(&mut self, payload: &[u8], to: IpEndpoint) -> Vec<u8> {
        let socket = self.sockets.get_mut::<Socket<'_>>(self.socket);
        socket.send_slice(payload, to).expect("room");
        self.poll();
        self.wire.from.pop().expect("sent")
    }

    /// Tells it host 1's hardware address the way it wants to hear it.
    fn learn(&mut self) {
        let [IpAddress::Ipv4(sender), IpAddress::Ipv4(target)] = [v4(1), v4(2)].map(IpAddress::from) else { return };
        let arp = smoltcp::wire::ArpRepr::EthernetIpv4 {
            operation: smoltcp::wire::ArpOperation::Request,
            source_hardware_addr: EthernetAddress(mac(1).0),
            source_protocol_addr: sender,
            target_hardware_addr: EthernetAddress([0; 6]),
            target_protocol_addr: target,
        };
        let mut frame = vec![0; 14 + arp.buffer_len()];
        let mut ethernet = smoltcp::wire::EthernetFrame::new_unchecked(&mut frame);
        ethernet.set_src_addr(EthernetAddress(mac(1).0));
        ethernet.set_dst_addr(EthernetAddress::BROADCAST);
        ethernet.set_ethertype(smoltcp::wire::EthernetProtocol::Arp);
        arp.emit(&mut smoltcp::wire::ArpPacket::new_unchecked(ethernet.payload_mut()));
        self.wire.towards.push_back(frame);
        self.poll();
        self.wire.from.clear();
    }
}

fn ours(six: bool) -> (Host, EndpointId) {
    let mut host = host(1, &[2]);
    host.stack.update(Update::NewLink(Link { mtu_bytes: 9000, ..common::link(IFINDEX, 1) }));
    let (from, to) = if six { (v6(1), v6(2)) } else { (v4(1), v4(2)) };
    let id = host.connected(at(from, 7), at(to, 9));
    (host, id)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn datagram_sent_here_arrives_at_smoltcp(six: bool, payload in proptest::collection::vec(any::<u8>(), 0..3000)) {
        let ((mut host, id), mut peer) = (ours(six), peer());
        let frame = host.send(id, &Message::new(&payload)).expect("has a way");
        let from = if six { v6(1) } else { v4(1) };
        prop_assert_eq!(peer.received(frame), Some((payload, IpEndpoint::new(from.into(), 7))));
    }

    #[test]
    fn datagram_sent_by_smoltcp_arrives_here(payload in proptest::collection::vec(any::<u8>(), 0..2000)) {
        let ((mut host, id), mut peer) = (ours(false), peer());
        peer.learn();
        let frame = peer.sends(&payload, IpEndpoint::new(v4(1).into(), 7));
        prop_assert_eq!(host.receive(&frame), Verdict::Delivered { endpoint: id, copies: 1 });
        prop_assert_eq!(host.read(id), Some(payload));
    }

    #[test]
    fn frame_with_one_bit_flipped_is_refused_by_both_or_read_alike(
        six: bool, payload in proptest::collection::vec(any::<u8>(), 0..60), bit: prop::sample::Index,
    ) {
        let ((mut host, id), mut peer) = (ours(six), peer());
        let mut far = common::host(2, &[1]);
        let reader = far.endpoint("[::]:9".parse().expect("an address"));
        let mut frame = host.send(id, &Message::new(&payload)).expect("has a way");
        // Behind the hardware addresses and the EtherType, of which smoltcp knows no tags.
        let bit = 14 * 8 + bit.index((frame.len() - 14) * 8);
        frame[bit / 8] ^= 1 << (bit % 8);
        far.receive(&frame);
        let here = far.read(reader);
        let there = peer.received(frame).map(|(payload, _)| payload);
        prop_assert_eq!(here, there, "bit {}", bit);
    }
}
