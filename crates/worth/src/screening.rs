//! Which combinations of settings are measured to find pairs whose effects do not simply add up.
//!
//! Two-level designs (Box, Hunter and Hunter, Statistics for Experimenters, chapters 5 and 6): all combinations of up to four settings; of five
//! and six the half in which the last setting follows from the others. In these halves no effect of a setting or a pair is mixed with that of
//! another setting or pair (resolution V and VI), which designs with fewer runs, as Plackett's and Burman's, do not give.

use nearwire_bench::order::Order;

/// More settings than this take more runs than a person waits for.
pub const FACTORS_MAX: usize = 6;

/// One combination: of each setting whether it has the wanted value.
pub type Combination = Vec<bool>;

/// The combinations for so many settings, at most [`FACTORS_MAX`]; none for fewer than two.
#[must_use]
pub fn combinations(factors: usize) -> Vec<Combination> {
    if !(2..=FACTORS_MAX).contains(&factors) {
        return Vec::new();
    }
    let free = if factors > 4 { factors - 1 } else { factors };
    let row = |number: usize| {
        let mut row: Combination = (0..free).map(|factor| number >> factor & 1 == 1).collect();
        if free < factors {
            // The product of the others' signs: E = ABCD, F = ABCDE.
            let lows = row.iter().filter(|is_wanted| !**is_wanted).count();
            row.push(lows % 2 == 0);
        }
        row
    };
    (0..1 << free).map(row).collect()
}

/// So many passes over the combinations, each in a random order of its own: places in the list of [`combinations`].
#[must_use]
pub fn passes(combinations: usize, passes: usize, seed: u64) -> Vec<Vec<usize>> {
    let mut order = Order::new(seed);
    (0..passes).map(|_| order.shuffled(combinations)).collect()
}

/// How far the effect of two settings together is from the sum of their effects, in one pass: both, less either alone, plus neither.
/// `results` are those of the combinations in their order.
#[must_use]
pub fn interaction(combinations: &[Combination], results: &[f64], one: usize, other: usize) -> f64 {
    let mean_of = |is_alike: bool| {
        let of = combinations.iter().zip(results).filter(|(row, _)| (row[one] == row[other]) == is_alike);
        let (sum, count) = of.fold((0.0, 0.0), |(sum, count), (_, result)| (sum + result, count + 1.0));
        sum / count
    };
    2.0 * (mean_of(true) - mean_of(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sign(is_wanted: bool) -> i32 {
        if is_wanted { 1 } else { -1 }
    }

    #[test]
    fn no_effect_of_a_setting_or_pair_is_mixed_with_another() {
        for factors in 2..=FACTORS_MAX {
            let rows = combinations(factors);
            assert!(rows.len() <= 32);
            let mut columns: Vec<Vec<i32>> =
                (0..factors).map(|factor| rows.iter().map(|row| sign(row[factor])).collect()).collect();
            for one in 0..factors {
                for other in one + 1..factors {
                    columns.push(rows.iter().map(|row| sign(row[one]) * sign(row[other])).collect());
                }
            }
            for (at, one) in columns.iter().enumerate() {
                assert_eq!(one.iter().sum::<i32>(), 0, "{factors} settings, column {at}");
                for other in &columns[at + 1..] {
                    assert_eq!(one.iter().zip(other).map(|(a, b)| a * b).sum::<i32>(), 0, "{factors} settings");
                }
            }
        }
        assert!(combinations(1).is_empty() && combinations(FACTORS_MAX + 1).is_empty());
    }

    #[test]
    fn interaction_of_planted_results_is_what_was_planted() {
        for factors in 2..=FACTORS_MAX {
            let rows = combinations(factors);
            let result = |row: &Combination| {
                let on = |factor: usize| f64::from(u8::from(row[factor]));
                10.0 + on(0) - 3.0 * on(1) + 0.7 * on(0) * on(1) + on(factors - 1)
            };
            let results: Vec<f64> = rows.iter().map(result).collect();
            assert!((interaction(&rows, &results, 0, 1) - 0.7).abs() < 1e-9);
            if factors > 2 {
                assert!(interaction(&rows, &results, 0, factors - 1).abs() < 1e-9);
            }
        }
    }
}
