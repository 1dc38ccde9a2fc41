//! Reserves from a client's key what an attempt may use before it is started: tokens, and dollars at the highest price
//! that the lane can bill.
//!
//! Whether the limits allow it is decided in `route`. Invariant: with an output limit, the reservation covers what a
//! lane that honours the limit can bill; without one, it covers the longest answer that the lane is known or assumed to
//! write. A reservation ends when the attempt is settled or is never started.

use crate::admission::budgets::MAX_OUTPUT_TOKENS;
use crate::admission::calendar::{date_of, month_of, next_month_start};
use crate::admission::reservation::KeyReservation;
use crate::api::Meter;
use crate::respond::error::ErrorResponse;
use crate::settle::account::Account;
use crate::settle::session::session_at_most;
use crate::state::lock::locked;
use crate::state::plan::{Key, Lane};
use crate::upstream::request::CallRequest;
use http::StatusCode;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::sync::Arc;
use tokrate_core::Span;
use tokrate_record::RefusalReason;
use tokrate_route::{LaneId, LimitKind, Refused, ReservationRequest, Role};
use tokrate_wire::{Dialect, ExternalInput};

/// Tokens of the longest prompt, assumed for calls that refer to images, files or stored conversations: the largest
/// context window on offer (2026).
const MAX_INPUT_TOKENS: u64 = 1_048_576;
/// Most tokens that a chat template adds to a prompt.
const TEMPLATE_TOKENS: u64 = 256;
/// Tokens that providers put before a prompt with tools: up to about 800 by Anthropic's table.
const TOOL_TOKENS: u64 = 1_024;

impl Account {
    /// Whether lanes without a price are ruled out, because the key has a budget.
    pub fn needs_prices(&self) -> bool {
        self.key().is_some_and(|key| key.config.limits.usd_per_month.is_some())
    }

    /// Whether a lane is ruled out, because the key has a budget and what the call costs there at most is not known.
    pub fn lacks_price(&self, lane: &Lane) -> bool {
        let is_known = match self.request.api().map(|api| (api.meter, api.service)) {
            Some((Meter::Free, _)) => true,
            Some((Meter::Fee | Meter::Session, service)) => lane.config.services.fee(service).is_some(),
            Some((Meter::Input, _)) | None => lane.config.price.is_some(),
        };
        self.needs_prices() && !is_known
    }

    /// Reserves for the first attempt what the most expensive of the lanes may use.
    ///
    /// # Errors
    ///
    /// If a limit of the key does not allow it.
    pub fn reserve_first(&self, eligible: &[LaneId]) -> Result<(), ErrorResponse> {
        let Some(key) = self.key() else { return Ok(()) };
        let needs = eligible.iter().map(|lane| self.need(self.plan.lane(*lane), Role::First));
        let need = highest_need(needs);
        match self.reserve(need) {
            Ok(reservation) => {
                self.first_reservation.replace(reservation);
                Ok(())
            }
            Err(refused) => Err(limit_exceeded(key, refused, need, self.shared.clock.wall_seconds())),
        }
    }

    /// Reserves what a further attempt may use on a lane.
    ///
    /// # Errors
    ///
    /// If a limit of the key does not allow it.
    pub fn reserve_further(&self, lane: LaneId, role: Role) -> Result<Option<KeyReservation>, Refused> {
        self.reserve(self.need(self.plan.lane(lane), role))
    }

    /// The reservation of the first attempt, lowered to what its lane may cost.
    pub fn take_first(&self, lane: LaneId) -> Option<KeyReservation> {
        let mut reservation = self.first_reservation.take()?;
        reservation.lower(self.need(self.plan.lane(lane), Role::First).max_cost);
        Some(reservation)
    }

    fn reserve(&self, need: ReservationRequest) -> Result<Option<KeyReservation>, Refused> {
        let Some(key) = self.key() else { return Ok(None) };
        let clock = self.shared.clock;
        let reservation = locked(&key.meter).reserve(clock.now(), month_of(clock.wall_seconds()), need)?;
        Ok(Some(KeyReservation::new(Arc::clone(key), clock, reservation, need)))
    }

    /// What an attempt may use on a lane.
    fn need(&self, lane: &Lane, role: Role) -> ReservationRequest {
        let request = &self.request;
        match request.api().map(|api| (api.meter, api.service)) {
            Some((Meter::Free, _)) => return ReservationRequest::default(),
            Some((meter @ (Meter::Fee | Meter::Session), service)) => {
                let most = match meter {
                    Meter::Session => session_at_most(lane, service),
                    _ => lane.config.services.fee(service),
                };
                let most = most.filter(|_| self.needs_prices()).unwrap_or_default();
                return ReservationRequest { tokens: 0, max_cost: most, expected_cost: most };
            }
            Some((Meter::Input, _)) | None => {}
        }
        let lengths = request.peek.lengths;
        let routed = request.routed.as_ref().map(|routed| routed.dialect);
        let (limit, answers) = match routed {
            // What is not generated has no output.
            None => (Some(0), 1),
            Some(dialect) => (output_limit(lane, dialect, request), lengths.answers(dialect)),
        };
        let expected_output = self.expected_output_tokens().round() as u64;
        let output = limit.map_or(expected_output, |limit| limit.saturating_mul(answers));
        let tokens = self.prompt_tokens.saturating_add(output);
        let price = lane.config.full_price().filter(|_| self.needs_prices());
        let Some(price) = price else { return ReservationRequest { tokens, ..ReservationRequest::default() } };
        let external = self.external_input();
        let token_limits = lane.config.token_limits;
        let referenced = || token_limits.input.unwrap_or(MAX_INPUT_TOKENS);
        let told = request.instructed_for(lane).map_or(0, |instructed| instructed.text.len() as u64);
        let own_bytes = input_bytes(request) + told + TEMPLATE_TOKENS + if external.tools { TOOL_TOKENS } else { 0 };
        let max_input = match external.references {
            true => own_bytes.max(referenced()),
            false => own_bytes.min(token_limits.input.unwrap_or(u64::MAX)),
        };
        let longest = token_limits.output.unwrap_or(MAX_OUTPUT_TOKENS);
        let per_answer = limit.map_or(longest, |limit| limit.min(token_limits.output.unwrap_or(u64::MAX)));
        // What was predicted and is not taken over is billed as output beside the answer.
        let predicted = if external.predicts { request.body.len() as u64 } else { 0 };
        let at_most = price.cost_at_most(max_input, per_answer.saturating_add(predicted).saturating_mul(answers));
        // Hedges and races are optional: they start only if the budget has room for the most they can cost.
        let is_bounded = limit.is_some() && !external.references;
        let expected = match is_bounded || matches!(role, Role::Hedge | Role::Race) {
            true => at_most,
            false => price.cost_at_most(self.prompt_tokens, limit.unwrap_or(expected_output).min(expected_output)),
        };
        ReservationRequest { tokens, max_cost: at_most, expected_cost: expected.min(at_most) }
    }

    fn external_input(&self) -> ExternalInput {
        *self.external_input.get_or_init(|| {
            let external = tokrate_wire::external_input(&self.request.body);
            ExternalInput { references: external.references || self.request.peek.lengths.has_stored_prompt, ..external }
        })
    }
}

/// As many tokens as its input can have: the bytes of its body, and of the query that rerankers read (and bill) beside each document.
fn input_bytes(request: &CallRequest) -> u64 {
    #[derive(Deserialize)]
    struct Reranked {
        query: String,
        #[serde(alias = "texts", alias = "passages")]
        documents: Vec<IgnoredAny>,
    }
    let bytes = request.body.len() as u64;
    if request.api().is_none_or(|api| api.service != "rerank") {
        return bytes;
    }
    match serde_json::from_slice::<Reranked>(&request.body) {
        Ok(Reranked { query, documents }) => (query.len() * documents.len()) as u64 + bytes,
        // In another form; no document is shorter than a comma.
        Err(_) => bytes.saturating_mul(bytes),
    }
}

/// The output limit of one answer, as the lane will read it.
fn output_limit(lane: &Lane, dialect: Dialect, request: &CallRequest) -> Option<u64> {
    let lengths = request.peek.lengths;
    let endpoint = &lane.endpoints[lane.endpoint(Some(dialect))].config;
    // A translated request names the limit as the lane expects it.
    match endpoint.max_tokens_field && endpoint.dialect == dialect && dialect.has_legacy_max_tokens() {
        true => lengths.output_limit_as_max_tokens(),
        false => lengths.output_limit(dialect),
    }
}

/// The highest need in each respect.
fn highest_need(needs: impl Iterator<Item = ReservationRequest>) -> ReservationRequest {
    needs.fold(ReservationRequest::default(), |highest_need, need| ReservationRequest {
        tokens: highest_need.tokens.max(need.tokens),
        max_cost: highest_need.max_cost.max(need.max_cost),
        expected_cost: highest_need.expected_cost.max(need.expected_cost),
    })
}

/// The error for a key that has reached a limit.
pub(crate) fn limit_exceeded(
    key: &Key,
    refused: Refused,
    need: ReservationRequest,
    wall_seconds: u64,
) -> ErrorResponse {
    let name = &key.config.name;
    let limits = locked(&key.meter).limits();
    let message = match (refused.limit, limits.usd_per_month) {
        (LimitKind::Budget, Some(budget)) => {
            let spending = locked(&key.meter).spending(month_of(wall_seconds));
            let next = date_of(next_month_start(wall_seconds));
            let state = format!(
                "{} of {budget} USD spent, {} USD reserved for calls in progress; the next month begins on {next} (UTC)",
                spending.spent, spending.reserved
            );
            match spending.spent >= budget {
                true => format!("key `{name}` has spent its monthly budget: {state}"),
                false => format!(
                    "key `{name}` has too little of its monthly budget left for this call, which may cost {} USD: {state}; \
                     ask for fewer output tokens, or retry when calls in progress have ended",
                    need.max_cost
                ),
            }
        }
        (LimitKind::Tokens, _) if refused.retry_after.is_none() => format!(
            "key `{name}` may use {} tokens per minute, and this call may need {}; ask for fewer output tokens",
            limits.tokens_per_minute.unwrap_or_default(),
            need.tokens
        ),
        (what, _) => format!("key `{name}` has reached its limit of {}", limit_name(what)),
    };
    let retry_after: Option<Span> = refused.retry_after;
    let error = ErrorResponse::new(StatusCode::TOO_MANY_REQUESTS, message);
    let reason = if refused.limit == LimitKind::Budget { RefusalReason::BudgetSpent } else { error.reason };
    ErrorResponse { retry_after, reason, ..error }
}

fn limit_name(what: LimitKind) -> &'static str {
    match what {
        LimitKind::Requests => "requests per minute",
        LimitKind::Tokens => "tokens per minute",
        LimitKind::Streams => "concurrent calls",
        LimitKind::Budget => "dollars per month",
    }
}
