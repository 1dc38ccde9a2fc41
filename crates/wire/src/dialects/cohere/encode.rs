//! Writes Cohere's answers.
//!
//! Invariant: each part is started, filled and ended in turn, and the finish reason and the counts stand in the last event.

use crate::json_text::{push_comma, push_escaped, push_number, push_string};
use crate::response::{Answer, Piece, ResponseEncoder};
use tokrate_core::{Channel, FinishReason, Usage};

/// Writes the events of one message.
#[derive(Clone, Debug)]
pub(crate) struct CohereEncoder {
    id: String,
    begun: bool,
    /// The part that text is written to, and its index.
    open: Option<(Channel, u64)>,
    /// Number of parts with text begun.
    parts: u64,
    /// The calls written so far; the latest is open if the channel says so.
    calls: Vec<u32>,
    finish: Option<FinishReason>,
    usage: Option<Usage>,
}

impl CohereEncoder {
    pub(crate) fn new(id: &str) -> CohereEncoder {
        let (id, calls) = (id.to_owned(), Vec::new());
        CohereEncoder { id, begun: false, open: None, parts: 0, calls, finish: None, usage: None }
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        if std::mem::replace(&mut self.begun, true) {
            return;
        }
        out.extend_from_slice(b"event: message-start\ndata: {\"type\":\"message-start\",\"id\":");
        push_string(&self.id, out);
        let rest =
            br#","delta":{"message":{"role":"assistant","content":[],"tool_plan":"","tool_calls":[],"citations":[]}}}"#;
        out.extend_from_slice(rest);
        out.extend_from_slice(b"\n\n");
    }

    fn end_part(&mut self, out: &mut Vec<u8>) {
        let Some((channel, index)) = self.open.take() else { return };
        let kind = if channel == Channel::Tool { "tool-call-end" } else { "content-end" };
        push_start(kind, Some(index), out);
        out.extend_from_slice(b"}\n\n");
    }

    fn write_text(&mut self, channel: Channel, text: &str, out: &mut Vec<u8>) {
        let (kind, name) = match channel {
            Channel::Tool => return self.write_arguments(text, out),
            Channel::Reasoning => ("thinking", "thinking"),
            Channel::Answer => ("text", "text"),
        };
        if self.open.is_none_or(|(open, _)| open != channel) {
            self.begin(out);
            self.end_part(out);
            self.open = Some((channel, self.parts));
            push_start("content-start", Some(self.parts), out);
            let delta = format!(r#","delta":{{"message":{{"content":{{"type":"{kind}","{name}":""}}}}}}}}"#);
            out.extend_from_slice(delta.as_bytes());
            out.extend_from_slice(b"\n\n");
            self.parts += 1;
        }
        push_start("content-delta", self.open.map(|(_, index)| index), out);
        out.extend_from_slice(br#","delta":{"message":{"content":{""#);
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\":\"");
        push_escaped(text, out);
        out.extend_from_slice(b"\"}}}}\n\n");
    }

    fn write_arguments(&mut self, text: &str, out: &mut Vec<u8>) {
        if !matches!(self.open, Some((Channel::Tool, _))) {
            // Of the latest call, or of a first one without a name.
            let call = self.calls.last().copied().unwrap_or(0);
            self.open_call(call, "", "", out);
        }
        push_start("tool-call-delta", self.open.map(|(_, index)| index), out);
        out.extend_from_slice(br#","delta":{"message":{"tool_calls":{"function":{"arguments":""#);
        push_escaped(text, out);
        out.extend_from_slice(b"\"}}}}}\n\n");
    }

    fn open_call(&mut self, call: u32, id: &str, name: &str, out: &mut Vec<u8>) {
        self.begin(out);
        self.end_part(out);
        if let Some(index) = self.calls.iter().position(|known| *known == call) {
            // Back to a call that was begun earlier.
            self.open = Some((Channel::Tool, index as u64));
            return;
        }
        let index = self.calls.len() as u64;
        self.calls.push(call);
        self.open = Some((Channel::Tool, index));
        push_start("tool-call-start", Some(index), out);
        out.extend_from_slice(br#","delta":{"message":{"tool_calls":{"id":"#);
        push_string(id, out);
        out.extend_from_slice(br#","type":"function","function":{"name":"#);
        push_string(name, out);
        out.extend_from_slice(b",\"arguments\":\"\"}}}}}\n\n");
    }
}

/// The start of an event with its kind and index.
fn push_start(kind: &str, index: Option<u64>, out: &mut Vec<u8>) {
    for part in ["event: ", kind, "\ndata: {\"type\":\"", kind, "\""] {
        out.extend_from_slice(part.as_bytes());
    }
    if let Some(index) = index {
        out.extend_from_slice(b",\"index\":");
        push_number(index, out);
    }
}

impl ResponseEncoder for CohereEncoder {
    /// Appends the events of a piece. The finish reason and the counts are held back until the end.
    fn encode_event(&mut self, piece: &Piece<'_>, out: &mut Vec<u8>) {
        match *piece {
            Piece::Role => self.begin(out),
            Piece::Text { channel, text } => self.write_text(channel, text, out),
            Piece::ToolCall { index, id, name } => self.open_call(index, id, name, out),
            Piece::Finish(reason) => {
                self.begin(out);
                self.end_part(out);
                self.finish = Some(reason);
            }
            Piece::Usage(usage) => self.usage = Some(self.usage.unwrap_or_default().updated_by(usage)),
            Piece::Done => {
                self.begin(out);
                self.end_part(out);
                push_start("message-end", None, out);
                out.extend_from_slice(b",\"delta\":{\"finish_reason\":");
                match self.finish {
                    Some(reason) => push_string(finish_reason(reason), out),
                    None => out.extend_from_slice(b"null"),
                }
                if let Some(usage) = self.usage {
                    out.extend_from_slice(b",\"usage\":");
                    push_usage(usage, out);
                }
                out.extend_from_slice(b"}}\n\n");
            }
            Piece::Failed { message } => push_failure(message, out),
            // The dialect has no place for them.
            Piece::Timings(_) => {}
        }
    }

    /// The answer as one JSON body.
    fn encode_whole(&self, answer: &Answer<'_>) -> Vec<u8> {
        let mut out = b"{\"id\":".to_vec();
        push_string(&self.id, &mut out);
        out.extend_from_slice(b",\"finish_reason\":");
        push_string(finish_reason(answer.finish), &mut out);
        out.extend_from_slice(br#","message":{"role":"assistant","content":["#);
        for (kind, text) in [("thinking", answer.reasoning), ("text", answer.answer)] {
            if text.is_empty() {
                continue;
            }
            push_comma(&mut out);
            out.extend_from_slice(format!(r#"{{"type":"{kind}","{kind}":"#).as_bytes());
            push_string(text, &mut out);
            out.push(b'}');
        }
        out.push(b']');
        if !answer.tools.is_empty() {
            out.extend_from_slice(b",\"tool_calls\":[");
            for call in answer.tools {
                push_comma(&mut out);
                out.extend_from_slice(b"{\"id\":");
                push_string(call.id, &mut out);
                out.extend_from_slice(br#","type":"function","function":{"name":"#);
                push_string(call.name, &mut out);
                out.extend_from_slice(b",\"arguments\":");
                push_string(call.arguments, &mut out);
                out.extend_from_slice(b"}}");
            }
            out.push(b']');
        }
        out.push(b'}');
        if let Some(usage) = answer.usage {
            out.extend_from_slice(b",\"usage\":");
            push_usage(usage, &mut out);
        }
        out.push(b'}');
        out
    }
}

/// Appends the event that ends a failed stream.
pub(super) fn push_failure(message: &str, out: &mut Vec<u8>) {
    push_start("message-end", None, out);
    out.extend_from_slice(br#","delta":{"finish_reason":"ERROR","error":"#);
    push_string(message, out);
    out.extend_from_slice(b"}}\n\n");
}

/// The body of an answer with an error status.
pub(crate) fn error(message: &str) -> Vec<u8> {
    let mut out = b"{\"message\":".to_vec();
    push_string(message, &mut out);
    out.push(b'}');
    out
}

fn finish_reason(reason: FinishReason) -> &'static str {
    match reason {
        FinishReason::Stop => "COMPLETE",
        FinishReason::Length => "MAX_TOKENS",
        FinishReason::ToolCalls => "TOOL_CALL",
        FinishReason::ContentFilter | FinishReason::Other => "ERROR",
    }
}

/// The counts as what is billed and as what went through the model, which are the same here.
fn push_usage(usage: Usage, out: &mut Vec<u8>) {
    let counts = || {
        let mut counts = Vec::new();
        for (name, count) in [("\"input_tokens\":", usage.input), ("\"output_tokens\":", usage.output)] {
            let Some(count) = count else { continue };
            if !counts.is_empty() {
                counts.push(b',');
            }
            counts.extend_from_slice(name.as_bytes());
            push_number(count, &mut counts);
        }
        counts
    };
    out.extend_from_slice(b"{\"billed_units\":{");
    out.extend_from_slice(&counts());
    out.extend_from_slice(b"},\"tokens\":{");
    out.extend_from_slice(&counts());
    out.push(b'}');
    if let Some(cached) = usage.cached_input {
        out.extend_from_slice(b",\"cached_tokens\":");
        push_number(cached, out);
    }
    out.push(b'}');
}
