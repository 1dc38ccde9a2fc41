//! Reads and writes the table of refusals. Invariant: of refusals that are alike there is one row a minute.

use crate::row::{Reader, to_i64};
use crate::{Query, Sqlite, StoreError};
use rusqlite::types::Value;
use rusqlite::{TransactionBehavior, params, params_from_iter};
use std::collections::BTreeMap;
use tokrate_record::{Refusal, RefusalReason};

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
}

/// What [`refusal`] reads.
pub(crate) const COLUMNS: [&str; 7] = ["first_unix_ms", "last_unix_ms", "key", "alias", "reason", "status", "count"];
/// What [`by_reason`] reads.
pub(crate) const BY_REASON: [&str; 2] = ["reason", "count"];

/// A row of [`COLUMNS`].
pub(crate) fn refusal(mut reader: Reader<'_>) -> Result<Refusal, StoreError> {
    Ok(Refusal {
        first_unix_ms: reader.count()?,
        last_unix_ms: reader.count()?,
        key: reader.opt_text()?,
        alias: reader.opt_text()?,
        reason: reader.named(&RefusalReason::ALL, RefusalReason::name)?,
        status: reader.count()?,
        count: reader.count()?,
    })
}

/// A row of [`BY_REASON`].
pub(crate) fn by_reason(mut reader: Reader<'_>) -> Result<(&'static str, u64), StoreError> {
    let reason = reader.named(&RefusalReason::ALL, RefusalReason::name)?;
    Ok((reason.name(), reader.count()?))
}

/// As [`crate::Store::refused_by_reason`].
pub(crate) fn refused_by_reason(log: &Sqlite, query: &Query) -> Result<BTreeMap<&'static str, u64>, StoreError> {
    if query.is_of_attempts() {
        return Ok(BTreeMap::new());
    }
    let (conditions, values) = query.refusals_filter();
    let sql = format!("SELECT 0, reason, sum(count) FROM refusals{conditions} GROUP BY reason");
    Ok(read(log, &sql, values, &BY_REASON, by_reason)?.into_iter().collect())
}

/// As [`crate::Store::refusals`].
pub(crate) fn refusals(log: &Sqlite, query: &Query) -> Result<Vec<Refusal>, StoreError> {
    let (conditions, values) = query.refusals_tail();
    let sql = format!("SELECT id, {} FROM refusals{conditions}", COLUMNS.join(", "));
    read(log, &sql, values, &COLUMNS, refusal)
}

fn read<T>(
    log: &Sqlite,
    sql: &str,
    values: Vec<Value>,
    columns: &'static [&'static str],
    read: fn(Reader<'_>) -> Result<T, StoreError>,
) -> Result<Vec<T>, StoreError> {
    let mut statement = log.connection().prepare_cached(sql).map_err(|error| log.error(&error))?;
    let mut rows = statement.query(params_from_iter(values)).map_err(|error| log.error(&error))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(|error| log.error(&error))? {
        found.push(read(Reader::new(row, columns, log.path()))?);
    }
    Ok(found)
}
