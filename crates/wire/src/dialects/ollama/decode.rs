//! Lines of a stream and whole answers, which have the same form, as events.
//!
//! Invariant: the line that is `done` is the end, whatever else it holds; a count that is absent is unknown, not zero.

use crate::document_decoder::{DocumentDecoder, Pattern, Source, UsageReading, emit_failure, emit_model, emit_usage};
use crate::object::{Object, range_within, read_text, without_whitespace};
use serde_json::Error;
use std::borrow::Cow;
use tokrate_core::{Anomaly, Channel, EventBatch, EventKind, FinishReason, ServerTimings, Span, Tick, Usage};

/// What has to be remembered from line to line.
#[derive(Clone, Debug, Default)]
pub(crate) struct OllamaDecoder {
    model: String,
    /// Calls emitted so far.
    calls: u32,
}

/// One line, read and not yet emitted.
#[derive(Default)]
struct Line<'a> {
    model: Option<Cow<'a, str>>,
    deltas: Vec<Delta<'a>>,
    finish: Option<FinishReason>,
    usage: Option<UsageReading>,
    timings: Option<ServerTimings>,
    failed: bool,
    done: bool,
    malformed: bool,
    unrecognised: bool,
    /// Values that change from line to line and are not measured.
    skips: Vec<&'a str>,
}

enum Delta<'a> {
    /// Text, and where its JSON stands if it may be a pattern's.
    Text(Channel, Cow<'a, str>, Option<&'a str>),
    Call {
        id: Cow<'a, str>,
        name: Cow<'a, str>,
    },
}

impl DocumentDecoder for OllamaDecoder {
    fn decode(&mut self, source: Source<'_>, json: &str, out: &mut EventBatch) -> Result<Option<Pattern>, Error> {
        let line = read(json)?;
        let at = source.at;
        emit_model(&mut self.model, at, line.model.as_deref(), out);
        let before = out.events().len();
        if line.malformed || line.unrecognised {
            out.push(at, EventKind::Anomaly(Anomaly::Malformed));
        }
        for delta in &line.deltas {
            self.emit(at, delta, out);
        }
        if let Some(reason) = line.finish {
            // There is no reason of its own for calls.
            let calls = reason == FinishReason::Stop && self.calls > 0;
            out.push(at, EventKind::Finish(if calls { FinishReason::ToolCalls } else { reason }));
        }
        if let Some(reading) = line.usage {
            emit_usage(at, reading, out);
        }
        if let Some(timings) = line.timings {
            out.push_timings(at, timings);
        }
        if line.failed {
            emit_failure(at, json, out);
        } else if line.done {
            out.push(at, EventKind::Done);
        }
        if out.events().len() == before {
            out.push(at, EventKind::Empty);
        }
        Ok(pattern(json, &line))
    }

    fn is_known_field(&self, field: &str) -> bool {
        matches!(
            field,
            "model"
                | "created_at"
                | "message"
                | "response"
                | "thinking"
                | "tool_calls"
                | "logprobs"
                | "context"
                | "done"
                | "done_reason"
                | "total_duration"
                | "load_duration"
                | "prompt_eval_count"
                | "prompt_eval_cached_count"
                | "prompt_eval_duration"
                | "eval_count"
                | "eval_duration"
                | "remote_model"
                | "remote_host"
                | "error"
        )
    }
}

impl OllamaDecoder {
    fn emit(&mut self, at: Tick, delta: &Delta<'_>, out: &mut EventBatch) {
        match delta {
            Delta::Text(channel, text, _) => out.push_text(at, *channel, text),
            Delta::Call { id, name } => {
                let index = self.calls;
                self.calls = self.calls.saturating_add(1);
                let (id, name) = (out.store(id), out.store(name));
                out.push(at, EventKind::ToolCall { index, id, name });
            }
        }
    }
}

/// The pattern of a line that is one text and not the last.
fn pattern(json: &str, line: &Line<'_>) -> Option<Pattern> {
    let [Delta::Text(channel, _, Some(inside))] = line.deltas[..] else { return None };
    let notable = line.done || line.failed || line.finish.is_some() || line.usage.is_some() || line.timings.is_some();
    if notable || line.malformed {
        return None;
    }
    let skips = line.skips.iter().map(|value| range_within(json, value)).collect::<Option<Vec<_>>>()?;
    Some(Pattern { channel, text: range_within(json, inside)?, skips, usage: None })
}

/// Reads a line. Fails on broken syntax only.
fn read(json: &str) -> Result<Line<'_>, Error> {
    let mut line = Line::default();
    let Some(root) = Object::read(json)? else {
        line.unrecognised = true;
        return Ok(line);
    };
    let names = ["message", "response", "thinking", "tool_calls", "done", "error"];
    line.unrecognised = !root.fields().any(|(name, _)| names.contains(&name));
    let wrong = &mut line.malformed;
    line.model = root.text("model", wrong)?;
    line.failed = root.get("error").is_some();
    line.done = match root.get("done") {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => {
            *wrong = true;
            false
        }
    };
    line.finish = root.text("done_reason", wrong)?.as_deref().and_then(finish_reason);
    line.usage = read_usage(&root, wrong);
    line.timings = read_timings(&root, wrong);
    line.skips = ["created_at", "logprobs"].iter().filter_map(|name| root.get(name)).collect();
    if let Some(message) = root.object("message", &mut line.malformed)? {
        read_answer(&message, "content", &mut line)?;
    }
    read_answer(&root, "response", &mut line)?;
    Ok(line)
}

/// Reads the texts and calls of a message, or of the line itself.
fn read_answer<'a>(object: &Object<'a>, answer: &str, line: &mut Line<'a>) -> Result<(), Error> {
    for (name, channel) in [("thinking", Channel::Reasoning), (answer, Channel::Answer)] {
        let Some(json) = object.get(name) else { continue };
        match read_text(json)? {
            Some(text) if text.is_empty() => {}
            Some(text) => line.deltas.push(Delta::Text(channel, text, Some(&json[1..json.len() - 1]))),
            None => line.malformed = true,
        }
    }
    for json in object.array("tool_calls", &mut line.malformed)? {
        let Some(call) = Object::within(json)? else {
            line.malformed = true;
            continue;
        };
        let id = call.text("id", &mut line.malformed)?.unwrap_or_default();
        let Some(function) = call.object("function", &mut line.malformed)? else { continue };
        let name = function.text("name", &mut line.malformed)?.unwrap_or_default();
        if !name.is_empty() || !id.is_empty() {
            line.deltas.push(Delta::Call { id, name });
        }
        if let Some(json) = function.get("arguments") {
            // Not the dialect's, but some servers put the arguments' JSON into a string.
            let text = read_text(json)?.unwrap_or_else(|| without_whitespace(json));
            line.deltas.push(Delta::Text(Channel::Tool, text, None));
        }
    }
    Ok(())
}

/// The counts of the last line. That of the prompt is absent in versions that leave out what they had cached.
fn read_usage(root: &Object<'_>, wrong: &mut bool) -> Option<UsageReading> {
    let input = root.count("prompt_eval_count", wrong);
    let output = root.count("eval_count", wrong);
    let cached_input = root.count("prompt_eval_cached_count", wrong);
    input.or(output)?;
    let plausible = !matches!((cached_input, input), (Some(cached), Some(input)) if cached > input);
    let usage = Usage { input, output, cached_input, ..Usage::default() };
    Some(UsageReading { usage, plausible })
}

/// The server's own times, in nanoseconds.
fn read_timings(root: &Object<'_>, wrong: &mut bool) -> Option<ServerTimings> {
    let mut span = |name: &str| root.count(name, wrong).map(Span::from_nanos);
    let total = span("total_duration");
    let load = span("load_duration");
    let prefill = span("prompt_eval_duration");
    let decode = span("eval_duration");
    total.or(load).or(prefill).or(decode)?;
    let mut ignored = false;
    let read = root.count("prompt_eval_count", &mut ignored);
    let cached = root.count("prompt_eval_cached_count", &mut ignored).unwrap_or(0);
    Some(ServerTimings {
        queue: None,
        load,
        prefill,
        decode,
        total,
        prefill_tokens: read.map(|read| read.saturating_sub(cached)),
        decode_tokens: root.count("eval_count", &mut ignored),
    })
}

/// What the reason means. `load` and `unload` are answers to requests that only move a model.
fn finish_reason(name: &str) -> Option<FinishReason> {
    Some(match name {
        "" => return None,
        "stop" => FinishReason::Stop,
        "length" => FinishReason::Length,
        "tool_calls" => FinishReason::ToolCalls,
        "content_filter" => FinishReason::ContentFilter,
        _ => FinishReason::Other,
    })
}
