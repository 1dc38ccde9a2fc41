//! Requests to a model: from the body to the engine, and back as a stream or whole.
//!
//! It refuses to know pages. Invariant: a request that reaches an engine was understood whole, and its prompt counted.

use super::{REQUEST_ID, Refused, Routes, Served, refuse, with_type};
use crate::body::{AnswerBody, Collected, Scribe, Stream, Whole};
use crate::config::Guise;
use crate::driver::{Incoming, Ticket};
use crate::metrics::MetricNames;
use crate::truth::AnswerEnd;
use http::header::{CACHE_CONTROL, HeaderName, HeaderValue, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderMap, Response, StatusCode};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use tokrate_core::{ChatRequest, Span};
use tokrate_net::server::{BodyError, BufferedBody, ConnectionTap, RequestBody, buffer_body};
use tokrate_sim::{Allowance, Faults, Left, Outcome, Refusal, SimRequest};
use tokrate_wire::{Dialect, Encoder, Routed, ServerTimesField, Shape, decode_request};

const FAULT: &str = "x-tokrate-fault";
/// What the model is called in answers that name another one.
const OTHER_MODEL: &str = "another-model";

impl Routes {
    pub(super) async fn answer(
        &self,
        routed: Routed,
        head: &Parts,
        body: RequestBody,
        tap: Rc<ConnectionTap>,
    ) -> Result<Response<AnswerBody>, Refused> {
        let house = &self.house;
        if house.open() >= house.requests_most {
            return Err(Refused(StatusCode::SERVICE_UNAVAILABLE, "too many open requests".to_owned()));
        }
        let most = house.request_bytes_most;
        let held = buffer_body(body, most, &house.bodies).await.map_err(|error| match error {
            BodyError::TooLarge => {
                Refused(StatusCode::PAYLOAD_TOO_LARGE, format!("the body has more than {most} bytes"))
            }
            BodyError::Broken => Refused(StatusCode::BAD_REQUEST, "the body broke off".to_owned()),
            BodyError::TooSlow => Refused(StatusCode::REQUEST_TIMEOUT, "the body came too slowly".to_owned()),
            BodyError::OverBudget => {
                Refused(StatusCode::SERVICE_UNAVAILABLE, "too many large requests are open".to_owned())
            }
        })?;
        let BufferedBody { bytes: body, share: _share } = held;
        let received_at = tap.read_at();
        let chat = decode_request(&routed, &body)
            .map_err(|error| Refused(StatusCode::BAD_REQUEST, format!("failed to {error}")))?;
        let served = self.provider_of(head, &chat.model)?;
        if chat.max_output_tokens == Some(0) {
            let message = "the limit of output tokens must be at least 1".to_owned();
            return Err(Refused(StatusCode::BAD_REQUEST, message));
        }
        let faults = faults_of(served, &head.headers)?;
        let ChatRequest { stream, include_usage, max_output_tokens, messages, model, .. } = chat;
        let incoming = Incoming {
            id: head.headers.get(REQUEST_ID).and_then(|id| id.to_str().ok()).map(str::to_owned),
            dialect: routed.dialect,
            received_at,
            stream,
            request: SimRequest {
                input_tokens: house.prompts.count(messages).await,
                output_tokens: max_output_tokens,
                // A whole answer always carries usage.
                include_usage: include_usage || !stream,
                include_timings: served.provider.metrics != MetricNames::Off || sends_timings(served, routed.dialect),
                faults,
            },
        };
        let submitted = Rc::clone(&served.driver).submit(incoming);
        let allowance = served.driver.allowance();
        let mut response = match submitted {
            Ok(ticket) => {
                let shape = match routed.shape {
                    Some(shape) => shape,
                    None if stream => Shape::Stream,
                    None => Shape::Whole,
                };
                let model = if self.own.is_none() { &model } else { &served.provider.model };
                let scribe = self.scribe(served, routed.dialect, shape, model, &ticket);
                self.deliver(ticket, tap, scribe, routed.dialect, shape).await?
            }
            Err(refusal) => refuse_as(routed.dialect, &refusal),
        };
        add_limits(routed.dialect, allowance, response.headers_mut());
        Ok(response)
    }

    /// Who answers to a model.
    fn provider_of(&self, head: &Parts, model: &str) -> Result<&Served, Refused> {
        let not_found = || Refused(StatusCode::NOT_FOUND, format!("there is no model `{model}`"));
        let Some(own) = self.own else {
            let (name, rest) = model.split_once('/').unwrap_or((model, ""));
            let found = self.house.providers.iter().find(|served| served.provider.persona.name == name);
            let served = found.ok_or_else(not_found)?;
            served.check_key(head)?;
            let is_other = !rest.is_empty() && rest != served.provider.model;
            return if served.provider.only_model && is_other { Err(not_found()) } else { Ok(served) };
        };
        let served = &self.house.providers[own];
        // Some dialects need no model.
        let is_other = !model.is_empty() && model != served.provider.model;
        if served.provider.only_model && is_other { Err(not_found()) } else { Ok(served) }
    }

    fn scribe(&self, served: &Served, dialect: Dialect, shape: Shape, model: &str, ticket: &Ticket) -> Scribe {
        let number = ticket.number();
        let prefix = dialect.id_prefix();
        let separator = if prefix.ends_with('_') { '_' } else { '-' };
        let id = format!("{prefix}sim{separator}{number}");
        let model = if ticket.poses() { OTHER_MODEL } else { model };
        let encoder = Encoder::new(dialect, shape, &id, model, self.house.clock.wall_seconds());
        Scribe::new(dialect, shape, encoder, sends_timings(served, dialect))
    }

    async fn deliver(
        &self,
        ticket: Ticket,
        tap: Rc<ConnectionTap>,
        scribe: Scribe,
        dialect: Dialect,
        shape: Shape,
    ) -> Result<Response<AnswerBody>, Refused> {
        if shape == Shape::Whole {
            return whole(ticket, tap, &scribe).await;
        }
        let stream = Stream::new(ticket, tap, scribe, Rc::clone(&self.house.scratch));
        let mut response = with_type(dialect.content_type(shape), AnswerBody::Stream(Box::new(stream)));
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        Ok(response)
    }
}

/// Whether answers in a dialect carry the engine's own times.
fn sends_timings(served: &Served, dialect: Dialect) -> bool {
    match dialect.server_times() {
        ServerTimesField::Own => true,
        ServerTimesField::None => false,
        ServerTimesField::OfLlamaCpp => served.provider.guise == Guise::LlamaCpp,
    }
}

/// The faults that a request asks for in place of the provider's.
fn faults_of(served: &Served, headers: &HeaderMap) -> Result<Option<Box<Faults>>, Refused> {
    let mut faults = None;
    for value in headers.get_all(FAULT) {
        let text = value.to_str().unwrap_or_default();
        for fault in text.split(',') {
            let faults = faults.get_or_insert_with(|| Box::new(served.provider.persona.faults.clone()));
            let set = faults.set(fault.trim());
            set.map_err(|error| Refused(StatusCode::BAD_REQUEST, format!("failed to {error}")))?;
        }
    }
    Ok(faults)
}

/// Waits for the end of an answer and gives it in one piece.
async fn whole(ticket: Ticket, tap: Rc<ConnectionTap>, scribe: &Scribe) -> Result<Response<AnswerBody>, Refused> {
    let mut collected = Collected::default();
    poll_fn(|context| {
        ticket.take(|emission| {
            collected.add(emission);
            true
        });
        if collected.outcome.is_some() || !ticket.is_waiting(context) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    if collected.outcome == Some(Outcome::Disconnected) {
        ticket.end(AnswerEnd::Disconnected);
        return Ok(with_type("application/json", AnswerBody::Broken));
    }
    if let Some(message) = collected.failed {
        ticket.end(AnswerEnd::Complete);
        return Err(Refused(StatusCode::INTERNAL_SERVER_ERROR, message.to_owned()));
    }
    let (bytes, write) = collected.finish(scribe);
    let body = match write {
        Some(write) => AnswerBody::Whole(Some(Whole { bytes, write, ticket, tap })),
        None => AnswerBody::Plain(Some(bytes)),
    };
    Ok(with_type("application/json", body))
}

fn refuse_as(dialect: Dialect, refusal: &Refusal) -> Response<AnswerBody> {
    let status = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = refuse(dialect, status, refusal.message);
    if let Some(wait) = refusal.retry_after {
        // Whole seconds, rounded up: the header knows nothing finer.
        let seconds = wait.as_nanos().div_ceil(1_000_000_000);
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// Says what is left of the limits, if there are any: OpenAI's names, and the dialect's own beside them.
fn add_limits(dialect: Dialect, allowance: Allowance, headers: &mut HeaderMap) {
    let [limit, remaining, reset] = ["x-ratelimit-limit-", "x-ratelimit-remaining-", "x-ratelimit-reset-"];
    for (what, left) in [("requests", allowance.requests), ("tokens", allowance.tokens)] {
        let Some(Left { limit: per_minute, remaining: rest, reset: wait }) = left else { continue };
        let mut add = |name: String, value: HeaderValue| {
            headers.insert(HeaderName::try_from(name).expect("letters and dashes"), value);
        };
        add(format!("{limit}{what}"), per_minute.into());
        add(format!("{remaining}{what}"), rest.into());
        let wait = HeaderValue::try_from(written_wait(wait)).expect("digits and letters");
        add(format!("{reset}{what}"), wait);
        if let Some(prefix) = dialect.rate_limit_prefix() {
            add(format!("{prefix}{what}-limit"), per_minute.into());
            add(format!("{prefix}{what}-remaining"), rest.into());
        }
    }
}

/// A wait as OpenAI writes it: `6m0s`, `1.5s`, `20ms`; rounded up to the millisecond.
fn written_wait(wait: Span) -> String {
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
        let written = [0, 20, 999, 1_000, 1_500, 60_000, 360_000, 61_005].map(|ms| written_wait(Span::from_millis(ms)));
        assert_eq!(written, ["0ms", "20ms", "999ms", "1s", "1.5s", "1m0s", "6m0s", "1m1.005s"]);
        assert_eq!(written_wait(Span::from_nanos(1)), "1ms");
    }
}
