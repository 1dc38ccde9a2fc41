//! The throughput log's database: one trait, SQLite behind it, one writer thread in front of it.
//!
//! It refuses to know gateways, sockets and how a row is shown.
//!
//! Architecture Invariant: writing a row never blocks and never fails its caller; what could not be kept is counted.
//!
//! [`Log`] is what a gateway holds; [`Sqlite`] is what reads and writes the file; [`Query`] says which rows, [`Summary`]
//! what a group of them comes to.

#![forbid(unsafe_code)]

mod error;
mod log;
mod query;
mod row;
mod schema;
mod sides;
mod sqlite;
mod summary;
mod watched;

pub use error::StoreError;
pub use log::{BatchCounts, BatchRules, Batches, Log, LogConfig, LogCounts, LogDriver, LogFile, News};
pub use query::{Order, Query};
pub use schema::SCHEMA_VERSION;
pub use sqlite::Sqlite;
pub use summary::{Grouping, Mixture, Summary};
pub use tokrate_meter::Attempt;

/// Where the rows of a throughput log are kept.
pub trait Store: Send {
    /// Adds rows, all or none of them.
    ///
    /// # Errors
    /// When the rows cannot be kept; none of them is then.
    fn append(&mut self, rows: &[Attempt]) -> Result<(), StoreError>;

    /// The rows that a query asks for, in its order.
    ///
    /// # Errors
    /// When the store cannot be read, or a row in it is damaged.
    fn attempts(&self, query: &Query) -> Result<Vec<Attempt>, StoreError>;

    /// What the rows of a query come to, group by group, in the order of lane and hour. Percentiles are exact. The
    /// query's order and limit choose which rows are counted.
    ///
    /// # Errors
    /// When the store cannot be read, or a row in it is damaged.
    fn summarise(&self, query: &Query, by: Grouping) -> Result<Vec<Summary>, StoreError>;

    /// Removes rows that were begun before a wall time (ms since 1970), the oldest first and at most `most` of them; says
    /// how many.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn prune(&mut self, before_unix_ms: u64, most: u64) -> Result<u64, StoreError>;
}
