//! From a segment to a frame: which connection is next, the way to its far end, headers and payload written into memory that a port lends.

use nearwire_wire::tcp::options::{Block, Blocks, OPTIONS_BYTES_MAX, Options, Timestamps};
use nearwire_wire::tcp::{CHECKSUM_OFFSET, Flags, HEADER_BYTES_MIN, TcpHeader};

use super::connection::Connection;
use super::flow::Ready;
use super::segment::{Outgoing, Purpose};
use super::{ConnectionId, Tcp};
use crate::Stack;
use crate::address::Family;
use crate::reasons::NeedsKernel;
use crate::send::FrameChecksum;
use crate::statistics::Statistics;
use crate::tables::{PortId, Tables};
use crate::template::{PerDatagram, SendChecksum};

/// ECT(0) in the type of service (RFC 3168 section 5).
const CAPABLE_OF_MARKS: u8 = 2;
/// The bits of the type of service that RFC 3168 takes.
const MARK_BITS: u8 = 3;

/// A segment that is ready to be written into whatever a port lends. Dropped unwritten, it was never sent, and comes again.
#[derive(Debug)]
pub struct OutgoingSegment<'s> {
    tcp: &'s mut Tcp,
    statistics: &'s mut Statistics,
    index: u32,
    outgoing: Outgoing,
    header: TcpHeader,
    options: [u8; OPTIONS_BYTES_MAX],
    options_bytes: usize,
    per: PerDatagram,
    port: PortId,
    transport_offset: usize,
    now_ns: u64,
}

impl OutgoingSegment<'_> {
    /// The port it goes through.
    #[inline]
    #[must_use]
    pub const fn port(&self) -> PortId {
        self.port
    }

    /// Length of the frame without frame check sequence.
    #[inline]
    #[must_use]
    pub const fn len_bytes(&self) -> usize {
        self.transport_offset + HEADER_BYTES_MIN + self.options_bytes + self.outgoing.payload_bytes as usize
    }

    /// Length of its payload.
    #[inline]
    #[must_use]
    pub const fn payload_bytes(&self) -> usize {
        self.outgoing.payload_bytes as usize
    }

    /// What the port has to do about the checksum.
    #[inline]
    #[must_use]
    pub const fn checksum(&self) -> FrameChecksum {
        match self.per.checksum {
            SendChecksum::Partial => {
                FrameChecksum::Complete { start: self.transport_offset as u16, offset: CHECKSUM_OFFSET as u16 }
            }
            SendChecksum::Complete | SendChecksum::None => FrameChecksum::Done,
        }
    }

    pub(super) const fn purpose(&self) -> Purpose {
        self.outgoing.purpose
    }

    /// Whether nothing that was written comes behind it.
    pub(super) fn is_end_of_written(&self) -> bool {
        let end = self.outgoing.sequence + self.outgoing.payload_bytes;
        self.tcp.connections.at(self.index).is_some_and(|connection| connection.sender.buffer.end() == end)
    }

    /// Writes the frame into the first [`Self::len_bytes`] of `frame` and counts it as sent. Returns its length; 0: there was no room, and
    /// nothing was sent.
    #[inline]
    pub fn write(self, frame: &mut [u8]) -> usize {
        self.write_by(frame, Ready::write)
    }

    /// As [`Self::write`], into a frame that has the payload already: headers alone are written. `payload_sum`: its sum, folded.
    #[inline]
    pub(super) fn write_before(self, frame: &mut [u8], payload_bytes: usize, payload_sum: [u8; 2]) -> usize {
        self.write_by(frame, |ready, frame, header, options, _, per| {
            ready.write_headers(frame, header, options, payload_bytes, payload_sum, per)
        })
    }

    #[inline]
    fn write_by(
        self,
        frame: &mut [u8],
        write: impl FnOnce(&Ready, &mut [u8], TcpHeader, &[u8], (&[u8], &[u8]), PerDatagram) -> bool,
    ) -> usize {
        let len_bytes = self.len_bytes();
        let Some(frame) = frame.get_mut(..len_bytes) else { return 0 };
        let Some(connection) = self.tcp.connections.at_mut(self.index) else { return 0 };
        let Some(ready) = connection.flow.ready() else { return 0 };
        let payload = connection.sender.buffer.slices(self.outgoing.sequence, self.outgoing.payload_bytes);
        if !write(ready, frame, self.header, &self.options[..self.options_bytes], payload, self.per) {
            return 0;
        }
        let family = if ready.is_v4 { Family::V4 } else { Family::V6 };
        connection.identification = connection.identification.wrapping_add(1);
        if self.outgoing.purpose != Purpose::Reset {
            connection.receiver.tell();
        }
        connection.sent(&self.outgoing, self.now_ns);
        if connection.takes_room_of_sent() {
            self.tcp.announce(self.index);
        }
        self.statistics.ip_mut(family).out_requests += 1;
        let counters = &mut self.tcp.counters;
        counters.out_segments += 1;
        match self.outgoing.purpose {
            Purpose::Again(_) => counters.retransmitted_segments += 1,
            Purpose::Reset => counters.out_resets += 1,
            Purpose::New | Purpose::Probe | Purpose::Acknowledge => {}
        }
        self.tcp.touched(self.index);
        // Connections take turns: one with much to send does not keep the others waiting.
        if self.tcp.queued.len() > 1 && self.tcp.queued.front() == Some(&self.index) {
            self.tcp.queued.rotate_left(1);
        }
        len_bytes
    }
}

impl Stack {
    /// Does what is due at `now_ns`, and makes a frame of the next segment of any connection that has one to send. Ask its port for
    /// [`OutgoingSegment::len_bytes`] of room, write it there, and call again until there is none; and again where there was a question of
    /// a path ([`Stack::take_path_question`]), after it was answered.
    #[inline]
    pub fn poll_transmit(&mut self, now_ns: u64) -> Option<OutgoingSegment<'_>> {
        let now_ns = self.tcp.passed(now_ns);
        self.tcp.expire(now_ns);
        if !self.tcp.stuck.is_empty() && self.tcp.stuck_generation != self.tables.generation() {
            self.tcp.revive();
        }
        let (index, outgoing) = loop {
            let Some(index) = self.tcp.queued.front().copied() else {
                // A deadline that was set meanwhile may have passed.
                if self.tcp.expire(now_ns) {
                    continue;
                }
                self.tcp.is_unsettled = false;
                return None;
            };
            if let Some(outgoing) = self.tcp.next_of(index, &mut self.tables) {
                break (index, outgoing);
            }
            self.tcp.settle(index);
            if self.tables.has_path_question() {
                self.tcp.is_unsettled = false;
                return None;
            }
            self.tcp.queued.pop_front();
            if let Some(connection) = self.tcp.connections.at_mut(index) {
                connection.is_queued = false;
            }
        };
        self.segment(index, outgoing, now_ns)
    }

    /// As [`Self::poll_transmit`], of one connection: what a write just made possible.
    #[inline]
    pub fn tcp_transmit(&mut self, id: ConnectionId, now_ns: u64) -> Option<OutgoingSegment<'_>> {
        let now_ns = self.tcp.passed(now_ns);
        self.tcp.connections.get(id)?;
        let outgoing = self.tcp.next_of(id.index, &mut self.tables)?;
        self.segment(id.index, outgoing, now_ns)
    }

    /// When [`Self::poll_transmit`] is to be called though nothing came and nothing was called, ns; `None`: no time matters. It may be
    /// earlier than the first deadline, when that is far. 0: at once, as something happened since it said that there is no more.
    #[inline]
    #[must_use]
    pub fn next_deadline(&self) -> Option<u64> {
        if self.tcp.is_unsettled { Some(0) } else { self.tcp.wheel.next_ns() }
    }

    /// Whether something happened since [`Self::poll_transmit`] said that there is no more.
    #[inline]
    #[must_use]
    pub const fn tcp_is_unsettled(&self) -> bool {
        self.tcp.is_unsettled
    }

    /// Whether neither [`Self::poll_transmit`] nor [`Self::take_ready`] has anything to do at `now_ns`: what a spinning caller asks first.
    #[inline]
    #[must_use]
    pub fn tcp_is_idle(&self, now_ns: u64) -> bool {
        let Tcp { queued, announced, stuck, wheel, .. } = &self.tcp;
        queued.is_empty() && announced.is_empty() && stuck.is_empty() && !wheel.may_have_expired(now_ns)
    }

    fn segment(&mut self, index: u32, outgoing: Outgoing, now_ns: u64) -> Option<OutgoingSegment<'_>> {
        let Stack { tcp, statistics, config, .. } = self;
        let connection = tcp.connections.at(index)?;
        let ready = connection.flow.ready()?;
        let header = connection.header(&outgoing);
        let mut options = [0; OPTIONS_BYTES_MAX];
        let options_bytes = connection.options_of(&outgoing, now_ns).write(&mut options);
        let per = connection.standing(ready, &outgoing, config.default_ttl);
        let (port, transport_offset) = (ready.hop.port, ready.transport_offset());
        Some(OutgoingSegment {
            tcp,
            statistics,
            index,
            outgoing,
            header,
            options,
            options_bytes,
            per,
            port,
            transport_offset,
            now_ns,
        })
    }
}

impl Tcp {
    /// What a connection sends next, where it has a way.
    #[inline]
    fn next_of(&mut self, index: u32, tables: &mut Tables) -> Option<Outgoing> {
        let connection = self.connections.at(index)?;
        let outgoing = connection.next()?;
        if connection.flow.holds(tables.generation()) {
            return Some(outgoing);
        }
        if self.find_way(index, tables) {
            // Segments may be smaller than they were thought to be.
            return self.connections.at(index)?.next();
        }
        None
    }

    /// Finds the way anew; `false`: there is none that this stack could take.
    #[cold]
    pub(super) fn find_way(&mut self, index: u32, tables: &mut Tables) -> bool {
        let Some(connection) = self.connections.at_mut(index) else { return false };
        let (tuple, scope) = (connection.tuple, connection.scope);
        match connection.flow.resolve(tables, tuple, scope) {
            Ok(packet_bytes) => {
                let ip_bytes = connection.flow.ready().map_or(0, Ready::ip_bytes);
                connection.limit_segments(packet_bytes.saturating_sub(ip_bytes));
                connection.way = Ok(());
                true
            }
            // It is asked for now.
            Err(NeedsKernel::PathUnknown) => false,
            Err(reason) => {
                if std::mem::replace(&mut connection.way, Err(reason)).is_ok() {
                    self.stuck.push(index);
                    self.announce(index);
                }
                self.stuck_generation = tables.generation();
                false
            }
        }
    }

    /// What the tables know has changed: those that had no way may have one.
    #[cold]
    fn revive(&mut self) {
        while let Some(index) = self.stuck.pop() {
            if let Some(connection) = self.connections.at_mut(index) {
                connection.way = Ok(());
            }
            self.touched(index);
        }
    }
}

impl Connection {
    fn header(&self, outgoing: &Outgoing) -> TcpHeader {
        let mut flags = outgoing.flags;
        let has_new_data = outgoing.purpose == Purpose::New && outgoing.payload_bytes > 0;
        //= RFC 3168 6.1.2 MUST: the first new data after the window went down has CWR
        let answers = self.notification.is_negotiated && self.sender.has_reduced;
        flags.set(Flags::CWR, answers && has_new_data);
        flags.set(Flags::ECE, self.notification.tells && outgoing.purpose != Purpose::Reset);
        TcpHeader {
            source_port: self.tuple.source_port,
            destination_port: self.tuple.destination_port,
            sequence: outgoing.sequence.0,
            acknowledgement: self.receiver.next().0,
            flags,
            //= RFC 7323 2.3 MUST: windows that leave are scaled by this end's shift
            window: self.receiver.window_field(),
            checksum: [0; 2],
            urgent: 0,
        }
    }

    fn options_of(&self, outgoing: &Outgoing, now_ns: u64) -> Options {
        let mut options = Options::default();
        //= RFC 7323 3.2 MUST: where timestamps were agreed upon every segment has them
        if let Some(timestamps) = &self.timestamps {
            options.timestamps =
                Some(Timestamps { value: timestamps.value(now_ns), echo: timestamps.recent.unwrap_or(0) });
        }
        if self.sender.has_selective && self.receiver.has_blocks() && outgoing.purpose != Purpose::Reset {
            let mut blocks = [Block::default(); 4];
            let count = self.receiver.blocks(self.blocks_most(), &mut blocks);
            options.blocks = Blocks::new(&blocks[..count]);
        }
        options
    }

    fn standing(&self, ready: &Ready, outgoing: &Outgoing, default_ttl: u8) -> PerDatagram {
        //= RFC 3168 6.1.5 MUST: what is sent again, and what has no data, is not marked as capable
        let is_capable =
            self.notification.is_negotiated && outgoing.purpose == Purpose::New && outgoing.payload_bytes > 0;
        let marks = if is_capable { CAPABLE_OF_MARKS } else { 0 };
        PerDatagram {
            ttl: self.options.ttl.or(ready.hop.hop_limit).unwrap_or(default_ttl),
            tos: self.options.tos & !MARK_BITS | marks,
            identification: self.identification,
            dont_fragment: !ready.hop.is_mtu_locked,
            checksum: if ready.hop.offers.send_checksum { SendChecksum::Partial } else { SendChecksum::Complete },
        }
    }
}
