//! Whether an endpoint fails more often than it did.
//!
//! A CUSUM of log-likelihood ratios (Page 1954) against two rates: one that is three times the usual and at least 15 points above
//! it, and one that is an outage. Of independent probes it passes its limit `ln(points / alarms)` by chance at most so often.
//!
//! Invariant: a rise is reported once; after it, so is the return.

use crate::series::DAY_MS;
use std::collections::VecDeque;

/// The usual share of failures is that of so long.
const REFERENCE_MS: i64 = 28 * DAY_MS;
/// The usual share is taken to be at least this: an endpoint that never failed may fail once.
const LEAST_SHARE: f64 = 0.01;
/// The most that counts as usual; beyond it nothing can be told from an outage.
const MOST_SHARE: f64 = 0.5;
/// Share of failures of an outage.
const OUTAGE: f64 = 0.9;
/// Fewest points from which a usual share is known.
const LEAST_POINTS: usize = 20;
/// So many answers in a row and the rise is over.
const RECOVERED_AFTER: usize = 8;

/// What became of the share of failures.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct ErrorChange {
    /// A rise, or the return after one.
    pub risen: bool,
    /// The first failure of the rise, or the first answer after it (ms since 1970).
    pub since: i64,
    /// Share now less the share before.
    pub change: f64,
    /// 95 % interval of `change`.
    pub range: (f64, f64),
    /// Bound on the chance that this comes of nothing.
    pub p: f64,
    /// Points since then.
    pub n: usize,
}

/// Follows the failures of one source.
#[derive(Clone, Debug)]
pub(crate) struct ErrorDetector {
    /// Failures allowed to be reported by chance, in 30 days.
    in_month: f64,
    /// Points of the usual: when, and whether it failed.
    usual: VecDeque<(i64, bool)>,
    /// Failures among them.
    usual_failures: usize,
    /// Points since the present suspicion began.
    recent: Vec<(i64, bool)>,
    sums: [f64; 2],
    /// Since when it fails more often.
    risen_since: Option<i64>,
}

impl ErrorDetector {
    pub fn new(in_month: f64) -> ErrorDetector {
        ErrorDetector {
            in_month,
            usual: VecDeque::new(),
            usual_failures: 0,
            recent: Vec::new(),
            sums: [0.0; 2],
            risen_since: None,
        }
    }

    /// Adds a point.
    pub fn push(&mut self, at: i64, failed: bool) -> Option<ErrorChange> {
        self.recent.push((at, failed));
        if self.risen_since.is_some() {
            return self.look_for_return();
        }
        let known = self.usual.len() >= LEAST_POINTS;
        let usual = self.usual_share();
        for (sum, raised) in self.sums.iter_mut().zip([(3.0 * usual).max(usual + 0.15), OUTAGE]) {
            let step = if failed { (raised / usual).ln() } else { ((1.0 - raised) / (1.0 - usual)).ln() };
            *sum = (*sum + step).max(0.0);
        }
        if self.sums == [0.0; 2] {
            self.usual_failures += self.recent.iter().filter(|(_, failed)| *failed).count();
            self.usual.extend(self.recent.drain(..));
            while let Some((_, failed)) = self.usual.pop_front_if(|(old, _)| *old < at - REFERENCE_MS) {
                self.usual_failures -= usize::from(failed);
            }
        }
        let highest = self.sums[0].max(self.sums[1]);
        if !known || highest < self.limit(at) {
            return None;
        }
        self.sums = [0.0; 2];
        let since = self.recent.iter().find(|(_, failed)| *failed).map_or(at, |(at, _)| *at);
        self.recent.retain(|(at, _)| *at >= since);
        self.risen_since = Some(since);
        Some(self.change(true, since, (-highest).exp()))
    }

    fn look_for_return(&mut self) -> Option<ErrorChange> {
        let good = self.recent.iter().rev().take_while(|(_, failed)| !failed).count();
        if good < RECOVERED_AFTER {
            return None;
        }
        let since = self.recent[self.recent.len() - good].0;
        let share = self.recent.iter().filter(|(_, failed)| *failed).count() as f64 / self.recent.len() as f64;
        let p = (1.0 - share.clamp(0.01, 0.99)).powi(i32::try_from(good).unwrap_or(i32::MAX));
        let change = ErrorChange { risen: false, since, change: -share, range: (-share, 0.0), p, n: good };
        self.risen_since = None;
        self.recent.clear();
        Some(change)
    }

    fn change(&self, risen: bool, since: i64, p: f64) -> ErrorChange {
        let n = self.recent.len();
        let failed = self.recent.iter().filter(|(_, failed)| *failed).count();
        let before = self.usual_share();
        let range = tokrate_stats::wilson_interval(failed as u64, n as u64, 0.95);
        let range = range.map_or((-1.0, 1.0), |interval| (interval.low - before, interval.high - before));
        ErrorChange { risen, since, change: failed as f64 / n.max(1) as f64 - before, range, p, n }
    }

    fn usual_share(&self) -> f64 {
        ((self.usual_failures as f64 + 0.5) / (self.usual.len() as f64 + 1.0)).clamp(LEAST_SHARE, MOST_SHARE)
    }

    /// A sum that is passed by chance as seldom as is allowed, at the present rate of points.
    fn limit(&self, now: i64) -> f64 {
        let first = self.usual.front().map_or(now, |(at, _)| *at);
        let days = ((now - first) as f64 / DAY_MS as f64).max(1.0);
        (self.usual.len() as f64 / days * 30.0 / self.in_month).max(10.0).ln()
    }
}
