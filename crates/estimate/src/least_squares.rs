//! Values that fit residuals best: least squares (Gauss and Newton) with a prior on each value, and less weight to residuals that are far
//! out.
//!
//! Invariant: the same residuals give the same values.

use tokrate_stats::least_squares;

/// Steps of the fit; it settles in about ten.
const STEPS: usize = 25;
/// A step that changes each value by less than this is the last.
const SETTLED: f64 = 1e-4;
/// The largest change of a value in one step.
const STRIDE: f64 = 0.4;

/// Fitted values and their standard errors.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Fitted<const K: usize> {
    /// The values.
    pub values: [f64; K],
    /// Their standard errors.
    pub errors: [f64; K],
}

/// Fits values with a prior mean and spread each. `residuals` gives measured less predicted, and the scatter expected of it, for
/// given values, always as many; derivatives are taken over a change of `nudge`. Weights are Cauchy's, 1/(1 + (r/2σ)²).
pub(crate) fn fit<const K: usize>(
    prior: &[f64; K],
    spread: &[f64; K],
    nudge: f64,
    residuals: impl Fn(&[f64; K]) -> Vec<(f64, f64)>,
) -> Fitted<K> {
    let mut fitted = Fitted { values: *prior, errors: *spread };
    for _ in 0..STEPS {
        let now = fitted.values;
        let base = residuals(&now);
        let mut columns: [Vec<f64>; K] = std::array::from_fn(|k| {
            let mut other = now;
            other[k] += nudge;
            residuals(&other).iter().zip(&base).map(|(a, b)| (b.0 - a.0) / nudge).collect()
        });
        let mut target: Vec<f64> = base.iter().map(|(r, _)| *r).collect();
        let mut weights: Vec<f64> = base.iter().map(|(r, s)| 1.0 / (s * s * (1.0 + (r / (2.0 * s)).powi(2)))).collect();
        // The prior is one more row for each value.
        for pulled in 0..K {
            columns.iter_mut().enumerate().for_each(|(k, column)| column.push(if k == pulled { 1.0 } else { 0.0 }));
            target.push(prior[pulled] - now[pulled]);
            weights.push(spread[pulled].powi(-2));
        }
        let Some(step) = least_squares(&columns, &target, &weights) else { break };
        fitted.errors = step.errors;
        let largest = step.coefficients.iter().fold(0.0_f64, |most, x| most.max(x.abs()));
        let factor = if largest > STRIDE { STRIDE / largest } else { 1.0 };
        fitted.values.iter_mut().zip(step.coefficients).for_each(|(x, change)| *x += change * factor);
        if largest < SETTLED {
            break;
        }
    }
    fitted
}
