//! One scan of a request's body for the fields that a gateway routes by, without a parse tree.
//!
//! Invariant: it accepts exactly the JSON objects that a parser accepts, except for what two readers of one body could
//! understand differently: nesting beyond [`MAX_DEPTH`], and a field of [`RequestPeek`] that comes twice, whose name is
//! written in other letters, or whose value is of a type that some servers would convert. It allocates nothing.

mod error;
mod lengths;
mod scan;
mod splice;

pub use error::{PeekError, PeekErrorKind};
pub(crate) use lengths::largest;
pub use lengths::{Lengths, Limit};
pub use splice::Changes;

use crate::json_text::{append_unescaped, plain_length};
use scan::{Key, Scan, matches_name};
use std::borrow::Cow;
use std::ops::Range;

/// How deep arrays and objects may be nested; the body itself is the first level.
pub const MAX_DEPTH: u32 = 128;

/// Where a value stands in a body, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Its first byte.
    pub start: usize,
    /// One past its last byte.
    pub end: usize,
}

impl Place {
    /// The same as a range.
    pub fn range(self) -> Range<usize> {
        self.start..self.end
    }
}

/// The fields that a gateway needs from a request's body. It holds offsets and numbers only, so it may outlive the body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequestPeek {
    /// Where the value of `model` stands: a string, quotes included, or `null`.
    pub model: Option<Place>,
    /// `stream`; `None` if it is absent or `null`.
    pub stream: Option<bool>,
    /// Where the value of `stream` stands.
    pub stream_place: Option<Place>,
    /// Where the value of `stream_options` stands: an object or `null`.
    pub stream_options: Option<Place>,
    /// Whether `stream_options.include_usage` is true.
    pub include_usage: bool,
    /// Limits of the answers' length and number.
    pub lengths: Lengths,
    /// Whether `background` is true: OpenAI's responses then go on after the request was answered.
    pub background: bool,
    /// Where the value of `stream_options.include_usage` stands.
    include_usage_place: Option<Place>,
    /// Offset behind the opening brace of the body, and whether the object is empty.
    inside: usize,
    empty: bool,
    /// The same for `stream_options`, if it is an object.
    options_inside: Option<usize>,
    options_empty: bool,
    /// Bytes of the body.
    length: usize,
}

/// The fields that are read.
const FIELDS: [&str; 16] = [
    "model",
    "stream",
    "stream_options",
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "n",
    "n_predict",
    "n_cmpl",
    "best_of",
    "options",
    "generationConfig",
    "generation_config",
    "inferenceConfig",
    "prompt",
    "background",
];

const INCLUDE_USAGE: &str = "stream_options.include_usage";

impl RequestPeek {
    /// Scans a request's body.
    ///
    /// # Errors
    /// When it is no JSON object in UTF-8 or bytes follow it; when it is nested too deep; when one of the fields named in
    /// [`RequestPeek`] comes twice, or under a name that differs in case only, because there are servers that take it for the
    /// same (Go's); when one of them has a value of another type. The message fits an answer with status 400.
    pub fn read(body: &[u8]) -> Result<RequestPeek, PeekError> {
        if let Err(error) = std::str::from_utf8(body) {
            return Err(PeekError { at: error.valid_up_to(), kind: PeekErrorKind::NotUtf8 });
        }
        let mut scan = Scan::new(body);
        scan.skip_whitespace();
        if scan.peek() != Some(b'{') {
            return Err(scan.not_an_object());
        }
        let mut peek = RequestPeek::nothing(body.len());
        let mut seen = [false; FIELDS.len()];
        (peek.inside, peek.empty) = scan.members(|scan, key| {
            let Some((field, exact)) = field_of(key.text, &FIELDS) else { return scan.value(1).map(drop) };
            check_name(key, FIELDS[field], exact, &mut seen[field])?;
            peek.take(FIELDS[field], scan)
        })?;
        scan.skip_whitespace();
        if scan.peek().is_some() {
            return Err(scan.error(PeekErrorKind::TrailingBytes));
        }
        Ok(peek)
    }

    /// The model that is asked for; `None` if there is none or it is `null`. `body` is the one that was scanned.
    pub fn model<'b>(&self, body: &'b [u8]) -> Option<Cow<'b, str>> {
        let inside = inside_of_string(body.get(self.model?.range())?)?;
        if plain_length(inside) == inside.len() {
            return std::str::from_utf8(inside).ok().map(Cow::Borrowed);
        }
        let mut text = String::with_capacity(inside.len());
        append_unescaped(inside, &mut text).then_some(Cow::Owned(text))
    }

    /// The body with these changes. Every other byte stays; nothing is copied if nothing is to be changed.
    ///
    /// # Panics
    /// When `body` is not as long as the one that was scanned.
    pub fn splice<'b>(&self, body: &'b [u8], changes: &Changes<'_>) -> Cow<'b, [u8]> {
        assert_eq!(body.len(), self.length, "a peek belongs to the body that it was read from");
        splice::splice(self, body, changes)
    }

    fn nothing(length: usize) -> RequestPeek {
        RequestPeek {
            model: None,
            stream: None,
            stream_place: None,
            stream_options: None,
            include_usage: false,
            lengths: Lengths::default(),
            background: false,
            include_usage_place: None,
            inside: 0,
            empty: true,
            options_inside: None,
            options_empty: true,
            length,
        }
    }

    /// Reads the value of a field, at the scan's position.
    fn take(&mut self, field: &'static str, scan: &mut Scan<'_>) -> Result<(), PeekError> {
        let start = scan.at;
        if matches!(field, "generationConfig" | "generation_config") && self.has_generation_config() {
            return Err(PeekError { at: start, kind: PeekErrorKind::Repeated("generationConfig") });
        }
        match (field, scan.peek()) {
            ("stream_options", Some(b'{')) => return self.take_options(scan),
            ("inferenceConfig", Some(b'{')) => return self.lengths.take_inference_config(scan),
            ("options", Some(b'{')) => return self.lengths.take_options(scan),
            ("generationConfig" | "generation_config", Some(b'{')) => {
                return self.lengths.take_generation_config(scan);
            }
            _ => {}
        }
        let place = Place { start, end: scan.value(1)? };
        let value = &scan.bytes[place.range()];
        let wrong = |expected: &'static str| PeekError { at: start, kind: PeekErrorKind::Invalid { field, expected } };
        match field {
            "model" => {
                let good = value == b"null" || inside_of_string(value).is_some_and(is_text);
                self.model = Some(place);
                good.then_some(()).ok_or(wrong("a string"))
            }
            "stream" => {
                self.stream_place = Some(place);
                self.stream = flag(value).ok_or(wrong("true or false"))?;
                Ok(())
            }
            "stream_options" => {
                self.stream_options = Some(place);
                (value == b"null").then_some(()).ok_or(wrong("an object"))
            }
            "prompt" => self.lengths.take_prompt(value),
            // A value of another type is left for the provider to refuse.
            "background" => {
                self.background = value == b"true";
                Ok(())
            }
            // A value of another type is left for the provider to refuse.
            "options" | "generationConfig" | "generation_config" | "inferenceConfig" => Ok(()),
            _ => {
                let number = matches!(value, [b'-' | b'0'..=b'9', ..]);
                self.lengths.take(field, value);
                (number || value == b"null").then_some(()).ok_or(wrong("a number"))
            }
        }
    }

    fn take_options(&mut self, scan: &mut Scan<'_>) -> Result<(), PeekError> {
        let start = scan.at;
        let mut seen = false;
        let (inside, empty) = scan.members(|scan, key| {
            let Some((_, exact)) = field_of(key.text, &["include_usage"]) else { return scan.value(2).map(drop) };
            check_name(key, INCLUDE_USAGE, exact, &mut seen)?;
            let start = scan.at;
            let place = Place { start, end: scan.value(2)? };
            let invalid = PeekErrorKind::Invalid { field: INCLUDE_USAGE, expected: "true or false" };
            let flag = flag(&scan.bytes[place.range()]).ok_or(PeekError { at: start, kind: invalid })?;
            self.include_usage = flag == Some(true);
            self.include_usage_place = Some(place);
            Ok(())
        })?;
        self.options_inside = Some(inside);
        self.options_empty = empty;
        self.stream_options = Some(Place { start, end: scan.at });
        Ok(())
    }
}

/// Goes through the fields at the top of a body: what stands between the quotes of each name, and its value.
///
/// # Errors
/// When the body is no object.
pub(crate) fn scan_members(body: &[u8], mut take: impl FnMut(&[u8], &[u8])) -> Result<(), PeekError> {
    let mut scan = Scan::new(body);
    scan.skip_whitespace();
    if scan.peek() != Some(b'{') {
        return Err(scan.not_an_object());
    }
    let members = scan.members(|scan, key| {
        let start = scan.at;
        let end = scan.value(1)?;
        take(key.text, &scan.bytes[start..end]);
        Ok(())
    });
    members.map(drop)
}

/// Which of the fields a key names, and whether it does so to the letter.
fn field_of(key: &[u8], fields: &[&str]) -> Option<(usize, bool)> {
    fields.iter().enumerate().find_map(|(index, name)| matches_name(key, name).map(|exact| (index, exact)))
}

/// Refuses a name that not all readers take for the same, and one that comes again.
fn check_name(key: Key<'_>, field: &'static str, exact: bool, seen: &mut bool) -> Result<(), PeekError> {
    let kind = match (exact, std::mem::replace(seen, true)) {
        (true, false) => return Ok(()),
        (true, true) => PeekErrorKind::Repeated(field),
        (false, _) => PeekErrorKind::Misspelt(field),
    };
    Err(PeekError { at: key.at, kind })
}

/// The bytes between the quotes.
fn inside_of_string(value: &[u8]) -> Option<&[u8]> {
    value.strip_prefix(b"\"")?.strip_suffix(b"\"")
}

/// Whether the inside of a string is valid text: no surrogate without its pair.
fn is_text(inside: &[u8]) -> bool {
    scan::characters(inside).all(|character| character.is_some())
}

/// True, false or, for `null`, neither.
fn flag(value: &[u8]) -> Option<Option<bool>> {
    match value {
        b"true" => Some(Some(true)),
        b"false" => Some(Some(false)),
        b"null" => Some(None),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
