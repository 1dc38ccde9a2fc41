//! Runs that go on until asked figures are known, against levels of a known spread.

use super::super::tests::{closed, run, with_throughput};
use super::super::{Schedule, ScheduleMode};
use super::*;
use tokrate_core::Rng;

fn until(conditions: &[&str], max_requests: u64) -> Until {
    let conditions = conditions.iter().map(|text| Precision::parse(text).expect("a condition")).collect();
    Until { conditions, max_requests, max_time: None }
}

/// A schedule of these levels.
fn schedule(until: &Until, levels: &[u32]) -> Schedule {
    let listed = levels.iter().map(|level| until.round_of(&closed(*level))).collect();
    Schedule::new(listed, ScheduleMode::Until(until.clone()), 0)
}

/// A round of 100 tok/s for each in flight, whose rounds differ by `spread`.
fn measured(spec: &PhaseSpec, spread: f64, rng: &mut Rng) -> PhaseResult {
    let mut result =
        with_throughput(spec, 100.0 * f64::from(spec.load.max_in_flight()) * (spread * rng.normal()).exp());
    let Extent::Requests(requests) = spec.extent else { panic!("a round has a number of requests") };
    (result.counts.measured, result.counts.answered, result.counts.started) =
        (requests, requests, requests + spec.warmup);
    result.name = spec.load.name();
    result
}

#[test]
fn a_round_holds_what_shows_its_load_and_what_the_percentile_takes() {
    let requests = |text: &str, level: u32| match until(&[text], 9_000).round_of(&closed(level)).extent {
        Extent::Requests(requests) => requests,
        other => panic!("{other:?}"),
    };
    assert_eq!((requests("ttft_p50 ± 2%", 1), requests("ttft_p50 ± 2%", 20)), (7, 61));
    // 130 and 662 in six rounds.
    assert_eq!((requests("ttft_p95 ± 2%", 1), requests("ttft_p99 ± 2%", 1)), (23, 111));
    assert_eq!(requests("ttft_p99 ± 2% @ concurrency 8", 1), 7, "nobody asks it of this level");
}

#[test]
fn every_level_has_its_start_up_and_the_next_rounds_go_where_they_help() {
    let until = until(&["throughput ± 3%"], 3_000);
    let mut rng = Rng::root(5);
    let spread = |spec: &PhaseSpec| if spec.load.max_in_flight() == 8 { 0.06 } else { 0.005 };
    let (levels, results, _) = run(&schedule(&until, &[1, 8]), |spec| measured(spec, spread(spec), &mut rng));
    assert_eq!(levels[..12], [1.0, 8.0, 8.0, 1.0, 1.0, 8.0, 8.0, 1.0, 1.0, 8.0, 8.0, 1.0], "in turns");
    assert!(levels.len() > 20 && levels[12..].iter().all(|level| *level == 8.0), "{levels:?}");
    let known = schedule(&until, &[1, 8]).known(&results).expect("it was asked");
    assert!(known.end == UntilEnd::Reached && known.is_reached(), "{known:?}");
}

#[test]
fn a_limit_ends_it_with_what_is_missing() {
    let until = until(&["throughput ± 1%"], 60);
    let mut rng = Rng::root(6);
    let (levels, results, _) = run(&schedule(&until, &[1]), |spec| measured(spec, 0.2, &mut rng));
    assert_eq!(levels.len(), 9, "60 requests in rounds of seven");
    let known = schedule(&until, &[1]).known(&results).expect("it was asked");
    assert_eq!(known.end, UntilEnd::Requests);
    let outcome = &known.conditions[0];
    assert!(outcome.more_requests.is_some_and(|more| more > 1_000), "{outcome:?}");
    assert!(outcome.sentence.contains("not reached after 63 requests; about"), "{}", outcome.sentence);
}

#[test]
fn what_no_round_has_is_said_at_once() {
    let until = until(&["output_speed_p50 ± 1%"], 600);
    let mut rng = Rng::root(7);
    let (levels, results, _) = run(&schedule(&until, &[1]), |spec| measured(spec, 0.0, &mut rng));
    assert_eq!(levels.len(), 1, "its answers have no speed");
    assert_eq!(schedule(&until, &[1]).known(&results).map(|known| known.end), Some(UntilEnd::NotReachable));
}

#[test]
fn a_level_nobody_asks_about_runs_once() {
    let until = until(&["throughput ± 3% @ concurrency 1"], 3_000);
    let mut rng = Rng::root(8);
    let (levels, ..) = run(&schedule(&until, &[1, 4]), |spec| measured(spec, 0.001, &mut rng));
    assert_eq!(levels.iter().filter(|level| **level == 4.0).count(), 1, "{levels:?}");
    assert_eq!(levels.len(), 7);
}
