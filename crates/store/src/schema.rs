//! The database schema and its migrations. Invariant: a released migration is never changed; a newer schema is rejected.

use crate::database::Format;
use crate::outgoing::{self, pairs, trigger};
use crate::row::COLUMNS;

/// A log: "tkrt".
pub(crate) static LOG: Format = Format { what: "a log", application_id: 0x746b_7274, migrations: &MIGRATIONS };

/// The newest version; SQLite's `user_version` holds that of a file.
pub const SCHEMA_VERSION: u32 = MIGRATIONS.len() as u32;

/// Migrations from each version to the next, starting with an empty file.
const MIGRATIONS: [&str; 10] = [
    VERSION_1,
    VERSION_2,
    VERSION_3,
    VERSION_4,
    VERSION_5,
    outgoing::SCHEMA,
    VERSION_7,
    VERSION_8,
    VERSION_9,
    VERSION_10,
];

/// What fills the spool for ClickHouse: each row that is added, and what is added to a refusal.
pub(crate) fn triggers() -> Vec<(&'static str, String)> {
    let refusal = |count: &str| {
        format!(
            "INSERT INTO outgoing (kind, row) VALUES ('refusals', json_object({}, 'count', {count}))",
            pairs(&["minute_unix_ms", "first_unix_ms", "last_unix_ms", "key", "alias", "reason", "status"], "NEW")
        )
    };
    vec![
        trigger(
            "outgoing_attempts",
            "AFTER INSERT ON attempts",
            &format!("INSERT INTO outgoing (kind, row) VALUES ('attempts', json_object({}))", pairs(&COLUMNS, "NEW")),
        ),
        trigger("outgoing_refusals", "AFTER INSERT ON refusals", &refusal("NEW.count")),
        trigger(
            "outgoing_refusals_again",
            "AFTER UPDATE OF count ON refusals WHEN NEW.count > OLD.count",
            &refusal("NEW.count - OLD.count"),
        ),
    ]
}

/// Times are whole nanoseconds, money is USD, speeds are tokens per second, booleans are 0 or 1, absent is NULL.
const VERSION_1: &str = "
CREATE TABLE attempts (
    id INTEGER PRIMARY KEY,
    call TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    role TEXT NOT NULL,
    end TEXT NOT NULL,
    won INTEGER NOT NULL,
    started_unix_ms INTEGER NOT NULL,
    key TEXT,
    alias TEXT NOT NULL,
    lane TEXT NOT NULL,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    model_answered TEXT,
    dialect_in TEXT NOT NULL,
    dialect_out TEXT NOT NULL,
    stream INTEGER NOT NULL,
    in_flight INTEGER NOT NULL,
    connection_new INTEGER NOT NULL,
    request_bytes INTEGER NOT NULL,
    output_limit INTEGER,
    version TEXT NOT NULL,
    status INTEGER,
    finish TEXT,
    failure TEXT,
    wait_ns INTEGER,
    ttfb_ns INTEGER,
    ttft_ns INTEGER,
    total_ns INTEGER NOT NULL,
    overhead_ns INTEGER,
    output_speed REAL,
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
CREATE INDEX attempts_by_time ON attempts (started_unix_ms);
CREATE INDEX attempts_by_lane ON attempts (lane, started_unix_ms);
CREATE INDEX attempts_by_call ON attempts (call);
";

/// Refused requests of a minute that are alike are one row: the index says what alike means.
const VERSION_2: &str = "
CREATE TABLE refusals (
    id INTEGER PRIMARY KEY,
    minute_unix_ms INTEGER NOT NULL,
    first_unix_ms INTEGER NOT NULL,
    last_unix_ms INTEGER NOT NULL,
    key TEXT,
    alias TEXT,
    reason TEXT NOT NULL,
    status INTEGER NOT NULL,
    count INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX refusals_by_minute ON refusals
    (minute_unix_ms, reason, status, coalesce(key, ''), coalesce(alias, ''));
";

/// What a row says beside that of earlier versions: the opening of the connection, figures and why they are missing, conditions.
const VERSION_3: &str = "
ALTER TABLE attempts ADD COLUMN dns_ns INTEGER;
ALTER TABLE attempts ADD COLUMN connect_ns INTEGER;
ALTER TABLE attempts ADD COLUMN tls_ns INTEGER;
ALTER TABLE attempts ADD COLUMN ttft_missing TEXT;
ALTER TABLE attempts ADD COLUMN ttfat_ns INTEGER;
ALTER TABLE attempts ADD COLUMN output_speed_missing TEXT;
ALTER TABLE attempts ADD COLUMN region TEXT;
ALTER TABLE attempts ADD COLUMN host TEXT;
ALTER TABLE attempts ADD COLUMN tokenizer TEXT;
ALTER TABLE attempts ADD COLUMN fingerprint TEXT;
";

/// The time of an answer in one piece, of which there is no time to first token: earlier versions wrote the one for the other.
const VERSION_4: &str = "
ALTER TABLE attempts ADD COLUMN answer_ns INTEGER;
UPDATE attempts SET answer_ns = ttft_ns, ttft_ns = NULL, ttfat_ns = NULL,
    ttft_missing = 'not streamed: the answer came in one piece'
    WHERE stream = 0 AND ttft_ns IS NOT NULL;
";

/// The session that a client names; of most calls none, and these are not in the index.
const VERSION_5: &str = "
ALTER TABLE attempts ADD COLUMN session TEXT;
CREATE INDEX attempts_by_session ON attempts (session) WHERE session IS NOT NULL;
";

/// What a row says of a session of a realtime API; and whose the objects are that clients have made at providers, and where.
const VERSION_7: &str = "
ALTER TABLE attempts ADD COLUMN responses INTEGER;
ALTER TABLE attempts ADD COLUMN response_bytes INTEGER;
CREATE TABLE objects (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    key TEXT,
    lane TEXT NOT NULL,
    target TEXT NOT NULL,
    made_unix_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX objects_by_time ON objects (kind, made_unix_ms);
";

/// For how long a first token was held back.
const VERSION_8: &str = "
ALTER TABLE attempts ADD COLUMN hold_ns INTEGER;
";

/// What each key has spent, by day (days since 1970), and up to which row ([`crate::spending`]).
const VERSION_9: &str = "
CREATE TABLE spending (
    day INTEGER NOT NULL,
    key TEXT NOT NULL,
    usd REAL NOT NULL,
    PRIMARY KEY (day, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE spending_through (id INTEGER NOT NULL) STRICT;
INSERT INTO spending_through VALUES ((SELECT coalesce(max(id), 0) FROM attempts));
INSERT INTO spending SELECT started_unix_ms / 86400000, key, coalesce(sum(cost_usd), 9e999)
    FROM attempts WHERE key IS NOT NULL AND cost_usd IS NOT NULL GROUP BY 1, 2;
";

/// What was expected in a lane's cache.
const VERSION_10: &str = "
ALTER TABLE attempts ADD COLUMN expected_cached_tokens INTEGER;
";
