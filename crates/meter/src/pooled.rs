//! Distributions of samples pooled over requests: chunk gaps and ITL.
//!
//! Invariant: intervals are never narrower than those for independent samples, and widen with the differences between
//! requests.
//!
//! Samples of one request are alike, so the interval for independent samples is too narrow. The other one is Woodruff's
//! (1952) for clustered samples: the variance of the share of samples at or below the estimate, as a ratio over requests, moves
//! the quantile's level up and down, and the sorted samples are read there. The wider of the two bounds is given.

use crate::request::RequestNumbers;
use tokrate_stats::{Distribution, Level, Quantile, Unit, normal_quantile};

/// Which samples are pooled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pool {
    /// Time between chunks.
    ChunkGap,
    /// Chunk gaps shared among the tokens of the later chunk.
    Itl,
}

impl Pool {
    /// Hands each sample (ns) of a request with its multiplicity to `take`.
    fn each(self, request: &RequestNumbers, mut take: impl FnMut(u64, u64)) {
        match self {
            Pool::ChunkGap => request.gaps().for_each(|(gap, _)| take(gap, 1)),
            Pool::Itl => request.itl_samples().for_each(|(value, count)| take(value, u64::from(count))),
        }
    }

    /// The distribution over all samples of all requests given.
    pub fn distribution(self, requests: &[&RequestNumbers]) -> Distribution {
        let mut samples = Vec::new();
        for request in requests {
            self.each(request, |value, count| samples.extend(std::iter::repeat_n(value, count as usize)));
        }
        let mut distribution = Distribution::of_nanos(&mut samples);
        let Distribution { p50, p90, p95, p99, p99_9, .. } = &mut distribution;
        let quantiles = [p50, p90, p95, p99, p99_9];
        for (level, quantile) in Level::ALL.into_iter().zip(quantiles) {
            self.widen(level, quantile, &samples, requests);
        }
        distribution
    }

    /// Widens the interval of a stated quantile by the variation between requests.
    fn widen(self, level: Level, quantile: &mut Quantile, sorted: &[u64], requests: &[&RequestNumbers]) {
        let n = sorted.len() as u64;
        let (Some(_), Some(rank), true) = (quantile.value, level.nearest_rank(n), requests.len() > 1) else { return };
        let estimate = sorted[rank as usize - 1];
        let Some(error) = self.share_error(estimate, sorted, requests) else { return };
        let reach = normal_quantile(1.0 - level.alpha()).unwrap_or(0.0) * error;
        let read = |rank: f64| sorted[rank.clamp(1.0, n as f64) as usize - 1] as f64 / Unit::Milliseconds.steps();
        let low = read(((level.share() - reach) * n as f64).floor());
        let high = read(((level.share() + reach) * n as f64).ceil());
        quantile.low = quantile.low.map(|bound| bound.min(low));
        quantile.high = quantile.high.map(|bound| bound.max(high));
    }

    /// Standard error of the share of samples at or below `estimate`, requests being the clusters.
    fn share_error(self, estimate: u64, sorted: &[u64], requests: &[&RequestNumbers]) -> Option<f64> {
        let n = sorted.len() as f64;
        let share = sorted.partition_point(|&value| value <= estimate) as f64 / n;
        let mut squares = 0.0;
        let mut clusters = 0.0;
        for request in requests {
            let (mut below, mut all) = (0, 0);
            self.each(request, |value, count| {
                all += count;
                below += if value <= estimate { count } else { 0 };
            });
            clusters += if all > 0 { 1.0 } else { 0.0 };
            squares += (below as f64 - share * all as f64).powi(2);
        }
        (clusters > 1.0).then(|| (clusters / (clusters - 1.0) * squares).sqrt() / n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::at;
    use crate::request::Chunk;

    /// A request whose chunk gaps are these (ms), a token in each chunk.
    fn with_gaps(gaps: impl IntoIterator<Item = u64>) -> RequestNumbers {
        let chunk = |milliseconds| Chunk { at: at(milliseconds), tokens: 1, events: 1 };
        let mut tick = 0;
        let mut chunk_list = vec![chunk(tick)];
        for gap in gaps {
            tick += gap;
            chunk_list.push(chunk(tick));
        }
        RequestNumbers { chunk_list, ..RequestNumbers::default() }
    }

    #[test]
    fn an_interval_of_two_requests_follows_woodruff() {
        // The gaps are 1, 2 ... 200 ms, so that a rank is read as itself. Of the hundred of one request, 55 are at or below the
        // median of 100 ms, of the other's 45: the standard error of the share is sqrt(2/1 * (5^2 + 5^2)) / 200 = 0.05, and
        // 0.5 +- 1.95996 * 0.05 of 200 are the ranks 80.4 and 119.6, taken outwards. Independent samples would give
        // 100 +- 1.96 * sqrt(200 / 4), which is narrower.
        let one = with_gaps((1..=55).chain(101..=145));
        let other = with_gaps((56..=100).chain(146..=200));
        // A request of a single chunk has no gap and tells nothing about the others.
        let single = with_gaps([]);
        for pool in [Pool::ChunkGap, Pool::Itl] {
            let distribution = pool.distribution(&[&one, &other, &single]);
            let median = &distribution.p50;
            assert_eq!((distribution.n, median.value), (200, Some(100.0)));
            assert_eq!((median.low, median.high), (Some(80.0), Some(120.0)), "{pool:?}");
        }
    }

    #[test]
    fn the_interval_of_one_request_is_that_of_independent_samples() {
        let one = with_gaps(1..=200);
        let pooled = Pool::ChunkGap.distribution(&[&one]);
        let mut samples: Vec<u64> = (1..=200).map(|gap| (at(gap) - at(0)).as_nanos()).collect();
        assert_eq!(pooled, Distribution::of_nanos(&mut samples));
        // Nor do requests without a gap make it a sample of several.
        let single = with_gaps([]);
        assert_eq!(Pool::ChunkGap.distribution(&[&single, &one, &single]), pooled);
    }
}
