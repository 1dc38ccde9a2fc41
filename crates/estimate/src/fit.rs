//! The coefficients that fit the measured rows best: least squares on logarithms of errors, with a prior on each
//! coefficient so that few rows do not decide much, and less weight to rows that fit badly.
//!
//! Invariant: the same rows give the same coefficients.

use crate::coefficients::{COUNT, Coefficients};
use crate::measured::Measured;
use crate::served::{self, Prediction};
use tokrate_stats::least_squares;

/// What of a row is fitted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Output {
    /// Time a token.
    Tpot,
    /// Time to the first token.
    Ttft,
    /// Tokens/s of a ceiling.
    Total,
    /// Prompt tokens/s.
    Prefill,
}

impl Output {
    /// All outputs.
    pub const ALL: [Output; 4] = [Output::Tpot, Output::Ttft, Output::Total, Output::Prefill];

    /// What a prediction says.
    pub fn predicted(self, prediction: &Prediction) -> Option<f64> {
        match self {
            Output::Tpot => Some(prediction.tpot),
            Output::Ttft => prediction.ttft,
            Output::Total => Some(prediction.total),
            Output::Prefill => prediction.prefill,
        }
    }

    /// What was measured.
    pub fn measured(self, row: &Measured) -> Option<f64> {
        match self {
            Output::Tpot => row.tpot,
            Output::Ttft => row.ttft,
            Output::Total => row.total,
            Output::Prefill => row.prefill,
        }
        .filter(|value| *value > 0.0)
    }

    /// Expected scatter of its logarithm: what the same configuration differs by between engine versions, and the
    /// formula's own roughness.
    fn scatter(self) -> f64 {
        match self {
            Output::Tpot => 0.10,
            Output::Ttft => 0.50,
            Output::Total => 0.15,
            Output::Prefill => 0.25,
        }
    }
}

/// Fitted coefficients and the standard errors of their logarithms.
#[derive(Clone, PartialEq, Debug)]
pub struct Fit {
    /// The coefficients.
    pub coefficients: Coefficients,
    /// Standard errors of their logarithms.
    pub errors: [f64; COUNT],
}

/// Logarithm of measured over predicted, for each row and output that has both; and the scatter expected of it.
fn residuals(rows: &[&Measured], coefficients: &Coefficients) -> Vec<(f64, f64)> {
    let mut all = Vec::new();
    for row in rows {
        let prediction = served::predict(&row.question, coefficients);
        for output in Output::ALL {
            if let Some((measured, predicted)) = output.measured(row).zip(output.predicted(&prediction)) {
                all.push(((measured / predicted).ln(), output.scatter()));
            }
        }
    }
    all
}

/// Steps of the fit; it settles in about ten.
const STEPS: usize = 25;
/// A step that changes each logarithm by less than this is the last.
const SETTLED: f64 = 1e-4;
/// The largest change of a logarithm in one step.
const STRIDE: f64 = 0.4;
/// Change of a logarithm by which derivatives are taken.
const NUDGE: f64 = 1e-4;

/// Fits (Gauss and Newton, with Cauchy's weights 1/(1 + (r/2σ)²)).
pub fn fit(rows: &[&Measured]) -> Fit {
    let prior = Coefficients::prior();
    let spread = Coefficients::prior_sd();
    let mut now = prior.clone();
    let mut errors = spread;
    for _ in 0..STEPS {
        let base = residuals(rows, &now);
        let mut columns: [Vec<f64>; COUNT] = std::array::from_fn(|k| {
            let mut other = now.clone();
            other.0[k] += NUDGE;
            residuals(rows, &other).iter().zip(&base).map(|(a, b)| (b.0 - a.0) / NUDGE).collect()
        });
        let mut target: Vec<f64> = base.iter().map(|(r, _)| *r).collect();
        let mut weights: Vec<f64> = base.iter().map(|(r, s)| 1.0 / (s * s * (1.0 + (r / (2.0 * s)).powi(2)))).collect();
        // The prior is one more row for each coefficient.
        for pulled in 0..COUNT {
            columns.iter_mut().enumerate().for_each(|(k, column)| column.push(if k == pulled { 1.0 } else { 0.0 }));
            target.push(prior.0[pulled] - now.0[pulled]);
            weights.push(spread[pulled].powi(-2));
        }
        let Some(step) = least_squares(&columns, &target, &weights) else { break };
        errors = step.errors;
        let largest = step.coefficients.iter().fold(0.0_f64, |most, x| most.max(x.abs()));
        let factor = if largest > STRIDE { STRIDE / largest } else { 1.0 };
        now.0.iter_mut().zip(step.coefficients).for_each(|(x, change)| *x += change * factor);
        if largest < SETTLED {
            break;
        }
    }
    Fit { coefficients: now, errors }
}
