//! Every check passes for correct figures and fails for wrong ones.

use super::*;
use crate::fixtures::{closed, phase};
use crate::run::Load;
use tokrate_core::{Span, Tick};
use tokrate_meter::fixtures::{failed_request, rate_limited_request, steady_request};

fn honest() -> (PhaseResult, Vec<RequestNumbers>) {
    let requests = vec![
        steady_request(0, 0, 100, 10, 40),
        steady_request(1, 0, 120, 20, 50),
        steady_request(2, 700, 90, 15, 60),
        failed_request(3, 1_300, 1_400, FailureKind::Stalled),
        rate_limited_request(4, 1_400, 1_450, Span::from_secs(1)),
        failed_request(5, 1_500, 1_600, FailureKind::Cancelled),
    ];
    (phase(&closed(2), &requests), requests)
}

/// The checks that fail after a change.
fn broken(change: impl FnOnce(&mut PhaseResult, &mut Vec<RequestNumbers>)) -> Vec<GateCheck> {
    let (mut result, mut requests) = honest();
    change(&mut result, &mut requests);
    let mut checks: Vec<GateCheck> = check(&result, &requests).iter().map(|violation| violation.check).collect();
    checks.dedup();
    checks
}

#[test]
fn honest_numbers_pass() {
    let (result, requests) = honest();
    assert_eq!(check(&result, &requests), []);
    assert_eq!(result.gate, []);
}

#[test]
fn gaps_that_do_not_sum_up_are_found() {
    let checks = broken(|_, requests| requests[1].last_text_at_ns = Some(1));
    assert_eq!(checks, [GateCheck::GapSum, GateCheck::ItlSum]);
}

#[test]
fn itl_that_does_not_sum_up_is_found() {
    // Without tokens in its last chunk a request loses that chunk's gap.
    let checks = broken(|_, requests| {
        let last = requests[0].chunk_list.last_mut().expect("40 chunks");
        last.tokens = 0;
        requests[0].chunk_list[0].tokens += 1;
    });
    assert_eq!(checks, [GateCheck::ItlSum]);
}

#[test]
fn a_peak_below_the_mean_is_found() {
    let checks = broken(|result, _| {
        let throughput = result.throughput.as_mut().expect("a window");
        throughput.peak_tokens_per_second = throughput.tokens_per_second * 0.99;
    });
    assert_eq!(checks, [GateCheck::PeakAtLeastMean]);
}

#[test]
fn more_in_flight_than_the_cap_is_found() {
    assert_eq!(broken(|result, _| result.concurrency.peak = 3), [GateCheck::ConcurrencyWithinCap]);
    let busy = broken(|_, requests| requests[2].due_at_ns = 1);
    assert_eq!(busy, [GateCheck::ConcurrencyWithinCap], "a slot counts from due on");
    let open = broken(|result, _| {
        result.load = Load::Open { rate: 1.0, cap: Some(2) };
        result.concurrency.peak = 3;
    });
    assert_eq!(open, [GateCheck::ConcurrencyWithinCap]);
    assert_eq!(broken(|result, _| result.load = Load::Open { rate: 1.0, cap: None }), []);
}

#[test]
fn a_mean_concurrency_against_littles_law_is_found() {
    let scaled =
        |factor: f64| broken(|result, _| result.concurrency.mean = result.concurrency.mean.map(|mean| mean * factor));
    assert_eq!(scaled(1.019), []);
    assert_eq!(scaled(1.021), [GateCheck::LittlesLaw]);
    assert_eq!(scaled(0.979), [GateCheck::LittlesLaw]);
}

#[test]
fn lost_tokens_are_found() {
    assert_eq!(broken(|_, requests| requests[0].tokens_std_answer -= 1), [GateCheck::TokensInTokensOut]);
    assert_eq!(broken(|_, requests| requests[0].chunk_list[3].tokens += 1), [GateCheck::TokensInTokensOut]);
    assert_eq!(broken(|result, _| result.tokens.std_of_all += 1), [GateCheck::TokensInTokensOut]);
    assert_eq!(broken(|result, _| result.tokens.std -= 1), [GateCheck::TokensInTokensOut]);
    let window = broken(|result, _| {
        let throughput = result.throughput.as_mut().expect("a window");
        throughput.tokens = 151;
    });
    assert_eq!(window, [GateCheck::TokensInTokensOut]);
}

#[test]
fn lost_requests_are_found() {
    let only = [GateCheck::EveryRequestCounted];
    assert_eq!(broken(|result, _| result.counts.started += 1), only);
    assert_eq!(broken(|result, _| result.counts.answered -= 1), only);
    assert_eq!(broken(|result, _| result.counts.failed += 1), only);
    assert_eq!(broken(|result, _| result.counts.cancelled -= 1), only);
    assert_eq!(broken(|result, _| result.rate_limited.count -= 1), only);
    assert_eq!(broken(|result, _| result.failures.clear()), only);
    assert_eq!(broken(|result, _| result.e2e_from_due.n -= 1), only);
    assert!(broken(|_, requests| drop(requests.pop())).contains(&GateCheck::EveryRequestCounted));
}

#[test]
fn violations_of_many_requests_are_listed_up_to_a_limit() {
    let requests: Vec<RequestNumbers> = (0..10)
        .map(|index| {
            let mut request = steady_request(index, index * 1_000, 10, 10, 4);
            request.tokens_std_answer = 3;
            request
        })
        .collect();
    let result = phase(&closed(1), &requests);
    assert_eq!(result.gate.len(), MAX_LISTED);
    let first = &result.gate[0];
    assert_eq!((first.place.as_str(), first.expected.as_str()), ("request 0", "4 tokens"));
    assert_eq!(first.seen, "4 tokens in chunks, 3 in channels");
    assert!(!result.is_valid());
}

#[test]
fn littles_law_holds_exactly_over_a_sweep() {
    let (result, requests) = honest();
    let sweep = in_flight(&requests);
    let waits: u128 = requests.iter().map(|request| u128::from(request.ended_at_ns - request.due_at_ns)).sum();
    assert_eq!(sweep.area(), waits);
    assert_eq!(result.started_at_ns, Tick::ZERO.as_nanos());
}

#[test]
fn at_most_three_requests_of_each_check_are_listed() {
    let mut requests: Vec<RequestNumbers> =
        (0..10).map(|index| steady_request(index, index * 1_000, 10, 10, 4)).collect();
    let result = phase(&closed(1), &requests);
    requests.iter_mut().for_each(|request| request.last_text_at_ns = Some(1));
    let found = check(&result, &requests);
    let of = |check| found.iter().filter(|violation| violation.check == check).count();
    assert_eq!((of(GateCheck::GapSum), of(GateCheck::ItlSum), found.len()), (3, 3, 6));
}

#[test]
fn requests_of_zero_duration_do_not_extend_the_extent() {
    let mut requests = honest().1;
    requests.push(failed_request(6, 9_000, 9_000, FailureKind::Connect));
    assert_eq!(check(&phase(&closed(2), &requests), &requests), []);
}

#[test]
fn tokens_of_every_channel_count() {
    let moved = |of: fn(&mut RequestNumbers) -> &mut u64| {
        broken(|_, requests| {
            requests[0].tokens_std_answer -= 5;
            *of(&mut requests[0]) += 5;
        })
    };
    assert_eq!(moved(|request| &mut request.tokens_std_tool), []);
    assert_eq!(moved(|request| &mut request.tokens_std_reasoning), []);
}

#[test]
fn a_request_that_is_counted_twice_is_found() {
    let twice = broken(|result, _| {
        result.counts.rate_limited += 1;
        result.rate_limited.count += 1;
    });
    assert_eq!(twice, [GateCheck::EveryRequestCounted]);
}
