//! Events of a stream and whole answers of Cohere's chat as events.
//!
//! Invariant: citations are no text; the plan that comes before calls is part of the answer.

use crate::document_decoder::{DocumentDecoder, Pattern, Source, UsageReading, emit_failure, emit_usage};
use crate::object::Object;
use serde_json::Error;
use std::borrow::Cow;
use tokrate_core::{Anomaly, Channel, EventBatch, EventKind, FinishReason, TextRange, Tick, Usage};

/// What has to be remembered from event to event.
#[derive(Clone, Debug, Default)]
pub(crate) struct CohereDecoder {
    /// The index of each tool call, in order of appearance.
    calls: Vec<u64>,
    /// The call that tool text belongs to at present.
    open: Option<u64>,
}

/// One document, read and not yet emitted.
enum Document<'a> {
    /// It carries nothing that is measured.
    Nothing,
    /// It is none of the dialect's.
    Unrecognised,
    Text(Channel, Cow<'a, str>),
    /// `tool-call-start`, with the beginning of its arguments.
    Call(u64, Call<'a>),
    /// `tool-call-delta`.
    Arguments(u64, Cow<'a, str>),
    /// `message-end`.
    End(Ending),
    /// `message-end` with an error.
    Failure(Cow<'a, str>),
    /// The body of an error.
    Refusal,
    Whole(Whole<'a>),
}

#[derive(Default)]
struct Call<'a> {
    id: Cow<'a, str>,
    name: Cow<'a, str>,
    arguments: Cow<'a, str>,
}

#[derive(Default)]
struct Ending {
    finish: Option<FinishReason>,
    usage: Option<UsageReading>,
}

#[derive(Default)]
struct Whole<'a> {
    texts: Vec<(Channel, Cow<'a, str>)>,
    calls: Vec<Call<'a>>,
    ending: Ending,
}

/// The fields at the top of events and of whole answers.
const FIELDS: [&str; 9] =
    ["id", "type", "index", "delta", "message", "finish_reason", "usage", "logprobs", "response_type"];

impl DocumentDecoder for CohereDecoder {
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
            Document::Text(channel, text) => out.push_text(at, channel, &text),
            Document::Call(index, call) => self.emit_call(at, index, &call, out),
            Document::Arguments(index, text) => {
                self.select_call(at, index, out);
                out.push_text(at, Channel::Tool, &text);
            }
            Document::End(ending) => emit_end(at, &ending, out),
            Document::Failure(message) => {
                let message = crate::codec::quoted(&message);
                emit_failure(at, &format!("{{\"error\":{{\"message\":{message}}}}}"), out);
            }
            Document::Refusal => emit_failure(at, json, out),
            Document::Whole(whole) => {
                for (channel, text) in &whole.texts {
                    out.push_text(at, *channel, text);
                }
                for (index, call) in (0..).zip(&whole.calls) {
                    self.emit_call(at, index, call, out);
                }
                emit_end(at, &whole.ending, out);
            }
        }
        if out.events().len() == before {
            out.push(at, EventKind::Empty);
        }
        Ok(None)
    }

    fn is_known_field(&self, field: &str) -> bool {
        FIELDS.contains(&field)
    }
}

impl CohereDecoder {
    fn emit_call(&mut self, at: Tick, index: u64, call: &Call<'_>, out: &mut EventBatch) {
        let ordinal = ordinal(self.calls.len());
        self.calls.push(index);
        self.open = Some(index);
        let (id, name) = (out.store(&call.id), out.store(&call.name));
        out.push(at, EventKind::ToolCall { index: ordinal, id, name });
        out.push_text(at, Channel::Tool, &call.arguments);
    }

    /// Makes a call the one that tool text belongs to.
    fn select_call(&mut self, at: Tick, index: u64, out: &mut EventBatch) {
        if self.open == Some(index) {
            return;
        }
        self.open = Some(index);
        let known = self.calls.iter().rposition(|call| *call == index);
        let ordinal = ordinal(known.unwrap_or(self.calls.len()));
        if known.is_none() {
            self.calls.push(index);
        }
        out.push(at, EventKind::ToolCall { index: ordinal, id: TextRange::default(), name: TextRange::default() });
    }
}

fn ordinal(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}

fn emit_end(at: Tick, ending: &Ending, out: &mut EventBatch) {
    if let Some(reason) = ending.finish {
        out.push(at, EventKind::Finish(reason));
    }
    if let Some(reading) = ending.usage {
        emit_usage(at, reading, out);
    }
    out.push(at, EventKind::Done);
}

/// Reads a document, whose kind is the event's name where it has no `type`.
fn read<'a>(json: &'a str, name: &[u8], malformed: &mut bool) -> Result<Document<'a>, Error> {
    let Some(object) = Object::read(json)? else { return Ok(Document::Unrecognised) };
    let kind = object.text("type", malformed)?;
    let kind = kind.as_deref().or(std::str::from_utf8(name).ok()).unwrap_or_default();
    let index = |malformed: &mut bool| object.count("index", malformed).unwrap_or(0);
    Ok(match kind {
        "content-delta" => read_content(&message_of_delta(&object, malformed)?, malformed)?,
        // Usually empty; what it holds is text all the same.
        "content-start" => read_content(&message_of_delta(&object, malformed)?, malformed)?,
        "tool-plan-delta" => match message_of_delta(&object, malformed)?.text("tool_plan", malformed)? {
            Some(text) if !text.is_empty() => Document::Text(Channel::Answer, text),
            _ => Document::Nothing,
        },
        "tool-call-start" => {
            let index = index(malformed);
            match message_of_delta(&object, malformed)?.object("tool_calls", malformed)? {
                Some(call) => Document::Call(index, read_call(&call, malformed)?),
                None => Document::Unrecognised,
            }
        }
        "tool-call-delta" => {
            let index = index(malformed);
            let call = message_of_delta(&object, malformed)?.object("tool_calls", malformed)?.unwrap_or_default();
            match read_call(&call, malformed)?.arguments {
                text if text.is_empty() => Document::Nothing,
                text => Document::Arguments(index, text),
            }
        }
        "message-end" => {
            let delta = object.object("delta", malformed)?.unwrap_or_default();
            match delta.text("error", &mut false)? {
                Some(message) => Document::Failure(message),
                None => Document::End(read_ending(&delta, malformed)?),
            }
        }
        "" if object.get("finish_reason").or(object.get("usage")).is_some() => {
            Document::Whole(read_whole(&object, malformed)?)
        }
        "" if object.get("message").or(object.get("error")).is_some() => Document::Refusal,
        "" => Document::Unrecognised,
        _ => Document::Nothing,
    })
}

fn message_of_delta<'a>(object: &Object<'a>, malformed: &mut bool) -> Result<Object<'a>, Error> {
    let delta = object.object("delta", malformed)?.unwrap_or_default();
    Ok(delta.object("message", malformed)?.unwrap_or_default())
}

fn read_content<'a>(message: &Object<'a>, malformed: &mut bool) -> Result<Document<'a>, Error> {
    let Some(content) = message.object("content", malformed)? else { return Ok(Document::Nothing) };
    Ok(read_text_of(&content, malformed)?.map_or(Document::Nothing, |(channel, text)| Document::Text(channel, text)))
}

/// The text of a part, and which of the answer's texts it belongs to.
fn read_text_of<'a>(part: &Object<'a>, malformed: &mut bool) -> Result<Option<(Channel, Cow<'a, str>)>, Error> {
    let thinking = part.text("thinking", malformed)?.filter(|text| !text.is_empty());
    if let Some(thinking) = thinking {
        return Ok(Some((Channel::Reasoning, thinking)));
    }
    Ok(part.text("text", malformed)?.filter(|text| !text.is_empty()).map(|text| (Channel::Answer, text)))
}

fn read_call<'a>(call: &Object<'a>, malformed: &mut bool) -> Result<Call<'a>, Error> {
    let function = call.object("function", malformed)?.unwrap_or_default();
    Ok(Call {
        id: call.text("id", malformed)?.unwrap_or_default(),
        name: function.text("name", malformed)?.unwrap_or_default(),
        arguments: function.text("arguments", malformed)?.unwrap_or_default(),
    })
}

fn read_whole<'a>(object: &Object<'a>, malformed: &mut bool) -> Result<Whole<'a>, Error> {
    let message = object.object("message", malformed)?.unwrap_or_default();
    let mut whole = Whole { ending: read_ending(object, malformed)?, ..Whole::default() };
    for json in message.array("content", malformed)? {
        match Object::within(json)? {
            Some(part) => whole.texts.extend(read_text_of(&part, malformed)?),
            None => *malformed = true,
        }
    }
    if let Some(plan) = message.text("tool_plan", malformed)?.filter(|plan| !plan.is_empty()) {
        whole.texts.push((Channel::Answer, plan));
    }
    for json in message.array("tool_calls", malformed)? {
        match Object::within(json)? {
            Some(call) => whole.calls.push(read_call(&call, malformed)?),
            None => *malformed = true,
        }
    }
    Ok(whole)
}

fn read_ending(object: &Object<'_>, malformed: &mut bool) -> Result<Ending, Error> {
    let finish = object.text("finish_reason", malformed)?.map(|reason| match &*reason {
        "COMPLETE" | "STOP_SEQUENCE" => FinishReason::Stop,
        "MAX_TOKENS" => FinishReason::Length,
        "TOOL_CALL" => FinishReason::ToolCalls,
        _ => FinishReason::Other,
    });
    let usage = object.object("usage", malformed)?;
    Ok(Ending { finish, usage: usage.map_or(Ok(None), |usage| read_usage(&usage, malformed))? })
}

/// What is billed, where that is told; else what went through the model, which counts the provider's own words too.
fn read_usage(usage: &Object<'_>, malformed: &mut bool) -> Result<Option<UsageReading>, Error> {
    let billed = usage.object("billed_units", malformed)?.unwrap_or_default();
    let tokens = usage.object("tokens", malformed)?.unwrap_or_default();
    let mut plausible = true;
    let mut count = |of: &Object<'_>, name: &str| {
        let json = of.get(name)?;
        let count = read_number(json);
        plausible &= count.is_some();
        count
    };
    let input = count(&billed, "input_tokens").or(count(&tokens, "input_tokens"));
    let output = count(&billed, "output_tokens").or(count(&tokens, "output_tokens"));
    let cached = count(usage, "cached_tokens").filter(|cached| input.is_none_or(|input| *cached <= input));
    if plausible && input.or(output).is_none() {
        return Ok(None);
    }
    let usage = Usage { input, output, cached_input: cached, ..Usage::default() };
    Ok(Some(UsageReading { usage, plausible }))
}

/// Counts are written as floats by some of its models.
fn read_number(json: &str) -> Option<u64> {
    let whole = json.strip_suffix(".0").unwrap_or(json);
    crate::object::read_count(whole)
}
