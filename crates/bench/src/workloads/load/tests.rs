use std::collections::VecDeque;

use super::*;
use crate::endpoint::Deadline;

/// An end whose far end answers at once, for every n-th message twice, and which takes a message only at every third attempt.
#[derive(Default)]
struct Echo {
    waiting: VecDeque<Arrival>,
    twice_of: u64,
    refuses: u32,
}

impl Endpoint for Echo {
    fn send(&mut self, _: u64) -> Result<bool, EndpointError> {
        panic!("an open loop does not wait to send");
    }

    fn receive(&mut self, _: &Deadline) -> Result<Option<Arrival>, EndpointError> {
        panic!("an open loop does not wait to receive");
    }

    fn try_send(&mut self, sequence: u64) -> Result<bool, EndpointError> {
        self.refuses = (self.refuses + 1) % 3;
        if self.refuses != 0 {
            return Ok(false);
        }
        let again = self.twice_of > 0 && sequence.is_multiple_of(self.twice_of);
        self.waiting.extend(std::iter::repeat_n(Arrival::Message(sequence), 1 + usize::from(again)));
        Ok(true)
    }

    fn try_receive(&mut self) -> Result<Option<Arrival>, EndpointError> {
        Ok(self.waiting.pop_front())
    }
}

#[test]
fn round_over_an_end_sends_by_the_schedule_and_waits_for_nothing() {
    let load = Load { rate_per_second: 20_000, arrivals: Arrivals::Poisson, seed: 3 };
    let plan = RoundPlan {
        warm_up_messages: 10,
        warm_up_ns: 0,
        messages: Some(1000),
        time_ns: None,
        timeout_ns: 50_000_000,
        cpu: None,
    };
    let mut samples = SampleBuffer::new(10_000);
    let mut end = Echo { twice_of: 100, ..Echo::default() };
    let outcome = load.initiate(&mut end, Clock::calibrate(), &plan, &mut samples).unwrap();
    assert_eq!((outcome.sent, outcome.lost, outcome.unsent, samples.samples().len()), (1000, 0, 0, 1000));
    // Of the counted ones and those before.
    assert!((10..=11).contains(&outcome.duplicated), "{}", outcome.duplicated);
    // A thousand messages at this rate.
    let took_ns = Clock::calibrate().ns(samples.samples()[999].intended_ticks - samples.samples()[0].intended_ticks);
    assert!((40_000_000..60_000_000).contains(&took_ns), "{took_ns}");
}
