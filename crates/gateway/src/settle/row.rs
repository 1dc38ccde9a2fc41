//! The row of the throughput log that an attempt leaves behind.

use super::account::{Account, AttemptCost, AttemptOutcome};
use crate::upstream::attempt::Attempt;
use tokrate_core::{Money, Span, Tick};
use tokrate_meter::LiveNumbers;
use tokrate_record::{Attempt as Row, AttemptRole};

impl Account {
    pub(super) fn log_row(
        &self,
        attempt: &Attempt,
        numbers: &LiveNumbers,
        outcome: AttemptOutcome,
        cost: AttemptCost,
        now: Tick,
    ) -> Row {
        let lane = &attempt.lane.config;
        let body = attempt.body.borrow();
        let (dialect_in, dialect_out) = match &self.request.routed {
            Some(routed) => (routed.dialect.name(), attempt.dialect().name()),
            None => ("embeddings", "embeddings"),
        };
        let mut row = Row {
            call: self.request.id.clone(),
            attempt: u32::try_from(outcome.number).unwrap_or(u32::MAX),
            role: attempt.role,
            end: outcome.end,
            won: outcome.won,
            started_unix_ms: attempt.started_unix_ms,
            key: self.key.as_ref().map(|admitted_key| admitted_key.key.config.name.clone()),
            alias: self.alias.name.clone(),
            lane: lane.name.clone(),
            provider: lane.provider.clone(),
            model: lane.model.clone(),
            dialect_in: dialect_in.to_owned(),
            dialect_out: dialect_out.to_owned(),
            stream: attempt.streamed,
            in_flight: attempt.in_flight,
            connection_new: attempt.connection_new,
            request_bytes: attempt.request_bytes as u64,
            output_limit: self.request.output_limit().and_then(|limit| u32::try_from(limit).ok()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            status: body.answer.head().map(|head| head.status.as_u16()),
            wait_ns: body.sent_at().map(|sent_at| (sent_at - attempt.started_at).as_nanos()),
            total_ns: attempt.total(now).as_nanos(),
            overhead_ns: outcome.overhead.map(Span::as_nanos),
            input_tokens_std: self.counted_input.get(),
            cost_usd: cost.amount.map(Money::as_usd),
            cost_basis: cost.basis,
            ..Row::default()
        };
        row.fill(numbers.clone());
        row.failure = outcome.failure;
        if !attempt.has_streamed() {
            // Of an answer in one piece only its whole time is known.
            row.ttft_ns = None;
            row.answer_ns = attempt.whole_answer_time().map(Span::as_nanos);
        }
        row
    }
}

/// The name of a role in the log.
pub(crate) fn role_in_log(role: tokrate_route::Role) -> AttemptRole {
    match role {
        tokrate_route::Role::First => AttemptRole::First,
        tokrate_route::Role::Failover => AttemptRole::Failover,
        tokrate_route::Role::Hedge => AttemptRole::Hedge,
        tokrate_route::Role::Race => AttemptRole::Race,
    }
}
