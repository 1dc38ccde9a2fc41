//! Tells a 404 for a missing model from other 404s.
//!
//! Model and path come from the gateway's settings, so a missing model is never the client's fault.

use http::StatusCode;
use tokrate_core::FailureKind;

/// How providers word a missing model.
const PHRASES: [&str; 7] = [
    "model_not_found",
    "not found",
    "not_found",
    "does not exist",
    "doesn't exist",
    "unknown model",
    "not a valid model",
];

/// What a `NotFound` really is, judged by status, body and model; any other kind is returned unchanged.
pub(crate) fn classify_not_found(kind: FailureKind, status: StatusCode, body: &[u8], model: &str) -> FailureKind {
    if kind != FailureKind::NotFound {
        return kind;
    }
    let body_text = String::from_utf8_lossy(body).to_lowercase();
    let names_model = body_text.contains("model_not_found") || contains_word(&body_text, &model.to_lowercase());
    if body_text.contains("model") && names_model && PHRASES.iter().any(|phrase| body_text.contains(phrase)) {
        FailureKind::ModelNotFound
    } else if status == StatusCode::NOT_FOUND {
        FailureKind::NotFound
    } else {
        // A missing object of the client's own request, such as a previous response.
        FailureKind::BadRequest
    }
}

/// Whether a text contains a name as a whole word.
fn contains_word(text: &str, name: &str) -> bool {
    let is_part = |character: char| character.is_alphanumeric();
    !name.is_empty()
        && text
            .match_indices(name)
            .any(|(at, _)| !text[..at].ends_with(is_part) && !text[at + name.len()..].starts_with(is_part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_model_is_told_apart_from_other_404s() {
        let of = |status: u16, body: &str| {
            let status = StatusCode::from_u16(status).expect("a status");
            classify_not_found(FailureKind::NotFound, status, body.as_bytes(), "gpt-x")
        };
        for body in [
            // OpenAI, Anthropic, Gemini, Ollama, vLLM.
            r#"{"error":{"message":"The model `gpt-x` does not exist or you do not have access to it.","type":"invalid_request_error","code":"model_not_found"}}"#,
            r#"{"type":"error","error":{"type":"not_found_error","message":"model: gpt-x"}}"#,
            r#"{"error":{"code":404,"message":"models/gpt-x is not found for API version v1beta","status":"NOT_FOUND"}}"#,
            r#"{"error":"model \"gpt-x\" not found, try pulling it first"}"#,
            r#"{"object":"error","message":"The model `gpt-x` does not exist.","type":"NotFoundError","code":404}"#,
        ] {
            assert_eq!(of(404, body), FailureKind::ModelNotFound, "{body}");
            assert_eq!(of(400, body), FailureKind::ModelNotFound, "{body}");
        }
        for body in [
            "",
            "<html>404 Not Found</html>",
            r#"{"type":"error","error":{"type":"not_found_error","message":"File not found: file_1"}}"#,
            r#"{"error":{"message":"Previous response with id 'resp_1' not found.","code":"previous_response_not_found"}}"#,
            r#"{"error":{"message":"the file of model gpt-x-large is not found"}}"#.replace("gpt-x-large", "gpt-xl").as_str(),
        ] {
            assert_eq!(of(404, body), FailureKind::NotFound, "{body}");
            assert_eq!(of(400, body), FailureKind::BadRequest, "{body}");
        }
        let other =
            classify_not_found(FailureKind::RateLimited, StatusCode::NOT_FOUND, b"model gpt-x not found", "gpt-x");
        assert_eq!(other, FailureKind::RateLimited);
    }
}
