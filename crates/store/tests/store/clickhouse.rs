//! ClickHouse beside SQLite: its own engine (chdb) behind a small HTTP shim, real sockets and a real kill.
//!
//! `cargo xtask clickhouse` installs the engine and runs these. Invariant: what is expected is what SQLite answers on the same rows.

use crate::folder::Folder;
use crate::rows::{any_row, moderate, row};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::path::{Path, PathBuf};
use tokrate_core::{Rng, Span};
use tokrate_net::{Client, ClientConfig, Clock, Limits, Outgoing, Target};
use tokrate_record::{Attempt, Refusal, RefusalReason, SampleSource};
use tokrate_store::{
    CYCLE_IS_OPEN, ClickHouse, ClickHouseAccess, ClickHouseAddress, EstimateRow, EventRow, Grouping, MonitorStore,
    MonitorWrite, Order, Outgoing as Spool, Post, ProbeQuery, ProbeRow, ProbeStore, Query, Shipping, Sqlite, Store,
    StoreError, Warehouse,
};

#[path = "../../../../tests/clickhouse/engine.rs"]
mod engine;
use engine::Shim;

const PASSWORD: &str = "a&b=c;'pw";

/// The engine; killed when dropped.
struct Engine {
    shim: Shim,
    port: u16,
    data: PathBuf,
}

impl Engine {
    fn start(data: &Path) -> Engine {
        let shim = Shim::start(data, PASSWORD);
        Engine { port: shim.port, shim, data: data.to_owned() }
    }

    fn of(folder: &Folder) -> Engine {
        Engine::start(&folder.log().with_file_name("engine"))
    }

    /// As after `kill -9`, and begun again on the same data.
    fn restart(self) -> Engine {
        let Engine { shim, data, .. } = self;
        drop(shim);
        Engine::start(&data)
    }

    fn access(&self, password: &str) -> ClickHouseAccess {
        let address = ClickHouseAddress::parse(&format!("clickhouse://ada@127.0.0.1:{}/rates", self.port));
        ClickHouseAccess {
            address: address.expect("an address"),
            password: Some(password.to_owned()),
            client: ClientConfig::default(),
            clock: Clock::monotonic(),
        }
    }

    fn database_as(&self, password: &str) -> ClickHouse {
        self.access(password).database()
    }

    fn shipping(&self) -> Shipping {
        Shipping { to: self.database_as(PASSWORD), keep: None }
    }

    /// The answer of the next statement gets lost after it was carried out.
    fn lose_next(&self) {
        let target = Target::parse(&format!("http://127.0.0.1:{}", self.port)).expect("a URL");
        let limits = Limits { idle: Span::from_secs(60), total: Span::from_secs(60), max_body_bytes: 1_000 };
        let outgoing = Outgoing {
            method: http::Method::POST,
            path: "/shim/lose".to_owned(),
            headers: http::HeaderMap::new(),
            body: Vec::new().into(),
        };
        let answer = Client::whole_blocking(&target, outgoing, &ClientConfig::default(), limits, Clock::monotonic());
        assert_eq!(answer.expect("an answer").head.status, 200);
    }
}

/// Sends all that waits; how many entries.
fn ship(path: &Path, what: Warehouse, shipping: &Shipping) -> Result<u64, StoreError> {
    shipping.prepare(what)?;
    let mut spool = Spool::of(path, what)?;
    let mut sent = 0;
    loop {
        match shipping.step(&mut spool)?.entries {
            0 => return Ok(sent),
            entries => sent += entries,
        }
    }
}

fn log_with(folder: &Folder, rows: &[Attempt]) -> Sqlite {
    let mut log = Sqlite::open(&folder.log()).expect("a new log");
    log.fill_outgoing(true).expect("writable");
    log.append(rows).expect("room");
    log
}

fn sorted(mut rows: Vec<Attempt>) -> Vec<String> {
    rows.sort_by_key(|row| row.sample.started_unix_ms);
    let mut rows: Vec<String> = rows.iter().map(|row| format!("{row:?}")).collect();
    rows.sort();
    rows
}

fn queries(rows: &[Attempt]) -> Vec<Query> {
    let first = rows.first();
    let time = first.map(|row| row.sample.started_unix_ms);
    let text = |of: fn(&Attempt) -> &String| first.map(|row| of(row).clone());
    vec![
        Query::default(),
        Query { from_unix_ms: time, ..Query::default() },
        Query { until_unix_ms: time, ..Query::default() },
        Query { lane: text(|row| &row.lane), ..Query::default() },
        Query { alias: text(|row| &row.alias), ..Query::default() },
        Query { call: text(|row| &row.call), ..Query::default() },
        Query { provider: Some("'; DROP TABLE attempts; --\\\t\n\0{p0:String}?".to_owned()), ..Query::default() },
        Query { key: first.and_then(|row| row.key.clone()), end: first.map(|row| row.end), ..Query::default() },
    ]
}

/// What is asked of a log, as text: everything but the order of rows of the same time.
fn answers(store: &dyn Store, query: &Query) -> Vec<String> {
    let mut answers = sorted(store.attempts(query).expect("readable"));
    for (lane, alias, hour) in [(false, false, false), (true, true, false), (true, false, true)] {
        answers.push(format!("{:?}", store.summarise(query, Grouping { lane, alias, hour }).expect("readable")));
    }
    answers.push(format!("{:?}", store.count(query).expect("readable")));
    answers.push(format!("{:?}", store.refusals(query).expect("readable")));
    answers.push(format!("{:?}", store.refused_by_reason(query).expect("readable")));
    answers
}

#[test]
#[ignore = "needs ClickHouse's engine: cargo xtask clickhouse"]
fn both_engines_answer_alike() {
    let folder = Folder::new("clickhouse-alike");
    let engine = Engine::of(&folder);
    let rows = proptest::collection::vec(any_row(), 0..40);
    let case = std::cell::Cell::new(0);
    let outcome = TestRunner::new(ProptestConfig { cases: 24, max_shrink_iters: 40, ..ProptestConfig::default() }).run(
        &rows,
        |rows| {
            case.set(case.get() + 1);
            let rows: Vec<Attempt> = rows.into_iter().map(moderate).collect();
            // A database of its own for each case.
            let address = format!("clickhouse://ada@127.0.0.1:{}/case_{}", engine.port, case.get());
            let address = ClickHouseAddress::parse(&address).expect("an address");
            let access = ClickHouseAccess { address, ..engine.access(PASSWORD) };
            let of_case = Folder::new(&format!("clickhouse-alike-{}", case.get()));
            let mut log = log_with(&of_case, &rows);
            let refusal = |first_unix_ms| Refusal {
                first_unix_ms,
                last_unix_ms: first_unix_ms + 5,
                key: None,
                alias: rows.first().map(|row| row.alias.clone()),
                reason: RefusalReason::ALL[0],
                status: 429,
                count: 3,
            };
            // Twice in a minute, and again much later.
            for first in [1_750_000_000_000, 1_750_000_000_900, 1_760_000_000_000] {
                log.append_refusals(&[refusal(first)]).expect("room");
            }
            let shipping = Shipping { to: access.database(), keep: None };
            prop_assert_eq!(ship(&of_case.log(), Warehouse::Log, &shipping).expect("taken"), rows.len() as u64 + 3);
            let there = shipping.to.log();
            for query in queries(&rows) {
                prop_assert_eq!(answers(&there, &query), answers(&log, &query), "{:?}", query);
            }
            Ok(())
        },
    );
    outcome.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
#[ignore = "needs ClickHouse's engine: cargo xtask clickhouse"]
fn rows_wait_while_the_engine_is_away_and_are_there_once_over_kills() {
    let folder = Folder::new("clickhouse-away");
    let mut engine = Engine::of(&folder);
    let mut rng = Rng::root(7);
    let mut log = log_with(&folder, &[]);
    let mut written = 0;
    for round in 0..12 {
        let many = 1 + rng.below(200);
        log.append(&(written..written + many).map(row).collect::<Vec<_>>()).expect("room");
        written += many;
        match round % 4 {
            // The batch is there, and nobody knows: it is sent again, with more rows behind it.
            0 => {
                engine.shipping().prepare(Warehouse::Log).expect("tables");
                let mut spool = Spool::of(&folder.log(), Warehouse::Log).expect("a spool");
                engine.lose_next();
                engine.shipping().step(&mut spool).expect_err("the answer is lost");
                assert!(spool.waiting().expect("readable") >= many);
            }
            // The engine is killed, and away meanwhile.
            1 => {
                let gone = engine.shipping();
                engine = engine.restart();
                let mut spool = Spool::of(&folder.log(), Warehouse::Log).expect("a spool");
                let away = gone.step(&mut spool).expect_err("nobody listens there");
                assert!(matches!(away, StoreError::Unreachable { .. }), "{away}");
            }
            // This process ends with a batch under way, and begins anew.
            2 => {
                drop(log);
                log = Sqlite::open(&folder.log()).expect("a log");
                log.fill_outgoing(true).expect("writable");
            }
            _ => drop(ship(&folder.log(), Warehouse::Log, &engine.shipping()).expect("taken")),
        }
    }
    ship(&folder.log(), Warehouse::Log, &engine.shipping()).expect("taken");
    let there = engine.shipping().to.log();
    assert_eq!(there.count(&Query::default()).expect("readable"), written);
    assert_eq!(
        there.attempts(&Query::default()).expect("readable"),
        log.attempts(&Query::default()).expect("readable")
    );
    assert_eq!(
        there.calls(&Query::default(), 3).expect("readable"),
        log.calls(&Query::default(), 3).expect("readable")
    );
    let newest = Query { order: Order::Newest, limit: Some(2), ..Query::default() };
    assert_eq!(there.attempts(&newest).expect("readable"), log.attempts(&newest).expect("readable"));
    for most in [3, 10_000] {
        let report = |store: &dyn Store| store.report(&Query::default(), 1_900_000_000_000, most).expect("readable");
        assert_eq!(report(&there), report(&log), "at most {most} rows");
    }
    let prefix = Query { call_prefix: Some("call-1".to_owned()), ..Query::default() };
    assert_eq!(there.attempts(&prefix).expect("readable").len(), log.attempts(&prefix).expect("readable").len());
}

#[test]
#[ignore = "needs ClickHouse's engine: cargo xtask clickhouse"]
fn a_probe_goes_out_when_its_cycle_has_ended_and_again_when_it_is_put_into_quarantine() {
    let folder = Folder::new("clickhouse-probes");
    let engine = Engine::of(&folder);
    let path = folder.log().with_file_name("tokrate-monitor.db");
    let (mut store, _) = MonitorStore::open(&path, 1_795_478_400_000).expect("a store");
    store.fill_outgoing(true, 0).expect("writable");
    let probe = |number: u64| {
        let mut probe = crate::monitor::probe(number);
        probe.probe.quarantine = Some(CYCLE_IS_OPEN.to_owned());
        // Sums are the same in any order.
        probe.probe.sample.cost_usd = Some(0.125);
        probe.probe.endpoint = format!("acme/{}", ["large", "' OR 1=1 --\\", "\u{202e}<script>"][number as usize % 3]);
        probe
    };
    let begun = MonitorWrite::CycleBegun {
        cycle: "c-1".to_owned(),
        prober: "one".to_owned(),
        place: "fra".to_owned(),
        at_unix_ms: 1,
    };
    let mut writes = vec![begun];
    writes.extend((0..30).map(|number| MonitorWrite::Probe(Box::new(probe(number)))));
    store.apply(&writes).expect("room");
    let shipping = engine.shipping();
    assert_eq!(ship(&path, Warehouse::Monitor, &shipping).expect("taken"), 0, "the cycle is open");
    let ended = MonitorWrite::CycleEnded {
        cycle: "c-1".to_owned(),
        at_unix_ms: 2,
        reference: "[]".to_owned(),
        quarantine: None,
    };
    store.apply(&[ended]).expect("room");
    assert_eq!(ship(&path, Warehouse::Monitor, &shipping).expect("taken"), 30);
    let rows = |query: &ProbeQuery| {
        let (mut here, mut there): (Vec<ProbeRow>, Vec<ProbeRow>) = (store_rows(&path, query), Vec::new());
        shipping.to.visit_probes(query, &mut |row| there.push(row)).expect("readable");
        here.sort_by(|one, other| one.probe.id.cmp(&other.probe.id));
        there.sort_by(|one, other| one.probe.id.cmp(&other.probe.id));
        assert_eq!(there, here, "{query:?}");
        there
    };
    let counted = ProbeQuery { counted_only: true, ..ProbeQuery::default() };
    assert_eq!(rows(&counted).len(), 30);
    let hostile = ProbeQuery { endpoint: Some("acme/' OR 1=1 --\\".to_owned()), ..ProbeQuery::default() };
    assert_eq!(rows(&hostile).len(), 10);
    let first = crate::monitor::probe(0).probe.sample.started_unix_ms;
    let quarantine = MonitorWrite::Quarantine {
        place: "fra".to_owned(),
        prober: "one".to_owned(),
        from_unix_ms: first,
        until_unix_ms: first + 9_000,
        reason: "half of them moved".to_owned(),
    };
    store.apply(&[quarantine]).expect("room");
    assert_eq!(ship(&path, Warehouse::Monitor, &shipping).expect("taken"), 10);
    assert_eq!((rows(&counted).len(), rows(&ProbeQuery::default()).len()), (20, 30));
    let here = Sqlite::open_probes(&path, SampleSource::Monitor).expect("a database");
    let there = shipping.to.probes_as_log(SampleSource::Monitor);
    assert_eq!(answers(&there, &Query::default()), answers(&here, &Query::default()));
    assert_eq!(
        format!("{:?}", there.window_samples(&Query::default()).expect("readable").kinds),
        format!("{:?}", here.window_samples(&Query::default()).expect("readable").kinds)
    );
}

fn store_rows(path: &Path, query: &ProbeQuery) -> Vec<ProbeRow> {
    MonitorStore::open_reader(path).and_then(|store| store.probes(query)).expect("readable")
}

/// Writes that a monitor makes beside its probes; the `number`-th of many.
fn found(number: u64) -> Vec<MonitorWrite> {
    let hostile = ["acme/large", "' OR 1=1 --\\", "\u{202e}<script>\0\n"][number as usize % 3].to_owned();
    let event = EventRow {
        at_unix_ms: 1_795_478_400_000 + number as i64 / 2,
        endpoint: hostile.clone(),
        workload: "w".to_owned(),
        kind: "regression".to_owned(),
        metric: "ttft_ms".to_owned(),
        since_unix_ms: number as i64,
        change: 0.1 + number as f64 / 3.0,
        low: -1.0 / 3.0,
        high: 1e-300,
        p: 0.1,
        n: number,
        remark: number.is_multiple_of(2).then(|| hostile.clone()),
        ..EventRow::default()
    };
    let estimate = EstimateRow {
        endpoint: hostile.clone(),
        model: "m".to_owned(),
        workload: "w".to_owned(),
        in_flight: 1 + number as u32 % 2,
        output_speed: 100.0 / 3.0 + number as f64,
        low: 0.1,
        high: 0.3,
        made_unix_ms: 1_000 - number,
    };
    let prober = format!("prober-{}", number % 2);
    let (place, at_unix_ms) = (hostile.clone(), 1_795_478_400_000 + number);
    vec![
        MonitorWrite::Event(Box::new(event)),
        MonitorWrite::Estimate(Box::new(estimate)),
        MonitorWrite::Notice { at_unix_ms: at_unix_ms / 2, prober: prober.clone(), text: hostile },
        MonitorWrite::Seen { prober: prober.clone(), place, at_unix_ms, missed: number },
        MonitorWrite::Pushed { prober, spool: "s".to_owned(), last: number, skew_ms: -(number as i64) },
    ]
}

#[test]
#[ignore = "needs ClickHouse's engine: cargo xtask clickhouse"]
fn what_a_monitor_found_is_read_alike_and_what_was_there_before_clickhouse_goes_there_once() {
    let folder = Folder::new("clickhouse-found");
    let engine = Engine::of(&folder);
    let path = folder.log().with_file_name("tokrate-monitor.db");
    let (mut store, _) = MonitorStore::open(&path, 1_795_478_400_000).expect("a store");
    let probe = |number: u64| {
        let mut probe = crate::monitor::probe(number);
        probe.probe.prober = format!("prober-{}", number % 2);
        probe.probe.quarantine = number.is_multiple_of(5).then(|| "it does not count".to_owned());
        MonitorWrite::Probe(Box::new(probe))
    };
    let writes = |numbers: std::ops::Range<u64>| -> Vec<MonitorWrite> {
        numbers.flat_map(|number| found(number).into_iter().chain([probe(number)])).collect()
    };
    store.apply(&writes(0..7)).expect("room");
    let first = 1_795_478_400_000;
    // Begun twice: what was there is sent twice, and is there once.
    for is_on in [true, false, true] {
        store.fill_outgoing(is_on, first).expect("writable");
    }
    store.apply(&writes(7..20)).expect("room");
    let shipping = engine.shipping();
    ship(&path, Warehouse::Monitor, &shipping).expect("taken");
    let there: &dyn ProbeStore = &shipping.to;
    let here: &dyn ProbeStore = &store;
    assert_eq!(there.events(0).expect("readable").len(), 20);
    for from in [0, first + 5] {
        assert_eq!(there.events(from as i64).expect("readable"), here.events(from as i64).expect("readable"));
    }
    assert_eq!(there.estimates().expect("readable"), here.estimates().expect("readable"));
    assert_eq!(there.newest_probe().expect("readable"), here.newest_probe().expect("readable"));
    assert_eq!(there.probes(&ProbeQuery::default()).expect("readable").len(), 20);
    let without_detected = |rows: Vec<tokrate_store::ProberRow>| {
        let known = |row: tokrate_store::ProberRow| tokrate_store::ProberRow { detected_unix_ms: 0, ..row };
        rows.into_iter().map(known).collect::<Vec<_>>()
    };
    let probers = without_detected(there.probers().expect("readable"));
    assert_eq!(probers, without_detected(here.probers().expect("readable")));
    assert_eq!((probers.len(), probers[0].quarantined, probers[0].skew_ms), (2, 2, Some(-18)));
    // Older than what goes there when it begins.
    let later = |store: &dyn ProbeStore| store.notices(first / 2 + 4).expect("readable");
    assert_eq!(later(there), later(here));
    // Those of an empty database.
    let empty = ClickHouseAddress::parse(&format!("clickhouse://ada@127.0.0.1:{}/empty", engine.port));
    let empty = ClickHouseAccess { address: empty.expect("an address"), ..engine.access(PASSWORD) }.database();
    assert!(empty.newest_probe().expect_err("no tables").to_string().contains("probes"));
    Shipping { to: empty.clone(), keep: None }.prepare(Warehouse::Monitor).expect("tables");
    assert_eq!(empty.newest_probe().expect("readable"), None);
    assert_eq!(empty.probers().expect("readable"), []);
}

#[test]
#[ignore = "needs ClickHouse's engine: cargo xtask clickhouse"]
fn tables_are_made_once_rows_age_and_a_newer_schema_is_refused() {
    let folder = Folder::new("clickhouse-schema");
    let engine = Engine::of(&folder);
    let refused = engine.database_as("wrong").server_version().expect_err("refused").to_string();
    assert!(refused.contains("HTTP 403") && !refused.contains("wrong"), "{refused}");
    assert!(engine.database_as(PASSWORD).server_version().expect("it answers").contains('.'));
    let keep = |keep| Shipping { keep, ..engine.shipping() };
    for time in [None, None, Some(Span::from_secs(86_400)), Some(Span::from_secs(86_400)), None] {
        keep(time).prepare(Warehouse::Log).expect("tables");
        keep(time).prepare(Warehouse::Monitor).expect("tables");
    }
    log_with(&folder, &[row(0)]);
    assert_eq!(ship(&folder.log(), Warehouse::Log, &engine.shipping()).expect("taken"), 1);
    let newer = "INSERT INTO tokrate_schema (kind, version, keep_seconds) VALUES ('log', 99, 0)";
    engine.access(PASSWORD).post("database=rates", newer.as_bytes().to_vec()).expect("writable");
    let newer = engine.shipping().prepare(Warehouse::Log).expect_err("newer");
    assert!(matches!(newer, StoreError::Newer { found: 99, known: 4, .. }), "{newer}");
    engine.shipping().prepare(Warehouse::Monitor).expect("of its own");
}
