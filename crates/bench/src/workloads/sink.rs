//! The far end of workloads that send one way: counts what comes.

use nearwire_sys::tsc::Clock;
use nearwire_sys::usage::ThreadUsage;

use super::Responded;
use super::echo::IDLE_NS;
use super::sequence::mask_of;
use crate::endpoint::{Arrival, Deadline, Endpoint, EndpointError};

/// A stream that brings nothing for so long and is not closed is given up: longer than its sender waits to send again, several times over.
const SILENT_NS: u64 = 2_000_000_000;

/// How far back a message that comes again is known.
const WINDOW: u64 = 1 << 16;

/// Receives until `stop` says so, which is asked whenever nothing came for a few milliseconds. What is reliable comes until the peer closes
/// it, and so does what has to be sent again.
///
/// # Errors
/// The path failed for good. A peer that closed the connection ends the loop without an error.
pub fn run<E: Endpoint>(
    endpoint: &mut E,
    clock: Clock,
    mut stop: impl FnMut() -> bool,
) -> Result<Responded, EndpointError> {
    let mut outcome = Responded::default();
    let mut numbers = Numbers::new(endpoint.sequence_bits());
    let idle_ticks = clock.ticks(IDLE_NS);
    let mut usage_before = ThreadUsage::now();
    let silent_ticks = clock.ticks(SILENT_NS);
    let (mut first_ticks, mut last_ticks) = (None, clock.now_ticks());
    let mut now = last_ticks;
    loop {
        let arrival = endpoint.receive(&Deadline::after(clock, now, idle_ticks));
        now = clock.now_ticks();
        match arrival {
            Ok(Some(Arrival::Message(_))) if !endpoint.is_last_as_sent() => outcome.corrupted += 1,
            Ok(Some(Arrival::Message(low_bits))) => {
                last_ticks = now;
                if first_ticks.is_none() {
                    (first_ticks, usage_before) = (Some(last_ticks), ThreadUsage::now());
                }
                match numbers.seen(low_bits) {
                    Seen::InOrder => outcome.messages += 1,
                    Seen::Behind => {
                        outcome.messages += 1;
                        outcome.reordered += 1;
                    }
                    Seen::Again => outcome.duplicated += 1,
                }
            }
            Ok(Some(Arrival::Corrupt)) => outcome.corrupted += 1,
            Ok(None) if stop() && (!endpoint.is_reliable() || now - last_ticks > silent_ticks) => break,
            Ok(None) => {}
            Err(EndpointError::Closed) => break,
            Err(error) => return Err(error),
        }
    }
    outcome.received_in_ns = first_ticks.map_or(0, |first| clock.ns(last_ticks.saturating_sub(first)));
    Ok(outcome.with_usage_since(&usage_before))
}

/// What a number says of its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// It is later than all before.
    InOrder,
    /// A later one came before.
    Behind,
    /// It came before.
    Again,
}

/// The numbers that came last: tells what came again, and what came behind a later one.
#[derive(Debug)]
pub struct Numbers {
    mask: u64,
    highest: u64,
    /// By number modulo the window: one more than the number that was seen there.
    seen: Vec<u64>,
}

impl Numbers {
    /// For numbers that begin at 1, of which messages carry so many bits.
    #[must_use]
    pub fn new(bits: u32) -> Numbers {
        let mask = mask_of(bits);
        Numbers { mask, highest: 0, seen: vec![0; WINDOW.min(mask / 2 + 1) as usize] }
    }

    /// Judges the bits of a number and remembers it.
    #[inline]
    pub fn seen(&mut self, low_bits: u64) -> Seen {
        let (window, ahead) = (self.seen.len() as u64, low_bits.wrapping_sub(self.highest) & self.mask);
        let is_ahead = ahead != 0 && ahead <= self.mask / 2;
        let number = if is_ahead {
            self.highest + ahead
        } else {
            self.highest.wrapping_sub((self.mask - ahead).wrapping_add(1) & self.mask)
        };
        let slot = &mut self.seen[(number % window) as usize];
        let is_again = std::mem::replace(slot, number.wrapping_add(1)) == number.wrapping_add(1);
        match is_ahead {
            true => {
                self.highest = number;
                Seen::InOrder
            }
            false if is_again => Seen::Again,
            false => Seen::Behind,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bits: u32, numbers: &[u64]) -> Vec<Seen> {
        let mut known = Numbers::new(bits);
        let mask = known.mask;
        numbers.iter().map(|number| known.seen(number & mask)).collect()
    }

    #[test]
    fn numbers_in_order_behind_and_again_are_told_apart() {
        use Seen::{Again, Behind, InOrder};
        for bits in [8, 32, 64] {
            let found = all(bits, &[1, 2, 5, 3, 5, 3, 4, 6]);
            assert_eq!(found, [InOrder, InOrder, InOrder, Behind, Again, Again, Behind, InOrder], "{bits}");
        }
    }

    #[test]
    fn few_bits_wrap_without_an_error() {
        let numbers: Vec<u64> = (1..2000).collect();
        assert!(all(8, &numbers).iter().all(|seen| *seen == Seen::InOrder));
    }
}
