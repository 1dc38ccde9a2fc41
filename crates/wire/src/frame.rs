//! Cuts a body into server-sent events.
//!
//! Invariant: the frames depend on the bytes alone, not on how they were cut, and never more than the limit plus one
//! push is held in memory.

use memchr::{memchr, memchr2};

/// The limit of an event's size unless another is set: room for a picture of several megabytes in base64, the largest thing that
/// providers put into one event.
pub const DEFAULT_MAX_EVENT_BYTES: usize = 8 << 20;

/// Buffers that grew beyond this are given back after the event that needed them: usual events have some hundred bytes, and thousands
/// of open streams must not each keep the largest event that they ever had.
const KEPT_CAPACITY: usize = 64 << 10;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Fields whose lines are understood. `error` is not in the standard; older llama.cpp servers send it in place of `data`.
const FIELDS: [&[u8]; 5] = [b"data", b"event", b"id", b"retry", b"error"];

/// What the framer found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Frame<'a> {
    /// An event that was ended by an empty line.
    Event {
        /// Value of the last `event` field, empty if there was none.
        name: &'a [u8],
        /// Values of the `data` fields, joined by line feeds.
        data: &'a [u8],
    },
    /// The event in which the body ended; only [`SseFramer::end`] gives it. The data may break off anywhere.
    Unfinished {
        /// Value of the last `event` field, empty if there was none.
        name: &'a [u8],
        /// What there was of the data, possibly nothing.
        data: &'a [u8],
    },
    /// Something whose checksum does not fit.
    Corrupt,
    /// An event over the limit, skipped.
    TooLarge {
        /// Bytes in its lines, without line ends and comments.
        bytes: u64,
    },
}

/// What takes the frames of a body.
pub(crate) trait FrameSink {
    /// Takes the event, with its line ends, with which these bytes begin, if it knows it without having it cut; how long it is. It has no line
    /// ends but the last ones.
    fn take_known(&mut self, bytes: &[u8]) -> Option<usize>;

    /// Takes a frame. `whole` are its bytes with line ends, if its data is one line and it lay whole in one push; else it is empty.
    fn take(&mut self, frame: Frame<'_>, whole: &[u8]);
}

/// A sink that has every frame cut.
pub(crate) struct Every<F>(pub(crate) F);

impl<F: FnMut(Frame<'_>)> FrameSink for Every<F> {
    fn take_known(&mut self, _bytes: &[u8]) -> Option<usize> {
        None
    }

    fn take(&mut self, frame: Frame<'_>, _whole: &[u8]) {
        (self.0)(frame);
    }
}

/// Takes known events from the start of `bytes` on; what is left. None is longer than `limit`.
#[inline]
pub(crate) fn after_known<'b>(mut bytes: &'b [u8], limit: usize, sink: &mut impl FrameSink) -> &'b [u8] {
    while let Some(length) = sink.take_known(&bytes[..bytes.len().min(limit)]) {
        bytes = &bytes[length..];
    }
    bytes
}

/// Cuts a body into events. An event that lies whole inside one push is handed on without a copy.
#[derive(Clone, Debug)]
pub struct SseFramer {
    limit: u64,
    /// Some line of an event, or a part of a line, lies behind us.
    begun: bool,
    first_line: bool,
    after_carriage_return: bool,
    line_open: bool,
    line_is_comment: bool,
    has_data: bool,
    event_bytes: u64,
    ignored_lines: u64,
    line: Vec<u8>,
    data: Vec<u8>,
    name: Vec<u8>,
}

enum Line {
    Data { value_at: usize },
    Other,
}

impl SseFramer {
    /// A framer at the start of a body that skips events of more than `max_event_bytes`.
    pub fn new(max_event_bytes: usize) -> SseFramer {
        SseFramer {
            limit: max_event_bytes as u64,
            begun: false,
            first_line: true,
            after_carriage_return: false,
            line_open: false,
            line_is_comment: false,
            has_data: false,
            event_bytes: 0,
            ignored_lines: 0,
            line: Vec::new(),
            data: Vec::new(),
            name: Vec::new(),
        }
    }

    /// Bytes held in memory.
    pub(crate) fn held_bytes(&self) -> usize {
        self.line.len() + self.data.len() + self.name.len()
    }

    /// Takes the next bytes of the body and hands on each event that they complete.
    pub fn push(&mut self, bytes: &[u8], on_frame: &mut impl FnMut(Frame<'_>)) {
        self.push_to(bytes, &mut Every(on_frame));
    }

    /// The same, into a sink.
    pub(crate) fn push_to(&mut self, bytes: &[u8], sink: &mut impl FrameSink) {
        let mut rest = bytes;
        let mut held = None;
        while let Some(&first) = rest.first() {
            if self.after_carriage_return {
                self.after_carriage_return = false;
                if first == b'\n' {
                    rest = &rest[1..];
                    continue;
                }
            }
            if !self.begun {
                rest = after_known(rest, self.limit as usize, sink);
            }
            let Some(end) = memchr2(b'\n', b'\r', rest) else {
                self.carry(rest);
                break;
            };
            let line = &rest[..end];
            // The second is what it looks like in dialects that name their events.
            if !self.begun
                && let Some((event, length)) =
                    unnamed_event(rest, end, self.limit).or_else(|| named_event(rest, end, self.limit))
            {
                self.first_line = false;
                sink.take(event, &rest[..length]);
                rest = &rest[length..];
                continue;
            }
            self.after_carriage_return = rest[end] == b'\r';
            rest = &rest[end + 1..];
            self.line_ended(line, &mut held, sink);
        }
        if let Some(data) = held {
            self.data.extend_from_slice(data);
        }
    }

    /// Ends the body and emits its unfinished rest.
    pub fn end(&mut self, on_frame: &mut impl FnMut(Frame<'_>)) {
        let mut cut_line = false;
        if self.line_open && !self.line_is_comment && self.event_bytes <= self.limit {
            cut_line = true;
            let line = std::mem::take(&mut self.line);
            let in_name = FIELDS.iter().any(|field| field.len() > line.len() && field.starts_with(&line));
            if !in_name && let Line::Data { value_at } = self.read(&line) {
                self.store(&line[value_at..]);
            }
        }
        if self.event_bytes > self.limit {
            on_frame(Frame::TooLarge { bytes: self.event_bytes });
        } else if self.has_data || cut_line || !self.name.is_empty() {
            on_frame(Frame::Unfinished { name: &self.name, data: &self.data });
        }
        let ignored_lines = self.ignored_lines;
        *self = SseFramer { ignored_lines, ..SseFramer::new(self.limit as usize) };
    }

    /// Lines seen so far that belong to no field of the format. A body without events but with such lines is no stream.
    pub fn ignored_lines(&self) -> u64 {
        self.ignored_lines
    }

    /// Keeps a part of a line whose end has not come yet.
    fn carry(&mut self, part: &[u8]) {
        let Some(&first) = part.first() else { return };
        if !self.line_open {
            self.line_open = true;
            self.begun = true;
            self.line_is_comment = first == b':';
        }
        if self.line_is_comment {
            return;
        }
        self.event_bytes += part.len() as u64;
        if self.event_bytes > self.limit {
            self.forget_text();
        } else {
            self.line.extend_from_slice(part);
        }
    }

    fn line_ended<'b>(&mut self, part: &'b [u8], held: &mut Option<&'b [u8]>, sink: &mut impl FrameSink) {
        if self.line_open {
            self.carry(part);
            self.line_open = false;
            if self.line_is_comment || self.event_bytes > self.limit {
                self.first_line = false;
                return;
            }
            let mut line = std::mem::take(&mut self.line);
            if let Line::Data { value_at } = self.read(&line) {
                self.store(&line[value_at..]);
            }
            line.clear();
            self.line = line;
            return;
        }
        match part.first() {
            None => return self.dispatch(held, sink),
            Some(b':') => {
                self.first_line = false;
                return;
            }
            Some(_) => self.begun = true,
        }
        self.event_bytes += part.len() as u64;
        if self.event_bytes > self.limit {
            *held = None;
            self.first_line = false;
            return self.forget_text();
        }
        if let Line::Data { value_at } = self.read(part) {
            if self.has_data {
                if let Some(first) = held.take() {
                    self.data.extend_from_slice(first);
                }
                self.store(&part[value_at..]);
            } else {
                self.has_data = true;
                *held = Some(&part[value_at..]);
            }
        }
    }

    /// Understands one line that is not empty.
    fn read(&mut self, line: &[u8]) -> Line {
        let mut start = 0;
        if self.first_line {
            self.first_line = false;
            if line.starts_with(BYTE_ORDER_MARK) {
                start = BYTE_ORDER_MARK.len();
            }
        }
        let colon = memchr(b':', &line[start..]).map_or(line.len(), |offset| start + offset);
        let field = &line[start..colon];
        let mut value_at = (colon + 1).min(line.len());
        if line.get(value_at) == Some(&b' ') {
            value_at += 1;
        }
        match field {
            b"data" => Line::Data { value_at },
            b"error" => {
                if self.name.is_empty() {
                    self.name.extend_from_slice(field);
                }
                Line::Data { value_at }
            }
            b"event" => {
                self.name.clear();
                self.name.extend_from_slice(&line[value_at..]);
                Line::Other
            }
            _ => {
                let known = start == line.len() || FIELDS.contains(&field) || line.get(start) == Some(&b':');
                self.ignored_lines += u64::from(!known);
                Line::Other
            }
        }
    }

    fn store(&mut self, value: &[u8]) {
        if self.has_data {
            self.data.push(b'\n');
        }
        self.has_data = true;
        self.data.extend_from_slice(value);
    }

    fn dispatch(&mut self, held: &mut Option<&[u8]>, sink: &mut impl FrameSink) {
        let data = held.take();
        if self.event_bytes > self.limit {
            sink.take(Frame::TooLarge { bytes: self.event_bytes }, b"");
        } else if self.has_data {
            sink.take(Frame::Event { name: &self.name, data: data.unwrap_or(&self.data) }, b"");
        }
        self.begun = false;
        self.first_line = false;
        self.has_data = false;
        self.event_bytes = 0;
        self.forget_text();
    }

    fn forget_text(&mut self) {
        for buffer in [&mut self.line, &mut self.data, &mut self.name] {
            if buffer.capacity() > KEPT_CAPACITY {
                *buffer = Vec::new();
            } else {
                buffer.clear();
            }
        }
    }
}

/// An event of one data line that stands at the start of `bytes`, and its length with the empty line: what nearly every event looks
/// like. The line ends at `end`. Both line ends occur: some proxies, and Google, write CR LF.
fn unnamed_event(bytes: &[u8], end: usize, limit: u64) -> Option<(Frame<'_>, usize)> {
    let value = bytes[..end].strip_prefix(b"data:")?;
    let line_ends = [&b"\n\n"[..], b"\r\n\r\n"].into_iter().find(|ends| bytes[end..].starts_with(ends))?;
    let event = Frame::Event { name: b"", data: without_leading_space(value) };
    (end as u64 <= limit).then_some((event, end + line_ends.len()))
}

/// The same in dialects that name their events: a name and one data line that stand at the start of `bytes`, and its length with the empty line; the first
/// line ends at `end`.
fn named_event(bytes: &[u8], end: usize, limit: u64) -> Option<(Frame<'_>, usize)> {
    const DATA: &[u8] = b"\ndata:";
    let name = bytes[..end].strip_prefix(b"event:")?;
    let value = bytes[end..].strip_prefix(DATA)?;
    let length = memchr2(b'\n', b'\r', value)?;
    // The limit counts both lines without their ends.
    let counted = end + DATA.len() - 1 + length;
    if !value[length..].starts_with(b"\n\n") || counted as u64 > limit {
        return None;
    }
    let data = without_leading_space(&value[..length]);
    Some((Frame::Event { name: without_leading_space(name), data }, end + DATA.len() + length + 2))
}

fn without_leading_space(value: &[u8]) -> &[u8] {
    value.strip_prefix(b" ").unwrap_or(value)
}

#[cfg(test)]
mod tests;
