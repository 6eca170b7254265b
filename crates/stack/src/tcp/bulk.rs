//! Whether a connection moves bulk: so much at once, in long pieces, that the kernel is faster, which gives its device up to 64 KiB at a time to cut
//! and takes as much at a time from it, while each segment here is one frame.
//!
//! What is sent is counted from one moment at which all was acknowledged to the next: a request or a reply ends there, a stream has no end. What is
//! received is counted from one write of this end to the next, and within a time: messages of a feed are no bulk, however many they are.
//! Each direction has a score. It grows by one for as many bytes as are bulk, and falls by two for a run of less.
//!
//! Why these numbers: ping-pong of 64 bytes against replies, two pinned CPUs and a virtual cable, kernel at the other end, round trips in a second.
//! Replies sent by this stack and by the kernel: 19 460 and 14 110 (16 KB), 8218 and 12 304 (64 KB), 2549 and 9884 (256 KB). Replies received:
//! 15 029 and 12 304 (64 KB), 8112 and 9884 (256 KB), 1234 and 4491 (1 MB).

/// So many bytes that are sent at once are bulk.
pub const BULK_SENT_BYTES: u32 = 48 << 10;
/// So many that are received at once.
pub const BULK_RECEIVED_BYTES: u32 = 128 << 10;
/// Where calls move fewer bytes each, what they save outweighs what segments cost.
pub const BULK_CALL_BYTES: u32 = 4 << 10;

/// A score of bulk.
const ENOUGH: u32 = 8;
const SHORT_COSTS: u32 = 2;
/// What is received in more than this time is not at once.
const AT_ONCE_NS: u64 = 1_000_000;

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
    fn moved(&mut self, bytes: u32, bulk_bytes: u32) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.calls += 1;
        if self.bytes < bulk_bytes {
            return;
        }
        self.was_long = true;
        self.score = match self.bytes / self.calls >= BULK_CALL_BYTES {
            true => self.score.saturating_add(self.bytes / bulk_bytes).min(ENOUGH),
            false => self.score.saturating_sub(SHORT_COSTS),
        };
        (self.bytes, self.calls) = (0, 0);
    }

    fn end(&mut self) {
        if self.bytes > 0 && !self.was_long {
            self.score = self.score.saturating_sub(SHORT_COSTS);
        }
        (self.bytes, self.calls, self.was_long) = (0, 0, false);
    }
}

impl Bulk {
    /// A call wrote. `is_first`: all that was written before is acknowledged.
    pub(crate) fn wrote(&mut self, bytes: u32, is_first: bool) {
        if is_first {
            self.sent.end();
        }
        self.sent.moved(bytes, BULK_SENT_BYTES);
        self.received.end();
    }

    /// A call read.
    pub(crate) fn read(&mut self, bytes: u32, now_ns: u64) {
        if self.received.bytes == 0 {
            self.received_since_ns = now_ns;
        } else if now_ns.saturating_sub(self.received_since_ns) > AT_ONCE_NS {
            self.received.end();
            self.received_since_ns = now_ns;
        }
        self.received.moved(bytes, BULK_RECEIVED_BYTES);
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
            |bytes: u32, count: u32| move |bulk: &mut Bulk| (0..count).for_each(|at| bulk.wrote(bytes, at == 0));
        assert_eq!(after(stream(16 << 10, 32)), (true, false));
        assert_eq!(after(stream(16 << 10, 20)), (false, false), "not much yet");
        assert_eq!(after(stream(1 << 20, 1)), (true, false));
        assert_eq!(after(stream(1000, 100_000)), (false, false));
        assert_eq!(after(|bulk| (0..100).for_each(|_| bulk.wrote(40_000, true))), (false, false), "replies");
        assert_eq!(after(|bulk| (0..8).for_each(|_| bulk.wrote(64_000, true))), (true, false), "long replies");
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
                    bulk.wrote(64, true);
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
            (0..300).for_each(|at| bulk.wrote(if at % 3 == 0 { 100_000 } else { 1000 }, true));
        };
        assert_eq!(after(mixed), (false, false));
    }
}
