//! The log in one SQLite file.
//!
//! It refuses to know threads and batches. Invariant: a file that is not a log of a known version is refused before anything
//! is written to it; rows of one `append` are in it all or not at all.

use crate::row::{COLUMNS, Reader, insert, insert_sql};
use crate::schema::{APPLICATION_ID, MIGRATIONS, SCHEMA_VERSION};
use crate::summary::{Grouping, Summary, summarise};
use crate::{Order, Query, Store, StoreError};
use rusqlite::{Connection, OpenFlags, TransactionBehavior, params_from_iter};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use tokrate_core::Span;
use tokrate_meter::Attempt;

/// How long a lock of another process is waited for, unless it is said otherwise.
const PATIENCE: Span = Span::from_secs(5);
/// The write-ahead log is cut to this size when its pages have gone into the file (bytes).
const WAL_BYTES: u32 = 16 << 20;
/// So many free pages are given back to the disk after a step of pruning.
const VACUUM_PAGES: u32 = 512;

/// A log in a SQLite file.
#[derive(Debug)]
pub struct Sqlite {
    connection: Connection,
    path: PathBuf,
}

/// Where committed rows are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Settled {
    /// In the database; the `-wal` may go.
    All,
    /// Some are in the `-wal` only, or it cannot be said.
    NotAll,
}

impl Sqlite {
    /// Opens a log for writing; creates the file if there is none, and brings an older form up to date.
    ///
    /// # Errors
    /// When the file is something else, is of a newer form, or cannot be used; it is then left as it was.
    pub fn open(path: &Path) -> Result<Sqlite, StoreError> {
        Sqlite::open_patient(path, PATIENCE)
    }

    /// The same, waiting so long for a lock of another process, now and later.
    pub(crate) fn open_patient(path: &Path, patience: Span) -> Result<Sqlite, StoreError> {
        refuse_other_places(path)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let mut store = Sqlite::connect(path, flags, patience)?;
        let version = store.version()?;
        store.prepare(version).map_err(|error| StoreError::of(path, &error))?;
        Ok(store)
    }

    /// Opens a log for reading only; it never waits for the one who writes. A file of an older form is brought up to date
    /// first.
    ///
    /// # Errors
    /// When there is no such file, or it is no log of a known form.
    pub fn open_reader(path: &Path) -> Result<Sqlite, StoreError> {
        if !path.exists() {
            return Err(StoreError::Missing { path: path.to_owned() });
        }
        refuse_other_places(path)?;
        let reader = || Sqlite::connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY, PATIENCE);
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

    /// The version of the file's form.
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

    /// Limits the file to about so many bytes; rows that do not fit are refused as on a full disk.
    ///
    /// # Errors
    /// When SQLite refuses the limit.
    pub fn limit(&mut self, most_bytes: u64) -> Result<(), StoreError> {
        let set = || -> rusqlite::Result<()> {
            let page: i64 = self.connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
            let pages = (most_bytes / page.unsigned_abs().max(1)).clamp(1, 0xffff_fffe);
            // Setting it answers with the limit that holds now, which may be larger than asked for: the file's size.
            self.connection.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(()))
        };
        set().map_err(|error| self.error(&error))
    }

    /// Runs SQLite's own check of the file; `None` if it is sound, else what is wrong.
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
        let newest = self.connection.query_row("SELECT max(started_unix_ms) FROM attempts", [], |row| {
            Ok(row.get::<_, Option<i64>>(0)?.map(i64::unsigned_abs))
        });
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

    /// Whether every committed row is in the database itself; looks without waiting and changes nothing.
    pub(crate) fn settled(&self) -> Settled {
        let pages = self
            .connection
            .query_row("PRAGMA wal_checkpoint(NOOP)", [], |row| Ok((row.get::<_, i64>(1)?, row.get::<_, i64>(2)?)));
        match pages {
            Ok((in_wal, carried_over)) if in_wal == carried_over => Settled::All,
            _ => Settled::NotAll,
        }
    }

    /// Carries all rows of the `-wal` over into the database and empties it.
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

    /// From now on, closing it carries nothing over from the `-wal` and removes nothing.
    pub(crate) fn abandon(&self) {
        let setting = rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
        // It only fails for a connection that is closed.
        let _ = self.connection.set_db_config(setting, true);
    }

    fn connect(path: &Path, flags: OpenFlags, patience: Span) -> Result<Sqlite, StoreError> {
        let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let open = || -> rusqlite::Result<Connection> {
            let connection = Connection::open_with_flags(path, flags)?;
            connection.busy_timeout(patience.as_duration())?;
            connection.set_prepared_statement_cache_capacity(16);
            Ok(connection)
        };
        let connection = open().map_err(|error| StoreError::of(path, &error))?;
        Ok(Sqlite { connection, path: path.to_owned() })
    }

    /// Settings of a writer, and the migrations that are missing.
    fn prepare(&mut self, version: u32) -> rusqlite::Result<()> {
        let connection = &mut self.connection;
        if version == 0 {
            // Both only work while the file is empty.
            connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
            connection.pragma_update(None, "application_id", APPLICATION_ID)?;
        }
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        connection.pragma_update_and_check(None, "journal_size_limit", WAL_BYTES, |_| Ok(()))?;
        if version == SCHEMA_VERSION {
            return Ok(());
        }
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        // Another process may have been faster.
        let version: u32 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
        for migration in MIGRATIONS.iter().skip(version as usize) {
            transaction.execute_batch(migration)?;
        }
        transaction.pragma_update(None, "user_version", SCHEMA_VERSION.max(version))?;
        transaction.commit()
    }

    fn error(&self, error: &rusqlite::Error) -> StoreError {
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
        let mut found = Vec::new();
        self.visit(&COLUMNS, query, |reader| {
            found.push(reader.attempt()?);
            Ok(())
        })?;
        Ok(found)
    }

    fn summarise(&self, query: &Query, by: Grouping) -> Result<Vec<Summary>, StoreError> {
        summarise(self, query, by)
    }

    fn prune(&mut self, before_unix_ms: u64, most: u64) -> Result<u64, StoreError> {
        let sql = "DELETE FROM attempts WHERE id IN \
                   (SELECT id FROM attempts WHERE started_unix_ms < ? ORDER BY started_unix_ms LIMIT ?)";
        let bound = [before_unix_ms, most].map(crate::row::whole);
        let prune = || -> rusqlite::Result<usize> {
            let removed = self.connection.prepare_cached(sql)?.execute(bound)?;
            if removed > 0 {
                let sql = format!("PRAGMA incremental_vacuum({VACUUM_PAGES})");
                let mut statement = self.connection.prepare_cached(&sql)?;
                let mut pages = statement.query([])?;
                while pages.next()?.is_some() {}
            }
            Ok(removed)
        };
        prune().map(|removed| removed as u64).map_err(|error| self.error(&error))
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

    /// Hands the columns of each row that a query asks for to `each`, in the query's order.
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

/// Says what SQLite would only call "unable to open". The file is looked at and not opened: on POSIX, closing a file drops every
/// lock that the process holds on it, those of SQLite's other connections too. What is in it SQLite says itself, at the first read.
fn refuse_other_places(path: &Path) -> Result<(), StoreError> {
    let refuse = |message: &str| Err(StoreError::Open { path: path.to_owned(), message: message.to_owned() });
    match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => refuse("it is a folder"),
        Ok(found) if !found.is_file() => refuse("it is no ordinary file"),
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
