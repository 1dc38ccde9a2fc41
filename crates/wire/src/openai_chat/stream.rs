//! The events of one answer, chunk by chunk.
//!
//! It refuses to know framing. Invariant: with and without the template the same data give the same events.

use super::chunk::{Chunk, read_chunk};
use super::template::{Hit, Template};
use super::usage::{Reading, read_usage};
use crate::json_text::{lossy, without_lone_surrogates};
use crate::refusal::ErrorBody;
use tokrate_core::{EventBatch, FailureKind, Oddity, Tick, What};

/// How much of an answer a document is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    /// One event of a stream.
    Event,
    /// The event in which the body ended; it may break off anywhere.
    Unfinished,
    /// The whole body.
    Whole,
}

/// Where a document comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'n> {
    /// When the read that completed it returned.
    pub(crate) at: Tick,
    /// The name of its event, empty if it has none.
    pub(crate) name: &'n [u8],
    /// How much of an answer it is.
    pub(crate) part: Part,
}

/// What has to be remembered from event to event.
#[derive(Clone, Debug)]
pub(crate) struct ChatStream {
    model: String,
    finished: bool,
    template: Option<Template>,
}

impl ChatStream {
    pub(crate) fn new() -> ChatStream {
        ChatStream { model: String::new(), finished: false, template: Some(Template::new()) }
    }

    /// Gives up the fast path.
    pub(crate) fn disable_template(&mut self) {
        self.template = None;
    }

    /// Takes the data of one document.
    pub(crate) fn take(&mut self, source: Source<'_>, data: &[u8], out: &mut EventBatch) {
        if source.name.is_empty()
            && source.part == Part::Event
            && let Some(template) = &self.template
            && let Some(hit) = template.recognise(data, out.arena())
        {
            return self.emit_hit(source.at, hit, out);
        }
        self.take_slowly(source, data, out);
    }

    fn emit_hit(&mut self, at: Tick, hit: Hit, out: &mut EventBatch) {
        let empty = out.arena().len() == hit.start;
        if !empty {
            if self.finished {
                out.push(at, What::Odd(Oddity::AfterFinish));
            }
            out.push_stored(at, hit.channel, hit.start);
        }
        match hit.usage {
            Some(reading) => emit_usage(at, reading, out),
            None if empty => out.push(at, What::Empty),
            None => {}
        }
    }

    fn take_slowly(&mut self, source: Source<'_>, data: &[u8], out: &mut EventBatch) {
        let Source { at, name, part } = source;
        let data = data.trim_ascii();
        if part == Part::Unfinished {
            out.push(at, What::Odd(Oddity::UnfinishedEvent));
        }
        if data == b"[DONE]" {
            self.finished = true;
            return out.push(at, What::Done);
        }
        if data.is_empty() {
            if part == Part::Event {
                out.push(at, What::Empty);
            }
            return;
        }
        let (text, replaced) = lossy(data);
        let error = match read_chunk(&text) {
            Ok(chunk) => {
                if replaced {
                    out.push(at, What::Odd(Oddity::InvalidUtf8));
                }
                return self.emit(source, &chunk, &text, !replaced, out);
            }
            Err(error) => error,
        };
        if let Some(repaired) = without_lone_surrogates(&text)
            && let Ok(chunk) = read_chunk(&repaired)
        {
            out.push(at, What::Odd(Oddity::InvalidUtf8));
            return self.emit(source, &chunk, &repaired, false, out);
        }
        match part {
            Part::Unfinished => {}
            Part::Whole if error.is_eof() || ends_in_number(&text) => out.push(at, What::Odd(Oddity::UnfinishedEvent)),
            Part::Event if name == b"error" => fail(at, &text, out),
            Part::Event | Part::Whole => {
                if replaced {
                    out.push(at, What::Odd(Oddity::InvalidUtf8));
                }
                out.push(at, What::Odd(Oddity::Malformed));
            }
        }
    }

    /// Says what a chunk says; `teachable` if `json` are the bytes as they came.
    fn emit(&mut self, source: Source<'_>, chunk: &Chunk<'_>, json: &str, teachable: bool, out: &mut EventBatch) {
        let Source { at, name, part } = source;
        let said_before = out.events().len();
        self.emit_model(at, chunk, out);
        let model_events = out.events().len() - said_before;
        let bare_error = (name == b"error" || chunk.message) && !chunk.choices && chunk.failure.is_none();
        let usage = chunk.usage.map_or(Ok(None), read_usage);
        let shapeless = !chunk.choices && chunk.usage.is_none() && chunk.failure.is_none() && !bare_error;
        if chunk.malformed || usage.is_err() || shapeless {
            out.push(at, What::Odd(Oddity::Malformed));
        }
        for _ in 0..chunk.extra_choices {
            out.push(at, What::Odd(Oddity::ExtraChoice));
        }
        if self.finished && !chunk.texts.is_empty() {
            out.push(at, What::Odd(Oddity::AfterFinish));
        }
        for saying in &chunk.texts {
            out.push_text(at, saying.channel, &saying.text);
        }
        if let Some(reason) = chunk.finish {
            self.finished = true;
            out.push(at, What::Finish(reason));
        }
        if let Ok(Some(reading)) = usage {
            emit_usage(at, reading, out);
        }
        let failure = if bare_error { Some(json) } else { chunk.failure };
        if let Some(failure) = failure {
            fail(at, failure, out);
        } else if part == Part::Whole && chunk.choices {
            self.finished = true;
            out.push(at, What::Done);
        }
        if out.events().len() == said_before + model_events {
            out.push(at, What::Empty);
        }
        if teachable
            && name.is_empty()
            && let Some(template) = &mut self.template
        {
            template.learn(json, chunk);
        }
    }

    fn emit_model(&mut self, at: Tick, chunk: &Chunk<'_>, out: &mut EventBatch) {
        let Some(model) = chunk.model.as_deref().filter(|model| !model.is_empty() && *model != self.model) else {
            return;
        };
        self.model.clear();
        self.model.push_str(model);
        if let Some(template) = &mut self.template {
            // It stands for chunks that name the model before this one.
            template.forget();
        }
        let range = out.store(model);
        out.push(at, What::Model(range));
    }
}

/// A body that was cut within a number such as `29.`, which the parser takes for a broken one.
fn ends_in_number(json: &str) -> bool {
    json.starts_with(['{', '[']) && json.ends_with(['.', '-', '+', 'e', 'E'])
}

fn emit_usage(at: Tick, reading: Reading, out: &mut EventBatch) {
    if !reading.plausible {
        out.push(at, What::Odd(Oddity::ImplausibleUsage));
    }
    out.push(at, What::Usage(reading.usage));
}

fn fail(at: Tick, json: &str, out: &mut EventBatch) {
    let error = ErrorBody::read(json);
    let message = out.store(&error.message);
    let kind = error.kind().unwrap_or(FailureKind::ErrorInStream);
    out.push(at, What::Failed { kind, message, retry_after: error.retry_after });
}
