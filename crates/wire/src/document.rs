//! The documents of one answer, one after the other: what all dialects have in common, and the fast path.
//!
//! It refuses to know framing and any dialect's fields. Invariant: with and without templates the same documents give the
//! same events, and whatever is broken is counted and survived.

use crate::json_text::{lossy, without_lone_surrogates};
use crate::object::Object;
use crate::refusal::ErrorBody;
use crate::template::{Hit, Template};
use std::ops::Range;
use tokrate_core::{Channel, EventBatch, FailureKind, Oddity, StreamEvent, Tick, Usage, What};

/// Templates kept: answers whose documents alternate between two forms keep both.
const TEMPLATES: usize = 2;

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

/// One dialect's reading of its documents.
pub(crate) trait Speech {
    /// Says what a document says. Everything is read before anything is said, so that nothing was said on an error. A value
    /// of a wrong type costs its field only and is counted as malformed.
    ///
    /// Gives the pattern of a document that is one text, perhaps with token counts, and nothing else of note; what it would
    /// say a second time must not depend on the documents between, those that say a tool call or a model left out.
    ///
    /// # Errors
    /// On broken syntax only.
    fn say(
        &mut self,
        source: Source<'_>,
        json: &str,
        out: &mut EventBatch,
    ) -> Result<Option<Pattern>, serde_json::Error>;

    /// Reads the block of token counts at the place that a pattern names; `None` if it must be looked at in full.
    fn usage(&self, _json: &str) -> Option<UsageReading> {
        None
    }

    /// Says what only the end of the body says.
    fn end(&mut self, _at: Tick, _out: &mut EventBatch) {}

    /// Whether the dialect prescribes a field at the top of its documents.
    fn prescribes(&self, _field: &str) -> bool {
        false
    }
}

/// Byte ranges of a document that may differ in the next one of its kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Pattern {
    /// Which of the answer's texts it carries.
    pub(crate) channel: Channel,
    /// Where the text stands, between its quotes.
    pub(crate) text: Range<usize>,
    /// Values without meaning: counters, times, padding. An empty range, or one of blanks only, stands for any number of
    /// blanks between two values.
    pub(crate) skips: Vec<Range<usize>>,
    /// The block of token counts, if there is one.
    pub(crate) usage: Option<Range<usize>>,
}

/// Token counts as read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct UsageReading {
    /// The counts.
    pub(crate) usage: Usage,
    /// Whether they fit together.
    pub(crate) plausible: bool,
}

/// Says token counts; one that is impossible is left out, as if nothing had been said.
pub(crate) fn emit_usage(at: Tick, reading: UsageReading, out: &mut EventBatch) {
    let possible = reading.usage.possible();
    if !reading.plausible || possible != reading.usage {
        out.push(at, What::Odd(Oddity::ImplausibleUsage));
    }
    out.push(at, What::Usage(possible));
}

/// Says that the answer failed, for the reason that the JSON gives.
pub(crate) fn fail(at: Tick, json: &str, out: &mut EventBatch) {
    let error = ErrorBody::read(json);
    let message = out.store(&error.message);
    let kind = error.kind().unwrap_or(FailureKind::ErrorInStream);
    out.push(at, What::Failed { kind, message, retry_after: error.retry_after });
}

/// Takes the documents of one answer.
#[derive(Clone, Debug)]
pub(crate) struct Documents<S> {
    speech: S,
    finished: bool,
    templates: Option<[Template; TEMPLATES]>,
    /// The template to be replaced next.
    oldest: usize,
    tell_unknown: bool,
}

impl<S: Speech> Documents<S> {
    pub(crate) fn new(speech: S) -> Documents<S> {
        let templates = Some(std::array::from_fn(|_| Template::new()));
        Documents { speech, finished: false, templates, oldest: 0, tell_unknown: false }
    }

    /// Gives up the fast path.
    pub(crate) fn disable_templates(&mut self) {
        self.templates = None;
    }

    /// Says fields that the dialect does not prescribe, which takes a full look at every document.
    pub(crate) fn tell_unknown(&mut self) {
        self.tell_unknown = true;
        self.templates = None;
    }

    /// Takes the data of one document.
    pub(crate) fn take(&mut self, source: Source<'_>, data: &[u8], out: &mut EventBatch) {
        if source.part == Part::Event
            && let Some(templates) = &self.templates
        {
            for template in templates {
                if let Some(hit) = template.recognise(source.name, data, &self.speech, out.arena()) {
                    return self.emit_hit(source.at, hit, out);
                }
            }
        }
        self.take_slowly(source, data, out);
    }

    /// Says that the body is over.
    pub(crate) fn end(&mut self, at: Tick, out: &mut EventBatch) {
        self.speech.end(at, out);
    }

    fn emit_hit(&mut self, at: Tick, hit: Hit, out: &mut EventBatch) {
        out.push_stored(at, hit.channel, hit.start);
        if let Some(reading) = hit.usage {
            emit_usage(at, reading, out);
        }
        if self.finished {
            out.push(at, What::Odd(Oddity::AfterFinish));
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
        let before = out.events().len();
        let error = match self.say(source, &text, !replaced, out) {
            Ok(()) => {
                let is_odd = |event: &StreamEvent| matches!(event.what, What::Odd(_));
                if part == Part::Event && !text.starts_with('{') && out.events()[before..].iter().all(is_odd) {
                    out.push(at, What::Odd(Oddity::Unreadable));
                }
                if replaced {
                    out.push(at, What::Odd(Oddity::InvalidUtf8));
                }
                return;
            }
            Err(error) => error,
        };
        if let Some(repaired) = without_lone_surrogates(&text)
            && self.say(source, &repaired, false, out).is_ok()
        {
            return out.push(at, What::Odd(Oddity::InvalidUtf8));
        }
        match part {
            Part::Unfinished => {}
            Part::Whole if error.is_eof() || ends_in_number(&text) => out.push(at, What::Odd(Oddity::UnfinishedEvent)),
            Part::Event if name == b"error" => fail(at, &text, out),
            Part::Event | Part::Whole => {
                if replaced {
                    out.push(at, What::Odd(Oddity::InvalidUtf8));
                }
                out.push(at, What::Odd(Oddity::Unreadable));
            }
        }
    }

    /// Says a document in full; learns from it if these are the bytes as they came.
    fn say(
        &mut self,
        source: Source<'_>,
        json: &str,
        teachable: bool,
        out: &mut EventBatch,
    ) -> Result<(), serde_json::Error> {
        let before = out.events().len();
        let pattern = self.speech.say(source, json, out)?;
        let (mut text, mut turned, mut finished) = (false, false, false);
        for event in &out.events()[before..] {
            match event.what {
                What::Text { .. } => text = true,
                What::ToolCall { .. } | What::Model(_) => turned = true,
                What::Finish(_) | What::Done => finished = true,
                _ => {}
            }
        }
        if self.finished && text {
            out.push(source.at, What::Odd(Oddity::AfterFinish));
        }
        self.finished |= finished;
        if self.tell_unknown {
            self.say_unknown(source.at, json, out);
        }
        let Some(templates) = &mut self.templates else { return Ok(()) };
        if turned {
            // They stand for documents before this one.
            templates.iter_mut().for_each(Template::forget);
        }
        if let Some(pattern) = pattern.filter(|_| teachable && !turned && source.part == Part::Event) {
            templates[self.oldest].learn(source.name, json, &pattern);
            self.oldest = (self.oldest + 1) % TEMPLATES;
        }
        Ok(())
    }

    fn say_unknown(&self, at: Tick, json: &str, out: &mut EventBatch) {
        let Ok(Some(object)) = Object::read(json) else { return };
        for (name, json) in object.fields().filter(|(name, _)| !self.speech.prescribes(name)) {
            let (name, json) = (out.store(name), out.store(json));
            out.push(at, What::Unknown { name, json });
        }
    }
}

/// A body that was cut within a number such as `29.`, which the parser takes for a broken one.
fn ends_in_number(json: &str) -> bool {
    json.starts_with(['{', '[']) && json.ends_with(['.', '-', '+', 'e', 'E'])
}
