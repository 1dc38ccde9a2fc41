//! Edits as models write them, written by hand by somebody who had not seen the engine: files in some thirty languages, each with a few edits, and
//! what a careful reader says must come of each; some name no one place and must be refused.
//!
//! `tests/written/edits.jsonl` holds the files, and the edits with the lines of the wanted text that replace those of the file.

use serde_json::Value;
use std::collections::BTreeMap;
use tokrate_apply::{Outcome, edit};

/// So many of those that name one place are merged. It only ever rises.
const LEAST_MERGED: usize = 155;

#[test]
fn edits_written_by_hand_are_merged_as_a_reader_would_or_refused() {
    let text = include_str!("../written/edits.jsonl");
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    let is_file = |line: &&Value| line.get("path").is_some();
    let files: BTreeMap<u64, (&str, &str)> =
        lines.iter().filter(is_file).map(|it| (number(it, "file"), (words(it, "path"), words(it, "text")))).collect();
    let (mut merged, mut wrong) = (0, Vec::new());
    for written in lines.iter().filter(|line| !is_file(line)) {
        let (path, original) = files[&number(written, "file")];
        let wanted = written["wanted"].as_array().map(|splices| spliced(original, splices));
        let Outcome::Merged(found) = edit(path, original, words(written, "update"), None) else { continue };
        if Some(&found.text) == wanted.as_ref() {
            merged += 1;
        } else {
            wrong.push(number(written, "id"));
        }
    }
    assert!(wrong.is_empty(), "merged otherwise than a reader would: {wrong:?}");
    assert!(merged >= LEAST_MERGED, "{merged} merged");
}

fn number(line: &Value, name: &str) -> u64 {
    line[name].as_u64().expect("a number")
}

fn words<'l>(line: &'l Value, name: &str) -> &'l str {
    line[name].as_str().expect("a text")
}

/// The text with lines `from..to` replaced, for each `[from, to, text]`.
fn spliced(original: &str, splices: &[Value]) -> String {
    let mut lines: Vec<&str> = original.split_inclusive('\n').collect();
    for splice in splices.iter().rev() {
        let at = |place: usize| splice[place].as_u64().expect("a line") as usize;
        lines.splice(at(0)..at(1), splice[2].as_str());
    }
    lines.concat()
}
