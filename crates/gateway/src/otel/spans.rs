//! Encodes traces as OTLP's `ExportTraceServiceRequest`, with the attributes of OpenTelemetry's conventions for generative AI.
//!
//! A call is a server span, each of its attempts a client span below it. Invariant: nothing but names of the configuration, numbers,
//! identifiers, and the model's name as a provider answered it; no prompt, no answer, no message of a provider, no key.

use super::metrics::{attribute, scope};
use super::protobuf::Message;
use crate::trace::finished::{AttemptSpan, FinishedTrace};
use tokrate_core::{Span, Tick};
use tokrate_record::{Attempt as Row, AttemptEnd, AttemptRole, Sample};

/// `SPAN_KIND_SERVER` and `SPAN_KIND_CLIENT`.
const SERVER: u64 = 2;
const CLIENT: u64 = 3;
/// `STATUS_CODE_ERROR`.
const ERROR: u64 = 2;
/// Flags of a span: the trace's own, that it is known whether the parent is of another process, and that it is.
const SAMPLED: u32 = 1;
const HAS_IS_REMOTE: u32 = 0x100;
const IS_REMOTE: u32 = 0x200;

/// The request for these traces.
pub(crate) fn request(traces: &[FinishedTrace], resource: &[(String, String)], version: &str) -> Vec<u8> {
    let mut request = Message::default();
    request.message(1, |out| {
        out.message(1, |out| resource.iter().for_each(|(key, value)| attribute(out, 1, key, value)));
        out.message(2, |out| {
            scope(out, version);
            for trace in traces {
                out.message(2, |out| call_span(out, trace));
                trace.attempts.iter().for_each(|attempt| out.message(2, |out| attempt_span(out, trace, attempt)));
            }
        });
    });
    request.into_bytes()
}

/// What all spans begin with.
struct Head<'a> {
    id: [u8; 8],
    parent: Option<[u8; 8]>,
    name: &'a str,
    kind: u64,
    from: Tick,
    to: Tick,
    flags: u32,
}

fn head(out: &mut Message, trace: &FinishedTrace, head: &Head<'_>) {
    out.bytes(1, &trace.context.trace_id);
    out.bytes(2, &head.id);
    if let Some(state) = &trace.context.state {
        out.text(3, state);
    }
    if let Some(parent) = &head.parent {
        out.bytes(4, parent);
    }
    out.text(5, head.name);
    out.number(6, head.kind);
    out.fixed(7, trace.unix_ns(head.from));
    out.fixed(8, trace.unix_ns(head.to.max(head.from)));
    out.fixed32(16, HAS_IS_REMOTE | head.flags | if trace.context.is_sampled { SAMPLED } else { 0 });
}

/// The span of a call: what the client saw.
fn call_span(out: &mut Message, trace: &FinishedTrace) {
    let first = trace.attempts.first().map(|attempt| &attempt.row);
    let refused = trace.refused.as_ref();
    let model = first.map(|row| row.alias.as_str()).or(refused.and_then(|refused| refused.alias.as_deref()));
    let name = model.map_or_else(|| trace.operation.to_owned(), |model| format!("{} {model}", trace.operation));
    head(
        out,
        trace,
        &Head {
            id: trace.span_id,
            parent: trace.has_parent.then_some(trace.context.span_id),
            name: &name,
            kind: SERVER,
            from: trace.started_at,
            to: trace.ended_at,
            flags: if trace.has_parent { IS_REMOTE } else { 0 },
        },
    );
    let mut put = Attributes(out);
    put.text("gen_ai.operation.name", trace.operation);
    put.maybe_text("gen_ai.request.model", model);
    put.flag("gen_ai.request.stream", trace.is_stream);
    put.maybe_number("http.response.status_code", trace.status.map(u64::from));
    put.maybe_text("error.type", trace.error());
    put.maybe_text(
        "tokrate.key",
        first.and_then(|row| row.key.as_deref()).or(refused.and_then(|refused| refused.key.as_deref())),
    );
    put.number("tokrate.attempts", trace.attempts.len() as u64);
    if let Some(row) = first {
        put.text("tokrate.call", &row.call);
        put.maybe_text("gen_ai.conversation.id", row.session.as_deref());
    }
    let costs = trace.attempts.iter().filter_map(|attempt| attempt.row.sample.cost_usd);
    put.double("tokrate.cost.usd", costs.sum());
    put.maybe_seconds("tokrate.hold", trace.hold);
    // A call that nobody won is still of a provider: the one that was asked last.
    let shown = trace.winner().or(trace.attempts.last());
    let first_token_at = trace.winner().and_then(first_token);
    if let Some(AttemptSpan { row, .. }) = shown {
        put.text("gen_ai.provider.name", &row.sample.provider);
        put.text("tokrate.end", row.end.name());
        if row.won {
            put.text("tokrate.lane", &row.lane);
            put.maybe_seconds("tokrate.overhead", row.overhead_ns.map(Span::from_nanos));
            answer(&mut put, &row.sample);
        }
    }
    put.maybe_seconds("gen_ai.response.time_to_first_chunk", first_token_at.map(|at| at - trace.started_at));
    if let Some(at) = first_token_at {
        event(out, trace, at, "tokrate.first_token");
    }
    if trace.is_fault() {
        out.message(15, |out| out.number(3, ERROR));
    }
}

/// The span of an attempt: what a lane did.
fn attempt_span(out: &mut Message, trace: &FinishedTrace, attempt: &AttemptSpan) {
    let AttemptSpan { row, .. } = attempt;
    let sample = &row.sample;
    let name = format!("{} {}", trace.operation, sample.model);
    let id = trace.attempt_id(row.attempt);
    let (from, to) = (attempt.started_at, attempt.ended_at);
    head(out, trace, &Head { id, parent: Some(trace.span_id), name: &name, kind: CLIENT, from, to, flags: 0 });
    let mut put = Attributes(out);
    put.text("gen_ai.operation.name", trace.operation);
    put.text("gen_ai.provider.name", &sample.provider);
    put.text("gen_ai.request.model", &sample.model);
    put.flag("gen_ai.request.stream", sample.stream);
    put.maybe_number("gen_ai.request.max_tokens", sample.output_limit.map(u64::from));
    put.text("server.address", &attempt.server.0);
    put.number("server.port", u64::from(attempt.server.1));
    put.maybe_number("http.response.status_code", sample.status.map(u64::from));
    put.maybe_text("error.type", error_of(row));
    put.text("tokrate.lane", &row.lane);
    put.number("tokrate.attempt", u64::from(row.attempt));
    put.text("tokrate.role", row.role.name());
    put.text("tokrate.end", row.end.name());
    put.flag("tokrate.won", row.won);
    put.flag("tokrate.extra", is_extra(attempt));
    put.number("tokrate.in_flight", u64::from(sample.in_flight));
    put.maybe_double("tokrate.cost.usd", sample.cost_usd);
    put.maybe_double("tokrate.output_speed", sample.output_speed);
    put.maybe_seconds("tokrate.wait", sample.wait_ns.map(Span::from_nanos));
    let opened =
        [("tokrate.dns", sample.dns_ns), ("tokrate.connect", sample.connect_ns), ("tokrate.tls", sample.tls_ns)];
    opened.into_iter().for_each(|(name, time)| put.maybe_seconds(name, time.map(Span::from_nanos)));
    put.maybe_seconds("gen_ai.response.time_to_first_chunk", sample.ttft_ns.map(Span::from_nanos));
    answer(&mut put, sample);
    if let Some(at) = attempt.sent_at {
        event(out, trace, at, "tokrate.sent");
    }
    if let Some(at) = first_token(attempt) {
        event(out, trace, at, "tokrate.first_token");
    }
    // A race reads as one: each of its attempts points to the one that won.
    if let Some(winner) = trace.winner().filter(|winner| winner.row.attempt != row.attempt) {
        out.message(13, |out| {
            out.bytes(1, &trace.context.trace_id);
            out.bytes(2, &trace.attempt_id(winner.row.attempt));
            attribute(out, 4, "tokrate.link", "winner");
        });
    }
    if row.end == AttemptEnd::Failed {
        out.message(15, |out| out.number(3, ERROR));
    }
}

/// What an answer came to, as far as its provider said it, else as it was counted.
fn answer(put: &mut Attributes<'_>, sample: &Sample) {
    put.maybe_text("gen_ai.response.model", sample.model_answered.as_deref());
    if let Some(finish) = sample.finish {
        put.texts("gen_ai.response.finish_reasons", finish.name());
    }
    let counted = Some(sample.output_tokens_std).filter(|tokens| *tokens > 0);
    put.maybe_number("gen_ai.usage.input_tokens", sample.input_tokens.or(sample.input_tokens_std));
    put.maybe_number("gen_ai.usage.output_tokens", sample.output_tokens.or(counted));
    put.maybe_number("gen_ai.usage.cache_read.input_tokens", sample.cached_tokens);
    put.maybe_number("gen_ai.usage.cache_write.input_tokens", sample.cache_write_tokens);
    put.maybe_number("gen_ai.usage.reasoning.output_tokens", sample.reasoning_tokens);
}

/// What ended an attempt early; one that lost, or whose client left, was cancelled.
fn error_of(row: &Row) -> Option<&'static str> {
    match row.end {
        AttemptEnd::Failed => Some(row.sample.failure.map_or("failed", |kind| kind.name())),
        AttemptEnd::Answered | AttemptEnd::Lost | AttemptEnd::Abandoned => None,
    }
}

/// Whether its call would have been answered without it.
fn is_extra(attempt: &AttemptSpan) -> bool {
    let row = &attempt.row;
    let is_hedge_or_race = matches!(row.role, AttemptRole::Hedge | AttemptRole::Race);
    attempt.is_beside || !row.won && (is_hedge_or_race || row.end == AttemptEnd::Lost)
}

fn first_token(attempt: &AttemptSpan) -> Option<Tick> {
    Some(attempt.sent_at? + Span::from_nanos(attempt.row.sample.ttft_ns?))
}

fn event(out: &mut Message, trace: &FinishedTrace, at: Tick, name: &str) {
    out.message(11, |out| {
        out.fixed(1, trace.unix_ns(at));
        out.text(2, name);
    });
}

/// The attributes of a span.
struct Attributes<'a>(&'a mut Message);

const OF_SPAN: u32 = 9;

impl Attributes<'_> {
    fn put(&mut self, key: &str, value: impl FnOnce(&mut Message)) {
        self.0.message(OF_SPAN, |out| {
            out.text(1, key);
            out.message(2, value);
        });
    }

    fn text(&mut self, key: &str, value: &str) {
        attribute(self.0, OF_SPAN, key, value);
    }

    fn maybe_text(&mut self, key: &str, value: Option<&str>) {
        value.into_iter().for_each(|value| self.text(key, value));
    }

    /// A list of one text.
    fn texts(&mut self, key: &str, value: &str) {
        self.put(key, |out| out.message(5, |out| out.message(1, |out| out.text(1, value))));
    }

    fn flag(&mut self, key: &str, value: bool) {
        self.put(key, |out| out.number(2, u64::from(value)));
    }

    fn number(&mut self, key: &str, value: u64) {
        self.put(key, |out| out.number(3, value));
    }

    fn maybe_number(&mut self, key: &str, value: Option<u64>) {
        value.into_iter().for_each(|value| self.number(key, value));
    }

    fn double(&mut self, key: &str, value: f64) {
        self.put(key, |out| out.double(4, value));
    }

    fn maybe_double(&mut self, key: &str, value: Option<f64>) {
        value.into_iter().for_each(|value| self.double(key, value));
    }

    fn maybe_seconds(&mut self, key: &str, value: Option<Span>) {
        self.maybe_double(key, value.map(Span::as_secs_f64));
    }
}
