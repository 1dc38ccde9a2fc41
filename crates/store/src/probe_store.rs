//! What a monitor keeps, whatever engine keeps it: the trait that all readers go through, and where they read.
//!
//! Invariant: the same rows give the same answers on SQLite and ClickHouse, because the same code makes them of their columns.

use crate::{
    ClickHouse, EstimateRow, EventRow, MonitorStore, NoticeRow, ProbeQuery, ProbeRow, ProberRow, Sqlite, Store,
    StoreError,
};
use std::path::{Path, PathBuf};
use tokrate_record::SampleSource;

/// Probes of monitors, what was found in them, and who made them: SQLite or ClickHouse.
pub trait ProbeStore: Send {
    /// Passes each matching probe to `each`, by the time at which it began.
    ///
    /// # Errors
    /// When the store cannot be read, or a row in it is damaged.
    fn visit_probes(&self, query: &ProbeQuery, each: &mut dyn FnMut(ProbeRow)) -> Result<(), StoreError>;

    /// When the latest probe began (ms since 1970); `None` without one.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn newest_probe(&self) -> Result<Option<u64>, StoreError>;

    /// Changes that were found from a time on (ms since 1970), oldest first.
    ///
    /// # Errors
    /// When the store cannot be read, or a row in it is damaged.
    fn events(&self, from_unix_ms: i64) -> Result<Vec<EventRow>, StoreError>;

    /// Notices from a time on (ms since 1970), oldest first.
    ///
    /// # Errors
    /// When the store cannot be read, or a row in it is damaged.
    fn notices(&self, from_unix_ms: u64) -> Result<Vec<NoticeRow>, StoreError>;

    /// All estimates, in the order of their endpoints.
    ///
    /// # Errors
    /// When the store cannot be read, or a row in it is damaged.
    fn estimates(&self) -> Result<Vec<EstimateRow>, StoreError>;

    /// All probers, by name.
    ///
    /// # Errors
    /// When the store cannot be read, or a row in it is damaged.
    fn probers(&self) -> Result<Vec<ProberRow>, StoreError>;

    /// The matching probes, by the time at which they began.
    ///
    /// # Errors
    /// As for [`ProbeStore::visit_probes`].
    fn probes(&self, query: &ProbeQuery) -> Result<Vec<ProbeRow>, StoreError> {
        let mut found = Vec::new();
        self.visit_probes(query, &mut |row| found.push(row))?;
        Ok(found)
    }
}

/// Where rows are read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReadFrom {
    /// A file of SQLite: a gateway's log or a monitor's database.
    File(PathBuf),
    /// A database of ClickHouse, which may hold the rows of many gateways and monitors.
    ClickHouse(ClickHouse),
}

impl ReadFrom {
    /// The log of gateways.
    ///
    /// # Errors
    /// As [`Sqlite::open_reader`]; a server is asked by the first query.
    pub fn log(&self) -> Result<Box<dyn Store>, StoreError> {
        Ok(match self {
            ReadFrom::File(path) => Box::new(Sqlite::open_reader(path)?),
            ReadFrom::ClickHouse(database) => Box::new(database.log()),
        })
    }

    /// The probes of one source that count, as if they were a log.
    ///
    /// # Errors
    /// As [`Sqlite::open_probes`]; a server is asked by the first query.
    pub fn probes_as_log(&self, source: SampleSource) -> Result<Box<dyn Store>, StoreError> {
        Ok(match self {
            ReadFrom::File(path) => Box::new(Sqlite::open_probes(path, source)?),
            ReadFrom::ClickHouse(database) => Box::new(database.probes_as_log(source)),
        })
    }

    /// The rows of one source as a log, whichever table holds them.
    ///
    /// # Errors
    /// As [`ReadFrom::log`] and [`ReadFrom::probes_as_log`].
    pub fn rows(&self, source: SampleSource) -> Result<Box<dyn Store>, StoreError> {
        match source {
            SampleSource::Gateway => self.log(),
            SampleSource::Monitor | SampleSource::Bench => self.probes_as_log(source),
        }
    }

    /// What monitors keep.
    ///
    /// # Errors
    /// As [`MonitorStore::open_reader`]; a server is asked by the first query.
    pub fn probes(&self) -> Result<Box<dyn ProbeStore>, StoreError> {
        Ok(match self {
            ReadFrom::File(path) => Box::new(MonitorStore::open_reader(path)?),
            ReadFrom::ClickHouse(database) => Box::new(database.clone()),
        })
    }

    /// The file, or the address without a password.
    pub fn shown(&self) -> &Path {
        match self {
            ReadFrom::File(path) => path,
            ReadFrom::ClickHouse(database) => database.shown(),
        }
    }
}
