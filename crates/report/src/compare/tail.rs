//! The 99.9 % quantile: rounds do not have it, so the intervals of the two runs are put together.
//!
//! Each run's quantile has an order-statistic interval that is widened by how much its blocks and rounds differ. The
//! interval of the ratio comes of the two by the squares of their half-widths, each on the side that matters (MOVER: Zou
//! and Donner, Statistics in Medicine 27, 2008).

use super::estimate::Estimate;
use super::{CompareOptions, Figure, Quantity};
use crate::record::{Quantile, Run};
use crate::render::units::quantile;
use crate::statistics::is_lost;
use crate::statistics::student::two_sided_point;

/// How often the intervals of a record are wrong.
const WRONG_IN_RECORDS: f64 = 0.05;

/// B against A; `None` when either side does not support it. `correlation` is that of neighbouring rounds.
pub(super) fn figure(a: &Run, b: &Run, correlation: f64, options: CompareOptions) -> Option<Figure> {
    let (line_a, line_b) = (quantile(a, 99.9)?, quantile(b, 99.9)?);
    let (a_ns, b_ns) = (value_ns(line_a)?, value_ns(line_b)?);
    if a_ns.is_infinite() || b_ns.is_infinite() {
        return Some(Figure::lost(Quantity::P999, a_ns, b_ns));
    }
    let rounds = a.rounds.len().min(b.rounds.len()) as f64;
    // Half-widths of 95 % become standard errors.
    let widen = 1.0 / two_sided_point(WRONG_IN_RECORDS, (rounds - 1.0).max(1.0));
    let both = |one: f64, other: f64| (one * one + other * other).sqrt() * widen;
    let ((a_below, a_above), (b_below, b_above)) = (half_widths(line_a, a_ns), half_widths(line_b, b_ns));
    let estimate = Estimate {
        log_ratio: (b_ns / a_ns).ln(),
        error_below: both(b_below, a_above),
        error_above: both(b_above, a_below),
        rounds,
        correlation,
    };
    Some(estimate.figure(Quantity::P999, (a_ns, b_ns), None, options))
}

fn value_ns(line: &Quantile) -> Option<f64> {
    line.value_ns.filter(|&value| value > 0.0).or_else(|| is_lost(line).then_some(f64::INFINITY))
}

/// Half-widths of the interval in logarithms, below and above; infinite where the samples do not bound it.
fn half_widths(line: &Quantile, value_ns: f64) -> (f64, f64) {
    let width =
        |end: Option<f64>| end.filter(|&end| end > 0.0).map_or(f64::INFINITY, |end| (end / value_ns).ln().abs());
    (width(line.low_ns), width(line.high_ns))
}
