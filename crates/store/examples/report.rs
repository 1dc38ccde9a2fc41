//! What a page of the gateway costs on a large log: `cargo run --release -p tokrate-store --example report -- 1000000 [FILE]`.
//!
//! Writes so many attempts of a week, evenly spread, then times what the pages ask of them: reports of four ranges with and without
//! filters, lists of calls in two orders, a search, a lane's load, and how long a batch takes to be written meanwhile. A FILE is kept
//! and used again.

#![allow(clippy::print_stdout, reason = "examples print what they measure")]
#![allow(clippy::disallowed_methods, reason = "measures real time")]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use tokrate_core::{FailureKind, Rng};
use tokrate_record::{Attempt, AttemptEnd, AttemptRole, CostBasis, Sample, SampleConditions};
use tokrate_store::{CallOrder, ListPage, Order, Query, Sqlite, Store};

const NOW: u64 = 1_795_262_400_000;
const WEEK_MS: u64 = 604_800_000;
/// As the pages have them.
const MAX_ROWS: u64 = 250_000;
const MAX_LIST_ROWS: u64 = 50_000;

fn row(rng: &mut Rng, number: u64, rows: u64) -> Attempt {
    let failed = rng.chance(0.02);
    let stream = rng.chance(0.7);
    Attempt {
        call: format!("18a3f0c2d4e5f607-{number:08x}"),
        key: Some(["ada", "bob", "carol", "dan"][rng.below(4) as usize].to_owned()),
        alias: ["chat", "code", "reason"][rng.below(3) as usize].to_owned(),
        lane: ["openai-large", "anthropic-eu", "groq", "local", "spare"][rng.below(5) as usize].to_owned(),
        role: if rng.chance(0.05) { AttemptRole::Hedge } else { AttemptRole::First },
        end: if failed { AttemptEnd::Failed } else { AttemptEnd::Answered },
        won: !failed,
        dialect_in: "openai-chat".into(),
        sample: Sample {
            started_unix_ms: NOW - WEEK_MS + number * WEEK_MS / rows,
            provider: "openai".to_owned(),
            model: "gpt-large-2026-01-01".to_owned(),
            dialect: "openai-chat".into(),
            stream,
            in_flight: 1 + rng.below(40) as u32,
            failure: failed.then_some(FailureKind::RateLimited),
            ttft_ns: (stream && !failed).then(|| 100_000_000 + rng.below(900_000_000)),
            answer_ns: (!stream && !failed).then(|| 1_000_000_000 + rng.below(9_000_000_000)),
            total_ns: 3_231_456_789,
            output_speed: (stream && !failed).then(|| 20.0 + rng.below(10_000) as f64 / 100.0),
            gaps: (0..60).map(|gap| 15_000_000 + gap * 150_000).collect(),
            output_tokens_std: 512,
            output_tokens: Some(512),
            input_tokens: Some(1_024),
            cost_usd: Some(0.00123),
            cost_basis: CostBasis::Reported,
            conditions: SampleConditions { version: "0.1.0".to_owned(), ..SampleConditions::default() }.into(),
            ..Sample::default()
        },
        ..Attempt::default()
    }
}

fn fill(path: &Path, rows: u64) {
    let mut store = Sqlite::open(path).expect("a new log");
    let known = store.count(&Query::default()).expect("readable");
    let mut rng = Rng::root(7);
    let begun = Instant::now();
    let mut number = known;
    while number < rows {
        let batch: Vec<Attempt> =
            (number..rows.min(number + 4_096)).map(|number| row(&mut rng, number, rows)).collect();
        number += batch.len() as u64;
        store.append(&batch).expect("room");
    }
    println!("{rows} rows, {} written in {:.1} s", rows.saturating_sub(known), begun.elapsed().as_secs_f64());
}

fn time(name: &str, act: impl Fn() -> String) {
    // The second time: a page is renewed every two seconds.
    let first = Instant::now();
    act();
    let first = first.elapsed();
    let second = Instant::now();
    let said = act();
    println!(
        "  {name}: {:.0} ms, again {:.0} ms; {said}",
        first.as_secs_f64() * 1e3,
        second.elapsed().as_secs_f64() * 1e3
    );
}

fn measure(path: &Path) {
    let store = Sqlite::open_reader(path).expect("a log");
    let since = |back: u64| Query { from_unix_ms: Some(NOW - back), ..Query::default() };
    let report = |query: &Query| {
        let report = store.report(query, NOW, MAX_ROWS).expect("readable");
        let cut = if report.is_cut { ", cut" } else { "" };
        format!(
            "{} attempts of the last {:.1} h{cut}",
            report.total.attempts,
            (NOW - report.from_unix_ms) as f64 / 3.6e6
        )
    };
    let named = |name: &str| Some(name.to_owned());
    for (name, back) in [("15 min", 900_000), ("1 h", 3_600_000), ("24 h", 86_400_000), ("7 d", WEEK_MS)] {
        time(&format!("report, {name}"), || report(&since(back)));
    }
    time("report, 7 d, a key", || report(&Query { key: named("ada"), ..since(WEEK_MS) }));
    time("report, 7 d, a key that nobody has", || report(&Query { key: named("nobody"), ..since(WEEK_MS) }));
    time("report, 7 d, a lane", || report(&Query { lane: named("groq"), ..since(WEEK_MS) }));
    time("load of a lane, 7 d", || {
        let loads = store.by_load(&Query { lane: named("groq"), ..since(WEEK_MS) }, NOW, MAX_ROWS).expect("readable");
        format!("{} points", loads.len())
    });
    for order in [CallOrder::Newest, CallOrder::Longest] {
        let failed = Query { end: Some(AttemptEnd::Failed), ..since(WEEK_MS) };
        for (name, query) in [("all", since(WEEK_MS)), ("failed", failed)] {
            time(&format!("list of calls, 7 d, {}, {name}", order.name()), || {
                let page = ListPage { order, after: None, calls: 50, rows: MAX_LIST_ROWS };
                let list = store.call_list(&query, NOW, &page).expect("readable");
                format!("{} calls of {}", list.calls.len(), list.found)
            });
        }
    }
    time("a call", || {
        let query = Query { call: named("18a3f0c2d4e5f607-00012345"), limit: Some(500), ..Query::default() };
        format!("{} rows", store.attempts(&query).expect("readable").len())
    });
    time("newest 500 of a lane, as a gateway that starts reads them", || {
        let query = Query { order: Order::Newest, limit: Some(500), lane: named("groq"), ..since(WEEK_MS) };
        format!("{} rows", store.attempts(&query).expect("readable").len())
    });
    time("what all keys have spent in 7 d, as a gateway that starts reads it", || {
        let spent = store.spent_since((NOW - WEEK_MS) / 86_400_000).expect("readable");
        format!("${:.2} of {} keys", spent.values().sum::<f64>(), spent.len())
    });
    for prefix in ["18a3f0c2d4e5f607-00", "18a3f0c2d4e5f607-0000a", "zz"] {
        time(&format!("search for {prefix}"), || {
            let query = Query { call_prefix: named(prefix), limit: Some(500), ..Query::default() };
            format!("{} rows", store.attempts(&query).expect("readable").len())
        });
    }
}

/// How long a batch of 512 rows takes to be written, at best and at worst, while the week is read over and over.
fn beside_a_writer(path: &Path) {
    let is_over = AtomicBool::new(false);
    let batch = |store: &mut Sqlite| {
        let mut rng = Rng::root(11);
        let rows: Vec<Attempt> = (0..512).map(|number| row(&mut rng, number, 512)).collect();
        let mut times: Vec<f64> = (0..40)
            .map(|_| {
                let begun = Instant::now();
                store.append(&rows).expect("room");
                begun.elapsed().as_secs_f64() * 1e3
            })
            .collect();
        times.sort_by(f64::total_cmp);
        (times[20], times[39])
    };
    let mut writer = Sqlite::open(path).expect("a log");
    let alone = batch(&mut writer);
    let beside = std::thread::scope(|scope| {
        scope.spawn(|| {
            let store = Sqlite::open_reader(path).expect("a log");
            while !is_over.load(Ordering::Relaxed) {
                let query = Query { from_unix_ms: Some(NOW - WEEK_MS), ..Query::default() };
                store.report(&query, NOW, MAX_ROWS).expect("readable");
            }
        });
        let beside = batch(&mut writer);
        is_over.store(true, Ordering::Relaxed);
        beside
    });
    println!(
        "  a batch of 512 rows: median {:.1} ms, longest {:.1} ms; beside a reader {:.1} and {:.1} ms",
        alone.0, alone.1, beside.0, beside.1
    );
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let rows = arguments.next().and_then(|rows| rows.parse().ok()).unwrap_or(1_000_000);
    let named = arguments.next().map(PathBuf::from);
    let path =
        named.clone().unwrap_or_else(|| std::env::temp_dir().join(format!("tokrate-report-{}.db", std::process::id())));
    fill(&path, rows);
    measure(&path);
    beside_a_writer(&path);
    if named.is_none() {
        for end in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{end}", path.display()));
        }
    }
}
