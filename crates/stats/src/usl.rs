//! The Universal Scalability Law and its least-squares fit.
//!
//! Invariant: 0 <= alpha <= 1, beta >= 0, lambda > 0, all finite; the fit is the minimum of the stated sum of squares.
//!
//! Gunther (2007), Guerrilla Capacity Planning: X(n) = lambda n / (1 + alpha (n - 1) + beta n (n - 1)). lambda is the
//! throughput of a single request, alpha the contention, beta the coherency cost. Errors are relative: the fit minimises
//! the weighted sum of squares of ln(measured) - ln(X(n)), so that lambda has a closed form and two parameters remain.
//! Loads below 1 count as 1.

use crate::linear::solve;
use serde::{Deserialize, Serialize};

/// The three parameters of the law.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UslParameters {
    /// Throughput at concurrency 1, in tok/s.
    pub lambda: f64,
    /// Contention: the share of the work that cannot be done side by side, 0 to 1.
    pub alpha: f64,
    /// Coherency: the cost of each pair of requests, from 0.
    pub beta: f64,
}

/// X(n): throughput in tok/s at concurrency `n`; 0 for a concurrency of 0.
pub fn usl(n: f64, parameters: &UslParameters) -> f64 {
    let UslParameters { lambda, alpha, beta } = *parameters;
    lambda * n / (1.0 + alpha * (n - 1.0) + beta * n * (n - 1.0))
}

impl UslParameters {
    /// The concurrency of the greatest throughput, sqrt((1 - alpha) / beta), but at least 1; `None` when throughput
    /// never falls (beta = 0).
    pub fn peak(&self) -> Option<f64> {
        (self.beta > 0.0).then(|| ((1.0 - self.alpha) / self.beta).sqrt().max(1.0)).filter(|n| n.is_finite())
    }

    /// The throughput that no concurrency exceeds, in tok/s: that of the peak, or lambda / alpha without a peak;
    /// `None` when throughput grows for ever.
    pub fn ceiling(&self) -> Option<f64> {
        match self.peak() {
            Some(n) => Some(usl(n, self)),
            None => (self.alpha > 0.0).then(|| self.lambda / self.alpha),
        }
        .filter(|x| x.is_finite())
    }

    /// The saturation point: the concurrency at which perfect scaling would reach the ceiling (the asymptotes of
    /// throughput cross; Kleinrock 1976). It is where a two-line fit has its break, always at or before the peak.
    pub fn saturation(&self) -> Option<f64> {
        self.ceiling().map(|ceiling| ceiling / self.lambda)
    }
}

/// One observation: concurrency, throughput (both above 0) and weight.
#[derive(Clone, Copy, Debug)]
pub struct Observation {
    /// The load.
    pub n: f64,
    /// What was measured there, above 0.
    pub throughput: f64,
    /// How much its square of errors counts.
    pub weight: f64,
}

/// The sum of squares that a fit minimises, with the best lambda for given alpha and beta.
pub fn loss(observations: &[Observation], parameters: &UslParameters) -> f64 {
    let residual = |o: &Observation| o.throughput.ln() - usl(o.n.max(1.0), parameters).ln();
    observations.iter().map(|o| o.weight * residual(o).powi(2)).sum()
}

/// Which parameters besides lambda are fitted; the others are 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Form {
    /// Perfect scaling: lambda n.
    Proportional,
    /// Contention alone (Amdahl 1967).
    Contention,
    /// The whole law.
    Whole,
}

impl Form {
    /// How many parameters are fitted, lambda included.
    pub const fn parameters(self) -> usize {
        match self {
            Form::Proportional => 1,
            Form::Contention => 2,
            Form::Whole => 3,
        }
    }
}

/// The least-squares fit; `None` below as many distinct loads as there are parameters. Starts from the linear least-squares
/// solution of n/X, which is quadratic in n, and from fixed points, so that no local minimum passes for the global one.
pub fn fit(observations: &[Observation], form: Form) -> Option<UslParameters> {
    fit_from(observations, form, &[(0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (10.0, 10.0), (0.0, 1000.0)])
}

/// The same with the given starts, each alpha * N and beta * N^2 for the greatest load N, besides the linear one.
pub fn fit_from(observations: &[Observation], form: Form, starts: &[(f64, f64)]) -> Option<UslParameters> {
    if form == Form::Proportional {
        return proportional(observations);
    }
    let problem = Problem::of(observations, form)?;
    let linear = problem.linear_start();
    let solved = starts.iter().copied().chain(linear).map(|start| problem.descend(start));
    let ((a, b), least) = solved.min_by(|a, b| a.1.total_cmp(&b.1))?;
    // A negligible parameter is set to 0: a peak at n = 1e9 is no peak.
    let snap = |parameter: f64| if parameter < 1e-9 { 0.0 } else { parameter };
    let best = (snap(a), snap(b));
    let lambda = problem.log_lambda(best).exp();
    let parameters = UslParameters { lambda, alpha: best.0 / problem.top, beta: best.1 / problem.top.powi(2) };
    (lambda.is_finite() && lambda > 0.0 && least.is_finite()).then_some(parameters)
}

/// The weighted geometric mean of throughput per unit of load; also for loads below 1, which rates may be.
fn proportional(observations: &[Observation]) -> Option<UslParameters> {
    let total: f64 = observations.iter().map(|o| o.weight).sum();
    let sum: f64 = observations.iter().map(|o| o.weight * (o.throughput / o.n).ln()).sum();
    let lambda = (sum / total).exp();
    (lambda.is_finite() && lambda > 0.0).then_some(UslParameters { lambda, alpha: 0.0, beta: 0.0 })
}

/// The fit in the scaled parameters a = alpha N and b = beta N^2: D = 1 + a u + b v.
struct Problem {
    form: Form,
    top: f64,
    /// (n - 1) / N, n (n - 1) / N^2, ln(X / n), weight.
    rows: Vec<[f64; 4]>,
    total: f64,
}

impl Problem {
    fn of(observations: &[Observation], form: Form) -> Option<Problem> {
        let mut loads: Vec<f64> = observations.iter().map(|o| o.n.max(1.0)).collect();
        loads.sort_unstable_by(f64::total_cmp);
        loads.dedup();
        if loads.len() < form.parameters() {
            return None;
        }
        let top = *loads.last()?;
        let row = |o: &Observation| {
            let n = o.n.max(1.0);
            [(n - 1.0) / top, n / top * (n - 1.0) / top, (o.throughput / n).ln(), o.weight]
        };
        let rows: Vec<[f64; 4]> = observations.iter().map(row).collect();
        let total = rows.iter().map(|row| row[3]).sum();
        rows.iter().flatten().all(|x| x.is_finite()).then_some(Problem { form, top, rows, total })
    }

    fn linear_start(&self) -> Option<(f64, f64)> {
        if self.form != Form::Whole {
            return None;
        }
        let each = |value: &dyn Fn(&[f64; 4]) -> f64| self.rows.iter().map(value).collect::<Vec<f64>>();
        let columns = [each(&|_| 1.0), each(&|row| row[0]), each(&|row| row[1])];
        // n/X spans decades; weighting by (X/n)^2 makes its errors relative, as in the fit itself.
        let max_log_ratio = self.rows.iter().fold(f64::NEG_INFINITY, |max, row| max.max(row[2]));
        let target = each(&|row| (max_log_ratio - row[2]).exp());
        let weights = each(&|row| row[3] * (2.0 * (row[2] - max_log_ratio)).exp());
        let [one, a, b] = solve(&columns, &target, &weights)?;
        (one > 0.0).then(|| self.within((a / one, b / one)))
    }

    fn within(&self, (a, b): (f64, f64)) -> (f64, f64) {
        match self.form {
            Form::Proportional => (0.0, 0.0),
            Form::Contention => (a.clamp(0.0, self.top), 0.0),
            Form::Whole => (a.clamp(0.0, self.top), b.clamp(0.0, 1e18)),
        }
    }

    fn log_lambda(&self, (a, b): (f64, f64)) -> f64 {
        self.rows.iter().map(|[u, v, y, w]| w * (y + (1.0 + a * u + b * v).ln())).sum::<f64>() / self.total
    }

    fn loss(&self, at: (f64, f64)) -> f64 {
        let mu = self.log_lambda(at);
        self.rows.iter().map(|[u, v, y, w]| w * (y + (1.0 + at.0 * u + at.1 * v).ln() - mu).powi(2)).sum()
    }

    /// Gauss-Newton with Levenberg's damping; a parameter at a bound that wants to leave its range stays there.
    fn descend(&self, start: (f64, f64)) -> ((f64, f64), f64) {
        let mut at = self.within(start);
        let mut loss = self.loss(at);
        let mut damping = 1e-3;
        for _ in 0..200 {
            let Some(step) = self.step(at, damping) else { break };
            let next = self.within((at.0 + step.0, at.1 + step.1));
            let found = self.loss(next);
            if found < loss {
                let moved = ((next.0 - at.0) / (1.0 + at.0)).abs().max(((next.1 - at.1) / (1.0 + at.1)).abs());
                (at, loss, damping) = (next, found, (damping * 0.2).max(1e-14));
                if moved < 1e-13 {
                    break;
                }
            } else {
                damping *= 5.0;
                if damping > 1e14 {
                    break;
                }
            }
        }
        (at, loss)
    }

    fn step(&self, at: (f64, f64), damping: f64) -> Option<(f64, f64)> {
        let mu = self.log_lambda(at);
        let slopes = |[u, v, _, _]: &[f64; 4]| {
            let d = 1.0 + at.0 * u + at.1 * v;
            (u / d, v / d)
        };
        let mean = self.rows.iter().fold((0.0, 0.0), |sum, row| {
            let (du, dv) = slopes(row);
            (sum.0 + row[3] * du / self.total, sum.1 + row[3] * dv / self.total)
        });
        let (mut aa, mut ab, mut bb, mut ga, mut gb) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for row in &self.rows {
            let residual = row[2] + (1.0 + at.0 * row[0] + at.1 * row[1]).ln() - mu;
            let (du, dv) = slopes(row);
            let (du, dv, w) = (du - mean.0, dv - mean.1, row[3]);
            aa += w * du * du;
            ab += w * du * dv;
            bb += w * dv * dv;
            ga += w * residual * du;
            gb += w * residual * dv;
        }
        let fixed_a = self.form == Form::Proportional || (at.0 <= 0.0 && ga >= 0.0) || (at.0 >= self.top && ga <= 0.0);
        let fixed_b = self.form != Form::Whole || (at.1 <= 0.0 && gb >= 0.0);
        let (da, db) = (aa * (1.0 + damping), bb * (1.0 + damping));
        let determinant = da * db - ab * ab;
        let step = match (fixed_a, fixed_b) {
            (true, true) => return None,
            (true, false) => (0.0, -gb / db),
            (false, true) => (-ga / da, 0.0),
            (false, false) => ((ab * gb - db * ga) / determinant, (ab * ga - da * gb) / determinant),
        };
        (step.0.is_finite() && step.1.is_finite()).then_some(step)
    }
}

#[cfg(test)]
mod tests;
