//! A monitor's database: probes, cycles, changes, notices.
//!
//! Invariant: what is applied together is kept together or not at all; a probe that is written twice is one row.

mod found;
mod of_attempt;
mod queues;
mod read;
mod rows;
mod schema;
mod series;

pub(crate) use found::{ESTIMATE, EVENT, NOTICE, PROBER, columns, estimate_row, event_row, notice_row, prober_row};
pub use read::ProbeQuery;
pub(crate) use read::{probe_columns, probe_row};
pub use rows::{
    CYCLE_IS_OPEN, DeliveryRow, EstimateRow, EventRow, MonitorWrite, NoticeRow, OpenCycle, ProbeRow, ProberRow,
    SetAside, SpoolEntry, UsedRow,
};

use crate::database::{Database, LOCK_TIMEOUT};
use crate::row::{Bound, Writer, sample_columns, to_i64};
use crate::{StoreError, outgoing};
use rusqlite::{Connection, params};
pub(crate) use schema::MONITOR;
use series::SeriesIds;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use tokrate_core::Span;

/// Pages that a backup copies at a time; between two steps a writer may write.
const BACKUP_PAGES: i32 = 1_000;
const BACKUP_PAUSE: Span = Span::from_millis(2);

/// A monitor's database.
#[derive(Debug)]
pub struct MonitorStore {
    database: Database,
    series: SeriesIds,
    // Held by the one writer.
    _lock: Option<File>,
}

impl MonitorStore {
    /// Opens the database for writing; there is one writer at a time. A file that is damaged is moved away, and a new one begun.
    ///
    /// # Errors
    /// When the file is another kind of database or has a newer schema, another process writes it, or it cannot be used.
    pub fn open(path: &Path, now_unix_ms: u64) -> Result<(MonitorStore, Option<SetAside>), StoreError> {
        let lock = lock(path)?;
        match open_sound(path) {
            Ok(database) => Ok((MonitorStore::of(database, Some(lock)), None)),
            Err(StoreError::Corrupt { message, .. }) => MonitorStore::begin_anew(path, now_unix_ms, message, lock),
            Err(StoreError::NotADatabase { .. }) if path.extension().is_some_and(|name| name == "db") => {
                MonitorStore::begin_anew(path, now_unix_ms, "it is no database any more".to_owned(), lock)
            }
            Err(error) => Err(error),
        }
    }

    /// Opens the database read-only; it never waits for the writer.
    ///
    /// # Errors
    /// When there is no such file, or it is no monitor's database of a known form.
    pub fn open_reader(path: &Path) -> Result<MonitorStore, StoreError> {
        Ok(MonitorStore::of(Database::open_reader(path, &MONITOR)?, None))
    }

    /// Opens the database to add rows to it, beside the process that writes it; one is made if there is none.
    ///
    /// # Errors
    /// When the file is another kind of database or has a newer schema, or it cannot be used.
    pub fn open_to_add(path: &Path) -> Result<MonitorStore, StoreError> {
        Ok(MonitorStore::of(Database::open(path, &MONITOR, LOCK_TIMEOUT)?, None))
    }

    fn of(database: Database, lock: Option<File>) -> MonitorStore {
        MonitorStore { database, series: SeriesIds::default(), _lock: lock }
    }

    fn begin_anew(
        path: &Path,
        now_unix_ms: u64,
        reason: String,
        lock: File,
    ) -> Result<(MonitorStore, Option<SetAside>), StoreError> {
        let to = set_aside(path, now_unix_ms)?;
        let database = Database::open(path, &MONITOR, LOCK_TIMEOUT)?;
        Ok((MonitorStore::of(database, Some(lock)), Some(SetAside { to, reason })))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.database.path
    }

    /// Limits the size of the file; rows that do not fit fail as on a full disk.
    ///
    /// # Errors
    /// When SQLite refuses the limit.
    pub fn limit(&mut self, max_bytes: u64) -> Result<(), StoreError> {
        self.database.limit(max_bytes)
    }

    /// Begins to fill the spool for ClickHouse with every probe whose cycle has ended and all that is found, or ends it. When it begins,
    /// what was kept since `from_unix_ms` goes there first.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn fill_outgoing(&mut self, is_on: bool, from_unix_ms: u64) -> Result<(), StoreError> {
        outgoing::fill(&self.database, &schema::triggers(), is_on, &schema::kept_since(from_unix_ms))
    }

    /// Writes all of it, or nothing.
    ///
    /// # Errors
    /// When it cannot be kept.
    pub fn apply(&mut self, writes: &[MonitorWrite]) -> Result<(), StoreError> {
        let series = &mut self.series;
        let applied = self
            .database
            .transact(|transaction| writes.iter().try_for_each(|write| write_one(transaction, write, series)));
        if applied.is_err() {
            // Rows of series that were made for it are gone with it.
            self.series = SeriesIds::default();
        }
        applied
    }

    /// Copies the database into another file while it is written: SQLite's online backup.
    ///
    /// # Errors
    /// When the file is there already, or cannot be written.
    pub fn backup(&self, to: &Path) -> Result<(), StoreError> {
        if to.exists() {
            let message = "it is there already; name another file".to_owned();
            return Err(StoreError::Open { path: to.to_owned(), message });
        }
        let copy = || -> rusqlite::Result<()> {
            let mut target = Connection::open(to)?;
            let backup = rusqlite::backup::Backup::new(&self.database.connection, &mut target)?;
            backup.run_to_completion(BACKUP_PAGES, BACKUP_PAUSE.as_duration(), None)
        };
        copy().map_err(|error| StoreError::of(to, &error))
    }

    /// Removes up to `most` probes that began before a time (ms since 1970), oldest first, and all older events, notices and cycles.
    /// Returns how many rows were removed.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn prune(&mut self, before_unix_ms: u64, most: u64) -> Result<u64, StoreError> {
        let prune = || -> rusqlite::Result<u64> {
            let connection = &self.database.connection;
            let sql = "DELETE FROM probes WHERE id IN \
                       (SELECT id FROM probes WHERE started_unix_ms < ? ORDER BY started_unix_ms LIMIT ?)";
            let before = to_i64(before_unix_ms);
            let mut removed = connection.prepare_cached(sql)?.execute(params![before, to_i64(most)])? as u64;
            for sql in [
                "DELETE FROM events WHERE at_unix_ms < ?",
                "DELETE FROM notices WHERE at_unix_ms < ?",
                "DELETE FROM deliveries WHERE given_up_unix_ms < ?",
                "DELETE FROM cycles WHERE begun_unix_ms < ? AND ended_unix_ms IS NOT NULL",
            ] {
                removed += connection.prepare_cached(sql)?.execute([before])? as u64;
            }
            if removed > 0 {
                self.database.shrink()?;
            }
            Ok(removed)
        };
        prune().map_err(|error| self.database.error(&error))
    }
}

/// Opens the file, and checks that it is sound.
fn open_sound(path: &Path) -> Result<Database, StoreError> {
    let database = Database::open(path, &MONITOR, LOCK_TIMEOUT)?;
    match database.quick_damage()? {
        None => Ok(database),
        Some(message) => Err(StoreError::Corrupt { path: path.to_owned(), message }),
    }
}

/// Takes the lock of the one writer: a file beside the database, as closing the database itself would drop SQLite's own locks.
fn lock(path: &Path) -> Result<File, StoreError> {
    let beside = with_suffix(path, "-lock");
    let refuse = |error: std::io::Error| StoreError::Open { path: beside.clone(), message: error.to_string() };
    let file = File::options().create(true).write(true).truncate(false).open(&beside).map_err(refuse)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StoreError::Locked { path: path.to_owned() }),
        Err(TryLockError::Error(error)) => Err(refuse(error)),
    }
}

/// Moves a damaged database with its `-wal` and `-shm` to a name that is free.
fn set_aside(path: &Path, now_unix_ms: u64) -> Result<PathBuf, StoreError> {
    let to = (0..100).map(|number| with_suffix(path, &format!(".damaged-{}", now_unix_ms + number)));
    let to = to.into_iter().find(|to| !to.exists()).unwrap_or_else(|| with_suffix(path, ".damaged"));
    for suffix in ["", "-wal", "-shm"] {
        let from = with_suffix(path, suffix);
        if from.exists() {
            std::fs::rename(&from, with_suffix(&to, suffix))
                .map_err(|error| StoreError::Open { path: from, message: format!("it cannot be moved: {error}") })?;
        }
    }
    Ok(to)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn write_one(transaction: &Connection, write: &MonitorWrite, series: &mut SeriesIds) -> rusqlite::Result<()> {
    match write {
        MonitorWrite::Probe(row) => write_probe(transaction, row, series),
        MonitorWrite::Event(event) => write_event(transaction, event),
        MonitorWrite::Estimate(row) => write_estimate(transaction, row),
        MonitorWrite::CycleBegun { cycle, prober, place, at_unix_ms } => {
            let sql = "INSERT OR IGNORE INTO cycles (cycle, prober, place, begun_unix_ms) VALUES (?, ?, ?, ?)";
            execute(transaction, sql, params![cycle, prober, place, to_i64(*at_unix_ms)])
        }
        MonitorWrite::CycleEnded { cycle, at_unix_ms, reference, quarantine } => {
            let sql = "UPDATE cycles SET ended_unix_ms = ?, reference = ?, quarantine = ? WHERE cycle = ?";
            execute(transaction, sql, params![to_i64(*at_unix_ms), reference, quarantine, cycle])?;
            let sql = "UPDATE probes SET quarantine = ? WHERE cycle = ? AND quarantine = ?";
            execute(transaction, sql, params![quarantine, cycle, CYCLE_IS_OPEN])
        }
        MonitorWrite::Quarantine { place, prober, from_unix_ms, until_unix_ms, reason } => {
            let sql = "UPDATE probes SET quarantine = ?1 WHERE quarantine IS NULL AND started_unix_ms BETWEEN ?2 AND ?3 \
                       AND series IN (SELECT id FROM series WHERE place = ?4 AND prober = ?5)";
            let (from, until) = (to_i64(*from_unix_ms), to_i64(*until_unix_ms));
            execute(transaction, sql, params![reason, from, until, place, prober])
        }
        MonitorWrite::Notice { at_unix_ms, prober, text } => {
            let sql = "INSERT INTO notices (at_unix_ms, prober, text) VALUES (?, ?, ?)";
            execute(transaction, sql, params![to_i64(*at_unix_ms), prober, text])
        }
        MonitorWrite::Seen { prober, place, at_unix_ms, missed } => {
            let sql = "INSERT INTO probers (prober, place, seen_unix_ms, missed) VALUES (?, ?, ?, ?) \
                       ON CONFLICT (prober) DO UPDATE SET place = excluded.place, \
                       missed = missed + min(excluded.missed, 9223372036854775807 - missed), \
                       seen_unix_ms = excluded.seen_unix_ms";
            execute(transaction, sql, params![prober, place, to_i64(*at_unix_ms), to_i64(*missed)])
        }
        MonitorWrite::Detected { prober, until_unix_ms } => {
            let sql = "UPDATE probers SET detected_unix_ms = max(detected_unix_ms, ?) WHERE prober = ?";
            execute(transaction, sql, params![until_unix_ms, prober])
        }
        MonitorWrite::AlertPart { .. }
        | MonitorWrite::AlertPartsGone
        | MonitorWrite::Delivery(_)
        | MonitorWrite::Delivered { .. }
        | MonitorWrite::Spooled(_)
        | MonitorWrite::SpoolSent { .. }
        | MonitorWrite::Pushed { .. } => queues::write(transaction, write),
    }
}

fn execute(transaction: &Connection, sql: &str, values: impl rusqlite::Params) -> rusqlite::Result<()> {
    transaction.prepare_cached(sql)?.execute(values).map(|_| ())
}

fn write_probe(transaction: &Connection, row: &ProbeRow, series: &mut SeriesIds) -> rusqlite::Result<()> {
    static SQL: OnceLock<String> = OnceLock::new();
    let sql = SQL.get_or_init(|| {
        let (measured, _) = sample_columns();
        format!(
            "INSERT OR IGNORE INTO probes (series, probe, cycle, slot_unix_ms, due_unix_ms, is_further, quarantine, reason, {}) \
             VALUES ({})",
            measured.join(", "),
            vec!["?"; 8 + measured.len()].join(", ")
        )
    });
    let id = series.id(transaction, &row.probe)?;
    let mut statement = transaction.prepare_cached(sql)?;
    let mut writer = Writer::new(Bound::to(&mut statement));
    writer.put(id)?;
    writer.put(&row.probe.id)?;
    writer.put(&row.cycle)?;
    writer.put(to_i64(row.slot_unix_ms))?;
    writer.put(to_i64(row.probe.due_unix_ms))?;
    writer.put(row.is_further)?;
    writer.put(&row.probe.quarantine)?;
    writer.put(&row.reason)?;
    writer.measured(&row.probe.sample)?;
    writer.execute()
}

fn write_estimate(transaction: &Connection, row: &EstimateRow) -> rusqlite::Result<()> {
    let sql = "INSERT OR REPLACE INTO estimates \
               (endpoint, model, workload, in_flight, output_speed, low, high, made_unix_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?)";
    let EstimateRow { endpoint, model, workload, in_flight, output_speed, low, high, made_unix_ms } = row;
    let made = to_i64(*made_unix_ms);
    execute(transaction, sql, params![endpoint, model, workload, in_flight, output_speed, low, high, made])
}

fn write_event(transaction: &Connection, event: &EventRow) -> rusqlite::Result<()> {
    let sql = "INSERT OR IGNORE INTO events (at_unix_ms, endpoint, workload, place, metric, kind, since_unix_ms, \
               since_earliest_unix_ms, since_latest_unix_ms, change, low, high, p, n, remark) \
               VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    // SQLite stores NaN as NULL, and infinities read badly.
    let finite = |value: f64| if value.is_finite() { value } else { 0.0 };
    execute(
        transaction,
        sql,
        params![
            event.at_unix_ms,
            event.endpoint,
            event.workload,
            event.place,
            event.metric,
            event.kind,
            event.since_unix_ms,
            event.since_earliest_unix_ms,
            event.since_latest_unix_ms,
            finite(event.change),
            finite(event.low),
            finite(event.high),
            finite(event.p),
            to_i64(event.n),
            event.remark
        ],
    )
}
