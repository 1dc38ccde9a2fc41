//! Rank ranges of targets, from the verdicts of the comparison.
//!
//! Invariant: two ranges do not overlap only if the comparison calls the targets different, corrected for all tests of the scorecard.

use super::Detectable;
use crate::compare::{CompareOptions, CompareReport, CompareRow, CompareVerdict, compare_pairs};
use serde::{Deserialize, Serialize};
use tokrate_core::Rng;
use tokrate_record::curve::Measured;
use tokrate_record::{LevelSamples, Metric, Samples};
use tokrate_stats::{Level, ratio_of_medians};

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

/// Ranks by several metrics.
pub(super) struct Ranks<const M: usize> {
    /// Of each metric, each target's.
    pub(super) ranked: [Vec<RankedMedian>; M],
    /// How many tests were made.
    pub(super) family: u64,
    /// What would have been seen in every pair that is not told apart, metric by metric.
    pub(super) detectable: Vec<Detectable>,
}

/// Ranks by these metrics at the level of each target. `reports` are the comparisons of the targets with the first, where there are any.
pub(super) fn rank_targets<const M: usize>(
    metrics: [Metric; M],
    levels: &[Option<&LevelSamples>],
    reports: &[Option<&CompareReport>],
    alpha: f64,
) -> Ranks<M> {
    let known = levels.iter().enumerate().filter_map(|(place, level)| Some((place, (*level)?)));
    let known: Vec<(usize, &LevelSamples)> = known.collect();
    let pairs: Vec<[(usize, &LevelSamples); 2]> =
        known.iter().enumerate().flat_map(|(place, b)| known[..place].iter().map(move |a| [*a, *b])).collect();
    let options = CompareOptions { metrics: metrics.to_vec(), alpha, ..CompareOptions::default() };
    let sides: Vec<(&LevelSamples, &LevelSamples)> = pairs.iter().map(|[(_, a), (_, b)]| (*a, *b)).collect();
    let (rows, family) = compare_pairs(&sides, &options);
    // Rows come pair by pair, each with every metric.
    let rows_of = |metric: usize| pairs.iter().zip(rows.iter().skip(metric).step_by(M.max(1)));
    let mut metric = 0;
    let mut detectable = Vec::new();
    let ranked = metrics.map(|wanted| {
        let (mut apart, mut change) = (Vec::new(), None);
        for ([(first, a), (second, b)], row) in rows_of(metric) {
            let against = reports.get(*second).copied().flatten().filter(|_| *first == 0);
            let against = against.and_then(|report| report.row(&a.name, wanted));
            match verdict(row, a, b).filter(|better| against.is_none_or(|row| row.verdict == *better)) {
                Some(CompareVerdict::Better) => apart.push((*second, *first)),
                Some(_) => apart.push((*first, *second)),
                // Both tests have to see it.
                None => {
                    change = [Some(row), against]
                        .into_iter()
                        .flatten()
                        .filter_map(|row| row.smallest_visible)
                        .fold(change, larger)
                }
            }
        }
        metric += 1;
        detectable.extend(change.map(|change| Detectable { metric: wanted, change }));
        rank_ranges(&levels.iter().map(|level| samples_of(wanted, *level)).collect::<Vec<_>>(), &apart)
    });
    Ranks { ranked, family, detectable }
}

fn larger(known: Option<f64>, change: f64) -> Option<f64> {
    Some(known.map_or(change, |known| known.max(change)))
}

/// Differences of single rounds up to this are none: a single round does not tell by how much rounds differ among themselves. It is
/// the change from which on a comparison calls a difference a regression.
pub(super) const MIN_DIFFERENCE_OF_SINGLE_ROUNDS: f64 = 0.05;

/// Whether the second of a row is better or worse than the first; `None` where the comparison finds no difference.
fn verdict(row: &CompareRow, a: &LevelSamples, b: &LevelSamples) -> Option<CompareVerdict> {
    if !matches!(row.verdict, CompareVerdict::Better | CompareVerdict::Worse) {
        return None;
    }
    let metric = if row.metric == Metric::OutputSpeed { Metric::Tpot } else { row.metric };
    let rounds = a.of_phases.rounds(metric).len().min(b.of_phases.rounds(metric).len());
    let least = 1.0 + MIN_DIFFERENCE_OF_SINGLE_ROUNDS;
    let is_large = row.interval.is_some_and(|interval| interval.low > least || interval.high < 1.0 / least);
    (rounds > 1 || is_large).then_some(row.verdict)
}

fn samples_of(metric: Metric, level: Option<&LevelSamples>) -> Samples {
    let metric = if metric == Metric::OutputSpeed { Metric::Tpot } else { metric };
    level.map_or_else(Samples::default, |level| level.times(metric).clone())
}

/// `apart` are the pairs that differ, the better first.
fn rank_ranges(samples: &[Samples], apart: &[(usize, usize)]) -> Vec<RankedMedian> {
    let mut ranks: Vec<RankedMedian> = samples.iter().map(RankedMedian::of).collect();
    let among = samples.iter().filter(|samples| can_be_ranked(samples)).count() as u32;
    if among < 2 {
        return ranks;
    }
    for (place, ranked) in ranks.iter_mut().enumerate().filter(|(place, _)| can_be_ranked(&samples[*place])) {
        let better = apart.iter().filter(|(_, worse)| *worse == place).count() as u32;
        let worse = apart.iter().filter(|(better, _)| *better == place).count() as u32;
        (ranked.first, ranked.last) = (Some(1 + better), Some(among - worse));
    }
    ranks
}

fn can_be_ranked(samples: &Samples) -> bool {
    samples.n() >= Level::P50.floor()
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
