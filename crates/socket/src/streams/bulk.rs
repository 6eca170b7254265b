//! Connections that move bulk: by `auto` the kernel has them as long as they do, as it is faster ([`nearwire_stack::BULK_SENT_BYTES`]).
//!
//! The stack says that a connection has begun to move bulk. Whether it goes on the kernel is asked after some calls: it counts bytes and segments of both
//! directions (`tcp_traffic`), and bytes of one direction against segments of the other tell how many are moved at once, as each request, or reply,
//! has a segment at least. A connection that is adopted and moves bulk again soon is asked about less and less often.

use nearwire_stack::{BULK_CALL_BYTES, BULK_RECEIVED_BYTES, BULK_SENT_BYTES};
use nearwire_sys::tcp_traffic::Traffic;

use crate::host::Offloads;

/// Calls until it is asked whether a connection moves bulk still.
const CALLS: u16 = 128;
/// So many times more, each time that it was released for bulk.
pub(super) const CALLS_GROW_BY: u16 = 8;
/// A connection that moved bulk is adopted when it moves so much less at once than one that does.
pub(super) const COMES_BACK_BELOW: u64 = 2;

/// A connection that moves bulk, or has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moved {
    /// The next one that is released for bulk has so many calls.
    pub(super) calls: u16,
    /// The kernel has it since then, and so many calls were allowed. `None`: the stack carries it.
    pub(super) since: Option<(Traffic, u16)>,
    /// The stack has said so, which knows where segments come joined although nothing joins them here.
    pub(super) is_told: bool,
}

impl Moved {
    pub(super) const BEGINNING: Moved = Moved { calls: CALLS, since: None, is_told: false };
}

/// Whether what was moved between two moments, by so many calls, is bulk. `share`: the threshold is divided by it.
pub(super) fn is_bulk(before: &Traffic, now: &Traffic, calls: u16, share: u64, offloads: Offloads) -> bool {
    let sent_bytes = now.sent_bytes.saturating_sub(before.sent_bytes);
    let received_bytes = now.received_bytes.saturating_sub(before.received_bytes);
    let segments = |before: u32, now: u32| u64::from(now.wrapping_sub(before).max(1));
    let sent_at_once = sent_bytes / segments(before.received_segments, now.received_segments);
    let received_at_once = received_bytes / segments(before.sent_segments, now.sent_segments);
    let call_bytes = (sent_bytes + received_bytes) / u64::from(calls.max(1));
    call_bytes >= u64::from(BULK_CALL_BYTES) / share
        && ((offloads.cuts && sent_at_once >= u64::from(BULK_SENT_BYTES) / share)
            || (offloads.joins && received_at_once >= u64::from(BULK_RECEIVED_BYTES) / share))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: Offloads = Offloads { cuts: true, joins: true };

    fn traffic_of(sent: (u64, u32), received: (u64, u32)) -> Traffic {
        Traffic { sent_bytes: sent.0, sent_segments: sent.1, received_bytes: received.0, received_segments: received.1 }
    }

    fn judged(sent: (u64, u32), received: (u64, u32), calls: u16) -> [bool; 3] {
        let now = traffic_of(sent, received);
        let judge = |share, offloads| is_bulk(&Traffic::default(), &now, calls, share, offloads);
        [judge(1, BOTH), judge(COMES_BACK_BELOW, BOTH), judge(1, Offloads::default())]
    }

    #[test]
    fn streams_are_bulk_and_requests_and_feeds_are_not() {
        assert_eq!(judged((4_000_000, 2800), (0, 0), 64), [true, true, false], "it sends");
        assert_eq!(judged((0, 0), (8_000_000, 5600), 128), [true, true, false], "it receives");
        assert_eq!(judged((64 * 200, 64), (64 * 30_000, 64 * 22), 128), [false; 3], "replies of 30 KB");
        assert_eq!(judged((64 * 200_000, 64 * 140), (64 * 100, 64), 128), [true, true, false], "it gives 200 KB");
        assert_eq!(
            judged((64 * 30_000, 64 * 22), (64 * 100, 64), 128),
            [false, true, false],
            "less, and it comes not back yet"
        );
        assert_eq!(judged((0, 0), (128 * 500, 128), 128), [false; 3], "a feed");
        assert_eq!(judged((128 * 1000, 128), (0, 0), 128), [false; 3], "it writes little at a time");
    }
}
