//! A segment of network in virtual time, which loses, delays, doubles and changes frames; all by one random number.
#![allow(dead_code, reason = "each test uses its part")]

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// SplitMix64.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// At least `from`, below `to`.
    pub fn range(&mut self, from: u64, to: u64) -> u64 {
        from + self.next() % (to - from).max(1)
    }

    pub fn one_in(&mut self, count: u64) -> bool {
        self.next().is_multiple_of(count)
    }

    /// With this probability, parts of a million.
    pub fn chance(&mut self, ppm: u32) -> bool {
        self.range(0, 1_000_000) < ppm.into()
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.range(0, from.len() as u64) as usize]
    }
}

/// What goes wrong, parts of a million of all frames.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    pub loss: u32,
    /// A burst begins, in which the next frames are lost.
    pub burst: u32,
    pub duplicate: u32,
    pub reorder: u32,
    pub corrupt: u32,
    /// Congestion is marked where the packet allows it (RFC 3168).
    pub mark: u32,
}

/// When a frame arrives, its number, the end that it is for, and its bytes.
type Travelling = (u64, u64, usize, Vec<u8>);

#[derive(Debug)]
pub struct Network {
    pub random: Random,
    pub faults: Faults,
    /// One way.
    pub delay_ns: u64,
    /// What a frame takes on the wire, for each byte.
    pub byte_ns: u64,
    /// When the wire of each direction is free.
    free_ns: [u64; 2],
    /// Frames that the burst takes, and until when: what is sent again seconds later is not part of it.
    burst: (u64, u64),
    count: u64,
    on_the_way: BinaryHeap<Reverse<Travelling>>,
}

impl Network {
    pub fn new(random: Random, faults: Faults, delay_ns: u64, byte_ns: u64) -> Network {
        let on_the_way = BinaryHeap::new();
        Network { random, faults, delay_ns, byte_ns, free_ns: [0; 2], burst: (0, 0), count: 0, on_the_way }
    }

    /// When the next frame arrives.
    pub fn next_ns(&self) -> Option<u64> {
        self.on_the_way.peek().map(|Reverse((at_ns, ..))| *at_ns)
    }

    /// A frame that has arrived by now, and at which end.
    pub fn arrived(&mut self, now_ns: u64) -> Option<(usize, Vec<u8>)> {
        if self.next_ns()? > now_ns {
            return None;
        }
        self.on_the_way.pop().map(|Reverse((_, _, end, frame))| (end, frame))
    }

    fn put(&mut self, at_ns: u64, to: usize, frame: Vec<u8>) {
        self.count += 1;
        self.on_the_way.push(Reverse((at_ns, self.count, to, frame)));
    }

    /// Without faults: what a third party sends.
    pub fn inject(&mut self, now_ns: u64, to: usize, frame: Vec<u8>) {
        self.put(now_ns + self.delay_ns, to, frame);
    }

    pub fn send(&mut self, now_ns: u64, to: usize, mut frame: Vec<u8>) {
        let faults = self.faults;
        let start_ns = self.free_ns[to].max(now_ns);
        self.free_ns[to] = start_ns + frame.len() as u64 * self.byte_ns;
        if self.burst.0 > 0 && now_ns < self.burst.1 {
            self.burst.0 -= 1;
            return;
        }
        if self.random.chance(faults.burst) {
            self.burst = (self.random.range(1, 12), now_ns + 20 * self.delay_ns);
            return;
        }
        if self.random.chance(faults.loss) {
            return;
        }
        if self.random.chance(faults.mark) {
            mark(&mut frame);
        }
        let mut at_ns = self.free_ns[to] + self.delay_ns;
        if self.random.chance(faults.duplicate) {
            let later_ns = self.random.range(0, 2 * self.delay_ns + 1000);
            self.put(at_ns + later_ns, to, frame.clone());
        }
        if self.random.chance(faults.reorder) {
            at_ns += self.random.range(0, 2 * self.delay_ns + 1000);
        }
        if self.random.chance(faults.corrupt) {
            // One bit, behind the hardware addresses: every checksum finds it.
            let bit = self.random.range(14 * 8, frame.len() as u64 * 8) as usize;
            frame[bit / 8] ^= 1 << (bit % 8);
        }
        self.put(at_ns, to, frame);
    }
}

/// CE, where the packet says that its ends take part. IPv4's header checksum follows.
fn mark(frame: &mut [u8]) {
    if frame[12..14] == [8, 0] && frame[15] & 3 == 2 {
        frame[15] |= 3;
        let sum = u32::from(u16::from_be_bytes([frame[24], frame[25]])) + 0xfffe;
        let sum = (sum & 0xffff) + (sum >> 16);
        frame[24..26].copy_from_slice(&(sum as u16).to_be_bytes());
    } else if frame[12..14] == [0x86, 0xdd] && frame[15] & 0x30 == 0x20 {
        frame[15] |= 0x30;
    }
}
