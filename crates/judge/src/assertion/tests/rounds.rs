//! Assertions on several rounds at one load.

use super::*;
use tokrate_meter::RequestNumbers;

fn round(count: u64, ttft: u64) -> Vec<RequestNumbers> {
    (0..count).map(|i| steady_request(i, i * 1_000, ttft, 10, 40)).collect()
}

#[test]
fn the_rounds_of_a_load_are_judged_as_one() {
    let rounds = [100, 110, 120, 130].map(|ttft| phase(&closed(1), &round(40, ttft)));
    let (status, detail) = outcome("ttft_ms.p95 < 140", &rounds).remove(0);
    assert_eq!(status, AssertionStatus::Met, "160 requests suffice, 40 do not: {detail}");
    assert_eq!(outcome("counts.answered >= 160", &rounds), [(AssertionStatus::Met, "160".to_owned())]);
    assert_eq!(outcome("output_speed.median > 99", &rounds)[0].0, AssertionStatus::Met);
    assert_eq!(outcome("output_speed.mean > 99", &rounds)[0].0, AssertionStatus::Met);
    let [named] = &Assertion::parse("ttft_ms.p50 < 500").expect("it parses").judge(&rounds)[..] else {
        panic!("one load")
    };
    assert_eq!(named.phase.as_deref(), Some("concurrency 1"));
}

#[test]
fn one_failure_in_a_small_round_is_a_share_of_all_requests() {
    let mut failing = round(9, 100);
    failing.push(failed_request(9, 9_000, 9_010, FailureKind::Stalled));
    let rounds = [round(100, 100), failing].map(|requests| phase(&closed(1), &requests));
    assert_eq!(outcome("failures.share < 1 %", &rounds), [(AssertionStatus::Met, "0.91 %".to_owned())]);
    assert_eq!(outcome("failures.count <= 1", &rounds), [(AssertionStatus::Met, "1".to_owned())]);
    assert!(outcome("adj_ttft_ms.max < 1e9", &rounds)[0].1.starts_with("infinite"));
}

#[test]
fn failures_of_a_round_without_an_answer_count() {
    let silent: Vec<_> = (0..10).map(|i| failed_request(i, i * 1_000, i * 1_000 + 10, FailureKind::Stalled)).collect();
    let rounds = [round(9, 100), silent].map(|requests| phase(&closed(1), &requests));
    assert_eq!(outcome("ttft_ms.p50 < 200", &rounds)[0].0, AssertionStatus::Met);
    assert_eq!(outcome("adj_ttft_ms.p50 < 200", &rounds)[0].0, AssertionStatus::Missed);
}

#[test]
fn what_is_known_of_each_round_only_lies_between_them() {
    let rounds = [100, 500].map(|ttft| phase(&closed(1), &round(40, ttft)));
    // 40 tokens in 490 ms and in 890 ms.
    assert_eq!(outcome("e2e_speed.median > 40", &rounds)[0].0, AssertionStatus::Met);
    assert_eq!(outcome("e2e_speed.median > 90", &rounds)[0].0, AssertionStatus::Missed);
    let (status, detail) = outcome("e2e_speed.median > 60", &rounds).remove(0);
    assert_eq!(status, AssertionStatus::NotMeasured);
    assert!(detail.starts_with("between ") && detail.contains("of each round"), "{detail}");
}

#[test]
fn few_samples_that_miss_a_percentile_by_far_miss_it() {
    let slow =
        |share: u64| (0..40).map(move |i| steady_request(i, i * 1_000, if i < share { 500 } else { 100 }, 10, 40));
    let of = |share: u64, text: &str| outcome(text, &[phase(&closed(1), &slow(share).collect::<Vec<_>>())]).remove(0);
    let (status, detail) = of(20, "ttft_ms.p95 < 400");
    assert_eq!(status, AssertionStatus::Missed, "{detail}");
    assert!(detail.starts_with("at least ") && detail.contains("n = 40"), "{detail}");
    // Two of 40 are what 5 % allow.
    assert_eq!(of(2, "ttft_ms.p95 < 400").0, AssertionStatus::NotEnoughSamples);
    assert_eq!(of(0, "ttft_ms.p95 < 400").0, AssertionStatus::NotEnoughSamples, "few samples never meet it");
    assert_eq!(of(0, "output_speed.slowest_5_percent > 150").0, AssertionStatus::Missed, "all have 100 tok/s");
    assert_eq!(of(0, "output_speed.slowest_5_percent > 50").0, AssertionStatus::NotEnoughSamples);
}

#[test]
fn gaps_of_few_requests_bound_no_percentile() {
    let one = [phase(&closed(1), &round(1, 100))];
    assert_eq!(outcome("itl_ms.p99 < 1", &one)[0].0, AssertionStatus::NotEnoughSamples, "39 gaps of one answer");
}
