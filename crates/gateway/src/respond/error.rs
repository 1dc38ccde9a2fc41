//! Error responses in the client's own dialect.
//!
//! Invariant: a message says what happened and what to do, and holds no key.

use crate::respond::headers::CALL_HEADER;
use crate::state::lane_health::{LaneFailure, format_seconds};
use bytes::Bytes;
use http::header::{ALLOW, CONNECTION, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use serde_json::Value;
use std::sync::Arc;
use tokrate_core::{FailureKind, Span, Tick};
use tokrate_record::RefusalReason;
use tokrate_route::{Blame, BreakerState};
use tokrate_wire::{Dialect, TranslateError, encode_error_response, status_of};

/// An error that a client gets instead of an answer.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct ErrorResponse {
    pub status: StatusCode,
    pub message: String,
    /// How it is counted, if no attempt was started.
    pub reason: RefusalReason,
    /// When the client may retry.
    pub retry_after: Option<Span>,
    /// Details in Anthropic's form (JSON), for SDKs that act on them.
    pub details: Option<&'static str>,
    /// The call's id in the log, if attempts were started.
    pub call: Option<String>,
}

/// Most lanes that one message explains.
const MAX_LANES_LISTED: usize = 8;

/// A lane that cannot take a call now.
pub(crate) struct UnavailableLane {
    pub name: String,
    pub breaker: BreakerState,
    /// Its last failure.
    pub last_failure: Option<Arc<LaneFailure>>,
}

impl UnavailableLane {
    fn cause(&self, now: Tick) -> String {
        let cause =
            || self.last_failure.as_ref().map_or_else(|| "it failed".to_owned(), |last_failure| last_failure.summary());
        let name = &self.name;
        match self.breaker {
            BreakerState::Open { until, .. } => {
                format!("lane {name}: {}, retried in {}", cause(), format_seconds(until - now))
            }
            BreakerState::HalfOpen { .. } => format!("lane {name}: {}, another call is probing it", cause()),
            BreakerState::Closed => format!("lane {name}: at its limit of calls in flight"),
        }
    }
}

/// Makes Anthropic's SDKs send the whole conversation instead of a thread.
const THREAD_UNSUPPORTED: &str = r#"{"error_code":"thread_unsupported_request"}"#;

impl ErrorResponse {
    pub fn new(status: StatusCode, message: impl Into<String>) -> ErrorResponse {
        let reason = RefusalReason::of(status.as_u16());
        ErrorResponse { status, message: message.into(), reason, retry_after: None, details: None, call: None }
    }

    pub fn bad_request(message: impl Into<String>) -> ErrorResponse {
        ErrorResponse::new(StatusCode::BAD_REQUEST, message)
    }

    /// For a failed attempt. What is wrong with a lane is a gateway error, not a fault of the client's request.
    pub fn of_failure(kind: FailureKind, lane: &str, message: &str, retry_after: Option<Span>) -> ErrorResponse {
        let status = StatusCode::from_u16(status_of(kind)).expect("statuses of failures are statuses of HTTP");
        let detail = if message.is_empty() { String::new() } else { format!(": {message}") };
        let message = match kind {
            FailureKind::Unauthorized => format!("lane {lane}: the provider rejected the gateway's key{detail}"),
            FailureKind::ModelNotFound => {
                format!("lane {lane}: the provider does not have the configured model{detail}")
            }
            _ => format!("lane {lane}: {}{detail}", kind.name().replace('_', " ")),
        };
        ErrorResponse { retry_after, ..ErrorResponse::new(status, message) }
    }

    /// For lanes whose host names have no address.
    pub fn unresolved(lane: &str, reason: &str, interval: Span) -> ErrorResponse {
        let message = format!("lane {lane}: {reason}; its name is resolved again every minute");
        ErrorResponse { retry_after: Some(interval), ..ErrorResponse::new(StatusCode::SERVICE_UNAVAILABLE, message) }
    }

    /// For a key with a budget, if no lane has a known price.
    pub fn unpriced(lanes: &[&str], service: Option<&str>) -> ErrorResponse {
        let name = lanes.first().unwrap_or(&"NAME");
        // What a call of these costs does not follow from tokens.
        let setting = match service.filter(|service| *service != "embeddings") {
            Some(service) => {
                format!("`price`, and `fees = {{ {service} = … }}` where a call has a price of its own, under")
            }
            None => "`price` under".to_owned(),
        };
        let message = format!(
            "the key has a budget, and only lanes without a known price could answer ({}); set {setting} [gateway.lanes.{name}], \
             with zeros if it is free",
            lanes.join(", ")
        );
        ErrorResponse::new(StatusCode::FORBIDDEN, message)
    }

    /// For a request whose body finds no room beside those of open calls.
    pub fn bodies_full() -> ErrorResponse {
        let message = "the gateway holds as many bytes of requests as its limit `bodies_bytes` allows; retry later";
        let retry_after = Some(Span::from_secs(1));
        ErrorResponse { retry_after, ..ErrorResponse::new(StatusCode::SERVICE_UNAVAILABLE, message) }
    }

    /// For a request that no lane's dialect can express.
    pub fn untranslatable(error: &TranslateError) -> ErrorResponse {
        // Anthropic's SDKs start threads by themselves, and go on without one after this error.
        let is_thread = error.from == Dialect::Anthropic && error.field == "thread";
        ErrorResponse {
            details: is_thread.then_some(THREAD_UNSUPPORTED),
            ..ErrorResponse::bad_request(error.to_string())
        }
    }

    /// For a call that timed out before any lane answered.
    pub fn timed_out(alias: &str) -> ErrorResponse {
        ErrorResponse::new(
            StatusCode::GATEWAY_TIMEOUT,
            format!("`{alias}`: the call timed out before any lane answered"),
        )
    }

    /// For a service that no lane of an alias has, with each lane's reason and the lanes that have it.
    pub fn not_served(alias: &str, service: &str, obstacles: &[String], elsewhere: &[&str]) -> ErrorResponse {
        let reasons = obstacles.iter().take(MAX_LANES_LISTED).map(String::as_str).collect::<Vec<_>>().join("; ");
        let hint = match elsewhere {
            [] => format!("set `serves = [\"{service}\"]` under [gateway.lanes.NAME] of a lane whose provider has it"),
            _ => {
                let named = elsewhere.iter().take(MAX_LANES_LISTED).copied().collect::<Vec<_>>().join(", ");
                let more = match elsewhere.len().saturating_sub(MAX_LANES_LISTED) {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                format!("ask for one that may have it: {named}{more}")
            }
        };
        ErrorResponse::new(StatusCode::NOT_FOUND, format!("`{alias}` has no lane with `{service}`: {reasons}; {hint}"))
    }

    /// For a call that no lane can take now, with each lane's reason. If all are rate-limited it is a 429 with the time
    /// to wait.
    pub fn no_lane_available(alias: &str, lanes: &[UnavailableLane], now: Tick) -> ErrorResponse {
        let open: Vec<(Tick, Blame)> = lanes
            .iter()
            .filter_map(|lane| match lane.breaker {
                BreakerState::Open { until, blame } => Some((until, blame)),
                _ => None,
            })
            .collect();
        let is_rate_limited = open.len() == lanes.len() && open.iter().all(|(_, blame)| *blame == Blame::Load);
        let (status, summary) = match is_rate_limited {
            true => (StatusCode::TOO_MANY_REQUESTS, "all of its lanes are rate-limited"),
            false => (StatusCode::SERVICE_UNAVAILABLE, "none of its lanes is available"),
        };
        let mut causes: Vec<String> = lanes.iter().take(MAX_LANES_LISTED).map(|lane| lane.cause(now)).collect();
        if let Some(more) = lanes.len().checked_sub(MAX_LANES_LISTED).filter(|more| *more > 0) {
            causes.push(format!("and {more} more"));
        }
        let causes = causes.join("; ");
        let retry_after = open.iter().map(|(until, _)| *until - now).min();
        ErrorResponse { retry_after, ..ErrorResponse::new(status, format!("`{alias}`: {summary}: {causes}")) }
    }

    /// The HTTP response.
    pub fn into_response(self, dialect: Dialect) -> Response<Bytes> {
        let mut body = encode_error_response(dialect, self.status.as_u16(), &self.message);
        if let Some(details) = self.details.filter(|_| dialect == Dialect::Anthropic) {
            body = with_details(&body, details).unwrap_or(body);
        }
        let mut response = Response::new(Bytes::from(body));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(wait) = self.retry_after {
            headers.insert(RETRY_AFTER, whole_seconds(wait));
        }
        if self.status == StatusCode::METHOD_NOT_ALLOWED {
            headers.insert(ALLOW, HeaderValue::from_static("GET, POST"));
        }
        if matches!(self.status, StatusCode::PAYLOAD_TOO_LARGE | StatusCode::REQUEST_TIMEOUT) {
            // The rest of the body is not read, so the connection cannot be reused.
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        if let Some(Ok(call)) = self.call.as_deref().map(HeaderValue::from_str) {
            headers.insert(HeaderName::from_static(CALL_HEADER), call);
        }
        response
    }
}

/// Whole seconds, rounded up.
pub(crate) fn whole_seconds(wait: Span) -> HeaderValue {
    HeaderValue::from(wait.as_nanos().div_ceil(1_000_000_000))
}

/// Adds details to an error in Anthropic's form.
fn with_details(body: &[u8], details: &str) -> Option<Vec<u8>> {
    let mut error: Value = serde_json::from_slice(body).ok()?;
    error.get_mut("error")?.as_object_mut()?.insert("details".to_owned(), serde_json::from_str(details).ok()?);
    Some(error.to_string().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_that_are_all_rate_limited_say_when_to_retry() {
        let at = |format_seconds| Tick::ZERO + Span::from_secs(format_seconds);
        let open = |format_seconds, blame| BreakerState::Open { until: at(format_seconds), blame };
        let error = |breakers: &[BreakerState]| {
            let lane = |breaker: &BreakerState| UnavailableLane {
                name: "l".to_owned(),
                breaker: *breaker,
                last_failure: None,
            };
            let lanes: Vec<UnavailableLane> = breakers.iter().map(lane).collect();
            let error = ErrorResponse::no_lane_available("a", &lanes, at(10));
            (error.status.as_u16(), error.retry_after)
        };
        let wait = |format_seconds| Some(Span::from_secs(format_seconds));
        assert_eq!(error(&[open(15, Blame::Load), open(12, Blame::Load)]), (429, wait(2)));
        assert_eq!(error(&[open(15, Blame::Load), open(12, Blame::Lane)]), (503, wait(2)));
        assert_eq!(error(&[open(15, Blame::Load), BreakerState::Closed]), (503, wait(5)));
        assert_eq!(error(&[BreakerState::Closed]), (503, None));
    }

    #[test]
    fn every_unavailable_lane_says_why_and_until_when() {
        let now = Tick::ZERO + Span::from_secs(10);
        let lane = |name: &str, breaker| UnavailableLane { name: name.to_owned(), breaker, last_failure: None };
        let last_failure = LaneFailure {
            kind: FailureKind::Unauthorized,
            status: Some(StatusCode::UNAUTHORIZED),
            message: "no such key".to_owned(),
            refusal: None,
        };
        let open = BreakerState::Open { until: now + Span::from_millis(1_500), blame: Blame::Key };
        let refused = UnavailableLane { last_failure: Some(Arc::new(last_failure)), ..lane("one", open) };
        let lanes =
            [refused, lane("two", BreakerState::HalfOpen { probing: true }), lane("three", BreakerState::Closed)];
        assert_eq!(
            ErrorResponse::no_lane_available("a", &lanes, now).message,
            "`a`: none of its lanes is available: lane one: unauthorized (401): no such key, retried in 2 s; \
             lane two: it failed, another call is probing it; lane three: at its limit of calls in flight"
        );
        let many: Vec<UnavailableLane> = (0..100).map(|_| lane("x", open)).collect();
        assert!(ErrorResponse::no_lane_available("a", &many, now).message.ends_with("; and 92 more"));
    }
}
