//! What a time range of a log came to: calls, lanes, keys and failures in all and over time, made in one bounded pass.
//!
//! Invariant: no more than a stated number of rows is looked at, the newest ones of the range, and what was left out is said; every
//! number is that of the rows begun in `from_unix_ms..until_unix_ms` which fit the query, with percentiles of the values themselves.

mod json;
mod take;

use crate::cache_sight::CacheSight;
use crate::{Order, Query, Store, StoreError};
use std::collections::{BTreeMap, BTreeSet};
use take::Pass;
use tokrate_core::FailureKind;
use tokrate_stats::Quantile;

/// Parts that a range has at most, so that a chart of it can be read.
const MAX_BUCKETS: u64 = 60;
/// Lengths of time that people count in (ms): those of a range's parts, and of the distances between times on a chart of it.
pub const USUAL_LENGTHS_MS: [u64; 17] = [
    1_000,
    5_000,
    15_000,
    60_000,
    120_000,
    300_000,
    600_000,
    900_000,
    1_800_000,
    3_600_000,
    7_200_000,
    10_800_000,
    21_600_000,
    43_200_000,
    86_400_000,
    172_800_000,
    604_800_000,
];

/// The end of the year 9999 (ms since 1970), so that no sum of times overflows.
const LAST_UNIX_MS: u64 = 253_402_300_799_999;

/// What a range came to.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Report {
    /// The beginning of what was looked at (ms since 1970).
    pub from_unix_ms: u64,
    /// Its end (ms since 1970); rows begun then are not in it.
    pub until_unix_ms: u64,
    /// Whether the range that was asked for begins earlier: it has more rows than may be looked at.
    pub is_cut: bool,
    /// Length of its parts (ms). The first begins at the last multiple of it that is not after `from_unix_ms`.
    pub bucket_ms: u64,
    /// How many parts there are.
    pub buckets: usize,
    /// Calls of clients; `None` where the query tells attempts of one call apart, such as by lane.
    pub calls: Option<CallCounts>,
    /// All attempts.
    pub total: Tally,
    /// By lane.
    pub lanes: BTreeMap<String, LaneReport>,
    /// By virtual key; `None` for calls without one.
    pub keys: BTreeMap<Option<String>, Tally>,
    /// By name asked for.
    pub aliases: BTreeMap<String, Tally>,
    /// Failures by lane and kind; `None` for those of which no kind is known.
    pub failures: BTreeMap<(String, Option<FailureKind>), FailureReport>,
}

/// Calls by what their clients saw.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CallCounts {
    /// All.
    pub all: u64,
    /// Answered whole.
    pub answered: u64,
    /// Broken off after part of the answer had reached the client.
    pub broken: u64,
    /// Without an answer: every lane that was asked failed.
    pub failed: u64,
    /// The client left.
    pub abandoned: u64,
    /// Only attempts that lost are in the range, or have ended so far.
    pub open: u64,
}

/// Counts and costs of attempts.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Tally {
    /// All.
    pub attempts: u64,
    /// Whose answer was given to the client, whole.
    pub answered: u64,
    /// That failed.
    pub failed: u64,
    /// That lost to another attempt of their call.
    pub lost: u64,
    /// Whose client left.
    pub abandoned: u64,
    /// Begun because another lane had failed.
    pub failovers: u64,
    /// Begun because another lane was slow.
    pub hedges: u64,
    /// Those of them whose answer the client got.
    pub hedges_won: u64,
    /// Begun together with the first.
    pub races: u64,
    /// Those of them whose answer the client got.
    pub races_won: u64,
    /// What is known of the cost (USD).
    pub cost_usd: f64,
    /// That part of it which went to attempts that lost (USD).
    pub lost_cost_usd: f64,
    /// Attempts of unknown cost.
    pub cost_unknown: u64,
    /// Attempts whose cost is estimated.
    pub cost_estimated: u64,
}

/// A lane in the range.
#[derive(Clone, PartialEq, Debug)]
pub struct LaneReport {
    /// Its attempts.
    pub tally: Tally,
    /// Sent to first output text of streams (ms).
    pub ttft: Times,
    /// Sent to the last byte of answers in one piece (ms): they have no time to first text.
    pub answer: Times,
    /// Time per token after the first chunk (ms): 1 / output speed.
    pub tpot: Times,
    /// What was expected of its prompt cache, and found.
    pub cache: CacheSight,
    /// Models that it was configured with.
    pub models: BTreeSet<String>,
    /// By part of the range.
    pub buckets: Vec<Bucket>,
}

/// How many values there are, and three of their quantiles.
#[derive(Clone, PartialEq, Debug)]
pub struct Times {
    /// How many.
    pub n: u64,
    /// The median.
    pub p50: Quantile,
    /// The 90th percentile.
    pub p90: Quantile,
    /// The 99th percentile.
    pub p99: Quantile,
}

/// A lane in one part of the range.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Bucket {
    /// Attempts.
    pub attempts: u64,
    /// Those that failed.
    pub failed: u64,
    /// Hedges and races.
    pub extra: u64,
    /// Those of them whose answer the client got.
    pub extra_won: u64,
    /// Time to first token of streams (ms).
    pub ttft: Option<Spread>,
    /// Output speed (tok/s).
    pub speed: Option<Spread>,
}

/// Nearest ranks of a few values.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Spread {
    /// How many values.
    pub n: u64,
    /// The 10th percentile.
    pub low: f64,
    /// The median.
    pub median: f64,
    /// The 90th percentile.
    pub high: f64,
}

/// Failures of one kind at one lane.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FailureReport {
    /// How many.
    pub count: u64,
    /// When the first began in the range (ms since 1970).
    pub first_unix_ms: u64,
    /// When the last began (ms since 1970).
    pub last_unix_ms: u64,
    /// The newest call that met it.
    pub last_call: String,
    /// By virtual key.
    pub keys: BTreeMap<Option<String>, u64>,
    /// By name asked for.
    pub aliases: BTreeMap<String, u64>,
    /// By part of the range.
    pub buckets: Vec<u32>,
}

/// A range of a log that may be looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BoundedRange {
    /// Its beginning (ms since 1970).
    pub from_unix_ms: u64,
    /// Its end (ms since 1970).
    pub until_unix_ms: u64,
    /// Whether it begins later than was asked for.
    pub is_cut: bool,
}

impl BoundedRange {
    /// The query in this range, without order and limit.
    pub fn of(&self, query: &Query) -> Query {
        let (from_unix_ms, until_unix_ms) = (Some(self.from_unix_ms), Some(self.until_unix_ms));
        Query { from_unix_ms, until_unix_ms, order: Order::default(), limit: None, ..query.clone() }
    }
}

/// As [`Store::bounded`]: goes along the index on time (or on lane and time) and reads no row.
pub(crate) fn bounded<S: Store + ?Sized>(
    store: &S,
    query: &Query,
    now_unix_ms: u64,
    most: u64,
) -> Result<BoundedRange, StoreError> {
    let until_unix_ms = query.until_unix_ms.unwrap_or(now_unix_ms.saturating_add(1)).min(LAST_UNIX_MS);
    // Only what an index knows: a filter that nothing fits would otherwise go through the whole log.
    let newest = Query {
        from_unix_ms: query.from_unix_ms,
        until_unix_ms: Some(until_unix_ms),
        lane: query.lane.clone(),
        order: Order::Newest,
        limit: Some(most.saturating_add(1)),
        ..Query::default()
    };
    let (mut rows, mut last, mut within) = (0, None, None);
    store.visit(&["started_unix_ms"], &newest, true, &mut |mut row| {
        rows += 1;
        last = Some(row.count::<u64>()?);
        if rows <= most {
            within = last;
        }
        Ok(())
    })?;
    let is_cut = rows > most;
    let from_unix_ms = match (is_cut, within, last) {
        // Rows of one millisecond are in the range together or not at all.
        (true, Some(within), Some(last)) => within.max(last.saturating_add(1)),
        (_, _, oldest) => query.from_unix_ms.or(oldest).unwrap_or(until_unix_ms),
    };
    Ok(BoundedRange { from_unix_ms: from_unix_ms.min(until_unix_ms), until_unix_ms, is_cut })
}

/// As [`Store::report`].
pub(crate) fn report<S: Store + ?Sized>(
    store: &S,
    query: &Query,
    now_unix_ms: u64,
    most: u64,
) -> Result<Report, StoreError> {
    let range = bounded(store, query, now_unix_ms, most)?;
    let mut pass = Pass::new(&range, query);
    store.visit(&take::COLUMNS, &range.of(query), false, &mut |row| pass.take(row))?;
    Ok(pass.close())
}

/// Length of the parts of a range (ms), and how many there are.
fn buckets_of(range: &BoundedRange) -> (u64, usize) {
    let parts =
        |bucket: u64| (range.until_unix_ms.saturating_sub(1) / bucket).saturating_sub(range.from_unix_ms / bucket) + 1;
    let bucket = USUAL_LENGTHS_MS.into_iter().find(|bucket| parts(*bucket) <= MAX_BUCKETS);
    // Of a century, whole multiples of a week.
    let week = USUAL_LENGTHS_MS[USUAL_LENGTHS_MS.len() - 1];
    let bucket = bucket.unwrap_or_else(|| week * parts(week).div_ceil(MAX_BUCKETS - 1));
    (bucket, parts(bucket) as usize)
}

impl Report {
    /// The beginning of a part (ms since 1970).
    pub fn bucket_unix_ms(&self, index: usize) -> u64 {
        (self.from_unix_ms / self.bucket_ms.max(1) + index as u64) * self.bucket_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_at_most_sixty_parts_whatever_its_length() {
        for length in [1, 999, 60_000, 900_000, 3_600_000, 86_400_000, 604_800_000, 31_536_000_000, u64::MAX / 2] {
            for from_unix_ms in [0, 1_795_262_399_999] {
                let until_unix_ms = from_unix_ms + length;
                let (bucket, parts) = buckets_of(&BoundedRange { from_unix_ms, until_unix_ms, is_cut: false });
                assert!((1..=60).contains(&parts), "{length}: {parts} parts of {bucket}");
                assert!(parts as u64 * bucket >= length);
            }
        }
        let all_time = BoundedRange { from_unix_ms: 0, until_unix_ms: LAST_UNIX_MS, is_cut: false };
        let (bucket, parts) = buckets_of(&all_time);
        assert!(bucket.checked_mul(parts as u64 + 1).is_some());
        let day = BoundedRange { from_unix_ms: 0, until_unix_ms: 86_400_000, is_cut: false };
        assert_eq!(buckets_of(&day), (1_800_000, 48));
    }
}
