//! Tests of a key's limits: each of them, calls at once, and clocks that jump.

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

fn refused(what: RefusedFor, milliseconds: u64) -> Refused {
    Refused { what, retry_after: Some(Span::from_millis(milliseconds)) }
}

#[test]
fn requests_come_back_one_by_one() {
    let mut meter = meter(KeyLimits { requests_per_minute: Some(3), ..KeyLimits::default() });
    let calls: Vec<Admitted> = (0..3).map(|_| meter.admit(at(0)).expect("a full minute")).collect();
    assert_eq!(meter.admit(at(0)), Err(refused(RefusedFor::Requests, 20_000)));
    calls.into_iter().for_each(|call| meter.leave(call));
    assert_eq!(meter.admit(at(5_000)), Err(refused(RefusedFor::Requests, 15_000)), "a request is one");
    assert!(meter.admit(at(20_000)).is_ok());
}

#[test]
fn tokens_are_held_for_a_call_and_put_right_when_it_ends() {
    let mut meter = meter(KeyLimits { tokens_per_minute: Some(600), ..KeyLimits::default() });
    let call = meter.reserve(at(0), MAY, 500, 0.0).expect("enough");
    assert_eq!(meter.reserve(at(0), MAY, 200, 0.0), Err(refused(RefusedFor::Tokens, 10_000)));
    meter.settle(at(0), call, 100, 0.0);
    let call = meter.reserve(at(0), MAY, 500, 0.0).expect("400 came back");
    // It used more than it was held for: the key owes.
    meter.settle(at(0), call, 1_100, 0.0);
    assert_eq!(meter.reserve(at(0), MAY, 0, 0.0), Err(refused(RefusedFor::Tokens, 60_000)));
    let never = Refused { what: RefusedFor::Tokens, retry_after: None };
    assert_eq!(meter.reserve(at(0), MAY, 601, 0.0), Err(never), "no wait helps");
}

#[test]
fn calls_at_once_are_counted_until_they_end() {
    let mut meter = meter(KeyLimits { streams: Some(2), ..KeyLimits::default() });
    let one = meter.admit(at(0)).expect("free");
    let _other = meter.admit(at(0)).expect("free");
    let full = Refused { what: RefusedFor::Streams, retry_after: None };
    assert_eq!(meter.admit(at(99)), Err(full));
    meter.leave(one);
    assert_eq!(meter.streams(), 1);
    assert!(meter.admit(at(100)).is_ok());
}

#[test]
fn calls_at_once_cannot_overshoot_a_months_budget_and_the_next_month_has_its_own() {
    let mut meter = meter(KeyLimits { usd_per_month: Some(1.0), ..KeyLimits::default() });
    let calls: Vec<Held> = (0..9).map_while(|_| meter.reserve(at(0), MAY, 1, 0.3).ok()).collect();
    assert_eq!(calls.len(), 3);
    assert!(meter.reserve(at(0), JUNE, 1, 0.3).is_ok());
    calls.into_iter().for_each(|call| meter.settle(at(1), call, 1, 0.4));
    assert!((meter.usd_spent(MAY) - 1.2).abs() < 1e-9, "booked to the month in which they were admitted");
    assert!(meter.reserve(at(1), MAY, 1, 0.0).is_err());
    assert!(meter.reserve(at(2), JUNE, 1, 0.7).is_ok());
    // The clock goes back: May is still used up.
    let spent = Refused { what: RefusedFor::Budget, retry_after: None };
    assert_eq!(meter.reserve(at(3), MAY, 1, 0.01), Err(spent));
}

#[test]
fn what_the_log_says_was_spent_counts() {
    let mut meter = meter(KeyLimits { usd_per_month: Some(1.0), ..KeyLimits::default() });
    meter.restore(MAY, 0.9);
    meter.restore(MAY, 0.5);
    assert!(meter.reserve(at(0), MAY, 1, 0.2).is_err() && meter.reserve(at(0), MAY, 1, 0.1).is_ok());
}

#[test]
fn other_limits_hold_from_then_on() {
    let mut meter = meter(KeyLimits { requests_per_minute: Some(100), ..KeyLimits::default() });
    meter.set_limits(at(0), KeyLimits { requests_per_minute: Some(1), ..KeyLimits::default() });
    assert!(meter.admit(at(0)).is_ok() && meter.admit(at(0)).is_err());
    meter.set_limits(at(0), KeyLimits::default());
    assert!((0..99).all(|_| meter.admit(at(0)).is_ok()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn no_clock_gives_more_than_a_minute_and_no_estimate_gives_more_than_the_budget(
        script in proptest::collection::vec((0..200_000u64, 0..300u64, 0..30u32, any::<bool>()), 1..150),
    ) {
        let limits = KeyLimits {
            requests_per_minute: Some(20),
            tokens_per_minute: Some(900),
            streams: Some(6),
            usd_per_month: Some(1.5),
        };
        let (mut meter, mut open, mut latest) = (meter(limits), Vec::new(), 0u64);
        let (mut requests, mut tokens) = (0u64, 0u64);
        for (milliseconds, wanted, cents, ends) in script {
            // Ticks go back and forth.
            latest = latest.max(milliseconds);
            let usd = f64::from(cents) / 100.0;
            if ends && !open.is_empty() {
                let (call, wanted, usd) = open.remove(0);
                let (call, held) = call;
                meter.settle(at(milliseconds), held, wanted, usd);
                meter.leave(call);
            } else if let Ok(call) = meter.admit(at(milliseconds)) {
                requests += 1;
                match meter.reserve(at(milliseconds), MAY, wanted, usd) {
                    Ok(held) => {
                        tokens += wanted;
                        open.push(((call, held), wanted, usd));
                    }
                    Err(_) => meter.leave(call),
                }
            }
            let minutes = latest as f64 / 60_000.0;
            prop_assert!(requests as f64 <= 20.0 + 20.0 * minutes + 1e-3);
            prop_assert!(tokens as f64 <= 900.0 + 900.0 * minutes + 1e-3);
            prop_assert!(meter.streams() as usize == open.len() && open.len() <= 6);
            let held: f64 = open.iter().map(|(_, _, usd)| usd).sum();
            prop_assert!(meter.usd_spent(MAY) + held <= 1.5 + 1e-9);
        }
    }
}
