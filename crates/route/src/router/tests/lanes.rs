//! Tests of what a router reports about its lanes, and of the effect of each kind of end.

use super::*;

/// A curve whose first token takes 100 ms for each call in flight.
fn queueing() -> Vec<CurvePoint> {
    let point = |in_flight: u32| CurvePoint {
        in_flight,
        prompt_tokens: 1_000,
        ttft: Span::from_millis(100 * u64::from(in_flight)),
        ttft_p90: Span::from_millis(200 * u64::from(in_flight)),
        output_speed: 100.0 / (1.0 + 0.25 * f64::from(in_flight - 1)),
        n: 50,
    };
    [1, 2, 3, 4, 5, 8, 16].map(point).to_vec()
}

fn fails(kind: FailureKind) -> Outcome {
    Outcome { failure: Some(kind), prompt_tokens: 1_000, ..Outcome::default() }
}

fn off(is: f64, should: f64) -> f64 {
    (is / should - 1.0).abs()
}

#[test]
fn an_expectation_includes_the_calls_in_flight_and_itself() {
    let mut router = router(1);
    router.learn(LaneId(0), at(0), &queueing());
    let lane = LaneId(0);
    let open: Vec<InFlightAttempt> = (0..3).map(|_| router.start(lane, at(0))).collect();
    assert_eq!(router.in_flight(lane), 3);
    // It makes four: 400 ms, 100 / 1.75 tok/s.
    let expected = router.expect(lane, at(0), 1_000).expect("learned");
    assert!(off(expected.ttft.as_secs_f64(), 0.4) < 0.05, "{expected:?}");
    assert!(off(expected.speed, 100.0 / 1.75) < 0.03, "{expected:?}");
    let model = &router.lanes[0].model;
    let after = router.hedge_after(lane, at(0), 1_000).expect("learned");
    assert_eq!(Some(after), model.ttft_p90(at(0), 1_000, 4, 5.0));
    let whole = router.hedge_after_whole(lane, at(0), &SHAPE).expect("learned");
    assert!(off(whole.as_secs_f64(), after.as_secs_f64() + 200.0 / expected.speed) < 1e-6, "{whole:?}");
    let view = router.lanes[0].view(at(0), lane, &SHAPE, None, true);
    assert_eq!(view.ranked.expectation, Some(expected));
    assert_eq!(view.marginal_seconds, model.marginal_seconds(at(0), 1_000, 200.0, 4));
    assert_ne!(view.marginal_seconds, model.marginal_seconds(at(0), 1_000, 200.0, 3));
    assert_eq!(router.hedge_after_whole(LaneId(9), at(0), &SHAPE), None);
    open.into_iter().for_each(|started| router.finish(started, at(0), &fails(FailureKind::Cancelled)));
    assert!(router.hedge_after_whole(lane, at(0), &SHAPE).is_some_and(|alone| alone < whole), "nobody is in flight");
}

#[test]
fn a_cost_needs_a_price() {
    // 1 and 4 dollars for a million, 2 and 8 on the other.
    let router = router(2);
    let cost = |router: &Router, lane| router.expected_cost(LaneId(lane), at(0), 1_000, 200);
    assert_eq!([0, 1].map(|lane| cost(&router, lane)), [Money::from_usd(0.001_8), Money::from_usd(0.003_6)]);
    assert_eq!(cost(&router, 2), None);
    assert_eq!(cost(&Router::new(vec![LaneConfig::default()], 1), 0), None);
}

#[test]
fn a_breaker_is_reported_and_can_be_reset() {
    let mut router = router(2);
    assert_eq!(router.breaker(LaneId(0), at(0)), Some(BreakerState::Closed));
    assert_eq!(router.breaker(LaneId(7), at(0)), None);
    let started = router.start(LaneId(0), at(0));
    router.finish(started, at(1), &fails(FailureKind::Unauthorized));
    let until = at(600_001);
    assert_eq!(router.breaker(LaneId(0), at(1)), Some(BreakerState::Open { until, blame: Blame::Key }));
    assert_eq!(router.breaker(LaneId(1), at(1)), Some(BreakerState::Closed));
    router.reset_breaker(LaneId(0));
    assert_eq!(router.breaker(LaneId(0), at(1)), Some(BreakerState::Closed));
    assert!(router.allows(LaneId(0), at(1)));
}

#[test]
fn the_failure_rate_assumes_four_prior_successes_and_decays() {
    let mut router = router(1);
    let end = |router: &mut Router, outcome: &Outcome| {
        let started = router.start(LaneId(0), at(0));
        router.finish(started, at(0), outcome);
    };
    let failure_rate = |router: &Router, now| router.snapshot(at(now))[0].failure_rate;
    assert_eq!(failure_rate(&router, 0), 0.0);
    end(&mut router, &fails(FailureKind::Connect));
    assert!((failure_rate(&router, 0) - 1.0 / 5.0).abs() < 1e-12);
    end(&mut router, &well());
    assert!((failure_rate(&router, 0) - 1.0 / 6.0).abs() < 1e-12);
    assert!((failure_rate(&router, 60_000) - 0.5 / 5.0).abs() < 1e-12, "after a half-life");
    // A limit of the whole call that ran out in silence is the lane's fault.
    end(&mut router, &fails(FailureKind::TimedOut));
    assert!((failure_rate(&router, 0) - 2.0 / 7.0).abs() < 1e-12);
    let lane = &router.snapshot(at(0))[0];
    assert_eq!((lane.started, lane.succeeded, lane.failed, lane.cancelled), (3, 1, 2, 0));
}

#[test]
fn the_plain_latency_moves_by_a_tenth_of_each_difference() {
    let mut router = router(1);
    for milliseconds in [1_000, 2_000, 600] {
        let started = router.start(LaneId(0), at(0));
        router.finish(started, at(milliseconds), &well());
    }
    // 1; 1 + (2 - 1) / 10 = 1.1; 1.1 + (0.6 - 1.1) / 10 = 1.05.
    assert!(router.lanes[0].latency.is_some_and(|latency| (latency - 1.05).abs() < 1e-12));
    assert_eq!(router.snapshot(at(2_000))[0].succeeded, 3);
}

#[test]
fn only_calls_in_the_upper_half_raise_the_cap() {
    let mut router = router(1);
    let mut open: Vec<InFlightAttempt> = (0..20).map(|_| router.start(LaneId(0), at(0))).collect();
    router.finish(open.pop().expect("twenty"), at(1), &fails(FailureKind::RateLimited));
    let learned = |router: &Router| router.snapshot(at(1))[0].learned_cap.expect("a refusal");
    assert_eq!(learned(&router), 15.0);
    let rest = open.split_off(7);
    open.into_iter().for_each(|started| router.finish(started, at(1), &well()));
    assert_eq!(learned(&router), 15.0, "seven of fifteen are the lower half");
    for (place, started) in rest.into_iter().enumerate() {
        let before = learned(&router);
        router.finish(started, at(1), &well());
        assert!((learned(&router) - before - 1.0 / before).abs() < 1e-12, "the {place}th of the upper half");
    }
}

#[test]
fn a_non_streamed_answer_is_learned_only_if_it_succeeded() {
    let whole = Delivery::Whole { expected_tokens: 200.0 };
    let taught = |failure| {
        let mut router = router(1);
        for call in 0..10 {
            let started = router.start(LaneId(0), at(call * 5_000));
            let outcome = Outcome { failure, delivery: whole, output_speed: None, ..well() };
            router.finish(started, at(call * 5_000 + 2_300), &outcome);
        }
        router
    };
    let good = taught(None).expect(LaneId(0), at(50_000), 1_000).expect("ten answers");
    assert!(off(good.completion_seconds(200.0), 2.3) < 0.02, "{good:?}");
    assert_eq!(taught(Some(FailureKind::Connect)).expect(LaneId(0), at(50_000), 1_000), None);
}

#[test]
fn only_attempts_cancelled_before_a_token_are_censored_samples() {
    let after = |failure, spoke: bool| {
        let mut router = router(1);
        router.learn(LaneId(0), at(0), &curve(100.0, 0.1));
        for call in 0..20 {
            let mut started = router.start(LaneId(0), at(call));
            if spoke {
                router.first_token(&mut started, at(call), Span::from_millis(200), 1_000);
            }
            router.finish(started, at(call + 9_000), &fails(failure));
        }
        (router.hedge_after(LaneId(0), at(10_000), 1_000).expect("learned").as_secs_f64(), router.lanes[0].peak)
    };
    for silent in [FailureKind::Cancelled, FailureKind::FirstTokenTimeout] {
        assert!(after(silent, false).0 > 2.0, "{silent:?}");
    }
    assert!(after(FailureKind::Connect, false).0 < 0.7, "a connection that failed is no wait");
    assert!(after(FailureKind::Cancelled, true).0 < 0.7, "its first token had come");
    // Nor is the time of the whole call one that a first token took.
    assert!(after(FailureKind::Cancelled, true).1.seconds(at(10_000)) < 0.3);
}

#[test]
fn the_output_length_has_a_median_and_90th_percentile() {
    let mut length = OutputLength::default();
    assert_eq!(length.quantiles(), None);
    (1..=200).for_each(|tokens| length.observe(at(0), tokens));
    let (median, tail) = length.quantiles().expect("seen");
    assert!((median - 100.0).abs() < 5.0 && (tail - 180.0).abs() < 9.0, "{median}, {tail}");
}

#[test]
fn no_exploration_without_a_model_or_with_a_single_lane() {
    let config = RouterConfig { exploration: 1.0, ..RouterConfig::default() };
    let mut router = Router::with_config(config, vec![LaneConfig::default(); 3], 3);
    (0..3).for_each(|lane| router.learn(LaneId(lane), at(0), &curve(100.0 - f64::from(lane), 0.1)));
    for _ in 0..20 {
        assert_eq!(order(&mut router, 0, Policy::Fixed), [0, 1, 2]);
        assert_ne!(order(&mut router, 0, Policy::OwnCompletion)[0], 0, "all explore");
    }
    let lone = router.order(at(0), &SHAPE, &[LaneId(2)], &Policy::OwnCompletion);
    assert_eq!(lanes_of(&lone), [2]);
    // One that nothing is known of comes first as it is.
    let mut new = Router::with_config(config, vec![LaneConfig::default(); 2], 3);
    new.learn(LaneId(0), at(0), &curve(100.0, 0.1));
    assert!((0..20).all(|_| order(&mut new, 0, Policy::OwnCompletion)[0] == 1));
}
