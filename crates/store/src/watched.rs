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

/// A log in SQLite that is watched.
#[derive(Debug)]
pub(crate) struct WatchedFile {
    path: PathBuf,
    most_bytes: Option<u64>,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    store: Sqlite,
    files: Files,
    /// Rows committed since it was opened.
    rows: u64,
    /// Those of them that are in the `-wal` only.
    unsettled: u64,
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
        WatchedFile { path, most_bytes, open: None }
    }

    /// Opens the file if it is not open.
    pub fn open(&mut self) -> Result<(), StoreError> {
        if self.open.is_some() {
            return Ok(());
        }
        let mut store = Sqlite::open_patient(&self.path, PATIENCE)?;
        if let Some(bytes) = self.most_bytes {
            store.limit(bytes)?;
        }
        // A file that is damaged where rows are added is better refused at the start than at the first row.
        store.newest_unix_ms()?;
        let files = Files::at(&self.path);
        if files.database.is_none() {
            return Err(StoreError::Open { path: self.path.clone(), message: "it was removed at once".to_owned() });
        }
        self.open = Some(Open { store, files, rows: 0, unsettled: 0 });
        Ok(())
    }

    /// Opens the file if need be, looks after it, and does something with it.
    fn with<T>(&mut self, act: impl FnOnce(&mut Open) -> Result<T, StoreError>) -> Result<T, StoreError> {
        self.watch()?;
        self.open()?;
        let done = act(self.open.as_mut().expect("opened above"));
        if let Err(error) = &done
            && !error.is_locked()
        {
            // What is wrong with the file may be right after it was opened anew; a lock is not.
            self.open = None;
        }
        done
    }

    /// Lets go of a file that is no longer what stands there; always an error.
    fn let_go(&mut self, now: &Files) -> Result<(), StoreError> {
        let Some(open) = &mut self.open else { return Ok(()) };
        let (what, gone) = if now.database == open.files.database {
            // What SQLite would carry over when it closes no longer belongs to the database.
            open.store.abandon();
            ("its -wal or -shm was removed or replaced", open.unsettled)
        } else {
            if now.wal.is_some() && now.wal == open.files.wal {
                // The `-wal` beside the path belongs to the file that stood there. Before another one is opened there, its rows
                // must be in their own file: SQLite would read them into the new one.
                open.store.empty_wal()?;
            } else {
                open.store.abandon();
            }
            match now.database {
                None => ("it was moved or removed", open.rows),
                Some(_) => ("another file was put in its place", open.rows),
            }
        };
        self.open = None;
        Err(StoreError::Displaced { path: self.path.clone(), what, gone })
    }
}

impl LogFile for WatchedFile {
    fn append(&mut self, rows: &[Attempt]) -> Result<(), StoreError> {
        self.with(|open| open.store.append(rows))?;
        let Some(open) = &mut self.open else { return Ok(()) };
        let count = rows.len() as u64;
        open.rows += count;
        open.unsettled = match open.store.settled() {
            Settled::All => 0,
            Settled::NotAll => open.unsettled + count,
        };
        // Rows that went into a file that stands there no more are not written. If only the `-wal` is another one and all is in
        // the database, they are; the next look says what happened.
        let now = Files::at(&self.path);
        if now == open.files || (now.database == open.files.database && open.unsettled == 0) {
            return Ok(());
        }
        open.rows -= count;
        open.unsettled = open.unsettled.saturating_sub(count);
        self.let_go(&now)
    }

    fn watch(&mut self) -> Result<(), StoreError> {
        let now = Files::at(&self.path);
        match &self.open {
            Some(open) if open.files != now => self.let_go(&now),
            _ => Ok(()),
        }
    }

    fn prune(&mut self, before_unix_ms: u64, most: u64) -> Result<u64, StoreError> {
        self.with(|open| open.store.prune(before_unix_ms, most))
    }

    fn newest_unix_ms(&mut self) -> Result<Option<u64>, StoreError> {
        self.with(|open| open.store.newest_unix_ms())
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
