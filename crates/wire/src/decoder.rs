//! Body bytes of one answer in, events out.
//!
//! It refuses to know status codes, headers and what the events are for. Invariant: `push` and `end` never fail and never
//! panic, memory stays below the event limit plus one push, and any chunking of the same bytes gives the same events (their
//! ticks are those of the push that completed them).

use crate::dialect::{Dialect, Shape};
use crate::frame::{DEFAULT_MAX_EVENT_BYTES, Frame, SseFramer};
use crate::openai_chat::{ChatStream, Part, Source};
use tokrate_core::{EventBatch, Oddity, Tick, What};

/// Decodes the body of one answer.
#[derive(Clone, Debug)]
pub struct Decoder {
    dialect: Dialect,
    shape: Shape,
    form: Form,
    limit: usize,
    framer: SseFramer,
    chat: ChatStream,
    whole: Vec<u8>,
    /// Bytes of the byte order mark seen, and bytes seen in all before the form was known.
    mark_bytes: usize,
    sniffed_bytes: usize,
    last_at: Tick,
    any_event: bool,
}

/// What the body turned out to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    /// Nothing but white space so far.
    Unknown,
    Events,
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
            framer: SseFramer::new(DEFAULT_MAX_EVENT_BYTES),
            chat: ChatStream::new(),
            whole: Vec::new(),
            mark_bytes: 0,
            sniffed_bytes: 0,
            last_at: Tick::ZERO,
            any_event: false,
        }
    }

    /// Skips events (and whole bodies) of more than `bytes` instead of 8 MiB. To be called before the first push.
    pub fn with_max_event_bytes(mut self, bytes: usize) -> Decoder {
        self.limit = bytes;
        self.framer = SseFramer::new(bytes);
        self
    }

    /// Parses every event in full. The events are the same; this is for checks of exactly that.
    pub fn without_template(mut self) -> Decoder {
        self.chat.disable_template();
        self
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
        match self.form {
            Form::Events => self.push_events(at, bytes, out),
            Form::Whole => self.push_whole(bytes),
            Form::Unknown => match self.sniff(bytes) {
                Some(body_at) => self.push_whole(&bytes[body_at..]),
                None => self.push_events(at, bytes, out),
            },
            Form::Over => {}
        }
    }

    /// Says that the body ended, well or not, and adds what was still unsaid. Text that is said now carries the tick of
    /// the last push, because that is when it arrived; `at` is used if nothing ever arrived.
    pub fn end(&mut self, at: Tick, out: &mut EventBatch) {
        let at = if self.sniffed_bytes > 0 { self.last_at } else { at };
        match std::mem::replace(&mut self.form, Form::Over) {
            Form::Unknown | Form::Over => {}
            Form::Events => self.end_events(at, out),
            Form::Whole if self.whole.len() > self.limit => {
                self.whole = Vec::new();
                out.push(at, What::Odd(Oddity::EventTooLarge));
            }
            Form::Whole => {
                let body = std::mem::take(&mut self.whole);
                self.chat.take(Source { at, name: b"", part: Part::Whole }, &body, out);
            }
        }
    }

    /// Looks for the first byte that tells events from a JSON body; its offset if it is a body that begins in `bytes`.
    fn sniff(&mut self, bytes: &[u8]) -> Option<usize> {
        const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";
        for (offset, &byte) in bytes.iter().enumerate() {
            let in_mark = self.sniffed_bytes == self.mark_bytes && BYTE_ORDER_MARK.get(self.mark_bytes) == Some(&byte);
            self.sniffed_bytes += 1;
            if in_mark {
                self.mark_bytes += 1;
            } else if !byte.is_ascii_whitespace() {
                // JSON, or a web page, which is neither but must not pass for a stream without events.
                let whole = match self.shape {
                    Shape::Stream => matches!(byte, b'{' | b'[' | b'"' | b'<'),
                    // "data", "event", "id", "retry", "error" or a comment: a stream that nobody asked for.
                    Shape::Whole => !matches!(byte, b'd' | b'e' | b'i' | b'r' | b':'),
                };
                self.form = if whole { Form::Whole } else { Form::Events };
                return whole.then_some(offset);
            }
        }
        None
    }

    fn push_events(&mut self, at: Tick, bytes: &[u8], out: &mut EventBatch) {
        let Decoder { framer, chat, any_event, .. } = self;
        framer.push(bytes, &mut |frame| {
            *any_event = true;
            take_frame(chat, at, frame, out);
        });
    }

    fn end_events(&mut self, at: Tick, out: &mut EventBatch) {
        let Decoder { framer, chat, any_event, .. } = self;
        framer.end(&mut |frame| {
            *any_event |= !matches!(frame, Frame::Unfinished { data: b"", .. });
            take_frame(chat, at, frame, out);
        });
        if !*any_event && framer.ignored_lines() > 0 {
            // Lines, but none of a stream: plain text where events were expected.
            out.push(at, What::Odd(Oddity::Malformed));
        }
    }

    fn push_whole(&mut self, bytes: &[u8]) {
        // One byte over the limit is enough to know at the end that it was exceeded.
        let room = (self.limit + 1).saturating_sub(self.whole.len());
        self.whole.extend_from_slice(&bytes[..room.min(bytes.len())]);
    }
}

fn take_frame(chat: &mut ChatStream, at: Tick, frame: Frame<'_>, out: &mut EventBatch) {
    match frame {
        Frame::Event { name, data } => chat.take(Source { at, name, part: Part::Event }, data, out),
        Frame::Unfinished { name, data } => chat.take(Source { at, name, part: Part::Unfinished }, data, out),
        Frame::TooLarge { .. } => out.push(at, What::Odd(Oddity::EventTooLarge)),
    }
}
