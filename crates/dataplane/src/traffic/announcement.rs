//! What a generator tells the sink about its traffic, so that the sink needs no settings.
//!
//! It is a datagram of the traffic's kind, so a device forwards it as it forwards the traffic: headers of the first flow, and as content
//! [`MARK`] and JSON. The generator sends one before, several during and some after its frames.

use nearwire_wire::ethernet::FRAME_BYTES_MIN;
use serde::{Deserialize, Serialize};

use super::headers::{TrafficError, payload_of, write_datagram};
use super::{Hops, Traffic};

/// First bytes of the content.
const MARK: &[u8] = b"nearwire traffic 1\n";

/// What is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Announcement {
    /// What is sent.
    pub traffic: Traffic,
    /// Number of the first frame.
    pub first_number: u64,
    /// How many were sent, once all were.
    pub sent_frames: Option<u64>,
}

impl Announcement {
    /// The frame that tells it.
    ///
    /// # Errors
    /// The traffic cannot be made.
    pub fn frame(&self, hops: Hops) -> Result<Vec<u8>, TrafficError> {
        let mut content = MARK.to_vec();
        content
            .extend(serde_json::to_vec(self).map_err(|source| TrafficError::Announcement { why: source.to_string() })?);
        write_datagram(&self.traffic, hops, &content, FRAME_BYTES_MIN)
    }

    /// Reads a frame. `None`: it is something else.
    #[must_use]
    pub fn read(frame: &[u8]) -> Option<Announcement> {
        serde_json::from_slice(payload_of(frame)?.strip_prefix(MARK)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use nearwire_wire::MacAddress;

    use super::*;
    use crate::traffic::{Family, Flows};

    const HOPS: Hops = Hops { source: MacAddress([2, 0, 0, 0, 0, 1]), destination: MacAddress([2, 0, 0, 0, 0, 2]) };

    #[test]
    fn announcement_of_any_traffic_is_read_back() {
        for family in [Family::V4, Family::V6] {
            for vlan in [None, Some(7)] {
                let flows = Flows::new(70_000).unwrap();
                let traffic = Traffic { family, sizes: "imix".parse().unwrap(), flows, vlan, token: 77 };
                let told = Announcement { traffic, first_number: 1, sent_frames: Some(8) };
                assert_eq!(Announcement::read(&told.frame(HOPS).unwrap()), Some(told));
            }
        }
    }

    #[test]
    fn other_frames_are_no_announcement() {
        assert_eq!(Announcement::read(&[0; 60]), None);
        assert_eq!(Announcement::read(&[]), None);
    }
}
