//! The way to the far end of a connection: next hop and filled headers, good as long as the generation of the tables is the one they
//! were made in.

use nearwire_wire::checksum::Sum;
use nearwire_wire::ethernet::{EtherType, EthernetHeader};
use nearwire_wire::tcp::{self, CHECKSUM_OFFSET, TcpHeader};
use nearwire_wire::{ipv4, ipv6};

use crate::reasons::NeedsKernel;
use crate::tables::{NextHop, Query, Tables, sure_bytes};
use crate::template::{FourTuple, PerDatagram, SendChecksum, finish_v4, finish_v6};

/// Ethernet with two tags, IPv6.
const HEADERS_BYTES_MAX: usize = 22 + ipv6::HEADER_BYTES;
/// No link has a smaller MTU (RFC 791).
const PACKET_BYTES_LEAST: u32 = 68;

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Flow {
    /// 0: nothing is remembered.
    generation: u64,
    ready: Option<Box<Ready>>,
}

/// A next hop with filled headers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    pub(crate) hop: NextHop,
    bytes: [u8; HEADERS_BYTES_MAX],
    ip_offset: u8,
    transport_offset: u8,
    pub(crate) is_v4: bool,
    /// Source and destination of the IPv4 header.
    ip_addresses: Sum,
    /// Addresses and protocol.
    pseudo: Sum,
}

impl Flow {
    /// What is remembered.
    #[inline]
    pub(crate) fn ready(&self) -> Option<&Ready> {
        self.ready.as_deref()
    }

    /// Whether what is remembered is good.
    #[inline]
    pub(crate) const fn holds(&self, generation: u64) -> bool {
        self.generation == generation && self.ready.is_some()
    }

    /// Finds the way. Returns how many bytes a packet may have. [`NeedsKernel::PathUnknown`]: nobody has asked the kernel yet how many, and
    /// the stack's owner is to ([`Tables::take_path_question`]). Packets that any path takes would do, but they are a third of what most take.
    #[cold]
    pub(crate) fn resolve(
        &mut self,
        tables: &mut Tables,
        tuple: FourTuple,
        scope: Option<u32>,
    ) -> Result<u32, NeedsKernel> {
        self.generation = 0;
        let query = Query { destination: tuple.destination, source: Some(tuple.source), ifindex: scope };
        let hop = tables.next_hop(query)?;
        if hop.sure_bytes < hop.mtu_bytes && !tables.is_path_known(hop.ifindex, tuple.destination) {
            return Err(NeedsKernel::PathUnknown);
        }
        // Where the kernel did not answer, as long as any path takes.
        let packet_bytes =
            if hop.mtu_bytes < PACKET_BYTES_LEAST { sure_bytes(tuple.destination) } else { hop.mtu_bytes };
        let ready = Ready::new(tuple, hop);
        match &mut self.ready {
            Some(place) => **place = ready,
            place => *place = Some(Box::new(ready)),
        }
        self.generation = tables.generation();
        Ok(packet_bytes)
    }
}

impl Ready {
    fn new(tuple: FourTuple, hop: NextHop) -> Ready {
        let is_v4 = tuple.destination.is_v4();
        let ethertype = if is_v4 { EtherType::IPV4 } else { EtherType::IPV6 };
        let ethernet =
            EthernetHeader { destination: hop.destination_mac, source: hop.source_mac, tags: hop.tags, ethertype };
        let ip_offset = ethernet.len_bytes();
        let ip_bytes = if is_v4 { ipv4::HEADER_BYTES_MIN } else { ipv6::HEADER_BYTES };
        let transport_offset = ip_offset + ip_bytes;
        let mut bytes = [0; HEADERS_BYTES_MAX];
        // The room is that of the largest headers and the EtherType is no tag's: writing cannot fail.
        let _ = ethernet.write(&mut bytes);
        let packet = &mut bytes[ip_offset..transport_offset];
        let (ip_addresses, pseudo) = if is_v4 {
            let (source, destination) = (tuple.source.to_v4(), tuple.destination.to_v4());
            packet[12..16].copy_from_slice(&source.octets());
            packet[16..20].copy_from_slice(&destination.octets());
            (Sum::default().bytes(&packet[12..20]), Sum::default().pseudo_v4(source, destination, tcp::PROTOCOL, 0))
        } else {
            let (source, destination) = (tuple.source.to_v6(), tuple.destination.to_v6());
            packet[8..24].copy_from_slice(&source.octets());
            packet[24..40].copy_from_slice(&destination.octets());
            (Sum::default(), Sum::default().pseudo_v6(source, destination, tcp::PROTOCOL, 0))
        };
        let (ip_offset, transport_offset) = (ip_offset as u8, transport_offset as u8);
        Ready { hop, bytes, ip_offset, transport_offset, is_v4, ip_addresses, pseudo }
    }

    /// Bytes of the IP header.
    pub(crate) const fn ip_bytes(&self) -> u32 {
        (self.transport_offset - self.ip_offset) as u32
    }

    /// Where the TCP header starts, bytes from the start of the frame.
    #[inline]
    pub(crate) const fn transport_offset(&self) -> usize {
        self.transport_offset as usize
    }

    /// Writes headers and payload, which lies in two pieces, to `frame`, which has exactly the room for it; `false`: it has not.
    ///
    //= RFC 9293 3.1 MUST: the sender puts the checksum in
    #[inline]
    pub(crate) fn write(
        &self,
        frame: &mut [u8],
        header: TcpHeader,
        options: &[u8],
        payload: (&[u8], &[u8]),
        per: PerDatagram,
    ) -> bool {
        let (one, two) = payload;
        let Some((segment, rest)) = self.lay_out(frame, header, options, one.len() + two.len(), per) else {
            return false;
        };
        let (first, second) = segment[rest..].split_at_mut(one.len());
        first.copy_from_slice(one);
        second.copy_from_slice(two);
        self.close(segment, per, |sum, segment| sum.bytes(segment));
        true
    }

    /// As [`Self::write`], where the payload lies in the frame already. `payload_sum`: its sum, folded.
    #[inline]
    pub(crate) fn write_headers(
        &self,
        frame: &mut [u8],
        header: TcpHeader,
        options: &[u8],
        payload_bytes: usize,
        payload_sum: [u8; 2],
        per: PerDatagram,
    ) -> bool {
        let Some((segment, rest)) = self.lay_out(frame, header, options, payload_bytes, per) else { return false };
        self.close(segment, per, |sum, segment| sum.bytes(&segment[..rest]).bytes(&payload_sum));
        true
    }

    /// Writes headers without the checksum; the segment, and where its payload begins.
    #[inline]
    fn lay_out<'f>(
        &self,
        frame: &'f mut [u8],
        header: TcpHeader,
        options: &[u8],
        payload_bytes: usize,
        per: PerDatagram,
    ) -> Option<(&'f mut [u8], usize)> {
        let (ip, transport) = (usize::from(self.ip_offset), usize::from(self.transport_offset));
        let (headers, segment) = frame.split_at_mut_checked(transport)?;
        headers.copy_from_slice(&self.bytes[..transport]);
        let packet_bytes = segment.len() as u16 + self.ip_bytes() as u16;
        if self.is_v4 {
            finish_v4(headers[ip..].first_chunk_mut()?, self.ip_addresses, tcp::PROTOCOL, packet_bytes, per);
        } else {
            finish_v6(headers[ip..].first_chunk_mut()?, tcp::PROTOCOL, packet_bytes, per);
        }
        let rest_bytes = header.write(options, segment).ok()?.len();
        let begins = segment.len() - rest_bytes;
        (rest_bytes == payload_bytes).then_some((segment, begins))
    }

    /// Writes the checksum; `add` adds the segment to a sum.
    #[inline]
    fn close(&self, segment: &mut [u8], per: PerDatagram, add: impl FnOnce(Sum, &[u8]) -> Sum) {
        let pseudo = self.pseudo.word(segment.len() as u16);
        let field = match per.checksum {
            SendChecksum::Complete => add(pseudo, segment).checksum(),
            SendChecksum::Partial | SendChecksum::None => pseudo.folded(),
        };
        segment[CHECKSUM_OFFSET..CHECKSUM_OFFSET + 2].copy_from_slice(&field);
    }
}
