//! TCP of connections that were adopted from the kernel: data transfer from ESTABLISHED on (RFC 9293 section 3.10).
//!
//! The kernel makes connections and ends them. Between the two a connection is here: built of [`TcpFacts`], and given back as such
//! ([`Stack::tcp_export`](crate::Stack::tcp_export)) as long as neither end has sent its FIN.
//!
//! ```text
//!  frame    -> receive.rs -> arrival.rs: checksum, four-tuple -> input.rs: acceptable?
//!                 acknowledged.rs   delivered, round trip, losses, window     sender.rs, scoreboard.rs, rack.rs, recovery.rs, congestion.rs
//!                 receive_buffer.rs payload, in order or early                receiver.rs: when it is acknowledged
//!  calls    -> calls.rs: adopt, write, read, shut down, abort, export, remove
//!                 bulk.rs: whether the kernel would be faster; prepared.rs: a message whose frame was made before
//!  time     -> wheel.rs: whose deadline has passed -> timers.rs
//!  any of them -> output.rs: which segment is next -> transmit.rs, flow.rs: a frame, written into memory that a port lends
//! ```
//! Nothing here reads a clock. Every call says what time it is, on one clock that does not go back.
//!
//! # Not supported: the kernel serves it
//!
//! **Making and ending connections** (SYN, TIME_WAIT, SO_LINGER); urgent data, which is left unacknowledged until the connection is
//! released; options beyond timestamps and selective acknowledgements (fast open, MPTCP, authentication). Not done, though a sender may:
//! undoing a reduction that was not needed (RFC 4015, F-RTO), HyStart++, pacing, segments of other sizes to search the path's MTU.

mod acknowledged;
mod arrival;
mod bulk;
mod calls;
mod congestion;
mod connection;
mod facts;
mod flow;
mod info;
mod input;
mod options;
mod output;
mod prepared;
mod rack;
mod ranges;
mod receive_buffer;
mod receiver;
mod recovery;
mod ring;
mod round_trip;
mod scoreboard;
mod segment;
mod send_buffer;
mod sender;
mod sequence;
mod slab;
mod timers;
mod timestamps;
mod transmit;
mod wheel;

use std::collections::{HashMap, VecDeque};

pub use bulk::{BULK_CALL_BYTES, BULK_RECEIVED_BYTES, BULK_SENT_BYTES};
pub use calls::TcpCallError;
pub use congestion::CongestionControl;
pub use connection::TcpError;
pub use facts::{AdoptError, ExportError, TcpFacts, TcpRoundTrip, TcpTimestamp, TcpWindow};
pub use info::{TcpCounters, TcpInfo, TcpReadiness};
pub use options::{Keepalive, TcpOptions};
pub use prepared::PreparedMessage;
pub use slab::ConnectionId;
pub use transmit::OutgoingSegment;

use crate::address::Address;
use crate::hash::KeyedHash;
use slab::Slab;
use wheel::Wheel;

/// (local, remote, local port and remote port).
type Tuple = (Address, Address, u32);

/// All connections.
#[derive(Debug)]
pub(crate) struct Tcp {
    connections: Slab,
    demux: HashMap<Tuple, u32, KeyedHash>,
    wheel: Wheel,
    /// Those that may have something to send.
    queued: VecDeque<u32>,
    /// Something happened since they were last polled: their deadlines are not known.
    is_unsettled: bool,
    /// Those of which their program is to hear.
    announced: Vec<u32>,
    /// Those that have something to send and no way, and the generation of the tables in which that was found.
    stuck: Vec<u32>,
    stuck_generation: u64,
    now_ns: u64,
    /// Those that were written to last.
    writers: bulk::Writers,
    counters: TcpCounters,
}

impl Tcp {
    pub(crate) fn new(hash: KeyedHash) -> Tcp {
        Tcp {
            connections: Slab::default(),
            demux: HashMap::with_hasher(hash),
            wheel: Wheel::new(),
            queued: VecDeque::new(),
            is_unsettled: false,
            announced: Vec::new(),
            stuck: Vec::new(),
            stuck_generation: 0,
            now_ns: 0,
            writers: bulk::Writers::default(),
            counters: TcpCounters::default(),
        }
    }

    /// The latest time that a call reported: a clock that goes back does no harm.
    fn passed(&mut self, now_ns: u64) -> u64 {
        self.now_ns = self.now_ns.max(now_ns);
        self.now_ns
    }

    /// After any event of a connection: it is looked at when segments are sent next, and settled when it has none to send.
    #[inline]
    fn touched(&mut self, index: u32) {
        let Some(connection) = self.connections.at_mut(index) else { return };
        if !connection.is_queued {
            connection.is_queued = true;
            self.queued.push_back(index);
        }
        self.is_unsettled = true;
    }

    /// A connection has sent what it could: its deadline stands in the wheel. One that moved back is left where it is; it is looked at when
    /// it comes. Once for all that a call and its segments did, as a deadline follows from a dozen fields.
    #[inline]
    fn settle(&mut self, index: u32) {
        let Some(connection) = self.connections.at_mut(index) else { return };
        connection.settle(self.now_ns);
        let deadline_ns = connection.deadline_ns();
        if deadline_ns != u64::MAX && self.wheel.due_ns(index).is_none_or(|due_ns| deadline_ns < due_ns) {
            self.wheel.set(index, deadline_ns);
        }
    }

    /// The program is to hear of a connection.
    fn announce(&mut self, index: u32) {
        let Some(connection) = self.connections.at_mut(index) else { return };
        if !connection.is_announced {
            connection.is_announced = true;
            self.announced.push(index);
        }
    }

    /// Does what is due. Whether there was anything.
    #[inline]
    fn expire(&mut self, now_ns: u64) -> bool {
        self.wheel.may_have_expired(now_ns) && self.expire_all(now_ns)
    }

    #[cold]
    fn expire_all(&mut self, now_ns: u64) -> bool {
        let mut was_due = false;
        while let Some(index) = self.wheel.expired(now_ns) {
            let Some(connection) = self.connections.at_mut(index) else { continue };
            was_due = true;
            let has_ended = connection.deadline_ns() <= now_ns && connection.expire(now_ns);
            let is_in_doubt = connection.is_path_in_doubt() || connection.is_unheard();
            self.touched(index);
            if has_ended {
                self.counters.timed_out += 1;
            }
            if has_ended || is_in_doubt {
                self.announce(index);
            }
        }
        was_due
    }
}

const fn ports(local: u16, remote: u16) -> u32 {
    (local as u32) << 16 | remote as u32
}
