//! Asks a model at an OpenAI-compatible endpoint when the engine refuses an edit. The engine checks the answer.
//!
//! Invariant: the result is the text of one complete answer, or a sentence that says why there is none.

use crate::error::ApplyHostError;
use crate::merge_result::{Edit, MergeResult, model_may_help};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use tokio::task::LocalSet;
use tokrate_apply::Options;
use tokrate_core::{ChatRequest, Message, Role, Span};
use tokrate_net::{Client, ClientConfig, Clock, Limits, Outgoing, Route, Secrets, Target};
use tokrate_wire::{Dialect, encode_request};

/// Path below the endpoint's base URL.
const PATH: &str = "/chat/completions";
/// Largest response body.
const MAX_BODY_BYTES: u64 = 256 << 20;
/// Name prefixes of models that were trained on the tags and need no system prompt.
pub(crate) const TAG_TRAINED_MODELS: [&str; 4] = ["auto", "morph-", "relace-", "apply"];
const OPEN: &str = "<updated-code>";
const CLOSE: &str = "</updated-code>";
/// System prompt for other models.
const TASK: &str = "You merge an edit into a file. The file stands in <code>, the edit in <update>. The edit shows changed \
lines and some of their neighbours; comments with dots, such as `... existing code ...`, stand for lines of the file that stay \
as they are. Carry out the edit and nothing else: every other line, blank line, comment and indentation stays exactly as it is. \
Answer with the whole file between <updated-code> and </updated-code>, without a fence and without a word around it.";

/// Settings of the fallback model.
#[derive(Clone, Debug)]
pub struct FallbackConfig {
    /// The endpoint's base, such as `https://api.example.com/v1`.
    pub target: Target,
    /// The model's name there.
    pub model: String,
    /// Headers of every request, including the key.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// How to connect.
    pub client: ClientConfig,
    /// Timeout of a request.
    pub timeout: Span,
}

/// A fallback model with its resolved address.
#[derive(Clone, Debug)]
pub struct Fallback {
    config: FallbackConfig,
    route: Route,
    clock: Clock,
}

impl Fallback {
    /// Resolves the endpoint's name. Blocks; call it outside a runtime.
    ///
    /// # Errors
    /// When the name has no address, or TLS cannot be set up.
    pub fn resolve(config: FallbackConfig) -> Result<Fallback, ApplyHostError> {
        let clock = Clock::monotonic();
        let route = Route::resolve_blocking(&config.target, &config.client, clock)?;
        Ok(Fallback { config, route, clock })
    }

    /// A client for this endpoint, for one runtime.
    pub(crate) fn client(&self) -> Result<Client, ApplyHostError> {
        Ok(Client::new(self.config.client.clone(), self.route.clone(), self.clock)?)
    }

    /// Asks the model, with pooled connections.
    pub(crate) async fn request_merge(&self, client: &Client, edit: &Edit) -> Result<String, String> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.extend(self.config.headers.iter().cloned());
        let outgoing = Outgoing {
            method: Method::POST,
            path: self.config.target.path_with(PATH),
            headers,
            body: Bytes::from(request(&self.config.model, edit)),
        };
        // An unstreamed answer arrives only after it is complete, so that both timeouts are the same.
        let timeout = self.config.timeout;
        let limits = Limits { idle: timeout, total: timeout, max_body_bytes: MAX_BODY_BYTES };
        let secrets = Secrets::of(&outgoing.headers);
        let answer = client.whole(outgoing, limits).await;
        let answer = answer.map_err(|failure| format!("{} gave no answer: {}", self.describe(), failure.detail))?;
        // Some servers echo the key.
        text(answer.head.status, &answer.body)
            .map_err(|reason| format!("{} {}", self.describe(), secrets.redacted(reason)))
    }

    /// Asks the model on a new connection.
    fn request_merge_blocking(&self, edit: &Edit) -> Result<String, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| format!("no runtime could be started: {error}"))?;
        LocalSet::new().block_on(&runtime, async {
            let client = self.client().map_err(|error| format!("failed to {error}"))?;
            self.request_merge(&client, edit).await
        })
    }

    /// Merges with the engine, and asks the model if the engine refuses and a model may help. Blocks; call it outside a runtime.
    pub fn settle_blocking(&self, original: &[u8], update: &[u8], options: &Options) -> MergeResult {
        let refused = match MergeResult::by_engine(original, update, options) {
            MergeResult::Refused { refused, .. } if model_may_help(refused.code) => refused,
            settled => return settled,
        };
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| "the texts are not UTF-8".to_owned());
        let model_answer = text(original).and_then(|original| {
            let edit = Edit { original, update: text(update)?, options: options.clone() };
            self.request_merge_blocking(&edit)
        });
        MergeResult::by_model(refused, model_answer, original, update, options)
    }

    fn describe(&self) -> String {
        format!("the model {} at {}", self.config.model, self.config.target)
    }
}

/// The text of an answer, without tags or fence.
fn text(status: StatusCode, body: &[u8]) -> Result<String, String> {
    if status != StatusCode::OK {
        let shown: String = String::from_utf8_lossy(body).chars().take(200).collect();
        return Err(format!("answered with status {}: {shown}", status.as_u16()));
    }
    let body: serde_json::Value =
        serde_json::from_slice(body).map_err(|error| format!("answered with invalid JSON: {error}"))?;
    let choice = &body["choices"][0];
    if choice["finish_reason"] == "length" {
        return Err("stopped at a token limit".to_owned());
    }
    match choice["message"]["content"].as_str() {
        Some(text) if !text.trim().is_empty() => Ok(unwrap_text(text).to_owned()),
        _ => Err("answered without a text".to_owned()),
    }
}

/// The body of the request.
fn request(model: &str, edit: &Edit) -> Vec<u8> {
    let instruction = edit.options.instruction.as_deref();
    let instruction = instruction.map_or_else(String::new, |text| format!("<instruction>{text}</instruction>\n"));
    let content = format!("{instruction}<code>{}</code>\n<update>{}</update>", edit.original, edit.update);
    let mut messages = vec![Message::text(Role::User, content)];
    if !TAG_TRAINED_MODELS.iter().any(|name| model.starts_with(name)) {
        messages.insert(0, Message::text(Role::System, TASK));
    }
    encode_request(
        Dialect::OpenAiChat,
        &ChatRequest { model: model.to_owned(), messages, temperature: Some(0.0), ..ChatRequest::default() },
    )
}

/// Removes tags, or else a code fence, around a text.
pub(crate) fn unwrap_text(text: &str) -> &str {
    if let (Some(start), Some(end)) = (text.find(OPEN), text.rfind(CLOSE)) {
        let start = start + OPEN.len();
        if start <= end {
            // The line breaks next to the tags belong to them.
            let inside = &text[start..end];
            return inside.strip_prefix("\r\n").or_else(|| inside.strip_prefix('\n')).unwrap_or(inside);
        }
    }
    let fenced = || -> Option<&str> {
        let inside = text.trim().strip_prefix("```")?.strip_suffix("```")?;
        let (language, code) = inside.split_once('\n')?;
        (!language.contains('`')).then_some(code)
    };
    fenced().unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_out_of_their_wrapping() {
        for (answer, text) in [
            ("a\nb\n", "a\nb\n"),
            ("<updated-code>a\n</updated-code>", "a\n"),
            ("Here it is:\n<updated-code>\na\n</updated-code>\nDone.", "a\n"),
            ("```rust\na\n```", "a\n"),
            ("```\na\n```\n", "a\n"),
            ("</updated-code><updated-code>", "</updated-code><updated-code>"),
            ("x ``` y", "x ``` y"),
        ] {
            assert_eq!(unwrap_text(answer), text, "{answer}");
        }
    }

    #[test]
    fn only_whole_answers_count() {
        let parsed = |status, body: &str| text(StatusCode::from_u16(status).expect("a status"), body.as_bytes());
        let answer = r#"{"choices":[{"message":{"content":"a\n"},"finish_reason":"stop"}]}"#;
        assert_eq!(parsed(200, answer), Ok("a\n".to_owned()));
        for (status, body) in [
            (500, "broken"),
            (200, "<html>"),
            (200, "{}"),
            (200, r#"{"choices":[{"message":{"content":" "},"finish_reason":"stop"}]}"#),
            (200, r#"{"choices":[{"message":{"content":"a"},"finish_reason":"length"}]}"#),
        ] {
            assert!(parsed(status, body).is_err(), "{body}");
        }
    }

    #[test]
    fn models_trained_on_the_tags_get_no_instructions() {
        let edit = Edit { original: "a\n".into(), update: "b\n".into(), ..Edit::default() };
        let body = |model| String::from_utf8(request(model, &edit)).expect("JSON");
        assert!(body("qwen").contains("updated-code") && !body("morph-v3-fast").contains("updated-code"));
        assert!(body("qwen").contains(r"<code>a\n</code>\n<update>b\n</update>"));
    }
}
