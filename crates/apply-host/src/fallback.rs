//! A model that is asked when the engine refuses: an OpenAI-compatible endpoint and what is said to it.
//!
//! It refuses to judge the answer; the engine does. Invariant: what comes back is the text of one whole answer, or a sentence
//! that says why there is none.

use crate::error::ApplyHostError;
use crate::settled::{Edit, Settled, worth_asking};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use tokio::task::LocalSet;
use tokrate_apply::Options;
use tokrate_core::{ChatRequest, Message, Role, Span};
use tokrate_net::{Client, ClientConfig, Clock, Limits, Outgoing, Route, Secrets, Target};
use tokrate_wire::{Dialect, encode_request};

/// Where edits are sent, below the endpoint's base.
const PATH: &str = "/chat/completions";
/// More of an answer is not read.
const BODY_BYTES_MOST: u64 = 256 << 20;
/// Models whose names begin like this were trained on the tags and want nothing else.
const TRAINED: [&str; 4] = ["auto", "morph-", "relace-", "apply"];
const OPEN: &str = "<updated-code>";
const CLOSE: &str = "</updated-code>";
/// What other models are told.
const TASK: &str = "You merge an edit into a file. The file stands in <code>, the edit in <update>. The edit shows changed \
lines and some of their neighbours; comments with dots, such as `... existing code ...`, stand for lines of the file that stay \
as they are. Carry out the edit and nothing else: every other line, blank line, comment and indentation stays exactly as it is. \
Answer with the whole file between <updated-code> and </updated-code>, without a fence and without a word around it.";

/// Which model is asked, and how it is reached.
#[derive(Clone, Debug)]
pub struct FallbackConfig {
    /// The endpoint's base, such as `https://api.example.com/v1`.
    pub target: Target,
    /// The model's name there.
    pub model: String,
    /// Headers of every request; the key is one.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// How to connect.
    pub client: ClientConfig,
    /// Time for an answer.
    pub patience: Span,
}

/// A model that can be asked: its address is known.
#[derive(Clone, Debug)]
pub struct Fallback {
    config: FallbackConfig,
    route: Route,
    clock: Clock,
}

impl Fallback {
    /// Resolves the endpoint's name. Blocks; to be called outside a runtime.
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

    /// Asks over connections that are kept.
    pub(crate) async fn ask(&self, client: &Client, edit: &Edit) -> Result<String, String> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.extend(self.config.headers.iter().cloned());
        let outgoing = Outgoing {
            method: Method::POST,
            path: self.config.target.path_with(PATH),
            headers,
            body: Bytes::from(request(&self.config.model, edit)),
        };
        // A model that answers in one piece is silent until it has written everything.
        let patience = self.config.patience;
        let limits = Limits { idle: patience, total: patience, max_body_bytes: BODY_BYTES_MOST };
        let secrets = Secrets::of(&outgoing.headers);
        let answer = client.whole(outgoing, limits).await;
        let answer = answer.map_err(|failure| format!("{} gave no answer: {}", self.named(), failure.detail))?;
        // Some servers echo the key.
        text(answer.head.status, &answer.body).map_err(|why| format!("{} {}", self.named(), secrets.redacted(why)))
    }

    /// Asks over a connection of its own.
    fn ask_blocking(&self, edit: &Edit) -> Result<String, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| format!("no runtime could be started: {error}"))?;
        LocalSet::new().block_on(&runtime, async {
            let client = self.client().map_err(|error| format!("failed to {error}"))?;
            self.ask(&client, edit).await
        })
    }

    /// Lets the engine merge, and asks the model if it refuses and a model could help. Blocks; to be called outside a runtime.
    pub fn settle_blocking(&self, original: &[u8], update: &[u8], options: &Options) -> Settled {
        let refused = match Settled::by_engine(original, update, options) {
            Settled::Refused { refused, .. } if worth_asking(refused.code) => refused,
            settled => return settled,
        };
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| "the texts are not UTF-8".to_owned());
        let said = text(original).and_then(|original| {
            let edit = Edit { original, update: text(update)?, options: options.clone() };
            self.ask_blocking(&edit)
        });
        Settled::by_model(refused, said, original, update, options)
    }

    fn named(&self) -> String {
        format!("the model {} at {}", self.config.model, self.config.target)
    }
}

/// The text of an answer, out of its wrapping.
fn text(status: StatusCode, body: &[u8]) -> Result<String, String> {
    if status != StatusCode::OK {
        let shown: String = String::from_utf8_lossy(body).chars().take(200).collect();
        return Err(format!("answered with status {}: {shown}", status.as_u16()));
    }
    let body: serde_json::Value =
        serde_json::from_slice(body).map_err(|error| format!("answered with something else than JSON: {error}"))?;
    let choice = &body["choices"][0];
    if choice["finish_reason"] == "length" {
        return Err("ended its answer at a limit of tokens".to_owned());
    }
    match choice["message"]["content"].as_str() {
        Some(text) if !text.trim().is_empty() => Ok(unwrapped(text).to_owned()),
        _ => Err("answered without a text".to_owned()),
    }
}

/// The body of the request.
fn request(model: &str, edit: &Edit) -> Vec<u8> {
    let instruction = edit.options.instruction.as_deref();
    let instruction = instruction.map_or_else(String::new, |text| format!("<instruction>{text}</instruction>\n"));
    let content = format!("{instruction}<code>{}</code>\n<update>{}</update>", edit.original, edit.update);
    let mut messages = vec![Message::text(Role::User, content)];
    if !TRAINED.iter().any(|name| model.starts_with(name)) {
        messages.insert(0, Message::text(Role::System, TASK));
    }
    encode_request(
        Dialect::OpenAiChat,
        &ChatRequest { model: model.to_owned(), messages, temperature: Some(0.0), ..ChatRequest::default() },
    )
}

/// A text out of the tags, or else out of a fence, that it may stand in.
fn unwrapped(text: &str) -> &str {
    if let (Some(start), Some(end)) = (text.find(OPEN), text.rfind(CLOSE)) {
        let start = start + OPEN.len();
        if start <= end {
            // The line ends beside the tags belong to them.
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
            assert_eq!(unwrapped(answer), text, "{answer}");
        }
    }

    #[test]
    fn only_whole_answers_count() {
        let heard = |status, body: &str| text(StatusCode::from_u16(status).expect("a status"), body.as_bytes());
        let answer = r#"{"choices":[{"message":{"content":"a\n"},"finish_reason":"stop"}]}"#;
        assert_eq!(heard(200, answer), Ok("a\n".to_owned()));
        for (status, body) in [
            (500, "broken"),
            (200, "<html>"),
            (200, "{}"),
            (200, r#"{"choices":[{"message":{"content":" "},"finish_reason":"stop"}]}"#),
            (200, r#"{"choices":[{"message":{"content":"a"},"finish_reason":"length"}]}"#),
        ] {
            assert!(heard(status, body).is_err(), "{body}");
        }
    }

    #[test]
    fn models_that_know_the_tags_are_told_nothing_else() {
        let edit = Edit { original: "a\n".into(), update: "b\n".into(), ..Edit::default() };
        let body = |model| String::from_utf8(request(model, &edit)).expect("JSON");
        assert!(body("qwen").contains("updated-code") && !body("morph-v3-fast").contains("updated-code"));
        assert!(body("qwen").contains(r"<code>a\n</code>\n<update>b\n</update>"));
    }
}
