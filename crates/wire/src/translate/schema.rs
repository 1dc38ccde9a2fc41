//! Google's schemas as JSON Schema.
//!
//! Invariant: names of properties and their order stay, and anything that is not understood stays as it is.

use crate::json_text::push_string;
use crate::object::{Object, read_array, read_text};

/// Google's names of types; JSON Schema writes them in lower case.
const TYPES: [&str; 7] = ["STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"];

/// Nesting beyond this is left alone.
const MAX_DEPTH: u32 = 64;

/// The schema with the names of types as JSON Schema has them.
pub(crate) fn in_json_schema(schema: &str) -> String {
    let mut out = Vec::with_capacity(schema.len());
    push_schema(schema, MAX_DEPTH, &mut out);
    String::from_utf8(out).expect("it was put together from texts")
}

fn push_schema(json: &str, depth: u32, out: &mut Vec<u8>) {
    let Some(object) = Object::read(json).ok().flatten().filter(|_| depth > 0) else {
        return out.extend_from_slice(json.as_bytes());
    };
    out.push(b'{');
    for (index, (name, json)) in object.fields().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        push_string(name, out);
        out.push(b':');
        match name {
            "type" => match read_text(json).ok().flatten().filter(|kind| TYPES.contains(&&**kind)) {
                Some(kind) => push_string(&kind.to_ascii_lowercase(), out),
                None => out.extend_from_slice(json.as_bytes()),
            },
            "items" | "additionalProperties" => push_schema(json, depth - 1, out),
            "properties" | "defs" => push_properties(json, depth - 1, out),
            "anyOf" | "prefixItems" => push_each(json, depth - 1, out),
            _ => out.extend_from_slice(json.as_bytes()),
        }
    }
    out.push(b'}');
}

/// The names here are the client's own.
fn push_properties(json: &str, depth: u32, out: &mut Vec<u8>) {
    let Some(object) = Object::read(json).ok().flatten() else { return out.extend_from_slice(json.as_bytes()) };
    out.push(b'{');
    for (index, (name, json)) in object.fields().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        push_string(name, out);
        out.push(b':');
        push_schema(json, depth, out);
    }
    out.push(b'}');
}

fn push_each(json: &str, depth: u32, out: &mut Vec<u8>) {
    let Some(elements) = read_array(json).ok().flatten() else { return out.extend_from_slice(json.as_bytes()) };
    out.push(b'[');
    for (index, json) in elements.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        push_schema(json, depth, out);
    }
    out.push(b']');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_written_small_and_properties_keep_their_names() {
        let schema = r#"{"type":"OBJECT","properties":{"type":{"type":"STRING","enum":["STRING"]},
            "b":{"type":"ARRAY","items":{"anyOf":[{"type":"INTEGER"},{"type":"null"}]}}},"nullable":true}"#;
        let expected = r#"{"type":"object","properties":{"type":{"type":"string","enum":["STRING"]},"b":{"type":"array","items":{"anyOf":[{"type":"integer"},{"type":"null"}]}}},"nullable":true}"#;
        assert_eq!(in_json_schema(schema), expected);
        assert_eq!(in_json_schema("7"), "7");
        let deep = format!("{}{{\"type\":\"STRING\"}}{}", "{\"items\":".repeat(5000), "}".repeat(5000));
        assert_eq!(in_json_schema(&deep), deep, "what is too deep stays");
    }
}
