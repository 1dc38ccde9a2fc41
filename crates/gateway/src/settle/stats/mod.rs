//! Statistics of settled attempts for the admin side and the export: counts since the start, the last hour by minute,
//! the last calls.
//!
//! Invariant: the size is bounded by configured lanes and aliases, never by what clients and providers send; recording
//! a row takes less than a microsecond, and a reader copies references and counters, so that no call waits for a page.

mod alias;
mod distribution;
pub mod histogram;
mod lane;
mod last_hour;
mod recent_calls;

pub use alias::AliasStats;
pub use distribution::{Band, Distribution};
pub use lane::{FailureCounts, LaneStats, Minute, OPEN_MINUTES, Operation, OperationStats, SPEED_STEPS};
pub(crate) use last_hour::first_minute_of_hour;
pub use last_hour::{LastHour, MINUTES};
pub use recent_calls::{AttemptTrace, CallTrace};

use crate::state::lock::locked;
use crate::trace::finished::FinishedTrace;
use histogram::{Exemplar, Histogram, OVERHEADS_NS};
use last_hour::AttemptMinutes;
use recent_calls::RecentCalls;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokrate_core::Sketch;
use tokrate_record::{Attempt as Row, AttemptEnd, AttemptRole};

/// Most lanes that are kept, those of earlier configurations included.
const MAX_LANES: usize = 1_024;
/// Most aliases that are kept, those of earlier configurations included.
const MAX_ALIASES: usize = 4_096;

/// Records every settled attempt.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    inner: Mutex<StatsSnapshot>,
}

/// The statistics at a moment.
#[derive(Clone, Debug, Default)]
pub struct StatsSnapshot {
    /// Sorted by name, provider and model.
    pub lanes: Vec<LaneStats>,
    /// By name; snapshots share them.
    aliases: BTreeMap<String, Arc<AliasStats>>,
    /// The gateway's own share of calls (ns).
    pub overhead: Option<Histogram>,
    /// The same by minute of the start; minutes older than [`OPEN_MINUTES`] are merged in tens.
    overheads: LastHour<Sketch>,
    /// Attempts.
    pub attempts: u64,
    /// Hedges and races that did not win, and the attempts that they replaced.
    pub extra_attempts: u64,
    /// Known cost of all attempts (USD).
    pub cost_usd: f64,
    /// Cost of the extra attempts (USD).
    pub extra_usd: f64,
    recent_calls: RecentCalls,
}

impl Stats {
    /// Adds an attempt.
    #[cfg(any(test, feature = "sample"))]
    pub fn record(&self, row: &Row) {
        self.record_beside(row, false);
    }

    /// Adds an attempt; `is_beside`: it was not needed beside another one, which the row alone does not say.
    pub fn record_beside(&self, row: &Row, is_beside: bool) {
        locked(&self.inner).record(row, is_beside || is_extra(row));
    }

    /// Lets the times of calls that were recorded point to their traces, which a collector has by now.
    pub fn add_exemplars(&self, traces: &[FinishedTrace]) {
        for trace in traces {
            locked(&self.inner).add_exemplars(trace);
        }
    }

    /// A copy of the statistics.
    pub fn snapshot(&self) -> StatsSnapshot {
        locked(&self.inner).clone()
    }
}

impl StatsSnapshot {
    fn record(&mut self, row: &Row, is_extra: bool) {
        self.attempts += 1;
        self.cost_usd += row.sample.cost_usd.unwrap_or(0.0);
        if is_extra {
            self.extra_attempts += 1;
            self.extra_usd += row.sample.cost_usd.unwrap_or(0.0);
        }
        if let Some(overhead) = row.overhead_ns {
            self.overhead.get_or_insert_with(|| Histogram::new(&OVERHEADS_NS)).add(overhead);
            if let Some((minute, is_new)) = self.overheads.at(AttemptMinutes::of(row)) {
                minute.record(overhead);
                if is_new {
                    self.overheads.fold_older(OPEN_MINUTES, Sketch::merge);
                }
            }
        }
        // A probe is nobody's call.
        if row.role != AttemptRole::Probe {
            self.record_alias(row);
        }
        let Some(index) = self.index_or_insert(row) else { return };
        let lane = &mut self.lanes[index];
        lane.record(row, is_extra);
        self.recent_calls.record(row, &lane.name);
    }

    fn add_exemplars(&mut self, trace: &FinishedTrace) {
        for attempt in &trace.attempts {
            let row = &attempt.row;
            let exemplar = Exemplar {
                value: 0,
                at_unix_ns: trace.unix_ns(attempt.ended_at),
                trace_id: trace.context.trace_id,
                span_id: trace.attempt_id(row.attempt),
            };
            if let (Some(value), Some(overhead)) = (row.overhead_ns, &mut self.overhead) {
                overhead.add_exemplar(Exemplar { value, span_id: trace.span_id, ..exemplar });
            }
            let identity = (row.lane.as_str(), row.sample.provider.as_str(), row.sample.model.as_str());
            let found = self.lanes.binary_search_by(|lane| lane.identity().cmp(&identity));
            if let Ok(index) = found {
                self.lanes[index].add_exemplars(row, exemplar);
            }
        }
    }

    /// The gateway's overhead in calls that started in this minute or later (ns). Merged minutes count only if all ten
    /// are in that range.
    pub fn overhead_since(&self, number: u64) -> Sketch {
        let mut sum = Sketch::new();
        self.overheads.since(number).for_each(|(_, minute)| sum.merge(minute));
        sum
    }

    /// The calls with the newest rows, newest first.
    pub fn calls(&self, limit: usize) -> Vec<Arc<CallTrace>> {
        self.recent_calls.newest(limit)
    }

    fn record_alias(&mut self, row: &Row) {
        if let Some(known) = self.aliases.get_mut(&row.alias) {
            return Arc::make_mut(known).record(row);
        }
        if self.aliases.len() < MAX_ALIASES {
            let mut stats = AliasStats::default();
            stats.record(row);
            self.aliases.insert(row.alias.clone(), Arc::new(stats));
        }
    }

    /// Statistics of an alias.
    pub fn alias(&self, name: &str) -> Option<&AliasStats> {
        self.aliases.get(name).map(Arc::as_ref)
    }

    /// Statistics of a lane.
    pub fn lane(&self, name: &str, provider: &str, model: &str) -> Option<&LaneStats> {
        let index = self.lanes.binary_search_by(|lane| lane.identity().cmp(&(name, provider, model))).ok()?;
        Some(&self.lanes[index])
    }

    fn index_or_insert(&mut self, row: &Row) -> Option<usize> {
        let identity = (row.lane.as_str(), row.sample.provider.as_str(), row.sample.model.as_str());
        match self.lanes.binary_search_by(|lane| lane.identity().cmp(&identity)) {
            Ok(index) => Some(index),
            Err(_) if self.lanes.len() >= MAX_LANES => None,
            Err(index) => {
                self.lanes.insert(index, LaneStats::new(row));
                Some(index)
            }
        }
    }
}

/// Whether an attempt was beside the one that its call needed; the account of the call counts the same way.
pub(crate) fn is_extra(row: &Row) -> bool {
    let is_hedge_or_race = matches!(row.role, AttemptRole::Hedge | AttemptRole::Race);
    !row.won && (is_hedge_or_race || row.end == AttemptEnd::Lost)
}

#[cfg(test)]
pub(crate) mod tests;
