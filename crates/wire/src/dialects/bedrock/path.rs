//! Bedrock's paths, which name the model and the method: `/model/MODEL/converse-stream`.
//!
//! Invariant: `parse` of what `path` writes gives the model and the shape again.

use crate::codec::{ModelPath, Shape};
use crate::model_path::{escaped, unescaped};

/// The path of a request.
pub(super) fn path(model: &str, shape: Shape) -> String {
    let method = if shape == Shape::Whole { "converse" } else { "converse-stream" };
    format!("/model/{}/{method}", escaped(model, b""))
}

/// Takes a path apart. The model may hold slashes, as identifiers of inference profiles do, but no method.
pub(super) fn parse(path: &str, _query: &str) -> Option<ModelPath> {
    let (before, method) = path.rsplit_once('/')?;
    let shape = match method {
        "converse" => Shape::Whole,
        "converse-stream" => Shape::Stream,
        _ => return None,
    };
    let base_bytes = before.find("/model/")?;
    let model = unescaped(&before[base_bytes + "/model/".len()..]);
    (!model.is_empty()).then_some(ModelPath { base_bytes, model, shape: Some(shape) })
}
