//! The fast path: documents that differ from one that was read in full only where that is known to be harmless.
//!
//! Invariant: a hit is a proof. The bytes around the places that may differ equal those of a document
//! that was read in full, and each place holds one value of the kind that stood there (the inside of a text, a value without
//! meaning, a block of token counts), so a parser would find the same document with these values; whatever is not provable
//! this way is left to the parser.

use crate::document_decoder::{DocumentDecoder, Pattern, UsageReading};
use crate::json_text::{append_unescaped, bracket_end, is_whitespace, plain_length, string_end};
use serde::de::IgnoredAny;
use std::ops::Range;
use tokrate_core::Channel;

/// A document by its fixed bytes and the places between them: `fixed[0] place[0] fixed[1] … place[n-1] fixed[n]`.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    usable: bool,
    channel: Channel,
    /// Name of the event.
    name: Vec<u8>,
    fixed: Vec<Vec<u8>>,
    places: Vec<Place>,
    /// The fixed bytes with what stands around the document in its stream: names of fields, line ends. None if the document did not lie
    /// whole in one read, or if more than its text may differ: the end of a value is found faster once the document is cut.
    framed: Option<[Vec<u8>; 2]>,
}

/// What stands at a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// The inside of the text.
    Text,
    /// A value without meaning.
    Skip,
    /// White space between values, or none.
    Whitespace,
    /// A block of token counts.
    Usage,
}

/// A document recognised; its text lies at the end of the arena, from `start` on.
pub(crate) struct Hit {
    pub(crate) channel: Channel,
    pub(crate) start: usize,
    pub(crate) usage: Option<UsageReading>,
}

impl Template {
    /// A template that recognises nothing yet.
    pub(crate) fn new() -> Template {
        Template {
            usable: false,
            channel: Channel::Answer,
            name: Vec::new(),
            fixed: Vec::new(),
            places: Vec::new(),
            framed: None,
        }
    }

    /// Forgets what it learnt.
    pub(crate) fn forget(&mut self) {
        self.usable = false;
        self.framed = None;
    }

    /// Learns from a document in which the pattern was found. `around` is what stood before and after it in one line of its stream,
    /// with the line ends.
    pub(crate) fn learn(&mut self, name: &[u8], json: &str, pattern: &Pattern, around: Option<[&[u8]; 2]>) {
        self.forget();
        let text = std::iter::once((pattern.text.clone(), Place::Text));
        let skips = pattern.skips.iter().map(|range| {
            let is_blank = json.as_bytes().get(range.clone()).is_some_and(|bytes| bytes.iter().all(is_whitespace));
            (range.clone(), if is_blank { Place::Whitespace } else { Place::Skip })
        });
        let usage = pattern.usage.iter().map(|range| (range.clone(), Place::Usage));
        let mut places: Vec<(Range<usize>, Place)> = text.chain(skips).chain(usage).collect();
        places.sort_by_key(|(range, _)| range.start);
        let apart = places.windows(2).all(|pair| pair[0].0.end < pair[1].0.start);
        let within = places.iter().all(|(range, _)| range.start <= range.end && range.end <= json.len());
        if !apart || !within {
            return;
        }
        self.usable = true;
        self.channel = pattern.channel;
        self.name.clear();
        self.name.extend_from_slice(name);
        self.fixed.clear();
        self.places.clear();
        let mut from = 0;
        for (range, place) in places {
            self.fixed.push(json.as_bytes()[from..range.start].to_vec());
            self.places.push(place);
            from = range.end;
        }
        self.fixed.push(json.as_bytes()[from..].to_vec());
        if let (Some([before, after]), [first, last]) = (around, &self.fixed[..]) {
            self.framed = Some([[before, first].concat(), [last, after].concat()]);
        }
    }

    /// Recognises a document with what stands around it at the start of the bytes of a stream, and how long that is.
    pub(crate) fn recognise_framed(&self, bytes: &[u8], arena: &mut String) -> Option<(Hit, usize)> {
        let [first, last] = self.framed.as_ref()?;
        let rest = bytes.strip_prefix(first.as_slice())?;
        let plain = plain_length(rest);
        let is_plain = rest.get(plain) == Some(&b'"');
        let end = if is_plain { plain } else { plain + string_end(&rest[plain..])? };
        let (text, behind) = rest.split_at(end);
        let length = bytes.len() - behind.strip_prefix(last.as_slice())?.len();
        let start = arena.len();
        if is_plain {
            arena.push_str(std::str::from_utf8(text).ok()?);
        } else if !append_unescaped(text, arena) {
            return None;
        }
        // An empty text is for the parser: its meaning may depend on the rest.
        (arena.len() > start).then_some((Hit { channel: self.channel, start, usage: None }, length))
    }

    /// Recognises a document and appends its text to the arena; `None`, and nothing appended, if a parser must look at it.
    pub(crate) fn recognise(
        &self,
        name: &[u8],
        data: &[u8],
        decoder: &dyn DocumentDecoder,
        arena: &mut String,
    ) -> Option<Hit> {
        if !self.usable {
            return None;
        }
        let [first, others @ ..] = &self.fixed[..] else { return None };
        let mut rest = data.strip_prefix(first.as_slice())?;
        // Two empty names are not compared: a comparison of no bytes at the address of an empty buffer costs some processors
        // more than all the rest.
        if self.name.len() != name.len() || !name.is_empty() && self.name != name {
            return None;
        }
        let start = arena.len();
        if let [last] = others {
            // An empty text is for the parser: its meaning may depend on the rest.
            let text = rest.strip_suffix(last.as_slice()).filter(|text| !text.is_empty())?;
            return append_unescaped(text, arena).then_some(Hit { channel: self.channel, start, usage: None });
        }
        let (mut text, mut usage) = (None, None);
        let last = self.places.len() - 1;
        for (n, (place, after)) in self.places.iter().zip(others).enumerate() {
            // What stands before the last fixed bytes is all there is to the last place.
            let value = if n == last {
                rest.strip_suffix(after.as_slice())?
            } else {
                let length = match place {
                    Place::Text => string_end(rest)?,
                    Place::Skip => value_end(rest)?,
                    Place::Whitespace => rest.iter().take_while(|byte| is_whitespace(byte)).count(),
                    // Whether it is an object is for its reader to decide.
                    Place::Usage => bracket_end(rest)?,
                };
                let (value, behind) = rest.split_at(length);
                rest = behind.strip_prefix(after.as_slice())?;
                value
            };
            match place {
                Place::Text => text = Some(value),
                Place::Skip if n == last => is_whole_value(value).then_some(())?,
                Place::Whitespace if n == last => value.iter().all(is_whitespace).then_some(())?,
                Place::Skip | Place::Whitespace => {}
                Place::Usage => usage = Some(decoder.decode_usage(std::str::from_utf8(value).ok()?)?),
            }
        }
        let text = text.filter(|text: &&[u8]| !text.is_empty())?;
        append_unescaped(text, arena).then_some(Hit { channel: self.channel, start, usage })
    }
}

/// Where the JSON value ends with which the bytes begin; `None` if a parser must look at it.
fn value_end(bytes: &[u8]) -> Option<usize> {
    match bytes.first()? {
        b'"' => {
            // Nearly always plain ASCII: one look at each byte will do.
            let plain = plain_length(&bytes[1..]);
            if bytes.get(1 + plain) == Some(&b'"') && bytes[1..=plain].is_ascii() {
                return Some(plain + 2);
            }
            let end = string_end(&bytes[1..])? + 2;
            is_value(&bytes[..end]).then_some(end)
        }
        b'[' if bytes.get(1) == Some(&b']') => Some(2),
        b'{' | b'[' => {
            let end = bracket_end(bytes)?;
            is_value(&bytes[..end]).then_some(end)
        }
        _ => {
            let end = bytes.iter().position(|byte| !byte.is_ascii_alphanumeric() && !b"+-.".contains(byte))?;
            (is_whole_number(&bytes[..end]) || is_value(&bytes[..end])).then_some(end)
        }
    }
}

/// Whether the bytes are one JSON value and nothing else.
fn is_whole_value(bytes: &[u8]) -> bool {
    if let [b'"', inside @ .., b'"'] = bytes
        && inside.is_ascii()
        && plain_length(inside) == inside.len()
    {
        return true;
    }
    is_whole_number(bytes) || is_value(bytes)
}

fn is_whole_number(bytes: &[u8]) -> bool {
    matches!(bytes, [b'1'..=b'9', rest @ ..] if rest.iter().all(u8::is_ascii_digit)) || bytes == b"0"
}

/// Whether `bytes` are one JSON value.
fn is_value(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_end_where_a_parser_says() {
        for (json, value) in [
            (r#""a\"b",1"#, r#""a\"b""#),
            (r#"{"a":["]",{}]},"b""#, r#"{"a":["]",{}]}"#),
            ("17}", "17"),
            ("-1.5e3,", "-1.5e3"),
            ("null]", "null"),
        ] {
            assert_eq!(value_end(json.as_bytes()), Some(value.len()), "{json}");
        }
        for whole in ["\"a\"", "\"a\\\"b\"", "17", "-1.5e3", "null", "{\"a\":[1]}", "\"é\""] {
            assert!(is_whole_value(whole.as_bytes()), "{whole}");
            assert!(!is_whole_value(format!("{whole},").as_bytes()), "{whole}");
        }
        for broken in ["\"a", "\"\\x\",", "{\"a\":}", "01,", "nul,", "17", "-,", ""] {
            assert_eq!(value_end(broken.as_bytes()), None, "{broken}");
            assert!(broken == "17" || !is_whole_value(broken.as_bytes()), "{broken}");
        }
    }
}
