//! One direction's faults: fates, and the frames held back.

use std::collections::VecDeque;

use super::config::FaultConfig;
use super::random::Random;
use super::{FaultCounts, config::Probability};

/// A frame that is to be overtaken waits this long for another, and then goes alone.
const OVERTAKE_WAIT_NS: u64 = 100_000;
/// Frames held at most; further ones are refused (sending) or wait in the port inside (receiving).
const HELD_MOST_FRAMES: usize = 4096;

/// A frame waiting for its time.
#[derive(Debug)]
struct Held {
    due_ns: u64,
    /// Waits for a later frame to go first.
    waits_to_be_overtaken: bool,
    bytes: Vec<u8>,
}

#[derive(Debug)]
pub(super) struct Lane {
    config: FaultConfig,
    random: Random,
    /// In order of arrival.
    held: VecDeque<Held>,
    /// Frames that were refused further on; they go first.
    refused: VecDeque<Vec<u8>>,
    spare: Vec<Vec<u8>>,
    pub(super) counts: FaultCounts,
}

/// What happens to one frame.
#[derive(Debug, Clone, Copy)]
struct Fate {
    lost: bool,
    /// The bit to flip, as a number to be scaled to the frame.
    corrupt: Option<u64>,
    duplicated: bool,
    overtaken: bool,
}

impl Lane {
    pub(super) fn new(config: FaultConfig, seed: u64) -> Lane {
        Lane {
            config,
            random: Random::new(seed),
            held: VecDeque::new(),
            refused: VecDeque::new(),
            spare: Vec::new(),
            counts: FaultCounts::default(),
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.held.len() + self.refused.len() >= HELD_MOST_FRAMES
    }

    /// Draws for every fault, whether it is on or not: switching one on leaves the others' fates as they are.
    fn draw(&mut self) -> Fate {
        let mut happens = |probability: Probability| self.random.below(1_000_000) < u64::from(probability.ppm());
        let lost = happens(self.config.loss);
        let corrupted = happens(self.config.corrupt);
        let duplicated = happens(self.config.duplicate);
        let overtaken = happens(self.config.reorder);
        let bit = self.random.next();
        Fate { lost, corrupt: corrupted.then_some(bit), duplicated, overtaken }
    }

    /// Decides the fate of `frame`. `true`: it passes now, as it is. `false`: it was lost or its copies are held.
    pub(super) fn pass_or_hold(&mut self, frame: &[u8], now_ns: u64) -> bool {
        let fate = self.draw();
        self.count(fate);
        if fate.lost {
            return false;
        }
        let due_ns = now_ns.saturating_add(self.config.delay_ns);
        let at_once = self.config.delay_ns == 0 && fate.corrupt.is_none() && !fate.overtaken && !self.is_full();
        if at_once {
            // The frame goes before all that wait to be overtaken.
            self.overtake(self.held.len());
        } else {
            self.hold(frame, fate, due_ns, fate.overtaken);
        }
        if fate.duplicated {
            self.hold(frame, fate, due_ns, false);
        }
        at_once
    }

    fn count(&mut self, fate: Fate) {
        self.counts.frames += 1;
        if fate.lost {
            self.counts.lost_frames += 1;
            return;
        }
        self.counts.corrupted_frames += u64::from(fate.corrupt.is_some());
        self.counts.duplicated_frames += u64::from(fate.duplicated);
        self.counts.reordered_frames += u64::from(fate.overtaken);
    }

    fn hold(&mut self, frame: &[u8], fate: Fate, due_ns: u64, waits_to_be_overtaken: bool) {
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(frame);
        if let Some(bit) = fate.corrupt
            && !bytes.is_empty()
        {
            let bit = (bit % (bytes.len() as u64 * 8)) as usize;
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        self.held.push_back(Held { due_ns, waits_to_be_overtaken, bytes });
    }

    /// The next held frame whose time has come.
    pub(super) fn due(&mut self, now_ns: u64) -> Option<Vec<u8>> {
        if let Some(bytes) = self.refused.pop_front() {
            return Some(bytes);
        }
        let ready = |held: &Held| {
            let wait_ns = if held.waits_to_be_overtaken { OVERTAKE_WAIT_NS } else { 0 };
            held.due_ns.saturating_add(wait_ns) <= now_ns
        };
        let at = self.held.iter().position(ready)?;
        self.overtake(at);
        self.held.remove(at).map(|held| held.bytes)
    }

    /// A frame goes before the first `count` held ones.
    fn overtake(&mut self, count: usize) {
        for held in self.held.iter_mut().take(count) {
            held.waits_to_be_overtaken = false;
        }
    }

    pub(super) fn has_refused(&self) -> bool {
        !self.refused.is_empty()
    }

    /// Keeps a copy of a frame that may pass but finds no room further on.
    pub(super) fn wait(&mut self, frame: &[u8]) {
        self.refused.push_back(frame.to_vec());
    }

    /// Takes back a frame that was due and could not go on; it is due again, before all others.
    pub(super) fn put_back(&mut self, frame: Vec<u8>) {
        self.refused.push_front(frame);
    }

    /// Takes back the buffer of a frame that went on.
    pub(super) fn recycle(&mut self, frame: Vec<u8>) {
        if self.spare.len() < HELD_MOST_FRAMES {
            self.spare.push(frame);
        }
    }
}
