//! The log in one SQLite file.
//!
//! Invariant: a file that is not a log of a supported version is rejected before anything is written to it; the rows of one `append` are
//! committed together or not at all.

use crate::row::{COLUMNS, Reader, insert, insert_sql};
use crate::schema::{APPLICATION_ID, MIGRATIONS, SCHEMA_VERSION};
use crate::summary::{Grouping, Summary, summarise};
use crate::{Order, Query, Store, StoreError};
use rusqlite::{Connection, OpenFlags, TransactionBehavior, params_from_iter};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use tokrate_core::Span;
use tokrate_record::{Attempt, SharedConditions};

/// Default busy timeout: how long to wait for a lock of another process.
const LOCK_TIMEOUT: Span = Span::from_secs(5);
/// The WAL is truncated to this size after a checkpoint (bytes).
const MAX_WAL_BYTES: u32 = 16 << 20;
/// Free pages returned to the file system after each step of pruning.
const VACUUM_PAGES: u32 = 512;

/// A log in a SQLite file.
#[derive(Debug)]
pub struct Sqlite {
    connection: Connection,
    path: PathBuf,
}

/// Where committed rows are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CheckpointState {
    /// All are in the database; the `-wal` is not needed.
    Complete,
    /// Some are only in the `-wal`, or it is unknown.
    Incomplete,
}

impl Sqlite {
    /// Opens a log for writing; creates the file if there is none, and migrates an older schema.
    ///
    /// # Errors
    /// When the file is not a log, has a newer schema, or cannot be used; it is then left unchanged.
    pub fn open(path: &Path) -> Result<Sqlite, StoreError> {
        Sqlite::open_with_timeout(path, LOCK_TIMEOUT)
    }

    /// The same with another busy timeout.
    pub(crate) fn open_with_timeout(path: &Path, lock_timeout: Span) -> Result<Sqlite, StoreError> {
        check_path(path)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let mut store = Sqlite::connect(path, flags, lock_timeout)?;
        let version = store.version()?;
        store.prepare(version).map_err(|error| StoreError::of(path, &error))?;
        Ok(store)
    }

    /// Opens a log read-only; it never waits for the writer. An older schema is migrated first.
    ///
    /// # Errors
    /// When there is no such file, or it is no log of a known form.
    pub fn open_reader(path: &Path) -> Result<Sqlite, StoreError> {
        if !path.exists() {
            return Err(StoreError::Missing { path: path.to_owned() });
        }
        check_path(path)?;
        let reader = || Sqlite::connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY, LOCK_TIMEOUT);
        let store = reader()?;
        if store.version()? == SCHEMA_VERSION {
            return Ok(store);
        }
        drop(store);
        drop(Sqlite::open(path)?);
        reader()
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The schema version of the file.
    ///
    /// # Errors
    /// When it is newer than this program knows, or the file is no log.
    pub fn version(&self) -> Result<u32, StoreError> {
        let path = self.path.clone();
        let pragma = |name: &str| self.connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        let read = || -> rusqlite::Result<(i64, i64, i64)> {
            let tables = self.connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
            Ok((pragma("application_id")?, pragma("user_version")?, tables))
        };
        let (application, version, tables) = read().map_err(|error| StoreError::of(&path, &error))?;
        match (application == i64::from(APPLICATION_ID), u32::try_from(version)) {
            (true, Ok(found)) if found > SCHEMA_VERSION => {
                Err(StoreError::Newer { path, found, known: SCHEMA_VERSION })
            }
            (true, Ok(found)) => Ok(found),
            (false, Ok(0)) if application == 0 && tables == 0 => Ok(0),
            _ => Err(StoreError::Foreign { path }),
        }
    }

    /// Limits the size of the file; rows that do not fit fail as on a full disk.
    ///
    /// # Errors
    /// When SQLite refuses the limit.
    pub fn limit(&mut self, max_bytes: u64) -> Result<(), StoreError> {
        let set = || -> rusqlite::Result<()> {
            let page: i64 = self.connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
            let pages = (max_bytes / page.unsigned_abs().max(1)).clamp(1, 0xffff_fffe);
            // The pragma returns the effective limit, which is at least the current size of the file.
            self.connection.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(()))
        };
        set().map_err(|error| self.error(&error))
    }

    /// Runs SQLite's integrity check; `None` if the file is sound.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn damage(&self) -> Result<Option<String>, StoreError> {
        let check = self.connection.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0));
        check.map(|answer| (answer != "ok").then_some(answer)).map_err(|error| self.error(&error))
    }

    /// When the newest row was begun (ms since 1970); `None` without rows.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(crate) fn newest_unix_ms(&self) -> Result<Option<u64>, StoreError> {
        let sql = "SELECT max(newest) FROM (SELECT max(started_unix_ms) AS newest FROM attempts \
                   UNION ALL SELECT max(minute_unix_ms) FROM refusals)";
        let newest = self.connection.query_row(sql, [], |row| Ok(row.get::<_, Option<i64>>(0)?.map(i64::unsigned_abs)));
        newest.map_err(|error| self.error(&error))
    }

    /// The largest `id` of a row; 0 without rows.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(crate) fn newest_id(&self) -> Result<i64, StoreError> {
        let newest = self.connection.query_row("SELECT coalesce(max(id), 0) FROM attempts", [], |row| row.get(0));
        newest.map_err(|error| self.error(&error))
    }

    /// The `id` of the last row that was added here.
    pub(crate) fn last_id(&self) -> i64 {
        self.connection.last_insert_rowid()
    }

    /// Whether all committed rows are in the database itself. Neither waits nor checkpoints.
    pub(crate) fn checkpoint_state(&self) -> CheckpointState {
        let pages = self
            .connection
            .query_row("PRAGMA wal_checkpoint(NOOP)", [], |row| Ok((row.get::<_, i64>(1)?, row.get::<_, i64>(2)?)));
        match pages {
            Ok((in_wal, checkpointed)) if in_wal == checkpointed => CheckpointState::Complete,
            _ => CheckpointState::Incomplete,
        }
    }

    /// Checkpoints the `-wal` completely and truncates it.
    ///
    /// # Errors
    /// When another process still reads from it, or the disk refuses.
    pub(crate) fn empty_wal(&self) -> Result<(), StoreError> {
        let busy = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0));
        match busy.map_err(|error| self.error(&error))? {
            0 => Ok(()),
            _ => Err(StoreError::Locked { path: self.path.clone() }),
        }
    }

    /// Disables the checkpoint at close, which would also remove the `-wal`.
    pub(crate) fn abandon(&self) {
        let setting = rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
        // It only fails for a connection that is closed.
        let _ = self.connection.set_db_config(setting, true);
    }

    fn connect(path: &Path, flags: OpenFlags, lock_timeout: Span) -> Result<Sqlite, StoreError> {
        let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let open = || -> rusqlite::Result<Connection> {
            let connection = Connection::open_with_flags(path, flags)?;
            connection.busy_timeout(lock_timeout.as_duration())?;
            connection.set_prepared_statement_cache_capacity(16);
            Ok(connection)
        };
        let connection = open().map_err(|error| StoreError::of(path, &error))?;
        Ok(Sqlite { connection, path: path.to_owned() })
    }

    /// Applies the settings of a writer and pending migrations.
    fn prepare(&mut self, version: u32) -> rusqlite::Result<()> {
        let connection = &mut self.connection;
        if version == 0 {
            // Both only work while the file is empty.
            connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
            connection.pragma_update(None, "application_id", APPLICATION_ID)?;
        }
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        connection.pragma_update_and_check(None, "journal_size_limit", MAX_WAL_BYTES, |_| Ok(()))?;
        if version == SCHEMA_VERSION {
            return Ok(());
        }
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        // Another process may have migrated meanwhile.
        let version: u32 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
        for migration in MIGRATIONS.iter().skip(version as usize) {
            transaction.execute_batch(migration)?;
        }
        transaction.pragma_update(None, "user_version", SCHEMA_VERSION.max(version))?;
        transaction.commit()
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    pub(crate) fn connection_mut(&mut self) -> &mut Connection {
        &mut self.connection
    }

    pub(crate) fn error(&self, error: &rusqlite::Error) -> StoreError {
        StoreError::of(&self.path, error)
    }
}

impl Store for Sqlite {
    fn append(&mut self, rows: &[Attempt]) -> Result<(), StoreError> {
        let connection = &mut self.connection;
        let mut write = || -> rusqlite::Result<()> {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            {
                let mut statement = transaction.prepare_cached(&insert_sql())?;
                rows.iter().try_for_each(|row| insert(&mut statement, row))?;
            }
            transaction.commit()
        };
        write().map_err(|error| StoreError::of(&self.path, &error))
    }

    fn attempts(&self, query: &Query) -> Result<Vec<Attempt>, StoreError> {
        let (mut found, mut shared) = (Vec::new(), SharedConditions::default());
        self.visit(&COLUMNS, query, |reader| {
            found.push(reader.attempt(&mut shared)?);
            Ok(())
        })?;
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
                removed += self.connection.prepare_cached(&sql)?.execute(bound)? as u64;
            }
            if removed > 0 {
                let sql = format!("PRAGMA incremental_vacuum({VACUUM_PAGES})");
                let mut statement = self.connection.prepare_cached(&sql)?;
                let mut pages = statement.query([])?;
                while pages.next()?.is_some() {}
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
        let mut statement = self.connection.prepare_cached(&sql).map_err(|error| self.error(&error))?;
        let mut rows = statement.query(params_from_iter(values)).map_err(|error| self.error(&error))?;
        while let Some(row) = rows.next().map_err(|error| self.error(&error))? {
            each(Reader::new(row, columns, &self.path))?;
        }
        Ok(())
    }
}

/// Explains what SQLite would only call "unable to open". Uses `stat` and does not open the file: on POSIX, closing a file drops
/// all locks that the process holds on it, including those of other SQLite connections.
fn check_path(path: &Path) -> Result<(), StoreError> {
    let refuse = |message: &str| Err(StoreError::Open { path: path.to_owned(), message: message.to_owned() });
    match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => refuse("it is a folder"),
        Ok(found) if !found.is_file() => refuse("it is not a regular file"),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            match folder.map(Path::is_dir) {
                Some(false) => refuse("there is no such folder"),
                _ => Ok(()),
            }
        }
        Err(error) => refuse(&error.to_string()),
    }
}
