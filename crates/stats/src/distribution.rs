//! Summary of a sample: moments, quantiles with intervals, and a mergeable sketch.
//!
//! Invariant: every number is finite or absent, and the counts of finite, censored and infinite samples add up to `n`.
//!
//! Quantile intervals assume independent samples. Samples pooled from within requests (token gaps) are correlated within a
//! request; their intervals are too narrow, and reports that show them must say so.

use super::{Censored, CensoredSamples, Level, Quantile, SketchParts, lower_rank};
use serde::{Deserialize, Serialize};
use tokrate_core::Sketch;

/// Relative error of a quantile from a sketch: half a bucket of its 64 an octave (2^(1/128) - 1).
const SKETCH_ERROR: f64 = 0.0055;

/// In what a distribution's numbers are written.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Unit {
    /// Milliseconds; the sketch counts nanoseconds.
    #[serde(rename = "ms")]
    Milliseconds,
    /// Tokens per second; the sketch counts thousandths.
    #[serde(rename = "tok/s")]
    TokensPerSecond,
    /// Tokens; the sketch counts tokens.
    #[serde(rename = "tokens")]
    Tokens,
    /// Plain numbers; the sketch counts thousandths.
    #[serde(rename = "1")]
    One,
    /// Seconds for a second; the sketch counts millionths.
    #[serde(rename = "s/s")]
    Factor,
}

impl Unit {
    /// The name used in records and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Unit::Milliseconds => "ms",
            Unit::TokensPerSecond => "tok/s",
            Unit::Tokens => "tokens",
            Unit::One => "1",
            Unit::Factor => "s/s",
        }
    }

    /// How many of the sketch's whole units make one of this unit.
    pub const fn steps(self) -> f64 {
        match self {
            Unit::Milliseconds | Unit::Factor => 1e6,
            Unit::TokensPerSecond | Unit::One => 1e3,
            Unit::Tokens => 1.0,
        }
    }
}

/// What is known of a metric from its samples. All numbers are in `unit`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Distribution {
    /// Unit of every number below but those of the sketch.
    pub unit: Unit,
    /// How many samples there are, censored and infinite ones included.
    pub n: u64,
    /// How many samples are +infinity: failures, in an `adj_` distribution.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub infinite: u64,
    /// Samples of which only an upper bound is known; absent if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub censored: Option<Censored>,
    /// Mean; absent without samples and with a censored or infinite one.
    pub mean: Option<f64>,
    /// Standard deviation of the sample (divisor n - 1); absent below two samples and with a censored or infinite one.
    pub standard_deviation: Option<f64>,
    /// Smallest sample that is finite; absent with a censored one.
    pub min: Option<f64>,
    /// Largest sample; absent without samples, with an infinite one, and where a censored one could be larger.
    pub max: Option<f64>,
    /// The median.
    pub p50: Quantile,
    /// 90th percentile.
    pub p90: Quantile,
    /// 95th percentile.
    pub p95: Quantile,
    /// 99th percentile.
    pub p99: Quantile,
    /// 99.9th percentile.
    pub p99_9: Quantile,
    /// How many of the sketch's whole units make one `unit`.
    pub sketch_steps: f64,
    /// The finite samples that are not censored as a mergeable histogram (relative error of a quantile at most 0.55 %).
    pub sketch: SketchParts,
}

impl Distribution {
    /// Summarises durations in nanoseconds, reported in milliseconds. Sorts the samples.
    pub fn of_nanos(samples: &mut [u64]) -> Distribution {
        Self::of_nanos_adjusted(samples, 0)
    }

    /// The same with `infinite` further samples at +infinity (an `adj_` distribution). Sorts the samples.
    pub fn of_nanos_adjusted(samples: &mut [u64], infinite: u64) -> Distribution {
        samples.sort_unstable();
        let mut sketch = Sketch::new();
        for run in samples.chunk_by(|a, b| a == b) {
            sketch.record_many(run[0], run.len() as u64);
        }
        let unit = Unit::Milliseconds;
        Self::of_sorted(samples.len() as u64, infinite, unit, sketch, |index| samples[index] as f64 / unit.steps())
    }

    /// Of no sample, with a median that was computed and not measured.
    pub fn computed(median: Quantile, unit: Unit) -> Distribution {
        Distribution { p50: median, ..Self::of_values(&mut Vec::new(), unit) }
    }

    /// Summarises numbers in `unit`; negative and non-finite ones are ignored. Sorts the samples.
    pub fn of_values(samples: &mut Vec<f64>, unit: Unit) -> Distribution {
        Self::of_values_adjusted(samples, 0, unit)
    }

    /// The same with `infinite` further samples at +infinity. Sorts the samples.
    pub fn of_values_adjusted(samples: &mut Vec<f64>, infinite: u64, unit: Unit) -> Distribution {
        samples.retain(|x| x.is_finite() && *x >= 0.0);
        samples.sort_unstable_by(f64::total_cmp);
        let mut sketch = Sketch::new();
        for &value in samples.iter() {
            sketch.record((value * unit.steps()).round() as u64);
        }
        Self::of_sorted(samples.len() as u64, infinite, unit, sketch, |index| samples[index])
    }

    /// The same with further samples of which only bounds are known: the least (0 for none) and the most (+infinity for none). Sorts the
    /// samples.
    pub fn of_values_censored(
        samples: &mut Vec<f64>,
        bounds: &[(f64, f64)],
        infinite: u64,
        unit: Unit,
    ) -> Distribution {
        let plain = Self::of_values_adjusted(samples, infinite, unit);
        let bounds = || bounds.iter().filter(|(least, most)| *least >= 0.0 && *most >= 0.0);
        let sorted = |mut values: Vec<f64>| {
            values.sort_unstable_by(f64::total_cmp);
            values
        };
        let at_most = sorted(bounds().map(|(_, most)| *most).filter(|most| most.is_finite()).collect());
        let at_least = sorted(bounds().map(|(least, _)| *least).filter(|least| *least > 0.0).collect());
        let sketch = |values: &[f64]| {
            let mut sketch = Sketch::new();
            values.iter().for_each(|bound| sketch.record((bound * unit.steps()).round() as u64));
            SketchParts(sketch)
        };
        let unbounded = (bounds().count() - at_most.len()) as u64;
        let censored = Censored { at_most: sketch(&at_most), at_least: sketch(&at_least), unbounded };
        plain.with_censored(censored, [samples, &at_most, &at_least])
    }

    /// A distribution of exact samples with censored ones beside them, by their upper and lower bounds; all lists rise.
    fn with_censored(self, censored: Censored, [exact, at_most, at_least]: [&[f64]; 3]) -> Distribution {
        if censored.n() == 0 {
            return self;
        }
        let (unbounded, infinite) = (censored.unbounded, self.infinite);
        let samples = CensoredSamples { exact, at_most, at_least, unbounded, infinite };
        let quantile = |level| Quantile::of_censored(samples, level);
        let largest = at_most.last().copied().unwrap_or(0.0);
        Distribution {
            n: self.n.saturating_add(censored.n()),
            mean: None,
            standard_deviation: None,
            min: None,
            max: self.max.filter(|max| unbounded == 0 && largest <= *max),
            p50: quantile(Level::P50),
            p90: quantile(Level::P90),
            p95: quantile(Level::P95),
            p99: quantile(Level::P99),
            p99_9: quantile(Level::P99_9),
            censored: Some(censored),
            ..self
        }
    }

    /// Pools the samples of several distributions of one unit. A single one is returned unchanged; otherwise the
    /// quantiles come from the sketches, within 0.55 %. `None` of none.
    pub fn pooled(parts: &[&Distribution]) -> Option<Distribution> {
        let (first, others) = parts.split_first()?;
        if others.is_empty() {
            return Some((*first).clone());
        }
        let mut sketch = first.sketch.0.clone();
        others.iter().for_each(|part| sketch.merge(&part.sketch.0));
        let mean = sketch.mean().map(|mean| mean / first.steps());
        let infinite = parts.iter().map(|part| part.infinite).sum();
        let values = values_of(&sketch, first.steps());
        let pooled = Distribution::of_sorted(sketch.count(), infinite, first.unit, sketch, |index| values[index]);
        let pooled = Distribution { mean: mean.filter(|_| infinite == 0), ..pooled };
        let mut censored = Censored::default();
        for part in parts.iter().filter_map(|part| part.censored.as_ref()) {
            censored.at_most.0.merge(&part.at_most.0);
            censored.at_least.0.merge(&part.at_least.0);
            censored.unbounded += part.unbounded;
        }
        let at_most = values_of(&censored.at_most.0, first.steps());
        let at_least = values_of(&censored.at_least.0, first.steps());
        Some(pooled.with_censored(censored, [&values, &at_most, &at_least]))
    }

    /// The least and the most that the sample's quantile can be, whatever the censored samples are within their bounds (each within
    /// 0.55 %); `None` without samples. The most is infinite where samples without a bound decide.
    pub fn quantile_bounds(&self, level: Level) -> Option<(f64, f64)> {
        let censored = self.censored.clone().unwrap_or_default();
        let exact = values_of(&self.sketch.0, self.steps());
        let end = |bounds: &SketchParts, others: f64| {
            let mut values = exact.clone();
            values.extend(values_of(&bounds.0, self.steps()));
            let missing = (exact.len() as u64 + censored.n()).saturating_sub(values.len() as u64);
            values.extend(std::iter::repeat_n(others, missing as usize));
            values.extend(std::iter::repeat_n(f64::INFINITY, self.infinite as usize));
            values.sort_unstable_by(f64::total_cmp);
            let rank = ((level.share() * values.len() as f64).ceil() as usize).clamp(1, values.len().max(1));
            values.get(rank - 1).copied()
        };
        end(&censored.at_least, 0.0).zip(end(&censored.at_most, f64::INFINITY))
    }

    /// A value that the distribution's quantile of a level is not below, wrong in at most `alpha` of cases (order statistics, exact binomial),
    /// however few samples there are; less by the 0.55 % that a sketch may be off. `None` where they are too few even for that. A censored
    /// sample stands at its lower bound, at 0 if it has none.
    pub fn lower_bound(&self, level: Level, alpha: f64) -> Option<f64> {
        let censored = self.censored.clone().unwrap_or_default();
        let mut values = values_of(&self.sketch.0, self.steps());
        values.extend(values_of(&censored.at_least.0, self.steps()));
        let unbounded = self.n.saturating_sub(self.infinite).saturating_sub(values.len() as u64);
        values.extend(std::iter::repeat_n(0.0, unbounded as usize));
        values.sort_unstable_by(f64::total_cmp);
        let rank = lower_rank(self.n, level.share(), alpha)?;
        Some(values.get(rank as usize - 1).map_or(f64::INFINITY, |value| value / (1.0 + SKETCH_ERROR)))
    }

    /// The finite samples, ascending, each within 0.55 %; a censored one stands at its bound.
    pub fn values(&self) -> Vec<f64> {
        let mut values = values_of(&self.sketch.0, self.steps());
        if let Some(censored) = &self.censored {
            values.extend(values_of(&censored.at_most.0, self.steps()));
            values.sort_unstable_by(f64::total_cmp);
        }
        values
    }

    fn steps(&self) -> f64 {
        if self.sketch_steps > 0.0 { self.sketch_steps } else { 1.0 }
    }

    /// The quantile of a level.
    pub fn quantile(&self, level: Level) -> &Quantile {
        match level {
            Level::P50 => &self.p50,
            Level::P90 => &self.p90,
            Level::P95 => &self.p95,
            Level::P99 => &self.p99,
            Level::P99_9 => &self.p99_9,
        }
    }

    /// True when there is no sample.
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    fn of_sorted(finite: u64, infinite: u64, unit: Unit, sketch: Sketch, at: impl Fn(usize) -> f64) -> Distribution {
        let count = finite as usize;
        let ends = (count > 0).then(|| (at(0), at(count - 1)));
        let whole = infinite == 0;
        let (mean, deviation) = moments(count, ends, &at);
        let quantile = |level| Quantile::of_ranks(finite, infinite, level, |rank| at((rank - 1) as usize));
        Distribution {
            unit,
            n: finite.saturating_add(infinite),
            infinite,
            censored: None,
            mean: mean.filter(|_| whole),
            standard_deviation: deviation.filter(|_| whole),
            min: ends.map(|(min, _)| min),
            max: ends.map(|(_, max)| max).filter(|_| whole),
            p50: quantile(Level::P50),
            p90: quantile(Level::P90),
            p95: quantile(Level::P95),
            p99: quantile(Level::P99),
            p99_9: quantile(Level::P99_9),
            sketch_steps: unit.steps(),
            sketch: SketchParts(sketch),
        }
    }
}

/// The values of a sketch, ascending: the midpoint of each bucket, repeated by its count.
fn values_of(sketch: &Sketch, steps: f64) -> Vec<f64> {
    let count = sketch.count();
    let mut values = Vec::with_capacity(usize::try_from(count).unwrap_or(0).min(1 << 20));
    values.extend(std::iter::repeat_n(0.0, sketch.zeros() as usize));
    let mut seen = sketch.zeros();
    for (_, hits) in sketch.buckets() {
        // The middle rank of a bucket lies in that bucket.
        let rank = seen + hits.div_ceil(2);
        let middle = sketch.quantile((rank as f64 - 0.5) / count as f64).unwrap_or(0) as f64 / steps;
        values.extend(std::iter::repeat_n(middle, hits as usize));
        seen += hits;
    }
    values
}

/// Mean and standard deviation in two passes, scaled by the largest sample so that no finite sample overflows.
fn moments(n: usize, ends: Option<(f64, f64)>, at: &impl Fn(usize) -> f64) -> (Option<f64>, Option<f64>) {
    let Some((min, max)) = ends else { return (None, None) };
    let size = if max > 0.0 { max } else { 1.0 };
    let count = n as f64;
    let mean = (0..n).map(|index| at(index) / size).sum::<f64>() / count;
    let squares: f64 = (0..n).map(|index| (at(index) / size - mean).powi(2)).sum();
    // Rounding must not push the mean of equal samples outside them.
    let shown = (mean * size).clamp(min, max);
    (Some(shown), (n > 1).then(|| (squares / (count - 1.0)).sqrt() * size))
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}
