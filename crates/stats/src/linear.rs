//! Weighted linear least squares with a few columns.
//!
//! Invariant: the coefficients are finite, or there are none.

/// A weighted least squares fit.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LeastSquares<const K: usize> {
    /// The coefficients of the columns.
    pub coefficients: [f64; K],
    /// Their standard errors, if the weights are the inverse variances of the target.
    pub errors: [f64; K],
}

/// The coefficients that minimise the weighted sum of squares of `target - columns * coefficients`, by orthogonalising
/// the columns twice (modified Gram and Schmidt). Columns and target have one entry per observation, weights too.
/// `None` when the columns depend on one another (to 1e-10) or something is not finite.
pub fn solve<const K: usize>(columns: &[Vec<f64>; K], target: &[f64], weights: &[f64]) -> Option<[f64; K]> {
    least_squares(columns, target, weights).map(|fit| fit.coefficients)
}

/// The same with standard errors.
pub fn least_squares<const K: usize>(
    columns: &[Vec<f64>; K],
    target: &[f64],
    weights: &[f64],
) -> Option<LeastSquares<K>> {
    let weigh = |values: &[f64]| -> Vec<f64> { values.iter().zip(weights).map(|(x, w)| x * w.sqrt()).collect() };
    let mut basis: Vec<Vec<f64>> = columns.iter().map(|column| weigh(column)).collect();
    let mut rest = weigh(target);
    let mut upper = [[0.0; K]; K];
    let mut right = [0.0; K];
    for k in 0..K {
        let before = norm(&basis[k]);
        for _ in 0..2 {
            for j in 0..k {
                let share = dot(&basis[j], &basis[k]);
                upper[j][k] += share;
                let (done, open) = basis.split_at_mut(k);
                subtract(&mut open[0], share, &done[j]);
            }
        }
        let length = norm(&basis[k]);
        if !(length.is_finite() && length > before * 1e-10) {
            return None;
        }
        upper[k][k] = length;
        basis[k].iter_mut().for_each(|x| *x /= length);
        right[k] = dot(&basis[k], &rest);
        let share = right[k];
        subtract(&mut rest, share, &basis[k]);
    }
    let coefficients = back_substitute(&upper, right);
    // The covariance is the inverse of `upper' * upper`.
    let mut variances = [0.0; K];
    for j in 0..K {
        let unit = std::array::from_fn(|k| if k == j { 1.0 } else { 0.0 });
        let inverse = back_substitute(&upper, unit);
        variances.iter_mut().zip(inverse).for_each(|(sum, x)| *sum += x * x);
    }
    let errors = variances.map(f64::sqrt);
    coefficients.iter().all(|x| x.is_finite()).then_some(LeastSquares { coefficients, errors })
}

/// Solves a triangular system.
fn back_substitute<const K: usize>(upper: &[[f64; K]; K], right: [f64; K]) -> [f64; K] {
    let mut solution = [0.0; K];
    for k in (0..K).rev() {
        let known: f64 = (k + 1..K).map(|j| upper[k][j] * solution[j]).sum();
        solution[k] = (right[k] - known) / upper[k][k];
    }
    solution
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

fn norm(a: &[f64]) -> f64 {
    dot(a, a).sqrt()
}

fn subtract(from: &mut [f64], times: f64, what: &[f64]) {
    from.iter_mut().zip(what).for_each(|(x, y)| *x -= times * y);
}
