//! What the admin side has heard of attempts: counts since the start, an hour by minutes, and the last calls.
//!
//! It refuses to know HTTP, HTML, the log and the clock. Invariant: its size is bounded by the lanes and aliases that were configured,
//! never by what clients and providers send; hearing a row costs about as much as writing a line, and whoever looks copies
//! references and counters, so that no call waits for a page.

mod alias;
mod distribution;
pub mod histogram;
mod lane;
mod last_hour;
mod recent_calls;

pub use alias::AliasStats;
pub use distribution::{Band, Distribution};
pub use lane::{FailureCounts, LaneStats, Minute, OPEN_MINUTES, Operation, OperationStats, SPEED_STEPS};
pub(crate) use last_hour::hour_began;
pub use last_hour::{LastHour, MINUTES};
pub use recent_calls::{AttemptTrace, CallTrace};

use crate::state::lock::locked;
use histogram::{Histogram, OVERHEADS_NS};
use last_hour::AttemptMinutes;
use recent_calls::RecentCalls;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokrate_core::Sketch;
use tokrate_meter::{Attempt as Row, AttemptEnd, AttemptRole};

/// Lanes that are remembered, those of earlier configurations included.
const MAX_LANES: usize = 1_024;
/// Aliases that are remembered, those of earlier configurations included.
const MAX_ALIASES: usize = 4_096;

/// Hears of every attempt that was settled.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    inner: Mutex<StatsSnapshot>,
}

/// All of it, at a moment.
#[derive(Clone, Debug, Default)]
pub struct StatsSnapshot {
    /// Sorted by name, provider and model.
    pub lanes: Vec<LaneStats>,
    /// By name; a reader shares them.
    aliases: BTreeMap<String, Arc<AliasStats>>,
    /// What the gateway itself added to calls (ns).
    pub overhead: Option<Histogram>,
    /// The same by the minutes in which calls were begun; of those that are over by [`MINUTES_OPEN`], by ten minutes.
    overheads: LastHour<Sketch>,
    /// Attempts.
    pub attempts: u64,
    /// Attempts beside the one that a call needed: hedges and races that did not win, and what they replaced.
    pub extra_attempts: u64,
    /// What all attempts cost, as far as it is known (USD).
    pub cost_usd: f64,
    /// What the extra attempts cost (USD).
    pub extra_usd: f64,
    trails: RecentCalls,
}

impl Stats {
    /// Takes in an attempt.
    pub fn record(&self, row: &Row) {
        locked(&self.inner).record(row);
    }

    /// What was heard so far.
    pub fn snapshot(&self) -> StatsSnapshot {
        locked(&self.inner).clone()
    }
}

impl StatsSnapshot {
    fn record(&mut self, row: &Row) {
        self.attempts += 1;
        self.cost_usd += row.cost_usd.unwrap_or(0.0);
        if is_extra(row) {
            self.extra_attempts += 1;
            self.extra_usd += row.cost_usd.unwrap_or(0.0);
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
        self.record_alias(row);
        let Some(index) = self.index(row) else { return };
        let lane = &mut self.lanes[index];
        lane.record(row);
        self.trails.record(row, &lane.name);
    }

    /// What the gateway itself added to calls that were begun in this minute or later (ns); of a minute that stands with nine
    /// others, only if all ten are.
    pub fn overhead_since(&self, number: u64) -> Sketch {
        let mut sum = Sketch::new();
        self.overheads.since(number).for_each(|(_, minute)| sum.merge(minute));
        sum
    }

    /// The calls that were heard of last, the newest first.
    pub fn calls(&self, most: usize) -> Vec<Arc<CallTrace>> {
        self.trails.newest(most)
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

    /// What was heard of an alias.
    pub fn alias(&self, name: &str) -> Option<&AliasStats> {
        self.aliases.get(name).map(Arc::as_ref)
    }

    /// What was heard of a lane.
    pub fn lane(&self, name: &str, provider: &str, model: &str) -> Option<&LaneStats> {
        let index = self.lanes.binary_search_by(|lane| lane.identity().cmp(&(name, provider, model))).ok()?;
        Some(&self.lanes[index])
    }

    fn index(&mut self, row: &Row) -> Option<usize> {
        let identity = (row.lane.as_str(), row.provider.as_str(), row.model.as_str());
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

/// Whether an attempt was beside the one that its call needed, as the account has it.
pub(crate) fn is_extra(row: &Row) -> bool {
    let was_beside = matches!(row.role, AttemptRole::Hedge | AttemptRole::Race);
    !row.won && (was_beside || row.end == AttemptEnd::Lost)
}

#[cfg(test)]
pub(crate) mod tests;
