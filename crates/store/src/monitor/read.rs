//! Reads a monitor's database.
//!
//! Invariant: a row that no version of tokrate writes is an error that names it, never a number.

use super::{CYCLE_IS_OPEN, EstimateRow, EventRow, MonitorStore, NoticeRow, OpenCycle, ProbeRow, ProberRow, UsedRow};
use crate::StoreError;
use crate::query::filtered;
use crate::row::{Reader, sample_columns, to_i64};
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
    /// Passes each matching probe to `each`, by the time at which it began.
    ///
    /// # Errors
    /// When the store cannot be read, or a row in it is damaged.
    pub fn visit_probes(&self, query: &ProbeQuery, mut each: impl FnMut(ProbeRow)) -> Result<(), StoreError> {
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

    /// The matching probes, by the time at which they began.
    ///
    /// # Errors
    /// As for [`MonitorStore::visit_probes`].
    pub fn probes(&self, query: &ProbeQuery) -> Result<Vec<ProbeRow>, StoreError> {
        let mut found = Vec::new();
        self.visit_probes(query, |row| found.push(row))?;
        Ok(found)
    }

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
        let sql = "SELECT total(p.cost_usd), coalesce(sum(coalesce(p.input_tokens, p.input_tokens_std, 0) \
                   + coalesce(p.output_tokens, p.output_tokens_std)), 0) \
                   FROM probes p JOIN series s ON s.id = p.series \
                   WHERE s.prober = ? AND p.started_unix_ms >= ? AND p.is_further >= ?";
        let values = params![prober, to_i64(from_unix_ms), further_only];
        let found = self.list(sql, values, |row| Ok(UsedRow { usd: row.get(0)?, tokens: unsigned(row, 1)? }))?;
        Ok(found.into_iter().next().unwrap_or_default())
    }

    /// When the latest probe began (ms since 1970); `None` without one.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn newest_probe(&self) -> Result<Option<u64>, StoreError> {
        let sql = "SELECT max(started_unix_ms) FROM probes HAVING max(started_unix_ms) IS NOT NULL";
        Ok(self.list(sql, [], |row| unsigned(row, 0))?.into_iter().next())
    }

    /// Changes that were found from a time on (ms since 1970), oldest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn events(&self, from_unix_ms: i64) -> Result<Vec<EventRow>, StoreError> {
        let sql = "SELECT at_unix_ms, endpoint, workload, place, metric, kind, since_unix_ms, since_earliest_unix_ms, \
                   since_latest_unix_ms, change, low, high, p, n, remark FROM events WHERE at_unix_ms >= ? \
                   ORDER BY at_unix_ms, id";
        self.list(sql, [from_unix_ms], |row| {
            Ok(EventRow {
                at_unix_ms: row.get(0)?,
                endpoint: row.get(1)?,
                workload: row.get(2)?,
                place: row.get(3)?,
                metric: row.get(4)?,
                kind: row.get(5)?,
                since_unix_ms: row.get(6)?,
                since_earliest_unix_ms: row.get(7)?,
                since_latest_unix_ms: row.get(8)?,
                change: row.get(9)?,
                low: row.get(10)?,
                high: row.get(11)?,
                p: row.get(12)?,
                n: unsigned(row, 13)?,
                remark: row.get(14)?,
            })
        })
    }

    /// Notices from a time on (ms since 1970), oldest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn notices(&self, from_unix_ms: u64) -> Result<Vec<NoticeRow>, StoreError> {
        let sql = "SELECT at_unix_ms, prober, text FROM notices WHERE at_unix_ms >= ? ORDER BY id";
        self.list(sql, [to_i64(from_unix_ms)], |row| {
            Ok(NoticeRow { at_unix_ms: unsigned(row, 0)?, prober: row.get(1)?, text: row.get(2)? })
        })
    }

    /// All estimates, in the order of their endpoints.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn estimates(&self) -> Result<Vec<EstimateRow>, StoreError> {
        let sql = "SELECT endpoint, model, workload, in_flight, output_speed, low, high, made_unix_ms FROM estimates \
                   ORDER BY endpoint, model, workload, in_flight";
        self.list(sql, [], |row| {
            Ok(EstimateRow {
                endpoint: row.get(0)?,
                model: row.get(1)?,
                workload: row.get(2)?,
                in_flight: u32::try_from(unsigned(row, 3)?).unwrap_or(u32::MAX),
                output_speed: row.get(4)?,
                low: row.get(5)?,
                high: row.get(6)?,
                made_unix_ms: unsigned(row, 7)?,
            })
        })
    }

    /// All probers, by name.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn probers(&self) -> Result<Vec<ProberRow>, StoreError> {
        let sql = "SELECT r.prober, r.place, r.seen_unix_ms, r.missed, r.detected_unix_ms, r.skew_ms, \
                   count(p.id), count(p.id) FILTER (WHERE p.quarantine IS NOT NULL AND p.quarantine <> ?) \
                   FROM probers r LEFT JOIN series s ON s.prober = r.prober LEFT JOIN probes p ON p.series = s.id \
                   GROUP BY r.prober ORDER BY r.prober";
        self.list(sql, [CYCLE_IS_OPEN], |row| {
            Ok(ProberRow {
                name: row.get(0)?,
                place: row.get(1)?,
                seen_unix_ms: unsigned(row, 2)?,
                missed: unsigned(row, 3)?,
                detected_unix_ms: row.get(4)?,
                skew_ms: row.get(5)?,
                requests: unsigned(row, 6)?,
                quarantined: unsigned(row, 7)?,
            })
        })
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
