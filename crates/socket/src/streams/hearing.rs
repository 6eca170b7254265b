//! Whether what the far end of a connection sends comes by a port of ours, which only its frames can show: routes need not be the same in both directions.
//!
//! `auto` adopts no connection before a frame of it was seen at a port, while the kernel gets all of them. The kernel's count of segments says whether one
//! could have been seen. A connection whose segments come another way is the kernel's: adopted, it would wait in vain, and the kernel, which has no such connection
//! while it changes its owner, would answer such a segment by a reset.

use std::time::Duration;

use nearwire_frames::steering::ExactFlow;

/// Segments that had passed the port when it began to listen are with the kernel by then.
const IN_FLIGHT_AT_MOST: Duration = Duration::from_millis(5);
/// So often segments came, and none by a port.
const MISSED_MOST: u32 = 3;

/// A connection that is listened for.
#[derive(Debug)]
pub(super) struct Hearing {
    pub(super) flow: ExactFlow,
    /// From when on ports listen, as far as is known.
    since_ns: Option<u64>,
    /// How many had come when this was last asked.
    pub(super) received_segments: u32,
    missed: u32,
}

impl Hearing {
    pub(super) const fn of(flow: ExactFlow, received_segments: u32) -> Hearing {
        Hearing { flow, since_ns: None, received_segments, missed: 0 }
    }

    /// It was not heard, though a segment came. Whether it is to be given up.
    pub(super) fn missed(&mut self, now_ns: u64) -> bool {
        let listened_ns = now_ns.saturating_sub(*self.since_ns.get_or_insert(now_ns));
        self.missed += u32::from(listened_ns > IN_FLIGHT_AT_MOST.as_nanos() as u64);
        self.missed >= MISSED_MOST
    }
}
