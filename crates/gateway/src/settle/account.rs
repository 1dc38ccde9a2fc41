//! The account of one call: settles every attempt with router, budget and key, and writes its row.
//!
//! Invariant: each attempt is settled once, drained losers included; its reservation ends as soon as the attempt does,
//! and the call leaves its key's count of open calls when its last attempt was settled.

use crate::admission::open_call::OpenCall;
use crate::admission::reservation::KeyReservation;
use crate::settle::attempt_cost::AttemptCost;
use crate::state::jobs::{ObjectKind, Unsettled, response_id};
use crate::state::lock::locked;
use crate::state::plan::{Alias, Key, Plan};
use crate::state::shared::Shared;
use crate::trace::active::ActiveTrace;
use crate::upstream::attempt::Attempt;
use crate::upstream::request::CallRequest;
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use tokrate_core::{FailureKind, Money, Span, Tick};
use tokrate_record::{Attempt as Row, AttemptEnd, CostBasis};
use tokrate_route::{
    Admitted, AttemptResult, Delivery, ExtraReservation, InFlightAttempt, LaneId, Outcome, Policy, PromptBlocks,
    PromptHasher,
};
use tokrate_wire::{Dialect, ExternalInput, PromptParts};

/// Expected output tokens before anything was measured.
const DEFAULT_OUTPUT_TOKENS: f64 = 256.0;

/// The account of one call.
pub(crate) struct Account {
    pub shared: Arc<Shared>,
    pub plan: Arc<Plan>,
    pub alias: Arc<Alias>,
    pub request: CallRequest,
    /// When the last byte of the request was read.
    pub arrived_at: Tick,
    /// Estimated from the size of the request.
    pub prompt_tokens: u64,
    pub(super) key: Option<AdmittedKey>,
    /// Reserved for the first attempt, until that starts.
    pub first_reservation: RefCell<Option<KeyReservation>>,
    /// The identifier of a response that goes on in the background, or of an object that stays behind.
    job_id: RefCell<Option<String>>,
    /// Reserved for a response that goes on in the background, until its result is seen.
    job_reservation: RefCell<Option<KeyReservation>>,
    /// What the body refers to outside itself, once it was looked for.
    pub external_input: OnceCell<ExternalInput>,
    /// The blocks of its prompt, if the alias goes by what lanes hold of it.
    pub prompt_blocks: Option<PromptBlocks>,
    extra_usd: Cell<f64>,
    /// Input tokens as the last provider reported them: the best guess for one that did not.
    pub(super) reported_input: Cell<Option<u64>>,
    pub(super) counted_input: Cell<Option<u64>>,
    /// Its trace, if calls are traced.
    pub trace: Option<Rc<ActiveTrace>>,
    _open: OpenCall,
}

/// A key whose call was admitted; the call leaves the key's count when this is dropped.
pub(crate) struct AdmittedKey {
    pub(super) key: Arc<Key>,
    admitted: Cell<Option<Admitted>>,
}

impl AdmittedKey {
    pub fn new(key: Arc<Key>, admitted: Admitted) -> AdmittedKey {
        AdmittedKey { key, admitted: Cell::new(Some(admitted)) }
    }
}

impl Drop for AdmittedKey {
    fn drop(&mut self) {
        if let Some(admitted) = self.admitted.take() {
            locked(&self.key.meter).end_call(admitted);
        }
    }
}

/// What an attempt holds until it is settled.
pub(crate) struct AttemptLease {
    pub started: InFlightAttempt,
    pub reserved: Option<ExtraReservation>,
    /// From the key's limits, until the attempt has ended.
    pub key: Option<KeyReservation>,
    /// Known once the attempt has ended.
    pub cost: Option<AttemptCost>,
}

/// How an attempt ended.
#[derive(Clone, Copy)]
pub(crate) struct AttemptOutcome {
    pub number: usize,
    pub end: AttemptEnd,
    pub won: bool,
    pub failure: Option<FailureKind>,
    /// How long the provider asked to wait.
    pub retry_after: Option<Span>,
    /// The gateway's own time.
    pub overhead: Option<Span>,
    /// For how long a first token was held back before this attempt won.
    pub hold: Option<Span>,
    /// Whether the client left it beside another attempt, so that it was not needed.
    pub is_beside: bool,
}

impl Account {
    pub fn new(
        shared: Arc<Shared>,
        plan: Arc<Plan>,
        alias: Arc<Alias>,
        request: CallRequest,
        key: Option<AdmittedKey>,
        arrived_at: Tick,
        open: OpenCall,
    ) -> Account {
        let prompt_tokens = request.prompt_tokens();
        let prompt_blocks = prompt_blocks(&shared, &alias, &request);
        Account {
            shared,
            plan,
            alias,
            request,
            arrived_at,
            prompt_tokens,
            key,
            first_reservation: RefCell::default(),
            job_id: RefCell::default(),
            job_reservation: RefCell::default(),
            external_input: OnceCell::new(),
            prompt_blocks,
            extra_usd: Cell::new(0.0),
            reported_input: Cell::new(None),
            counted_input: Cell::new(None),
            trace: None,
            _open: open,
        }
    }

    /// Expected output tokens of this call.
    pub fn expected_output_tokens(&self) -> f64 {
        let limit = self.request.output_limit();
        let default = limit.map_or(DEFAULT_OUTPUT_TOKENS, |limit| (limit as f64).min(DEFAULT_OUTPUT_TOKENS));
        locked(&self.alias.output_length).expected(limit).unwrap_or(default)
    }

    /// Expected cost of this call on a lane (USD).
    pub fn expected_usd(&self, lane: LaneId) -> Option<f64> {
        let output = self.expected_output_tokens().round() as u64;
        let now = self.shared.clock.now();
        locked(&self.plan.router).expected_cost(lane, now, self.prompt_tokens, output).map(Money::as_usd)
    }

    /// The client's key.
    pub fn key(&self) -> Option<&Arc<Key>> {
        self.key.as_ref().map(|admitted_key| &admitted_key.key)
    }

    /// Cost of the attempts beside the one that was needed (USD), as far as they were settled.
    pub fn extra_usd(&self) -> f64 {
        self.extra_usd.get()
    }

    /// Computes the cost of an attempt that has ended and settles it with the key; its row is written later.
    pub fn settle_cost(&self, attempt: &Attempt, lease: &mut AttemptLease, end: AttemptEnd) {
        let (Some(numbers), None) = (attempt.measured(), lease.cost) else { return };
        if self.begins_job(attempt) && numbers.usage.billed().is_none() {
            // The job has only begun; its result says what it costs.
            lease.cost = Some(AttemptCost { amount: None, basis: CostBasis::Unknown });
            self.job_reservation.replace(lease.key.take());
            return;
        }
        let cost = self.cost_of(attempt, numbers, end);
        lease.cost = Some(cost);
        if let Some(key) = lease.key.take() {
            let output = numbers.usage.output.unwrap_or(numbers.tokens_std);
            let tokens = match (cost.basis, output) {
                // Those of a session were counted response by response.
                _ if attempt.session().is_some() => 0,
                // It was never sent, or was refused.
                (CostBasis::Free, 0) => 0,
                _ => numbers.usage.input.unwrap_or(self.prompt_tokens).saturating_add(output),
            };
            key.settle(tokens, cost.amount.unwrap_or_default());
        }
    }

    /// Releases what an attempt holds, reports to router and budget, and writes the row.
    pub fn settle(&self, attempt: &Attempt, mut lease: AttemptLease, outcome: AttemptOutcome) {
        let now = self.shared.clock.now();
        self.settle_cost(attempt, &mut lease, outcome.end);
        let (Some(numbers), Some(cost)) = (attempt.measured(), lease.cost) else { return };
        let cost_usd = cost.amount.map(Money::as_usd);
        let output = numbers.usage.output.unwrap_or(numbers.tokens_std);
        let is_extra = lease.reserved.is_some();
        let mut budget = locked(&self.alias.budget);
        let result = match outcome.end {
            _ if outcome.won => AttemptResult::Won,
            AttemptEnd::Lost => AttemptResult::Lost,
            _ if outcome.is_beside => AttemptResult::Lost,
            _ => AttemptResult::Neither,
        };
        budget.settle(now, lease.reserved, cost_usd.unwrap_or(0.0), result);
        drop(budget);
        // Of a pair of attempts the one that did not win was extra.
        if !outcome.won && (is_extra || outcome.is_beside || outcome.end == AttemptEnd::Lost) {
            self.extra_usd.set(self.extra_usd.get() + cost_usd.unwrap_or(0.0));
        }
        let cancelled =
            matches!(outcome.end, AttemptEnd::Lost | AttemptEnd::Abandoned).then_some(FailureKind::Cancelled);
        let learned = Outcome {
            // A client's disconnect is not held against the lane, nor is a flaw in an answer that was delivered whole.
            failure: cancelled.or(outcome.failure.filter(|_| outcome.end != AttemptEnd::Answered)),
            retry_after: outcome.retry_after,
            prompt_tokens: self.prompt_tokens,
            billed: numbers.usage.billed(),
            output_tokens: output,
            output_speed: numbers.output_speed,
            // What a lane takes for something else than text says nothing of how it writes.
            delivery: match attempt.has_streamed() || self.request.is_background() || self.request.api().is_some() {
                true => Delivery::Streamed,
                false => Delivery::Whole { expected_tokens: self.expected_output_tokens() },
            },
        };
        let mut started = lease.started;
        let expected_cached_tokens = self.expected_cached(&started, numbers.usage.input);
        let mut router = locked(&self.plan.router);
        if let Some(ttft) =
            numbers.ttft_ns.map(Span::from_nanos).filter(|_| attempt.has_streamed() && self.request.api().is_none())
        {
            router.first_token(&mut started, now, ttft, self.prompt_tokens);
        }
        let lane = &attempt.lane;
        let before = router.breaker(lane.id, now);
        router.finish(started, now, &learned);
        let after = router.breaker(lane.id, now);
        drop(router);
        if let (Some(before), Some(after)) = (before, after) {
            self.shared.breaker_notices.record(&lane.config.name, &lane.health, before, after, now);
            if before != after {
                lane.health.record_breaker(before, after, now, self.shared.clock.wall_nanos() / 1_000_000);
                self.shared.probes_wanted.notify_one();
            }
        }
        if outcome.end == AttemptEnd::Answered && self.request.api().is_none() {
            locked(&self.alias.output_length).observe(now, output);
        }
        let row = self.log_row(attempt, numbers, outcome, self.cost_of_lost_job().unwrap_or(cost), now);
        let row = Row { expected_cached_tokens, ..row };
        self.remember(attempt, outcome, &row);
        if let Some(trace) = &self.trace {
            trace.add(self.span_of(attempt, &row, outcome.is_beside, now));
        }
        self.shared.write_beside(row, outcome.is_beside);
    }

    /// Whether a job goes on behind an attempt: the lane has taken the request, or may have.
    fn begins_job(&self, attempt: &Attempt) -> bool {
        let body = attempt.body.borrow();
        let is_refused = body.answer.head().is_some() && !body.is_good();
        self.request.is_background() && body.sent_at().is_some() && !is_refused
    }

    /// Settles a job that nobody can ask for, because it was not heard how it is called: it counts as the most that it may cost.
    fn cost_of_lost_job(&self) -> Option<AttemptCost> {
        if self.job_id.borrow().is_some() {
            return None;
        }
        let amount = self.job_reservation.take()?.settle_whole();
        Some(AttemptCost { amount: Some(amount), basis: CostBasis::Estimated })
    }

    /// Remembers what outlives the call: an object that it made, a response that may be continued, a job that goes on.
    fn remember(&self, attempt: &Attempt, outcome: AttemptOutcome, row: &Row) {
        let lane = &attempt.lane;
        let kind = match () {
            () if self.request.is_background() => ObjectKind::Job,
            () if self.request.api().is_some_and(|api| api.creates) => ObjectKind::Stored,
            // A provider goes on from it by its name, and only there.
            () if self.is_plain_response() && outcome.won && attempt.dialect() == Dialect::OpenAiResponses => {
                ObjectKind::Response
            }
            () => return,
        };
        let Some(id) = self.job_id.take() else { return };
        let jobs = &self.shared.jobs;
        self.shared.keep_object(kind, &id, lane, row.key.as_deref());
        if kind == ObjectKind::Job {
            let reservation = self.job_reservation.take();
            let forgotten = jobs.add(id, Arc::clone(lane), Unsettled { row: row.clone(), reservation });
            return forgotten.into_iter().for_each(|row| self.shared.write(row));
        }
        jobs.add_object(kind, id, Arc::clone(lane), row.key.clone());
    }

    /// Whether it is a response of OpenAI's that does not go on in the background.
    fn is_plain_response(&self) -> bool {
        let request = &self.request;
        request.routed.is_some() && request.dialect() == Dialect::OpenAiResponses && !request.is_background()
    }

    /// Looks for the identifier of what goes on or stays behind, in bytes of its answer.
    pub fn note_job(&self, bytes: &[u8]) {
        let mut id = self.job_id.borrow_mut();
        let creates = self.request.api().is_some_and(|api| api.creates);
        if id.is_none() && (creates || self.request.is_background() || self.is_plain_response()) {
            *id = response_id(bytes);
        }
    }
}

/// The blocks of a prompt, where lanes are chosen by what they hold of it: of other calls nothing is looked at.
fn prompt_blocks(shared: &Shared, alias: &Alias, request: &CallRequest) -> Option<PromptBlocks> {
    if alias.policy != Policy::Cache || alias.lanes.len() < 2 || request.routed.is_none() {
        return None;
    }
    let prompt = PromptParts::of(&request.body);
    let mut hasher = PromptHasher::new(shared.prompt_key());
    prompt.salts().for_each(|salt| hasher.salt(salt.as_bytes()));
    prompt.parts().for_each(|part| hasher.update(part.as_bytes()));
    Some(hasher.finish(request.prompt_tokens()))
}
