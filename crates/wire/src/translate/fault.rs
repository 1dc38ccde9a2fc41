//! Errors that a gateway must say itself, in the words of each dialect.
//!
//! It refuses to know why something failed. Invariant: what is written ends the stream as far as its dialect has an end for
//! that, and never with the mark of a complete answer.

use crate::dialect::{Dialect, Shape};
use crate::encoder::{encode_refusal, push_number};
use crate::json_text::push_string;
use tokrate_core::FailureKind;

/// The HTTP status with which a gateway answers when its upstream failed in that way.
pub fn status_of(kind: FailureKind) -> u16 {
    match kind {
        FailureKind::BadRequest => 400,
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

/// The bytes with which a stream of that dialect says that it failed, and ends. `sent` is the end of what was sent of it (a
/// few bytes will do; none if nothing was sent): an event that was begun is closed first.
pub fn error_event(dialect: Dialect, shape: Shape, kind: FailureKind, message: &str, sent: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let lines = matches!(dialect, Dialect::OllamaChat | Dialect::OllamaGenerate);
    let array = dialect == Dialect::Gemini && shape == Shape::Array;
    let end: &[u8] = if lines { b"\n" } else { b"\n\n" };
    if !array && !sent.is_empty() && !sent.ends_with(end) && !sent.ends_with(b"\r\n\r\n") {
        out.extend_from_slice(end);
    }
    let begun = !sent.trim_ascii().is_empty();
    push_fault(dialect, shape, status_of(kind), message, Position { begun, sequence: 0 }, &mut out);
    out
}

/// How far a stream has come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Position {
    /// Something was sent.
    pub(super) begun: bool,
    /// Number of the next event, in the dialect that counts them.
    pub(super) sequence: u64,
}

/// Appends the event and the end of the stream.
pub(super) fn push_fault(
    dialect: Dialect,
    shape: Shape,
    status: u16,
    message: &str,
    position: Position,
    out: &mut Vec<u8>,
) {
    let refusal = encode_refusal(dialect, status, message);
    match dialect {
        Dialect::OllamaChat | Dialect::OllamaGenerate => {
            out.extend_from_slice(&refusal);
            out.push(b'\n');
        }
        Dialect::Gemini if shape == Shape::Array => {
            out.extend_from_slice(if position.begun { b",\n" } else { b"[" });
            out.extend_from_slice(&refusal);
            out.push(b']');
        }
        Dialect::OpenAiResponses => {
            out.extend_from_slice(b"event: error\ndata: {\"type\":\"error\",\"sequence_number\":");
            push_number(position.sequence, out);
            out.extend_from_slice(b",\"code\":");
            push_string(code_of(status), out);
            out.extend_from_slice(b",\"message\":");
            push_string(message, out);
            out.extend_from_slice(b",\"param\":null}\n\n");
        }
        _ => {
            let name: &[u8] = if dialect == Dialect::Anthropic { b"event: error\ndata: " } else { b"data: " };
            out.extend_from_slice(name);
            out.extend_from_slice(&refusal);
            out.extend_from_slice(b"\n\n");
        }
    }
}

/// The code of an error event of the Responses API.
fn code_of(status: u16) -> &'static str {
    match status {
        429 => "rate_limit_exceeded",
        400..=499 => "invalid_request_error",
        503 => "server_is_overloaded",
        _ => "server_error",
    }
}
