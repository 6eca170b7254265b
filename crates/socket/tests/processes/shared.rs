//! What all processes of a simulation have in common memory: virtual time, and the rings of shares.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use nearwire_sys::shared_words::SharedWords;

/// Shares at a time.
pub const SLOTS: usize = 48;
/// Frames in a ring.
const RING_FRAMES: u64 = 64;
const FRAME_MOST_WORDS: usize = 24;
pub const FRAME_MOST_BYTES: usize = 8 * FRAME_MOST_WORDS;
/// Two indices, and for each frame its length and words.
const RING_WORDS: usize = 2 + RING_FRAMES as usize * (1 + FRAME_MOST_WORDS);
const TIME: usize = 0;

/// See the module.
#[derive(Debug)]
pub struct Shared(SharedWords);

/// One direction of a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ring {
    /// To the program.
    In(usize),
    /// From the program.
    Out(usize),
}

impl Ring {
    fn at(self) -> usize {
        match self {
            Ring::In(slot) => 1 + 2 * slot * RING_WORDS,
            Ring::Out(slot) => 1 + (2 * slot + 1) * RING_WORDS,
        }
    }
}

impl Shared {
    pub fn new() -> Shared {
        Shared(SharedWords::create(c"nearwire-simulation", 1 + 2 * SLOTS * RING_WORDS).unwrap())
    }

    /// Of virtual time.
    pub fn ticks(&self) -> u64 {
        self.0[TIME].load(Relaxed)
    }

    pub fn set_ticks(&self, ticks: u64) {
        self.0[TIME].store(ticks, Relaxed);
    }

    pub fn add_ticks(&self, ticks: u64) -> u64 {
        self.0[TIME].fetch_add(ticks, Relaxed) + ticks
    }

    pub fn clear(&self, ring: Ring) {
        self.0[ring.at()].store(0, Relaxed);
        self.0[ring.at() + 1].store(0, Relaxed);
    }

    pub fn has_room(&self, ring: Ring) -> bool {
        self.0[ring.at()].load(Relaxed) - self.0[ring.at() + 1].load(Acquire) < RING_FRAMES
    }

    pub fn has_frames(&self, ring: Ring) -> bool {
        self.0[ring.at()].load(Acquire) != self.0[ring.at() + 1].load(Relaxed)
    }

    /// Whether there was room.
    pub fn push(&self, ring: Ring, frame: &[u8]) -> bool {
        assert!(frame.len() <= FRAME_MOST_BYTES, "{} bytes", frame.len());
        if !self.has_room(ring) {
            return false;
        }
        let number = self.0[ring.at()].load(Relaxed);
        let at = ring.at() + 2 + (number % RING_FRAMES) as usize * (1 + FRAME_MOST_WORDS);
        self.0[at].store(frame.len() as u64, Relaxed);
        for (word, bytes) in frame.chunks(8).enumerate() {
            let mut padded = [0; 8];
            padded[..bytes.len()].copy_from_slice(bytes);
            self.0[at + 1 + word].store(u64::from_ne_bytes(padded), Relaxed);
        }
        self.0[ring.at()].store(number + 1, Release);
        true
    }

    /// The next frame; its length.
    pub fn pop(&self, ring: Ring, room: &mut [u8; FRAME_MOST_BYTES]) -> Option<usize> {
        let number = self.0[ring.at() + 1].load(Relaxed);
        if self.0[ring.at()].load(Acquire) == number {
            return None;
        }
        let at = ring.at() + 2 + (number % RING_FRAMES) as usize * (1 + FRAME_MOST_WORDS);
        let len_bytes = self.0[at].load(Relaxed) as usize;
        for word in 0..len_bytes.div_ceil(8) {
            room[8 * word..8 * word + 8].copy_from_slice(&self.0[at + 1 + word].load(Relaxed).to_ne_bytes());
        }
        self.0[ring.at() + 1].store(number + 1, Release);
        Some(len_bytes)
    }
}
