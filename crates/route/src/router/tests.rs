//! Tests of the router: order by policy, in-flight counts, caps, breakers and snapshots.

use super::*;
use crate::breaker::{Blame, BreakerState};
use proptest::prelude::*;
use tokrate_core::Price;

mod lanes;
mod outage;

fn at(milliseconds: u64) -> Tick {
    Tick::from_nanos(milliseconds * 1_000_000)
}

const SHAPE: CallShape = CallShape { prompt_tokens: 1_000, output_tokens: 200.0 };

fn router(lanes: usize) -> Router {
    let config = RouterConfig { exploration: 0.0, ..RouterConfig::default() };
    let lane = |price| LaneConfig { price: Price::from_usd_per_million(price, price * 4.0), max_in_flight: None };
    Router::with_config(config, (0..lanes).map(|number| lane(1.0 + number as f64)).collect(), 7)
}

fn ids(lanes: u32) -> Vec<LaneId> {
    (0..lanes).map(LaneId).collect()
}

fn curve(alone: f64, contention: f64) -> Vec<CurvePoint> {
    let speed = |n: u32| alone / (1.0 + contention * f64::from(n - 1));
    let point = |in_flight| CurvePoint {
        in_flight,
        prompt_tokens: 1_000,
        ttft: Span::from_millis(200),
        ttft_p90: Span::from_millis(500),
        output_speed: speed(in_flight),
        n: 50,
    };
    [1, 2, 4, 8, 16, 32].map(point).to_vec()
}

fn lanes_of(order: &[Ranked]) -> Vec<u32> {
    order.iter().map(|ranked| ranked.lane.0).collect()
}

fn order(router: &mut Router, now: u64, policy: Policy) -> Vec<u32> {
    let lanes = ids(router.lanes() as u32);
    lanes_of(&router.order(at(now), &SHAPE, &lanes, &policy))
}

fn well() -> Outcome {
    Outcome { prompt_tokens: 1_000, output_tokens: 200, output_speed: Some(50.0), ..Outcome::default() }
}

#[test]
fn completion_switches_lanes_at_the_load_where_the_curves_cross() {
    let mut router = router(2);
    // Alone twice as fast, but every further call slows all by a quarter of that.
    router.learn(LaneId(0), at(0), &curve(200.0, 0.25));
    router.learn(LaneId(1), at(0), &curve(100.0, 0.005));
    let mut taken = Vec::new();
    let mut open = Vec::new();
    for _ in 0..8 {
        let first = order(&mut router, 0, Policy::OwnCompletion)[0];
        taken.push(first);
        open.push(router.start(LaneId(first), at(0)));
    }
    assert_eq!(taken[..4], [0, 0, 0, 0], "{taken:?}");
    assert!(taken[5..].contains(&1), "{taken:?}");
    // One that counts what it does to the others leaves earlier.
    let mut shared = self::router(2);
    shared.learn(LaneId(0), at(0), &curve(200.0, 0.25));
    shared.learn(LaneId(1), at(0), &curve(100.0, 0.005));
    let alone = (0..8).map(|_| {
        let first = order(&mut shared, 0, Policy::Completion)[0];
        open.push(shared.start(LaneId(first), at(0)));
        first
    });
    assert!(alone.filter(|lane| *lane == 0).count() < taken.iter().filter(|lane| **lane == 0).count());
}

#[test]
fn the_cheapest_lane_within_both_limits_comes_first_then_the_fastest() {
    let mut router = router(3);
    router.learn(LaneId(0), at(0), &curve(20.0, 0.0));
    router.learn(LaneId(1), at(0), &curve(60.0, 0.0));
    router.learn(LaneId(2), at(0), &curve(150.0, 0.0));
    let cheapest = |speed| Policy::Cheapest { max_ttft: Some(Span::from_secs(1)), min_speed: Some(speed) };
    assert_eq!(order(&mut router, 0, cheapest(10.0)), [0, 1, 2]);
    assert_eq!(order(&mut router, 0, cheapest(50.0)), [1, 2, 0]);
    assert_eq!(order(&mut router, 0, cheapest(999.0)), [2, 1, 0]);
    let late = Policy::Cheapest { max_ttft: Some(Span::from_millis(1)), min_speed: None };
    assert_eq!(order(&mut router, 0, late), [2, 1, 0]);
    // 200 tokens cost 0.9 millidollars more a lane and take 10, 3.3 and 1.3 s.
    assert_eq!(order(&mut router, 0, Policy::Weighted { usd_per_second: 1e-6 }), [0, 1, 2]);
    assert_eq!(order(&mut router, 0, Policy::Weighted { usd_per_second: 1.0 }), [2, 1, 0]);
}

#[test]
fn the_simple_policies_sort_as_documented() {
    let mut router = router(3);
    assert_eq!(order(&mut router, 0, Policy::Fixed), [0, 1, 2]);
    let round: Vec<u32> = (0..4).map(|_| order(&mut router, 0, Policy::RoundRobin)[0]).collect();
    assert_eq!(round, [0, 1, 2, 0]);
    let busy = [router.start(LaneId(0), at(0)), router.start(LaneId(0), at(0)), router.start(LaneId(1), at(0))];
    assert_eq!(order(&mut router, 0, Policy::LeastBusy), [2, 1, 0]);
    busy.into_iter().for_each(|started| router.finish(started, at(900), &well()));
    assert_eq!(order(&mut router, 900, Policy::LowestLatency)[0], 2, "one that never answered is tried");
    let quick = router.start(LaneId(2), at(900));
    router.finish(quick, at(1_000), &well());
    assert_eq!(order(&mut router, 1_000, Policy::LowestLatency)[0], 2);
}

#[test]
fn with_only_latencies_known_the_faster_lane_comes_first() {
    let mut router = router(2);
    let started = [router.start(LaneId(0), at(0)), router.start(LaneId(1), at(0))];
    for (started, milliseconds) in started.into_iter().zip([900, 100]) {
        router.finish(started, at(milliseconds), &Outcome::default());
    }
    assert_eq!(order(&mut router, 900, Policy::PeakEwma), [1, 0]);
    // What asks for a model falls back on it where there is none.
    assert_eq!(order(&mut router, 900, Policy::Completion), [1, 0]);
}

#[test]
fn of_two_lanes_at_one_price_the_faster_comes_first() {
    let lane = LaneConfig { price: Price::from_usd_per_million(1.0, 4.0), max_in_flight: None };
    let mut router = Router::new(vec![lane; 2], 1);
    router.learn(LaneId(0), at(0), &curve(20.0, 0.0));
    router.learn(LaneId(1), at(0), &curve(60.0, 0.0));
    let cheapest = Policy::Cheapest { max_ttft: None, min_speed: None };
    assert_eq!(order(&mut router, 0, cheapest)[0], 1);
}

#[test]
fn the_cheapest_lane_is_the_one_whose_cache_makes_prompts_cheap() {
    // The first lists the lower prices; the second has read nine tenths of late prompts from its cache.
    let [plain, cached] = [(1.0, 4.0), (1.5, 4.0)].map(|(input, output)| {
        let price = Price::from_usd_per_million(input, output).expect("a price");
        LaneConfig { price: Some(price), max_in_flight: None }
    });
    let cheap_cache = cached.price.map(|price| Price { cached_input: Money::from_usd(0.1), ..price });
    let mut router = Router::new(vec![plain, LaneConfig { price: cheap_cache, ..cached }], 1);
    router.learn(LaneId(0), at(0), &curve(60.0, 0.0));
    router.learn(LaneId(1), at(0), &curve(60.0, 0.0));
    let cheapest = Policy::Cheapest { max_ttft: None, min_speed: None };
    assert_eq!(order(&mut router, 0, cheapest), [0, 1], "nothing is known of caches");
    for lane in [0, 1] {
        for _ in 0..20 {
            let started = router.start(LaneId(lane), at(0));
            let cached_input = if lane == 1 { 900 } else { 0 };
            let billed = BilledTokens { input: 1_000, cached_input, cache_write: 0, output: 200 };
            router.finish(started, at(4_000), &Outcome { billed: Some(billed), ..well() });
        }
    }
    assert_eq!(order(&mut router, 4_000, cheapest), [1, 0]);
    // 20,000 tokens seen and 1,000 assumed: of 1,000 some 857 are expected from the cache.
    let usd = |lane| router.expected_cost(LaneId(lane), at(4_000), 1_000, 200).map(Money::as_usd);
    assert_eq!((usd(0), usd(1)), (Some(0.001_8), Some((143.0 * 1.5 + 857.0 * 0.1 + 800.0) / 1e6)));
    // Caches forget: after hours it is what the lists say.
    assert_eq!(order(&mut router, 40_000_000, cheapest), [0, 1]);
}

#[test]
fn what_is_written_to_a_cache_is_expected_at_its_own_price() {
    let price =
        Price::from_usd_per_million(3.0, 15.0).map(|price| Price { cache_write: Money::from_usd(6.0), ..price });
    let mut router = Router::new(vec![LaneConfig { price, max_in_flight: None }], 1);
    let started = router.start(LaneId(0), at(0));
    let billed = BilledTokens { input: 3_000, cached_input: 0, cache_write: 3_000, output: 10 };
    router.finish(started, at(0), &Outcome { billed: Some(billed), ..well() });
    // 3,000 of 4,000 tokens.
    let expected = router.expected_cost(LaneId(0), at(0), 1_000, 0).map(Money::as_usd);
    assert_eq!(expected, Some((750.0 * 6.0 + 250.0 * 3.0) / 1e6));
}

#[test]
fn the_better_of_two_random_lanes_comes_first() {
    let mut router = router(4);
    for lane in 0..4u32 {
        let started = router.start(LaneId(lane), at(0));
        router.finish(started, at(100 * (u64::from(lane) + 1)), &well());
    }
    let mut firsts = [0; 4];
    for _ in 0..6_000 {
        firsts[order(&mut router, 400, Policy::PeakEwma)[0] as usize] += 1;
    }
    // Of six pairs the best is in three, the second best the better of two, the third of one.
    assert!(
        firsts[3] == 0
            && [3_000, 2_000, 1_000].iter().zip(firsts).all(|(want, is): (&i32, i32)| is.abs_diff(*want) < 200),
        "{firsts:?}"
    );
}

#[test]
fn unknown_lanes_are_tried_with_two_calls_at_a_time() {
    let mut router = router(3);
    router.learn(LaneId(0), at(0), &curve(100.0, 0.1));
    let mut open = Vec::new();
    let firsts: Vec<u32> = (0..6)
        .map(|_| {
            let first = order(&mut router, 0, Policy::Completion)[0];
            open.push(router.start(LaneId(first), at(0)));
            first
        })
        .collect();
    assert_eq!(firsts, [1, 2, 1, 2, 0, 0]);
}

#[test]
fn one_call_in_a_hundred_explores() {
    let config = RouterConfig::default();
    let mut router = Router::with_config(config, vec![LaneConfig::default(); 3], 3);
    (0..3).for_each(|lane| router.learn(LaneId(lane), at(0), &curve(100.0 - f64::from(lane), 0.1)));
    let elsewhere = (0..20_000).filter(|_| order(&mut router, 0, Policy::Completion)[0] != 0).count();
    assert!((150..250).contains(&elsewhere), "{elsewhere} of 20,000");
}

#[test]
fn a_lane_with_an_open_breaker_or_at_its_cap_comes_last_and_is_marked() {
    let mut router = Router::new(vec![LaneConfig { max_in_flight: Some(1), ..LaneConfig::default() }; 2], 1);
    let started = router.start(LaneId(0), at(0));
    let ranked = router.order(at(0), &SHAPE, &ids(2), &Policy::Fixed);
    assert_eq!((lanes_of(&ranked), ranked[1].usable), (vec![1, 0], false));
    assert!(!router.allows(LaneId(0), at(0)) && router.allows(LaneId(1), at(0)));
    let refused = Outcome { failure: Some(FailureKind::Unauthorized), ..Outcome::default() };
    router.finish(started, at(1), &refused);
    let closed_off = BreakerState::Open { until: at(600_001), blame: Blame::Key };
    assert_eq!(router.snapshot(at(1))[0].breaker, closed_off);
    assert_eq!(order(&mut router, 2, Policy::Fixed), [1, 0]);
    assert_eq!(router.order(at(2), &SHAPE, &[LaneId(9), LaneId(1)], &Policy::Fixed).len(), 1, "no such lane");
    assert!(!router.allows(LaneId(9), at(2)));
}

#[test]
fn a_single_candidate_is_ordered_as_among_others_without_being_compared() {
    let mut router = Router::new(vec![LaneConfig { max_in_flight: Some(1), ..LaneConfig::default() }; 2], 1);
    router.learn(LaneId(0), at(0), &curve(100.0, 0.1));
    for policy in Policy::without_parameters() {
        let single = router.order(at(0), &SHAPE, &[LaneId(0)], &policy);
        assert_eq!(
            single,
            [Ranked {
                lane: LaneId(0),
                usable: true,
                expectation: None,
                remembered: None,
                is_silent: false,
                cached_tokens: None,
            }],
            "{policy:?}"
        );
    }
    let started = router.start(LaneId(0), at(0));
    assert!(!router.order(at(0), &SHAPE, &[LaneId(0)], &Policy::Fixed)[0].usable);
    router.finish(started, at(1), &well());
    assert_eq!(router.order(at(1), &SHAPE, &[LaneId(9)], &Policy::Fixed), []);
}

#[test]
fn an_overload_lowers_the_cap_and_successes_near_it_raise_it_again() {
    let mut router = router(1);
    let mut open: Vec<InFlightAttempt> = (0..20).map(|_| router.start(LaneId(0), at(0))).collect();
    let refused = Outcome { failure: Some(FailureKind::RateLimited), ..Outcome::default() };
    router.finish(open.pop().expect("twenty"), at(1), &refused);
    assert_eq!(router.snapshot(at(1))[0].cap, Some(15));
    open.drain(..).for_each(|started| router.finish(started, at(5_000), &well()));
    for round in 1..=4 {
        let now = 5_000 + round;
        let open: Vec<InFlightAttempt> = (0..30)
            .map_while(|_| router.allows(LaneId(0), at(now)).then(|| router.start(LaneId(0), at(now))))
            .collect();
        open.into_iter().for_each(|started| router.finish(started, at(now), &well()));
    }
    let cap = router.snapshot(at(9_000))[0].cap.expect("learned");
    assert!((16..=17).contains(&cap), "{cap}: half a call a round, for those of its upper half");
}

#[test]
fn a_preview_changes_nothing() {
    let shape = CallShape { prompt_tokens: 100, output_tokens: 100.0 };
    let lanes = [LaneId(0), LaneId(1), LaneId(2)];
    let names = |order: Vec<Ranked>| order.iter().map(|ranked| ranked.lane).collect::<Vec<_>>();
    for policy in [Policy::RoundRobin, Policy::PeakEwma, Policy::Completion, Policy::Fixed] {
        let (mut looked_at, mut left_alone) = (router(3), router(3));
        for _ in 0..7 {
            let seen = names(looked_at.preview(at(0), &shape, &lanes, &policy));
            assert_eq!(names(looked_at.preview(at(0), &shape, &lanes, &policy)), seen);
            let order = names(looked_at.order(at(0), &shape, &lanes, &policy));
            assert_eq!(order, seen, "{policy:?}: nobody explores where nothing is known");
            assert_eq!(names(left_alone.order(at(0), &shape, &lanes, &policy)), order, "{policy:?}");
        }
    }
}

#[test]
fn client_errors_and_lost_races_are_no_failures_of_the_lane() {
    let mut router = router(1);
    for failure in [FailureKind::BadRequest, FailureKind::Cancelled, FailureKind::NotFound] {
        for _ in 0..50 {
            let started = router.start(LaneId(0), at(0));
            router.finish(started, at(10), &Outcome { failure: Some(failure), ..Outcome::default() });
        }
    }
    // Nor is the limit of the whole call, if the lane was answering.
    for _ in 0..50 {
        let mut started = router.start(LaneId(0), at(0));
        router.first_token(&mut started, at(5), Span::from_millis(5), 10);
        router.finish(started, at(10), &Outcome { failure: Some(FailureKind::TimedOut), ..Outcome::default() });
    }
    let lane = &router.snapshot(at(10))[0];
    assert_eq!((lane.breaker, lane.failure_rate, lane.in_flight), (BreakerState::Closed, 0.0, 0));
    assert_eq!((lane.started, lane.failed, lane.cancelled), (200, 150, 50));
}

#[test]
fn a_speed_is_recorded_at_the_mean_load_of_its_call() {
    let mut router = router(1);
    // One call for 1 s alone and for 1 s with two others: 2 on average.
    let mut long = router.start(LaneId(0), at(0));
    router.first_token(&mut long, at(100), Span::from_millis(100), 1_000);
    let others = [router.start(LaneId(0), at(1_000)), router.start(LaneId(0), at(1_000))];
    router.finish(long, at(2_000), &well());
    others.into_iter().for_each(|started| {
        let cancelled = Outcome { failure: Some(FailureKind::Cancelled), ..Outcome::default() };
        router.finish(started, at(2_000), &cancelled);
    });
    let speed =
        |n| router.snapshot(at(2_000))[0].curve.iter().find(|point| point.in_flight == n).and_then(|p| p.expectation);
    assert!((speed(2).expect("seen").speed - 50.0).abs() < 0.5);
    assert!(speed(1).expect("seen").speed > speed(4).expect("seen").speed);
}

#[test]
fn a_hedge_time_needs_enough_first_tokens() {
    let mut router = router(1);
    for call in 0..10 {
        // Before, it is hedged as a slow lane would be.
        assert!(call >= 5 || router.hedge_after(LaneId(0), at(call), 1_000) == Some(Span::from_secs(10)));
        assert!(call >= 5 || router.hedge_after_whole(LaneId(0), at(call), &SHAPE) == Some(Span::from_secs(30)));
        let mut started = router.start(LaneId(0), at(call));
        router.first_token(&mut started, at(call), Span::from_millis(200), 1_000);
        router.finish(started, at(call), &well());
    }
    let after = router.hedge_after(LaneId(0), at(10), 1_000).expect("ten were seen").as_millis_f64();
    assert!((after / 200.0 - 1.0).abs() < 0.1, "{after} ms");
}

#[test]
fn the_expected_length_is_the_mean_capped_by_the_limit() {
    let mut length = OutputLength::default();
    assert_eq!(length.expected(None), None);
    (1..=200).for_each(|tokens| length.observe(at(0), tokens));
    let mean = length.expected(None).expect("seen");
    assert!((mean / 100.5 - 1.0).abs() < 0.03, "{mean}");
    assert_eq!(length.expected(Some(16)), Some(16.0));
    assert!(length.quantiles().is_some_and(|(median, p90)| median < p90));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn every_candidate_appears_once_and_usable_ones_first(
        script in proptest::collection::vec((0..5u32, 0..4_000u64, 0..7u8), 0..120),
        policy in 0..9usize,
    ) {
        let policies = [
            Policy::Completion,
            Policy::OwnCompletion,
            Policy::Cheapest { max_ttft: Some(Span::from_secs(1)), min_speed: Some(40.0) },
            Policy::Weighted { usd_per_second: 0.001 },
            Policy::PeakEwma,
            Policy::RoundRobin,
            Policy::LeastBusy,
            Policy::LowestLatency,
            Policy::Fixed,
        ];
        let (mut router, mut open, mut now) = (Router::new(vec![LaneConfig::default(); 5], 1), Vec::new(), 0);
        for (lane, passes, what) in script {
            now += passes;
            match what {
                0..3 => open.push(router.start(LaneId(lane), at(now))),
                _ if open.is_empty() => {}
                3 => {
                    let started: &mut InFlightAttempt = open.last_mut().expect("not empty");
                    let ttft = at(now).since(started.at);
                    router.first_token(started, at(now), ttft, 500);
                }
                _ => {
                    let failure = [None, Some(FailureKind::RateLimited), Some(FailureKind::Connect)][what as usize % 3];
                    router.finish(open.remove(0), at(now), &Outcome { failure, ..well() });
                }
            }
            let ranked = router.order(at(now), &SHAPE, &ids(5), &policies[policy]);
            let mut lanes = lanes_of(&ranked);
            lanes.sort_unstable();
            prop_assert_eq!(lanes, vec![0, 1, 2, 3, 4]);
            prop_assert!(ranked.is_sorted_by_key(|ranked| !ranked.usable));
            prop_assert!(ranked.iter().all(|ranked| ranked.usable == router.allows(ranked.lane, at(now))));
            let in_flight: u32 = (0..5).map(|lane| router.in_flight(LaneId(lane))).sum();
            prop_assert_eq!(in_flight as usize, open.len());
        }
    }
}

#[test]
fn a_lane_inherits_what_another_router_learned() {
    let mut old = Router::new(vec![LaneConfig::default(); 2], 1);
    let point = CurvePoint {
        in_flight: 1,
        prompt_tokens: 100,
        ttft: Span::from_millis(50),
        ttft_p90: Span::from_millis(80),
        output_speed: 120.0,
        n: 50,
    };
    old.learn(LaneId(1), Tick::ZERO, &[point]);
    let started = old.start(LaneId(1), Tick::ZERO);
    let mut new = Router::new(vec![LaneConfig::default(); 3], 1);
    new.inherit(LaneId(2), &old, LaneId(1));
    assert_eq!(new.expect(LaneId(2), Tick::ZERO, 100).map(|seen| seen.speed.round()), Some(120.0));
    assert_eq!((new.expect(LaneId(0), Tick::ZERO, 100), new.in_flight(LaneId(2))), (None, 0));
    old.finish(started, Tick::ZERO, &Outcome::default());
}

#[test]
fn a_lane_with_short_answers_does_not_stay_unknown() {
    let mut router = router(1);
    for second in 0..10 {
        let mut started = router.start(LaneId(0), at(second * 1_000));
        let first = at(second * 1_000 + 50);
        router.first_token(&mut started, first, Span::from_millis(50), 100);
        let brief = Outcome { output_tokens: 21, output_speed: None, prompt_tokens: 100, ..Outcome::default() };
        router.finish(started, first + Span::from_millis(100), &brief);
    }
    let expected = router.expect(LaneId(0), at(10_000), 100).expect("it is known");
    assert!((expected.speed / 200.0 - 1.0).abs() < 0.05, "{expected:?}");
}
