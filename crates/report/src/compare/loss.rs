//! Lost messages of both sides: Fisher's exact test, for any counts.
//!
//! Messages are lost in bursts, and the test takes them as independent. So counts are divided by how much more rounds
//! differ than independent losses would (the design effect: Rao and Scott, Biometrics 48, 1992), taken over the rounds of
//! both sides as if nothing differed. The interval of the difference comes of Wilson's intervals of the two shares
//! (Newcombe, Statistics in Medicine 17, 1998).

use super::{CompareOptions, Figure, Quantity, Verdict};
use crate::record::Run;
use crate::statistics::spread::Dispersion;
use crate::statistics::student::{ln_gamma, two_sided_point};

/// Student's distribution of so many degrees of freedom is the normal one.
const NORMAL: f64 = 1e6;

/// B against A; `None` when either side sent nothing.
pub(super) fn figure(a: &Run, b: &Run, options: CompareOptions) -> Option<Figure> {
    let (sent_a, sent_b) = (a.sent(), b.sent());
    if sent_a == 0 || sent_b == 0 {
        return None;
    }
    let effect = design_effect(a, b);
    let scaled = |count: u64| (count as f64 / effect).round();
    let p_value = fisher(scaled(a.lost), scaled(sent_a), scaled(b.lost), scaled(sent_b));
    let deviations = two_sided_point(options.wrong(), NORMAL);
    let percent = |lost: u64, sent: u64| lost as f64 * 100.0 / sent as f64;
    let (share_a, share_b) = (percent(a.lost, sent_a), percent(b.lost, sent_b));
    let change = share_b - share_a;
    let ends = |share: f64, sent: u64| wilson(share / 100.0, sent as f64 / effect, deviations).map(|end| end * 100.0);
    let ([low_a, high_a], [low_b, high_b]) = (ends(share_a, sent_a), ends(share_b, sent_b));
    let below = (share_b - low_b).hypot(high_a - share_a);
    let above = (high_b - share_b).hypot(share_a - low_a);
    let limit = options.loss_threshold_percent;
    let verdict = match () {
        () if p_value < options.wrong() && change < 0.0 => Verdict::Better,
        () if p_value < options.wrong() && change > 0.0 => Verdict::Worse,
        () if change - below >= -limit && change + above <= limit => Verdict::NoDifference,
        () => Verdict::CannotTell,
    };
    Some(Figure {
        quantity: Quantity::Loss,
        a: share_a,
        b: share_b,
        change,
        interval: Some((change - below, change + above)),
        noise_floor_percent: None,
        smallest_visible_percent: Some(below.max(above)),
        p_value: Some(p_value),
        verdict,
        is_confirmed: false,
        estimate: None,
    })
}

/// How much more the rounds differ than independent losses would make them; at least 1.
fn design_effect(a: &Run, b: &Run) -> f64 {
    let mut dispersion = Dispersion::default();
    for round in a.rounds.iter().chain(&b.rounds) {
        dispersion.add(round.samples + round.lost, round.lost);
    }
    dispersion.ratio().unwrap_or(1.0).max(1.0)
}

/// Wilson's interval of a share.
fn wilson(share: f64, count: f64, deviations: f64) -> [f64; 2] {
    let square = deviations * deviations;
    let centre = share + square / (2.0 * count);
    let half = deviations * (share * (1.0 - share) / count + square / (4.0 * count * count)).sqrt();
    let whole = 1.0 + square / count;
    [((centre - half) / whole).clamp(0.0, share), ((centre + half) / whole).clamp(share, 1.0)]
}

/// Twice the probability that chance alone gives B so many of all the lost messages, or more (fewer where it has
/// fewer than its share).
fn fisher(lost_a: f64, sent_a: f64, lost_b: f64, sent_b: f64) -> f64 {
    let (lost, sent) = (lost_a + lost_b, sent_a + sent_b);
    if lost == 0.0 || lost_b * sent_a == lost_a * sent_b {
        return 1.0;
    }
    // One tail, from B's count away from its share: the counts of the side that has more of them than its share.
    let (more, more_sent, other_sent) =
        if lost_b * sent_a > lost_a * sent_b { (lost_b, sent_b, sent_a) } else { (lost_a, sent_a, sent_b) };
    let choose = |of: f64, some: f64| ln_gamma(of + 1.0) - ln_gamma(some + 1.0) - ln_gamma(of - some + 1.0);
    let mut term = (choose(more_sent, more) + choose(other_sent, lost - more) - choose(sent, lost)).exp();
    let mut tail = 0.0;
    let mut count = more;
    while term > tail * 1e-16 {
        tail += term;
        if count >= lost || count >= more_sent {
            break;
        }
        term *= (lost - count) * (more_sent - count) / ((count + 1.0) * (other_sent - lost + count + 1.0));
        count += 1.0;
    }
    (2.0 * tail).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_tables_match_exact_probabilities() {
        // 0 of 10 against 5 of 10: C(10,5) / C(20,5), twice.
        assert!((fisher(0.0, 10.0, 5.0, 10.0) - 2.0 * 252.0 / 15_504.0).abs() < 1e-9);
        // 1 of 4 against 3 of 4: (16 + 1) / 70, twice.
        assert!((fisher(1.0, 4.0, 3.0, 4.0) - 2.0 * 17.0 / 70.0).abs() < 1e-9);
        assert!((fisher(3.0, 4.0, 1.0, 4.0) - 2.0 * 17.0 / 70.0).abs() < 1e-9);
        assert_eq!(fisher(0.0, 1e6, 0.0, 1e6), 1.0);
        assert_eq!(fisher(7.0, 1e6, 7.0, 1e6), 1.0);
    }

    #[test]
    fn large_counts_match_the_normal_distribution() {
        let (sent, lost_a, lost_b) = (1e7, 100_000.0, 101_000.0);
        let deviations = 1_000.0 / (201_000.0_f64 * (1.0 - 0.010_05)).sqrt();
        let wanted = crate::statistics::student::two_sided_p(deviations, NORMAL);
        let found = fisher(lost_a, sent, lost_b, sent);
        assert!((found / wanted - 1.0).abs() < 0.05, "{found} {wanted}");
        assert!(fisher(0.0, 1_000.0, 1_000.0, 1_000.0) < 1e-100);
    }

    #[test]
    fn nothing_lost_of_a_thousand_leaves_room_for_some() {
        let [low, high] = wilson(0.0, 1_000.0, 1.96);
        assert!(low == 0.0 && (0.003..0.005).contains(&high), "{high}");
    }
}
