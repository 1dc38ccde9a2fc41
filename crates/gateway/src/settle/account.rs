//! What a call owes: every attempt's row in the log, its cost, and what router, budget and key have to hear of it.
//!
//! It refuses to know races and connections. Invariant: each attempt is settled once, those that are read on in the background
//! included; what it held of its key is settled as soon as it has ended, and its place among the key's calls when the last has.

use crate::admission::open_call::OpenCall;
use crate::admission::reservation::KeyHold;
use crate::state::lock::locked;
use crate::state::plan::{Alias, Key, Plan};
use crate::state::shared::House;
use crate::upstream::attempt::Attempt;
use crate::upstream::request::Request;
use std::cell::{Cell, OnceCell, RefCell};
use std::sync::Arc;
use tokrate_core::{BilledTokens, FailureKind, Money, Span, Tick};
use tokrate_meter::{Attempt as Row, AttemptEnd, AttemptRole, CostBasis, LiveNumbers};
use tokrate_route::{Admitted, Came, LaneId, LoserPolicy, Outcome, Reserved, Started, Stood};
use tokrate_tokens::Encoding;
use tokrate_wire::BesideBody;

/// Output tokens that are expected before anything is known.
const OUTPUT_TOKENS_USUAL: f64 = 256.0;
/// No provider gives more answers at once (OpenAI's largest `n`).
const ANSWERS_MOST: u64 = 128;
/// Bodies up to this size are counted exactly when a provider does not say how many tokens they were.
const COUNTED_BYTES_MOST: usize = 256 * 1024;

/// The account of one call.
pub(crate) struct Account {
    pub house: Arc<House>,
    pub plan: Arc<Plan>,
    pub alias: Arc<Alias>,
    pub request: Request,
    /// When the last byte of the request was read.
    pub arrived_at: Tick,
    /// Estimated from the request's size.
    pub prompt_tokens: u64,
    key: Option<KeyUse>,
    /// What is held of the key's limits for the first attempt, until that begins.
    pub first: RefCell<Option<KeyHold>>,
    /// What the body has a provider read beside itself, once somebody asked.
    pub beside: OnceCell<BesideBody>,
    extra_usd: Cell<f64>,
    /// Input tokens as the last provider reported them: the best guess for one that did not.
    reported_input: Cell<Option<u64>>,
    counted_input: Cell<Option<u64>>,
    _open: OpenCall,
}

/// A key's share in a call.
pub(crate) struct KeyUse {
    key: Arc<Key>,
    admitted: Cell<Option<Admitted>>,
}

impl KeyUse {
    pub fn new(key: Arc<Key>, admitted: Admitted) -> KeyUse {
        KeyUse { key, admitted: Cell::new(Some(admitted)) }
    }
}

impl Drop for KeyUse {
    fn drop(&mut self) {
        if let Some(admitted) = self.admitted.take() {
            locked(&self.key.meter).leave(admitted);
        }
    }
}

/// What has to be given back for an attempt.
pub(crate) struct Held {
    pub started: Started,
    pub reserved: Option<Reserved>,
    /// Of the key's limits, until the attempt has ended.
    pub key: Option<KeyHold>,
    /// Once it has ended.
    pub bill: Option<Bill>,
}

/// What an attempt cost (`None` without a price), and how that is known.
#[derive(Clone, Copy)]
pub(crate) struct Bill {
    cost: Option<Money>,
    basis: CostBasis,
}

/// How an attempt ended.
#[derive(Clone, Copy)]
pub(crate) struct Ended {
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
        house: Arc<House>,
        plan: Arc<Plan>,
        alias: Arc<Alias>,
        request: Request,
        key: Option<KeyUse>,
        arrived_at: Tick,
        open: OpenCall,
    ) -> Account {
        let prompt_tokens = request.prompt_tokens();
        Account {
            house,
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
        let usual = limit.map_or(OUTPUT_TOKENS_USUAL, |limit| (limit as f64).min(OUTPUT_TOKENS_USUAL));
        locked(&self.alias.output_length).expected(limit).unwrap_or(usual)
    }

    /// What this call may be expected to cost on a lane (USD).
    pub fn expected_usd(&self, lane: LaneId) -> Option<f64> {
        let output = self.expected_output_tokens().round() as u64;
        locked(&self.plan.router).cost_usd(lane, self.prompt_tokens, output)
    }

    /// The key that was shown.
    pub fn key(&self) -> Option<&Arc<Key>> {
        self.key.as_ref().map(|using| &using.key)
    }

    /// What attempts that were not the call's own first one cost (USD), as far as they have been settled.
    pub fn extra_usd(&self) -> f64 {
        self.extra_usd.get()
    }

    /// Reckons what an attempt that has ended cost, and settles it with the key; its row is written later.
    pub fn bill(&self, attempt: &Attempt, held: &mut Held, end: AttemptEnd) {
        let (Some(numbers), None) = (attempt.measured(), held.bill) else { return };
        let bill = self.cost(attempt, numbers, end);
        held.bill = Some(bill);
        if let Some(key) = held.key.take() {
            let output = numbers.usage.output.unwrap_or(numbers.tokens_std);
            let tokens = match (bill.basis, output) {
                // It was not sent, or refused.
                (CostBasis::Free, 0) => 0,
                _ => numbers.usage.input.unwrap_or(self.prompt_tokens).saturating_add(output),
            };
            key.settle(tokens, bill.cost.unwrap_or_default());
        }
    }

    /// Gives back what an attempt held, and writes its row.
    pub fn settle(&self, attempt: &Attempt, mut held: Held, ended: Ended) {
        let now = self.house.clock.now();
        self.bill(attempt, &mut held, ended.end);
        let (Some(numbers), Some(bill)) = (attempt.measured(), held.bill) else { return };
        let cost = bill.cost.map(Money::as_usd);
        let output = numbers.usage.output.unwrap_or(numbers.tokens_std);
        let was_extra = held.reserved.is_some();
        let mut budget = locked(&self.alias.budget);
        let stood = match ended.end {
            _ if ended.won => Stood::Won,
            AttemptEnd::Lost => Stood::Lost,
            _ => Stood::Neither,
        };
        budget.settle(now, held.reserved, cost.unwrap_or(0.0), stood);
        drop(budget);
        // Of two attempts one was extra: the one that did not win.
        if !ended.won && (was_extra || ended.end == AttemptEnd::Lost) {
            self.extra_usd.set(self.extra_usd.get() + cost.unwrap_or(0.0));
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
        let mut started = held.started;
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
            self.house.trips.hear(&lane.config.name, &lane.memory, before, after, now);
        }
        if ended.end == AttemptEnd::Answered {
            locked(&self.alias.output_length).saw(now, output);
        }
        self.house.write(self.row(attempt, numbers, ended, bill, now));
    }

    /// What an attempt cost, and how that is known.
    fn cost(&self, attempt: &Attempt, numbers: &LiveNumbers, end: AttemptEnd) -> Bill {
        if let Some(input) = numbers.usage.input {
            self.reported_input.set(Some(input));
        }
        let Some(price) = attempt.lane.config.token_price() else {
            return Bill { cost: None, basis: CostBasis::Unknown };
        };
        if let Some(tokens) = numbers.usage.billed() {
            return Bill { cost: Some(price.cost(tokens)), basis: CostBasis::Reported };
        }
        // Nothing was sent, or it was refused: nobody bills that.
        let answered = attempt.inbox.borrow().is_good();
        let is_free = end == AttemptEnd::Lost && attempt.lane.config.loser == LoserPolicy::Free;
        if is_free || attempt.inbox.borrow().sent_at().is_none() || (!answered && end == AttemptEnd::Failed) {
            return Bill { cost: Some(Money::ZERO), basis: CostBasis::Free };
        }
        let input = numbers.usage.input.unwrap_or_else(|| self.input_tokens());
        // Of several answers only the first one's tokens are counted.
        let answers = match attempt.inbox.borrow().has_further_answers {
            true => self.request.answers().min(ANSWERS_MOST),
            false => 1,
        };
        let counted = || numbers.tokens_std.saturating_mul(answers);
        let output = numbers.usage.output.unwrap_or_else(counted);
        let said = |count: Option<u64>| count.unwrap_or(0);
        let (cached_input, cache_write) = (said(numbers.usage.cached_input), said(numbers.usage.cache_write_input));
        let tokens = BilledTokens { input, output, cached_input, cache_write };
        Bill { cost: Some(price.cost(tokens)), basis: CostBasis::Estimated }
    }

    /// Tokens of the prompt, where the provider does not say.
    fn input_tokens(&self) -> u64 {
        if let Some(known) = self.reported_input.get().or(self.counted_input.get()) {
            return known;
        }
        let body = &self.request.body;
        let counted = self.request.routed.as_ref().filter(|_| body.len() <= COUNTED_BYTES_MOST).and_then(|routed| {
            let request = tokrate_wire::decode_request(routed, body).ok()?;
            let texts = request.messages.iter().flat_map(|message| message.texts());
            Some(texts.map(|text| tokrate_tokens::count(Encoding::O200kBase, text) as u64).sum())
        });
        let tokens = counted.unwrap_or(self.prompt_tokens);
        self.counted_input.set(Some(tokens));
        tokens
    }

    fn row(&self, attempt: &Attempt, numbers: &LiveNumbers, ended: Ended, bill: Bill, now: Tick) -> Row {
        let lane = &attempt.lane.config;
        let inbox = attempt.inbox.borrow();
        let (dialect_in, dialect_out) = match &self.request.routed {
            Some(routed) => (routed.dialect.name(), attempt.dialect().name()),
            None => ("embeddings", "embeddings"),
        };
        let mut row = Row {
            call: self.request.id.clone(),
            attempt: u32::try_from(ended.number).unwrap_or(u32::MAX),
            role: attempt.role,
            end: ended.end,
            won: ended.won,
            started_unix_ms: attempt.began_unix_ms,
            key: self.key.as_ref().map(|using| using.key.config.name.clone()),
            alias: self.alias.name.clone(),
            lane: lane.name.clone(),
            provider: lane.provider.clone(),
            model: lane.model.clone(),
            dialect_in: dialect_in.to_owned(),
            dialect_out: dialect_out.to_owned(),
            stream: self.request.is_stream(),
            in_flight: attempt.in_flight,
            connection_new: attempt.connection_new,
            request_bytes: attempt.request_bytes as u64,
            output_limit: self.request.output_limit().and_then(|limit| u32::try_from(limit).ok()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            status: inbox.answer.head().map(|head| head.status.as_u16()),
            wait_ns: inbox.sent_at().map(|sent_at| (sent_at - attempt.began_at).as_nanos()),
            total_ns: attempt.total(now).as_nanos(),
            overhead_ns: ended.overhead.map(Span::as_nanos),
            input_tokens_std: self.counted_input.get(),
            cost_usd: bill.cost.map(Money::as_usd),
            cost_basis: bill.basis,
            ..Row::default()
        };
        row.fill(numbers.clone());
        row.failure = ended.failure;
        row
    }
}

/// The role's name in the log.
pub(crate) fn role_in_log(role: tokrate_route::Role) -> AttemptRole {
    match role {
        tokrate_route::Role::First => AttemptRole::First,
        tokrate_route::Role::Failover => AttemptRole::Failover,
        tokrate_route::Role::Hedge => AttemptRole::Hedge,
        tokrate_route::Role::Race => AttemptRole::Race,
    }
}
