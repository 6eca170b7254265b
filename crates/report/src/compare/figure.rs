//! What is compared, and what may be said of it.

use super::estimate::Estimate;

/// What is compared of a cell. Less is better in each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Quantity {
    /// Median of half round trips, ns.
    P50,
    /// 99 % quantile of half round trips, ns.
    P99,
    /// 99.9 % quantile of half round trips, ns.
    P999,
    /// Messages lost, percent of those sent.
    Loss,
    /// Time from one message that arrives to the next, ns: of workloads that send one way.
    MessageTime,
    /// CPU time of the initiator for one message, ns.
    CpuInitiator,
    /// CPU time of the responder for one message, ns.
    CpuResponder,
}

impl Quantity {
    /// As tables have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Quantity::P50 => "p50",
            Quantity::P99 => "p99",
            Quantity::P999 => "p99.9",
            Quantity::Loss => "loss",
            Quantity::MessageTime => "a message",
            Quantity::CpuInitiator => "CPU initiator",
            Quantity::CpuResponder => "CPU responder",
        }
    }

    /// True for quantiles of latencies, and for the time that a message takes where messages go one way.
    #[must_use]
    pub const fn is_latency(self) -> bool {
        matches!(self, Quantity::P50 | Quantity::P99 | Quantity::P999 | Quantity::MessageTime)
    }

    /// True for CPU times.
    #[must_use]
    pub const fn is_cpu(self) -> bool {
        matches!(self, Quantity::CpuInitiator | Quantity::CpuResponder)
    }
}

/// B against A, at the stated confidence of the one figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// B is faster, loses less or takes less CPU time.
    Better,
    /// B is slower, loses more or takes more CPU time.
    Worse,
    /// A difference of the threshold or more is ruled out.
    NoDifference,
    /// Neither: no difference is shown, and one of the threshold or more is not ruled out.
    CannotTell,
}

impl Verdict {
    /// True for `Better` and `Worse`.
    #[must_use]
    pub const fn is_difference(self) -> bool {
        matches!(self, Verdict::Better | Verdict::Worse)
    }
}

/// One quantity of one cell, B against A.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure {
    /// What is compared.
    pub quantity: Quantity,
    /// A's figure, in the unit of the quantity; infinite for a quantile that falls among the lost messages.
    pub a: f64,
    /// B's figure.
    pub b: f64,
    /// B divided by A; for loss B minus A, in percent of the messages.
    pub change: f64,
    /// Interval of the change at the stated confidence; `None` where a figure has none.
    pub interval: Option<(f64, f64)>,
    /// The largest difference of either side against itself, percent; `None` where a figure has no rounds.
    pub noise_floor_percent: Option<f64>,
    /// The smallest difference that could have been told, percent: half the width of the interval, or the noise floor
    /// where that is larger; for loss in percent of the messages. `None` without interval.
    pub smallest_visible_percent: Option<f64>,
    /// Probability of a change as large as this one where nothing differs; `None` without interval.
    pub p_value: Option<f64>,
    /// What may be said of this figure alone.
    pub verdict: Verdict,
    /// Whether a difference still counts as one with all figures of the comparison taken together.
    pub is_confirmed: bool,
    /// What the probability is made of, for quantiles.
    pub(super) estimate: Option<Estimate>,
}

impl Figure {
    /// True when one side's quantile falls among its lost messages, so that only the loss can be compared.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.a.is_infinite() || self.b.is_infinite()
    }

    /// True for a difference of this figure alone that does not count with all figures taken together.
    #[must_use]
    pub fn is_only_alone(&self) -> bool {
        self.verdict.is_difference() && !self.is_confirmed
    }

    /// A quantile that falls among the lost messages on one side or both.
    pub(super) fn lost(quantity: Quantity, a: f64, b: f64) -> Self {
        Self {
            quantity,
            a,
            b,
            change: if a == b { 1.0 } else { b / a },
            interval: None,
            noise_floor_percent: None,
            smallest_visible_percent: None,
            p_value: None,
            verdict: Verdict::CannotTell,
            is_confirmed: false,
            estimate: None,
        }
    }

    /// The verdict as tables have it.
    #[must_use]
    pub const fn words(&self) -> &'static str {
        match (self.verdict, self.quantity) {
            (Verdict::Better, Quantity::Loss) => "LESS LOSS",
            (Verdict::Worse, Quantity::Loss) => "MORE LOSS",
            (Verdict::Better, Quantity::CpuInitiator | Quantity::CpuResponder) => "LESS CPU",
            (Verdict::Worse, Quantity::CpuInitiator | Quantity::CpuResponder) => "MORE CPU",
            (Verdict::Better, _) => "FASTER",
            (Verdict::Worse, _) => "SLOWER",
            (Verdict::NoDifference, _) => "no difference",
            (Verdict::CannotTell, _) => "cannot tell",
        }
    }
}
