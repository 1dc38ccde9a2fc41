//! Converts rows between memory and the table.
//!
//! Invariant: what was written is what is read, except that counts above 2^63 - 1 are clamped and speeds and costs that are not finite
//! become NULL.

use crate::StoreError;
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Row, Statement};
use std::path::Path;
use tokrate_core::{FailureKind, FinishReason};
use tokrate_meter::GapSketch;
use tokrate_record::{Attempt, AttemptEnd, AttemptRole, CostBasis};

/// Every column but `id`, in the order in which rows are written and read.
pub(crate) const COLUMNS: [&str; 44] = [
    "call",
    "attempt",
    "role",
    "end",
    "won",
    "started_unix_ms",
    "key",
    "alias",
    "lane",
    "provider",
    "model",
    "model_answered",
    "dialect_in",
    "dialect_out",
    "stream",
    "in_flight",
    "connection_new",
    "request_bytes",
    "output_limit",
    "version",
    "status",
    "finish",
    "failure",
    "wait_ns",
    "ttfb_ns",
    "ttft_ns",
    "total_ns",
    "overhead_ns",
    "output_speed",
    "text_events",
    "chunks",
    "gap_p50_ns",
    "gap_p99_ns",
    "gap_max_ns",
    "gaps",
    "input_tokens_std",
    "output_tokens_std",
    "input_tokens",
    "output_tokens",
    "reasoning_tokens",
    "cached_tokens",
    "cache_write_tokens",
    "cost_usd",
    "cost_basis",
];

/// The statement that adds a row.
pub(crate) fn insert_sql() -> String {
    let placeholders = vec!["?"; COLUMNS.len()].join(", ");
    format!("INSERT INTO attempts ({}) VALUES ({placeholders})", COLUMNS.join(", "))
}

/// Adds one row.
pub(crate) fn insert(statement: &mut Statement<'_>, row: &Attempt) -> rusqlite::Result<()> {
    let gaps = serde_json::to_string(&row.gaps).unwrap_or_else(|_| "[]".to_owned());
    statement.execute(rusqlite::params![
        row.call,
        row.attempt,
        row.role.name(),
        row.end.name(),
        row.won,
        to_i64(row.started_unix_ms),
        row.key,
        row.alias,
        row.lane,
        row.provider,
        row.model,
        row.model_answered,
        row.dialect_in,
        row.dialect_out,
        row.stream,
        row.in_flight,
        row.connection_new,
        to_i64(row.request_bytes),
        row.output_limit,
        row.version,
        row.status,
        row.finish.map(FinishReason::name),
        row.failure.map(FailureKind::name),
        row.wait_ns.map(to_i64),
        row.ttfb_ns.map(to_i64),
        row.ttft_ns.map(to_i64),
        to_i64(row.total_ns),
        row.overhead_ns.map(to_i64),
        row.output_speed.filter(|speed| speed.is_finite()),
        to_i64(row.text_events),
        to_i64(row.chunks),
        row.gap_p50_ns.map(to_i64),
        row.gap_p99_ns.map(to_i64),
        row.gap_max_ns.map(to_i64),
        gaps,
        row.input_tokens_std.map(to_i64),
        to_i64(row.output_tokens_std),
        row.input_tokens.map(to_i64),
        row.output_tokens.map(to_i64),
        row.reasoning_tokens.map(to_i64),
        row.cached_tokens.map(to_i64),
        row.cache_write_tokens.map(to_i64),
        row.cost_usd.filter(|cost| cost.is_finite()),
        row.cost_basis.name(),
    ])?;
    Ok(())
}

/// SQLite integers are signed: clamps larger counts.
pub(crate) fn to_i64(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Reads the columns of a row in order; an invalid value is an error that names the column.
pub(crate) struct Reader<'r> {
    row: &'r Row<'r>,
    /// The columns from the second on; the first is `id`.
    columns: &'static [&'static str],
    next: usize,
    path: &'r Path,
}

impl<'r> Reader<'r> {
    /// Of a row whose first column is `id` and the others `columns`.
    pub fn new(row: &'r Row<'r>, columns: &'static [&'static str], path: &'r Path) -> Reader<'r> {
        Reader { row, columns, next: 0, path }
    }

    /// The whole row, if the columns are [`COLUMNS`].
    pub fn attempt(mut self) -> Result<Attempt, StoreError> {
        Ok(Attempt {
            call: self.text()?,
            attempt: self.count()?,
            role: self.named(&AttemptRole::ALL, AttemptRole::name)?,
            end: self.named(&AttemptEnd::ALL, AttemptEnd::name)?,
            won: self.boolean()?,
            started_unix_ms: self.count()?,
            key: self.opt_text()?,
            alias: self.text()?,
            lane: self.text()?,
            provider: self.text()?,
            model: self.text()?,
            model_answered: self.opt_text()?,
            dialect_in: self.text()?,
            dialect_out: self.text()?,
            stream: self.boolean()?,
            in_flight: self.count()?,
            connection_new: self.boolean()?,
            request_bytes: self.count()?,
            output_limit: self.opt_count()?,
            version: self.text()?,
            status: self.opt_count()?,
            finish: self.opt_named(&FINISH_REASONS, FinishReason::name)?,
            failure: self.opt_named(&FailureKind::ALL, FailureKind::name)?,
            wait_ns: self.opt_count()?,
            ttfb_ns: self.opt_count()?,
            ttft_ns: self.opt_count()?,
            answer_ns: None,
            total_ns: self.count()?,
            overhead_ns: self.opt_count()?,
            output_speed: self.opt_real()?,
            text_events: self.count()?,
            chunks: self.count()?,
            gap_p50_ns: self.opt_count()?,
            gap_p99_ns: self.opt_count()?,
            gap_max_ns: self.opt_count()?,
            gaps: self.gaps()?,
            input_tokens_std: self.opt_count()?,
            output_tokens_std: self.count()?,
            input_tokens: self.opt_count()?,
            output_tokens: self.opt_count()?,
            reasoning_tokens: self.opt_count()?,
            cached_tokens: self.opt_count()?,
            cache_write_tokens: self.opt_count()?,
            cost_usd: self.opt_real()?,
            cost_basis: self.named(&CostBasis::ALL, CostBasis::name)?,
        })
    }

    /// A required text.
    pub fn text(&mut self) -> Result<String, StoreError> {
        self.str().map(str::to_owned)
    }

    /// An optional text.
    pub fn opt_text(&mut self) -> Result<Option<String>, StoreError> {
        self.opt_str().map(|text| text.map(str::to_owned))
    }

    /// A required text, borrowed from the row.
    pub fn str(&mut self) -> Result<&'r str, StoreError> {
        self.opt_str()?.ok_or_else(|| self.damaged())
    }

    /// An optional text, borrowed from the row.
    pub fn opt_str(&mut self) -> Result<Option<&'r str>, StoreError> {
        match self.take()? {
            ValueRef::Null => Ok(None),
            ValueRef::Text(bytes) => std::str::from_utf8(bytes).map(Some).map_err(|_| self.damaged()),
            _ => Err(self.damaged()),
        }
    }

    /// A required count.
    pub fn count<N: TryFrom<i64>>(&mut self) -> Result<N, StoreError> {
        self.opt_count()?.ok_or_else(|| self.damaged())
    }

    /// An optional count.
    pub fn opt_count<N: TryFrom<i64>>(&mut self) -> Result<Option<N>, StoreError> {
        match self.take()? {
            ValueRef::Null => Ok(None),
            ValueRef::Integer(value) => N::try_from(value).map(Some).map_err(|_| self.damaged()),
            _ => Err(self.damaged()),
        }
    }

    /// An optional real number.
    pub fn opt_real(&mut self) -> Result<Option<f64>, StoreError> {
        match self.take()? {
            ValueRef::Null => Ok(None),
            ValueRef::Real(value) => Ok(Some(value)),
            _ => Err(self.damaged()),
        }
    }

    /// 0 or 1.
    pub fn boolean(&mut self) -> Result<bool, StoreError> {
        match self.count::<i64>()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.damaged()),
        }
    }

    /// A required enum value.
    pub fn named<T: Copy>(&mut self, all: &[T], name: fn(T) -> &'static str) -> Result<T, StoreError> {
        self.opt_named(all, name)?.ok_or_else(|| self.damaged())
    }

    /// An optional enum value.
    pub fn opt_named<T: Copy>(&mut self, all: &[T], name: fn(T) -> &'static str) -> Result<Option<T>, StoreError> {
        match self.take()? {
            ValueRef::Null => Ok(None),
            ValueRef::Text(found) => {
                let known = all.iter().copied().find(|value| name(*value).as_bytes() == found);
                known.map(Some).ok_or_else(|| self.damaged())
            }
            _ => Err(self.damaged()),
        }
    }

    fn gaps(&mut self) -> Result<GapSketch, StoreError> {
        let text = self.text()?;
        serde_json::from_str(&text).map_err(|_| self.damaged())
    }

    fn take(&mut self) -> Result<ValueRef<'r>, StoreError> {
        self.next += 1;
        self.row.get_ref(self.next).map_err(|error| StoreError::of(self.path, &error))
    }

    /// An error for the column read last.
    fn damaged(&self) -> StoreError {
        let value = match self.row.get::<_, Value>(self.next) {
            Ok(Value::Null) => "nothing".to_owned(),
            Ok(Value::Integer(value)) => value.to_string(),
            Ok(Value::Real(value)) => value.to_string(),
            Ok(Value::Text(text)) => text.chars().take(80).collect(),
            Ok(Value::Blob(_)) | Err(_) => "bytes".to_owned(),
        };
        StoreError::Damaged {
            path: self.path.to_owned(),
            row: self.row.get(0).unwrap_or_default(),
            column: self.columns[self.next - 1],
            value,
        }
    }
}

const FINISH_REASONS: [FinishReason; 5] = [
    FinishReason::Stop,
    FinishReason::Length,
    FinishReason::ToolCalls,
    FinishReason::ContentFilter,
    FinishReason::Other,
];
