//! Converts rows between memory and the table.
//!
//! Invariant: what was written is what is read, except that counts above 2^63 - 1 are clamped and speeds and costs that are not finite
//! become NULL.

use crate::StoreError;
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Row, Statement};
use std::borrow::Cow;
use std::path::Path;
use tokrate_core::{FailureKind, FinishReason};
use tokrate_meter::GapSketch;
use tokrate_meter::names::Named;
use tokrate_record::{Attempt, AttemptEnd, AttemptRole, CostBasis, Sample, SampleConditions, SharedConditions};

/// Every column but `id`, in the order in which rows are written and read: those of the call, then those of the sample.
pub(crate) const COLUMNS: [&str; 54] = [
    "call",
    "attempt",
    "role",
    "end",
    "won",
    "key",
    "alias",
    "lane",
    "dialect_in",
    "overhead_ns",
    "started_unix_ms",
    "provider",
    "model",
    "model_answered",
    "dialect_out",
    "stream",
    "in_flight",
    "connection_new",
    "dns_ns",
    "connect_ns",
    "tls_ns",
    "request_bytes",
    "output_limit",
    "status",
    "finish",
    "failure",
    "wait_ns",
    "ttfb_ns",
    "ttft_ns",
    "ttft_missing",
    "ttfat_ns",
    "total_ns",
    "output_speed",
    "output_speed_missing",
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
    "region",
    "host",
    "tokenizer",
    "fingerprint",
    "version",
];

/// The statement that adds a row.
pub(crate) fn insert_sql() -> String {
    let placeholders = vec!["?"; COLUMNS.len()].join(", ");
    format!("INSERT INTO attempts ({}) VALUES ({placeholders})", COLUMNS.join(", "))
}

/// Adds one row.
pub(crate) fn insert(statement: &mut Statement<'_>, row: &Attempt) -> rusqlite::Result<()> {
    let sample = &row.sample;
    let gaps = serde_json::to_string(&sample.gaps).unwrap_or_else(|_| "[]".to_owned());
    statement.execute(rusqlite::params![
        row.call,
        row.attempt,
        row.role.name(),
        row.end.name(),
        row.won,
        row.key,
        row.alias,
        row.lane,
        row.dialect_in,
        row.overhead_ns.map(to_i64),
        to_i64(sample.started_unix_ms),
        sample.provider,
        sample.model,
        sample.model_answered,
        sample.dialect,
        sample.stream,
        sample.in_flight,
        sample.connection_new,
        sample.dns_ns.map(to_i64),
        sample.connect_ns.map(to_i64),
        sample.tls_ns.map(to_i64),
        // No request has an empty body: 0 stands for one that was not sent, as in earlier versions.
        to_i64(sample.request_bytes.unwrap_or(0)),
        sample.output_limit,
        sample.status,
        sample.finish.map(FinishReason::name),
        sample.failure.map(FailureKind::name),
        sample.wait_ns.map(to_i64),
        sample.ttfb_ns.map(to_i64),
        sample.ttft_ns.map(to_i64),
        sample.ttft_missing,
        sample.ttfat_ns.map(to_i64),
        to_i64(sample.total_ns),
        sample.output_speed.filter(|speed| speed.is_finite()),
        sample.output_speed_missing,
        to_i64(sample.text_events),
        to_i64(sample.chunks),
        sample.gap_p50_ns.map(to_i64),
        sample.gap_p99_ns.map(to_i64),
        sample.gap_max_ns.map(to_i64),
        gaps,
        sample.input_tokens_std.map(to_i64),
        to_i64(sample.output_tokens_std),
        sample.input_tokens.map(to_i64),
        sample.output_tokens.map(to_i64),
        sample.reasoning_tokens.map(to_i64),
        sample.cached_tokens.map(to_i64),
        sample.cache_write_tokens.map(to_i64),
        sample.cost_usd.filter(|cost| cost.is_finite()),
        sample.cost_basis.name(),
        sample.conditions.region,
        sample.conditions.host,
        sample.conditions.tokenizer,
        sample.conditions.fingerprint,
        sample.conditions.version,
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

    /// The whole row, if the columns are [`COLUMNS`]. Rows in sequence share the conditions that they have in common.
    pub fn attempt(mut self, shared: &mut SharedConditions) -> Result<Attempt, StoreError> {
        Ok(Attempt {
            call: self.text()?,
            attempt: self.count()?,
            role: self.named(&AttemptRole::ALL, AttemptRole::name)?,
            end: self.named(&AttemptEnd::ALL, AttemptEnd::name)?,
            won: self.boolean()?,
            key: self.opt_text()?,
            alias: self.text()?,
            lane: self.text()?,
            dialect_in: self.text()?.into(),
            overhead_ns: self.opt_count()?,
            sample: self.sample(shared)?,
        })
    }

    fn sample(&mut self, shared: &mut SharedConditions) -> Result<Sample, StoreError> {
        Ok(Sample {
            started_unix_ms: self.count()?,
            provider: self.text()?,
            model: self.text()?,
            model_answered: self.opt_text()?,
            dialect: self.text()?.into(),
            stream: self.boolean()?,
            in_flight: self.count()?,
            connection_new: self.boolean()?,
            dns_ns: self.opt_count()?,
            connect_ns: self.opt_count()?,
            tls_ns: self.opt_count()?,
            request_bytes: Some(self.count()?).filter(|bytes| *bytes > 0),
            output_limit: self.opt_count()?,
            status: self.opt_count()?,
            finish: self.opt_named(<FinishReason as Named>::ALL, FinishReason::name)?,
            failure: self.opt_named(&FailureKind::ALL, FailureKind::name)?,
            wait_ns: self.opt_count()?,
            ttfb_ns: self.opt_count()?,
            ttft_ns: self.opt_count()?,
            ttft_missing: self.opt_text()?.map(Cow::Owned),
            ttfat_ns: self.opt_count()?,
            total_ns: self.count()?,
            output_speed: self.opt_real()?,
            output_speed_missing: self.opt_text()?.map(Cow::Owned),
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
            conditions: self.conditions(shared)?,
        })
    }

    fn conditions(&mut self, shared: &mut SharedConditions) -> Result<SharedConditions, StoreError> {
        let conditions = SampleConditions {
            region: self.opt_text()?,
            host: self.opt_text()?,
            tokenizer: self.opt_text()?,
            fingerprint: self.opt_text()?,
            version: self.text()?,
        };
        if **shared != conditions {
            *shared = conditions.into();
        }
        Ok(shared.clone())
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
