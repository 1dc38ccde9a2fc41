//! The normal distribution function and its inverse.
//!
//! Invariant: finite for every finite argument; the inverse is `None` outside the open interval from 0 to 1.

use std::f64::consts::TAU;

/// Phi(x): the probability that a standard normal variable is at most `x`. NaN only for NaN.
///
/// Near the middle the series of Marsaglia (2004, "Evaluating the normal distribution", J. Stat. Softw. 11(4)), whose
/// terms all have one sign; in the tails Laplace's continued fraction for the ratio of Mills. Relative error below
/// 1e-12 from -37 to 37, checked in the tests against values with 16 digits.
pub fn normal_cdf(x: f64) -> f64 {
    if x.is_nan() {
        return f64::NAN;
    }
    if x > 0.0 { 1.0 - lower_tail(-x) } else { lower_tail(x) }
}

/// The `x` with Phi(x) = `p`; `None` unless 0 < p < 1.
///
/// Starts from the rational approximation 26.2.23 of Abramowitz and Stegun (error below 4.5e-4) and takes three
/// steps of Halley's method, each of which triples the number of right digits.
pub fn normal_quantile(p: f64) -> Option<f64> {
    if !(p > 0.0 && p < 1.0) {
        return None;
    }
    let tail = p.min(1.0 - p);
    let t = (-2.0 * tail.ln()).sqrt();
    let above = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    let below = 1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308));
    let mut x = above / below - t;
    for _ in 0..3 {
        let density = density(x);
        if density <= 0.0 {
            break;
        }
        let step = (lower_tail(x) - tail) / density;
        x -= step / (1.0 + 0.5 * x * step);
    }
    Some(if p > 0.5 { -x } else { x })
}

fn density(x: f64) -> f64 {
    (-0.5 * x * x).exp() / TAU.sqrt()
}

/// Phi(x) for x <= 0.
fn lower_tail(x: f64) -> f64 {
    let size = -x;
    if size < 2.5 {
        let (mut term, mut sum, mut odd) = (size, size, 1.0);
        while term > sum * 1e-17 {
            odd += 2.0;
            term *= size * size / odd;
            sum += term;
        }
        return 0.5 - density(size) * sum;
    }
    // Mills' ratio = 1/(x + 1/(x + 2/(x + 3/(x + ...)))); 120 levels are enough from 2.5 on.
    let mut denominator = size;
    for level in (1..=120).rev() {
        denominator = size + f64::from(level) / denominator;
    }
    density(size) / denominator
}
