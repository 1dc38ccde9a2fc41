//! Why a database cannot be used. Invariant: every message fits behind "failed to" and names the file.

use std::path::{Path, PathBuf};

/// Why a database cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// There is no such file.
    #[error("open the database {}: there is no such file; name one that tokrate has written", .path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be opened or created.
    #[error("open the database {}: {message}; check the folder, its rights and the disk", .path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Message of the system or of SQLite.
        message: String,
    },
    /// The file is not a SQLite database.
    #[error("open the database {}: it is not a SQLite database; name another file, or move this one away", .path.display())]
    NotADatabase {
        /// The file.
        path: PathBuf,
    },
    /// The file is a SQLite database that something else made.
    #[error("open the database {}: it is not {what} of tokrate; name another file", .path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What it was to be, such as "a log".
        what: &'static str,
    },
    /// A newer version of tokrate wrote the file.
    #[error(
        "open the database {}: its schema is version {found} and this tokrate supports versions up to {known}; use the tokrate that wrote it",
        .path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its schema version.
        found: u32,
        /// The newest one that is known.
        known: u32,
    },
    /// Another process holds the database.
    #[error("use the database {}: another process has locked it; it is free again when that one ends", .path.display())]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// The disk is full, or the configured size limit is reached.
    #[error("write the database {}: there is no room left; free some, or keep rows for a shorter time", .path.display())]
    Full {
        /// The file.
        path: PathBuf,
    },
    /// An I/O error other than a full disk.
    #[error(
        "use the database {}: {message}; check that the disk is sound and has room, and the limits on the size of files",
        .path.display()
    )]
    Disk {
        /// The file.
        path: PathBuf,
        /// Message of SQLite.
        message: String,
    },
    /// The database is corrupt.
    #[error(
        "use the database {}: it is damaged ({message}) and is left as it is; stop what writes it, move it away together with its -wal and \
         -shm (a new one is begun), and read what is left of it with the .recover of sqlite3",
        .path.display()
    )]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Message of SQLite.
        message: String,
    },
    /// The file, its -wal or its -shm was moved, removed or replaced while it was open.
    #[error(
        "write the database {}: {what} while it was written; up to {lost_rows} rows went with it, and later ones go to the file that is \
         there now; stop what writes the log before you touch its files (docs/throughput-log.md)",
        .path.display()
    )]
    Displaced {
        /// The file.
        path: PathBuf,
        /// What happened to what.
        what: &'static str,
        /// Rows that were committed to it and may be gone.
        lost_rows: u64,
    },
    /// A column has a value that no version of tokrate writes.
    #[error("read the database {}: row {row} has the invalid value {value:?} in column {column}", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The row's `id`.
        row: i64,
        /// The column.
        column: &'static str,
        /// What it holds.
        value: String,
    },
    /// A ClickHouse server does not answer, or something else answers.
    #[error("reach {}: {message}", .server.display())]
    Unreachable {
        /// Its address, without a password.
        server: PathBuf,
        /// Why.
        message: String,
    },
    /// A ClickHouse server refused a statement.
    #[error("use {}: it refused (HTTP {status}): {message}; check the user, its password (`store_key_env`) and its rights", .server.display())]
    Refused {
        /// Its address, without a password.
        server: PathBuf,
        /// The status of its answer.
        status: u16,
        /// What it says, the beginning of it.
        message: String,
    },
    /// Any other error of SQLite.
    #[error("use the database {}: {message}", .path.display())]
    Sql {
        /// The file.
        path: PathBuf,
        /// Message of SQLite.
        message: String,
    },
}

impl StoreError {
    /// Classifies an error of SQLite by what the user can do.
    pub(crate) fn of(path: &Path, error: &rusqlite::Error) -> StoreError {
        use rusqlite::ErrorCode;
        let path = path.to_owned();
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Locked { path },
            Some(ErrorCode::DiskFull) => StoreError::Full { path },
            Some(ErrorCode::NotADatabase) => StoreError::NotADatabase { path },
            Some(ErrorCode::SystemIoFailure) => StoreError::Disk { path, message: error.to_string() },
            Some(ErrorCode::DatabaseCorrupt) => StoreError::Corrupt { path, message: error.to_string() },
            Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied | ErrorCode::ReadOnly) => {
                StoreError::Open { path, message: error.to_string() }
            }
            _ => StoreError::Sql { path, message: error.to_string() },
        }
    }

    /// Whether another process has locked the database; a transient error.
    pub fn is_locked(&self) -> bool {
        matches!(self, StoreError::Locked { .. })
    }
}
