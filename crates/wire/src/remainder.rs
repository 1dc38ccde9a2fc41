//! Objects of a request of which some fields have a place in [`tokrate_core::ChatRequest`] and the rest has none.
//!
//! Invariant: what has no place stays the JSON it was, and survives reading and writing.

use crate::json_text::push_string;
use crate::object::Object;

/// The fields of an object whose names are not in `known`, as an object; `None` if there are none.
pub(crate) fn rest_of(object: &Object<'_>, known: &[&str]) -> Option<String> {
    let mut rest = Members::new();
    for (name, json) in object.fields().filter(|(name, _)| !known.contains(name)) {
        rest.json(name, json);
    }
    rest.end_unless_empty()
}

/// An array of these elements; `None` if there are none.
pub(crate) fn array_of(elements: &[&str]) -> Option<String> {
    (!elements.is_empty()).then(|| format!("[{}]", elements.join(",")))
}

/// An object under construction.
#[derive(Clone, Debug)]
pub(crate) struct Members {
    out: Vec<u8>,
}

impl Members {
    /// An object without fields.
    pub(crate) fn new() -> Members {
        Members { out: b"{".to_vec() }
    }

    /// Adds a field whose value is already JSON.
    pub(crate) fn json(&mut self, name: &str, json: &str) {
        self.field(name).extend_from_slice(json.as_bytes());
    }

    /// Adds a text.
    pub(crate) fn text(&mut self, name: &str, text: &str) {
        push_string(text, self.field(name));
    }

    /// Adds a list of texts.
    pub(crate) fn texts(&mut self, name: &str, texts: &[String]) {
        let out = self.field(name);
        for (index, text) in texts.iter().enumerate() {
            out.push(if index == 0 { b'[' } else { b',' });
            push_string(text, out);
        }
        out.extend_from_slice(if texts.is_empty() { b"[]" } else { b"]" });
    }

    /// Adds a number, unless it is not finite: JSON has no such number.
    pub(crate) fn number(&mut self, name: &str, number: Option<f64>) {
        if let Some(number) = number.and_then(serde_json::Number::from_f64) {
            self.json(name, &number.to_string());
        }
    }

    /// Begins a field; its value is to be appended to what is given back.
    pub(crate) fn field(&mut self, name: &str) -> &mut Vec<u8> {
        if self.out.len() > 1 {
            self.out.push(b',');
        }
        push_string(name, &mut self.out);
        self.out.push(b':');
        &mut self.out
    }

    /// The object with the fields of `rest` added, each in place of the one of its name that was added before. JSON that
    /// is no object takes the place of the whole.
    pub(crate) fn end_with(self, rest: &str) -> String {
        let Ok(Some(rest_object)) = Object::read(rest) else { return rest.to_owned() };
        let own = self.end();
        let mut merged = Members::new();
        if let Ok(Some(own)) = Object::read(&own) {
            for (name, json) in own.fields() {
                if !rest_object.fields().any(|(other, _)| other == name) {
                    merged.json(name, json);
                }
            }
        }
        for (name, json) in rest_object.fields() {
            merged.json(name, json);
        }
        merged.end()
    }

    /// True while no field was added.
    pub(crate) fn is_empty(&self) -> bool {
        self.out.len() == 1
    }

    /// The object.
    pub(crate) fn end(mut self) -> String {
        self.out.push(b'}');
        String::from_utf8(self.out).expect("it was put together from texts")
    }

    /// The object, if it has fields.
    pub(crate) fn end_unless_empty(self) -> Option<String> {
        (!self.is_empty()).then(|| self.end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_survives_and_wins() {
        let object = Object::read(r#"{"a":1,"b":[ 2 ],"c":null}"#).unwrap().unwrap();
        let rest = rest_of(&object, &["a"]).unwrap();
        assert_eq!(rest, r#"{"b":[ 2 ],"c":null}"#);
        assert_eq!(rest_of(&object, &["a", "b", "c"]), None);
        let mut own = Members::new();
        own.json("a", "1");
        own.texts("b", &[]);
        assert_eq!(own.clone().end_with(&rest), r#"{"a":1,"b":[ 2 ],"c":null}"#);
        assert_eq!(own.end_with("7"), "7");
    }

    #[test]
    fn an_empty_object_is_recognised() {
        assert_eq!(Members::new().end_unless_empty(), None);
        let mut one = Members::new();
        one.number("x", Some(f64::NAN));
        assert!(one.is_empty());
        one.number("x", Some(0.5));
        one.texts("y", &["a\"".to_owned(), String::new()]);
        assert_eq!(one.end(), r#"{"x":0.5,"y":["a\"",""]}"#);
    }
}
