//! From load levels to a curve: degradation, throughput models, capacity.
//!
//! Invariant: any finite input gives a result without NaN; an estimate that the levels do not support is absent, with a
//! reason.

mod capacity;
mod model;
mod model_selection;
mod saturation;
mod usl_fit;
mod waiting;

pub use capacity::{Capacity, FigureStatus, LoadFigure, MAX_INTERVAL_FACTOR, NEARLY_ALL_SHARE};
pub use model::{ModelKind, ThroughputModel};
pub use model_selection::ModelFit;
pub use saturation::{
    MARGINAL_SHARE, PLATEAU_GROWTH, QUEUE_GROWTH, REFUSAL_FLOOR, REFUSAL_RISE, SaturationSign, SignKind,
};
pub use tokrate_stats::usl::{UslParameters, usl};
pub use usl_fit::{CurvePoint, UslFit, UslInterval, UslNote, UslStatus};

use serde::{Deserialize, Serialize};
use tokrate_core::Rng;
use tokrate_stats::usl::Observation;

/// What the load of a level counts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LoadAxis {
    /// Requests in flight (closed loop).
    Concurrency,
    /// Requests offered per second (open loop). The scaling law does not apply to it.
    Rate,
}

/// A number with its interval, both ends or none.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Measured {
    /// The number.
    pub value: f64,
    /// Lower end of its 95 % interval.
    pub low: Option<f64>,
    /// Upper end of its 95 % interval.
    pub high: Option<f64>,
}

impl Measured {
    /// A number without an interval.
    pub fn plain(value: f64) -> Measured {
        Measured { value, low: None, high: None }
    }

    /// The standard error implied by the 95 % interval, if there is one and it has a width.
    pub fn deviation(&self) -> Option<f64> {
        let width = self.high? - self.low?;
        (width.is_finite() && width > 0.0).then_some(width / (2.0 * 1.959_963_984_540_054))
    }

    fn is_plausible(&self) -> bool {
        (0.0..=1e15).contains(&self.value)
    }
}

/// Levels with a larger share of failed or rejected requests are left out of the models.
const MAX_LOST_SHARE: f64 = 0.05;

/// What was measured at one load.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoadLevel {
    /// Concurrency, or requests offered per second.
    pub load: f64,
    /// Output tokens of all requests together in the steady window, in tok/s.
    pub throughput: Option<Measured>,
    /// Median over requests of the speed after the first chunk, in tok/s.
    pub output_speed: Option<Measured>,
    /// Median time to first token, in ms.
    pub ttft: Option<Measured>,
    /// Mean time to first token, in ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_ttft: Option<Measured>,
    /// Mean time from sending to the end, in ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_e2e: Option<Measured>,
    /// Requests started.
    pub requests: u64,
    /// Those that failed, rate-limited ones left out.
    pub failures: u64,
    /// Those refused by rate limit.
    pub rate_limited: u64,
}

impl LoadLevel {
    /// The share of its requests that failed or were rejected.
    fn lost_share(&self) -> f64 {
        (self.failures + self.rate_limited) as f64 / self.requests.max(1) as f64
    }
}

/// One row of the degradation table.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Degradation {
    /// What was measured.
    #[serde(flatten)]
    pub level: LoadLevel,
    /// `output_speed` as a share of that of the lowest load.
    pub relative_output_speed: Option<f64>,
    /// Throughput per unit of load as a share of that of the lowest load: 1 is perfect scaling.
    pub efficiency: Option<f64>,
    /// TTFT as a multiple of that of the lowest load.
    pub relative_ttft: Option<f64>,
}

/// The curve over all levels of a run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CurveResult {
    /// What the loads count.
    pub axis: LoadAxis,
    /// One row for each level, by rising load.
    pub levels: Vec<Degradation>,
    /// Levels left out because their load is not between 1e-6 and 1e9.
    pub left_out: u64,
    /// The fit of the Universal Scalability Law.
    pub usl: UslFit,
    /// Models of throughput, simplest first, with how well each predicts levels that it was not fitted to. None in records of
    /// versions that stated a knee instead.
    #[serde(default)]
    pub models: Vec<ModelFit>,
    /// Signs of saturation that need no fit.
    pub signs: Vec<SaturationSign>,
    /// The endpoint's capacity.
    #[serde(default = "Capacity::unknown")]
    pub capacity: Capacity,
}

impl CurveResult {
    /// Makes the curve of the levels, in any order. The generator drives resampling; the same one gives the same result.
    pub fn of(axis: LoadAxis, levels: &[LoadLevel], rng: &Rng) -> CurveResult {
        let mut kept: Vec<LoadLevel> =
            levels.iter().filter(|level| (1e-6..=1e9).contains(&level.load)).map(plausible).collect();
        kept.sort_by(|a, b| a.load.total_cmp(&b.load));
        let signs = saturation::signs(&kept);
        // A level that rejects requests does not show what the endpoint can carry.
        let (carried, refused): (Vec<LoadLevel>, Vec<LoadLevel>) =
            kept.iter().cloned().partition(|level| level.lost_share() <= MAX_LOST_SHARE);
        let points = Points::of(&carried);
        let usl = match axis {
            LoadAxis::Concurrency => usl_fit::fit(&points, rng),
            LoadAxis::Rate => UslFit::without(UslStatus::NotApplicable),
        };
        let (models, slows, nearly_all) =
            capacity::fit_throughput(axis, &points.observations, points.noise.as_deref(), rng);
        let slows = if axis == LoadAxis::Rate { waiting::max_power_load(&carried) } else { slows };
        let mut capacity = Capacity { slows, nearly_all, waits: waiting::waits(axis, &carried) };
        if let (LoadAxis::Concurrency, [first, .., last]) = (axis, &carried[..]) {
            capacity.bound_by_waiting(first.load, last.load);
        }
        if let Some(level) = refused.first() {
            capacity.bound_by_refusals(carried.last().map(|level| level.load), level.load);
        }
        let left_out = (levels.len() - kept.len()) as u64;
        CurveResult { axis, levels: degradation(kept), left_out, usl, models, signs, capacity }
    }

    /// The selected model, if any could be fitted.
    pub fn model(&self) -> Option<&ThroughputModel> {
        self.models.iter().find(|fit| fit.chosen).map(|fit| &fit.model)
    }
}

/// The throughputs above 0, by rising load.
struct Points {
    observations: Vec<Observation>,
    /// The relative standard error of each, if all are known.
    noise: Option<Vec<f64>>,
    /// Levels without one.
    without: usize,
}

impl Points {
    fn of(levels: &[LoadLevel]) -> Points {
        let known = levels.iter().filter_map(|level| Some((level.load, level.throughput.filter(|x| x.value > 0.0)?)));
        let known: Vec<(f64, Measured)> = known.collect();
        // A known error below 0.1 % would let one level outweigh all others.
        let relative = |(_, x): &(f64, Measured)| x.deviation().map(|d| (d / x.value).clamp(1e-3, 10.0));
        let noise: Option<Vec<f64>> = known.iter().map(relative).collect();
        let weight = |i: usize| noise.as_ref().map_or(1.0, |noise: &Vec<f64>| noise[i].powi(-2));
        let observations = known.iter().enumerate();
        let observations =
            observations.map(|(i, (n, x))| Observation { n: *n, throughput: x.value, weight: weight(i) }).collect();
        Points { observations, without: levels.len() - known.len(), noise }
    }
}

/// The level without numbers that are not finite or not within 0 to 1e15.
fn plausible(level: &LoadLevel) -> LoadLevel {
    let check = |number: Option<Measured>| {
        let finite = |end: Option<f64>| end.filter(|x| x.is_finite());
        number.filter(Measured::is_plausible).map(|m| Measured { low: finite(m.low), high: finite(m.high), ..m })
    };
    LoadLevel {
        throughput: check(level.throughput),
        output_speed: check(level.output_speed),
        ttft: check(level.ttft),
        mean_ttft: check(level.mean_ttft),
        mean_e2e: check(level.mean_e2e),
        ..level.clone()
    }
}

fn degradation(levels: Vec<LoadLevel>) -> Vec<Degradation> {
    let Some(first) = levels.first().cloned() else { return Vec::new() };
    let share = |now: Option<Measured>, then: Option<Measured>| {
        Some(now?.value / then?.value).filter(|share| share.is_finite())
    };
    levels
        .into_iter()
        .map(|level| Degradation {
            relative_output_speed: share(level.output_speed, first.output_speed),
            efficiency: share(level.throughput, first.throughput).map(|x| x * (first.load / level.load)),
            relative_ttft: share(level.ttft, first.ttft),
            level,
        })
        .collect()
}

#[cfg(test)]
mod tests;
