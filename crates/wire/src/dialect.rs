//! What anybody may ask of a dialect: its name, its paths, its framing and its features.
//!
//! Every answer comes from the dialect's descriptor. Invariant: `from_name(d.name())` is `d`, and `of_path` of any path that
//! `path` gives is the dialect, model and shape that it was given for.

use crate::codec::{Codec, Endpoint, Framing, KeyHeader, ModelPath, Operation, ServerTimesField, Shape, UsageInStream};
use crate::peek::Lengths;

pub use crate::dialects::Dialect;

/// What follows from the path of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Routed {
    /// Its dialect.
    pub dialect: Dialect,
    /// The model, in dialects that name it in the path.
    pub model: Option<String>,
    /// How the answer is asked for, in dialects whose paths show it.
    pub shape: Option<Shape>,
}

impl From<Dialect> for Routed {
    /// A path that shows the dialect only.
    fn from(dialect: Dialect) -> Routed {
        Routed { dialect, model: None, shape: None }
    }
}

impl Dialect {
    /// The name used in flags and records.
    pub const fn name(self) -> &'static str {
        self.descriptor().name
    }

    /// The dialect of that name.
    pub fn from_name(name: &str) -> Option<Dialect> {
        Dialect::ALL.into_iter().find(|dialect| dialect.name() == name)
    }

    /// Path and query of the endpoint, to be appended to the base URL: `https://api.openai.com/v1`,
    /// `https://api.anthropic.com/v1`, `https://generativelanguage.googleapis.com/v1beta`, `http://127.0.0.1:11434`
    /// (Ollama), `http://127.0.0.1:8080` (llama.cpp).
    pub fn path(self, model: &str, shape: Shape) -> String {
        match self.descriptor().endpoint {
            Endpoint::Fixed(path) => path.to_owned(),
            Endpoint::PerModel { path, .. } => path(model, shape),
        }
    }

    /// What follows from the path and query of a request; `None` for a path of no dialect. A
    /// prefix such as `/v1` may stand before it.
    pub fn of_path(path_and_query: &str) -> Option<Routed> {
        split(path_and_query).map(|(_, routed)| routed)
    }

    /// A path that ends in one of a dialect: what stands before that (the path of a base URL), and what follows from it.
    pub fn part(path: &str) -> Option<(&str, Routed)> {
        let (base_bytes, routed) = split(path)?;
        Some((&path[..base_bytes], routed))
    }

    /// The path of the usual base URL, such as `/v1`; may be empty.
    pub fn base_path(self) -> &'static str {
        self.descriptor().base_path
    }

    /// The header in which its makers expect an API key.
    pub fn key_header(self) -> KeyHeader {
        self.descriptor().key_header
    }

    /// A header that its makers demand with every request: name and value.
    pub fn required_header(self) -> Option<(&'static str, &'static str)> {
        self.descriptor().required_header
    }

    /// How a streamed answer is framed; `None` for one in a single body.
    pub fn framing(self, shape: Shape) -> Option<Framing> {
        match shape {
            Shape::Whole => None,
            Shape::Array if self.descriptor().array_streams => Some(Framing::Array),
            Shape::Stream | Shape::Array => Some(self.descriptor().framing),
        }
    }

    /// The media type of an answer.
    pub fn content_type(self, shape: Shape) -> &'static str {
        match self.framing(shape) {
            None | Some(Framing::Array) => "application/json",
            Some(Framing::Lines) => "application/x-ndjson",
            Some(Framing::Sse) => "text/event-stream",
            Some(Framing::EventStream) => "application/vnd.amazon.eventstream",
        }
    }

    /// What kind of generation its requests ask for.
    pub fn operation(self) -> Operation {
        self.descriptor().operation
    }

    /// Whether its messages have a place for pictures.
    pub fn has_images(self) -> bool {
        self.descriptor().request.images
    }

    /// Whether servers that speak it usually have OpenAI's `/embeddings` beside it.
    pub fn has_embeddings(self) -> bool {
        self.descriptor().embeddings
    }

    /// What the identifiers of its answers begin with; may be empty.
    pub fn id_prefix(self) -> &'static str {
        self.descriptor().id_prefix
    }

    /// Where the message stands in the body of an error, as a JSON pointer.
    pub fn error_message_pointer(self) -> &'static str {
        self.descriptor().error_message
    }

    /// What an error event in a stream of this shape begins with.
    pub fn error_event_start(self, shape: Shape) -> &'static str {
        match self.framing(shape) {
            Some(Framing::Array) => "{\"error\"",
            _ => self.descriptor().error_event_start,
        }
    }

    /// What its makers' own headers with rate limits begin with, beside OpenAI's `x-ratelimit-`.
    pub fn rate_limit_prefix(self) -> Option<&'static str> {
        self.descriptor().rate_limit_prefix
    }

    /// Whether an answer is streamed when the request has no `stream`.
    pub fn streams_by_default(self) -> bool {
        self.descriptor().request.streams_by_default
    }

    /// Whether a request must have a limit of output tokens.
    pub fn requires_max_tokens(self) -> bool {
        self.descriptor().request.requires_max_tokens
    }

    /// Whether some servers know the older `max_tokens` only in place of the name that the dialect has today.
    pub fn has_legacy_max_tokens(self) -> bool {
        self.descriptor().request.legacy_max_tokens
    }

    /// When a streamed answer carries token counts.
    pub fn usage_in_stream(self) -> UsageInStream {
        self.descriptor().response.usage
    }

    /// Whether answers carry the server's own times.
    pub fn server_times(self) -> ServerTimesField {
        self.descriptor().response.server_times
    }

    pub(crate) fn codec(self) -> &'static Codec {
        &self.descriptor().codec
    }

    /// The path of every request; `None` for a dialect whose paths name the model.
    fn fixed_path(self) -> Option<&'static str> {
        match self.descriptor().endpoint {
            Endpoint::Fixed(path) => Some(path),
            Endpoint::PerModel { .. } => None,
        }
    }

    fn model_path(self, path: &str, query: &str) -> Option<ModelPath> {
        match self.descriptor().endpoint {
            Endpoint::Fixed(_) => None,
            Endpoint::PerModel { parse, .. } => parse(path, query),
        }
    }
}

impl Lengths {
    /// Tokens that one answer may have, as the provider of this dialect reads it; `None` without a limit.
    pub fn output_limit(&self, dialect: Dialect) -> Option<u64> {
        (dialect.codec().output_limit)(self)
    }

    /// Answers that are written and billed: for each prompt as many as the largest of the fields.
    pub fn answers(&self, dialect: Dialect) -> u64 {
        let prompts = if dialect.descriptor().request.prompt_list { self.prompts.max(1) } else { 1 };
        self.answers_per_prompt().saturating_mul(prompts)
    }
}

/// How many bytes of a path stand before the part of a dialect, and what follows from it.
fn split(path_and_query: &str) -> Option<(usize, Routed)> {
    let (path, query) = path_and_query.split_once('?').unwrap_or((path_and_query, ""));
    let path = path.trim_end_matches('/');
    let named = Dialect::ALL.into_iter().find_map(|dialect| Some((dialect, dialect.model_path(path, query)?)));
    if let Some((dialect, ModelPath { base_bytes, model, shape })) = named {
        return shape.map(|shape| (base_bytes, Routed { dialect, model: Some(model), shape: Some(shape) }));
    }
    // The longest path that fits: `/chat/completions` ends in `/completions` too.
    let fits = Dialect::ALL.into_iter().filter_map(|dialect| {
        let base = path.strip_suffix(dialect.fixed_path()?)?;
        Some((base.len(), dialect))
    });
    let (base_bytes, dialect) = fits.min_by_key(|(base_bytes, _)| *base_bytes)?;
    Some((base_bytes, Routed::from(dialect)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{encode_error_response, error_event};
    use serde_json::Value;
    use tokrate_core::FailureKind;

    #[test]
    fn every_dialect_is_found_by_its_name_and_its_paths() {
        for dialect in Dialect::ALL {
            assert_eq!(Dialect::from_name(dialect.name()), Some(dialect));
            for shape in [Shape::Stream, Shape::Whole, Shape::Array] {
                let model = "vendor/a model:8b?%é";
                let path = dialect.path(model, shape);
                let routed = Dialect::of_path(&format!("/some/v1{path}")).expect("a path of ours");
                assert_eq!(routed.dialect, dialect, "{path}");
                if dialect == Dialect::Gemini {
                    assert_eq!((routed.model.as_deref(), routed.shape), (Some(model), Some(shape)));
                }
            }
        }
        assert_eq!(Dialect::from_name("OpenAI"), None);
        for nothing in ["/v1/models", "/v1/models/x:countTokens", "/completions2", "", "/"] {
            assert_eq!(Dialect::of_path(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn descriptors_agree_with_what_is_written() {
        for dialect in Dialect::ALL {
            let body: Value = serde_json::from_slice(&encode_error_response(dialect, 429, "slow down")).expect("JSON");
            let message = body.pointer(dialect.error_message_pointer()).and_then(Value::as_str);
            assert_eq!(message, Some("slow down"), "{dialect:?}: {body}");
            for shape in [Shape::Stream, Shape::Array] {
                let event = error_event(dialect, shape, FailureKind::RateLimited, "slow down", b"");
                let event = String::from_utf8_lossy(&event);
                let event = event.trim_start_matches(['[', ',', '\n']);
                assert!(event.starts_with(dialect.error_event_start(shape)), "{dialect:?}: {event}");
            }
            assert!(Dialect::ALL.iter().filter(|other| other.name() == dialect.name()).count() == 1);
        }
    }
}
