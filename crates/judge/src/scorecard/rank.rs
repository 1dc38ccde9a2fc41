//! Rank ranges of targets, from permutation tests; less is better.
//!
//! Invariant: two ranges do not overlap only if a permutation test, corrected for all tests, separates the targets.

use serde::{Deserialize, Serialize};
use tokrate_core::Rng;
use tokrate_record::Samples;
use tokrate_record::curve::Measured;
use tokrate_stats::{Level, holm, permutation_p, ratio_of_medians};

/// The median of a target and its rank range.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RankedMedian {
    /// Requests that it rests on.
    pub n: u64,
    /// The median with its 95 % interval; without an interval it only describes too few requests.
    pub median: Option<Measured>,
    /// The best place that it can have; absent with too few requests to be tested, or alone.
    pub first: Option<u32>,
    /// The worst place that it can have.
    pub last: Option<u32>,
}

impl RankedMedian {
    fn of(samples: &Samples) -> RankedMedian {
        let median = samples.median();
        let ends = median.low.zip(median.high);
        let median = median.nearest_rank().map(|value| Measured {
            value,
            low: ends.map(|ends| ends.0),
            high: ends.map(|ends| ends.1),
        });
        RankedMedian { n: samples.n(), median, first: None, last: None }
    }

    /// Milliseconds for each token as tokens per second.
    pub(super) fn into_speed(self) -> RankedMedian {
        let speed = |milliseconds: f64| (milliseconds > 0.0).then(|| 1e3 / milliseconds);
        let median = self.median.and_then(|time| {
            let value = speed(time.value)?;
            // The slowest token time is the lowest speed.
            Some(Measured { value, low: time.high.and_then(speed), high: time.low.and_then(speed) })
        });
        RankedMedian { median, ..self }
    }
}

/// Standings for several metrics, each with the samples of every target, and the number of tests made.
pub(super) fn rank_targets<const M: usize>(
    metrics: [&[&Samples]; M],
    alpha: f64,
    rng: &Rng,
) -> ([Vec<RankedMedian>; M], u64) {
    let mut pairs = Vec::new();
    let mut p = Vec::new();
    for (metric, samples) in metrics.iter().enumerate() {
        let rng = rng.child(&format!("places {metric}"));
        for b in 0..samples.len() {
            for a in (0..b).filter(|&a| can_be_ranked(samples[a]) && can_be_ranked(samples[b])) {
                pairs.push((metric, a, b));
                p.push(permutation_p(&samples[a].sorted, &samples[b].sorted, &rng.child(&format!("{a} {b}"))));
            }
        }
    }
    let apart: Vec<(usize, usize, usize)> =
        pairs.iter().zip(holm(&p)).filter(|(_, p)| *p < alpha).map(|(&pair, _)| pair).collect();
    let mut metric = 0;
    let ranks = metrics.map(|samples| {
        let apart = apart.iter().filter(|pair| pair.0 == metric).map(|&(_, a, b)| (a, b)).collect::<Vec<_>>();
        metric += 1;
        rank_ranges(samples, &apart)
    });
    (ranks, p.len() as u64)
}

/// `apart` are the pairs that a test separates.
fn rank_ranges(samples: &[&Samples], apart: &[(usize, usize)]) -> Vec<RankedMedian> {
    let mut ranks: Vec<RankedMedian> = samples.iter().map(|samples| RankedMedian::of(samples)).collect();
    let among = samples.iter().filter(|samples| can_be_ranked(samples)).count() as u32;
    if among < 2 {
        return ranks;
    }
    for (place, ranked) in ranks.iter_mut().enumerate().filter(|(place, _)| can_be_ranked(samples[*place])) {
        let others = apart.iter().filter_map(|&(a, b)| match place {
            place if place == a => Some(b),
            place if place == b => Some(a),
            _ => None,
        });
        let (mut better, mut worse) = (0, 0);
        for other in others {
            match is_lower(&samples[other].sorted, &samples[place].sorted) {
                true => better += 1,
                false => worse += 1,
            }
        }
        (ranked.first, ranked.last) = (Some(1 + better), Some(among - worse));
    }
    ranks
}

fn can_be_ranked(samples: &Samples) -> bool {
    samples.n() >= Level::P50.floor()
}

/// Whether `a` tends to be lower: more often below `b` than above, as the test of ranks sees it.
fn is_lower(a: &[f64], b: &[f64]) -> bool {
    let below: u64 = a.iter().map(|value| (b.len() - b.partition_point(|other| other <= value)) as u64).sum();
    let above: u64 = a.iter().map(|value| b.partition_point(|other| other < value) as u64).sum();
    below > above
}

/// The speed in `crowded` as a share of that in `alone`, from times per token.
pub(super) fn speed_ratio(alone: &Samples, crowded: &Samples, rng: &Rng) -> Option<Measured> {
    let value = alone.median().nearest_rank()? / crowded.median().nearest_rank()?;
    if !value.is_finite() || value <= 0.0 {
        return None;
    }
    let enough = can_be_ranked(alone) && can_be_ranked(crowded);
    let interval = enough.then(|| ratio_of_medians(&crowded.sorted, &alone.sorted, rng)).flatten();
    // The resolution of sketches widens the interval.
    let slack = (1.0 + alone.resolution) * (1.0 + crowded.resolution);
    Some(Measured {
        value,
        low: interval.as_ref().map(|(interval, _)| interval.low / slack),
        high: interval.as_ref().map(|(interval, _)| interval.high * slack),
    })
}
