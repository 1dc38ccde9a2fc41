//! ClickHouse over its HTTP interface: one POST for each statement.
//!
//! Rows come in through a spool ([`crate::Shipper`]) and are read back by the queries of the log. Invariant: a statement is constant
//! text; what it is about is bound as a parameter, and what is kept is JSON of its own.

mod address;
mod log;
mod probes;
mod row_binary;
mod schema;
mod server;

pub use address::ClickHouseAddress;
pub use log::ClickHouseLog;
pub use server::{ClickHouseAccess, Post};

use crate::StoreError;
use rusqlite::types::Value;
use std::fmt::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokrate_core::one_line;

pub(crate) use schema::{LOG, MONITOR, Tables};

/// Rows that are read by one statement.
const PAGE_ROWS: usize = 50_000;
/// Of the server's message so much is shown (bytes).
const MAX_QUOTED_BYTES: usize = 300;

/// A database of a ClickHouse server. Clones share the connection's settings.
#[derive(Clone)]
pub struct ClickHouse {
    post: Arc<dyn Post>,
    database: String,
    /// Its address, without a password, where errors name a file.
    shown: PathBuf,
}

impl ClickHouse {
    /// A database that statements are sent to by `post`.
    pub fn new(address: &ClickHouseAddress, post: Arc<dyn Post>) -> ClickHouse {
        ClickHouse { post, database: address.database.clone(), shown: PathBuf::from(address.to_string()) }
    }

    /// Its address, without a password.
    pub fn shown(&self) -> &Path {
        &self.shown
    }

    /// Asks the server for its version.
    ///
    /// # Errors
    /// When it cannot be reached or refuses.
    pub fn server_version(&self) -> Result<String, StoreError> {
        match self.rows("SELECT version()", Vec::new())?.into_iter().flatten().next() {
            Some(Value::Text(version)) => Ok(one_line(&version, MAX_QUOTED_BYTES)),
            _ => Err(self.garbled()),
        }
    }

    /// Runs a statement that gives no rows.
    pub(crate) fn execute(&self, sql: &str) -> Result<(), StoreError> {
        self.send(&[("database", &self.database)], sql.as_bytes().to_vec()).map(drop)
    }

    /// Adds rows, a JSON object a line. Rows with a token that the table knows are passed over.
    pub(crate) fn insert(&self, table: &'static str, token: &str, rows: Vec<u8>) -> Result<(), StoreError> {
        debug_assert!(token.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'));
        // Without the exact parser the last bit of a number may differ; a wrong clock may spread rows over many months.
        let sql = format!(
            "INSERT INTO {table} SETTINGS insert_deduplication_token = '{token}', precise_float_parsing = 1, \
             max_partitions_per_insert_block = 0, async_insert = 0 FORMAT JSONEachRow"
        );
        self.send(&[("database", &self.database), ("query", &sql)], rows).map(drop)
    }

    /// Passes the rows of a statement to `each`; `?` stand for the values.
    pub(crate) fn select(
        &self,
        sql: &str,
        values: Vec<Value>,
        each: &mut dyn FnMut(&[Value]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let (sql, bound) = bind(sql, values);
        let sql = format!("{sql} FORMAT RowBinaryWithNamesAndTypes");
        let mut query = vec![("database", self.database.as_str()), ("wait_end_of_query", "1")];
        query.extend(bound.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        let answer = self.send(&query, sql.into_bytes())?;
        row_binary::visit(&answer, each).unwrap_or_else(|| Err(self.garbled()))
    }

    /// The rows of a statement that has few.
    pub(crate) fn rows(&self, sql: &str, values: Vec<Value>) -> Result<Vec<Vec<Value>>, StoreError> {
        let mut rows = Vec::new();
        self.select(sql, values, &mut |row| {
            rows.push(row.to_vec());
            Ok(())
        })?;
        Ok(rows)
    }

    fn send(&self, query: &[(&str, &str)], body: Vec<u8>) -> Result<Vec<u8>, StoreError> {
        let query: Vec<String> =
            query.iter().map(|(name, value)| format!("{name}={}", percent_encoded(value))).collect();
        let unreachable = |message| StoreError::Unreachable { server: self.shown.clone(), message };
        let (status, answer) = self.post.post(&query.join("&"), body).map_err(unreachable)?;
        if status == 200 {
            return Ok(answer);
        }
        let message = one_line(&String::from_utf8_lossy(&answer), MAX_QUOTED_BYTES);
        Err(StoreError::Refused { server: self.shown.clone(), status, message })
    }

    /// An answer that is none of ClickHouse's.
    fn garbled(&self) -> StoreError {
        let message = "its answer is not understood; check that a ClickHouse server listens there".to_owned();
        StoreError::Unreachable { server: self.shown.clone(), message }
    }
}

impl PartialEq for ClickHouse {
    fn eq(&self, other: &ClickHouse) -> bool {
        self.shown == other.shown
    }
}

impl Eq for ClickHouse {}

impl fmt::Debug for ClickHouse {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.shown.display())
    }
}

/// Puts typed parameters in place of `?`. No text of a statement has one otherwise.
fn bind(sql: &str, values: Vec<Value>) -> (String, Vec<(String, String)>) {
    let (mut text, mut bound) = (String::with_capacity(sql.len()), Vec::new());
    let mut values = values.into_iter();
    for piece in sql.split_inclusive('?') {
        let Some(before) = piece.strip_suffix('?') else {
            text.push_str(piece);
            continue;
        };
        let number = bound.len();
        let (kind, value) = match values.next().unwrap_or(Value::Null) {
            Value::Integer(value) => ("Int64", value.to_string()),
            Value::Text(value) => ("String", escaped(&value)),
            Value::Real(value) => ("Float64", value.to_string()),
            Value::Null | Value::Blob(_) => ("Nullable(String)", "\\N".to_owned()),
        };
        // Writing to a text cannot fail.
        let _ = write!(text, "{before}{{p{number}:{kind}}}");
        bound.push((format!("param_p{number}"), value));
    }
    (text, bound)
}

/// The server reads a parameter as a cell of its tab-separated form.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\\' => escaped.push_str("\\\\"),
            '\t' => escaped.push_str("\\t"),
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\0' => escaped.push_str("\\0"),
            other => escaped.push(other),
        }
    }
    escaped
}

fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a text cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests;
