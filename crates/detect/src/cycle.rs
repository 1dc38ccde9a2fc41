//! Whether a series became bad at one time of day and stayed as it was at others.
//!
//! Two looks, of which one suffices. Points far on the bad side are counted by hours of the day: many of them in a few hours, on
//! several days, beside usual points in all other hours, are a change of the daily cycle and not of the level. Where points scatter so
//! widely that few are far, the mean of the same hours over more days tells.
//!
//! Invariant: hours that were reported are not reported again while they stay so.

use crate::series::{DAY_MS, HOUR_MS, Point};
use std::collections::{BTreeSet, VecDeque};
use tokrate_stats::{ln_gamma, normal_p};

/// Days in which far points are counted, and over which means are taken.
const WINDOW_MS: i64 = 10 * DAY_MS;
const LONG_WINDOW_MS: i64 = 20 * DAY_MS;
/// Most points that are looked at, the latest: 20 days of one in a minute and a half.
const MAX_POINTS: usize = 20_000;
/// Hours whose means are looked at.
const MEAN_HOURS: [i64; 2] = [2, HOURS];
/// A mean counts when it is so far from that of all other hours, in standard errors: 0.01 events an endpoint in 30 still days of
/// `examples/power.rs`, of which many windows and looks are the reason. Single points count up to so many standard deviations.
const MEAN_Z: f64 = 5.0;
const CLIP: f64 = 3.0;
/// Other hours are as usual while their mean is within so many standard errors.
const ELSEWHERE_Z: f64 = 3.0;
/// Fewest days of a mean.
const LEAST_MEAN_DAYS: usize = 7;
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
        let is_old = |(old, _): &(i64, f64)| *old < at - LONG_WINDOW_MS;
        while self.points.len() > MAX_POINTS || self.points.front().is_some_and(is_old) {
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
        let firsts = || (0..HOURS).map(|back| (hour - back).rem_euclid(24));
        let counted = firsts().filter_map(|first| self.count(first, at));
        let (first, found) = counted.min_by(|a, b| a.1.p.total_cmp(&b.1.p)).or_else(|| {
            let windows = MEAN_HOURS.into_iter().flat_map(|hours| (0..hours).map(move |back| (hour - back, hours)));
            let found = windows.filter_map(|(first, hours)| self.mean(first.rem_euclid(24), hours));
            found.min_by(|a, b| a.1.p.total_cmp(&b.1.p))
        })?;
        self.reported.push((first, at));
        Some(found)
    }

    /// Forgets everything, after a change of the level.
    pub fn reset(&mut self) {
        self.points.clear();
    }

    /// The mean of some hours against that of all others.
    fn mean(&self, first: i64, hours: i64) -> Option<(i64, CycleChange)> {
        let others = self.points.iter().filter(|(at, _)| !self.expects(*at));
        let (within, elsewhere): (Vec<_>, Vec<_>) =
            others.partition(|(at, _)| (hour_of(*at) - first).rem_euclid(24) < hours);
        let mean = |points: &[&(i64, f64)]| {
            points.iter().map(|(_, deviation)| deviation.clamp(-CLIP, CLIP)).sum::<f64>() / points.len().max(1) as f64
        };
        let (n, others, usual) = (within.len() as f64, elsewhere.len() as f64, mean(&elsewhere));
        let z = (mean(&within) - usual) / (1.0 / n.max(1.0) + 1.0 / others.max(1.0)).sqrt();
        // Days of which this hour was no worse than others are not counted as bad.
        let days: BTreeSet<i64> =
            within.iter().filter(|(_, deviation)| *deviation > 1.0).map(|(at, _)| at.div_euclid(DAY_MS)).collect();
        if z < MEAN_Z || days.len() < LEAST_MEAN_DAYS || usual.abs() * others.sqrt() > ELSEWHERE_Z {
            return None;
        }
        let since = within.iter().find(|(_, deviation)| *deviation > FAR)?.0;
        let bad: Vec<f64> = within.iter().filter(|(at, _)| *at >= since).map(|(_, deviation)| *deviation).collect();
        let n = bad.len();
        Some((first, CycleChange { since, deviation: tokrate_stats::midpoint_median(bad), p: normal_p(z), n }))
    }

    /// Far points of three hours against those of all others.
    fn count(&self, first: i64, now: i64) -> Option<(i64, CycleChange)> {
        let within = |at: i64| (hour_of(at) - first).rem_euclid(24) < HOURS;
        let (mut n, mut far, mut elsewhere, mut far_elsewhere) = (0, Vec::new(), 0, 0);
        // What hours that were reported do says nothing of others.
        let latest = self.points.iter().filter(|(at, _)| *at >= now - WINDOW_MS && !self.expects(*at));
        for (at, deviation) in latest {
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
