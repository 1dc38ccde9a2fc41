//! Bench runs, probes and a gateway's traffic read by the same commands: each marked with its source, never two in one number.
//!
//! Invariant: what a command says of added rows is what the record they come from says.

use crate::folder::Folder;
use crate::tool::{Bench, Finished, bench, run};
use serde_json::Value;
use std::collections::BTreeSet;
use tokrate_core::FailureKind;
use tokrate_record::{Attempt, AttemptEnd, Sample, SampleConditions};
use tokrate_store::Sqlite;

/// 2026-01-10 00:00 UTC.
const DAY: u64 = 1_768_003_200_000;
const REQUESTS: u32 = 12;

/// A small bench whose requests went to the board while it ran.
fn on_a_board(name: &str) -> Bench {
    let host = tokrate_host::Host::start(tokrate_host::HostConfig::default()).expect("a port");
    let url = format!("http://{}/v1", host.address());
    let bench = bench(name, &url, 2, REQUESTS, &["--board", "b.db"]);
    assert_eq!(bench.finished.code, Some(0), "{}", bench.finished.stderr);
    assert!(bench.finished.stdout.contains("board: b.db"), "{}", bench.finished.stdout);
    bench
}

fn lines(finished: &Finished) -> Vec<Value> {
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    finished.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn a_bench_is_on_the_board_once_and_is_no_probe() {
    let bench = on_a_board("sources-bench");
    let folder = &bench.folder;
    let again = run(folder, &["monitor", "add", "record.json", "--db", "b.db"]);
    assert!(again.code.is_some_and(|code| code == 2), "the rows are not beside it: {}", again.stderr);
    std::fs::rename(folder.join("rows.jsonl"), folder.join("record.jsonl")).expect("it is there");
    let again = run(folder, &["monitor", "add", "record.json", "--db", "b.db"]);
    assert_eq!(again.code, Some(0), "{}", again.stderr);
    assert!(again.stderr.contains(&format!("{REQUESTS} requests of 127.0.0.1/sim (50-40, from ")), "{}", again.stderr);
    let rows =
        lines(&run(folder, &["monitor", "export", "--jsonl", "-", "--all", "--source", "bench", "--db", "b.db"]));
    assert_eq!(rows.len(), REQUESTS as usize, "added twice, there once");
    assert!(rows.iter().all(|row| row["source"] == "bench" && row["endpoint"] == "127.0.0.1/sim"), "{rows:?}");
    let speeds = |rows: &[Value]| {
        let mut speeds: Vec<f64> = rows.iter().filter_map(|row| row["output_speed"].as_f64()).collect();
        speeds.sort_by(f64::total_cmp);
        speeds
    };
    assert_eq!(speeds(&rows), speeds(&bench.rows), "the numbers of the rows");
    assert!(lines(&run(folder, &["monitor", "export", "--jsonl", "-", "--db", "b.db"])).is_empty(), "no probe");
    let shown = run(folder, &["log", "--source", "monitor", "--since", "all", "--db", "b.db"]);
    assert!(shown.stdout.starts_with("source: monitor, in b.db\nno attempts in b.db"), "{}", shown.stdout);
}

#[test]
fn columns_are_written_to_a_file_only() {
    let folder = traffic("sources-columns");
    let export = ["monitor", "export", "--source", "gateway", "--log", "tokrate-log.db", "--parquet"];
    let refused = run(&folder, &[export.as_slice(), &["-"]].concat());
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), ""));
    assert!(refused.stderr.contains("columns do not go to standard output; name a file"), "{}", refused.stderr);
    let written = run(&folder, &[export.as_slice(), &["t.parquet"]].concat());
    assert_eq!(written.code, Some(0), "{}", written.stderr);
    let bytes = std::fs::read(folder.join("t.parquet")).expect("there");
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"), "whole");
}

#[test]
fn the_log_of_bench_runs_has_the_records_figures() {
    let bench = on_a_board("sources-log");
    let phase = bench.phase();
    // On a machine that is busy with other tests nothing may count; then there is nothing to be shown.
    let shown = run(&bench.folder, &["log", "--source", "bench", "--since", "all", "--db", "b.db", "--json"]);
    let shown: Value = serde_json::from_str(&shown.stdout).expect("JSON");
    assert_eq!(shown["source"], "bench");
    assert!(phase.is_valid(), "there was no calibration");
    let group = &shown["groups"][0];
    assert_eq!((&group["lane"], &group["alias"]), (&"127.0.0.1/sim".into(), &"50-40".into()));
    assert_eq!(group["answered"].as_u64(), Some(phase.counts.answered));
    let text = run(&bench.folder, &["log", "--source", "bench", "--since", "all", "--db", "b.db"]).stdout;
    assert!(
        text.starts_with("source: bench, in b.db\n") && text.contains("endpoint") && text.contains("workload"),
        "{text}"
    );
    for flag in [["--refused", "--json"], ["--key", "ada"]] {
        let refused = run(&bench.folder, &[&["log", "--source", "bench", "--db", "b.db"], flag.as_slice()].concat());
        assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), ""));
    }
}

fn attempt(n: u64, lane: &str, speed: f64) -> Attempt {
    let conditions = SampleConditions { region: Some("fra".to_owned()), ..SampleConditions::default() };
    Attempt {
        call: format!("call-{n}-{lane}"),
        alias: "chat".to_owned(),
        lane: lane.to_owned(),
        dialect_in: "openai-chat".into(),
        sample: Sample {
            started_unix_ms: DAY + n * 3_600_000,
            provider: lane.to_owned(),
            model: "large".to_owned(),
            dialect: "openai-chat".into(),
            stream: true,
            in_flight: 1,
            request_bytes: Some(700),
            status: Some(200),
            ttft_ns: Some(200_000_000 + n % 7 * 10_000_000),
            total_ns: 2_300_000_000,
            output_speed: Some(speed + (n % 11) as f64),
            output_tokens_std: 100,
            conditions: conditions.into(),
            ..Sample::default()
        },
        ..Attempt::default()
    }
}

/// 40 days of traffic of two lanes, an attempt an hour each; from the 30th day on `south` is slower by a third.
fn traffic(name: &str) -> Folder {
    let folder = Folder::new(name);
    let mut rows = Vec::new();
    for n in 0..40 * 24 {
        rows.push(attempt(n, "north", 90.0));
        rows.push(attempt(n, "south", if n < 30 * 24 { 90.0 } else { 60.0 }));
    }
    let left = Attempt { end: AttemptEnd::Abandoned, ..attempt(40 * 24, "north", 90.0) };
    let refused = attempt(40 * 24 + 1, "north", 90.0);
    let failure = Some(FailureKind::RateLimited);
    let sample = Sample { failure, status: Some(429), ttft_ns: None, output_speed: None, ..refused.sample };
    rows.extend([left, Attempt { end: AttemptEnd::Failed, sample, ..refused }]);
    let mut store = Sqlite::open(&folder.join("tokrate-log.db")).expect("a new log");
    store.append(&rows).expect("room");
    folder
}

#[test]
fn the_detector_reads_a_gateways_traffic() {
    let folder = traffic("sources-traffic");
    let exported =
        run(&folder, &["monitor", "export", "--jsonl", "t.jsonl", "--source", "gateway", "--log", "tokrate-log.db"]);
    assert_eq!(
        (exported.code, exported.stderr.as_str()),
        (Some(0), "tokrate: wrote 1922 rows of the source `gateway` to t.jsonl\n")
    );
    let rows: Vec<Value> =
        folder.read("t.jsonl").lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let [left, failed] = &rows[rows.len() - 2..] else { panic!("two more") };
    assert!(left["ok"] == true && left.get("e2e_ms").is_none(), "it was cut off from this side: {left}");
    assert!(failed["ok"] == false && failed["error"] == "rate_limited", "{failed}");
    let found = lines(&run(&folder, &["monitor", "replay", "t.jsonl"]));
    let worse: Vec<&Value> = found.iter().filter(|event| event["kind"] == "regression").collect();
    assert!(!worse.is_empty() && worse.iter().all(|event| event["endpoint"] == "south"), "{found:?}");
}

#[test]
fn the_board_shows_traffic_beside_bench_runs_and_ranks_neither_with_the_other() {
    let bench = on_a_board("sources-board");
    let folder = &bench.folder;
    let log = folder.join("tokrate-log.db");
    let mut store = Sqlite::open(&log).expect("a new log");
    let at = tokrate_core::parse_rfc3339(&bench.record.started_at).expect("a time") as u64;
    let row = |n: u64| {
        let row = attempt(n, "north", 90.0);
        Attempt { sample: Sample { started_unix_ms: at - 1_000 * n, ..row.sample }, ..row }
    };
    store.append(&(0..30).map(row).collect::<Vec<_>>()).expect("room");
    drop(store);
    let missing = ["monitor", "export", "--static", "m", "--db", "b.db", "--log", "other.db"];
    assert_eq!(run(folder, &missing).code, Some(2), "a log that is not there");
    let exported = run(folder, &["monitor", "export", "--static", "out", "--db", "b.db", "--log", "tokrate-log.db"]);
    assert_eq!(exported.code, Some(0), "{}", exported.stderr);
    let index: Value = serde_json::from_str(&folder.read("out/api/v1/index.json")).expect("JSON");
    let endpoints = index["endpoints"].as_array().expect("a list");
    let of = |endpoint: &Value| {
        let path = endpoint["path"].as_str().expect("an address").trim_start_matches('/').to_owned();
        let values: Value = serde_json::from_str(&folder.read(&format!("out/{path}"))).expect("JSON");
        let series = values["series"].as_array().expect("a list").clone();
        let sources: BTreeSet<String> = series.iter().map(|series| series["source"].to_string()).collect();
        (endpoint["name"].to_string(), sources.into_iter().collect::<Vec<String>>().join(" "))
    };
    let found: Vec<(String, String)> = endpoints.iter().map(of).collect();
    let pair = |name: &str, source: &str| (format!("\"{name}\""), format!("\"{source}\""));
    assert_eq!(found, [pair("127.0.0.1/sim", "bench"), pair("north", "gateway")]);
}

#[test]
fn a_record_is_compared_with_a_window_of_traffic_and_unlike_rows_with_nothing() {
    let folder = traffic("sources-compare");
    let compare =
        |arguments: &[&str]| run(&folder, &[&["compare", "tokrate-log.db", "tokrate-log.db"], arguments].concat());
    let mixed = compare(&[]);
    assert_eq!((mixed.code, mixed.stdout.as_str()), (Some(2), ""));
    assert!(
        mixed.stderr.contains("rows of 2 kinds of lane would be one number (north, south); name one with --lane"),
        "{}",
        mixed.stderr
    );
    let none = compare(&["--lane", "west"]);
    assert!(none.stderr.contains("no row of the source `gateway` fits"), "{}", none.stderr);
    let same = compare(&["--lane", "north", "--json", "-"]);
    assert_eq!(same.code, Some(0), "{}", same.stderr);
    let report: Value = serde_json::from_str(&same.stdout).expect("JSON");
    let notes = report["notes"].to_string();
    assert!(notes.contains("before: 962 rows of the source `gateway` in tokrate-log.db"), "{notes}");
    let bench = on_a_board("sources-compare-bench");
    let record = bench.folder.join("record.json");
    std::fs::rename(bench.folder.join("rows.jsonl"), bench.folder.join("record.jsonl")).expect("it is there");
    let record = record.to_str().expect("plain");
    let board = bench.folder.join("b.db");
    let board = board.to_str().expect("plain");
    let arguments = ["compare", record, board, "--source", "bench", "--metric", "ttft,output_speed,e2e"];
    let refused = run(&folder, &arguments);
    assert_eq!(refused.code, Some(2));
    assert!(
        refused.stderr.contains("under different conditions") && refused.stderr.contains("prompts"),
        "{}",
        refused.stderr
    );
    let held = run(&folder, &[arguments.as_slice(), &["--ignore", "all", "--json", "-"]].concat());
    let report: Value = serde_json::from_str(&held.stdout).unwrap_or_else(|_| panic!("{}", held.stderr));
    assert!(!report["unlike"].as_array().expect("a list").is_empty(), "what is unlike is said");
    for row in report["rows"].as_array().expect("a list") {
        let change = row["change"].as_f64().unwrap_or(1.0);
        assert!((change - 1.0).abs() < 0.01, "the same requests at the same load: {row}");
    }
}
