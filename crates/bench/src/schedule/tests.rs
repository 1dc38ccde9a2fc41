//! Schedules against servers with a known curve.

use super::*;
use crate::plan::{Arrivals, Backoff};
use proptest::prelude::*;
use std::sync::OnceLock;
use tokrate_core::{Conditions, Sketch, Span, Tick};
use tokrate_record::run::Throughput;
use tokrate_record::{Goodput, PhaseInput, SearchStatus, SloCount, Warmup};

pub(super) fn closed(concurrency: u32) -> PhaseSpec {
    let load = Load::Closed { concurrency };
    PhaseSpec { load, extent: Extent::Requests(20), warmup: u64::from(concurrency), backoff: Backoff::Obey }
}

/// The result of a phase in which nothing happened; what a test needs is put in.
fn empty() -> &'static PhaseResult {
    static EMPTY: OnceLock<PhaseResult> = OnceLock::new();
    EMPTY.get_or_init(|| {
        let input = PhaseInput {
            name: String::new(),
            conditions: &Conditions::default(),
            load: tokrate_record::Load::Closed { concurrency: 1 },
            warmup: Warmup::None,
            started_at: Tick::ZERO,
            ended_at: Tick::ZERO,
            interrupted: false,
            client_error: None,
            timer_lag: &Sketch::new(),
            client_cpu: Span::ZERO,
            late: 0,
            forfeited: 0,
            withheld: 0,
            held_back: None,
        };
        PhaseResult::of(&input, &mut [])
    })
}

pub(super) fn with_throughput(spec: &PhaseSpec, tokens_per_second: f64) -> PhaseResult {
    let throughput = Throughput {
        window_seconds: 1.0,
        tokens: tokens_per_second as u64,
        tokens_per_second,
        interval: None,
        peak_tokens_per_second: tokens_per_second,
        parts: 1,
        requests: 1,
        requests_per_second: 1.0,
    };
    PhaseResult { load: spec.load.row(), throughput: Some(throughput), ..empty().clone() }
}

fn with_goodput(spec: &PhaseSpec, met: u64, of: u64) -> PhaseResult {
    let goodput = Goodput {
        slos: Vec::new(),
        met,
        of,
        undecided: 0,
        missed_rate_limited: 0,
        missed_failed: 0,
        share: Some(met as f64 / of as f64),
        interval: None,
        per_second: None,
    };
    PhaseResult { load: spec.load.row(), goodput: Some(goodput), ..empty().clone() }
}

fn level(spec: &PhaseSpec) -> f64 {
    match &spec.load {
        Load::Closed { concurrency } => f64::from(*concurrency),
        load => load.rate().expect("an open loop"),
    }
}

/// Runs a schedule to its end, at most 200 phases.
pub(super) fn run(
    schedule: &Schedule,
    mut measure: impl FnMut(&PhaseSpec) -> PhaseResult,
) -> (Vec<f64>, Vec<PhaseResult>, Vec<String>) {
    let (mut levels, mut results, mut reasons) = (Vec::new(), Vec::new(), Vec::new());
    while let Some(next) = schedule.next(&results) {
        assert!(schedule.planned(&results) > results.len());
        levels.push(level(&next.spec));
        reasons.extend(next.reason.map(|reason| Reason::sentences(&[reason]).concat()));
        results.push(measure(&next.spec));
        assert!(results.len() < 200, "it does not end: {levels:?}");
    }
    assert_eq!(schedule.planned(&results), results.len());
    (levels, results, reasons)
}

#[test]
fn listed_phases_run_as_listed() {
    let schedule = Schedule::new(vec![closed(1), closed(10), closed(1)], ScheduleMode::Listed, 0);
    assert_eq!(run(&schedule, |spec| with_throughput(spec, 1.0)).0, [1.0, 10.0, 1.0]);
}

#[test]
fn a_system_load_test_goes_on_while_throughput_rises_and_not_beyond_its_cap() {
    let saturating = |at: f64| move |spec: &PhaseSpec| with_throughput(spec, 30.0 * level(spec).min(at));
    let first = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];
    let with = |more: &[f64]| first.iter().chain(more).copied().collect::<Vec<f64>>();
    let schedule = Schedule::new(vec![closed(1)], ScheduleMode::System { max_concurrency: 1024 }, 0);
    assert_eq!(run(&schedule, saturating(20.0)).0, first, "it fell asleep at 20");
    let (levels, _, reasons) = run(&schedule, saturating(150.0));
    assert_eq!(levels, with(&[128.0, 192.0, 256.0]), "192 is no better than 150, and 256 no better than 192");
    assert!(reasons[0].starts_with("concurrency 128 was added: throughput still rose from 960 to 1920"), "{reasons:?}");
    let capped = Schedule::new(vec![closed(1)], ScheduleMode::System { max_concurrency: 200 }, 0);
    assert_eq!(run(&capped, saturating(1e9)).0, with(&[128.0, 192.0]));
    let small = Schedule::new(vec![closed(1)], ScheduleMode::System { max_concurrency: 5 }, 0);
    assert_eq!(run(&small, saturating(1e9)).0, [1.0, 2.0, 4.0]);
}

#[test]
fn refinement_adds_levels_where_a_load_that_matters_is_not_known_well_and_says_why() {
    let listed = [1, 2, 4, 8, 80].map(closed).to_vec();
    let schedule = Schedule::new(listed, ScheduleMode::Refine { max_levels: 3 }, 0);
    let (levels, _, reasons) = run(&schedule, |spec| with_throughput(spec, 50.0 * level(spec).min(28.0)));
    let added = &levels[5..];
    assert!(!added.is_empty() && added.len() <= 3, "{levels:?}");
    assert!(added.iter().all(|level| (8.0..=80.0).contains(level)), "around 28: {levels:?}");
    assert_eq!(reasons.len(), added.len());
    assert!(reasons.iter().all(|why| why.contains("was added between")), "{reasons:?}");
    let mut distinct = levels.clone();
    distinct.sort_by(f64::total_cmp);
    distinct.dedup();
    assert_eq!(distinct.len(), levels.len(), "no level twice");
}

#[test]
fn refinement_of_a_line_adds_nothing() {
    let schedule = Schedule::new([1, 5, 10, 20, 40].map(closed).to_vec(), ScheduleMode::Refine { max_levels: 3 }, 0);
    assert_eq!(run(&schedule, |spec| with_throughput(spec, 50.0 * level(spec))).0.len(), 5);
}

#[test]
fn the_result_of_a_search_is_one_sentence() {
    let schedule = Schedule::new(vec![closed(1)], search(Axis::Concurrency, 64.0), 0);
    // From 6 in flight on a fifth starts late; failures are fewer.
    let measure = |spec: &PhaseSpec| {
        let (of, late) = (200, if level(spec) >= 6.0 { 40 } else { 2 });
        let slo = |slo: &str, met: u64| SloCount { slo: slo.to_owned(), met, without_metric: 0 };
        let slos = vec![slo("ttft_ms < 500", of - late - 3), slo("tpot_ms < 50", of - 4)];
        let mut result = with_goodput(spec, of - late - 4, of);
        let goodput = result.goodput.take().map(|goodput| Goodput { slos, missed_failed: 3, ..goodput });
        PhaseResult { goodput, ..result }
    };
    let (_, results, _) = run(&schedule, measure);
    let found = schedule.found(&results).expect("a search");
    insta::assert_snapshot!("found", found.sentence);
    let open = Schedule::new(vec![closed(1)], search(Axis::Concurrency, 4.0), 0);
    let (_, results, _) = run(&open, measure);
    insta::assert_snapshot!("all_met", open.found(&results).expect("a search").sentence);
    let none = |spec: &PhaseSpec| with_goodput(spec, 10, 200);
    let (_, results, _) = run(&schedule, none);
    insta::assert_snapshot!("none_met", schedule.found(&results).expect("a search").sentence);
    insta::assert_snapshot!("unfinished", schedule.found(&[]).expect("a search").sentence);
}

fn search(axis: Axis, most: f64) -> ScheduleMode {
    ScheduleMode::Search(Search { axis, share: 0.95, max_load: most, max_requests: 2_000 })
}

/// A server that keeps the objectives up to a level, and misses them by far above it.
fn keeps_up_to(most: f64) -> impl FnMut(&PhaseSpec) -> PhaseResult {
    move |spec| {
        let Extent::Requests(n) = spec.extent else { panic!("requests") };
        with_goodput(spec, if level(spec) <= most { n } else { n / 2 }, n)
    }
}

#[test]
fn a_search_finds_the_highest_level_that_keeps_the_objectives() {
    for most in [1.0, 2.0, 13.0, 37.0, 64.0, 100.0] {
        let schedule = Schedule::new(vec![closed(1)], search(Axis::Concurrency, 256.0), 0);
        let (levels, results, _) = run(&schedule, keeps_up_to(most));
        let found = schedule.found(&results).expect("a search");
        assert_eq!(
            (found.status, found.highest_met, found.lowest_missed),
            (SearchStatus::Found, Some(most), Some(most + 1.0))
        );
        assert!(levels.len() <= 16, "{levels:?}");
        assert!(found.sentence.contains(&format!("keep the objectives is {most}: ")), "{}", found.sentence);
    }
}

#[test]
fn a_search_for_a_rate_ends_when_the_levels_are_near() {
    let rate = RequestsPerSecond::new(1.0).expect("finite");
    let load = Load::Open { rate, arrivals: Arrivals::Poisson, in_flight_limit: 9 };
    let spec = PhaseSpec { load, extent: Extent::Requests(20), warmup: 0, backoff: Backoff::Obey };
    for most in [0.3, 7.3, 80.0] {
        let schedule = Schedule::new(vec![spec.clone()], search(Axis::Rate, 100.0), 0);
        let (_, results, _) = run(&schedule, keeps_up_to(most));
        let found = schedule.found(&results).expect("a search");
        let (met, missed) = (found.highest_met.expect("met"), found.lowest_missed.expect("missed"));
        assert!(met <= most && most < missed && missed / met <= 1.06, "{most}: {met}..{missed}");
    }
}

#[test]
fn a_search_for_a_rate_goes_no_lower_than_ten_minutes_of_requests_allow() {
    let rate = RequestsPerSecond::new(1.0).expect("finite");
    let load = Load::Open { rate, arrivals: Arrivals::Poisson, in_flight_limit: 9 };
    let spec = PhaseSpec { load, extent: Extent::Requests(20), warmup: 0, backoff: Backoff::Obey };
    let schedule = Schedule::new(vec![spec.clone()], search(Axis::Rate, 100.0), 0);
    let (levels, results, _) = run(&schedule, keeps_up_to(0.0));
    assert_eq!(levels, [1.0, 0.5, 0.25, 0.147], "88 requests in 600 s");
    let found = schedule.found(&results).expect("a search");
    assert_eq!(found.status, SearchStatus::NoneMet);
    insta::assert_snapshot!("no_rate_met", found.sentence);
    // As many requests as fit into ten minutes, however many are allowed.
    let near = |spec: &PhaseSpec| {
        let Extent::Requests(n) = spec.extent else { panic!("requests") };
        with_goodput(spec, n * 955 / 1000, n)
    };
    let (_, results, _) = run(&schedule, near);
    let found = schedule.found(&results).expect("a search");
    assert_eq!((found.status, found.levels[0].of), (SearchStatus::NeedsMoreRequests, 600));
    insta::assert_snapshot!("no_more_time", found.sentence);
}

#[test]
fn a_search_says_when_none_or_all_keep_the_objectives() {
    let schedule = Schedule::new(vec![closed(1)], search(Axis::Concurrency, 20.0), 0);
    let (levels, results, _) = run(&schedule, keeps_up_to(0.5));
    assert_eq!((levels, schedule.found(&results).expect("a search").status), (vec![1.0], SearchStatus::NoneMet));
    let (levels, results, _) = run(&schedule, keeps_up_to(1e9));
    assert_eq!(levels, [1.0, 2.0, 4.0, 8.0, 16.0, 20.0]);
    assert_eq!(schedule.found(&results).expect("a search").status, SearchStatus::AllMet);
}

#[test]
fn a_level_too_near_to_the_share_is_measured_again_up_to_the_cap() {
    let schedule = Schedule::new(vec![closed(1)], search(Axis::Concurrency, 256.0), 0);
    let mut sent = 0;
    let (levels, results, reasons) = run(&schedule, |spec| {
        let Extent::Requests(n) = spec.extent else { panic!("requests") };
        let met = if level(spec) < 3.0 { n } else { n * 955 / 1000 };
        sent += if level(spec) < 3.0 { 0 } else { n };
        with_goodput(spec, met, n)
    });
    let found = schedule.found(&results).expect("a search");
    assert_eq!(found.status, SearchStatus::NeedsMoreRequests);
    assert!(levels.iter().filter(|level| **level == 4.0).count() >= 3, "{levels:?}");
    assert_eq!(sent, 2_000, "as many as allowed");
    assert!(found.sentence.starts_with("needs more requests (about "), "{}", found.sentence);
    assert_eq!((found.highest_met, found.lowest_missed), (Some(2.0), None));
    assert!(reasons.last().is_some_and(|why| why.starts_with("the search measured again where")), "{reasons:?}");
}

#[test]
fn a_metric_that_answers_lack_is_not_an_objective_that_they_miss() {
    let schedule = Schedule::new(vec![closed(1)], search(Axis::Concurrency, 256.0), 0);
    let (levels, results, _) = run(&schedule, |spec| {
        let Extent::Requests(n) = spec.extent else { panic!("requests") };
        let unknown = if level(spec) < 4.0 { 0 } else { n / 2 };
        let result = with_goodput(spec, n - unknown, n);
        PhaseResult { goodput: result.goodput.map(|goodput| Goodput { undecided: unknown, ..goodput }), ..result }
    });
    let found = schedule.found(&results).expect("a search");
    assert_eq!((levels, found.status), (vec![1.0, 2.0, 4.0], SearchStatus::LacksMetric));
    assert_eq!((found.highest_met, found.lowest_missed), (Some(2.0), None));
    assert!(
        found.sentence.starts_with("cannot be determined: at concurrency 4, 44 of 88 answers lack"),
        "{}",
        found.sentence
    );
}

#[test]
fn levels_that_double_from_one_can_be_refined() {
    let listed = [1, 2, 4, 8, 16, 32].map(closed).to_vec();
    for slots in [1.0, 2.0, 5.0, 20.0, 31.0] {
        let schedule = Schedule::new(listed.clone(), ScheduleMode::Refine { max_levels: 4 }, 0);
        let (levels, ..) = run(&schedule, |spec| with_throughput(spec, 50.0 * level(spec).min(slots)));
        assert!(levels.len() >= 6, "{slots}: {levels:?}");
    }
}

/// What may be asked for beside levels of one kind.
fn modes(axis: Axis) -> impl Strategy<Value = ScheduleMode> {
    let search =
        move |(share, most, max_requests)| ScheduleMode::Search(Search { axis, share, max_load: most, max_requests });
    prop_oneof![
        Just(ScheduleMode::Listed),
        (0..6_u32).prop_map(|max_levels| ScheduleMode::Refine { max_levels }),
        (1..300_u32).prop_map(|max_concurrency| ScheduleMode::System { max_concurrency }),
        (0.5..0.99, 1.0..300.0, 1..500_u64).prop_map(search),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn whatever_was_asked_and_measured_levels_are_chosen_to_an_end(
        levels in prop::collection::vec(prop_oneof![1..9_u32, 1..600_u32], 1..12),
        (is_open, mode) in prop_oneof![
            modes(Axis::Concurrency).prop_map(|mode| (false, mode)),
            modes(Axis::Rate).prop_map(|mode| (true, mode)),
        ],
        results in prop::collection::vec((prop_oneof![Just(0.0), 0.1..1e5], 0.0..=1.0), 30),
    ) {
        let spec = |level: u32| match is_open {
            false => closed(level),
            true => {
                let rate = RequestsPerSecond::new(f64::from(level) / 7.0).expect("finite");
                let load = Load::Open { rate, arrivals: Arrivals::Poisson, in_flight_limit: 9 };
                PhaseSpec { load, ..closed(1) }
            }
        };
        let schedule = Schedule::new(levels.into_iter().map(spec).collect(), mode, 0);
        let requests = |specs: &[PhaseSpec]| {
            let of = |spec: &PhaseSpec| match spec.extent {
                Extent::Requests(n) => n + spec.warmup,
                _ => panic!("requests"),
            };
            specs.iter().map(of).sum::<u64>()
        };
        let is_listed = matches!(schedule.mode, ScheduleMode::Listed | ScheduleMode::Refine { .. });
        let listed = if is_listed { &schedule.listed[..] } else { &[] };
        let most = |of: &dyn Fn(&[PhaseSpec]) -> f64| {
            of(listed) + schedule.longest_courses().iter().map(|course| of(course)).fold(0.0, f64::max)
        };
        let seconds = |specs: &[PhaseSpec]| -> f64 {
            specs.iter().map(|spec| spec.load.rate().map_or(0.0, |rate| requests(std::slice::from_ref(spec)) as f64 / rate)).sum()
        };
        let (most, most_seconds) = (most(&|specs| requests(specs) as f64) as u64, most(&seconds));
        let (mut sent, mut took) = (0, 0.0);
        let mut measured = results.into_iter().cycle();
        let (_, done, _) = run(&schedule, |spec| {
            let (tokens_per_second, share) = measured.next().expect("it goes round");
            let Extent::Requests(n) = spec.extent else { panic!("requests") };
            sent += n + spec.warmup;
            took += seconds(std::slice::from_ref(spec));
            let goodput = with_goodput(spec, (share * n as f64) as u64, n).goodput;
            PhaseResult { goodput, ..with_throughput(spec, tokens_per_second) }
        });
        prop_assert!(!done.is_empty() || schedule.next(&[]).is_none());
        prop_assert!(sent <= most, "{sent} were sent, {most} was said to be the most");
        // A step between two rates may be rounded up.
        prop_assert!(took <= most_seconds * 1.001 + 1.0, "it took {took} s, {most_seconds} s was said to be the most");
    }
}
