//! Classifies why an exchange failed. Invariant: no header value appears in a detail.

use crate::exchange::ExchangeFailure;
use crate::stamped::Stamps;
use crate::tls::tls_error;
use std::error::Error;
use std::io;
use tokrate_core::FailureKind;

/// First byte of a TLS alert and of a TLS handshake message.
const TLS_FIRST_BYTES: [u8; 2] = [0x15, 0x16];

/// How far the exchange had got when it failed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Waiting for the server's SETTINGS frame of a new HTTP/2 connection.
    Settings,
    /// No byte of the answer was read yet.
    AwaitingResponse,
    /// Part of the head was read.
    Head,
    /// The head was read; the body was not complete.
    Body,
}

pub(super) fn failure_of(error: &hyper::Error, stage: Stage, stamps: &Stamps) -> ExchangeFailure {
    let (kind, what) = classify(error, stage, stamps);
    let mut detail = format!("{what} ({error}");
    for cause in causes(error).skip(1) {
        let text = cause.to_string();
        // Some errors already include the message of their source.
        if !detail.ends_with(&text) {
            detail.push_str(": ");
            detail.push_str(&text);
        }
    }
    detail.push(')');
    ExchangeFailure { kind, detail }
}

/// Whether a server said that it did not begin with a request over HTTP/2 (RFC 9113, 8.7): it ends the connection in good order, or refuses
/// the stream. Such a request can be sent again whatever it does.
pub(super) fn is_unprocessed(error: &hyper::Error) -> bool {
    causes(error).filter_map(|cause| cause.downcast_ref::<h2::Error>()).any(|error| {
        let is_in_order = error.is_go_away() && error.reason() == Some(h2::Reason::NO_ERROR);
        error.is_remote() && (is_in_order || error.reason() == Some(h2::Reason::REFUSED_STREAM))
    })
}

fn classify(error: &hyper::Error, stage: Stage, stamps: &Stamps) -> (FailureKind, &'static str) {
    if stage != Stage::Settings && is_unprocessed(error) {
        return (FailureKind::Closed, "the server took no more requests on this connection");
    }
    if causes(error).any(|cause| tls_error(cause).is_some()) {
        return (FailureKind::Tls, "the TLS connection broke");
    }
    if stage == Stage::Settings {
        let what = match stamps.first_byte() {
            None => return (FailureKind::Closed, "the server closed the connection before its HTTP/2 settings"),
            Some(b'H') => "the server does not speak HTTP/2; use HTTP/1.1",
            Some(first) if TLS_FIRST_BYTES.contains(&first) => {
                return (FailureKind::Tls, "the server speaks TLS on this port; use https://");
            }
            Some(_) => "what the server sends is not valid HTTP/2",
        };
        return (FailureKind::Protocol, what);
    }
    connection_lost(stage)
}

/// The failure of a connection that ended before its answer, by stage.
fn connection_lost(stage: Stage) -> (FailureKind, &'static str) {
    match stage {
        Stage::AwaitingResponse | Stage::Settings => {
            (FailureKind::Closed, "the server closed the connection without an answer")
        }
        Stage::Head => (FailureKind::Protocol, "the connection ended within the answer's head"),
        Stage::Body => (FailureKind::Truncated, "the answer was cut off"),
    }
}

/// The connection was closed or failed before the end of the answer.
pub(super) fn closed(error: Option<&io::Error>, stage: Stage) -> ExchangeFailure {
    let (kind, what) = match error.and_then(|error| tls_error(error)) {
        Some(_) => (FailureKind::Tls, "the TLS connection broke"),
        None => connection_lost(stage),
    };
    let detail = error.map_or_else(|| what.to_owned(), |error| format!("{what} ({error})"));
    ExchangeFailure { kind, detail }
}

/// What was read is not an HTTP/1.1 head.
pub(super) fn not_http(reason: &str, stamps: &Stamps) -> ExchangeFailure {
    let (kind, what) = match stamps.first_byte() {
        Some(first) if TLS_FIRST_BYTES.contains(&first) => {
            (FailureKind::Tls, "the server speaks TLS on this port; use https://")
        }
        _ => (FailureKind::Protocol, "the answer is not valid HTTP"),
    };
    ExchangeFailure { kind, detail: format!("{what} ({reason})") }
}

/// The head exceeds its limit.
pub(super) fn head_too_large(limit: usize) -> ExchangeFailure {
    let detail = format!("the answer's head is larger than {limit} bytes");
    ExchangeFailure { kind: FailureKind::Protocol, detail }
}

/// The framing of a body is invalid.
pub(super) fn invalid_framing() -> ExchangeFailure {
    let detail = "the body's framing is not valid HTTP (a chunk without a size or an end)".to_owned();
    ExchangeFailure { kind: FailureKind::Protocol, detail }
}

fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}
