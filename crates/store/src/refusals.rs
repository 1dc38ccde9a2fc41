//! Reads and writes the table of refusals. Invariant: of refusals that are alike there is one row a minute.

use crate::row::{Reader, to_i64};
use crate::{Query, Sqlite, StoreError};
use rusqlite::{TransactionBehavior, params, params_from_iter};
use std::collections::BTreeMap;
use tokrate_record::{Refusal, RefusalReason};

const COLUMNS: [&str; 7] = ["first_unix_ms", "last_unix_ms", "key", "alias", "reason", "status", "count"];

const UPSERT: &str = "
INSERT INTO refusals (minute_unix_ms, first_unix_ms, last_unix_ms, key, alias, reason, status, count)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (minute_unix_ms, reason, status, coalesce(key, ''), coalesce(alias, '')) DO UPDATE SET
    first_unix_ms = min(first_unix_ms, excluded.first_unix_ms),
    last_unix_ms = max(last_unix_ms, excluded.last_unix_ms),
    count = count + excluded.count";

impl Sqlite {
    /// Adds refusals, all or none of them; one that is like a row of the file is added to it.
    ///
    /// # Errors
    /// When they cannot be kept.
    pub fn append_refusals(&mut self, rows: &[Refusal]) -> Result<(), StoreError> {
        let connection = self.connection_mut();
        let mut write = || -> rusqlite::Result<()> {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            {
                let mut statement = transaction.prepare_cached(UPSERT)?;
                for row in rows {
                    statement.execute(params![
                        to_i64(row.minute_unix_ms()),
                        to_i64(row.first_unix_ms),
                        to_i64(row.last_unix_ms),
                        row.key,
                        row.alias,
                        row.reason.name(),
                        row.status,
                        to_i64(row.count),
                    ])?;
                }
            }
            transaction.commit()
        };
        let written = write();
        written.map_err(|error| self.error(&error))
    }

    /// Refused requests by the name of their reason, as [`Sqlite::refusals`] counts them; none for a query of what refusals do not
    /// have: a lane, a provider, a call, an end, a failure.
    ///
    /// # Errors
    /// When the store cannot be read, or a row in it is damaged.
    pub fn refused_by_reason(&self, query: &Query) -> Result<BTreeMap<&'static str, u64>, StoreError> {
        let mut counts = BTreeMap::new();
        if query.is_of_attempts() {
            return Ok(counts);
        }
        let (conditions, values) = query.refusals_filter();
        let sql = format!("SELECT 0, reason, sum(count) FROM refusals{conditions} GROUP BY reason");
        let mut statement = self.connection().prepare_cached(&sql).map_err(|error| self.error(&error))?;
        let mut rows = statement.query(params_from_iter(values)).map_err(|error| self.error(&error))?;
        while let Some(row) = rows.next().map_err(|error| self.error(&error))? {
            let mut reader = Reader::new(row, &["reason", "count"], self.path());
            let reason = reader.named(&RefusalReason::ALL, RefusalReason::name)?;
            counts.insert(reason.name(), reader.count()?);
        }
        Ok(counts)
    }

    /// The refusals whose first request came in the time of a query, of its key and alias, the oldest first. A refusal has no lane,
    /// and nothing else of the query counts.
    ///
    /// # Errors
    /// When the store cannot be read, or a row in it is damaged.
    pub fn refusals(&self, query: &Query) -> Result<Vec<Refusal>, StoreError> {
        let (conditions, values) = query.refusals_tail();
        let sql = format!("SELECT id, {} FROM refusals{conditions}", COLUMNS.join(", "));
        let mut statement = self.connection().prepare_cached(&sql).map_err(|error| self.error(&error))?;
        let mut rows = statement.query(params_from_iter(values)).map_err(|error| self.error(&error))?;
        let mut found = Vec::new();
        while let Some(row) = rows.next().map_err(|error| self.error(&error))? {
            let mut reader = Reader::new(row, &COLUMNS, self.path());
            found.push(Refusal {
                first_unix_ms: reader.count()?,
                last_unix_ms: reader.count()?,
                key: reader.opt_text()?,
                alias: reader.opt_text()?,
                reason: reader.named(&RefusalReason::ALL, RefusalReason::name)?,
                status: reader.count()?,
                count: reader.count()?,
            });
        }
        Ok(found)
    }
}
