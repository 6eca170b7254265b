//! Lost messages in quantiles: they rank above all others.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use nearwire_report::statistics::{Distribution, is_lost};
use proptest::prelude::*;

const KEEP_ALL: usize = usize::MAX;

/// The definition over values of which infinite ones were lost: the value, `None` where it was lost, and how many are
/// beyond.
fn oracle_with_lost(sorted_half_ns: &[f64], percent: f64) -> Option<(Option<f64>, u64)> {
    let sent = sorted_half_ns.len();
    let enough = |count: usize| count as f64 >= percent * sent as f64 / 100.0 - 1e-9;
    let rank = (1..=sent).find(|&count| enough(count))?;
    let beyond = if percent >= 50.0 { sent - rank } else { rank - 1 };
    Some((Some(sorted_half_ns[rank - 1]).filter(|value| value.is_finite()), beyond as u64))
}

fn rounds_with_lost() -> impl Strategy<Value = Vec<(Vec<u32>, u64)>> {
    let round = (prop::collection::vec(100u32..4_000_000, 0..400), prop_oneof![Just(0u64), 0u64..40, 0u64..600]);
    prop::collection::vec(round, 1..7)
}

proptest! {
    #[test]
    fn any_lost_messages_rank_above_all_others(
        rounds in rounds_with_lost(),
        keep in prop::sample::select(vec![0usize, 200, KEEP_ALL]),
    ) {
        let mut all = Distribution::new(keep);
        let mut values = Vec::new();
        for (round, lost) in &rounds {
            all.record_round(round, *lost);
            values.extend(round.iter().map(|&rtt_ns| f64::from(rtt_ns) / 2.0));
            values.extend((0..*lost).map(|_| f64::INFINITY));
        }
        values.sort_unstable_by(f64::total_cmp);
        let close = |found: f64, wanted: f64| (found / wanted - 1.0).abs() < if keep == KEEP_ALL { 1e-12 } else { 0.01 };
        let summary = all.summary(1);
        for line in summary.quantiles.iter().filter(|line| line.percent > 0.0 && line.percent < 100.0) {
            let (wanted, beyond) = oracle_with_lost(&values, line.percent).unwrap_or((None, 0));
            prop_assert_eq!(line.support, beyond);
            prop_assert_eq!(is_lost(line), beyond >= 10 && wanted.is_none());
            match (line.value_ns, wanted.filter(|_| beyond >= 10)) {
                (Some(found), Some(wanted)) => prop_assert!(close(found, wanted), "{} {found} {wanted}", line.percent),
                (found, wanted) => prop_assert_eq!(found, wanted),
            }
            prop_assert!(line.high_ns.is_none_or(|high| high <= summary.latency_ns.max.unwrap()));
        }
        let received: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
        prop_assert_eq!(summary.latency_ns.max, received.last().copied());
        prop_assert_eq!(summary.latency_ns.min, received.first().copied());
        prop_assert_eq!((summary.samples, all.lost()), (received.len() as u64, (values.len() - received.len()) as u64));
    }

    #[test]
    fn any_round_with_lost_messages_has_quantiles_of_all(
        round in prop::collection::vec(100u32..4_000_000, 0..3_000),
        lost in prop_oneof![0u64..60, 0u64..4_000],
    ) {
        let figures = Distribution::new(KEEP_ALL).record_round(&round, lost);
        let mut values: Vec<f64> = round.iter().map(|&rtt_ns| f64::from(rtt_ns) / 2.0).collect();
        values.extend((0..lost).map(|_| f64::INFINITY));
        values.sort_unstable_by(f64::total_cmp);
        for (found, percent) in [(figures.p50_ns, 50.0), (figures.p99_ns, 99.0)] {
            let wanted = oracle_with_lost(&values, percent).filter(|(_, beyond)| *beyond >= 10);
            prop_assert_eq!(found, wanted.and_then(|(value, _)| value));
        }
        let samples: u64 = figures.blocks.iter().map(|block| block.samples).sum();
        prop_assert!(samples <= round.len() as u64);
        let has_median = round.len() as u64 > lost + 40;
        prop_assert!(!has_median || samples == round.len() as u64, "every block has its share, {figures:?}");
    }
}

#[test]
fn lost_messages_shift_every_quantile() {
    let round: Vec<u32> = (1..=985).map(|value| 2 * value).collect();
    for keep in [KEEP_ALL, 0] {
        let mut all = Distribution::new(keep);
        all.record_round(&round, 15);
        let half = all.summary(1).latency_ns;
        assert_eq!((half.p50.map(f64::round), half.p90.map(f64::round), half.p99), (Some(500.0), Some(900.0), None));
        assert_eq!((half.min, half.max), (Some(1.0), Some(985.0)));
    }
}
