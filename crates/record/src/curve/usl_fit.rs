//! Fit of the Universal Scalability Law to levels: parameters, intervals, derived loads, and caveats.
//!
//! Invariant: no interval without residuals to derive it from, and everything that weakens the fit is in its notes.

use super::{Points, UslParameters, usl as throughput_at};
use serde::{Deserialize, Serialize};
use tokrate_core::Rng;
use tokrate_stats::usl::{self, Form, Observation};
use tokrate_stats::{Interval, percentile_interval};

/// Resamples drawn for the intervals.
const RESAMPLES: usize = 400;
const CONFIDENCE: f64 = 0.95;

/// Status of the fit.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum UslStatus {
    /// Fitted to more loads than it has parameters.
    Fitted,
    /// Three loads and three parameters: nothing is left over to judge the fit by.
    Exact,
    /// Fewer than three distinct loads with throughput.
    NotEnoughLevels,
    /// The loads are not concurrencies.
    NotApplicable,
}

/// From where the intervals take the size of the noise.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum UslInterval {
    /// From the levels' own intervals (parametric bootstrap), widened where the fit misses by more than they allow.
    MeasuredNoise,
    /// From what the fit leaves unexplained (residual bootstrap).
    Residuals,
}

/// What weakens the fit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum UslNote {
    /// The law needs 3 levels.
    NeedsThreeLevels,
    /// With 3 levels it passes through every point; no interval can be given.
    NoIntervalsFromThreeLevels,
    /// With 4 levels one degree of freedom is left; residual intervals are rough.
    RoughIntervals,
    /// Levels without throughput were left out.
    LevelsWithoutThroughput,
    /// Contention is not distinguishable from 0.
    AlphaNotDistinct,
    /// Coherency is not distinguishable from 0: throughput may never fall.
    BetaNotDistinct,
    /// The peak lies beyond the highest load that was run.
    PeakExtrapolated,
    /// The saturation point lies beyond the highest load that was run.
    SaturationExtrapolated,
    /// The law misses the levels by more than 10 % (root mean square).
    PoorFit,
}

impl UslNote {
    /// The note as a sentence for people.
    pub const fn text(self) -> &'static str {
        match self {
            UslNote::NeedsThreeLevels => "the scaling law needs 3 levels",
            UslNote::NoIntervalsFromThreeLevels => "3 levels fix the 3 parameters exactly; no intervals can be given",
            UslNote::RoughIntervals => "4 levels leave one degree of freedom; the intervals are rough",
            UslNote::LevelsWithoutThroughput => "levels without throughput were left out of the scaling law",
            UslNote::AlphaNotDistinct => "contention (alpha) is not distinguishable from 0",
            UslNote::BetaNotDistinct => {
                "coherency cost (beta) is not distinguishable from 0; throughput may never fall"
            }
            UslNote::PeakExtrapolated => "the peak lies beyond the highest load that was run",
            UslNote::SaturationExtrapolated => "the saturation point lies beyond the highest load that was run",
            UslNote::PoorFit => "the scaling law misses the levels by more than 10 %",
        }
    }
}

/// A load that the fit points out.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CurvePoint {
    /// The load.
    pub load: f64,
    /// Throughput of the fit there, in tok/s.
    pub throughput: f64,
    /// Lower end of the 95 % interval of the load; absent when there is none or it is unbounded too.
    pub low: Option<f64>,
    /// Upper end; absent when there is none or when it is unbounded.
    pub high: Option<f64>,
    /// Whether it lies within the loads that were run.
    pub in_range: bool,
}

/// The fitted law. Throughput in tok/s against concurrency.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UslFit {
    /// Status.
    pub status: UslStatus,
    /// The parameters.
    pub parameters: Option<UslParameters>,
    /// 95 % interval of lambda.
    pub lambda_interval: Option<Interval>,
    /// 95 % interval of alpha.
    pub alpha_interval: Option<Interval>,
    /// 95 % interval of beta.
    pub beta_interval: Option<Interval>,
    /// Where the intervals come from.
    pub intervals_from: Option<UslInterval>,
    /// n* = sqrt((1 - alpha) / beta), where throughput is greatest; absent when it never falls.
    pub peak: Option<CurvePoint>,
    /// The load at which perfect scaling would reach the greatest throughput; absent when there is none.
    pub saturation: Option<CurvePoint>,
    /// Root mean square of ln(measured / fitted): 0.05 is 5 %.
    pub relative_error: Option<f64>,
    /// What weakens the fit.
    pub notes: Vec<UslNote>,
}

impl UslFit {
    pub(super) fn without(status: UslStatus) -> UslFit {
        UslFit {
            status,
            parameters: None,
            lambda_interval: None,
            alpha_interval: None,
            beta_interval: None,
            intervals_from: None,
            peak: None,
            saturation: None,
            relative_error: None,
            notes: Vec::new(),
        }
    }

    /// The fitted throughput at `n` in tok/s, for drawing the line.
    pub fn at(&self, n: f64) -> Option<f64> {
        self.parameters.map(|parameters| throughput_at(n, &parameters)).filter(|x| x.is_finite())
    }
}

/// Fits the law to the levels that have throughput.
pub(super) fn fit(points: &Points, rng: &Rng) -> UslFit {
    let (observations, noise) = (&points.observations, &points.noise);
    let mut notes = Vec::new();
    if points.without > 0 {
        notes.push(UslNote::LevelsWithoutThroughput);
    }
    let Some(parameters) = usl::fit(observations, Form::Whole) else {
        notes.push(UslNote::NeedsThreeLevels);
        return UslFit { notes, ..UslFit::without(UslStatus::NotEnoughLevels) };
    };
    let top = observations.iter().fold(1.0_f64, |most, o| most.max(o.n));
    let exact = observations.len() == 3;
    let resampled = if exact { Vec::new() } else { resample(observations, noise.as_deref(), &parameters, rng) };
    let interval = |of: fn(&UslParameters) -> f64| {
        percentile_interval(&resampled.iter().map(of).collect::<Vec<f64>>(), CONFIDENCE)
    };
    let unweighted: Vec<Observation> = observations.iter().map(|o| Observation { weight: 1.0, ..*o }).collect();
    let relative_error = (usl::loss(&unweighted, &parameters) / unweighted.len() as f64).sqrt();
    let from = if noise.is_some() { UslInterval::MeasuredNoise } else { UslInterval::Residuals };
    let mut fit = UslFit {
        status: if exact { UslStatus::Exact } else { UslStatus::Fitted },
        parameters: Some(parameters),
        lambda_interval: interval(|p| p.lambda),
        alpha_interval: interval(|p| p.alpha),
        beta_interval: interval(|p| p.beta),
        intervals_from: (!exact).then_some(from),
        peak: point(&parameters, &resampled, top, UslParameters::peak),
        saturation: point(&parameters, &resampled, top, UslParameters::saturation),
        relative_error: Some(relative_error).filter(|x| x.is_finite()),
        notes,
    };
    let rough = observations.len() == 4 && fit.intervals_from == Some(UslInterval::Residuals);
    judge(&mut fit, &parameters, rough);
    fit
}

fn judge(fit: &mut UslFit, parameters: &UslParameters, rough: bool) {
    let at_zero = |value: f64, interval: Option<Interval>| value <= 0.0 || interval.is_some_and(|i| i.low <= 0.0);
    let found = [
        (fit.status == UslStatus::Exact, UslNote::NoIntervalsFromThreeLevels),
        (rough, UslNote::RoughIntervals),
        (at_zero(parameters.alpha, fit.alpha_interval), UslNote::AlphaNotDistinct),
        (at_zero(parameters.beta, fit.beta_interval), UslNote::BetaNotDistinct),
        (fit.peak.is_some_and(|point| !point.in_range), UslNote::PeakExtrapolated),
        (fit.saturation.is_some_and(|point| !point.in_range), UslNote::SaturationExtrapolated),
        (fit.relative_error.is_some_and(|error| error > 0.1), UslNote::PoorFit),
    ];
    fit.notes.extend(found.into_iter().filter(|(applies, _)| *applies).map(|(_, note)| note));
}

/// Parameters fitted again to the fitted curve with noise drawn anew.
fn resample(
    observations: &[Observation],
    noise: Option<&[f64]>,
    parameters: &UslParameters,
    rng: &Rng,
) -> Vec<UslParameters> {
    let count = observations.len();
    let top = observations.iter().fold(1.0_f64, |most, o| most.max(o.n));
    let start = [(parameters.alpha * top, parameters.beta * top * top)];
    let fitted = |o: &Observation| throughput_at(o.n.max(1.0), parameters);
    // Residuals are smaller than the noise, for the three parameters took their part of it.
    let inflation = (count as f64 / (count as f64 - 3.0)).sqrt();
    let residuals: Vec<f64> = observations.iter().map(|o| (o.throughput.ln() - fitted(o).ln()) * inflation).collect();
    // The levels' own intervals do not cover variation between levels: where the fit misses by more than
    // they allow, they are widened by that much (Birge 1932).
    let misses = (usl::loss(observations, parameters) / (count as f64 - 3.0)).sqrt().max(1.0);
    let mut rng = rng.child("usl");
    let drawn = (0..RESAMPLES).map(|_| {
        let again: Vec<Observation> = observations
            .iter()
            .enumerate()
            .map(|(i, o)| {
                let error = match noise {
                    Some(noise) => noise[i] * misses * rng.normal(),
                    None => residuals[rng.below(count as u64) as usize],
                };
                Observation { throughput: fitted(o) * error.exp(), ..*o }
            })
            .collect();
        usl::fit_from(&again, Form::Whole, &start)
    });
    drawn.flatten().collect()
}

/// A load implied by the parameters, with the percentiles of the resampled ones; one that is absent there counts as
/// unbounded.
fn point(
    parameters: &UslParameters,
    resampled: &[UslParameters],
    top: f64,
    of: fn(&UslParameters) -> Option<f64>,
) -> Option<CurvePoint> {
    let load = of(parameters)?;
    let mut loads: Vec<f64> = resampled.iter().map(|p| of(p).unwrap_or(f64::INFINITY)).collect();
    loads.sort_unstable_by(f64::total_cmp);
    let end = |share: f64| {
        let index = (share * loads.len() as f64) as usize;
        loads.get(index.min(loads.len().saturating_sub(1))).copied().filter(|x| x.is_finite())
    };
    let tail = (1.0 - CONFIDENCE) / 2.0;
    let throughput = throughput_at(load, parameters);
    let point = CurvePoint { load, throughput, low: end(tail), high: end(1.0 - tail), in_range: load <= top };
    (load.is_finite() && throughput.is_finite()).then_some(point)
}

#[cfg(test)]
mod tests;
