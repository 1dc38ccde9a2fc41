//! The coefficients that fit the measured rows best: least squares on logarithms of errors, with a prior on each
//! coefficient so that few rows do not decide much, and less weight to rows that fit badly.
//!
//! Invariant: the same rows give the same coefficients.

use crate::coefficients::{COUNT, Coefficients};
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
    let mut normal = vec![vec![0.0; COUNT]; COUNT];
    for _ in 0..STEPS {
        let base = residuals(rows, &now);
        let slopes: Vec<Vec<f64>> = (0..COUNT)
            .map(|k| {
                let mut other = now.clone();
                other.0[k] += NUDGE;
                residuals(rows, &other).iter().zip(&base).map(|(a, b)| (b.0 - a.0) / NUDGE).collect()
            })
            .collect();
        let weights: Vec<f64> = base.iter().map(|(r, s)| 1.0 / (s * s * (1.0 + (r / (2.0 * s)).powi(2)))).collect();
        let mut right = vec![0.0; COUNT];
        for j in 0..COUNT {
            for k in 0..=j {
                let sum = weights.iter().zip(slopes[j].iter().zip(&slopes[k])).map(|(w, (a, b))| w * a * b).sum();
                (normal[j][k], normal[k][j]) = (sum, sum);
            }
            let precision = spread[j].powi(-2);
            normal[j][j] += precision;
            let pull: f64 = weights.iter().zip(slopes[j].iter().zip(&base)).map(|(w, (a, b))| w * a * b.0).sum();
            right[j] = pull - precision * (now.0[j] - prior.0[j]);
        }
        let step = solve(&normal, &right);
        let largest = step.iter().fold(0.0_f64, |most, x| most.max(x.abs()));
        let factor = if largest > STRIDE { STRIDE / largest } else { 1.0 };
        now.0.iter_mut().zip(&step).for_each(|(x, change)| *x += change * factor);
        if largest < SETTLED {
            break;
        }
    }
    let mut errors = [0.0; COUNT];
    for (k, error) in errors.iter_mut().enumerate() {
        let unit: Vec<f64> = (0..COUNT).map(|j| if j == k { 1.0 } else { 0.0 }).collect();
        *error = solve(&normal, &unit)[k].max(0.0).sqrt();
    }
    Fit { coefficients: now, errors }
}

/// Solves a symmetric positive system (Cholesky); the prior's precision on the diagonal makes it positive.
fn solve(matrix: &[Vec<f64>], right: &[f64]) -> Vec<f64> {
    let size = right.len();
    let mut lower = vec![vec![0.0; size]; size];
    for j in 0..size {
        for k in 0..=j {
            let known: f64 = (0..k).map(|i| lower[j][i] * lower[k][i]).sum();
            lower[j][k] = if j == k {
                (matrix[j][j] - known).max(f64::MIN_POSITIVE).sqrt()
            } else {
                (matrix[j][k] - known) / lower[k][k]
            };
        }
    }
    let mut half = vec![0.0; size];
    for j in 0..size {
        let known: f64 = (0..j).map(|i| lower[j][i] * half[i]).sum();
        half[j] = (right[j] - known) / lower[j][j];
    }
    let mut all = vec![0.0; size];
    for j in (0..size).rev() {
        let known: f64 = (j + 1..size).map(|i| lower[i][j] * all[i]).sum();
        all[j] = (half[j] - known) / lower[j][j];
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_system_is_solved() {
        let solved = solve(&[vec![4.0, 2.0], vec![2.0, 3.0]], &[10.0, 8.0]);
        assert!((solved[0] - 1.75).abs() < 1e-12 && (solved[1] - 1.5).abs() < 1e-12, "{solved:?}");
    }
}
