//! Converts rows between memory and the table.
//!
//! Invariant: what was written is what is read, except that counts above 2^63 - 1 are clamped and speeds and costs that are not finite
//! become NULL.

use crate::StoreError;
use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{Row, Statement, ToSql};
use std::borrow::Cow;
use std::path::Path;
use tokrate_core::{FailureKind, FinishReason};
use tokrate_meter::GapSketch;
use tokrate_meter::names::Named;
use tokrate_record::{Attempt, AttemptEnd, AttemptRole, CostBasis, Sample, SampleConditions, SharedConditions};

/// Every column but `id`, in the order in which rows are written and read: those of the call, then those of the sample
/// ([`Writer::measured`], [`Writer::shared`]).
pub(crate) const COLUMNS: [&str; 60] = [
    "call",
    "attempt",
    "role",
    "end",
    "won",
    "key",
    "alias",
    "lane",
    "dialect_in",
    "session",
    "overhead_ns",
    "responses",
    "response_bytes",
    "hold_ns",
    "expected_cached_tokens",
    "started_unix_ms",
    "model_answered",
    "in_flight",
    "connection_new",
    "dns_ns",
    "connect_ns",
    "tls_ns",
    "request_bytes",
    "status",
    "finish",
    "failure",
    "wait_ns",
    "ttfb_ns",
    "ttft_ns",
    "ttft_missing",
    "ttfat_ns",
    "answer_ns",
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
    "provider",
    "model",
    "dialect_out",
    "stream",
    "output_limit",
    "region",
    "host",
    "tokenizer",
    "fingerprint",
    "version",
];

/// The columns of a sample that differ from request to request.
const MEASURED: usize = 35;
/// Those that many samples have in common, the last ones of [`COLUMNS`].
const SHARED: usize = 10;

/// The columns of a sample that differ from request to request, and those that many have in common.
pub(crate) fn sample_columns() -> (&'static [&'static str], &'static [&'static str]) {
    COLUMNS[COLUMNS.len() - MEASURED - SHARED..].split_at(MEASURED)
}

/// The statement that adds so many rows.
pub(crate) fn insert_sql(rows: usize) -> String {
    let placeholders = format!("({})", vec!["?"; COLUMNS.len()].join(", "));
    format!("INSERT INTO attempts ({}) VALUES {}", COLUMNS.join(", "), vec![placeholders; rows].join(", "))
}

/// Adds rows, as many as the statement is for.
pub(crate) fn insert(statement: &mut Statement<'_>, rows: &[Attempt]) -> rusqlite::Result<()> {
    let mut writer = Writer::new(Bound::to(statement));
    rows.iter().try_for_each(|row| writer.attempt(row))?;
    writer.execute()
}

/// Takes the values of rows, one after the other.
pub(crate) trait Values {
    /// Takes the next value.
    fn put(&mut self, value: ToSqlOutput<'_>) -> rusqlite::Result<()>;
}

/// The parameters of a statement.
pub(crate) struct Bound<'s, 'c> {
    statement: &'s mut Statement<'c>,
    bound: usize,
}

impl<'s, 'c> Bound<'s, 'c> {
    /// Nothing is bound yet.
    pub fn to(statement: &'s mut Statement<'c>) -> Bound<'s, 'c> {
        // What is not bound is NULL.
        statement.clear_bindings();
        Bound { statement, bound: 0 }
    }
}

impl Values for Bound<'_, '_> {
    fn put(&mut self, value: ToSqlOutput<'_>) -> rusqlite::Result<()> {
        self.bound += 1;
        match value {
            ToSqlOutput::Owned(Value::Null) | ToSqlOutput::Borrowed(ValueRef::Null) => Ok(()),
            value => self.statement.raw_bind_parameter(self.bound, value),
        }
    }
}

/// Writes the values of rows in the order of their columns.
pub(crate) struct Writer<V> {
    values: V,
}

impl Writer<Bound<'_, '_>> {
    /// Runs the statement.
    pub fn execute(self) -> rusqlite::Result<()> {
        self.values.statement.raw_execute().map(|_| ())
    }
}

impl<V: Values> Writer<V> {
    /// Nothing is written yet.
    pub fn new(values: V) -> Writer<V> {
        Writer { values }
    }

    /// Writes the next value.
    pub fn put(&mut self, value: impl ToSql) -> rusqlite::Result<()> {
        self.values.put(value.to_sql()?)
    }

    /// Writes a whole row: [`COLUMNS`].
    pub fn attempt(&mut self, row: &Attempt) -> rusqlite::Result<()> {
        self.put(&row.call)?;
        self.put(row.attempt)?;
        self.put(row.role.name())?;
        self.put(row.end.name())?;
        self.put(row.won)?;
        self.put(&row.key)?;
        self.put(&row.alias)?;
        self.put(&row.lane)?;
        self.put(row.dialect_in.as_ref())?;
        self.put(&row.session)?;
        self.put(row.overhead_ns.map(to_i64))?;
        self.put(row.responses)?;
        self.put(row.response_bytes.map(to_i64))?;
        self.counts(&[row.hold_ns, row.expected_cached_tokens])?;
        self.measured(&row.sample)?;
        self.shared(&row.sample)
    }

    /// Writes what differs from request to request.
    pub fn measured(&mut self, sample: &Sample) -> rusqlite::Result<()> {
        self.put(to_i64(sample.started_unix_ms))?;
        self.put(&sample.model_answered)?;
        self.put(sample.in_flight)?;
        self.put(sample.connection_new)?;
        self.counts(&[sample.dns_ns, sample.connect_ns, sample.tls_ns])?;
        // No request has an empty body: 0 stands for one that was not sent, as in earlier versions.
        self.put(to_i64(sample.request_bytes.unwrap_or(0)))?;
        self.put(sample.status)?;
        self.put(sample.finish.map(FinishReason::name))?;
        self.put(sample.failure.map(FailureKind::name))?;
        self.counts(&[sample.wait_ns, sample.ttfb_ns, sample.ttft_ns])?;
        self.put(sample.ttft_missing.as_deref())?;
        self.counts(&[sample.ttfat_ns, sample.answer_ns, Some(sample.total_ns)])?;
        self.put(sample.output_speed.filter(|speed| speed.is_finite()))?;
        self.put(sample.output_speed_missing.as_deref())?;
        self.counts(&[Some(sample.text_events), Some(sample.chunks)])?;
        self.counts(&[sample.gap_p50_ns, sample.gap_p99_ns, sample.gap_max_ns])?;
        match sample.gaps.is_empty() {
            true => self.put("[]")?,
            false => self.put(serde_json::to_string(&sample.gaps).unwrap_or_else(|_| "[]".to_owned()))?,
        }
        self.counts(&[sample.input_tokens_std, Some(sample.output_tokens_std)])?;
        self.counts(&[sample.input_tokens, sample.output_tokens, sample.reasoning_tokens])?;
        self.counts(&[sample.cached_tokens, sample.cache_write_tokens])?;
        self.put(sample.cost_usd.filter(|cost| cost.is_finite()))?;
        self.put(sample.cost_basis.name())
    }

    /// Writes what many samples have in common.
    pub fn shared(&mut self, sample: &Sample) -> rusqlite::Result<()> {
        self.put(&sample.provider)?;
        self.put(&sample.model)?;
        self.put(sample.dialect.as_ref())?;
        self.put(sample.stream)?;
        self.put(sample.output_limit)?;
        self.put(&sample.conditions.region)?;
        self.put(&sample.conditions.host)?;
        self.put(&sample.conditions.tokenizer)?;
        self.put(&sample.conditions.fingerprint)?;
        self.put(&sample.conditions.version)
    }

    fn counts(&mut self, counts: &[Option<u64>]) -> rusqlite::Result<()> {
        counts.iter().try_for_each(|count| self.put(count.map(to_i64)))
    }
}

/// SQLite integers are signed: clamps larger counts.
pub(crate) fn to_i64(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// A row as an engine gives it.
enum Cells<'r> {
    Sqlite(&'r Row<'r>),
    Values(&'r [Value]),
}

/// Reads the columns of a row in order; an invalid value is an error that names the column.
pub struct Reader<'r> {
    cells: Cells<'r>,
    /// The columns from the second on; the first is `id`.
    columns: &'static [&'static str],
    next: usize,
    path: &'r Path,
}

impl<'r> Reader<'r> {
    /// Of a row whose first column is `id` and the others `columns`.
    pub(crate) fn new(row: &'r Row<'r>, columns: &'static [&'static str], path: &'r Path) -> Reader<'r> {
        Reader { cells: Cells::Sqlite(row), columns, next: 0, path }
    }

    /// The same of values, from what is named by `path`.
    pub(crate) fn of_values(values: &'r [Value], columns: &'static [&'static str], path: &'r Path) -> Reader<'r> {
        Reader { cells: Cells::Values(values), columns, next: 0, path }
    }

    /// The whole row, if the columns are [`COLUMNS`]. Rows in sequence share the conditions that they have in common.
    pub(crate) fn attempt(mut self, shared: &mut SharedConditions) -> Result<Attempt, StoreError> {
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
            session: self.opt_text()?,
            overhead_ns: self.opt_count()?,
            responses: self.opt_count()?,
            response_bytes: self.opt_count()?,
            hold_ns: self.opt_count()?,
            expected_cached_tokens: self.opt_count()?,
            sample: self.sample(shared)?,
        })
    }

    /// A sample, if the columns are those of [`sample_columns`].
    pub(crate) fn sample(&mut self, shared: &mut SharedConditions) -> Result<Sample, StoreError> {
        let measured = Sample {
            started_unix_ms: self.count()?,
            model_answered: self.opt_text()?,
            in_flight: self.count()?,
            connection_new: self.boolean()?,
            dns_ns: self.opt_count()?,
            connect_ns: self.opt_count()?,
            tls_ns: self.opt_count()?,
            request_bytes: Some(self.count()?).filter(|bytes| *bytes > 0),
            status: self.opt_count()?,
            finish: self.opt_named(<FinishReason as Named>::ALL, FinishReason::name)?,
            failure: self.opt_named(&FailureKind::ALL, FailureKind::name)?,
            wait_ns: self.opt_count()?,
            ttfb_ns: self.opt_count()?,
            ttft_ns: self.opt_count()?,
            ttft_missing: self.opt_text()?.map(Cow::Owned),
            ttfat_ns: self.opt_count()?,
            answer_ns: self.opt_count()?,
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
            ..Sample::default()
        };
        Ok(Sample {
            provider: self.text()?,
            model: self.text()?,
            dialect: self.text()?.into(),
            stream: self.boolean()?,
            output_limit: self.opt_count()?,
            conditions: self.conditions(shared)?,
            ..measured
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
    pub(crate) fn text(&mut self) -> Result<String, StoreError> {
        self.str().map(str::to_owned)
    }

    /// An optional text.
    pub(crate) fn opt_text(&mut self) -> Result<Option<String>, StoreError> {
        self.opt_str().map(|text| text.map(str::to_owned))
    }

    /// A required text, borrowed from the row.
    pub(crate) fn str(&mut self) -> Result<&'r str, StoreError> {
        self.opt_str()?.ok_or_else(|| self.damaged())
    }

    /// An optional text, borrowed from the row.
    pub(crate) fn opt_str(&mut self) -> Result<Option<&'r str>, StoreError> {
        match self.take()? {
            ValueRef::Null => Ok(None),
            ValueRef::Text(bytes) => std::str::from_utf8(bytes).map(Some).map_err(|_| self.damaged()),
            _ => Err(self.damaged()),
        }
    }

    /// A required count.
    pub(crate) fn count<N: TryFrom<i64>>(&mut self) -> Result<N, StoreError> {
        self.opt_count()?.ok_or_else(|| self.damaged())
    }

    /// An optional count.
    pub(crate) fn opt_count<N: TryFrom<i64>>(&mut self) -> Result<Option<N>, StoreError> {
        match self.take()? {
            ValueRef::Null => Ok(None),
            ValueRef::Integer(value) => N::try_from(value).map(Some).map_err(|_| self.damaged()),
            _ => Err(self.damaged()),
        }
    }

    /// An optional real number.
    pub(crate) fn opt_real(&mut self) -> Result<Option<f64>, StoreError> {
        match self.take()? {
            ValueRef::Null => Ok(None),
            ValueRef::Real(value) => Ok(Some(value)),
            _ => Err(self.damaged()),
        }
    }

    /// A required real number.
    pub(crate) fn real(&mut self) -> Result<f64, StoreError> {
        self.opt_real()?.ok_or_else(|| self.damaged())
    }

    /// 0 or 1.
    pub(crate) fn boolean(&mut self) -> Result<bool, StoreError> {
        match self.count::<i64>()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.damaged()),
        }
    }

    /// A required enum value.
    pub(crate) fn named<T: Copy>(&mut self, all: &[T], name: fn(T) -> &'static str) -> Result<T, StoreError> {
        self.opt_named(all, name)?.ok_or_else(|| self.damaged())
    }

    /// An optional enum value.
    pub(crate) fn opt_named<T: Copy>(
        &mut self,
        all: &[T],
        name: fn(T) -> &'static str,
    ) -> Result<Option<T>, StoreError> {
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
        match &self.cells {
            Cells::Sqlite(row) => row.get_ref(self.next).map_err(|error| StoreError::of(self.path, &error)),
            Cells::Values(values) => Ok(values.get(self.next).map_or(ValueRef::Null, ValueRef::from)),
        }
    }

    /// The value of a column as it is.
    fn value(&self, column: usize) -> Option<Value> {
        match &self.cells {
            Cells::Sqlite(row) => row.get(column).ok(),
            Cells::Values(values) => values.get(column).cloned(),
        }
    }

    /// An error for the column read last.
    fn damaged(&self) -> StoreError {
        let value = match self.value(self.next) {
            Some(Value::Null) => "nothing".to_owned(),
            Some(Value::Integer(value)) => value.to_string(),
            Some(Value::Real(value)) => value.to_string(),
            Some(Value::Text(text)) => text.chars().take(80).collect(),
            Some(Value::Blob(_)) | None => "bytes".to_owned(),
        };
        let row = match self.value(0) {
            Some(Value::Integer(id)) => id,
            _ => 0,
        };
        StoreError::Damaged { path: self.path.to_owned(), row, column: self.columns[self.next - 1], value }
    }
}
