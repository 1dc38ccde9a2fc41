//! Everything that is followed of one source: its numbers and its failures.
//!
//! Invariant: a sample is added once; a number that it lacks is no point of any series.

use crate::cycle::CycleDetector;
use crate::errors::{ErrorChange, ErrorDetector};
use crate::event::{ChangeKind, Event};
use crate::level::{FalseAlarms, LevelDetector};
use crate::sample::Sample;
use crate::series::{DAY_MS, Point};
use crate::shift::{Look, Shift, Way};

/// After a change of the level the scatter around it is not judged for so long.
const SETTLE_MS: i64 = 3 * DAY_MS;
/// A distance from the baseline below this many standard deviations counts as so many: its logarithm has no end.
const LEAST_DISTANCE: f64 = 0.05;
/// A prober is suspected when a number is this many standard deviations on the bad side.
const FAR: f64 = 3.0;
/// Failures that may be reported although nothing changed, and changes of the spread, in 30 days.
const ERRORS_IN_MONTH: f64 = 0.005;
const SPREAD: FalseAlarms = FalseAlarms { worse_in_month: 0.004, better_in_month: 0.002, suspects_in_month: 1.0 };

/// A number of a sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Metric {
    Ttft,
    OutputSpeed,
    /// Only where a source has neither of the others: it is made of them.
    EndToEnd,
}

impl Metric {
    const ALL: [Metric; 3] = [Metric::Ttft, Metric::OutputSpeed, Metric::EndToEnd];

    fn name(self) -> &'static str {
        match self {
            Metric::Ttft => "ttft_ms",
            Metric::OutputSpeed => "output_speed",
            Metric::EndToEnd => "e2e_ms",
        }
    }

    fn worse(self) -> Way {
        if self == Metric::OutputSpeed { Way::Down } else { Way::Up }
    }

    fn of(self, sample: &Sample) -> Option<Point> {
        let value = match self {
            Metric::Ttft => sample.ttft_ms,
            Metric::OutputSpeed => sample.output_speed,
            Metric::EndToEnd => sample.e2e_ms.filter(|_| sample.ttft_ms.is_none() && sample.output_speed.is_none()),
        };
        let point = Point::new(sample.at, value.filter(|_| sample.ok)?)?;
        Some(Point { band: sample.band(), ..point })
    }
}

/// Follows one source.
#[derive(Clone, Debug)]
pub(crate) struct Tracker {
    allowed: FalseAlarms,
    metrics: [Follower; 3],
    errors: ErrorDetector,
}

/// Follows one number.
#[derive(Clone, Debug)]
struct Follower {
    metric: Metric,
    level: LevelDetector,
    spread: LevelDetector,
    cycle: CycleDetector,
    level_changed_at: Option<i64>,
    has_points: bool,
}

impl Tracker {
    pub fn new(allowed: FalseAlarms) -> Tracker {
        let follower = |metric: Metric| Follower {
            metric,
            level: LevelDetector::new(metric.worse(), allowed),
            spread: LevelDetector::new(Way::Up, SPREAD),
            cycle: CycleDetector::default(),
            level_changed_at: None,
            has_points: false,
        };
        Tracker { allowed, metrics: Metric::ALL.map(follower), errors: ErrorDetector::new(ERRORS_IN_MONTH) }
    }

    /// Whether the sample failed or is far on the bad side of what is usual; `None` where what is usual is not known yet.
    pub fn is_bad(&self, sample: &Sample) -> Option<bool> {
        if !sample.ok {
            // Of a young source only failures could be told: it would be bad, or not judged.
            return self.metrics.iter().any(|follower| follower.level.spread().is_some()).then_some(true);
        }
        let far = self.metrics.iter().filter_map(|follower| {
            let point = follower.metric.of(sample)?;
            Some(follower.badness(&point)? > FAR && !follower.cycle.expects(point.at))
        });
        far.fold(None, |bad, far| Some(bad.unwrap_or(false) || far))
    }

    /// Adds a sample; says what was found, and whether more samples would settle a suspicion.
    pub fn push(&mut self, sample: &Sample, events: &mut Vec<Event>) -> bool {
        if let Some(change) = self.errors.push(sample.at, !sample.ok) {
            events.push(of_errors(sample, &change));
        }
        self.share_alarms(sample);
        let mut suspected = false;
        for follower in &mut self.metrics {
            if let Some(point) = follower.metric.of(sample) {
                suspected |= follower.push(point, sample, events);
            }
        }
        suspected
    }

    /// The numbers that a source has share its false alarms.
    fn share_alarms(&mut self, sample: &Sample) {
        let new =
            self.metrics.iter_mut().filter(|follower| !follower.has_points && follower.metric.of(sample).is_some());
        if new.map(|follower| follower.has_points = true).count() == 0 {
            return;
        }
        let numbers = self.metrics.iter().filter(|follower| follower.has_points).count();
        for follower in &mut self.metrics {
            follower.level.allow(self.allowed.shared_by(numbers));
            follower.spread.allow(SPREAD.shared_by(numbers));
        }
    }
}

impl Follower {
    /// How far a point is on the bad side, in standard deviations.
    fn badness(&self, point: &Point) -> Option<f64> {
        let deviation = self.level.deviation(point)?;
        Some(if self.metric.worse() == Way::Up { deviation } else { -deviation })
    }

    fn push(&mut self, point: Point, sample: &Sample, events: &mut Vec<Event>) -> bool {
        let badness = self.badness(&point);
        let mut expected = false;
        if let Some(badness) = badness {
            expected = self.cycle.expects(point.at);
            let change = if self.level.is_settled() { self.cycle.push(&point, badness) } else { None };
            if let Some(change) = change {
                let spread = self.level.spread().unwrap_or_default();
                let ratio = |deviation: f64| {
                    let signed = if self.metric.worse() == Way::Up { deviation } else { -deviation };
                    (signed * spread).exp_m1()
                };
                let error = 1.96 / (change.n.max(1) as f64).sqrt();
                let ends = [ratio(change.deviation - error), ratio(change.deviation + error)];
                events.push(Event {
                    kind: ChangeKind::Cycle,
                    since: change.since,
                    since_earliest: change.since,
                    since_latest: change.since,
                    change: ratio(change.deviation),
                    low: ends[0].min(ends[1]),
                    high: ends[0].max(ends[1]),
                    p: change.p,
                    n: change.n,
                    ..self.event(sample)
                });
            }
        }
        if expected {
            return false;
        }
        match self.level.push(point) {
            Look::Usual => {}
            Look::Suspect(way) => {
                self.follow_spread(&point, false, sample, events);
                return way == self.metric.worse();
            }
            Look::Shifted(shift) => {
                self.level_changed_at = Some(point.at);
                self.cycle.reset();
                let kind = if self.level.is_worse(&shift) { ChangeKind::Regression } else { ChangeKind::Improvement };
                events.push(Event { kind, ..self.of_shift(sample, &shift) });
                return false;
            }
        }
        self.follow_spread(&point, true, sample, events);
        false
    }

    /// The scatter is the level of the distances from the baseline.
    fn follow_spread(&mut self, point: &Point, is_usual: bool, sample: &Sample, events: &mut Vec<Event>) {
        let settled = self.level_changed_at.is_none_or(|at| point.at - at > SETTLE_MS);
        let settled = settled && self.level.is_settled();
        let Some(deviation) = self.level.deviation(point).filter(|_| settled && is_usual) else { return };
        let Some(distance) = Point::new(point.at, deviation.abs().max(LEAST_DISTANCE)) else { return };
        if let Look::Shifted(shift) = self.spread.push(distance) {
            events.push(Event { kind: ChangeKind::Spread, ..self.of_shift(sample, &shift) });
        }
    }

    fn of_shift(&self, sample: &Sample, shift: &Shift) -> Event {
        Event {
            since: shift.since,
            since_earliest: shift.since_range.0,
            since_latest: shift.since_range.1,
            change: shift.change,
            low: shift.range.0,
            high: shift.range.1,
            p: shift.p,
            n: shift.n,
            ..self.event(sample)
        }
    }

    fn event(&self, sample: &Sample) -> Event {
        Event {
            at: sample.at,
            source: sample.source.clone(),
            metric: self.metric.name(),
            kind: ChangeKind::Regression,
            since: sample.at,
            since_earliest: sample.at,
            since_latest: sample.at,
            change: 0.0,
            low: 0.0,
            high: 0.0,
            p: 1.0,
            n: 0,
        }
    }
}

fn of_errors(sample: &Sample, change: &ErrorChange) -> Event {
    Event {
        at: sample.at,
        source: sample.source.clone(),
        metric: "errors",
        kind: if change.risen { ChangeKind::Errors } else { ChangeKind::Improvement },
        since: change.since,
        since_earliest: change.since,
        since_latest: change.since,
        change: change.change,
        low: change.range.0,
        high: change.range.1,
        p: change.p,
        n: change.n,
    }
}
