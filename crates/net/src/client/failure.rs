//! What kind of failure it is that an exchange did not come to its end.
//!
//! It refuses to guess beyond what is known. Invariant: no header value gets into a detail.

use crate::exchange::ExchangeFailure;
use crate::stamped::Stamps;
use crate::tls::tls_error;
use std::error::Error;
use std::io;
use tokrate_core::FailureKind;

/// First byte of a TLS alert and of a TLS handshake message.
const TLS_FIRST_BYTES: [u8; 2] = [0x15, 0x16];

/// How far the exchange had come.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// An HTTP/2 connection waits for its server's settings.
    Greeting,
    /// Not one byte of an answer was read.
    Silence,
    /// Some byte was read, but no whole head.
    Head,
    /// The head was read.
    Body,
}

pub(super) fn failure_of(error: &hyper::Error, stage: Stage, stamps: &Stamps) -> ExchangeFailure {
    let (kind, what) = classify(error, stage, stamps);
    let mut detail = format!("{what} ({error}");
    for cause in causes(error).skip(1) {
        let text = cause.to_string();
        // Wrappers repeat what they wrap.
        if !detail.ends_with(&text) {
            detail.push_str(": ");
            detail.push_str(&text);
        }
    }
    detail.push(')');
    ExchangeFailure { kind, detail }
}

fn classify(error: &hyper::Error, stage: Stage, stamps: &Stamps) -> (FailureKind, &'static str) {
    if causes(error).any(|cause| tls_error(cause).is_some()) {
        return (FailureKind::Tls, "the encrypted connection broke");
    }
    if stage == Stage::Greeting {
        let what = match stamps.first_byte() {
            None => return (FailureKind::Closed, "the server closed the connection without a greeting"),
            Some(b'H') => "the server does not speak HTTP/2; use HTTP/1.1",
            Some(first) if TLS_FIRST_BYTES.contains(&first) => {
                return (FailureKind::Tls, "the server speaks TLS on this port; use https://");
            }
            Some(_) => "the server's greeting is not HTTP/2 as it should be",
        };
        return (FailureKind::Protocol, what);
    }
    broke(stage)
}

/// What it is that a connection ended before its answer did.
fn broke(stage: Stage) -> (FailureKind, &'static str) {
    match stage {
        Stage::Silence | Stage::Greeting => (FailureKind::Closed, "the server closed the connection without an answer"),
        Stage::Head => (FailureKind::Protocol, "the connection ended in the head of the answer"),
        Stage::Body => (FailureKind::Truncated, "the answer broke off"),
    }
}

/// The server closed the connection, or it broke, before the answer's end.
pub(super) fn closed(error: Option<&io::Error>, stage: Stage) -> ExchangeFailure {
    let (kind, what) = match error.and_then(|error| tls_error(error)) {
        Some(_) => (FailureKind::Tls, "the encrypted connection broke"),
        None => broke(stage),
    };
    let detail = error.map_or_else(|| what.to_owned(), |error| format!("{what} ({error})"));
    ExchangeFailure { kind, detail }
}

/// What came is no head of HTTP/1.1.
pub(super) fn not_http(said: &str, stamps: &Stamps) -> ExchangeFailure {
    let (kind, what) = match stamps.first_byte() {
        Some(first) if TLS_FIRST_BYTES.contains(&first) => {
            (FailureKind::Tls, "the server speaks TLS on this port; use https://")
        }
        _ => (FailureKind::Protocol, "the answer is not HTTP as it should be"),
    };
    ExchangeFailure { kind, detail: format!("{what} ({said})") }
}

/// A head has no end.
pub(super) fn head_too_large(most: usize) -> ExchangeFailure {
    let detail = format!("the answer's head is larger than {most} bytes");
    ExchangeFailure { kind: FailureKind::Protocol, detail }
}

/// The framing of a body makes no sense.
pub(super) fn garbled() -> ExchangeFailure {
    let detail = "the body's framing is not HTTP as it should be (a chunk has no size, or no end)".to_owned();
    ExchangeFailure { kind: FailureKind::Protocol, detail }
}

fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}
