//! Frames that arrive, by what is in them, and frames that were sent, read again.

use std::net::{IpAddr, SocketAddr};

use nearwire_wire::MacAddress;
use nearwire_wire::checksum::{ChecksumState, Sum};
use nearwire_wire::ethernet::{EtherType, EthernetHeader, TagKind, VlanTag, VlanTags};
use nearwire_wire::ipv4::Ipv4Header;
use nearwire_wire::ipv6::Ipv6Header;
use nearwire_wire::udp::{self, UdpDatagram, UdpHeader};

use crate::bytes::Bytes;

use super::choices;
use super::waiting::Waiting;

/// What is wrong with a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    WrongChecksum,
    NoChecksum,
    Cut,
    /// A fragment; of IPv6, a fragment header.
    Fragment,
    Protocol,
    Length,
    OtherStation,
    EtherType,
}

/// A frame to come.
#[derive(Clone, Debug)]
pub(super) struct Spec {
    pub(super) fault: Fault,
    pub(super) tag_ids: Vec<u16>,
    pub(super) is_to_group_mac: bool,
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    pub(super) source_port: u16,
    pub(super) destination_port: u16,
    pub(super) payload: Vec<u8>,
}

impl Spec {
    /// `number` tells its payload from others.
    pub(super) fn new(bytes: &mut Bytes<'_>, number: u8) -> Spec {
        const FAULTS: [Fault; 8] = [
            Fault::WrongChecksum,
            Fault::NoChecksum,
            Fault::Cut,
            Fault::Fragment,
            Fault::Protocol,
            Fault::Length,
            Fault::OtherStation,
            Fault::EtherType,
        ];
        const TAGS: [&[u16]; 8] = [&[], &[], &[], &[0], &[5], &[5, 6], &[0, 5], &[9]];
        let how = bytes.u8();
        let (destination, destination_port) = (choices::own(bytes), choices::port(bytes));
        let (source, source_port) = (choices::peer(bytes), choices::port(bytes));
        let is_v4 = destination.is_ipv4();
        let mut payload = vec![number; usize::from(how >> 3 & 1) * usize::from(bytes.u8() % 80)];
        payload.push(number);
        Spec {
            fault: if how & 7 == 7 { bytes.choose(&FAULTS) } else { Fault::None },
            tag_ids: TAGS[usize::from(how >> 4 & 7)].to_vec(),
            is_to_group_mac: how & 0x80 != 0,
            source: if source.is_ipv4() == is_v4 {
                source
            } else if is_v4 {
                choices::PEER_V4
            } else {
                choices::PEER_V6
            },
            destination,
            source_port,
            destination_port,
            payload,
        }
    }

    /// As its reader will see it, but for the interface.
    pub(super) fn waiting(&self) -> Waiting {
        Waiting {
            payload: self.payload.clone(),
            source: SocketAddr::new(self.source, self.source_port),
            destination: self.destination,
            ifindex: 0,
        }
    }

    /// Its bytes, to this hardware address.
    pub(super) fn frame(&self, mac: MacAddress) -> Vec<u8> {
        let is_v4 = self.destination.is_ipv4();
        let tag = |id: &u16| VlanTag::new(TagKind::Customer, 3, false, *id).expect("in range");
        let tags = match &self.tag_ids[..] {
            [] => VlanTags::None,
            [one] => VlanTags::One(tag(one)),
            [outer, inner, ..] => VlanTags::Two(tag(outer), tag(inner)),
        };
        let ethertype = match self.fault {
            Fault::EtherType => EtherType::ARP,
            _ if is_v4 => EtherType::IPV4,
            _ => EtherType::IPV6,
        };
        let destination = match self.fault {
            Fault::OtherStation => choices::mac(99),
            _ if self.is_to_group_mac => MacAddress([1, 0, 0x5e, 1, 1, 1]),
            _ => mac,
        };
        let ethernet = EthernetHeader { destination, source: choices::mac(100), tags, ethertype };
        let datagram = self.datagram();
        let mut frame = vec![0; ethernet.len_bytes() + if is_v4 { 20 } else { 40 } + datagram.len()];
        let packet = ethernet.write(&mut frame).expect("fits");
        let payload = self.ip(packet);
        payload.copy_from_slice(&datagram);
        if self.fault == Fault::Cut {
            frame.pop();
        }
        frame
    }

    fn ip<'p>(&self, packet: &'p mut [u8]) -> &'p mut [u8] {
        let protocol = if self.fault == Fault::Protocol { 6 } else { udp::PROTOCOL };
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let header = Ipv4Header {
                    tos: 0,
                    identification: 1,
                    dont_fragment: false,
                    more_fragments: self.fault == Fault::Fragment,
                    fragment_offset: 0,
                    ttl: 9,
                    protocol,
                    source,
                    destination,
                };
                header.write(packet).expect("fits")
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let next_header = if self.fault == Fault::Fragment { 44 } else { protocol };
                let header =
                    Ipv6Header { traffic_class: 0, flow_label: 5, next_header, hop_limit: 9, source, destination };
                header.write(packet).expect("fits")
            }
            mixed => panic!("{mixed:?}"),
        }
    }

    fn datagram(&self) -> Vec<u8> {
        let mut datagram = vec![0; udp::HEADER_BYTES];
        datagram.extend_from_slice(&self.payload);
        let mut header =
            UdpHeader { source_port: self.source_port, destination_port: self.destination_port, checksum: [0; 2] };
        header.write(&mut datagram).expect("fits");
        let sum = pseudo(self.source, self.destination, datagram.len() as u16).bytes(&datagram);
        header.checksum = match (self.fault, udp::checksum_field(sum)) {
            (Fault::NoChecksum, _) => [0; 2],
            // Neither of the two forms of zero, nor none.
            (Fault::WrongChecksum, [a, b]) => {
                if [a ^ 0x55, b] == [0; 2] {
                    [a ^ 0xaa, b]
                } else {
                    [a ^ 0x55, b]
                }
            }
            (_, field) => field,
        };
        header.write(&mut datagram).expect("fits");
        if self.fault == Fault::Length {
            datagram[4..6].copy_from_slice(&[0, 7]);
        }
        datagram
    }
}

fn pseudo(source: IpAddr, destination: IpAddr, length_bytes: u16) -> Sum {
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            Sum::default().pseudo_v4(source, destination, udp::PROTOCOL, length_bytes)
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            Sum::default().pseudo_v6(source, destination, udp::PROTOCOL, length_bytes)
        }
        mixed => panic!("{mixed:?}"),
    }
}

/// What a frame that was sent says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) ethernet: EthernetHeader,
    pub(super) packet_bytes: usize,
    pub(super) ttl: u8,
    pub(super) source: SocketAddr,
    pub(super) destination: SocketAddr,
    pub(super) payload: Vec<u8>,
    pub(super) has_checksum: bool,
}

/// Reads a frame that was sent: every layer fills what is below, and the checksum is that of the datagram.
pub(super) fn read(frame: &[u8], is_checksum_done: bool) -> Sent {
    let (ethernet, packet) = EthernetHeader::parse(frame).expect("was written");
    let (source, destination, ttl, payload): (IpAddr, IpAddr, _, _) = if ethernet.ethertype == EtherType::IPV4 {
        let parsed = Ipv4Header::parse(packet).expect("was written");
        let header = parsed.header;
        (header.source.into(), header.destination.into(), header.ttl, parsed.payload)
    } else {
        let (header, payload) = Ipv6Header::parse(packet).expect("was written");
        (header.source.into(), header.destination.into(), header.hop_limit, payload)
    };
    let datagram = UdpDatagram::parse(payload).expect("was written");
    assert_eq!(datagram.bytes.len(), payload.len());
    let state = datagram.checksum_state(pseudo(source, destination, datagram.length_bytes()));
    if is_checksum_done {
        assert!(matches!(state, ChecksumState::Valid | ChecksumState::Absent), "{state:?}");
    }
    Sent {
        ethernet,
        packet_bytes: packet.len(),
        ttl,
        source: SocketAddr::new(source, datagram.header.source_port),
        destination: SocketAddr::new(destination, datagram.header.destination_port),
        payload: datagram.payload().to_vec(),
        has_checksum: state != ChecksumState::Absent,
    }
}
