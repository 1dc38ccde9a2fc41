//! Tests of the breaker: who opens it, for how long, and how it closes.

use super::*;
use proptest::prelude::*;

fn at(milliseconds: u64) -> Tick {
    Tick::from_nanos(milliseconds * 1_000_000)
}

fn breaker() -> Breaker {
    Breaker::new(BreakerConfig::default())
}

fn open_until(milliseconds: u64, blame: Blame) -> BreakerState {
    BreakerState::Open { until: at(milliseconds), blame }
}

#[test]
fn every_failure_kind_is_assigned() {
    let of = |wanted| -> Vec<&str> {
        FailureKind::ALL.into_iter().filter(|kind| blame(*kind) == wanted).map(FailureKind::name).collect()
    };
    assert_eq!(of(Blame::Client), ["bad_request"]);
    assert_eq!(of(Blame::Key), ["unauthorized", "model_not_found"]);
    assert_eq!(of(Blame::Load), ["rate_limited", "overloaded"]);
    assert_eq!(
        of(Blame::Nobody),
        ["not_found", "edit_refused", "untranslatable", "too_large", "client_stalled", "cancelled"]
    );
    assert_eq!(of(Blame::Lane).len(), FailureKind::ALL.len() - 11);
}

#[test]
fn five_consecutive_failures_open_it_and_a_success_resets_the_count() {
    let mut lane = breaker();
    for time in 0..4 {
        lane.failed(at(time), at(time), Blame::Lane, None);
    }
    let mut spared = lane.clone();
    spared.ended(at(4));
    spared.failed(at(5), at(5), Blame::Lane, None);
    assert_eq!(spared.state(at(5)), BreakerState::Closed);
    lane.failed(at(5), at(5), Blame::Lane, None);
    assert_eq!(lane.state(at(5)), open_until(2_005, Blame::Lane));
    assert!(!lane.allows(at(2_004)) && lane.allows(at(2_005)));
}

#[test]
fn a_failure_rate_at_the_limit_opens_it() {
    let mut lane = breaker();
    let mut opened_at = None;
    for call in 0..40 {
        match call % 2 {
            0 => lane.ended(at(call)),
            _ => lane.failed(at(call), at(call), Blame::Lane, None),
        }
        if opened_at.is_none() && !lane.allows(at(call)) {
            opened_at = Some(call + 1);
        }
    }
    assert_eq!(opened_at, Some(20));
}

#[test]
fn retry_after_is_honoured_up_to_its_limit() {
    let mut lane = breaker();
    lane.failed(at(0), at(0), Blame::Load, Some(Span::from_secs(30)));
    assert_eq!(lane.state(at(0)), open_until(30_000, Blame::Load));
    // One that was under way asks for longer: the longer wait holds.
    lane.failed(at(10), at(0), Blame::Load, Some(Span::from_secs(50)));
    assert_eq!(lane.state(at(10)), open_until(50_010, Blame::Load));
    let mut absurd = breaker();
    absurd.failed(at(0), at(0), Blame::Load, Some(Span::MAX));
    assert_eq!(absurd.state(at(0)), open_until(3_600_000, Blame::Load));
    let mut silent = breaker();
    silent.failed(at(0), at(0), Blame::Load, None);
    assert_eq!(silent.state(at(0)), open_until(2_000, Blame::Load), "the first cool-down, if nothing is said");
}

#[test]
fn a_rejected_key_opens_it_for_the_key_cool_down() {
    let mut lane = breaker();
    lane.failed(at(0), at(0), Blame::Key, None);
    assert_eq!(lane.state(at(599_999)), open_until(600_000, Blame::Key));
}

#[test]
fn after_the_cool_down_one_probe_is_allowed_and_its_first_token_closes_it() {
    let mut lane = breaker();
    lane.failed(at(10), at(9), Blame::Load, None);
    assert_eq!(lane.state(at(2_010)), BreakerState::HalfOpen { probing: false });
    lane.start(at(2_010));
    assert!(!lane.allows(at(2_011)), "one at a time");
    let mut lost = lane.clone();
    lost.cancelled(at(2_010));
    assert!(lost.allows(at(2_011)), "a try that was given up is free again");
    assert!(lane.allows(at(62_010)), "and so is one that nobody heard of again");
    lane.first_token(at(9));
    assert!(!lane.allows(at(2_012)), "a token of a call from before says nothing");
    lane.first_token(at(2_010));
    assert_eq!(lane.state(at(2_012)), BreakerState::Closed);
}

#[test]
fn each_failed_probe_doubles_the_wait_up_to_its_limit_and_a_success_resets_it() {
    let mut lane = breaker();
    let mut now = 0;
    let mut waits = Vec::new();
    for _ in 0..9 {
        lane.start(at(now));
        lane.failed(at(now), at(now), Blame::Load, None);
        let BreakerState::Open { until, .. } = lane.state(at(now)) else { panic!("closed") };
        waits.push(until.since(at(now)).as_nanos() / 1_000_000_000);
        now = until.as_nanos() / 1_000_000;
    }
    assert_eq!(waits, [2, 4, 8, 16, 30, 30, 30, 30, 30]);
    lane.start(at(now));
    lane.ended(at(now));
    lane.failed(at(now), at(now), Blame::Load, None);
    assert_eq!(lane.state(at(now)), open_until(now + 2_000, Blame::Load));
}

#[test]
fn a_failure_rate_below_the_limit_leaves_it_closed() {
    let outcomes = |failures: u64, calls: u64| {
        let mut lane = breaker();
        for call in 0..calls {
            // Every second call fails until there are failures enough, so that no five come in a row.
            match call % 2 == 0 && call / 2 < failures {
                true => lane.failed(at(call), at(call), Blame::Lane, None),
                false => lane.ended(at(call)),
            }
        }
        lane.failed(at(calls), at(calls), Blame::Lane, None);
        lane.state(at(calls))
    };
    assert_eq!(outcomes(8, 19), BreakerState::Closed, "9 of 20");
    assert_eq!(outcomes(9, 19), open_until(2_019, Blame::Lane), "10 of 20");
    assert_eq!(outcomes(0, 19), BreakerState::Closed, "1 of 20");
    assert_eq!(outcomes(0, 200), BreakerState::Closed, "1 of the latest 63");
}

#[test]
fn a_failed_probe_opens_it_again_and_another_probe_follows() {
    let mut lane = breaker();
    lane.failed(at(0), at(0), Blame::Load, None);
    assert_eq!(lane.open_since(), Some(at(0)));
    lane.start(at(2_000));
    lane.failed(at(2_000), at(2_000), Blame::Lane, None);
    assert_eq!(lane.state(at(2_000)), open_until(6_000, Blame::Lane));
    assert_eq!(lane.open_since(), Some(at(2_000)), "it is the later opening that holds");
    assert_eq!(lane.state(at(6_000)), BreakerState::HalfOpen { probing: false });
    lane.start(at(6_000));
    lane.first_token(at(6_000));
    assert_eq!(lane.open_since(), None);
}

#[test]
fn a_failure_of_a_call_in_flight_when_it_opened_does_not_double_the_wait() {
    let mut lane = breaker();
    lane.failed(at(0), at(0), Blame::Load, None);
    lane.failed(at(10), at(0), Blame::Load, None);
    assert_eq!(lane.state(at(10)), open_until(2_000, Blame::Load));
    lane.start(at(2_000));
    lane.failed(at(2_000), at(2_000), Blame::Load, None);
    assert_eq!(lane.state(at(2_000)), open_until(6_000, Blame::Load), "the second opening, not the third");
}

#[test]
fn a_last_resort_that_answers_closes_it_and_one_that_fails_prolongs_nothing() {
    let mut lane = breaker();
    (0..5).for_each(|time| lane.failed(at(time), at(time), Blame::Lane, None));
    assert_eq!(lane.state(at(4)), open_until(2_004, Blame::Lane));
    let mut failing = lane.clone();
    failing.start(at(500));
    failing.failed(at(1_000), at(500), Blame::Lane, None);
    assert_eq!(failing.state(at(1_000)), open_until(2_004, Blame::Lane));
    failing.start(at(2_004));
    failing.failed(at(2_004), at(2_004), Blame::Lane, None);
    assert_eq!(failing.state(at(2_004)), open_until(6_004, Blame::Lane), "nor does it double the next wait");
    lane.ended(at(3));
    assert_eq!(lane.state(at(400)), open_until(2_004, Blame::Lane), "it was in flight before");
    lane.first_token(at(500));
    assert_eq!(lane.state(at(600)), BreakerState::Closed);
    // A wait that the provider asked for is kept, though the lane had failed before.
    let mut asked = breaker();
    (0..5).for_each(|time| asked.failed(at(time), at(time), Blame::Lane, None));
    asked.failed(at(10), at(0), Blame::Load, Some(Span::from_secs(60)));
    asked.first_token(at(500));
    assert_eq!(asked.state(at(600)), open_until(60_010, Blame::Load));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn client_errors_and_successes_never_open_it(script in proptest::collection::vec((0..4u8, 0..5_000u64), 0..200)) {
        let (mut lane, mut now) = (breaker(), 0);
        for (what, passes) in script {
            now += passes;
            lane.start(at(now));
            match what {
                0 => lane.failed(at(now), at(now), Blame::Client, Some(Span::from_secs(9))),
                1 => lane.failed(at(now), at(now), Blame::Nobody, None),
                2 => lane.cancelled(at(now)),
                _ => lane.ended(at(now)),
            }
            prop_assert_eq!(lane.state(at(now)), BreakerState::Closed);
        }
    }

    #[test]
    fn no_wait_is_cut_short(script in proptest::collection::vec((0..3u8, 0..9_000u64, 0..60u64), 0..100)) {
        let (mut lane, mut now, mut not_before) = (breaker(), 0, 0);
        for (what, passes, seconds) in script {
            now += passes;
            if now < not_before {
                prop_assert!(!lane.allows(at(now)));
            }
            let started = now.saturating_sub(500);
            match what {
                0 => {
                    lane.failed(at(now), at(started), Blame::Load, Some(Span::from_secs(seconds)));
                    not_before = not_before.max(now + seconds * 1_000);
                }
                1 => lane.failed(at(now), at(started), Blame::Lane, None),
                _ if lane.allows(at(now)) => lane.start(at(now)),
                _ => lane.ended(at(started)),
            }
            // A call from before a wait may end well within it: that is no reason to ask the lane earlier.
            if now < not_before {
                prop_assert!(!lane.allows(at(now)), "at {} of {}", now, not_before);
            }
        }
    }
}
