//! Events of a stream and whole answers, which have the same form, as events.
//!
//! Invariant: the event with `"stop":true` is the end, and holds the counts and times.

use crate::document_decoder::{DocumentDecoder, Pattern, Source, UsageReading, emit_failure, emit_usage};
use crate::object::{Object, range_within};
use crate::timings::read_engine_timings;
use serde_json::Error;
use tokrate_core::{Anomaly, Channel, EventBatch, EventKind, FinishReason};

/// What has to be remembered from event to event.
#[derive(Clone, Debug, Default)]
pub(crate) struct LlamaDecoder {
    model: String,
}

impl DocumentDecoder for LlamaDecoder {
    fn decode(&mut self, source: Source<'_>, json: &str, out: &mut EventBatch) -> Result<Option<Pattern>, Error> {
        let at = source.at;
        let Some(event) = Object::read(json)? else {
            out.push(at, EventKind::Anomaly(Anomaly::Malformed));
            return Ok(None);
        };
        let mut wrong = false;
        let model = event.text("model", &mut wrong)?;
        let text = event.text("content", &mut wrong)?;
        let stopped = event.get("stop") == Some("true");
        let reason = if stopped { event.text("stop_type", &mut wrong)? } else { None };
        let failure = event.get("error");
        let bare_error = failure.is_none() && text.is_none() && !stopped;
        let other = event.get("index").is_some_and(|index| index != "0");
        if let Some(model) = model.as_deref().filter(|model| !model.is_empty() && *model != self.model) {
            self.model.clear();
            self.model.push_str(model);
            let range = out.store(model);
            out.push(at, EventKind::Model(range));
        }
        let before = out.events().len();
        let named_error = source.name == b"error" || event.get("message").is_some();
        if wrong || bare_error && !named_error {
            out.push(at, EventKind::Anomaly(Anomaly::Malformed));
        }
        if other {
            // One of several prompts' answers; its text is not measured.
            out.push(at, EventKind::Anomaly(Anomaly::ExtraChoice));
            return Ok(None);
        }
        let text = text.unwrap_or_default();
        out.push_text(at, Channel::Answer, &text);
        if stopped {
            out.push(at, EventKind::Finish(finish_reason(reason.as_deref(), &event)));
            if let Some(reading) = usage_of(&event) {
                emit_usage(at, reading, out);
            }
            if let Some(timings) = event.get("timings").and_then(read_engine_timings) {
                out.push_timings(at, timings);
            }
            out.push(at, EventKind::Done);
        }
        if let Some(failure) = failure {
            emit_failure(at, failure, out);
        } else if bare_error && named_error {
            emit_failure(at, json, out);
        }
        if out.events().len() == before {
            out.push(at, EventKind::Empty);
        }
        let plain = !wrong && !stopped && failure.is_none();
        Ok(if plain { pattern(json, &event) } else { None })
    }

    fn is_known_field(&self, field: &str) -> bool {
        // As tools/server/README.md of llama.cpp has them, with the flags of older servers and the fields of errors.
        #[rustfmt::skip]
        const FIELDS: [&str; 27] = [
            "index", "content", "tokens", "stop", "id_slot", "model", "prompt", "generation_settings",
            "tokens_predicted", "tokens_evaluated", "tokens_cached", "truncated", "has_new_line",
            "stop_type", "stopping_word", "timings", "completion_probabilities", "probs", "prompt_progress",
            "stopped_eos", "stopped_limit", "stopped_word", "slot_id",
            "error", "message", "type", "code",
        ];
        FIELDS.contains(&field)
    }
}

/// `stop_type` of today's servers, or the flags of older ones.
fn finish_reason(stop_type: Option<&str>, event: &Object<'_>) -> FinishReason {
    match stop_type {
        Some("eos" | "word") => FinishReason::Stop,
        Some("limit") => FinishReason::Length,
        _ if event.get("stopped_limit") == Some("true") => FinishReason::Length,
        _ if event.get("stopped_eos").or(event.get("stopped_word")).is_some() => FinishReason::Stop,
        _ => FinishReason::Other,
    }
}

/// Counts of the last event. `tokens_cached` is the whole context after the answer, not what came from a cache: that is
/// `timings.cache_n`.
fn usage_of(event: &Object<'_>) -> Option<UsageReading> {
    let mut wrong = false;
    let (input, output) = (event.count("tokens_evaluated", &mut wrong), event.count("tokens_predicted", &mut wrong));
    input.or(output)?;
    let timings = event.get("timings").and_then(|json| Object::within(json).ok().flatten());
    let cached_input = timings.and_then(|timings| timings.count("cache_n", &mut wrong));
    let plausible = !wrong && cached_input.zip(input).is_none_or(|(cached, input)| cached <= input);
    let usage = tokrate_core::Usage { input, output, cached_input, ..tokrate_core::Usage::default() };
    Some(UsageReading { usage, plausible })
}

fn pattern(json: &str, event: &Object<'_>) -> Option<Pattern> {
    let text = event.get("content")?.strip_prefix('"')?.strip_suffix('"').filter(|text| !text.is_empty())?;
    let skips = ["tokens", "tokens_predicted", "timings"].into_iter();
    Some(Pattern {
        channel: Channel::Answer,
        text: range_within(json, text)?,
        skips: skips.filter_map(|name| range_within(json, event.get(name)?)).collect(),
        usage: None,
    })
}
