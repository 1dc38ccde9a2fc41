//! The text of the metrics, and that no label holds what was not configured.

use super::*;
use std::collections::BTreeSet;
use tokrate_core::FailureKind;
use tokrate_gateway::sample::{NOON_UNIX_MS, SampleGateway, failed, lane_config, lost, row};
use tokrate_gateway::telemetry::LogStatus;
use tokrate_record::{Attempt as Row, Sample, SampleConditions};
use tokrate_store::LogCounts;

/// Stands for what clients and providers choose, and for secrets.
const FOREIGN: &str = "foreign";

fn metrics_of(rows: &[Row], lanes: &[(&str, &str, &str)]) -> String {
    let lanes = lanes.iter().map(|(name, provider, model)| lane_config(name, provider, model, Some(8)));
    let sample = SampleGateway::new(lanes.collect());
    rows.iter().for_each(|row| sample.record(row));
    text(sample.snapshot(NOON_UNIX_MS + 1_000))
}

#[test]
fn the_text_is_unchanged() {
    let rows = [row(1, "a"), lost(2, "a", 1), row(2, "b"), failed(3, "a", FailureKind::RateLimited)];
    let text = metrics_of(&rows, &[("a", "example", "model-1"), ("b", "example", "model-1")]);
    // The buckets of one family are enough to show their form.
    let short = |line: &&str| !line.contains("_bucket") || line.starts_with("tokrate_gateway_overhead");
    insta::assert_snapshot!(text.lines().filter(short).collect::<Vec<_>>().join("\n"));
}

#[test]
fn what_the_log_could_not_keep_is_counted_rows_and_refusals_apart() {
    let sample = SampleGateway::new(vec![lane_config("a", "example", "model-1", None)]);
    let counts = LogCounts { written: 7, lost: 2, waiting: 1, on_disk: 0, pruned: 0, lost_refusals: 3 };
    let log = LogStatus { path: String::new(), counts, error: None, is_healthy: true };
    let text = text(Snapshot { log: Some(log), ..sample.snapshot(NOON_UNIX_MS) });
    for line in ["rows_written_total 7.0", "rows_lost_total 2.0", "refusals_lost_total 3.0", "rows_waiting 1.0"] {
        assert!(text.lines().any(|shown| shown.replace("{}", "") == format!("tokrate_log_{line}")), "{line} in {text}");
    }
}

#[test]
fn buckets_count_up_to_the_count() {
    let text = metrics_of(&[row(1, "a"), row(2, "a")], &[("a", "example", "model-1")]);
    let family = "gen_ai_server_time_to_first_token_seconds";
    let labels = r#"gen_ai_operation_name="chat",gen_ai_provider_name="example",gen_ai_request_model="model-1",tokrate_lane="a""#;
    let bucket = |le: &str| format!("{family}_bucket{{le=\"{le}\",{labels}}}");
    let value = |series: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(series)).unwrap_or_else(|| panic!("no {series}"));
        line.trim().parse::<f64>().expect("a number")
    };
    assert_eq!(value(&bucket("0.15")), 0.0);
    assert_eq!(value(&bucket("0.2")), 2.0);
    assert_eq!(value(&bucket("130.0")), 2.0);
    assert_eq!(value(&bucket("+Inf")), 2.0);
    assert_eq!(value(&format!("{family}_count{{{labels}}}")), 2.0);
    assert!((value(&format!("{family}_sum{{{labels}}}")) - 0.36).abs() < 1e-9);
}

#[test]
fn no_label_holds_what_clients_or_providers_chose() {
    let mut rows = Vec::new();
    for number in 0..200u64 {
        let foreign = || format!("{FOREIGN}-{number}");
        let (alias, key, model_answered) = (foreign(), Some(foreign()), Some(foreign()));
        rows.push(Row {
            alias,
            key,
            call: foreign(),
            sample: Sample { model_answered, ..row(number, "a").sample },
            ..row(number, "a")
        });
        rows.push(Row {
            dialect_in: foreign().into(),
            sample: Sample {
                dialect: foreign().into(),
                conditions: SampleConditions { version: foreign(), ..SampleConditions::default() }.into(),
                ..row(number, "a").sample
            },
            ..row(number, "a")
        });
    }
    let text = metrics_of(&rows, &[("a", "example", "model-1")]);
    assert!(!text.contains(FOREIGN), "{text}");
    let few = metrics_of(&rows[..2], &[("a", "example", "model-1")]);
    let series = |text: &str| text.lines().filter(|line| !line.starts_with('#')).count();
    assert_eq!(series(&text), series(&few), "more calls make no more series");
}

#[test]
fn names_of_lanes_are_escaped() {
    let name = "a\"} 1 <script>\\";
    let mut hostile = row(1, "a");
    hostile.lane = name.to_owned();
    let text = metrics_of(&[hostile], &[(name, "example", "model-1")]);
    assert!(text.contains(r#"lane="a\"} 1 <script>\\""#), "{text}");
    assert!(text.lines().all(|line| line.starts_with('#') || line.rsplit(' ').next().is_some_and(is_number)), "{text}");
}

#[test]
fn every_family_is_described_once_and_written_in_one_place() {
    let sample = SampleGateway::with_traffic(NOON_UNIX_MS);
    let text = text(sample.snapshot(NOON_UNIX_MS));
    let mut described = BTreeSet::new();
    let mut family = String::new();
    for line in text.lines() {
        if let Some(named) = line.strip_prefix("# TYPE ") {
            family = named.split(' ').next().unwrap_or_default().to_owned();
            assert!(described.insert(family.clone()), "{family} twice");
        } else if !line.starts_with('#') {
            assert!(line.starts_with(&family), "{line} stands under {family}");
            let (series, value) = line.rsplit_once(' ').expect("a series and its value");
            assert!(is_number(value), "{line}");
            assert!(described.insert(series.to_owned()), "{series} twice");
        }
    }
    assert!(text.ends_with("# EOF\n"));
}

fn is_number(text: &str) -> bool {
    text.parse::<f64>().is_ok_and(f64::is_finite)
}
