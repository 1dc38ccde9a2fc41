//! Databases: the throughput log with a `Store` trait, its SQLite and ClickHouse implementations and a writer thread, and a monitor's
//! probes and events.
//!
//! Architecture Invariant: writing a row never blocks and never fails its caller; rows that could not be kept are counted.
//!
//! [`MonitorStore`] is the monitor's, [`ProbeStore`] what it can be asked on either engine; of the log, [`Log`] is the writing side; [`Sqlite`] reads and writes the file; [`Query`] selects rows, [`Summary`] aggregates a group of them.

#![forbid(unsafe_code)]

mod by_load;
mod cache_sight;
mod call_list;
mod calls;
mod clickhouse;
mod database;
mod error;
mod log;
mod monitor;
mod objects;
mod of_probes;
mod outgoing;
mod probe_store;
mod query;
mod refusals;
mod report;
mod row;
mod samples;
mod schema;
mod shipper;
mod sides;
mod spending;
mod sqlite;
mod summary;
mod watched;

pub use by_load::LoadPoint;
pub use cache_sight::CacheSight;
pub use call_list::{CallList, CallOrder, ListPage};
pub use clickhouse::{ClickHouse, ClickHouseAccess, ClickHouseAddress, ClickHouseLog, Post};
pub use error::StoreError;
pub use log::{BatchCounts, BatchRules, Batches, Log, LogClock, LogConfig, LogCounts, LogDriver, LogFile, WriterEvent};
pub use monitor::{
    CYCLE_IS_OPEN, DeliveryRow, EstimateRow, EventRow, MonitorStore, MonitorWrite, NoticeRow, OpenCycle, ProbeQuery,
    ProbeRow, ProberRow, SetAside, SpoolEntry, UsedRow,
};
pub use objects::{MAX_OBJECTS, StoredObject};
pub use outgoing::{Outgoing, Shipped};
pub use probe_store::{ProbeStore, ReadFrom};
pub use query::{Order, Query};
pub use report::{
    BoundedRange, Bucket, CallCounts, FailureReport, LaneReport, Report, Spread, Tally, Times, USUAL_LENGTHS_MS,
};
pub use samples::WindowSamples;
pub use schema::SCHEMA_VERSION;
pub use shipper::{Shipper, Shipping, Warehouse};
pub use sqlite::Sqlite;
pub use summary::{Grouping, Mixture, Summary};
pub use tokrate_record::{Attempt, Refusal, RefusalReason};

use row::Reader;
use std::collections::BTreeMap;
use tokrate_record::{RunSamples, SharedConditions};

/// Rows of a throughput log, whatever engine keeps them: SQLite or ClickHouse.
pub trait Store: Send {
    /// Passes the columns of each matching row to `each`; in the query's order if `ordered` or limited, else in any.
    ///
    /// # Errors
    /// When the store cannot be read, or `each` fails.
    #[doc(hidden)]
    fn visit(
        &self,
        columns: &'static [&'static str],
        query: &Query,
        ordered: bool,
        each: &mut dyn FnMut(Reader<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError>;

    /// How many rows match a query, without its limit.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn count(&self, query: &Query) -> Result<u64, StoreError>;

    /// The refusals whose first request came in the time of a query, of its key and alias, in its order by minutes, as many as it is
    /// limited to. A refusal has no lane, and nothing else of the query counts.
    ///
    /// # Errors
    /// When the store cannot be read, or a row in it is damaged.
    fn refusals(&self, query: &Query) -> Result<Vec<Refusal>, StoreError>;

    /// Refused requests by the name of their reason, as [`Store::refusals`] counts them; none for a query of what refusals do not
    /// have: a lane, a provider, a call, an end, a failure.
    ///
    /// # Errors
    /// When the store cannot be read, or a row in it is damaged.
    fn refused_by_reason(&self, query: &Query) -> Result<BTreeMap<&'static str, u64>, StoreError>;

    /// Passes each matching row to `each`, in the query's order.
    ///
    /// # Errors
    /// When the store cannot be read, or a row in it is damaged.
    fn visit_attempts(&self, query: &Query, each: &mut dyn FnMut(Attempt)) -> Result<(), StoreError> {
        let mut shared = SharedConditions::default();
        self.visit(&row::COLUMNS, query, true, &mut |reader| {
            each(reader.attempt(&mut shared)?);
            Ok(())
        })
    }

    /// The rows that match a query, in its order.
    ///
    /// # Errors
    /// When the store cannot be read, or a row in it is damaged.
    fn attempts(&self, query: &Query) -> Result<Vec<Attempt>, StoreError> {
        let mut found = Vec::new();
        self.visit_attempts(query, &mut |row| found.push(row))?;
        Ok(found)
    }

    /// The newest calls of which an attempt fits the query, at most `most`, each with all its attempts in their order. The
    /// query's order and limit do not matter.
    ///
    /// # Errors
    /// When the store cannot be read, or a row in it is damaged.
    fn calls(&self, query: &Query, most: usize) -> Result<Vec<Vec<Attempt>>, StoreError> {
        calls::calls(self, query, most)
    }

    /// Aggregates the rows of a query by group, ordered by lane and hour. Percentiles are exact. The query's order and limit
    /// choose which rows are counted.
    ///
    /// # Errors
    /// When the store cannot be read, or a row in it is damaged.
    fn summarise(&self, query: &Query, by: Grouping) -> Result<Vec<Summary>, StoreError> {
        summary::summarise(self, query, by)
    }

    /// The newest part of a query's range that has at most `most` rows, counted before any filter but that of the lane.
    ///
    /// # Errors
    /// When the store cannot be read, or a row in it is damaged.
    fn bounded(&self, query: &Query, now_unix_ms: u64, most: u64) -> Result<BoundedRange, StoreError> {
        report::bounded(self, query, now_unix_ms, most)
    }

    /// What the newest part of a query's range came to, looking at `most` rows at most. The query's order and limit do not matter.
    ///
    /// # Errors
    /// When the store cannot be read, or a row in it is damaged.
    fn report(&self, query: &Query, now_unix_ms: u64, most: u64) -> Result<Report, StoreError> {
        report::report(self, query, now_unix_ms, most)
    }

    /// A page of the calls of which an attempt fits the query, in an order.
    ///
    /// # Errors
    /// When the store cannot be read, or a row in it is damaged.
    fn call_list(&self, query: &Query, now_unix_ms: u64, page: &ListPage<'_>) -> Result<CallList, StoreError> {
        call_list::call_list(self, query, now_unix_ms, page)
    }

    /// What was measured at each load, in the newest part of a query's range, looking at `most` rows at most.
    ///
    /// # Errors
    /// When the store cannot be read, or a row in it is damaged.
    fn by_load(&self, query: &Query, now_unix_ms: u64, most: u64) -> Result<Vec<LoadPoint>, StoreError> {
        by_load::by_load(self, query, now_unix_ms, most)
    }

    /// The rows of a query, those begun before `split_unix_ms` and the later ones, for `tokrate_judge::compare`.
    /// TTFT and output speed are of all attempts that have one; failures are counted among those that were answered or
    /// failed. The concurrency of a level is only its index; its name describes its rows.
    ///
    /// # Errors
    /// When the store cannot be read, or a row in it is damaged.
    fn sides(&self, query: &Query, split_unix_ms: u64) -> Result<(RunSamples, RunSamples), StoreError> {
        sides::sides(self, query, split_unix_ms)
    }

    /// The rows of a query as one measurement. Conditions of which rows say nothing are empty.
    ///
    /// # Errors
    /// When the store cannot be read, or a row in it is damaged.
    fn window_samples(&self, query: &Query) -> Result<WindowSamples, StoreError> {
        samples::window_samples(self, query)
    }
}
