//! Records read back as written, and invalid ones are rejected with their position.

use super::*;
use crate::fixtures::{closed, estimate, phase};
use crate::run::{PhaseInput, Warmup};
use crate::until::UntilEnd;
use proptest::prelude::*;
use tokrate_core::{Conditions, FailureKind, Price, Rng, Sketch, Span};
use tokrate_meter::fixtures::{failed_request, rate_limited_request, steady_request};
use tokrate_meter::request::RequestNumbers;

fn small() -> Record {
    let requests = [
        steady_request(0, 0, 130, 10, 40),
        steady_request(1, 600, 120, 10, 40),
        steady_request(2, 1_200, 110, 12, 36),
        failed_request(3, 1_900, 1_950, FailureKind::ServerError),
        rate_limited_request(4, 2_000, 2_010, Span::from_secs(1)),
    ];
    let mut lag = Sketch::new();
    lag.record_many(40_000, 99);
    lag.record(210_000);
    let input = PhaseInput { warmup: Warmup::Requests(1), timer_lag: &lag, ..closed(1) };
    Record {
        schema: Record::SCHEMA.to_owned(),
        tool: Tool { name: "tokrate".to_owned(), version: "0.1.0".to_owned() },
        kind: "bench".to_owned(),
        started_at: "2026-11-21T02:00:00Z".to_owned(),
        wall_seconds: 2.01,
        status: Status::Partial,
        reason: Some("interrupted by the user".to_owned()),
        conditions: ConditionsRow::from(input.conditions),
        price: Some(TargetPrice::of_tokens(
            Price::from_usd_per_million(0.59, 0.79).expect("a price"),
            "https://example.com/pricing",
            "2026-11-01",
        )),
        engine_host: Some(EngineHost { cpu: Some("a CPU".to_owned()), cores: Some(2), ..EngineHost::default() }),
        search: None,
        until: None,
        spending: None,
        phases: vec![phase(&input, &requests)],
        timeline: None,
        curve: None,
        assertions: Vec::new(),
        estimate: None,
        warnings: vec!["20.0 % of the requests failed".to_owned()],
        notes: Vec::new(),
    }
}

#[test]
fn a_record_reads_back_as_it_was_written() {
    let record = small();
    let text = record.to_json();
    assert_eq!(Record::parse(&text), Ok(record));
    insta::assert_snapshot!("record", text);
}

#[test]
fn a_record_with_a_curve_reads_back_too() {
    let mut record = small();
    let levels: Vec<crate::curve::LoadLevel> = record.phases.iter().map(PhaseResult::load_level).collect();
    record.curve = Some(CurveResult::of(record.phases[0].load_axis(), &levels, &Rng::root(1)));
    assert_eq!(Record::parse(&record.to_json()), Ok(record));
}

#[test]
fn an_empty_phase_can_be_written_without_nan() {
    let mut record = small();
    record.phases = vec![phase(&closed(1), &[])];
    let text = record.to_json();
    assert!(!text.contains("NaN") && !text.contains("inf\""));
    assert_eq!(Record::parse(&text), Ok(record));
}

#[test]
fn an_infinite_quantile_is_null_and_says_so() {
    let requests = [steady_request(0, 0, 1, 10, 40), failed_request(1, 500, 501, FailureKind::Empty)];
    let json = serde_json::to_value(phase(&closed(1), &requests)).expect("a result can be written");
    let p90 = &json["adj_ttft"]["p90"];
    assert_eq!((p90["value"].is_null(), p90["infinite"].as_bool()), (true, Some(true)));
}

#[test]
fn an_unknown_schema_is_refused_by_name() {
    let error = Record::parse("{\"schema\": \"tokrate.record.v2\", \"other\": 1}").expect_err("another version");
    assert_eq!(error, RecordError::UnknownSchema { found: "tokrate.record.v2".to_owned() });
    assert_eq!(
        error.to_string(),
        "read the record: its schema is \"tokrate.record.v2\" and only \"tokrate.record.v1\" is known; use the version of \
         tokrate that wrote it"
    );
    assert_eq!(Record::parse("{}"), Err(RecordError::NoSchema));
    assert_eq!(Record::parse("{\"schema\": null}"), Err(RecordError::NoSchema));
}

#[test]
fn an_error_names_line_and_column() {
    let text = small().to_json();
    let line = text.lines().position(|line| line.contains("\"answered\"")).expect("a count") + 1;
    let broken = text.replacen("\"answered\": 3", "\"answered\": \"3\"", 1);
    let Err(RecordError::Malformed { line: found, column, message }) = Record::parse(&broken) else {
        panic!("a text is not a number")
    };
    assert_eq!((found, column > 10), (line, true));
    assert_eq!(message, "invalid type: string \"3\", expected u64");
    let error = Record::parse("{\n  \"schema\": \n}").expect_err("no value");
    assert!(error.to_string().starts_with("read the record at line 3, column 1: "), "{error}");
    assert!(matches!(Record::parse(""), Err(RecordError::Malformed { .. })));
    assert!(matches!(Record::parse("[]"), Err(RecordError::Malformed { .. })));
}

#[test]
fn a_missing_field_is_named() {
    let text = small().to_json().replacen("\"wall_seconds\"", "\"walls\"", 1);
    let error = Record::parse(&text).expect_err("a field is missing").to_string();
    assert!(error.contains("missing field `wall_seconds`"), "{error}");
}

#[test]
fn conditions_survive_the_way_through_a_row() {
    let conditions = Conditions {
        model: "m".into(),
        concurrency: Some(4),
        rate: Some(2.5),
        seed: u64::MAX,
        region: "eu".into(),
        ..Conditions::default()
    };
    let row = ConditionsRow::from(&conditions);
    assert_eq!(Conditions::from(&row), conditions);
    assert_eq!(row.fingerprint, conditions.fingerprint().to_string());
    let json = serde_json::to_value(&row).expect("conditions can be written");
    for (name, _) in conditions.entries() {
        assert!(json.get(name).is_some(), "{name} is missing in the record");
    }
}

#[test]
fn violations_come_with_their_phase() {
    let mut record = small();
    assert_eq!(record.violations().count(), 0);
    let mut wrong = steady_request(0, 0, 10, 10, 4);
    wrong.tokens_std_answer = 1;
    record.phases.push(phase(&closed(1), &[wrong]));
    let found: Vec<&str> = record.violations().map(|(phase, _)| phase.name.as_str()).collect();
    assert_eq!(found, ["concurrency 1"]);
}

#[test]
fn schemas_name_every_field_of_what_is_written() {
    let fields = |value: &serde_json::Value| value.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
    let schema = schemars::schema_for!(Record).to_value();
    assert_eq!(schema["properties"]["schema"]["const"], Record::SCHEMA);
    let until = Some(UntilResult { end: UntilEnd::Reached, conditions: Vec::new(), verdict: None });
    let record = Record { estimate: estimate(&[(1, 20.0)]).estimate, until, ..small() };
    let record = serde_json::to_value(record).expect("a record can be written");
    assert_eq!(fields(&schema["properties"]), fields(&record));
    assert_eq!(fields(&schema["$defs"]["PhaseResult"]["properties"]), fields(&record["phases"][0]));
    let row = serde_json::to_value(steady_request(0, 0, 1, 1, 4)).expect("a row can be written");
    assert_eq!(fields(&schemars::schema_for!(RequestNumbers).to_value()["properties"]), fields(&row));
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in ".{0,200}") {
        let _ = Record::parse(&text);
    }

    #[test]
    fn a_record_cut_anywhere_is_refused(share in 0.0..1.0_f64) {
        let text = small().to_json();
        let mut cut = (text.len() as f64 * share) as usize;
        while !text.is_char_boundary(cut) {
            cut -= 1;
        }
        // All but the closing brace and the line feed.
        prop_assert!(Record::parse(&text[..cut.min(text.len() - 2)]).is_err());
    }
}
