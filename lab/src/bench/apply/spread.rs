//! How far a share of cases would be another one with other commits: the cases of one commit succeed and fail together.
//!
//! Invariant: the same counts give the same interval.

use std::collections::BTreeMap;
use tokrate_core::Rng;
use tokrate_stats::{Interval, percentile_interval};

/// Draws of commits, with replacement.
const RESAMPLES: usize = 2_000;
/// Coverage of the interval.
const CONFIDENCE: f64 = 0.95;

/// Cases and those that are exact, by commit.
#[derive(Clone, Default)]
pub struct ByCommit(BTreeMap<String, [usize; 2]>);

impl ByCommit {
    /// Counts a case.
    pub fn add(&mut self, commit: &str, is_exact: bool) {
        let counts = match self.0.get_mut(commit) {
            Some(counts) => counts,
            None => self.0.entry(commit.to_owned()).or_default(),
        };
        counts[0] += 1;
        counts[1] += usize::from(is_exact);
    }

    /// The commits.
    pub fn commits(&self) -> usize {
        self.0.len()
    }

    /// The mean of the shares of all commits, each of which counts the same.
    pub fn mean(&self) -> f64 {
        self.0.values().map(|&counts| share(counts)).sum::<f64>() / self.0.len() as f64
    }

    /// The interval of the share of all cases, by the percentiles of resampled commits.
    pub fn interval(&self) -> Option<Interval> {
        let commits: Vec<[usize; 2]> = self.0.values().copied().collect();
        let mut rng = Rng::root(0).child("commits");
        let mut resampled = || {
            let drawn = commits.iter().map(|_| commits[rng.below(commits.len() as u64) as usize]);
            share(drawn.fold([0, 0], |sum, counts| [sum[0] + counts[0], sum[1] + counts[1]]))
        };
        let shares: Vec<f64> = (0..RESAMPLES).map(|_| resampled()).collect();
        percentile_interval(&shares, CONFIDENCE)
    }
}

fn share([cases, exact]: [usize; 2]) -> f64 {
    exact as f64 / cases as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many commits of a hundred cases each, every other one of which is exact.
    fn commits(count: usize) -> ByCommit {
        let mut all = ByCommit::default();
        (0..count).for_each(|commit| (0..100).for_each(|_| all.add(&commit.to_string(), commit % 2 == 0)));
        all
    }

    #[test]
    fn a_hundred_cases_of_a_commit_say_no_more_than_one() {
        let all = commits(100);
        assert_eq!((all.commits(), all.mean()), (100, 0.5));
        // Of a hundred independent draws: 0.5 -+ 1.96 * 0.05.
        let interval = all.interval().expect("a hundred commits");
        assert!((interval.low - 0.402).abs() < 0.015 && (interval.high - 0.598).abs() < 0.015, "{interval:?}");
    }

    #[test]
    fn a_large_commit_weighs_as_much_as_a_small_one_in_the_mean_alone() {
        let mut all = commits(2);
        (0..9).for_each(|_| all.add("0", false));
        assert!((all.mean() - (100.0 / 109.0) / 2.0).abs() < 1e-12, "{}", all.mean());
    }
}
