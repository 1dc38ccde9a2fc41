//! The aliases of a client, as `/v1/models` lists them.
//!
//! Invariant: a client sees the aliases that its key may use, and no lane's key or address.

use crate::admission::credentials::Credentials;
use crate::ingress::route::ListForm;
use crate::respond::error::ErrorResponse;
use crate::state::plan::Plan;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use serde_json::{Value, json};

/// 2026-01-01. The lists require a creation time, and aliases have none.
const CREATED: u64 = 1_767_225_600;

/// All of them, in the form of the client's SDK.
pub(crate) fn models(plan: &Plan, credentials: &Credentials, headers: &HeaderMap, form: ListForm) -> Response<Bytes> {
    let names = plan.aliases.keys().filter(|name| credentials.allows_alias(name));
    let rows: Vec<Value> = names.map(|name| row(name, headers, form)).collect();
    let body = match is_anthropic(headers) {
        _ if form != ListForm::OpenAi => json!({ "models": rows }),
        true => {
            let end = |place: Option<&Value>| place.map_or(Value::Null, |row| row["id"].clone());
            json!({ "first_id": end(rows.first()), "last_id": end(rows.last()), "has_more": false, "data": rows })
        }
        false => json!({ "object": "list", "data": rows }),
    };
    json_response(&body)
}

/// One of them.
pub(crate) fn model(
    plan: &Plan,
    credentials: &Credentials,
    headers: &HeaderMap,
    name: &str,
    form: ListForm,
) -> Result<Response<Bytes>, ErrorResponse> {
    match plan.aliases.contains_key(name) && credentials.allows_alias(name) {
        true => Ok(json_response(&row(name, headers, form))),
        false => {
            let message = format!("the model `{name}` does not exist here; GET /v1/models lists those that do");
            Err(ErrorResponse::new(StatusCode::NOT_FOUND, message))
        }
    }
}

/// The version of this program, as Ollama says its own.
pub(crate) fn version() -> Response<Bytes> {
    json_response(&json!({ "version": env!("CARGO_PKG_VERSION") }))
}

fn row(name: &str, headers: &HeaderMap, form: ListForm) -> Value {
    match is_anthropic(headers) {
        _ if form == ListForm::Gemini => {
            let methods = ["generateContent", "streamGenerateContent", "countTokens", "embedContent"];
            json!({ "name": format!("models/{name}"), "displayName": name, "supportedGenerationMethods": methods })
        }
        _ if form == ListForm::Ollama => {
            // Sizes, families and digests are those of files, which aliases have none of.
            json!({ "name": name, "model": name, "modified_at": "2026-01-01T00:00:00Z", "size": 0, "digest": "", "details": {} })
        }
        true => json!({ "type": "model", "id": name, "display_name": name, "created_at": "2026-01-01T00:00:00Z" }),
        false => json!({ "id": name, "object": "model", "created": CREATED, "owned_by": "tokrate" }),
    }
}

/// Whether the client is Anthropic's SDK.
pub(crate) fn is_anthropic(headers: &HeaderMap) -> bool {
    headers.contains_key("anthropic-version")
}

fn json_response(body: &Value) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(body.to_string()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
