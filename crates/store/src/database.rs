//! A SQLite file of ours: how it is opened, recognised, migrated, checked and copied, whatever its tables hold.
//!
//! Invariant: a file that is not of the kind and of a supported version is rejected before anything is written to it.

use crate::StoreError;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};
use std::path::{Path, PathBuf};
use tokrate_core::Span;

/// Default busy timeout: how long to wait for a lock of another process.
pub(crate) const LOCK_TIMEOUT: Span = Span::from_secs(5);
/// The WAL is truncated to this size after a checkpoint (bytes).
const MAX_WAL_BYTES: u32 = 16 << 20;
/// Free pages returned to the file system after each step of pruning.
const VACUUM_PAGES: u32 = 512;

/// A kind of file.
#[derive(Debug)]
pub(crate) struct Format {
    /// What it is, such as "a log".
    pub what: &'static str,
    /// SQLite's `application_id`.
    pub application_id: i32,
    /// Migrations from each version to the next, starting with an empty file.
    pub migrations: &'static [&'static str],
}

impl Format {
    /// The newest version; SQLite's `user_version` holds that of a file.
    pub fn version(&self) -> u32 {
        self.migrations.len() as u32
    }
}

/// An open file.
#[derive(Debug)]
pub(crate) struct Database {
    pub connection: Connection,
    pub path: PathBuf,
    format: &'static Format,
}

/// Where committed rows are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CheckpointState {
    /// All are in the database; the `-wal` is not needed.
    Complete,
    /// Some are only in the `-wal`, or it is unknown.
    Incomplete,
}

impl Database {
    /// Opens a file for writing; creates it if there is none, and migrates an older schema.
    ///
    /// # Errors
    /// When the file is of another kind, has a newer schema, or cannot be used; it is then left unchanged.
    pub fn open(path: &Path, format: &'static Format, lock_timeout: Span) -> Result<Database, StoreError> {
        check_path(path)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let mut database = Database::connect(path, flags, format, lock_timeout)?;
        let version = database.version()?;
        database.prepare(version).map_err(|error| StoreError::of(path, &error))?;
        Ok(database)
    }

    /// Opens a file read-only; it never waits for the writer. An older schema is migrated first.
    ///
    /// # Errors
    /// When there is no such file, or it is none of a known form.
    pub fn open_reader(path: &Path, format: &'static Format) -> Result<Database, StoreError> {
        if !path.exists() {
            return Err(StoreError::Missing { path: path.to_owned() });
        }
        check_path(path)?;
        let reader = || Database::connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY, format, LOCK_TIMEOUT);
        let database = reader()?;
        if database.version()? == format.version() {
            return Ok(database);
        }
        drop(database);
        drop(Database::open(path, format, LOCK_TIMEOUT)?);
        reader()
    }

    /// The schema version of the file.
    ///
    /// # Errors
    /// When it is newer than this program knows, or the file is none of its kind.
    pub fn version(&self) -> Result<u32, StoreError> {
        let (path, format) = (self.path.clone(), self.format);
        let pragma = |name: &str| self.connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        let read = || -> rusqlite::Result<(i64, i64, i64)> {
            let tables = self.connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
            Ok((pragma("application_id")?, pragma("user_version")?, tables))
        };
        let (application, version, tables) = read().map_err(|error| StoreError::of(&path, &error))?;
        match (application == i64::from(format.application_id), u32::try_from(version)) {
            (true, Ok(found)) if found > format.version() => {
                Err(StoreError::Newer { path, found, known: format.version() })
            }
            (true, Ok(found)) => Ok(found),
            (false, Ok(0)) if application == 0 && tables == 0 => Ok(0),
            _ => Err(StoreError::Foreign { path, what: format.what }),
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

    /// The same without holding indexes against tables, which takes most of the time; the first finding.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn quick_damage(&self) -> Result<Option<String>, StoreError> {
        let check = self.connection.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0));
        check.map(|answer| (answer != "ok").then_some(answer)).map_err(|error| self.error(&error))
    }

    /// Whether all committed rows are in the database itself. Neither waits nor checkpoints.
    pub fn checkpoint_state(&self) -> CheckpointState {
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
    pub fn empty_wal(&self) -> Result<(), StoreError> {
        let busy = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0));
        match busy.map_err(|error| self.error(&error))? {
            0 => Ok(()),
            _ => Err(StoreError::Locked { path: self.path.clone() }),
        }
    }

    /// Disables the checkpoint at close, which would also remove the `-wal`.
    pub fn abandon(&self) {
        let setting = rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
        // It only fails for a connection that is closed.
        let _ = self.connection.set_db_config(setting, true);
    }

    /// Returns some free pages to the file system.
    pub fn shrink(&self) -> rusqlite::Result<()> {
        let mut statement = self.connection.prepare_cached(&format!("PRAGMA incremental_vacuum({VACUUM_PAGES})"))?;
        let mut pages = statement.query([])?;
        while pages.next()?.is_some() {}
        Ok(())
    }

    /// Runs statements in one transaction: all or none of them.
    pub fn transact(&mut self, act: impl FnOnce(&Connection) -> rusqlite::Result<()>) -> Result<(), StoreError> {
        let connection = &mut self.connection;
        let write = || -> rusqlite::Result<()> {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            act(&transaction)?;
            transaction.commit()
        };
        write().map_err(|error| StoreError::of(&self.path, &error))
    }

    /// An error of SQLite, with the file.
    pub fn error(&self, error: &rusqlite::Error) -> StoreError {
        StoreError::of(&self.path, error)
    }

    fn connect(
        path: &Path,
        flags: OpenFlags,
        format: &'static Format,
        lock_timeout: Span,
    ) -> Result<Database, StoreError> {
        let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let open = || -> rusqlite::Result<Connection> {
            let connection = Connection::open_with_flags(path, flags)?;
            connection.busy_timeout(lock_timeout.as_duration())?;
            connection.set_prepared_statement_cache_capacity(16);
            Ok(connection)
        };
        let connection = open().map_err(|error| StoreError::of(path, &error))?;
        Ok(Database { connection, path: path.to_owned(), format })
    }

    /// Applies the settings of a writer and pending migrations.
    fn prepare(&mut self, version: u32) -> rusqlite::Result<()> {
        let (connection, format) = (&mut self.connection, self.format);
        if version == 0 {
            // Both only work while the file is empty.
            connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
            connection.pragma_update(None, "application_id", format.application_id)?;
        }
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        connection.pragma_update_and_check(None, "journal_size_limit", MAX_WAL_BYTES, |_| Ok(()))?;
        if version == format.version() {
            return Ok(());
        }
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        // Another process may have migrated meanwhile.
        let version: u32 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
        for migration in format.migrations.iter().skip(version as usize) {
            transaction.execute_batch(migration)?;
        }
        transaction.pragma_update(None, "user_version", format.version().max(version))?;
        transaction.commit()
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
