//! Load: an open loop. Messages leave by a schedule, whatever comes back, as users of a service send them.
//!
//! A closed loop waits for each answer, so a slow one delays the messages behind it and hides what they would have met. Here a message
//! that leaves late keeps the time at which it was to leave, and its latency counts from there.
//!
//! The journey of a message: the [`schedule`](Schedule) says when it is due, [`Generator`] gives it a number and keeps its times, the
//! endpoint sends it, the far end sends it back, and the generator makes a sample of the answer.
//!
//! The generator never sleeps, on any path: what it measures is the far end's waiting and both ends' ways to the wire. One thread sends
//! and receives, so a message that comes while another one is sent is seen after that (1 us by a socket of the kernel).

mod arrivals;
mod generator;
pub(crate) mod metrics;
mod outstanding;
mod schedule;

use nearwire_sys::tsc::Clock;
use nearwire_sys::usage::{ThreadUsage, interrupted};
use serde::{Deserialize, Serialize};

use super::{RoundOutcome, RoundPlan, SampleBuffer, Workload};
use crate::endpoint::{Arrival, Endpoint, EndpointError};
pub use arrivals::{Arrivals, ArrivalsError};
use generator::Generator;
pub use schedule::Schedule;

/// The number of a message has so many bytes at least: with fewer, messages that are out at the same time have the same.
pub const MESSAGE_BYTES_MIN: u32 = 4;

/// Greatest rate: a message takes longer than that on every path.
pub const RATE_PER_SECOND_MAX: u64 = 100_000_000;

/// Looks for answers between two messages that are due.
const LOOKS_MOST: u32 = 4;

/// Messages at a rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Messages a second, on average; 1 to [`RATE_PER_SECOND_MAX`].
    pub rate_per_second: u64,
    /// How they are spread.
    pub arrivals: Arrivals,
    /// Of the random times.
    pub seed: u64,
}

impl Workload for Load {
    fn initiate<E: Endpoint>(
        &self,
        endpoint: &mut E,
        clock: Clock,
        plan: &RoundPlan,
        samples: &mut SampleBuffer,
    ) -> Result<RoundOutcome, EndpointError> {
        samples.clear();
        let began = clock.now_ticks();
        let schedule = Schedule::new(self, began, clock.hz());
        let mut round = Round {
            clock,
            generator: Generator::new(self, schedule, clock, plan, endpoint.sequence_bits()),
            cpu: plan.cpu,
            look_ticks: 0,
        };
        let usage_before = ThreadUsage::now();
        round.run(endpoint, samples)?;
        let usage = ThreadUsage::now().since(&usage_before);
        Ok(RoundOutcome { usage, ..round.generator.finish(clock, clock.now_ticks()) })
    }
}

struct Round {
    clock: Clock,
    generator: Generator,
    cpu: Option<u32>,
    /// What a look for an answer takes that finds none.
    look_ticks: u64,
}

impl Round {
    fn run<E: Endpoint>(&mut self, endpoint: &mut E, samples: &mut SampleBuffer) -> Result<(), EndpointError> {
        let mut now = self.clock.now_ticks();
        while !self.generator.is_over(now) && !interrupted() {
            if let Some(sequence) = self.generator.due(now) {
                let sent_ticks = self.clock.start_ticks();
                if endpoint.try_send(sequence)? {
                    self.generator.sent(sent_ticks);
                }
            }
            now = self.look(endpoint, samples)?;
            self.generator.give_up_late_ones(now);
        }
        Ok(())
    }

    /// Takes what has come, until nothing more is there or a message is due. Gives the time.
    #[inline]
    fn look<E: Endpoint>(&mut self, endpoint: &mut E, samples: &mut SampleBuffer) -> Result<u64, EndpointError> {
        let mut now = self.clock.now_ticks();
        for look in 0..LOOKS_MOST {
            // A message that is due while a look goes on would leave late. The first look is always made, so that answers are seen at any rate.
            if look > 0 && self.generator.is_due_within(now, self.look_ticks) {
                break;
            }
            let arrival = endpoint.try_receive()?;
            let (received_ticks, cpu) = self.clock.end_ticks();
            match arrival {
                Some(Arrival::Message(_)) if !endpoint.is_last_as_sent() => self.generator.corrupted(),
                Some(Arrival::Message(low_bits)) => {
                    self.generator.saw_cpu(self.cpu.is_none_or(|pinned| pinned == cpu));
                    if let Some(sample) = self.generator.answered(low_bits, received_ticks)
                        && !samples.is_full()
                    {
                        samples.push(sample);
                    }
                }
                Some(Arrival::Corrupt) => self.generator.corrupted(),
                None => {
                    let took_ticks = received_ticks.saturating_sub(now);
                    self.look_ticks = if self.look_ticks == 0 { took_ticks } else { self.look_ticks.min(took_ticks) };
                    return Ok(received_ticks);
                }
            }
            now = received_ticks;
        }
        Ok(now)
    }
}

#[cfg(test)]
mod tests;
