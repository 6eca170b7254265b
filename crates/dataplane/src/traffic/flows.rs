//! To which flow a frame belongs.

use serde::{Deserialize, Serialize};

/// Most flows: what 8 bits of each address and 14 of the port can tell apart.
const FLOWS_MOST: u32 = 1 << 30;
/// First source port.
pub const SOURCE_PORT: u16 = 49_152;

/// So many flows, which frames belong to in turn.
///
/// Flows differ in the destination's address first, then in the source's, then in the source port: a device has an entry for each in every
/// table that it may look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct Flows(u32);

/// What flows differ in, as added to the first address and port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Flow {
    pub(super) source: u16,
    pub(super) destination: u16,
    pub(super) source_port: u16,
}

impl Flows {
    /// One flow.
    pub const ONE: Flows = Flows(1);

    /// So many; `None` for 0 and for more than 2^30.
    #[must_use]
    pub const fn new(count: u32) -> Option<Flows> {
        if count == 0 || count > FLOWS_MOST { None } else { Some(Flows(count)) }
    }

    /// How many.
    #[must_use]
    pub const fn count(self) -> u32 {
        self.0
    }

    /// The flow of the frame with this number.
    #[inline]
    pub(super) const fn of(self, number: u64) -> Flow {
        let flow = if self.0 == 1 { 0 } else { (number % self.0 as u64) as u32 };
        Flow {
            destination: (flow & 0xff) as u16,
            source: (flow >> 8 & 0xff) as u16,
            source_port: SOURCE_PORT + (flow >> 16) as u16,
        }
    }
}

/// So many flows are not possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{count} flows are not possible; give 1 to {FLOWS_MOST}")]
pub struct FlowsError {
    /// What was asked for.
    count: u32,
}

impl TryFrom<u32> for Flows {
    type Error = FlowsError;

    fn try_from(count: u32) -> Result<Flows, FlowsError> {
        Flows::new(count).ok_or(FlowsError { count })
    }
}

impl From<Flows> for u32 {
    fn from(flows: Flows) -> u32 {
        flows.count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_all_different_and_come_in_turn() {
        let flows = Flows::new(200_000).unwrap();
        let seen: std::collections::HashSet<_> = (0..200_000)
            .map(|number| {
                let flow = flows.of(number);
                (flow.source, flow.destination, flow.source_port)
            })
            .collect();
        assert_eq!(seen.len(), 200_000);
        assert_eq!(flows.of(200_003), flows.of(3));
    }

    #[test]
    fn impossible_counts_are_refused() {
        assert_eq!(Flows::new(0), None);
        assert_eq!(Flows::new(FLOWS_MOST + 1), None);
        assert_eq!(Flows::new(FLOWS_MOST).unwrap().of(u64::from(FLOWS_MOST) - 1).source_port, u16::MAX);
    }
}
