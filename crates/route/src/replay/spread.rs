//! The times that a policy would have given, as a distribution, and how sure each figure of it can be.
//!
//! It refuses to know lanes and policies. Invariant: a call of the log counts once, with everything that hangs on it: what was
//! measured of it, what is estimated for it, and what its attempts say about other calls. That neighbours are shared by calls is thus
//! part of every error.

/// The percentiles that are told.
pub const LEVELS: [f64; 3] = [0.5, 0.9, 0.99];

/// Of a normal distribution, 95 % lies within so many standard deviations.
const REACH: f64 = 1.959_964;

/// Each bin of a mixture is so much wider than the one before (natural logarithm): an error of a quarter of a percent.
const STEP: f64 = 0.005;
/// The first bin ends here (seconds).
const LEAST: f64 = 1e-5;
const BINS: usize = 5_000;

/// A distribution of times, made of shares.
pub(super) struct Mixture {
    bins: Vec<f64>,
    total: f64,
}

impl Mixture {
    pub fn new() -> Mixture {
        Mixture { bins: vec![0.0; BINS], total: 0.0 }
    }

    pub fn add(&mut self, seconds: f64, share: f64) {
        let place = ((seconds / LEAST).max(1.0).ln() / STEP) as usize;
        self.bins[place.min(BINS - 1)] += share;
        self.total += share;
    }

    /// The time that a share of all is below (seconds).
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
        LEAST * (last * STEP).exp()
    }
}

/// The quantile of a sorted list.
pub(super) fn of_sorted(sorted: &[f64], share: f64) -> f64 {
    let place = (share.clamp(0.0, 1.0) * sorted.len() as f64).ceil() as usize;
    sorted.get(place.max(1) - 1).copied().unwrap_or(0.0)
}

/// A percentile under the other policy, beside what was measured.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Percentile {
    /// Which one, 0 to 1.
    pub level: f64,
    /// Of the calls that count, as measured (seconds).
    pub measured: f64,
    /// Estimated (seconds).
    pub estimated: f64,
    /// The estimate's 95 % confidence interval (seconds; Woodruff 1952): chance among calls and neighbours, not other loads.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    /// Standard error of the difference of the two (seconds).
    pub difference_error: f64,
}

/// A percentile, where the estimate's distribution, what each call of the log contributes to the share below the estimate, and what
/// was measured of each call are known.
pub(super) fn percentile(level: f64, mixture: &Mixture, influences: &[f64], measured: &[Option<f64>]) -> Percentile {
    let mut sorted: Vec<f64> = measured.iter().flatten().copied().collect();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len().max(1) as f64;
    let (was, would) = (of_sorted(&sorted, level), mixture.quantile(level));
    let error = root_of_squares(influences.iter().copied());
    let (low, high) = (mixture.quantile(level - REACH * error), mixture.quantile(level + REACH * error));
    let was_error = (level * (1.0 - level) / n).sqrt();
    // Seconds for each share around the percentile.
    let slope = |low: f64, high: f64, error: f64| if error > 0.0 { (high - low) / (2.0 * REACH * error) } else { 0.0 };
    let would_slope = slope(low, high, error);
    let [was_low, was_high] = [-1.0, 1.0].map(|side| of_sorted(&sorted, level + side * REACH * was_error));
    let was_slope = slope(was_low, was_high, was_error);
    let difference = influences.iter().zip(measured).map(|(influence, measured)| {
        let own = measured.map_or(0.0, |value| (f64::from(value <= was) - level) / n);
        own * was_slope - influence * would_slope
    });
    let difference_error = root_of_squares(difference);
    Percentile { level, measured: was, estimated: would, low, high, difference_error }
}

/// The standard error of a sum of independent contributions.
pub(super) fn root_of_squares(values: impl Iterator<Item = f64>) -> f64 {
    values.map(|value| value * value).sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests;
