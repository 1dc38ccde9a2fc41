//! The JSON reader: one level of an object or array at a time; a value stays the JSON it was until somebody asks for it.
//!
//! A document is parsed once, by serde_json, which checks all of its syntax. What lies within it is then only cut at its
//! commas and colons ([`fields`], [`elements`]), because parsing each level again would cost as much as the first time.
//!
//! Invariant: only broken syntax is an error; a value of a wrong type sets the flag and costs that field only. Of a repeated
//! name the last value counts, and `null` counts as absent.

use crate::json_text::{append_unescaped, bracket_end, is_whitespace, plain_length, string_end};
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

/// The fields of one object, in their order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Object<'a> {
    fields: Vec<(Cow<'a, str>, &'a str)>,
}

impl<'a> Object<'a> {
    /// Reads an object; `None` for JSON of another kind.
    ///
    /// # Errors
    /// On broken syntax, also of what is nested, lone surrogates in nested texts excepted.
    pub(crate) fn read(json: &'a str) -> Result<Option<Object<'a>>, serde_json::Error> {
        if !json.trim_ascii_start().starts_with('{') {
            return serde_json::from_str::<IgnoredAny>(json).map(|_| None);
        }
        let mut deserializer = serde_json::Deserializer::from_str(json);
        let fields = deserializer.deserialize_map(ParsedFields)?;
        deserializer.end()?;
        Ok(Some(Object { fields }))
    }

    /// An object within a document that was read; `None` for JSON of another kind.
    ///
    /// # Errors
    /// On lone surrogates in a name.
    pub(crate) fn within(json: &'a str) -> Result<Option<Object<'a>>, serde_json::Error> {
        let Some(fields) = fields(json) else { return Ok(None) };
        let mut object = Object { fields: Vec::with_capacity(8) };
        for field in fields {
            object.fields.push(field?);
        }
        Ok(Some(object))
    }

    /// The fields with their values as JSON.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&str, &'a str)> {
        self.fields.iter().map(|(name, json)| (&**name, *json))
    }

    /// The value of a field as JSON.
    pub(crate) fn get(&self, name: &str) -> Option<&'a str> {
        let field = self.fields.iter().rev().find(|(field, _)| field == name);
        field.map(|(_, json)| *json).filter(|json| *json != "null")
    }

    /// A field that is a string.
    pub(crate) fn text(&self, name: &str, wrong: &mut bool) -> Result<Option<Cow<'a, str>>, serde_json::Error> {
        let Some(json) = self.get(name) else { return Ok(None) };
        let text = read_text(json)?;
        *wrong |= text.is_none();
        Ok(text)
    }

    /// A field that is an object.
    pub(crate) fn object(&self, name: &str, wrong: &mut bool) -> Result<Option<Object<'a>>, serde_json::Error> {
        let Some(json) = self.get(name) else { return Ok(None) };
        let object = Object::within(json)?;
        *wrong |= object.is_none();
        Ok(object)
    }

    /// The elements of a field that is an array, as JSON.
    pub(crate) fn array(&self, name: &str, wrong: &mut bool) -> Result<Vec<&'a str>, serde_json::Error> {
        let Some(json) = self.get(name) else { return Ok(Vec::new()) };
        let elements = elements(json).map(Iterator::collect);
        *wrong |= elements.is_none();
        Ok(elements.unwrap_or_default())
    }

    /// A field that is a whole number of zero or more.
    pub(crate) fn count(&self, name: &str, wrong: &mut bool) -> Option<u64> {
        let json = self.get(name)?;
        let count = read_count(json);
        *wrong |= count.is_none();
        count
    }
}

/// The fields of an object within a document that was read, name and value; `None` for JSON of another kind.
pub(crate) fn fields(json: &str) -> Option<Fields<'_>> {
    Some(Fields { json, at: opening(json, b'{')? })
}

/// The elements of an array within a document that was read; `None` for JSON of another kind.
pub(crate) fn elements(json: &str) -> Option<Elements<'_>> {
    Some(Elements { json, at: opening(json, b'[')? })
}

/// See [`fields`].
pub(crate) struct Fields<'a> {
    json: &'a str,
    at: usize,
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(Cow<'a, str>, &'a str), serde_json::Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = self.json.as_bytes();
        let start = separator_end(bytes, self.at);
        if bytes.get(start)? != &b'"' {
            return None;
        }
        let end = start + 2 + string_end(&bytes[start + 1..])?;
        let value = separator_end(bytes, end);
        self.at = value + value_length(&bytes[value..])?;
        let name = match read_text(&self.json[start..end]) {
            Ok(Some(name)) => name,
            Ok(None) => return Some(Err(serde_json::Error::custom("a name must be a string"))),
            Err(error) => return Some(Err(error)),
        };
        Some(Ok((name, &self.json[value..self.at])))
    }
}

/// See [`elements`].
pub(crate) struct Elements<'a> {
    json: &'a str,
    at: usize,
}

impl<'a> Iterator for Elements<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let bytes = self.json.as_bytes();
        let start = separator_end(bytes, self.at);
        self.at = start + value_length(bytes.get(start..)?)?;
        Some(&self.json[start..self.at])
    }
}

/// One past the bracket with which the JSON begins.
fn opening(json: &str, bracket: u8) -> Option<usize> {
    let at = json.bytes().position(|byte| !is_whitespace(&byte))?;
    (json.as_bytes()[at] == bracket).then_some(at + 1)
}

/// Where white space, and one comma or colon among it, ends.
fn separator_end(bytes: &[u8], from: usize) -> usize {
    let rest = bytes[from..].iter().take_while(|byte| is_whitespace(byte) || matches!(byte, b',' | b':'));
    from + rest.count()
}

/// The length of a value of a document that was read; `None` at a closing bracket.
fn value_length(bytes: &[u8]) -> Option<usize> {
    match bytes.first()? {
        b'"' => Some(string_end(&bytes[1..])? + 2),
        b'{' | b'[' => bracket_end(bytes),
        b'}' | b']' => None,
        _ => {
            let ends = |byte: &u8| is_whitespace(byte) || matches!(byte, b',' | b'}' | b']');
            Some(bytes.iter().position(ends).unwrap_or(bytes.len()))
        }
    }
}

/// The text of a string; `None` for a value of another kind.
///
/// # Errors
/// When the string holds half of a surrogate pair.
pub(crate) fn read_text(json: &str) -> Result<Option<Cow<'_, str>>, serde_json::Error> {
    let Some(inside) = json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else { return Ok(None) };
    if plain_length(inside.as_bytes()) == inside.len() {
        return Ok(Some(Cow::Borrowed(inside)));
    }
    let mut text = String::with_capacity(inside.len());
    if append_unescaped(inside.as_bytes(), &mut text) {
        return Ok(Some(Cow::Owned(text)));
    }
    serde_json::from_str(json).map(|text: String| Some(Cow::Owned(text)))
}

/// The elements of an array as JSON; `None` for a value of another kind.
pub(crate) fn read_array(json: &str) -> Result<Option<Vec<&str>>, serde_json::Error> {
    if !json.trim_ascii_start().starts_with('[') {
        return Ok(None);
    }
    let mut deserializer = serde_json::Deserializer::from_str(json);
    let elements = deserializer.deserialize_seq(ParsedElements)?;
    deserializer.end()?;
    Ok(Some(elements))
}

/// A whole number of zero or more, also when written as `12.0`.
pub(crate) fn read_count(json: &str) -> Option<u64> {
    if let Ok(count) = json.parse::<u64>() {
        return Some(count);
    }
    let count = json.parse::<f64>().ok()?;
    // Above 2^53 a float no longer identifies a whole number.
    (count >= 0.0 && count.fract() == 0.0 && count <= 9_007_199_254_740_992.0).then_some(count as u64)
}

/// Where `part` lies in `whole`, of which it must be a piece in memory.
pub(crate) fn range_within(whole: impl AsRef<[u8]>, part: impl AsRef<[u8]>) -> Option<Range<usize>> {
    let (whole, part) = (whole.as_ref(), part.as_ref());
    let start = (part.as_ptr() as usize).checked_sub(whole.as_ptr() as usize)?;
    let end = start + part.len();
    (end <= whole.len()).then_some(start..end)
}

/// The JSON without the white space between its values.
pub(crate) fn without_whitespace(json: &str) -> Cow<'_, str> {
    let bytes = json.as_bytes();
    let (mut compact, mut kept, mut at) = (String::new(), 0, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => at += crate::json_text::string_end(&bytes[at + 1..]).map_or(bytes.len(), |end| end + 2),
            b' ' | b'\n' | b'\r' | b'\t' => {
                compact.push_str(&json[kept..at]);
                at += 1;
                kept = at;
            }
            _ => at += 1,
        }
    }
    if kept == 0 {
        return Cow::Borrowed(json);
    }
    compact.push_str(&json[kept..]);
    Cow::Owned(compact)
}

struct ParsedFields;

impl<'a> Visitor<'a> for ParsedFields {
    type Value = Vec<(Cow<'a, str>, &'a str)>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut object: A) -> Result<Self::Value, A::Error> {
        // Streamed events of the usual servers have up to eight.
        let mut fields = Vec::with_capacity(8);
        while let Some(Name(name)) = object.next_key()? {
            fields.push((name, object.next_value::<&'a RawValue>()?.get()));
        }
        Ok(fields)
    }
}

struct ParsedElements;

impl<'a> Visitor<'a> for ParsedElements {
    type Value = Vec<&'a str>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut array: A) -> Result<Self::Value, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = array.next_element::<&'a RawValue>()? {
            elements.push(element.get());
        }
        Ok(elements)
    }
}

/// A field's name, borrowed where it is written without escapes.
#[derive(serde::Deserialize)]
#[serde(transparent)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_wrong_type_costs_its_field_only() {
        let object = Object::read(r#" {"a":1,"b":"x\ny","c":{"d":[1, "2"]},"a":"z","e":null} "#).unwrap().unwrap();
        let mut wrong = false;
        assert_eq!(object.text("b", &mut wrong).unwrap().as_deref(), Some("x\ny"));
        assert_eq!(object.text("a", &mut wrong).unwrap().as_deref(), Some("z"), "the last one counts");
        assert_eq!(object.text("e", &mut wrong).unwrap(), None);
        let inner = object.object("c", &mut wrong).unwrap().unwrap();
        assert_eq!(inner.array("d", &mut wrong).unwrap(), ["1", "\"2\""]);
        assert!(!wrong);
        assert_eq!(object.text("c", &mut wrong).unwrap(), None);
        assert!(wrong);
        assert!(Object::read("[1]").unwrap().is_none());
        assert!(Object::read(r#"{"a":[1,}"#).is_err());
        assert!(Object::read("{} {}").is_err());
    }

    proptest! {
        /// Whatever a parser accepts is cut where the parser cuts it.
        #[test]
        fn what_was_parsed_is_cut_as_a_parser_does(json in r#"\{("[a\\"{}\[\]]{0,3}" ?: ?(1|-2.5e3|null|"[b,:\\"}\]]{0,4}"|\[[1,{}" ]{0,5}\]|\{\}) ?,? ?){0,4}\}"#) {
            if let Ok(Some(object)) = Object::read(&json) {
                let within = Object::within(&json).unwrap().unwrap();
                prop_assert!(object.fields().eq(within.fields()), "{}", json);
                for (_, value) in object.fields() {
                    let cut = elements(value).map(Iterator::collect::<Vec<_>>);
                    prop_assert_eq!(cut, read_array(value).unwrap(), "{}", json);
                }
            }
        }
    }

    #[test]
    fn what_is_no_json_ends_the_cutting() {
        for broken in ["", "{", "{\"", "{\"a", "{\"a\"", "{\"a\":", "{\"a\":[", "{1", "{,", "{\"a\":\"", "{:}"] {
            assert_eq!(fields(broken).map_or(0, Iterator::count), 0, "{broken}");
            let array = broken.replace('{', "[");
            assert!(elements(&array).map_or(0, Iterator::count) < 3, "{array}");
        }
    }

    #[test]
    fn a_lone_surrogate_is_broken_syntax() {
        let object = Object::read(r#"{"a":"\ud83d"}"#).unwrap().unwrap();
        assert!(object.text("a", &mut false).is_err());
    }

    #[test]
    fn counts_are_whole_numbers() {
        let counts = ["0", "12.0", "18446744073709551615", "-1", "1.5", "1e999", "\"3\"", "[]"].map(read_count);
        assert_eq!(counts, [Some(0), Some(12), Some(u64::MAX), None, None, None, None, None]);
    }

    #[test]
    fn blanks_go_and_texts_stay() {
        assert_eq!(without_whitespace("{ \"a b\\\" c\" :\n [1, 2] }"), "{\"a b\\\" c\":[1,2]}");
        assert!(matches!(without_whitespace("{\"a b\":1}"), Cow::Borrowed(_)));
    }
}
