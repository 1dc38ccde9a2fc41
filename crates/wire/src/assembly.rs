//! A streamed answer put back into the one body that its server would have sent for the same request without `stream`.
//!
//! What a dialect's stream consists of is in its folder. Invariant: the body depends on the stream's bytes alone, not on how
//! they were cut; every field of the stream is in it, and where its place is a guess, [`AnswerAssembler::is_exact`] says so.

use crate::codec::Framing;
use crate::dialect::Dialect;
use crate::frame::{Every, Frame, SseFramer};
use crate::json_text::lossy;
use crate::lines::LineFramer;
use crate::object::{elements, without_whitespace};
use crate::peek::scan_members;
use crate::remainder::Members;
use crate::stream_assembly::{AssembledRequests, Assembly, Document};
use crate::translate::table::{Rule, Table};

/// Puts a streamed answer back into one body.
#[derive(Debug)]
pub struct AnswerAssembler {
    framing: Framing,
    form: Form,
    assembly: Box<dyn Assembly>,
    limit: usize,
    is_readable: bool,
}

/// What the body turned out to be.
#[derive(Debug)]
enum Form {
    /// Nothing but white space so far.
    Unknown,
    Events(SseFramer),
    Lines(LineFramer),
    /// The server sent the answer in one piece although it was asked for a stream.
    Whole(Vec<u8>),
    Over,
}

impl AnswerAssembler {
    /// An assembler for the answer to a request of this dialect; `None` if a stream might lack something that the answer in
    /// one piece has: the request holds a field that is not known here, or one that asks for more than one text.
    pub fn for_request(dialect: Dialect, request: &[u8], max_event_bytes: usize) -> Option<AnswerAssembler> {
        let (requests, new_assembly) = dialect.codec().assembly?;
        let framing = dialect.descriptor().framing;
        let is_plain = match requests {
            AssembledRequests::OfKnownFields => has_only_known_fields(dialect.codec().request_fields, request),
            AssembledRequests::Without(fields) => has_none_of(fields, request),
        };
        is_plain.then(|| AnswerAssembler {
            framing,
            form: Form::Unknown,
            assembly: new_assembly(),
            limit: max_event_bytes,
            is_readable: true,
        })
    }

    /// Bytes held in memory.
    pub fn held_bytes(&self) -> usize {
        let held = match &self.form {
            Form::Unknown | Form::Over => 0,
            Form::Events(framer) => framer.held_bytes(),
            Form::Lines(framer) => framer.held_bytes(),
            Form::Whole(bytes) => bytes.len(),
        };
        held + self.assembly.held_bytes()
    }

    /// Whether the body is what the server would have sent without a stream, as far as its dialect is known.
    pub fn is_exact(&self) -> bool {
        self.is_readable && self.assembly.is_exact()
    }

    /// Takes the next bytes of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        if matches!(self.form, Form::Unknown) {
            let Some(start) = bytes.iter().position(|byte| !byte.is_ascii_whitespace()) else { return };
            rest = &bytes[start..];
            self.form = match (rest[0], self.framing) {
                (b'{', Framing::Lines) => Form::Lines(LineFramer::new(self.limit)),
                // An answer in one piece, or a page.
                (b'{' | b'[' | b'"' | b'<', _) => Form::Whole(Vec::new()),
                _ => Form::Events(SseFramer::new(self.limit)),
            };
        }
        let AnswerAssembler { form, assembly, is_readable, .. } = self;
        let mut take = |frame: Frame<'_>| *is_readable &= take_frame(&mut **assembly, frame);
        match form {
            Form::Events(framer) => framer.push(rest, &mut take),
            Form::Lines(framer) => framer.push(rest, &mut Every(take)),
            Form::Whole(held) => held.extend_from_slice(rest),
            Form::Unknown | Form::Over => {}
        }
    }

    /// The stream is complete: appends the body; false if none could be made of it. Nothing is appended a second time.
    pub fn finish(&mut self, out: &mut Vec<u8>) -> bool {
        let AnswerAssembler { form, assembly, is_readable, .. } = self;
        let mut take = |frame: Frame<'_>| *is_readable &= take_frame(&mut **assembly, frame);
        match std::mem::replace(form, Form::Over) {
            Form::Whole(held) => {
                out.extend_from_slice(&held);
                return true;
            }
            Form::Over => return true,
            Form::Events(mut framer) => framer.end(&mut take),
            Form::Lines(mut framer) => framer.end(&mut Every(take)),
            Form::Unknown => {}
        }
        let Some(body) = self.assembly.body() else { return false };
        out.extend_from_slice(body.as_bytes());
        true
    }
}

/// Hands a frame on; false if it could not be read.
fn take_frame(assembly: &mut dyn Assembly, frame: Frame<'_>) -> bool {
    let (name, data) = match frame {
        Frame::Event { name, data } | Frame::Unfinished { name, data } => (name, data),
        Frame::TooLarge { .. } | Frame::Corrupt => return false,
    };
    let (json, is_lossy) = lossy(data);
    assembly.take(&Document { name, json: json.trim() });
    !is_lossy
}

/// Whether a request has no field at its top but those that its dialect's table has, with values that ask for one text.
fn has_only_known_fields(table: &Table, request: &[u8]) -> bool {
    let fields = table.kinds.first().map_or(&[][..], |kind| kind.fields);
    let mut is_known = true;
    let scanned = scan_members(request, |name, value| {
        let rule = fields.iter().find(|(known, _)| known.as_bytes() == name).map(|(_, rule)| rule);
        let value = std::str::from_utf8(value).unwrap_or_default();
        is_known &= match rule {
            None => false,
            Some(Rule::Only(values)) => value == "null" || values.contains(&&*without_whitespace(value)),
            Some(_) => true,
        };
    });
    scanned.is_ok() && is_known
}

/// Whether a request has none of these fields at its top, unless as `false`.
fn has_none_of(fields: &[&str], request: &[u8]) -> bool {
    let mut is_free = true;
    let scanned = scan_members(request, |name, value| {
        let is_named = fields.iter().any(|field| field.as_bytes() == name);
        is_free &= !is_named || matches!(value, b"false" | b"null");
    });
    scanned.is_ok() && is_free
}

/// The fields of an object that come again and again, as JSON: of each the last value that is not `null` counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct LastValues(Vec<(String, String)>);

impl LastValues {
    /// Takes a value.
    pub(crate) fn take(&mut self, name: &str, json: &str) {
        match self.0.iter_mut().find(|(known, _)| known == name) {
            None => self.0.push((name.to_owned(), json.to_owned())),
            Some((_, known)) if json != "null" && known != json => json.clone_into(known),
            Some(_) => {}
        }
    }

    /// Takes a value, `null` as well.
    pub(crate) fn replace(&mut self, name: &str, json: &str) {
        match self.0.iter_mut().find(|(known, _)| known == name) {
            None => self.0.push((name.to_owned(), json.to_owned())),
            Some((_, known)) => json.clone_into(known),
        }
    }

    /// The value of a field as JSON.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, json)| json.as_str())
    }

    /// The fields with their values as JSON.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, json)| (name.as_str(), json.as_str()))
    }

    /// Adds the fields to an object.
    pub(crate) fn write(&self, out: &mut Members) {
        self.iter().for_each(|(name, json)| out.json(name, json));
    }

    pub(crate) fn held_bytes(&self) -> usize {
        self.0.iter().map(|(name, json)| name.len() + json.len()).sum()
    }
}

/// A value that a stream gives piece by piece: texts and arrays are joined, of anything else the last counts.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) enum Joined {
    #[default]
    Absent,
    Null,
    /// What stands between the quotes; escapes stay as they are.
    Text(String),
    /// Elements as JSON.
    Array(Vec<String>),
    /// Any other JSON.
    Other(String),
}

impl Joined {
    /// Takes a piece; false if it does not go with the ones before.
    pub(crate) fn take(&mut self, json: &str) -> bool {
        if json == "null" {
            if *self == Joined::Absent {
                *self = Joined::Null;
            }
            return true;
        }
        let was_empty = matches!(self, Joined::Absent | Joined::Null);
        if let Some(inside) = inside_of_string(json) {
            if let Joined::Text(text) = self {
                text.push_str(inside);
                return true;
            }
            *self = Joined::Text(inside.to_owned());
            return was_empty;
        }
        if let Some(elements) = elements(json) {
            let elements = elements.map(str::to_owned);
            if let Joined::Array(array) = self {
                array.extend(elements);
                return true;
            }
            *self = Joined::Array(elements.collect());
            return was_empty;
        }
        let is_same = matches!(self, Joined::Other(known) if known == json);
        *self = Joined::Other(json.to_owned());
        was_empty || is_same
    }

    /// Adds it to an object, unless it is absent.
    pub(crate) fn write(&self, name: &str, out: &mut Members) {
        match self {
            Joined::Absent => {}
            Joined::Null => out.json(name, "null"),
            Joined::Text(inside) => {
                let field = out.field(name);
                field.push(b'"');
                field.extend_from_slice(inside.as_bytes());
                field.push(b'"');
            }
            Joined::Array(array) => out.json(name, &format!("[{}]", array.join(","))),
            Joined::Other(json) => out.json(name, json),
        }
    }

    pub(crate) fn held_bytes(&self) -> usize {
        match self {
            Joined::Absent | Joined::Null => 0,
            Joined::Text(text) | Joined::Other(text) => text.len(),
            Joined::Array(array) => array.iter().map(String::len).sum(),
        }
    }
}

/// Fields whose values are joined, in the order in which they came.
#[derive(Clone, Debug, Default)]
pub(crate) struct JoinedFields(Vec<(String, Joined)>);

impl JoinedFields {
    /// The value of a field, which is absent at first.
    pub(crate) fn field(&mut self, name: &str) -> &mut Joined {
        let place = self.0.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
            self.0.push((name.to_owned(), Joined::Absent));
            self.0.len() - 1
        });
        &mut self.0[place].1
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Joined> {
        self.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Joined)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Adds the fields to an object.
    pub(crate) fn write(&self, out: &mut Members) {
        self.iter().for_each(|(name, value)| value.write(name, out));
    }

    pub(crate) fn held_bytes(&self) -> usize {
        self.0.iter().map(|(name, value)| name.len() + value.held_bytes()).sum()
    }
}

/// What stands between the quotes of a JSON string.
pub(crate) fn inside_of_string(json: &str) -> Option<&str> {
    json.strip_prefix('"')?.strip_suffix('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_joined_by_their_kind() {
        let joined = |pieces: &[&str]| {
            let mut value = Joined::default();
            // All of them are taken, whether or not one before did not fit.
            let taken: Vec<bool> = pieces.iter().map(|piece| value.take(piece)).collect();
            let fits = taken.into_iter().all(|fits| fits);
            let mut object = Members::new();
            value.write("x", &mut object);
            (object.end(), fits)
        };
        let object = |text: &str| text.to_owned();
        assert_eq!(joined(&[]), (object("{}"), true));
        assert_eq!(joined(&["null", "null"]), (object(r#"{"x":null}"#), true));
        assert_eq!(
            joined(&["null", r#""a\n""#, "null", r#""\ud83d""#, r#""\ude00""#]),
            (object(r#"{"x":"a\n\ud83d\ude00"}"#), true)
        );
        assert_eq!(joined(&["[1]", "[]", r#"[{"a":[2]},3]"#]), (object(r#"{"x":[1,{"a":[2]},3]}"#), true));
        assert_eq!(joined(&["7", "7"]), (object(r#"{"x":7}"#), true));
        assert_eq!(joined(&["7", "8"]), (object(r#"{"x":8}"#), false));
        assert_eq!(joined(&[r#""a""#, "[1]"]), (object(r#"{"x":[1]}"#), false));
    }

    #[test]
    fn only_requests_for_one_text_with_known_fields_are_assembled() {
        let can = |dialect, request: &str| AnswerAssembler::for_request(dialect, request.as_bytes(), 1 << 20).is_some();
        let chat = Dialect::OpenAiChat;
        for request in [
            r#"{"model":"m","messages":[],"temperature":0.5,"tools":[],"n":1,"logprobs":false,"modalities":[ "text" ]}"#,
            r#"{"n":null}"#,
            "{}",
        ] {
            assert!(can(chat, request), "{request}");
        }
        for request in [
            r#"{"n":2}"#,
            r#"{"logprobs":true}"#,
            r#"{"modalities":["text","audio"]}"#,
            r#"{"web_search_options":{}}"#,
            r#"{"mess\u0061ges":[]}"#,
            "[]",
        ] {
            assert!(!can(chat, request), "{request}");
        }
        assert!(can(Dialect::Anthropic, r#"{"max_tokens":5,"messages":[],"thinking":{"type":"enabled"}}"#));
        assert!(can(Dialect::OpenAiResponses, r#"{"input":"hi","previous_response_id":"resp_1","store":true}"#));
        assert!(!can(Dialect::OpenAiResponses, r#"{"input":"hi","background":true}"#));
        assert!(!can(Dialect::Gemini, r#"{"contents":[]}"#) && !can(Dialect::LlamaCompletion, r#"{"prompt":"x"}"#));
    }
}
