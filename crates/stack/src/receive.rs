//! The journey of a frame to its reader: Ethernet, IP, UDP, endpoint; then lent in place, or queued.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use nearwire_wire::checksum::{ChecksumState, Sum};
use nearwire_wire::ethernet::{EtherType, EthernetHeader, VlanTags};
use nearwire_wire::ipv4::{self, Ipv4Error, Ipv4Header};
use nearwire_wire::ipv6::{Ipv6Error, Ipv6Header};
use nearwire_wire::udp::{self, UdpDatagram};

use crate::Stack;
use crate::address::{Address, Family};
use crate::reasons::{Dropped, NotOurs};
use crate::tables::{DestinationClass, PortId};
use crate::tcp::ConnectionId;
use crate::udp::demux::Incoming;
use crate::udp::queue::QueueError;
use crate::udp::{Datagram, EndpointId, Udp};

/// What a port knows of the UDP checksum of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReceiveChecksum {
    /// Nothing: it is verified here.
    #[default]
    Verify,
    /// It is verified here, and the sum of the pseudo header alone is good too. Only for a port where that can only mean
    /// a sender on this machine that left the rest to its card: a virtual Ethernet pair. On a wire it would let
    /// corruption through.
    VerifyOrPartial,
    /// It is verified here, and of a segment of TCP the sum of the pseudo header alone is good too. For a port whose frames the kernel has had before,
    /// as in generic mode: it leaves segments so that it has verified and joined (GRO). A segment that was harmed on a wire passes as often as by
    /// its own checksum, once in 65536.
    VerifyOrJoined,
    /// Somebody verified it: the card, or the kernel.
    Verified,
}

/// A frame that arrived.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'f> {
    /// The port it came in by.
    pub port: PortId,
    /// From the destination address on, without frame check sequence.
    pub frame: &'f [u8],
    /// When, on a clock of the caller's.
    pub received_ns: u64,
    /// When the device had it, on a clock of the device's; 0: it does not say.
    pub device_ns: u64,
    /// What the port knows of the checksum.
    pub checksum: ReceiveChecksum,
}

/// What a reader does with a datagram that is lent to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// It has read it.
    Consumed,
    /// It wants it queued: it is not waiting, or waits for another endpoint.
    Queue,
}

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// An endpoint has it, or several.
    Delivered {
        /// The first of them.
        endpoint: EndpointId,
        /// How many: more than one only of a group or broadcast datagram.
        copies: u32,
    },
    /// A connection has taken it in.
    Segment {
        /// Which one.
        connection: ConnectionId,
    },
    /// It ends a connection whose end is left to the kernel ([`TcpOptions::leaves_ending`](crate::TcpOptions)), and was not taken in.
    Ending {
        /// Which one.
        connection: ConnectionId,
    },
    /// It was for this host, and no endpoint is bound to its port.
    Dropped(Dropped),
    /// It is the kernel's business.
    NotOurs(NotOurs),
}

/// A packet with what its reader may want to know of the layers below.
#[derive(Clone, Copy, Debug)]
struct Packet<'f> {
    payload: &'f [u8],
    ifindex: u32,
    ttl: u8,
    tos: u8,
    is_group: bool,
}

impl Stack {
    /// Takes a frame in.
    ///
    /// `reader` is offered the datagram in place, once for each endpoint that it is for, unless earlier ones wait there:
    /// order is kept. What it does not consume is copied to the endpoint's receive buffer.
    #[inline]
    pub fn receive(
        &mut self,
        arrival: &Arrival<'_>,
        mut reader: impl FnMut(EndpointId, &Datagram<'_>) -> Take,
    ) -> Verdict {
        let verdict = match self.ethernet(arrival, &mut reader) {
            Ok(verdict) | Err(verdict) => verdict,
        };
        self.statistics.count_verdict(verdict);
        verdict
    }

    /// Ethernet: for this station, and of an interface that is up.
    #[inline]
    fn ethernet(
        &mut self,
        arrival: &Arrival<'_>,
        reader: &mut impl FnMut(EndpointId, &Datagram<'_>) -> Take,
    ) -> Result<Verdict, Verdict> {
        let (header, packet) =
            EthernetHeader::parse(arrival.frame).map_err(|_| Verdict::NotOurs(NotOurs::NotEthernet))?;
        let receiving = self.tables.receiving(arrival.port);
        let (mut ifindex, mut mac) = receiving.ok_or(Verdict::NotOurs(NotOurs::InterfaceDown))?;
        if header.tags != VlanTags::None {
            (ifindex, mac) = self.vlan(ifindex, mac, header.tags).ok_or(Verdict::NotOurs(NotOurs::UnknownVlan))?;
        }
        //= RFC 1122 3.3.1.1 MUST: a frame for another station is not taken
        if header.destination != mac && !header.destination.is_group() {
            return Err(Verdict::NotOurs(NotOurs::OtherHost));
        }
        match header.ethertype {
            EtherType::IPV4 => self.ipv4(arrival, ifindex, packet, reader),
            EtherType::IPV6 => self.ipv6(arrival, ifindex, packet, reader),
            _ => Err(Verdict::NotOurs(NotOurs::EtherType)),
        }
    }

    /// The interface of a tagged frame. VLAN 0 says priority only and belongs to the interface itself.
    fn vlan(
        &self,
        ifindex: u32,
        mac: nearwire_wire::MacAddress,
        tags: VlanTags,
    ) -> Option<(u32, nearwire_wire::MacAddress)> {
        tags.iter().try_fold((ifindex, mac), |below, tag| match self.tables.vlan_above(below.0, tag.vlan_id()) {
            None if tag.vlan_id() == 0 => Some(below),
            above => above,
        })
    }

    #[inline]
    fn ipv4(
        &mut self,
        arrival: &Arrival<'_>,
        ifindex: u32,
        bytes: &[u8],
        reader: &mut impl FnMut(EndpointId, &Datagram<'_>) -> Take,
    ) -> Result<Verdict, Verdict> {
        self.statistics.ip_mut(Family::V4).in_receives += 1;
        let packet = match Ipv4Header::parse(bytes) {
            Ok(packet) => packet,
            Err(Ipv4Error::Cut { .. }) => return Err(self.drop_ip(Family::V4, Dropped::InTruncatedPkts)),
            Err(_) => return Err(self.drop_ip(Family::V4, Dropped::InHdrErrors)),
        };
        let header = packet.header;
        if header.is_fragment() {
            return Err(Verdict::NotOurs(NotOurs::Fragment));
        }
        if !packet.options.is_empty() {
            match ipv4::has_source_route(packet.options) {
                Ok(false) => {}
                Ok(true) => return Err(Verdict::NotOurs(NotOurs::SourceRoute)),
                Err(_) => return Err(self.drop_ip(Family::V4, Dropped::InHdrErrors)),
            }
        }
        if header.protocol != udp::PROTOCOL {
            return Err(self.not_udp_v4(arrival, ifindex, bytes));
        }
        let (source, destination) = (Address::v4(header.source), Address::v4(header.destination));
        let is_group = self.destination(ifindex, destination)?;
        //= RFC 1122 3.2.1.3 MUST: a packet from an invalid source address is dropped silently
        if self.tables.is_martian_v4(ifindex, source, destination) {
            return Err(self.drop_ip(Family::V4, Dropped::InMartianSource));
        }
        //= RFC 1122 3.2.1.7 MUST: a packet is taken whatever its time to live
        let taken = Packet { payload: packet.payload, ifindex, ttl: header.ttl, tos: header.tos, is_group };
        let pseudo = |length| Sum::default().pseudo_v4(header.source, header.destination, udp::PROTOCOL, length);
        self.udp(arrival, taken, Ends::V4(header.source, header.destination), pseudo, reader)
    }

    #[inline]
    fn ipv6(
        &mut self,
        arrival: &Arrival<'_>,
        ifindex: u32,
        packet: &[u8],
        reader: &mut impl FnMut(EndpointId, &Datagram<'_>) -> Take,
    ) -> Result<Verdict, Verdict> {
        self.statistics.ip_mut(Family::V6).in_receives += 1;
        let (header, payload) = match Ipv6Header::parse(packet) {
            Ok(parsed) => parsed,
            Err(Ipv6Error::Cut { .. }) => return Err(self.drop_ip(Family::V6, Dropped::InTruncatedPkts)),
            Err(_) => return Err(self.drop_ip(Family::V6, Dropped::InHdrErrors)),
        };
        if is_extension(header.next_header) {
            return Err(Verdict::NotOurs(NotOurs::ExtensionHeader));
        }
        if header.next_header != udp::PROTOCOL {
            return Err(self.not_udp_v6(arrival, ifindex, packet));
        }
        if is_martian_v6(header.source) {
            return Err(self.drop_ip(Family::V6, Dropped::InMartianSource));
        }
        if is_impossible_destination(header.destination) {
            return Err(self.drop_ip(Family::V6, Dropped::InAddrErrors));
        }
        let is_group = self.destination(ifindex, Address::v6(header.destination))?;
        let (ttl, tos) = (header.hop_limit, header.traffic_class);
        let taken = Packet { payload, ifindex, ttl, tos, is_group };
        let pseudo = |length| Sum::default().pseudo_v6(header.source, header.destination, udp::PROTOCOL, length);
        self.udp(arrival, taken, Ends::V6(header.source, header.destination), pseudo, reader)
    }

    /// Whether the destination is for several endpoints; an error where it is not for this host.
    #[inline(always)]
    fn destination(&self, ifindex: u32, destination: Address) -> Result<bool, Verdict> {
        match self.tables.class(ifindex, destination) {
            DestinationClass::Own => Ok(false),
            DestinationClass::Broadcast => Ok(true),
            //= RFC 1122 3.2.1.3 MUST: a packet for no address of this host is not taken
            DestinationClass::Group if !self.tables.is_joined(ifindex, destination) => {
                Err(Verdict::NotOurs(NotOurs::GroupNotJoined))
            }
            DestinationClass::Group => Ok(true),
            DestinationClass::Other => Err(Verdict::NotOurs(NotOurs::OtherAddress)),
        }
    }

    #[inline]
    fn udp(
        &mut self,
        arrival: &Arrival<'_>,
        packet: Packet<'_>,
        ends: Ends,
        pseudo: impl FnOnce(u16) -> Sum,
        reader: &mut impl FnMut(EndpointId, &Datagram<'_>) -> Take,
    ) -> Result<Verdict, Verdict> {
        let family = ends.family();
        self.statistics.ip_mut(family).in_delivers += 1;
        let datagram = UdpDatagram::parse(packet.payload).map_err(|_| self.drop_udp(family, Dropped::InErrors))?;
        if !has_good_checksum(arrival.checksum, family, &datagram, pseudo) {
            return Err(self.drop_udp(family, Dropped::InCsumErrors));
        }
        let header = datagram.header;
        let (source, destination) = ends.addresses();
        let incoming = Incoming {
            source,
            destination,
            source_port: header.source_port,
            destination_port: header.destination_port,
            ifindex: packet.ifindex,
        };
        let mut lent = Datagram {
            payload: datagram.payload(),
            source: ends.source(header.source_port, packet.ifindex),
            destination: ends.destination(),
            ifindex: packet.ifindex,
            ttl: packet.ttl,
            tos: packet.tos,
            received_ns: arrival.received_ns,
            device_ns: arrival.device_ns,
            dropped_before: 0,
            is_by_kernel: false,
        };
        if packet.is_group {
            return self.deliver_to_group(&incoming, &mut lent, reader);
        }
        let Some(index) = self.udp.demux.unicast(&incoming, &self.udp.endpoints) else {
            return Err(self.drop_udp(family, Dropped::NoPorts));
        };
        match self.deliver(index, family, &mut lent, reader) {
            Ok(endpoint) => Ok(Verdict::Delivered { endpoint, copies: 1 }),
            Err(reason) => Err(Verdict::Dropped(reason)),
        }
    }

    /// To each endpoint that wants it (`__udp4_lib_mcast_deliver`, `__udp6_lib_mcast_deliver`).
    fn deliver_to_group(
        &mut self,
        incoming: &Incoming,
        datagram: &mut Datagram<'_>,
        reader: &mut impl FnMut(EndpointId, &Datagram<'_>) -> Take,
    ) -> Result<Verdict, Verdict> {
        let family = incoming.destination.family();
        let Udp { endpoints, demux, receivers, .. } = &mut self.udp;
        receivers.clear();
        demux.group(incoming, endpoints, |index| {
            let wants = |endpoint: &crate::udp::Endpoint| {
                !incoming.destination.is_multicast()
                    || endpoint.wants_group(incoming.ifindex, incoming.destination, incoming.source)
            };
            if endpoints.at(index).is_some_and(wants) {
                receivers.push(index);
            }
        });
        let (mut first, mut copies, mut last_reason) = (None, 0, Dropped::IgnoredMulti);
        for at in 0..self.udp.receivers.len() {
            match self.deliver(self.udp.receivers[at], family, datagram, reader) {
                Ok(endpoint) => {
                    first = first.or(Some(endpoint));
                    copies += 1;
                }
                Err(reason) => last_reason = reason,
            }
        }
        match first {
            Some(endpoint) => Ok(Verdict::Delivered { endpoint, copies }),
            None if last_reason == Dropped::IgnoredMulti => Err(self.drop_udp(family, last_reason)),
            None => Err(Verdict::Dropped(last_reason)),
        }
    }

    /// To one endpoint: lent when nothing waits there, else queued. Copies lost are counted here.
    #[inline(always)]
    fn deliver(
        &mut self,
        index: u32,
        family: Family,
        datagram: &mut Datagram<'_>,
        reader: &mut impl FnMut(EndpointId, &Datagram<'_>) -> Take,
    ) -> Result<EndpointId, Dropped> {
        let Udp { endpoints, pool, readable, .. } = &mut self.udp;
        let Some(endpoint) = endpoints.at_mut(index) else { return Err(Dropped::NoPorts) };
        let id = EndpointId { index, version: endpoint.version };
        let counters = self.statistics.udp_mut(family);
        datagram.dropped_before = endpoint.dropped;
        if endpoint.queue.is_empty() && reader(id, datagram) == Take::Consumed {
            counters.in_datagrams += 1;
            return Ok(id);
        }
        let queued = if endpoint.is_behind_kernel {
            Err(QueueError::Full)
        } else {
            pool.push(&mut endpoint.queue, endpoint.options.receive_buffer_bytes, datagram)
        };
        match queued {
            Ok(()) => {
                if !endpoint.is_announced {
                    endpoint.is_announced = true;
                    readable.push(index);
                }
                Ok(id)
            }
            Err(error) => {
                counters.in_errors += 1;
                endpoint.dropped = endpoint.dropped.wrapping_add(1);
                let (counter, reason) = match error {
                    QueueError::Full => (&mut counters.rcvbuf_errors, Dropped::RcvbufErrors),
                    QueueError::Memory => (&mut counters.mem_errors, Dropped::MemErrors),
                };
                *counter += 1;
                Err(reason)
            }
        }
    }

    #[cold]
    fn drop_ip(&mut self, family: Family, reason: Dropped) -> Verdict {
        let counters = self.statistics.ip_mut(family);
        *match reason {
            Dropped::InTruncatedPkts => &mut counters.in_truncated_pkts,
            Dropped::InMartianSource => &mut counters.in_martian_source,
            Dropped::InAddrErrors => &mut counters.in_addr_errors,
            _ => &mut counters.in_hdr_errors,
        } += 1;
        Verdict::Dropped(reason)
    }

    #[cold]
    fn drop_udp(&mut self, family: Family, reason: Dropped) -> Verdict {
        let counters = self.statistics.udp_mut(family);
        match reason {
            Dropped::NoPorts => counters.no_ports += 1,
            Dropped::IgnoredMulti => counters.ignored_multi += 1,
            _ => {
                counters.in_errors += 1;
                counters.in_csum_errors += u64::from(reason == Dropped::InCsumErrors);
            }
        }
        Verdict::Dropped(reason)
    }
}

/// The addresses of a packet, in the types of their family.
#[derive(Clone, Copy, Debug)]
enum Ends {
    V4(Ipv4Addr, Ipv4Addr),
    V6(Ipv6Addr, Ipv6Addr),
}

impl Ends {
    #[inline]
    const fn family(self) -> Family {
        match self {
            Ends::V4(..) => Family::V4,
            Ends::V6(..) => Family::V6,
        }
    }

    #[inline]
    const fn addresses(self) -> (Address, Address) {
        match self {
            Ends::V4(source, destination) => (Address::v4(source), Address::v4(destination)),
            Ends::V6(source, destination) => (Address::v6(source), Address::v6(destination)),
        }
    }

    #[inline]
    const fn source(self, port: u16, ifindex: u32) -> SocketAddr {
        match self {
            Ends::V4(source, _) => SocketAddr::V4(SocketAddrV4::new(source, port)),
            Ends::V6(source, _) => {
                let scope = if source.is_unicast_link_local() { ifindex } else { 0 };
                SocketAddr::V6(SocketAddrV6::new(source, port, 0, scope))
            }
        }
    }

    #[inline]
    const fn destination(self) -> IpAddr {
        match self {
            Ends::V4(_, destination) => IpAddr::V4(destination),
            Ends::V6(_, destination) => IpAddr::V6(destination),
        }
    }
}

#[inline]
fn has_good_checksum(
    known: ReceiveChecksum,
    family: Family,
    datagram: &UdpDatagram<'_>,
    pseudo: impl FnOnce(u16) -> Sum,
) -> bool {
    if known == ReceiveChecksum::Verified {
        return true;
    }
    match datagram.checksum_state(pseudo(datagram.length_bytes())) {
        ChecksumState::Valid => true,
        //= RFC 768 fields MUST: over IPv4 a checksum of zero says that there is none
        //= RFC 8200 8.1 MUST: over IPv6 a datagram without checksum is dropped
        ChecksumState::Absent => family == Family::V4,
        ChecksumState::Partial => known == ReceiveChecksum::VerifyOrPartial,
        //= RFC 1122 4.1.3.4 MUST: a datagram with a wrong checksum is dropped silently
        ChecksumState::Wrong => false,
    }
}

/// Hop-by-hop, routing, fragment, ESP, AH, no next header, destination options, mobility, HIP, shim6 and the two
/// experimental ones (IANA's list of IPv6 extension header types).
const fn is_extension(next_header: u8) -> bool {
    matches!(next_header, 0 | 43 | 44 | 50 | 51 | 59 | 60 | 135 | 139 | 140 | 253 | 254)
}

/// A source that no packet on a wire may have (RFC 4291 sections 2.5.3 and 2.7; IPv4-mapped:
/// draft-itojun-v6ops-v4mapped-harmful; `net/ipv6/ip6_input.c`, `ip6_rcv_core`).
fn is_martian_v6(source: Ipv6Addr) -> bool {
    //= RFC 4291 2.7 MUST: a group is never a source
    source.is_multicast() || source.is_loopback() || Address::v6(source).is_v4()
}

/// A destination that no packet on a wire may have.
fn is_impossible_destination(destination: Ipv6Addr) -> bool {
    let scope = destination.segments()[0] & 0xf;
    //= RFC 4291 2.7 MUST: a packet for a group of the reserved scope 0 is dropped silently
    //= RFC 4291 2.5.2 MUST: the unspecified address is never a destination
    (destination.is_multicast() && scope <= 1)
        || destination.is_loopback()
        || destination.is_unspecified()
        || Address::v6(destination).is_v4()
}
