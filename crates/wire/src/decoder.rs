//! Body bytes of one answer in, events out.
//!
//! Invariant: `push` and `end` never fail and never
//! panic, memory stays below the event limit plus one push, and any chunking of the same bytes gives the same events (their
//! ticks are those of the push that completed them).

use crate::codec::{Framing, Shape};
use crate::dialect::Dialect;
use crate::document::Documents;
use crate::document_decoder::{Part, Source};
use crate::elements::ElementFramer;
use crate::event_stream::EventStreamFramer;
use crate::frame::{DEFAULT_MAX_EVENT_BYTES, Frame, FrameSink, SseFramer};
use crate::lines::LineFramer;
use tokrate_core::{Anomaly, EventBatch, EventKind, Tick};

/// Decodes the body of one answer.
#[derive(Clone, Debug)]
pub struct Decoder {
    dialect: Dialect,
    shape: Shape,
    form: Form,
    limit: usize,
    documents: Documents,
    whole: Vec<u8>,
    /// Bytes of the byte order mark seen, and bytes seen in all before the form was known.
    mark_bytes: usize,
    sniffed_bytes: usize,
    last_at: Tick,
    any_event: bool,
    is_whole: bool,
}

/// What the body turned out to be.
#[derive(Clone, Debug)]
enum Form {
    /// Nothing but white space so far.
    Unknown,
    /// Server-sent events.
    Events(SseFramer),
    /// A document a line.
    Lines(LineFramer),
    /// The elements of an array.
    Elements(ElementFramer),
    /// Messages of AWS's binary stream.
    Messages(EventStreamFramer),
    /// One document.
    Whole,
    Over,
}

impl Decoder {
    /// A decoder at the start of a body, for an answer that was asked for in `shape`.
    pub fn new(dialect: Dialect, shape: Shape) -> Decoder {
        Decoder {
            dialect,
            shape,
            form: Form::Unknown,
            limit: DEFAULT_MAX_EVENT_BYTES,
            documents: Documents::new((dialect.codec().decoder)()),
            whole: Vec::new(),
            mark_bytes: 0,
            sniffed_bytes: 0,
            last_at: Tick::ZERO,
            any_event: false,
            is_whole: false,
        }
    }

    /// Skips events (and whole bodies) of more than `bytes` instead of 8 MiB. To be called before the first push.
    pub fn with_max_event_bytes(mut self, bytes: usize) -> Decoder {
        self.limit = bytes;
        self
    }

    /// Parses every event in full. The events are the same; this is for checks of exactly that.
    pub fn without_template(mut self) -> Decoder {
        self.documents.disable_templates();
        self
    }

    /// Emits top-level fields that the dialect does not have as [`EventKind::Unknown`]. Every event is parsed in full then.
    pub fn with_unknown_fields(mut self) -> Decoder {
        self.documents.report_unknown_fields();
        self
    }

    /// Bytes of the body that are held in memory until what they belong to is whole.
    pub fn held_bytes(&self) -> usize {
        match &self.form {
            Form::Unknown | Form::Over => 0,
            Form::Events(framer) => framer.held_bytes(),
            Form::Lines(framer) => framer.held_bytes(),
            Form::Elements(framer) => framer.held_bytes(),
            Form::Messages(framer) => framer.held_bytes(),
            Form::Whole => self.whole.len(),
        }
    }

    /// Whether the answer came in one piece, whatever it was asked for in.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// How the first event began that could not be read, in a line.
    pub fn unreadable(&self) -> Option<&str> {
        self.documents.unreadable()
    }

    /// The dialect that it decodes.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Takes the next bytes of the body, which arrived at `at`, and adds the events that they complete to `out`.
    pub fn push(&mut self, at: Tick, bytes: &[u8], out: &mut EventBatch) {
        if bytes.is_empty() {
            return;
        }
        self.last_at = at;
        let start = if matches!(self.form, Form::Unknown) { self.sniff(bytes) } else { 0 };
        let Decoder { form, documents, any_event, whole, limit, .. } = self;
        let mut sink = DocumentSink { documents, at, any_event, out };
        match form {
            Form::Events(framer) => framer.push_to(&bytes[start..], &mut sink),
            Form::Lines(framer) => framer.push(&bytes[start..], &mut sink),
            Form::Elements(framer) => framer.push(&bytes[start..], &mut |frame| sink.take(frame, b"")),
            Form::Messages(framer) => framer.push(&bytes[start..], &mut |frame| sink.take(frame, b"")),
            Form::Whole => {
                // One byte over the limit is enough to know at the end that it was exceeded.
                let room = limit.saturating_add(1).saturating_sub(whole.len());
                let bytes = &bytes[start..];
                whole.extend_from_slice(&bytes[..room.min(bytes.len())]);
            }
            Form::Unknown | Form::Over => {}
        }
    }

    /// The body ended, well or not: adds the events that were held back. Their text carries the tick of the last push, because
    /// that is when it arrived; `at` is used if nothing ever arrived.
    pub fn end(&mut self, at: Tick, out: &mut EventBatch) {
        let at = if self.sniffed_bytes > 0 { self.last_at } else { at };
        let form = std::mem::replace(&mut self.form, Form::Over);
        let Decoder { documents, any_event, whole, limit, dialect, .. } = self;
        let mut sink = DocumentSink { documents, at, any_event, out };
        match form {
            Form::Unknown | Form::Over => return,
            Form::Events(mut framer) => {
                framer.end(&mut |frame| sink.take(frame, b""));
                if !*any_event && framer.ignored_lines() > 0 {
                    // Lines, but none of a stream: plain text where events were expected.
                    out.push(at, EventKind::Anomaly(Anomaly::Unreadable));
                }
            }
            Form::Lines(mut framer) => framer.end(&mut sink),
            Form::Elements(mut framer) => framer.end(&mut |frame| sink.take(frame, b"")),
            Form::Messages(mut framer) => framer.end(&mut |frame| sink.take(frame, b"")),
            Form::Whole if whole.len() > *limit => {
                *whole = Vec::new();
                out.push(at, EventKind::Anomaly(Anomaly::EventTooLarge));
            }
            Form::Whole => {
                let body = std::mem::take(whole);
                decode_body(documents, *dialect, at, &body, out);
            }
        }
        documents.end(at, out);
    }

    /// Looks for the first byte that shows the form of the body, and gives the offset at which the body begins for the form
    /// that was found.
    fn sniff(&mut self, bytes: &[u8]) -> usize {
        const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";
        for (offset, &byte) in bytes.iter().enumerate() {
            let in_mark = self.sniffed_bytes == self.mark_bytes && BYTE_ORDER_MARK.get(self.mark_bytes) == Some(&byte);
            self.sniffed_bytes += 1;
            if in_mark {
                self.mark_bytes += 1;
            } else if !byte.is_ascii_whitespace() {
                self.form = self.form_of(byte);
                self.is_whole = matches!(self.form, Form::Whole);
                return offset;
            }
        }
        bytes.len()
    }

    fn form_of(&self, first: u8) -> Form {
        let descriptor = self.dialect.descriptor();
        // Also when a page or nothing of the kind came, which must not pass for a stream without events.
        let whole = match self.shape {
            Shape::Stream | Shape::Array => matches!(first, b'{' | b'[' | b'"' | b'<'),
            // "data", "event", "id", "retry", "error" or a comment: a stream that nobody asked for.
            Shape::Whole => !matches!(first, b'd' | b'e' | b'i' | b'r' | b':'),
        };
        match first {
            // The highest byte of a length: a message of 16 MiB would not fit any limit.
            0 if descriptor.framing == Framing::EventStream => Form::Messages(EventStreamFramer::new(self.limit)),
            b'[' if descriptor.array_streams => Form::Elements(ElementFramer::new(self.limit)),
            b'{' if descriptor.framing == Framing::Lines && self.shape != Shape::Whole => {
                Form::Lines(LineFramer::new(self.limit))
            }
            _ if whole => Form::Whole,
            _ => Form::Events(SseFramer::new(self.limit)),
        }
    }
}

/// Whether an event only marks the end of the stream: no answer is made of that alone.
fn is_end_mark(frame: &Frame<'_>) -> bool {
    matches!(frame, Frame::Event { data, .. } | Frame::Unfinished { data, .. } if data.trim_ascii() == b"[DONE]")
}

/// Hands the documents of frames on; notes whether there was anything but an end mark.
struct DocumentSink<'s> {
    documents: &'s mut Documents,
    at: Tick,
    any_event: &'s mut bool,
    out: &'s mut EventBatch,
}

impl FrameSink for DocumentSink<'_> {
    #[inline]
    fn take_known(&mut self, bytes: &[u8]) -> Option<usize> {
        let length = self.documents.take_known(self.at, bytes, self.out)?;
        *self.any_event = true;
        Some(length)
    }

    fn take(&mut self, frame: Frame<'_>, whole: &[u8]) {
        let DocumentSink { at, documents, out, .. } = self;
        *self.any_event |= !matches!(frame, Frame::Unfinished { data: b"", .. }) && !is_end_mark(&frame);
        let source = |name, part| Source { at: *at, name, whole, part };
        match frame {
            Frame::Event { name, data } => documents.take(source(name, Part::Event), data, out),
            Frame::Unfinished { name, data } => documents.take(source(name, Part::Unfinished), data, out),
            Frame::Corrupt => out.push(*at, EventKind::Anomaly(Anomaly::Unreadable)),
            Frame::TooLarge { .. } => out.push(*at, EventKind::Anomaly(Anomaly::EventTooLarge)),
        }
    }
}

/// A body in one piece; where the dialect's streams are lines, lines that nobody asked for are read as such.
fn decode_body(documents: &mut Documents, dialect: Dialect, at: Tick, body: &[u8], out: &mut EventBatch) {
    let lines = dialect.descriptor().framing == Framing::Lines;
    let first = memchr::memchr(b'\n', body.trim_ascii_end()).map(|end| &body[..end]);
    // The first line of an indented answer is no document.
    if lines && first.is_some_and(|line| serde_json::from_slice::<serde::de::IgnoredAny>(line).is_ok()) {
        let mut framer = LineFramer::new(body.len());
        let mut sink = DocumentSink { documents, at, any_event: &mut false, out };
        framer.push(body, &mut sink);
        return framer.end(&mut sink);
    }
    documents.take(Source { at, name: b"", whole: b"", part: Part::Whole }, body, out);
}
