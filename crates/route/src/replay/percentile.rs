//! The distribution of times under another policy, and the uncertainty of its percentiles.
//!
//! Invariant: each call of the log counts once, with all that depends on it (its own times, its estimate, its attempts as
//! neighbours of other calls), so that every error accounts for neighbours shared between calls.

/// The reported percentiles.
pub const LEVELS: [f64; 3] = [0.5, 0.9, 0.99];

/// 97.5 % quantile of the standard normal distribution: half-width of a 95 % interval.
const Z_95: f64 = 1.959_964;

/// Width of a bin on a logarithmic scale: an error of at most a quarter of a percent.
const BIN_LOG_WIDTH: f64 = 0.005;
/// Lower end of the histogram (seconds).
const MIN_SECONDS: f64 = 1e-5;
const BINS: usize = 5_000;

/// A weighted histogram of times. No `Buckets`: a call is spread over many bins by shares, and their quantiles are interpolated.
pub(super) struct Mixture {
    bins: Vec<f64>,
    total: f64,
}

impl Mixture {
    pub fn new() -> Mixture {
        Mixture { bins: vec![0.0; BINS], total: 0.0 }
    }

    pub fn add(&mut self, seconds: f64, share: f64) {
        let place = ((seconds / MIN_SECONDS).max(1.0).ln() / BIN_LOG_WIDTH) as usize;
        self.bins[place.min(BINS - 1)] += share;
        self.total += share;
    }

    /// The quantile of the times (seconds).
    pub fn quantile(&self, share: f64) -> f64 {
        let mut wanted = share.clamp(0.0, 1.0) * self.total;
        let mut last = 0.0;
        for (place, bin) in self.bins.iter().enumerate().filter(|(_, bin)| **bin > 0.0) {
            last = place as f64 + (wanted / bin).min(1.0);
            if wanted <= *bin {
                break;
            }
            wanted -= bin;
        }
        MIN_SECONDS * (last * BIN_LOG_WIDTH).exp()
    }
}

/// The quantile of a sorted list.
pub(super) fn quantile_of_sorted(sorted: &[f64], share: f64) -> f64 {
    let place = (share.clamp(0.0, 1.0) * sorted.len() as f64).ceil() as usize;
    sorted.get(place.max(1) - 1).copied().unwrap_or(0.0)
}

/// A percentile under the alternative, beside the measured one.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Percentile {
    /// Which one, 0 to 1.
    pub level: f64,
    /// Measured, over the covered calls (seconds).
    pub measured: f64,
    /// Estimated (seconds).
    pub estimated: f64,
    /// 95 % confidence interval of the estimate (seconds; Woodruff 1952). It covers chance among calls and neighbours,
    /// not other loads.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    /// Standard error of the difference (seconds).
    pub difference_error: f64,
}

/// A percentile from the estimated distribution, the influence of each call on the share below it, and the measured
/// times.
pub(super) fn percentile(level: f64, mixture: &Mixture, influences: &[f64], measured: &[Option<f64>]) -> Percentile {
    let mut sorted: Vec<f64> = measured.iter().flatten().copied().collect();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len().max(1) as f64;
    let (actual, estimate) = (quantile_of_sorted(&sorted, level), mixture.quantile(level));
    let error = root_sum_of_squares(influences.iter().copied());
    let (low, high) = (mixture.quantile(level - Z_95 * error), mixture.quantile(level + Z_95 * error));
    let actual_error = (level * (1.0 - level) / n).sqrt();
    // Seconds per unit of probability around the percentile.
    let slope = |low: f64, high: f64, error: f64| if error > 0.0 { (high - low) / (2.0 * Z_95 * error) } else { 0.0 };
    let estimate_slope = slope(low, high, error);
    let [actual_low, actual_high] =
        [-1.0, 1.0].map(|side| quantile_of_sorted(&sorted, level + side * Z_95 * actual_error));
    let actual_slope = slope(actual_low, actual_high, actual_error);
    let difference = influences.iter().zip(measured).map(|(influence, measured)| {
        let own = measured.map_or(0.0, |value| (f64::from(value <= actual) - level) / n);
        own * actual_slope - influence * estimate_slope
    });
    let difference_error = root_sum_of_squares(difference);
    Percentile { level, measured: actual, estimated: estimate, low, high, difference_error }
}

/// The standard error of a sum of independent contributions.
pub(super) fn root_sum_of_squares(values: impl Iterator<Item = f64>) -> f64 {
    values.map(|value| value * value).sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests;
