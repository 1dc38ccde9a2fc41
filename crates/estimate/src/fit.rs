//! The coefficients that fit the measured rows best: least squares on logarithms of errors, with a prior on each
//! coefficient so that few rows do not decide much, and less weight to rows that fit badly.
//!
//! Invariant: the same rows give the same coefficients.

use crate::coefficients::{COUNT, Coefficients, OF_TTFT};
use crate::least_squares;
use crate::measured::Measured;
use crate::served::{self, Prediction};

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

/// Logarithm of measured over predicted, for each row and each of some outputs that has both; and the scatter expected of it.
fn residuals(rows: &[&Measured], coefficients: &Coefficients, of: fn(Output) -> bool) -> Vec<(f64, f64)> {
    let mut all = Vec::new();
    for row in rows {
        let prediction = served::predict(&row.question, coefficients);
        // How long requests wait for a place says nothing of how long a prompt takes.
        let skipped = |output: &Output| !of(*output) || (row.queue_limited && *output == Output::Ttft);
        for output in Output::ALL.into_iter().filter(|output| !skipped(output)) {
            if let Some((measured, predicted)) = output.measured(row).zip(output.predicted(&prediction)) {
                all.push(((measured / predicted).ln(), output.scatter()));
            }
        }
    }
    all
}

/// Change of a logarithm by which derivatives are taken.
const NUDGE: f64 = 1e-4;

/// Fits all coefficients to measured rows: those of the TTFT alone after the others, as times to first tokens hang on how a run was
/// made and say less of a device than its speeds.
pub fn fit(rows: &[&Measured]) -> Fit {
    let of_speeds = |values: &[f64; COUNT]| residuals(rows, &Coefficients(*values), |output| output != Output::Ttft);
    let mut fitted = least_squares::fit(&Coefficients::prior().0, &Coefficients::prior_sd(), NUDGE, of_speeds);
    let place = |k: usize| OF_TTFT.start + k;
    let prior = std::array::from_fn(|k| Coefficients::prior().0[place(k)]);
    let spread = std::array::from_fn(|k| Coefficients::prior_sd()[place(k)]);
    let of_ttft = |values: &[f64; OF_TTFT.end - OF_TTFT.start]| {
        let mut all = fitted.values;
        all[OF_TTFT].copy_from_slice(values);
        residuals(rows, &Coefficients(all), |output| output == Output::Ttft)
    };
    let first = least_squares::fit(&prior, &spread, NUDGE, of_ttft);
    fitted.values[OF_TTFT].copy_from_slice(&first.values);
    fitted.errors[OF_TTFT].copy_from_slice(&first.errors);
    Fit { coefficients: Coefficients(fitted.values), errors: fitted.errors }
}
