//! A quantile of a sample: its value, its interval, and whether the sample is large enough to state it.
//!
//! Invariant: `value` is absent if the sample is below the minimum size of its level; the nearest-rank value is then kept
//! as `descriptive`.
//!
//! The minimum sizes are those of MLPerf's early stopping: the smallest n at which the *second* largest sample is an upper
//! bound of the quantile with 99 % confidence, that is the smallest n with P(Binomial(n, 1 - q) <= 1) <= 0.01. With the
//! largest sample alone they would be 44, 90, 459 and 4,603, but then a single outlier would be the bound.

use super::{lower_rank, upper_rank};
use serde::{Deserialize, Serialize};

/// The quantiles that are ever stated.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Level {
    /// The median.
    P50,
    /// Nine in ten are at or below.
    P90,
    /// Nineteen in twenty.
    P95,
    /// Ninety-nine in a hundred.
    P99,
    /// 999 in a thousand.
    P99_9,
}

impl Level {
    /// Every level, rising.
    pub const ALL: [Level; 5] = [Level::P50, Level::P90, Level::P95, Level::P99, Level::P99_9];

    /// The name used in records and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Level::P50 => "p50",
            Level::P90 => "p90",
            Level::P95 => "p95",
            Level::P99 => "p99",
            Level::P99_9 => "p99_9",
        }
    }

    /// Share of samples at or below, in thousandths.
    pub const fn permille(self) -> u64 {
        match self {
            Level::P50 => 500,
            Level::P90 => 900,
            Level::P95 => 950,
            Level::P99 => 990,
            Level::P99_9 => 999,
        }
    }

    /// Share of samples at or below, 0 to 1.
    pub fn share(self) -> f64 {
        self.permille() as f64 / 1000.0
    }

    /// The fewest samples from which the level is stated. For the median it is the smallest n with a two-sided 95 %
    /// interval: 2 * 0.5^n <= 0.05.
    pub const fn floor(self) -> u64 {
        match self {
            Level::P50 => 6,
            Level::P90 => 64,
            Level::P95 => 130,
            Level::P99 => 662,
            Level::P99_9 => 6_636,
        }
    }

    /// The chance that one bound of the interval misses: 2.5 % for the median, 1 % for the tail levels.
    pub const fn alpha(self) -> f64 {
        match self {
            Level::P50 => 0.025,
            _ => 0.01,
        }
    }

    /// Confidence of the interval as a whole: 0.95 for the median, 0.98 for the tail levels (each bound 0.99).
    pub const fn confidence(self) -> f64 {
        match self {
            Level::P50 => 0.95,
            _ => 0.98,
        }
    }

    /// The nearest rank (1 = smallest) among `n` samples: the smallest r with r >= q n; `None` for no samples.
    pub fn nearest_rank(self, n: u64) -> Option<u64> {
        let rank = (u128::from(n) * u128::from(self.permille())).div_ceil(1000) as u64;
        (n > 0).then(|| rank.max(1))
    }
}

/// Whether a quantile may be stated.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum QuantileStatus {
    /// The sample is large enough.
    Stated,
    /// The sample is below the floor; only a descriptive value is given.
    NotEnoughSamples,
    /// There is no sample at all.
    NoSamples,
    /// Samples of which only a bound is known could move it out of its interval.
    Undetermined,
    /// Nothing was measured: the value was computed from facts, and the interval is that of the estimate.
    Computed,
}

/// One quantile with its distribution-free interval (order statistics, exact binomial; independent samples assumed).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Quantile {
    /// The nearest-rank value when the sample is large enough and it is finite.
    pub value: Option<f64>,
    /// The nearest-rank value of a sample that is too small: describes these samples, claims nothing beyond them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub descriptive: Option<f64>,
    /// Lower bound of the interval, if it is finite and the quantile is stated.
    pub low: Option<f64>,
    /// Upper bound of the interval, if it is finite and the quantile is stated.
    pub high: Option<f64>,
    /// Confidence of the interval from `low` to `high`; for the tail levels each bound alone holds with 0.99.
    pub confidence: f64,
    /// Whether it may be stated.
    pub status: QuantileStatus,
    /// The fewest samples from which it is stated.
    pub floor: u64,
    /// True when the nearest rank falls among infinite samples (failures of an `adj_` distribution).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub infinite: bool,
    /// True when the upper bound falls among infinite samples.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub high_infinite: bool,
}

impl Quantile {
    /// The quantile of `sorted` (rising, finite) and `infinite` further samples at +infinity.
    pub fn of_sorted(sorted: &[f64], infinite: u64, level: Level) -> Quantile {
        Self::of_ranks(sorted.len() as u64, infinite, level, |rank| sorted[(rank - 1) as usize])
    }

    /// The same from a look-up of the r-th smallest finite sample, 1 <= r <= `finite`.
    pub fn of_ranks(finite: u64, infinite: u64, level: Level, at: impl Fn(u64) -> f64) -> Quantile {
        let n = finite.saturating_add(infinite);
        let status = match n {
            0 => QuantileStatus::NoSamples,
            n if n < level.floor() => QuantileStatus::NotEnoughSamples,
            _ => QuantileStatus::Stated,
        };
        let look = |rank: Option<u64>| rank.filter(|&rank| rank <= finite).map(&at);
        let rank = level.nearest_rank(n);
        let mut quantile = Quantile {
            value: None,
            descriptive: None,
            low: None,
            high: None,
            confidence: level.confidence(),
            status,
            floor: level.floor(),
            infinite: rank.is_some_and(|rank| rank > finite),
            high_infinite: false,
        };
        if status == QuantileStatus::Stated {
            let upper = upper_rank(n, level.share(), level.alpha());
            quantile.value = look(rank);
            quantile.low = look(lower_rank(n, level.share(), level.alpha()));
            quantile.high = look(upper);
            quantile.high_infinite = upper.is_some_and(|rank| rank > finite);
        } else {
            quantile.descriptive = look(rank);
        }
        quantile
    }

    /// A value that was computed and not measured, with the interval of its estimate.
    pub fn computed(value: f64, low: f64, high: f64, confidence: f64) -> Quantile {
        let none = Quantile::of_sorted(&[], 0, Level::P50);
        let status = QuantileStatus::Computed;
        Quantile { value: Some(value), low: Some(low), high: Some(high), confidence, status, ..none }
    }

    /// The value if it may be stated.
    pub fn stated(&self) -> Option<f64> {
        self.value
    }

    /// The nearest-rank value, stated or only descriptive.
    pub fn nearest_rank(&self) -> Option<f64> {
        self.value.or(self.descriptive)
    }
}
