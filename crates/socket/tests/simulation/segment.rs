//! A segment of Ethernet in memory: what one machine sends another one gets, later, twice or not at all.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::rc::Rc;

use nearwire_frames::Port;
use nearwire_frames::ports::memory::{MemoryPort, memory_pair};

use crate::random::Random;

/// Ethernet, IPv4 without options, UDP: a datagram's number stands behind them.
const HEADER_BYTES: usize = 14 + 20 + 8;
/// What a frame takes to the other end, nanoseconds.
const DELAY_NS: u64 = 2_000;
/// What a late one takes at most.
const LATE_NS: u64 = 400_000;
/// Frames a port holds.
const RING_FRAMES: usize = 256;

/// How often something goes wrong: one in so many frames; 0: never.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    pub lost_one_in: u32,
    pub doubled_one_in: u32,
    pub late_one_in: u32,
}

impl Faults {
    pub const NONE: Faults = Faults { lost_one_in: 0, doubled_one_in: 0, late_one_in: 0 };
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct OnTheWay {
    arrives_ns: u64,
    /// Those of one time arrive in the order in which they were sent.
    order: u64,
    to: usize,
    frame: Vec<u8>,
}

/// See the module. Machine number `n` has the hardware address `02:00:00:00:00:n`.
#[derive(Debug)]
pub struct Segment {
    pub faults: Faults,
    random: Random,
    /// The far end of each machine's port, where it has one.
    ends: Vec<Option<MemoryPort>>,
    on_the_way: BinaryHeap<Reverse<OnTheWay>>,
    order: u64,
    /// How often each datagram was put into the port of the machine it was for.
    pub brought: HashMap<u64, u32>,
}

impl Segment {
    pub fn new(faults: Faults, random: Random, machines: usize) -> Rc<RefCell<Segment>> {
        Rc::new(RefCell::new(Segment {
            faults,
            random,
            ends: (0..machines).map(|_| None).collect(),
            on_the_way: BinaryHeap::new(),
            order: 0,
            brought: HashMap::new(),
        }))
    }

    /// A new port for a machine, in place of the one it had.
    pub fn connect(&mut self, machine: usize) -> MemoryPort {
        let (near, far) = memory_pair(RING_FRAMES);
        self.ends[machine] = Some(far);
        near
    }

    /// Takes in what machines sent, and brings what arrives by now.
    pub fn pass(&mut self, now_ns: u64) {
        for from in 0..self.ends.len() {
            self.take_from(from, now_ns);
        }
        while self.on_the_way.peek().is_some_and(|Reverse(next)| next.arrives_ns <= now_ns) {
            let Some(Reverse(next)) = self.on_the_way.pop() else { break };
            self.bring(&next);
        }
    }

    pub fn is_idle(&self) -> bool {
        self.on_the_way.is_empty()
    }

    fn take_from(&mut self, from: usize, now_ns: u64) {
        while let Some(end) = &mut self.ends[from] {
            let frame = match end.receive(<[u8]>::to_vec) {
                Ok(Some(frame)) => frame,
                Ok(None) => return,
                // The machine's port is gone.
                Err(_) => return self.ends[from] = None,
            };
            if self.random.one_in(self.faults.lost_one_in) {
                continue;
            }
            let copies = if self.random.one_in(self.faults.doubled_one_in) { 2 } else { 1 };
            for _ in 0..copies {
                let late = self.random.one_in(self.faults.late_one_in);
                let extra_ns = if late { self.random.below(LATE_NS) } else { 0 };
                let to = usize::from(frame[5]);
                let arrives_ns = now_ns + DELAY_NS + extra_ns;
                self.order += 1;
                self.on_the_way.push(Reverse(OnTheWay { arrives_ns, order: self.order, to, frame: frame.clone() }));
            }
        }
    }

    fn bring(&mut self, next: &OnTheWay) {
        let Some(end) = self.ends.get_mut(next.to).and_then(Option::as_mut) else { return };
        // No room, or no machine: lost.
        if matches!(end.send(&next.frame), Ok(true)) {
            let number = next.frame[HEADER_BYTES..].first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
            *self.brought.entry(number.expect("every datagram has a number")).or_default() += 1;
        }
    }
}
