//! Writes Anthropic's messages.
//!
//! Invariant: whatever the order of the pieces, each block is started, filled and stopped in turn, and the finish
//! reason and the token counts stand in one event.

use crate::calls::push_arguments_as_object;
use crate::codec::{Shape, StreamPosition};
use crate::json_text::{push_comma, push_known_counts, push_number};
use crate::json_text::{push_escaped, push_string};
use crate::response::{Answer, Piece, ResponseEncoder};
use tokrate_core::{Channel, FinishReason, Usage};

/// Writes the events of one message.
#[derive(Clone, Debug)]
pub(crate) struct MessagesEncoder {
    /// `"id":…,"type":"message","role":"assistant","model":…`
    head: Vec<u8>,
    begun: bool,
    /// The channel that text is written to without further ado.
    open: Option<Channel>,
    /// The block that is to be stopped.
    unstopped: Option<u64>,
    /// Number of blocks started.
    blocks: u64,
    /// The start of an event that carries text of the open block.
    delta: Vec<u8>,
    /// The calls written so far and the index of each one's block.
    calls: Vec<(u32, u64)>,
    finish: Option<FinishReason>,
    usage: Option<Usage>,
}

impl MessagesEncoder {
    pub(crate) fn new(id: &str, model: &str) -> MessagesEncoder {
        let mut head = b"\"id\":".to_vec();
        push_string(id, &mut head);
        head.extend_from_slice(br#","type":"message","role":"assistant","model":"#);
        push_string(model, &mut head);
        MessagesEncoder {
            head,
            begun: false,
            open: None,
            unstopped: None,
            blocks: 0,
            delta: Vec::new(),
            calls: Vec::new(),
            finish: None,
            usage: None,
        }
    }

    /// Starts the message, if that has not been done.
    fn begin(&mut self, out: &mut Vec<u8>) {
        if self.begun {
            return;
        }
        self.begun = true;
        out.extend_from_slice(b"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{");
        out.extend_from_slice(&self.head);
        out.extend_from_slice(br#","content":[],"stop_reason":null,"stop_sequence":null,"usage":"#);
        // Clients expect both counts; a server that does not know its input yet names none.
        let known = self.usage.unwrap_or_default();
        push_usage(Usage { input: known.input.or(Some(0)), output: Some(0), ..known }, out);
        out.extend_from_slice(b"}}\n\n");
    }

    fn open_text(&mut self, channel: Channel, out: &mut Vec<u8>) {
        let (block, field) = match channel {
            Channel::Reasoning => (r#"{"type":"thinking","thinking":"","signature":""}"#, DELTAS[0]),
            Channel::Answer => (r#"{"type":"text","text":""}"#, DELTAS[1]),
            // Of the latest call, or of a first one without a name.
            Channel::Tool => return self.open_call(self.calls.last().map_or(0, |(call, _)| *call), "", "", out),
        };
        self.start_block(channel, field, out);
        out.extend_from_slice(block.as_bytes());
        out.extend_from_slice(b"}\n\n");
    }

    fn open_call(&mut self, call: u32, id: &str, name: &str, out: &mut Vec<u8>) {
        if let Some(&(_, block)) = self.calls.iter().find(|(known, _)| *known == call) {
            // Back to a call that was opened earlier: its block is named again, not started again.
            if self.unstopped != Some(block) {
                self.stop_block(out);
            }
            self.open = Some(Channel::Tool);
            return self.prepare_delta(block, DELTAS[2]);
        }
        self.start_block(Channel::Tool, DELTAS[2], out);
        self.calls.push((call, self.blocks - 1));
        out.extend_from_slice(br#"{"type":"tool_use","id":"#);
        push_string(id, out);
        out.extend_from_slice(b",\"name\":");
        push_string(name, out);
        out.extend_from_slice(b",\"input\":{}}}\n\n");
    }

    /// Writes the start of a block up to the block itself.
    fn start_block(&mut self, channel: Channel, field: &str, out: &mut Vec<u8>) {
        self.begin(out);
        self.stop_block(out);
        if self.finish.is_some() {
            self.write_change(out);
        }
        self.open = Some(channel);
        let block = self.blocks;
        self.blocks += 1;
        self.unstopped = Some(block);
        self.prepare_delta(block, field);
        out.extend_from_slice(b"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":");
        push_number(block, out);
        out.extend_from_slice(b",\"content_block\":");
    }

    fn prepare_delta(&mut self, index: u64, field: &str) {
        self.delta.clear();
        self.delta.extend_from_slice(b"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":");
        push_number(index, &mut self.delta);
        self.delta.extend_from_slice(b",\"delta\":{\"type\":");
        self.delta.extend_from_slice(field.as_bytes());
    }

    fn stop_block(&mut self, out: &mut Vec<u8>) {
        self.open = None;
        if let Some(block) = self.unstopped.take() {
            out.extend_from_slice(b"event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":");
            push_number(block, out);
            out.extend_from_slice(b"}\n\n");
        }
    }

    /// Writes what was held back, if anything was.
    fn write_change(&mut self, out: &mut Vec<u8>) {
        let (finish, usage) = (self.finish.take(), self.usage.take());
        if finish.is_none() && usage.is_none() {
            return;
        }
        self.begin(out);
        out.extend_from_slice(b"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":");
        match finish {
            Some(reason) => push_string(stop_reason(reason), out),
            None => out.extend_from_slice(b"null"),
        }
        out.extend_from_slice(b",\"stop_sequence\":null}");
        if let Some(usage) = usage {
            out.extend_from_slice(b",\"usage\":");
            push_usage(usage, out);
        }
        out.extend_from_slice(b"}\n\n");
    }
}

impl ResponseEncoder for MessagesEncoder {
    /// Appends the events of a piece. Why the model stopped is held back until the token counts or the end are known.
    fn encode_event(&mut self, piece: &Piece<'_>, out: &mut Vec<u8>) {
        match *piece {
            Piece::Text { channel, text } => {
                if self.open != Some(channel) {
                    self.open_text(channel, out);
                }
                out.extend_from_slice(&self.delta);
                push_escaped(text, out);
                out.extend_from_slice(b"\"}}\n\n");
            }
            Piece::ToolCall { index, id, name } => self.open_call(index, id, name, out),
            Piece::Role => self.begin(out),
            Piece::Finish(reason) => {
                self.begin(out);
                self.stop_block(out);
                self.finish = Some(reason);
                if self.usage.is_some() {
                    self.write_change(out);
                }
            }
            Piece::Usage(usage) => {
                self.usage = Some(self.usage.unwrap_or_default().updated_by(usage));
                if self.finish.is_some() {
                    self.write_change(out);
                }
            }
            Piece::Done => {
                self.begin(out);
                self.stop_block(out);
                self.write_change(out);
                out.extend_from_slice(b"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
            }
            Piece::Failed { message } => {
                self.write_change(out);
                out.extend_from_slice(b"event: error\ndata: ");
                push_error("api_error", message, out);
                out.extend_from_slice(b"\n\n");
            }
            // The dialect has no place for them.
            Piece::Timings(_) => {}
        }
    }

    /// The message as one JSON body.
    fn encode_whole(&self, answer: &Answer<'_>) -> Vec<u8> {
        let mut out = b"{".to_vec();
        out.extend_from_slice(&self.head);
        out.extend_from_slice(b",\"content\":[");
        if !answer.reasoning.is_empty() {
            push_after_comma(r#"{"type":"thinking","signature":"","thinking":"#, answer.reasoning, &mut out);
            out.push(b'}');
        }
        if !answer.answer.is_empty() {
            push_after_comma(r#"{"type":"text","text":"#, answer.answer, &mut out);
            out.push(b'}');
        }
        for call in answer.tools {
            push_after_comma(r#"{"type":"tool_use","id":"#, call.id, &mut out);
            out.extend_from_slice(b",\"name\":");
            push_string(call.name, &mut out);
            out.extend_from_slice(b",\"input\":");
            push_arguments_as_object(call.arguments, &mut out);
            out.push(b'}');
        }
        out.extend_from_slice(b"],\"stop_reason\":\"");
        out.extend_from_slice(stop_reason(answer.finish).as_bytes());
        out.extend_from_slice(b"\",\"stop_sequence\":null");
        if let Some(usage) = answer.usage {
            out.extend_from_slice(b",\"usage\":");
            push_usage(usage, &mut out);
        }
        out.push(b'}');
        out
    }
}

/// The start of each channel's `delta`, after `"type":`.
const DELTAS: [&str; 3] =
    [r#""thinking_delta","thinking":""#, r#""text_delta","text":""#, r#""input_json_delta","partial_json":""#];

/// Appends the event that ends a failed stream.
pub(super) fn push_error_event(_: Shape, status: u16, message: &str, _: StreamPosition, out: &mut Vec<u8>) {
    out.extend_from_slice(b"event: error\ndata: ");
    out.extend_from_slice(&error(status, message));
    out.extend_from_slice(b"\n\n");
}

/// The body of an answer with an error status.
pub(crate) fn error(status: u16, message: &str) -> Vec<u8> {
    let kind = match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        503 | 529 => "overloaded_error",
        400..=499 => "invalid_request_error",
        _ => "api_error",
    };
    let mut out = Vec::new();
    push_error(kind, message, &mut out);
    out
}

fn push_error(kind: &str, message: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(br#"{"type":"error","error":{"type":"#);
    push_string(kind, out);
    out.extend_from_slice(b",\"message\":");
    push_string(message, out);
    out.extend_from_slice(b"}}");
}

fn stop_reason(reason: FinishReason) -> &'static str {
    match reason {
        FinishReason::Stop => "end_turn",
        FinishReason::Length => "max_tokens",
        FinishReason::ToolCalls => "tool_use",
        FinishReason::ContentFilter => "refusal",
        FinishReason::Other => "pause_turn",
    }
}

/// The counts of the cache stand beside the input here, and are taken out of it.
fn push_usage(usage: Usage, out: &mut Vec<u8>) {
    let beside = usage.cached_input.unwrap_or(0).saturating_add(usage.cache_write_input.unwrap_or(0));
    let counts = [
        ("\"input_tokens\":", usage.input.map(|input| input.saturating_sub(beside))),
        ("\"cache_creation_input_tokens\":", usage.cache_write_input),
        ("\"cache_read_input_tokens\":", usage.cached_input),
        ("\"output_tokens\":", usage.output),
    ];
    push_known_counts(&counts, out);
}

/// Appends the start of a list's element and a string.
fn push_after_comma(start: &str, text: &str, out: &mut Vec<u8>) {
    push_comma(out);
    out.extend_from_slice(start.as_bytes());
    push_string(text, out);
}
