//! Whether a series became bad at one time of day and stayed as it was at others.
//!
//! Points far on the bad side are counted by hours of the day: many of them in a few hours, on several days, beside usual
//! points in all other hours, are a change of the daily cycle and not of the level.
//!
//! Invariant: hours that were reported are not reported again while they stay so.

use crate::series::{DAY_MS, HOUR_MS, Point};
use std::collections::{BTreeSet, VecDeque};
use tokrate_stats::ln_gamma;

/// Days that are looked at.
const WINDOW_MS: i64 = 10 * DAY_MS;
/// Hours of the day that are looked at together: one slot of eight probes a day.
const HOURS: i64 = 3;
/// A point is far when it is this many standard deviations on the bad side.
const FAR: f64 = 2.2;
/// Share of points that are far by chance: 1.4 % of a normal distribution, and single bad values.
const FAR_SHARE: f64 = 0.03;
/// Chance of as many far points in the hours, below which it is a change; 24 windows a day are looked at.
const P: f64 = 2e-6;
/// Chance of as many far points in the other hours, below which it is not a matter of hours.
const ELSEWHERE_P: f64 = 1e-3;
/// Hours that were bad stay expected for so long after their last bad point: slots that are probed at random miss them for days.
const MEMORY_MS: i64 = 14 * DAY_MS;
/// Fewest days on which the hours were bad.
const LEAST_DAYS: usize = 4;

/// Hours of a day that became bad.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct CycleChange {
    /// The first bad point (ms since 1970).
    pub since: i64,
    /// Median of the far points, in standard deviations.
    pub deviation: f64,
    /// Chance of as many by themselves.
    pub p: f64,
    /// Points in these hours.
    pub n: usize,
}

/// Looks for hours that became bad.
#[derive(Clone, Debug, Default)]
pub(crate) struct CycleDetector {
    /// When, and how far on the bad side.
    points: VecDeque<(i64, f64)>,
    /// First hours of windows that were reported, and when a far point was last seen there.
    reported: Vec<(i64, i64)>,
}

impl CycleDetector {
    /// Whether a far point at this time belongs to hours that were reported.
    pub fn expects(&self, at: i64) -> bool {
        self.reported.iter().any(|(first, _)| is_near(at, *first))
    }

    /// Adds a point that is so far on the bad side.
    pub fn push(&mut self, point: &Point, deviation: f64) -> Option<CycleChange> {
        let at = point.at;
        self.points.push_back((at, deviation));
        while self.points.front().is_some_and(|(old, _)| *old < at - WINDOW_MS) {
            self.points.pop_front();
        }
        let is_far = deviation > FAR;
        for (first, last_far) in &mut self.reported {
            if is_far && is_near(at, *first) {
                *last_far = at;
            }
        }
        self.reported.retain(|(_, last_far)| at - last_far < MEMORY_MS);
        if !is_far || self.expects(at) {
            return None;
        }
        let hour = hour_of(at);
        let windows = (0..HOURS).filter_map(|back| self.look((hour - back).rem_euclid(24)));
        let (first, found) = windows.min_by(|a, b| a.1.p.total_cmp(&b.1.p))?;
        self.reported.push((first, at));
        Some(found)
    }

    /// Forgets everything, after a change of the level.
    pub fn reset(&mut self) {
        self.points.clear();
    }

    fn look(&self, first: i64) -> Option<(i64, CycleChange)> {
        let within = |at: i64| (hour_of(at) - first).rem_euclid(24) < HOURS;
        let (mut n, mut far, mut elsewhere, mut far_elsewhere) = (0, Vec::new(), 0, 0);
        // What hours that were reported do says nothing of others.
        for (at, deviation) in self.points.iter().filter(|(at, _)| !self.expects(*at)) {
            match (within(*at), *deviation > FAR) {
                (true, is_far) => {
                    n += 1;
                    far.extend(is_far.then_some((*at, *deviation)));
                }
                (false, is_far) => {
                    elsewhere += 1;
                    far_elsewhere += u64::from(is_far);
                }
            }
        }
        let days: BTreeSet<i64> = far.iter().map(|(at, _)| at.div_euclid(DAY_MS)).collect();
        let p = upper_tail(far.len() as u64, n, FAR_SHARE);
        if days.len() < LEAST_DAYS || p > P || upper_tail(far_elsewhere, elsewhere, FAR_SHARE) < ELSEWHERE_P {
            return None;
        }
        let deviation = tokrate_stats::midpoint_median(far.iter().map(|(_, deviation)| *deviation).collect());
        Some((first, CycleChange { since: far[0].0, deviation, p, n: n as usize }))
    }
}

/// Whether a time is in the hours of a window or in one beside them: which hours are bad is known to an hour or so.
fn is_near(at: i64, first: i64) -> bool {
    (hour_of(at) - first + 1).rem_euclid(24) < HOURS + 2
}

fn hour_of(at: i64) -> i64 {
    at.rem_euclid(DAY_MS) / HOUR_MS
}

/// Chance of `hits` or more of `n` at a share.
fn upper_tail(hits: u64, n: u64, share: f64) -> f64 {
    let ln_choose = |k: u64| ln_gamma(n as f64 + 1.0) - ln_gamma(k as f64 + 1.0) - ln_gamma((n - k) as f64 + 1.0);
    let term = |k: u64| (ln_choose(k) + k as f64 * share.ln() + (n - k) as f64 * (1.0 - share).ln()).exp();
    (hits..=n).map(term).sum::<f64>().min(1.0)
}
