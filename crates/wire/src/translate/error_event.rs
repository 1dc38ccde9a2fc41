//! Errors that a gateway must report itself, in each dialect.
//!
//! Invariant: what is written ends the stream as far as its dialect has an end for that, and never with the mark of a
//! complete answer.

use crate::codec::{Framing, Shape, StreamPosition};
use crate::dialect::Dialect;
use tokrate_core::FailureKind;

/// The HTTP status with which a gateway answers when its upstream failed in that way.
pub fn status_of(kind: FailureKind) -> u16 {
    match kind {
        FailureKind::BadRequest => 400,
        FailureKind::EditRefused => 422,
        FailureKind::NotFound => 404,
        FailureKind::TooLarge => 502,
        FailureKind::RateLimited => 429,
        FailureKind::Overloaded => 503,
        FailureKind::ConnectTimeout | FailureKind::Stalled | FailureKind::FirstTokenTimeout | FailureKind::TimedOut => {
            504
        }
        // A key that the upstream refuses is the gateway's, not the client's.
        _ => 502,
    }
}

/// The bytes that end a stream of that dialect with an error. `sent` is the end of what was sent of it (a few bytes will do;
/// none if nothing was sent): an event that was begun is closed first.
pub fn error_event(dialect: Dialect, shape: Shape, kind: FailureKind, message: &str, sent: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let end: &[u8] = match dialect.framing(shape) {
        Some(Framing::Array | Framing::EventStream) => b"",
        Some(Framing::Lines) => b"\n",
        Some(Framing::Sse) | None => b"\n\n",
    };
    if !sent.is_empty() && !sent.ends_with(end) && !sent.ends_with(b"\r\n\r\n") {
        out.extend_from_slice(end);
    }
    let position = StreamPosition { begun: !sent.trim_ascii().is_empty(), sequence: 0 };
    (dialect.codec().push_error_event)(shape, status_of(kind), message, position, &mut out);
    out
}
