//! CPU time of a message where a record has one number a run, as those of earlier builds do, and nothing of its error. A
//! difference counts by its size alone: it must exceed the threshold and what the same cell's median could have shown.
//!
//! Other records have the CPU time of each round, which is compared as the median is ([`super::rounds`]).

use super::{CompareOptions, Figure, Quantity, Verdict};
use crate::record::Run;

/// B against A; `None` when either side has no such figure. `visible_percent` is the smallest visible difference of the
/// median.
pub(super) fn figure(
    quantity: Quantity,
    a: &Run,
    b: &Run,
    visible_percent: Option<f64>,
    options: CompareOptions,
) -> Option<Figure> {
    let of = |run: &Run| match quantity {
        Quantity::CpuInitiator => run.cpu_initiator_ns_per_message,
        Quantity::CpuResponder => run.cpu_responder_ns_per_message,
        _ => None,
    };
    let is_usable = |value: &f64| *value > 0.0 && value.is_finite();
    let (a_ns, b_ns) = (of(a).filter(is_usable)?, of(b).filter(is_usable)?);
    let limit_percent = options.cpu_threshold_percent.max(visible_percent.unwrap_or(0.0));
    let change = b_ns / a_ns;
    let verdict = match () {
        () if super::estimate::percent(change.ln()) <= limit_percent => Verdict::NoDifference,
        () if change < 1.0 => Verdict::Better,
        () => Verdict::Worse,
    };
    Some(Figure {
        quantity,
        a: a_ns,
        b: b_ns,
        change,
        interval: None,
        noise_floor_percent: None,
        smallest_visible_percent: None,
        p_value: None,
        verdict,
        is_confirmed: verdict.is_difference(),
        estimate: None,
    })
}
