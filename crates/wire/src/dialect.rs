//! The names of the dialects, their paths, and what a request may ask for.
//!
//! It refuses to know how a dialect spells a request or an answer. Invariant: `from_name(d.name())` is `d`, and `of_path` of
//! any path that `path` gives is the dialect, model and shape that it was given for.

/// A family of request and answer formats.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Dialect {
    /// OpenAI's chat completions, which nearly every engine and provider also speaks.
    OpenAiChat,
    /// OpenAI's older text completions.
    OpenAiCompletions,
    /// OpenAI's responses.
    OpenAiResponses,
    /// Anthropic's messages.
    Anthropic,
    /// Google's generateContent and streamGenerateContent.
    Gemini,
    /// Ollama's chat.
    OllamaChat,
    /// Ollama's text completion.
    OllamaGenerate,
    /// The native completion of llama.cpp's server.
    LlamaCompletion,
}

/// How the answer was asked for. What the server sends instead is recognised by the first byte of its body.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Shape {
    /// Piece by piece, as server-sent events or lines.
    Stream,
    /// In one JSON body.
    Whole,
    /// Piece by piece, as the elements of one JSON array: Gemini's stream without `alt=sse`. As [`Shape::Stream`] elsewhere.
    Array,
}

/// What a path says about the request that is sent to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Routed {
    /// Its dialect.
    pub dialect: Dialect,
    /// The model, in dialects that name it in the path.
    pub model: Option<String>,
    /// How the answer is asked for, in dialects that say it in the path.
    pub shape: Option<Shape>,
}

impl From<Dialect> for Routed {
    /// What is known where the path says nothing more.
    fn from(dialect: Dialect) -> Routed {
        Routed { dialect, model: None, shape: None }
    }
}

impl Dialect {
    /// Every dialect.
    pub const ALL: [Dialect; 8] = [
        Dialect::OpenAiChat,
        Dialect::OpenAiCompletions,
        Dialect::OpenAiResponses,
        Dialect::Anthropic,
        Dialect::Gemini,
        Dialect::OllamaChat,
        Dialect::OllamaGenerate,
        Dialect::LlamaCompletion,
    ];

    /// The name used in flags and records.
    pub const fn name(self) -> &'static str {
        match self {
            Dialect::OpenAiChat => "openai-chat",
            Dialect::OpenAiCompletions => "openai-completions",
            Dialect::OpenAiResponses => "openai-responses",
            Dialect::Anthropic => "anthropic",
            Dialect::Gemini => "gemini",
            Dialect::OllamaChat => "ollama-chat",
            Dialect::OllamaGenerate => "ollama-generate",
            Dialect::LlamaCompletion => "llama-completion",
        }
    }

    /// The dialect of that name.
    pub fn from_name(name: &str) -> Option<Dialect> {
        Dialect::ALL.into_iter().find(|dialect| dialect.name() == name)
    }

    /// Path and query of the endpoint, to be appended to the base URL: `https://api.openai.com/v1`,
    /// `https://api.anthropic.com/v1`, `https://generativelanguage.googleapis.com/v1beta`, `http://127.0.0.1:11434`
    /// (Ollama), `http://127.0.0.1:8080` (llama.cpp).
    pub fn path(self, model: &str, shape: Shape) -> String {
        match self {
            Dialect::Gemini => {
                let method = match shape {
                    Shape::Stream => "streamGenerateContent?alt=sse",
                    Shape::Array => "streamGenerateContent",
                    Shape::Whole => "generateContent",
                };
                format!("/models/{}:{method}", escaped(model))
            }
            _ => self.fixed_path().to_owned(),
        }
    }

    /// What a path and its query, as a client asked for them, say about the request; `None` for a path of no dialect. A
    /// prefix such as `/v1` may stand before it.
    pub fn of_path(path_and_query: &str) -> Option<Routed> {
        let (path, query) = path_and_query.split_once('?').unwrap_or((path_and_query, ""));
        let path = path.trim_end_matches('/');
        if let Some((before, method)) = path.rsplit_once(':')
            && let Some((_, model)) = before.rsplit_once("/models/")
        {
            let shape = match method {
                "generateContent" => Shape::Whole,
                "streamGenerateContent" if query.split('&').any(|pair| pair == "alt=sse") => Shape::Stream,
                "streamGenerateContent" => Shape::Array,
                _ => return None,
            };
            return Some(Routed { dialect: Dialect::Gemini, model: Some(unescaped(model)), shape: Some(shape) });
        }
        // The longest path that fits: `/chat/completions` ends in `/completions` too.
        let fits = Dialect::ALL.into_iter().filter(|dialect| {
            let fixed = dialect.fixed_path();
            !fixed.is_empty() && path.ends_with(fixed)
        });
        let dialect = fits.max_by_key(|dialect| dialect.fixed_path().len())?;
        Some(Routed::from(dialect))
    }

    /// A path that ends in one of a dialect: what stands before that (the path of a base URL), and what it says.
    pub fn part(path: &str) -> Option<(&str, Routed)> {
        let routed = Dialect::of_path(path)?;
        let path = path.trim_end_matches('/');
        let base = match routed.dialect {
            Dialect::Gemini => path.rsplit_once("/models/")?.0,
            dialect => path.strip_suffix(dialect.fixed_path())?,
        };
        Some((base, routed))
    }

    /// The media type of an answer.
    pub const fn content_type(self, shape: Shape) -> &'static str {
        match (self, shape) {
            (_, Shape::Whole) | (Dialect::Gemini, Shape::Array) => "application/json",
            (Dialect::OllamaChat | Dialect::OllamaGenerate, _) => "application/x-ndjson",
            _ => "text/event-stream",
        }
    }

    /// The end of every path of the dialect; empty for the one whose paths hold the model.
    const fn fixed_path(self) -> &'static str {
        match self {
            Dialect::OpenAiChat => "/chat/completions",
            Dialect::OpenAiCompletions => "/completions",
            Dialect::OpenAiResponses => "/responses",
            Dialect::Anthropic => "/messages",
            Dialect::Gemini => "",
            Dialect::OllamaChat => "/api/chat",
            Dialect::OllamaGenerate => "/api/generate",
            Dialect::LlamaCompletion => "/completion",
        }
    }
}

/// A model's name as a segment of a path: what could be taken for something else is percent-encoded.
fn escaped(model: &str) -> String {
    let mut path = String::with_capacity(model.len());
    for &byte in model.as_bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' => path.push(char::from(byte)),
            _ => path.push_str(&format!("%{byte:02X}")),
        }
    }
    path
}

fn unescaped(segment: &str) -> String {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.as_bytes();
    while let [first, behind @ ..] = rest {
        let code = segment_code(rest);
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &rest[3..] } else { behind };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The byte that a percent-encoding at the beginning stands for.
fn segment_code(bytes: &[u8]) -> Option<u8> {
    let digits = bytes.strip_prefix(b"%")?.get(..2)?;
    let digits =
        std::str::from_utf8(digits).ok().filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    u8::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
