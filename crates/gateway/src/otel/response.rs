//! What a collector's response means for the next export.
//!
//! Invariant: an error message holds no header's value, is one line, and is bounded.

use super::protobuf::{Fields, Value};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use tokrate_core::Span;
use tokrate_net::{Answer, ExchangeFailure, Secrets};

/// Longest excerpt of a collector's message (bytes).
const MAX_MESSAGE_BYTES: usize = 300;

/// The outcome of an export.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ExportOutcome {
    /// The collector accepted all of it.
    Accepted,
    /// The collector accepted a part of it, or accepted it with a warning.
    PartiallyAccepted(ExportError),
    /// The export can be retried, after this time if the collector gave one.
    Retry(Option<Span>, ExportError),
    /// The collector would reject the same export again.
    Rejected(ExportError),
}

/// Why an export failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ExportError {
    /// Distinguishes errors, so that each is reported once.
    pub kind: String,
    /// The message for people.
    pub message: String,
}

impl ExportOutcome {
    /// The outcome of a response.
    pub fn of_answer(answer: &Answer, secrets: &Secrets) -> ExportOutcome {
        let status = answer.head.status;
        let is_protobuf = answer.head.headers.get(CONTENT_TYPE).is_some_and(|kind| kind == "application/x-protobuf");
        if status.is_success() {
            return if is_protobuf { of_success(&answer.body, secrets) } else { ExportOutcome::Accepted };
        }
        let refusal = tokrate_wire::decode_error_response(
            status.as_u16(),
            &answer.head.text_headers(),
            if is_protobuf { &[] } else { &answer.body },
            None,
        );
        // `google.rpc.Status` has its message in field 2.
        let message = if is_protobuf { text_of(&answer.body, 2) } else { refusal.message };
        let message = sanitized(message, secrets);
        let error = ExportError {
            kind: status.as_str().to_owned(),
            message: if message.is_empty() {
                format!("responded {status}")
            } else {
                format!("responded {status}: {message}")
            },
        };
        match status {
            StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT => ExportOutcome::Retry(refusal.retry_after, error),
            _ => ExportOutcome::Rejected(error),
        }
    }

    /// The outcome of an exchange without a response.
    pub fn of_failure(failure: &ExchangeFailure, secrets: &Secrets) -> ExportOutcome {
        let error =
            ExportError { kind: failure.kind.name().to_owned(), message: sanitized(failure.detail.clone(), secrets) };
        ExportOutcome::Retry(None, error)
    }

    /// The outcome of an exchange that took too long.
    pub fn timed_out(timeout: Span) -> ExportOutcome {
        ExportOutcome::Retry(
            None,
            ExportError { kind: "timeout".to_owned(), message: format!("no response within {timeout}") },
        )
    }

    /// The error, if there is one.
    pub fn error(&self) -> Option<&ExportError> {
        match self {
            ExportOutcome::Accepted => None,
            ExportOutcome::PartiallyAccepted(error)
            | ExportOutcome::Retry(_, error)
            | ExportOutcome::Rejected(error) => Some(error),
        }
    }
}

/// An `ExportMetricsServiceResponse`: `partial_success` is its first field.
fn of_success(body: &[u8], secrets: &Secrets) -> ExportOutcome {
    let partial = Fields(body).find_map(|field| match field {
        (1, Value::Bytes(partial)) => Some(partial),
        _ => None,
    });
    let Some(partial) = partial else { return ExportOutcome::Accepted };
    let rejected = Fields(partial).find_map(|field| match field {
        (1, Value::Number(rejected)) => Some(rejected),
        _ => None,
    });
    let (rejected, message) = (rejected.unwrap_or(0), sanitized(text_of(partial, 2), secrets));
    match (rejected, message.is_empty()) {
        (0, true) => ExportOutcome::Accepted,
        (0, false) => ExportOutcome::PartiallyAccepted(ExportError {
            kind: "warning".to_owned(),
            message: format!("accepted with a warning: {message}"),
        }),
        _ => ExportOutcome::PartiallyAccepted(ExportError {
            kind: "rejected".to_owned(),
            message: format!("rejected {rejected} points: {message}"),
        }),
    }
}

/// A string field; empty if there is none.
fn text_of(message: &[u8], wanted: u64) -> String {
    let found = Fields(message).find_map(|field| match field {
        (number, Value::Bytes(text)) if number == wanted => Some(String::from_utf8_lossy(text).into_owned()),
        _ => None,
    });
    found.unwrap_or_default()
}

/// A collector's message in one bounded line, without secrets.
fn sanitized(message: String, secrets: &Secrets) -> String {
    let line: String = message.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    let mut line = secrets.redacted(line.trim().to_owned());
    if line.len() > MAX_MESSAGE_BYTES {
        line.truncate(line.floor_char_boundary(MAX_MESSAGE_BYTES));
        // The cut may have left a part of a key.
        line = secrets.redacted(line + "…");
    }
    line
}
