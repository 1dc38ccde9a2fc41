//! The tables in ClickHouse and their migrations. Invariant: a released migration is never changed; a newer schema is rejected.
//!
//! Times are ms since 1970 or whole nanoseconds, money is USD, as in SQLite. `spool` and `id` say where a row came from.

use super::ClickHouse;
use crate::StoreError;
use rusqlite::types::Value;
use tokrate_core::Span;

/// What a process keeps in ClickHouse.
#[derive(Debug)]
pub(crate) struct Tables {
    /// Its name among the versions.
    kind: &'static str,
    /// Migrations from each version to the next, each of statements.
    migrations: &'static [&'static [&'static str]],
    /// Tables whose rows grow old, with the column of their time.
    aging: &'static [(&'static str, &'static str)],
}

/// A gateway's log.
pub(crate) static LOG: Tables = Tables {
    kind: "log",
    migrations: &[&[ATTEMPTS_1, REFUSALS_1], &[SESSIONS_2], &[HOLD_3], &[EXPECTED_4]],
    aging: &[("attempts", "started_unix_ms"), ("refusals", "minute_unix_ms")],
};

/// A monitor's database.
pub(crate) static MONITOR: Tables = Tables {
    kind: "monitor",
    migrations: &[&[PROBES_1, EVENTS_1], &[NOTICES_2, ESTIMATES_2, PROBERS_2]],
    aging: &[("probes", "started_unix_ms"), ("events", "at_unix_ms"), ("notices", "at_unix_ms")],
};

/// Which versions the tables have, and how long rows are kept in them (seconds; 0 for ever). The latest row counts.
const VERSIONS: &str = "
CREATE TABLE IF NOT EXISTS tokrate_schema (
    kind String,
    version UInt32,
    keep_seconds UInt64,
    at DateTime64(3) DEFAULT now64(3)
) ENGINE = MergeTree ORDER BY (kind, at)";

/// Attempts never change, so that a batch that comes twice is known by its token.
const ATTEMPTS_1: &str = "
CREATE TABLE IF NOT EXISTS attempts (
    spool LowCardinality(String),
    id Int64,
    call String,
    attempt Int64,
    role LowCardinality(String),
    end LowCardinality(String),
    won Int64,
    key LowCardinality(Nullable(String)),
    alias LowCardinality(String),
    lane LowCardinality(String),
    dialect_in LowCardinality(String),
    session Nullable(String),
    overhead_ns Nullable(Int64),
    started_unix_ms Int64,
    model_answered LowCardinality(Nullable(String)),
    in_flight Int64,
    connection_new Int64,
    dns_ns Nullable(Int64),
    connect_ns Nullable(Int64),
    tls_ns Nullable(Int64),
    request_bytes Int64,
    status Nullable(Int64),
    finish LowCardinality(Nullable(String)),
    failure LowCardinality(Nullable(String)),
    wait_ns Nullable(Int64),
    ttfb_ns Nullable(Int64),
    ttft_ns Nullable(Int64),
    ttft_missing Nullable(String),
    ttfat_ns Nullable(Int64),
    answer_ns Nullable(Int64),
    total_ns Int64,
    output_speed Nullable(Float64),
    output_speed_missing Nullable(String),
    text_events Int64,
    chunks Int64,
    gap_p50_ns Nullable(Int64),
    gap_p99_ns Nullable(Int64),
    gap_max_ns Nullable(Int64),
    gaps String,
    input_tokens_std Nullable(Int64),
    output_tokens_std Int64,
    input_tokens Nullable(Int64),
    output_tokens Nullable(Int64),
    reasoning_tokens Nullable(Int64),
    cached_tokens Nullable(Int64),
    cache_write_tokens Nullable(Int64),
    cost_usd Nullable(Float64),
    cost_basis LowCardinality(String),
    provider LowCardinality(String),
    model LowCardinality(String),
    dialect_out LowCardinality(String),
    stream Int64,
    output_limit Nullable(Int64),
    region LowCardinality(Nullable(String)),
    host LowCardinality(Nullable(String)),
    tokenizer LowCardinality(Nullable(String)),
    fingerprint LowCardinality(Nullable(String)),
    version LowCardinality(String),
    INDEX calls call TYPE bloom_filter GRANULARITY 4
) ENGINE = MergeTree
PARTITION BY toYYYYMM(toDateTime(least(intDiv(started_unix_ms, 1000), 4294967295)))
ORDER BY (lane, started_unix_ms, spool, id)
SETTINGS non_replicated_deduplication_window = 10000";

/// What a row says of a session of a realtime API.
const SESSIONS_2: &str = "
ALTER TABLE attempts
    ADD COLUMN IF NOT EXISTS responses Nullable(Int64) AFTER overhead_ns,
    ADD COLUMN IF NOT EXISTS response_bytes Nullable(Int64) AFTER responses";

/// For how long a first token was held back.
const HOLD_3: &str = "
ALTER TABLE attempts
    ADD COLUMN IF NOT EXISTS hold_ns Nullable(Int64) AFTER response_bytes";

/// What was expected in a lane's cache.
const EXPECTED_4: &str = "
ALTER TABLE attempts
    ADD COLUMN IF NOT EXISTS expected_cached_tokens Nullable(Int64) AFTER hold_ns";

/// What was added to refusals that are alike; they are summed up when they are read.
const REFUSALS_1: &str = "
CREATE TABLE IF NOT EXISTS refusals (
    spool LowCardinality(String),
    id Int64,
    minute_unix_ms Int64,
    first_unix_ms Int64,
    last_unix_ms Int64,
    key LowCardinality(Nullable(String)),
    alias LowCardinality(Nullable(String)),
    reason LowCardinality(String),
    status Int64,
    count Int64
) ENGINE = MergeTree
PARTITION BY toYYYYMM(toDateTime(least(intDiv(minute_unix_ms, 1000), 4294967295)))
ORDER BY (minute_unix_ms, reason, status, spool, id)
SETTINGS non_replicated_deduplication_window = 10000";

/// A probe that is put into quarantine later comes again; the newest row of it counts.
const PROBES_1: &str = "
CREATE TABLE IF NOT EXISTS probes (
    spool LowCardinality(String),
    id Int64,
    source LowCardinality(String),
    endpoint LowCardinality(String),
    workload LowCardinality(String),
    place LowCardinality(String),
    prober LowCardinality(String),
    probe String,
    cycle String,
    slot_unix_ms Int64,
    due_unix_ms Int64,
    is_further Int64,
    quarantine LowCardinality(Nullable(String)),
    reason Nullable(String),
    started_unix_ms Int64,
    model_answered LowCardinality(Nullable(String)),
    in_flight Int64,
    connection_new Int64,
    dns_ns Nullable(Int64),
    connect_ns Nullable(Int64),
    tls_ns Nullable(Int64),
    request_bytes Int64,
    status Nullable(Int64),
    finish LowCardinality(Nullable(String)),
    failure LowCardinality(Nullable(String)),
    wait_ns Nullable(Int64),
    ttfb_ns Nullable(Int64),
    ttft_ns Nullable(Int64),
    ttft_missing Nullable(String),
    ttfat_ns Nullable(Int64),
    answer_ns Nullable(Int64),
    total_ns Int64,
    output_speed Nullable(Float64),
    output_speed_missing Nullable(String),
    text_events Int64,
    chunks Int64,
    gap_p50_ns Nullable(Int64),
    gap_p99_ns Nullable(Int64),
    gap_max_ns Nullable(Int64),
    gaps String,
    input_tokens_std Nullable(Int64),
    output_tokens_std Int64,
    input_tokens Nullable(Int64),
    output_tokens Nullable(Int64),
    reasoning_tokens Nullable(Int64),
    cached_tokens Nullable(Int64),
    cache_write_tokens Nullable(Int64),
    cost_usd Nullable(Float64),
    cost_basis LowCardinality(String),
    provider LowCardinality(String),
    model LowCardinality(String),
    dialect_out LowCardinality(String),
    stream Int64,
    output_limit Nullable(Int64),
    region LowCardinality(Nullable(String)),
    host LowCardinality(Nullable(String)),
    tokenizer LowCardinality(Nullable(String)),
    fingerprint LowCardinality(Nullable(String)),
    version LowCardinality(String)
) ENGINE = ReplacingMergeTree(id)
PARTITION BY toYYYYMM(toDateTime(least(intDiv(started_unix_ms, 1000), 4294967295)))
ORDER BY (source, endpoint, workload, place, started_unix_ms, probe)
SETTINGS non_replicated_deduplication_window = 10000";

/// Changes that were found.
const EVENTS_1: &str = "
CREATE TABLE IF NOT EXISTS events (
    spool LowCardinality(String),
    id Int64,
    at_unix_ms Int64,
    endpoint LowCardinality(String),
    workload LowCardinality(String),
    place LowCardinality(String),
    metric LowCardinality(String),
    kind LowCardinality(String),
    since_unix_ms Int64,
    since_earliest_unix_ms Int64,
    since_latest_unix_ms Int64,
    change Float64,
    low Float64,
    high Float64,
    p Float64,
    n Int64,
    remark Nullable(String)
) ENGINE = ReplacingMergeTree(id)
PARTITION BY toYYYYMM(toDateTime(least(intDiv(at_unix_ms, 1000), 4294967295)))
ORDER BY (endpoint, workload, place, metric, kind, at_unix_ms, since_unix_ms)
SETTINGS non_replicated_deduplication_window = 10000";

/// What users should know.
const NOTICES_2: &str = "
CREATE TABLE IF NOT EXISTS notices (
    spool LowCardinality(String),
    id Int64,
    at_unix_ms Int64,
    prober LowCardinality(String),
    text String
) ENGINE = ReplacingMergeTree(id)
PARTITION BY toYYYYMM(toDateTime(least(intDiv(at_unix_ms, 1000), 4294967295)))
ORDER BY (at_unix_ms, prober, text)
SETTINGS non_replicated_deduplication_window = 10000";

/// What was computed and not measured.
const ESTIMATES_2: &str = "
CREATE TABLE IF NOT EXISTS estimates (
    spool LowCardinality(String),
    id Int64,
    endpoint String,
    model String,
    workload String,
    in_flight Int64,
    output_speed Float64,
    low Float64,
    high Float64,
    made_unix_ms Int64
) ENGINE = ReplacingMergeTree(id)
ORDER BY (endpoint, model, workload, in_flight)
SETTINGS non_replicated_deduplication_window = 10000";

/// What a monitor knows of a prober; the newest row of each spool counts, as a prober and its hub may both know of it.
const PROBERS_2: &str = "
CREATE TABLE IF NOT EXISTS probers (
    spool LowCardinality(String),
    id Int64,
    prober LowCardinality(String),
    place LowCardinality(String),
    seen_unix_ms Int64,
    missed Int64,
    detected_unix_ms Int64,
    skew_ms Nullable(Int64)
) ENGINE = ReplacingMergeTree(id)
ORDER BY (prober, spool)
SETTINGS non_replicated_deduplication_window = 10000";

impl ClickHouse {
    /// Makes the tables, or brings them to the newest version, and sets how long rows are kept in them; `None` for ever.
    ///
    /// # Errors
    /// When the server cannot be reached or refuses, or a newer tokrate has made them; they are then left unchanged.
    pub(crate) fn prepare(&self, tables: &'static Tables, keep: Option<Span>) -> Result<(), StoreError> {
        self.execute(VERSIONS)?;
        let known = tables.migrations.len();
        let (found, kept) = self.version(tables)?;
        if found > known {
            let [found, known] = [found, known].map(|version| u32::try_from(version).unwrap_or(u32::MAX));
            return Err(StoreError::Newer { path: self.shown.clone(), found, known });
        }
        // A process that ended between two of them begins with the first again.
        for statement in tables.migrations[found..].iter().copied().flatten() {
            self.execute(statement)?;
        }
        let keep_seconds = keep.map_or(0, |keep| keep.as_nanos().div_ceil(1_000_000_000));
        if kept.unwrap_or(0) != keep_seconds {
            self.age(tables, keep_seconds)?;
        }
        if found < known || kept != Some(keep_seconds) {
            let kind = tables.kind;
            self.execute(&format!(
                "INSERT INTO tokrate_schema (kind, version, keep_seconds) VALUES ('{kind}', {known}, {keep_seconds})"
            ))?;
        }
        Ok(())
    }

    /// The version of the tables, 0 where there are none, and how long rows are kept in them.
    fn version(&self, tables: &Tables) -> Result<(usize, Option<u64>), StoreError> {
        let sql =
            "SELECT version, keep_seconds FROM tokrate_schema WHERE kind = ? ORDER BY version DESC, at DESC LIMIT 1";
        let rows = self.rows(sql, vec![Value::Text(tables.kind.to_owned())])?;
        match rows.first().map(Vec::as_slice) {
            None => Ok((0, None)),
            Some([Value::Integer(version), Value::Integer(keep)]) => {
                Ok((usize::try_from(*version).unwrap_or(usize::MAX), u64::try_from(*keep).ok()))
            }
            Some(_) => Err(self.garbled()),
        }
    }

    fn age(&self, tables: &Tables, keep_seconds: u64) -> Result<(), StoreError> {
        for (table, time) in tables.aging {
            // A table without a time to live refuses to have it removed.
            let keep = if keep_seconds == 0 { FOR_EVER_SECONDS } else { keep_seconds };
            self.execute(&format!(
                "ALTER TABLE {table} MODIFY TTL toDateTime64(least(intDiv({time}, 1000), 4294967295), 0) + toIntervalSecond({keep})"
            ))?;
        }
        Ok(())
    }
}

/// A century, within what a time of the server can hold.
const FOR_EVER_SECONDS: u64 = 100 * 365 * 86_400;
