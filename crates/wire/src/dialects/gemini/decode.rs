//! Chunks of a stream and whole answers, which have the same form, as events.
//!
//! Invariant: signatures and search results are left out, and a picture is no text; a call's arguments are emitted as
//! the JSON they are, without the white space between its values.

use super::usage::read_usage;
use crate::document_decoder::{
    DocumentDecoder, Part, Pattern, Source, UsageReading, emit_failure, emit_model, emit_usage,
};
use crate::object::{Object, elements, range_within, read_text, without_whitespace};
use serde_json::Error;
use std::borrow::Cow;
use tokrate_core::{Anomaly, Channel, EventBatch, EventKind, FinishReason, Tick};

/// What has to be remembered from chunk to chunk.
#[derive(Clone, Debug, Default)]
pub(crate) struct GeminiDecoder {
    model: String,
    /// Calls emitted so far.
    calls: u32,
    /// The last finish reason that came. It is emitted at the end: some servers name one in every chunk, and only the last
    /// one holds.
    finish: Option<FinishReason>,
}

/// One chunk, read and not yet emitted.
#[derive(Default)]
struct Chunk<'a> {
    model: Option<Cow<'a, str>>,
    deltas: Vec<Delta<'a>>,
    finish: Option<FinishReason>,
    /// The usage block as JSON.
    usage: Option<&'a str>,
    failure: Option<&'a str>,
    extra_choices: u32,
    malformed: bool,
    /// None of the dialect's fields is there.
    unrecognised: bool,
}

enum Delta<'a> {
    /// Text, and where its JSON stands if it may be a pattern's.
    Text(Channel, Cow<'a, str>, Option<&'a str>),
    Call {
        id: Cow<'a, str>,
        name: Cow<'a, str>,
    },
    /// A picture, or sound.
    Opaque,
}

impl DocumentDecoder for GeminiDecoder {
    fn decode(&mut self, source: Source<'_>, json: &str, out: &mut EventBatch) -> Result<Option<Pattern>, Error> {
        let chunk = read(json)?;
        let at = source.at;
        emit_model(&mut self.model, at, chunk.model.as_deref(), out);
        let before = out.events().len();
        let usage = chunk.usage.map_or(Ok(None), read_usage);
        if chunk.malformed || chunk.unrecognised || usage.is_err() {
            out.push(at, EventKind::Anomaly(Anomaly::Malformed));
        }
        for _ in 0..chunk.extra_choices {
            out.push(at, EventKind::Anomaly(Anomaly::ExtraChoice));
        }
        for delta in &chunk.deltas {
            self.emit(at, delta, out);
        }
        self.finish = chunk.finish.or(self.finish);
        let reading = usage.unwrap_or(None);
        if let Some(reading) = reading {
            emit_usage(at, reading, out);
        }
        if let Some(failure) = chunk.failure {
            emit_failure(at, failure, out);
        } else if source.part == Part::Whole && !chunk.unrecognised {
            self.emit_finish(at, out);
            out.push(at, EventKind::Done);
        }
        if out.events().len() == before && chunk.finish.is_none() {
            out.push(at, EventKind::Empty);
        }
        Ok(pattern(json, &chunk, reading.is_some()))
    }

    fn decode_usage(&self, json: &str) -> Option<UsageReading> {
        read_usage(json).ok()?
    }

    fn is_known_field(&self, field: &str) -> bool {
        matches!(
            field,
            "candidates"
                | "promptFeedback"
                | "prompt_feedback"
                | "usageMetadata"
                | "usage_metadata"
                | "modelVersion"
                | "model_version"
                | "responseId"
                | "response_id"
                | "createTime"
                | "create_time"
                | "modelStatus"
                | "error"
        )
    }

    /// The stream has no end mark: its end is one if there was a finish reason.
    fn end(&mut self, at: Tick, out: &mut EventBatch) {
        if self.emit_finish(at, out) {
            out.push(at, EventKind::Done);
        }
    }
}

impl GeminiDecoder {
    /// Emits the finish reason, if it is known and not emitted yet.
    fn emit_finish(&mut self, at: Tick, out: &mut EventBatch) -> bool {
        let Some(reason) = self.finish.take() else { return false };
        // There is no reason of its own for calls.
        let calls = reason == FinishReason::Stop && self.calls > 0;
        out.push(at, EventKind::Finish(if calls { FinishReason::ToolCalls } else { reason }));
        true
    }

    fn emit(&mut self, at: Tick, delta: &Delta<'_>, out: &mut EventBatch) {
        match delta {
            Delta::Text(channel, text, _) => out.push_text(at, *channel, text),
            Delta::Opaque => out.push(at, EventKind::Opaque),
            Delta::Call { id, name } => {
                let index = self.calls;
                self.calls = self.calls.saturating_add(1);
                let (id, name) = (out.store(id), out.store(name));
                out.push(at, EventKind::ToolCall { index, id, name });
            }
        }
    }
}

/// The pattern of a chunk that is one text, with a usage block or without.
fn pattern(json: &str, chunk: &Chunk<'_>, counted: bool) -> Option<Pattern> {
    let [Delta::Text(channel, _, Some(inside))] = chunk.deltas[..] else { return None };
    let notable = chunk.finish.is_some() || chunk.failure.is_some() || chunk.extra_choices > 0 || chunk.malformed;
    if notable {
        return None;
    }
    let usage = if counted { Some(range_within(json, chunk.usage?)?) } else { None };
    Some(Pattern { channel, text: range_within(json, inside)?, skips: Vec::new(), usage })
}

/// Reads a chunk. Fails on broken syntax only.
fn read(json: &str) -> Result<Chunk<'_>, Error> {
    let mut chunk = Chunk::default();
    let mut root = Object::read(json)?;
    if root.is_none()
        && let Some(mut elements) = elements(json)
    {
        // Errors come in an array of one element when the stream would have been an array.
        root = elements.next().map_or(Ok(None), Object::within)?;
        chunk.malformed = elements.next().is_some();
    }
    let Some(root) = root else {
        chunk.unrecognised = true;
        return Ok(chunk);
    };
    let wrong = &mut chunk.malformed;
    chunk.model = text(&root, "modelVersion", "model_version", wrong)?;
    chunk.usage = field(&root, "usageMetadata", "usage_metadata");
    chunk.failure = root.get("error");
    let feedback = field(&root, "promptFeedback", "prompt_feedback");
    let candidates = root.array("candidates", wrong)?;
    let known =
        ["candidates", "responseId", "response_id"].iter().any(|name| root.fields().any(|(field, _)| field == *name))
            || chunk.model.is_some()
            || chunk.usage.is_some()
            || chunk.failure.is_some()
            || feedback.is_some();
    chunk.unrecognised = !known;
    for (position, candidate) in candidates.into_iter().enumerate() {
        match Object::within(candidate)? {
            Some(candidate) => read_candidate(&candidate, position, &mut chunk)?,
            None => chunk.malformed = true,
        }
    }
    if let Some(feedback) = feedback {
        match Object::within(feedback)? {
            Some(feedback) => {
                let reason = text(&feedback, "blockReason", "block_reason", &mut chunk.malformed)?;
                if reason.is_some_and(|reason| {
                    reason != "BLOCK_REASON_UNSPECIFIED" && reason != "BLOCKED_REASON_UNSPECIFIED"
                }) {
                    chunk.finish = Some(FinishReason::ContentFilter);
                }
            }
            None => chunk.malformed = true,
        }
    }
    Ok(chunk)
}

fn read_candidate<'a>(candidate: &Object<'a>, position: usize, chunk: &mut Chunk<'a>) -> Result<(), Error> {
    let index = candidate.count("index", &mut chunk.malformed).unwrap_or(position as u64);
    if index != 0 {
        chunk.extra_choices += 1;
        return Ok(());
    }
    let reason = text(candidate, "finishReason", "finish_reason", &mut chunk.malformed)?;
    chunk.finish = reason.as_deref().and_then(finish_reason).or(chunk.finish);
    let Some(content) = candidate.object("content", &mut chunk.malformed)? else { return Ok(()) };
    let Some(parts) = content.get("parts") else { return Ok(()) };
    match elements(parts) {
        Some(parts) => {
            for part in parts {
                read_part(part, chunk)?;
            }
            Ok(())
        }
        None => read_part(parts, chunk),
    }
}

fn read_part<'a>(json: &'a str, chunk: &mut Chunk<'a>) -> Result<(), Error> {
    let Some(part) = Object::within(json)? else {
        chunk.malformed = true;
        return Ok(());
    };
    if let Some(json) = part.get("text") {
        let channel = if part.get("thought") == Some("true") { Channel::Reasoning } else { Channel::Answer };
        match read_text(json)? {
            Some(text) if text.is_empty() => {}
            Some(text) => chunk.deltas.push(Delta::Text(channel, text, Some(&json[1..json.len() - 1]))),
            None => chunk.malformed = true,
        }
    }
    if field(&part, "inlineData", "inline_data").is_some() {
        chunk.deltas.push(Delta::Opaque);
    }
    if let Some(json) = field(&part, "functionCall", "function_call") {
        match Object::within(json)? {
            Some(call) => read_call(&call, chunk)?,
            None => chunk.malformed = true,
        }
    }
    // Code that the model writes for the provider to run is what the arguments of any other tool are; its result is not
    // the model's.
    if let Some(json) = field(&part, "executableCode", "executable_code") {
        match Object::within(json)? {
            Some(code) => {
                if let Some(code) = code.text("code", &mut chunk.malformed)? {
                    chunk.deltas.push(Delta::Text(Channel::Tool, code, None));
                }
            }
            None => chunk.malformed = true,
        }
    }
    Ok(())
}

/// Reads a call. One without a name goes on with the call before it: Vertex can send arguments piece by piece.
fn read_call<'a>(call: &Object<'a>, chunk: &mut Chunk<'a>) -> Result<(), Error> {
    let id = call.text("id", &mut chunk.malformed)?.unwrap_or_default();
    let name = call.text("name", &mut chunk.malformed)?.unwrap_or_default();
    if !name.is_empty() || !id.is_empty() {
        chunk.deltas.push(Delta::Call { id, name });
    }
    if let Some(json) = call.get("args") {
        // Not the dialect's, but some servers put the arguments' JSON into a string.
        let text = read_text(json)?.unwrap_or_else(|| without_whitespace(json));
        chunk.deltas.push(Delta::Text(Channel::Tool, text, None));
    }
    let Some(partial) = field(call, "partialArgs", "partial_args") else { return Ok(()) };
    for json in elements(partial).into_iter().flatten() {
        let Some(piece) = Object::within(json)? else { continue };
        let value = field(&piece, "stringValue", "string_value")
            .or_else(|| field(&piece, "numberValue", "number_value"))
            .or_else(|| field(&piece, "boolValue", "bool_value"));
        if let Some(json) = value {
            let text = read_text(json)?.unwrap_or(Cow::Borrowed(json));
            chunk.deltas.push(Delta::Text(Channel::Tool, text, None));
        }
    }
    Ok(())
}

/// A field under either of its two spellings.
pub(super) fn field<'a>(object: &Object<'a>, camel: &str, snake: &str) -> Option<&'a str> {
    object.get(camel).or_else(|| object.get(snake))
}

/// A text under either of its two spellings.
fn text<'a>(object: &Object<'a>, camel: &str, snake: &str, wrong: &mut bool) -> Result<Option<Cow<'a, str>>, Error> {
    let Some(json) = field(object, camel, snake) else { return Ok(None) };
    let text = read_text(json)?;
    *wrong |= text.is_none();
    Ok(text)
}

/// What the reason means; the unspecified one is none.
fn finish_reason(name: &str) -> Option<FinishReason> {
    Some(match name {
        "" | "FINISH_REASON_UNSPECIFIED" => return None,
        "STOP" => FinishReason::Stop,
        "MAX_TOKENS" => FinishReason::Length,
        "SAFETY"
        | "RECITATION"
        | "PROHIBITED_CONTENT"
        | "BLOCKLIST"
        | "SPII"
        | "MODEL_ARMOR"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION" => FinishReason::ContentFilter,
        _ => FinishReason::Other,
    })
}
