//! The points of one series, by time, and windows at its end.
//!
//! Invariant: points are sorted by time; values are finite.

use std::collections::VecDeque;

/// Milliseconds of an hour.
pub(crate) const HOUR_MS: i64 = 3_600_000;
/// Milliseconds of a day.
pub(crate) const DAY_MS: i64 = 24 * HOUR_MS;

/// A measurement: when (ms since 1970) and the natural logarithm of its value.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Point {
    /// When it was measured (ms since 1970).
    pub at: i64,
    /// Natural logarithm of the value.
    pub ln: f64,
    /// Only points of one band are alike: see [`crate::sample::Sample::band`].
    pub band: u8,
}

impl Point {
    /// A point of a positive value; `None` for a value that has no logarithm.
    pub fn new(at: i64, value: f64) -> Option<Point> {
        let ln = value.ln();
        (value > 0.0 && ln.is_finite()).then_some(Point { at, ln, band: 0 })
    }

    /// Angle of the time of day, 0 to 2 pi from midnight UTC on.
    pub(crate) fn day_angle(self) -> f64 {
        std::f64::consts::TAU * self.at.rem_euclid(DAY_MS) as f64 / DAY_MS as f64
    }
}

/// The points of a series that are still of use.
#[derive(Clone, Debug, Default)]
pub(crate) struct Series {
    points: VecDeque<Point>,
}

impl Series {
    /// Adds a point where its time belongs. Says whether it is the newest.
    pub fn insert(&mut self, point: Point) -> bool {
        let place = self.points.partition_point(|other| other.at <= point.at);
        let newest = place == self.points.len();
        self.points.insert(place, point);
        newest
    }

    /// Forgets points before a time.
    pub fn forget_before(&mut self, at: i64) {
        let old = self.points.partition_point(|point| point.at < at);
        self.points.drain(..old);
    }

    /// How many points there are from `from` on and before `until`, and the first and last of them.
    pub fn extent(&self, from: i64, until: i64) -> (usize, Option<(Point, Point)>) {
        let first = self.points.partition_point(|point| point.at < from);
        let count = self.points.partition_point(|point| point.at < until).saturating_sub(first);
        let ends = count.checked_sub(1).map(|last| (self.points[first], self.points[first + last]));
        (count, ends)
    }

    /// Points from `from` on and before `until`, oldest first.
    pub fn between(&self, from: i64, until: i64) -> impl DoubleEndedIterator<Item = Point> + Clone + '_ {
        let first = self.points.partition_point(|point| point.at < from);
        let last = self.points.partition_point(|point| point.at < until);
        self.points.range(first..last.max(first)).copied()
    }
}
