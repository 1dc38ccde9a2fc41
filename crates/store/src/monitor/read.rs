//! Reads a monitor's database.
//!
//! Invariant: a row that no version of tokrate writes is an error that names it, never a number.

use super::found::{ESTIMATE, EVENT, NOTICE, PROBER, columns};
use super::{CYCLE_IS_OPEN, EstimateRow, EventRow, MonitorStore, NoticeRow, OpenCycle, ProbeRow, ProberRow, UsedRow};
use super::{estimate_row, event_row, notice_row, prober_row};
use crate::query::filtered;
use crate::row::{Reader, sample_columns, to_i64};
use crate::{ProbeStore, StoreError};
use rusqlite::types::Value;
use rusqlite::{Row, params, params_from_iter};
use std::sync::OnceLock;
use tokrate_record::{Probe, SampleSource, SharedConditions};

/// Which probes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProbeQuery {
    /// Begun at this time or later (ms since 1970).
    pub from_unix_ms: Option<u64>,
    /// Begun before this time.
    pub until_unix_ms: Option<u64>,
    /// Of this endpoint.
    pub endpoint: Option<String>,
    /// Of this cycle.
    pub cycle: Option<String>,
    /// By this prober.
    pub prober: Option<String>,
    /// From this source.
    pub source: Option<SampleSource>,
    /// Without those in quarantine, and those whose cycle has not ended.
    pub counted_only: bool,
}

/// Columns of a probe, as the reader takes them: those of its own, then those of the sample.
const OWN: [&str; 12] = [
    "source",
    "endpoint",
    "workload",
    "place",
    "prober",
    "probe",
    "cycle",
    "slot_unix_ms",
    "due_unix_ms",
    "is_further",
    "quarantine",
    "reason",
];

/// All columns, made once: the reader names one that is damaged.
pub(crate) fn probe_columns() -> &'static [&'static str] {
    static COLUMNS: OnceLock<Vec<&'static str>> = OnceLock::new();
    COLUMNS.get_or_init(|| {
        let (measured, shared) = sample_columns();
        OWN.iter().chain(measured).chain(shared).copied().collect()
    })
}

impl MonitorStore {
    /// Cycles of a prober that have not ended, oldest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn open_cycles(&self, prober: &str) -> Result<Vec<OpenCycle>, StoreError> {
        let sql = "SELECT cycle, begun_unix_ms FROM cycles WHERE ended_unix_ms IS NULL AND prober = ? ORDER BY id";
        self.list(sql, [prober], |row| Ok(OpenCycle { cycle: row.get(0)?, begun_unix_ms: unsigned(row, 1)? }))
    }

    /// What the probes of a prober used from a time on (ms since 1970): all of them, or the further ones alone.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn used(&self, prober: &str, from_unix_ms: u64, further_only: bool) -> Result<UsedRow, StoreError> {
        // A sum of whole numbers fails where it does not fit, and a monitor would not start.
        let sql = "SELECT total(p.cost_usd), total(coalesce(p.input_tokens, p.input_tokens_std, 0) \
                   + coalesce(p.output_tokens, p.output_tokens_std)) \
                   FROM probes p JOIN series s ON s.id = p.series \
                   WHERE s.prober = ? AND p.started_unix_ms >= ? AND p.is_further >= ?";
        let values = params![prober, to_i64(from_unix_ms), further_only];
        let found =
            self.list(sql, values, |row| Ok(UsedRow { usd: row.get(0)?, tokens: row.get::<_, f64>(1)? as u64 }))?;
        Ok(found.into_iter().next().unwrap_or_default())
    }

    /// The rows of a statement whose first column is a number, as `read` makes them.
    fn read<T>(
        &self,
        sql: &str,
        values: impl rusqlite::Params,
        columns: &'static [&'static str],
        read: fn(Reader<'_>) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let database = &self.database;
        let mut statement = database.connection.prepare_cached(sql).map_err(|error| database.error(&error))?;
        let mut rows = statement.query(values).map_err(|error| database.error(&error))?;
        let mut found = Vec::new();
        while let Some(row) = rows.next().map_err(|error| database.error(&error))? {
            found.push(read(Reader::new(row, columns, &database.path))?);
        }
        Ok(found)
    }

    /// All probers, by name, without a look at their probes: their counts are 0.
    ///
    /// # Errors
    /// When the store cannot be read, or a row in it is damaged.
    pub fn known_probers(&self) -> Result<Vec<ProberRow>, StoreError> {
        let sql = "SELECT 0, prober, place, seen_unix_ms, missed, detected_unix_ms, skew_ms, 0, 0 FROM probers ORDER BY prober";
        self.read(sql, [], &PROBER, prober_row)
    }

    pub(super) fn list<T>(
        &self,
        sql: &str,
        values: impl rusqlite::Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        let found = || -> rusqlite::Result<Vec<T>> {
            let mut statement = self.database.connection.prepare_cached(sql)?;
            statement.query_map(values, read)?.collect()
        };
        found().map_err(|error| self.database.error(&error))
    }
}

impl ProbeStore for MonitorStore {
    fn visit_probes(&self, query: &ProbeQuery, each: &mut dyn FnMut(ProbeRow)) -> Result<(), StoreError> {
        let database = &self.database;
        let (filter, values) = query.filter();
        let sql = format!(
            "SELECT p.id, {} FROM probes p JOIN series s ON s.id = p.series{filter} ORDER BY started_unix_ms, p.id",
            probe_columns().join(", ")
        );
        let mut statement = database.connection.prepare_cached(&sql).map_err(|error| database.error(&error))?;
        let mut rows = statement.query(params_from_iter(values)).map_err(|error| database.error(&error))?;
        let mut shared = SharedConditions::default();
        while let Some(row) = rows.next().map_err(|error| database.error(&error))? {
            each(probe_row(Reader::new(row, probe_columns(), &database.path), &mut shared)?);
        }
        Ok(())
    }

    fn newest_probe(&self) -> Result<Option<u64>, StoreError> {
        let sql = "SELECT max(started_unix_ms) FROM probes HAVING max(started_unix_ms) IS NOT NULL";
        Ok(self.list(sql, [], |row| unsigned(row, 0))?.into_iter().next())
    }

    fn events(&self, from_unix_ms: i64) -> Result<Vec<EventRow>, StoreError> {
        let sql = format!("SELECT id, {} FROM events WHERE at_unix_ms >= ? ORDER BY at_unix_ms, id", columns(&EVENT));
        self.read(&sql, [from_unix_ms], &EVENT, event_row)
    }

    fn notices(&self, from_unix_ms: u64) -> Result<Vec<NoticeRow>, StoreError> {
        let sql = format!("SELECT id, {} FROM notices WHERE at_unix_ms >= ? ORDER BY at_unix_ms, id", columns(&NOTICE));
        self.read(&sql, [to_i64(from_unix_ms)], &NOTICE, notice_row)
    }

    fn estimates(&self) -> Result<Vec<EstimateRow>, StoreError> {
        let sql =
            format!("SELECT 0, {} FROM estimates ORDER BY endpoint, model, workload, in_flight", columns(&ESTIMATE));
        self.read(&sql, [], &ESTIMATE, estimate_row)
    }

    fn probers(&self) -> Result<Vec<ProberRow>, StoreError> {
        // Counted by series first: joined with each probe, all of them would be sorted.
        let sql = "SELECT 0, r.prober, r.place, r.seen_unix_ms, r.missed, r.detected_unix_ms, r.skew_ms, \
                   coalesce(sum(c.requests), 0), coalesce(sum(c.quarantined), 0) \
                   FROM probers r LEFT JOIN series s ON s.prober = r.prober LEFT JOIN \
                   (SELECT series, count(*) AS requests, count(quarantine) FILTER (WHERE quarantine <> ?) AS quarantined \
                   FROM probes GROUP BY series) c ON c.series = s.id GROUP BY r.prober ORDER BY r.prober";
        self.read(sql, [CYCLE_IS_OPEN], &PROBER, prober_row)
    }
}

/// A count, which SQLite stores signed.
pub(super) fn unsigned(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(column).map(|count| u64::try_from(count).unwrap_or(0))
}

/// The probe of a row of [`probe_columns`]. Rows in sequence share the conditions that they have in common.
pub(crate) fn probe_row(mut reader: Reader<'_>, shared: &mut SharedConditions) -> Result<ProbeRow, StoreError> {
    let source = reader.named(&SampleSource::ALL, SampleSource::name)?;
    let (endpoint, workload) = (reader.text()?, reader.text()?);
    let (place, prober) = (reader.text()?, reader.text()?);
    let (id, cycle) = (reader.text()?, reader.text()?);
    let (slot_unix_ms, due_unix_ms) = (reader.count()?, reader.count()?);
    let is_further = reader.boolean()?;
    let (quarantine, reason) = (reader.opt_text()?, reader.opt_text()?);
    let sample = reader.sample(shared)?;
    let probe = Probe { id, source, endpoint, workload, place, prober, due_unix_ms, quarantine, sample };
    Ok(ProbeRow { probe, cycle, slot_unix_ms, is_further, reason, is_cut_off: false })
}

impl ProbeQuery {
    /// The clause of the conditions, and the values to bind.
    pub(crate) fn filter(&self) -> (String, Vec<Value>) {
        let time = |ms: Option<u64>| ms.map(|ms| Value::Integer(to_i64(ms)));
        let text = |text: &Option<String>| text.clone().map(Value::Text);
        let (mut sql, values) = filtered([
            ("started_unix_ms >= ?", time(self.from_unix_ms)),
            ("started_unix_ms < ?", time(self.until_unix_ms)),
            ("endpoint = ?", text(&self.endpoint)),
            ("cycle = ?", text(&self.cycle)),
            ("prober = ?", text(&self.prober)),
            ("source = ?", self.source.map(|source| Value::Text(source.name().to_owned()))),
        ]);
        if self.counted_only {
            sql.push_str(if values.is_empty() { " WHERE " } else { " AND " });
            sql.push_str("quarantine IS NULL");
        }
        (sql, values)
    }
}
