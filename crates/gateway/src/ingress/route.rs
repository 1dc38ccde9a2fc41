//! What a request's method and path ask for.
//!
//! It refuses to read bodies. Invariant: a path of a dialect is that of `wire`; everything else is named here.

use http::Method;
use tokrate_wire::{Dialect, Routed};

/// What is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Ask {
    /// An answer of a model, in a dialect.
    Answer(Routed),
    /// Embeddings, which only OpenAI's form of knows.
    Embeddings,
    /// The list of models.
    Models,
    /// One model of that list.
    Model(String),
    /// Whether the gateway is there.
    Health,
    /// A known path with another method.
    WrongMethod,
    /// Nothing that is known.
    Unknown,
}

impl Ask {
    /// Reads a method with a path and its query.
    pub fn of(method: &Method, path_and_query: &str) -> Ask {
        let path = path_and_query.split('?').next().unwrap_or_default().trim_end_matches('/');
        let ask = if path == "/v1/models" || path == "/models" {
            Ask::Models
        } else if let Some(routed) = Dialect::of_path(path_and_query) {
            Ask::Answer(routed)
        } else if let Some((_, name)) = path.split_once("/models/") {
            Ask::Model(name.to_owned())
        } else if path.ends_with("/embeddings") {
            Ask::Embeddings
        } else if path == "/healthz" {
            Ask::Health
        } else {
            return Ask::Unknown;
        };
        let reads = matches!(ask, Ask::Models | Ask::Model(_) | Ask::Health);
        let fits = if reads { *method == Method::GET || *method == Method::HEAD } else { *method == Method::POST };
        if fits { ask } else { Ask::WrongMethod }
    }

    /// The dialect in which to answer, also with an error.
    pub fn dialect(&self) -> Dialect {
        match self {
            Ask::Answer(routed) => routed.dialect,
            _ => Dialect::OpenAiChat,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_says_what_is_asked_for() {
        let get = |path: &str| Ask::of(&Method::GET, path);
        let post = |path: &str| Ask::of(&Method::POST, path);
        assert_eq!(post("/v1/chat/completions"), Ask::Answer(Dialect::OpenAiChat.into()));
        assert_eq!(post("/v1/messages?beta=true"), Ask::Answer(Dialect::Anthropic.into()));
        assert!(
            matches!(post("/v1beta/models/fast:generateContent"), Ask::Answer(routed) if routed.model.as_deref() == Some("fast"))
        );
        assert_eq!(post("/v1/embeddings"), Ask::Embeddings);
        assert_eq!(get("/v1/models"), Ask::Models);
        assert_eq!(get("/v1/models/openai/gpt-5"), Ask::Model("openai/gpt-5".to_owned()));
        assert_eq!(get("/healthz"), Ask::Health);
        assert_eq!(get("/v1/chat/completions"), Ask::WrongMethod);
        assert_eq!(post("/v1/models"), Ask::WrongMethod);
        for nothing in ["/", "/v1", "/v1/files", "/metrics", "//"] {
            assert_eq!(post(nothing), Ask::Unknown, "{nothing}");
        }
    }
}
