//! The log in one SQLite file.
//!
//! Invariant: the rows of one `append` are committed together or not at all.

use crate::database::{CheckpointState, Database, LOCK_TIMEOUT};
use crate::row::{COLUMNS, Reader, insert, insert_sql};
use crate::schema::LOG;
use crate::summary::{Grouping, Summary, summarise};
use crate::{Order, Query, Store, StoreError};
use rusqlite::{Connection, params_from_iter};
use std::collections::BTreeSet;
use std::path::Path;
use tokrate_core::Span;
use tokrate_record::{Attempt, SharedConditions};

/// Rows of one statement where there are so many: SQLite then keeps its place in table and indexes from row to row. Counted in
/// instructions (callgrind), eight save most: 5,000 a row, against 4,000 with four and 3,000 with sixteen.
const ROWS_AT_ONCE: usize = 8;

/// A log in a SQLite file.
#[derive(Debug)]
pub struct Sqlite {
    database: Database,
}

impl Sqlite {
    /// Opens a log for writing; creates the file if there is none, and migrates an older schema.
    ///
    /// # Errors
    /// When the file is not a log, has a newer schema, or cannot be used; it is then left unchanged.
    pub fn open(path: &Path) -> Result<Sqlite, StoreError> {
        Sqlite::open_with_timeout(path, LOCK_TIMEOUT)
    }

    /// Of an open database that has the log's tables, or views of their form.
    pub(crate) fn of(database: Database) -> Sqlite {
        Sqlite { database }
    }

    /// The same with another busy timeout.
    pub(crate) fn open_with_timeout(path: &Path, lock_timeout: Span) -> Result<Sqlite, StoreError> {
        Ok(Sqlite { database: Database::open(path, &LOG, lock_timeout)? })
    }

    /// Opens a log read-only; it never waits for the writer. An older schema is migrated first.
    ///
    /// # Errors
    /// When there is no such file, or it is no log of a known form.
    pub fn open_reader(path: &Path) -> Result<Sqlite, StoreError> {
        Ok(Sqlite { database: Database::open_reader(path, &LOG)? })
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

impl Store for Sqlite {
    fn append(&mut self, rows: &[Attempt]) -> Result<(), StoreError> {
        self.database.transact(|transaction| {
            let (several, rest) = rows.split_at(rows.len() - rows.len() % ROWS_AT_ONCE);
            for (rows, at_once) in [(several, ROWS_AT_ONCE), (rest, 1)].into_iter().filter(|(rows, _)| !rows.is_empty())
            {
                let mut statement = transaction.prepare_cached(&insert_sql(at_once))?;
                rows.chunks(at_once).try_for_each(|rows| insert(&mut statement, rows))?;
            }
            Ok(())
        })
    }

    fn attempts(&self, query: &Query) -> Result<Vec<Attempt>, StoreError> {
        let mut found = Vec::new();
        self.visit_attempts(query, |row| found.push(row))?;
        Ok(found)
    }

    fn summarise(&self, query: &Query, by: Grouping) -> Result<Vec<Summary>, StoreError> {
        summarise(self, query, by)
    }

    fn prune(&mut self, before_unix_ms: u64, most: u64) -> Result<u64, StoreError> {
        let prune = || -> rusqlite::Result<u64> {
            let mut removed = 0;
            for (table, time) in [("attempts", "started_unix_ms"), ("refusals", "minute_unix_ms")] {
                let sql = format!(
                    "DELETE FROM {table} WHERE id IN (SELECT id FROM {table} WHERE {time} < ? ORDER BY {time} LIMIT ?)"
                );
                let bound = [before_unix_ms, most - removed].map(crate::row::to_i64);
                removed += self.connection().prepare_cached(&sql)?.execute(bound)? as u64;
            }
            if removed > 0 {
                self.database.shrink()?;
            }
            Ok(removed)
        };
        prune().map_err(|error| self.error(&error))
    }
}

impl Sqlite {
    /// The newest calls of which an attempt fits the query, at most `most`, each with all its attempts in their order. The
    /// query's order and limit do not matter.
    ///
    /// # Errors
    /// When the store cannot be read, or a row in it is damaged.
    pub fn calls(&self, query: &Query, most: usize) -> Result<Vec<Vec<Attempt>>, StoreError> {
        let (mut names, mut known) = (Vec::new(), BTreeSet::new());
        let mut limit = 2 * most.max(8) as u64;
        loop {
            let mut rows = 0;
            let newest = Query { order: Order::Newest, limit: Some(limit), ..query.clone() };
            names.clear();
            known.clear();
            self.visit(&["call"], &newest, |mut row| {
                rows += 1;
                let name = row.text()?;
                if known.insert(name.clone()) {
                    names.push(name);
                }
                Ok(())
            })?;
            if names.len() >= most || rows < limit {
                break;
            }
            limit *= 4;
        }
        names.truncate(most);
        let attempts = |call: String| {
            let mut attempts = self.attempts(&Query { call: Some(call), ..Query::default() })?;
            attempts.sort_by_key(|row| row.attempt);
            Ok(attempts)
        };
        names.into_iter().map(attempts).collect()
    }

    /// How many rows match a query, without its limit.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn count(&self, query: &Query) -> Result<u64, StoreError> {
        let (tail, values) = Query { limit: None, ..query.clone() }.tail(false);
        let sql = format!("SELECT count(*) FROM attempts{tail}");
        let count = self.connection().query_row(&sql, params_from_iter(values), |row| row.get::<_, i64>(0));
        count.map(i64::unsigned_abs).map_err(|error| self.error(&error))
    }

    /// Passes each matching row to `each`, in the query's order.
    ///
    /// # Errors
    /// When the store cannot be read, or a row in it is damaged.
    pub fn visit_attempts(&self, query: &Query, mut each: impl FnMut(Attempt)) -> Result<(), StoreError> {
        let mut shared = SharedConditions::default();
        self.visit(&COLUMNS, query, |reader| {
            each(reader.attempt(&mut shared)?);
            Ok(())
        })
    }

    /// Passes the columns of each matching row to `each`, in the query's order.
    pub(crate) fn visit(
        &self,
        columns: &'static [&'static str],
        query: &Query,
        each: impl FnMut(Reader<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.visit_tail(columns, query.tail(true), each)
    }

    /// The same in any order.
    pub(crate) fn visit_all(
        &self,
        columns: &'static [&'static str],
        query: &Query,
        each: impl FnMut(Reader<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.visit_tail(columns, query.tail(false), each)
    }

    fn visit_tail(
        &self,
        columns: &'static [&'static str],
        (tail, values): (String, Vec<rusqlite::types::Value>),
        mut each: impl FnMut(Reader<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let sql = format!("SELECT id, {} FROM attempts{tail}", columns.join(", "));
        let mut statement = self.connection().prepare_cached(&sql).map_err(|error| self.error(&error))?;
        let mut rows = statement.query(params_from_iter(values)).map_err(|error| self.error(&error))?;
        while let Some(row) = rows.next().map_err(|error| self.error(&error))? {
            each(Reader::new(row, columns, self.path()))?;
        }
        Ok(())
    }
}
