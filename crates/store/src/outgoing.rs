//! What is still to be sent to ClickHouse: a spool in the SQLite file itself, filled by triggers in the transaction of each row.
//!
//! Invariant: a batch that is under way keeps its last entry until it was taken, so that its token is the same when it is sent again;
//! numbers of entries are never used again.

use crate::StoreError;
use crate::database::{Database, Format, LOCK_TIMEOUT};
use crate::row::to_i64;
use rusqlite::{Connection, OptionalExtension};
use std::collections::BTreeMap;
use std::path::Path;

/// Entries of a batch, and their bytes: one block of the server, well below what it splits.
const BATCH_ENTRIES: u64 = 5_000;
const BATCH_BYTES: usize = 4 << 20;
/// Entries that wait at most: a day of 20 requests a second, some 2 GB.
pub(crate) const MAX_ENTRIES: u64 = 2_000_000;

/// The tables of the spool, a part of the schema of a log and of a monitor's database.
pub(crate) const SCHEMA: &str = "
CREATE TABLE outgoing (
    -- Never used again once it is gone: the token of a batch is made of it.
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    row TEXT NOT NULL
) STRICT;
CREATE TABLE outgoing_batch (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    -- The name of this spool.
    spool TEXT NOT NULL,
    -- The last entry of the batch that is under way; 0 for none.
    last INTEGER NOT NULL
) STRICT;
";

/// The spool of a file, for whoever empties it.
#[derive(Debug)]
pub struct Outgoing {
    database: Database,
}

/// A batch: of each table its rows, a JSON object a line.
#[derive(Debug)]
pub(crate) struct Batch {
    pub last: u64,
    pub tables: BTreeMap<&'static str, Vec<u8>>,
    pub token: String,
}

/// What a step has sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Shipped {
    /// Entries of the batch; 0 when nothing waited.
    pub entries: u64,
}

/// The tables of ClickHouse that entries are for.
const KINDS: [&str; 7] = ["attempts", "refusals", "probes", "events", "notices", "estimates", "probers"];

impl Outgoing {
    /// Opens the spool of a file that is written elsewhere.
    pub(crate) fn open(path: &Path, format: &'static Format) -> Result<Outgoing, StoreError> {
        Ok(Outgoing { database: Database::open(path, format, LOCK_TIMEOUT)? })
    }

    /// How many entries wait.
    ///
    /// # Errors
    /// When the file cannot be used.
    pub fn waiting(&self) -> Result<u64, StoreError> {
        let sql = "SELECT coalesce((SELECT max(id) FROM outgoing) - (SELECT min(id) FROM outgoing) + 1, 0)";
        let count = self.database.connection.query_row(sql, [], |row| row.get::<_, i64>(0));
        count.map(i64::unsigned_abs).map_err(|error| self.database.error(&error))
    }

    /// The batch that is under way, or the next one, which is under way from then on; `None` where nothing waits.
    pub(crate) fn batch(&mut self) -> Result<Option<Batch>, StoreError> {
        let mut found = None;
        self.database.transact(|transaction| {
            let state = transaction.query_row("SELECT spool, last FROM outgoing_batch", [], |row| {
                Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?))
            });
            let Some((spool, last)) = state.optional()? else { return Ok(()) };
            let last = if last > 0 { last } else { last_of_next(transaction)? };
            if last > 0 {
                transaction.execute("UPDATE outgoing_batch SET last = ?", [last])?;
                found = Some(read(transaction, &spool, last)?);
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// The batch up to an entry was taken.
    pub(crate) fn taken(&mut self, last: u64) -> Result<(), StoreError> {
        self.database.transact(|transaction| {
            transaction.execute("DELETE FROM outgoing WHERE id <= ?", [to_i64(last)])?;
            transaction.execute("UPDATE outgoing_batch SET last = 0", []).map(drop)
        })
    }

    /// Drops the oldest entries beyond so many, but for those of the batch that is under way; returns how many.
    ///
    /// # Errors
    /// When the file cannot be used.
    pub fn bound(&mut self, most: u64) -> Result<u64, StoreError> {
        let over = self.waiting()?.saturating_sub(most);
        if over == 0 {
            return Ok(0);
        }
        let mut dropped = 0;
        self.database.transact(|transaction| {
            let sql = "DELETE FROM outgoing WHERE id IN (SELECT id FROM outgoing \
                       WHERE id > (SELECT last FROM outgoing_batch) ORDER BY id LIMIT ?)";
            dropped = transaction.execute(sql, [to_i64(over)])? as u64;
            Ok(())
        })?;
        Ok(dropped)
    }
}

/// The last entry of what is sent next; 0 where nothing waits.
fn last_of_next(connection: &Connection) -> rusqlite::Result<i64> {
    let mut statement = connection.prepare_cached("SELECT id, length(row) FROM outgoing ORDER BY id LIMIT ?")?;
    let mut rows = statement.query([to_i64(BATCH_ENTRIES)])?;
    let (mut last, mut bytes) = (0, 0);
    while let Some(row) = rows.next()? {
        bytes += usize::try_from(row.get::<_, i64>(1)?).unwrap_or(usize::MAX);
        if last > 0 && bytes > BATCH_BYTES {
            break;
        }
        last = row.get(0)?;
    }
    Ok(last)
}

fn read(connection: &Connection, spool: &str, last: i64) -> rusqlite::Result<Batch> {
    let mut statement = connection.prepare_cached("SELECT id, kind, row FROM outgoing WHERE id <= ? ORDER BY id")?;
    let mut rows = statement.query([last])?;
    let mut tables: BTreeMap<&'static str, Vec<u8>> = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let (id, kind): (i64, String) = (row.get(0)?, row.get(1)?);
        // A table that only a later version knows.
        let Some(kind) = KINDS.into_iter().find(|known| *known == kind) else { continue };
        let text: String = row.get(2)?;
        let lines = tables.entry(kind).or_default();
        lines.extend_from_slice(format!("{{\"spool\":\"{spool}\",\"id\":{id},").as_bytes());
        // Every row has columns, so a comma stands before what follows its brace.
        lines.extend_from_slice(text.strip_prefix('{').unwrap_or("}").as_bytes());
        lines.push(b'\n');
    }
    Ok(Batch { last: last.unsigned_abs(), tables, token: format!("{spool}-{last}") })
}

/// Begins or ends to fill the spool with what triggers see. Where none of them was there, the statements of `backlog` fill it first.
pub(crate) fn fill(
    database: &Database,
    triggers: &[(&str, String)],
    is_on: bool,
    backlog: &str,
) -> Result<(), StoreError> {
    let connection = &database.connection;
    let known = |name: &str| {
        let sql = "SELECT sql FROM sqlite_schema WHERE type = 'trigger' AND name = ?";
        connection.query_row(sql, [name], |row| row.get::<_, String>(0)).optional()
    };
    let change = |name: Option<String>| -> rusqlite::Result<()> {
        let (mut changes, mut is_new) = (String::new(), is_on);
        for (name, sql) in triggers {
            let known = known(name)?;
            is_new &= known.is_none();
            if known.as_ref() == is_on.then_some(sql) {
                continue;
            }
            if known.is_some() {
                changes += &format!("DROP TRIGGER {name};");
            }
            if is_on {
                changes += &format!("{sql};");
            }
        }
        if let Some(name) = name {
            changes += &format!("INSERT OR IGNORE INTO outgoing_batch (id, spool, last) VALUES (1, '{name}', 0);");
        }
        if is_new {
            changes += backlog;
        }
        match changes.is_empty() {
            true => Ok(()),
            false => connection.execute_batch(&format!("BEGIN IMMEDIATE;{changes}COMMIT;")),
        }
    };
    let name = if is_on { Some(fresh_name(&database.path)?) } else { None };
    change(name).map_err(|error| database.error(&error))
}

/// A name for a spool that no other has: hexadecimal digits.
fn fresh_name(path: &Path) -> Result<String, StoreError> {
    let drawn = tokrate_net::random_bytes()
        .map_err(|error| StoreError::Open { path: path.to_owned(), message: error.to_string() })?;
    Ok(format!("{:016x}", u64::from_le_bytes(drawn)))
}

/// Columns of real numbers.
const REALS: [&str; 6] = ["output_speed", "cost_usd", "change", "low", "high", "p"];

/// `'name', prefix.name` of columns, as a JSON object takes them.
pub(crate) fn pairs<'c>(columns: impl IntoIterator<Item = &'c &'c str>, prefix: &str) -> String {
    let pair = |name: &&str| match REALS.contains(name) {
        // SQLite's own JSON has 17 digits that are not always those of the number; of 20 the last bit comes back.
        true => format!("'{name}', json(iif({prefix}.{name} IS NULL, 'null', printf('%!.20g', {prefix}.{name})))"),
        false => format!("'{name}', {prefix}.{name}"),
    };
    let pairs: Vec<String> = columns.into_iter().map(pair).collect();
    pairs.join(", ")
}

/// A trigger, by its name.
pub(crate) fn trigger(name: &'static str, when: &str, act: &str) -> (&'static str, String) {
    (name, format!("CREATE TRIGGER {name} {when} BEGIN {act}; END"))
}
