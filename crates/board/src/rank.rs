//! Ranks as ranges: which places an endpoint may have, given what was measured.
//!
//! Every pair of endpoints is compared by the rank sum test (Wilcoxon 1945) on the samples of the window: it needs no form of
//! distribution, which times do not have, and finds what a comparison of two intervals misses (intervals that overlap may
//! well belong to different medians). The p-values of all pairs of one ranking are corrected together (Holm 1979), so that the
//! chance that any two identical endpoints are separated, not of each pair, is at most 5 %. An endpoint that is worse than `b` others and
//! better than `w` of `m` has a place from `b` + 1 to `m` - `w` (Mogstad, Romano, Shaikh and Wilhelm 2024). For shares of
//! failures the test is Fisher's.
//!
//! Invariant: two entries with the same samples always share a place; the true place lies within the range of each with 95 %
//! confidence for all of them at once.

use crate::data::Metric;
use crate::window::Summary;
use tokrate_stats::{fisher_p, holm, rank_sum_p};

/// The chance that any identical two are separated.
pub const SIGNIFICANCE: f64 = 0.05;
/// More entries than this are not compared: pairs grow with the square, and 200 make 20,000.
pub const MAX_RANKED: usize = 200;

/// The places that an entry may have, from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Ranks {
    /// The best.
    pub best: u32,
    /// The worst.
    pub worst: u32,
}

impl std::fmt::Display for Ranks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.best == self.worst { write!(f, "{}", self.best) } else { write!(f, "{}–{}", self.best, self.worst) }
    }
}

/// The ranks of entries by a metric, in the order of the entries; `None` for one below the sample floor.
pub(crate) fn ranks(entries: &[&Summary], metric: Metric) -> Vec<Option<Ranks>> {
    let ranked: Vec<usize> = (0..entries.len()).filter(|index| is_ranked(entries[*index], metric)).collect();
    let mut out = vec![None; entries.len()];
    if ranked.len() > MAX_RANKED {
        return out;
    }
    let count = ranked.len() as u32;
    let pairs: Vec<(usize, usize)> =
        (0..ranked.len()).flat_map(|a| (a + 1..ranked.len()).map(move |b| (a, b))).collect();
    let compared: Vec<(f64, f64)> =
        pairs.iter().map(|(a, b)| compare(entries[ranked[*a]], entries[ranked[*b]], metric)).collect();
    let p = holm(&compared.iter().map(|(p, _)| *p).collect::<Vec<f64>>());
    let mut range = vec![Ranks { best: 1, worst: count }; ranked.len()];
    for ((&(a, b), p), (_, difference)) in pairs.iter().zip(p).zip(compared) {
        if p > SIGNIFICANCE || difference == 0.0 {
            continue;
        }
        let a_is_better = (difference > 0.0) == metric.more_is_better();
        let (better, worse) = if a_is_better { (a, b) } else { (b, a) };
        range[better].worst -= 1;
        range[worse].best += 1;
    }
    for (index, range) in ranked.into_iter().zip(range) {
        out[index] = Some(range);
    }
    out
}

/// Fewest requests whose share of failures is ranked: as many as a median needs.
const MIN_REQUESTS: u64 = tokrate_stats::Level::P50.floor();

fn is_ranked(summary: &Summary, metric: Metric) -> bool {
    match metric {
        Metric::Errors => summary.errors.n >= MIN_REQUESTS,
        metric => summary.median(metric).value.is_some(),
    }
}

/// The p-value of a pair, and a number above 0 where `a` has more, below where `b` has, 0 where that is open.
fn compare(a: &Summary, b: &Summary, metric: Metric) -> (f64, f64) {
    if metric == Metric::Errors {
        let difference = a.errors.value().unwrap_or(0.0) - b.errors.value().unwrap_or(0.0);
        return (fisher_p(a.errors.hits, a.errors.n, b.errors.hits, b.errors.n), difference);
    }
    let (of_a, of_b) = (a.values(metric), b.values(metric));
    let medians = tokrate_stats::median(of_a) - tokrate_stats::median(of_b);
    // The test asks which is larger more often. Where the medians say otherwise, the distributions cross: neither is ahead.
    let dominance = rank_sum_sign(of_a, of_b);
    let difference = if medians * dominance > 0.0 { medians } else { 0.0 };
    (rank_sum_p(of_a, of_b), difference)
}

/// Pairs in which the value of `a` is larger less those in which it is smaller. Both rise.
fn rank_sum_sign(a: &[f64], b: &[f64]) -> f64 {
    let (mut below, mut up_to, mut sum) = (0, 0, 0.0);
    for value in a {
        while below < b.len() && b[below] < *value {
            below += 1;
        }
        while up_to < b.len() && b[up_to] <= *value {
            up_to += 1;
        }
        sum += below as f64 - (b.len() - up_to) as f64;
    }
    sum
}

#[cfg(test)]
mod tests;
