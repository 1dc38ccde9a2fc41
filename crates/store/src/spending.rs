//! What each key has spent, by day: a sum that is kept beside the rows, so that a gateway knows at once what a month has cost, however
//! many rows the log has.
//!
//! Invariant: `spending` holds the cost of the rows up to the `id` in `spending_through`. Rows beyond it, which only a process of an
//! earlier version adds, are counted as they are read and added with the next rows.

use crate::row::to_i64;
use crate::summary::entry;
use crate::{Sqlite, StoreError};
use rusqlite::{Connection, params};
use std::collections::BTreeMap;
use tokrate_record::Attempt;

/// Milliseconds of a day.
const DAY_MS: u64 = 86_400_000;

/// Where two sums are no number, as of an infinite one and its negative, nobody knows what was spent: it exhausts every budget.
const ADD: &str = "INSERT INTO spending (day, key, usd) VALUES (?1, ?2, coalesce(?3, 9e999))
    ON CONFLICT (day, key) DO UPDATE SET usd = coalesce(usd + excluded.usd, 9e999)";

/// The newest row.
const NEWEST: &str = "SELECT coalesce(max(id), 0) FROM attempts";

/// What rows of an `id` above the first and up to the second cost.
const OF_ROWS: &str = "SELECT started_unix_ms / 86400000, key, sum(cost_usd) FROM attempts
    WHERE id > ?1 AND id <= ?2 AND key IS NOT NULL AND cost_usd IS NOT NULL GROUP BY 1, 2";

/// What rows that are not added up yet cost from a day on.
const SINCE: &str = "SELECT key, sum(usd) FROM (
    SELECT key, usd FROM spending WHERE day >= ?1
    UNION ALL SELECT key, cost_usd FROM attempts
        WHERE id > (SELECT id FROM spending_through) AND started_unix_ms >= ?1 * 86400000
        AND key IS NOT NULL AND cost_usd IS NOT NULL
    ) GROUP BY key";

/// Catches up with the rows that another version has added; called before rows are added.
pub(crate) fn catch_up(transaction: &Connection) -> rusqlite::Result<()> {
    let newest: i64 = transaction.prepare_cached(NEWEST)?.query_row([], |row| row.get(0))?;
    let through = "SELECT id FROM spending_through";
    let through: i64 = transaction.prepare_cached(through)?.query_row([], |row| row.get(0))?;
    if through >= newest {
        return Ok(());
    }
    let mut select = transaction.prepare(OF_ROWS)?;
    let mut found = select.query([through, newest])?;
    while let Some(row) = found.next()? {
        let (day, key, usd): (i64, String, Option<f64>) = (row.get(0)?, row.get(1)?, row.get(2)?);
        transaction.prepare_cached(ADD)?.execute(params![day, key, usd])?;
    }
    Ok(())
}

/// Adds what rows cost that were added in this transaction.
pub(crate) fn add(transaction: &Connection, rows: &[Attempt]) -> rusqlite::Result<()> {
    let mut days: BTreeMap<u64, BTreeMap<String, f64>> = BTreeMap::new();
    for row in rows {
        if let (Some(key), Some(usd)) = (&row.key, row.sample.cost_usd) {
            *entry(days.entry(row.sample.started_unix_ms / DAY_MS).or_default(), key) += usd;
        }
    }
    let mut statement = transaction.prepare_cached(ADD)?;
    for (day, keys) in days {
        for (key, usd) in keys {
            statement.execute(params![to_i64(day), key, usd])?;
        }
    }
    let through = "UPDATE spending_through SET id = (SELECT coalesce(max(id), 0) FROM attempts)";
    transaction.prepare_cached(through)?.execute([]).map(drop)
}

/// Forgets the days before that of a wall time, of which rows were removed in this transaction.
pub(crate) fn forget(transaction: &Connection, before_unix_ms: u64) -> rusqlite::Result<()> {
    let day = to_i64(before_unix_ms / DAY_MS);
    transaction.prepare_cached("DELETE FROM spending WHERE day < ?")?.execute([day])?;
    // The `id` of a newest row that is removed is given again.
    let through = "UPDATE spending_through SET id = (SELECT coalesce(max(id), 0) FROM attempts)
        WHERE id > (SELECT coalesce(max(id), 0) FROM attempts)";
    transaction.prepare_cached(through)?.execute([]).map(drop)
}

impl Sqlite {
    /// What rows cost that began on a day (days since 1970, UTC) or later, by key (USD).
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn spent_since(&self, day: u64) -> Result<BTreeMap<String, f64>, StoreError> {
        let sums = || -> rusqlite::Result<BTreeMap<String, f64>> {
            let mut statement = self.connection().prepare_cached(SINCE)?;
            // A sum that is no number comes as NULL.
            let sum =
                |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get::<_, Option<f64>>(1)?.unwrap_or(f64::INFINITY)));
            statement.query_map([to_i64(day)], sum)?.collect()
        };
        sums().map_err(|error| self.error(&error))
    }
}
