//! Events of a stream and whole responses as events.
//!
//! Invariant: a text is emitted once. Streams repeat each text at the end of its part, of its item and of the response;
//! it is emitted where it comes first, and the repetitions are skipped, unless a server sends nothing but them.

use super::item::{Call, Item, Opaque, read_item, read_items, read_part};
use crate::dialects::openai_chat::read_usage;
use crate::document_decoder::{DocumentDecoder, Pattern, Source, emit_failure, emit_model, emit_usage};
use crate::object::{Object, range_within};
use crate::timings::read_engine_timings;
use serde_json::Error;
use std::borrow::Cow;
use tokrate_core::{Anomaly, Channel, EventBatch, EventKind, FinishReason, TextRange, Tick};

/// What has to be remembered from event to event.
#[derive(Clone, Debug, Default)]
pub(crate) struct ResponsesDecoder {
    model: String,
    calls: Vec<KnownCall>,
    /// The call that tool text belongs to at present.
    open: Option<usize>,
    /// A call that the client has to carry out was among the output.
    client_call: bool,
    /// The level at which the texts of each channel are emitted; in the last places that of calls and of output that is no text.
    emitted_at: [Option<Level>; 5],
}

/// How a call that was seen is named by later events.
#[derive(Clone, PartialEq, Eq, Debug)]
struct KnownCall {
    output_index: Option<u64>,
    ids: [String; 2],
}

/// Where in a stream a text stands, from the first place to the last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Level {
    Delta,
    Text,
    Part,
    Item,
    Response,
}

const CALLS: usize = 3;
const OPAQUE: usize = 4;

/// The item that an event is about.
#[derive(Default)]
struct Place<'a> {
    output_index: Option<u64>,
    item_id: Cow<'a, str>,
}

/// One document, read and not yet emitted.
enum Document<'a> {
    /// It carries nothing that is measured.
    Nothing,
    /// It is none of the dialect's.
    Unrecognised,
    /// Some text, and its JSON.
    Delta(Place<'a>, Channel, Cow<'a, str>, &'a str),
    /// An item begins.
    Added(Place<'a>, Item<'a>),
    /// A text, a part or an item is complete.
    Complete(Place<'a>, Level, Item<'a>),
    /// A piece of a picture or of sound.
    Opaque,
    /// The response as it stands at present.
    InProgress(Response<'a>),
    /// The response at its end.
    Finished(Response<'a>),
    Failure,
}

#[derive(Default)]
struct Response<'a> {
    model: Option<Cow<'a, str>>,
    items: Vec<Item<'a>>,
    status: Cow<'a, str>,
    /// Why it is incomplete.
    reason: Cow<'a, str>,
    error: Option<&'a str>,
    usage: Option<&'a str>,
    timings: Option<&'a str>,
}

/// The fields at the top of events, llama.cpp's own `timings` among them.
const EVENT_FIELDS: [&str; 30] = [
    "type",
    "sequence_number",
    "response",
    "item",
    "item_id",
    "output_index",
    "content_index",
    "summary_index",
    "delta",
    "logprobs",
    "obfuscation",
    "text",
    "part",
    "arguments",
    "name",
    "input",
    "refusal",
    "code",
    "message",
    "param",
    "annotation",
    "annotation_index",
    "partial_image_b64",
    "partial_image_index",
    "background",
    "output_format",
    "quality",
    "size",
    "error",
    "timings",
];

/// The fields of a response.
const RESPONSE_FIELDS: [&str; 36] = [
    "id",
    "object",
    "created_at",
    "completed_at",
    "status",
    "background",
    "billing",
    "conversation",
    "error",
    "frequency_penalty",
    "incomplete_details",
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "model",
    "output",
    "parallel_tool_calls",
    "presence_penalty",
    "previous_response_id",
    "prompt",
    "prompt_cache_key",
    "prompt_cache_retention",
    "reasoning",
    "safety_identifier",
    "service_tier",
    "store",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "truncation",
    "usage",
    "user",
];

impl DocumentDecoder for ResponsesDecoder {
    fn decode(&mut self, source: Source<'_>, json: &str, out: &mut EventBatch) -> Result<Option<Pattern>, Error> {
        let mut malformed = false;
        let Some(object) = Object::read(json)? else {
            out.push(source.at, EventKind::Anomaly(Anomaly::Malformed));
            return Ok(None);
        };
        let document = read(&object, source.name, &mut malformed)?;
        let at = source.at;
        if malformed || matches!(document, Document::Unrecognised) {
            out.push(at, EventKind::Anomaly(Anomaly::Malformed));
        }
        let before = out.events().len();
        let mut named = 0;
        match document {
            Document::Nothing | Document::Unrecognised => {}
            Document::Delta(place, channel, text, inside) => {
                self.emit(at, &place, Level::Delta, channel, &text, out);
                let alone = out.events().len() == before + 1 && !malformed;
                return Ok(if alone { pattern(json, &object, channel, inside) } else { None });
            }
            Document::Added(place, item) => {
                if let Some(call) = &item.call {
                    self.open_call(at, place.output_index, Level::Delta, call, out);
                }
            }
            Document::Opaque => self.emit_opaque(at, Level::Delta, out),
            Document::Complete(place, level, item) => self.emit_item(at, &place, level, &item, out),
            Document::InProgress(response) => {
                named = usize::from(emit_model(&mut self.model, at, response.model.as_deref(), out))
            }
            Document::Finished(response) => self.emit_end(at, response, out),
            Document::Failure => emit_failure(at, json, out),
        }
        if out.events().len() == before + named {
            out.push(at, EventKind::Empty);
        }
        Ok(None)
    }

    fn is_known_field(&self, field: &str) -> bool {
        EVENT_FIELDS.contains(&field) || RESPONSE_FIELDS.contains(&field)
    }
}

impl ResponsesDecoder {
    /// Whether what stands at this level comes for the first time: nothing like it came at an earlier level.
    fn is_first(&mut self, slot: usize, level: Level) -> bool {
        let is_first = self.emitted_at[slot].is_none_or(|emitted_at| level <= emitted_at);
        if is_first {
            self.emitted_at[slot] = Some(level);
        }
        is_first
    }

    fn emit(&mut self, at: Tick, place: &Place<'_>, level: Level, channel: Channel, text: &str, out: &mut EventBatch) {
        if self.is_first(channel as usize, level) {
            if channel == Channel::Tool {
                self.select_call(at, place, out);
            }
            out.push_text(at, channel, text);
        }
    }

    fn emit_item(&mut self, at: Tick, place: &Place<'_>, level: Level, item: &Item<'_>, out: &mut EventBatch) {
        if let Some(call) = &item.call {
            self.open_call(at, place.output_index, level, call, out);
        }
        for (channel, text) in &item.texts {
            self.emit(at, place, level, *channel, text, out);
        }
        if let Some(opaque) = item.opaque {
            self.client_call |= opaque == Opaque::Call;
            self.emit_opaque(at, level, out);
        }
    }

    fn emit_opaque(&mut self, at: Tick, level: Level, out: &mut EventBatch) {
        if self.is_first(OPAQUE, level) {
            out.push(at, EventKind::Opaque);
        }
    }

    fn open_call(&mut self, at: Tick, place: Option<u64>, level: Level, call: &Call<'_>, out: &mut EventBatch) {
        self.client_call |= call.client;
        if !self.is_first(CALLS, level) {
            return;
        }
        let index = ordinal(self.calls.len());
        self.open = Some(self.calls.len());
        let ids = [call.item_id.clone().into_owned(), call.id.clone().into_owned()];
        self.calls.push(KnownCall { output_index: place, ids });
        let (id, name) = (out.store(&call.id), out.store(&call.name));
        out.push(at, EventKind::ToolCall { index, id, name });
    }

    /// Makes the call at a place the one that tool text belongs to.
    fn select_call(&mut self, at: Tick, place: &Place<'_>, out: &mut EventBatch) {
        let by_index = || self.calls.iter().rposition(|call| call.output_index == place.output_index);
        let by_id = || self.calls.iter().rposition(|call| call.ids.iter().any(|id| *id == place.item_id));
        let found = place.output_index.and_then(|_| by_index());
        let found = found.or_else(|| if place.item_id.is_empty() { None } else { by_id() });
        // A place that nothing was announced at: whatever is open goes on.
        let found = found.or(self.open);
        if found.is_some() && found == self.open {
            return;
        }
        let position = found.unwrap_or(self.calls.len());
        if found.is_none() {
            let ids = [place.item_id.clone().into_owned(), String::new()];
            self.calls.push(KnownCall { output_index: place.output_index, ids });
        }
        self.open = Some(position);
        let (id, name) = (TextRange::default(), TextRange::default());
        out.push(at, EventKind::ToolCall { index: ordinal(position), id, name });
    }

    fn emit_end(&mut self, at: Tick, response: Response<'_>, out: &mut EventBatch) {
        emit_model(&mut self.model, at, response.model.as_deref(), out);
        for (index, item) in (0..).zip(&response.items) {
            let item_id = item.call.as_ref().map_or(Cow::Borrowed(""), |call| call.item_id.clone());
            let place = Place { output_index: Some(index), item_id };
            self.emit_item(at, &place, Level::Response, item, out);
        }
        let failed = response.error.is_some() || response.status == "failed";
        let finish = match &*response.status {
            _ if failed => None,
            "" | "completed" if self.client_call => Some(FinishReason::ToolCalls),
            "" | "completed" => Some(FinishReason::Stop),
            "incomplete" => Some(match &*response.reason {
                "max_output_tokens" => FinishReason::Length,
                "content_filter" => FinishReason::ContentFilter,
                _ => FinishReason::Other,
            }),
            // A response that goes on in the background: what was asked for has come.
            "queued" | "in_progress" => Some(FinishReason::Other),
            _ => Some(FinishReason::Other),
        };
        if let Some(reason) = finish {
            out.push(at, EventKind::Finish(reason));
        }
        if let Some(Ok(Some(reading))) = response.usage.map(read_usage) {
            emit_usage(at, reading, out);
        }
        if let Some(timings) = response.timings.and_then(read_engine_timings) {
            out.push_timings(at, timings);
        }
        if failed {
            emit_failure(at, response.error.unwrap_or(r#"{"message":"the response failed, no reason given"}"#), out);
        }
        out.push(at, EventKind::Done);
    }
}

fn ordinal(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}

/// A text between bytes that are the same in every event of its part, but for counters, padding and probabilities.
fn pattern(json: &str, object: &Object<'_>, channel: Channel, inside: &str) -> Option<Pattern> {
    // Some servers make up a new item identifier for every event. Tool text needs something that names its call.
    let numbered = channel != Channel::Tool || object.get("output_index").is_some();
    let varies = |name: &str| match name {
        "sequence_number" | "obfuscation" | "logprobs" | "timings" => true,
        "item_id" => numbered,
        _ => false,
    };
    let skips = object.fields().filter(|(name, _)| varies(name)).filter_map(|(_, value)| range_within(json, value));
    Some(Pattern { channel, text: range_within(json, inside)?, skips: skips.collect(), usage: None })
}

/// Reads a document, whose kind is the event's name where it has no `type`.
fn read<'a>(object: &Object<'a>, name: &[u8], malformed: &mut bool) -> Result<Document<'a>, Error> {
    let kind = object.text("type", malformed)?;
    let kind = kind.as_deref().or(std::str::from_utf8(name).ok()).unwrap_or_default();
    if let Some((channel, field, level)) = text_event(kind) {
        let place = read_place(object, malformed)?;
        let text = object.text(field, malformed)?.filter(|text| !text.is_empty());
        return Ok(match (text, object.get(field)) {
            (Some(text), Some(json)) if level == Level::Delta => {
                Document::Delta(place, channel, text, &json[1..json.len() - 1])
            }
            (Some(text), _) => {
                Document::Complete(place, level, Item { texts: vec![(channel, text)], ..Item::default() })
            }
            _ => Document::Nothing,
        });
    }
    Ok(match kind {
        "response.created" | "response.in_progress" | "response.queued" => {
            Document::InProgress(read_nested(object, kind, malformed)?)
        }
        "response.completed" | "response.incomplete" | "response.failed" | "response.cancelled" => {
            Document::Finished(read_nested(object, kind, malformed)?)
        }
        "response.output_item.added" | "response.output_item.done" => {
            let place = read_place(object, malformed)?;
            match object.object("item", malformed)? {
                None => Document::Unrecognised,
                Some(item) => {
                    let item = read_item(&item, malformed)?;
                    let begins = kind.ends_with("added");
                    if begins { Document::Added(place, item) } else { Document::Complete(place, Level::Item, item) }
                }
            }
        }
        "response.content_part.done" | "response.reasoning_summary_part.done" => {
            let mut item = Item::default();
            if let Some(part) = object.object("part", malformed)? {
                read_part(&part, &mut item.texts, malformed)?;
            }
            Document::Complete(read_place(object, malformed)?, Level::Part, item)
        }
        "response.image_generation_call.partial_image" | "response.output_audio.delta" | "response.audio.delta" => {
            Document::Opaque
        }
        "error" => Document::Failure,
        _ if object.get("output").is_some() || object.get("object") == Some("\"response\"") => {
            let timings = object.get("timings");
            Document::Finished(Response { timings, ..read_response(object, "", malformed)? })
        }
        _ if object.get("error").is_some() => Document::Failure,
        "" if object.get("message").or(object.get("detail")).is_some() => Document::Failure,
        "" => Document::Unrecognised,
        _ => Document::Nothing,
    })
}

/// The events of texts: their channel, the field of the text, and where in a stream it stands.
fn text_event(kind: &str) -> Option<(Channel, &'static str, Level)> {
    let (what, stage) = kind.strip_prefix("response.")?.rsplit_once('.')?;
    let (channel, whole) = match what {
        "output_text" => (Channel::Answer, "text"),
        "refusal" => (Channel::Answer, "refusal"),
        "reasoning_text" | "reasoning_summary_text" => (Channel::Reasoning, "text"),
        "function_call_arguments" | "mcp_call_arguments" => (Channel::Tool, "arguments"),
        "custom_tool_call_input" => (Channel::Tool, "input"),
        "code_interpreter_call_code" => (Channel::Tool, "code"),
        _ => return None,
    };
    match stage {
        "delta" => Some((channel, "delta", Level::Delta)),
        "done" => Some((channel, whole, Level::Text)),
        _ => None,
    }
}

fn read_place<'a>(object: &Object<'a>, malformed: &mut bool) -> Result<Place<'a>, Error> {
    let output_index = object.count("output_index", malformed);
    Ok(Place { output_index, item_id: object.text("item_id", malformed)?.unwrap_or_default() })
}

/// The `response` of an event, whose status follows from the event's kind where it has none.
fn read_nested<'a>(object: &Object<'a>, kind: &str, malformed: &mut bool) -> Result<Response<'a>, Error> {
    let status = kind.strip_prefix("response.").unwrap_or_default();
    let nested = object.object("response", malformed)?;
    *malformed |= nested.is_none();
    let mut response = read_response(&nested.unwrap_or_default(), status, malformed)?;
    // llama.cpp puts its own times beside the response.
    response.timings = object.get("timings").or(response.timings);
    Ok(response)
}

fn read_response<'a>(object: &Object<'a>, status: &str, malformed: &mut bool) -> Result<Response<'a>, Error> {
    let details = object.object("incomplete_details", malformed)?.unwrap_or_default();
    let usage = object.get("usage");
    let is_object = usage.is_none_or(|usage| usage.starts_with('{'));
    *malformed |= !is_object;
    Ok(Response {
        model: object.text("model", malformed)?,
        items: read_items(&object.array("output", malformed)?, malformed)?,
        status: object.text("status", malformed)?.unwrap_or_else(|| Cow::Owned(status.to_owned())),
        reason: details.text("reason", malformed)?.unwrap_or_default(),
        error: object.get("error"),
        usage: usage.filter(|_| is_object),
        timings: object.get("timings"),
    })
}
