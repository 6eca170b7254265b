//! Ping-pong: a closed loop with one message out at a time, as in `exanic_perf_test`, `sockperf ping-pong` and NetPIPE.

use nearwire_sys::tsc::Clock;
use nearwire_sys::usage::{ThreadUsage, interrupted};

use super::sequence::{Answer, SequenceTracker};
use crate::endpoint::{Arrival, Deadline, Endpoint, EndpointError};

/// One measured round trip, in clock ticks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RoundTrip {
    /// Stamp before the send.
    pub sent_ticks: u64,
    /// From there to the stamp after the answer; saturates at `u32::MAX` (over one second).
    pub rtt_ticks: u32,
}

/// Where round trips go: allocated, touched and locked before the first round, so that recording one is a store.
#[derive(Debug)]
pub struct SampleBuffer {
    round_trips: Vec<RoundTrip>,
}

impl SampleBuffer {
    /// Room for `capacity` round trips; every page is touched now.
    #[must_use]
    pub fn new(capacity: usize) -> SampleBuffer {
        let mut round_trips = vec![RoundTrip { sent_ticks: 1, rtt_ticks: 1 }; capacity];
        round_trips.clear();
        SampleBuffer { round_trips }
    }

    /// The round trips of the last round.
    #[must_use]
    pub fn round_trips(&self) -> &[RoundTrip] {
        &self.round_trips
    }

    fn is_full(&self) -> bool {
        self.round_trips.len() == self.round_trips.capacity()
    }
}

/// When a round begins to count and when it ends.
#[derive(Debug, Clone, Copy)]
pub struct RoundPlan {
    /// Messages before the first that counts, as long as they take no longer than the round may.
    pub warm_up_messages: u64,
    /// Least time spent on them.
    pub warm_up_ns: u64,
    /// End after this many counted messages, lost ones included.
    pub messages: Option<u64>,
    /// End after this much time.
    pub time_ns: Option<u64>,
    /// An answer later than this is lost.
    pub timeout_ns: u64,
    /// CPU the initiator is pinned to, to notice when it was elsewhere.
    pub cpu: Option<u32>,
}

/// What a round came to beside its samples.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RoundOutcome {
    /// Messages sent before counting began.
    pub warm_up_messages: u64,
    /// Time spent on them.
    pub warm_up_ns: u64,
    /// Stamp of the round's beginning.
    pub started_ticks: u64,
    /// Time measured.
    pub duration_ns: u64,
    /// Messages that counted.
    pub sent: u64,
    /// Answers that did not come in time.
    pub lost: u64,
    /// Answers that came again.
    pub duplicated: u64,
    /// Answers to messages that had been counted as lost.
    pub reordered: u64,
    /// Answers of the wrong length, content or number.
    pub corrupted: u64,
    /// Stamps taken on another CPU than the pinned one.
    pub migrated: u64,
    /// What the thread used for the counted messages.
    pub usage: ThreadUsage,
}

/// Losses in a row, with not one answer in the round, after which a round is given up: without it a dead path would
/// hold a run for `messages` x `timeout`.
const HOPELESS_LOSSES: u64 = 20;

/// Runs one round.
///
/// # Errors
/// The path failed for good; losses are counted, not errors.
pub fn run<E: Endpoint>(
    endpoint: &mut E,
    clock: Clock,
    plan: &RoundPlan,
    samples: &mut SampleBuffer,
) -> Result<RoundOutcome, EndpointError> {
    samples.round_trips.clear();
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
        if interrupted() || round.outcome.lost >= HOPELESS_LOSSES && round.outcome.lost == warm_up_messages {
            break;
        }
    }
    let warm_up_ns = clock.ns(clock.now_ticks() - warm_up_began);
    let hopeless_already = warm_up_messages > 0 && round.outcome.lost == warm_up_messages;
    round.outcome = RoundOutcome { warm_up_messages, warm_up_ns, ..RoundOutcome::default() };
    round.measure(endpoint, plan, samples, hopeless_already)?;
    Ok(round.outcome)
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
        while self.outcome.sent < messages && now - began < time_ticks && !samples.is_full() && !interrupted() {
            self.outcome.sent += 1;
            if let Some((round_trip, ended)) = self.exchange(endpoint)? {
                samples.round_trips.push(round_trip);
                now = ended;
            } else {
                now = self.clock.now_ticks();
                let all_lost = self.outcome.lost == self.outcome.sent;
                if all_lost && (hopeless_already || self.outcome.sent >= HOPELESS_LOSSES) {
                    break;
                }
            }
        }
        self.outcome.started_ticks = began;
        self.outcome.duration_ns = self.clock.ns(self.clock.now_ticks() - began);
        self.outcome.usage = ThreadUsage::now().since(&usage_before);
        Ok(())
    }

    /// Sends one message and waits for its answer. `None`: lost. With it, the end stamp.
    #[inline(always)]
    fn exchange<E: Endpoint>(&mut self, endpoint: &mut E) -> Result<Option<(RoundTrip, u64)>, EndpointError> {
        let sequence = self.tracker.next();
        let clock = self.clock;
        let sent_ticks = clock.start_ticks();
        endpoint.send(sequence)?;
        let deadline = Deadline::after(clock, sent_ticks, self.timeout_ticks);
        loop {
            let arrival = endpoint.receive(&deadline)?;
            let (received_ticks, cpu) = clock.end_ticks();
            match arrival {
                Some(Arrival::Message(low_bits)) => match self.tracker.judge(low_bits) {
                    Answer::Expected => {
                        self.outcome.migrated += u64::from(self.cpu.is_some_and(|pinned| pinned != cpu));
                        let rtt_ticks = u32::try_from(received_ticks - sent_ticks).unwrap_or(u32::MAX);
                        return Ok(Some((RoundTrip { sent_ticks, rtt_ticks }, received_ticks)));
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
