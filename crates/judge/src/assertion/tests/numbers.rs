//! Every value an assertion can name: its unit, the loads it applies to, the samples it needs.

use super::*;
use tokrate_meter::RequestNumbers;
use tokrate_meter::request::NoSpeedReason;
use tokrate_record::Goodput;
use tokrate_record::run::Throughput;
use tokrate_stats::{Quantile, QuantileStatus};

/// A phase in which no two numbers are the same.
fn distinct() -> PhaseResult {
    let requests: Vec<_> = (0..20).map(|i| steady_request(i, i * 1_000, 100 + 10 * i, 10, 40)).collect();
    let mut result = phase(&closed(4), &requests);
    let counts = &mut result.counts;
    (counts.started, counts.answered, counts.failed, counts.rate_limited) = (101, 102, 103, 104);
    (counts.cancelled, counts.measured, counts.late, counts.forfeited) = (105, 106, 107, 108);
    (result.rate_limited.count, result.rate_limited.share) = (109, Some(0.11));
    (result.concurrency.mean, result.concurrency.peak) = (Some(3.5), 4);
    (result.tokens.std, result.tokens.reported, result.tokens.reported_over_std) = (111, Some(112), Some(1.13));
    result.throughput = Some(Throughput {
        window_seconds: 9.0,
        tokens: 114,
        tokens_per_second: 115.5,
        interval: None,
        peak_tokens_per_second: 116.5,
        parts: 9,
        requests: 117,
        requests_per_second: 11.8,
    });
    result.goodput = Some(Goodput {
        slos: Vec::new(),
        met: 119,
        of: 120,
        undecided: 0,
        missed_rate_limited: 0,
        missed_failed: 1,
        share: Some(0.991),
        interval: None,
        per_second: Some(1.22),
    });
    let speed = |value| Quantile {
        value: Some(value),
        descriptive: None,
        low: None,
        high: None,
        confidence: 0.98,
        status: QuantileStatus::Stated,
        floor: 130,
        infinite: false,
        high_infinite: false,
    };
    let speeds = &mut result.output_speed;
    (speeds.n, speeds.mean, speeds.median) = (123, Some(124.5), speed(125.5));
    (speeds.slowest_5_percent, speeds.slowest_1_percent) = (speed(126.5), speed(127.5));
    result
}

/// The number, its unit and how it is shown.
fn looked_up(demand: &str, phase: &PhaseResult) -> (Option<f64>, String, String) {
    let assertion = Assertion::parse(demand).unwrap_or_else(|error| panic!("{error}"));
    let mut outcomes = assertion.judge(std::slice::from_ref(phase));
    assert_eq!(outcomes.len(), 1, "{demand}");
    let outcome = outcomes.remove(0);
    (outcome.value, outcome.unit, outcome.detail)
}

#[test]
fn every_number_is_its_own_and_has_its_unit() {
    let phase = distinct();
    for (demand, value, unit, shown) in [
        ("counts.started > 0", 101.0, "", "101"),
        ("counts.answered > 0", 102.0, "", "102"),
        ("counts.failed > 0", 103.0, "", "103"),
        ("counts.rate_limited > 0", 104.0, "", "104"),
        ("counts.cancelled > 0", 105.0, "", "105"),
        ("counts.measured > 0", 106.0, "", "106"),
        ("counts.late > 0", 107.0, "", "107"),
        ("counts.forfeited > 0", 108.0, "", "108"),
        ("failures.count > 0", 103.0, "", "103"),
        ("rate_limited.count > 0", 109.0, "", "109"),
        ("rate_limited.share > 0", 0.11, "", "11.00 %"),
        ("concurrency.mean > 0", 3.5, "", "3.500"),
        ("concurrency.peak > 0", 4.0, "", "4.000"),
        ("tokens.std > 0", 111.0, "", "111"),
        ("tokens.reported > 0", 112.0, "", "112"),
        ("tokens.reported_over_std > 0", 1.13, "", "1.130"),
        ("throughput.output_tokens_per_second > 0", 115.5, "tok/s", "115.50 tok/s"),
        ("throughput.tokens_per_second > 0", 115.5, "tok/s", "115.50 tok/s"),
        ("throughput.peak_tokens_per_second > 0", 116.5, "tok/s", "116.50 tok/s"),
        ("throughput.requests_per_second > 0", 11.8, "1/s", "11.80 1/s"),
        ("goodput.met > 0", 119.0, "", "119"),
        ("goodput.of > 0", 120.0, "", "120"),
        ("goodput.share > 0", 0.991, "", "99.10 %"),
        ("goodput.per_second > 0", 1.22, "1/s", "1.22 1/s"),
        ("output_speed.n > 0", 123.0, "", "123"),
        ("output_speed.mean > 0", 124.5, "tok/s", "124.50 tok/s"),
        ("output_speed.median > 0", 125.5, "tok/s", "125.50 tok/s"),
        ("output_speed.slowest_5_percent > 0", 126.5, "tok/s", "126.50 tok/s"),
        ("output_speed.slowest_1_percent > 0", 127.5, "tok/s", "127.50 tok/s"),
        // Times to first token of 100, 110, ... 290 ms.
        ("ttft_ms.n > 0", 20.0, "", "20"),
        ("ttft_ms.mean > 0", 195.0, "ms", "195.00 ms"),
        ("ttft_ms.min > 0", 100.0, "ms", "100.00 ms"),
        ("ttft_ms.max > 0", 290.0, "ms", "290.00 ms"),
        ("ttft_ms.p50 > 0", 190.0, "ms", "190.00 ms"),
        // (20^2 - 1) / 12 * 20 / 19 * 100 = 3,500.
        ("ttft_ms.standard_deviation > 0", 3_500.0_f64.sqrt(), "ms", "59.16 ms"),
    ] {
        let (found, its_unit, detail) = looked_up(demand, &phase);
        assert!(found.is_some_and(|found| (found - value).abs() < 1e-9), "{demand}: {found:?}");
        assert_eq!((its_unit.as_str(), detail.as_str()), (unit, shown), "{demand}");
    }
}

#[test]
fn with_failures_count_and_minimum_are_known_and_all_else_is_infinite() {
    let mut requests: Vec<_> = (0..20).map(|i| steady_request(i, i * 1_000, 100, 10, 40)).collect();
    requests.push(failed_request(20, 20_000, 20_100, FailureKind::Stalled));
    let phase = phase(&closed(1), &requests);
    let value = |statistic: &str| looked_up(&format!("adj_ttft_ms.{statistic} >= 0"), &phase).0;
    assert_eq!((value("n"), value("min")), (Some(21.0), Some(100.0)));
    for statistic in ["mean", "max", "standard_deviation"] {
        assert_eq!(value(statistic), None, "{statistic}");
        assert!(looked_up(&format!("adj_ttft_ms.{statistic} >= 0"), &phase).2.starts_with("infinite"), "{statistic}");
    }
}

#[test]
fn a_speed_of_too_few_samples_is_not_met_and_one_that_no_request_has_is_not_measured() {
    let requests: Vec<_> = (0..20).map(|i| steady_request(i, i * 1_000, 100, 10, 40)).collect();
    let few = [phase(&closed(1), &requests)];
    let expected = (AssertionStatus::NotEnoughSamples, "not enough samples (n = 20), needs 130".to_owned());
    assert_eq!(outcome("output_speed.slowest_5_percent > 1", &few), [expected]);
    let silent = [phase(&closed(1), &[failed_request(0, 0, 100, FailureKind::Stalled)])];
    assert_eq!(outcome("output_speed.median > 1", &silent)[0].0, AssertionStatus::NotMeasured);
    assert_eq!(outcome("ttft_ms.mean < 1", &silent)[0].0, AssertionStatus::NotMeasured);
}

#[test]
fn a_demand_knows_how_many_requests_it_needs() {
    let needed = |demand: &str| Assertion::parse(demand).unwrap_or_else(|error| panic!("{error}")).requests_needed();
    for (demand, requests) in [
        ("ttft_ms.p50 < 1", Some(6)),
        ("ttft_ms.p90 < 1", Some(64)),
        ("ttft_ms.p95 < 1", Some(130)),
        ("adj_e2e_ms.p99 < 1", Some(662)),
        ("tpot_ms.p99_9 < 1", Some(6_636)),
        ("output_speed.median > 1", Some(6)),
        ("output_speed.slowest_5_percent > 1", Some(130)),
        ("e2e_speed.slowest_1_percent > 1", Some(662)),
        // Of tokens and not of requests, or of any number of them.
        ("itl_ms.p99 < 1", None),
        ("chunk_gap_ms.p99 < 1", None),
        ("ttft_ms.mean < 1", None),
        ("output_speed.mean > 1", None),
        ("failures.share < 1", None),
    ] {
        assert_eq!(needed(demand), requests, "{demand}");
    }
}

#[test]
fn a_demand_is_about_the_metric_of_requests_that_it_names() {
    let metric = |demand: &str| Assertion::parse(demand).unwrap_or_else(|error| panic!("{error}")).metric();
    assert_eq!(metric("ttft_ms.p95 < 1"), Some(Metric::Ttft));
    assert_eq!(metric("adj_ttft_ms.p95 < 1"), Some(Metric::Ttft));
    assert_eq!(metric("output_speed.median > 1"), Some(Metric::OutputSpeed));
    assert_eq!(metric("failures.share < 1"), None);
}

#[test]
fn a_demand_is_for_its_own_load() {
    let is_for = |place: &str, load| {
        Assertion::parse(&format!("counts.answered > 1{place}"))
            .unwrap_or_else(|error| panic!("{error}"))
            .is_for_load(load)
    };
    let (closed, open) = (|concurrency| Load::Closed { concurrency }, |rate| Load::Open { rate, cap: None });
    assert!(is_for("", closed(3)) && is_for("", open(3.0)));
    assert!(is_for(" @ concurrency 3", closed(3)) && !is_for(" @ concurrency 3", closed(4)));
    assert!(is_for(" @ rate 5", open(5.0)) && !is_for(" @ rate 5", open(5.1)) && !is_for(" @ rate 5", open(4.9)));
    assert!(is_for(" @ rate 5", open(5.000_000_004)), "a rate that was rounded");
    assert!(!is_for(" @ rate 3", closed(3)) && !is_for(" @ concurrency 3", open(3.0)));
}

#[test]
fn errors_quote_the_text_as_typed() {
    let refused = |text: &str| Assertion::parse(text).expect_err(text);
    assert_eq!(refused("ttft_p95 < 400").text, "ttft_p95 < 400");
    assert!(refused("ttft_foo.p95 < 500").message.contains("`ttft_foo` is no metric"), "a unit that is none");
    assert!(refused("throughput.requests_per_second > 3 ms").message.ends_with("expected req/s or no unit"));
    let shown = refused("ttft.p95 < 500").to_string();
    assert!(shown.starts_with("`ttft.p95 < 500`, column 15: expected a unit"), "{shown}");
    assert!(shown.contains("; write for example '"), "{shown}");
    // What has other statistics is not asked for a percentile.
    let shown = refused("throughput > 100").message;
    assert!(shown.ends_with(
        "it has .output_tokens_per_second, .tokens_per_second, .peak_tokens_per_second, .requests_per_second"
    ));
    assert!(refused("failures < 1%").message.ends_with("it has .share, .count"));
}

#[test]
fn a_demand_may_be_for_a_load_in_between() {
    let between = |place: &str, low, high| {
        let text = format!("ttft_ms.p50 < 500{place}");
        Assertion::parse(&text).expect("a demand").is_for_load_between(low, high)
    };
    let (closed, open) = (|concurrency| Load::Closed { concurrency }, |rate| Load::Open { rate, cap: None });
    assert!(between("", closed(1), closed(9)) && between("", open(0.0), open(1.0)));
    assert!(between(" @ concurrency 3", closed(1), closed(9)) && !between(" @ concurrency 10", closed(1), closed(9)));
    assert!(between(" @ rate 2.5", open(0.0), open(2.5)) && !between(" @ rate 3", open(0.0), open(2.5)));
    assert!(!between(" @ rate 3", closed(1), closed(9)) && !between(" @ concurrency 3", open(0.0), open(9.0)));
}

#[test]
fn statistics_have_the_names_that_others_give_them() {
    for (typed, meant) in [
        ("p95.ttft<400ms", "ttft_ms.p95 < 400"),
        ("p50(output_speed) > 30", "output_speed.median > 30"),
        ("ttft_p50 < 40ms", "ttft_ms.p50 < 40"),
        ("std_ttft_ms<5", "ttft_ms.standard_deviation < 5"),
        ("tokens_std > 5", "tokens.std > 5"),
    ] {
        assert_eq!(actual(typed), meant);
    }
}

#[test]
fn an_assertion_that_every_possible_speed_keeps_is_decided() {
    // 12 of 20 answers were over in 8 ms, at 4,000 tok/s and more; the other 8 ran at 195 tok/s.
    let quick = |index| RequestNumbers {
        output_speed: None,
        tpot_ms: None,
        output_speed_missing: Some(NoSpeedReason::ShortWindow.reason().to_owned()),
        last_text_at_ns: Some(index * 1_000_000_000 + 108_000_000),
        ..steady_request(index, index * 1_000, 100, 1, 40)
    };
    let slow = |index| steady_request(index, index * 1_000, 100, 5, 40);
    let result = phase(&closed(1), &(0..20).map(|i| if i < 12 { quick(i) } else { slow(i) }).collect::<Vec<_>>());
    let judged = |demand: &str| {
        let outcome = Assertion::parse(demand).expect("an assertion").judge(std::slice::from_ref(&result)).remove(0);
        (outcome.status, outcome.detail)
    };
    let (status, detail) = judged("output_speed.median > 100");
    assert_eq!(status, AssertionStatus::Met, "{detail}");
    assert!(detail.starts_with("between ") && detail.contains("12 of 20"), "{detail}");
    assert_eq!(judged("tpot.p50 < 20ms").0, AssertionStatus::Met);
    assert_eq!(judged("output_speed.median < 100").0, AssertionStatus::Missed);
    assert_eq!(judged("output_speed.median > 4800").0, AssertionStatus::NotMeasured, "the bounds lie on both sides");
}
