//! A row between memory and the table.
//!
//! It refuses to know queries. Invariant: what was written is what is read, but for counts above 2^63 - 1, which are kept as
//! that, and speeds and costs that are no numbers, which are absent.

use crate::StoreError;
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Row, Statement};
use std::path::Path;
use tokrate_core::{FailureKind, FinishReason};
use tokrate_meter::{Attempt, AttemptEnd, AttemptRole, CostBasis, GapSketch};

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
    let places = vec!["?"; COLUMNS.len()].join(", ");
    format!("INSERT INTO attempts ({}) VALUES ({places})", COLUMNS.join(", "))
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
        whole(row.started_unix_ms),
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
        whole(row.request_bytes),
        row.output_limit,
        row.version,
        row.status,
        row.finish.map(FinishReason::name),
        row.failure.map(FailureKind::name),
        row.wait_ns.map(whole),
        row.ttfb_ns.map(whole),
        row.ttft_ns.map(whole),
        whole(row.total_ns),
        row.overhead_ns.map(whole),
        row.output_speed.filter(|speed| speed.is_finite()),
        whole(row.text_events),
        whole(row.chunks),
        row.gap_p50_ns.map(whole),
        row.gap_p99_ns.map(whole),
        row.gap_max_ns.map(whole),
        gaps,
        row.input_tokens_std.map(whole),
        whole(row.output_tokens_std),
        row.input_tokens.map(whole),
        row.output_tokens.map(whole),
        row.reasoning_tokens.map(whole),
        row.cached_tokens.map(whole),
        row.cache_write_tokens.map(whole),
        row.cost_usd.filter(|cost| cost.is_finite()),
        row.cost_basis.name(),
    ])?;
    Ok(())
}

/// SQLite's integers have a sign.
pub(crate) fn whole(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Reads columns of one row by turns; a column that holds something else than it should is an error with its name.
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
            won: self.truth()?,
            started_unix_ms: self.count()?,
            key: self.maybe_text()?,
            alias: self.text()?,
            lane: self.text()?,
            provider: self.text()?,
            model: self.text()?,
            model_answered: self.maybe_text()?,
            dialect_in: self.text()?,
            dialect_out: self.text()?,
            stream: self.truth()?,
            in_flight: self.count()?,
            connection_new: self.truth()?,
            request_bytes: self.count()?,
            output_limit: self.maybe_count()?,
            version: self.text()?,
            status: self.maybe_count()?,
            finish: self.maybe_named(&FINISH_REASONS, FinishReason::name)?,
            failure: self.maybe_named(&FailureKind::ALL, FailureKind::name)?,
            wait_ns: self.maybe_count()?,
            ttfb_ns: self.maybe_count()?,
            ttft_ns: self.maybe_count()?,
            total_ns: self.count()?,
            overhead_ns: self.maybe_count()?,
            output_speed: self.maybe_number()?,
            text_events: self.count()?,
            chunks: self.count()?,
            gap_p50_ns: self.maybe_count()?,
            gap_p99_ns: self.maybe_count()?,
            gap_max_ns: self.maybe_count()?,
            gaps: self.gaps()?,
            input_tokens_std: self.maybe_count()?,
            output_tokens_std: self.count()?,
            input_tokens: self.maybe_count()?,
            output_tokens: self.maybe_count()?,
            reasoning_tokens: self.maybe_count()?,
            cached_tokens: self.maybe_count()?,
            cache_write_tokens: self.maybe_count()?,
            cost_usd: self.maybe_number()?,
            cost_basis: self.named(&CostBasis::ALL, CostBasis::name)?,
        })
    }

    /// A text that must be there.
    pub fn text(&mut self) -> Result<String, StoreError> {
        self.str().map(str::to_owned)
    }

    /// A text.
    pub fn maybe_text(&mut self) -> Result<Option<String>, StoreError> {
        self.maybe_str().map(|text| text.map(str::to_owned))
    }

    /// A text that must be there, as it lies in the row.
    pub fn str(&mut self) -> Result<&'r str, StoreError> {
        self.maybe_str()?.ok_or_else(|| self.damaged())
    }

    /// A text, as it lies in the row.
    pub fn maybe_str(&mut self) -> Result<Option<&'r str>, StoreError> {
        match self.take()? {
            ValueRef::Null => Ok(None),
            ValueRef::Text(bytes) => std::str::from_utf8(bytes).map(Some).map_err(|_| self.damaged()),
            _ => Err(self.damaged()),
        }
    }

    /// A count that must be there.
    pub fn count<N: TryFrom<i64>>(&mut self) -> Result<N, StoreError> {
        self.maybe_count()?.ok_or_else(|| self.damaged())
    }

    /// A count.
    pub fn maybe_count<N: TryFrom<i64>>(&mut self) -> Result<Option<N>, StoreError> {
        match self.take()? {
            ValueRef::Null => Ok(None),
            ValueRef::Integer(value) => N::try_from(value).map(Some).map_err(|_| self.damaged()),
            _ => Err(self.damaged()),
        }
    }

    /// A number with a fraction.
    pub fn maybe_number(&mut self) -> Result<Option<f64>, StoreError> {
        match self.take()? {
            ValueRef::Null => Ok(None),
            ValueRef::Real(value) => Ok(Some(value)),
            _ => Err(self.damaged()),
        }
    }

    /// 0 or 1.
    pub fn truth(&mut self) -> Result<bool, StoreError> {
        match self.count::<i64>()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.damaged()),
        }
    }

    /// One of some names that must be there.
    pub fn named<T: Copy>(&mut self, all: &[T], name: fn(T) -> &'static str) -> Result<T, StoreError> {
        self.maybe_named(all, name)?.ok_or_else(|| self.damaged())
    }

    /// One of some names.
    pub fn maybe_named<T: Copy>(&mut self, all: &[T], name: fn(T) -> &'static str) -> Result<Option<T>, StoreError> {
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

    /// About the column that was taken last.
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
