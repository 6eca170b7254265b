//! Records with one cell of known truth, to compare.

use std::cell::RefCell;

use nearwire_report::CompareOptions;
use nearwire_report::record::{Record, Run};
use nearwire_report::statistics::Distribution;

use super::{Random, round_trips, sample_record};

/// Few resamples, so that a test spends its time on rounds.
pub const OPTIONS: CompareOptions = CompareOptions {
    confidence: 0.95,
    threshold_percent: 3.0,
    cpu_threshold_percent: 10.0,
    loss_threshold_percent: 0.1,
    resamples: 300,
    seed: 7,
};

/// Records are made from one template, so that a test spends its time on rounds.
pub fn template() -> Record {
    thread_local!(static MADE: RefCell<Option<Record>> = const { RefCell::new(None) });
    MADE.with_borrow_mut(|made| {
        made.get_or_insert_with(|| {
            let mut record = sample_record();
            record.runs.truncate(1);
            record
        })
        .clone()
    })
}

/// A record with one cell of ten rounds; `round_noise` is the deviation of the rounds' levels.
pub fn record(seed: u64, median_ns: f64, round_noise: f64) -> Record {
    let mut record = template();
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9) + 1);
    let mut all = Distribution::new(usize::MAX);
    let run: &mut Run = &mut record.runs[0];
    for round in &mut run.rounds {
        let level = median_ns * (round_noise * random.normal()).exp();
        let rtt_ns = round_trips(&mut random, level, 500.0, 1_000);
        let figures = all.record_round(&rtt_ns, 0);
        (round.p50_ns, round.p99_ns, round.blocks) = (figures.p50_ns, figures.p99_ns, figures.blocks);
        round.samples = rtt_ns.len() as u64;
    }
    run.samples = all.len();
    record
}
