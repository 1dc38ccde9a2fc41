//! Claims compared with measurements.

use super::*;
use tokrate_meter::fixtures::steady_request;
use tokrate_record::fixtures::{closed, phase, record};
use tokrate_record::run::Throughput;
use tokrate_stats::{Interval, IntervalMethod, Quantile, QuantileStatus};

fn speed(value: f64, ends: Option<(f64, f64)>) -> Quantile {
    Quantile {
        value: ends.map(|_| value),
        descriptive: ends.is_none().then_some(value),
        low: ends.map(|ends| ends.0),
        high: ends.map(|ends| ends.1),
        confidence: 0.95,
        status: QuantileStatus::Stated,
        floor: 6,
        infinite: false,
        high_infinite: false,
    }
}

/// Output speed 100 [95..105], end-to-end 80 of too few samples, throughput 320 [300..340], TTFT 200 [150..250].
fn measured(concurrency: u32) -> Record {
    let requests: Vec<_> = (0..4).map(|i| steady_request(i, i * 1_000, 100, 10, 40)).collect();
    let mut result = phase(&closed(concurrency), &requests);
    result.output_speed.median = speed(100.0, Some((95.0, 105.0)));
    result.e2e_speed.median = speed(80.0, None);
    let interval = Interval { low: 300.0, high: 340.0, confidence: 0.95, method: IntervalMethod::Bca };
    result.throughput = Some(Throughput {
        window_seconds: 10.0,
        tokens: 3_200,
        tokens_per_second: 320.0,
        interval: Some(interval),
        peak_tokens_per_second: 400.0,
        parts: 10,
        requests: 4,
        requests_per_second: 0.4,
    });
    (result.ttft.p50.value, result.ttft.p50.descriptive) = (Some(200.0), None);
    (result.ttft.p50.low, result.ttft.p50.high) = (Some(150.0), Some(250.0));
    record(vec![result])
}

fn compare_with(claim: &str, record: &Record) -> Vec<String> {
    Claim::parse(claim).expect("a claim").compare_with(record)
}

#[test]
fn a_speed_without_a_meaning_is_held_against_each_that_was_measured() {
    let sentences = compare_with("400 tok/s", &measured(4));
    assert_eq!(
        sentences,
        [
            "As output speed at concurrency 4: measured 100 tok/s [95.0..105]; the claim is 4.00 times that, outside \
             the interval.",
            "As end-to-end speed at concurrency 4: measured 80.0 tok/s; the claim is 5.00 times that; too few samples for \
             an interval.",
            "As throughput at concurrency 4: measured 320 tok/s [300..340]; the claim is 1.25 times that, outside \
             the interval.",
        ]
    );
    assert_eq!(compare_with("prompt eval rate: 400 tokens/s", &measured(4)), [""; 0], "prefill is not measured");
}

#[test]
fn a_range_lies_within_an_interval_if_it_touches_it() {
    let verdict = |claim: &str| {
        let sentences = compare_with(&format!("{claim} per user"), &measured(1));
        assert_eq!(sentences.len(), 1);
        let (_, verdict) = sentences[0].split_once("; ").expect("a verdict");
        assert!(sentences[0].starts_with("As output speed alone: measured"), "{sentences:?}");
        verdict.to_owned()
    };
    for within in ["100 tok/s", "95 tok/s", "105 tok/s", "50-95 tok/s", "105-200 tok/s", "50-200 tok/s"] {
        assert_eq!(verdict(within), "the claim lies within the interval.", "{within}");
    }
    assert_eq!(verdict("50-90 tok/s"), "the claim is 0.50 to 0.90 times that, outside the interval.");
    assert_eq!(verdict("110-200 tok/s"), "the claim is 1.10 to 2.00 times that, outside the interval.");
}

#[test]
fn a_time_to_first_token_is_held_against_the_median() {
    let mut record = measured(4);
    let sentence = "As the median TTFT at concurrency 4: measured 200 ms [150..250]; the claim is 0.50 times that, outside the \
         interval.";
    assert_eq!(compare_with("TTFT 100 ms", &record), [sentence]);
    let second = record.phases[0].clone();
    record.phases.push(second);
    assert_eq!(compare_with("TTFT 100 ms", &record), [sentence; 2], "one for each load");
}
