//! Requests to a model: from the body to the engine, and back as a stream or in one piece.
//!
//! Invariant: a request that reaches an engine was decoded completely, and its prompt counted.

use super::{ErrorResponse, REQUEST_ID, Routes, ServedProvider, error_response, with_type};
use crate::asked::{Content, content_of, content_of_rule, may_ask_for_content};
use crate::body::{AnswerBody, BodyWriter, Collected, DialectWriter, FullBody, Stream};
use crate::config::EmulatedEngine;
use crate::driver::{AnswerHandle, Incoming};
use crate::metrics::MetricNames;
use crate::script::AnswerScript;
use crate::truth::AnswerEnd;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, HeaderName, HeaderValue, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderMap, Response, StatusCode};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use tokrate_core::{ChatRequest, Span, Tick};
use tokrate_net::server::{BodyError, BufferedBody, ConnectionTap, RequestBody, buffer_body};
use tokrate_sim::{Allowance, Faults, LimitStatus, Outcome, Refusal, SimRequest};
use tokrate_wire::{Dialect, Encoder, Routed, ServerTimesField, Shape, decode_request};

const FAULT: &str = "x-tokrate-fault";
/// Model name in answers with the fault of another model.
const OTHER_MODEL: &str = "another-model";

/// The name that a client gives its request, for the log.
pub(super) fn call_id(head: &Parts) -> Option<String> {
    head.headers.get(REQUEST_ID).and_then(|id| id.to_str().ok()).map(str::to_owned)
}

impl ServedProvider {
    /// Hands a request to the engine; what is answered where it takes none.
    pub(super) fn hand_over(&self, incoming: Incoming) -> Result<AnswerHandle, Box<Response<AnswerBody>>> {
        let dialect = incoming.dialect;
        Rc::clone(&self.driver).submit(incoming).map_err(|refusal| Box::new(engine_error(dialect, &refusal)))
    }
}

/// A request that was handed to its engine.
struct Submitted<'r> {
    served: &'r ServedProvider,
    model: String,
    stream: bool,
    content: Option<Content>,
    /// The engine's answer to it, or its refusal.
    outcome: Result<AnswerHandle, Refusal>,
}

impl Routes {
    pub(super) async fn answer(
        &self,
        routed: Routed,
        head: &Parts,
        body: RequestBody,
        tap: Rc<ConnectionTap>,
    ) -> Result<Response<AnswerBody>, ErrorResponse> {
        let BufferedBody { bytes: body, share: _share } = self.read_body(body).await?;
        let id = call_id(head);
        let Submitted { served, model, stream, content, outcome } =
            self.submit(&routed, head, &body, tap.read_at(), id).await?;
        let allowance = served.driver.allowance();
        let mut response = match outcome {
            Ok(handle) => {
                let shape = match routed.shape {
                    Some(shape) => shape,
                    None if stream => Shape::Stream,
                    None => Shape::Whole,
                };
                let model = if self.provider_index.is_none() { &model } else { &served.provider.model };
                let writer = self.writer(served, routed.dialect, shape, model, &handle).with_content(content);
                self.deliver(handle, tap, writer, routed.dialect, shape).await?
            }
            Err(refusal) => engine_error(routed.dialect, &refusal),
        };
        add_limits(routed.dialect, allowance, response.headers_mut());
        Ok(response)
    }

    /// The whole answer to a request that nobody waits for, such as one of a batch; `id` is its name in the log.
    pub(super) async fn answer_alone(
        &self,
        routed: &Routed,
        head: &Parts,
        body: Bytes,
        id: String,
    ) -> Result<Bytes, ErrorResponse> {
        let now = self.shared.clock.now();
        let Submitted { served, model, content, outcome, .. } = self.submit(routed, head, &body, now, Some(id)).await?;
        let handle = outcome.map_err(|refusal| {
            let status = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            ErrorResponse(status, refusal.message.to_owned())
        })?;
        let model = if self.provider_index.is_none() { &model } else { &served.provider.model };
        let writer = self.writer(served, routed.dialect, Shape::Whole, model, &handle).with_content(content);
        let broken = || ErrorResponse(StatusCode::INTERNAL_SERVER_ERROR, "the connection broke".to_owned());
        let collected = collect(&handle).await?.ok_or_else(broken)?;
        handle.end(AnswerEnd::Complete);
        Ok(collected.finish(writer).0)
    }

    /// Reads a request and hands it to its engine.
    async fn submit(
        &self,
        routed: &Routed,
        head: &Parts,
        body: &Bytes,
        received_at: Tick,
        id: Option<String>,
    ) -> Result<Submitted<'_>, ErrorResponse> {
        let shared = &self.shared;
        let chat = decode_request(routed, body)
            .map_err(|error| ErrorResponse(StatusCode::BAD_REQUEST, format!("failed to {error}")))?;
        let served = self.provider_of(head, &chat.model)?;
        if chat.max_output_tokens == Some(0) {
            let message = "the limit of output tokens must be at least 1".to_owned();
            return Err(ErrorResponse(StatusCode::BAD_REQUEST, message));
        }
        let faults = faults_of(served, &head.headers)?;
        let (chat, content) = content(routed, chat, body, served.provider.script.as_ref()).await?;
        let ChatRequest { stream, include_usage, max_output_tokens, messages, model, .. } = chat;
        let prompt = shared.prompts.read(messages, served.provider.persona.scheduled.is_some()).await;
        let law = &served.provider.persona.law;
        let request = SimRequest {
            input_tokens: prompt.tokens,
            pictures: prompt.media.pictures.len() as u32,
            pixels: prompt.media.pixels(),
            cached_pixels: if law.encoder.caches { shared.prompts.known_pixels(&prompt.media) } else { 0 },
            sound: prompt.media.sound,
            parts: prompt.parts,
            output_tokens: max_output_tokens,
            content_tokens: content.as_ref().map(Content::tokens),
            // An unstreamed answer always has usage.
            include_usage: include_usage || !stream,
            include_timings: served.provider.metrics != MetricNames::Off || sends_timings(served, routed.dialect),
            faults,
            ..SimRequest::default()
        };
        let incoming = Incoming { id, dialect: routed.dialect, received_at, stream, request };
        let outcome = Rc::clone(&served.driver).submit(incoming);
        Ok(Submitted { served, model, stream, content, outcome })
    }

    /// Reads the body of a request, if there is room for another one.
    pub(super) async fn read_body(&self, body: RequestBody) -> Result<BufferedBody, ErrorResponse> {
        let shared = &self.shared;
        if shared.open() >= shared.max_requests {
            return Err(ErrorResponse(StatusCode::SERVICE_UNAVAILABLE, "too many open requests".to_owned()));
        }
        let limit = shared.max_request_bytes;
        buffer_body(body, limit, &shared.bodies).await.map_err(|error| match error {
            BodyError::TooLarge => {
                ErrorResponse(StatusCode::PAYLOAD_TOO_LARGE, format!("the body has more than {limit} bytes"))
            }
            BodyError::Broken => ErrorResponse(StatusCode::BAD_REQUEST, "the body is incomplete".to_owned()),
            BodyError::TooSlow => ErrorResponse(StatusCode::REQUEST_TIMEOUT, "the body arrived too slowly".to_owned()),
            BodyError::OverBudget => {
                ErrorResponse(StatusCode::SERVICE_UNAVAILABLE, "too many large requests are open".to_owned())
            }
        })
    }

    /// The provider of a model.
    pub(super) fn provider_of(&self, head: &Parts, model: &str) -> Result<&ServedProvider, ErrorResponse> {
        let not_found = || ErrorResponse(StatusCode::NOT_FOUND, format!("there is no model `{model}`"));
        let Some(index) = self.provider_index else {
            let (name, rest) = model.split_once('/').unwrap_or((model, ""));
            let found = self.shared.providers.iter().find(|served| served.provider.persona.name == name);
            let served = found.ok_or_else(not_found)?;
            served.check_key(head)?;
            let is_other = !rest.is_empty() && rest != served.provider.model;
            return if served.provider.only_model && is_other { Err(not_found()) } else { Ok(served) };
        };
        let served = &self.shared.providers[index];
        // Some dialects need no model.
        let is_other = !model.is_empty() && model != served.provider.model;
        if served.provider.only_model && is_other { Err(not_found()) } else { Ok(served) }
    }

    fn writer(
        &self,
        served: &ServedProvider,
        dialect: Dialect,
        shape: Shape,
        model: &str,
        handle: &AnswerHandle,
    ) -> DialectWriter {
        let number = handle.number();
        let prefix = dialect.id_prefix();
        let separator = if prefix.ends_with('_') { '_' } else { '-' };
        let id = format!("{prefix}sim{separator}{number}");
        let model = if handle.names_other_model() { OTHER_MODEL } else { model };
        let encoder = Encoder::new(dialect, shape, &id, model, self.shared.clock.wall_seconds());
        DialectWriter::new(dialect, shape, encoder, sends_timings(served, dialect))
    }

    async fn deliver(
        &self,
        handle: AnswerHandle,
        tap: Rc<ConnectionTap>,
        writer: DialectWriter,
        dialect: Dialect,
        shape: Shape,
    ) -> Result<Response<AnswerBody>, ErrorResponse> {
        if shape == Shape::Whole {
            return whole(handle, tap, writer).await;
        }
        let stream = Stream::new(handle, tap, BodyWriter::Dialect(writer), Rc::clone(&self.shared.scratch));
        let mut response = with_type(dialect.content_type(shape), AnswerBody::Stream(Box::new(stream)));
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        Ok(response)
    }
}

/// What a script or the request itself wants other than words, worked out on another thread: a schema may ask for a large value, and
/// a conversation be long.
async fn content(
    routed: &Routed,
    chat: ChatRequest,
    body: &Bytes,
    script: Option<&Arc<AnswerScript>>,
) -> Result<(ChatRequest, Option<Content>), ErrorResponse> {
    let script = script.map(Arc::clone);
    if script.is_none() && !may_ask_for_content(&chat) {
        return Ok((chat, None));
    }
    let (routed, body) = (routed.clone(), body.clone());
    let (chat, content) = off_thread(move || {
        let rule = script.as_ref().and_then(|script| script.rule_for(&chat));
        let content = match rule {
            Some(rule) => Ok(Some(content_of_rule(rule, &body))),
            None => content_of(&routed, &chat, &body),
        };
        (chat, content)
    })
    .await;
    let content = content.map_err(|message| ErrorResponse(StatusCode::BAD_REQUEST, message))?;
    Ok((chat, content))
}

/// Works something out without delaying open streams.
pub(super) async fn off_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let worked = tokio::task::spawn_blocking(work).await;
    worked.expect("it does not panic and the runtime outlives its requests")
}

/// Whether answers in a dialect carry server timings.
fn sends_timings(served: &ServedProvider, dialect: Dialect) -> bool {
    match dialect.server_times() {
        ServerTimesField::Own => true,
        ServerTimesField::None => false,
        ServerTimesField::OfLlamaCpp => served.provider.emulated_engine == EmulatedEngine::LlamaCpp,
    }
}

/// Faults of a request, which replace the provider's.
pub(super) fn faults_of(served: &ServedProvider, headers: &HeaderMap) -> Result<Option<Box<Faults>>, ErrorResponse> {
    let mut faults = None;
    for value in headers.get_all(FAULT) {
        let text = value.to_str().unwrap_or_default();
        for fault in text.split(',') {
            let faults = faults.get_or_insert_with(|| Box::new(served.provider.persona.faults.clone()));
            let set = faults.set(fault.trim());
            set.map_err(|error| ErrorResponse(StatusCode::BAD_REQUEST, format!("failed to {error}")))?;
        }
    }
    Ok(faults)
}

/// Waits for the end of an answer and collects it; `None` if its connection is to break.
///
/// # Errors
/// What the engine says in place of an answer.
pub(super) async fn collect(handle: &AnswerHandle) -> Result<Option<Collected>, ErrorResponse> {
    let mut collected = Collected::default();
    poll_fn(|context| {
        handle.take(|emission| {
            collected.add(emission);
            true
        });
        if collected.outcome.is_some() || !handle.is_waiting(context) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    if collected.outcome == Some(Outcome::Disconnected) {
        handle.end(AnswerEnd::Disconnected);
        return Ok(None);
    }
    if let Some(message) = collected.failed {
        handle.end(AnswerEnd::Complete);
        return Err(ErrorResponse(StatusCode::INTERNAL_SERVER_ERROR, message.to_owned()));
    }
    Ok(Some(collected))
}

/// Waits for the end of an answer and returns it in one piece.
async fn whole(
    handle: AnswerHandle,
    tap: Rc<ConnectionTap>,
    writer: DialectWriter,
) -> Result<Response<AnswerBody>, ErrorResponse> {
    let Some(collected) = collect(&handle).await? else {
        return Ok(with_type("application/json", AnswerBody::Broken));
    };
    let (bytes, write) = collected.finish(writer);
    let body = match write {
        Some(write) => AnswerBody::FullBody(Some(FullBody { bytes, write, handle, tap })),
        None => AnswerBody::Plain(Some(bytes)),
    };
    Ok(with_type("application/json", body))
}

pub(super) fn engine_error(dialect: Dialect, refusal: &Refusal) -> Response<AnswerBody> {
    let status = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = error_response(dialect, status, refusal.message);
    if let Some(wait) = refusal.retry_after {
        // The header takes whole seconds; rounded up.
        let seconds = wait.as_nanos().div_ceil(1_000_000_000);
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// Adds rate-limit headers, if there are limits: OpenAI's, and the dialect's own.
fn add_limits(dialect: Dialect, allowance: Allowance, headers: &mut HeaderMap) {
    let [limit, remaining, reset] = ["x-ratelimit-limit-", "x-ratelimit-remaining-", "x-ratelimit-reset-"];
    for (what, left) in [("requests", allowance.requests), ("tokens", allowance.tokens)] {
        let Some(LimitStatus { limit: per_minute, remaining: rest, reset: wait }) = left else { continue };
        let mut add = |name: String, value: HeaderValue| {
            headers.insert(HeaderName::try_from(name).expect("letters and dashes"), value);
        };
        add(format!("{limit}{what}"), per_minute.into());
        add(format!("{remaining}{what}"), rest.into());
        let wait = HeaderValue::try_from(format_wait(wait)).expect("digits and letters");
        add(format!("{reset}{what}"), wait);
        if let Some(prefix) = dialect.rate_limit_prefix() {
            add(format!("{prefix}{what}-limit"), per_minute.into());
            add(format!("{prefix}{what}-remaining"), rest.into());
        }
    }
}

/// Formats a wait as OpenAI does: `6m0s`, `1.5s`, `20ms`; rounded up to the millisecond.
fn format_wait(wait: Span) -> String {
    let milliseconds = wait.as_nanos().div_ceil(1_000_000);
    let (minutes, rest) = (milliseconds / 60_000, milliseconds % 60_000);
    let seconds = rest as f64 / 1e3;
    match (minutes, rest) {
        (0, 0..1_000) => format!("{rest}ms"),
        (0, _) => format!("{seconds}s"),
        (minutes, _) => format!("{minutes}m{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_written_as_openai_does() {
        let written = [0, 20, 999, 1_000, 1_500, 60_000, 360_000, 61_005].map(|ms| format_wait(Span::from_millis(ms)));
        assert_eq!(written, ["0ms", "20ms", "999ms", "1s", "1.5s", "1m0s", "6m0s", "1m1.005s"]);
        assert_eq!(format_wait(Span::from_nanos(1)), "1ms");
    }
}
