//! Building blocks of request bodies: fields to be written, and fields to be read with an error that names them.
//!
//! Invariant: what is not set is not written, and a field that came in [`ChatRequest::extra`] replaces the one of its name.

use crate::error::WireError;
use crate::json_text::push_string;
use crate::object::{Object, read_array, read_text};
use tokrate_core::ChatRequest;

/// The body of a request under construction.
pub(crate) struct Body<'r> {
    out: Vec<u8>,
    extra: &'r [(String, String)],
}

impl<'r> Body<'r> {
    /// A body without fields, with room for the request's texts.
    pub(crate) fn new(request: &'r ChatRequest) -> Body<'r> {
        let texts: usize =
            request.messages.iter().flat_map(|message| message.texts()).map(|text| text.len() + 40).sum();
        let mut out = Vec::with_capacity(texts + 256);
        out.push(b'{');
        Body { out, extra: &request.extra }
    }

    /// Begins a field, unless an extra field takes its place.
    pub(crate) fn field(&mut self, name: &str) -> Option<&mut Vec<u8>> {
        if self.extra.iter().any(|(extra, _)| extra == name) {
            return None;
        }
        begin_field(name, &mut self.out);
        Some(&mut self.out)
    }

    /// Adds a field whose value is already JSON.
    pub(crate) fn plain(&mut self, name: &str, json: &str) {
        if let Some(out) = self.field(name) {
            out.extend_from_slice(json.as_bytes());
        }
    }

    /// Adds a text.
    pub(crate) fn text(&mut self, name: &str, text: &str) {
        if let Some(out) = self.field(name) {
            push_string(text, out);
        }
    }

    /// Adds a number, if it is set and finite: JSON has no other.
    pub(crate) fn number(&mut self, name: &str, number: Option<f64>) {
        if let Some(number) = number.and_then(serde_json::Number::from_f64) {
            self.plain(name, &number.to_string());
        }
    }

    /// Adds a list, unless it is empty.
    pub(crate) fn list<T>(&mut self, name: &str, list: &[T], push: impl Fn(&T, &mut Vec<u8>)) {
        if !list.is_empty()
            && let Some(out) = self.field(name)
        {
            push_list(list, out, push);
        }
    }

    /// The body with the extra fields.
    pub(crate) fn end(self) -> Vec<u8> {
        let Body { mut out, extra } = self;
        for (name, json) in extra {
            begin_field(name, &mut out);
            out.extend_from_slice(json.as_bytes());
        }
        out.push(b'}');
        out
    }
}

fn begin_field(name: &str, out: &mut Vec<u8>) {
    if out.len() > 1 {
        out.push(b',');
    }
    push_string(name, out);
    out.push(b':');
}

/// Writes an array.
pub(crate) fn push_list<T>(list: &[T], out: &mut Vec<u8>, push: impl Fn(&T, &mut Vec<u8>)) {
    out.push(b'[');
    for (index, element) in list.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        push(element, out);
    }
    out.push(b']');
}

/// The object that a body must be.
pub(crate) fn read_body(body: &[u8]) -> Result<Object<'_>, WireError> {
    let text = std::str::from_utf8(body).map_err(|error| WireError::NotJson(error.to_string()))?;
    Object::read(text)?.ok_or(WireError::NotAnObject)
}

/// A text that every request needs.
pub(crate) fn read_required_text(object: &Object<'_>, field: &'static str) -> Result<String, WireError> {
    let json = object.get(field).ok_or(WireError::Missing(field))?;
    Ok(read_text(json)?.ok_or(WireError::Invalid { field, expected: "a string" })?.into_owned())
}

/// A number of tokens.
pub(crate) fn read_limit(field: &'static str, json: &str) -> Result<u32, WireError> {
    json.parse().map_err(|_| WireError::Invalid { field, expected: "a whole number from 0 to 4294967295" })
}

/// True or false.
pub(crate) fn read_flag(field: &'static str, json: &str) -> Result<bool, WireError> {
    json.parse().map_err(|_| WireError::Invalid { field, expected: "true or false" })
}

/// A number. The standard library reads it to the nearest float, which serde_json does not by default.
pub(crate) fn read_number(field: &'static str, json: &str) -> Result<f64, WireError> {
    let number = json.parse().ok().filter(|number: &f64| number.is_finite());
    number.ok_or(WireError::Invalid { field, expected: "a number" })
}

/// A list of texts.
pub(crate) fn read_strings(field: &'static str, json: &str) -> Result<Vec<String>, WireError> {
    let invalid = || WireError::Invalid { field, expected: "an array of strings" };
    let elements = read_array(json)?.ok_or_else(invalid)?;
    elements.into_iter().map(|json| Ok(read_text(json)?.ok_or_else(invalid)?.into_owned())).collect()
}

/// One text, or a list of them.
pub(crate) fn read_string_or_strings(field: &'static str, json: &str) -> Result<Vec<String>, WireError> {
    match read_text(json)? {
        Some(text) => Ok(vec![text.into_owned()]),
        None => read_strings(field, json),
    }
}

/// Keeps a field that has no place of its own.
pub(crate) fn keep(extra: &mut Vec<(String, String)>, name: &str, json: &str) {
    extra.retain(|(earlier, _)| earlier != name);
    extra.push((name.to_owned(), json.to_owned()));
}
