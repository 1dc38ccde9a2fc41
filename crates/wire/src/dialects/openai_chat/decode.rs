//! Chunks of a stream, and whole answers, as events.
//!
//! Invariant: a tool call is announced once, with its name, and again when the stream comes back to it after another; its
//! arguments follow.

use super::chunk::{Call, Chunk, Delta, read_chunk};
use super::usage::read_usage;
use crate::document_decoder::{
    DocumentDecoder, Part, Pattern, Source, UsageReading, emit_failure, emit_model, emit_usage,
};
use crate::object::range_within;
use crate::timings::{read_engine_timings, read_times_in_seconds};
use tokrate_core::{Anomaly, EventBatch, EventKind, Tick};

/// What has to be remembered from chunk to chunk.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChatDecoder {
    model: String,
    /// The calls, in the order in which they were announced.
    calls: Vec<KnownCall>,
    /// The call that tool text belongs to.
    open: Option<usize>,
}

/// What is known of a tool call.
#[derive(Clone, Debug, Default)]
struct KnownCall {
    index: u64,
    id: String,
    name: String,
}

impl DocumentDecoder for ChatDecoder {
    fn decode(
        &mut self,
        source: Source<'_>,
        json: &str,
        out: &mut EventBatch,
    ) -> Result<Option<Pattern>, serde_json::Error> {
        let chunk = read_chunk(json)?;
        let Source { at, name, part, .. } = source;
        emit_model(&mut self.model, at, chunk.model.as_deref(), out);
        let before = out.events().len();
        let bare_error = (name == b"error" || chunk.message) && !chunk.choices && chunk.failure.is_none();
        let usage = chunk.usage.map_or(Ok(None), read_usage);
        let unrecognised = !chunk.choices
            && chunk.usage.is_none()
            && chunk.timings.is_none()
            && chunk.failure.is_none()
            && !bare_error;
        let usage = match usage {
            Ok(reading) if !chunk.malformed && !unrecognised => reading,
            other => {
                out.push(at, EventKind::Anomaly(Anomaly::Malformed));
                other.unwrap_or(None)
            }
        };
        for _ in 0..chunk.extra_choices {
            out.push(at, EventKind::Anomaly(Anomaly::ExtraChoice));
        }
        let announced = self.emit_texts(at, &chunk, out);
        if chunk.opaque {
            out.push(at, EventKind::Opaque);
        }
        if let Some(reason) = chunk.finish {
            out.push(at, EventKind::Finish(reason));
        }
        if let Some(reading) = usage {
            emit_usage(at, reading, out);
        }
        emit_timings(at, &chunk, out);
        let failure = if bare_error { Some(json) } else { chunk.failure };
        if let Some(failure) = failure {
            emit_failure(at, failure, out);
        } else if part == Part::Whole && chunk.choices {
            out.push(at, EventKind::Done);
        }
        if out.events().len() == before {
            out.push(at, EventKind::Empty);
        }
        Ok(if announced { None } else { pattern(json, &chunk, usage) })
    }

    fn decode_usage(&self, json: &str) -> Option<UsageReading> {
        read_usage(json).ok()?
    }

    fn is_known_field(&self, field: &str) -> bool {
        // The last row is what engines and providers are known to add and what is read here.
        #[rustfmt::skip]
        const FIELDS: [&str; 18] = [
            "id", "object", "created", "model", "choices", "usage", "system_fingerprint", "service_tier", "obfuscation",
            "error", "message", "detail", "type", "code", "param",
            "timings", "time_info", "x_groq",
        ];
        FIELDS.contains(&field)
    }
}

impl ChatDecoder {
    /// Emits the texts; returns whether a tool call was announced with them.
    fn emit_texts(&mut self, at: Tick, chunk: &Chunk<'_>, out: &mut EventBatch) -> bool {
        let mut announced = false;
        for delta in &chunk.deltas {
            if let Some(call) = &delta.call {
                announced |= self.select_call(at, call, out);
            }
            out.push_text(at, delta.channel, &delta.text);
        }
        announced
    }

    /// Announces a call unless it is the one that is open and there is nothing new about it.
    fn select_call(&mut self, at: Tick, call: &Call<'_>, out: &mut EventBatch) -> bool {
        let latest = self.calls.iter().rposition(|known| known.index == call.index);
        // Some servers give every call the same index; another identifier or name is another call.
        let agrees = |sent: &str, known: &str| sent.is_empty() || known.is_empty() || sent == known;
        let same = |known: &KnownCall| agrees(&call.id, &known.id) && agrees(&call.name, &known.name);
        let ordinal = latest.filter(|&ordinal| same(&self.calls[ordinal])).unwrap_or_else(|| {
            self.calls.push(KnownCall { index: call.index, ..KnownCall::default() });
            self.calls.len() - 1
        });
        let known = &mut self.calls[ordinal];
        // Others repeat identifier and name with every piece.
        let id = if known.id.is_empty() { &*call.id } else { "" };
        let name = if known.name.is_empty() { &*call.name } else { "" };
        known.id.push_str(id);
        known.name.push_str(name);
        if self.open == Some(ordinal) && id.is_empty() && name.is_empty() {
            return false;
        }
        self.open = Some(ordinal);
        let (id, name) = (out.store(id), out.store(name));
        let index = u32::try_from(ordinal).unwrap_or(u32::MAX);
        out.push(at, EventKind::ToolCall { index, id, name });
        true
    }
}

/// Times come in chunks without text: some engines repeat them in every chunk, and the last ones count.
fn emit_timings(at: Tick, chunk: &Chunk<'_>, out: &mut EventBatch) {
    if !chunk.deltas.is_empty() && chunk.finish.is_none() {
        return;
    }
    let timings = chunk.timings.and_then(read_engine_timings);
    let timings = timings.or_else(|| chunk.time_info.or(chunk.usage).and_then(read_times_in_seconds));
    if let Some(timings) = timings {
        out.push_timings(at, timings);
    }
}

/// The pattern of a chunk that is one text, perhaps with token counts, and nothing else of note.
fn pattern(json: &str, chunk: &Chunk<'_>, usage: Option<UsageReading>) -> Option<Pattern> {
    let [Delta { channel, raw: Some(text), .. }] = chunk.deltas[..] else { return None };
    let notable = chunk.finish.is_some() || chunk.failure.is_some() || chunk.extra_choices > 0 || chunk.opaque;
    if notable || chunk.malformed || chunk.repeated || (chunk.usage.is_some() && usage.is_none()) {
        return None;
    }
    let skips = [chunk.padding, chunk.timings, chunk.time_info].into_iter().flatten();
    Some(Pattern {
        channel,
        text: range_within(json, text)?,
        skips: skips.filter_map(|value| range_within(json, value)).collect(),
        usage: usage.and_then(|_| range_within(json, chunk.usage?)),
    })
}
