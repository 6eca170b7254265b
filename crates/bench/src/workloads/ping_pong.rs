//! Ping-pong: a closed loop with one message out at a time, as in `exanic_perf_test`, `sockperf ping-pong` and NetPIPE.

use nearwire_sys::tsc::Clock;
use nearwire_sys::usage::{ThreadUsage, interrupted};
use serde::{Deserialize, Serialize};

use super::sequence::{Answer, SequenceTracker};
use super::{RoundOutcome, RoundPlan, Sample, SampleBuffer, Workload};
use crate::endpoint::{Arrival, Deadline, Endpoint, EndpointError};

/// One message out at a time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PingPong {}

/// Losses in a row, with not one answer in the round, after which a round is given up: without it a dead path would
/// hold a run for `messages` x `timeout`.
const HOPELESS_LOSSES: u64 = 20;

impl Workload for PingPong {
    fn initiate<E: Endpoint>(
        &self,
        endpoint: &mut E,
        clock: Clock,
        plan: &RoundPlan,
        samples: &mut SampleBuffer,
    ) -> Result<RoundOutcome, EndpointError> {
        samples.clear();
        let mut round = Round {
            clock,
            timeout_ticks: clock.ticks(plan.timeout_ns),
            tracker: SequenceTracker::new(endpoint.sequence_bits()),
            outcome: RoundOutcome::default(),
            cpu: plan.cpu,
        };
        let warm_up_began = clock.now_ticks();
        let warm_up_ticks = clock.ticks(plan.warm_up_ns);
        let mut warm_up_messages = 0;
        // Two spinning ends on one CPU take milliseconds a message: their warm-up is not to outlast what it is for.
        let most_ticks = plan.time_ns.map_or(u64::MAX, |ns| clock.ticks(ns.max(plan.warm_up_ns)));
        loop {
            let passed_ticks = clock.now_ticks() - warm_up_began;
            let enough = warm_up_messages >= plan.warm_up_messages && passed_ticks >= warm_up_ticks;
            if enough || passed_ticks >= most_ticks {
                break;
            }
            round.exchange(endpoint)?;
            warm_up_messages += 1;
            if interrupted() || round.missing() >= HOPELESS_LOSSES && round.missing() == warm_up_messages {
                break;
            }
        }
        let warm_up_ns = clock.ns(clock.now_ticks() - warm_up_began);
        let hopeless_already = warm_up_messages > 0 && round.missing() == warm_up_messages;
        round.outcome = RoundOutcome { warm_up_messages, warm_up_ns, ..RoundOutcome::default() };
        round.measure(endpoint, plan, samples, hopeless_already)?;
        Ok(round.outcome)
    }
}

struct Round {
    clock: Clock,
    timeout_ticks: u64,
    tracker: SequenceTracker,
    outcome: RoundOutcome,
    cpu: Option<u32>,
}

impl Round {
    fn measure<E: Endpoint>(
        &mut self,
        endpoint: &mut E,
        plan: &RoundPlan,
        samples: &mut SampleBuffer,
        hopeless_already: bool,
    ) -> Result<(), EndpointError> {
        let messages = plan.messages.unwrap_or(u64::MAX);
        let time_ticks = plan.time_ns.map_or(u64::MAX, |ns| self.clock.ticks(ns));
        let usage_before = ThreadUsage::now();
        let began = self.clock.start_ticks();
        let mut now = began;
        let mut attempts = 0;
        while attempts < messages && now - began < time_ticks && !samples.is_full() && !interrupted() {
            attempts += 1;
            if let Some((sample, ended)) = self.exchange(endpoint)? {
                samples.push(sample);
                now = ended;
            } else {
                now = self.clock.now_ticks();
                let all_are_missing = self.missing() == attempts;
                if all_are_missing && (hopeless_already || attempts >= HOPELESS_LOSSES) {
                    break;
                }
            }
        }
        self.outcome.sent = attempts - self.outcome.unsent;
        self.outcome.started_ticks = began;
        self.outcome.duration_ns = self.clock.ns(self.clock.now_ticks() - began);
        self.outcome.usage = ThreadUsage::now().since(&usage_before);
        Ok(())
    }

    /// Messages without an answer.
    fn missing(&self) -> u64 {
        self.outcome.lost + self.outcome.unsent
    }

    /// Sends one message and waits for its answer. `None`: it was lost, or not sent. With it, the end stamp.
    #[inline(always)]
    fn exchange<E: Endpoint>(&mut self, endpoint: &mut E) -> Result<Option<(Sample, u64)>, EndpointError> {
        let sequence = self.tracker.next();
        let clock = self.clock;
        let sent_ticks = clock.start_ticks();
        if !endpoint.send(sequence)? {
            self.outcome.unsent += 1;
            return Ok(None);
        }
        let deadline = Deadline::after(clock, sent_ticks, self.timeout_ticks);
        loop {
            let arrival = endpoint.receive(&deadline)?;
            let (received_ticks, cpu) = clock.end_ticks();
            match arrival {
                Some(Arrival::Message(low_bits)) => match self.tracker.judge(low_bits) {
                    Answer::Expected if !endpoint.is_last_as_sent() => self.outcome.corrupted += 1,
                    Answer::Expected => {
                        self.outcome.migrated += u64::from(self.cpu.is_some_and(|pinned| pinned != cpu));
                        return Ok(Some((Sample::new(sent_ticks, sent_ticks, received_ticks), received_ticks)));
                    }
                    Answer::Duplicate => self.outcome.duplicated += 1,
                    Answer::Late => self.outcome.reordered += 1,
                    Answer::Foreign => self.outcome.corrupted += 1,
                },
                Some(Arrival::Corrupt) => self.outcome.corrupted += 1,
                None => {
                    self.outcome.lost += 1;
                    return Ok(None);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
