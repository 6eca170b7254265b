//! Frames changed at random, more of them than fuzzing's corpus has, and every way that a frame can go is reached.
//!
//! A million frames in a normal run; `NEARWIRE_MUTATED_FRAMES` asks for another number.

use nearwire_checks::receive::{Receiver, Repair, repair, seeds};
use nearwire_stack::{Dropped, NotOurs, ReceiveChecksum};
use proptest::prelude::*;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// Changes a frame: bits, bytes, words of interest, length, pieces of other frames.
fn mutate(frame: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    for _ in 0..1 + random.below(4) {
        let at = random.below(frame.len());
        match random.below(8) {
            _ if frame.is_empty() => frame.extend_from_slice(other),
            0 | 1 => frame[at] ^= 1 << random.below(8),
            2 => frame[at] = random.next() as u8,
            3 => frame[at] = [0, 0xff, 0x7f, 0x80][random.below(4)],
            4 => frame.truncate(at),
            5 => frame.resize(frame.len() + random.below(40), random.next() as u8),
            6 => {
                let len = random.below(8).min(frame.len() - at).min(other.len());
                let from = random.below(other.len() - len + 1);
                frame[at..at + len].copy_from_slice(&other[from..from + len]);
            }
            _ => {
                // The length fields, where the checks are.
                let field = [16, 18, 38][random.below(3)];
                if let Some(bytes) = frame.get_mut(field..field + 2) {
                    bytes.copy_from_slice(&(random.next() as u16 >> random.below(16)).to_be_bytes());
                }
            }
        }
    }
    if random.below(2) == 0 {
        repair(frame, Repair::Absent);
    }
}

#[test]
fn million_mutated_frames_received_never_panic_and_counters_add_up() {
    let frames: u64 = std::env::var("NEARWIRE_MUTATED_FRAMES").ok().and_then(|n| n.parse().ok()).unwrap_or(1_000_000);
    let (mut receiver, seeds, mut random) = (Receiver::new(), seeds(), Random(1));
    let mut frame = Vec::new();
    for n in 0..frames {
        frame.clear();
        frame.extend_from_slice(&seeds[random.below(seeds.len())]);
        let other = random.below(seeds.len());
        mutate(&mut frame, &seeds[other], &mut random);
        let known = [ReceiveChecksum::Verify, ReceiveChecksum::VerifyOrPartial, ReceiveChecksum::Verified];
        // Now and then nobody reads, so that buffers fill.
        let queue = n % 100_000 >= 95_000;
        receiver.frame(&frame, known[random.below(3)], queue);
        if !queue || n % 100_000 == 99_999 {
            receiver.read_all();
        }
    }
    let statistics = receiver.stack.statistics();
    if frames >= 1_000_000 {
        let unseen = Dropped::ALL.iter().filter(|reason| statistics.dropped(**reason) == 0);
        assert_eq!(unseen.collect::<Vec<_>>(), [] as [&Dropped; 0], "every way to drop was reached");
        let unseen: Vec<_> = NotOurs::ALL.iter().filter(|reason| statistics.not_ours(**reason) == 0).collect();
        assert_eq!(unseen, [&NotOurs::InterfaceDown]);
    }
}

proptest! {
    #[test]
    fn any_bytes_received_have_a_verdict(frames: Vec<Vec<u8>>) {
        let mut receiver = Receiver::new();
        for frame in frames {
            receiver.frame(&frame, ReceiveChecksum::Verify, false);
        }
    }
}
