//! Starts a call: which lanes can carry it, in which order, and the race among them.

use super::call::{Call, EligibleLanes};
use super::worker::Worker;
use crate::respond::error::ErrorResponse;
use crate::settle::account::Account;
use crate::state::lock::locked;
use crate::state::plan::Plan;
use crate::upstream::dns::REFRESH_INTERVAL;
use std::rc::Rc;
use std::sync::Arc;
use tokrate_core::Span;
use tokrate_net::server::ConnectionTap;
use tokrate_route::{CallShape, Candidate, Commit, Mode, Race, RaceConfig, Ranked};

/// Ranks the eligible lanes and starts the race among them.
pub(crate) fn start(
    worker: &Rc<Worker>,
    account: Account,
    mode: Mode,
    tap: &Rc<ConnectionTap>,
) -> Result<Box<Call>, ErrorResponse> {
    let now = worker.shared.clock.now();
    let plan = Arc::clone(&account.plan);
    let (eligible, endpoints) = eligible_lanes(&account)?;
    account.reserve_first(&eligible)?;
    let shape = CallShape { prompt_tokens: account.prompt_tokens, output_tokens: account.expected_output_tokens() };
    let mut router = locked(&plan.router);
    let ranked = router.order(now, &shape, &eligible, &account.alias.policy);
    let commit = if account.request.is_stream() { Commit::FirstToken } else { Commit::End };
    let candidates = ranked.iter().map(|ranked| {
        let hedge_after = match commit {
            Commit::FirstToken => router.hedge_after(ranked.lane, now, shape.prompt_tokens),
            Commit::End => router.hedge_after_whole(ranked.lane, now, &shape),
        };
        candidate(&plan, ranked, &shape, hedge_after)
    });
    let candidates = candidates.collect();
    drop(router);
    let endpoint_of = |ranked: &Ranked| {
        let index = eligible.iter().position(|lane| *lane == ranked.lane).expect("only eligible lanes are ranked");
        endpoints[index]
    };
    let endpoints = ranked.iter().map(endpoint_of).collect();
    let only = match ranked.as_slice() {
        [only] => Some(only.lane),
        _ => None,
    };
    let config = RaceConfig {
        mode,
        max_attempts: account.alias.max_attempts.max(match mode {
            Mode::Race { lanes } => lanes,
            Mode::Hedge => 2,
            Mode::Off => 1,
        }),
        first_token_limit: plan.limits.first_token,
        gap_limit: plan.limits.gap,
        total_limit: plan.limits.total,
        commit,
        second_look: account.alias.second_look,
    };
    locked(&account.alias.budget).on_call();
    let race = Race::new(config, candidates, now);
    Ok(Call::new(Rc::clone(worker), account, race, EligibleLanes { endpoints, only }, Rc::clone(tap)))
}

/// The lanes that can carry a request, each with its endpoint.
pub(crate) fn eligible_lanes(account: &Account) -> Result<(Vec<tokrate_route::LaneId>, Vec<usize>), ErrorResponse> {
    let (mut eligible, mut endpoints, mut obstacle, mut unresolved) = (Vec::new(), Vec::new(), None, None);
    let (mut unpriced, mut obstacles) = (Vec::new(), Vec::new());
    let now = account.shared.clock.now();
    for &id in &account.alias.lanes {
        let lane = account.plan.lane(id);
        match account.request.endpoint_for(lane, now) {
            Ok(_) if account.needs_prices() && lane.config.price.is_none() => unpriced.push(lane.config.name.as_str()),
            Ok(endpoint) => match lane.endpoints[endpoint].unresolved() {
                None => {
                    eligible.push(id);
                    endpoints.push(endpoint);
                }
                Some(reason) => {
                    unresolved
                        .get_or_insert_with(|| ErrorResponse::unresolved(&lane.config.name, reason, REFRESH_INTERVAL));
                }
            },
            Err(error) => {
                obstacles.push(error.message.clone());
                obstacle.get_or_insert(error);
            }
        }
    }
    if account.request.routed.is_none() {
        obstacle = obstacle.map(|_| ErrorResponse::no_embeddings(&account.alias.name, &obstacles));
    }
    // A lane that lacks an address or a price explains more than one that can never carry the request.
    let unpriced = (!unpriced.is_empty()).then(|| ErrorResponse::unpriced(&unpriced));
    match unresolved.or(unpriced).or(obstacle) {
        Some(error) if eligible.is_empty() => Err(error),
        _ => Ok((eligible, endpoints)),
    }
}

fn candidate(plan: &Plan, ranked: &Ranked, shape: &CallShape, hedge_after: Option<Span>) -> Candidate {
    Candidate {
        lane: ranked.lane,
        hedge_after,
        loser: plan.lane(ranked.lane).config.loser,
        expected_speed: ranked.expectation.map(|expected| expected.speed),
        expected_output_tokens: Some(shape.output_tokens),
    }
}
