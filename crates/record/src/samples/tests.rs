//! Collecting the samples of a measurement.

use super::*;
use crate::fixtures::{self, closed, phase};
use crate::run::{Throughput, by_load};
use tokrate_core::{Channel, FailureKind};
use tokrate_meter::fixtures::{MS, RequestBuilder, failed_request, numbers, steady_request};
use tokrate_stats::{Interval, IntervalMethod};

/// Due at 0, sent at 20, thinks from 120 and answers from 220 + `later` on, 30 tokens 10 ms apart (all in ms).
fn thoughtful(index: u64, later: u64) -> RequestNumbers {
    let first = 220 + later;
    let mut story = RequestBuilder::sent(0, 20).first_byte(120 + later).say(120 + later, Channel::Reasoning, " a");
    for token in 0..30 {
        story = story.answer(first + token * 10, " a");
    }
    RequestNumbers { index, ..numbers(&story.done(first + 300, first + 310)) }
}

fn one_phase(requests: &[RequestNumbers]) -> PhaseResult {
    phase(&closed(1), requests)
}

fn with_throughput(tokens_per_second: f64, reach: Option<f64>, window_seconds: f64) -> PhaseResult {
    let interval = reach.map(|reach| Interval {
        low: tokens_per_second - reach,
        high: tokens_per_second + reach,
        confidence: 0.95,
        method: IntervalMethod::Bca,
    });
    let throughput = Throughput {
        window_seconds,
        tokens: 0,
        tokens_per_second,
        interval,
        peak_tokens_per_second: tokens_per_second,
        parts: 1,
        requests: 0,
        requests_per_second: 0.0,
    };
    PhaseResult { throughput: Some(throughput), ..one_phase(&[]) }
}

fn seen_of(phases: Vec<PhaseResult>) -> Option<ObservedThroughput> {
    RunSamples::of_record(&fixtures::record(phases)).levels[0].throughput
}

#[test]
fn rows_give_every_time_as_it_was_measured_but_of_warm_up_and_failures_none() {
    let warmup = RequestNumbers { warmup: true, ..thoughtful(0, 900) };
    let failed = failed_request(4, 0, 50, FailureKind::ServerError);
    // A failure that did have times, such as one that broke off half way.
    let broken = RequestNumbers { ttft_ns: Some(7 * MS), e2e_ns: Some(9 * MS), ..failed.clone() };
    let rows = vec![warmup, thoughtful(1, 4), thoughtful(2, 0), thoughtful(3, 8), failed, broken];
    let record = fixtures::record(vec![one_phase(&rows)]);
    let side = RunSamples::of_rows(&record, std::slice::from_ref(&rows));
    let level = &side.levels[0];
    assert_eq!(*level.times(Metric::Ttft), Samples::exact(vec![100.0, 104.0, 108.0]));
    assert_eq!(*level.times(Metric::Ttfat), Samples::exact(vec![200.0, 204.0, 208.0]));
    assert_eq!(*level.times(Metric::E2e), Samples::exact(vec![500.0, 504.0, 508.0]));
    assert_eq!(*level.times(Metric::E2eFromDue), Samples::exact(vec![520.0, 524.0, 528.0]));
    // From the first chunk at 120 ms to the last at 510 ms, shared among the 30 tokens after the first.
    assert_eq!(*level.times(Metric::Tpot), Samples::exact(vec![13.0; 3]));
    assert_eq!((level.failed, level.ended), (2, 6));
}

#[test]
fn rows_of_answers_too_quick_to_be_timed_give_no_speed_at_all() {
    // 40 tokens at one tick.
    let quick = |index| steady_request(index, index * 1_000, 50, 0, 40);
    let rows: Vec<_> =
        (0..10).map(|i| if i < 5 { quick(i) } else { steady_request(i, i * 1_000, 50, 10, 40) }).collect();
    let record = fixtures::record(vec![one_phase(&rows)]);
    let side = RunSamples::of_rows(&record, std::slice::from_ref(&rows));
    assert_eq!((side.levels[0].times(Metric::Tpot).n(), side.levels[0].times(Metric::Ttft).n()), (0, 10));
}

#[test]
fn failures_of_all_rounds_of_a_load_are_one_count() {
    let requests = |answered: u64, failed: u64| -> Vec<RequestNumbers> {
        let fail = |i: u64| failed_request(i, i * 1_000, i * 1_000 + 5, FailureKind::ServerError);
        (0..answered + failed)
            .map(|i| if i < failed { fail(i) } else { steady_request(i, i * 1_000, 10, 10, 40) })
            .collect()
    };
    let record = fixtures::record(vec![one_phase(&requests(8, 2)), one_phase(&requests(4, 3))]);
    let level = &RunSamples::of_record(&record).levels[0];
    assert_eq!((level.failed, level.ended, level.times(Metric::Ttft).n()), (5, 17, 12));
}

#[test]
fn a_round_that_was_cut_off_is_counted_and_in_no_level() {
    let round = |ttft| -> Vec<_> { (0..10).map(|i| steady_request(i, i * 2_000, ttft, 10, 40)).collect() };
    let rows = vec![round(100), round(900), round(110)];
    let mut phases: Vec<PhaseResult> = rows.iter().map(|rows| one_phase(rows)).collect();
    phases[1].interrupted = true;
    let record = fixtures::record(phases);
    for side in [RunSamples::of_record(&record), RunSamples::of_rows(&record, &rows)] {
        let level = &side.levels[0];
        assert_eq!((side.levels.len(), side.cut_rounds, level.ended), (1, 1, 20));
        let ttft = level.times(Metric::Ttft);
        assert!(ttft.n() == 20 && ttft.sorted.iter().all(|ms| *ms < 120.0), "{:?}", ttft.sorted);
        assert_eq!(level.of_phases.rounds(Metric::Ttft), [100.0, 110.0]);
    }
    let only = fixtures::record(vec![PhaseResult { interrupted: true, ..one_phase(&rows[0]) }]);
    let only = RunSamples::of_record(&only);
    assert_eq!((only.levels.len(), only.cut_rounds), (0, 1));
}

#[test]
fn a_sketch_gives_each_value_back_as_often_as_it_was_seen() {
    let requests: Vec<_> =
        [300, 100, 200, 200].iter().zip(0..).map(|(&ttft, i)| steady_request(i, i * 1_000, ttft, 10, 40)).collect();
    let side = RunSamples::of_record(&fixtures::record(vec![one_phase(&requests)]));
    let ttft = side.levels[0].times(Metric::Ttft);
    assert_eq!(ttft.n(), 4);
    for (seen, expected) in ttft.sorted.iter().zip([100.0, 200.0, 200.0, 300.0]) {
        assert!((seen / expected - 1.0).abs() < 0.0055, "{:?}", ttft.sorted);
    }
}

#[test]
fn a_sketch_that_does_not_say_its_unit_is_taken_as_it_is() {
    let mut phase = one_phase(&[steady_request(0, 0, 100, 10, 40)]);
    phase.ttft.sketch_steps = 0.0;
    let side = RunSamples::of_record(&fixtures::record(vec![phase]));
    let ttft = side.levels[0].times(Metric::Ttft);
    assert_eq!(ttft.sorted, [100.0 * MS as f64]);
}

#[test]
fn the_throughput_of_a_level_is_that_of_its_windows_by_their_length() {
    // 380 to 420 is 1.96 errors to each side: 20 / 1.96 = 10.2043; 170 to 230 likewise 15.3064.
    let one = seen_of(vec![with_throughput(400.0, Some(20.0), 30.0)]).expect("a window");
    assert_eq!((one.tokens_per_second, one.seconds), (400.0, 30.0));
    assert!((one.standard_error.expect("ten parts") - 10.204_27).abs() < 1e-4, "{one:?}");
    // 30 s and 10 s: 0.75 * 400 + 0.25 * 200; the errors as of independent ones, sqrt((0.75 * 10.2043)^2 + (0.25 * 15.3064)^2).
    let both = vec![with_throughput(400.0, Some(20.0), 30.0), with_throughput(200.0, Some(30.0), 10.0)];
    let both = seen_of(both).expect("two windows");
    assert_eq!((both.tokens_per_second, both.seconds), (350.0, 40.0));
    assert!((both.standard_error.expect("ten parts each") - 8.556_54).abs() < 1e-4, "{both:?}");
}

#[test]
fn a_window_without_an_interval_leaves_the_level_without_an_error() {
    let phases = vec![with_throughput(400.0, Some(20.0), 30.0), with_throughput(200.0, None, 10.0)];
    let seen = seen_of(phases).expect("two windows");
    assert_eq!((seen.tokens_per_second, seen.standard_error), (350.0, None));
    let lone = seen_of(vec![with_throughput(400.0, None, 30.0), one_phase(&[])]).expect("one window");
    assert_eq!((lone.tokens_per_second, lone.seconds), (400.0, 30.0), "a round without a window adds nothing");
    assert_eq!(seen_of(vec![one_phase(&[])]), None);
}

#[test]
fn the_median_of_a_record_is_the_one_that_its_tables_state() {
    // A time lies anywhere in its bucket of the sketch, and of several rounds it is the bucket's middle that is known.
    let round = |gap: u64| -> Vec<_> { (0..20).map(|i| steady_request(i, i * 2_000, 101, gap, 40)).collect() };
    for phases in [vec![one_phase(&round(12))], vec![one_phase(&round(12)), one_phase(&round(13))]] {
        let record = fixtures::record(phases);
        let level = &RunSamples::of_record(&record).levels[0];
        let rounds = &by_load(&record.phases)[0];
        for metric in [Metric::Ttft, Metric::Tpot, Metric::E2e] {
            let stated = rounds.times(metric).expect("every round has it").p50;
            assert_eq!(level.times(metric).median(), stated, "{metric:?} of {} rounds", record.phases.len());
        }
    }
    let lone = fixtures::record(vec![one_phase(&round(12))]);
    let tpot = RunSamples::of_record(&lone).levels[0].times(Metric::Tpot).median();
    assert_eq!(tpot.value, Some(12.0), "exact, though the samples are those of a sketch");
}

#[test]
fn levels_rise_and_rounds_have_their_throughputs_in_whatever_order_they_ran() {
    let at = |concurrency, throughput| {
        let answered = phase(&closed(concurrency), &[thoughtful(0, 0)]);
        PhaseResult { throughput: with_throughput(throughput, None, 5.0).throughput, ..answered }
    };
    let side = RunSamples::of_record(&fixtures::record(vec![at(8, 90.0), at(1, 20.0), at(8, 80.0)]));
    assert_eq!(side.levels.iter().map(|level| level.load.amount()).collect::<Vec<f64>>(), [1.0, 8.0]);
    assert_eq!(side.levels[1].of_phases.rounds(Metric::Throughput), [90.0, 80.0]);
}
