//! Requests of a bench, put on the board of a monitor.
//!
//! Invariant: what is added twice is there once; a running monitor is not kept from writing.

use tokrate_meter::RequestNumbers;
use tokrate_record::{Probe, ProbeNames, Record};
use tokrate_store::{MonitorStore, MonitorWrite, ProbeRow, StoreError};

/// Rows of one transaction: a monitor waits for no longer than their writing takes, milliseconds.
const BATCH_ROWS: usize = 1_000;

/// Adds the requests of one phase; how many there are.
pub fn add_phase(
    store: &mut MonitorStore,
    record: &Record,
    number: usize,
    rows: &[RequestNumbers],
    names: &ProbeNames,
) -> Result<usize, StoreError> {
    let probes = Probe::of_phase(record, number, rows, names);
    let count = probes.len();
    let write = |(probe, reason): (Probe, Option<String>)| {
        let slot_unix_ms = probe.sample.started_unix_ms;
        let cycle = probe.prober.clone();
        MonitorWrite::Probe(Box::new(ProbeRow { probe, cycle, slot_unix_ms, reason, ..ProbeRow::default() }))
    };
    let writes: Vec<MonitorWrite> = probes.into_iter().map(write).collect();
    writes.chunks(BATCH_ROWS).try_for_each(|batch| store.apply(batch))?;
    Ok(count)
}
