//! Tests of what a router does when lanes fail: probes, and calls that have no other lane.

use super::*;

const ONE: LaneId = LaneId(0);
const OTHER: LaneId = LaneId(1);

fn probed(lanes: usize) -> Router {
    let config = RouterConfig { exploration: 0.0, active_probes: true, ..RouterConfig::default() };
    Router::with_config(config, vec![LaneConfig::default(); lanes], 7)
}

fn fail(router: &mut Router, lane: LaneId, now: u64, kind: FailureKind) {
    let started = router.start(lane, at(now));
    router.finish(started, at(now), &Outcome { failure: Some(kind), ..Outcome::default() });
}

/// Opens the breaker for two seconds.
fn trip(router: &mut Router, lane: LaneId, now: u64) {
    (0..5).for_each(|_| fail(router, lane, now, FailureKind::ServerError));
}

#[test]
fn a_lane_that_failed_is_a_last_resort_for_a_few_calls_at_once_and_its_answer_brings_it_back() {
    let mut router = router(1);
    trip(&mut router, ONE, 0);
    assert!(!router.allows(ONE, at(1)));
    let mut open = Vec::new();
    while router.allows_as_last_resort(ONE, at(1)) {
        open.push(router.start(ONE, at(1)));
    }
    assert_eq!(open.len(), 4);
    let failed = Outcome { failure: Some(FailureKind::ServerError), ..Outcome::default() };
    router.finish(open.pop().expect("four"), at(2), &failed);
    assert!(router.allows_as_last_resort(ONE, at(2)) && !router.allows(ONE, at(2)), "one less, and no longer wait");
    router.first_token(&mut open[0], at(3), Span::from_millis(2), 10);
    assert!(router.allows(ONE, at(3)) && !router.allows_as_last_resort(ONE, at(3)));
    open.into_iter().for_each(|started| router.finish(started, at(4), &well()));
}

#[test]
fn a_key_that_is_refused_and_a_wait_that_is_asked_for_are_no_last_resort() {
    for kind in [FailureKind::Unauthorized, FailureKind::RateLimited] {
        let mut router = router(1);
        fail(&mut router, ONE, 0, kind);
        assert!(!router.allows(ONE, at(1)) && !router.allows_as_last_resort(ONE, at(1)), "{kind:?}");
    }
    assert!(!router(1).allows_as_last_resort(ONE, at(0)), "it is usable");
    assert!(!router(1).allows_as_last_resort(OTHER, at(0)), "there is none");
}

#[test]
fn of_lanes_that_are_all_open_the_least_bad_is_first() {
    let mut router = router(3);
    trip(&mut router, LaneId(0), 1_000);
    trip(&mut router, LaneId(1), 500);
    fail(&mut router, LaneId(2), 0, FailureKind::RateLimited);
    assert_eq!(order(&mut router, 1_200, Policy::Completion), [1, 0, 2]);
}

#[test]
fn a_lane_is_probed_after_its_wait_if_a_call_wants_it_and_no_client_is_its_probe() {
    let mut router = probed(2);
    trip(&mut router, ONE, 0);
    assert_eq!(router.next_probe_at(at(1)), None, "nobody has asked since");
    assert_eq!(order(&mut router, 1, Policy::Fixed), [1, 0]);
    assert_eq!(router.next_probe_at(at(1)), Some(at(2_000)));
    assert!(router.take_probe(at(1_999)).is_none());
    assert!(!router.allows(ONE, at(2_000)), "the probe is the gateway's");
    let probe = router.take_probe(at(2_000)).expect("it is due");
    assert_eq!(probe.lane, ONE);
    order(&mut router, 2_001, Policy::Fixed);
    assert_eq!((router.take_probe(at(2_001)), router.next_probe_at(at(2_001))), (None, None), "one at a time");
    router.finish(probe, at(2_010), &Outcome { failure: Some(FailureKind::ServerError), ..Outcome::default() });
    assert_eq!(router.next_probe_at(at(2_011)), Some(at(6_010)), "twice as long");
    let mut probe = router.take_probe(at(6_010)).expect("it is due");
    router.first_token(&mut probe, at(6_020), Span::from_millis(10), 2);
    assert!(router.allows(ONE, at(6_020)));
    router.finish(probe, at(6_030), &well());
    assert_eq!(router.next_probe_at(at(6_030)), None);
}

#[test]
fn a_lane_without_calls_that_want_it_is_not_probed_and_one_that_refuses_probes_is_tried_by_calls() {
    let mut router = probed(1);
    trip(&mut router, ONE, 0);
    order(&mut router, 1, Policy::Fixed);
    let probe = router.take_probe(at(2_000)).expect("it is due");
    router.finish(probe, at(2_000), &Outcome { failure: Some(FailureKind::ServerError), ..Outcome::default() });
    assert_eq!(router.next_probe_at(at(9_000)), None, "no call has come since the last one");
    router.stop_probes(ONE);
    order(&mut router, 9_000, Policy::Fixed);
    assert_eq!(router.next_probe_at(at(9_000)), None);
    assert!(router.allows(ONE, at(9_000)), "half-open");
}

#[test]
fn a_wait_that_the_provider_asked_for_ends_with_a_call_and_not_with_a_probe() {
    let mut router = probed(1);
    fail(&mut router, ONE, 0, FailureKind::RateLimited);
    order(&mut router, 1, Policy::Fixed);
    assert_eq!(router.next_probe_at(at(1)), None);
    assert!(!router.allows(ONE, at(1)) && router.allows(ONE, at(2_000)));
}
