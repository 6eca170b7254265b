//! The journey of a datagram to a frame: flow remembered, or resolved anew; size checked; headers and payload written
//! into the frame that a port lends.

use std::net::{IpAddr, SocketAddr};

use nearwire_wire::udp;

use crate::Stack;
use crate::address::{Address, Family};
use crate::flow::{Flow, Ready, Target};
use crate::reasons::NeedsKernel;
use crate::statistics::Statistics;
use crate::tables::{PortId, Query, Tables};
use crate::template::{FourTuple, PerDatagram, SendChecksum, Template};
use crate::udp::endpoint::Key;
use crate::udp::{EndpointId, FamilyOptions, PathMtuDiscovery, UdpOptions};

/// The longest payload over IPv4.
const PAYLOAD_BYTES_MAX: usize = 65_507;

/// A datagram to send.
#[derive(Clone, Copy, Debug)]
pub struct Message<'p> {
    /// What to send.
    pub payload: &'p [u8],
    /// Where to; `None`: to the far end of the connection.
    pub to: Option<SocketAddr>,
    /// From which address (`ipi_spec_dst` of IP_PKTINFO).
    pub source: Option<IpAddr>,
    /// Through which interface (`ipi_ifindex` of IP_PKTINFO).
    pub ifindex: Option<u32>,
    /// IP_TTL or IPV6_HOPLIMIT of this datagram alone.
    pub ttl: Option<u8>,
    /// IP_TOS or IPV6_TCLASS of this datagram alone.
    pub tos: Option<u8>,
}

impl<'p> Message<'p> {
    /// To the far end of the connection.
    #[must_use]
    pub const fn new(payload: &'p [u8]) -> Message<'p> {
        Message { payload, to: None, source: None, ifindex: None, ttl: None, tos: None }
    }

    /// To an address.
    #[must_use]
    pub const fn to(payload: &'p [u8], to: SocketAddr) -> Message<'p> {
        Message { to: Some(to), ..Message::new(payload) }
    }
}

/// A frame that is ready to be written into whatever a port lends. Dropped unwritten, it was never sent.
#[derive(Debug)]
pub struct OutgoingFrame<'s, 'p> {
    ready: &'s Ready,
    payload: &'p [u8],
    per: PerDatagram,
    statistics: &'s mut Statistics,
    /// Counts on when the frame is written.
    identification: &'s mut u16,
    family: Family,
}

/// What a port has to do about the checksum of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameChecksum {
    /// Nothing.
    Done,
    /// Sum from `start` to the end and store the complement at `start + offset`, bytes: as `csum_start` and
    /// `csum_offset` of the kernel.
    Complete {
        /// Where the UDP header starts.
        start: u16,
        /// Where the checksum lies in it.
        offset: u16,
    },
}

impl OutgoingFrame<'_, '_> {
    /// The port it goes through.
    #[inline]
    #[must_use]
    pub const fn port(&self) -> PortId {
        self.ready.hop.port
    }

    /// Length of the frame without frame check sequence. Frames below the shortest of Ethernet are not padded: the
    /// hardware does that.
    #[inline]
    #[must_use]
    pub const fn len_bytes(&self) -> usize {
        self.ready.template.frame_bytes(self.payload.len())
    }

    /// What the port has to do about the checksum.
    #[inline]
    #[must_use]
    pub const fn checksum(&self) -> FrameChecksum {
        match self.per.checksum {
            SendChecksum::Partial => FrameChecksum::Complete {
                start: self.ready.template.transport_offset() as u16,
                offset: udp::CHECKSUM_OFFSET as u16,
            },
            SendChecksum::Complete | SendChecksum::None => FrameChecksum::Done,
        }
    }

    /// Writes the frame into the first [`Self::len_bytes`] of `frame` and counts it as sent. Returns its length; 0: there
    /// was no room, and nothing was sent.
    #[inline]
    pub fn write(self, frame: &mut [u8]) -> usize {
        let len_bytes = self.len_bytes();
        let Some(frame) = frame.get_mut(..len_bytes) else { return 0 };
        if !self.ready.template.write(frame, self.payload, self.per) {
            return 0;
        }
        *self.identification = self.identification.wrapping_add(1);
        self.statistics.udp_mut(self.family).out_datagrams += 1;
        self.statistics.ip_mut(self.family).out_requests += 1;
        len_bytes
    }
}

impl Stack {
    /// Makes a frame of a datagram. Ask a port for [`OutgoingFrame::len_bytes`] of room, then write it there.
    ///
    /// # Errors
    /// The datagram has to go through the kernel, which will send it or say what is wrong; all of them are counted.
    #[inline]
    pub fn udp_send<'s, 'p>(
        &'s mut self,
        id: EndpointId,
        message: &Message<'p>,
    ) -> Result<OutgoingFrame<'s, 'p>, NeedsKernel> {
        let Stack { tables, udp, statistics, config, .. } = self;
        let Some(endpoint) = udp.endpoints.get_mut(id) else {
            return Err(statistics.count_needs_kernel(NeedsKernel::NoEndpoint));
        };
        let is_plain = message.to.is_none() && message.source.is_none() && message.ifindex.is_none();
        if !(is_plain && endpoint.flow.holds_connection(tables.generation()))
            && let Err(reason) = renew(tables, &endpoint.key, &endpoint.options, &mut endpoint.flow, message, is_plain)
        {
            return Err(statistics.count_needs_kernel(reason));
        }
        let is_sure = match endpoint.flow.outcome() {
            Ok(ready) => fits(ready, &endpoint.options, message.payload.len()),
            // Below.
            Err(_) => true,
        };
        if !is_sure
            && let Err(reason) = look_at_path(tables, &mut endpoint.flow, &endpoint.options, message.payload.len())
        {
            let is_counted = reason != NeedsKernel::PathUnknown;
            return Err(if is_counted { statistics.count_needs_kernel(reason) } else { reason });
        }
        let ready = match endpoint.flow.outcome() {
            Ok(ready) => ready,
            Err(reason) => return Err(statistics.count_needs_kernel(reason)),
        };
        let family = if endpoint.key.remote.is_v4() && is_plain { Family::V4 } else { ready.hop.source.family() };
        let options = &endpoint.options;
        let standing = standing(ready, options, config.default_ttl, family);
        let ttl = message.ttl.unwrap_or(standing.ttl);
        //= RFC 1122 3.2.1.7 MUST: no packet is sent with a time to live of 0
        if ttl == 0 {
            return Err(statistics.count_needs_kernel(NeedsKernel::TtlZero));
        }
        //= RFC 6864 4.1 MUST: an identification is unique where the packet may be fragmented
        let needs_identification = !standing.dont_fragment || endpoint.key.is_connected();
        let identification = if needs_identification { endpoint.identification } else { 0 };
        let per = PerDatagram { ttl, tos: message.tos.unwrap_or(standing.tos), identification, ..standing };
        Ok(OutgoingFrame {
            ready,
            payload: message.payload,
            per,
            statistics,
            identification: &mut endpoint.identification,
            family,
        })
    }
}

/// Makes the flow that of `message`. The outcome, good or bad, is remembered; what concerns the call alone is returned.
fn renew(
    tables: &mut Tables,
    key: &Key,
    options: &UdpOptions,
    flow: &mut Flow,
    message: &Message<'_>,
    is_plain: bool,
) -> Result<(), NeedsKernel> {
    if key.local_port == 0 {
        return Err(NeedsKernel::NotBound);
    }
    let target = target(key, flow, message)?;
    if flow.holds(tables.generation(), &target) {
        return Ok(());
    }
    let outcome = resolve(tables, key, options, &target);
    let is_of_connection = is_plain && key.is_connected();
    flow.remember(tables.generation(), target, is_of_connection, outcome);
    Ok(())
}

fn target(key: &Key, flow: &Flow, message: &Message<'_>) -> Result<Target, NeedsKernel> {
    let (destination, port, scope) = match message.to {
        Some(to) => (Address::from(to.ip()), to.port(), crate::udp::scope_of(&to)),
        None if key.is_connected() => (key.remote, key.remote_port, flow.connection_scope()),
        None => return Err(NeedsKernel::NoDestination),
    };
    let is_carried = match key.family {
        Family::V4 => destination.is_v4(),
        Family::V6 => !destination.is_v4() || !key.v6_only,
    };
    if !is_carried {
        return Err(NeedsKernel::FamilyMismatch);
    }
    if port == 0 {
        return Err(NeedsKernel::PortZero);
    }
    Ok(Target { destination, port, scope, source: message.source.map(Address::from), ifindex: message.ifindex })
}

fn resolve(tables: &mut Tables, key: &Key, options: &UdpOptions, target: &Target) -> Result<Ready, NeedsKernel> {
    let destination = target.destination;
    let is_group = destination.is_multicast();
    let of_family = options.of(destination.family());
    let group_interface = of_family.multicast_interface.filter(|_| is_group);
    let bound = Some(key.local).filter(|local| !local.is_any() && !local.is_multicast());
    let group_source = group_interface.and_then(|interface| interface.source).map(Address::from);
    let query = Query {
        destination,
        source: target.source.or(bound).or(group_source.filter(|source| source.family() == destination.family())),
        ifindex: target
            .ifindex
            .or(options.device)
            .or(target.scope)
            .or(group_interface.map(|interface| interface.ifindex)),
    };
    let hop = tables.next_hop(query).map_err(|reason| match reason {
        NeedsKernel::Broadcast if !options.broadcast => NeedsKernel::BroadcastNotPermitted,
        reason => reason,
    })?;
    if is_group && of_family.multicast_loop && hop.is_joined_here {
        return Err(NeedsKernel::MulticastLoop);
    }
    let tuple =
        FourTuple { source: hop.source, destination, source_port: key.local_port, destination_port: target.port };
    Ok(Ready { template: Template::new(tuple, &hop), hop, is_group })
}

/// A packet does not fit as far as it is known: whether it does by what the kernel said of the path since.
#[cold]
fn look_at_path(
    tables: &mut Tables,
    flow: &mut Flow,
    options: &UdpOptions,
    payload_bytes: usize,
) -> Result<(), NeedsKernel> {
    let ready = flow.outcome()?;
    let packet_bytes = ready.template.packet_bytes(payload_bytes);
    let longest_bytes = options.of(ready.hop.source.family()).longest_packet_bytes.min(ready.hop.mtu_bytes);
    let is_too_long = packet_bytes > longest_bytes as usize;
    if is_too_long || payload_bytes > PAYLOAD_BYTES_MAX || ready.hop.sure_bytes == ready.hop.mtu_bytes {
        return Err(NeedsKernel::LargerThanMtu);
    }
    let Some((_, target)) = flow.current(tables.generation()) else { return Err(NeedsKernel::LargerThanMtu) };
    if !tables.is_path_known(ready.hop.ifindex, target.destination) {
        return Err(NeedsKernel::PathUnknown);
    }
    // Had the answer said something else, the flow would have been resolved anew.
    flow.path_is_free();
    if fits(flow.outcome()?, options, payload_bytes) { Ok(()) } else { Err(NeedsKernel::LargerThanMtu) }
}

/// Whether a payload of this length goes in one packet.
#[inline]
fn fits(ready: &Ready, options: &UdpOptions, payload_bytes: usize) -> bool {
    use PathMtuDiscovery as Mode;
    let of_family = options.of(ready.hop.source.family());
    let mtu_bytes = match of_family.path_mtu_discovery {
        Mode::Probe | Mode::Interface | Mode::Omit => ready.hop.link_mtu_bytes,
        Mode::Dont | Mode::Want | Mode::Do => ready.hop.sure_bytes,
    };
    payload_bytes <= PAYLOAD_BYTES_MAX
        && ready.template.packet_bytes(payload_bytes) <= mtu_bytes.min(of_family.longest_packet_bytes) as usize
}

/// What the options of an endpoint say of each of its datagrams. Without an identification.
#[inline]
pub(crate) fn standing(ready: &Ready, options: &UdpOptions, default_ttl: u8, family: Family) -> PerDatagram {
    let of_family = options.of(family);
    PerDatagram {
        ttl: standing_ttl(ready, of_family, default_ttl),
        tos: of_family.tos,
        identification: 0,
        dont_fragment: dont_fragment(ready, of_family),
        checksum: checksum(ready, options, family),
    }
}

#[inline]
fn standing_ttl(ready: &Ready, options: &FamilyOptions, default_ttl: u8) -> u8 {
    //= RFC 1112 6.1 MUST: the default time to live of group datagrams is 1
    if ready.is_group { options.multicast_ttl } else { options.ttl.or(ready.hop.hop_limit).unwrap_or(default_ttl) }
}

#[inline]
fn dont_fragment(ready: &Ready, options: &FamilyOptions) -> bool {
    use PathMtuDiscovery as Mode;
    match options.path_mtu_discovery {
        Mode::Do | Mode::Probe => true,
        Mode::Want => !ready.hop.is_mtu_locked,
        Mode::Dont | Mode::Interface | Mode::Omit => false,
    }
}

#[inline]
fn checksum(ready: &Ready, options: &UdpOptions, family: Family) -> SendChecksum {
    //= RFC 8200 8.1 MUST: UDP over IPv6 has a checksum
    match (options.no_checksum && family == Family::V4, ready.hop.offers.send_checksum) {
        (true, _) => SendChecksum::None,
        (false, true) => SendChecksum::Partial,
        (false, false) => SendChecksum::Complete,
    }
}
