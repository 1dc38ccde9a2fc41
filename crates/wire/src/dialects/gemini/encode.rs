//! Writes Gemini's answers.
//!
//! Invariant: each chunk is a whole answer object of its own, and a call is written once all of it is known.

use crate::calls::{GatheredCalls, push_arguments};
use crate::codec::{Shape, StreamPosition};
use crate::json_text::{push_comma, push_known_counts, push_number};
use crate::json_text::{push_escaped, push_string};
use crate::response::{Answer, Piece, ResponseEncoder};
use tokrate_core::{Channel, FinishReason, Usage};

/// Writes the chunks of one answer.
#[derive(Clone, Debug)]
pub(crate) struct GeminiEncoder {
    shape: Shape,
    /// What ends every chunk: `,"modelVersion":…,"responseId":…}`.
    tail: Vec<u8>,
    /// What stands after a text: the end of its part, its candidate and its chunk. By channel: reasoning, answer.
    text_ends: [Vec<u8>; 2],
    calls: GatheredCalls,
    /// A chunk was written.
    begun: bool,
}

const TEXT_START: &[u8] = br#"{"candidates":[{"content":{"parts":[{"text":""#;

impl GeminiEncoder {
    /// A writer for the answer `id` of `model`; a JSON array instead of server-sent events, if that is the shape.
    pub(crate) fn new(shape: Shape, id: &str, model: &str) -> GeminiEncoder {
        let mut tail = b",\"modelVersion\":".to_vec();
        push_string(model, &mut tail);
        tail.extend_from_slice(b",\"responseId\":");
        push_string(id, &mut tail);
        tail.push(b'}');
        let end = |part: &[u8]| [part, br#"}],"role":"model"},"index":0}]"#, tail.as_slice()].concat();
        let text_ends = [end(br#"","thought":true"#), end(b"\"")];
        GeminiEncoder { shape, tail, text_ends, calls: GatheredCalls::default(), begun: false }
    }

    fn write_text(&mut self, channel: Channel, text: &str, out: &mut Vec<u8>) {
        self.begin(out);
        out.extend_from_slice(TEXT_START);
        push_escaped(text, out);
        out.extend_from_slice(&self.text_ends[usize::from(channel != Channel::Reasoning)]);
        self.end(out);
    }

    fn write_calls(&mut self, out: &mut Vec<u8>) {
        for call in self.calls.take() {
            self.begin(out);
            out.extend_from_slice(br#"{"candidates":[{"content":{"parts":["#);
            push_call(&call.id, &call.name, &call.arguments, out);
            out.extend_from_slice(br#"],"role":"model"},"index":0}]"#);
            self.end_with_tail(out);
        }
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(match (self.shape, self.begun) {
            (Shape::Array, false) => b"[",
            (Shape::Array, true) => b",\n",
            _ => b"data: ",
        });
        self.begun = true;
    }

    fn end_with_tail(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.tail);
        self.end(out);
    }

    fn end(&self, out: &mut Vec<u8>) {
        if self.shape != Shape::Array {
            out.extend_from_slice(b"\n\n");
        }
    }
}

impl ResponseEncoder for GeminiEncoder {
    /// Appends the chunk of a piece, if it has one of its own.
    fn encode_event(&mut self, piece: &Piece<'_>, out: &mut Vec<u8>) {
        match *piece {
            Piece::Text { channel: Channel::Tool, text } => return self.calls.push(text),
            Piece::ToolCall { index, id, name } => return self.calls.open(index, id, name),
            _ => self.write_calls(out),
        }
        match *piece {
            Piece::Text { channel, text } => self.write_text(channel, text, out),
            Piece::Role => self.write_text(Channel::Answer, "", out),
            Piece::Finish(reason) => {
                self.begin(out);
                out.extend_from_slice(br#"{"candidates":[{"finishReason":"#);
                push_string(finish_reason(reason), out);
                out.extend_from_slice(br#","index":0}]"#);
                self.end_with_tail(out);
            }
            Piece::Usage(usage) => {
                self.begin(out);
                out.extend_from_slice(b"{\"usageMetadata\":");
                push_usage(usage, out);
                self.end_with_tail(out);
            }
            Piece::Failed { message } => {
                self.begin(out);
                push_error(500, message, out);
                self.end(out);
            }
            // Server-sent events have no end mark here.
            Piece::Done if self.shape == Shape::Array => {
                out.extend_from_slice(if self.begun { b"]" } else { b"[]" });
                self.begun = true;
            }
            // The dialect has no place for the server's times.
            Piece::Done | Piece::Timings(_) | Piece::ToolCall { .. } => {}
        }
    }

    /// The answer as one JSON body.
    fn encode_whole(&self, answer: &Answer<'_>) -> Vec<u8> {
        let mut out = br#"{"candidates":[{"content":{"parts":["#.to_vec();
        if !answer.reasoning.is_empty() {
            out.extend_from_slice(b"{\"text\":");
            push_string(answer.reasoning, &mut out);
            out.extend_from_slice(b",\"thought\":true}");
        }
        if !answer.answer.is_empty() {
            push_comma(&mut out);
            out.extend_from_slice(b"{\"text\":");
            push_string(answer.answer, &mut out);
            out.push(b'}');
        }
        for call in answer.tools {
            push_comma(&mut out);
            push_call(call.id, call.name, call.arguments, &mut out);
        }
        out.extend_from_slice(br#"],"role":"model"},"finishReason":"#);
        push_string(finish_reason(answer.finish), &mut out);
        out.extend_from_slice(b",\"index\":0}]");
        if let Some(usage) = answer.usage {
            out.extend_from_slice(b",\"usageMetadata\":");
            push_usage(usage, &mut out);
        }
        out.extend_from_slice(&self.tail);
        out
    }
}

/// Appends the event that ends a failed stream, and in an array closes that.
pub(super) fn push_error_event(shape: Shape, status: u16, message: &str, position: StreamPosition, out: &mut Vec<u8>) {
    let is_array = shape == Shape::Array;
    out.extend_from_slice(match (is_array, position.begun) {
        (false, _) => b"data: ".as_slice(),
        (true, true) => b",\n",
        (true, false) => b"[",
    });
    out.extend_from_slice(&error(status, message));
    out.extend_from_slice(if is_array { b"]" } else { b"\n\n" });
}

/// The body of an answer with an error status.
pub(crate) fn error(status: u16, message: &str) -> Vec<u8> {
    let mut out = Vec::new();
    push_error(status, message, &mut out);
    out
}

fn push_error(code: u16, message: &str, out: &mut Vec<u8>) {
    let status = match code {
        400 | 413 | 422 => "INVALID_ARGUMENT",
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        501 => "UNIMPLEMENTED",
        503 | 529 => "UNAVAILABLE",
        504 => "DEADLINE_EXCEEDED",
        400..=499 => "FAILED_PRECONDITION",
        _ => "INTERNAL",
    };
    out.extend_from_slice(b"{\"error\":{\"code\":");
    push_number(u64::from(code), out);
    out.extend_from_slice(b",\"message\":");
    push_string(message, out);
    out.extend_from_slice(b",\"status\":");
    push_string(status, out);
    out.extend_from_slice(b"}}");
}

/// One part that is a call. Unknown arguments are left out.
fn push_call(id: &str, name: &str, arguments: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"functionCall\":{");
    if !id.is_empty() {
        out.extend_from_slice(b"\"id\":");
        push_string(id, out);
    }
    if !name.is_empty() {
        if !id.is_empty() {
            out.push(b',');
        }
        out.extend_from_slice(b"\"name\":");
        push_string(name, out);
    }
    if !arguments.is_empty() {
        if !id.is_empty() || !name.is_empty() {
            out.push(b',');
        }
        out.extend_from_slice(b"\"args\":");
        push_arguments(arguments, out);
    }
    out.extend_from_slice(b"}}");
}

fn finish_reason(reason: FinishReason) -> &'static str {
    match reason {
        // The dialect has no finish reason for tool calls: the call itself shows it.
        FinishReason::Stop | FinishReason::ToolCalls => "STOP",
        FinishReason::Length => "MAX_TOKENS",
        FinishReason::ContentFilter => "SAFETY",
        FinishReason::Other => "OTHER",
    }
}

/// Thoughts stand beside the candidates here, and are taken out of the output.
fn push_usage(usage: Usage, out: &mut Vec<u8>) {
    let candidates = usage.output.map(|output| output.saturating_sub(usage.reasoning.unwrap_or(0)));
    let total = usage.input.zip(usage.output).map(|(input, output)| input.saturating_add(output));
    let counts = [
        ("\"promptTokenCount\":", usage.input),
        ("\"cachedContentTokenCount\":", usage.cached_input),
        ("\"candidatesTokenCount\":", candidates),
        ("\"thoughtsTokenCount\":", usage.reasoning),
        ("\"totalTokenCount\":", total),
    ];
    push_known_counts(&counts, out);
}
