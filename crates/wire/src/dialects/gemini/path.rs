//! Gemini's paths, which name the model and the method: `/models/MODEL:streamGenerateContent?alt=sse`.
//!
//! Invariant: `parse` of what `path` writes gives the model and the shape again.

use crate::codec::{ModelPath, Shape};

/// Path and query of a request.
pub(super) fn path(model: &str, shape: Shape) -> String {
    let method = match shape {
        Shape::Stream => "streamGenerateContent?alt=sse",
        Shape::Array => "streamGenerateContent",
        Shape::Whole => "generateContent",
    };
    format!("/models/{}:{method}", escaped(model))
}

/// Takes a path apart.
pub(super) fn parse(path: &str, query: &str) -> Option<ModelPath> {
    let (before, method) = path.rsplit_once(':')?;
    let (base, model) = before.rsplit_once("/models/")?;
    let shape = match method {
        "generateContent" => Some(Shape::Whole),
        "streamGenerateContent" if query.split('&').any(|pair| pair == "alt=sse") => Some(Shape::Stream),
        "streamGenerateContent" => Some(Shape::Array),
        _ => None,
    };
    Some(ModelPath { base_bytes: base.len(), model: unescaped(model), shape })
}

/// A model's name as a segment of a path: what could be taken for something else is percent-encoded.
fn escaped(model: &str) -> String {
    let mut path = String::with_capacity(model.len());
    for &byte in model.as_bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' => path.push(char::from(byte)),
            _ => path.push_str(&format!("%{byte:02X}")),
        }
    }
    path
}

fn unescaped(segment: &str) -> String {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.as_bytes();
    while let [first, behind @ ..] = rest {
        let code = segment_code(rest);
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &rest[3..] } else { behind };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The byte that a percent-encoding at the beginning stands for.
fn segment_code(bytes: &[u8]) -> Option<u8> {
    let digits = bytes.strip_prefix(b"%")?.get(..2)?;
    let digits =
        std::str::from_utf8(digits).ok().filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    u8::from_str_radix(digits, 16).ok()
}
