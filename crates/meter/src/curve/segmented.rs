//! Two straight lines that meet: where throughput bends, and whether it does.
//!
//! It refuses to know any law of scaling, so that it can contradict one. Invariant: the break found is the least
//! squares one over all positions, and a break is called supported only after a test against one straight line.
//!
//! The least-squares break lies either at a load that was run or where two separately fitted lines cross between
//! two neighbouring loads (Hudson 1966, "Fitting segmented curves whose join points have to be estimated"), so trying
//! these is an exact search. The usual F distribution does not hold for a break that was searched for; but the
//! statistic depends on the noise only through its shape, so its distribution under one straight line with normal
//! noise is drawn for the very loads that were run.

use super::linear::solve;
use serde::{Deserialize, Serialize};
use tokrate_core::Rng;

/// Straight lines drawn for the distribution of the test statistic.
const DRAWS: usize = 499;

/// A break is supported when one straight line explains the data with at most this probability.
pub const BREAK_SIGNIFICANCE: f64 = 0.05;

/// A break that could not be tested is used only if the second line is at most this steep, relative to the first.
pub const UNTESTED_SLOPE_RATIO: f64 = 0.5;

/// Whether the data support a break.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum BreakStatus {
    /// Fewer than four distinct loads: no fit.
    NotEnoughLevels,
    /// The test prefers two lines, and the second is less steep.
    Supported,
    /// One straight line explains the data as well.
    NotSupported,
    /// Throughput bends upwards: no saturation.
    BendsUpward,
    /// Four loads without a known error: the lines pass through every point, which tests nothing.
    Untested,
}

/// The two-line fit of throughput against load.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SegmentedFit {
    /// Whether the break is supported.
    pub status: BreakStatus,
    /// The load at which the lines meet.
    pub break_at: Option<f64>,
    /// Throughput there, in tok/s.
    pub break_throughput: Option<f64>,
    /// The loads that were run next to the break, at or below and at or above it: the resolution of the estimate.
    pub between: Option<[f64; 2]>,
    /// Steepness before the break, in tok/s per unit of load.
    pub slope_before: Option<f64>,
    /// Steepness after it.
    pub slope_after: Option<f64>,
    /// Probability of a bend this clear when there is none; absent when it could not be tested.
    pub p_value: Option<f64>,
}

/// One throughput at one load; `deviation` is its standard error, if known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub(super) load: f64,
    pub(super) throughput: f64,
    pub(super) deviation: Option<f64>,
}

/// The two lines with the least weighted sum of squares.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lines {
    pub(super) at: f64,
    pub(super) level: f64,
    pub(super) before: f64,
    pub(super) after: f64,
    pub(super) loss: f64,
}

impl SegmentedFit {
    fn without(status: BreakStatus) -> SegmentedFit {
        SegmentedFit {
            status,
            break_at: None,
            break_throughput: None,
            between: None,
            slope_before: None,
            slope_after: None,
            p_value: None,
        }
    }

    /// The break, if it may be used: supported, or untestable for want of loads but too sharp to pass over.
    pub fn usable_break(&self) -> Option<f64> {
        let (before, after) = (self.slope_before?, self.slope_after?);
        let usable = match self.status {
            BreakStatus::Supported => true,
            BreakStatus::Untested => after <= before * UNTESTED_SLOPE_RATIO,
            _ => false,
        };
        self.break_at.filter(|_| usable)
    }
}

/// Fits and tests. Points may come in any order; loads and throughputs are finite.
pub(super) fn fit(points: &[Point], rng: &Rng) -> SegmentedFit {
    let mut points = points.to_vec();
    points.sort_by(|a, b| a.load.total_cmp(&b.load));
    let loads: Vec<f64> = points.iter().map(|point| point.load).collect();
    let values: Vec<f64> = points.iter().map(|point| point.throughput).collect();
    let mut distinct = loads.clone();
    distinct.dedup();
    if distinct.len() < 4 {
        return SegmentedFit::without(BreakStatus::NotEnoughLevels);
    }
    let known: Option<Vec<f64>> = points.iter().map(|point| point.deviation).collect();
    let weights = weights_of(known.as_deref(), &values);
    let (Some(line), Some(lines)) = (line_loss(&loads, &values, &weights), two_lines(&loads, &values, &weights)) else {
        return SegmentedFit::without(BreakStatus::NotSupported);
    };
    let test = Test { loads: &loads, weights: &weights, noise_known: known.is_some() };
    // Rounding leaves about 1e-16 of each value behind; smaller losses are none.
    let floor = values.iter().zip(&weights).map(|(y, w)| w * y * y).sum::<f64>() * 1e-24;
    let p_value = if line <= floor { Some(1.0) } else { test.p_value(line, lines.loss.max(floor), rng) };
    let status = match p_value {
        None if lines.after < lines.before => BreakStatus::Untested,
        Some(p) if p > BREAK_SIGNIFICANCE => BreakStatus::NotSupported,
        _ if lines.after >= lines.before => BreakStatus::BendsUpward,
        _ => BreakStatus::Supported,
    };
    let upper = distinct.partition_point(|&load| load < lines.at).min(distinct.len() - 1);
    let exactly = distinct[upper] == lines.at;
    let lower = if exactly { upper } else { upper.saturating_sub(1) };
    SegmentedFit {
        status,
        break_at: Some(lines.at),
        break_throughput: Some(lines.level),
        between: Some([distinct[lower], distinct[upper]]),
        slope_before: Some(lines.before),
        slope_after: Some(lines.after),
        p_value,
    }
}

/// Weights 1 / deviation^2, no deviation taken as below 0.1 % of the value or of a thousandth of the greatest value;
/// equal weights when they are not all known.
fn weights_of(known: Option<&[f64]>, values: &[f64]) -> Vec<f64> {
    let greatest = values.iter().fold(0.0_f64, |most, y| most.max(y.abs()));
    match known {
        Some(deviations) if greatest > 0.0 => {
            let weight = |(d, y): (&f64, &f64)| d.max(y.abs() * 1e-3).max(greatest * 1e-6).powi(-2);
            deviations.iter().zip(values).map(weight).collect()
        }
        _ => vec![1.0; values.len()],
    }
}

struct Test<'a> {
    loads: &'a [f64],
    weights: &'a [f64],
    noise_known: bool,
}

impl Test<'_> {
    fn p_value(&self, line: f64, lines: f64, rng: &Rng) -> Option<f64> {
        if !self.noise_known && self.loads.len() < 5 {
            return None;
        }
        let seen = self.statistic(line, lines);
        let mut rng = rng.child("break");
        let mut as_clear = 0;
        for _ in 0..DRAWS {
            let noise: Vec<f64> = self.weights.iter().map(|w| rng.normal() / w.sqrt()).collect();
            let line = line_loss(self.loads, &noise, self.weights);
            let lines = two_lines(self.loads, &noise, self.weights);
            let drawn = line.zip(lines).map(|(line, lines)| self.statistic(line, lines.loss));
            as_clear += usize::from(drawn.is_none_or(|drawn| drawn >= seen));
        }
        Some((as_clear + 1) as f64 / (DRAWS + 1) as f64)
    }

    /// The loss that the break saves: relative to the loss that remains, or to the known noise if that is larger.
    /// A level's own interval knows nothing of what differs from level to level, so it is not trusted alone.
    fn statistic(&self, line: f64, lines: f64) -> f64 {
        let spare = self.loads.len().saturating_sub(4) as f64;
        let remains = if spare > 0.0 { lines / spare } else { 0.0 };
        let known = if self.noise_known { 1.0 } else { f64::MIN_POSITIVE };
        (line - lines).max(0.0) / remains.max(known)
    }
}

fn line_loss(loads: &[f64], values: &[f64], weights: &[f64]) -> Option<f64> {
    let top = loads.last()?.abs().max(f64::MIN_POSITIVE);
    let columns = [vec![1.0; loads.len()], loads.iter().map(|x| x / top).collect()];
    let [base, slope] = solve(&columns, values, weights)?;
    Some(loss(loads, values, weights, |x| base + slope * x / top))
}

fn loss(loads: &[f64], values: &[f64], weights: &[f64], line: impl Fn(f64) -> f64) -> f64 {
    loads.iter().zip(values).zip(weights).map(|((x, y), w)| w * (y - line(*x)).powi(2)).sum()
}

/// The best two lines over every position of the break; loads rising, at least three of them distinct.
pub(super) fn two_lines(loads: &[f64], values: &[f64], weights: &[f64]) -> Option<Lines> {
    let mut distinct = loads.to_vec();
    distinct.dedup();
    let inner = distinct.get(1..distinct.len().checked_sub(1)?)?;
    let crossings = inner.windows(2).filter_map(|gap| {
        let at = crossing(loads, values, weights, gap[0])?;
        (gap[0] < at && at < gap[1]).then_some(at)
    });
    let best = inner.iter().copied().chain(crossings).filter_map(|at| joined(loads, values, weights, at));
    best.min_by(|a, b| a.loss.total_cmp(&b.loss))
}

/// The best two lines that meet at a load.
pub(super) fn joined(loads: &[f64], values: &[f64], weights: &[f64], at: f64) -> Option<Lines> {
    let top = loads.last()?.abs().max(f64::MIN_POSITIVE);
    let part = |keep: fn(f64) -> f64| loads.iter().map(|x| keep((x - at) / top)).collect::<Vec<f64>>();
    let columns = [vec![1.0; loads.len()], part(|x| x.min(0.0)), part(|x| x.max(0.0))];
    let [level, before, after] = solve(&columns, values, weights)?;
    let line = |x: f64| level + (x - at) / top * if x < at { before } else { after };
    let loss = loss(loads, values, weights, line);
    Some(Lines { at, level, before: before / top, after: after / top, loss }).filter(|lines| lines.loss.is_finite())
}

/// Where the lines fitted to the loads up to `last` and to those beyond it cross.
fn crossing(loads: &[f64], values: &[f64], weights: &[f64], last: f64) -> Option<f64> {
    let split = loads.partition_point(|&x| x <= last);
    let line = |range: std::ops::Range<usize>| {
        let columns = [vec![1.0; range.len()], loads[range.clone()].iter().map(|x| x - last).collect()];
        solve(&columns, &values[range.clone()], &weights[range])
    };
    let [base, slope] = line(0..split)?;
    let [next_base, next_slope] = line(split..loads.len())?;
    Some(last + (next_base - base) / (slope - next_slope)).filter(|at| at.is_finite())
}
