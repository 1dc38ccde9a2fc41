//! The documents of one answer, one after the other: what all dialects have in common, and the fast path.
//!
//! It refuses to know framing and any dialect's fields. Invariant: with and without templates the same documents give the
//! same events, and whatever is broken is counted and survived.

use crate::json_text::{lossy, without_lone_surrogates};
use crate::object::Object;
use crate::speech::{Part, Source, Speech, emit_usage, fail};
use crate::template::{Hit, Template};
use tokrate_core::{EventBatch, Oddity, StreamEvent, Tick, What};

/// Templates kept: answers whose documents alternate between two forms keep both.
const TEMPLATES: usize = 2;

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
