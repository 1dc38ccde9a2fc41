//! The plan, driven by hand in virtual time.

use super::*;
use proptest::prelude::{any, prop_assert_eq, proptest};

fn closed(concurrency: u32, requests: u64, warmup: u64) -> PhaseSpec {
    PhaseSpec { load: Load::Closed { concurrency }, extent: Extent::Requests(requests), warmup }
}

fn open(rate: f64, arrivals: Arrivals, extent: Extent, in_flight_limit: u32) -> PhaseSpec {
    let rate = RequestsPerSecond::new(rate).expect("finite");
    PhaseSpec { load: Load::Open { rate, arrivals, in_flight_limit }, extent, warmup: 0 }
}

/// Runs a plan against a server that takes `service` for each request; returns the starts and the most in flight.
fn run(mut plan: Plan, service: impl Fn(u64) -> Span) -> (Vec<(Start, Tick)>, u32) {
    let (mut now, mut starts, mut peak) = (Tick::ZERO, Vec::new(), 0);
    let mut ends: std::collections::BTreeSet<(Tick, u64)> = Default::default();
    loop {
        let wake = match plan.poll(now) {
            Step::Start(start) => {
                ends.insert((now + service(start.index), start.index));
                starts.push((start, now));
                peak = peak.max(plan.in_flight());
                continue;
            }
            Step::Finished => return (starts, peak),
            Step::WaitForCompletion => None,
            Step::WaitUntil(tick) => Some(tick),
        };
        let first_end = ends.first().map(|&(at, _)| at);
        now = [wake, first_end].into_iter().flatten().min().expect("something must happen next");
        while ends.first().is_some_and(|&(at, _)| at <= now) {
            ends.pop_first();
            plan.completed(now);
        }
    }
}

#[test]
fn a_closed_loop_keeps_its_concurrency_and_sends_each_request_once() {
    let plan = Plan::new(closed(3, 10, 3), Share::WHOLE, Tick::ZERO, Rng::root(1));
    let (starts, peak) = run(plan, |index| Span::from_millis(10 + index));
    assert_eq!(peak, 3);
    let indices: Vec<u64> = starts.iter().map(|(start, _)| start.index).collect();
    assert_eq!(indices, (0..13).collect::<Vec<u64>>());
    assert_eq!(starts.iter().filter(|(start, _)| start.warmup).count(), 3);
    assert!(starts.iter().all(|(start, at)| start.due_at == *at), "a closed loop is never late in virtual time");
}

#[test]
fn an_open_loop_fires_when_due_whatever_happens() {
    let spec = open(100.0, Arrivals::Constant, Extent::Requests(50), 1_000);
    let (starts, _) = run(Plan::new(spec, Share::WHOLE, Tick::ZERO, Rng::root(1)), |_| Span::from_secs(60));
    let due: Vec<u64> = starts.iter().map(|(start, _)| start.due_at.as_nanos()).collect();
    assert_eq!(due, (1..=50).map(|n| n * 10_000_000 - 10_000_000).collect::<Vec<u64>>());
}

#[test]
fn a_late_driver_does_not_re_anchor_the_schedule() {
    let spec = open(1_000.0, Arrivals::Constant, Extent::Requests(5), 1_000);
    let mut plan = Plan::new(spec, Share::WHOLE, Tick::ZERO, Rng::root(1));
    let late = Tick::from_nanos(10_000_000);
    for n in 0..5 {
        let Step::Start(start) = plan.poll(late) else { panic!("five are due") };
        assert_eq!(start.due_at, Tick::from_nanos(n * 1_000_000));
    }
    assert_eq!(plan.poll(late), Step::WaitForCompletion);
}

#[test]
fn arrivals_over_the_limit_are_counted_as_forfeited() {
    let spec = open(100.0, Arrivals::Constant, Extent::Requests(10), 4);
    let mut plan = Plan::new(spec, Share::WHOLE, Tick::ZERO, Rng::root(1));
    let mut started = 0;
    while let Step::Start(_) = plan.poll(Tick::from_nanos(1_000_000_000)) {
        started += 1;
    }
    assert_eq!((started, plan.forfeited()), (4, 6));
}

#[test]
fn a_duration_counts_from_the_first_measured_request() {
    let spec = PhaseSpec { warmup: 2, ..closed(1, 0, 2) };
    let spec = PhaseSpec { extent: Extent::Duration(Span::from_millis(100)), ..spec };
    let (starts, _) = run(Plan::new(spec, Share::WHOLE, Tick::ZERO, Rng::root(1)), |_| Span::from_millis(30));
    // Warm-up at 0 and 30 ms; measured from 60 ms on: 60, 90, 120, 150; at 180 the 100 ms are over.
    assert_eq!(starts.len(), 6);
}

#[test]
fn a_share_without_slots_is_finished_at_once() {
    let share = Share { worker: 3, of: 4 };
    let mut plan = Plan::new(closed(2, 10, 0), share, Tick::ZERO, Rng::root(1));
    assert_eq!(plan.poll(Tick::ZERO), Step::Finished);
}

#[test]
fn stopping_waits_for_what_is_in_flight() {
    let mut plan = Plan::new(closed(1, 10, 0), Share::WHOLE, Tick::ZERO, Rng::root(1));
    assert!(matches!(plan.poll(Tick::ZERO), Step::Start(_)));
    plan.stop();
    assert_eq!(plan.poll(Tick::ZERO), Step::WaitForCompletion);
    plan.completed(Tick::ZERO);
    assert_eq!(plan.poll(Tick::ZERO), Step::Finished);
}

#[test]
fn poisson_gaps_have_the_mean_and_the_spread_of_their_process() {
    let spec = open(1_000.0, Arrivals::Poisson, Extent::Requests(20_000), u32::MAX);
    let (starts, _) = run(Plan::new(spec, Share::WHOLE, Tick::ZERO, Rng::root(5)), |_| Span::from_millis(1));
    let gaps: Vec<f64> = starts.windows(2).map(|pair| (pair[1].0.due_at - pair[0].0.due_at).as_millis_f64()).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let deviation = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
    assert!((mean - 1.0).abs() < 0.03 && (deviation / mean - 1.0).abs() < 0.05, "{mean} {deviation}");
}

proptest! {
    #[test]
    fn the_shares_of_all_workers_add_up_to_the_phase(
        workers in 1u32..9, concurrency in 1u32..60, requests in 0u64..200, warmup in 0u64..20,
    ) {
        let mut indices = Vec::new();
        let mut measured = 0;
        for worker in 0..workers.min(concurrency) {
            let share = Share { worker, of: workers.min(concurrency) };
            let plan = Plan::new(closed(concurrency, requests, warmup), share, Tick::ZERO, Rng::root(1));
            let (starts, _) = run(plan, |_| Span::from_millis(1));
            measured += starts.iter().filter(|(start, _)| !start.warmup).count() as u64;
            indices.extend(starts.iter().map(|(start, _)| start.index));
        }
        indices.sort_unstable();
        prop_assert_eq!(indices, (0..requests + warmup).collect::<Vec<u64>>());
        prop_assert_eq!(measured, requests);
    }

    #[test]
    fn the_arrivals_of_an_open_loop_do_not_depend_on_the_number_of_workers(workers in 1u32..6, seed in any::<u64>()) {
        let spec = open(50.0, Arrivals::Poisson, Extent::Requests(60), u32::MAX);
        let due = |share| {
            let (starts, _) = run(Plan::new(spec, share, Tick::ZERO, Rng::root(seed)), |_| Span::from_millis(1));
            starts.into_iter().map(|(start, _)| (start.index, start.due_at)).collect::<Vec<_>>()
        };
        let whole = due(Share::WHOLE);
        let mut parts: Vec<_> = (0..workers).flat_map(|worker| due(Share { worker, of: workers })).collect();
        parts.sort_unstable();
        prop_assert_eq!(parts, whole);
    }
}
