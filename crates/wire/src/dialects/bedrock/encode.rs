//! Writes Converse's answers.
//!
//! Invariant: whatever the order of the pieces, each block is filled and stopped in turn, and the counts stand in the last event.

use super::usage::push_usage;
use crate::calls::push_arguments_as_object;
use crate::codec::{Shape, StreamPosition};
use crate::event_stream::push_message;
use crate::json_text::{push_comma, push_number, push_string};
use crate::response::{Answer, Piece, ResponseEncoder};
use tokrate_core::{Channel, FinishReason, Usage};

/// Writes the events of one message.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConverseEncoder {
    begun: bool,
    /// The channel that text is written to without further ado, and its block.
    open: Option<(Channel, u64)>,
    /// The block that is to be stopped.
    unstopped: Option<u64>,
    /// Number of blocks begun.
    blocks: u64,
    /// The calls written so far and the index of each one's block.
    calls: Vec<(u32, u64)>,
    usage: Option<Usage>,
    payload: Vec<u8>,
}

impl ConverseEncoder {
    fn begin(&mut self, out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.begun, true) {
            push_message("event", "messageStart", br#"{"role":"assistant"}"#, out);
        }
    }

    /// The index of the block that text of a channel goes to.
    fn block_of(&mut self, channel: Channel, out: &mut Vec<u8>) -> u64 {
        match self.open {
            Some((open, block)) if open == channel => block,
            _ if channel == Channel::Tool => {
                // Of the latest call, or of a first one without a name.
                let call = self.calls.last().map_or(0, |(call, _)| *call);
                self.open_call(call, "", "", out)
            }
            _ => self.next_block(channel, out),
        }
    }

    fn next_block(&mut self, channel: Channel, out: &mut Vec<u8>) -> u64 {
        self.begin(out);
        self.stop_block(out);
        let block = self.blocks;
        self.blocks += 1;
        self.unstopped = Some(block);
        self.open = Some((channel, block));
        block
    }

    fn open_call(&mut self, call: u32, id: &str, name: &str, out: &mut Vec<u8>) -> u64 {
        if let Some(&(_, block)) = self.calls.iter().find(|(known, _)| *known == call) {
            // Back to a call that was opened earlier: its block is named again, not started again.
            if self.unstopped != Some(block) {
                self.stop_block(out);
            }
            self.open = Some((Channel::Tool, block));
            return block;
        }
        let block = self.next_block(Channel::Tool, out);
        self.calls.push((call, block));
        let payload = self.indexed(block, b",\"start\":{\"toolUse\":{\"toolUseId\":");
        push_string(id, payload);
        payload.extend_from_slice(b",\"name\":");
        push_string(name, payload);
        payload.extend_from_slice(b"}}}");
        push_message("event", "contentBlockStart", &self.payload, out);
        block
    }

    /// The start of a payload that names a block.
    fn indexed(&mut self, block: u64, after: &[u8]) -> &mut Vec<u8> {
        self.payload.clear();
        self.payload.extend_from_slice(b"{\"contentBlockIndex\":");
        push_number(block, &mut self.payload);
        self.payload.extend_from_slice(after);
        &mut self.payload
    }

    fn stop_block(&mut self, out: &mut Vec<u8>) {
        self.open = None;
        if let Some(block) = self.unstopped.take() {
            self.indexed(block, b"}");
            push_message("event", "contentBlockStop", &self.payload, out);
        }
    }

    fn write_text(&mut self, channel: Channel, text: &str, out: &mut Vec<u8>) {
        let block = self.block_of(channel, out);
        let (start, end): (&[u8], &[u8]) = match channel {
            Channel::Answer => (b",\"delta\":{\"text\":", b"}}"),
            Channel::Reasoning => (b",\"delta\":{\"reasoningContent\":{\"text\":", b"}}}"),
            Channel::Tool => (b",\"delta\":{\"toolUse\":{\"input\":", b"}}}"),
        };
        let payload = self.indexed(block, start);
        push_string(text, payload);
        payload.extend_from_slice(end);
        push_message("event", "contentBlockDelta", &self.payload, out);
    }
}

impl ResponseEncoder for ConverseEncoder {
    /// Appends the events of a piece. The counts are held back until the end.
    fn encode_event(&mut self, piece: &Piece<'_>, out: &mut Vec<u8>) {
        match *piece {
            Piece::Role => self.begin(out),
            Piece::Text { channel, text } => self.write_text(channel, text, out),
            Piece::ToolCall { index, id, name } => {
                self.open_call(index, id, name, out);
            }
            Piece::Finish(reason) => {
                self.begin(out);
                self.stop_block(out);
                let payload = format!("{{\"stopReason\":\"{}\"}}", stop_reason(reason));
                push_message("event", "messageStop", payload.as_bytes(), out);
            }
            Piece::Usage(usage) => self.usage = Some(self.usage.unwrap_or_default().updated_by(usage)),
            Piece::Done => {
                self.begin(out);
                self.stop_block(out);
                let mut payload = b"{".to_vec();
                if let Some(usage) = self.usage {
                    payload.extend_from_slice(b"\"usage\":");
                    push_usage(usage, &mut payload);
                    payload.push(b',');
                }
                payload.extend_from_slice(METRICS);
                payload.push(b'}');
                push_message("event", "metadata", &payload, out);
            }
            Piece::Failed { message } => push_failure("modelStreamErrorException", message, out),
            // The dialect has no place for them.
            Piece::Timings(_) => {}
        }
    }

    /// The answer as one JSON body.
    fn encode_whole(&self, answer: &Answer<'_>) -> Vec<u8> {
        let mut out = br#"{"output":{"message":{"role":"assistant","content":["#.to_vec();
        if !answer.reasoning.is_empty() {
            out.extend_from_slice(br#"{"reasoningContent":{"reasoningText":{"text":"#);
            push_string(answer.reasoning, &mut out);
            out.extend_from_slice(b"}}}");
        }
        if !answer.answer.is_empty() {
            push_comma(&mut out);
            out.extend_from_slice(b"{\"text\":");
            push_string(answer.answer, &mut out);
            out.push(b'}');
        }
        for call in answer.tools {
            push_comma(&mut out);
            out.extend_from_slice(b"{\"toolUse\":{\"toolUseId\":");
            push_string(call.id, &mut out);
            out.extend_from_slice(b",\"name\":");
            push_string(call.name, &mut out);
            out.extend_from_slice(b",\"input\":");
            push_arguments_as_object(call.arguments, &mut out);
            out.extend_from_slice(b"}}");
        }
        out.extend_from_slice(b"]}},\"stopReason\":\"");
        out.extend_from_slice(stop_reason(answer.finish).as_bytes());
        out.extend_from_slice(b"\",");
        if let Some(usage) = answer.usage {
            out.extend_from_slice(b"\"usage\":");
            push_usage(usage, &mut out);
            out.push(b',');
        }
        out.extend_from_slice(METRICS);
        out.push(b'}');
        out
    }
}

/// Programs read it without looking whether it is there; what the time was at another server is not known.
const METRICS: &[u8] = br#""metrics":{"latencyMs":0}"#;

/// Appends the event that ends a failed stream.
pub(super) fn push_error_event(_: Shape, status: u16, message: &str, _: StreamPosition, out: &mut Vec<u8>) {
    let name = match status {
        429 => "throttlingException",
        503 | 529 => "serviceUnavailableException",
        400..=499 => "validationException",
        _ => "internalServerException",
    };
    push_failure(name, message, out);
}

fn push_failure(name: &str, message: &str, out: &mut Vec<u8>) {
    let mut payload = b"{\"message\":".to_vec();
    push_string(message, &mut payload);
    payload.push(b'}');
    push_message("exception", name, &payload, out);
}

/// The body of an answer with an error status. AWS's SDKs take the kind from a header, and without one from `code`.
pub(crate) fn error(status: u16, message: &str) -> Vec<u8> {
    let kind = match status {
        401 | 403 => "AccessDeniedException",
        404 => "ResourceNotFoundException",
        408 | 504 => "ModelTimeoutException",
        429 => "ThrottlingException",
        503 | 529 => "ServiceUnavailableException",
        400..=499 => "ValidationException",
        _ => "InternalServerException",
    };
    let mut out = format!("{{\"code\":\"{kind}\",\"message\":").into_bytes();
    push_string(message, &mut out);
    out.push(b'}');
    out
}

fn stop_reason(reason: FinishReason) -> &'static str {
    match reason {
        FinishReason::Stop => "end_turn",
        FinishReason::Length => "max_tokens",
        FinishReason::ToolCalls => "tool_use",
        FinishReason::ContentFilter => "content_filtered",
        FinishReason::Other => "malformed_model_output",
    }
}
