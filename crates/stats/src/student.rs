//! Student's t distribution: tails and quantiles, for means of few values.
//!
//! Invariant: a p-value is above 0 and at most 1; a quantile is finite for a share inside (0, 1) and at least one degree of freedom.

use crate::ln_gamma;

/// Two-sided p of a t statistic with `freedom` degrees of freedom: I_x(freedom / 2, 1 / 2) with x = freedom / (freedom + t^2)
/// (DLMF 8.17; Abramowitz and Stegun 26.7.1).
pub fn student_p(t: f64, freedom: f64) -> f64 {
    if t.is_nan() || freedom <= 0.0 {
        return 1.0;
    }
    incomplete_beta(freedom / (freedom + t * t), freedom / 2.0, 0.5).clamp(f64::MIN_POSITIVE, 1.0)
}

/// The t with a share `p` at or below it; infinity without degrees of freedom.
pub fn student_quantile(p: f64, freedom: f64) -> f64 {
    if !(p > 0.0 && p < 1.0) || freedom <= 0.0 {
        return f64::INFINITY;
    }
    let (sign, tails) = if p < 0.5 { (-1.0, 2.0 * p) } else { (1.0, 2.0 * (1.0 - p)) };
    let mut high = 1.0;
    while student_p(high, freedom) > tails && high < 1e12 {
        high *= 2.0;
    }
    let mut low = 0.0;
    // Each step halves what is left; 80 of them leave nothing of a double's digits.
    for _ in 0..80 {
        let middle = f64::midpoint(low, high);
        if student_p(middle, freedom) > tails { low = middle } else { high = middle }
    }
    sign * f64::midpoint(low, high)
}

/// The regularised incomplete beta function, by the continued fraction DLMF 8.17.22 on the side where it converges fast.
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (-x).ln_1p()).exp() / a;
    // From the inside out; 200 levels are far more than are needed on this side.
    let term = |place: u32| {
        let m = f64::from(place / 2);
        match (place, place % 2) {
            (0, _) => 1.0,
            (_, 0) => m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m)),
            _ => -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0)),
        }
    };
    let tail = (1..=200).rev().fold(1.0, |below, place| 1.0 + term(place) / below);
    front / tail
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_printed_tables() {
        // Abramowitz and Stegun, table 26.10.
        let table = [
            (0.975, 1.0, 12.706_205),
            (0.975, 2.0, 4.302_653),
            (0.975, 4.0, 2.776_445),
            (0.995, 10.0, 3.169_273),
            (0.95, 30.0, 1.697_261),
            (0.8, 2.0, 1.060_660),
        ];
        for (p, freedom, expected) in table {
            let found = student_quantile(p, freedom);
            assert!((found / expected - 1.0).abs() < 1e-6, "{p} {freedom}: {found}");
            assert!((student_quantile(1.0 - p, freedom) + expected).abs() < 1e-5);
            assert!((student_p(expected, freedom) - 2.0 * (1.0 - p)).abs() < 1e-6);
        }
        assert!((student_quantile(0.975, 1e6) - 1.959_964).abs() < 1e-4, "many are normal");
    }

    #[test]
    fn one_and_two_degrees_of_freedom_are_those_of_their_closed_forms() {
        for t in [0.1, 1.0, 3.0, 50.0, 1e6] {
            let one = 1.0 - std::f64::consts::FRAC_2_PI * f64::atan(t);
            let two = 1.0 - t / (2.0 + t * t).sqrt();
            assert!((student_p(t, 1.0) - one).abs() < 1e-9 && (student_p(t, 2.0) - two).abs() < 1e-9, "{t}");
        }
        assert_eq!((student_p(0.0, 3.0), student_p(f64::NAN, 3.0), student_p(1.0, 0.0)), (1.0, 1.0, 1.0));
        assert_eq!(student_quantile(0.975, 0.0), f64::INFINITY);
    }
}
