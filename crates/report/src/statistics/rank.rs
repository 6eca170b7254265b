//! Order statistics: a quantile is the sample at a rank, and so are the ends of its interval.
//!
//! The quantile at `p` percent of `n` samples is the sample of rank `ceil(n p / 100)` (nearest rank): always a
//! value that was measured. Its 95 % interval needs no assumption about the shape of the distribution: the
//! number of samples beyond the true quantile is binomial, so the interval ends are the samples at ranks
//! `n q -+ 1.96 sqrt(n q (1 - q))` (David and Nagaraja, Order Statistics, section 7.1). The binomial law wants
//! independent samples; [`super::spread`] supplies the factor that makes up for their resemblance.

/// Samples that must lie beyond a quantile before it is shown.
pub const LEAST_SUPPORT: u64 = 10;

/// Two-sided 95 % point of the normal distribution.
pub const NORMAL_95: f64 = 1.96;

/// Percent in units of a millionth of a percent, so that 99.999 % of a million is exactly 999 990.
fn millionths(percent: f64) -> u128 {
    (percent.clamp(0.0, 100.0) * 1e6).round() as u128
}

/// Rank (from 1) of the quantile at `percent` among `samples`; 0 when there are none.
#[must_use]
pub fn quantile_rank(samples: u64, percent: f64) -> u64 {
    if samples == 0 {
        return 0;
    }
    let rank = (u128::from(samples) * millionths(percent)).div_ceil(100_000_000);
    (rank as u64).clamp(1, samples)
}

/// Samples beyond the quantile at `percent`: above it in the upper half, below it in the lower half.
#[must_use]
pub fn support(samples: u64, percent: f64) -> u64 {
    let rank = quantile_rank(samples, percent);
    if percent >= 50.0 { samples - rank } else { rank.saturating_sub(1) }
}

/// Ranks (from 1) of the ends of a 95 % interval; `None` where the rank falls outside the data.
///
/// `deviations` is the half-width in binomial standard deviations: [`NORMAL_95`] for independent samples, more
/// when neighbours resemble each other.
#[must_use]
pub fn interval_ranks(samples: u64, percent: f64, deviations: f64) -> (Option<u64>, Option<u64>) {
    let count = samples as f64;
    let share = percent / 100.0;
    let half_width = deviations * (count * share * (1.0 - share)).sqrt();
    let low = (count * share - half_width).floor();
    let high = (count * share + half_width).ceil() + 1.0;
    let low = (low >= 1.0).then_some(low as u64);
    let high = (high <= count).then_some(high as u64);
    (low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_nines_of_a_million_leave_ten_beyond() {
        assert_eq!(quantile_rank(1_000_000, 99.999), 999_990);
        assert_eq!(support(1_000_000, 99.999), 10);
        assert_eq!(support(999_999, 99.999), 9);
    }

    #[test]
    fn lower_half_counts_the_samples_below() {
        assert_eq!(quantile_rank(1000, 1.0), 10);
        assert_eq!(support(1000, 1.0), 9);
        assert_eq!(support(1001, 1.0), 10);
    }

    #[test]
    fn no_samples_have_no_rank() {
        assert_eq!(quantile_rank(0, 50.0), 0);
        assert_eq!(support(0, 99.0), 0);
    }

    #[test]
    fn tail_interval_beyond_the_data_is_open() {
        let (low, high) = interval_ranks(1_000, 99.9, NORMAL_95);
        assert_eq!(low, Some(997));
        assert_eq!(high, None);
    }
}
