//! Pages that need no engine: health, the list of models, and what is said where there is no page.
//!
//! It refuses to know edits. Invariant: a page says the same to everyone.

use crate::ask::MODELS;
use crate::reply::{Denied, Reply};
use http::{Method, StatusCode};
use serde_json::{Value, json};

/// Where edits are sent, and how they are written there.
pub(crate) const EDITS: [(&str, bool); 3] =
    [("/v1/chat/completions", true), ("/v1/apply/chat/completions", true), ("/v1/code/apply", false)];

/// The page of a path.
pub(crate) fn page(method: &Method, path: &str) -> Reply {
    let page: fn() -> Value = match path {
        "/health" => || json!({"status": "ok"}),
        "/v1/models" => models,
        _ => {
            let edits: Vec<String> = EDITS.iter().map(|(path, _)| format!("POST {path}")).collect();
            let shown: String = path.chars().take(80).collect();
            let message = format!("there is no {shown}; try {}, GET /v1/models or GET /health", edits.join(", "));
            return Denied::not_found(message).into();
        }
    };
    if *method != Method::GET {
        return not_with_this_method(path, "GET");
    }
    Reply::json(StatusCode::OK, page().to_string().into_bytes())
}

/// What is said to another method than the one a path is asked with.
pub(crate) fn not_with_this_method(path: &str, method: &'static str) -> Reply {
    let message = format!("{path} is asked with {method}");
    Reply::error(StatusCode::METHOD_NOT_ALLOWED, &message).with("allow", method)
}

fn models() -> Value {
    let model = |name: &str| json!({"id": name, "object": "model", "created": 0, "owned_by": "tokrate"});
    json!({"object": "list", "data": MODELS.map(model)})
}
