//! The log in one SQLite file.
//!
//! Invariant: the rows of one `append` are committed together or not at all.

use crate::database::{CheckpointState, Database, LOCK_TIMEOUT};
use crate::row::{Reader, insert, insert_sql};
use crate::schema::{self, LOG};
use crate::summary::{Grouping, Summary, summarise, summarise_probes};
use crate::{Query, Store, StoreError};
use crate::{outgoing, refusals, spending};
use rusqlite::{Connection, params_from_iter};
use std::collections::BTreeMap;
use std::path::Path;
use tokrate_core::Span;
use tokrate_record::{Attempt, Refusal, SampleSource};

/// Rows of one statement where there are so many: SQLite then keeps its place in table and indexes from row to row. Counted in
/// instructions (callgrind), eight save most: 5,000 a row, against 4,000 with four and 3,000 with sixteen. Four take half as long, some
/// 25 us, which a call that has just come may have to wait for.
const ROWS_AT_ONCE: usize = 4;

/// A log in a SQLite file.
#[derive(Debug)]
pub struct Sqlite {
    database: Database,
    /// The source whose probes stand for attempts, in a monitor's database.
    probes_of: Option<SampleSource>,
}

impl Sqlite {
    /// Opens a log for writing; creates the file if there is none, and migrates an older schema.
    ///
    /// # Errors
    /// When the file is not a log, has a newer schema, or cannot be used; it is then left unchanged.
    pub fn open(path: &Path) -> Result<Sqlite, StoreError> {
        Sqlite::open_with_timeout(path, LOCK_TIMEOUT)
    }

    /// Of a monitor's database that has views in the form of the log's tables.
    pub(crate) fn of_probes(database: Database, source: SampleSource) -> Sqlite {
        Sqlite { database, probes_of: Some(source) }
    }

    /// The same with another busy timeout.
    pub(crate) fn open_with_timeout(path: &Path, lock_timeout: Span) -> Result<Sqlite, StoreError> {
        Ok(Sqlite { database: Database::open(path, &LOG, lock_timeout)?, probes_of: None })
    }

    /// Opens a log read-only; it never waits for the writer. An older schema is migrated first.
    ///
    /// # Errors
    /// When there is no such file, or it is no log of a known form.
    pub fn open_reader(path: &Path) -> Result<Sqlite, StoreError> {
        Ok(Sqlite { database: Database::open_reader(path, &LOG)?, probes_of: None })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.database.path
    }

    /// The schema version of the file.
    ///
    /// # Errors
    /// When it is newer than this program knows, or the file is no log.
    pub fn version(&self) -> Result<u32, StoreError> {
        self.database.version()
    }

    /// Limits the size of the file; rows that do not fit fail as on a full disk.
    ///
    /// # Errors
    /// When SQLite refuses the limit.
    pub fn limit(&mut self, max_bytes: u64) -> Result<(), StoreError> {
        self.database.limit(max_bytes)
    }

    /// Begins to fill the spool for ClickHouse with every row that is added, or ends it.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn fill_outgoing(&mut self, is_on: bool) -> Result<(), StoreError> {
        outgoing::fill(&self.database, &schema::triggers(), is_on, "")
    }

    /// Runs SQLite's integrity check; `None` if the file is sound.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn damage(&self) -> Result<Option<String>, StoreError> {
        self.database.damage()
    }

    /// When the newest row was begun (ms since 1970); `None` without rows.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(crate) fn newest_unix_ms(&self) -> Result<Option<u64>, StoreError> {
        let sql = "SELECT max(newest) FROM (SELECT max(started_unix_ms) AS newest FROM attempts \
                   UNION ALL SELECT max(minute_unix_ms) FROM refusals)";
        let newest =
            self.connection().query_row(sql, [], |row| Ok(row.get::<_, Option<i64>>(0)?.map(i64::unsigned_abs)));
        newest.map_err(|error| self.error(&error))
    }

    /// The largest `id` of a row; 0 without rows.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(crate) fn newest_id(&self) -> Result<i64, StoreError> {
        let newest = self.connection().query_row("SELECT coalesce(max(id), 0) FROM attempts", [], |row| row.get(0));
        newest.map_err(|error| self.error(&error))
    }

    /// The `id` of the last row that was added here.
    pub(crate) fn last_id(&self) -> i64 {
        self.connection().last_insert_rowid()
    }

    /// Whether all committed rows are in the database itself. Neither waits nor checkpoints.
    pub(crate) fn checkpoint_state(&self) -> CheckpointState {
        self.database.checkpoint_state()
    }

    /// Checkpoints the `-wal` completely and truncates it.
    ///
    /// # Errors
    /// When another process still reads from it, or the disk refuses.
    pub(crate) fn empty_wal(&self) -> Result<(), StoreError> {
        self.database.empty_wal()
    }

    /// Disables the checkpoint at close, which would also remove the `-wal`.
    pub(crate) fn abandon(&self) {
        self.database.abandon();
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.database.connection
    }

    pub(crate) fn connection_mut(&mut self) -> &mut Connection {
        &mut self.database.connection
    }

    pub(crate) fn error(&self, error: &rusqlite::Error) -> StoreError {
        self.database.error(error)
    }
}

impl Sqlite {
    /// Adds rows, all or none of them.
    ///
    /// # Errors
    /// When the rows cannot be kept; none of them is then.
    pub fn append(&mut self, rows: &[Attempt]) -> Result<(), StoreError> {
        self.append_in_pieces(rows, &mut || {})
    }

    /// The same with a pause before every few rows, while nobody else can write the file.
    ///
    /// # Errors
    /// As [`Sqlite::append`].
    pub(crate) fn append_in_pieces(&mut self, rows: &[Attempt], pause: &mut dyn FnMut()) -> Result<(), StoreError> {
        self.database.transact(|transaction| {
            spending::catch_up(transaction)?;
            let (several, rest) = rows.split_at(rows.len() - rows.len() % ROWS_AT_ONCE);
            for (rows, at_once) in [(several, ROWS_AT_ONCE), (rest, 1)].into_iter().filter(|(rows, _)| !rows.is_empty())
            {
                let mut statement = transaction.prepare_cached(&insert_sql(at_once))?;
                for rows in rows.chunks(at_once) {
                    pause();
                    insert(&mut statement, rows)?;
                }
            }
            spending::add(transaction, rows)
        })
    }

    /// Those of the rows that the file does not have.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(crate) fn missing(&self, rows: &[Attempt]) -> Result<Vec<Attempt>, StoreError> {
        let missing = || -> rusqlite::Result<Vec<Attempt>> {
            let mut find = self.connection().prepare_cached("SELECT 1 FROM attempts WHERE call = ? AND attempt = ?")?;
            let mut missing = Vec::new();
            for row in rows {
                if !find.exists((&row.call, row.attempt))? {
                    missing.push(row.clone());
                }
            }
            Ok(missing)
        };
        missing().map_err(|error| self.error(&error))
    }

    /// Removes up to `most` rows that began before a wall time (ms since 1970), oldest first, then refusals and objects; returns how many.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn prune(&mut self, before_unix_ms: u64, most: u64) -> Result<u64, StoreError> {
        let mut removed = 0;
        self.database.transact(|transaction| {
            for (table, time) in [("attempts", "started_unix_ms"), ("refusals", "minute_unix_ms")] {
                let sql = format!(
                    "DELETE FROM {table} WHERE id IN (SELECT id FROM {table} WHERE {time} < ? ORDER BY {time} LIMIT ?)"
                );
                let bound = [before_unix_ms, most - removed].map(crate::row::to_i64);
                removed += transaction.prepare_cached(&sql)?.execute(bound)? as u64;
            }
            let objects = "DELETE FROM objects WHERE id IN (SELECT id FROM objects WHERE made_unix_ms < ? LIMIT ?)";
            let bound = [before_unix_ms, most - removed].map(crate::row::to_i64);
            removed += transaction.prepare_cached(objects)?.execute(bound)? as u64;
            spending::forget(transaction, before_unix_ms)
        })?;
        if removed > 0 {
            self.database.shrink().map_err(|error| self.error(&error))?;
        }
        Ok(removed)
    }
}

impl Store for Sqlite {
    fn visit(
        &self,
        columns: &'static [&'static str],
        query: &Query,
        ordered: bool,
        each: &mut dyn FnMut(Reader<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let (tail, values) = query.tail(ordered);
        let sql = format!("SELECT id, {} FROM attempts{tail}", columns.join(", "));
        let mut statement = self.connection().prepare_cached(&sql).map_err(|error| self.error(&error))?;
        let mut rows = statement.query(params_from_iter(values)).map_err(|error| self.error(&error))?;
        while let Some(row) = rows.next().map_err(|error| self.error(&error))? {
            each(Reader::new(row, columns, self.path()))?;
        }
        Ok(())
    }

    fn count(&self, query: &Query) -> Result<u64, StoreError> {
        let (filter, values) = query.filter();
        let sql = format!("SELECT count(*) FROM attempts{filter}");
        let count = self.connection().query_row(&sql, params_from_iter(values), |row| row.get::<_, i64>(0));
        count.map(i64::unsigned_abs).map_err(|error| self.error(&error))
    }

    fn summarise(&self, query: &Query, by: Grouping) -> Result<Vec<Summary>, StoreError> {
        if let Some(source) = self.probes_of
            && let Some(groups) = summarise_probes(self, source, query, by)?
        {
            return Ok(groups);
        }
        summarise(self, query, by)
    }

    fn refusals(&self, query: &Query) -> Result<Vec<Refusal>, StoreError> {
        refusals::refusals(self, query)
    }

    fn refused_by_reason(&self, query: &Query) -> Result<BTreeMap<&'static str, u64>, StoreError> {
        refusals::refused_by_reason(self, query)
    }
}
