//! A connection: both halves, what was negotiated, and how it ends.

use std::net::SocketAddr;

use nearwire_wire::tcp::options::{OPTIONS_BYTES_MAX, WINDOW_SCALE_MAX};
use thiserror::Error;

use crate::address::Address;
use crate::template::FourTuple;

use super::TcpOptions;
use super::bulk::Bulk;
use super::facts::{AdoptError, ExportError, TcpFacts, TcpRoundTrip, TcpWindow};
use super::flow::Flow;
use super::receiver::Receiver;
use super::sender::{Fin, NEVER, SEGMENT_BYTES_LEAST, Sender, SenderParts};
use super::sequence::Sequence;
use super::timestamps::Timestamps;

/// TCP header without options, and what timestamps take of the options.
pub(super) const HEADER_BYTES: u32 = 20;
const TIMESTAMPS_BYTES: u32 = 12;
/// RFC 9293 section 3.7.1: what every far end over IPv4 takes.
const SEGMENT_DEFAULT_BYTES: u32 = 536;
/// More than this no queue may have, so that numbers can be compared.
const QUEUE_BYTES_MAX: usize = 1 << 30;

/// Why a connection has ended before its time.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum TcpError {
    /// The far end reset it: ECONNRESET.
    #[error("the far end reset the connection")]
    Reset,
    /// The far end reset it after its FIN: EPIPE.
    #[error("the far end reset the connection after it had sent all")]
    ResetAfterFin,
    /// The far end does not answer: ETIMEDOUT.
    #[error("the far end does not answer")]
    TimedOut,
    /// This end reset it: ECONNABORTED.
    #[error("this end reset the connection")]
    Aborted,
}

/// Explicit congestion notification (RFC 3168 section 6.1).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Notification {
    pub(crate) is_negotiated: bool,
    /// A packet came marked: ECE is sent until the far end says that it heard.
    pub(crate) tells: bool,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) version: u32,
    pub(crate) tuple: FourTuple,
    /// Both ends as they were told, which may be IPv4 addresses in their mapped form.
    ends: (SocketAddr, SocketAddr),
    /// The interface that a link-local far end is on.
    pub(crate) scope: Option<u32>,
    pub(crate) flow: Flow,
    pub(crate) options: TcpOptions,
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
    pub(crate) timestamps: Option<Timestamps>,
    pub(crate) notification: Notification,
    has_window_scale: bool,
    pub(crate) error: Option<TcpError>,
    /// A RST is to be sent.
    pub(crate) is_reset_due: bool,
    /// Its number: the one that the far end expects, as far as is known.
    pub(crate) reset_sequence: Sequence,
    /// Urgent data came, which only the kernel takes.
    pub(crate) has_urgent: bool,
    /// MSG_MORE of the last write.
    pub(crate) has_more: bool,
    pub(crate) last_heard_ns: u64,
    /// A segment came since it was adopted.
    pub(crate) has_heard: bool,
    /// Until when no further answer is given to segments that cannot be accepted.
    pub(crate) quiet_until_ns: u64,
    pub(crate) identification: u16,
    /// It stands in the list of those that may have something to send.
    pub(crate) is_queued: bool,
    /// It stands in the list of those of which the program is to hear.
    pub(crate) is_announced: bool,
    /// A write found no room.
    pub(crate) is_write_blocked: bool,
    pub(crate) bulk: Bulk,
    /// What was last found about the way to the far end.
    pub(crate) way: Result<(), crate::reasons::NeedsKernel>,
}

impl Connection {
    pub(crate) fn adopt(
        facts: &TcpFacts,
        options: TcpOptions,
        version: u32,
        now_ns: u64,
    ) -> Result<Connection, AdoptError> {
        check(facts)?;
        let (window, next) = (facts.window, Sequence(facts.next_sequence));
        let unacknowledged = Sequence(facts.unacknowledged_sequence);
        let (send_shift, receive_shift) = facts.window_scale.unwrap_or_default();
        let peer_segment_bytes = match facts.maximum_segment_bytes {
            //= RFC 9293 3.7.1 MUST: a far end that says nothing of its segments takes 536 bytes
            0 => SEGMENT_DEFAULT_BYTES,
            bytes => u32::from(bytes).max(SEGMENT_BYTES_LEAST),
        };
        let parts = SenderParts {
            unacknowledged,
            next: unacknowledged + facts.sent.len() as u32,
            window_bytes: window.send_bytes,
            window_most_bytes: window.send_most_bytes.max(window.send_bytes),
            window_sequence: Sequence(window.send_sequence),
            window_shift: send_shift,
            peer_segment_bytes,
            segment_bytes: peer_segment_bytes,
            has_selective: facts.has_selective_acknowledgement,
            round_trip: facts.round_trip.map(|round_trip| (round_trip.smoothed_ns, round_trip.variation_ns)),
        };
        let told_at = Sequence(window.receive_sequence).earlier_of(next);
        let first_unread = next.minus(facts.unread.len() as u32);
        let told = (told_at, window.receive_bytes);
        let mut connection = Connection {
            version,
            tuple: tuple(facts.local, facts.peer),
            ends: (facts.local, facts.peer),
            scope: crate::udp::scope_of(&facts.peer),
            flow: Flow::default(),
            options,
            sender: Sender::new(parts, &options),
            receiver: Receiver::new(first_unread, told, receive_shift, options.receive_buffer_bytes),
            timestamps: facts.timestamp.map(|timestamp| Timestamps::new(timestamp, now_ns)),
            notification: Notification { is_negotiated: facts.has_congestion_notification, ..Notification::default() },
            has_window_scale: facts.window_scale.is_some(),
            error: None,
            is_reset_due: false,
            reset_sequence: unacknowledged,
            has_urgent: false,
            has_more: false,
            last_heard_ns: now_ns,
            has_heard: false,
            quiet_until_ns: 0,
            identification: facts.unacknowledged_sequence as u16,
            is_queued: false,
            is_announced: false,
            is_write_blocked: false,
            bulk: Bulk::default(),
            way: Ok(()),
        };
        connection.fill(facts, now_ns);
        Ok(connection)
    }

    fn fill(&mut self, facts: &TcpFacts, now_ns: u64) {
        self.limit_segments(u32::MAX);
        self.sender.buffer.push(&facts.sent, u32::MAX);
        self.sender.buffer.push(&facts.unsent, u32::MAX);
        self.sender.adopt_sent(now_ns);
        if facts.is_write_shut {
            self.sender.fin = Fin::Wanted;
        }
        let edge = Sequence(facts.next_sequence);
        self.receiver.buffer.accept(edge.minus(facts.unread.len() as u32), &facts.unread, edge);
        // An acknowledgement that the last owner delayed is not lost.
        self.receiver.is_due = self.receiver.told_at() != edge;
        self.receiver.quicken();
    }

    /// The facts for another owner. What came too early is not among them: the far end sends it again.
    pub(crate) fn export(&self, now_ns: u64) -> Result<TcpFacts, ExportError> {
        if self.error.is_some() {
            return Err(ExportError::Ended);
        }
        if self.receiver.has_ended {
            return Err(ExportError::PeerFin);
        }
        if matches!(self.sender.fin, Fin::Sent | Fin::Acknowledged) {
            return Err(ExportError::FinSent);
        }
        let Sender { unacknowledged, next, .. } = self.sender;
        let bytes = |from, count| {
            let (one, two) = self.sender.buffer.slices(from, count);
            [one, two].concat()
        };
        let (one, two) = self.receiver.buffer.readable();
        Ok(TcpFacts {
            local: self.ends.0,
            peer: self.ends.1,
            unacknowledged_sequence: unacknowledged.0,
            sent: bytes(unacknowledged, next - unacknowledged),
            unsent: bytes(next, self.sender.unsent_bytes()),
            is_write_shut: self.sender.fin == Fin::Wanted,
            next_sequence: self.receiver.next().0,
            unread: [one, two].concat(),
            window: TcpWindow {
                send_sequence: self.sender.window_sequence.0,
                send_bytes: self.sender.window_bytes,
                send_most_bytes: self.sender.window_most_bytes,
                receive_bytes: self.receiver.told_bytes(),
                receive_sequence: self.receiver.told_at().0,
            },
            maximum_segment_bytes: self.sender.peer_segment_bytes.min(u16::MAX.into()) as u16,
            window_scale: self.has_window_scale.then_some((self.sender.window_shift, self.receiver.window_shift)),
            has_selective_acknowledgement: self.sender.has_selective,
            timestamp: self.timestamps.map(|timestamps| timestamps.tell(now_ns)),
            has_congestion_notification: self.notification.is_negotiated,
            round_trip: self
                .sender
                .round_trip
                .smoothed_ns()
                .map(|smoothed_ns| TcpRoundTrip { smoothed_ns, variation_ns: self.sender.round_trip.variation_ns() }),
        })
    }

    /// The path takes TCP segments of so many bytes, with headers: segments become no larger.
    ///
    //= RFC 9293 3.7.1 MUST: a segment with its options is no larger than the far end, and the path, take
    pub(crate) fn limit_segments(&mut self, path_bytes: u32) {
        let path_bytes = path_bytes.saturating_sub(HEADER_BYTES);
        let options_bytes = if self.timestamps.is_some() { TIMESTAMPS_BYTES } else { 0 };
        let segment_bytes = self.sender.peer_segment_bytes.min(path_bytes).saturating_sub(options_bytes);
        // Options alone are never more than a segment.
        self.sender.set_segment_bytes(segment_bytes.max(OPTIONS_BYTES_MAX as u32));
    }

    /// The connection is over: nothing is sent any more, what waits to be read can be read.
    pub(crate) fn end(&mut self, error: TcpError) {
        self.error.get_or_insert(error);
        let sender = &mut self.sender;
        self.reset_sequence = sender.next;
        sender.scoreboard = super::scoreboard::Scoreboard::default();
        sender.buffer = super::send_buffer::SendBuffer::new(sender.next);
        (sender.retransmit_ns, sender.probe_ns, sender.reorder_ns, sender.persist_ns) = (NEVER, NEVER, NEVER, NEVER);
        sender.stalled_since_ns = NEVER;
        sender.unacknowledged = sender.next;
        self.receiver.is_due = false;
    }

    /// Both ends have sent all, and heard that the other has it.
    pub(crate) fn is_finished(&self) -> bool {
        self.sender.fin == Fin::Acknowledged && self.receiver.has_ended
    }
}

fn check(facts: &TcpFacts) -> Result<(), AdoptError> {
    let TcpFacts { local, peer, .. } = *facts;
    let ends = tuple(local, peer);
    let is_host = |address: Address| !address.is_any() && !address.is_multicast();
    let is_pair = ends.source.is_v4() == ends.destination.is_v4() && is_host(ends.source) && is_host(ends.destination);
    if !is_pair || local.port() == 0 || peer.port() == 0 {
        return Err(AdoptError::Addresses { local, peer });
    }
    let (send_shift, receive_shift) = facts.window_scale.unwrap_or_default();
    let window = &facts.window;
    let impossible = [
        (send_shift > WINDOW_SCALE_MAX || receive_shift > WINDOW_SCALE_MAX, "the shift of a window"),
        (facts.sent.len().saturating_add(facts.unsent.len()) > QUEUE_BYTES_MAX, "the length of the send queue"),
        (facts.unread.len() > QUEUE_BYTES_MAX, "the length of the receive queue"),
        (window.send_bytes.max(window.send_most_bytes) as usize > QUEUE_BYTES_MAX, "the send window"),
        (window.receive_bytes as usize > QUEUE_BYTES_MAX, "the receive window"),
    ];
    match impossible.into_iter().find(|(is_so, _)| *is_so) {
        Some((_, what)) => Err(AdoptError::Impossible { local, peer, what }),
        None => Ok(()),
    }
}

/// Of a dual-stack socket the kernel reports IPv4 addresses in their mapped form, which is the one they have here.
fn tuple(local: SocketAddr, peer: SocketAddr) -> FourTuple {
    FourTuple {
        source: Address::from(local.ip()),
        destination: Address::from(peer.ip()),
        source_port: local.port(),
        destination_port: peer.port(),
    }
}
