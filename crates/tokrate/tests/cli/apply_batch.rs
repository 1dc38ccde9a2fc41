//! `tokrate apply --batch`: files of cases in, files of results out.
//!
//! Invariant: a result for every case.

use crate::apply::{AMBIGUOUS, FILE, GOOD, MERGED, fed};
use crate::folder::Folder;
use crate::tool::run;
use serde_json::{Value, json};

fn cases() -> String {
    let case =
        |id: u32, update: &str| json!({"id": id, "path": "a.rs", "original": FILE, "update": update}).to_string();
    [case(1, GOOD), case(2, AMBIGUOUS), "{broken".to_owned(), case(3, GOOD)].join("\n")
}

fn rows(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn expect(rows: &[Value]) {
    let seen: Vec<(&Value, &Value, &Value)> =
        rows.iter().map(|row| (&row["id"], &row["status"], &row["code"])).collect();
    let expected = [
        (&json!(1), &json!("merged"), &Value::Null),
        (&json!(2), &json!("refused"), &json!("ambiguous_location")),
        (&Value::Null, &json!("refused"), &json!("bad_line")),
        (&json!(3), &json!("merged"), &Value::Null),
    ];
    assert_eq!(seen, expected);
    assert_eq!((&rows[0]["output"], &rows[3]["output"]), (&json!(MERGED), &json!(MERGED)));
    let reported = rows[2]["message"].as_str().expect("text");
    assert!(reported.starts_with("line 3, column 2: "), "{reported}");
}

#[test]
fn cases_come_from_a_file_or_a_pipe_and_results_go_likewise() {
    let folder = Folder::new("batch");
    folder.write("cases.jsonl", &cases());
    let printed = run(&folder, &["apply", "--batch", "cases.jsonl"]);
    assert_eq!(printed.code, Some(0), "a broken line is a result, not a failure: {printed:?}");
    expect(&rows(&printed.stdout));
    assert!(
        printed.stderr.ends_with(": 2 merged, 2 refused: ambiguous_location 1, bad_line 1\n"),
        "{}",
        printed.stderr
    );
    let piped = fed(&folder, &["apply", "--batch", "-", "--output", "results.jsonl", "--no-tree"], cases().as_bytes());
    assert_eq!((piped.code, piped.stdout.as_str()), (Some(0), ""));
    expect(&rows(&folder.read("results.jsonl")));
}

#[test]
fn what_cannot_be_read_or_written_ends_with_2() {
    let folder = Folder::new("batch-refused");
    folder.write("cases.jsonl", &cases());
    for (arguments, reason) in [
        (&["--batch", "nowhere.jsonl"][..], "nowhere.jsonl"),
        (&["--batch", "."], "read --batch ."),
        (&["--batch", "cases.jsonl", "--output", "nowhere/results.jsonl"], "nowhere/results.jsonl"),
        (&["--batch", "cases.jsonl", "--output", "./cases.jsonl"], "it is the file of the cases"),
    ] {
        let finished = run(&folder, &[&["apply"], arguments].concat());
        assert_eq!((finished.code, finished.stdout.as_str()), (Some(2), ""), "{finished:?}");
        assert!(finished.stderr.contains(reason), "{}", finished.stderr);
        assert_eq!(folder.read("cases.jsonl"), cases(), "the cases are as they were");
    }
}
