//! The tables of a monitor's database. Invariant: a released migration is never changed; a newer schema is rejected.

use super::found::{ESTIMATE, EVENT, NOTICE, PROBER};
use super::read::probe_columns;
use super::rows::CYCLE_IS_OPEN;
use crate::database::Format;
use crate::outgoing::{self, pairs, trigger};
use crate::row::{sample_columns, to_i64};

/// A monitor's database: "tkrm".
pub(crate) static MONITOR: Format = Format {
    what: "a monitor's database",
    application_id: 0x746b_726d,
    migrations: &[VERSION_1, VERSION_2, VERSION_3, outgoing::SCHEMA, VERSION_5],
};

/// What fills the spool for ClickHouse. A probe goes out once its cycle has ended, and again when it is put into quarantine later; a prober
/// whenever more is known of it.
pub(super) fn triggers() -> Vec<(&'static str, String)> {
    let probe = probe_entry("NEW", "WHERE s.id = NEW.series");
    let after_insert = |name, table: &str, columns: &[&str]| {
        trigger(name, &format!("AFTER INSERT ON {table}"), &entry(table, columns, "NEW", ""))
    };
    let prober = entry("probers", &PROBER[..KNOWN_OF_PROBER], "NEW", "");
    vec![
        trigger(
            "outgoing_probes",
            &format!("AFTER INSERT ON probes WHEN NEW.quarantine IS NOT '{CYCLE_IS_OPEN}'"),
            &probe,
        ),
        trigger(
            "outgoing_probes_again",
            &format!(
                "AFTER UPDATE OF quarantine ON probes WHEN NEW.quarantine IS NOT OLD.quarantine \
                 AND NEW.quarantine IS NOT '{CYCLE_IS_OPEN}'"
            ),
            &probe,
        ),
        after_insert("outgoing_events", "events", &EVENT),
        after_insert("outgoing_notices", "notices", &NOTICE),
        after_insert("outgoing_estimates", "estimates", &ESTIMATE),
        trigger("outgoing_probers", "AFTER INSERT ON probers", &prober),
        trigger("outgoing_probers_again", "AFTER UPDATE OF seen_unix_ms, missed, skew_ms ON probers", &prober),
    ]
}

/// Statements that put into the spool what was kept since a time (ms since 1970), before triggers see what comes.
pub(super) fn kept_since(from_unix_ms: u64) -> String {
    let from = to_i64(from_unix_ms);
    let of_probes = format!(
        ", probes p WHERE s.id = p.series AND p.started_unix_ms >= {from} AND p.quarantine IS NOT '{CYCLE_IS_OPEN}' ORDER BY p.id"
    );
    let statements = [
        probe_entry("p", &of_probes),
        entry("events", &EVENT, "t", &format!(" FROM events t WHERE t.at_unix_ms >= {from} ORDER BY t.id")),
        entry("notices", &NOTICE, "t", &format!(" FROM notices t WHERE t.at_unix_ms >= {from} ORDER BY t.id")),
        entry("estimates", &ESTIMATE, "t", " FROM estimates t"),
        entry("probers", &PROBER[..KNOWN_OF_PROBER], "t", " FROM probers t"),
    ];
    statements.map(|statement| statement + ";").concat()
}

/// Of [`PROBER`], what is a column of its table: the rest is counted.
const KNOWN_OF_PROBER: usize = PROBER.len() - 2;

/// The statement that puts a row into the spool.
fn entry(table: &str, columns: &[&str], prefix: &str, from: &str) -> String {
    format!("INSERT INTO outgoing (kind, row) SELECT '{table}', json_object({}){from}", pairs(columns, prefix))
}

/// The same of a probe, which is the row of `series s` as well.
fn probe_entry(prefix: &str, more: &str) -> String {
    let (measured, shared) = sample_columns();
    let of_series = ["source", "endpoint", "workload", "place", "prober"];
    let is_of_series = |name: &&&str| of_series.contains(*name) || shared.contains(*name);
    let of_probe: Vec<&&str> = probe_columns().iter().filter(|name| !is_of_series(name)).collect();
    debug_assert_eq!(of_probe.len(), probe_columns().len() - of_series.len() - shared.len());
    debug_assert!(measured.iter().all(|name| of_probe.contains(&name)));
    format!(
        "INSERT INTO outgoing (kind, row) SELECT 'probes', json_object({}, {}) FROM series s {more}",
        pairs(of_series.iter().chain(shared), "s"),
        pairs(of_probe, prefix),
    )
}

/// Times are ms since 1970 or whole nanoseconds, money is USD, speeds are tokens per second, booleans are 0 or 1, absent is NULL.
/// What many probes have in common is one row of `series`.
const VERSION_1: &str = "
CREATE TABLE series (
    id INTEGER PRIMARY KEY,
    source TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    workload TEXT NOT NULL,
    place TEXT NOT NULL,
    prober TEXT NOT NULL,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    dialect_out TEXT NOT NULL,
    stream INTEGER NOT NULL,
    output_limit INTEGER,
    region TEXT,
    host TEXT,
    tokenizer TEXT,
    fingerprint TEXT,
    version TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX series_by_values ON series
    (endpoint, workload, place, prober, source, provider, model, dialect_out, stream, coalesce(output_limit, -1),
     coalesce(region, ''), coalesce(host, ''), coalesce(tokenizer, ''), coalesce(fingerprint, ''), version);
CREATE TABLE probes (
    id INTEGER PRIMARY KEY,
    series INTEGER NOT NULL REFERENCES series (id),
    probe TEXT NOT NULL,
    cycle TEXT NOT NULL,
    slot_unix_ms INTEGER NOT NULL,
    due_unix_ms INTEGER NOT NULL,
    is_further INTEGER NOT NULL,
    quarantine TEXT,
    reason TEXT,
    started_unix_ms INTEGER NOT NULL,
    model_answered TEXT,
    in_flight INTEGER NOT NULL,
    connection_new INTEGER NOT NULL,
    dns_ns INTEGER,
    connect_ns INTEGER,
    tls_ns INTEGER,
    request_bytes INTEGER NOT NULL,
    status INTEGER,
    finish TEXT,
    failure TEXT,
    wait_ns INTEGER,
    ttfb_ns INTEGER,
    ttft_ns INTEGER,
    ttft_missing TEXT,
    ttfat_ns INTEGER,
    answer_ns INTEGER,
    total_ns INTEGER NOT NULL,
    output_speed REAL,
    output_speed_missing TEXT,
    text_events INTEGER NOT NULL,
    chunks INTEGER NOT NULL,
    gap_p50_ns INTEGER,
    gap_p99_ns INTEGER,
    gap_max_ns INTEGER,
    gaps TEXT NOT NULL,
    input_tokens_std INTEGER,
    output_tokens_std INTEGER NOT NULL,
    input_tokens INTEGER,
    output_tokens INTEGER,
    reasoning_tokens INTEGER,
    cached_tokens INTEGER,
    cache_write_tokens INTEGER,
    cost_usd REAL,
    cost_basis TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX probes_by_name ON probes (probe);
CREATE INDEX probes_by_time ON probes (started_unix_ms);
CREATE INDEX probes_by_cycle ON probes (cycle);
CREATE TABLE cycles (
    id INTEGER PRIMARY KEY,
    cycle TEXT NOT NULL UNIQUE,
    prober TEXT NOT NULL,
    place TEXT NOT NULL,
    begun_unix_ms INTEGER NOT NULL,
    ended_unix_ms INTEGER,
    reference TEXT,
    quarantine TEXT
) STRICT;
CREATE INDEX cycles_open ON cycles (cycle) WHERE ended_unix_ms IS NULL;
CREATE TABLE events (
    id INTEGER PRIMARY KEY,
    at_unix_ms INTEGER NOT NULL,
    endpoint TEXT NOT NULL,
    workload TEXT NOT NULL,
    place TEXT NOT NULL,
    metric TEXT NOT NULL,
    kind TEXT NOT NULL,
    since_unix_ms INTEGER NOT NULL,
    since_earliest_unix_ms INTEGER NOT NULL,
    since_latest_unix_ms INTEGER NOT NULL,
    change REAL NOT NULL,
    low REAL NOT NULL,
    high REAL NOT NULL,
    p REAL NOT NULL,
    n INTEGER NOT NULL,
    remark TEXT
) STRICT;
CREATE UNIQUE INDEX events_by_values ON events (at_unix_ms, endpoint, workload, place, metric, kind, since_unix_ms);
CREATE TABLE notices (
    id INTEGER PRIMARY KEY,
    at_unix_ms INTEGER NOT NULL,
    prober TEXT NOT NULL,
    text TEXT NOT NULL
) STRICT;
CREATE TABLE probers (
    prober TEXT PRIMARY KEY,
    place TEXT NOT NULL,
    seen_unix_ms INTEGER NOT NULL,
    missed INTEGER NOT NULL DEFAULT 0,
    -- Samples up to here went through the detector.
    detected_unix_ms INTEGER NOT NULL DEFAULT 0
) STRICT;
";

/// What is still to be delivered, and what came from elsewhere.
const VERSION_2: &str = "
CREATE TABLE alerts (
    -- Of the rules of this monitor; one row.
    id INTEGER PRIMARY KEY CHECK (id = 1),
    state TEXT NOT NULL
) STRICT;
CREATE TABLE deliveries (
    id INTEGER PRIMARY KEY,
    message TEXT NOT NULL,
    receiver TEXT NOT NULL,
    made_unix_ms INTEGER NOT NULL,
    delivery TEXT NOT NULL,
    -- Of those that were given up.
    given_up_unix_ms INTEGER
) STRICT;
CREATE UNIQUE INDEX deliveries_by_name ON deliveries (message, receiver);
CREATE TABLE spool (
    -- Never used again once it is gone: the hub knows by it what it has.
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    entry TEXT NOT NULL
) STRICT;
CREATE TABLE spool_name (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    name TEXT NOT NULL
) STRICT;
CREATE TABLE pushed (
    prober TEXT NOT NULL,
    spool TEXT NOT NULL,
    -- The latest entry of that spool that is kept here.
    last INTEGER NOT NULL,
    PRIMARY KEY (prober, spool)
) STRICT, WITHOUT ROWID;
ALTER TABLE probers ADD COLUMN skew_ms INTEGER;
";

/// What was computed and not measured: in no statistic of probes.
const VERSION_3: &str = "
CREATE TABLE estimates (
    endpoint TEXT NOT NULL,
    model TEXT NOT NULL,
    workload TEXT NOT NULL,
    in_flight INTEGER NOT NULL,
    output_speed REAL NOT NULL,
    low REAL NOT NULL,
    high REAL NOT NULL,
    made_unix_ms INTEGER NOT NULL,
    PRIMARY KEY (endpoint, model, workload, in_flight)
) STRICT, WITHOUT ROWID;
";

/// What rules remember is written in parts, so that a probe does not write all of it.
const VERSION_5: &str = "
CREATE TABLE alert_parts (
    -- A JSON array: what kind of part, and which.
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
-- What was one text of all.
CREATE TEMP TABLE remembered AS SELECT CASE WHEN json_valid(state) THEN state ELSE '{}' END AS state FROM alerts;
INSERT OR REPLACE INTO alert_parts
    SELECT json_array('place', f.value->>'$[0][0]', f.value->>'$[0][1]', f.value->>'$[0][2]', f.value->>'$[0][3]'),
        '[' || (f.value->'$[1]') || ',' || (f.value->'$[2]') || ',' || CASE WHEN EXISTS
            (SELECT 1 FROM json_each(state, '$.alerts.bad') b WHERE b.value = f.value->'$[0]') THEN 'true' ELSE 'false' END || ']'
    FROM remembered, json_each(state, '$.alerts.findings') f;
INSERT OR REPLACE INTO alert_parts
    SELECT json_array('incident', CAST(i.value->>'$.id' AS TEXT)), i.value
    FROM remembered, json_each(state, '$.alerts.incidents') i;
INSERT OR REPLACE INTO alert_parts
    SELECT json_array('opened'), state->'$.alerts.opened' FROM remembered WHERE state->'$.alerts.opened' IS NOT NULL;
INSERT OR REPLACE INTO alert_parts
    SELECT json_array('lasting', l.value->>'$[0][0]', l.value->>'$[0][1]', l.value->>'$[0][2]', l.value->>'$[0][3]', l.value->>'$[0][4]'),
        l.value->'$[1]'
    FROM remembered, json_each(state, '$.lasting') l;
DROP TABLE remembered;
DROP TABLE alerts;
";
