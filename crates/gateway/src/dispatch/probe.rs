//! Asks lanes that failed whether they are back, with a short request of the gateway's own, so that no client's call finds out.
//!
//! When a lane is due is decided in `route`. Invariant: a lane is probed once at a time, and only if a call would have had use for
//! it since the last time; every probe is an attempt with a row of its own, billed like any other.

use super::call::{Call, Step};
use super::eligible::EligibleLanes;
use super::worker::Worker;
use crate::admission::open_call::OpenCall;
use crate::settle::account::Account;
use crate::state::lock::locked;
use crate::state::plan::{Alias, Lane, Plan};
use crate::upstream::request::CallRequest;
use bytes::Bytes;
use http::HeaderMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use tokio::task::JoinSet;
use tokrate_core::{ChatRequest, FailureKind, Message, Role};
use tokrate_net::server::ConnectionTap;
use tokrate_route::{Blame, Candidate, InFlightAttempt, Outcome, Race, RaceConfig, blame};
use tokrate_wire::{Dialect, RequestPeek, Shape, encode_request};

const PROMPT: &str = "Say OK.";
/// The least that OpenAI's responses accept.
const MAX_OUTPUT_TOKENS: u32 = 16;

/// Probes lanes until it is dropped, which ends the probes that run.
pub(crate) async fn run(worker: Rc<Worker>) {
    let mut probes = JoinSet::new();
    loop {
        let plan = worker.plan();
        let now = worker.shared.clock.now();
        let mut next_at = None;
        if plan.probes {
            let mut router = locked(&plan.router);
            while let Some(started) = router.take_probe(now) {
                probes.spawn_local(probe(Rc::clone(&worker), Arc::clone(&plan), started));
            }
            next_at = router.next_probe_at(now);
        }
        while probes.try_join_next().is_some() {}
        let wanted = worker.shared.probes_wanted.notified();
        match next_at {
            Some(at) => drop(tokio::time::timeout((at - now).as_duration(), wanted).await),
            None => wanted.await,
        }
    }
}

/// Sends one probe, whose attempt the router has begun.
async fn probe(worker: Rc<Worker>, plan: Arc<Plan>, started: InFlightAttempt) {
    let lane = Arc::clone(plan.lane(started.lane));
    let Some(mut call) = begin(&worker, &plan, &lane) else {
        let unsent = Outcome { failure: Some(FailureKind::Cancelled), ..Outcome::default() };
        return locked(&plan.router).finish(started, worker.shared.clock.now(), &unsent);
    };
    call.probe_with(started);
    loop {
        match poll_fn(|context| call.poll_step(context)).await {
            Step::Won | Step::Bytes(_) => {}
            Step::Finished => return call.complete(),
            Step::Broken { .. } => return,
            Step::Failed { kind, .. } => {
                if matches!(blame(kind), Blame::Client | Blame::Nobody) {
                    // It answers, but not to this: whether it is back can only be seen by what clients ask.
                    locked(&plan.router).stop_probes(lane.id);
                }
                return;
            }
        }
    }
}

/// The call of a probe; `None` if its request cannot be made.
fn begin(worker: &Rc<Worker>, plan: &Arc<Plan>, lane: &Lane) -> Option<Box<Call>> {
    let endpoint = &lane.endpoints.first()?.config;
    let request = ChatRequest {
        model: lane.config.model.clone(),
        messages: vec![Message::text(Role::User, PROMPT)],
        stream: true,
        include_usage: !endpoint.no_stream_options,
        max_output_tokens: Some(MAX_OUTPUT_TOKENS),
        legacy_max_tokens: endpoint.max_tokens_field,
        ..ChatRequest::default()
    };
    let body = Bytes::from(encode_request(endpoint.dialect, &request));
    let shared = &worker.shared;
    let request = CallRequest {
        api: None,
        routed: Dialect::of_path(&endpoint.dialect.path(&lane.config.model, Shape::Stream)),
        shape: Shape::Stream,
        peek: RequestPeek::read(&body).ok()?,
        headers: HeaderMap::new(),
        session: None,
        body,
        id: shared.next_call_id(),
        created: shared.clock.wall_seconds(),
        translated: Default::default(),
        can_assemble: Default::default(),
        instructed: None,
    };
    let open = OpenCall::begin(shared, usize::MAX).ok()?;
    let now = shared.clock.now();
    let alias = Arc::new(Alias::of_lane(lane, lane.config.name.clone()));
    let account = Account::new(Arc::clone(shared), Arc::clone(plan), alias, request, None, now, open);
    let config = RaceConfig {
        max_attempts: 1,
        first_token_limit: plan.limits.first_token,
        gap_limit: plan.limits.gap,
        total_limit: plan.limits.total,
        ..RaceConfig::default()
    };
    let candidate = Candidate { lane: lane.id, streamed: true, ..Candidate::default() };
    let race = Race::new(config, vec![candidate], now);
    let lanes = EligibleLanes { ids: vec![lane.id], endpoints: vec![0] };
    let tap = Rc::new(ConnectionTap::default());
    Some(Call::new(Rc::clone(worker), account, race, lanes, tap))
}
