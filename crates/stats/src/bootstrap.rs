//! Confidence intervals: bootstrap for means and other resampled statistics, Wilson's for shares.
//!
//! Invariant: the same samples and generator give the same interval, and its ends are finite.

use super::{normal_cdf, normal_quantile};
use serde::{Deserialize, Serialize};
use tokrate_core::Rng;

/// Minimum sample size for a bootstrap interval; below, resampling repeats too few values.
pub const BOOTSTRAP_FLOOR: usize = 10;

/// Above this size the interval of a mean is the normal one: the bootstrap would differ by less than its own noise and
/// take seconds.
const MAX_BOOTSTRAP_SAMPLES: usize = 5_000;

/// Resamples drawn for an interval of the mean.
const RESAMPLES: usize = 2_000;

/// How an interval was found.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum IntervalMethod {
    /// Bias-corrected and accelerated bootstrap (Efron 1987).
    Bca,
    /// Percentiles of the resampled statistic.
    Percentile,
    /// Mean plus or minus standard errors.
    Normal,
    /// Wilson's score interval of a share (1927).
    Wilson,
    /// That of a computed value: residuals of measured rows in cross-validation.
    Estimate,
}

/// A two-sided confidence interval.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Nominal coverage, 0 to 1.
    pub confidence: f64,
    /// How it was found.
    pub method: IntervalMethod,
}

impl Interval {
    /// Whether `value` lies inside, ends included.
    pub fn holds(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }
}

/// The interval of the mean of independent samples: BCa with 2,000 resamples up to 5,000 samples, the normal interval
/// beyond. `None` below [`BOOTSTRAP_FLOOR`] samples, for samples that are not finite or a confidence outside (0, 1).
pub fn mean_interval(samples: &[f64], confidence: f64, rng: &Rng) -> Option<Interval> {
    let n = samples.len();
    let z = normal_quantile(0.5 + confidence / 2.0)?;
    if n < BOOTSTRAP_FLOOR || samples.iter().any(|x| !x.is_finite()) {
        return None;
    }
    // Scaling by the largest magnitude keeps sums and cubes finite.
    let size = samples.iter().fold(0.0_f64, |max, x| max.max(x.abs()));
    let size = if size > 0.0 { size } else { 1.0 };
    let scaled: Vec<f64> = samples.iter().map(|x| x / size).collect();
    let mean = scaled.iter().sum::<f64>() / n as f64;
    let squares: f64 = scaled.iter().map(|x| (x - mean).powi(2)).sum();
    let span = |low: f64, high: f64, method| Interval { low: low * size, high: high * size, confidence, method };
    if n > MAX_BOOTSTRAP_SAMPLES {
        let half_width = z * (squares / (n as f64 - 1.0) / n as f64).sqrt();
        return Some(span(mean - half_width, mean + half_width, IntervalMethod::Normal));
    }
    if squares <= f64::EPSILON.powi(2) * n as f64 {
        return Some(span(mean, mean, IntervalMethod::Bca));
    }
    let mut rng = rng.child("mean");
    let mut means: Vec<f64> =
        (0..RESAMPLES).map(|_| (0..n).map(|_| scaled[rng.below(n as u64) as usize]).sum::<f64>() / n as f64).collect();
    means.sort_unstable_by(f64::total_cmp);
    // The jackknife value without sample i is (n mean - x_i) / (n - 1), so the influences are (x_i - mean) / (n - 1).
    let cubes: f64 = scaled.iter().map(|x| (x - mean).powi(3)).sum();
    let acceleration = cubes / (6.0 * squares.powf(1.5));
    let (low, high) = bca_ends(&means, mean, acceleration, z);
    Some(span(low, high, IntervalMethod::Bca))
}

/// The interval between the percentiles of a resampled statistic. `None` when fewer than 100 of the replicates are
/// finite, or for a confidence outside (0, 1).
pub fn percentile_interval(replicates: &[f64], confidence: f64) -> Option<Interval> {
    let mut finite: Vec<f64> = replicates.iter().copied().filter(|x| x.is_finite()).collect();
    if finite.len() < 100 || !(confidence > 0.0 && confidence < 1.0) {
        return None;
    }
    finite.sort_unstable_by(f64::total_cmp);
    let tail = (1.0 - confidence) / 2.0;
    let (low, high) = (at_share(&finite, tail), at_share(&finite, 1.0 - tail));
    Some(Interval { low, high, confidence, method: IntervalMethod::Percentile })
}

/// The interval of the share of which `hits` of `n` independent draws are a sample, by Wilson's score (1927): never outside
/// 0 to 1, and not empty at either end. `None` without draws, for more hits than draws or a confidence outside (0, 1).
pub fn wilson_interval(hits: u64, n: u64, confidence: f64) -> Option<Interval> {
    let z = normal_quantile(0.5 + confidence / 2.0)?;
    if n == 0 || hits > n {
        return None;
    }
    let count = n as f64;
    let share = hits as f64 / count;
    let square = z * z / count;
    let middle = (share + square / 2.0) / (1.0 + square);
    let half_width = (share * (1.0 - share) * square + square * square / 4.0).sqrt() / (1.0 + square);
    // At the ends the bound is the share itself; rounding must not push it beyond.
    let low = if hits == 0 { 0.0 } else { (middle - half_width).max(0.0) };
    let high = if hits == n { 1.0 } else { (middle + half_width).min(1.0) };
    Some(Interval { low, high, confidence, method: IntervalMethod::Wilson })
}

/// Ends of the BCa interval (Efron and Tibshirani 1993, equations 14.9 to 14.15).
fn bca_ends(sorted: &[f64], estimate: f64, acceleration: f64, z: f64) -> (f64, f64) {
    let count = sorted.len() as f64;
    let below = sorted.partition_point(|&x| x < estimate) as f64;
    let at_or_below = sorted.partition_point(|&x| x <= estimate) as f64;
    let share = ((below + at_or_below) / 2.0).clamp(0.5, count - 0.5) / count;
    let bias = normal_quantile(share).unwrap_or(0.0);
    let end = |z: f64| {
        let shifted = bias + z;
        let slope = 1.0 - acceleration * shifted;
        if slope <= 0.0 { if z < 0.0 { 0.0 } else { 1.0 } } else { normal_cdf(bias + shifted / slope) }
    };
    (at_share(sorted, end(-z)), at_share(sorted, end(z)))
}

fn at_share(sorted: &[f64], share: f64) -> f64 {
    let last = sorted.len() - 1;
    sorted[((share * sorted.len() as f64) as usize).min(last)]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Phi(2) = 0.977,25.
    const Z: f64 = 2.0;

    /// 0 to 999.
    fn replicates() -> Vec<f64> {
        (0..1_000).map(f64::from).collect()
    }

    #[test]
    fn without_bias_and_acceleration_the_ends_are_percentiles() {
        assert_eq!(bca_ends(&replicates(), 499.5, 0.0, Z), (22.0, 977.0));
    }

    #[test]
    fn replicates_that_equal_the_estimate_count_half() {
        // 400 below and 200 that are equal: the estimate is the middle, and nothing is shifted.
        let tied: Vec<f64> = (0..1_000).map(|i| if (400..600).contains(&i) { 450.0 } else { f64::from(i) }).collect();
        assert_eq!(bca_ends(&tied, 450.0, 0.0, Z), (22.0, 977.0));
    }

    #[test]
    fn an_estimate_beyond_all_replicates_shifts_both_ends_to_their_edge() {
        // The share is half a replicate from the edge: Phi(2 * 3.29 - 2) is above 0.999,99.
        assert_eq!(bca_ends(&replicates(), 5_000.0, 0.0, Z), (999.0, 999.0));
        assert_eq!(bca_ends(&replicates(), -1.0, 0.0, Z), (0.0, 0.0));
    }

    #[test]
    fn an_acceleration_that_turns_the_scale_over_ends_at_the_edge() {
        assert_eq!(bca_ends(&replicates(), 499.5, 1.0, Z).1, 999.0);
        assert_eq!(bca_ends(&replicates(), 499.5, -1.0, Z).0, 0.0);
    }
}
