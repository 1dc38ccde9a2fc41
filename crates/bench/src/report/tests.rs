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
        until: None,
        spending: None,
        phases: Vec::new(),
        timeline: None,
        curve: None,
        assertions: Vec::new(),
        estimate: None,
        warnings: vec!["a <warning>".to_owned()],
        notes: Vec::new(),
    }
}

#[test]
fn a_failed_record_says_so_before_anything_else_and_escapes_what_it_shows() {
    let page = html(&record(), &Samples::default(), Vec::new());
    let body = &page[page.find("<body").expect("a body")..];
    let failed = body.find("no request was answered").expect("the reason");
    let conditions = body.find("Conditions").expect("the conditions");
    assert!(failed < conditions);
    assert!(body.contains("a &lt;warning&gt;") && !body.contains("<warning>") && !body.contains("<m>"));
}

#[test]
fn more_phases_than_a_table_takes_stand_in_several_with_the_rounds_of_a_load_together() {
    let groups = |rounds: &[usize]| {
        let loads: Vec<f64> = rounds.iter().zip(1..).flat_map(|(n, load)| vec![f64::from(load); *n]).collect();
        column_groups(&loads)
    };
    assert_eq!((groups(&[1; 8]).len(), groups(&[1; 8])[0].clone()), (1, 0..8));
    assert_eq!(groups(&[4, 4, 4]), [0..8, 8..12]);
    assert_eq!(groups(&[3, 3, 3]), [0..6, 6..9]);
    assert_eq!(groups(&[20, 1]), [0..8, 8..16, 16..21]);
    assert!(groups(&[]).is_empty());
}

#[test]
fn a_record_without_phases_has_no_curve() {
    assert_eq!(throughput_chart(&record()), None);
}
