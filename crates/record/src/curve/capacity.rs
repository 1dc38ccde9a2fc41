//! The three loads that describe an endpoint's capacity: where a request slows, where throughput is nearly at its maximum,
//! and where requests begin to wait.
//!
//! Invariant: a load is `found` only if its interval reaches at most a tenth to either side, for every model that the
//! levels admit.

use super::LoadAxis;
use super::model::{ModelKind, ThroughputModel, fit_model, model_loss, reached};
use super::model_selection::{ModelFit, choose};
use serde::{Deserialize, Serialize};
use tokrate_core::Rng;
use tokrate_stats::usl::Observation;

/// The share of the maximum throughput that counts as nearly all of it.
pub const NEARLY_ALL_SHARE: f64 = 0.9;
/// A load is found when its interval stays within this factor on either side.
pub const MAX_INTERVAL_FACTOR: f64 = 1.1;
/// Throughput counts as saturated when the measured loads reach this share of the model's ceiling.
const MIN_CEILING_SHARE: f64 = 0.97;
/// Fewer different loads cannot distinguish a bend from a limit.
const MIN_LOADS: usize = 4;
/// Resamples of each admitted model.
const RESAMPLES: usize = 100;
const CONFIDENCE: f64 = 0.95;
/// What narrows an interval between two levels.
const IN_BETWEEN: &str = "measure levels in between";

/// What is known of a load.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FigureStatus {
    /// It lies in the interval, which is narrow.
    Found,
    /// It lies between two loads that are far apart; levels between them would narrow it.
    Between,
    /// Above the highest measured load that was not rejected.
    Above,
    /// At or below the lowest load that was run.
    Below,
    /// The levels do not determine it.
    Unknown,
}

/// A load with its interval.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoadFigure {
    /// What is known of it.
    pub status: FigureStatus,
    /// The load, if it was found.
    pub load: Option<f64>,
    /// Lower end of its interval, if it has one.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Why it is not found; empty if it is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// The endpoint's capacity.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Capacity {
    /// The load of the most power, throughput / time of a request (Kleinrock 1979): beyond it a request slows by more than
    /// throughput gains.
    pub slows: LoadFigure,
    /// The lowest load with 90 % of the most throughput that any load has.
    pub nearly_all: LoadFigure,
    /// The load beyond which requests wait before they run.
    pub waits: LoadFigure,
}

impl Capacity {
    /// Default of records that predate the field.
    pub(super) fn unknown() -> Capacity {
        let unknown = || LoadFigure::without(FigureStatus::Unknown, "the record is of an earlier version");
        Capacity { slows: unknown(), nearly_all: unknown(), waits: unknown() }
    }

    /// Bounds figures without an upper end by the load from which on requests wait, if it lies within the levels, `first` to `last`, of
    /// a closed loop: beyond it no more of them run, so that throughput does not rise and a request only takes longer.
    pub(super) fn bound_by_waiting(&mut self, first: f64, last: f64) {
        let waits = &self.waits;
        let Some(limit) = waits
            .high
            .filter(|high| matches!(waits.status, FigureStatus::Found | FigureStatus::Between) && *high <= last)
        else {
            return;
        };
        for figure in [&mut self.slows, &mut self.nearly_all] {
            let is_open = match figure.status {
                FigureStatus::Above => true,
                FigureStatus::Between => figure.high.is_none_or(|high| high > limit),
                _ => false,
            };
            if !is_open {
                continue;
            }
            // A lower end beyond the load at which requests wait contradicts the waiting: nothing is left of it.
            let low = figure.low.filter(|low| *low < limit).unwrap_or(first);
            *figure = LoadFigure {
                low: Some(low),
                high: Some(limit),
                ..LoadFigure::without(FigureStatus::Between, IN_BETWEEN)
            };
        }
    }

    /// Bounds figures above `last`, the highest usable level, by the load at which requests are rejected.
    pub(super) fn bound_by_refusals(&mut self, last: Option<f64>, load: f64) {
        for figure in [&mut self.slows, &mut self.nearly_all, &mut self.waits] {
            if figure.high.is_some() || figure.status == FigureStatus::Below {
                continue;
            }
            figure.reason.push_str(&format!("; at a load of {load}, requests fail or are refused"));
            if figure.status == FigureStatus::Above {
                figure.low = last;
                figure.high = Some(load).filter(|_| last.is_some_and(|last| last < load));
            }
        }
    }
}

impl LoadFigure {
    pub(super) fn without(status: FigureStatus, reason: impl Into<String>) -> LoadFigure {
        LoadFigure { status, load: None, low: None, high: None, reason: reason.into() }
    }

    /// Found if the interval is narrow, or holds one whole number of requests only; between its ends if it is not.
    pub(super) fn with_interval(axis: LoadAxis, load: f64, low: f64, high: f64) -> LoadFigure {
        let same = axis == LoadAxis::Concurrency && low.round() == high.round();
        let narrow = same || (low * MAX_INTERVAL_FACTOR >= load && high <= load * MAX_INTERVAL_FACTOR);
        let (low, high) = (Some(low), Some(high));
        match narrow {
            true => LoadFigure { status: FigureStatus::Found, load: Some(load), low, high, reason: String::new() },
            false => {
                let reason = IN_BETWEEN.to_owned();
                LoadFigure { status: FigureStatus::Between, load: None, low, high, reason }
            }
        }
    }
}

/// Fits the throughput models, and derives two loads from the admitted ones. Loads rise;
/// `noise` is the relative standard error of each throughput, if all are known.
pub(super) fn fit_throughput(
    axis: LoadAxis,
    observations: &[Observation],
    noise: Option<&[f64]>,
    rng: &Rng,
) -> (Vec<ModelFit>, LoadFigure, LoadFigure) {
    let models = choose(ModelKind::of(axis), observations, noise);
    let (Some(chosen), Some(range)) = (models.iter().find(|fit| fit.chosen).map(|fit| fit.model), range(observations))
    else {
        let unknown = || LoadFigure::without(FigureStatus::Unknown, "no level is left that has a throughput");
        return (models, unknown(), unknown());
    };
    let loads = observations.chunk_by(|a, b| a.n == b.n).count();
    if loads < MIN_LOADS {
        let few = || {
            LoadFigure::without(
                FigureStatus::Unknown,
                format!("too few levels; {MIN_LOADS} different loads are needed"),
            )
        };
        return (models, few(), few());
    }
    let admitted = models.iter().filter(|fit| fit.admitted);
    let drawn: Vec<Vec<ThroughputModel>> = admitted.map(|fit| resample(&fit.model, observations, noise, rng)).collect();
    let slows = figure(axis, (&chosen, &drawn), range, max_power_load, "a request does not slow yet");
    let nearly_all = figure(axis, (&chosen, &drawn), range, nearly_all, "throughput still grows");
    (models, slows, nearly_all)
}

/// The lowest and the highest load.
fn range(observations: &[Observation]) -> Option<(f64, f64)> {
    Some((observations.first()?.n, observations.last()?.n))
}

/// A load that follows from a model, with the interval that holds for all resampled ones. A load that is not below the highest
/// one counts as unbounded.
fn figure(
    axis: LoadAxis,
    (chosen, drawn): (&ThroughputModel, &[Vec<ThroughputModel>]),
    (first, last): (f64, f64),
    of: fn(&ThroughputModel, f64) -> Option<f64>,
    beyond: &str,
) -> LoadFigure {
    let within = |model: &ThroughputModel| of(model, last).filter(|load| *load < last).unwrap_or(f64::INFINITY);
    let load = within(chosen);
    let (mut low, mut high) = (load, load);
    for models in drawn {
        let mut loads: Vec<f64> = models.iter().map(within).collect();
        loads.sort_unstable_by(f64::total_cmp);
        let tail = (1.0 - CONFIDENCE) / 2.0;
        let rank = |share: f64| loads.get(((share * loads.len() as f64) as usize).min(loads.len().saturating_sub(1)));
        low = rank(tail).map_or(low, |found| low.min(*found));
        high = rank(1.0 - tail).map_or(high, |found| high.max(*found));
    }
    // A load at the edge of the measured range cannot be distinguished from one beyond it.
    if load.is_infinite() && low * MAX_INTERVAL_FACTOR > last {
        return LoadFigure::without(FigureStatus::Above, format!("{beyond} at the highest load, {last}"));
    }
    // Tolerates rounding.
    if high <= first * 1.001 {
        return LoadFigure::without(FigureStatus::Below, format!("it is so at the lowest load, {first}, already"));
    }
    if high.is_infinite() {
        let reason = format!("it may lie beyond the highest load, {last}: measure higher ones");
        return LoadFigure { low: Some(low.max(first)), ..LoadFigure::without(FigureStatus::Between, reason) };
    }
    LoadFigure::with_interval(axis, load.max(first), low.max(first), high)
}

/// The load of the most power up to `last`; `None` if power still grows there.
///
/// By Little's law a request takes n / X(n), so that power is X(n)^2 / n. Beyond a limit it falls as 1 / n; up to it, it
/// is greatest where (1 - alpha) - (alpha - beta) n - 3 beta n^2 = 0.
fn max_power_load(model: &ThroughputModel, _last: f64) -> Option<f64> {
    let (alpha, beta) = (model.parameters.alpha, model.parameters.beta);
    let (a, b, c) = (3.0 * beta, alpha - beta, 1.0 - alpha);
    let root = b.hypot((4.0 * a * c).max(0.0).sqrt());
    // The form that loses no digits when beta is small.
    let smooth = if b >= 0.0 { 2.0 * c / (b + root) } else { (root - b) / (2.0 * a) };
    let smooth = Some(smooth).filter(|n| n.is_finite());
    match (smooth, model.limit) {
        (Some(n), Some(limit)) => Some(n.min(limit)),
        (n, limit) => n.or(limit),
    }
    .map(|n| n.max(1.0_f64.min(model.limit.unwrap_or(1.0))))
}

/// The lowest load with 90 % of the most throughput; `None` if that is not reached by `last`.
fn nearly_all(model: &ThroughputModel, last: f64) -> Option<f64> {
    let ceiling = model.ceiling()?;
    let top = model.top().map_or(last, |top| top.min(last));
    if model.at(top) < MIN_CEILING_SHARE * ceiling {
        return None;
    }
    reached(&model.parameters, NEARLY_ALL_SHARE * ceiling, 0.0, top)
}

/// The model fitted again to itself with noise drawn anew.
fn resample(
    model: &ThroughputModel,
    observations: &[Observation],
    noise: Option<&[f64]>,
    rng: &Rng,
) -> Vec<ThroughputModel> {
    let count = observations.len() as f64;
    let spare = (count - model.kind.parameters() as f64).max(1.0);
    let misses = (model_loss(observations, model) / spare).sqrt();
    // A level's own interval does not cover variation between levels: where the model misses by more than it
    // allows, it is widened by that much (Birge 1932). Without intervals the misses are all that is known.
    let deviation = |i: usize| match noise {
        Some(noise) => noise[i] * misses.max(1.0),
        None => misses,
    };
    let mut rng = rng.child("capacity").child(model.kind.text());
    let drawn = (0..RESAMPLES).filter_map(|_| {
        let again: Vec<Observation> = observations
            .iter()
            .enumerate()
            .map(|(i, o)| Observation { throughput: model.at(o.n) * (deviation(i) * rng.normal()).exp(), ..*o })
            .collect();
        fit_model(model.kind, &again)
    });
    drawn.collect()
}

#[cfg(test)]
mod tests;
