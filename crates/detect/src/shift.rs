//! Whether the end of a series lies above or below its baseline, since when and by how much.
//!
//! Two looks must agree. The first is a CUSUM (Page 1954) over scores, looked at as the mean of the last m points for every m, so
//! that what the baseline itself is unsure of can be counted; its limit follows from how many false alarms are allowed, by
//! Siegmund's approximation (1985, eq. 2.51). One CUSUM is for small shifts, one for large ones. The second is a rank test of the
//! points since the change against the baseline's own, each less what is usual at its hour.
//!
//! Invariant: a change is never found in points that a baseline was fitted to.

use crate::baseline::{Baseline, Score, huber_mean};
use crate::series::Point;
use tokrate_stats::{normal_p, rank_sum_p};

/// A CUSUM: of which scores, for which shift, with which part of the false alarms.
struct Cusum {
    score: Score,
    /// Half the shift that is found soonest, in standard deviations of a point.
    half: f64,
    part: f64,
}

/// A drop of 10 % at a spread of 0.15 and one of 20 % at a spread of 0.30 are both 0.7, a score of which is a little less. Points
/// of a large shift are all clipped, so that they score 2 at most.
const CUSUMS: [Cusum; 2] =
    [Cusum { score: Score::Small, half: 0.34, part: 0.9 }, Cusum { score: Score::Large, half: 0.9, part: 0.1 }];
/// Mean overshoot of a random walk with normal steps above a limit (Siegmund 1985).
const OVERSHOOT: f64 = 1.166;
/// The rank test's limit. It confirms, so it does not have to be rare by itself.
const RANK_P: f64 = 0.005;
/// Fewest points since a change.
const LEAST_POINTS: usize = 3;
/// Splits within this of the best log-likelihood ratio are in the interval of when it began. 3.84 (chi-squared, 95 %) would do for
/// a split that was not chosen for being the best; this one holds 95 % of planted drops.
const SPLIT_LOSS: f64 = 7.0;
/// Half an interval of the size, in standard errors. 1.96 would do for a size that was not chosen for being striking; this one
/// holds 95 % of planted drops.
const SIZE_ERRORS: f64 = 2.7;

/// Which way a series went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Values rose.
    Up,
    /// Values fell.
    Down,
}

/// A shift of the level of a series.
#[derive(Clone, PartialEq, Debug)]
pub struct Shift {
    /// Which way.
    pub way: Way,
    /// The first point after the change (ms since 1970).
    pub since: i64,
    /// The earliest and the latest first point that fit nearly as well.
    pub since_range: (i64, i64),
    /// New level over old, less 1.
    pub change: f64,
    /// 95 % interval of `change`.
    pub range: (f64, f64),
    /// P-value of the rank test.
    pub p: f64,
    /// Points since the change.
    pub n: usize,
}

/// What the end of a series looks like.
#[derive(Clone, PartialEq, Debug)]
pub enum Look {
    /// As usual.
    Usual,
    /// One of the two looks sees a change, or it would with a few more points like the last.
    Suspect(Way),
    /// Both see one.
    Shifted(Shift),
}

/// Limits of the CUSUMs, in their order.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Limits {
    /// Above which a rise counts.
    pub up: [f64; CUSUMS.len()],
    /// Above which a fall counts.
    pub down: [f64; CUSUMS.len()],
    /// Above which either is suspected.
    pub suspect: [f64; CUSUMS.len()],
}

/// The limits that are passed once in `points` points although nothing changed.
pub fn limits(points: f64) -> [f64; CUSUMS.len()] {
    CUSUMS.map(|cusum| limit(points / cusum.part, cusum.half))
}

fn limit(points: f64, half: f64) -> f64 {
    let run_length = |limit: f64| {
        let exponent = 2.0 * half * (limit + OVERSHOOT);
        (exponent.exp() - exponent - 1.0) / (2.0 * half * half)
    };
    let (mut low, mut high) = (0.0, 60.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if run_length(middle) < points { low = middle } else { high = middle }
    }
    high
}

/// Looks at `recent`, oldest first, against the baseline and the points that it was fitted to.
pub fn look(baseline: &Baseline, reference: &[Point], recent: &[Point], limits: &Limits) -> Look {
    let looks = std::array::from_fn::<_, { CUSUMS.len() }, _>(|nth| search(baseline, recent, limits, nth));
    let suspected = looks.iter().find_map(|look| look.suspected);
    let found = looks.iter().filter_map(|look| Some((look, look.best.as_ref()?)));
    let Some((search, best)) = found.max_by(|a, b| a.1.z.abs().total_cmp(&b.1.z.abs())) else {
        return suspected.map_or(Look::Usual, Look::Suspect);
    };
    let since = &recent[recent.len() - best.count..];
    let residuals = |points: &[Point]| points.iter().map(|point| baseline.deviation(point)).collect::<Vec<f64>>();
    let p = rank_sum_p(&residuals(reference), &residuals(since));
    if p > RANK_P {
        return Look::Suspect(best.way);
    }
    let near = |z: &f64| z.signum() == best.z.signum() && best.z * best.z - z * z < SPLIT_LOSS;
    let counts = search.means.iter().enumerate().filter(|(_, z)| near(z)).map(|(back, _)| back + 1);
    let (fewest, most) = counts.fold((best.count, best.count), |(low, high), count| (low.min(count), high.max(count)));
    let offset = huber_mean(&residuals(since), 1.0).unwrap_or_default();
    let error = SIZE_ERRORS * baseline.error_of_mean(best.count, recent[recent.len() - 1].at - since[0].at);
    let ratio = |deviations: f64| (deviations * baseline.spread()).exp_m1();
    Look::Shifted(Shift {
        way: best.way,
        since: since[0].at,
        since_range: (recent[recent.len() - most].at, recent[recent.len() - fewest].at),
        change: ratio(offset),
        range: (ratio(offset - error), ratio(offset + error)),
        p: p.max(normal_p(best.z)),
        n: best.count,
    })
}

/// What a CUSUM sees.
struct Search {
    best: Option<Split>,
    suspected: Option<Way>,
    /// Mean scores of the last so many points, from the last one on, in their standard errors.
    means: Vec<f64>,
}

fn search(baseline: &Baseline, recent: &[Point], limits: &Limits, nth: usize) -> Search {
    let cusum = &CUSUMS[nth];
    let mut found = Search { best: None, suspected: None, means: Vec::with_capacity(recent.len()) };
    let mut sum = 0.0;
    for (back, point) in recent.iter().rev().enumerate() {
        let count = back + 1;
        sum += baseline.score(point, cusum.score);
        let error = baseline.error_of_mean(count, recent[recent.len() - 1].at - point.at);
        // In standard errors; the sum of a CUSUM of as many independent points.
        let z = sum / count as f64 / error;
        found.means.push(z);
        let passed = z.abs() * (count as f64).sqrt() - cusum.half * count as f64;
        let (way, wanted) = if z > 0.0 { (Way::Up, limits.up[nth]) } else { (Way::Down, limits.down[nth]) };
        if passed > limits.suspect[nth] {
            found.suspected = Some(way);
        }
        let is_best = || found.best.as_ref().is_none_or(|split| split.z.abs() < z.abs());
        if count >= LEAST_POINTS && passed > wanted && is_best() {
            found.best = Some(Split { count, z, way });
        }
    }
    found
}

/// Where a series may have changed: so many points from its end.
struct Split {
    count: usize,
    /// Mean score since then, in its standard errors.
    z: f64,
    way: Way,
}
