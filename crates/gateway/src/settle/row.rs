//! The row of the throughput log that an attempt leaves behind.

use super::account::{Account, AttemptOutcome};
use super::attempt_cost::AttemptCost;
use crate::trace::finished::AttemptSpan;
use crate::upstream::attempt::Attempt;
use std::borrow::Cow;
use tokrate_core::{Money, Span, Tick};
use tokrate_meter::StreamNumbers;
use tokrate_record::{Attempt as Row, AttemptRole, Sample};
use tokrate_route::InFlightAttempt;

impl Account {
    pub(super) fn log_row(
        &self,
        attempt: &Attempt,
        numbers: &StreamNumbers,
        outcome: AttemptOutcome,
        cost: AttemptCost,
        now: Tick,
    ) -> Row {
        let lane = &attempt.lane.config;
        let body = attempt.body.borrow();
        let (dialect_in, dialect_out) = match &self.request.routed {
            Some(routed) => (routed.dialect.name(), attempt.dialect().name()),
            None => {
                let service = self.request.api().map_or("unknown", |api| api.service);
                (service, service)
            }
        };
        let connection = attempt.connection;
        let opened = |span: Span| connection.new.then(|| span.as_nanos());
        let mut sample = Sample {
            started_unix_ms: attempt.started_unix_ms,
            provider: lane.provider.clone(),
            model: lane.model.clone(),
            dialect: Cow::Borrowed(dialect_out),
            stream: attempt.streamed,
            in_flight: attempt.in_flight,
            connection_new: connection.new,
            dns_ns: opened(connection.dns),
            connect_ns: opened(connection.connect),
            tls_ns: opened(connection.tls),
            request_bytes: Some(attempt.request_bytes as u64).filter(|bytes| *bytes > 0),
            output_limit: self.request.output_limit().and_then(|limit| u32::try_from(limit).ok()),
            status: body.answer.head().map(|head| head.status.as_u16()),
            wait_ns: body.sent_at().map(|sent_at| (sent_at - attempt.started_at).as_nanos()),
            total_ns: attempt.total(now).as_nanos(),
            input_tokens_std: self.counted_input.get(),
            cost_usd: cost.amount.map(Money::as_usd),
            cost_basis: cost.basis,
            conditions: self.plan.conditions.clone(),
            ..Sample::default()
        };
        sample.fill(numbers);
        sample.failure = outcome.failure;
        if !attempt.has_streamed() {
            sample.clear_streaming_figures();
            sample.answer_ns = attempt.whole_answer_time().map(Span::as_nanos);
        }
        Row {
            call: self.request.id.clone(),
            attempt: u32::try_from(outcome.number).unwrap_or(u32::MAX),
            role: attempt.role,
            end: outcome.end,
            won: outcome.won,
            key: self.key.as_ref().map(|admitted_key| admitted_key.key.config.name.clone()),
            alias: self.alias.name.clone(),
            lane: lane.name.clone(),
            dialect_in: Cow::Borrowed(dialect_in),
            session: self.request.session.clone(),
            overhead_ns: outcome.overhead.map(Span::as_nanos),
            responses: attempt.session().map(|session| session.responses),
            response_bytes: attempt.session().map(|session| session.bytes_to_client),
            hold_ns: outcome.hold.map(Span::as_nanos),
            expected_cached_tokens: None,
            sample,
        }
    }

    /// Tokens of a prompt that were expected to be in a cache, in those of the provider if it reported how many the prompt has.
    pub(super) fn expected_cached(&self, started: &InFlightAttempt, reported: Option<u64>) -> Option<u64> {
        let expected = started.expected_cached_tokens()?;
        let scale = reported.map_or(1.0, |input| input as f64 / self.prompt_tokens.max(1) as f64);
        Some((expected as f64 * scale).round() as u64)
    }

    /// What a trace keeps of an attempt.
    pub(super) fn span_of(&self, attempt: &Attempt, row: &Row, is_beside: bool, now: Tick) -> AttemptSpan {
        let base = &attempt.lane.endpoints[attempt.endpoint].config.base;
        AttemptSpan {
            row: row.clone(),
            started_at: attempt.started_at,
            ended_at: attempt.ended_at().unwrap_or(now),
            sent_at: attempt.body.borrow().sent_at(),
            server: (base.host().to_owned(), base.port()),
            is_beside,
        }
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
