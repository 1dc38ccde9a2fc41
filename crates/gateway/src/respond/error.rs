//! Errors as a client hears them, in its own dialect.
//!
//! It refuses to know how they came about. Invariant: what is said names what happened and what to do, and holds no key.

use crate::respond::headers::CALL_HEADER;
use crate::state::lane_health::{LaneFailure, format_seconds};
use bytes::Bytes;
use http::header::{ALLOW, CONNECTION, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use serde_json::Value;
use std::sync::Arc;
use tokrate_core::{FailureKind, Span, Tick};
use tokrate_route::{Blame, BreakerState};
use tokrate_wire::{Dialect, TranslateError, encode_refusal, status_of};

/// Why a call is not answered.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct ErrorResponse {
    pub status: StatusCode,
    pub message: String,
    /// How long to wait before asking again.
    pub retry_after: Option<Span>,
    /// Details in the words of Anthropic's errors (JSON), for clients that act on them.
    pub details: Option<&'static str>,
    /// The call's name in the log, where attempts were begun.
    pub call: Option<String>,
}

/// Lanes whose cause is told in one message.
const MAX_LANES_LISTED: usize = 8;

/// A lane that cannot be asked now.
pub(crate) struct UnavailableLane {
    pub name: String,
    pub breaker: BreakerState,
    /// How it failed last.
    pub trouble: Option<Arc<LaneFailure>>,
}

impl UnavailableLane {
    fn cause(&self, now: Tick) -> String {
        let cause = || self.trouble.as_ref().map_or_else(|| "it failed".to_owned(), |trouble| trouble.summary());
        let name = &self.name;
        match self.breaker {
            BreakerState::Open { until, .. } => {
                format!("lane {name}: {}, asked again in {}", cause(), format_seconds(until - now))
            }
            BreakerState::HalfOpen { .. } => format!("lane {name}: {}, another call is trying it", cause()),
            BreakerState::Closed => format!("lane {name}: it is full"),
        }
    }
}

/// What tells Anthropic's SDKs to send the whole conversation instead of a thread.
const THREAD_UNSUPPORTED: &str = r#"{"error_code":"thread_unsupported_request"}"#;

impl ErrorResponse {
    pub fn new(status: StatusCode, message: impl Into<String>) -> ErrorResponse {
        ErrorResponse { status, message: message.into(), retry_after: None, details: None, call: None }
    }

    pub fn bad_request(message: impl Into<String>) -> ErrorResponse {
        ErrorResponse::new(StatusCode::BAD_REQUEST, message)
    }

    /// What a lane's failure is to the client: a lane's own troubles are those of the gateway, not of the client's request.
    pub fn of_failure(kind: FailureKind, lane: &str, message: &str, retry_after: Option<Span>) -> ErrorResponse {
        let status = StatusCode::from_u16(status_of(kind)).expect("statuses of failures are statuses of HTTP");
        let said = if message.is_empty() { String::new() } else { format!(": {message}") };
        let message = match kind {
            FailureKind::Unauthorized => format!("lane {lane}: the provider refused the gateway's key{said}"),
            FailureKind::ModelNotFound => format!("lane {lane}: the provider does not have the gateway's model{said}"),
            _ => format!("lane {lane}: {}{said}", kind.name().replace('_', " ")),
        };
        ErrorResponse { retry_after, ..ErrorResponse::new(status, message) }
    }

    /// What it is when the only lanes that could be asked have names without an address.
    pub fn without_address(lane: &str, said: &str, every: Span) -> ErrorResponse {
        let message = format!("lane {lane}: {said}; it is looked for again every minute");
        ErrorResponse { retry_after: Some(every), ..ErrorResponse::new(StatusCode::SERVICE_UNAVAILABLE, message) }
    }

    /// What it is when a key with a limit in dollars asks for lanes of which nobody knows what they cost.
    pub fn without_price(lanes: &[&str]) -> ErrorResponse {
        let message = format!(
            "the key has a limit in dollars, and what is asked for leads only to lanes whose price is not known ({}); set \
             `price` under [gateway.lanes.{}], with zeros where nobody bills",
            lanes.join(", "),
            lanes.first().unwrap_or(&"NAME")
        );
        ErrorResponse::new(StatusCode::FORBIDDEN, message)
    }

    /// What it is when the bodies of open calls hold as much as they may.
    pub fn without_room() -> ErrorResponse {
        let message = "the requests of open calls hold as many bytes as the gateway's limit `bodies_bytes` allows";
        let retry_after = Some(Span::from_secs(1));
        ErrorResponse { retry_after, ..ErrorResponse::new(StatusCode::SERVICE_UNAVAILABLE, message) }
    }

    /// What a request is that cannot be put to a lane of another dialect.
    pub fn untranslatable(error: &TranslateError) -> ErrorResponse {
        // Anthropic's SDKs begin threads by themselves, and go on without one when they hear this.
        let is_thread = error.from == Dialect::Anthropic && error.field == "thread";
        ErrorResponse {
            details: is_thread.then_some(THREAD_UNSUPPORTED),
            ..ErrorResponse::bad_request(error.to_string())
        }
    }

    /// What it is when the call's whole time was up before any attempt had answered.
    pub fn out_of_time(alias: &str) -> ErrorResponse {
        ErrorResponse::new(StatusCode::GATEWAY_TIMEOUT, format!("`{alias}`: its time was up"))
    }

    /// What it is when none of the lanes has embeddings, and why each has none.
    pub fn without_embeddings(alias: &str, obstacles: &[String]) -> ErrorResponse {
        let said = obstacles.join("; ");
        let hint = "write `embeddings = true` under [gateway.lanes.NAME] of one that has them";
        ErrorResponse::bad_request(format!("`{alias}` has no embeddings: {said}; {hint}"))
    }

    /// What it is when no lane could be asked, and why each could not. Lanes that all cool down because they were asked too
    /// much say so, and when to come again.
    pub fn without_lane(alias: &str, lanes: &[UnavailableLane], now: Tick) -> ErrorResponse {
        let open: Vec<(Tick, Blame)> = lanes
            .iter()
            .filter_map(|lane| match lane.breaker {
                BreakerState::Open { until, why } => Some((until, why)),
                _ => None,
            })
            .collect();
        let for_load = open.len() == lanes.len() && open.iter().all(|(_, why)| *why == Blame::Load);
        let (status, said) = match for_load {
            true => (StatusCode::TOO_MANY_REQUESTS, "all of its lanes cool down after being asked too much"),
            false => (StatusCode::SERVICE_UNAVAILABLE, "none of its lanes can be asked now"),
        };
        let mut causes: Vec<String> = lanes.iter().take(MAX_LANES_LISTED).map(|lane| lane.cause(now)).collect();
        if let Some(more) = lanes.len().checked_sub(MAX_LANES_LISTED).filter(|more| *more > 0) {
            causes.push(format!("and {more} more"));
        }
        let causes = causes.join("; ");
        let retry_after = open.iter().map(|(until, _)| *until - now).min();
        ErrorResponse { retry_after, ..ErrorResponse::new(status, format!("`{alias}`: {said}: {causes}")) }
    }

    /// The answer that says so.
    pub fn into_response(self, dialect: Dialect) -> Response<Bytes> {
        let mut body = encode_refusal(dialect, self.status.as_u16(), &self.message);
        if let Some(details) = self.details.filter(|_| dialect == Dialect::Anthropic) {
            body = with_details(&body, details).unwrap_or(body);
        }
        let mut response = Response::new(Bytes::from(body));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(wait) = self.retry_after {
            // Whole seconds, never fewer than asked for.
            headers.insert(RETRY_AFTER, HeaderValue::from(wait.as_nanos().div_ceil(1_000_000_000)));
        }
        if self.status == StatusCode::METHOD_NOT_ALLOWED {
            headers.insert(ALLOW, HeaderValue::from_static("GET, POST"));
        }
        if matches!(self.status, StatusCode::PAYLOAD_TOO_LARGE | StatusCode::REQUEST_TIMEOUT) {
            // The rest of the request is not read: nothing can follow it on this connection.
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        if let Some(Ok(call)) = self.call.as_deref().map(HeaderValue::from_str) {
            headers.insert(HeaderName::from_static(CALL_HEADER), call);
        }
        response
    }
}

/// An error of Anthropic's form with details.
fn with_details(body: &[u8], details: &str) -> Option<Vec<u8>> {
    let mut told: Value = serde_json::from_slice(body).ok()?;
    told.get_mut("error")?.as_object_mut()?.insert("details".to_owned(), serde_json::from_str(details).ok()?);
    Some(told.to_string().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_that_were_all_asked_too_much_say_when_to_come_again() {
        let at = |format_seconds| Tick::ZERO + Span::from_secs(format_seconds);
        let open = |format_seconds, why| BreakerState::Open { until: at(format_seconds), why };
        let error = |breakers: &[BreakerState]| {
            let lane =
                |breaker: &BreakerState| UnavailableLane { name: "l".to_owned(), breaker: *breaker, trouble: None };
            let lanes: Vec<UnavailableLane> = breakers.iter().map(lane).collect();
            let error = ErrorResponse::without_lane("a", &lanes, at(10));
            (error.status.as_u16(), error.retry_after)
        };
        let wait = |format_seconds| Some(Span::from_secs(format_seconds));
        assert_eq!(error(&[open(15, Blame::Load), open(12, Blame::Load)]), (429, wait(2)));
        assert_eq!(error(&[open(15, Blame::Load), open(12, Blame::Lane)]), (503, wait(2)));
        assert_eq!(error(&[open(15, Blame::Load), BreakerState::Closed]), (503, wait(5)));
        assert_eq!(error(&[BreakerState::Closed]), (503, None));
    }

    #[test]
    fn every_lane_that_cannot_be_asked_says_why_and_until_when() {
        let now = Tick::ZERO + Span::from_secs(10);
        let lane = |name: &str, breaker| UnavailableLane { name: name.to_owned(), breaker, trouble: None };
        let trouble = LaneFailure {
            kind: FailureKind::Unauthorized,
            status: Some(StatusCode::UNAUTHORIZED),
            message: "no such key".to_owned(),
            refusal: None,
        };
        let open = BreakerState::Open { until: now + Span::from_millis(1_500), why: Blame::Key };
        let refused = UnavailableLane { trouble: Some(Arc::new(trouble)), ..lane("one", open) };
        let lanes =
            [refused, lane("two", BreakerState::HalfOpen { probing: true }), lane("three", BreakerState::Closed)];
        assert_eq!(
            ErrorResponse::without_lane("a", &lanes, now).message,
            "`a`: none of its lanes can be asked now: lane one: unauthorized (401): no such key, asked again in 2 s; \
             lane two: it failed, another call is trying it; lane three: it is full"
        );
        let many: Vec<UnavailableLane> = (0..100).map(|_| lane("x", open)).collect();
        assert!(ErrorResponse::without_lane("a", &many, now).message.ends_with("; and 92 more"));
    }
}
