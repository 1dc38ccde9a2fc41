//! From load levels to a curve: degradation, scaling law, break, and the knee that both agree on or not.
//!
//! It refuses to know single requests; a level comes as numbers with intervals. Invariant: any finite input gives a
//! result without NaN, and an estimate that the levels cannot carry is absent with the reason beside it.

mod knee;
mod linear;
mod saturation;
mod segmented;
mod usl;
mod usl_fit;

pub use knee::{Knee, KneeStatus, SAME_PLACE_RATIO};
pub use saturation::{
    MARGINAL_SHARE, QUEUE_GROWTH, REFUSAL_FLOOR, REFUSAL_RISE, STANDSTILL_GROWTH, SaturationSign, SignKind,
};
pub use segmented::{BREAK_SIGNIFICANCE, BreakStatus, SegmentedFit, UNTESTED_SLOPE_RATIO};
pub use usl::{UslParameters, usl};
pub use usl_fit::{CurvePoint, UslFit, UslInterval, UslNote, UslStatus};

use serde::{Deserialize, Serialize};
use tokrate_core::Rng;

/// What the load of a level counts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LoadAxis {
    /// Requests in flight (closed loop).
    Concurrency,
    /// Requests offered per second (open loop). The scaling law does not apply to it.
    Rate,
}

/// A number with its interval, both ends or none.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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

    /// The standard error that the 95 % interval speaks of, if there is one and it has a width.
    pub fn deviation(&self) -> Option<f64> {
        let width = self.high? - self.low?;
        (width.is_finite() && width > 0.0).then_some(width / (2.0 * 1.959_963_984_540_054))
    }

    fn is_plausible(&self) -> bool {
        (0.0..=1e15).contains(&self.value)
    }
}

/// What was measured at one load.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LoadLevel {
    /// Concurrency, or requests offered per second.
    pub load: f64,
    /// Output tokens of all requests together in the steady window, in tok/s.
    pub throughput: Option<Measured>,
    /// Median over requests of the speed after the first chunk, in tok/s.
    pub output_speed: Option<Measured>,
    /// Median time to first token, in ms.
    pub ttft: Option<Measured>,
    /// Requests started.
    pub requests: u64,
    /// Those that failed, rate-limited ones left out.
    pub failures: u64,
    /// Those refused by rate limit.
    pub rate_limited: u64,
}

/// One row of the degradation table.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CurveResult {
    /// What the loads count.
    pub axis: LoadAxis,
    /// One row for each level, by rising load.
    pub levels: Vec<Degradation>,
    /// Levels left out because their load is not between 1e-6 and 1e9.
    pub left_out: u64,
    /// The fit of the Universal Scalability Law.
    pub usl: UslFit,
    /// The two-line fit.
    pub segmented: SegmentedFit,
    /// Signs of saturation that need no fit.
    pub signs: Vec<SaturationSign>,
    /// Where more load stops paying.
    pub knee: Knee,
}

impl CurveResult {
    /// Makes the curve of the levels, in any order. The generator drives resampling; the same one gives the same result.
    pub fn of(axis: LoadAxis, levels: &[LoadLevel], rng: &Rng) -> CurveResult {
        let mut kept: Vec<LoadLevel> =
            levels.iter().filter(|level| (1e-6..=1e9).contains(&level.load)).map(plausible).collect();
        kept.sort_by(|a, b| a.load.total_cmp(&b.load));
        let points: Vec<segmented::Point> = kept
            .iter()
            .filter_map(|level| level.throughput.map(|x| (level.load, x)))
            .map(|(load, x)| segmented::Point { load, throughput: x.value, deviation: x.deviation() })
            .collect();
        let usl = match axis {
            LoadAxis::Concurrency => usl_fit::fit(&points, rng),
            LoadAxis::Rate => UslFit::without(UslStatus::NotApplicable),
        };
        let segmented = segmented::fit(&points, rng);
        let signs = saturation::signs(&kept);
        let loads: Vec<f64> = points.iter().map(|point| point.load).collect();
        let knee = knee::decide(&loads, &usl, &segmented, &signs);
        let left_out = (levels.len() - kept.len()) as u64;
        CurveResult { axis, levels: degradation(kept), left_out, usl, segmented, signs, knee }
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
