//! How long frames may be on an interface, and what the kinds of port say about calls out of turn.

use crate::PortError;
use crate::interface::InterfaceFacts;

const HEADER_BYTES: usize = 14;
const TAG_BYTES: usize = 4;
const ETHER_TYPE_AT: usize = 12;

/// The lengths of frames, without FCS, that an interface carries: an Ethernet header and an MTU of payload, and one
/// VLAN tag more on frames that have one.
#[derive(Debug, Clone)]
pub(super) struct FrameLimits {
    interface: String,
    untagged_most_bytes: usize,
    most_bytes: usize,
    /// Longest frame of the interface, where the port does not hold it.
    cut_off_bytes: Option<usize>,
    /// Why, if there is more to say.
    why: &'static str,
}

impl FrameLimits {
    /// The limits of `facts`, and of a port that holds `buffer_bytes`, and why not more.
    pub(super) fn new(facts: &InterfaceFacts, buffer_bytes: usize, why: &'static str) -> FrameLimits {
        let untagged_most_bytes = (facts.frame_most_bytes() - TAG_BYTES).min(buffer_bytes);
        let most_bytes = facts.frame_most_bytes().min(buffer_bytes);
        let cut_off_bytes = Some(facts.frame_most_bytes()).filter(|bytes| *bytes > buffer_bytes);
        FrameLimits { interface: facts.name.clone(), untagged_most_bytes, most_bytes, cut_off_bytes, why }
    }

    /// As numbers, for another process: without and with tags, and the interface's longest where the port does not hold it (else 0).
    pub(super) fn parts(&self) -> [u32; 3] {
        [self.untagged_most_bytes, self.most_bytes, self.cut_off_bytes.unwrap_or(0)].map(|bytes| bytes as u32)
    }

    /// Of such numbers.
    pub(super) fn of_parts(interface: &str, parts: [u32; 3], why: &'static str) -> FrameLimits {
        let [untagged_most_bytes, most_bytes, cut_off_bytes] = parts.map(|bytes| bytes as usize);
        let cut_off_bytes = Some(cut_off_bytes).filter(|bytes| *bytes > 0);
        FrameLimits { interface: interface.to_owned(), untagged_most_bytes, most_bytes, cut_off_bytes, why }
    }

    /// For people, behind what a port is: where the interface has longer frames than the port.
    pub(super) fn in_words(&self) -> String {
        self.cut_off_bytes.map_or_else(String::new, |longest_bytes| {
            let why = if self.why.is_empty() { String::new() } else { format!(": {}", self.why) };
            format!(
                ", frames of up to {} bytes (the interface's: {longest_bytes}; longer ones are the kernel's{why})",
                self.most_bytes
            )
        })
    }

    /// Longest frame of all.
    pub(super) fn most_bytes(&self) -> usize {
        self.most_bytes
    }

    /// Fails for a frame that the interface would drop without a word.
    #[inline]
    pub(super) fn check(&self, frame: &[u8]) -> Result<(), PortError> {
        if (HEADER_BYTES..=self.untagged_most_bytes).contains(&frame.len()) { Ok(()) } else { self.check_rest(frame) }
    }

    /// Fails for a length that no frame can have, whatever its tags.
    pub(super) fn check_length(&self, len_bytes: usize) -> Result<(), PortError> {
        if (HEADER_BYTES..=self.most_bytes).contains(&len_bytes) { Ok(()) } else { Err(self.wrong(len_bytes, true)) }
    }

    /// A send that ends with more than it began with.
    pub(super) fn longer_than_begun(&self, len_bytes: usize) -> PortError {
        PortError::OutOfTurn {
            call: "end a send",
            interface: self.interface.clone(),
            found: if len_bytes > self.most_bytes {
                "no frame is that long"
            } else {
                "it was begun for a shorter frame"
            },
            instead: "end it with at most the length it began with",
        }
    }

    #[cold]
    fn check_rest(&self, frame: &[u8]) -> Result<(), PortError> {
        let tagged = matches!(frame.get(ETHER_TYPE_AT..HEADER_BYTES), Some([0x81, 0x00] | [0x88, 0xa8]));
        if tagged && frame.len() <= self.most_bytes {
            return Ok(());
        }
        Err(self.wrong(frame.len(), tagged))
    }

    fn wrong(&self, found_bytes: usize, tagged: bool) -> PortError {
        PortError::FrameLength {
            interface: self.interface.clone(),
            found_bytes,
            least_bytes: HEADER_BYTES,
            most_bytes: if tagged { self.most_bytes } else { self.untagged_most_bytes },
        }
    }
}

pub(super) fn send_begun(interface: &str) -> PortError {
    out_of_turn("begin a send", interface, "one has begun", "end or abort it first")
}

pub(super) fn no_send_begun(call: &'static str, interface: &str) -> PortError {
    out_of_turn(call, interface, "none has begun", "begin one first")
}

pub(super) fn frame_lent(interface: &str) -> PortError {
    out_of_turn("receive in place", interface, "a frame is lent already", "give it back first")
}

pub(super) fn no_frame_lent(interface: &str) -> PortError {
    out_of_turn("give a frame back", interface, "none is lent", "receive one in place first")
}

pub(super) fn is_a_share(call: &'static str, interface: &str) -> PortError {
    out_of_turn(call, interface, "the port is a share itself", "use the port that it was made of")
}

pub(super) fn is_no_share(call: &'static str, interface: &str) -> PortError {
    out_of_turn(call, interface, "the port given is no share of this one", "make one with `share`")
}

fn out_of_turn(call: &'static str, interface: &str, found: &'static str, instead: &'static str) -> PortError {
    PortError::OutOfTurn { call, interface: interface.to_owned(), found, instead }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(buffer_bytes: usize) -> FrameLimits {
        let facts = InterfaceFacts {
            name: "nw0".into(),
            ifindex: 1,
            mac: [0; 6],
            mtu_bytes: 1500,
            up: true,
            carrier: true,
            receive_dropped_frames: 0,
            driver: "veth".into(),
            rx_queues: 1,
            tx_queues: 1,
            rx_ring_frames: 0,
            program: None,
        };
        FrameLimits::new(&facts, buffer_bytes, "so it is")
    }

    fn frame(len_bytes: usize, ether_type: u16) -> Vec<u8> {
        let mut frame = vec![0; len_bytes];
        frame[12..14].copy_from_slice(&ether_type.to_be_bytes());
        frame
    }

    #[test]
    fn frame_within_the_mtu_checked_is_fine() {
        limits(1792).check(&frame(14, 0x88b5)).unwrap();
        limits(1792).check(&frame(1514, 0x88b5)).unwrap();
        limits(1792).check(&frame(1518, 0x8100)).unwrap();
        limits(1792).check(&frame(1518, 0x88a8)).unwrap();
    }

    #[test]
    fn frame_beyond_the_mtu_checked_is_refused_with_the_limit() {
        for (frame, limit) in [(frame(1515, 0x88b5), 1514), (frame(1519, 0x8100), 1518), (vec![0; 13], 1514)] {
            match limits(1792).check(&frame) {
                Err(PortError::FrameLength { found_bytes, most_bytes, least_bytes: 14, .. }) => {
                    assert_eq!((found_bytes, most_bytes), (frame.len(), limit));
                }
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn frame_beyond_the_buffers_checked_is_refused() {
        limits(1000).check(&frame(1000, 0x8100)).unwrap();
        limits(1000).check(&frame(1001, 0x8100)).unwrap_err();
        let words = limits(1000).in_words();
        assert!(words.contains("1000 bytes") && words.ends_with("kernel's: so it is)"), "{words}");
        assert_eq!(limits(1792).in_words(), "");
    }
}
