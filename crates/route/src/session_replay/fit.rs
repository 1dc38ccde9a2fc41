//! What a lane charges for new, cached and output tokens, and how long a new token takes there, by least squares over its calls.

use super::SessionCall;

/// Costs follow prices if they are within this of them (root mean square, as a share).
const MAX_PRICE_ERROR: f64 = 0.05;
/// Fewer calls are too few for a fit.
const MIN_CALLS: usize = 8;

/// What was found of a lane.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct LaneFit {
    /// USD of a new, a cached and an output token.
    prices: Option<[f64; 3]>,
    /// Seconds of a first token without new tokens, and of each.
    times: Option<[f64; 2]>,
}

impl LaneFit {
    pub fn of(calls: &[&SessionCall]) -> LaneFit {
        let costs: Vec<([f64; 3], f64)> = calls
            .iter()
            .filter_map(|call| {
                let cached = call.cached_tokens.min(call.prompt_tokens);
                Some(([(call.prompt_tokens - cached) as f64, cached as f64, call.output_tokens as f64], call.usd?))
            })
            .collect();
        let times: Vec<([f64; 2], f64)> = calls
            .iter()
            .filter_map(|call| {
                let new = call.prompt_tokens.saturating_sub(call.cached_tokens) as f64;
                Some(([1.0, new], call.ttft?.as_secs_f64()))
            })
            .collect();
        let is_price = |prices: &[f64; 3]| {
            let errors: f64 = costs.iter().map(|(tokens, usd)| (usd - dot(prices, tokens)).powi(2)).sum();
            let spent: f64 = costs.iter().map(|(_, usd)| usd * usd).sum();
            prices.iter().all(|price| *price >= 0.0) && errors.sqrt() <= MAX_PRICE_ERROR * spent.sqrt()
        };
        LaneFit {
            prices: least_squares(&costs).filter(is_price),
            times: least_squares(&times).map(|[base, slope]| [base, slope.max(0.0)]),
        }
    }

    pub fn usd(&self, new: f64, cached: f64, output: f64) -> Option<f64> {
        self.prices.map(|prices| dot(&prices, &[new, cached, output]))
    }

    pub fn ttft(&self, new: f64) -> Option<f64> {
        self.times.map(|[base, slope]| (base + slope * new).max(0.0))
    }
}

fn dot<const N: usize>(one: &[f64; N], other: &[f64; N]) -> f64 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}

/// Solves the normal equations; `None` with too few rows, or where the columns cannot be told apart.
fn least_squares<const N: usize>(rows: &[([f64; N], f64)]) -> Option<[f64; N]> {
    if rows.len() < MIN_CALLS {
        return None;
    }
    let (mut matrix, mut right) = ([[0.0; N]; N], [0.0; N]);
    for (x, y) in rows {
        for row in 0..N {
            right[row] += x[row] * y;
            for column in 0..N {
                matrix[row][column] += x[row] * x[column];
            }
        }
    }
    // A pivot that is small beside what the column began with is rounding: the column follows from the others.
    let scale: [f64; N] = std::array::from_fn(|place| matrix[place][place]);
    for pivot in 0..N {
        if matrix[pivot][pivot] <= scale[pivot] * 1e-9 || scale[pivot] <= 0.0 {
            return None;
        }
        for row in pivot + 1..N {
            let factor = matrix[row][pivot] / matrix[pivot][pivot];
            let above = matrix[pivot];
            matrix[row].iter_mut().zip(above).for_each(|(value, above)| *value -= factor * above);
            right[row] -= factor * right[pivot];
        }
    }
    let mut solved = [0.0; N];
    for row in (0..N).rev() {
        let known: f64 = (row + 1..N).map(|column| matrix[row][column] * solved[column]).sum();
        solved[row] = (right[row] - known) / matrix[row][row];
    }
    Some(solved)
}
