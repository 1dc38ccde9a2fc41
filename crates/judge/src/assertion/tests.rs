//! Syntax of assertions, and their outcome on small phases.

use super::*;
use proptest::prelude::*;
use tokrate_core::FailureKind;
use tokrate_meter::fixtures::{failed_request, steady_request};
use tokrate_record::fixtures::{closed, phase};

mod numbers;
mod rounds;

fn actual(text: &str) -> String {
    match Assertion::parse(text) {
        Ok(assertion) => assertion.to_string(),
        Err(error) => {
            assert!(Assertion::parse(&error.example).is_ok(), "the example of {error}");
            format!("{text}\n    {}: {}; '{}'", error.column, error.message, error.example)
        }
    }
}

fn outcome(text: &str, phases: &[PhaseResult]) -> Vec<(AssertionStatus, String)> {
    let assertion = Assertion::parse(text).unwrap_or_else(|error| panic!("{error}"));
    assertion.judge(phases).into_iter().map(|outcome| (outcome.status, outcome.detail)).collect()
}

#[test]
fn demands_are_read_with_the_unit_in_either_place() {
    for text in ["ttft_ms.p95 < 500", "ttft.p95<500ms", "ttft.p95 < 0.5 s", "ttft_s.p95<0.5"] {
        assert_eq!(actual(text), "ttft_ms.p95 < 500", "{text}");
    }
    assert_eq!(actual("ttft_ms.p99.9 <= 1e3"), "ttft_ms.p99_9 <= 1000");
    assert_eq!(actual("failures.share < 1 %"), "failures.share < 0.01");
    assert_eq!(actual("goodput.share>=0.95@concurrency 10"), "goodput.share >= 0.95 @ concurrency 10");
    assert_eq!(
        actual("output_speed.slowest_5_percent > 30 tok/s @ rate 2.5"),
        "output_speed.slowest_5_percent > 30 @ rate 2.5"
    );
    assert_eq!(actual("throughput.output_tokens_per_second > 100"), "throughput.output_tokens_per_second > 100");
}

#[test]
fn other_spellings_of_a_percentile_are_read_as_it() {
    for text in [
        "ttft_p95<400ms",
        "p95(ttft)<400ms",
        "p95_ttft_ms < 400",
        "ttft p95 < 0.4s",
        "P95 TTFT<400000us",
        "ttft_ms_p95<400",
    ] {
        assert_eq!(actual(text), "ttft_ms.p95 < 400", "{text}");
    }
    assert_eq!(actual("median_tpot_ms<50"), "tpot_ms.p50 < 50");
    assert_eq!(actual("tpot_ms.median<50"), "tpot_ms.p50 < 50");
    assert_eq!(actual("tpot_ms.avg<50 @ concurrency=10"), "tpot_ms.mean < 50 @ concurrency 10");
    assert_eq!(actual("output_speed.p50>30 @ rate=2"), "output_speed.median > 30 @ rate 2");
    assert_eq!(actual("p99.9(e2el)<3s @ concurrency 4"), "e2e_ms.p99_9 < 3000 @ concurrency 4");
    assert_eq!(actual("mean(output_speed)>30"), "output_speed.mean > 30");
    assert_eq!(actual("e2e_from_due_p99<1s"), "e2e_from_due_ms.p99 < 1000");
}

#[test]
fn pairs_of_other_tools_are_of_every_request_or_of_their_percentile() {
    let read = |text: &str| match Assertion::parse_all(text) {
        Ok(assertions) => assertions.iter().map(Assertion::to_string).collect::<Vec<String>>().join(", "),
        Err(error) => {
            assert!(Assertion::parse_all(&error.example).is_ok(), "the example of {error}");
            format!("{}: {}; '{}'", error.column, error.message, error.example)
        }
    };
    assert_eq!(read("ttft:400"), "adj_ttft_ms.max <= 400");
    assert_eq!(read("ttft:400 tpot:50ms"), "adj_ttft_ms.max <= 400, adj_tpot_ms.max <= 50");
    assert_eq!(read("TTFT: 400, e2el: 2000"), "adj_ttft_ms.max <= 400, adj_e2e_ms.max <= 2000");
    assert_eq!(
        read("time_to_first_token:75 inter_token_latency:20.5"),
        "adj_ttft_ms.max <= 75, adj_tpot_ms.max <= 20.5"
    );
    assert_eq!(
        read("p99_ttft_ms:400 median_tpot_ms:50 @ concurrency 4"),
        "ttft_ms.p99 <= 400 @ concurrency 4, tpot_ms.p50 <= 50 @ concurrency 4"
    );
    assert_eq!(read("ttft_ms.p95:400"), "ttft_ms.p95 <= 400");
    assert_eq!(read("output_speed.median:30"), "output_speed.median >= 30");
    assert_eq!(read("ttft_ms.p95 < 400 @ concurrency 4"), "ttft_ms.p95 < 400 @ concurrency 4", "no pair");
    let bad = [
        "ttft:",
        "ttft:fast",
        "ttft:400s",
        "tftf:400",
        "ttft:400 tpot",
        "output_speed:30",
        "failures.share:1%",
        "ttft.p96:4",
    ];
    insta::assert_snapshot!("refused_pairs", bad.map(|text| format!("{text}\n    {}", read(text))).join("\n"));
}

#[test]
fn a_failed_request_does_not_keep_a_pair() {
    let mut requests: Vec<_> = (0..8).map(|i| steady_request(i, i * 1_000, 100, 10, 40)).collect();
    let status = |text: &str, requests: &[_]| {
        let assertions = Assertion::parse_all(text).expect("pairs");
        let phases = [phase(&closed(1), requests)];
        assertions
            .iter()
            .flat_map(|assertion| assertion.judge(&phases))
            .map(|outcome| outcome.status)
            .collect::<Vec<_>>()
    };
    assert_eq!(status("ttft:100 tpot:9", &requests), [AssertionStatus::Met, AssertionStatus::Missed]);
    requests.push(failed_request(8, 8_000, 8_010, FailureKind::Stalled));
    assert_eq!(status("ttft:100", &requests), [AssertionStatus::Missed]);
}

#[test]
fn a_text_that_is_no_assertion_is_refused_with_its_column() {
    let bad = [
        "",
        "ttft",
        "tftf_ms.p95 < 500",
        "ttft_ms.p96 < 500",
        "ttft_ms.p95 500",
        "ttft_ms.p95 < fast",
        "ttft.p95 < 500",
        "ttft_ms.p95 < 500s",
        "output_speed.p95 > 30",
        "output_speed.median > 30ms",
        "failures.rate < 0.01",
        "failures.share < 1 ms",
        "ttft_ms.p95 < 500 @ 10",
        "ttft_ms.p95 < 500 @ concurrency 2.5",
        "ttft_ms.p95 < 500 at 10",
        "throughput_ms.tokens_per_second > 3",
        "ttft_p95 < 400",
        "p95(output_speed) > 30",
        "p96(ttft) < 400ms",
        "p95(ttft) 400ms",
        "goodput.part > 3",
    ];
    insta::assert_snapshot!("refused", bad.map(actual).join("\n"));
}

#[test]
fn a_percentile_of_too_few_samples_is_not_met() {
    let requests: Vec<_> = (0..129).map(|i| steady_request(i, i * 1_000, 100, 10, 40)).collect();
    let few = [phase(&closed(1), &requests)];
    assert_eq!(
        outcome("ttft_ms.p95 < 500", &few),
        [(AssertionStatus::NotEnoughSamples, "not enough samples (n = 129), needs 130".to_owned())]
    );
    assert_eq!(outcome("ttft_ms.p50 <= 100", &few), [(AssertionStatus::Met, "100.00 ms".to_owned())]);
    assert_eq!(outcome("ttft_ms.p50 < 100", &few), [(AssertionStatus::Missed, "100.00 ms".to_owned())]);
    assert_eq!(outcome("output_speed.median > 99", &few), [(AssertionStatus::Met, "100.00 tok/s".to_owned())]);
    assert_eq!(outcome("goodput.share > 0.9", &few)[0].0, AssertionStatus::NotMeasured);
}

#[test]
fn failures_are_shares_and_infinite_times() {
    let requests: Vec<_> = (0..8)
        .map(|i| match i {
            0..5 => failed_request(i, i * 1_000, i * 1_000 + 10, FailureKind::Stalled),
            _ => steady_request(i, i * 1_000, 100, 10, 40),
        })
        .collect();
    let phases = [phase(&closed(1), &requests)];
    assert_eq!(outcome("failures.share < 1 %", &phases), [(AssertionStatus::Missed, "62.50 %".to_owned())]);
    let infinite = outcome("adj_e2e_ms.p50 < 1e9", &phases);
    assert_eq!(infinite[0].0, AssertionStatus::Missed);
    assert!(infinite[0].1.starts_with("infinite"), "{infinite:?}");
    assert_eq!(outcome("adj_e2e_ms.mean < 1e9", &phases)[0].0, AssertionStatus::Missed);
}

#[test]
fn a_load_selects_its_phases_and_one_that_was_not_run_is_not_met() {
    let requests: Vec<_> = (0..10).map(|i| steady_request(i, i * 1_000, 100, 10, 40)).collect();
    let phases = [phase(&closed(1), &requests), phase(&closed(4), &requests)];
    assert_eq!(outcome("counts.answered >= 10", &phases).len(), 2);
    assert_eq!(outcome("counts.answered >= 10 @ concurrency 4", &phases).len(), 1);
    let missing = outcome("counts.answered >= 10 @ concurrency 8", &phases);
    assert_eq!(
        missing,
        [(AssertionStatus::NotMeasured, "no phase has this load; run were concurrency 1, concurrency 4".to_owned())]
    );
    assert_eq!(outcome("counts.answered >= 1 @ rate 5", &[])[0].0, AssertionStatus::NotMeasured);
}

#[test]
fn every_name_can_be_looked_up() {
    let phases = [phase(&closed(1), &[steady_request(0, 0, 100, 10, 40)])];
    for name in lookup::subject_names() {
        let subject = subject_of(&name).expect("it is listed");
        for statistic in subject.statistics() {
            let unit = if subject.unit_of(statistic) == MetricUnit::Milliseconds { "ms" } else { "" };
            let outcomes = outcome(&format!("{name}.{statistic} >= 0{unit}"), &phases);
            assert_eq!(outcomes.len(), 1, "{name}.{statistic}");
        }
    }
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused_within_its_length(text in "\\PC{0,40}") {
        for error in [Assertion::parse(&text).err(), Assertion::parse_all(&text).err()].into_iter().flatten() {
            prop_assert!(error.column >= 1 && error.column <= text.chars().count() + 1);
        }
    }

    #[test]
    fn a_written_value_reads_back(bound in 0.0..1e6_f64, concurrency in 1_u32..1_000) {
        let written = format!("ttft_ms.p99 < {bound} @ concurrency {concurrency}");
        prop_assert_eq!(actual(&written), written);
    }
}
