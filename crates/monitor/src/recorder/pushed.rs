//! What goes to a hub, and what a hub keeps of others.
//!
//! Invariant: a batch and how far the hub has its spool are written together.

use super::Recorder;
use crate::push::{BATCH_ENTRIES, Batch, Refusal};
use std::collections::{BTreeMap, BTreeSet};
use tokrate_store::{CYCLE_IS_OPEN, MonitorWrite, ProbeQuery, ProbeStore, SpoolEntry, StoreError};

/// Bytes of the entries of one batch, unless it has one alone.
const BATCH_BYTES: usize = 2 << 20;
/// Entries that wait for a hub at most: months of a large prober, some 700 MB.
const MAX_SPOOL: u64 = 500_000;

impl Recorder {
    /// The oldest entries that the hub does not have, as many as fit a batch.
    pub fn spool(&self) -> Result<Vec<SpoolEntry>, StoreError> {
        let mut entries = self.store.spool(BATCH_ENTRIES)?;
        let mut bytes = 0;
        let fits = entries.iter().take_while(|entry| {
            bytes += entry.entry.len();
            bytes <= BATCH_BYTES
        });
        let count = fits.count().max(1);
        entries.truncate(count);
        Ok(entries)
    }

    /// The name of this database's spool.
    pub fn spool_name(&mut self, fresh: &str) -> Result<String, StoreError> {
        self.store.spool_name(fresh)
    }

    /// Whether the hub has everything.
    pub fn is_pushed(&self) -> bool {
        self.store.spool_len().is_ok_and(|left| left == 0)
    }

    /// The hub has everything up to an entry.
    pub fn spool_sent(&mut self, last: u64) {
        self.hold(MonitorWrite::SpoolSent { last });
        self.write_held();
    }

    /// Drops the oldest entries of a spool that has grown too large; returns how many.
    pub fn bound_spool(&mut self) -> Result<u64, StoreError> {
        let over = self.store.spool_len()?.saturating_sub(MAX_SPOOL);
        if over > 0
            && let Some(first) = self.store.spool(1)?.first()
        {
            self.spool_sent(first.id.saturating_add(over - 1));
        }
        Ok(over)
    }

    /// Keeps a batch of another prober, what of it is not here yet; the number of its last entry.
    pub fn take_batch(&mut self, batch: Batch, now_unix_ms: u64) -> Result<u64, Refusal> {
        self.now_unix_ms = now_unix_ms;
        let busy = |error: &StoreError| Refusal::Busy(error.to_string());
        self.write_held();
        if !self.held.is_empty() {
            return Err(Refusal::Busy("its disk is full".to_owned()));
        }
        if batch.prober == self.config.prober {
            return Err(Refusal::Malformed("the hub's own prober has that name; give one of them another".to_owned()));
        }
        let known = self.store.pushed(&batch.prober, &batch.spool).map_err(|error| busy(&error))?.unwrap_or(0);
        let last = batch.last();
        if last <= known {
            return Err(Refusal::Replayed(known + 1));
        }
        let (prober, place) = (batch.prober.clone(), batch.place.clone());
        let mut new: Vec<MonitorWrite> =
            batch.writes.into_iter().filter(|(id, _)| *id > known).map(|(_, write)| write).collect();
        judge_whole_cycles(&mut new);
        for write in &new {
            if let MonitorWrite::Event(row) = write {
                self.alerting.change(row, now_unix_ms);
            }
        }
        let ended = ended_cycles(&new);
        // That it is alive, whatever else the batch holds.
        let mut writes = vec![MonitorWrite::Seen { prober: prober.clone(), place, at_unix_ms: now_unix_ms, missed: 0 }];
        writes.extend(new);
        writes.push(MonitorWrite::Pushed { prober, spool: batch.spool, last, skew_ms: batch.skew_ms });
        let alerts = self.alerting.poll(now_unix_ms);
        writes.extend(alerts.iter().cloned());
        if let Err(error) = self.store.apply(&writes) {
            // The rules have moved on; what they remember is written when it can.
            alerts.into_iter().for_each(|write| self.hold(write));
            return Err(busy(&error));
        }
        self.examine_cycles(&ended, now_unix_ms);
        Ok(last)
    }

    /// Gives the rules the probes of cycles that count.
    fn examine_cycles(&mut self, cycles: &BTreeSet<String>, now_unix_ms: u64) {
        if !self.alerting.watches_probes() {
            return;
        }
        for cycle in cycles {
            let query = ProbeQuery { cycle: Some(cycle.clone()), counted_only: true, ..ProbeQuery::default() };
            match self.store.probes(&query) {
                Ok(rows) => rows.iter().for_each(|row| self.alerting.probe(row, now_unix_ms)),
                Err(error) => self.failure = Some(error.to_string()),
            }
        }
        self.write_held();
    }
}

/// Writes the rows of cycles that end in the same batch as they are then, so that none has to be changed again.
fn judge_whole_cycles(writes: &mut [MonitorWrite]) {
    let mut ended: BTreeMap<String, Option<String>> = BTreeMap::new();
    for write in writes.iter_mut().rev() {
        match write {
            MonitorWrite::CycleEnded { cycle, quarantine, .. } => {
                ended.insert(cycle.clone(), quarantine.clone());
            }
            MonitorWrite::Probe(row) if row.probe.quarantine.as_deref() == Some(CYCLE_IS_OPEN) => {
                if let Some(quarantine) = ended.get(&row.cycle) {
                    row.probe.quarantine.clone_from(quarantine);
                }
            }
            _ => {}
        }
    }
}

fn ended_cycles(writes: &[MonitorWrite]) -> BTreeSet<String> {
    let ended = writes.iter().filter_map(|write| match write {
        MonitorWrite::CycleEnded { cycle, quarantine: None, .. } => Some(cycle.clone()),
        _ => None,
    });
    ended.collect()
}
