//! What a series usually does: a level, a daily cycle and a spread, fitted so that single bad values do not count.
//!
//! Invariant: scores of the points that a baseline was fitted to have mean 0 within their error and standard deviation 1.

use crate::series::{DAY_MS, Point};
use std::collections::BTreeMap;
use tokrate_stats::midpoint_median;

/// A level and two harmonics of a day, each with sine and cosine.
const TERMS: usize = 5;
/// How far the daily cycle may swing, as a standard deviation of each of its terms (natural logarithm). Keeps few points
/// from being explained by a cycle that they cannot show; with a hundred points it no longer matters.
const CYCLE_PRIOR: f64 = 0.3;
/// Residuals beyond this many standard deviations count as this far and no further (Huber 1964), so that one bad value
/// moves nothing.
const CLIP: f64 = 2.0;
/// Values are taken for those of a normal distribution, but for this share of odd ones, whose distribution is so many times as wide:
/// the mixture of Tukey (1960). What is hardly of the first says little of the level.
const ODD_SHARE: f64 = 0.03;
const ODD_WIDTH: f64 = 5.0;
/// Where fewer of the points belong to the first, they are no such mixture, and the spread is that of all.
const LEAST_TRUSTED: f64 = 0.9;
/// Fewest points of a band that tell what is usual in it.
const LEAST_OF_BAND: usize = 20;
/// Rounds of reweighting; the fit no longer moves after that many.
const ROUNDS: usize = 8;
/// The median absolute deviation of a normal distribution, as a share of its standard deviation.
const MAD_OF_NORMAL: f64 = 0.674_489_75;
/// The least spread that is believed (natural logarithm): values that are rounded can repeat exactly.
const LEAST_SPREAD: f64 = 1e-3;
/// Days of a reference from which on days are compared with one another.
const DAYS_COMPARED: usize = 7;

/// How much is made of a point's distance from what was expected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Score {
    /// Less the further it is beyond what is usual, as it is the likelier an odd one: sees small shifts best, and large ones not at all.
    Small,
    /// Up to [`CLIP`] and no further: a large shift is as many such scores.
    Large,
}

/// What is expected of a series at a time of day.
#[derive(Clone, PartialEq, Debug)]
pub struct Baseline {
    terms: [f64; TERMS],
    /// Bands that it knows, the commonest first, and how far their level is from that of the commonest one (natural logarithm).
    bands: Vec<(u8, f64)>,
    /// Standard deviation of a point around the expectation (natural logarithm).
    spread: f64,
    /// Standard deviations of scores, in spreads.
    small_spread: f64,
    large_spread: f64,
    /// Variance of a mean of many points, over what it would be if they were independent.
    inflation: f64,
    /// Points that the level rests on, and points that the cycle rests on.
    level_points: usize,
    cycle_points: usize,
}

impl Baseline {
    /// The baseline of some points, and those of them that it was fitted to: the ones of bands that have enough. `None` below ten.
    pub fn fit(points: &[Point]) -> Option<(Baseline, Vec<Point>)> {
        let bands = levels_of_bands(points);
        let is_known = |point: &Point| bands.iter().any(|(band, _)| *band == point.band);
        let points: Vec<Point> = points.iter().copied().filter(is_known).collect();
        if points.len() < 10 {
            return None;
        }
        let mut baseline = Baseline {
            terms: [0.0; TERMS],
            bands,
            spread: 0.0,
            small_spread: 1.0,
            large_spread: 1.0,
            inflation: 1.0,
            level_points: points.len(),
            cycle_points: points.len(),
        };
        baseline.terms[0] = midpoint_median(points.iter().map(|point| point.ln - baseline.of_band(point)).collect());
        baseline.spread = baseline.spread_of(&points);
        for _ in 0..ROUNDS {
            baseline.refit_bands(&points);
            baseline.terms = baseline.refit(&points)?;
            baseline.spread = baseline.spread_of(&points);
        }
        baseline.spread = baseline.trusted_spread(&points).unwrap_or(baseline.spread);
        baseline.level_points = points.len() / baseline.bands.len();
        // The level and the cycle took some of the variance with them.
        let freedom = (points.len() - TERMS) as f64;
        let root = |square: f64| (square / freedom).sqrt().max(LEAST_SPREAD);
        baseline.small_spread = root(points.iter().map(|point| baseline.trusted(point).powi(2)).sum());
        baseline.large_spread = root(points.iter().map(|point| baseline.clipped(point).powi(2)).sum());
        baseline.inflation = baseline.inflation_of(&points);
        Some((baseline, points))
    }

    /// Whether it knows what is usual of points like this one.
    pub fn knows(&self, point: &Point) -> bool {
        self.bands.iter().any(|(band, _)| *band == point.band)
    }

    /// The same cycle and spread around the level of other points.
    pub fn at_level_of(&self, points: &[Point]) -> Option<Baseline> {
        let offsets: Vec<f64> = points.iter().map(|point| point.ln - self.expected(point)).collect();
        let offset = huber_mean(&offsets, self.spread)?;
        let mut moved = self.clone();
        moved.terms[0] += offset;
        moved.level_points = points.len();
        Some(moved)
    }

    /// The expected natural logarithm at the time of a point.
    pub fn expected(&self, point: &Point) -> f64 {
        let level = self.of_band(point);
        columns(point).iter().zip(self.terms).fold(level, |sum, (column, term)| sum + column * term)
    }

    fn of_band(&self, point: &Point) -> f64 {
        self.bands.iter().find(|(band, _)| *band == point.band).map_or(0.0, |(_, level)| *level)
    }

    /// The levels of bands anew, from what is left of their points.
    fn refit_bands(&mut self, points: &[Point]) {
        if self.bands.len() < 2 {
            return;
        }
        let anew = self.bands.iter().map(|(band, level)| {
            let of_band = points.iter().filter(|point| point.band == *band);
            let residuals: Vec<f64> = of_band.map(|point| point.ln - self.expected(point)).collect();
            (*band, level + huber_mean(&residuals, self.spread).unwrap_or_default())
        });
        let anew: Vec<(u8, f64)> = anew.collect();
        let of_first = anew[0].1;
        self.bands = anew.into_iter().map(|(band, level)| (band, level - of_first)).collect();
    }

    /// How far a point is from what was expected, in standard deviations.
    pub fn deviation(&self, point: &Point) -> f64 {
        (point.ln - self.expected(point)) / self.spread
    }

    /// What a point says of a shift: of standard deviation 1 while there is none.
    pub fn score(&self, point: &Point, of: Score) -> f64 {
        match of {
            Score::Small => self.trusted(point) / self.small_spread,
            Score::Large => self.clipped(point) / self.large_spread,
        }
    }

    /// Standard deviation of a point around the expectation (natural logarithm).
    pub fn spread(&self) -> f64 {
        self.spread
    }

    /// Standard deviation of the mean score of `count` points, if nothing has changed. Over less than a day it is also
    /// uncertain what the hour usually is.
    pub fn error_of_mean(&self, count: usize, span_ms: i64) -> f64 {
        let cycle = if span_ms < DAY_MS { (TERMS - 1) as f64 / self.cycle_points as f64 } else { 0.0 };
        (self.inflation * (1.0 / count.max(1) as f64 + 1.0 / self.level_points as f64 + cycle)).sqrt()
    }

    fn clipped(&self, point: &Point) -> f64 {
        self.deviation(point).clamp(-CLIP, CLIP)
    }

    fn trusted(&self, point: &Point) -> f64 {
        let deviation = self.deviation(point);
        deviation * trust(deviation)
    }

    /// One round of weighted least squares, with a pull of each term of the cycle towards 0.
    fn refit(&self, points: &[Point]) -> Option<[f64; TERMS]> {
        let rows = points.len() + TERMS - 1;
        let mut matrix: [Vec<f64>; TERMS] = std::array::from_fn(|_| Vec::with_capacity(rows));
        let mut target = Vec::with_capacity(rows);
        let mut weights = Vec::with_capacity(rows);
        for point in points {
            for (column, value) in matrix.iter_mut().zip(columns(point)) {
                column.push(value);
            }
            target.push(point.ln - self.of_band(point));
            weights.push((CLIP / self.deviation(point).abs().max(CLIP)).min(1.0));
        }
        for pulled in 1..TERMS {
            for (term, column) in matrix.iter_mut().enumerate() {
                column.push(if term == pulled { 1.0 } else { 0.0 });
            }
            target.push(0.0);
            weights.push((self.spread / CYCLE_PRIOR).powi(2));
        }
        tokrate_stats::solve(&matrix, &target, &weights)
    }

    fn spread_of(&self, points: &[Point]) -> f64 {
        let sizes = points.iter().map(|point| (point.ln - self.expected(point)).abs()).collect();
        let freedom = points.len() as f64 / (points.len() - TERMS) as f64;
        (midpoint_median(sizes) / MAD_OF_NORMAL * freedom.sqrt()).max(LEAST_SPREAD)
    }

    /// The spread of the points that are no odd ones, by expectation and maximisation; `None` where too few are.
    fn trusted_spread(&self, points: &[Point]) -> Option<f64> {
        let freedom = points.len() as f64 / (points.len() - TERMS) as f64;
        let residuals: Vec<f64> = points.iter().map(|point| point.ln - self.expected(point)).collect();
        let mut spread = self.spread;
        for _ in 0..ROUNDS {
            let (mut squares, mut total) = (0.0, 0.0);
            for residual in &residuals {
                let weight = trust(residual / spread);
                squares += weight * residual * residual;
                total += weight;
            }
            if total < LEAST_TRUSTED * points.len() as f64 {
                return None;
            }
            spread = (squares / total * freedom).sqrt().max(LEAST_SPREAD);
        }
        Some(spread)
    }

    /// What neighbours and days have in common makes a mean of many points less sure than its count says: the larger of
    /// what the correlation of neighbours and the spread of daily means tell, each only where it is beyond chance.
    fn inflation_of(&self, points: &[Point]) -> f64 {
        let scores: Vec<f64> = points.iter().map(|point| self.score(point, Score::Small)).collect();
        let n = scores.len() as f64;
        let neighbours = scores.windows(2).map(|pair| pair[0] * pair[1]).sum::<f64>() / (n - 1.0);
        let correlation = if neighbours > 2.0 / n.sqrt() { neighbours.min(0.9) } else { 0.0 };
        let mut days: BTreeMap<i64, (f64, f64)> = BTreeMap::new();
        for (point, score) in points.iter().zip(&scores) {
            let (sum, count) = days.entry(point.at.div_euclid(DAY_MS)).or_default();
            *sum += score;
            *count += 1.0;
        }
        let by_day = days.values().map(|(sum, count)| sum * sum / count).sum::<f64>() / days.len().max(1) as f64;
        let beyond_chance = 1.0 + 2.0 * (2.0 / days.len().max(1) as f64).sqrt();
        let by_day = if days.len() >= DAYS_COMPARED && by_day > beyond_chance { by_day } else { 1.0 };
        by_day.max((1.0 + correlation) / (1.0 - correlation))
    }
}

/// The bands that have enough points, by how many, and how far the median of each is from that of the commonest.
fn levels_of_bands(points: &[Point]) -> Vec<(u8, f64)> {
    let mut by_band: BTreeMap<u8, Vec<f64>> = BTreeMap::new();
    points.iter().for_each(|point| by_band.entry(point.band).or_default().push(point.ln));
    let mut bands: Vec<(u8, Vec<f64>)> = by_band.into_iter().collect();
    bands.sort_by_key(|(_, values)| std::cmp::Reverse(values.len()));
    let enough = bands.iter().filter(|(_, values)| values.len() >= LEAST_OF_BAND).count().max(1);
    bands.truncate(enough);
    let medians: Vec<(u8, f64)> = bands.into_iter().map(|(band, values)| (band, midpoint_median(values))).collect();
    let first = medians.first().map_or(0.0, |(_, median)| *median);
    medians.into_iter().map(|(band, median)| (band, median - first)).collect()
}

/// How likely a value so many standard deviations from what was expected is none of the odd ones.
fn trust(deviation: f64) -> f64 {
    let usual = (1.0 - ODD_SHARE) * (-0.5 * deviation * deviation).exp();
    let odd = ODD_SHARE / ODD_WIDTH * (-0.5 * (deviation / ODD_WIDTH).powi(2)).exp();
    // Both are 0 far out.
    if usual > 0.0 { usual / (usual + odd) } else { 0.0 }
}

fn columns(point: &Point) -> [f64; TERMS] {
    let angle = point.day_angle();
    [1.0, angle.cos(), angle.sin(), (2.0 * angle).cos(), (2.0 * angle).sin()]
}

/// The mean of values whose distance from it counts up to [`CLIP`] spreads.
pub(crate) fn huber_mean(values: &[f64], spread: f64) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let mut mean = midpoint_median(values.to_vec());
    for _ in 0..ROUNDS {
        let weights = values.iter().map(|value| (CLIP * spread / (value - mean).abs().max(CLIP * spread)).min(1.0));
        let (sum, total) = values
            .iter()
            .zip(weights)
            .fold((0.0, 0.0), |(sum, total), (value, weight)| (sum + weight * value, total + weight));
        mean = sum / total;
    }
    Some(mean)
}
