//! How far repeated measurements are apart.

/// Of repeated measurements, in their unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// How many there are.
    pub count: usize,
    /// Their mean.
    pub mean: f64,
    /// The least.
    pub least: f64,
    /// The greatest.
    pub greatest: f64,
    /// Sample standard deviation; `None` of one.
    pub standard_deviation: Option<f64>,
}

impl Spread {
    /// `None` if there are no values.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Spread> {
        let count = values.len();
        if count == 0 {
            return None;
        }
        let mean = values.iter().sum::<f64>() / count as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Some(Spread {
            count,
            mean,
            least: values.iter().copied().fold(f64::INFINITY, f64::min),
            greatest: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            standard_deviation: (count > 1).then(|| (squares / (count - 1) as f64).sqrt()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_mean_ends_and_deviation() {
        let spread = Spread::of(&[2.0, 4.0, 9.0]).unwrap();
        assert_eq!((spread.count, spread.mean, spread.least, spread.greatest), (3, 5.0, 2.0, 9.0));
        assert!((spread.standard_deviation.unwrap() - 13f64.sqrt()).abs() < 1e-12);
    }

    #[test]
    fn one_value_has_no_deviation_and_none_no_spread() {
        assert_eq!(Spread::of(&[7.0]).unwrap().standard_deviation, None);
        assert_eq!(Spread::of(&[]), None);
    }
}
