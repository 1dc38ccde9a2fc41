//! A board over a year of 200 endpoints and three workloads, eight times a day: 1.75 million rows in SQLite. Numbers are invented.
//! `cargo run --release -p tokrate-monitor --example year DATABASE`: makes the database, unless it is there, and measures queries and pages. Lines of bars are for
//! `cargo xtask bench monitor`.
#![allow(clippy::print_stdout)]
#![allow(clippy::disallowed_methods, reason = "measures real time")]

use std::borrow::Cow;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;
use tokrate_board::Site;
use tokrate_core::Rng;
use tokrate_monitor::{BoardFrame, board_data};
use tokrate_record::{Probe, Sample, SampleConditions, SampleSource, SharedConditions};
use tokrate_store::{Grouping, MonitorStore, MonitorWrite, ProbeRow, Query, Sqlite, Store};

const ENDPOINTS: u64 = 200;
const MODELS: u64 = 40;
const WORKLOADS: [(&str, u64); 3] = [("100-300", 300), ("1k-1k", 1_000), ("10k-1.5k", 1_500)];
const DAYS: u64 = 365;
const SLOTS: u64 = 8;
const DAY_MS: u64 = 86_400_000;
/// 2026-01-01 00:00 UTC.
const BEGUN_UNIX_MS: u64 = 1_767_225_600_000;
const ROUNDS: usize = 300;
const QUERY_ROUNDS: usize = 40;

fn main() {
    let database = PathBuf::from(std::env::args().nth(1).expect("the database to make"));
    if !database.exists() {
        let begun = Instant::now();
        let rows = fill(&database);
        let bytes = std::fs::metadata(&database).map_or(0, |file| file.len());
        let took = begun.elapsed().as_secs_f64();
        println!(
            "{rows} rows written in {took:.1} s ({:.0} a second), {:.0} MB, {:.0} bytes a row",
            rows as f64 / took,
            bytes as f64 / 1e6,
            bytes as f64 / rows as f64
        );
    }
    medians(&database);
    pages(&database);
}

/// Writes a year, a day in a transaction.
fn fill(path: &Path) -> u64 {
    let (mut store, _) = MonitorStore::open(path, BEGUN_UNIX_MS).expect("a new database");
    let conditions = |workload: &str| -> SharedConditions {
        let fingerprint = Some(format!("{:016x}", workload.len() as u64 * 0x9e37_79b9));
        let tokenizer = Some("o200k_base".to_owned());
        SampleConditions { fingerprint, tokenizer, version: "0".to_owned(), ..SampleConditions::default() }.into()
    };
    let shared = WORKLOADS.map(|(name, _)| conditions(name));
    let mut rng = Rng::root(20);
    let mut count = 0;
    for day in 0..DAYS {
        let mut writes = Vec::new();
        for slot in 0..SLOTS {
            let slot_unix_ms = BEGUN_UNIX_MS + day * DAY_MS + slot * DAY_MS / SLOTS;
            for endpoint in 0..ENDPOINTS {
                for (place, (workload, tokens)) in WORKLOADS.iter().enumerate() {
                    let at = slot_unix_ms + rng.below(DAY_MS / SLOTS - 60_000);
                    let row = row(&mut rng, endpoint, workload, *tokens, at, &shared[place], count);
                    writes.push(MonitorWrite::Probe(Box::new(ProbeRow { slot_unix_ms, ..row })));
                    count += 1;
                }
            }
        }
        store.apply(&writes).expect("room");
    }
    count
}

fn row(
    rng: &mut Rng,
    endpoint: u64,
    workload: &str,
    tokens: u64,
    at: u64,
    conditions: &SharedConditions,
    number: u64,
) -> ProbeRow {
    let provider = format!("provider-{:02}", endpoint / MODELS * 7 + endpoint % 6);
    let model = format!("model-{:02}", endpoint % MODELS);
    let speed = (60.0 + 1.5 * endpoint as f64) * (0.15 * rng.normal()).exp();
    let ttft_ns = (3e8 * (0.2 * rng.normal()).exp()) as u64;
    let sample = Sample {
        started_unix_ms: at,
        provider: provider.clone(),
        model: model.clone(),
        dialect: Cow::Borrowed("openai-chat"),
        stream: true,
        in_flight: 1,
        connection_new: true,
        request_bytes: Some(4_000),
        status: Some(200),
        ttft_ns: Some(ttft_ns),
        ttfb_ns: Some(ttft_ns),
        total_ns: ttft_ns + (tokens as f64 / speed * 1e9) as u64,
        output_speed: Some(speed),
        chunks: tokens / 4,
        text_events: tokens / 4,
        gap_p50_ns: Some((4e9 / speed) as u64),
        gap_p99_ns: Some((9e9 / speed) as u64),
        output_tokens_std: tokens,
        output_tokens: Some(tokens),
        input_tokens: Some(1_000),
        cost_usd: Some(0.001),
        conditions: conditions.clone(),
        ..Sample::default()
    };
    let probe = Probe {
        id: format!("year-{number}"),
        source: SampleSource::Monitor,
        endpoint: format!("{provider}-{endpoint}/{model}"),
        workload: workload.to_owned(),
        place: "fra".to_owned(),
        prober: "year".to_owned(),
        due_unix_ms: at,
        quarantine: None,
        sample,
    };
    ProbeRow { probe, cycle: format!("c{}", number / (ENDPOINTS * 3)), ..ProbeRow::default() }
}

/// All medians of 72 hours by endpoint and workload, worked out in the database's own rows.
fn medians(path: &Path) {
    let store = Sqlite::open_probes(path, SampleSource::Monitor).expect("the database");
    let from = BEGUN_UNIX_MS + (DAYS - 3) * DAY_MS;
    let query = Query { from_unix_ms: Some(from), ..Query::default() };
    let by = Grouping { lane: true, alias: true, hour: false };
    let mut groups = 0;
    let times = timed(QUERY_ROUNDS, || groups = store.summarise(&query, by).expect("readable").len());
    let (p50, p99) = (at(&times, 0.5), at(&times, 0.99));
    println!("percentiles of 72 h of {groups} series out of SQLite: p50 {p50:.1} ms, p99 {p99:.1} ms");
    bar(
        "all medians of 72 h, straight from 1.75 M rows in SQLite, p50 / p99",
        "<= 10 / 40 ms",
        &format!("{p50:.1} / {p99:.1} ms"),
        p50 <= 10.0 && p99 <= 40.0,
    );
}

/// The board as the server has it: made of the last 30 days at most once a minute, pages made for each request.
fn pages(path: &Path) {
    let now = BEGUN_UNIX_MS + DAYS * DAY_MS;
    let store = MonitorStore::open_reader(path).expect("the database");
    let begun = Instant::now();
    let data = board_data(&store, &BoardFrame::default(), now).expect("readable");
    let read = begun.elapsed().as_secs_f64();
    let points: usize = data.series.iter().map(|series| series.points.len()).sum();
    let site = Site::new(data);
    let made = begun.elapsed().as_secs_f64();
    println!("the board anew: {points} points of 30 days read in {read:.2} s, windows and ranks after {made:.2} s");
    let mut all = Vec::new();
    for query in ["", "model=model-07", "window=30d", "sort=ttft&window=24h", "workload=10k-1.5k"] {
        all.extend(timed(ROUNDS, || drop(std::hint::black_box(site.route("/", query)))));
    }
    all.sort_unstable_by(f64::total_cmp);
    let (p50, p99) = (at(&all, 0.5), at(&all, 0.99));
    bar(
        "leaderboard of 200 endpoints, time of the server for a page, p50 / p99",
        "<= 10 / 40 ms",
        &format!("{p50:.2} / {p99:.2} ms"),
        p50 <= 10.0 && p99 <= 40.0,
    );
    let page = site.route("/", "").expect("the first page").body;
    let weight = gzipped(&page) as f64 / 1e3;
    let whole = page.len() as f64 / 1e3;
    let figure = format!("{weight:.0} kB gz ({whole:.0} kB)");
    bar("weight of the leaderboard page, without scripts", "<= 120 kB gz", &figure, weight <= 120.0);
}

fn timed(rounds: usize, mut work: impl FnMut()) -> Vec<f64> {
    let mut times: Vec<f64> = (0..rounds)
        .map(|_| {
            let begun = Instant::now();
            work();
            begun.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_unstable_by(f64::total_cmp);
    times
}

/// A percentile of rising times, by nearest rank.
fn at(sorted: &[f64], share: f64) -> f64 {
    sorted[((sorted.len() as f64 * share).ceil() as usize).clamp(1, sorted.len()) - 1]
}

fn gzipped(bytes: &[u8]) -> usize {
    let mut child = Command::new("gzip").arg("-c").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("gzip");
    let mut input = child.stdin.take().expect("piped");
    let bytes = bytes.to_vec();
    let writer = std::thread::spawn(move || input.write_all(&bytes));
    let size = child.wait_with_output().expect("it ends").stdout.len();
    writer.join().expect("no panic").expect("it reads");
    size
}

fn bar(what: &str, bar: &str, figure: &str, is_met: bool) {
    println!("BAR|{what}|{bar}|{figure}|{}", if is_met { "met" } else { "missed" });
}
