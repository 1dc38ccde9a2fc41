//! Objects of providers that a gateway's clients have made (files, batches, responses): whose they are and where, for the time after a
//! restart. They hold no content.
//!
//! Invariant: of each kind the newest [`MAX_OBJECTS`] are kept, and none for longer than the rows of the log.

use crate::row::to_i64;
use crate::{Sqlite, StoreError};
use rusqlite::{TransactionBehavior, params};

/// Most objects of a kind: what a gateway remembers of them in memory.
pub const MAX_OBJECTS: u64 = 10_000;

/// An object of a provider's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredObject {
    /// Its identifier at the provider.
    pub id: String,
    /// What it is; the gateway's word.
    pub kind: String,
    /// Name of the key that made it; `None` where no key is asked for.
    pub key: Option<String>,
    /// Name of the lane that has it.
    pub lane: String,
    /// Where that lane led to then: its model and addresses.
    pub target: String,
    /// When it was made (ms since 1970).
    pub made_unix_ms: u64,
}

/// A later object of the same name is the one that counts.
const INSERT: &str =
    "INSERT OR REPLACE INTO objects (id, kind, key, lane, target, made_unix_ms) VALUES (?, ?, ?, ?, ?, ?)";

/// Removes what is beyond the newest of a kind.
const TRIM: &str = "DELETE FROM objects WHERE kind = ?1 AND made_unix_ms <
    (SELECT made_unix_ms FROM objects WHERE kind = ?1 ORDER BY made_unix_ms DESC LIMIT 1 OFFSET ?2)";

impl Sqlite {
    /// Adds objects, all or none of them.
    ///
    /// # Errors
    /// When they cannot be kept.
    pub fn append_objects(&mut self, objects: &[StoredObject]) -> Result<(), StoreError> {
        let connection = self.connection_mut();
        let mut write = || -> rusqlite::Result<()> {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let mut kinds: Vec<&str> = objects.iter().map(|object| object.kind.as_str()).collect();
            kinds.sort_unstable();
            kinds.dedup();
            {
                let mut statement = transaction.prepare_cached(INSERT)?;
                for StoredObject { id, kind, key, lane, target, made_unix_ms } in objects {
                    statement.execute(params![id, kind, key, lane, target, to_i64(*made_unix_ms)])?;
                }
                let mut statement = transaction.prepare_cached(TRIM)?;
                for kind in kinds {
                    statement.execute(params![kind, to_i64(MAX_OBJECTS - 1)])?;
                }
            }
            transaction.commit()
        };
        let written = write();
        written.map_err(|error| self.error(&error))
    }

    /// All objects, the oldest first.
    ///
    /// # Errors
    /// When the store cannot be read, or a row in it is damaged.
    pub fn objects(&self) -> Result<Vec<StoredObject>, StoreError> {
        let read = || -> rusqlite::Result<Vec<StoredObject>> {
            let sql = "SELECT id, kind, key, lane, target, made_unix_ms FROM objects ORDER BY made_unix_ms, id";
            let mut statement = self.connection().prepare_cached(sql)?;
            let rows = statement.query_map([], |row| {
                Ok(StoredObject {
                    id: row.get(0)?,
                    kind: row.get(1)?,
                    key: row.get(2)?,
                    lane: row.get(3)?,
                    target: row.get(4)?,
                    made_unix_ms: row.get::<_, i64>(5)?.unsigned_abs(),
                })
            })?;
            rows.collect()
        };
        read().map_err(|error| self.error(&error))
    }
}
