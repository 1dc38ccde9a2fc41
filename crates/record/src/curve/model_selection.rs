//! Selects the throughput models that the levels support.
//!
//! Invariant: a model is judged by levels that it was not fitted to.
//!
//! Each level is left out once, the model is fitted to the others, and what it says of the one left out is compared with what
//! was measured (leave-one-out cross-validation, Stone 1974). The best is the one with the least error; all whose error is
//! not clearly above it stay admitted, so that what is stated with them holds whichever of them is true.

use super::model::{ModelKind, ThroughputModel, fit_model};
use serde::{Deserialize, Serialize};
use tokrate_stats::usl::Observation;

/// Relative errors below this are ignored: machines vary by as much from minute to minute.
const LEVEL_SCATTER: f64 = 0.01;

/// A model and how well it predicts levels.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ModelFit {
    /// The model, fitted to all levels.
    #[serde(flatten)]
    pub model: ThroughputModel,
    /// Root mean square of ln(measured / predicted) over levels that were left out: 0.05 is 5 %. Absent where the levels that
    /// remain would not be more than the model has parameters.
    pub held_out_error: Option<f64>,
    /// Whether the levels admit it: its error is not clearly above the least, or they are too few to judge it by.
    pub admitted: bool,
    /// Whether it is the selected model: the simplest admitted one, if all were cross-validated.
    pub chosen: bool,
}

/// Fits every model that the levels suffice for. `noise` is the relative standard error of each, if all are known.
/// Observations rise by load.
pub(super) fn choose(kinds: &[ModelKind], observations: &[Observation], noise: Option<&[f64]>) -> Vec<ModelFit> {
    let scale: Vec<f64> = match noise {
        Some(noise) => noise.iter().map(|s| s.hypot(LEVEL_SCATTER)).collect(),
        None => vec![LEVEL_SCATTER; observations.len()],
    };
    let judged = kinds.iter().filter_map(|&kind| {
        let model = fit_model(kind, observations)?;
        Some((model, leave_one_out_errors(kind, observations)))
    });
    let judged: Vec<(ThroughputModel, Option<Vec<f64>>)> = judged.collect();
    let misses = |errors: &[f64]| -> Vec<f64> {
        // Robust against a single outlier: the logarithm of the error, as for Cauchy-distributed errors.
        errors.iter().zip(&scale).map(|(e, s)| (e / s).powi(2).ln_1p()).collect()
    };
    let all: Vec<Option<Vec<f64>>> = judged.iter().map(|(_, errors)| errors.as_deref().map(misses)).collect();
    let best = all.iter().flatten().min_by(|a, b| mean(a).total_cmp(&mean(b))).cloned();
    let fits = judged.iter().zip(&all).map(|((model, errors), misses)| ModelFit {
        model: *model,
        held_out_error: errors.as_ref().map(|errors| mean(&errors.iter().map(|e| e * e).collect::<Vec<_>>()).sqrt()),
        // What cannot be judged is not ruled out.
        admitted: best
            .as_ref()
            .zip(misses.as_ref())
            .is_none_or(|(best, misses)| is_within_two_standard_errors(misses, best)),
        chosen: false,
    });
    let mut fits: Vec<ModelFit> = fits.collect();
    fits.sort_by_key(|fit| (fit.model.kind.parameters(), fit.model.kind));
    let first = match fits.iter().all(|fit| fit.held_out_error.is_some()) {
        true => fits.iter().position(|fit| fit.admitted),
        // Too few levels to cross-validate all models: the best by Akaike's information criterion (1974).
        false => {
            let cost = |fit: &ModelFit| akaike(&fit.model, observations, &scale);
            (0..fits.len()).filter(|&at| fits[at].admitted).min_by(|&a, &b| cost(&fits[a]).total_cmp(&cost(&fits[b])))
        }
    };
    if let Some(first) = first {
        fits[first].chosen = true;
    }
    fits
}

/// Squared errors in units of their scale, and two for each parameter.
fn akaike(model: &ThroughputModel, observations: &[Observation], scale: &[f64]) -> f64 {
    let error = |(o, s): (&Observation, &f64)| ((o.throughput / model.at(o.n)).ln() / s).powi(2);
    observations.iter().zip(scale).map(error).sum::<f64>() + 2.0 * model.kind.parameters() as f64
}

/// ln(measured / predicted) of each level by a fit to the others; `None` if what remains has no level more than
/// parameters, or predicts nothing finite.
fn leave_one_out_errors(kind: ModelKind, observations: &[Observation]) -> Option<Vec<f64>> {
    let loads = observations.chunk_by(|a, b| a.n == b.n).count();
    if loads <= kind.parameters() + 1 {
        return None;
    }
    let error = |left_out: usize| {
        let load = observations[left_out].n;
        let others: Vec<Observation> = observations.iter().filter(|o| o.n != load).copied().collect();
        let model = fit_model(kind, &others)?;
        Some((observations[left_out].throughput / model.at(load)).ln()).filter(|error| error.is_finite())
    };
    (0..observations.len()).map(error).collect()
}

/// Whether the misses are not larger than the best ones by more than two standard errors of that difference (the rule of one
/// standard error of Breiman et al. 1984, level by level, and twice as wide because levels are few).
fn is_within_two_standard_errors(misses: &[f64], best: &[f64]) -> bool {
    let differences: Vec<f64> = misses.iter().zip(best).map(|(a, b)| a - b).collect();
    let (count, middle) = (differences.len() as f64, mean(&differences));
    let spread = differences.iter().map(|d| (d - middle).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
    middle <= 2.0 * (spread / count).sqrt()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

#[cfg(test)]
mod tests;
