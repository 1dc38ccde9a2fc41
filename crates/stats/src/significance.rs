//! Significance tests and intervals for comparisons.
//!
//! Invariant: a p-value is above 0 and at most 1; a permutation p-value counts the observed arrangement among the others
//! (Phipson and Smyth 2010), so it is never 0.

use crate::{Interval, IntervalMethod, ln_gamma, normal_cdf, normal_quantile, percentile_interval, wilson_interval};
use tokrate_core::Rng;

/// Work of a permutation test, in samples visited: about a tenth of a second.
const WORK: usize = 20_000_000;
const REPLICATES: usize = 4_000;

/// The nearest-rank median of sorted values; NaN of none.
pub fn median(sorted: &[f64]) -> f64 {
    if sorted.is_empty() { f64::NAN } else { sorted[sorted.len().div_ceil(2) - 1] }
}

/// The median of values in any order, between the two middle ones of an even number; NaN of none. An estimate of a level or a
/// spread; what is shown to people is [`median`], a value that occurred.
pub fn midpoint_median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

/// P-value of the two-sided rank sum test (Wilcoxon 1945; ties share their mean rank), by random permutations. Medians
/// would be a poor statistic here: if the two sides do not overlap, a split with one sample moved has the same medians.
pub fn permutation_p(a: &[f64], b: &[f64], rng: &Rng) -> f64 {
    let mut pooled: Vec<f64> = a.iter().chain(b).copied().collect();
    pooled.sort_unstable_by(f64::total_cmp);
    // Twice the mean rank of ties, so that all ranks are integers.
    let rank = |value: f64| {
        let below = pooled.partition_point(|other| other.total_cmp(&value).is_lt());
        let up_to = pooled.partition_point(|other| other.total_cmp(&value).is_le());
        (below + up_to + 1) as u64
    };
    let ranks: Vec<u64> = pooled.iter().map(|&value| rank(value)).collect();
    let expected = (a.len() * (pooled.len() + 1)) as u64;
    let observed = a.iter().map(|&value| rank(value)).sum::<u64>().abs_diff(expected);
    let rounds = (WORK / pooled.len().max(1)).clamp(2_000, 10_000);
    let mut rng = rng.child("permutation");
    let at_least_as_far =
        (0..rounds).filter(|_| split_rank_sum(&ranks, a.len(), &mut rng).abs_diff(expected) >= observed).count();
    (at_least_as_far + 1) as f64 / (rounds + 1) as f64
}

/// P-value of the two-sided rank sum test (Wilcoxon 1945) by its normal approximation, with continuity and ties corrected
/// (Lehmann 1975, section 1.4): microseconds where [`permutation_p`] takes a tenth of a second. 1 where a side is empty or all
/// values are equal.
pub fn rank_sum_p(a: &[f64], b: &[f64]) -> f64 {
    let mut pooled: Vec<(f64, bool)> =
        a.iter().map(|&value| (value, true)).chain(b.iter().map(|&value| (value, false))).collect();
    pooled.sort_unstable_by(|x, y| x.0.total_cmp(&y.0));
    let (n_a, n_b, n) = (a.len() as f64, b.len() as f64, pooled.len() as f64);
    let (mut rank_sum, mut ties, mut below) = (0.0, 0.0, 0.0);
    for tied in pooled.chunk_by(|x, y| x.0.total_cmp(&y.0).is_eq()) {
        let count = tied.len() as f64;
        rank_sum += tied.iter().filter(|(_, of_a)| *of_a).count() as f64 * (below + (count + 1.0) / 2.0);
        ties += count * (count * count - 1.0);
        below += count;
    }
    let variance = n_a * n_b / 12.0 * (n + 1.0 - ties / (n * (n - 1.0)));
    let distance = (rank_sum - n_a * (n + 1.0) / 2.0).abs() - 0.5;
    if variance > 0.0 { normal_p(distance.max(0.0) / variance.sqrt()) } else { 1.0 }
}

/// The rank sum of `of_a` random samples.
fn split_rank_sum(ranks: &[u64], of_a: usize, rng: &mut Rng) -> u64 {
    let (mut remaining, mut sum) = (of_a as u64, 0);
    for (place, &rank) in ranks.iter().enumerate() {
        if remaining == 0 {
            break;
        }
        if rng.below((ranks.len() - place) as u64) < remaining {
            remaining -= 1;
            sum += rank;
        }
    }
    sum
}

/// 95 % interval of median(b) / median(a) and the standard error of its logarithm.
///
/// The median of a resample is the sample at a rank that is distributed as an order statistic of uniform draws, which is a
/// Beta variable: one draw for each resample instead of n.
pub fn ratio_of_medians(a: &[f64], b: &[f64], rng: &Rng) -> Option<(Interval, f64)> {
    let mut rng = rng.child("bootstrap");
    let replicates: Vec<f64> = (0..REPLICATES)
        .map(|_| (resampled_median(b, &mut rng) / resampled_median(a, &mut rng)).ln())
        .filter(|ratio| ratio.is_finite())
        .collect();
    let interval = percentile_interval(&replicates, 0.95)?;
    let n = replicates.len() as f64;
    let mean = replicates.iter().sum::<f64>() / n;
    let error = (replicates.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
    Some((Interval { low: interval.low.exp(), high: interval.high.exp(), ..interval }, error))
}

fn resampled_median(sorted: &[f64], rng: &mut Rng) -> f64 {
    let n = sorted.len();
    let rank = n.div_ceil(2);
    let (below, above) = (rng.gamma(rank as f64), rng.gamma((n - rank + 1) as f64));
    let place = (below / (below + above) * n as f64) as usize;
    sorted[place.min(n - 1)]
}

/// The smallest change, in standard errors, that a test at level `alpha` detects with 80 % power.
pub fn visible_errors(alpha: f64) -> f64 {
    normal_quantile(1.0 - alpha / 2.0).unwrap_or(f64::INFINITY) + normal_quantile(0.8).unwrap_or(0.0)
}

/// Two-sided p of a normal deviate.
pub fn normal_p(z: f64) -> f64 {
    (2.0 * normal_cdf(-z.abs())).clamp(f64::MIN_POSITIVE, 1.0)
}

/// Fisher's exact test of two shares, two-sided: the probability of all tables at most as likely as the one seen.
pub fn fisher_p(hits_a: u64, of_a: u64, hits_b: u64, of_b: u64) -> f64 {
    let ln_choose =
        |n: u64, k: u64| ln_gamma(n as f64 + 1.0) - ln_gamma(k as f64 + 1.0) - ln_gamma((n - k) as f64 + 1.0);
    let (hits, all) = (hits_a + hits_b, of_a + of_b);
    let ln_p = |k: u64| ln_choose(of_a, k) + ln_choose(of_b, hits - k) - ln_choose(all, hits);
    let observed = ln_p(hits_a);
    let min_hits = hits.saturating_sub(of_b);
    let sum: f64 = (min_hits..=hits.min(of_a)).map(ln_p).filter(|ln_p| *ln_p <= observed + 1e-9).map(f64::exp).sum();
    sum.clamp(f64::MIN_POSITIVE, 1.0)
}

/// 95 % interval of share b - share a (Newcombe 1998, method 10: from Wilson's intervals of the two).
pub fn share_difference(hits_a: u64, of_a: u64, hits_b: u64, of_b: u64) -> Option<Interval> {
    let (a, b) = (wilson_interval(hits_a, of_a, 0.95)?, wilson_interval(hits_b, of_b, 0.95)?);
    let (share_a, share_b) = (hits_a as f64 / of_a as f64, hits_b as f64 / of_b as f64);
    let difference = share_b - share_a;
    Some(Interval {
        low: difference - (share_b - b.low).hypot(a.high - share_a),
        high: difference + (b.high - share_b).hypot(share_a - a.low),
        confidence: 0.95,
        method: IntervalMethod::Wilson,
    })
}

/// Holm's correction (1979): in the order of the p, each times the number of tests left, never falling.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&x, &y| p[x].total_cmp(&p[y]));
    let mut adjusted = vec![1.0; p.len()];
    let mut highest: f64 = 0.0;
    for (place, &index) in order.iter().enumerate() {
        highest = highest.max(p[index] * (p.len() - place) as f64).min(1.0);
        adjusted[index] = highest;
    }
    adjusted
}
