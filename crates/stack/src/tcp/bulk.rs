//! Whether a connection moves bulk: so much at once, in long pieces, that the kernel is faster, which gives its device up to 64 KiB at a time to cut
//! and takes as much at a time from it, while each segment here is one frame.
//!
//! What is sent is counted from one moment at which all was acknowledged to the next: a request or a reply ends there, a stream has no end. What is
//! received is counted from one write of this end to the next, and within a time: messages of a feed are no bulk, however many they are.
//! Each direction has a score, in units of the bytes that are bulk: a run adds by how much it was longer than one unit, and a shorter one takes off what it
//! lacked.
//!
//! Why these numbers: ping-pong of 64 bytes against replies, two pinned CPUs and a virtual cable, kernel at the other end, round trips in a second.
//! Replies sent by this stack and by the kernel: 19 460 and 14 110 (16 KB), 8218 and 12 304 (64 KB), 2549 and 9884 (256 KB). Replies received:
//! 15 029 and 12 304 (64 KB), 8112 and 9884 (256 KB), 1234 and 4491 (1 MB). A web server that sends files on one connection: 22 261 and 15 216 (16 KB),
//! 15 234 and 14 733 (32 KB).
//!
//! One connection gains by what a thread that spins saves of each wait. Where several are busy nothing waits, and each segment counts. The same server, files
//! for 20 connections: 73 500 and 69 800 (2.5 KB), 63 900 and 78 600 (4 KB), 44 000 and 78 400 (8 KB), 17 700 and 71 000 (32 KB); for 2 connections 40 000 and
//! 39 700 (8 KB), 29 600 and 40 100 (16 KB). Received on 20 connections, files of 32 KB are bulk for nobody: 83 000 and 71 000.

/// So many bytes that are sent at once are bulk, where no other connection is busy.
pub const BULK_SENT_BYTES: u32 = 32 << 10;
/// So many where another one is.
const SENT_BYTES_AMONG_SEVERAL: u32 = 7 << 9;
/// So many that are received at once.
pub const BULK_RECEIVED_BYTES: u32 = 128 << 10;
/// Where calls move fewer bytes each, what they save outweighs what segments cost.
pub const BULK_CALL_BYTES: u32 = 4 << 10;

/// What is sent or received at once is held against this.
#[derive(Debug, Clone, Copy)]
struct Limit {
    bytes: u32,
    /// Calls that move fewer are what the kernel is slower at.
    call_bytes: u32,
    /// So many times over a run takes off what it lacks: alone, short messages gain more than long ones lose.
    short_costs: u32,
}

const ALONE: Limit = Limit { bytes: BULK_SENT_BYTES, call_bytes: BULK_CALL_BYTES, short_costs: 2 };
const AMONG_SEVERAL: Limit = Limit { bytes: SENT_BYTES_AMONG_SEVERAL, call_bytes: 3 << 10, short_costs: 1 };
const RECEIVED: Limit = Limit { bytes: BULK_RECEIVED_BYTES, call_bytes: BULK_CALL_BYTES, short_costs: 2 };

/// Parts of a unit of a score.
const UNIT: u32 = 16;
/// A score of bulk.
const ENOUGH: u32 = 8 * UNIT;
/// What is received in more than this time is not at once.
const AT_ONCE_NS: u64 = 1_000_000;
/// Another connection is busy that was written to so lately: in about the time of a round trip in which threads sleep.
const BUSY_NS: u64 = 200_000;

/// The connections of a stack that were written to last.
#[derive(Debug, Default)]
pub(crate) struct Writers {
    last: Option<u32>,
    last_ns: u64,
    /// When another one than the last was written to.
    other_ns: u64,
}

impl Writers {
    /// A call writes to the connection at a place. Whether another one is busy too.
    #[inline]
    pub(crate) fn wrote(&mut self, place: u32, now_ns: u64) -> bool {
        if self.last != Some(place) {
            self.other_ns = if self.last.is_some() { self.last_ns } else { 0 };
            self.last = Some(place);
        }
        self.last_ns = now_ns;
        self.other_ns > 0 && now_ns.saturating_sub(self.other_ns) < BUSY_NS
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Bulk {
    sent: Direction,
    received: Direction,
    received_since_ns: u64,
    /// Segments came that a device, or the kernel, had joined or left uncut.
    pub(crate) has_joined: bool,
}

#[derive(Debug, Default)]
struct Direction {
    bytes: u32,
    calls: u32,
    /// The run had as many bytes as are bulk.
    was_long: bool,
    score: u32,
}

impl Direction {
    fn moved(&mut self, bytes: u32, limit: Limit) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.calls += 1;
        if self.bytes < limit.bytes {
            return;
        }
        if self.bytes / self.calls >= limit.call_bytes {
            let gained = u64::from(self.bytes) * u64::from(UNIT) / u64::from(limit.bytes);
            let of_run = if self.was_long { 0 } else { UNIT };
            self.score = self.score.saturating_add(u32::try_from(gained).unwrap_or(ENOUGH) - of_run).min(ENOUGH);
        } else {
            self.score = self.score.saturating_sub(limit.short_costs * UNIT);
        }
        (self.bytes, self.calls, self.was_long) = (0, 0, true);
    }

    fn end(&mut self, limit: Limit) {
        if self.bytes > 0 && !self.was_long {
            let lacks_bytes = limit.bytes.saturating_sub(self.bytes);
            self.score = self.score.saturating_sub(limit.short_costs * (lacks_bytes * UNIT / limit.bytes));
        }
        (self.bytes, self.calls, self.was_long) = (0, 0, false);
    }
}

impl Bulk {
    /// A call wrote. `is_first`: all that was written before is acknowledged. `among_several`: another connection is busy too.
    pub(crate) fn wrote(&mut self, bytes: u32, is_first: bool, among_several: bool) {
        let limit = if among_several { AMONG_SEVERAL } else { ALONE };
        if is_first {
            self.sent.end(limit);
        }
        self.sent.moved(bytes, limit);
        self.received.end(RECEIVED);
    }

    /// A call read.
    pub(crate) fn read(&mut self, bytes: u32, now_ns: u64) {
        if self.received.bytes == 0 {
            self.received_since_ns = now_ns;
        } else if now_ns.saturating_sub(self.received_since_ns) > AT_ONCE_NS {
            self.received.end(RECEIVED);
            self.received_since_ns = now_ns;
        }
        self.received.moved(bytes, RECEIVED);
    }

    pub(crate) const fn is_sent(&self) -> bool {
        self.sent.score >= ENOUGH
    }

    pub(crate) const fn is_received(&self) -> bool {
        self.received.score >= ENOUGH
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(calls: impl Fn(&mut Bulk)) -> (bool, bool) {
        let mut bulk = Bulk::default();
        calls(&mut bulk);
        (bulk.is_sent(), bulk.is_received())
    }

    #[test]
    fn stream_in_long_pieces_is_bulk_and_in_short_ones_or_with_pauses_is_not() {
        let stream =
            |bytes: u32, count: u32| move |bulk: &mut Bulk| (0..count).for_each(|at| bulk.wrote(bytes, at == 0, false));
        assert_eq!(after(stream(16 << 10, 18)), (true, false));
        assert_eq!(after(stream(16 << 10, 17)), (false, false), "not much yet");
        assert_eq!(after(stream(1 << 20, 1)), (true, false));
        assert_eq!(after(stream(1000, 100_000)), (false, false));
        let replies =
            |bytes: u32, count: u32| move |bulk: &mut Bulk| (0..count).for_each(|_| bulk.wrote(bytes, true, false));
        assert_eq!(after(replies(30_000, 1000)), (false, false), "replies");
        assert_eq!(after(replies(64_000, 10)), (true, false), "long replies");
    }

    #[test]
    fn replies_of_busy_connections_are_bulk_from_a_few_segments_on() {
        let replies =
            |bytes: u32, count: u32| move |bulk: &mut Bulk| (0..count).for_each(|_| bulk.wrote(bytes, true, true));
        assert_eq!(after(replies(2_800, 1000)), (false, false));
        assert_eq!(after(replies(4_200, 64)), (true, false));
        assert_eq!(after(replies(16_000, 3)), (true, false));
        let mixed =
            |bulk: &mut Bulk| (0..100).for_each(|at| bulk.wrote(if at % 8 == 0 { 16_000 } else { 500 }, true, true));
        assert_eq!(after(mixed), (false, false));
    }

    #[test]
    fn connection_is_among_several_when_another_one_was_written_to_lately() {
        let mut writers = Writers::default();
        assert!([(1, 1000), (1, 2000)].iter().all(|(place, now_ns)| !writers.wrote(*place, *now_ns)));
        assert!([(2, 3000), (1, 4000), (1, 5000)].iter().all(|(place, now_ns)| writers.wrote(*place, *now_ns)));
        assert!(!writers.wrote(1, 3000 + BUSY_NS), "the other one rests");
    }

    #[test]
    fn received_at_once_is_bulk_and_a_feed_is_not() {
        let feed = |bytes: u32, every_ns: u64| {
            move |bulk: &mut Bulk| (0..10_000).for_each(|at| bulk.read(bytes, at * every_ns))
        };
        assert_eq!(after(feed(64 << 10, 100_000)), (false, true));
        assert_eq!(after(feed(64 << 10, 2_000_000)), (false, false), "262 Mb/s");
        assert_eq!(after(feed(500, 1000)), (false, false), "messages");
        let replies = |bytes: u32| {
            move |bulk: &mut Bulk| {
                for at in 0..100 {
                    bulk.wrote(64, true, false);
                    (0..bytes / 16_000).for_each(|_| bulk.read(16_000, at * 1_000_000));
                }
            }
        };
        assert_eq!(after(replies(64_000)), (false, false));
        assert_eq!(after(replies(320_000)), (false, true));
    }

    #[test]
    fn one_long_reply_among_many_short_ones_is_not_bulk() {
        let mixed = |bulk: &mut Bulk| {
            (0..300).for_each(|at| bulk.wrote(if at % 3 == 0 { 100_000 } else { 1000 }, true, false));
        };
        assert_eq!(after(mixed), (false, false));
    }
}
