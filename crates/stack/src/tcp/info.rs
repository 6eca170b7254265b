//! What is reported about a connection: readiness, and the figures of TCP_INFO.

use nearwire_wire::{ipv4, ipv6};

use super::TcpOptions;
use super::connection::{Connection, HEADER_BYTES, TcpError};
use super::recovery::Phase;
use super::scoreboard::Sent;
use super::sender::Fin;
use crate::reasons::NeedsKernel;
use crate::tables::sure_bytes;

/// What a program can do with a connection without waiting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpReadiness {
    /// There is data, the end of the stream or an error to read (EPOLLIN).
    pub readable: bool,
    /// There is room to write, or writing fails at once (EPOLLOUT).
    pub writable: bool,
    /// The far end has sent all (EPOLLRDHUP).
    pub peer_closed: bool,
    /// Both ends have sent all, or the connection was reset (EPOLLHUP).
    pub hung_up: bool,
    /// It has ended before its time (EPOLLERR).
    pub error: Option<TcpError>,
    /// Urgent data came: the connection is to be released, and the kernel gets it.
    pub urgent: bool,
    /// The path may not take segments as long as those that were sent: see [`Connection::is_path_in_doubt`].
    pub path_in_doubt: bool,
    /// Something was sent again after a timeout, and nothing has come since it was adopted: what the far end sends may come another way.
    pub unheard: bool,
    /// It moves so much at once that the kernel would be faster, and was to tell ([`TcpOptions::tells_bulk`]).
    pub is_bulk: bool,
    /// It has something to send and no way that this stack could take: the reason. It goes on by itself when that changes.
    pub stuck: Option<NeedsKernel>,
}

/// Figures of a connection, those of `struct tcp_info`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// SRTT, ns; 0: nothing was measured.
    pub smoothed_round_trip_ns: u64,
    /// RTTVAR, ns.
    pub round_trip_variation_ns: u64,
    /// The least round trip of the last five minutes, ns.
    pub least_round_trip_ns: u64,
    /// The retransmission timeout, ns.
    pub retransmit_timeout_ns: u64,
    /// Congestion window, bytes.
    pub congestion_window_bytes: u32,
    /// Threshold of slow start, bytes; `u32::MAX`: none yet.
    pub slow_start_threshold_bytes: u32,
    /// The largest payload of a segment, bytes.
    pub segment_bytes: u32,
    /// What the far end takes, bytes.
    pub send_window_bytes: u32,
    /// What this end takes, bytes.
    pub receive_window_bytes: u32,
    /// Sent and not acknowledged, bytes.
    pub unacknowledged_bytes: u32,
    /// Segments of that.
    pub unacknowledged_segments: u32,
    /// Bytes of that which the far end has, beyond a hole.
    pub selective_bytes: u32,
    /// Bytes of that which are taken for lost and not sent again yet.
    pub lost_bytes: u32,
    /// Written and not sent, bytes (SIOCOUTQNSD).
    pub unsent_bytes: u32,
    /// Waiting to be read, bytes (SIOCINQ).
    pub unread_bytes: u32,
    /// Segments that were sent again.
    pub retransmitted_segments: u64,
    /// Timeouts since something was acknowledged.
    pub timeouts: u32,
    /// Reports of the far end that something came twice (RFC 2883).
    pub duplicate_reports: u64,
    /// A recovery from losses goes on.
    pub is_recovering: bool,
    /// The path was seen to reorder segments.
    pub is_reordering: bool,
    /// Both ends take selective acknowledgements.
    pub has_selective_acknowledgement: bool,
}

/// Counters of TCP over all connections, since the stack was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpCounters {
    /// Segments that came for a connection here.
    pub in_segments: u64,
    /// Segments with a wrong checksum, or a header that cannot be.
    pub in_errors: u64,
    /// Segments sent.
    pub out_segments: u64,
    /// Segments sent again.
    pub retransmitted_segments: u64,
    /// Resets sent.
    pub out_resets: u64,
    /// Connections that were given up.
    pub timed_out: u64,
    /// Connections adopted.
    pub adopted: u64,
    /// Connections exported.
    pub exported: u64,
}

impl Connection {
    pub(crate) fn readiness(&self) -> TcpReadiness {
        let waiting_bytes = self.receiver.buffer.readable_bytes();
        let has_ended = self.receiver.has_ended || self.error.is_some();
        // `sk_stream_is_writeable`: a third of the buffer is free.
        let limit_bytes = self.options.send_buffer_bytes;
        let used_bytes = self.sender.buffer.len_bytes();
        let has_room = limit_bytes.saturating_sub(used_bytes) >= used_bytes / 2 && used_bytes < limit_bytes;
        // `tcp_stream_memory_free`: half of what may be unsent is free.
        let has_room = has_room && self.sender.unsent_bytes() <= self.options.unsent_most_bytes.saturating_sub(1) / 2;
        TcpReadiness {
            readable: has_ended || (waiting_bytes > 0 && waiting_bytes >= self.low_water_bytes()),
            writable: self.error.is_some() || self.sender.fin != Fin::No || has_room,
            peer_closed: has_ended,
            hung_up: self.error.is_some() || (self.receiver.has_ended && self.sender.fin != Fin::No),
            error: self.error,
            urgent: self.has_urgent,
            path_in_doubt: self.is_path_in_doubt(),
            unheard: self.is_unheard(),
            is_bulk: self.is_bulk(),
            stuck: self.way.err(),
        }
    }

    /// So many bytes may wait to be sent and acknowledged, as a program writes. The kernel, too, lets a program exceed what may be unsent by a segment.
    #[inline]
    pub(crate) fn written_most_bytes(&self) -> u32 {
        let unsent_most_bytes = self.options.unsent_most_bytes;
        if unsent_most_bytes == u32::MAX {
            return self.options.send_buffer_bytes;
        }
        let (all_bytes, unsent_bytes) = (self.sender.buffer.len_bytes(), self.sender.unsent_bytes());
        if unsent_bytes >= unsent_most_bytes {
            return all_bytes;
        }
        let most_bytes = (all_bytes - unsent_bytes).saturating_add(unsent_most_bytes).saturating_add(self.full_bytes());
        self.options.send_buffer_bytes.min(most_bytes)
    }

    /// What was sent has made room for a program that found none; from now on it is not waited for.
    #[inline]
    pub(crate) fn takes_room_of_sent(&mut self) -> bool {
        let has = self.is_write_blocked && self.options.unsent_most_bytes != u32::MAX && self.readiness().writable;
        self.is_write_blocked &= !has;
        has
    }

    /// A segment that is longer than what any path takes was sent so often without an answer that a router may drop it. Its message
    /// says so to the kernel's socket, which takes it for an old one: the kernel finds the way out when it has the connection.
    pub(crate) fn is_path_in_doubt(&self) -> bool {
        const TIMEOUTS: u32 = 2;
        if self.error.is_some() || self.sender.timeouts < TIMEOUTS {
            return false;
        }
        let destination = self.tuple.destination;
        let ip_bytes = if destination.is_v4() { ipv4::HEADER_BYTES_MIN } else { ipv6::HEADER_BYTES };
        let sure_bytes = sure_bytes(destination).saturating_sub(ip_bytes as u32 + HEADER_BYTES);
        let is_long = |sent: &Sent| sent.len() > sure_bytes;
        self.sender.scoreboard.first().is_some_and(is_long)
    }

    /// What [`TcpReadiness::unheard`] says.
    pub(crate) fn is_unheard(&self) -> bool {
        !self.has_heard && self.error.is_none() && self.sender.timeouts > 0
    }

    /// What [`TcpReadiness::is_bulk`] says.
    pub(crate) fn is_bulk(&self) -> bool {
        let TcpOptions { tells_bulk, device_cuts, device_joins, .. } = self.options;
        let bulk = &self.bulk;
        tells_bulk && ((device_cuts && bulk.is_sent()) || ((device_joins || bulk.has_joined) && bulk.is_received()))
    }

    /// SO_RCVLOWAT, which is never more than can wait (`tcp_set_rcvlowat`).
    fn low_water_bytes(&self) -> u32 {
        self.options.receive_low_water_bytes.min(self.options.receive_buffer_bytes / 2)
    }

    pub(crate) fn info(&self) -> TcpInfo {
        let sender = &self.sender;
        TcpInfo {
            smoothed_round_trip_ns: sender.round_trip.smoothed_ns().unwrap_or(0),
            round_trip_variation_ns: sender.round_trip.variation_ns(),
            least_round_trip_ns: sender.round_trip.least_ns().unwrap_or(0),
            retransmit_timeout_ns: sender.round_trip.timeout_ns(),
            congestion_window_bytes: sender.congestion.window_bytes,
            slow_start_threshold_bytes: sender.congestion.threshold_bytes,
            segment_bytes: sender.segment_bytes,
            send_window_bytes: sender.window_bytes,
            receive_window_bytes: self.receiver.open_bytes(),
            unacknowledged_bytes: sender.out_bytes(),
            unacknowledged_segments: sender.scoreboard.len() as u32,
            selective_bytes: sender.scoreboard.delivered_bytes(),
            lost_bytes: sender.scoreboard.lost_bytes(),
            unsent_bytes: sender.unsent_bytes(),
            unread_bytes: self.receiver.buffer.readable_bytes(),
            retransmitted_segments: sender.retransmitted_segments,
            timeouts: sender.timeouts,
            duplicate_reports: sender.duplicate_reports,
            is_recovering: sender.recovery.phase != Phase::Open,
            is_reordering: sender.rack.is_reordering(),
            has_selective_acknowledgement: sender.has_selective,
        }
    }
}
