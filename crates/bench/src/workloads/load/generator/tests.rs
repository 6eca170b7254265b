use std::collections::VecDeque;

use super::super::Arrivals;
use super::*;

/// A far end that answers each message in turn after a service time, and does nothing for a while in between.
struct Server {
    service_ns: u64,
    stall_ns: std::ops::Range<u64>,
    is_free_ns: u64,
    answers: VecDeque<(u64, u64)>,
}

impl Server {
    fn new(service_ns: u64, stall_ns: std::ops::Range<u64>) -> Server {
        Server { service_ns, stall_ns, is_free_ns: 0, answers: VecDeque::new() }
    }

    fn takes(&mut self, number: u64, now_ns: u64) {
        let mut begins_ns = now_ns.max(self.is_free_ns);
        if self.stall_ns.contains(&begins_ns) {
            begins_ns = self.stall_ns.end;
        }
        self.is_free_ns = begins_ns + self.service_ns;
        self.answers.push_back((self.is_free_ns, number));
    }
}

const PLAN: RoundPlan = RoundPlan {
    warm_up_messages: 0,
    warm_up_ns: 1_000_000,
    messages: None,
    time_ns: Some(100_000_000),
    timeout_ns: 50_000_000,
    cpu: None,
};

/// A round under virtual time, looked at every `step_ns`; `sends` says whether the path takes a message at a time.
fn simulate(
    load: Load,
    plan: &RoundPlan,
    server: &mut Server,
    step_ns: u64,
    sends: impl Fn(u64) -> bool,
) -> (RoundOutcome, Vec<(u64, u64)>) {
    let clock = Clock::calibrate();
    let began = 1_000_000_000;
    let mut generator = Generator::new(&load, Schedule::new(&load, began, clock.hz()), clock, plan, 64);
    let (mut now_ns, mut samples_ns) = (0, Vec::new());
    let now = |now_ns: u64| began + clock.ticks(now_ns);
    while !generator.is_over(now(now_ns)) {
        while let Some(number) = generator.due(now(now_ns)).filter(|_| sends(now_ns)) {
            server.takes(number, now_ns);
            generator.sent(now(now_ns));
        }
        while let Some((_, number)) = server.answers.pop_front_if(|(at_ns, _)| *at_ns <= now_ns) {
            if let Some(sample) = generator.answered(number, now(now_ns)) {
                let ns = |ticks: u32| clock.ns(u64::from(ticks));
                samples_ns.push((ns(sample.sent_after_ticks), ns(sample.received_after_ticks)));
            }
        }
        generator.give_up_late_ones(now(now_ns));
        now_ns += step_ns;
        assert!(now_ns < 10_000_000_000, "the round has no end");
    }
    (generator.finish(clock, now(now_ns)), samples_ns)
}

const TEN_K: Load = Load { rate_per_second: 10_000, arrivals: Arrivals::Fixed, seed: 1 };

#[test]
fn calm_server_answers_every_message_of_the_round() {
    let (outcome, samples) = simulate(TEN_K, &PLAN, &mut Server::new(5000, 0..0), 500, |_| true);
    assert_eq!((outcome.sent, outcome.lost, outcome.unsent, samples.len()), (1000, 0, 0, 1000));
    assert_eq!(outcome.outstanding_most, 1);
    assert!(outcome.duration_ns.abs_diff(100_000_000) <= 2, "{}", outcome.duration_ns);
    assert!(samples.iter().all(|(late_ns, latency_ns)| *late_ns <= 1000 && (4990..7000).contains(latency_ns)));
}

/// What a closed loop hides: it would have met the stall of 20 ms with one message, and these are 200.
#[test]
fn stalled_server_is_seen_by_every_message_that_it_delayed() {
    let stall = 50_000_000..70_000_000;
    let (outcome, samples) = simulate(TEN_K, &PLAN, &mut Server::new(5000, stall), 500, |_| true);
    let slow = samples.iter().filter(|(_, latency_ns)| *latency_ns > 100_000).count();
    assert!((195..=215).contains(&slow), "{slow}");
    let most_ns = samples.iter().map(|(_, latency_ns)| *latency_ns).max().unwrap();
    assert!((19_900_000..20_010_000).contains(&most_ns), "{most_ns}");
    assert!(outcome.outstanding_most >= 199, "{}", outcome.outstanding_most);
}

/// The generator itself did nothing for 20 ms: the messages leave late and their latency has the delay.
#[test]
fn stalled_generator_counts_its_lateness() {
    let sends = |now_ns| !(50_000_000..70_000_000).contains(&now_ns);
    let (outcome, samples) = simulate(TEN_K, &PLAN, &mut Server::new(5000, 0..0), 500, sends);
    assert_eq!((outcome.sent, samples.len()), (1000, 1000));
    let late = samples.iter().filter(|(late_ns, _)| *late_ns > 100_000).count();
    assert!((195..=201).contains(&late), "{late}");
    assert!(samples.iter().all(|(late_ns, latency_ns)| late_ns < latency_ns));
}

#[test]
fn path_that_takes_half_of_the_messages_leaves_the_rest_unsent() {
    // One in 200 us, of one in 100 us.
    let (outcome, samples) =
        simulate(TEN_K, &PLAN, &mut Server::new(1000, 0..0), 200_000, |now_ns| now_ns.is_multiple_of(200_000));
    assert_eq!(outcome.sent, 1000, "what is due leaves together");
    assert_eq!(samples.len(), 1000);
    let plan = RoundPlan { timeout_ns: 1_000_000, ..PLAN };
    let (outcome, _) = simulate(TEN_K, &plan, &mut Server::new(1000, 0..0), 500, |now_ns| now_ns < 51_000_000);
    assert_eq!((outcome.sent, outcome.unsent), (500, 500), "a path that is stuck ends the round");
}

#[test]
fn overloaded_server_loses_what_it_answers_too_late() {
    // 20 000 messages a second are served, 40 000 sent: one that is sent after some time is answered after twice that.
    let load = Load { rate_per_second: 40_000, ..TEN_K };
    let plan = RoundPlan { timeout_ns: 20_000_000, ..PLAN };
    let (outcome, samples) = simulate(load, &plan, &mut Server::new(50_000, 0..0), 5000, |_| true);
    assert_eq!(outcome.sent, 4000);
    assert_eq!(outcome.sent, outcome.lost + samples.len() as u64);
    assert!((3150..3300).contains(&outcome.lost), "{}", outcome.lost);
    assert!(outcome.reordered > 0, "answers to lost messages are counted");
}

#[test]
fn message_count_ends_the_round() {
    let plan = RoundPlan { messages: Some(77), time_ns: None, ..PLAN };
    let load = Load { arrivals: Arrivals::Poisson, ..TEN_K };
    let (outcome, samples) = simulate(load, &plan, &mut Server::new(5000, 0..0), 500, |_| true);
    assert_eq!((outcome.sent, outcome.unsent, samples.len()), (77, 0, 77));
}

#[test]
fn slow_rate_is_no_stuck_path() {
    let load = Load { rate_per_second: 50, ..TEN_K };
    let plan = RoundPlan { timeout_ns: 1_000_000, ..PLAN };
    let (outcome, samples) = simulate(load, &plan, &mut Server::new(5000, 0..0), 500, |_| true);
    assert_eq!((outcome.sent, outcome.unsent, samples.len()), (5, 0, 5));
}

#[test]
fn round_cut_short_counts_no_message_that_is_still_out() {
    let clock = Clock::calibrate();
    let mut generator = Generator::new(&TEN_K, Schedule::new(&TEN_K, 0, clock.hz()), clock, &PLAN, 64);
    let mut now_ns = 0;
    while now_ns < 10_000_000 {
        if generator.due(clock.ticks(now_ns)).is_some() {
            generator.sent(clock.ticks(now_ns));
        }
        now_ns += 1000;
    }
    let outcome = generator.finish(clock, clock.ticks(now_ns));
    assert_eq!((outcome.sent, outcome.lost, outcome.unsent), (0, 0, 0));
}
