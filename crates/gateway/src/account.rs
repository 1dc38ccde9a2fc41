//! What a call owes: every attempt's row in the log, its cost, and what router, budget and key have to hear of it.
//!
//! It refuses to know races and connections. Invariant: each attempt is settled once; what a call held of its key is given
//! back when its last attempt has been settled, those that are read on in the background included.

use crate::attempt::Attempt;
use crate::house::{House, OpenCall, locked};
use crate::plan::{Alias, Key, Plan};
use crate::prepare::Request;
use std::cell::Cell;
use std::sync::Arc;
use tokrate_core::{FailureKind, Span, Tick};
use tokrate_meter::{Attempt as Row, AttemptEnd, AttemptRole, CostBasis, LiveNumbers};
use tokrate_route::{Admitted, Came, Held as KeyHeld, LaneId, LoserPolicy, Outcome, Reserved, Started, Stood};
use tokrate_tokens::Encoding;

/// Output tokens that are expected before anything is known.
const OUTPUT_TOKENS_USUAL: f64 = 256.0;
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
    used_tokens: Cell<u64>,
    used_usd: Cell<f64>,
    extra_usd: Cell<f64>,
    /// Input tokens as the last provider reported them: the best guess for one that did not.
    reported_input: Cell<Option<u64>>,
    counted_input: Cell<Option<u64>>,
    _open: OpenCall,
}

/// A key's share in a call.
pub(crate) struct KeyUse {
    pub key: Arc<Key>,
    /// One of its calls at once, given back with this.
    admitted: Cell<Option<Admitted>>,
    held: Cell<Option<KeyHeld>>,
}

impl KeyUse {
    /// A call that was let in by its head.
    pub fn new(key: Arc<Key>, admitted: Admitted) -> KeyUse {
        KeyUse { key, admitted: Cell::new(Some(admitted)), held: Cell::new(None) }
    }

    /// What is held for it, once its request is understood.
    pub fn hold(&self, held: KeyHeld) {
        self.held.set(Some(held));
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
            used_tokens: Cell::new(0),
            used_usd: Cell::new(0.0),
            extra_usd: Cell::new(0.0),
            reported_input: Cell::new(None),
            counted_input: Cell::new(None),
            _open: open,
        }
    }

    /// Output tokens that this call may be expected to have.
    pub fn expected_output_tokens(&self) -> f64 {
        let limit = self.request.glance.output_limit();
        let usual = limit.map_or(OUTPUT_TOKENS_USUAL, |limit| (limit as f64).min(OUTPUT_TOKENS_USUAL));
        locked(&self.alias.output_length).expected(limit).unwrap_or(usual)
    }

    /// What this call may be expected to cost on a lane (USD).
    pub fn expected_usd(&self, lane: LaneId) -> Option<f64> {
        let output = self.expected_output_tokens().round() as u64;
        locked(&self.plan.router).cost_usd(lane, self.prompt_tokens, output)
    }

    /// What attempts that were not the call's own first one cost (USD), as far as they have been settled.
    pub fn extra_usd(&self) -> f64 {
        self.extra_usd.get()
    }

    /// Gives back what an attempt held, and writes its row.
    pub fn settle(&self, attempt: &Attempt, held: Held, ended: Ended) {
        let now = self.house.clock.now();
        let Some(numbers) = attempt.measured() else { return };
        let (cost, basis) = self.cost(attempt, numbers, ended);
        let output = numbers.usage.output.unwrap_or(numbers.tokens_std);
        self.used_tokens.set(self.used_tokens.get() + numbers.usage.input.unwrap_or(self.prompt_tokens) + output);
        self.used_usd.set(self.used_usd.get() + cost.unwrap_or(0.0));
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
            failure: given_up.or(ended.failure),
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
        router.finish(started, now, &outcome);
        drop(router);
        if ended.end == AttemptEnd::Answered {
            locked(&self.alias.output_length).saw(now, output);
        }
        self.house.write(self.row(attempt, numbers, ended, (cost, basis), now));
    }

    /// What an attempt cost, and how that is known.
    fn cost(&self, attempt: &Attempt, numbers: &LiveNumbers, ended: Ended) -> (Option<f64>, CostBasis) {
        if let Some(input) = numbers.usage.input {
            self.reported_input.set(Some(input));
        }
        let Some(price) = attempt.lane.config.price else { return (None, CostBasis::Unknown) };
        if let (Some(input), Some(output)) = (numbers.usage.input, numbers.usage.output) {
            return (Some(price.cost_usd(input, output, numbers.usage.cached_input)), CostBasis::Reported);
        }
        // Nothing was sent, or it was refused: nobody bills that.
        let answered = attempt.inbox.borrow().is_good();
        let is_free = ended.end == AttemptEnd::Lost && attempt.lane.config.loser == LoserPolicy::Free;
        if is_free || attempt.inbox.borrow().sent_at().is_none() || (!answered && ended.end == AttemptEnd::Failed) {
            return (Some(0.0), CostBasis::Free);
        }
        let input = numbers.usage.input.unwrap_or_else(|| self.input_tokens());
        let output = numbers.usage.output.unwrap_or(numbers.tokens_std);
        (Some(price.cost_usd(input, output, None)), CostBasis::Estimated)
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

    fn row(
        &self,
        attempt: &Attempt,
        numbers: &LiveNumbers,
        ended: Ended,
        (cost_usd, cost_basis): (Option<f64>, CostBasis),
        now: Tick,
    ) -> Row {
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
            output_limit: self.request.glance.output_limit().and_then(|limit| u32::try_from(limit).ok()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            status: inbox.head.as_ref().map(|head| head.status.as_u16()),
            wait_ns: inbox.sent_at().map(|sent_at| (sent_at - attempt.began_at).as_nanos()),
            total_ns: attempt.total(now).as_nanos(),
            overhead_ns: ended.overhead.map(Span::as_nanos),
            input_tokens_std: self.counted_input.get(),
            cost_usd,
            cost_basis,
            ..Row::default()
        };
        numbers.clone().fill(&mut row);
        row.failure = ended.failure;
        row
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        let Some(using) = &self.key else { return };
        if let Some(held) = using.held.take() {
            let now = self.house.clock.now();
            locked(&using.key.meter).settle(now, held, self.used_tokens.get(), self.used_usd.get());
        }
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
