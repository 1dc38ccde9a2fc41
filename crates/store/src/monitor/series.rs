//! Which row of `series` a probe belongs to: what many probes have in common, kept once.
//!
//! Invariant: an id that is remembered is that of a row which was committed, or is part of the transaction under way.

use crate::row::{Bound, Writer, sample_columns};
use rusqlite::Connection;
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::OnceLock;
use tokrate_record::Probe;

/// Series that are remembered: those of a thousand endpoints and some workloads.
const MAX_KNOWN: usize = 10_000;

/// Ids of series that were looked up before, by what tells them apart. Nobody removes a series.
#[derive(Debug, Default)]
pub(super) struct SeriesIds {
    known: HashMap<String, i64>,
    /// The key that is looked up: an allocation for all rows.
    key: String,
}

impl SeriesIds {
    /// The row of `series` for a probe, made if there is none.
    pub fn id(&mut self, transaction: &Connection, probe: &Probe) -> rusqlite::Result<i64> {
        self.key.clear();
        write_key(&mut self.key, probe);
        if let Some(id) = self.known.get(&self.key) {
            return Ok(*id);
        }
        let id = found_or_made(transaction, probe)?;
        if self.known.len() >= MAX_KNOWN {
            self.known.clear();
        }
        self.known.insert(self.key.clone(), id);
        Ok(id)
    }
}

/// Everything that tells series apart. Each text stands behind its length, so that no two series have one key.
fn write_key(key: &mut String, probe: &Probe) {
    let sample = &probe.sample;
    let conditions = &sample.conditions;
    let texts = [&probe.endpoint, &probe.workload, &probe.place, &probe.prober, &sample.provider, &sample.model];
    let texts =
        texts.map(String::as_str).into_iter().chain([probe.source.name(), &sample.dialect, &conditions.version]);
    let optional = [&conditions.region, &conditions.host, &conditions.tokenizer, &conditions.fingerprint];
    // Writing to a text cannot fail.
    let _ = write!(key, "{} {:?} ", sample.stream, sample.output_limit);
    for text in texts.map(Some).chain(optional.map(Option::as_deref)) {
        match text {
            Some(text) => {
                let _ = write!(key, "{}:{text}", text.len());
            }
            None => key.push('-'),
        }
    }
}

fn found_or_made(transaction: &Connection, probe: &Probe) -> rusqlite::Result<i64> {
    static SQL: OnceLock<(String, String)> = OnceLock::new();
    let (find, make) = SQL.get_or_init(statements);
    let bind = |writer: &mut Writer<Bound<'_, '_>>| -> rusqlite::Result<()> {
        writer.put(probe.source.name())?;
        writer.put(&probe.endpoint)?;
        writer.put(&probe.workload)?;
        writer.put(&probe.place)?;
        writer.put(&probe.prober)?;
        writer.shared(&probe.sample)
    };
    let mut statement = transaction.prepare_cached(find)?;
    bind(&mut Writer::new(Bound::to(&mut statement)))?;
    if let Some(row) = statement.raw_query().next()? {
        return row.get(0);
    }
    let mut statement = transaction.prepare_cached(make)?;
    let mut writer = Writer::new(Bound::to(&mut statement));
    bind(&mut writer)?;
    writer.execute()?;
    Ok(transaction.last_insert_rowid())
}

/// Finds a series, and makes one.
fn statements() -> (String, String) {
    const COMMON: [&str; 5] = ["source", "endpoint", "workload", "place", "prober"];
    let (_, shared) = sample_columns();
    let columns: Vec<&str> = COMMON.iter().chain(shared).copied().collect();
    let same: Vec<String> = columns.iter().map(|name| format!("{name} IS ?")).collect();
    let values = vec!["?"; columns.len()].join(", ");
    (
        format!("SELECT id FROM series WHERE {}", same.join(" AND ")),
        format!("INSERT INTO series ({}) VALUES ({values})", columns.join(", ")),
    )
}
