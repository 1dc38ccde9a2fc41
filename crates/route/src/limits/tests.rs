//! Tests of the limits of a key: each of them, concurrent calls, and clocks that jump.

use super::*;
use proptest::prelude::*;

const MAY: Month = Month { year: 2026, month: 5 };
const JUNE: Month = Month { year: 2026, month: 6 };

fn at(milliseconds: u64) -> Tick {
    Tick::from_nanos(1_000_000_000_000 + milliseconds * 1_000_000)
}

fn meter(limits: KeyLimits) -> KeyMeter {
    KeyMeter::new(limits, at(0))
}

fn refused(limit: LimitKind, milliseconds: u64) -> Refused {
    Refused { limit, retry_after: Some(Span::from_millis(milliseconds)) }
}

/// Cents.
fn cents(cents: u64) -> Money {
    Money::from_usd(0.01).expect("a cent").saturating_mul(cents)
}

fn budget(max_cost: u64) -> KeyLimits {
    KeyLimits { usd_per_month: Some(cents(max_cost)), ..KeyLimits::default() }
}

/// An attempt that was given a limit.
fn limited(max_cost: u64) -> ReservationRequest {
    ReservationRequest { tokens: 1, max_cost: cents(max_cost), expected_cost: cents(max_cost) }
}

fn of_tokens(tokens: u64) -> ReservationRequest {
    ReservationRequest { tokens, ..ReservationRequest::default() }
}

const SPENT: Refused = Refused { limit: LimitKind::Budget, retry_after: None };

#[test]
fn request_tokens_refill_one_by_one() {
    let three = KeyLimits { requests_per_minute: Some(3), ..KeyLimits::default() };
    let mut meter = meter(three);
    assert_eq!(meter.limits(), three);
    let calls: Vec<Admitted> = (0..3).map(|_| meter.admit(at(0)).expect("a full minute")).collect();
    assert_eq!(meter.admit(at(0)), Err(refused(LimitKind::Requests, 20_000)));
    calls.into_iter().for_each(|call| meter.end_call(call));
    assert_eq!(meter.admit(at(5_000)), Err(refused(LimitKind::Requests, 15_000)), "a request is one");
    assert!(meter.admit(at(20_000)).is_ok());
}

#[test]
fn tokens_are_reserved_for_an_attempt_and_corrected_when_it_ends() {
    let mut meter = meter(KeyLimits { tokens_per_minute: Some(600), ..KeyLimits::default() });
    let call = meter.reserve(at(0), MAY, of_tokens(500)).expect("enough");
    assert_eq!(meter.reserve(at(0), MAY, of_tokens(200)), Err(refused(LimitKind::Tokens, 10_000)));
    meter.settle(at(0), call, 100, Money::ZERO);
    let call = meter.reserve(at(0), MAY, of_tokens(500)).expect("400 came back");
    // It used more than it was held for: the key owes.
    meter.settle(at(0), call, 1_100, Money::ZERO);
    assert_eq!(meter.reserve(at(0), MAY, of_tokens(0)), Err(refused(LimitKind::Tokens, 60_000)));
    let never = Refused { limit: LimitKind::Tokens, retry_after: None };
    assert_eq!(meter.reserve(at(0), MAY, of_tokens(601)), Err(never), "no wait helps");
    assert_eq!(meter.reserve(at(0), MAY, of_tokens(u64::MAX)), Err(never));
}

#[test]
fn concurrent_calls_are_counted_until_they_end() {
    let mut meter = meter(KeyLimits { streams: Some(2), ..KeyLimits::default() });
    let one = meter.admit(at(0)).expect("free");
    let _other = meter.admit(at(0)).expect("free");
    let full = Refused { limit: LimitKind::Streams, retry_after: None };
    assert_eq!(meter.admit(at(99)), Err(full));
    meter.end_call(one);
    assert_eq!(meter.streams(), 1);
    assert!(meter.admit(at(100)).is_ok());
}

#[test]
fn concurrent_calls_cannot_overshoot_a_monthly_budget_and_the_next_month_has_its_own() {
    let mut meter = meter(budget(100));
    let calls: Vec<KeyReservation> = (0..9).map_while(|_| meter.reserve(at(0), MAY, limited(30)).ok()).collect();
    assert_eq!(calls.len(), 3);
    assert!(meter.reserve(at(0), JUNE, limited(30)).is_ok());
    calls.into_iter().for_each(|call| meter.settle(at(1), call, 1, cents(25)));
    let spent = Spending { spent: cents(75), reserved: Money::ZERO };
    assert_eq!(meter.spending(MAY), spent, "booked to the month in which they were admitted");
    assert_eq!(meter.reserve(at(1), MAY, limited(26)), Err(SPENT));
    assert!(meter.reserve(at(2), JUNE, limited(70)).is_ok());
    // The clock goes back: of May there is left what was left.
    assert!(meter.reserve(at(3), MAY, limited(25)).is_ok());
    assert_eq!(meter.reserve(at(3), MAY, limited(1)), Err(SPENT));
}

#[test]
fn an_attempt_without_output_limit_starts_if_its_expected_cost_fits_and_then_blocks_others() {
    let mut meter = meter(budget(100));
    let unlimited = ReservationRequest { tokens: 1, max_cost: cents(500), expected_cost: cents(5) };
    let first = meter.reserve(at(0), MAY, unlimited).expect("five cents fit");
    for need in [unlimited, limited(1)] {
        assert_eq!(meter.reserve(at(0), MAY, need), Err(SPENT), "it may take all there is");
    }
    meter.settle(at(1), first, 1, cents(5));
    let second = meter.reserve(at(1), MAY, unlimited).expect("95 are left");
    // The worst that can be: one answer beyond the budget.
    meter.settle(at(2), second, 1, cents(500));
    assert_eq!(meter.reserve(at(2), MAY, limited(1)), Err(SPENT));
    assert!(meter.reserve(at(2), MAY, of_tokens(1)).is_ok(), "what costs nothing may go on");
}

#[test]
fn huge_amounts_saturate_and_are_refused() {
    let mut meter = meter(budget(100));
    let endless = ReservationRequest { tokens: u64::MAX, max_cost: Money::MAX, expected_cost: Money::MAX };
    let _held = meter.reserve(at(0), MAY, limited(1)).expect("a cent");
    assert_eq!(meter.reserve(at(0), MAY, endless), Err(SPENT));
    meter.set_limits(at(0), KeyLimits::default());
    let reserved = meter.reserve(at(0), MAY, endless).expect("there is no limit");
    assert_eq!(meter.spending(MAY).reserved, Money::MAX);
    meter.settle(at(0), reserved, u64::MAX, Money::MAX);
    assert_eq!(meter.spending(MAY), Spending { spent: Money::MAX, reserved: Money::ZERO });
}

#[test]
fn lowering_a_reservation_frees_the_difference() {
    let mut meter = meter(budget(100));
    let mut call = meter.reserve(at(0), MAY, limited(90)).expect("it fits");
    assert_eq!(meter.reserve(at(0), MAY, limited(40)), Err(SPENT));
    meter.lower(&mut call, cents(60));
    meter.lower(&mut call, cents(80));
    assert_eq!(meter.spending(MAY).reserved, cents(60), "it never rises");
    let other = meter.reserve(at(0), MAY, limited(40)).expect("it fits now");
    meter.release(at(0), other);
    meter.release(at(0), call);
    assert_eq!(meter.spending(MAY), Spending::default());
}

#[test]
fn restored_spending_counts() {
    let mut meter = meter(budget(100));
    meter.restore(MAY, cents(90));
    meter.restore(MAY, cents(50));
    assert!(meter.reserve(at(0), MAY, limited(20)).is_err() && meter.reserve(at(0), MAY, limited(10)).is_ok());
}

#[test]
fn a_clock_that_goes_back_far_gets_no_fresh_budget() {
    let mut meter = meter(budget(100));
    for month in 5..=8 {
        meter.restore(Month { year: 2026, month }, cents(100));
    }
    let long_ago = Month { year: 1970, month: 1 };
    assert_eq!(meter.reserve(at(0), long_ago, limited(1)), Err(SPENT));
}

#[test]
fn changed_limits_apply_from_then_on() {
    let mut meter = meter(KeyLimits { requests_per_minute: Some(100), ..KeyLimits::default() });
    meter.set_limits(at(0), KeyLimits { requests_per_minute: Some(1), ..KeyLimits::default() });
    assert!(meter.admit(at(0)).is_ok() && meter.admit(at(0)).is_err());
    meter.set_limits(at(0), KeyLimits::default());
    assert!((0..99).all(|_| meter.admit(at(0)).is_ok()));
}

/// One step of a script: when, tokens, most and expected in cents, what is settled of the most (percent), and whether one ends.
fn step() -> impl Strategy<Value = (u64, u64, u64, u64, u64, bool)> {
    (0..200_000_u64, 0..300_u64, 0..400_u64, 0..100_u64, 0..=100_u64, any::<bool>())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn no_clock_grants_more_than_a_minute_and_no_script_exceeds_the_budget_by_more_than_one_answer(
        script in proptest::collection::vec(step(), 1..150),
    ) {
        let limits = KeyLimits {
            requests_per_minute: Some(20),
            tokens_per_minute: Some(900),
            streams: Some(6),
            usd_per_month: Some(cents(150)),
        };
        let (mut meter, mut calls, mut open, mut latest) = (meter(limits), Vec::new(), Vec::new(), 0_u64);
        let (mut requests, mut tokens, mut beyond) = (0_u64, 0_u64, Money::ZERO);
        for (milliseconds, wanted, max_cost, share, percent, ends) in script {
            // Ticks go back and forth.
            latest = latest.max(milliseconds);
            let now = at(milliseconds);
            let need = ReservationRequest { tokens: wanted, max_cost: cents(max_cost), expected_cost: cents(max_cost * share / 100) };
            if ends && !open.is_empty() {
                let (attempt, wanted, max_cost) = open.remove(0);
                meter.settle(now, attempt, wanted, cents(max_cost * percent / 100));
                meter.end_call(calls.remove(0));
            } else if let Ok(call) = meter.admit(now) {
                requests += 1;
                match meter.reserve(now, MAY, need) {
                    Ok(attempt) => {
                        tokens += wanted;
                        beyond = beyond.max(need.max_cost.saturating_sub(need.expected_cost));
                        calls.push(call);
                        open.push((attempt, wanted, max_cost));
                    }
                    Err(_) => meter.end_call(call),
                }
            }
            let minutes = latest as f64 / 60_000.0;
            prop_assert!(requests as f64 <= 20.0 + 20.0 * minutes + 1e-3);
            prop_assert!(tokens as f64 <= 900.0 + 900.0 * minutes + 1e-3);
            prop_assert!(meter.streams() as usize == open.len() && open.len() <= 6);
            let reserved = open.iter().fold(Money::ZERO, |sum, (_, _, max_cost)| sum.saturating_add(cents(*max_cost)));
            let Spending { spent, reserved: known } = meter.spending(MAY);
            prop_assert_eq!(known, reserved);
            prop_assert!(spent.saturating_add(reserved) <= cents(150).saturating_add(beyond));
        }
    }
}
