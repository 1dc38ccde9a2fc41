//! Starts a call: which lanes can carry it, in which order, and the race among them.

use super::call::Call;
use super::eligible::EligibleLanes;
use super::warm;
use super::worker::Worker;
use crate::api::Api;
use crate::respond::error::ErrorResponse;
use crate::settle::account::Account;
use crate::state::jobs::Job;
use crate::state::lock::locked;
use crate::state::plan::{Alias, Lane, Plan};
use crate::upstream::dns::REFRESH_INTERVAL;
use crate::upstream::request::Destination;
use http::StatusCode;
use std::rc::Rc;
use std::sync::Arc;
use tokrate_core::{Span, Tick};
use tokrate_net::server::ConnectionTap;
use tokrate_route::{CallShape, Candidate, Commit, LaneId, Mode, Race, RaceConfig, Ranked};
use tokrate_wire::Dialect;

const NO_SUCH_RESPONSE: &str = "no lane of this alias has the response that `previous_response_id` names";

/// Ranks the eligible lanes and starts the race among them.
pub(crate) fn start(
    worker: &Rc<Worker>,
    account: Account,
    mode: Mode,
    tap: &Rc<ConnectionTap>,
) -> Result<Box<Call>, ErrorResponse> {
    let now = worker.shared.clock.now();
    let plan = Arc::clone(&account.plan);
    let (mode, max_attempts) = effective_mode(&account, mode);
    let eligible = eligible_lanes(&account, max_attempts)?;
    let ids: Vec<LaneId> = eligible.iter().map(|(id, _)| *id).collect();
    account.reserve_first(&ids)?;
    let shape = CallShape { prompt_tokens: account.prompt_tokens, output_tokens: account.expected_output_tokens() };
    let mut router = locked(&plan.router);
    let prompt = account.prompt_blocks.as_ref();
    let ranked = router.order_with(now, &shape, prompt, &ids, &account.alias.policy);
    let mut lanes = EligibleLanes::default();
    let mut candidates = Vec::with_capacity(ranked.len());
    for ranked in &ranked {
        let (_, to) = eligible.iter().find(|(id, _)| *id == ranked.lane).expect("only eligible lanes are ranked");
        let hedge_after = match (mode, to.streamed) {
            (Mode::Off | Mode::Race { .. }, _) => None,
            // Of a lane that holds the prompt's beginning, later than nine in ten with as much new in it.
            (Mode::Hedge, true) if prompt.is_some() && ranked.expectation.is_some() => {
                ranked.expectation.map(|expected| expected.ttft_p90)
            }
            (Mode::Hedge, true) => router.hedge_after(ranked.lane, now, shape.prompt_tokens),
            (Mode::Hedge, false) => router.hedge_after_whole(ranked.lane, now, &shape),
        };
        candidates.push(candidate(&plan, ranked, to.streamed, &shape, hedge_after));
        lanes.ids.push(ranked.lane);
        lanes.endpoints.push(to.endpoint);
    }
    drop(router);
    if plan.probes && ranked.iter().any(|ranked| !ranked.usable) {
        worker.shared.probes_wanted.notify_one();
    }
    locked(&account.alias.budget).on_call();
    warm::ahead_of_call(worker, &plan, mode, lanes.in_order().skip(1));
    let race = Race::new(race_config(&account, (mode, max_attempts)), candidates, now);
    Ok(Call::new(Rc::clone(worker), account, race, lanes, Rc::clone(tap)))
}

fn race_config(account: &Account, (mode, max_attempts): (Mode, usize)) -> RaceConfig {
    let limits = &account.plan.limits;
    // A file takes its time to be sent before anything can come.
    let first_token_limit = if account.request.has_rest() { limits.total } else { limits.first_token };
    RaceConfig {
        mode,
        max_attempts,
        first_token_limit,
        gap_limit: limits.gap,
        attempt_limit: limits.attempt,
        total_limit: limits.total,
        // What is checked when it has ended must not be begun before.
        commit: match account.request.is_stream() && account.answer_check().is_none() {
            true => Commit::FirstToken,
            false => Commit::End,
        },
        win: account.alias.win,
    }
}

/// The mode in which a call is carried out, and its most attempts.
pub(crate) fn effective_mode(account: &Account, mode: Mode) -> (Mode, usize) {
    match (account.request.is_background(), mode) {
        // Each lane that is asked begins a job, which goes on and is billed whoever is answered.
        (true, _) => (Mode::Off, 1),
        // What a second lane did would be done twice.
        _ if account.request.api().is_some_and(|api| !api.may_repeat) => (Mode::Off, 1),
        (false, Mode::Race { lanes }) => (mode, account.alias.max_attempts.max(lanes)),
        (false, Mode::Hedge) => (mode, account.alias.max_attempts.max(2)),
        (false, Mode::Off) => (mode, account.alias.max_attempts),
    }
}

/// The lanes that can carry a request, each with where it goes there.
///
/// An answer in one piece is asked for as a stream only where another of them could take over from a silent lane. One that is left
/// out at the moment counts: it may be back by then, or is asked as a last resort; and what is logged of an alias does not change
/// with the state of its lanes.
pub(crate) fn eligible_lanes(
    account: &Account,
    max_attempts: usize,
) -> Result<Vec<(LaneId, Destination)>, ErrorResponse> {
    let has_alternative = max_attempts > 1 && account.alias.lanes.len() > 1;
    let (mut eligible, mut unresolved) = (Vec::new(), None);
    let (mut unpriced, mut obstacles) = (Vec::new(), Vec::new());
    let now = account.shared.clock.now();
    let pinned = pinned_lane(account);
    let own_key = account.key().map(|key| key.config.name.as_str());
    if pinned.as_ref().is_some_and(|job| job.key.as_deref() != own_key) {
        // What another key has said is none of this one's.
        return Err(ErrorResponse::new(StatusCode::NOT_FOUND, NO_SUCH_RESPONSE));
    }
    for &id in &account.alias.lanes {
        let lane = account.plan.lane(id);
        if pinned.as_ref().is_some_and(|job| !job.is_at(lane)) {
            continue;
        }
        match account.request.destination(lane, has_alternative, now) {
            Ok(_) if account.lacks_price(lane) => unpriced.push(lane.config.name.as_str()),
            Ok(destination) => match lane.endpoints[destination.endpoint].unresolved() {
                None => eligible.push((id, destination)),
                Some(reason) => {
                    unresolved
                        .get_or_insert_with(|| ErrorResponse::unresolved(&lane.config.name, reason, REFRESH_INTERVAL));
                }
            },
            Err(error) => obstacles.push(error),
        }
    }
    if let [(_, only)] = eligible.as_mut_slice() {
        only.streamed = account.request.is_stream();
    }
    if !eligible.is_empty() {
        return Ok(eligible);
    }
    // A lane that lacks an address or a price explains more than one that can never carry the request.
    let service = account.request.api().map(|api| api.service);
    let unpriced = (!unpriced.is_empty()).then(|| ErrorResponse::unpriced(&unpriced, service));
    if let Some(error) = unresolved.or(unpriced) {
        return Err(error);
    }
    match account.request.api() {
        Some(api) if !obstacles.is_empty() => Err(not_served(account, api, &obstacles, now)),
        _ => match obstacles.into_iter().next() {
            Some(error) => Err(error),
            None if pinned.is_some() => Err(ErrorResponse::new(StatusCode::NOT_FOUND, NO_SUCH_RESPONSE)),
            None => Ok(eligible),
        },
    }
}

/// That no lane of the alias has a service, and what the client may ask for in its place. Lanes go by their names; to a key of few
/// aliases nothing is named that it may not ask for.
fn not_served(account: &Account, api: &Api, obstacles: &[ErrorResponse], now: Tick) -> ErrorResponse {
    let obstacles: Vec<String> = obstacles.iter().map(|error| error.message.clone()).collect();
    let allows = |name: &str| account.key().is_none_or(|key| key.config.allows_alias(name));
    let serves = |lane: &Lane| lane.serves(api, now).is_ok();
    let lanes = account.plan.lanes.iter().filter(|lane| serves(lane)).map(|lane| lane.config.name.as_str());
    let mut elsewhere: Vec<&str> = lanes.filter(|name| allows(name)).collect();
    if elsewhere.is_empty() {
        let has_one = |alias: &Alias| alias.lanes.iter().any(|id| serves(account.plan.lane(*id)));
        let aliases = account.plan.aliases.iter().filter(|(name, alias)| allows(name) && has_one(alias));
        elsewhere = aliases.map(|(name, _)| name.as_str()).collect();
    }
    ErrorResponse::not_served(&account.alias.name, api.service, &obstacles, &elsewhere)
}

/// The job that the request goes on from: only the lane that has it knows it.
fn pinned_lane(account: &Account) -> Option<Arc<Job>> {
    let request = &account.request;
    let is_response = request.routed.as_ref().is_some_and(|routed| routed.dialect == Dialect::OpenAiResponses);
    if is_response { account.shared.jobs.continued_by(&request.body) } else { None }
}

fn candidate(plan: &Plan, ranked: &Ranked, streamed: bool, shape: &CallShape, hedge_after: Option<Span>) -> Candidate {
    Candidate {
        lane: ranked.lane,
        streamed,
        hedge_after,
        loser: plan.lane(ranked.lane).config.loser,
        expected: ranked.remembered,
        is_silent: ranked.is_silent,
        expected_output_tokens: shape.output_tokens,
    }
}
