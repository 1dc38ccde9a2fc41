//! Takes the token counts that a gateway asked for and its client did not out of a stream: the one event that holds
//! nothing else.
//!
//! Invariant: the bytes that pass depend on the stream's bytes alone, not on how they were cut; no event is held back
//! longer than it takes to know that it is not the one.

use crate::object::Object;
use memchr::{memchr2, memmem};

/// Longest beginning of an event that is held back. An event of token counts has a few hundred bytes.
const MAX_HELD_BYTES: usize = 16 << 10;

/// What every event has that is to be withheld: `"choices":[]`.
const MARK: &[u8] = b"[]";

/// How a read passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Passage {
    /// The bytes of the read are to be sent on as they are.
    AsItCame,
    /// What is to be sent was added to the buffer instead; that may be nothing.
    Rewritten,
}

/// Takes the event of token counts out of a stream of OpenAI's chat or text completions: the one with `"choices":[]` and
/// a `usage` object.
#[derive(Clone, Debug)]
pub struct UsageFilter {
    mark: memmem::Finder<'static>,
    /// The beginning of the event that the last read ended in, unless that event passes.
    held: Vec<u8>,
    /// The last read ended in an event that passes.
    passing: bool,
    line: Line,
    /// The last read ended with an event in a carriage return, to which a line feed may belong; whether it was withheld.
    returned: Option<bool>,
    withheld: u64,
}

/// Where in a line the stream stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Line {
    /// At its beginning.
    Empty,
    /// At the beginning of one whose predecessor ended in a carriage return.
    AfterReturn,
    Begun,
}

impl Default for UsageFilter {
    fn default() -> UsageFilter {
        UsageFilter::new()
    }
}

impl UsageFilter {
    /// A filter at the start of a stream.
    pub fn new() -> UsageFilter {
        UsageFilter {
            mark: memmem::Finder::new(MARK),
            held: Vec::new(),
            passing: false,
            line: Line::Empty,
            returned: None,
            withheld: 0,
        }
    }

    /// How many events were withheld so far.
    pub fn withheld(&self) -> u64 {
        self.withheld
    }

    /// Takes the next bytes of the stream. Returns whether they pass unchanged; if not, `out` gets what is to be sent.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Passage {
        let between = !self.passing && self.held.is_empty() && self.returned.is_none();
        if between && ends_an_event(bytes) && self.mark.find(bytes).is_none() {
            self.line = Line::Empty;
            return Passage::AsItCame;
        }
        let (start, withheld, held) = (out.len(), self.withheld, !self.held.is_empty() || self.returned == Some(true));
        self.walk(bytes, out);
        if held || !self.held.is_empty() || self.withheld > withheld {
            return Passage::Rewritten;
        }
        out.truncate(start);
        Passage::AsItCame
    }

    /// Ends the stream: buffered bytes are sent, unless it is the event to be withheld, not ended.
    pub fn end(&mut self, out: &mut Vec<u8>) {
        let held = std::mem::take(&mut self.held);
        if self.is_counts_only(&held) {
            self.withheld += 1;
        } else {
            out.extend_from_slice(&held);
        }
        self.passing = false;
    }

    fn walk(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let mut rest = bytes;
        if !rest.is_empty()
            && let Some(withheld) = self.returned.take()
        {
            self.line = Line::Empty;
            if let Some(behind) = rest.strip_prefix(b"\n") {
                out.extend_from_slice(if withheld { b"" } else { b"\n" });
                rest = behind;
            }
        }
        while !rest.is_empty() {
            let Some(length) = self.event_end(rest) else { return self.take_part(rest, out) };
            let (part, behind) = rest.split_at(length);
            rest = behind;
            self.take_end(part, rest.is_empty(), out);
        }
    }

    /// The bytes up to the end of the event in which the stream stands; `None` if it does not end here.
    fn event_end(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        if self.line == Line::AfterReturn {
            // The second half of a line's end.
            at += usize::from(bytes.first() == Some(&b'\n'));
            self.line = Line::Empty;
        }
        loop {
            let Some(offset) = memchr2(b'\n', b'\r', &bytes[at..]) else {
                if at < bytes.len() {
                    self.line = Line::Begun;
                }
                return None;
            };
            let empty = offset == 0 && self.line == Line::Empty;
            at += offset + 1;
            let returned = bytes[at - 1] == b'\r';
            if returned && bytes.get(at) == Some(&b'\n') {
                at += 1;
            }
            self.line =
                if returned && at == bytes.len() && bytes[at - 1] == b'\r' { Line::AfterReturn } else { Line::Empty };
            if empty {
                return Some(at);
            }
            if at == bytes.len() {
                return None;
            }
        }
    }

    /// The rest of an event, its end included.
    fn take_end(&mut self, part: &[u8], last: bool, out: &mut Vec<u8>) {
        self.returned = (last && part.ends_with(b"\r")).then_some(false);
        if std::mem::take(&mut self.passing) {
            return out.extend_from_slice(part);
        }
        let mut held = std::mem::take(&mut self.held);
        let event = if held.is_empty() {
            part
        } else {
            held.extend_from_slice(part);
            &held
        };
        if self.is_counts_only(event) {
            self.withheld += 1;
            self.returned = self.returned.map(|_| true);
        } else {
            out.extend_from_slice(event);
        }
        held.clear();
        self.held = held;
    }

    /// A piece of an event that has not ended.
    fn take_part(&mut self, part: &[u8], out: &mut Vec<u8>) {
        if self.passing {
            return out.extend_from_slice(part);
        }
        let seen = self.held.len().saturating_sub(CHOICE.len());
        self.held.extend_from_slice(part);
        if self.held.len() > MAX_HELD_BYTES || cannot_be_counts(&self.held, seen) {
            out.append(&mut self.held);
            self.passing = true;
        }
    }

    /// Whether the event is the one.
    fn is_counts_only(&self, event: &[u8]) -> bool {
        event.len() <= MAX_HELD_BYTES
            && self.mark.find(event).is_some()
            && !cannot_be_counts(event, 0)
            && has_counts_only(event)
    }
}

/// How an event begins its choices that has any.
const CHOICE: &[u8] = br#""choices":[{"#;

/// Whether an event, or its beginning, is certainly not the one, without being parsed; nothing is looked for before
/// `seen`.
fn cannot_be_counts(beginning: &[u8], seen: usize) -> bool {
    // No field of an event begins otherwise: "data", "event", "id", "retry", a comment, a byte order mark.
    let foreign = !matches!(beginning.first(), Some(b'd' | b'e' | b'i' | b'r' | b':' | b'\n' | b'\r' | 0xEF) | None);
    foreign || memmem::find(&beginning[seen..], CHOICE).is_some()
}

/// Whether an empty line stands at the end.
fn ends_an_event(bytes: &[u8]) -> bool {
    bytes.ends_with(b"\n\n") || bytes.ends_with(b"\r\n\r\n")
}

fn has_counts_only(event: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(event) else { return false };
    let mut data = String::new();
    for line in text.split(['\n', '\r']) {
        if let Some(value) = line.strip_prefix("data:") {
            if !data.is_empty() {
                data.push('\n');
            }
            data.push_str(value);
        }
    }
    let Ok(Some(object)) = Object::read(&data) else { return false };
    object.get("choices") == Some("[]")
        && object.get("usage").is_some_and(|usage| usage.starts_with('{'))
        && object.get("error").is_none()
}

#[cfg(test)]
mod tests;
