//! Pages that need no engine: health, model list, and the error for unknown paths.

use crate::reply::{ErrorResponse, Reply};
use crate::request::MODELS;
use http::{Method, StatusCode};
use serde_json::{Value, json};

/// Paths of edits, and whether they take chat completions.
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
            let message =
                format!("there is no {shown}; try {}, GET /v1/models, GET /metrics or GET /health", edits.join(", "));
            return ErrorResponse::not_found(message).into();
        }
    };
    if *method != Method::GET {
        return method_not_allowed(path, "GET");
    }
    Reply::json(StatusCode::OK, page().to_string().into_bytes())
}

/// The error for a wrong method.
pub(crate) fn method_not_allowed(path: &str, method: &'static str) -> Reply {
    let message = format!("{path} allows only {method}");
    Reply::error(StatusCode::METHOD_NOT_ALLOWED, &message).with("allow", method)
}

fn models() -> Value {
    let model = |name: &str| json!({"id": name, "object": "model", "created": 0, "owned_by": "tokrate"});
    json!({"object": "list", "data": MODELS.map(model)})
}
