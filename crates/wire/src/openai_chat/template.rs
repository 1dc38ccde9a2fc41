//! The fast path: chunks that differ from the last parsed one only in the text.
//!
//! It refuses to parse. Invariant: a hit is a proof. The bytes around the text equal those of a chunk that was parsed
//! whole, and what lies between is the inside of a JSON string, so a parser would find the same chunk with this text;
//! whatever is not provable this way is left to the parser.

use super::chunk::{Chunk, Saying};
use super::usage::{Reading, read_usage};
use crate::json_text::{append_unescaped, plain_length, string_end};
use serde::de::IgnoredAny;
use tokrate_core::Channel;

/// The bytes of a parsed chunk around what may differ in the next one: `prefix TEXT middle [VALUE tail]`.
#[derive(Clone, Debug)]
pub(super) struct Template {
    usable: bool,
    channel: Channel,
    prefix: Vec<u8>,
    middle: Vec<u8>,
    value: Value,
    tail: Vec<u8>,
}

/// A second place, after the text, at which chunks may differ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Value {
    /// There is none.
    Absent,
    /// A value without meaning: padding against traffic analysis, engine timings.
    Ignored,
    /// A usage block, read on its own.
    Usage,
}

/// A chunk recognised; its text lies at the end of the arena, from `start` on.
pub(super) struct Hit {
    pub(super) channel: Channel,
    pub(super) start: usize,
    pub(super) usage: Option<Reading>,
}

impl Template {
    /// A template that recognises nothing yet.
    pub(super) fn new() -> Template {
        Template {
            usable: false,
            channel: Channel::Answer,
            prefix: Vec::new(),
            middle: Vec::new(),
            value: Value::Absent,
            tail: Vec::new(),
        }
    }

    /// Forgets the last chunk.
    pub(super) fn forget(&mut self) {
        self.usable = false;
    }

    /// Learns from a chunk that was parsed from `json`, if it consists of one text and nothing else of note; a chunk of
    /// another kind leaves the template as it is.
    pub(super) fn learn(&mut self, json: &str, chunk: &Chunk<'_>) {
        let [Saying { channel, inside: Some(text), .. }] = chunk.texts[..] else { return };
        let notable = chunk.finish.is_some() || chunk.failure.is_some() || chunk.extra_choices > 0;
        if notable || chunk.malformed || chunk.repeated {
            return;
        }
        let Some(text_at) = offset_within(json, text) else { return };
        let text_end = text_at + text.len();
        let later = |value: Option<&str>| {
            let value = value?;
            let at = offset_within(json, value)?;
            (at >= text_end).then_some((at, at + value.len()))
        };
        let (value, (value_at, value_end)) = match (later(chunk.usage), later(chunk.variable)) {
            (Some(place), _) => (Value::Usage, place),
            // A usage block before the text would be part of the prefix and is not read again.
            (None, _) if chunk.usage.is_some() => return,
            (None, Some(place)) => (Value::Ignored, place),
            (None, None) => (Value::Absent, (json.len(), json.len())),
        };
        let bytes = json.as_bytes();
        self.usable = true;
        self.channel = channel;
        self.value = value;
        for (slot, part) in [
            (&mut self.prefix, &bytes[..text_at]),
            (&mut self.middle, &bytes[text_end..value_at]),
            (&mut self.tail, &bytes[value_end..]),
        ] {
            slot.clear();
            slot.extend_from_slice(part);
        }
    }

    /// Recognises a chunk and appends its text to the arena; `None`, and nothing appended, if a parser must look at it.
    pub(super) fn recognise(&self, data: &[u8], arena: &mut String) -> Option<Hit> {
        if !self.usable {
            return None;
        }
        let rest = data.strip_prefix(self.prefix.as_slice())?;
        let start = arena.len();
        let (channel, mut usage) = (self.channel, None);
        if self.value == Value::Absent {
            let text = rest.strip_suffix(self.middle.as_slice())?;
            return append_unescaped(text, arena).then_some(Hit { channel, start, usage });
        }
        let (text, after) = rest.split_at(string_end(rest)?);
        let value = after.strip_prefix(self.middle.as_slice())?.strip_suffix(self.tail.as_slice())?;
        match self.value {
            Value::Absent => {}
            Value::Ignored => is_value(value).then_some(())?,
            Value::Usage => usage = Some(read_usage(std::str::from_utf8(value).ok()?).ok()??),
        }
        append_unescaped(text, arena).then_some(Hit { channel, start, usage })
    }
}

/// Whether `bytes` are one JSON value. Strings of printable ASCII are recognised at once.
fn is_value(bytes: &[u8]) -> bool {
    if let [b'"', inside @ .., b'"'] = bytes
        && inside.is_ascii()
        && plain_length(inside) == inside.len()
    {
        return true;
    }
    std::str::from_utf8(bytes).is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok())
}

/// Where `part` lies in `whole`, if it is a piece of it in memory.
fn offset_within(whole: &str, part: &str) -> Option<usize> {
    let offset = (part.as_ptr() as usize).checked_sub(whole.as_ptr() as usize)?;
    (offset + part.len() <= whole.len()).then_some(offset)
}
