//! One series followed point by point: learns its baseline, finds shifts of its level, and learns the new level after one.
//!
//! The baseline ends some days before the newest point, so that a slow beginning does not become usual, and never reaches
//! back over a change.
//!
//! Invariant: a shift is reported once, and the level after it is the one that later points are held against.

use crate::baseline::Baseline;
use crate::series::{DAY_MS, Point, Series};
use crate::shift::{Limits, Look, Shift, Way, limits, look};

/// How far back points are looked at for a change, and how old a point is before it belongs to the baseline.
const WINDOW_MS: i64 = 6 * DAY_MS;
/// A baseline rests on the points of at most so long.
const REFERENCE_MS: i64 = 28 * DAY_MS;
/// Fewest points and days that a baseline is learned from.
const LEAST_REFERENCE: usize = 30;
const LEAST_REFERENCE_MS: i64 = 4 * DAY_MS;
/// Most points that are looked at for a change, the latest: every point looks at all of them, and in so many a shift of half
/// a standard deviation has long been found. Eight probes a day make 48 in [`WINDOW_MS`].
const MAX_WINDOW_POINTS: usize = 512;
/// Most points that a baseline is fitted to; of more, every second, third and so on is taken.
const MAX_REFERENCE_POINTS: usize = 4_096;
/// Fewest points after a change that tell the new level.
const LEAST_NEW_LEVEL: usize = 8;
/// A baseline is fitted anew when its points are this much older than they could be.
const REFIT_MS: i64 = DAY_MS / 2;

/// What [`FalseAlarms::with_further_probes`] leaves of the regressions by chance.
const FURTHER_PROBES_PART: f64 = 0.35;

/// How often something may be reported of a source although nothing has changed; its numbers share what is allowed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FalseAlarms {
    /// Changes for the worse, in 30 days.
    pub worse_in_month: f64,
    /// Changes for the better, in 30 days.
    pub better_in_month: f64,
    /// Suspicions, in 30 days; each may cost extra probes.
    pub suspects_in_month: f64,
}

impl Default for FalseAlarms {
    fn default() -> FalseAlarms {
        FalseAlarms { worse_in_month: 0.042, better_in_month: 0.005, suspects_in_month: 6.0 }
    }
}

impl FalseAlarms {
    /// The same for a source that is probed further after each suspicion: those probes look again where chance has gone far already,
    /// so that as many limits are passed by chance if each is that much stricter (set on still worlds of `examples/power.rs`).
    pub fn with_further_probes(self) -> FalseAlarms {
        FalseAlarms { worse_in_month: FURTHER_PROBES_PART * self.worse_in_month, ..self }
    }

    /// The part of each of `numbers`.
    pub(crate) fn shared_by(self, numbers: usize) -> FalseAlarms {
        let part = 1.0 / numbers.max(1) as f64;
        FalseAlarms {
            worse_in_month: self.worse_in_month * part,
            better_in_month: self.better_in_month * part,
            suspects_in_month: self.suspects_in_month * part,
        }
    }
}

/// Follows the level of one series.
#[derive(Clone, Debug)]
pub struct LevelDetector {
    worse: Way,
    allowed: FalseAlarms,
    series: Series,
    /// Points before this belong to another level.
    level_since: i64,
    reference: Option<Reference>,
    /// Cycle and spread that were usual before the latest change, until the new level has a baseline of its own.
    carried: Option<Baseline>,
}

#[derive(Clone, Debug)]
struct Reference {
    baseline: Baseline,
    points: Vec<Point>,
    /// Points from here on were not used.
    until: i64,
    limits: Limits,
}

impl LevelDetector {
    /// A series of which `worse` is the bad way.
    pub fn new(worse: Way, allowed: FalseAlarms) -> LevelDetector {
        LevelDetector {
            worse,
            allowed,
            series: Series::default(),
            level_since: i64::MIN,
            reference: None,
            carried: None,
        }
    }

    /// Changes what is allowed, from the next baseline on.
    pub fn allow(&mut self, allowed: FalseAlarms) {
        self.allowed = allowed;
    }

    /// Adds a point and looks at the end of the series.
    pub fn push(&mut self, point: Point) -> Look {
        if !self.series.insert(point) {
            // Its place in time is behind what was judged already.
            return Look::Usual;
        }
        self.series.forget_before(point.at - REFERENCE_MS - WINDOW_MS - DAY_MS);
        self.learn(point.at);
        let Some(reference) = &self.reference else { return Look::Usual };
        let from = reference.until.max(point.at - WINDOW_MS);
        let comparable = self.series.between(from, i64::MAX).filter(|point| reference.baseline.knows(point));
        let mut recent: Vec<Point> = comparable.rev().take(MAX_WINDOW_POINTS).collect();
        recent.reverse();
        let seen = look(&reference.baseline, &reference.points, &recent, &reference.limits);
        if let Look::Shifted(shift) = &seen {
            self.begin_level(shift);
        }
        seen
    }

    /// Standard deviation of a point around what is usual (natural logarithm); `None` while that is not known.
    pub fn spread(&self) -> Option<f64> {
        self.reference.as_ref().map(|reference| reference.baseline.spread())
    }

    /// How far a point is from what is usual of points like it, in standard deviations; `None` while that is not known.
    pub fn deviation(&self, point: &Point) -> Option<f64> {
        let baseline = &self.reference.as_ref()?.baseline;
        baseline.knows(point).then(|| baseline.deviation(point))
    }

    /// Whether the baseline rests on days at the present level, and not on a few points after a change.
    pub fn is_settled(&self) -> bool {
        self.reference.is_some() && self.carried.is_none()
    }

    /// Whether a shift the way it went is one for the worse.
    pub fn is_worse(&self, shift: &Shift) -> bool {
        shift.way == self.worse
    }

    fn begin_level(&mut self, shift: &Shift) {
        self.level_since = shift.since;
        self.carried = self.reference.take().map(|reference| reference.baseline);
    }

    /// Fits the baseline anew where it is due.
    fn learn(&mut self, now: i64) {
        let until = now - WINDOW_MS;
        let from = self.level_since.max(until - REFERENCE_MS);
        let is_due = self.reference.as_ref().is_none_or(|reference| until - reference.until >= REFIT_MS);
        if !is_due {
            return;
        }
        let (count, ends) = self.series.extent(from, until);
        if count >= LEAST_REFERENCE && ends.is_some_and(|(first, last)| last.at - first.at >= LEAST_REFERENCE_MS) {
            let step = count.div_ceil(MAX_REFERENCE_POINTS);
            let points: Vec<Point> = self.series.between(from, until).step_by(step).collect();
            if let Some((baseline, points)) = Baseline::fit(&points) {
                self.carried = None;
                self.reference = Some(self.reference_of(baseline, points, count, until));
            }
        } else if let Some(carried) = &self.carried
            && self.reference.is_none()
        {
            let comparable = self.series.between(self.level_since, i64::MAX).filter(|point| carried.knows(point));
            let points: Vec<Point> = comparable.take(LEAST_NEW_LEVEL).collect();
            if let (LEAST_NEW_LEVEL, Some(last)) = (points.len(), points.last())
                && let Some(baseline) = carried.at_level_of(&points)
            {
                let until = last.at + 1;
                let count = points.len();
                self.reference = Some(self.reference_of(baseline, points, count, until));
            }
        }
    }

    /// `points` are those that the baseline was fitted to, of `count` in their time.
    fn reference_of(&self, baseline: Baseline, points: Vec<Point>, count: usize, until: i64) -> Reference {
        let days = points.last().zip(points.first()).map_or(1, |(last, first)| last.at - first.at).max(1) as f64
            / DAY_MS as f64;
        let a_month = count as f64 / days * 30.0;
        let of = |in_month: f64| limits(a_month / in_month.max(1e-6));
        let (worse, better) = (of(self.allowed.worse_in_month), of(self.allowed.better_in_month));
        let (up, down) = if self.worse == Way::Up { (worse, better) } else { (better, worse) };
        let limits = Limits { up, down, suspect: of(self.allowed.suspects_in_month) };
        Reference { baseline, points, until, limits }
    }
}
