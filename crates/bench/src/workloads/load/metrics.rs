//! What a load's record says beside latency, and whether it is what was asked for.

use nearwire_report::record::{Metric, MetricKind, Quantile};

/// More unsent messages than this part of all make a run invalid.
const UNSENT_MOST: f64 = 0.01;
/// More of the latency than this part may not be the initiator's own lateness, each at 99 %.
const LATENESS_MOST: f64 = 0.5;

/// Sums over all rounds of a cell.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Totals {
    pub(crate) rate_per_second: u64,
    pub(crate) sent: u64,
    pub(crate) unsent: u64,
    pub(crate) answered: u64,
    pub(crate) outstanding_most: u64,
    pub(crate) measured_ns: u64,
}

impl Totals {
    fn per_second(&self, messages: u64) -> Option<f64> {
        (self.measured_ns > 0).then(|| messages as f64 * 1e9 / self.measured_ns as f64)
    }

    /// The metrics of a run. `lateness`: from when messages were to be sent to when they were.
    pub(crate) fn metrics(&self, lateness: &[Quantile]) -> Vec<Metric> {
        let rate = |name, value| Metric::new(name, "messages/s", MetricKind::Rate, value);
        let late = |name, percent| Metric::new(name, "ns", MetricKind::Time, at(lateness, percent));
        vec![
            rate("offered-rate", Some(self.rate_per_second as f64)),
            rate("sent-rate", self.per_second(self.sent)),
            rate("answered-rate", self.per_second(self.answered)),
            late("lateness-p50", 50.0),
            late("lateness-p99", 99.0),
            late("lateness-p99.9", 99.9),
            Metric::new("unsent", "messages", MetricKind::Count, Some(self.unsent as f64)),
            Metric::new("outstanding-most", "messages", MetricKind::Count, Some(self.outstanding_most as f64)),
        ]
    }

    /// Why the run is not what was asked for; `None` where it is.
    pub(crate) fn invalid(&self, lateness: &[Quantile], latency: &[Quantile]) -> Option<String> {
        let due = self.sent + self.unsent;
        if self.unsent as f64 > UNSENT_MOST * due as f64 {
            let sent_per_second = self.per_second(self.sent).unwrap_or_default();
            return Some(format!(
                "only {sent_per_second:.0} of {} messages a second could be sent: {} of {due} did not leave in time",
                self.rate_per_second, self.unsent
            ));
        }
        let (late_ns, whole_ns) = at(lateness, 99.0).zip(at(latency, 99.0))?;
        (late_ns > whole_ns * LATENESS_MOST).then(|| {
            format!(
                "messages left too late: p99 of the lateness is {:.1} us, of the whole latency {:.1} us",
                late_ns / 1e3,
                whole_ns / 1e3
            )
        })
    }
}

fn at(quantiles: &[Quantile], percent: f64) -> Option<f64> {
    Quantile::at(quantiles, percent)?.value_ns
}

#[cfg(test)]
mod tests {
    use super::*;

    fn p99(value_ns: f64) -> [Quantile; 1] {
        [Quantile { percent: 99.0, value_ns: Some(value_ns), low_ns: None, high_ns: None, support: 100 }]
    }

    const SENT: Totals = Totals {
        rate_per_second: 1000,
        sent: 1000,
        unsent: 0,
        answered: 990,
        outstanding_most: 3,
        measured_ns: 1_000_000_000,
    };

    #[test]
    fn rates_are_of_the_measured_time() {
        let metrics = SENT.metrics(&p99(7.0));
        let value = |name: &str| metrics.iter().find(|metric| metric.name == name).unwrap().value;
        assert_eq!(value("answered-rate"), Some(990.0));
        assert_eq!([value("lateness-p99"), value("lateness-p50")], [Some(7.0), None]);
    }

    #[test]
    fn run_that_sent_too_few_messages_is_invalid_with_its_rate() {
        let few = Totals { sent: 500, unsent: 500, ..SENT };
        let why = few.invalid(&p99(1.0), &p99(1000.0)).unwrap();
        assert!(why.contains("only 500 of 1000"), "{why}");
    }

    #[test]
    fn run_whose_latency_is_its_own_lateness_is_invalid() {
        assert_eq!(SENT.invalid(&p99(400.0), &p99(1000.0)), None);
        assert!(SENT.invalid(&p99(600.0), &p99(1000.0)).is_some());
    }
}
