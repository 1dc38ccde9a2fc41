//! The rows of a log, or a monitor's probes as rows of a log, read out of ClickHouse.
//!
//! Invariant: the same queries give the same answers as on SQLite, because the same code makes them of the same rows.

use super::{ClickHouse, PAGE_ROWS};
use crate::refusals::{self, BY_REASON, COLUMNS as REFUSAL_COLUMNS};
use crate::row::{Reader, sample_columns};
use crate::{Order, Query, Store, StoreError};
use rusqlite::types::Value;
use std::collections::BTreeMap;
use tokrate_record::{Refusal, SampleSource};

/// Refusals that are alike came in parts.
const REFUSALS: &str = "(SELECT r.minute_unix_ms AS minute_unix_ms, min(r.first_unix_ms) AS first_unix_ms, \
    max(r.last_unix_ms) AS last_unix_ms, r.key AS key, r.alias AS alias, r.reason AS reason, r.status AS status, \
    sum(r.count) AS count FROM refusals AS r GROUP BY r.minute_unix_ms, r.key, r.alias, r.reason, r.status)";

/// A log in ClickHouse, of all gateways that write there, or the probes of all monitors as if they were a log.
#[derive(Clone, Debug)]
pub struct ClickHouseLog {
    server: ClickHouse,
    /// What stands for the table of attempts.
    attempts: String,
    has_refusals: bool,
}

impl ClickHouse {
    /// The log of gateways.
    pub fn log(&self) -> ClickHouseLog {
        ClickHouseLog { server: self.clone(), attempts: "attempts".to_owned(), has_refusals: true }
    }

    /// The probes of one source that count, as [`crate::Sqlite::open_probes`] reads them.
    pub fn probes_as_log(&self, source: SampleSource) -> ClickHouseLog {
        let (measured, shared) = sample_columns();
        let columns: Vec<&str> = measured.iter().chain(shared).copied().collect();
        let attempts = format!(
            "(SELECT spool, id, probe AS call, toInt64(0) AS attempt, 'first' AS role, \
             if(reason IS NULL, 'answered', 'failed') AS end, toInt64(1) AS won, CAST(NULL, 'Nullable(String)') AS key, \
             workload AS alias, endpoint AS lane, dialect_out AS dialect_in, CAST(NULL, 'Nullable(String)') AS session, \
             CAST(NULL, 'Nullable(Int64)') AS overhead_ns, CAST(NULL, 'Nullable(Int64)') AS responses, \
             CAST(NULL, 'Nullable(Int64)') AS response_bytes, CAST(NULL, 'Nullable(Int64)') AS hold_ns, \
             CAST(NULL, 'Nullable(Int64)') AS expected_cached_tokens, {} \
             FROM probes FINAL WHERE source = '{}' AND quarantine IS NULL)",
            columns.join(", "),
            source.name()
        );
        ClickHouseLog { server: self.clone(), attempts, has_refusals: false }
    }

    /// Reads rows page by page in the order of `started_unix_ms`, so that no answer is larger than a page.
    pub(super) fn visit_pages(
        &self,
        page: &Page<'_>,
        each: &mut dyn FnMut(&[Value]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let columns = page.columns.join(", ");
        let (after, down) = match page.order {
            Order::Oldest => (">", ""),
            Order::Newest => ("<", " DESC"),
        };
        let mut left = page.limit.unwrap_or(u64::MAX);
        let mut last: Option<[Value; 3]> = None;
        while left > 0 {
            let (mut filter, mut values) = page.filter.clone();
            if let Some(last) = &last {
                filter += if filter.is_empty() { " WHERE " } else { " AND " };
                filter += &format!("(started_unix_ms, spool, id) {after} (?, ?, ?)");
                values.extend(last.iter().cloned());
            }
            let wanted = left.min(PAGE_ROWS as u64);
            let sql = format!(
                "SELECT id, {columns}, started_unix_ms AS page_time, spool AS page_spool FROM {}{filter} \
                 ORDER BY started_unix_ms{down}, spool{down}, id{down} LIMIT {wanted}",
                page.from
            );
            let mut found = 0;
            self.select(&sql, values, &mut |row| {
                found += 1;
                if let ([id, .., time, spool], true) = (row, found == wanted) {
                    last = Some([time.clone(), spool.clone(), id.clone()]);
                }
                each(row)
            })?;
            if found < wanted {
                return Ok(());
            }
            left -= found;
        }
        Ok(())
    }

    /// The rows of a statement that has few, each as `read` makes it.
    pub(super) fn list<T>(
        &self,
        sql: &str,
        values: Vec<Value>,
        columns: &'static [&'static str],
        read: fn(Reader<'_>) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let rows = self.rows(sql, values)?;
        rows.iter().map(|row| read(Reader::of_values(row, columns, &self.shown))).collect()
    }
}

/// Rows of a table that has `started_unix_ms`, `spool` and `id`.
pub(super) struct Page<'p> {
    pub columns: &'p [&'p str],
    pub from: &'p str,
    pub filter: (String, Vec<Value>),
    pub order: Order,
    pub limit: Option<u64>,
}

impl Store for ClickHouseLog {
    fn visit(
        &self,
        columns: &'static [&'static str],
        query: &Query,
        _ordered: bool,
        each: &mut dyn FnMut(Reader<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let page =
            Page { columns, from: &self.attempts, filter: query.filter(), order: query.order, limit: query.limit };
        self.server.visit_pages(&page, &mut |row| each(Reader::of_values(row, columns, &self.server.shown)))
    }

    fn count(&self, query: &Query) -> Result<u64, StoreError> {
        let (filter, values) = query.filter();
        let rows = self.server.rows(&format!("SELECT count() FROM {}{filter}", self.attempts), values)?;
        match rows.first().map(Vec::as_slice) {
            Some([Value::Integer(count)]) => Ok(count.unsigned_abs()),
            _ => Err(self.server.garbled()),
        }
    }

    fn refusals(&self, query: &Query) -> Result<Vec<Refusal>, StoreError> {
        if !self.has_refusals {
            return Ok(Vec::new());
        }
        let (tail, values) = query.refusals_tail();
        let sql = format!("SELECT 0 AS row, {} FROM {REFUSALS}{tail}", REFUSAL_COLUMNS.join(", "));
        self.server.list(&sql, values, &REFUSAL_COLUMNS, refusals::refusal)
    }

    fn refused_by_reason(&self, query: &Query) -> Result<BTreeMap<&'static str, u64>, StoreError> {
        if !self.has_refusals || query.is_of_attempts() {
            return Ok(BTreeMap::new());
        }
        let (filter, values) = query.refusals_filter();
        let sql = format!("SELECT 0 AS row, reason, sum(count) AS total FROM {REFUSALS}{filter} GROUP BY reason");
        Ok(self.server.list(&sql, values, &BY_REASON, refusals::by_reason)?.into_iter().collect())
    }
}
