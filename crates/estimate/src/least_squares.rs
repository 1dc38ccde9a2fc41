//! Values that fit residuals best: least squares (Gauss and Newton) with a prior on each value, and less weight to residuals that are far
//! out.
//!
//! Invariant: the same residuals give the same values.

/// Steps of the fit; it settles in about ten.
const STEPS: usize = 25;
/// A step that changes each value by less than this is the last.
const SETTLED: f64 = 1e-4;
/// The largest change of a value in one step.
const STRIDE: f64 = 0.4;

/// Fitted values and their standard errors.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Fitted {
    /// The values.
    pub values: Vec<f64>,
    /// Their standard errors.
    pub errors: Vec<f64>,
}

/// Fits values with a prior mean and spread each. `residuals` gives measured less predicted, and the scatter expected of it, for
/// given values, always as many; derivatives are taken over a change of `nudge`. Weights are Cauchy's, 1/(1 + (r/2σ)²).
pub(crate) fn fit(prior: &[f64], spread: &[f64], nudge: f64, residuals: impl Fn(&[f64]) -> Vec<(f64, f64)>) -> Fitted {
    let count = prior.len();
    let mut now = prior.to_vec();
    let mut normal = vec![vec![0.0; count]; count];
    for _ in 0..STEPS {
        let base = residuals(&now);
        let slopes: Vec<Vec<f64>> = (0..count)
            .map(|k| {
                let mut other = now.clone();
                other[k] += nudge;
                residuals(&other).iter().zip(&base).map(|(a, b)| (b.0 - a.0) / nudge).collect()
            })
            .collect();
        let weights: Vec<f64> = base.iter().map(|(r, s)| 1.0 / (s * s * (1.0 + (r / (2.0 * s)).powi(2)))).collect();
        let mut right = vec![0.0; count];
        for j in 0..count {
            for k in 0..=j {
                let sum = weights.iter().zip(slopes[j].iter().zip(&slopes[k])).map(|(w, (a, b))| w * a * b).sum();
                (normal[j][k], normal[k][j]) = (sum, sum);
            }
            let precision = spread[j].powi(-2);
            normal[j][j] += precision;
            let pull: f64 = weights.iter().zip(slopes[j].iter().zip(&base)).map(|(w, (a, b))| w * a * b.0).sum();
            right[j] = pull - precision * (now[j] - prior[j]);
        }
        let step = solve(&normal, &right);
        let largest = step.iter().fold(0.0_f64, |most, x| most.max(x.abs()));
        let factor = if largest > STRIDE { STRIDE / largest } else { 1.0 };
        now.iter_mut().zip(&step).for_each(|(x, change)| *x += change * factor);
        if largest < SETTLED {
            break;
        }
    }
    let error = |k: usize| {
        let unit: Vec<f64> = (0..count).map(|j| if j == k { 1.0 } else { 0.0 }).collect();
        solve(&normal, &unit)[k].max(0.0).sqrt()
    };
    Fitted { errors: (0..count).map(error).collect(), values: now }
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
