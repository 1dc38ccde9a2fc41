//! The documents of one answer, one after the other: what all dialects have in common, and the fast path.
//!
//! Invariant: with and without templates the same documents give the
//! same events, and whatever is broken is counted and survived.

use crate::document_decoder::{DocumentDecoder, Part, Source, emit_failure, emit_usage};
use crate::json_text::{lossy, without_lone_surrogates};
use crate::object::{Object, range_within};
use crate::template::{Hit, Template};
use tokrate_core::{Anomaly, EventBatch, EventKind, StreamEvent, Tick, one_line};

/// Templates kept: answers whose documents alternate between two forms keep both.
const TEMPLATES: usize = 2;
/// Bytes kept of a document that could not be read, as an example.
const MAX_UNREADABLE_BYTES: usize = 100;

/// Takes the documents of one answer.
#[derive(Clone, Debug)]
pub(crate) struct Documents {
    decoder: Box<dyn DocumentDecoder>,
    finished: bool,
    templates: Option<[Template; TEMPLATES]>,
    /// The template to be replaced next.
    oldest: usize,
    /// The template that is tried first: the one that recognised the last document.
    latest: usize,
    report_unknown: bool,
    /// How the first document began that could not be read.
    unreadable: Option<Box<str>>,
}

impl Documents {
    pub(crate) fn new(decoder: Box<dyn DocumentDecoder>) -> Documents {
        let templates = Some(std::array::from_fn(|_| Template::new()));
        Documents { decoder, finished: false, templates, oldest: 0, latest: 0, report_unknown: false, unreadable: None }
    }

    /// Gives up the fast path.
    pub(crate) fn disable_templates(&mut self) {
        self.templates = None;
    }

    /// Emits fields that the dialect does not have, which takes a full parse of every document.
    pub(crate) fn report_unknown_fields(&mut self) {
        self.report_unknown = true;
        self.templates = None;
    }

    /// Takes the event, with its line ends, with which bytes of a stream begin, if it is recognised at once; how long it is.
    #[inline]
    pub(crate) fn take_known(&mut self, at: Tick, bytes: &[u8], out: &mut EventBatch) -> Option<usize> {
        let templates = self.templates.as_ref()?;
        let found = self.in_turn().find_map(|index| {
            let (hit, length) = templates[index].recognise_framed(bytes, out.arena())?;
            Some((index, hit, length))
        });
        let (index, hit, length) = found?;
        self.latest = index;
        self.emit_hit(at, hit, out);
        Some(length)
    }

    /// Takes the data of one document.
    pub(crate) fn take(&mut self, source: Source<'_>, data: &[u8], out: &mut EventBatch) {
        if source.part == Part::Event
            && let Some(templates) = &self.templates
        {
            for index in self.in_turn() {
                if let Some(hit) = templates[index].recognise(source.name, data, &*self.decoder, out.arena()) {
                    self.latest = index;
                    return self.emit_hit(source.at, hit, out);
                }
            }
        }
        self.decode_in_full(source, data, out);
    }

    /// How the first document began that could not be read, in a line.
    pub(crate) fn unreadable(&self) -> Option<&str> {
        self.unreadable.as_deref()
    }

    fn emit_unreadable(&mut self, at: Tick, text: &str, out: &mut EventBatch) {
        self.unreadable.get_or_insert_with(|| one_line(text, MAX_UNREADABLE_BYTES).into());
        out.push(at, EventKind::Anomaly(Anomaly::Unreadable));
    }

    /// The templates in the order in which they are tried.
    fn in_turn(&self) -> impl Iterator<Item = usize> + use<> {
        let latest = self.latest;
        (0..TEMPLATES).map(move |n| (latest + n) % TEMPLATES)
    }

    /// The body is over.
    pub(crate) fn end(&mut self, at: Tick, out: &mut EventBatch) {
        self.decoder.end(at, out);
    }

    fn emit_hit(&mut self, at: Tick, hit: Hit, out: &mut EventBatch) {
        out.push_stored(at, hit.channel, hit.start);
        if let Some(reading) = hit.usage {
            emit_usage(at, reading, out);
        }
        if self.finished {
            out.push(at, EventKind::Anomaly(Anomaly::AfterFinish));
        }
    }

    fn decode_in_full(&mut self, source: Source<'_>, data: &[u8], out: &mut EventBatch) {
        let Source { at, name, part, .. } = source;
        let data = data.trim_ascii();
        if part == Part::Unfinished {
            out.push(at, EventKind::Anomaly(Anomaly::UnfinishedEvent));
        }
        if data == b"[DONE]" {
            self.finished = true;
            return out.push(at, EventKind::Done);
        }
        if data.is_empty() {
            if part == Part::Event {
                out.push(at, EventKind::Empty);
            }
            return;
        }
        let (text, replaced) = lossy(data);
        let before = out.events().len();
        let error = match self.parse(source, &text, !replaced, out) {
            Ok(()) => {
                let is_odd = |event: &StreamEvent| matches!(event.kind, EventKind::Anomaly(_));
                if part == Part::Event && !text.starts_with('{') && out.events()[before..].iter().all(is_odd) {
                    self.emit_unreadable(at, &text, out);
                }
                if replaced {
                    out.push(at, EventKind::Anomaly(Anomaly::InvalidUtf8));
                }
                return;
            }
            Err(error) => error,
        };
        if let Some(repaired) = without_lone_surrogates(&text)
            && self.parse(source, &repaired, false, out).is_ok()
        {
            return out.push(at, EventKind::Anomaly(Anomaly::InvalidUtf8));
        }
        match part {
            Part::Unfinished => {}
            Part::Whole if error.is_eof() || ends_in_number(&text) => {
                out.push(at, EventKind::Anomaly(Anomaly::UnfinishedEvent))
            }
            Part::Event if name == b"error" => emit_failure(at, &text, out),
            Part::Event | Part::Whole => {
                if replaced {
                    out.push(at, EventKind::Anomaly(Anomaly::InvalidUtf8));
                }
                self.emit_unreadable(at, &text, out);
            }
        }
    }

    /// Parses a document; learns a template from it if these are the bytes as they came.
    fn parse(
        &mut self,
        source: Source<'_>,
        json: &str,
        as_it_came: bool,
        out: &mut EventBatch,
    ) -> Result<(), serde_json::Error> {
        let before = out.events().len();
        let pattern = self.decoder.decode(source, json, out)?;
        let (mut text, mut changed, mut finished) = (false, false, false);
        for event in &out.events()[before..] {
            match event.kind {
                EventKind::Text { .. } => text = true,
                EventKind::ToolCall { .. } | EventKind::Model(_) => changed = true,
                EventKind::Finish(_) | EventKind::Done => finished = true,
                _ => {}
            }
        }
        if self.finished && text {
            out.push(source.at, EventKind::Anomaly(Anomaly::AfterFinish));
        }
        self.finished |= finished;
        if self.report_unknown {
            self.emit_unknown_fields(source.at, json, out);
        }
        let Some(templates) = &mut self.templates else { return Ok(()) };
        if changed {
            // What text belongs to is another call or model now; the templates are of documents before that.
            templates.iter_mut().for_each(Template::forget);
        }
        if let Some(pattern) = pattern.filter(|_| as_it_came && !changed && source.part == Part::Event) {
            let around = around(source.whole, json.as_bytes());
            templates[self.oldest].learn(source.name, json, &pattern, around);
            self.oldest = (self.oldest + 1) % TEMPLATES;
        }
        Ok(())
    }

    fn emit_unknown_fields(&self, at: Tick, json: &str, out: &mut EventBatch) {
        let Ok(Some(object)) = Object::read(json) else { return };
        for (name, json) in object.fields().filter(|(name, _)| !self.decoder.is_known_field(name)) {
            let (name, json) = (out.store(name), out.store(json));
            out.push(at, EventKind::Unknown { name, json });
        }
    }
}

/// What stands before and after a piece of these bytes, if it is one in memory.
fn around<'w>(whole: &'w [u8], part: &[u8]) -> Option<[&'w [u8]; 2]> {
    let range = range_within(whole, part)?;
    Some([&whole[..range.start], &whole[range.end..]])
}

/// A body that was cut within a number such as `29.`, which the parser takes for a broken one.
fn ends_in_number(json: &str) -> bool {
    json.starts_with(['{', '[']) && json.ends_with(['.', '-', '+', 'e', 'E'])
}
