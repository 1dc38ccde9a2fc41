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
ALTER TABLE attempts ADD COLUMN answer_ns INTEGER;
ALTER TABLE attempts ADD COLUMN session TEXT;
CREATE INDEX attempts_by_session ON attempts (session) WHERE session IS NOT NULL;
ALTER TABLE attempts ADD COLUMN responses INTEGER;
ALTER TABLE attempts ADD COLUMN response_bytes INTEGER;
ALTER TABLE attempts ADD COLUMN hold_ns INTEGER;
ALTER TABLE attempts ADD COLUMN expected_cached_tokens INTEGER;
CREATE TABLE objects (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    key TEXT,
    lane TEXT NOT NULL,
    target TEXT NOT NULL,
    made_unix_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX objects_by_time ON objects (kind, made_unix_ms);
CREATE TABLE spending (
    day INTEGER NOT NULL,
    key TEXT NOT NULL,
    usd REAL NOT NULL,
    PRIMARY KEY (day, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE spending_through (id INTEGER NOT NULL) STRICT;
INSERT INTO attempts (call, attempt, role, end, won, started_unix_ms, key, alias, lane, provider, model, model_answered,
    dialect_in, dialect_out, stream, in_flight, connection_new, request_bytes, output_limit, version, status, finish,
    failure, wait_ns, ttfb_ns, ttft_ns, total_ns, overhead_ns, output_speed, text_events, chunks, gap_p50_ns, gap_p99_ns,
    gap_max_ns, gaps, input_tokens_std, output_tokens_std, input_tokens, output_tokens, reasoning_tokens, cached_tokens,
    cache_write_tokens, cost_usd, cost_basis, dns_ns, connect_ns, tls_ns, ttft_missing, ttfat_ns, output_speed_missing, region, host, tokenizer,
    fingerprint, answer_ns, session, responses, response_bytes, hold_ns, expected_cached_tokens)
VALUES ('kept', 1, 'hedge', 'failed', 0, 1700000000000, 'ada', 'chat', 'north', 'north', 'large', 'large-2', 'openai-chat',
    'anthropic', 1, 3, 0, 412, 800, '0.1.0', 200, 'stop', 'truncated', 1000, 2000, 3000, 4000, 5000, 51.5, 6, 5, 1200, 1300,
    1400, '[[90,3],[101,1]]', 10, 20, 11, 21, 2, 3, 4, 0.0125, 'reported', 100, 200, 300, NULL, 3500,
    NULL, 'eu', 'gate-1', 'o200k_base', NULL, 3900, 'run-17', 3, 4100, 250, 2);
INSERT INTO refusals (minute_unix_ms, first_unix_ms, last_unix_ms, key, alias, reason, status, count)
VALUES (1700000040000, 1700000041234, 1700000091234, 'ada', 'chat', 'too_many_requests', 429, 7);
INSERT INTO objects (id, kind, key, lane, target, made_unix_ms)
VALUES ('file-1', 'stored', 'ada', 'north', 'large at http://north', 1700000041234);
INSERT INTO spending VALUES (19675, 'ada', 0.0125);
INSERT INTO spending_through VALUES (1);
PRAGMA application_id = 0x746b7274;
PRAGMA user_version = 10;
