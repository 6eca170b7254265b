//! Student's distribution.

/// Probability that Student's variable of so many degrees of freedom is farther from zero than `t`, on either side.
#[must_use]
pub fn two_sided_p(t: f64, freedom: f64) -> f64 {
    if t.is_nan() || freedom <= 0.0 {
        return 1.0;
    }
    incomplete_beta(freedom / 2.0, 0.5, freedom / (freedom + t * t)).clamp(0.0, 1.0)
}

/// How far from zero Student's variable is with this probability at most, on either side: 2.262 for 0.05 and 9 degrees.
#[must_use]
pub fn two_sided_point(probability: f64, freedom: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while two_sided_p(high, freedom) > probability && high < 1e12 {
        high *= 2.0;
    }
    // Far more digits than the interval that is made of it has.
    while high - low > high * 1e-9 {
        let middle = f64::midpoint(low, high);
        if two_sided_p(middle, freedom) > probability { low = middle } else { high = middle }
    }
    high
}

/// The regularized incomplete beta function, by its continued fraction (Lentz; Numerical Recipes, section 6.4).
fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp();
    // The fraction converges fast on this side only.
    if x < (a + 1.0) / (a + b + 2.0) {
        front * fraction(a, b, x) / a
    } else {
        1.0 - front * fraction(b, a, 1.0 - x) / b
    }
}

fn fraction(a: f64, b: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let kept = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / kept(1.0 - (a + b) * x / (a + 1.0));
    let mut sum = d;
    for m in 1..300 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let before = sum;
        for term in [even, odd] {
            d = 1.0 / kept(1.0 + term * d);
            c = kept(1.0 + term / c);
            sum *= c * d;
        }
        if (sum / before - 1.0).abs() < 1e-14 {
            break;
        }
    }
    sum
}

/// Logarithm of the gamma function (Lanczos, g = 5, within 2e-10).
pub(crate) fn ln_gamma(x: f64) -> f64 {
    const TERMS: [f64; 6] = [
        76.180_091_729_471_46,
        -86.505_320_329_416_77,
        24.014_098_240_830_91,
        -1.231_739_572_450_155,
        0.120_865_097_386_617_9e-2,
        -0.539_523_938_495_3e-5,
    ];
    let base = x + 5.5;
    let mut series = 1.000_000_000_190_015;
    let mut at = x;
    for term in TERMS {
        at += 1.0;
        series += term / at;
    }
    (x + 0.5) * base.ln() - base + (2.506_628_274_631_000_5 * series / x).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_match_the_tables() {
        for (probability, freedom, wanted) in
            [(0.05, 1.0, 12.706), (0.05, 9.0, 2.262), (0.01, 5.0, 4.032), (0.001, 15.0, 4.073), (0.05, 1e6, 1.960)]
        {
            let found = two_sided_point(probability, freedom);
            assert!((found / wanted - 1.0).abs() < 1e-3, "{probability} {freedom}: {found}");
            assert!((two_sided_p(found, freedom) / probability - 1.0).abs() < 1e-6);
        }
        assert_eq!(two_sided_p(0.0, 7.0), 1.0);
        assert_eq!(two_sided_p(f64::INFINITY, 7.0), 0.0);
        assert_eq!(two_sided_p(f64::NAN, 7.0), 1.0);
    }
}
