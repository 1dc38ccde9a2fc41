//! Chunks of a stream and whole answers as events.
//!
//! Invariant: only the first choice is measured; the others are counted.

use crate::dialects::openai_chat::{finish_reason, read_usage};
use crate::document_decoder::{
    DocumentDecoder, Part, Pattern, Source, UsageReading, emit_failure, emit_model, emit_usage,
};
use crate::object::{Object, range_within};
use crate::timings::{read_engine_timings, read_times_in_seconds};
use serde_json::Error;
use std::borrow::Cow;
use tokrate_core::{Anomaly, Channel, EventBatch, EventKind, FinishReason};

/// What has to be remembered from chunk to chunk.
#[derive(Clone, Debug, Default)]
pub(crate) struct CompletionsDecoder {
    model: String,
}

/// The first choice of a chunk.
#[derive(Default)]
struct Choice<'a> {
    text: Cow<'a, str>,
    /// The text as JSON.
    json: Option<&'a str>,
    finish: Option<FinishReason>,
    others: u32,
}

impl DocumentDecoder for CompletionsDecoder {
    fn decode(&mut self, source: Source<'_>, json: &str, out: &mut EventBatch) -> Result<Option<Pattern>, Error> {
        let Source { at, name, part, .. } = source;
        let Some(chunk) = Object::read(json)? else {
            out.push(at, EventKind::Anomaly(Anomaly::Malformed));
            return Ok(None);
        };
        let mut wrong = false;
        let model = chunk.text("model", &mut wrong)?;
        let choice = read_choices(&chunk, &mut wrong)?;
        let failure = chunk.get("error");
        let bare_error = choice.is_none()
            && failure.is_none()
            && (name == b"error" || chunk.get("message").is_some() || chunk.get("detail").is_some());
        let usage = chunk.get("usage").map_or(Ok(None), read_usage);
        let unrecognised = choice.is_none() && failure.is_none() && !bare_error && chunk.get("usage").is_none();
        emit_model(&mut self.model, at, model.as_deref(), out);
        let before = out.events().len();
        if wrong || unrecognised || usage.is_err() {
            out.push(at, EventKind::Anomaly(Anomaly::Malformed));
        }
        let usage = usage.unwrap_or(None);
        let whole = part == Part::Whole && choice.is_some() && failure.is_none();
        let choice = choice.unwrap_or_default();
        for _ in 0..choice.others {
            out.push(at, EventKind::Anomaly(Anomaly::ExtraChoice));
        }
        out.push_text(at, Channel::Answer, &choice.text);
        if let Some(reason) = choice.finish {
            out.push(at, EventKind::Finish(reason));
        }
        if let Some(reading) = usage {
            emit_usage(at, reading, out);
        }
        if choice.text.is_empty() || choice.finish.is_some() {
            let timings = chunk.get("timings").and_then(read_engine_timings);
            if let Some(timings) = timings.or_else(|| chunk.get("usage").and_then(read_times_in_seconds)) {
                out.push_timings(at, timings);
            }
        }
        if bare_error {
            emit_failure(at, json, out);
        } else if let Some(failure) = failure {
            emit_failure(at, failure, out);
        } else if whole {
            out.push(at, EventKind::Done);
        }
        if out.events().len() == before {
            out.push(at, EventKind::Empty);
        }
        let plain = !wrong && choice.others == 0 && choice.finish.is_none() && failure.is_none();
        if !plain || chunk.get("usage").is_some() && usage.is_none() {
            return Ok(None);
        }
        Ok(pattern(json, &chunk, &choice, usage.is_some()))
    }

    fn decode_usage(&self, json: &str) -> Option<UsageReading> {
        read_usage(json).ok()?
    }

    fn is_known_field(&self, field: &str) -> bool {
        #[rustfmt::skip]
        const FIELDS: [&str; 16] = [
            "id", "object", "created", "model", "choices", "usage", "system_fingerprint", "service_tier", "obfuscation",
            "error", "message", "detail", "type", "code", "param",
            "timings",
        ];
        FIELDS.contains(&field)
    }
}

impl CompletionsDecoder {}

/// The first choice; `None` if there is no such field.
fn read_choices<'a>(chunk: &Object<'a>, wrong: &mut bool) -> Result<Option<Choice<'a>>, Error> {
    if chunk.get("choices").is_none() {
        return Ok(None);
    }
    let mut first = Choice::default();
    for json in chunk.array("choices", wrong)? {
        let Some(choice) = Object::within(json)? else {
            *wrong = true;
            continue;
        };
        match choice.get("index").unwrap_or("0") {
            "0" => {
                first.text = choice.text("text", wrong)?.unwrap_or_default();
                first.json = choice.get("text");
                first.finish = choice.text("finish_reason", wrong)?.as_deref().and_then(finish_reason);
            }
            index if index.parse::<u64>().is_ok() => first.others = first.others.saturating_add(1),
            _ => *wrong = true,
        }
    }
    Ok(Some(first))
}

fn pattern(json: &str, chunk: &Object<'_>, choice: &Choice<'_>, usage: bool) -> Option<Pattern> {
    let text = choice.json?.strip_prefix('"')?.strip_suffix('"').filter(|text| !text.is_empty())?;
    let skips = ["obfuscation", "timings"].into_iter().filter_map(|name| range_within(json, chunk.get(name)?));
    Some(Pattern {
        channel: Channel::Answer,
        text: range_within(json, text)?,
        skips: skips.collect(),
        usage: if usage { range_within(json, chunk.get("usage")?) } else { None },
    })
}
