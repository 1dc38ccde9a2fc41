//! Tests of the budget: shares, bursts, dollars, and concurrent calls.

use super::*;
use proptest::prelude::*;

fn at(seconds: u64) -> Tick {
    Tick::from_nanos(seconds * 1_000_000_000)
}

fn budget(config: BudgetConfig) -> Budget {
    Budget::new(config)
}

fn dollars(limit: f64) -> BudgetConfig {
    BudgetConfig { extra_share: 1.0, burst: 1e9, max_extra_usd_per_hour: Some(limit), ..BudgetConfig::default() }
}

#[test]
fn ten_calls_earn_one_extra_request_up_to_one_burst() {
    let mut budget = budget(BudgetConfig::default());
    let first = budget.reserve(at(0), None);
    assert!(first.is_some() && !budget.permits(at(0), None), "one before any call has earned it");
    (0..9).for_each(|_| budget.on_call());
    assert!(!budget.permits(at(0), None));
    budget.on_call();
    assert!(budget.reserve(at(0), None).is_some() && !budget.permits(at(0), None));
    (0..1_000).for_each(|_| budget.on_call());
    let granted: Vec<ExtraReservation> = (0..20).map_while(|_| budget.reserve(at(0), None)).collect();
    assert_eq!(granted.len(), 10);
    granted.into_iter().take(1).for_each(|reserved| budget.release(reserved));
    assert!(budget.permits(at(0), None));
}

#[test]
fn without_a_share_nothing_is_begun_either() {
    let budget = budget(BudgetConfig { extra_share: 0.0, ..BudgetConfig::default() });
    assert_eq!(budget.level(), 0.0);
}

#[test]
fn dollars_of_requests_in_flight_are_reserved_and_the_hour_slides() {
    let mut budget = budget(dollars(1.0));
    (0..10).for_each(|_| budget.on_call());
    let first = budget.reserve(at(0), Some(0.6)).expect("within the limit");
    assert!(budget.reserve(at(0), Some(0.6)).is_none(), "two at once would overshoot");
    assert!(!budget.permits(at(0), None), "of unknown cost");
    budget.settle_extra(at(10), first, 0.5);
    assert!(budget.permits(at(10), Some(0.5)) && !budget.permits(at(10), Some(0.51)));
    assert!(!budget.permits(at(3_599), Some(0.51)), "the hour is not over");
    assert!(budget.permits(at(3_660), Some(1.0)), "an hour and its minute later");
    assert_eq!(budget.extra_usd_last_hour(at(3_660)), 0.0);
}

#[test]
fn a_released_reservation_frees_its_place_and_its_dollars() {
    let mut budget = budget(dollars(1.0));
    budget.on_call();
    assert_eq!(budget.level(), 2.0);
    let unsent = budget.reserve(at(0), Some(0.75)).expect("within the limit");
    assert_eq!((budget.level(), budget.reserved_usd()), (1.0, 0.75));
    assert!(!budget.permits(at(0), Some(0.5)));
    budget.release(unsent);
    assert_eq!((budget.level(), budget.reserved_usd()), (2.0, 0.0));
    assert!(budget.permits(at(0), Some(1.0)) && !budget.permits(at(0), Some(1.01)));
}

#[test]
fn extra_dollars_keep_to_their_share_of_the_regular_cost() {
    let config =
        BudgetConfig { extra_share: 1.0, burst: 100.0, max_extra_cost_pct: Some(5.0), ..BudgetConfig::default() };
    let mut budget = budget(config);
    (0..10).for_each(|_| budget.on_call());
    assert!(!budget.permits(at(0), Some(0.01)), "nothing was paid yet");
    budget.record_regular(at(0), 1.0);
    let reserved = budget.reserve(at(1), Some(0.05)).expect("five in a hundred");
    assert!(!budget.permits(at(1), Some(0.001)));
    budget.settle_extra(at(2), reserved, 0.01);
    assert!(budget.permits(at(2), Some(0.04)));
}

#[test]
fn a_clock_jump_does_not_free_what_was_spent_within_the_hour() {
    let mut sum = HourlySum::default();
    sum.add(at(7_200), 1.0);
    sum.add(at(60), 1.0);
    assert_eq!(sum.last_hour(at(7_201)), 2.0);
    assert_eq!(sum.last_hour(at(1_000_000)), 0.0);
    sum.add(at(1_000_000), 3.0);
    assert_eq!(sum.last_hour(at(1_003_599)), 3.0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn neither_the_share_nor_the_dollars_per_hour_are_exceeded(
        share in 0.0..0.5f64,
        burst in 1.0..8.0f64,
        script in proptest::collection::vec((any::<bool>(), 0..900u64, 0..40u32), 1..200),
    ) {
        let config = BudgetConfig { extra_share: share, burst, max_extra_usd_per_hour: Some(1.0), ..BudgetConfig::default() };
        let mut budget = budget(config);
        let (mut now, mut calls, mut extra) = (0, 0u32, 0u32);
        let mut open: Vec<(ExtraReservation, f64)> = Vec::new();
        let mut paid: Vec<(u64, f64)> = Vec::new();
        for (asks, passes, cents) in script {
            now += passes;
            calls += 1;
            budget.on_call();
            let usd = f64::from(cents) / 100.0;
            if asks && let Some(reserved) = budget.reserve(at(now), Some(usd)) {
                extra += 1;
                open.push((reserved, usd));
            } else if let Some((reserved, usd)) = open.pop() {
                budget.settle_extra(at(now), reserved, usd);
                paid.push((now, usd));
            }
            prop_assert!(f64::from(extra) <= 1.0 + f64::from(calls) * share + 1e-6);
            let hour: f64 = paid.iter().filter(|(when, _)| when + 3_600 > now).map(|(_, usd)| usd).sum();
            let held: f64 = open.iter().map(|(_, usd)| usd).sum();
            prop_assert!(hour + held <= 1.0 + 1e-9, "{hour} paid and {held} held");
        }
    }
}

#[test]
fn if_the_hedge_wins_the_regular_attempt_counts_as_extra() {
    let mut budget = budget(BudgetConfig { max_extra_cost_pct: Some(50.0), ..dollars(1.0) });
    (0..10).for_each(|_| budget.on_call());
    budget.record_regular(at(0), 1.0);
    let hedge = budget.reserve(at(0), extra_usd(Some(0.1), [Some(0.4)].into_iter())).expect("within the limits");
    // The first one, which is dearer, may lose: so much is held.
    assert!(!budget.permits(at(0), Some(0.2)) && budget.permits(at(0), Some(0.1)));
    budget.settle(at(1), None, 0.3, AttemptResult::Lost);
    budget.settle(at(1), Some(hedge), 0.1, AttemptResult::Won);
    assert_eq!(budget.extra_usd_last_hour(at(1)), 0.3);
    // 1.1 dollars went to winners, so that half of it less 0.3 is left.
    assert!(budget.permits(at(1), Some(0.249)) && !budget.permits(at(1), Some(0.251)));
}

#[test]
fn failed_and_abandoned_attempts_are_extra_only_with_a_reservation() {
    let mut budget = budget(dollars(10.0));
    (0..10).for_each(|_| budget.on_call());
    let mut reserved = || budget.reserve(at(0), Some(0.5));
    let (failed, lost) = (reserved(), reserved());
    budget.settle(at(1), None, 4.0, AttemptResult::Neither);
    budget.settle(at(1), None, 2.0, AttemptResult::Won);
    budget.settle(at(1), failed, 0.25, AttemptResult::Neither);
    budget.settle(at(1), lost, 0.5, AttemptResult::Lost);
    assert_eq!(budget.extra_usd_last_hour(at(1)), 0.75);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Whoever of a race wins: what is held is enough for all others.
    #[test]
    fn the_reservation_suffices_whoever_wins(costs in proptest::collection::vec(0.0_f64..1.0, 2..6), winner in 0usize..6) {
        let winner = winner % costs.len();
        let held: f64 = (1..costs.len())
            .map(|place| {
                extra_usd(Some(costs[place]), costs[..place].iter().copied().map(Some)).expect("all are known")
            })
            .sum();
        let extra: f64 = costs.iter().sum::<f64>() - costs[winner];
        prop_assert!(extra <= held + 1e-9, "{extra} of {held} held");
        prop_assert_eq!(extra_usd(Some(1.0), [Some(0.5), None].into_iter()), None);
        prop_assert_eq!(extra_usd(None, std::iter::empty()), None);
    }
}

#[test]
fn a_refusal_names_the_limit_that_it_comes_of() {
    let mut budget = Budget::new(BudgetConfig { max_extra_usd_per_hour: Some(1.0), ..limited() });
    let unpaid = BudgetConfig { extra_share: 0.0, ..limited() };
    assert_eq!(Budget::new(unpaid).limit_for(at(0), None), Some(BudgetLimit::ExtraShare));
    budget.record_regular(at(0), 10.0);
    assert_eq!(budget.limit_for(at(0), Some(0.9)), None);
    assert_eq!(budget.limit_for(at(0), Some(1.1)), Some(BudgetLimit::ExtraUsdPerHour));
    assert_eq!(budget.limit_for(at(0), Some(5.1)), Some(BudgetLimit::ExtraCost));
    assert_eq!(budget.limit_for(at(0), None), Some(BudgetLimit::ExtraCost), "of unknown cost");
    let names = [BudgetLimit::ExtraShare, BudgetLimit::ExtraCost, BudgetLimit::ExtraUsdPerHour].map(BudgetLimit::name);
    assert_eq!(names, ["extra_share", "max_extra_cost_pct", "max_extra_usd_per_hour"]);
}

/// An extra request for each call, for half of what calls cost.
fn limited() -> BudgetConfig {
    BudgetConfig { extra_share: 1.0, burst: 10.0, max_extra_cost_pct: Some(50.0), max_extra_usd_per_hour: None }
}
