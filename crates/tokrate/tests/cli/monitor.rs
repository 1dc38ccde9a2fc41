//! `tokrate monitor replay` on files of samples: events as JSON lines, and what is said of lines that are none.

use crate::folder::Folder;
use crate::tool::run;
use serde_json::{Value, json};
use tokrate_core::{Rng, rfc3339};

/// 2026-01-10 00:00 UTC.
const BEGIN: u64 = 1_768_003_200;

/// Eight samples a day for 45 days; from the 30th on the speed is 0.7 of what it was.
fn samples() -> String {
    let mut rng = Rng::root(5);
    let lines = (0..45 * 8).map(|slot| {
        let speed = 100.0 * (0.15 * rng.normal()).exp() * if slot >= 30 * 8 { 0.7 } else { 1.0 };
        let at = rfc3339(BEGIN + slot * 3 * 3_600 + rng.below(7_200));
        json!({ "at": at, "endpoint": "acme/large", "workload": "1k", "place": "fra", "output_speed": speed, "ok": true }).to_string() + "\n"
    });
    lines.collect()
}

#[test]
fn a_drop_in_a_file_is_one_event() {
    let folder = Folder::new("monitor-drop");
    std::fs::write(folder.join("samples.jsonl"), samples()).expect("room");
    let finished = run(&folder, &["monitor", "replay", "samples.jsonl"]);
    assert_eq!((finished.code, finished.stderr.as_str()), (Some(0), "tokrate: 1 event in 360 samples\n"));
    let event: Value = serde_json::from_str(finished.stdout.trim()).expect("one line of JSON");
    insta::assert_snapshot!("event", serde_json::to_string_pretty(&event).expect("JSON"));
}

#[test]
fn broken_lines_are_named_and_the_rest_counts() {
    let folder = Folder::new("monitor-broken");
    let hostile = r#"{"at":"2026-01-10T00:00:00Z","endpoint":"<script>\u202e","ttft_ms":1e999}"#;
    let text =
        format!("not JSON\n\n{{\"at\":\"soon\",\"endpoint\":\"a\"}}\n{hostile}\n{}", "[]\n".repeat(6)) + &samples();
    std::fs::write(folder.join("samples.jsonl"), text).expect("room");
    let finished = run(&folder, &["monitor", "replay", "samples.jsonl"]);
    assert_eq!((finished.code, finished.stdout.lines().count()), (Some(0), 1));
    insta::assert_snapshot!("broken", finished.stderr);
}

#[test]
fn what_cannot_be_replayed_says_why() {
    let folder = Folder::new("monitor-refused");
    std::fs::write(folder.join("empty.jsonl"), "\n").expect("room");
    std::fs::write(folder.join("long.jsonl"), "x".repeat(1 << 21)).expect("room");
    let refusals = [
        vec!["empty.jsonl"],
        vec!["missing.jsonl"],
        vec!["long.jsonl"],
        vec!["empty.jsonl", "--false-alarms", "0"],
        vec!["empty.jsonl", "--false-alarms", "NaN"],
    ];
    let mut said = String::new();
    for arguments in refusals {
        let finished = run(&folder, &[&["monitor", "replay"], arguments.as_slice()].concat());
        assert_eq!((finished.code, finished.stdout.as_str()), (Some(2), ""), "{arguments:?}");
        said += &finished.stderr;
    }
    insta::assert_snapshot!("refused", said);
}
