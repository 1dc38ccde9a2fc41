//! Events of a stream and whole messages as events.
//!
//! Invariant: signatures, citations and redacted thinking are no text; a tool's input is emitted as the JSON it is,
//! without the white space between its values.

use super::usage::{read_usage, usage_at_start};
use crate::document_decoder::{DocumentDecoder, Pattern, Source, emit_failure, emit_model, emit_usage};
use crate::object::{Object, range_within, without_whitespace};
use serde_json::Error;
use std::borrow::Cow;
use tokrate_core::{Anomaly, Channel, EventBatch, EventKind, FinishReason, TextRange, Tick};

/// What has to be remembered from event to event.
#[derive(Clone, Debug, Default)]
pub(crate) struct MessagesDecoder {
    model: String,
    /// The index of the content block of each tool call, in order of appearance.
    calls: Vec<u64>,
    /// The block that tool text belongs to at present.
    open: Option<u64>,
}

/// One document, read and not yet emitted.
enum Document<'a> {
    /// It carries nothing that is measured: a ping, the end of a block, an event of a kind that came later.
    Nothing,
    /// It is none of the dialect's.
    Unrecognised,
    /// `message_start`.
    Start(Message<'a>),
    /// `content_block_start`.
    Block(u64, Block<'a>),
    /// `content_block_delta` with text: the block, the text, and its JSON.
    Delta(u64, Channel, Cow<'a, str>, &'a str),
    /// `message_delta`.
    Change(Message<'a>),
    /// `message_stop`.
    Stop,
    Failure,
    Whole(Message<'a>),
}

#[derive(Default)]
struct Message<'a> {
    model: Option<Cow<'a, str>>,
    blocks: Vec<Block<'a>>,
    finish: Option<FinishReason>,
    usage: Option<&'a str>,
}

/// One content block; texts that its kind does not have are empty.
#[derive(Default)]
struct Block<'a> {
    reasoning: Cow<'a, str>,
    answer: Cow<'a, str>,
    call: Option<Call<'a>>,
}

struct Call<'a> {
    id: Cow<'a, str>,
    name: Cow<'a, str>,
    input: Option<&'a str>,
}

/// The fields at the top of events and of whole messages.
const FIELDS: [&str; 15] = [
    "type",
    "message",
    "index",
    "content_block",
    "delta",
    "usage",
    "error",
    "request_id",
    "id",
    "role",
    "model",
    "content",
    "stop_reason",
    "stop_sequence",
    "container",
];

impl DocumentDecoder for MessagesDecoder {
    fn decode(&mut self, source: Source<'_>, json: &str, out: &mut EventBatch) -> Result<Option<Pattern>, Error> {
        let mut malformed = false;
        let document = read(json, source.name, &mut malformed)?;
        let at = source.at;
        if malformed || matches!(document, Document::Unrecognised) {
            out.push(at, EventKind::Anomaly(Anomaly::Malformed));
        }
        let before = out.events().len();
        let mut named = 0;
        match document {
            Document::Nothing | Document::Unrecognised => {}
            Document::Start(message) => {
                named = usize::from(emit_model(&mut self.model, at, message.model.as_deref(), out));
                if let Some(reading) = message.usage.and_then(read_usage).and_then(usage_at_start) {
                    emit_usage(at, reading, out);
                }
            }
            Document::Block(index, block) => self.emit_block(at, index, &block, false, out),
            Document::Delta(index, channel, text, inside) => {
                if channel == Channel::Tool {
                    self.select_call(at, index, out);
                }
                let alone = out.events().len() == before && !malformed;
                out.push_text(at, channel, &text);
                return Ok(if alone { pattern(json, channel, inside) } else { None });
            }
            Document::Change(message) => emit_end(at, &message, out),
            Document::Stop => out.push(at, EventKind::Done),
            Document::Failure => emit_failure(at, json, out),
            Document::Whole(message) => {
                emit_model(&mut self.model, at, message.model.as_deref(), out);
                for (index, block) in (0..).zip(&message.blocks) {
                    self.emit_block(at, index, block, true, out);
                }
                emit_end(at, &message, out);
                out.push(at, EventKind::Done);
            }
        }
        if out.events().len() == before + named {
            out.push(at, EventKind::Empty);
        }
        Ok(None)
    }

    fn is_known_field(&self, field: &str) -> bool {
        FIELDS.contains(&field)
    }
}

impl MessagesDecoder {
    /// Emits a block. In a stream the input of a call follows piece by piece, and stands as `{}` in the block itself.
    fn emit_block(&mut self, at: Tick, index: u64, block: &Block<'_>, whole: bool, out: &mut EventBatch) {
        out.push_text(at, Channel::Reasoning, &block.reasoning);
        out.push_text(at, Channel::Answer, &block.answer);
        let Some(call) = &block.call else { return };
        let ordinal = ordinal(self.calls.len());
        self.calls.push(index);
        self.open = Some(index);
        let (id, name) = (out.store(&call.id), out.store(&call.name));
        out.push(at, EventKind::ToolCall { index: ordinal, id, name });
        let input = call.input.map(without_whitespace).unwrap_or_default();
        if whole || input != "{}" {
            out.push_text(at, Channel::Tool, &input);
        }
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
}

fn ordinal(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}

fn emit_end(at: Tick, message: &Message<'_>, out: &mut EventBatch) {
    if let Some(reason) = message.finish {
        out.push(at, EventKind::Finish(reason));
    }
    if let Some(reading) = message.usage.and_then(read_usage) {
        emit_usage(at, reading, out);
    }
}

/// A text between bytes that are the same in every event of its block. Anthropic pads its events with white space before the
/// last brace, a different number each time.
fn pattern(json: &str, channel: Channel, inside: &str) -> Option<Pattern> {
    let text = range_within(json, inside)?;
    let end = json.trim_ascii_end().strip_suffix('}')?;
    let padding = end.trim_ascii_end().len()..end.len();
    Some(Pattern { channel, text, skips: vec![padding], usage: None })
}

/// Reads a document, whose kind is the event's name where it has no `type`.
fn read<'a>(json: &'a str, name: &[u8], malformed: &mut bool) -> Result<Document<'a>, Error> {
    let Some(object) = Object::read(json)? else { return Ok(Document::Unrecognised) };
    let kind = object.text("type", malformed)?;
    let kind = kind.as_deref().or(std::str::from_utf8(name).ok()).unwrap_or_default();
    Ok(match kind {
        "content_block_delta" => read_delta(&object, malformed)?,
        "message_start" => {
            let message = object.object("message", malformed)?;
            *malformed |= message.is_none();
            Document::Start(message.map_or(Ok(Message::default()), |message| read_message(&message, malformed))?)
        }
        "content_block_start" => {
            let index = object.count("index", malformed).unwrap_or(0);
            match object.object("content_block", malformed)? {
                Some(block) => Document::Block(index, read_block(&block, malformed)?),
                None => Document::Unrecognised,
            }
        }
        "message_delta" => {
            let delta = object.object("delta", malformed)?.unwrap_or_default();
            Document::Change(Message {
                finish: finish_reason(&delta, malformed)?,
                usage: usage_of(&object, malformed),
                ..Message::default()
            })
        }
        "message_stop" => Document::Stop,
        "message" => Document::Whole(read_message(&object, malformed)?),
        "error" => Document::Failure,
        _ if object.get("error").is_some() => Document::Failure,
        "" if object.get("message").or(object.get("detail")).is_some() => Document::Failure,
        "" => Document::Unrecognised,
        _ => Document::Nothing,
    })
}

fn read_delta<'a>(object: &Object<'a>, malformed: &mut bool) -> Result<Document<'a>, Error> {
    let index = object.count("index", malformed).unwrap_or(0);
    let Some(delta) = object.object("delta", malformed)? else { return Ok(Document::Unrecognised) };
    let kind = delta.text("type", malformed)?.unwrap_or_default();
    let (field, channel) = match &*kind {
        "text_delta" => ("text", Channel::Answer),
        "thinking_delta" => ("thinking", Channel::Reasoning),
        "input_json_delta" => ("partial_json", Channel::Tool),
        _ => return Ok(Document::Nothing),
    };
    Ok(match (delta.text(field, malformed)?, delta.get(field)) {
        (Some(text), Some(json)) if !text.is_empty() => Document::Delta(index, channel, text, &json[1..json.len() - 1]),
        _ => Document::Nothing,
    })
}

fn read_message<'a>(object: &Object<'a>, malformed: &mut bool) -> Result<Message<'a>, Error> {
    let mut blocks = Vec::new();
    for json in object.array("content", malformed)? {
        match Object::within(json)? {
            Some(block) => blocks.push(read_block(&block, malformed)?),
            None => *malformed = true,
        }
    }
    let (model, finish) = (object.text("model", malformed)?, finish_reason(object, malformed)?);
    Ok(Message { model, blocks, finish, usage: usage_of(object, malformed) })
}

/// The usage block as JSON; anything but an object is no usage block.
fn usage_of<'a>(object: &Object<'a>, malformed: &mut bool) -> Option<&'a str> {
    let usage = object.get("usage")?;
    let is_object = usage.starts_with('{');
    *malformed |= !is_object;
    is_object.then_some(usage)
}

fn read_block<'a>(object: &Object<'a>, malformed: &mut bool) -> Result<Block<'a>, Error> {
    let mut block = Block::default();
    match &*object.text("type", malformed)?.unwrap_or_default() {
        "text" => block.answer = object.text("text", malformed)?.unwrap_or_default(),
        "thinking" => block.reasoning = object.text("thinking", malformed)?.unwrap_or_default(),
        // The provider's own tools are called by the model in the same way.
        "tool_use" | "server_tool_use" | "mcp_tool_use" => {
            let id = object.text("id", malformed)?.unwrap_or_default();
            let name = object.text("name", malformed)?.unwrap_or_default();
            block.call = Some(Call { id, name, input: object.get("input") });
        }
        _ => {}
    }
    Ok(block)
}

fn finish_reason(object: &Object<'_>, malformed: &mut bool) -> Result<Option<FinishReason>, Error> {
    let reason = object.text("stop_reason", malformed)?;
    Ok(reason.map(|reason| match &*reason {
        "end_turn" | "stop_sequence" => FinishReason::Stop,
        "max_tokens" | "model_context_window_exceeded" => FinishReason::Length,
        "tool_use" => FinishReason::ToolCalls,
        "refusal" => FinishReason::ContentFilter,
        _ => FinishReason::Other,
    }))
}
