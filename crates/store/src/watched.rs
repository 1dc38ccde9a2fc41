//! The log's file as its writer holds it: opened when needed, watched, and let go of when something else has moved, removed or
//! replaced it or its `-wal`.
//!
//! It knows no queue and no times. Files are only looked at by `stat`: opening and closing one would drop every lock that SQLite
//! holds on it (POSIX), and another process could then remove the live `-wal`. Invariant: rows that `append` confirmed are in
//! the file that stands at the path; if that turns out to have been displaced, the error says how many may be gone.

use crate::log::LogFile;
use crate::sqlite::Settled;
use crate::{Sqlite, Store, StoreError};
use std::path::{Path, PathBuf};
use tokrate_core::Span;
use tokrate_meter::Attempt;

/// How long one write waits for a lock of another process before the rows are held and it is tried again.
const PATIENCE: Span = Span::from_millis(100);

/// What happened when the database is still the one that was opened.
const WAL_REMOVED: &str = "its -wal or -shm was removed or replaced";

/// A log in SQLite that is watched.
#[derive(Debug)]
pub(crate) struct WatchedFile {
    path: PathBuf,
    most_bytes: Option<u64>,
    store: Option<Sqlite>,
    /// What was opened last, kept while it is closed after an error.
    known: Option<Known>,
}

/// A file, and what was written to it.
#[derive(Debug)]
struct Known {
    files: Files,
    /// Rows committed to it by this process.
    rows: u64,
    /// Those of them that are in the `-wal` only.
    unsettled: u64,
    /// The `id` of the last of them.
    last_id: i64,
}

/// Which files a log consists of.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Files {
    database: Option<Identity>,
    wal: Option<Identity>,
    shm: Option<Identity>,
}

/// Which file stands at a path: its device and its number there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Identity(u64, u64);

impl WatchedFile {
    /// Nothing is opened yet.
    pub fn new(path: PathBuf, most_bytes: Option<u64>) -> WatchedFile {
        WatchedFile { path, most_bytes, store: None, known: None }
    }

    /// Looks after the file, and opens it if it is not open.
    pub fn open(&mut self) -> Result<(), StoreError> {
        self.opened().map(|_| ())
    }

    fn opened(&mut self) -> Result<&mut Sqlite, StoreError> {
        self.watch()?;
        let store = match self.store.take() {
            Some(store) => store,
            None => self.connect()?,
        };
        Ok(self.store.insert(store))
    }

    fn connect(&mut self) -> Result<Sqlite, StoreError> {
        let mut store = Sqlite::open_patient(&self.path, PATIENCE)?;
        if let Some(bytes) = self.most_bytes {
            store.limit(bytes)?;
        }
        // A file that is damaged where rows are added is better refused at the start than at the first row.
        store.newest_unix_ms()?;
        let newest_id = store.newest_id()?;
        let files = Files::at(&self.path);
        if files.database.is_none() {
            return Err(StoreError::Open { path: self.path.clone(), message: "it was removed at once".to_owned() });
        }
        let same = self.known.take().filter(|known| known.files.database == files.database);
        let Some(known) = same else {
            self.known = Some(Known { files, rows: 0, unsettled: 0, last_id: 0 });
            return Ok(store);
        };
        // While it was closed, another process that closed it may have carried everything over and removed the `-wal`, or
        // something else may have removed it: the rows say which.
        if known.unsettled > 0 && newest_id < known.last_id {
            return Err(self.displaced(WAL_REMOVED, known.unsettled));
        }
        self.known = Some(Known { files, ..known });
        Ok(store)
    }

    /// Opens the file if need be and does something with it.
    fn with<T>(&mut self, act: impl FnOnce(&mut Sqlite) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let done = act(self.opened()?);
        if let Err(error) = &done
            && !error.is_locked()
        {
            // What is wrong with the file may be right after it was opened anew; a lock is not.
            self.store = None;
        }
        done
    }

    /// Lets go of a file that is no longer what stands there; always an error if one is known.
    fn let_go(&mut self, now: &Files) -> Result<(), StoreError> {
        let Some(known) = &self.known else { return Ok(()) };
        let (what, gone) = match (now.database, known.files.database) {
            (one, other) if one == other => (WAL_REMOVED, known.unsettled),
            (None, _) => ("it was moved or removed", known.rows),
            (Some(_), _) => ("another file was put in its place", known.rows),
        };
        if let Some(store) = &self.store {
            if now.database != known.files.database && now.wal.is_some() && now.wal == known.files.wal {
                // The `-wal` beside the path belongs to the file that stood there. Before another one is opened there, its rows
                // must be in their own file: SQLite would read them into the new one.
                store.empty_wal()?;
            } else {
                // What SQLite would carry over when it closes no longer belongs to the database.
                store.abandon();
            }
        }
        (self.store, self.known) = (None, None);
        Err(self.displaced(what, gone))
    }

    fn displaced(&self, what: &'static str, gone: u64) -> StoreError {
        StoreError::Displaced { path: self.path.clone(), what, gone }
    }
}

impl Known {
    /// Whether what stands at the path is something else than what was opened.
    fn is_displaced(&self, now: &Files, is_open: bool) -> bool {
        if is_open { self.files != *now } else { self.rows > 0 && self.files.database != now.database }
    }
}

impl LogFile for WatchedFile {
    fn append(&mut self, rows: &[Attempt]) -> Result<(), StoreError> {
        let settled = self.with(|store| store.append(rows).map(|()| store.settled()))?;
        let last_id = self.store.as_ref().map_or(0, Sqlite::last_id);
        let Some(known) = &mut self.known else { return Ok(()) };
        let count = rows.len() as u64;
        let now = Files::at(&self.path);
        let is_all_there = settled == Settled::All && now.database == known.files.database;
        if now != known.files && !is_all_there {
            // Rows that went into a file that stands there no more are not written.
            return self.let_go(&now);
        }
        // If only the `-wal` is another one and all is in the database, they are; the next look says what happened.
        known.rows += count;
        known.last_id = last_id;
        known.unsettled = if settled == Settled::All { 0 } else { known.unsettled + count };
        Ok(())
    }

    fn watch(&mut self) -> Result<(), StoreError> {
        let now = Files::at(&self.path);
        match &self.known {
            Some(known) if known.is_displaced(&now, self.store.is_some()) => self.let_go(&now),
            _ => Ok(()),
        }
    }

    fn prune(&mut self, before_unix_ms: u64, most: u64) -> Result<u64, StoreError> {
        self.with(|store| store.prune(before_unix_ms, most))
    }

    fn newest_unix_ms(&mut self) -> Result<Option<u64>, StoreError> {
        self.with(|store| store.newest_unix_ms())
    }
}

impl Files {
    fn at(path: &Path) -> Files {
        // SQLite puts the other two beside the file that a link leads to.
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

    /// Elsewhere a file that is open cannot be removed.
    #[cfg(not(unix))]
    fn of(path: &Path) -> Option<Identity> {
        path.exists().then_some(Identity(0, 0))
    }
}

#[cfg(test)]
mod tests;
