//! What waits in a monitor's database: alerts that are still to be delivered, and what is still to be pushed to a hub.
//!
//! Invariant: what was delivered or pushed is removed, and only then; numbers of a spool's entries are never used again.

use super::read::unsigned;
use super::{DeliveryRow, MonitorStore, MonitorWrite, SpoolEntry, execute};
use crate::StoreError;
use crate::row::to_i64;
use rusqlite::{Connection, params};

impl MonitorStore {
    /// What the rules of alerts remember: key and value of each part.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn alert_parts(&self) -> Result<Vec<(String, String)>, StoreError> {
        self.list("SELECT key, value FROM alert_parts ORDER BY key", [], |row| Ok((row.get(0)?, row.get(1)?)))
    }

    /// Messages that are still to be delivered and those that were given up, oldest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn deliveries(&self) -> Result<Vec<DeliveryRow>, StoreError> {
        let sql = "SELECT message, receiver, made_unix_ms, delivery, given_up_unix_ms FROM deliveries ORDER BY id";
        self.list(sql, [], |row| {
            Ok(DeliveryRow {
                message: row.get(0)?,
                receiver: row.get(1)?,
                made_unix_ms: unsigned(row, 2)?,
                delivery: row.get(3)?,
                given_up_unix_ms: row.get::<_, Option<i64>>(4)?.map(|ms| u64::try_from(ms).unwrap_or(0)),
            })
        })
    }

    /// The name of this database's spool; `fresh` becomes it where there is none yet.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn spool_name(&mut self, fresh: &str) -> Result<String, StoreError> {
        self.database.transact(|transaction| {
            execute(transaction, "INSERT OR IGNORE INTO spool_name (id, name) VALUES (1, ?)", [fresh])
        })?;
        let found = self.list("SELECT name FROM spool_name", [], |row| row.get(0))?;
        Ok(found.into_iter().next().unwrap_or_else(|| fresh.to_owned()))
    }

    /// The oldest entries of the spool, at most so many.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn spool(&self, most: usize) -> Result<Vec<SpoolEntry>, StoreError> {
        let sql = "SELECT id, entry FROM spool ORDER BY id LIMIT ?";
        self.list(sql, [to_i64(most as u64)], |row| Ok(SpoolEntry { id: unsigned(row, 0)?, entry: row.get(1)? }))
    }

    /// How many entries wait in the spool.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn spool_len(&self) -> Result<u64, StoreError> {
        Ok(self.list("SELECT count(*) FROM spool", [], |row| unsigned(row, 0))?.into_iter().next().unwrap_or(0))
    }

    /// The latest entry of a prober's spool that is kept here; `None` if nothing of it came yet.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn pushed(&self, prober: &str, spool: &str) -> Result<Option<u64>, StoreError> {
        let sql = "SELECT last FROM pushed WHERE prober = ? AND spool = ?";
        Ok(self.list(sql, [prober, spool], |row| unsigned(row, 0))?.into_iter().next())
    }
}

/// Writes what this module is about; other writes are none of it.
pub(super) fn write(transaction: &Connection, write: &MonitorWrite) -> rusqlite::Result<()> {
    match write {
        MonitorWrite::AlertPart { key, value: Some(value) } => {
            execute(transaction, "INSERT OR REPLACE INTO alert_parts (key, value) VALUES (?, ?)", [key, value])
        }
        MonitorWrite::AlertPart { key, value: None } => {
            execute(transaction, "DELETE FROM alert_parts WHERE key = ?", [key])
        }
        MonitorWrite::AlertPartsGone => execute(transaction, "DELETE FROM alert_parts", []),
        MonitorWrite::Delivery(row) => {
            let sql = "INSERT INTO deliveries (message, receiver, made_unix_ms, delivery, given_up_unix_ms) \
                       VALUES (?, ?, ?, ?, ?) ON CONFLICT (message, receiver) DO UPDATE SET \
                       delivery = excluded.delivery, given_up_unix_ms = excluded.given_up_unix_ms";
            let given_up = row.given_up_unix_ms.map(to_i64);
            let values = params![row.message, row.receiver, to_i64(row.made_unix_ms), row.delivery, given_up];
            execute(transaction, sql, values)
        }
        MonitorWrite::Delivered { message, receiver } => {
            execute(transaction, "DELETE FROM deliveries WHERE message = ? AND receiver = ?", [message, receiver])
        }
        MonitorWrite::Spooled(entry) => execute(transaction, "INSERT INTO spool (entry) VALUES (?)", [entry]),
        MonitorWrite::SpoolSent { last } => execute(transaction, "DELETE FROM spool WHERE id <= ?", [to_i64(*last)]),
        MonitorWrite::Pushed { prober, spool, last, skew_ms } => {
            let sql = "INSERT INTO pushed (prober, spool, last) VALUES (?, ?, ?) \
                       ON CONFLICT (prober, spool) DO UPDATE SET last = max(last, excluded.last)";
            execute(transaction, sql, params![prober, spool, to_i64(*last)])?;
            execute(transaction, "UPDATE probers SET skew_ms = ? WHERE prober = ?", params![skew_ms, prober])
        }
        _ => Ok(()),
    }
}
