//! Error bodies and error events: the kind of failure, the message, and how long to wait.
//!
//! Invariant: the message is bounded and free of control characters, whatever the server sent.

use crate::json_text::lossy;
use serde_json::Value;
use std::time::{Duration, UNIX_EPOCH};
use tokrate_core::{FailureKind, Span, one_line};

/// Longest message kept, in bytes.
const MAX_MESSAGE_BYTES: usize = 500;

/// Most limit headers kept, and the longest value of one.
const MAX_LIMITS: usize = 32;
const MAX_LIMIT_BYTES: usize = 100;

/// The `type` of the error with which a merge engine refuses an edit.
const EDIT_REFUSED: &str = "apply_refused";

/// Larger values are ignored: such numbers are dates in seconds or milliseconds, not durations.
const MAX_WAIT_SECONDS: f64 = 1e8;

/// A decoded response with an error status.
#[derive(Clone, PartialEq, Debug)]
pub struct ErrorResponse {
    /// What kind of failure it is.
    pub kind: FailureKind,
    /// The server's message, at most 500 bytes on one line.
    pub message: String,
    /// How long the server asks to wait.
    pub retry_after: Option<Span>,
    /// Rate-limit headers as they came, name and value.
    pub limits: Vec<(String, String)>,
}

/// Decodes a response whose status is not 2xx. Error bodies of all dialects are recognised by their fields, so the dialect
/// need not be known. Header names are expected in lower case. `wall_seconds` is the local time at which it came (s since 1970).
pub fn decode_error_response(
    status: u16,
    headers: &[(&str, &str)],
    body: &[u8],
    wall_seconds: Option<u64>,
) -> ErrorResponse {
    // An error is short; a page of megabytes is not read to its end.
    let (text, _) = lossy(&body[..body.len().min(64 << 10)]);
    let error = match compression(headers, body) {
        Some(coding) => {
            ErrorBody::of_message(format!("the server's message is compressed ({coding}), which was not asked for"))
        }
        None => ErrorBody::read(&text),
    };
    let mut kind = kind_of_status(status);
    // Some servers answer 400 about a model that is not there or a key that is not valid.
    if kind == FailureKind::BadRequest
        && let Some(named @ (FailureKind::NotFound | FailureKind::Unauthorized)) = error.kind()
    {
        kind = named;
    }
    if status == 422 && error.labels.contains(EDIT_REFUSED) {
        kind = FailureKind::EditRefused;
    }
    let mut retry_after = wait_from_headers(headers, wall_seconds);
    if retry_after.is_none() {
        retry_after = error.retry_after;
    }
    if retry_after.is_none() && kind == FailureKind::RateLimited {
        retry_after = wait_from_limits(headers);
    }
    let limits = headers
        .iter()
        .filter(|(name, _)| name.contains("ratelimit") || name.starts_with("retry-after"))
        .take(MAX_LIMITS)
        .map(|(name, value)| (one_line(name, MAX_LIMIT_BYTES), one_line(value, MAX_LIMIT_BYTES)))
        .collect();
    let mut message = error.message;
    let has_room = message.len() + CLOCK_HINT.len() <= MAX_MESSAGE_BYTES;
    if kind == FailureKind::Unauthorized && is_about_the_time(&message) && has_room {
        message.push_str(CLOCK_HINT);
    }
    ErrorResponse { kind, message, retry_after, limits }
}

/// What AWS refuses a signature for whose time is more than five minutes from its own.
fn is_about_the_time(message: &str) -> bool {
    message.starts_with("Signature expired") || message.starts_with("Signature not yet current")
}

const CLOCK_HINT: &str = " (is this machine's clock right?)";

/// How a body is compressed, if it is: as its headers say, or its first bytes do.
fn compression(headers: &[(&str, &str)], body: &[u8]) -> Option<String> {
    let stated = headers.iter().find(|(name, _)| *name == "content-encoding").map(|(_, value)| value.trim());
    match (stated.filter(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case("identity")), body) {
        (Some(coding), [_, ..]) => Some(one_line(coding, MAX_LIMIT_BYTES)),
        (None, [0x1f, 0x8b, ..]) => Some("gzip".to_owned()),
        _ => None,
    }
}

fn kind_of_status(status: u16) -> FailureKind {
    match status {
        // No credit is a right that the key lacks.
        401..=403 => FailureKind::Unauthorized,
        404 => FailureKind::NotFound,
        429 => FailureKind::RateLimited,
        400 | 413 | 422 => FailureKind::BadRequest,
        503 | 529 => FailureKind::Overloaded,
        500..=599 => FailureKind::ServerError,
        _ => FailureKind::UnexpectedStatus,
    }
}

/// The error object of a body or an event, in any of the usual wrappings.
pub(crate) struct ErrorBody {
    /// Its message, bounded and on one line.
    pub(crate) message: String,
    /// How long it asks to wait.
    pub(crate) retry_after: Option<Span>,
    /// Status code that it names.
    status: Option<u16>,
    /// Its `type`, `code` and `status`, and the reasons of its details, in lower case.
    labels: String,
}

impl ErrorBody {
    /// One of which nothing but a message is known.
    fn of_message(message: String) -> ErrorBody {
        ErrorBody { message, retry_after: None, status: None, labels: String::new() }
    }

    /// Reads an error from JSON, or takes the text itself as the message.
    pub(crate) fn read(text: &str) -> ErrorBody {
        let Ok(mut value) = serde_json::from_str::<Value>(text) else {
            return ErrorBody::of_message(one_line(text, MAX_MESSAGE_BYTES));
        };
        if let Value::Array(values) = &mut value
            && !values.is_empty()
        {
            value = values.swap_remove(0);
        }
        let inner = value.get_mut("error").map(Value::take).filter(|inner| !inner.is_null());
        let error = inner.unwrap_or(value);
        let mut labels = String::new();
        let mut status = None;
        for field in ["type", "code", "status"] {
            match &error[field] {
                Value::Number(number) => status = number.as_u64().and_then(|number| u16::try_from(number).ok()),
                Value::String(label) => match label.parse() {
                    Ok(number) => status = Some(number),
                    Err(_) => {
                        labels.push_str(&label.to_ascii_lowercase());
                        labels.push(' ');
                    }
                },
                _ => {}
            }
        }
        // Google's reason stands in a list of details.
        for reason in error["details"].as_array().into_iter().flatten().filter_map(|detail| detail["reason"].as_str()) {
            labels.push_str(&reason.to_ascii_lowercase());
            labels.push(' ');
        }
        ErrorBody {
            message: one_line(&message_of(&error), MAX_MESSAGE_BYTES),
            retry_after: wait_from_body(&error),
            status,
            labels,
        }
    }

    /// The kind of failure that the error names, if it names one.
    pub(crate) fn kind(&self) -> Option<FailureKind> {
        const LABELS: [(&str, FailureKind); 25] = [
            ("rate_limit", FailureKind::RateLimited),
            ("ratelimit", FailureKind::RateLimited),
            ("resource_exhausted", FailureKind::RateLimited),
            ("too_many_requests", FailureKind::RateLimited),
            ("insufficient_quota", FailureKind::RateLimited),
            ("overloaded", FailureKind::Overloaded),
            ("unavailable", FailureKind::Overloaded),
            ("authentication", FailureKind::Unauthorized),
            ("permission", FailureKind::Unauthorized),
            ("api_key", FailureKind::Unauthorized),
            ("not_found", FailureKind::NotFound),
            ("invalid_request", FailureKind::BadRequest),
            ("badrequest", FailureKind::BadRequest),
            ("bad_request", FailureKind::BadRequest),
            ("request_too_large", FailureKind::BadRequest),
            ("server_error", FailureKind::ServerError),
            // Anthropic's types for 500 and 504.
            ("api_error", FailureKind::ServerError),
            ("timeout_error", FailureKind::ServerError),
            // AWS's exceptions.
            ("throttlingexception", FailureKind::RateLimited),
            ("accessdenied", FailureKind::Unauthorized),
            ("resourcenotfound", FailureKind::NotFound),
            ("validationexception", FailureKind::BadRequest),
            ("internalserverexception", FailureKind::ServerError),
            ("modelstreamerror", FailureKind::ServerError),
            ("modeltimeout", FailureKind::ServerError),
        ];
        let labelled = LABELS.iter().find(|(label, _)| self.labels.contains(label)).map(|(_, kind)| *kind);
        let numbered = self.status.filter(|status| (400..600).contains(status)).map(kind_of_status);
        let kind = match (numbered, labelled) {
            // "Invalid request" is less specific than a status or the phrases below.
            (numbered, None | Some(FailureKind::BadRequest)) => numbered.or(labelled),
            (_, labelled) => labelled,
        };
        if matches!(kind, None | Some(FailureKind::BadRequest)) && is_model_not_found(&self.message) {
            return Some(FailureKind::NotFound);
        }
        kind
    }
}

fn is_model_not_found(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    message.contains("model")
        && ["not found", "does not exist", "doesn't exist", "unknown model", "no such model", "not a valid model"]
            .iter()
            .any(|phrase| message.contains(phrase))
}

fn message_of(error: &Value) -> String {
    if let Value::String(message) = error {
        return message.clone();
    }
    for field in ["message", "Message", "detail", "msg", "error_description"] {
        match &error[field] {
            Value::String(message) => return message.clone(),
            Value::Null => {}
            other => return other.to_string(),
        }
    }
    error.to_string()
}

/// `retry_after` in seconds, or Google's `retryDelay` such as `"27s"`.
fn wait_from_body(error: &Value) -> Option<Span> {
    let direct = ["retry_after", "retry_after_seconds"].iter().find_map(|field| match &error[*field] {
        Value::Number(seconds) => wait_of_seconds(seconds.as_f64()?),
        Value::String(text) => read_wait(text),
        _ => None,
    });
    let details = error["details"].as_array().map_or(&[][..], Vec::as_slice);
    direct.or_else(|| details.iter().find_map(|detail| read_wait(detail["retryDelay"].as_str()?)))
}

/// `retry-after-ms`, or `retry-after` in seconds or as a date, which is that much later than the response's own `date`: the
/// server's clock is the one that it counts by. Without a `date` it is counted from the local time.
fn wait_from_headers(headers: &[(&str, &str)], wall_seconds: Option<u64>) -> Option<Span> {
    let milliseconds = header(headers, "retry-after-ms").and_then(|text| text.trim().parse::<f64>().ok());
    let in_milliseconds = milliseconds.and_then(|milliseconds| wait_of_seconds(milliseconds / 1e3));
    let until = || {
        let at = |name: &str| httpdate::parse_http_date(header(headers, name)?.trim()).ok();
        let local = || Some(UNIX_EPOCH + Duration::from_secs(wall_seconds?));
        let wait = at("retry-after")?.duration_since(at("date").or_else(local)?).unwrap_or_default();
        wait_of_seconds(wait.as_secs_f64())
    };
    in_milliseconds.or_else(|| read_wait(header(headers, "retry-after")?)).or_else(until)
}

/// The wait that the limit headers imply: until every limit of which nothing remains is refilled; otherwise until the
/// first is.
fn wait_from_limits(headers: &[(&str, &str)]) -> Option<Span> {
    const LIMITS: [(&str, &str); 3] = [
        ("x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"),
        ("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
        ("x-ratelimit-remaining", "x-ratelimit-reset"),
    ];
    let (mut exhausted, mut any) = (None, None);
    for (remaining, reset) in LIMITS {
        let Some(wait) = header(headers, reset).and_then(read_wait) else { continue };
        if header(headers, remaining).is_some_and(|text| text.trim() == "0") {
            exhausted = exhausted.max(Some(wait));
        }
        any = Some(any.map_or(wait, |shortest: Span| shortest.min(wait)));
    }
    exhausted.or(any)
}

fn header<'h>(headers: &[(&str, &'h str)], wanted: &str) -> Option<&'h str> {
    headers.iter().find(|(name, _)| *name == wanted).map(|(_, value)| *value)
}

/// Seconds as a plain number, or a duration such as `6m0s`, `1.5s`, `20ms`.
fn read_wait(text: &str) -> Option<Span> {
    let text = text.trim();
    if let Ok(seconds) = text.parse() {
        return wait_of_seconds(seconds);
    }
    let mut rest = text;
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|character: char| !character.is_ascii_digit() && character != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        let after = &rest[digits..];
        let units = after.find(|character: char| character.is_ascii_digit()).unwrap_or(after.len());
        seconds += number
            * match &after[..units] {
                "d" => 86_400.0,
                "h" => 3_600.0,
                "m" => 60.0,
                "s" => 1.0,
                "ms" => 1e-3,
                "us" | "µs" => 1e-6,
                "ns" => 1e-9,
                _ => return None,
            };
        rest = &after[units..];
    }
    (!text.is_empty()).then(|| wait_of_seconds(seconds)).flatten()
}

fn wait_of_seconds(seconds: f64) -> Option<Span> {
    (0.0..=MAX_WAIT_SECONDS).contains(&seconds).then(|| Span::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests;
