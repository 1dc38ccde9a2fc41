//! What a collector's answer means for the next export.
//!
//! It refuses to know when that is due. Invariant: what is said of a failure holds no value of a header, is one line, and is
//! bounded.

use super::protobuf::{Fields, Value};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use tokrate_core::Span;
use tokrate_net::{Answer, ExchangeFailure, Secrets};

/// Longest message of a collector that is told on (bytes).
const MAX_MESSAGE_BYTES: usize = 300;

/// What became of an export.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ExportOutcome {
    /// The collector has taken all of it.
    Accepted,
    /// It has taken a part, or has something to say.
    PartiallyAccepted(ExportError),
    /// It wants to be asked again, if it says so after this time.
    Retry(Option<Span>, ExportError),
    /// It will not take this either when asked again.
    Rejected(ExportError),
}

/// What went wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ExportError {
    /// What sets it apart from other trouble.
    pub kind: String,
    /// What it is, for people.
    pub message: String,
}

impl ExportOutcome {
    /// Of an answer.
    pub fn of_answer(answer: &Answer, secrets: &Secrets) -> ExportOutcome {
        let status = answer.head.status;
        let is_protobuf = answer.head.headers.get(CONTENT_TYPE).is_some_and(|kind| kind == "application/x-protobuf");
        if status.is_success() {
            return if is_protobuf { of_success(&answer.body, secrets) } else { ExportOutcome::Accepted };
        }
        let headers: Vec<(&str, &str)> = answer
            .head
            .headers
            .iter()
            .filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)))
            .collect();
        let refusal = tokrate_wire::refusal(status.as_u16(), &headers, if is_protobuf { &[] } else { &answer.body });
        // `google.rpc.Status` has its message in field 2.
        let message = if is_protobuf { text_of(&answer.body, 2) } else { refusal.message };
        let message = sanitized(message, secrets);
        let error = ExportError {
            kind: status.as_str().to_owned(),
            message: if message.is_empty() {
                format!("it answers {status}")
            } else {
                format!("it answers {status}: {message}")
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

    /// Of an exchange without an answer.
    pub fn of_failure(failure: &ExchangeFailure, secrets: &Secrets) -> ExportOutcome {
        let error =
            ExportError { kind: failure.kind.name().to_owned(), message: sanitized(failure.detail.clone(), secrets) };
        ExportOutcome::Retry(None, error)
    }

    /// Of one for which there was no time.
    pub fn timed_out(most: Span) -> ExportOutcome {
        ExportOutcome::Retry(
            None,
            ExportError { kind: "timeout".to_owned(), message: format!("it did not answer within {most}") },
        )
    }

    /// What went wrong, if anything did.
    pub fn error(&self) -> Option<&ExportError> {
        match self {
            ExportOutcome::Accepted => None,
            ExportOutcome::PartiallyAccepted(error)
            | ExportOutcome::Retry(_, error)
            | ExportOutcome::Rejected(error) => Some(error),
        }
    }
}

/// An `ExportMetricsServiceResponse`: what was rejected stands in its first field. That of spans is the same.
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
            message: format!("it says: {message}"),
        }),
        _ => ExportOutcome::PartiallyAccepted(ExportError {
            kind: "rejected".to_owned(),
            message: format!("it rejects {rejected} points: {message}"),
        }),
    }
}

/// A string of a message; empty where there is none.
fn text_of(message: &[u8], wanted: u64) -> String {
    let found = Fields(message).find_map(|field| match field {
        (number, Value::Bytes(text)) if number == wanted => Some(String::from_utf8_lossy(text).into_owned()),
        _ => None,
    });
    found.unwrap_or_default()
}

/// What a collector says as it may be shown.
fn sanitized(message: String, secrets: &Secrets) -> String {
    let line: String = message.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    let mut line = secrets.redacted(line.trim().to_owned());
    if line.len() > MAX_MESSAGE_BYTES {
        line.truncate(line.floor_char_boundary(MAX_MESSAGE_BYTES));
        // A key may be cut in two by this.
        line = secrets.redacted(line + "…");
    }
    line
}
