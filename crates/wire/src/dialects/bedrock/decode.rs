//! Events of a stream and whole answers of Converse as events.
//!
//! Invariant: signatures, citations and redacted reasoning are no text; a tool's input is emitted as the JSON it is, without the white space
//! between its values.

use super::usage::read_usage;
use crate::document_decoder::{DocumentDecoder, Pattern, Source, UsageReading, emit_failure, emit_usage};
use crate::object::{Object, without_whitespace};
use serde_json::Error;
use std::borrow::Cow;
use tokrate_core::{Anomaly, Channel, EventBatch, EventKind, FinishReason, TextRange, Tick};

/// What has to be remembered from event to event.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConverseDecoder {
    /// The index of the content block of each tool call, in order of appearance.
    calls: Vec<u64>,
    /// The block that tool text belongs to at present.
    open: Option<u64>,
    /// The message has stopped, and no end was told yet: the counts come behind it, if they come.
    stopped: bool,
}

/// One document, read and not yet emitted.
enum Document<'a> {
    /// It carries nothing that is measured.
    Nothing,
    /// It is none of the dialect's.
    Unrecognised,
    /// `contentBlockStart` with a call.
    Call(u64, Call<'a>),
    /// `contentBlockDelta` with text.
    Delta(u64, Channel, Cow<'a, str>),
    /// `messageStop`.
    Stop(FinishReason),
    /// `metadata`, which ends a stream.
    Metadata(Option<UsageReading>),
    Failure,
    Whole(Whole<'a>),
}

struct Call<'a> {
    id: Cow<'a, str>,
    name: Cow<'a, str>,
}

#[derive(Default)]
struct Whole<'a> {
    blocks: Vec<Block<'a>>,
    finish: Option<FinishReason>,
    usage: Option<UsageReading>,
}

enum Block<'a> {
    Text(Channel, Cow<'a, str>),
    Call(Call<'a>, Cow<'a, str>),
}

/// The fields at the top of events and of whole answers.
const FIELDS: [&str; 20] = [
    "role",
    "contentBlockIndex",
    "start",
    "delta",
    "stopReason",
    "usage",
    "metrics",
    "output",
    "additionalModelResponseFields",
    "trace",
    "performanceConfig",
    "serviceTier",
    "message",
    "code",
    // Padding of random length in every event.
    "p",
    "originalStatusCode",
    "originalMessage",
    "conversationId",
    "type",
    "error",
];

impl DocumentDecoder for ConverseDecoder {
    fn decode(&mut self, source: Source<'_>, json: &str, out: &mut EventBatch) -> Result<Option<Pattern>, Error> {
        let mut malformed = false;
        let document = read(json, source.name, &mut malformed)?;
        let at = source.at;
        if malformed || matches!(document, Document::Unrecognised) {
            out.push(at, EventKind::Anomaly(Anomaly::Malformed));
        }
        let before = out.events().len();
        match document {
            Document::Nothing | Document::Unrecognised => {}
            Document::Call(index, call) => self.emit_call(at, index, &call, out),
            Document::Delta(index, channel, text) => {
                if channel == Channel::Tool {
                    self.select_call(at, index, out);
                }
                out.push_text(at, channel, &text);
            }
            Document::Stop(reason) => {
                self.stopped = true;
                out.push(at, EventKind::Finish(reason));
            }
            Document::Metadata(usage) => {
                if let Some(reading) = usage {
                    emit_usage(at, reading, out);
                }
                if std::mem::take(&mut self.stopped) {
                    out.push(at, EventKind::Done);
                }
            }
            Document::Failure => {
                self.stopped = false;
                emit_failure_of(at, source.name, json, out);
            }
            Document::Whole(whole) => self.emit_whole(at, &whole, out),
        }
        if out.events().len() == before {
            out.push(at, EventKind::Empty);
        }
        Ok(None)
    }

    fn end(&mut self, at: Tick, out: &mut EventBatch) {
        if std::mem::take(&mut self.stopped) {
            out.push(at, EventKind::Done);
        }
    }

    fn is_known_field(&self, field: &str) -> bool {
        FIELDS.contains(&field)
    }
}

impl ConverseDecoder {
    fn emit_call(&mut self, at: Tick, block: u64, call: &Call<'_>, out: &mut EventBatch) {
        let index = ordinal(self.calls.len());
        self.calls.push(block);
        self.open = Some(block);
        let (id, name) = (out.store(&call.id), out.store(&call.name));
        out.push(at, EventKind::ToolCall { index, id, name });
    }

    /// Makes the call of a block the one that tool text belongs to.
    fn select_call(&mut self, at: Tick, block: u64, out: &mut EventBatch) {
        if self.open == Some(block) {
            return;
        }
        self.open = Some(block);
        let known = self.calls.iter().rposition(|call| *call == block);
        let index = ordinal(known.unwrap_or(self.calls.len()));
        if known.is_none() {
            self.calls.push(block);
        }
        out.push(at, EventKind::ToolCall { index, id: TextRange::default(), name: TextRange::default() });
    }

    fn emit_whole(&mut self, at: Tick, whole: &Whole<'_>, out: &mut EventBatch) {
        for (index, block) in (0..).zip(&whole.blocks) {
            match block {
                Block::Text(channel, text) => out.push_text(at, *channel, text),
                Block::Call(call, input) => {
                    self.emit_call(at, index, call, out);
                    out.push_text(at, Channel::Tool, input);
                }
            }
        }
        if let Some(reason) = whole.finish {
            out.push(at, EventKind::Finish(reason));
        }
        if let Some(reading) = whole.usage {
            emit_usage(at, reading, out);
        }
        out.push(at, EventKind::Done);
    }
}

fn ordinal(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}

/// A failure whose kind is the name of its event.
fn emit_failure_of(at: Tick, name: &[u8], json: &str, out: &mut EventBatch) {
    let named = Object::read(json).ok().flatten().and_then(|object| Some(object.get("message")?.to_owned()));
    match (std::str::from_utf8(name), named) {
        // As other dialects have it: with a `type` beside the message.
        (Ok(name), Some(message)) if !name.is_empty() => {
            let kind = crate::codec::quoted(name);
            emit_failure(at, &format!("{{\"error\":{{\"type\":{kind},\"message\":{message}}}}}"), out);
        }
        _ => emit_failure(at, json, out),
    }
}

/// Reads a document, whose kind is the event's name.
fn read<'a>(json: &'a str, name: &[u8], malformed: &mut bool) -> Result<Document<'a>, Error> {
    let Some(object) = Object::read(json)? else { return Ok(Document::Unrecognised) };
    Ok(match name {
        b"contentBlockDelta" => read_delta(&object, malformed)?,
        b"contentBlockStart" => {
            let index = object.count("contentBlockIndex", malformed).unwrap_or(0);
            let start = object.object("start", malformed)?.unwrap_or_default();
            match start.object("toolUse", malformed)? {
                Some(call) => Document::Call(index, read_call(&call, malformed)?),
                None => Document::Nothing,
            }
        }
        b"messageStop" => Document::Stop(finish_reason(&object, malformed)?.unwrap_or(FinishReason::Other)),
        b"metadata" => {
            let usage = object.object("usage", malformed)?;
            Document::Metadata(usage.and_then(|usage| read_usage(&usage)))
        }
        b"" if object.get("output").or(object.get("stopReason")).is_some() => {
            Document::Whole(read_whole(&object, malformed)?)
        }
        b"" if object.get("message").or(object.get("error")).is_some() => Document::Failure,
        b"" => Document::Unrecognised,
        b"error" => Document::Failure,
        name if name.ends_with(b"Exception") => Document::Failure,
        _ => Document::Nothing,
    })
}

fn read_delta<'a>(object: &Object<'a>, malformed: &mut bool) -> Result<Document<'a>, Error> {
    let index = object.count("contentBlockIndex", malformed).unwrap_or(0);
    let Some(delta) = object.object("delta", malformed)? else { return Ok(Document::Unrecognised) };
    let (channel, text) = if delta.get("text").is_some() {
        (Channel::Answer, delta.text("text", malformed)?)
    } else if let Some(call) = delta.object("toolUse", malformed)? {
        (Channel::Tool, call.text("input", malformed)?)
    } else if let Some(reasoning) = delta.object("reasoningContent", malformed)? {
        (Channel::Reasoning, reasoning.text("text", &mut false)?)
    } else {
        return Ok(Document::Nothing);
    };
    Ok(match text {
        Some(text) if !text.is_empty() => Document::Delta(index, channel, text),
        _ => Document::Nothing,
    })
}

fn read_call<'a>(call: &Object<'a>, malformed: &mut bool) -> Result<Call<'a>, Error> {
    let id = call.text("toolUseId", malformed)?.unwrap_or_default();
    Ok(Call { id, name: call.text("name", malformed)?.unwrap_or_default() })
}

fn read_whole<'a>(object: &Object<'a>, malformed: &mut bool) -> Result<Whole<'a>, Error> {
    let output = object.object("output", malformed)?.unwrap_or_default();
    let message = output.object("message", malformed)?.unwrap_or_default();
    let mut blocks = Vec::new();
    for json in message.array("content", malformed)? {
        match Object::within(json)? {
            Some(block) => blocks.extend(read_block(&block, malformed)?),
            None => *malformed = true,
        }
    }
    let usage = object.object("usage", malformed)?.and_then(|usage| read_usage(&usage));
    Ok(Whole { blocks, finish: finish_reason(object, malformed)?, usage })
}

fn read_block<'a>(block: &Object<'a>, malformed: &mut bool) -> Result<Option<Block<'a>>, Error> {
    if block.get("text").is_some() {
        return Ok(block.text("text", malformed)?.map(|text| Block::Text(Channel::Answer, text)));
    }
    if let Some(call) = block.object("toolUse", malformed)? {
        let input = call.get("input").map(without_whitespace).unwrap_or_default();
        return Ok(Some(Block::Call(read_call(&call, malformed)?, input)));
    }
    let reasoning = block.object("reasoningContent", malformed)?.unwrap_or_default();
    let text = reasoning.object("reasoningText", malformed)?.unwrap_or_default().text("text", malformed)?;
    Ok(text.map(|text| Block::Text(Channel::Reasoning, text)))
}

fn finish_reason(object: &Object<'_>, malformed: &mut bool) -> Result<Option<FinishReason>, Error> {
    let reason = object.text("stopReason", malformed)?;
    Ok(reason.map(|reason| match &*reason {
        "end_turn" | "stop_sequence" => FinishReason::Stop,
        "max_tokens" | "model_context_window_exceeded" => FinishReason::Length,
        "tool_use" => FinishReason::ToolCalls,
        "guardrail_intervened" | "content_filtered" => FinishReason::ContentFilter,
        _ => FinishReason::Other,
    }))
}
