//! Several records in one document: written, read back, compared with the first.

use super::*;
use crate::compare::CompareVerdict;
use tokrate_meter::fixtures::steady_request;
use tokrate_record::Metric;
use tokrate_record::fixtures::{self, closed, phase};

/// A target of that name whose requests start after about `ttft` ms, at one concurrency.
fn target(model: &str, ttft: u64, concurrency: u32) -> Record {
    let requests: Vec<_> = (0..10).map(|i| steady_request(i, i * 2_000, ttft + i % 7, 10, 40)).collect();
    let mut record = fixtures::record(vec![phase(&closed(concurrency), &requests)]);
    record.conditions.model = model.to_owned();
    record
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn every_later_target_is_held_against_the_first() {
    let records = vec![target("m", 100, 1), target("n", 200, 1), target("o", 50, 1)];
    let judged = Comparison::of(records.clone()).judged(&names(&["first", "slow", "quick"]), false);
    assert_eq!((judged.records, judged.scorecard), (records, None));
    let pairs: Vec<_> = judged.against_first.iter().map(|it| (it.target.as_str(), it.first.as_str())).collect();
    assert_eq!(pairs, [("slow", "first"), ("quick", "first")]);
    for (against, verdict) in judged.against_first.iter().zip([CompareVerdict::Worse, CompareVerdict::Better]) {
        let ttft = &against.report.rows[0];
        assert_eq!((ttft.metric, ttft.verdict), (Metric::Ttft, verdict), "{ttft:?}");
        let unlike: Vec<&str> = against.report.unlike.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(unlike, ["model"], "what names a target differs, is told and stops nothing");
    }
}

#[test]
fn a_target_without_a_common_level_is_held_against_nothing() {
    let records = vec![target("m", 100, 1), target("n", 100, 9), target("o", 100, 1)];
    let judged = Comparison::of(records).judged(&names(&["first", "elsewhere", "third"]), false);
    let targets: Vec<&str> = judged.against_first.iter().map(|it| it.target.as_str()).collect();
    assert_eq!(targets, ["third"]);
    assert!(judged.uncompared(&names(&["first", "elsewhere", "third"])).eq(["elsewhere"]));
    assert!(Comparison::of(Vec::new()).judged(&[], false).against_first.is_empty(), "nobody is first among none");
}

#[test]
fn a_scorecard_is_there_when_it_is_asked_for() {
    let records = vec![target("m", 100, 1), target("n", 200, 1)];
    let judged = Comparison::of(records).judged(&names(&["first", "slow"]), true);
    let card = judged.scorecard.expect("asked for");
    let rows: Vec<_> = card.rows.iter().map(|row| (row.target.as_str(), row.ttft.first)).collect();
    assert_eq!(rows, [("first", Some(1)), ("slow", Some(2))]);
}

#[test]
fn a_comparison_reads_back_as_it_was_written() {
    let records = vec![target("m", 100, 1), target("n", 200, 1)];
    let judged = Comparison::of(records.clone()).judged(&names(&["first", "slow"]), true);
    let text = judged.to_json();
    assert!(text.starts_with("{\n") && text.ends_with("}\n"), "a field a line");
    assert_eq!(serde_json::from_str::<Comparison>(&text).expect("as written"), judged);
    assert_eq!(Comparison::parse_records(&text), Ok(records));
}

#[test]
fn a_document_without_comparisons_still_parses() {
    let plain = Comparison::of(vec![target("m", 100, 1)]);
    let mut fields: serde_json::Value = serde_json::from_str(&plain.to_json()).expect("as written");
    let object = fields.as_object_mut().expect("an object");
    assert!(object.remove("against_first").is_some() && object.remove("scorecard").is_some());
    assert_eq!(Comparison::parse_records(&fields.to_string()), Ok(plain.records));
}

#[test]
fn a_single_record_is_one_and_another_document_is_refused_by_its_name() {
    let record = target("m", 100, 1);
    assert_eq!(Comparison::parse_records(&record.to_json()), Ok(vec![record]));
    let other = Comparison::parse_records(r#"{"schema": "tokrate.compare.v1", "records": []}"#);
    assert_eq!(other, Err(RecordError::UnknownSchema { found: "tokrate.compare.v1".to_owned() }));
    let damaged = Comparison::parse_records(r#"{"schema": "tokrate.comparison.v1", "records": 1}"#);
    assert!(matches!(damaged, Err(RecordError::Malformed { line: 1, .. })), "{damaged:?}");
    assert_eq!(Comparison::parse_records("{}"), Err(RecordError::NoSchema));
}
