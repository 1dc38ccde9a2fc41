//! Worked examples of every figure of a phase, and properties.

use super::*;
use crate::curve::LoadAxis;
use crate::fixtures::{closed, phase};
use proptest::prelude::*;
use tokrate_core::{Conditions, FailureKind, Rng, Sketch, Tick};
use tokrate_meter::fixtures::{MS, RequestBuilder, at, failed_request, numbers, rate_limited_request, steady_request};
use tokrate_meter::request::{ConnectionState, NoSpeedReason, Provenance, RequestNumbers};
use tokrate_meter::{ClientBias, ClientError, ClientErrorSource};
use tokrate_stats::QuantileStatus;

fn sweep(intervals: &[(u64, u64)]) -> Sweep {
    Sweep::over(intervals.iter().map(|&(start, end)| (Tick::from_nanos(start), Tick::from_nanos(end))))
}

#[test]
fn a_sweep_is_exact_and_an_end_frees_its_slot_for_a_start_at_the_same_tick() {
    let line = sweep(&[(0, 10), (10, 30), (5, 20), (7, 7)]);
    assert_eq!(line.peak(), 2, "10 ends and 10 starts; an empty interval counts for nothing");
    assert_eq!(line.area(), 10 + 20 + 15);
    assert_eq!(line.mean(), Some(45.0 / 30.0));
    assert_eq!(sweep(&[]).mean(), None);
    assert_eq!(sweep(&[]).peak(), 0);
}

#[test]
fn a_plateau_lasts_from_the_first_to_the_last_tick_at_the_target() {
    let line = sweep(&[(0, 100), (20, 60), (61, 200), (70, 90), (100, 150)]);
    assert_eq!(
        line.plateau(2, Tick::ZERO),
        Some((Tick::from_nanos(20), Tick::from_nanos(150))),
        "short dips are inside"
    );
    assert_eq!(line.plateau(2, Tick::from_nanos(120)), Some((Tick::from_nanos(120), Tick::from_nanos(150))));
    assert_eq!(line.plateau(2, Tick::from_nanos(150)), None);
    assert_eq!(line.plateau(4, Tick::ZERO), None);
}

proptest! {
    #[test]
    fn a_sweep_agrees_with_counting_by_hand(intervals in prop::collection::vec((0_u64..60, 0_u64..60), 0..20)) {
        let line = sweep(&intervals);
        let level = |tick: u64| intervals.iter().filter(|(start, end)| *start <= tick && tick < *end).count() as u128;
        prop_assert_eq!(line.area(), (0..60).map(level).sum::<u128>());
        prop_assert_eq!(u128::from(line.peak()), (0..60).map(level).max().unwrap_or(0));
    }
}

#[test]
fn throughput_is_what_arrived_inside_the_steady_window() {
    // Two slots: busy from 0 to 2,000 ms; then one of them drains until 3,000 ms.
    let requests = [
        steady_request(0, 0, 100, 100, 10),     // 10 tokens up to 1,000 ms
        steady_request(1, 1_000, 100, 100, 10), // 10 tokens up to 2,000 ms
        steady_request(2, 0, 500, 500, 6),      // 6 tokens at 500 ... 3,000 ms: four of them up to 2,000 ms
    ];
    let result = phase(&closed(2), &requests);
    let steady = result.steady.clone().expect("two slots were busy");
    assert_eq!((steady.start_ns, steady.end_ns), (0, 2_000 * MS));
    assert!(steady.rule.starts_with("closed loop: from the moment concurrency reached 2 after"), "{}", steady.rule);
    let throughput = result.throughput.clone().expect("there is a window");
    assert_eq!((throughput.tokens, throughput.requests, throughput.parts), (24, 2, 2));
    // Two whole answers and two thirds of the third in two seconds.
    assert_eq!((throughput.tokens_per_second, throughput.requests_per_second), (12.0, 4.0 / 3.0));
    assert_eq!(throughput.peak_tokens_per_second, 12.0);
    assert_eq!(result.concurrency, ObservedConcurrency { mean: Some(5.0 / 3.0), peak: 2, cap: Some(2) });
    assert_eq!(result.gate, []);
}

#[test]
fn tokens_of_failed_requests_count_as_throughput_and_nowhere_else() {
    let cut = |story: RequestBuilder| numbers(&story.failed(FailureKind::Stalled, 1_000));
    let failed = RequestNumbers { index: 1, ..cut(RequestBuilder::sent(0, 0).answer(500, " a a a")) };
    let result = phase(&closed(2), &[steady_request(0, 0, 100, 100, 10), failed]);
    assert_eq!(result.throughput.as_ref().map(|throughput| (throughput.tokens, throughput.requests)), Some((13, 1)));
    assert_eq!((result.tokens.std, result.tokens.std_of_all, result.ttft.n), (10, 13, 1));
    assert_eq!(result.gate, []);
}

#[test]
fn a_concurrency_that_was_never_reached_has_no_throughput_but_a_reason() {
    let result = phase(&closed(4), &[steady_request(0, 0, 100, 100, 10), steady_request(1, 0, 100, 100, 10)]);
    assert_eq!((result.steady, result.throughput), (None, None));
    assert_eq!(result.steady_missing.as_deref(), Some("concurrency never reached 4 (peak 2)"));
}

#[test]
fn slots_that_are_never_all_busy_at_once_count_as_such_from_95_percent_on() {
    let requests: Vec<RequestNumbers> = (0..19).map(|index| steady_request(index, 0, 100, 100, 10)).collect();
    let steady = phase(&closed(20), &requests).steady.expect("19 of 20 are 95 %");
    assert!(steady.rule.contains("concurrency reached 19 (95 % of 20) after"), "{}", steady.rule);
    assert_eq!(phase(&closed(21), &requests).steady, None);
}

#[test]
fn an_open_loop_is_steady_from_the_warm_up_to_the_last_arrival() {
    let requests: Vec<RequestNumbers> = (0..5).map(|index| steady_request(index, index * 500, 100, 100, 10)).collect();
    let open = PhaseInput {
        load: Load::Open { rate: 2.0, cap: None },
        warmup: Warmup::Time(Span::from_millis(600)),
        ..closed(1)
    };
    let result = phase(&open, &requests);
    let steady = result.steady.clone().expect("arrivals after the warm-up");
    assert_eq!((steady.start_ns, steady.end_ns), (600 * MS, 2_000 * MS));
    assert_eq!((result.counts.warmup, result.counts.measured), (2, 3));
    assert_eq!(result.warmup_rule, "requests due in the first 600 ms are warm-up");
    assert_eq!(
        result.throughput.as_ref().map(|throughput| throughput.requests),
        Some(3),
        "of 1,000 ... 3,000 ms, each 500"
    );
    assert_eq!(result.concurrency.cap, None);
    let lone = phase(&PhaseInput { warmup: Warmup::None, ..open }, &requests[..1]);
    assert_eq!(lone.steady_missing.as_deref(), Some("no second request was due after the warm-up"));
}

#[test]
fn an_answer_that_was_not_streamed_has_no_time_to_first_token_but_a_reason() {
    let mut requests: Vec<RequestNumbers> =
        (0..6).map(|index| steady_request(index, index * 1_000, 100 + index, 10, 40)).collect();
    requests.push(failed_request(6, 6_000, 6_001, FailureKind::Connect));
    let conditions = Conditions { streaming: false, ..closed(1).conditions.clone() };
    let result = PhaseResult::of(&PhaseInput { conditions: &conditions, ..closed(1) }, &mut requests);
    assert_eq!([result.ttft.n, result.ttfat.n, result.tpot.n, result.adj_ttft.n, result.adj_tpot.n], [0; 5]);
    assert_eq!((result.adj_ttft.infinite, result.adj_tpot.infinite, result.adj_e2e.infinite), (0, 0, 1));
    assert_eq!((result.e2e.n, result.ttfb.n, result.output_speed.n), (6, 6, 0));
    let row = &requests[0];
    assert_eq!((row.ttft_ns, row.ttfat_ns, row.output_speed, row.largest_gap_ns), (None, None, None, None));
    let reason = "not streamed: the answer came in one piece";
    assert_eq!((row.ttft_missing.as_deref(), row.output_speed_missing.as_deref()), (Some(reason), Some(reason)));
    assert_eq!(requests[6].ttft_missing, None, "no text came, so nothing is taken back");
    assert_eq!(result.gate, []);
    assert_eq!(phase(&closed(1), &[steady_request(0, 0, 100, 10, 40)]).ttft.n, 1, "a stream keeps it");
}

#[test]
fn warm_up_requests_are_counted_and_in_no_distribution() {
    let mut requests = vec![
        steady_request(2, 2_000, 100, 10, 40),
        steady_request(0, 0, 900, 10, 40),
        steady_request(1, 1_500, 100, 10, 40),
        failed_request(3, 3_000, 3_001, FailureKind::Connect),
    ];
    let input = PhaseInput { warmup: Warmup::Requests(1), ..closed(1) };
    let result = PhaseResult::of(&input, &mut requests);
    let marks: Vec<(u64, bool)> = requests.iter().map(|request| (request.index, request.warmup)).collect();
    assert_eq!(marks, [(0, true), (1, false), (2, false), (3, false)], "sorted by due");
    assert_eq!((result.counts.started, result.counts.warmup, result.counts.measured), (4, 1, 2));
    assert_eq!((result.ttft.n, result.ttft.max), (2, Some(100.0)), "the slow first one is warm-up");
    assert_eq!(result.steady.map(|steady| steady.start_ns), Some(1_500 * MS));
    assert_eq!((result.tokens.std, result.tokens.std_of_all), (80, 120));
    assert_eq!(mark_warmup(Warmup::Requests(9), Tick::ZERO, &mut requests), Tick::MAX);
    assert_eq!(mark_warmup(Warmup::None, Tick::ZERO, &mut requests), Tick::ZERO);
}

#[test]
fn failures_are_infinite_in_adjusted_distributions_and_absent_from_the_others() {
    let mut requests: Vec<RequestNumbers> =
        (0..6).map(|index| steady_request(index, index * 1_000, 100 + index, 10, 40)).collect();
    requests.push(failed_request(6, 7_000, 7_001, FailureKind::ServerError));
    requests.push(rate_limited_request(7, 8_000, 8_001, Span::from_secs(2)));
    requests.push(failed_request(8, 9_000, 9_001, FailureKind::Cancelled));
    let result = phase(&PhaseInput { forfeited: 5, late: 3, ..closed(1) }, &requests);
    assert_eq!((result.ttft.n, result.ttft.infinite), (6, 0));
    assert_eq!((result.adj_ttft.n, result.adj_ttft.infinite), (12, 6), "one failure, five forfeited arrivals");
    assert_eq!(result.ttft.p50.value, Some(102.0));
    assert_eq!((result.adj_ttft.p50.value, result.adj_ttft.p50.infinite), (Some(105.0), false));
    assert!(result.adj_ttft.p90.infinite);
    assert_eq!((result.adj_ttft.mean, result.adj_ttft.max), (None, None));
    assert_eq!((result.counts.late, result.counts.forfeited), (3, 5));
    for adjusted in [&result.adj_ttfat, &result.adj_e2e, &result.adj_e2e_from_due, &result.adj_tpot] {
        assert_eq!((adjusted.n, adjusted.infinite), (12, 6));
    }
}

#[test]
fn failures_are_listed_by_kind_and_flagged_above_one_percent() {
    let run = |failures: u64| {
        let answered = (failures..100).map(|index| steady_request(index, index, 1, 1, 2));
        let failed = (0..failures).map(|index| failed_request(index, index, index + 1, FailureKind::Empty));
        phase(&closed(200), &failed.chain(answered).collect::<Vec<_>>())
    };
    assert!(!run(1).failures_above_limit, "1 % is not more than 1 %");
    let result = run(2);
    assert!(result.failures_above_limit);
    let first = serde_json::to_string(&result).expect("a result can be written");
    assert!(first.starts_with("{\"failures_above_limit\":true"), "{}", &first[..60]);
    let [row] = result.failures.as_slice() else { panic!("one kind: {:?}", result.failures) };
    assert_eq!((row.kind, row.count, row.share), (FailureKind::Empty, 2, 0.02));
    assert_eq!((row.message.as_deref(), row.hint.as_str()), (Some("empty"), FailureKind::Empty.hint()));
}

#[test]
fn rate_limited_requests_stand_apart() {
    let requests = [
        steady_request(0, 0, 100, 10, 40),
        rate_limited_request(1, 1_000, 1_001, Span::from_millis(1_500)),
        rate_limited_request(2, 2_000, 2_001, Span::from_millis(2_500)),
        failed_request(3, 3_000, 3_001, FailureKind::Cancelled),
        failed_request(4, 3_000, 3_001, FailureKind::RateLimited),
    ];
    let result = phase(&closed(2), &requests);
    assert_eq!((result.counts.rate_limited, result.counts.failed, result.counts.cancelled), (3, 0, 1));
    assert_eq!(
        result.rate_limited,
        RateLimited {
            count: 3,
            share: Some(0.75),
            with_retry_after: 2,
            retry_after_total_ms: Some(4_000.0),
            held_back_seconds: None,
            held_back_share: None,
        }
    );
    assert!(!result.failures_above_limit && result.failures.is_empty());
    assert_eq!(result.gate, []);
}

#[test]
fn speed_percentiles_are_those_of_time_per_token_turned_over() {
    // Time per token of 10 ... 139 ms: the 124th of 130 is the 95th percentile.
    let requests: Vec<RequestNumbers> =
        (0..130).map(|index| steady_request(index, index, 100, 10 + index, 40)).collect();
    let result = phase(&closed(200), &requests);
    assert_eq!(result.tpot.p95.value, Some(133.0));
    let slowest = &result.output_speed.slowest_5_percent;
    assert_eq!(slowest.value, Some(1e3 / 133.0));
    assert_eq!(
        (slowest.low, slowest.high),
        (result.tpot.p95.high.map(|x| 1e3 / x), result.tpot.p95.low.map(|x| 1e3 / x))
    );
    assert!(slowest.low < slowest.high);
    assert_eq!(result.output_speed.slowest_1_percent.status, QuantileStatus::NotEnoughSamples);
    assert_eq!(result.output_speed.slowest_1_percent.value, None);
    assert!(result.output_speed.slowest_1_percent.descriptive.is_some());
    assert_eq!((result.output_speed.n, result.output_speed.missing.len()), (130, 0));
    assert_eq!(result.e2e_speed.n, 130);
    // 10 ms to 19 ms per token is above 50 tok/s; 20 ms is 50 tok/s, fluid.
    let bands = ComfortBands { slow: 39, hesitant: 34, comfortable: 33, fluid: 14, faster_than_reading: 10 };
    assert_eq!(result.comfort, bands);
}

#[test]
fn requests_without_a_speed_are_counted_by_reason() {
    let requests = [steady_request(0, 0, 1, 10, 5), quick(1), steady_request(2, 0, 1, 10, 6)];
    let speed = phase(&closed(3), &requests).output_speed;
    let missing: Vec<(&str, u64)> = speed.missing.iter().map(|row| (row.reason.as_str(), row.count)).collect();
    assert_eq!(missing, [("decode window shorter than 10 ms", 1), ("fewer than 16 tokens", 2)]);
    assert_eq!((speed.n, speed.mean, speed.missing_share), (0, None, Some(1.0)));
}

/// An answer that was over before it could be timed.
fn quick(index: u64) -> RequestNumbers {
    let reason = NoSpeedReason::ShortWindow.reason().to_owned();
    let steady = steady_request(index, index, 1, 1, 40);
    RequestNumbers { output_speed: None, tpot_ms: None, output_speed_missing: Some(reason), ..steady }
}

#[test]
fn the_speed_of_the_slow_ones_is_not_stated_as_that_of_all() {
    let slow = |index| steady_request(index, index, 1, 5, 40);
    let short = |index| steady_request(index, index, 1, 5, 4);
    let with = |quick_ones: u64| (0..200).map(move |index| if index < quick_ones { quick(index) } else { slow(index) });
    let few = phase(&closed(200), &with(4).collect::<Vec<_>>());
    assert_eq!((few.output_speed.refused.as_deref(), few.output_speed.n, few.tpot.n), (None, 196, 200));
    assert_eq!((few.output_speed.median.value, few.output_speed.bounded), (Some(200.0), 4));
    assert!(few.output_speed.mean.is_some_and(|mean| (mean - 200.0).abs() < 1e-9));
    let many = phase(&closed(200), &with(50).collect::<Vec<_>>());
    assert_eq!((many.output_speed.median.value, many.output_speed.mean), (Some(200.0), None), "a mean has no bound");
    let most = phase(&closed(200), &with(90).collect::<Vec<_>>());
    // Of the quick ones it is known that they ran at about 1,000 tok/s: the interval reaches there.
    assert_eq!((most.output_speed.n, most.output_speed.mean, most.output_speed.median.value), (110, None, Some(200.0)));
    assert!(most.output_speed.median.high.is_some_and(|high| (high - 1_005.0).abs() < 1.0), "{:?}", most.output_speed);
    // Of answers that came in one read nothing is known.
    let whole = |index| steady_request(index, index, 1, 0, 40);
    let rows = (0..200).map(|index| if index < 90 { whole(index) } else { slow(index) });
    let unknown = phase(&closed(200), &rows.collect::<Vec<_>>());
    assert_eq!(
        unknown.output_speed.refused.as_deref(),
        Some(
            "90 of 200 answers could not be timed (text came together in too few reads); \
             the other 110 would give the speed of the slow ones"
        )
    );
    assert_eq!((unknown.output_speed.mean, unknown.output_speed.median.value), (None, None));
    assert_eq!((unknown.output_speed.median.descriptive, unknown.tpot.p50.value), (None, None));
    assert_eq!(most.output_speed.slowest_5_percent.value, Some(200.0), "the slow end is known all the same");
    assert_eq!(most.comfort.faster_than_reading, 200, "those too quick are at least so fast");
    // Short answers are no slower than others: what is left speaks for them.
    let shorter: Vec<_> = (0..200).map(|index| if index < 100 { short(index) } else { slow(index) }).collect();
    let shorter = phase(&closed(200), &shorter).output_speed;
    assert_eq!((shorter.refused, shorter.n, shorter.missing_share), (None, 100, Some(0.5)));
}

#[test]
fn one_quick_answer_of_forty_does_not_take_the_speed_of_the_others() {
    // 40 tokens at 2,500 tok/s take 15.6 ms, and one answer was over in 7.8 ms.
    let timed = |index| RequestNumbers {
        tpot_ms: Some(0.4),
        output_speed: Some(2_500.0),
        ..steady_request(index, index, 1, 1, 40)
    };
    let mut quick = quick(39);
    quick.last_text_at_ns = quick.first_text_at_ns.map(|first| first + 7_800_000);
    let mut requests: Vec<_> = (0..39).map(timed).chain([quick]).collect();
    let median = |requests: &[RequestNumbers]| phase(&closed(40), requests).output_speed.median;
    let bounded = median(&requests);
    assert_eq!((bounded.value, bounded.low, bounded.high), (Some(2_500.0), Some(2_500.0), Some(2_500.0)));
    // All of its tokens in one read: nothing is known of it, and one of forty does not matter either.
    requests[39].tokens_first_chunk = 40;
    assert_eq!(median(&requests).value, Some(2_500.0));
}

#[test]
fn pooled_intervals_widen_with_what_requests_differ() {
    // Request i has 100 gaps of i ms, i = 1 ... 20. The share at or below the median varies by request from 0 to 1:
    // standard error sqrt(20/19 * 20 * 50^2) / 2000 = 0.1147, so 0.5 +- 1.96 * 0.1147 reaches ranks 550 and 1,450.
    let requests: Vec<RequestNumbers> = (1..=20).map(|gap| steady_request(gap, 0, 100, gap, 101)).collect();
    let result = phase(&closed(20), &requests);
    for pooled in [&result.chunk_gap, &result.itl] {
        assert_eq!((pooled.n, pooled.p50.value), (2_000, Some(10.0)));
        assert_eq!((pooled.p50.low, pooled.p50.high), (Some(6.0), Some(15.0)));
    }
    let alike: Vec<RequestNumbers> = (1..=20).map(|index| steady_request(index, 0, 100, 7, 101)).collect();
    let result = phase(&closed(20), &alike);
    assert_eq!((result.itl.p50.low, result.itl.p50.high), (Some(7.0), Some(7.0)));
}

#[test]
fn tokens_are_kept_by_provenance() {
    let mut requests: Vec<RequestNumbers> = (0..3).map(|index| steady_request(index, 0, 1, 10, 40)).collect();
    requests[0].tokens_reported = Some(44);
    requests[1].tokens_reported = Some(40);
    requests[0].input_asked = Some(100);
    requests[0].input_reported = Some(110);
    requests[1].input_asked = Some(100);
    let result = phase(&closed(3), &requests);
    let tokens = &result.tokens;
    assert_eq!((tokens.speed_tokens, tokens.std, tokens.text_events), (Provenance::Counted, 120, 120));
    assert_eq!((tokens.requests_reported, tokens.reported), (2, Some(84)));
    assert_eq!((tokens.reported_over_std, tokens.largest_disagreement), (Some(1.05), Some(0.1)));
    let expected = InputTokens {
        asked_mean: Some(100.0),
        reported_mean: Some(110.0),
        reported_over_asked: Some(1.1),
        cached: None,
    };
    assert_eq!(result.input_tokens, expected);
    requests[0].tokens_reported = Some(u64::MAX);
    requests[1].tokens_reported = Some(u64::MAX);
    assert_eq!(phase(&closed(3), &requests).tokens.reported, Some(u64::MAX), "a liar does not make us overflow");
}

#[test]
fn connections_models_and_anomalies_are_counted() {
    let mut requests: Vec<RequestNumbers> = (0..3).map(|index| steady_request(index, 0, 1, 10, 40)).collect();
    requests[0].connection = ConnectionState::New;
    requests[0].connect_ns = 4 * MS;
    requests[0].model = Some("one".into());
    requests[1].model = Some("one".into());
    requests[1].anomalies.insert("missing_done".into(), 2);
    requests[2].anomalies.insert("missing_done".into(), 1);
    let result = phase(&closed(3), &requests);
    let connections = Connections {
        new: 1,
        reused: 2,
        stale: 0,
        connect_mean_ms: Some(4.0),
        tls_mean_ms: None,
        ..Connections::default()
    };
    assert_eq!(result.connections, connections);
    let name = |name: Option<&str>, count| NameCount { name: name.map(str::to_owned), count };
    assert_eq!(result.models, [name(Some("one"), 2), name(None, 1)]);
    assert_eq!(result.finish_reasons, [name(Some("stop"), 3)]);
    assert_eq!(result.anomalies.get("missing_done"), Some(&3));
}

#[test]
fn streams_in_one_burst_are_counted() {
    let whole = |index| RequestNumbers {
        index,
        ..numbers(&RequestBuilder::sent(0, 0).answer(900, &" a".repeat(50)).done(900, 900))
    };
    let result = phase(&closed(3), &[whole(0), whole(1), steady_request(2, 0, 1, 10, 40)]);
    assert_eq!(result.tokens.one_burst, 2);
}

#[test]
fn a_late_timer_disowns_nothing_and_a_measured_error_the_figures_that_it_could_have_moved() {
    let mut lag = Sketch::new();
    lag.record_many(6_000_000, 1_000);
    let requests: Vec<RequestNumbers> = (0..8).map(|index| steady_request(index, 0, 100, 10, 40)).collect();
    let result = phase(&PhaseInput { timer_lag: &lag, ..closed(8) }, &requests);
    let error = result.client_error.clone().expect("the lag is known");
    assert_eq!((error.source, error.client_limited, result.is_valid()), (ClientErrorSource::Off, false, true));
    let moved = ClientBias {
        ttft_p50_ms: Some(1.9),
        itl_p50_ms: Some(-0.15),
        // Over 39 tokens here, which is 7 ms of 390.
        tpot_p50_ms: Some(0.35),
        e2e_p50_ms: Some(9.0),
        later_tokens: 20.0,
        slot_mean_ms: Some(9.0),
        ..ClientBias::default()
    };
    let judged = |moved: ClientBias| {
        let error =
            ClientError { source: ClientErrorSource::Calibrated, n: 50, moved: Some(moved), ..ClientError::default() };
        phase(&PhaseInput { client_error: Some(error), ..closed(8) }, &requests)
    };
    assert!(judged(moved).is_valid(), "each is below 2 % of 100 ms, of 10 ms, of 390 ms, of 490 ms");
    let more = ClientBias { ttft_p50_ms: Some(2.1), tpot_p50_ms: Some(0.4), slot_mean_ms: Some(10.0), ..moved };
    let result = judged(more);
    assert!(!result.is_valid());
    assert_eq!(
        result.client_error.expect("it was given").reason.as_deref(),
        Some(
            "TTFT p50 of 100 ms could be off by 2.10 ms, TPOT p50 of 10.0 ms could be off by 205 µs, throughput of 653 tok/s \
             could be off by 13.3 tok/s"
        )
    );
    let tails = ClientBias { ttft_p99_ms: Some(50.0), itl_p99_ms: Some(5.0), e2e_p99_ms: Some(50.0), ..moved };
    let reason = judged(tails).client_error.expect("it was given").reason;
    assert_eq!(reason, None, "8 requests and 312 gaps state no p99");
}

#[test]
fn only_a_closed_loop_waits_for_its_client() {
    let requests: Vec<RequestNumbers> = (0..8).map(|index| steady_request(index, index * 50, 100, 10, 40)).collect();
    let moved = ClientBias { slot_mean_ms: Some(200.0), ..ClientBias::default() };
    let error = ClientError { moved: Some(moved), ..ClientError::default() };
    let of = |load| phase(&PhaseInput { client_error: Some(error.clone()), load, ..closed(8) }, &requests);
    let (closed, open) = (of(Load::Closed { concurrency: 8 }), of(Load::Open { rate: 20.0, cap: None }));
    assert!(closed.throughput.is_some() && open.throughput.is_some());
    assert_eq!((closed.is_valid(), open.is_valid()), (false, true));
}

#[test]
fn a_phase_without_requests_has_counts_and_no_numbers() {
    let result = phase(&closed(1), &[]);
    assert_eq!(result.counts, Counts::default());
    assert_eq!((result.ttft.n, result.ttft.mean, result.ttft.p50.value), (0, None, None));
    assert_eq!(result.ttft.p99.status, QuantileStatus::NoSamples);
    assert_eq!(result.steady_missing.as_deref(), Some("there was no request"));
    assert_eq!((result.rate_limited.share, result.counts.failed_share(), result.concurrency.mean), (None, None, None));
    assert!(!result.failures_above_limit && result.gate.is_empty());
}

#[test]
fn one_request_describes_itself_and_states_nothing() {
    let result = phase(&closed(1), &[steady_request(0, 0, 100, 10, 40)]);
    assert_eq!((result.ttft.n, result.ttft.mean), (1, Some(100.0)));
    assert_eq!((result.ttft.p50.value, result.ttft.p50.descriptive), (None, Some(100.0)));
    assert_eq!((result.itl.n, result.itl.p50.value, result.itl.p90.value), (39, Some(10.0), None));
    assert_eq!(result.throughput.map(|throughput| throughput.tokens), Some(40));
    assert_eq!(result.gate, []);
}

#[test]
fn a_phase_becomes_a_level_of_the_curve() {
    let requests: Vec<RequestNumbers> = (0..8).map(|index| steady_request(index, 0, 100 + index, 20, 40)).collect();
    let result = phase(&closed(8), &requests);
    let level = result.load_level();
    assert_eq!((result.load_axis(), level.load, level.requests), (LoadAxis::Concurrency, 8.0, 8));
    let speed = level.output_speed.expect("eight requests have one");
    assert_eq!((speed.value, speed.low, speed.high), (50.0, Some(50.0), Some(50.0)));
    assert_eq!(level.ttft.map(|ttft| ttft.value), Some(103.0));
    let throughput = level.throughput.expect("all were in flight");
    assert_eq!(Some(throughput.value), result.throughput.map(|throughput| throughput.tokens_per_second));
    assert_eq!((level.failures, level.rate_limited), (0, 0));
}

#[test]
fn a_hundred_thousand_requests_are_summed_up() {
    let mut requests: Vec<RequestNumbers> = Vec::with_capacity(100_000);
    let one = steady_request(0, 0, 100, 30, 10);
    for index in 0..100_000_u64 {
        let mut request = RequestNumbers { index, ttft_ns: Some(100 * MS + index), ..one.clone() };
        request.due_at_ns = index * MS;
        request.sent_at_ns = Some(index * MS);
        request.ended_at_ns += index * MS;
        requests.push(request);
    }
    let result = PhaseResult::of(&closed(400), &mut requests);
    assert_eq!((result.counts.measured, result.itl.n), (100_000, 900_000));
    assert_eq!(result.ttft.p99_9.status, QuantileStatus::Stated);
    assert_eq!(result.ttft.p50.value, Some(100.049_999));
    assert_eq!(result.concurrency.peak, 370);
    assert_eq!(result.gate, []);
}

proptest! {
    #[test]
    fn the_order_of_the_requests_changes_nothing(
        plan in prop::collection::vec((0_u64..3_000, 1_u64..300, 0_u64..40, 1_u64..60, 0_u64..8), 0..25),
        seed in any::<u64>(),
    ) {
        let kinds = [FailureKind::Truncated, FailureKind::RateLimited, FailureKind::Cancelled, FailureKind::Dns];
        let mut requests: Vec<RequestNumbers> = plan.iter().enumerate().map(|(index, &(start, ttft, gap, tokens, fate))| {
            let index = index as u64;
            match kinds.get(fate as usize) {
                Some(&kind) => failed_request(index, start, start + ttft, kind),
                None => steady_request(index, start, ttft, gap, tokens),
            }
        }).collect();
        let input = PhaseInput { warmup: Warmup::Requests(2), ..closed(64) };
        let straight = PhaseResult::of(&input, &mut requests);
        let mut rng = Rng::root(seed);
        for place in (1..requests.len()).rev() {
            requests.swap(place, rng.below(place as u64 + 1) as usize);
        }
        prop_assert_eq!(&straight.gate, &[]);
        prop_assert_eq!(PhaseResult::of(&input, &mut requests), straight);
    }
}

#[test]
fn a_request_in_flight_begins_when_it_was_sent() {
    let mut request = steady_request(0, 0, 100, 10, 40);
    request.sent_at_ns = Some(90 * MS);
    let result = phase(&closed(1), &[request]);
    assert_eq!(result.steady.map(|steady| steady.start_ns), Some(0), "its slot was busy from due on");
    assert_eq!(result.concurrency.mean, Some(1.0));
    assert_eq!(in_flight(&[steady_request(0, 5, 1, 1, 2)]).extent(), Some(at(7) - at(5)));
}
