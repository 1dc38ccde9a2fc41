//! Takes the rows of a range one by one.

use super::{BoundedRange, Bucket, CallCounts, LaneReport, Report, Spread, Tally, Times, buckets_of};
use crate::cache_sight::{CACHE_COLUMNS, CacheSight};
use crate::row::Reader;
use crate::summary::entry;
use crate::{Query, StoreError};
use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::BuildHasherDefault;
use tokrate_core::FailureKind;
use tokrate_record::{AttemptEnd, AttemptRole, CostBasis, tpot_ms};
use tokrate_stats::{Level, Quantile};

/// What is read of a row.
pub(super) const COLUMNS: [&str; 18] = [
    "lane",
    "alias",
    "key",
    "call",
    "role",
    "end",
    "won",
    "started_unix_ms",
    "failure",
    "ttft_ns",
    "answer_ns",
    "output_speed",
    "cost_usd",
    "cost_basis",
    "model",
    "input_tokens",
    CACHE_COLUMNS[0],
    CACHE_COLUMNS[1],
];

/// Calls by name; names are the gateway's own, so that nobody chooses them to collide.
type Calls = HashMap<Box<str>, u8, BuildHasherDefault<DefaultHasher>>;

/// What the attempts of a call were.
const ANSWERED: u8 = 1;
const BROKEN: u8 = 2;
const ABANDONED: u8 = 4;
const FAILED: u8 = 8;

/// A report while its rows come.
pub(super) struct Pass {
    report: Report,
    calls: Option<Calls>,
    lanes: BTreeMap<String, Lane>,
}

#[derive(Default)]
struct Lane {
    tally: Tally,
    models: BTreeSet<String>,
    parts: Vec<Part>,
    answer_ns: Vec<u64>,
    cache: CacheSight,
}

#[derive(Clone, Default)]
struct Part {
    bucket: Bucket,
    ttft_ns: Vec<u64>,
    speeds: Vec<f64>,
}

/// A row, read.
struct Taken<'r> {
    lane: &'r str,
    alias: &'r str,
    key: Option<&'r str>,
    call: &'r str,
    role: AttemptRole,
    end: AttemptEnd,
    won: bool,
    started_unix_ms: u64,
    failure: Option<FailureKind>,
    ttft_ns: Option<u64>,
    answer_ns: Option<u64>,
    speed: Option<f64>,
    cost_usd: Option<f64>,
    cost_basis: CostBasis,
    model: &'r str,
    cache: CacheSight,
}

impl<'r> Taken<'r> {
    fn of(mut row: Reader<'r>) -> Result<Taken<'r>, StoreError> {
        Ok(Taken {
            lane: row.str()?,
            alias: row.str()?,
            key: row.opt_str()?,
            call: row.str()?,
            role: row.named(&AttemptRole::ALL, AttemptRole::name)?,
            end: row.named(&AttemptEnd::ALL, AttemptEnd::name)?,
            won: row.boolean()?,
            started_unix_ms: row.count()?,
            failure: row.opt_named(&FailureKind::ALL, FailureKind::name)?,
            ttft_ns: row.opt_count()?,
            answer_ns: row.opt_count()?,
            speed: row.opt_real()?,
            cost_usd: row.opt_real()?,
            cost_basis: row.named(&CostBasis::ALL, CostBasis::name)?,
            model: row.str()?,
            cache: {
                let input = row.opt_count()?;
                CacheSight::of(input, &mut row)?
            },
        })
    }

    fn is_extra(&self) -> bool {
        matches!(self.role, AttemptRole::Hedge | AttemptRole::Race)
    }
}

impl Pass {
    pub fn new(range: &BoundedRange, query: &Query) -> Pass {
        let (bucket_ms, buckets) = buckets_of(range);
        let report = Report {
            from_unix_ms: range.from_unix_ms,
            until_unix_ms: range.until_unix_ms,
            is_cut: range.is_cut,
            bucket_ms,
            buckets,
            ..Report::default()
        };
        Pass { report, calls: (!query.is_of_attempts()).then(Calls::default), lanes: BTreeMap::new() }
    }

    pub fn take(&mut self, row: Reader<'_>) -> Result<(), StoreError> {
        let row = Taken::of(row)?;
        let first = self.report.from_unix_ms / self.report.bucket_ms;
        let bucket = (row.started_unix_ms / self.report.bucket_ms).saturating_sub(first) as usize;
        let bucket = bucket.min(self.report.buckets - 1);
        self.report.total.add(&row);
        entry(&mut self.report.aliases, row.alias).add(&row);
        of_key(&mut self.report.keys, row.key).add(&row);
        let lane = entry(&mut self.lanes, row.lane);
        lane.parts.resize(self.report.buckets, Part::default());
        lane.add(&row, bucket);
        if row.end == AttemptEnd::Failed {
            self.fail(&row, bucket);
        }
        if row.role != AttemptRole::Probe
            && let Some(calls) = &mut self.calls
        {
            let outcome = match (row.end, row.won) {
                (AttemptEnd::Answered, _) => ANSWERED,
                (AttemptEnd::Failed, true) => BROKEN,
                (AttemptEnd::Failed, false) => FAILED,
                (AttemptEnd::Abandoned, _) => ABANDONED,
                (AttemptEnd::Lost, _) => 0,
            };
            match calls.get_mut(row.call) {
                Some(known) => *known |= outcome,
                None => drop(calls.insert(row.call.into(), outcome)),
            }
        }
        Ok(())
    }

    fn fail(&mut self, row: &Taken<'_>, bucket: usize) {
        let failures = &mut self.report.failures;
        let found = failures.entry((row.lane.to_owned(), row.failure)).or_default();
        found.buckets.resize(self.report.buckets, 0);
        found.buckets[bucket] = found.buckets[bucket].saturating_add(1);
        found.first_unix_ms =
            if found.count == 0 { row.started_unix_ms } else { found.first_unix_ms.min(row.started_unix_ms) };
        // Of two that began together, the later name.
        if (row.started_unix_ms, row.call) >= (found.last_unix_ms, found.last_call.as_str()) {
            found.last_unix_ms = row.started_unix_ms;
            found.last_call = row.call.to_owned();
        }
        found.count += 1;
        *of_key(&mut found.keys, row.key) += 1;
        *entry(&mut found.aliases, row.alias) += 1;
    }

    pub fn close(self) -> Report {
        let calls = self.calls.map(|calls| {
            let mut counts = CallCounts::default();
            for outcome in calls.into_values() {
                counts.all += 1;
                *match outcome {
                    outcome if outcome & ANSWERED != 0 => &mut counts.answered,
                    outcome if outcome & BROKEN != 0 => &mut counts.broken,
                    outcome if outcome & ABANDONED != 0 => &mut counts.abandoned,
                    outcome if outcome & FAILED != 0 => &mut counts.failed,
                    _ => &mut counts.open,
                } += 1;
            }
            counts
        });
        let lanes = self.lanes.into_iter().map(|(name, lane)| (name, lane.close())).collect();
        Report { calls, lanes, ..self.report }
    }
}

/// The value of a key, made if there is none.
fn of_key<'m, V: Default>(map: &'m mut BTreeMap<Option<String>, V>, key: Option<&str>) -> &'m mut V {
    map.entry(key.map(str::to_owned)).or_default()
}

impl Tally {
    fn add(&mut self, row: &Taken<'_>) {
        self.attempts += 1;
        *match row.end {
            AttemptEnd::Answered => &mut self.answered,
            AttemptEnd::Failed => &mut self.failed,
            AttemptEnd::Lost => &mut self.lost,
            AttemptEnd::Abandoned => &mut self.abandoned,
        } += 1;
        let won = u64::from(row.won);
        match row.role {
            AttemptRole::Failover => self.failovers += 1,
            AttemptRole::Hedge => (self.hedges, self.hedges_won) = (self.hedges + 1, self.hedges_won + won),
            AttemptRole::Race => (self.races, self.races_won) = (self.races + 1, self.races_won + won),
            AttemptRole::First | AttemptRole::Probe => {}
        }
        let cost = row.cost_usd.unwrap_or(0.0);
        self.cost_usd += cost;
        self.lost_cost_usd += if row.end == AttemptEnd::Lost { cost } else { 0.0 };
        self.cost_unknown += u64::from(row.cost_usd.is_none() && row.cost_basis != CostBasis::Free);
        self.cost_estimated += u64::from(row.cost_basis == CostBasis::Estimated);
    }
}

impl Lane {
    fn add(&mut self, row: &Taken<'_>, bucket: usize) {
        self.tally.add(row);
        if !self.models.contains(row.model) {
            self.models.insert(row.model.to_owned());
        }
        self.answer_ns.extend(row.answer_ns);
        self.cache.add(row.cache);
        let part = &mut self.parts[bucket];
        part.bucket.attempts += 1;
        part.bucket.failed += u64::from(row.end == AttemptEnd::Failed);
        part.bucket.extra += u64::from(row.is_extra());
        part.bucket.extra_won += u64::from(row.is_extra() && row.won);
        part.ttft_ns.extend(row.ttft_ns);
        part.speeds.extend(row.speed.filter(|speed| speed.is_finite() && *speed > 0.0));
    }

    fn close(self) -> LaneReport {
        let (mut ttft, mut tpot) = (Vec::new(), Vec::new());
        let mut buckets = Vec::with_capacity(self.parts.len());
        for mut part in self.parts {
            let ms: Vec<f64> = part.ttft_ns.iter().map(|ns| *ns as f64 / 1e6).collect();
            ttft.append(&mut part.ttft_ns);
            tpot.extend(part.speeds.iter().filter_map(|speed| tpot_ms(Some(*speed))));
            buckets.push(Bucket { ttft: Spread::of(ms), speed: Spread::of(part.speeds), ..part.bucket });
        }
        LaneReport {
            ttft: Times::of_nanos(ttft),
            answer: Times::of_nanos(self.answer_ns),
            tpot: Times::of_values(tpot),
            tally: self.tally,
            cache: self.cache,
            models: self.models,
            buckets,
        }
    }
}

impl Times {
    /// Of durations in nanoseconds.
    pub(crate) fn of_nanos(mut values: Vec<u64>) -> Times {
        values.sort_unstable();
        Times::of(values.len(), |index| values[index] as f64 / 1e6)
    }

    /// Of numbers in milliseconds.
    pub(crate) fn of_values(mut values: Vec<f64>) -> Times {
        values.sort_unstable_by(f64::total_cmp);
        Times::of(values.len(), |index| values[index])
    }

    fn of(n: usize, at: impl Fn(usize) -> f64) -> Times {
        let quantile = |level| Quantile::of_ranks(n as u64, 0, level, |rank| at(rank as usize - 1));
        Times { n: n as u64, p50: quantile(Level::P50), p90: quantile(Level::P90), p99: quantile(Level::P99) }
    }
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Option<Spread> {
        values.sort_unstable_by(f64::total_cmp);
        let n = values.len();
        let rank = |tenths: usize| values.get((n * tenths).div_ceil(10).max(1) - 1).copied();
        Some(Spread { n: n as u64, low: rank(1)?, median: rank(5)?, high: rank(9)? })
    }
}
