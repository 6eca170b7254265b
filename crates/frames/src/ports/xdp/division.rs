//! How a queue's memory is divided, and how many slots its rings have: the same for whoever uses it, in whatever process.
//!
//! ```text
//!   receive buffers | send buffers and resident frames of the port | send buffers of one share | of the next ...
//! ```
//!
//! Share `s` sends on the receive queue at place `s mod queues`, from an area that no other share has.

use super::control::Layout;
use super::queue::QueueSlots;
use super::send::SendMemory;

/// What a description of a division may say at most, each.
const FRAMES_MOST: u32 = 1 << 16;
const AREA_BUFFERS_MOST: u32 = 64;
const SHARE_AREAS_MOST: u32 = 1 << 12;

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Division {
    pub frame_size_bytes: u32,
    /// 0: nothing is received by it.
    pub fill_frames: u32,
    /// What the port itself sends with; 0: it does not send on this queue.
    pub tx_frames: u32,
    pub prepared_frames: u32,
    /// Buffers that a frame to be sent may take.
    pub area_buffers: u32,
    /// Shares that send on this queue.
    pub share_areas: u32,
    /// What each of them sends with.
    pub share_tx_frames: u32,
}

impl Division {
    /// Whether sums and products of it stay within what memory there can be.
    pub(super) fn is_sound(&self) -> bool {
        let frames = [self.fill_frames, self.tx_frames, self.prepared_frames, self.share_tx_frames];
        [2048, 4096].contains(&self.frame_size_bytes)
            && frames.iter().all(|frames| *frames <= FRAMES_MOST)
            && (1..=AREA_BUFFERS_MOST).contains(&self.area_buffers)
            && self.share_areas <= SHARE_AREAS_MOST
            && self.send_buffers_wide() <= 1 << 24
    }

    fn send_buffers_wide(&self) -> u64 {
        let own = u64::from(self.tx_frames + self.prepared_frames);
        (own + u64::from(self.share_areas) * u64::from(self.share_tx_frames)) * u64::from(self.area_buffers)
    }

    fn own_buffers(&self) -> u32 {
        (self.tx_frames + self.prepared_frames) * self.area_buffers
    }

    /// All that sending has.
    fn send_buffers(&self) -> u32 {
        self.own_buffers() + self.share_areas * self.share_tx_frames * self.area_buffers
    }

    pub(super) fn layout(&self) -> Layout {
        Layout {
            frame_size_bytes: self.frame_size_bytes,
            receive_buffers: self.fill_frames,
            send_buffers: self.send_buffers(),
            senders: 1 + self.share_areas,
        }
    }

    /// Room for every buffer that can be in a ring. The fill ring has more slots than buffers: in a full ring, we would write the very slot that
    /// the kernel has just read, on the cache line that it reads next.
    pub(super) fn slots(&self) -> QueueSlots {
        QueueSlots {
            fill: (self.fill_frames * 2).max(1).next_power_of_two(),
            completion: self.send_buffers().max(1).next_power_of_two(),
        }
    }

    /// What the port itself sends with.
    pub(super) fn own_memory(&self) -> SendMemory {
        SendMemory {
            frame_size_bytes: self.frame_size_bytes,
            start: self.address(self.fill_frames),
            tx_frames: self.tx_frames,
            prepared_frames: self.prepared_frames,
            buffers: self.area_buffers,
            sender: 0,
        }
    }

    /// What the share with this area sends with.
    pub(super) fn share_memory(&self, area: u32) -> SendMemory {
        let before = self.own_buffers() + area * self.share_tx_frames * self.area_buffers;
        SendMemory {
            frame_size_bytes: self.frame_size_bytes,
            start: self.address(self.fill_frames + before),
            tx_frames: self.share_tx_frames,
            prepared_frames: 0,
            buffers: self.area_buffers,
            sender: 1 + area,
        }
    }

    fn address(&self, buffers: u32) -> u64 {
        u64::from(buffers) * u64::from(self.frame_size_bytes)
    }
}

/// Where a share sends: the place among `queues` receive queues, and the area there.
pub(super) fn place_of_share(number: u32, queues: u32) -> (usize, u32) {
    let (at, round) = (number % queues, number / queues);
    // Number 0 is the port itself.
    (at as usize, if at == 0 { round.saturating_sub(1) } else { round })
}

/// Shares that send on the receive queue at a place, of `shares` with the port itself.
pub(super) fn share_areas(at: usize, queues: u32, shares: u32) -> u32 {
    (1..shares).filter(|number| place_of_share(*number, queues).0 == at).count() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_have_areas_of_their_own_within_the_memory() {
        for (queues, shares) in [(1, 1), (1, 5), (2, 2), (2, 8), (4, 3), (10, 8)] {
            let divisions: Vec<_> = (0..queues as usize)
                .map(|at| Division {
                    frame_size_bytes: 2048,
                    fill_frames: 64,
                    tx_frames: if at == 0 { 16 } else { 0 },
                    prepared_frames: 4,
                    area_buffers: 3,
                    share_areas: share_areas(at, queues, shares),
                    share_tx_frames: 8,
                })
                .collect();
            let mut spans = Vec::new();
            for (at, division) in divisions.iter().enumerate() {
                assert!(division.is_sound());
                spans.push((at, division.own_memory()));
            }
            for number in 1..shares {
                let (at, area) = place_of_share(number, queues);
                assert!(area < divisions[at].share_areas, "{number} of {shares} on {queues}");
                spans.push((at, divisions[at].share_memory(area)));
            }
            for (n, (at, memory)) in spans.iter().enumerate() {
                let end = memory.start + u64::from((memory.tx_frames + memory.prepared_frames) * 3 * 2048);
                assert!(end <= divisions[*at].layout().packet_bytes() as u64);
                let apart = |(other_at, other): &(usize, SendMemory)| {
                    other_at != at || other.start >= end || other.start < memory.start
                };
                assert!(spans[n + 1..].iter().all(apart));
            }
        }
    }
}
