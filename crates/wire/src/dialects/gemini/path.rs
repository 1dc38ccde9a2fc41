//! Gemini's paths, which name the model and the method: `/models/MODEL:streamGenerateContent?alt=sse`.
//!
//! Invariant: `parse` of what `path` writes gives the model and the shape again.

use crate::codec::{ModelPath, Shape};
use crate::model_path::{escaped, unescaped};

/// Path and query of a request.
pub(super) fn path(model: &str, shape: Shape) -> String {
    let method = match shape {
        Shape::Stream => "streamGenerateContent?alt=sse",
        Shape::Array => "streamGenerateContent",
        Shape::Whole => "generateContent",
    };
    format!("/models/{}:{method}", escaped(model, b"/"))
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
