//! What a run leaves behind: table, record, rows, report; and nothing where nothing was asked for.
//!
//! It does not judge the numbers. Invariant: every output tells of the same requests.

use crate::folder::Folder;
use crate::tool::{Bench, Finished, finish, folded, run, tokrate};
use serde_json::Value;
use tokrate_record::{Record, Status};

const SWEEP: &str = "bench --duration 500ms --concurrency 1,2,3,4 --output-tokens 36";

fn sweep(folder: &Folder, further: &str) -> Finished {
    let arguments = format!("{SWEEP} {further}");
    run(folder, &arguments.split_whitespace().collect::<Vec<&str>>())
}

#[test]
fn a_sweep_of_the_embedded_engine_writes_everything() {
    let folder = Folder::new("everything");
    let finished = sweep(&folder, "--wide --json record.json --jsonl rows.jsonl --html report.html");
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert_eq!(
        finished.stderr, "sim: 4 levels, about 2 s, and up to 20 s of calibration\n",
        "the plan, and no progress where nobody watches"
    );
    assert!(!finished.stdout.contains('\u{1b}'), "no colours in a pipe");
    assert_eq!(folder.names(), ["record.json", "report.html", "rows.jsonl"]);
    let bench = Bench::read(folder, finished);
    let record = &bench.record;
    assert_eq!(record.status, Status::Complete);
    assert_eq!(record.violations().count(), 0, "{:?}", record.violations().map(|(_, found)| found).collect::<Vec<_>>());
    assert_eq!(record.phases.len(), 4);
    let started: u64 = record.phases.iter().map(|phase| phase.counts.started).sum();
    assert_eq!(bench.rows.len() as u64, started);
    for (number, phase) in record.phases.iter().enumerate() {
        assert_eq!(phase.conditions.concurrency, Some(number as u32 + 1));
        assert!(phase.client_error.as_ref().is_some_and(|error| error.n > 0), "the client's own error stands beside");
        let rows = bench.rows.iter().filter(|row| row["phase"] == phase.name.as_str());
        assert_eq!(rows.count() as u64, phase.counts.started);
    }
    let ids: std::collections::HashSet<&str> = bench.rows.iter().filter_map(|row| row["request_id"].as_str()).collect();
    assert_eq!(ids.len(), bench.rows.len(), "every request has an id of its own");
    let text = bench.folder.read("record.json");
    assert_eq!(Record::parse(&text).expect("a record").to_json(), text, "what is read writes back equal");
    assert!(bench.finished.stdout.starts_with("sim at http://127.0.0.1:"), "{}", bench.finished.stdout);
    insta::assert_snapshot!("table", labels(&bench.finished.stdout));
}

/// The first words of every line of the final table: its shape without its numbers.
fn labels(stdout: &str) -> String {
    let table = stdout.lines().skip_while(|line| !line.starts_with('─'));
    let lines = table.take_while(|line| !line.is_empty()).map(|line| match line.chars().next() {
        Some('─' | '═') => "---".to_owned(),
        _ => line.trim().split("  ").next().unwrap_or_default().to_owned(),
    });
    lines.collect::<Vec<String>>().join("\n")
}

#[test]
fn the_record_on_standard_output_stands_alone() {
    let folder = Folder::new("stdout");
    let finished = sweep(&folder, "--no-html --json -");
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let record =
        Record::parse(&finished.stdout).unwrap_or_else(|error| panic!("failed to {error}: {}", finished.stdout));
    assert_eq!(record.phases.len(), 4);
    assert!(!finished.stderr.contains('\u{1b}'), "{}", finished.stderr);
    assert_eq!(folder.names(), [""; 0]);
}

#[test]
fn quiet_is_silent() {
    let folder = Folder::new("quiet");
    let finished = sweep(&folder, "--no-html --quiet --json record.json");
    assert_eq!((finished.code, finished.stdout.as_str(), finished.stderr.as_str()), (Some(0), "", ""));
    assert_eq!(folder.names(), ["record.json"]);
}

#[test]
fn the_report_has_a_name_when_no_endpoint_is_named() {
    let folder = Folder::new("default-report");
    let finished = sweep(&folder, "");
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert_eq!(folder.names(), ["tokrate-report.html"]);
    assert!(finished.stdout.contains("tokrate-report.html"), "{}", finished.stdout);
}

#[test]
fn a_single_request_is_a_run() {
    let folder = Folder::new("single");
    let arguments = "bench --concurrency 1 --requests 1 --warmup 0 --output-tokens 5 --json record.json --jsonl rows.jsonl --no-html";
    let finished = run(&folder, &arguments.split_whitespace().collect::<Vec<&str>>());
    let bench = Bench::read(folder, finished);
    bench.expect(0, &[]);
    assert_eq!(bench.rows.len(), 1);
    assert!(bench.record.curve.is_none());
}

#[test]
fn no_number_is_nan_or_infinite() {
    let folder = Folder::new("nan");
    let finished = sweep(&folder, "--no-html --json record.json --jsonl rows.jsonl");
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert!(!finished.stdout.contains("NaN") && !finished.stdout.contains("inf"), "{}", finished.stdout);
    let record: Value = serde_json::from_str(&folder.read("record.json")).expect("JSON");
    assert_eq!(record["schema"], Record::SCHEMA);
}

/// `/dev/full` takes nothing.
#[cfg(target_os = "linux")]
#[test]
fn a_full_standard_output_is_an_error_and_takes_nothing_from_the_files() {
    let folder = Folder::new("full-stdout");
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
    let line = "bench --requests 2 --concurrency 1 --output-tokens 20 --no-html --json record.json";
    let mut command = tokrate(&folder, &line.split_whitespace().collect::<Vec<&str>>());
    command.stdin(std::process::Stdio::null()).stdout(full).stderr(std::process::Stdio::piped());
    let finished = finish(command.spawn().expect("it starts"));
    assert_eq!(finished.code, Some(2), "{finished:?}");
    assert!(
        folded(&finished.stderr).contains("failed to write to standard output: No space left"),
        "{}",
        finished.stderr
    );
    assert_eq!(folder.names(), ["record.json"]);
}
