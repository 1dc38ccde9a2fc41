//! Databases: the throughput log with a `Store` trait, its SQLite implementation and a writer thread, and a monitor's probes and events.
//!
//! Architecture Invariant: writing a row never blocks and never fails its caller; rows that could not be kept are counted.
//!
//! [`MonitorStore`] is the monitor's; of the log, [`Log`] is the writing side; [`Sqlite`] reads and writes the file; [`Query`] selects rows, [`Summary`] aggregates a group of them.

#![forbid(unsafe_code)]

mod database;
mod error;
mod log;
mod monitor;
mod of_probes;
mod query;
mod refusals;
mod row;
mod samples;
mod schema;
mod sides;
mod sqlite;
mod summary;
mod watched;

pub use error::StoreError;
pub use log::{BatchCounts, BatchRules, Batches, Log, LogClock, LogConfig, LogCounts, LogDriver, LogFile, WriterEvent};
pub use monitor::{
    CYCLE_IS_OPEN, DeliveryRow, EstimateRow, EventRow, MonitorStore, MonitorWrite, NoticeRow, OpenCycle, ProbeQuery,
    ProbeRow, ProberRow, SetAside, SpoolEntry, UsedRow,
};
pub use query::{Order, Query};
pub use samples::WindowSamples;
pub use schema::SCHEMA_VERSION;
pub use sqlite::Sqlite;
pub use summary::{Grouping, Mixture, Summary};
pub use tokrate_record::{Attempt, Refusal, RefusalReason};

/// Storage of a throughput log.
pub trait Store: Send {
    /// Adds rows, all or none of them.
    ///
    /// # Errors
    /// When the rows cannot be kept; none of them is then.
    fn append(&mut self, rows: &[Attempt]) -> Result<(), StoreError>;

    /// The rows that match a query, in its order.
    ///
    /// # Errors
    /// When the store cannot be read, or a row in it is damaged.
    fn attempts(&self, query: &Query) -> Result<Vec<Attempt>, StoreError>;

    /// Aggregates the rows of a query by group, ordered by lane and hour. Percentiles are exact. The query's order and limit
    /// choose which rows are counted.
    ///
    /// # Errors
    /// When the store cannot be read, or a row in it is damaged.
    fn summarise(&self, query: &Query, by: Grouping) -> Result<Vec<Summary>, StoreError>;

    /// Removes up to `most` rows that began before a wall time (ms since 1970), oldest first, and then refusals; returns how many.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn prune(&mut self, before_unix_ms: u64, most: u64) -> Result<u64, StoreError>;
}
