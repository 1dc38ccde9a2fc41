//! The plan, driven in virtual time.

use super::*;
use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
use std::collections::BTreeSet;
use std::sync::Arc;
use tokrate_core::RequestsPerSecond;

fn closed(concurrency: u32, requests: u64, warmup: u64) -> PhaseSpec {
    PhaseSpec { load: Load::Closed { concurrency }, extent: Extent::Requests(requests), warmup, backoff: Backoff::Obey }
}

fn open(rate: f64, arrivals: Arrivals, extent: Extent, in_flight_limit: u32) -> PhaseSpec {
    let rate = RequestsPerSecond::new(rate).expect("finite");
    PhaseSpec { load: Load::Open { rate, arrivals, in_flight_limit }, extent, warmup: 0, backoff: Backoff::Obey }
}

/// Runs a plan against a server that takes `service` for each request; returns the starts and the most in flight.
fn run(plan: Plan, service: impl Fn(u64) -> Span) -> (Vec<(Start, Tick)>, u32) {
    run_from(plan, Tick::ZERO, service)
}

fn run_from(mut plan: Plan, begin: Tick, service: impl Fn(u64) -> Span) -> (Vec<(Start, Tick)>, u32) {
    let (mut now, mut starts, mut peak) = (begin, Vec::new(), 0);
    let mut ends: BTreeSet<(Tick, Start)> = Default::default();
    loop {
        let wake = match plan.poll(now) {
            Step::Start(start) => {
                ends.insert((now + service(start.index), start));
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
            let (_, start) = ends.pop_first().expect("there is a first");
            plan.completed(&start, now, Outcome::Answered);
        }
    }
}

#[test]
fn a_closed_loop_keeps_its_concurrency_and_sends_each_request_once() {
    let plan = Plan::new(&closed(3, 10, 3), Share::WHOLE, Tick::ZERO, Rng::root(1));
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
    let (starts, _) = run(Plan::new(&spec, Share::WHOLE, Tick::ZERO, Rng::root(1)), |_| Span::from_secs(60));
    let due: Vec<u64> = starts.iter().map(|(start, _)| start.due_at.as_nanos()).collect();
    assert_eq!(due, (1..=50).map(|n| n * 10_000_000 - 10_000_000).collect::<Vec<u64>>());
}

#[test]
fn a_late_driver_does_not_re_anchor_the_schedule() {
    let spec = open(1_000.0, Arrivals::Constant, Extent::Requests(5), 1_000);
    let mut plan = Plan::new(&spec, Share::WHOLE, Tick::ZERO, Rng::root(1));
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
    let mut plan = Plan::new(&spec, Share::WHOLE, Tick::ZERO, Rng::root(1));
    let mut started = 0;
    while let Step::Start(_) = plan.poll(Tick::from_nanos(1_000_000_000)) {
        started += 1;
    }
    assert_eq!((started, plan.forfeited()), (4, 6));
}

#[test]
fn an_open_loop_stops_sending_while_nothing_is_answered_and_goes_on_with_the_first_answer() {
    let spec = open(10.0, Arrivals::Constant, Extent::Duration(Span::from_secs(60)), 1_000);
    let plan = || {
        let mut plan = Plan::new(&spec, Share::WHOLE, Tick::ZERO, Rng::root(1));
        plan.expect_answer_within(Span::from_secs(2));
        plan
    };
    let drain = |plan: &mut Plan, seconds: u64| {
        let now = Tick::ZERO + Span::from_secs(seconds);
        std::iter::from_fn(|| if let Step::Start(start) = plan.poll(now) { Some(start) } else { None }).count()
    };
    let mut hung = plan();
    assert_eq!((drain(&mut hung, 50), hung.forfeited()), (21, 480), "two seconds of arrivals, not fifty");
    hung.answered();
    assert_eq!((drain(&mut hung, 51), hung.forfeited()), (10, 480), "the schedule goes on where it is");
    let mut slow = plan();
    assert_eq!(drain(&mut slow, 1), 11);
    slow.answered();
    assert_eq!((drain(&mut slow, 50), slow.forfeited()), (490, 0), "one answer is enough");
    // So few at a time that four in a row have not hung yet.
    let rare = open(0.1, Arrivals::Constant, Extent::Duration(Span::from_secs(60)), 1_000);
    let mut rare = Plan::new(&rare, Share::WHOLE, Tick::ZERO, Rng::root(1));
    rare.expect_answer_within(Span::from_secs(2));
    assert_eq!((drain(&mut rare, 59), rare.forfeited()), (4, 2));
}

#[test]
fn a_duration_counts_from_the_first_measured_request() {
    let spec = PhaseSpec { warmup: 2, ..closed(1, 0, 2) };
    let spec = PhaseSpec { extent: Extent::Duration(Span::from_millis(100)), ..spec };
    let (starts, _) = run(Plan::new(&spec, Share::WHOLE, Tick::ZERO, Rng::root(1)), |_| Span::from_millis(30));
    // Warm-up at 0 and 30 ms; measured from 60 ms on: 60, 90, 120, 150; at 180 the 100 ms are over.
    assert_eq!(starts.len(), 6);
}

#[test]
fn a_share_without_slots_is_finished_at_once() {
    let share = Share { worker: 3, of: 4 };
    let mut plan = Plan::new(&closed(2, 10, 0), share, Tick::ZERO, Rng::root(1));
    assert_eq!(plan.poll(Tick::ZERO), Step::Finished);
}

#[test]
fn stopping_waits_for_what_is_in_flight() {
    let mut plan = Plan::new(&closed(1, 10, 0), Share::WHOLE, Tick::ZERO, Rng::root(1));
    let Step::Start(start) = plan.poll(Tick::ZERO) else { panic!("one is due") };
    plan.stop();
    assert_eq!(plan.poll(Tick::ZERO), Step::WaitForCompletion);
    plan.completed(&start, Tick::ZERO, Outcome::Answered);
    assert_eq!(plan.poll(Tick::ZERO), Step::Finished);
}

#[test]
fn poisson_gaps_have_the_mean_and_the_spread_of_their_process() {
    let spec = open(1_000.0, Arrivals::Poisson, Extent::Requests(20_000), u32::MAX);
    let (starts, _) = run(Plan::new(&spec, Share::WHOLE, Tick::ZERO, Rng::root(5)), |_| Span::from_millis(1));
    let gaps: Vec<f64> = starts.windows(2).map(|pair| (pair[1].0.due_at - pair[0].0.due_at).as_millis_f64()).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let deviation = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
    assert!((mean - 1.0).abs() < 0.03 && (deviation / mean - 1.0).abs() < 0.05, "{mean} {deviation}");
}

#[test]
fn gamma_gaps_have_the_mean_and_the_spread_of_their_burstiness() {
    for burstiness in [0.25, 0.5, 4.0] {
        let arrivals = Arrivals::Gamma { shape: burstiness };
        let spec = open(1_000.0, arrivals, Extent::Requests(40_000), u32::MAX);
        let (starts, _) = run(Plan::new(&spec, Share::WHOLE, Tick::ZERO, Rng::root(5)), |_| Span::from_millis(1));
        let gaps: Vec<f64> =
            starts.windows(2).map(|pair| (pair[1].0.due_at - pair[0].0.due_at).as_millis_f64()).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let deviation = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
        let expected = 1.0 / burstiness.sqrt();
        assert!((mean - 1.0).abs() < 0.04, "{burstiness}: mean {mean}");
        assert!((deviation / mean / expected - 1.0).abs() < 0.05, "{burstiness}: {}", deviation / mean);
    }
}

#[test]
fn a_trace_is_replayed_on_its_own_times_whatever_happens() {
    let due: Arc<[Span]> = [0, 5, 5, 40].map(Span::from_millis).into();
    let load = Load::Trace { due, in_flight_limit: 100 };
    let spec = PhaseSpec { load, extent: Extent::Requests(4), warmup: 0, backoff: Backoff::Obey };
    let start = Tick::from_nanos(7_000_000);
    for workers in 1..4 {
        let mut seen = Vec::new();
        for worker in 0..workers {
            let plan = Plan::new(&spec, Share { worker, of: workers }, start, Rng::root(1));
            seen.extend(run_from(plan, start, |_| Span::from_secs(9)).0.into_iter().map(|(start, _)| start));
        }
        seen.sort_unstable();
        let due: Vec<(u64, u64)> =
            seen.iter().map(|start| (start.prompt, start.due_at.as_nanos() / 1_000_000)).collect();
        assert_eq!(due, [(0, 7), (1, 12), (2, 12), (3, 47)], "{workers} workers");
    }
}

#[test]
fn sessions_send_turn_after_turn_and_think_between() {
    let think = Think::Fixed(Span::from_millis(100));
    let load = Load::Sessions { sessions: 2, turns: 3, think, tools: None };
    let spec = PhaseSpec { load, extent: Extent::Sessions(3), warmup: 0, backoff: Backoff::Obey };
    let plan = Plan::new(&spec, Share::WHOLE, Tick::ZERO, Rng::root(1));
    let (starts, peak) = run(plan, |index| Span::from_millis(10 + index % 2));
    let seen: Vec<(u64, u32, u64)> = starts
        .iter()
        .map(|(start, _)| {
            let turn = start.turn.expect("a turn");
            (turn.session, turn.turn, start.due_at.as_nanos() / 1_000_000)
        })
        .collect();
    let expected = [
        (0, 0, 0),
        (1, 0, 0),
        (0, 1, 110),
        (1, 1, 111),
        (0, 2, 220),
        (1, 2, 222),
        (2, 0, 230),
        (2, 1, 340),
        (2, 2, 451),
    ];
    assert_eq!((seen.as_slice(), peak), (&expected[..], 2));
    let prompts: BTreeSet<u64> = starts.iter().map(|(start, _)| start.prompt).collect();
    assert_eq!(prompts, (0..9).collect::<BTreeSet<u64>>(), "every turn has a prompt of its own");
}

#[test]
fn a_failed_turn_ends_its_session_and_a_refused_one_is_sent_again() {
    let load = Load::Sessions { sessions: 1, turns: 3, think: Think::Fixed(Span::ZERO), tools: None };
    let spec = PhaseSpec { load, extent: Extent::Sessions(2), warmup: 0, backoff: Backoff::Obey };
    let mut plan = Plan::new(&spec, Share::WHOLE, Tick::ZERO, Rng::root(1));
    let refused = Outcome::RateLimited { retry_after: Some(Span::from_secs(5)) };
    let mut now = Tick::ZERO;
    let mut seen = Vec::new();
    for outcome in [Outcome::Answered, refused, Outcome::Failed, Outcome::Answered] {
        let start = loop {
            match plan.poll(now) {
                Step::Start(start) => break start,
                Step::WaitUntil(tick) => now = tick,
                other => panic!("{other:?}"),
            }
        };
        let turn = start.turn.expect("a turn");
        seen.push((turn.session, turn.turn, now.as_nanos() / 1_000_000_000));
        plan.completed(&start, now, outcome);
    }
    assert_eq!(seen, [(0, 0, 0), (0, 1, 0), (0, 1, 5), (1, 0, 5)]);
}

#[test]
fn a_refused_slot_waits_and_the_others_go_on() {
    let mut plan = Plan::new(&closed(2, 100, 0), Share::WHOLE, Tick::ZERO, Rng::root(1));
    let starts: Vec<Start> = (0..2)
        .map(|_| match plan.poll(Tick::ZERO) {
            Step::Start(start) => start,
            other => panic!("{other:?}"),
        })
        .collect();
    let second = |n: u64| Tick::from_nanos(n * 1_000_000_000);
    plan.completed(&starts[0], second(1), Outcome::RateLimited { retry_after: Some(Span::from_secs(10)) });
    assert_eq!(plan.poll(second(1)), Step::WaitUntil(second(11)));
    plan.completed(&starts[1], second(2), Outcome::Answered);
    let Step::Start(next) = plan.poll(second(2)) else { panic!("the other slot goes on") };
    assert_eq!((next.slot, next.due_at), (1, second(2)));
    let Step::Start(again) = plan.poll(second(11)) else { panic!("the wait is over") };
    assert_eq!((again.slot, again.due_at), (0, second(11)));
    assert_eq!(plan.waits(), [(second(1), second(11))]);
    assert_eq!(held_back(plan.waits(), Some(2), second(5)), Span::from_secs(2));
}

#[test]
fn a_slot_that_waits_beyond_the_end_does_not_end_the_phase_for_the_others() {
    let spec = PhaseSpec { extent: Extent::Duration(Span::from_secs(8)), ..closed(2, 0, 0) };
    let mut plan = Plan::new(&spec, Share::WHOLE, Tick::ZERO, Rng::root(1));
    let second = |n: u64| Tick::from_nanos(n * 1_000_000_000);
    let (Step::Start(one), Step::Start(two)) = (plan.poll(second(0)), plan.poll(second(0))) else {
        panic!("two slots")
    };
    plan.completed(&one, second(1), Outcome::RateLimited { retry_after: Some(Span::from_secs(60)) });
    assert_eq!(plan.poll(second(1)), Step::WaitForCompletion);
    plan.completed(&two, second(3), Outcome::Answered);
    let Step::Start(three) = plan.poll(second(3)) else { panic!("five seconds are left") };
    plan.completed(&three, second(9), Outcome::Answered);
    assert_eq!(plan.poll(second(9)), Step::Finished);
}

#[test]
fn an_open_loop_withholds_what_is_due_during_a_wait_and_keeps_its_schedule() {
    let spec = open(1.0, Arrivals::Constant, Extent::Requests(10), 100);
    let mut plan = Plan::new(&spec, Share::WHOLE, Tick::ZERO, Rng::root(1));
    let second = |n: u64| Tick::from_nanos(n * 1_000_000_000);
    let Step::Start(first) = plan.poll(second(0)) else { panic!("the first is due") };
    let refused = Outcome::RateLimited { retry_after: Some(Span::from_millis(3_500)) };
    plan.completed(&first, Tick::from_nanos(500_000_000), refused);
    assert_eq!(plan.poll(second(1)), Step::WaitUntil(second(2)), "the arrival at 1 s is passed over");
    let Step::Start(next) = plan.poll(second(4)) else { panic!("the wait is over") };
    assert_eq!((next.index, next.due_at, plan.withheld()), (4, second(4), 3));
    let ignoring = PhaseSpec { backoff: Backoff::Ignore, ..spec };
    let mut plan = Plan::new(&ignoring, Share::WHOLE, Tick::ZERO, Rng::root(1));
    let Step::Start(first) = plan.poll(second(0)) else { panic!("the first is due") };
    plan.completed(&first, second(0), refused);
    assert!(matches!(plan.poll(second(1)), Step::Start(_)));
    assert_eq!((plan.withheld(), plan.waits()), (0, &[][..]));
}

#[test]
fn an_answer_holds_back_no_arrival_that_is_polled_late() {
    let spec = open(1_000.0, Arrivals::Constant, Extent::Requests(3), 100);
    let mut plan = Plan::new(&spec, Share::WHOLE, Tick::ZERO, Rng::root(1));
    let Step::Start(first) = plan.poll(Tick::ZERO) else { panic!("the first is due") };
    let late = Tick::from_nanos(1_500_000);
    plan.completed(&first, late, Outcome::Answered);
    let Step::Start(next) = plan.poll(late) else { panic!("the second is late, and still due") };
    assert_eq!((next.index, next.due_at, plan.withheld()), (1, Tick::from_nanos(1_000_000), 0));
}

#[test]
fn a_closed_ramp_opens_slot_after_slot_and_ends_with_its_time() {
    let over = Span::from_secs(5);
    let load = Load::ClosedRamp { ramp: Ramp { from: 1.0, to: 5.0, growth: Growth::Linear, over } };
    let spec = PhaseSpec { load, extent: Extent::Duration(over), warmup: 0, backoff: Backoff::Obey };
    let (starts, peak) = run(Plan::new(&spec, Share::WHOLE, Tick::ZERO, Rng::root(1)), |_| Span::from_millis(100));
    assert_eq!(peak, 5);
    let in_second = |n: u64| starts.iter().filter(|(start, _)| start.due_at.as_nanos() / 1_000_000_000 == n).count();
    assert_eq!([0, 1, 2, 3, 4, 5].map(in_second), [10, 20, 30, 40, 50, 0]);
}

#[test]
fn a_ramp_of_rates_has_its_unit_beside_its_numbers() {
    let ramp = Ramp { from: 1.0, to: 30.0, growth: Growth::Linear, over: Span::from_secs(2) };
    let load = Load::OpenRamp { ramp, arrivals: Arrivals::Poisson, in_flight_limit: 64 };
    assert_eq!(load.name(), "1..30 req/s poisson, linear over 2 s");
}

#[test]
fn a_request_that_is_taken_back_ends_the_phase() {
    let mut plan = Plan::new(&closed(2, 10, 0), Share::WHOLE, Tick::ZERO, Rng::root(1));
    let Step::Start(start) = plan.poll(Tick::ZERO) else { panic!("one is due") };
    assert!(matches!(plan.poll(Tick::ZERO), Step::Start(_)));
    plan.withdraw();
    assert_eq!(plan.poll(Tick::ZERO), Step::WaitForCompletion);
    plan.completed(&start, Tick::ZERO, Outcome::Answered);
    assert_eq!(plan.poll(Tick::ZERO), Step::Finished);
}

proptest! {
    #[test]
    fn gamma_arrivals_keep_their_rate(shape in 0.2f64..20.0, seed in any::<u64>()) {
        let spec = open(1_000.0, Arrivals::Gamma { shape }, Extent::Requests(2_000), u32::MAX);
        let (starts, _) = run(Plan::new(&spec, Share::WHOLE, Tick::ZERO, Rng::root(seed)), |_| Span::from_millis(1));
        let mean = starts.last().expect("some").0.due_at.as_nanos() as f64 / 1e6 / (starts.len() - 1) as f64;
        // Six standard errors of the mean gap.
        prop_assert!((mean - 1.0).abs() < 6.0 / (shape * 2_000.0).sqrt(), "{}", mean);
    }

    #[test]
    fn the_shares_of_all_workers_add_up_to_the_phase(
        workers in 1u32..9, concurrency in 1u32..60, requests in 0u64..200, warmup in 0u64..20,
    ) {
        let mut indices = Vec::new();
        let mut measured = 0;
        for worker in 0..workers.min(concurrency) {
            let share = Share { worker, of: workers.min(concurrency) };
            let plan = Plan::new(&closed(concurrency, requests, warmup), share, Tick::ZERO, Rng::root(1));
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
            let (starts, _) = run(Plan::new(&spec, share, Tick::ZERO, Rng::root(seed)), |_| Span::from_millis(1));
            starts.into_iter().map(|(start, _)| (start.index, start.due_at)).collect::<Vec<_>>()
        };
        let whole = due(Share::WHOLE);
        let mut parts: Vec<_> = (0..workers).flat_map(|worker| due(Share { worker, of: workers })).collect();
        parts.sort_unstable();
        prop_assert_eq!(parts, whole);
    }
}

#[test]
fn a_turn_that_sends_the_result_of_a_tool_waits_for_the_tool_and_not_for_the_user() {
    let ms = |at: u64| Tick::ZERO + Span::from_millis(at);
    let time = Think::Fixed(Span::from_millis(30));
    let load = Load::Sessions {
        sessions: 1,
        turns: 6,
        think: Think::Fixed(Span::from_millis(500)),
        tools: Some(ToolTimes { each: 2, time }),
    };
    let spec = PhaseSpec { load, extent: Extent::Sessions(1), warmup: 0, backoff: Backoff::Obey };
    let mut plan = Plan::new(&spec, Share::WHOLE, Tick::ZERO, Rng::root(1));
    let (mut now, mut due) = (Tick::ZERO, Vec::new());
    loop {
        match plan.poll(now) {
            Step::Start(start) => {
                due.push(start.due_at);
                // Answers take 10 ms.
                now += Span::from_millis(10);
                plan.completed(&start, now, Outcome::Answered);
            }
            Step::WaitUntil(tick) => now = tick,
            Step::WaitForCompletion | Step::Finished => break,
        }
    }
    assert_eq!(due, [ms(0), ms(40), ms(80), ms(590), ms(630), ms(670)]);
}
