use std::collections::VecDeque;

use super::*;

/// An end whose answers are scripted: what comes back for the n-th message.
struct Scripted<F> {
    answers: F,
    waiting: VecDeque<Arrival>,
    bits: u32,
}

impl<F: FnMut(u64) -> Vec<Arrival>> Endpoint for Scripted<F> {
    fn send(&mut self, sequence: u64) -> Result<bool, EndpointError> {
        self.waiting.extend((self.answers)(sequence));
        Ok(true)
    }

    fn receive(&mut self, _deadline: &Deadline) -> Result<Option<Arrival>, EndpointError> {
        Ok(self.waiting.pop_front())
    }

    fn try_send(&mut self, sequence: u64) -> Result<bool, EndpointError> {
        self.send(sequence)
    }

    fn try_receive(&mut self) -> Result<Option<Arrival>, EndpointError> {
        Ok(self.waiting.pop_front())
    }

    fn sequence_bits(&self) -> u32 {
        self.bits
    }
}

fn run_scripted(
    messages: u64,
    warm_up: u64,
    bits: u32,
    answers: impl FnMut(u64) -> Vec<Arrival>,
) -> (RoundOutcome, usize) {
    let plan = RoundPlan {
        warm_up_messages: warm_up,
        warm_up_ns: 0,
        messages: Some(messages),
        time_ns: None,
        timeout_ns: 1_000_000,
        cpu: None,
    };
    let mut samples = SampleBuffer::new(10_000);
    let mut end = Scripted { answers, waiting: VecDeque::new(), bits };
    let outcome = PingPong {}.initiate(&mut end, Clock::calibrate(), &plan, &mut samples).unwrap();
    (outcome, samples.samples().len())
}

#[test]
fn every_message_answered_counts_every_sample() {
    let (outcome, samples) = run_scripted(1000, 10, 64, |n| vec![Arrival::Message(n)]);
    assert_eq!((outcome.sent, outcome.lost, samples), (1000, 0, 1000));
    assert_eq!(outcome.warm_up_messages, 10);
}

#[test]
fn one_byte_messages_wrap_without_loss() {
    let (outcome, samples) = run_scripted(1000, 0, 8, |n| vec![Arrival::Message(n & 0xff)]);
    assert_eq!((outcome.lost, outcome.corrupted, samples), (0, 0, 1000));
}

#[test]
fn every_tenth_lost_counts_and_goes_on() {
    let (outcome, samples) =
        run_scripted(1000, 0, 64, |n| if n % 10 == 0 { vec![] } else { vec![Arrival::Message(n)] });
    assert_eq!((outcome.sent, outcome.lost, samples), (1000, 100, 900));
}

#[test]
fn duplicate_answers_are_counted_and_not_sampled() {
    let (outcome, samples) = run_scripted(100, 0, 64, |n| vec![Arrival::Message(n), Arrival::Message(n)]);
    assert_eq!((outcome.lost, outcome.duplicated, samples), (0, 99, 100));
}

#[test]
fn answer_after_its_timeout_is_lost_and_reordered() {
    let (outcome, samples) = run_scripted(100, 0, 64, |n| match n % 2 {
        1 => vec![],
        _ => vec![Arrival::Message(n - 1), Arrival::Message(n)],
    });
    assert_eq!((outcome.lost, outcome.reordered, samples), (50, 50, 50));
}

#[test]
fn corrupt_answer_is_counted_and_the_message_still_waited_for() {
    let (outcome, samples) = run_scripted(100, 0, 64, |n| vec![Arrival::Corrupt, Arrival::Message(n)]);
    assert_eq!((outcome.corrupted, outcome.lost, samples), (100, 0, 100));
}

#[test]
fn dead_path_is_given_up_soon() {
    let (outcome, samples) = run_scripted(1_000_000, 1000, 64, |_| vec![]);
    assert_eq!(samples, 0);
    assert_eq!(outcome.lost, outcome.sent);
    assert!(outcome.sent + outcome.warm_up_messages <= HOPELESS_LOSSES + 1);
}

#[test]
fn full_buffer_ends_the_round() {
    let (outcome, samples) = run_scripted(20_000, 0, 64, |n| vec![Arrival::Message(n)]);
    assert_eq!((outcome.sent, samples), (10_000, 10_000));
}

/// As two spinning ends on one CPU are: a default run took 165 s there, nearly all of it warm-up.
#[test]
fn slow_exchanges_warm_up_ends_with_the_rounds_time() {
    let plan = RoundPlan {
        warm_up_messages: 1000,
        warm_up_ns: 0,
        messages: None,
        time_ns: Some(20_000_000),
        timeout_ns: 100_000_000,
        cpu: None,
    };
    let answers = |n| {
        std::thread::sleep(std::time::Duration::from_millis(4));
        vec![Arrival::Message(n)]
    };
    let mut end = Scripted { answers, waiting: VecDeque::new(), bits: 64 };
    let outcome = PingPong {}.initiate(&mut end, Clock::calibrate(), &plan, &mut SampleBuffer::new(100)).unwrap();
    assert!(outcome.warm_up_messages < 100, "{outcome:?}");
    assert!(outcome.sent > 0 && outcome.lost == 0, "{outcome:?}");
}
