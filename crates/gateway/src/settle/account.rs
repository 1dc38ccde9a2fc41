//! What a call owes: every attempt's row in the log, its cost, and what router, budget and key have to hear of it.
//!
//! It refuses to know races and connections. Invariant: each attempt is settled once, those that are read on in the background
//! included; what it held of its key is settled as soon as it has ended, and its place among the key's calls when the last has.

use crate::admission::open_call::OpenCall;
use crate::admission::reservation::KeyReservation;
use crate::state::lock::locked;
use crate::state::plan::{Alias, Key, Plan};
use crate::state::shared::Shared;
use crate::upstream::attempt::Attempt;
use crate::upstream::request::CallRequest;
use std::cell::{Cell, OnceCell, RefCell};
use std::sync::Arc;
use tokrate_core::{FailureKind, Money, Span, Tick};
use tokrate_meter::{AttemptEnd, CostBasis};
use tokrate_route::{Admitted, Came, LaneId, Outcome, Reserved, Started, Stood};
use tokrate_wire::BesideBody;

/// Output tokens that are expected before anything is known.
const DEFAULT_OUTPUT_TOKENS: f64 = 256.0;

/// The account of one call.
pub(crate) struct Account {
    pub shared: Arc<Shared>,
    pub plan: Arc<Plan>,
    pub alias: Arc<Alias>,
    pub request: CallRequest,
    /// When the last byte of the request was read.
    pub arrived_at: Tick,
    /// Estimated from the request's size.
    pub prompt_tokens: u64,
    pub(super) key: Option<AdmittedKey>,
    /// What is held of the key's limits for the first attempt, until that begins.
    pub first: RefCell<Option<KeyReservation>>,
    /// What the body has a provider read beside itself, once somebody asked.
    pub beside: OnceCell<BesideBody>,
    extra_usd: Cell<f64>,
    /// Input tokens as the last provider reported them: the best guess for one that did not.
    pub(super) reported_input: Cell<Option<u64>>,
    pub(super) counted_input: Cell<Option<u64>>,
    _open: OpenCall,
}

/// A key's share in a call.
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
            locked(&self.key.meter).leave(admitted);
        }
    }
}

/// What has to be given back for an attempt.
pub(crate) struct AttemptLease {
    pub started: Started,
    pub reserved: Option<Reserved>,
    /// Of the key's limits, until the attempt has ended.
    pub key: Option<KeyReservation>,
    /// Once it has ended.
    pub cost: Option<AttemptCost>,
}

/// What an attempt cost, and how that is known.
#[derive(Clone, Copy)]
pub(crate) struct AttemptCost {
    /// `None` without a price.
    pub amount: Option<Money>,
    pub basis: CostBasis,
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
    /// Time that the gateway itself took.
    pub overhead: Option<Span>,
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
        Account {
            shared,
            plan,
            alias,
            request,
            arrived_at,
            prompt_tokens,
            key,
            first: RefCell::default(),
            beside: OnceCell::new(),
            extra_usd: Cell::new(0.0),
            reported_input: Cell::new(None),
            counted_input: Cell::new(None),
            _open: open,
        }
    }

    /// Output tokens that this call may be expected to have.
    pub fn expected_output_tokens(&self) -> f64 {
        let limit = self.request.output_limit();
        let default = limit.map_or(DEFAULT_OUTPUT_TOKENS, |limit| (limit as f64).min(DEFAULT_OUTPUT_TOKENS));
        locked(&self.alias.output_length).expected(limit).unwrap_or(default)
    }

    /// What this call may be expected to cost on a lane (USD).
    pub fn expected_usd(&self, lane: LaneId) -> Option<f64> {
        let output = self.expected_output_tokens().round() as u64;
        locked(&self.plan.router).cost_usd(lane, self.prompt_tokens, output)
    }

    /// The key that was shown.
    pub fn key(&self) -> Option<&Arc<Key>> {
        self.key.as_ref().map(|admitted_key| &admitted_key.key)
    }

    /// What attempts that were not the call's own first one cost (USD), as far as they have been settled.
    pub fn extra_usd(&self) -> f64 {
        self.extra_usd.get()
    }

    /// Reckons what an attempt that has ended cost, and settles it with the key; its row is written later.
    pub fn settle_cost(&self, attempt: &Attempt, lease: &mut AttemptLease, end: AttemptEnd) {
        let (Some(numbers), None) = (attempt.measured(), lease.cost) else { return };
        let cost = self.cost_of(attempt, numbers, end);
        lease.cost = Some(cost);
        if let Some(key) = lease.key.take() {
            let output = numbers.usage.output.unwrap_or(numbers.tokens_std);
            let tokens = match (cost.basis, output) {
                // It was not sent, or refused.
                (CostBasis::Free, 0) => 0,
                _ => numbers.usage.input.unwrap_or(self.prompt_tokens).saturating_add(output),
            };
            key.settle(tokens, cost.amount.unwrap_or_default());
        }
    }

    /// Gives back what an attempt held, and writes its row.
    pub fn settle(&self, attempt: &Attempt, mut lease: AttemptLease, ended: AttemptOutcome) {
        let now = self.shared.clock.now();
        self.settle_cost(attempt, &mut lease, ended.end);
        let (Some(numbers), Some(cost)) = (attempt.measured(), lease.cost) else { return };
        let cost_usd = cost.amount.map(Money::as_usd);
        let output = numbers.usage.output.unwrap_or(numbers.tokens_std);
        let was_extra = lease.reserved.is_some();
        let mut budget = locked(&self.alias.budget);
        let stood = match ended.end {
            _ if ended.won => Stood::Won,
            AttemptEnd::Lost => Stood::Lost,
            _ => Stood::Neither,
        };
        budget.settle(now, lease.reserved, cost_usd.unwrap_or(0.0), stood);
        drop(budget);
        // Of two attempts one was extra: the one that did not win.
        if !ended.won && (was_extra || ended.end == AttemptEnd::Lost) {
            self.extra_usd.set(self.extra_usd.get() + cost_usd.unwrap_or(0.0));
        }
        let given_up = matches!(ended.end, AttemptEnd::Lost | AttemptEnd::Abandoned).then_some(FailureKind::Cancelled);
        let outcome = Outcome {
            // What a client did is not held against a lane.
            // Nor is what is wrong with an answer that was given to a client whole.
            failure: given_up.or(ended.failure.filter(|_| ended.end != AttemptEnd::Answered)),
            retry_after: ended.retry_after,
            prompt_tokens: self.prompt_tokens,
            output_tokens: output,
            output_speed: numbers.output_speed,
            came: match self.request.is_stream() {
                true => Came::Streamed,
                false => Came::Whole { expected_tokens: self.expected_output_tokens() },
            },
        };
        let mut started = lease.started;
        let mut router = locked(&self.plan.router);
        if let Some(ttft) = numbers.ttft_ns.map(Span::from_nanos).filter(|_| self.request.is_stream()) {
            router.first_token(&mut started, now, ttft, self.prompt_tokens);
        }
        let lane = &attempt.lane;
        let before = router.breaker(lane.id, now);
        router.finish(started, now, &outcome);
        let after = router.breaker(lane.id, now);
        drop(router);
        if let (Some(before), Some(after)) = (before, after) {
            self.shared.breaker_notices.record(&lane.config.name, &lane.health, before, after, now);
        }
        if ended.end == AttemptEnd::Answered {
            locked(&self.alias.output_length).saw(now, output);
        }
        self.shared.write(self.log_row(attempt, numbers, ended, cost, now));
    }
}
