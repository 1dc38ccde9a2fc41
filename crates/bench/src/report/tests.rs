//! Reports of records without phases and of failed runs: no panic, warnings first.

use super::*;
use tokrate_core::Conditions;
use tokrate_record::{ConditionsRow, Tool};

fn record() -> Record {
    let conditions =
        Conditions { model: "<m>".to_owned(), endpoint: "http://h/v1".to_owned(), ..Conditions::default() };
    Record {
        schema: Record::SCHEMA.to_owned(),
        tool: Tool { name: "tokrate".to_owned(), version: "0".to_owned() },
        kind: "bench".to_owned(),
        started_at: "2026-11-21T00:00:00Z".to_owned(),
        wall_seconds: 1.0,
        status: Status::Failed,
        reason: Some("no request was answered".to_owned()),
        conditions: ConditionsRow::from(&conditions),
        price: None,
        engine_host: None,
        search: None,
        spending: None,
        phases: Vec::new(),
        curve: None,
        assertions: Vec::new(),
        estimate: None,
        warnings: vec!["a <warning>".to_owned()],
        notes: Vec::new(),
    }
}

#[test]
fn a_failed_record_says_so_before_anything_else_and_escapes_what_it_shows() {
    let page = html(&record(), &Samples::default());
    let body = &page[page.find("<body").expect("a body")..];
    let failed = body.find("no request was answered").expect("the reason");
    let conditions = body.find("Conditions").expect("the conditions");
    assert!(failed < conditions);
    assert!(body.contains("a &lt;warning&gt;") && !body.contains("<warning>") && !body.contains("<m>"));
}

#[test]
fn a_record_without_phases_has_no_curve() {
    assert_eq!(throughput_chart(&record()), None);
}
