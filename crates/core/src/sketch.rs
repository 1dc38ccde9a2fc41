//! A mergeable histogram of nanosecond values with a bounded relative error, exact sum and range.
//!
//! Invariant: merging is associative and commutative, and a quantile lies within [`Sketch::RELATIVE_ERROR`] of the exact
//! one.

use crate::buckets::{Buckets, rank_of};

/// A histogram of integers (usually nanoseconds) with 64 buckets per power of two: [`Buckets`] at OpenTelemetry's scale 6, zeros,
/// and what buckets lose.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Sketch {
    buckets: Buckets<{ Sketch::SCALE }>,
    zeros: u64,
    count: u64,
    sum: u128,
    min: Option<u64>,
    max: Option<u64>,
}

impl Sketch {
    /// The OpenTelemetry scale of this resolution.
    pub const SCALE: u32 = 6;
    /// Largest relative error of a quantile: half a bucket, `2^(1/128) - 1`.
    pub const RELATIVE_ERROR: f64 = Buckets::<{ Sketch::SCALE }>::RELATIVE_ERROR;

    /// An empty sketch.
    pub fn new() -> Sketch {
        Sketch::default()
    }

    /// Restores a sketch from the parts stored in a record; `None` if they are inconsistent.
    pub fn from_parts(
        zeros: u64,
        buckets: impl IntoIterator<Item = (u16, u64)>,
        sum: u128,
        min: u64,
        max: u64,
    ) -> Option<Sketch> {
        let buckets = Buckets::from_counts(buckets.into_iter().collect())?;
        let count = buckets.counts().iter().try_fold(zeros, |count, (_, n)| count.checked_add(*n))?;
        if count == 0 {
            return (sum == 0).then(Sketch::default);
        }
        (min <= max).then_some(Sketch { buckets, zeros, count, sum, min: Some(min), max: Some(max) })
    }

    /// Adds one value.
    pub fn record(&mut self, value: u64) {
        self.record_many(value, 1);
    }

    /// Adds the same value `n` times.
    pub fn record_many(&mut self, value: u64, n: u64) {
        if n == 0 {
            return;
        }
        match value {
            0 => self.zeros += n,
            _ => self.buckets.add(Buckets::<{ Sketch::SCALE }>::index_of(value), n),
        }
        self.count += n;
        self.sum += u128::from(value) * u128::from(n);
        self.min = Some(self.min.map_or(value, |min| min.min(value)));
        self.max = Some(self.max.map_or(value, |max| max.max(value)));
    }

    /// Adds all values of another sketch.
    pub fn merge(&mut self, other: &Sketch) {
        self.buckets.merge(&other.buckets);
        self.zeros += other.zeros;
        self.count += other.count;
        self.sum += other.sum;
        self.min = [self.min, other.min].into_iter().flatten().min();
        self.max = [self.max, other.max].into_iter().flatten().max();
    }

    /// The value at quantile `q` (nearest rank: the smallest value with at least `q * count` values at or below it),
    /// within [`Sketch::RELATIVE_ERROR`]; `None` when empty.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        let (min, max) = (self.min?, self.max?);
        let rank = rank_of(q, self.count);
        if rank == self.count {
            return Some(max);
        }
        match rank.checked_sub(self.zeros) {
            None | Some(0) => Some(0),
            Some(rank) => Some(self.buckets.at_rank(rank).map_or(max, |middle| middle.clamp(min, max))),
        }
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The exact sum of all values.
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// The exact mean, if there is any value.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// The smallest value.
    pub fn min(&self) -> Option<u64> {
        self.min
    }

    /// The largest value.
    pub fn max(&self) -> Option<u64> {
        self.max
    }

    /// Number of zeros.
    pub fn zeros(&self) -> u64 {
        self.zeros
    }

    /// The non-empty buckets: index and count, rising.
    pub fn buckets(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        self.buckets.counts().iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    #[test]
    fn quantiles_are_within_the_stated_error() {
        let mut rng = Rng::root(1);
        for spread in [10, 1_000, 100_000_000, u64::MAX] {
            let mut values: Vec<u64> = (0..5_000).map(|_| rng.below(spread)).collect();
            let mut sketch = Sketch::new();
            values.iter().for_each(|&value| sketch.record(value));
            values.sort_unstable();
            for q in [0.0, 0.01, 0.5, 0.9, 0.99, 0.999, 1.0] {
                let rank = ((q * values.len() as f64).ceil() as usize).max(1);
                let exact = values[rank - 1] as f64;
                let stated = sketch.quantile(q).expect("not empty") as f64;
                // Half a nanosecond more: the middle of a bucket is rounded to a whole one.
                let slack = exact * Sketch::RELATIVE_ERROR + 0.5;
                assert!((stated - exact).abs() <= slack, "q {q} spread {spread}: {stated} for {exact}");
            }
        }
    }

    #[test]
    fn merging_equals_recording_everything_in_one() {
        let mut rng = Rng::root(2);
        let mut parts = vec![Sketch::new(); 3];
        let mut whole = Sketch::new();
        for i in 0..3_000 {
            let value = rng.below(1 << (i % 40));
            parts[i % 3].record(value);
            whole.record(value);
        }
        let mut left = parts[0].clone();
        left.merge(&parts[1]);
        left.merge(&parts[2]);
        let mut right = parts[2].clone();
        right.merge(&parts[0]);
        right.merge(&parts[1]);
        assert_eq!(left, whole);
        assert_eq!(right, whole);
        let (min, max) = (whole.min().expect("filled"), whole.max().expect("filled"));
        let rebuilt = Sketch::from_parts(whole.zeros(), whole.buckets(), whole.sum(), min, max);
        assert_eq!(rebuilt.as_ref(), Some(&whole));
    }

    #[test]
    fn parts_that_do_not_fit_together_are_refused() {
        assert_eq!(Sketch::from_parts(0, [(3, 1), (3, 1)], 9, 1, 2), None);
        assert_eq!(Sketch::from_parts(0, [(3, 0)], 9, 1, 2), None);
        assert_eq!(Sketch::from_parts(0, [(3, 1)], 9, 5, 2), None);
        assert_eq!(Sketch::from_parts(0, [], 9, 0, 0), None);
        assert_eq!(Sketch::from_parts(0, [], 0, 0, 0), Some(Sketch::new()));
        assert_eq!(Sketch::from_parts(2, [], 0, 0, 0).and_then(|sketch| sketch.quantile(0.5)), Some(0));
        assert_eq!(Sketch::new().quantile(0.5), None);
    }
}
