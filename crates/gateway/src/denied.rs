//! Errors as a client hears them, in its own dialect.
//!
//! It refuses to know how they came about. Invariant: what is said names what happened and what to do, and holds no key.

use crate::body::CallBody;
use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use tokrate_core::{FailureKind, Span};
use tokrate_wire::{Dialect, encode_refusal};

/// Why a call is not answered.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Denied {
    pub status: StatusCode,
    pub message: String,
    /// How long to wait before asking again.
    pub retry_after: Option<Span>,
}

impl Denied {
    pub fn new(status: StatusCode, message: impl Into<String>) -> Denied {
        Denied { status, message: message.into(), retry_after: None }
    }

    pub fn bad_request(message: impl Into<String>) -> Denied {
        Denied::new(StatusCode::BAD_REQUEST, message)
    }

    /// What a lane's failure is to the client: a lane's own troubles are those of the gateway, not of the client's request.
    pub fn of_failure(kind: FailureKind, lane: &str, message: &str, retry_after: Option<Span>) -> Denied {
        use FailureKind::*;
        let status = match kind {
            BadRequest => StatusCode::BAD_REQUEST,
            NotFound => StatusCode::NOT_FOUND,
            RateLimited => StatusCode::TOO_MANY_REQUESTS,
            Overloaded => StatusCode::SERVICE_UNAVAILABLE,
            ConnectTimeout | Stalled | TimedOut | FirstTokenTimeout => StatusCode::GATEWAY_TIMEOUT,
            _ => StatusCode::BAD_GATEWAY,
        };
        let said = if message.is_empty() { String::new() } else { format!(": {message}") };
        let message = match kind {
            Unauthorized => format!("lane {lane}: the provider refused the gateway's key{said}"),
            _ => format!("lane {lane}: {}{said}", kind.name().replace('_', " ")),
        };
        Denied { status, message, retry_after }
    }

    /// What it is when no lane could be asked, or the call's whole time was up.
    pub fn without_attempt(kind: FailureKind, alias: &str, retry_after: Option<Span>) -> Denied {
        let (status, said) = match kind {
            FailureKind::TimedOut => (StatusCode::GATEWAY_TIMEOUT, "its time was up"),
            _ => (
                StatusCode::SERVICE_UNAVAILABLE,
                "none of its lanes can be asked now: they cool down after failures, or are full",
            ),
        };
        Denied { status, message: format!("`{alias}`: {said}"), retry_after }
    }

    /// The answer that says so.
    pub fn into_response(self, dialect: Dialect) -> Response<CallBody> {
        let body = encode_refusal(dialect, self.status.as_u16(), &self.message);
        let mut response = Response::new(CallBody::plain(Bytes::from(body)));
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
        response
    }
}
