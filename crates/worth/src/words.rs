//! Effects in words.

use crate::verdict::Effect;

/// `-1.20 us (-1.40 to -1.00) better`.
#[must_use]
pub fn effect_in_words(effect: &Effect) -> String {
    format!("{} {} {}", change_in_words(effect), interval_in_words(effect), effect.verdict.words())
}

/// `-1.20 us`.
#[must_use]
pub fn change_in_words(effect: &Effect) -> String {
    let unit = Unit::of(effect);
    format!("{}{}", unit.signed(effect.change), unit.name)
}

/// `(-1.40 to -1.00)`, in the unit of [`change_in_words`].
#[must_use]
pub fn interval_in_words(effect: &Effect) -> String {
    let unit = Unit::of(effect);
    format!("({} to {})", unit.signed(effect.low), unit.signed(effect.high))
}

/// The unit that suits all numbers of an effect.
struct Unit {
    /// With a space in front, or nothing.
    name: &'static str,
    divisor: f64,
    decimals: usize,
}

impl Unit {
    fn of(effect: &Effect) -> Self {
        let largest = effect.low.abs().max(effect.high.abs());
        if !effect.figure.is_time() {
            let decimals = match largest {
                largest if largest >= 1000.0 => 0,
                largest if largest >= 1.0 => 2,
                _ => 4,
            };
            return Self { name: "", divisor: 1.0, decimals };
        }
        match largest {
            largest if largest < 1e3 => Self { name: " ns", divisor: 1.0, decimals: 0 },
            largest if largest < 1e6 => Self { name: " us", divisor: 1e3, decimals: 2 },
            _ => Self { name: " ms", divisor: 1e6, decimals: 2 },
        }
    }

    fn signed(&self, value: f64) -> String {
        format!("{:+.*}", self.decimals, value / self.divisor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::Scale;
    use crate::subject::Figure;
    use crate::verdict::Verdict;

    fn effect(figure: Figure, change: f64, low: f64, high: f64) -> Effect {
        Effect {
            figure,
            found: 1.0,
            change,
            low,
            high,
            percent: None,
            visible_percent: None,
            scale: Scale::Ratio,
            pairs: 16,
            level: 0.01,
            verdict: Verdict::Better,
        }
    }

    #[test]
    fn numbers_of_an_effect_have_one_unit() {
        let words = |figure, change, low, high| effect_in_words(&effect(figure, change, low, high));
        assert_eq!(words(Figure::P50Ns, -1200.0, -1400.0, -1000.0), "-1.20 us (-1.40 to -1.00) better");
        assert_eq!(words(Figure::P50Ns, -12.4, -30.0, 4.0), "-12 ns (-30 to +4) better");
        assert_eq!(words(Figure::RatePerSecond, 5120.0, 5000.0, 5250.5), "+5120 (+5000 to +5250) better");
    }
}
