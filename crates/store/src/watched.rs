//! The log file of the writer: opened on demand, and released when it or its `-wal` was moved, removed or replaced.
//!
//! Files are only checked with `stat`: opening and closing one would drop every lock that SQLite holds on it (POSIX), and another process
//! could then remove the live `-wal`. Invariant: rows that `append` confirmed are in the file at the path; if that file turns out to have
//! been displaced, the error says how many may be lost.

use crate::database::CheckpointState;
use crate::log::LogFile;
use crate::{Sqlite, StoreError, StoredObject};
use std::path::{Path, PathBuf};
use tokrate_core::Span;
use tokrate_record::{Attempt, Refusal};

/// Busy timeout of one write; after it the rows are held and the write is retried.
const LOCK_TIMEOUT: Span = Span::from_millis(100);

/// Reported when the database itself is still the one that was opened.
const WAL_REMOVED: &str = "its -wal or -shm was removed or replaced";

/// A SQLite log that detects replacement of its files.
#[derive(Debug)]
pub(crate) struct WatchedFile {
    path: PathBuf,
    max_bytes: Option<u64>,
    /// Whether rows go to ClickHouse too.
    is_shipped: bool,
    store: Option<Sqlite>,
    /// The file opened last, remembered while it is closed after an error.
    last_opened: Option<OpenedFile>,
}

/// An opened file, and what was written to it.
#[derive(Debug)]
struct OpenedFile {
    files: Files,
    /// Rows committed to it by this process.
    rows: u64,
    /// Those of them that are in the `-wal` only.
    wal_rows: u64,
    /// The `id` of the last of them.
    last_id: i64,
}

/// Identities of the files of a log.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Files {
    database: Option<Identity>,
    wal: Option<Identity>,
    shm: Option<Identity>,
}

/// Device and inode of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Identity(u64, u64);

impl WatchedFile {
    /// Nothing is opened yet.
    pub fn new(path: PathBuf, max_bytes: Option<u64>) -> WatchedFile {
        WatchedFile { path, max_bytes, is_shipped: false, store: None, last_opened: None }
    }

    /// Whether rows go to ClickHouse too.
    #[must_use]
    pub fn shipped(self, is_shipped: bool) -> WatchedFile {
        WatchedFile { is_shipped, ..self }
    }

    /// Checks the file, and opens it if it is not open.
    pub fn open(&mut self) -> Result<(), StoreError> {
        self.open_store().map(|_| ())
    }

    fn open_store(&mut self) -> Result<&mut Sqlite, StoreError> {
        self.watch()?;
        let store = match self.store.take() {
            Some(store) => store,
            None => self.connect()?,
        };
        Ok(self.store.insert(store))
    }

    fn connect(&mut self) -> Result<Sqlite, StoreError> {
        let mut store = Sqlite::open_with_timeout(&self.path, LOCK_TIMEOUT)?;
        if let Some(bytes) = self.max_bytes {
            store.limit(bytes)?;
        }
        store.fill_outgoing(self.is_shipped)?;
        // Detects damage at the end of the table at startup instead of at the first row.
        store.newest_unix_ms()?;
        let newest_id = store.newest_id()?;
        let files = Files::at(&self.path);
        if files.database.is_none() {
            return Err(StoreError::Open { path: self.path.clone(), message: "it was removed at once".to_owned() });
        }
        let same = self.last_opened.take().filter(|last_opened| last_opened.files.database == files.database);
        let Some(last_opened) = same else {
            self.last_opened = Some(OpenedFile { files, rows: 0, wal_rows: 0, last_id: 0 });
            return Ok(store);
        };
        // While it was closed, the `-wal` may have been checkpointed by another process, or removed: the newest row tells which.
        if last_opened.wal_rows > 0 && newest_id < last_opened.last_id {
            return Err(self.displaced(WAL_REMOVED, last_opened.wal_rows));
        }
        self.last_opened = Some(OpenedFile { files, ..last_opened });
        Ok(store)
    }

    /// Runs `act` on the store, opened if necessary.
    fn with_store<T>(&mut self, act: impl FnOnce(&mut Sqlite) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let done = act(self.open_store()?);
        if let Err(error) = &done
            && !error.is_locked()
        {
            // Reopening may fix an error of the file, but not a lock.
            self.store = None;
        }
        done
    }

    /// Counts rows that were just committed, if the file is still the one at the path: it may have been displaced since it was checked
    /// before they were written.
    fn confirm(&mut self, count: u64, checkpoint: CheckpointState) -> Result<(), StoreError> {
        let last_id = self.store.as_ref().map_or(0, Sqlite::last_id);
        let Some(last_opened) = &mut self.last_opened else { return Ok(()) };
        let now = Files::at(&self.path);
        let is_complete = checkpoint == CheckpointState::Complete && now.database == last_opened.files.database;
        if now != last_opened.files && !is_complete {
            // Rows in a file that is no longer at the path do not count as written.
            return self.release(&now);
        }
        // If only the `-wal` was replaced and all rows are in the database, they are written; the next check reports it.
        last_opened.rows += count;
        last_opened.last_id = last_id;
        last_opened.wal_rows = if checkpoint == CheckpointState::Complete { 0 } else { last_opened.wal_rows + count };
        Ok(())
    }

    /// Closes a file that is no longer the one at the path; an error if one was open.
    fn release(&mut self, now: &Files) -> Result<(), StoreError> {
        let Some(last_opened) = &self.last_opened else { return Ok(()) };
        let (what, lost) = match (now.database, last_opened.files.database) {
            (one, other) if one == other => (WAL_REMOVED, last_opened.wal_rows),
            (None, _) => ("it was moved or removed", last_opened.rows),
            (Some(_), _) => ("another file was put in its place", last_opened.rows),
        };
        if let Some(store) = &self.store {
            if now.database != last_opened.files.database && now.wal.is_some() && now.wal == last_opened.files.wal {
                // The `-wal` at the path belongs to the old file. It must be checkpointed before another file is opened there:
                // SQLite would replay it into the new one.
                store.empty_wal()?;
            } else {
                // A checkpoint at close would write pages that no longer belong to the database.
                store.abandon();
            }
        }
        (self.store, self.last_opened) = (None, None);
        Err(self.displaced(what, lost))
    }

    fn displaced(&self, what: &'static str, lost: u64) -> StoreError {
        StoreError::Displaced { path: self.path.clone(), what, lost_rows: lost }
    }
}

impl OpenedFile {
    /// Whether the files at the path are not the ones that were opened.
    fn is_displaced(&self, now: &Files, is_open: bool) -> bool {
        if is_open { self.files != *now } else { self.rows > 0 && self.files.database != now.database }
    }
}

impl LogFile for WatchedFile {
    fn append(&mut self, rows: &[Attempt]) -> Result<(), StoreError> {
        self.append_in_pieces(rows, &mut || {})
    }

    fn append_in_pieces(&mut self, rows: &[Attempt], pause: &mut dyn FnMut()) -> Result<(), StoreError> {
        let append = |store: &mut Sqlite| store.append_in_pieces(rows, pause).map(|()| store.checkpoint_state());
        let checkpoint = self.with_store(append)?;
        self.confirm(rows.len() as u64, checkpoint)
    }

    fn append_missing(&mut self, rows: &[Attempt]) -> Result<(), StoreError> {
        let missing = self.with_store(|store| store.missing(rows))?;
        self.append(&missing)
    }

    fn append_refusals(&mut self, rows: &[Refusal]) -> Result<(), StoreError> {
        self.with_store(|store| store.append_refusals(rows))
    }

    fn append_objects(&mut self, objects: &[StoredObject]) -> Result<(), StoreError> {
        self.with_store(|store| store.append_objects(objects))
    }

    fn watch(&mut self) -> Result<(), StoreError> {
        let now = Files::at(&self.path);
        match &self.last_opened {
            Some(last_opened) if last_opened.is_displaced(&now, self.store.is_some()) => self.release(&now),
            _ => Ok(()),
        }
    }

    fn prune(&mut self, before_unix_ms: u64, most: u64) -> Result<u64, StoreError> {
        self.with_store(|store| store.prune(before_unix_ms, most))
    }

    fn newest_unix_ms(&mut self) -> Result<Option<u64>, StoreError> {
        self.with_store(|store| store.newest_unix_ms())
    }
}

impl Files {
    fn at(path: &Path) -> Files {
        // SQLite resolves symbolic links before it adds `-wal` and `-shm`.
        let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let beside = |end: &str| {
            let mut name = real.clone().into_os_string();
            name.push(end);
            Identity::of(Path::new(&name))
        };
        Files { database: Identity::of(path), wal: beside("-wal"), shm: beside("-shm") }
    }
}

impl Identity {
    #[cfg(unix)]
    fn of(path: &Path) -> Option<Identity> {
        use std::os::unix::fs::MetadataExt;
        let metadata = std::fs::metadata(path).ok()?;
        Some(Identity(metadata.dev(), metadata.ino()))
    }

    /// On other systems an open file cannot be removed.
    #[cfg(not(unix))]
    fn of(path: &Path) -> Option<Identity> {
        path.exists().then_some(Identity(0, 0))
    }
}

#[cfg(test)]
mod tests;
