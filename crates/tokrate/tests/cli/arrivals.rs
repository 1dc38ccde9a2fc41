//! `--chunks`: every arrival of a run, held against the rows of the same run.
//!
//! Columns are opened by DuckDB and pandas in `tests/tables`. Invariant: nothing is in the file that no request had.

use crate::folder::Folder;
use crate::tool::{Bench, finish, folded, run, start};
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Command;

const LINE: &str = "bench --concurrency 1,3 --rounds 2 --requests 6 --warmup 1 --output-tokens 30 --input-tokens 30 --no-html \
                    --json record.json --jsonl rows.jsonl --chunks";

fn measured(name: &str, file: &str) -> Bench {
    let folder = Folder::new(name);
    let arguments: Vec<&str> = LINE.split_whitespace().chain([file]).collect();
    let finished = run(&folder, &arguments);
    let bench = Bench::read(folder, finished);
    assert_eq!(bench.finished.code, Some(0), "{:?}", bench.finished);
    bench
}

#[test]
fn arrivals_add_up_to_their_requests_and_lie_on_one_axis() {
    let bench = measured("arrivals", "arrivals.jsonl");
    let arrivals: Vec<Value> =
        bench.folder.read("arrivals.jsonl").lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let mut by_request: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for arrival in &arrivals {
        by_request.entry(arrival["request_id"].as_str().expect("a name")).or_default().push(arrival);
    }
    assert_eq!(by_request.len(), bench.rows.len());
    let mut zero = None;
    for row in &bench.rows {
        let found = &by_request[row["request_id"].as_str().expect("a name")];
        let sum = |name: &str| found.iter().map(|arrival| arrival[name].as_u64().expect("a count")).sum::<u64>();
        assert_eq!(
            (sum("tokens"), sum("events")),
            (row["tokens_std"].as_u64().unwrap_or(0), row["text_events"].as_u64().unwrap_or(0))
        );
        assert!(
            found
                .iter()
                .enumerate()
                .all(|(place, arrival)| arrival["index"] == place && arrival["channel"] == "answer")
        );
        // Zero of the axis is the same for every request of the run.
        let at = |arrival: &Value| arrival["at_ns"].as_u64().expect("a time");
        let first = row["first_text_at_ns"].as_u64().expect("a time") - at(found[0]);
        assert_eq!(first, *zero.get_or_insert(first));
        let last = row["last_text_at_ns"].as_u64().expect("a time");
        assert_eq!(last - first, at(found.last().expect("several")));
        assert_eq!(
            format!("{}, round {}", found[0]["level"].as_str().expect("a name"), found[0]["round"])
                .replace(", round 1", ""),
            row["phase"].as_str().expect("a name")
        );
        assert_eq!(found[0]["warmup"], row["warmup"]);
    }
    assert!(folded(&bench.finished.stdout).contains("arrivals: arrivals.jsonl"), "{}", bench.finished.stdout);
}

#[test]
fn every_form_has_as_many_arrivals() {
    let lines = |name: &str| measured(name, &format!("{name}.csv")).folder.read(&format!("{name}.csv")).lines().count();
    assert!(lines("arrivals-csv") > 24 * 20, "a line for each arrival and one of names");
    let bench = measured("arrivals-parquet", "a.parquet");
    let bytes = std::fs::read(bench.folder.join("a.parquet")).expect("a file");
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
    let refused = run(&Folder::new("arrivals-form"), &["bench", "--chunks", "a.txt"]);
    assert_eq!(refused.code, Some(2));
    assert!(
        folded(&refused.stderr).contains("name a file that ends in .parquet, .csv or .jsonl"),
        "{}",
        refused.stderr
    );
}

#[cfg(unix)]
#[test]
fn a_disk_that_is_full_of_arrivals_never_stops_the_measuring() {
    // No file of this process may be larger: the first level fits, the second does not (units of 512 bytes).
    for (file, most) in [("a.parquet", 36), ("a.csv", 320), ("a.jsonl", 860)] {
        let folder = Folder::new("arrivals-full");
        let line = format!(
            "trap '' XFSZ; ulimit -f {most}; exec \"$0\" bench -c 8,32 -n 32 --warmup 0 --output-tokens 60 --calibration off \
             --no-html --quiet --csv levels.csv --chunks {file}"
        );
        let mut shell = Command::new("sh");
        shell.current_dir(folder.path()).env("HOME", folder.path()).args(["-c", &line, env!("CARGO_BIN_EXE_tokrate")]);
        let finished = finish(start(&mut shell));
        assert_eq!(finished.code, Some(2), "{finished:?}");
        assert!(
            folded(&finished.stderr).contains(&format!("failed to write {file}; check that its disk is not full")),
            "{finished:?}"
        );
        assert_eq!(folder.read("levels.csv").lines().count(), 3, "both levels were measured");
        let left = std::fs::read(folder.join(file)).expect("it is there");
        if file.ends_with("parquet") {
            assert!(
                left.len() > 8_000 && left.starts_with(b"PAR1") && left.ends_with(b"PAR1"),
                "it holds the first level"
            );
        } else {
            let lines = left.iter().filter(|byte| **byte == b'\n').count();
            assert!(
                (32 * 50..=32 * 60 + 1).contains(&lines) && left.ends_with(b"\n"),
                "it holds the first level: {lines}"
            );
        }
    }
}
