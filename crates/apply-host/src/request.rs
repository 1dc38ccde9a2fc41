//! Parses requests: OpenAI chat completions or the structured body.
//!
//! Invariant: a parsed request names a known model and holds a complete edit; anything else is an error response.

use crate::config::OnRefuse;
use crate::hash::sha256;
use crate::merge_result::Edit;
use crate::reply::ErrorResponse;
use http::request::Parts;
use serde::Deserialize;
use serde_json::Value;
use tokrate_apply::request::read_chat;
use tokrate_apply::{Format, Language, Options};
use tokrate_core::{Message, Role};
use tokrate_wire::{Dialect, Routed, decode_request};

/// Header that selects the response to a refused edit.
const ON_REFUSE: &str = "x-tokrate-on-refuse";
/// Accepted model names; all are served alike.
pub const MODELS: [&str; 5] = ["auto", "apply", "morph-v3-fast", "morph-v3-large", "relace-apply-3"];

/// A parsed request.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct ApplyRequest {
    pub edit: Edit,
    pub form: ResponseFormat,
    pub model: String,
    pub on_refuse: OnRefuse,
    /// The conversation of a chat, for its token counts.
    pub messages: Vec<Message>,
}

/// Why a request is answered without a merge.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Rejected {
    /// It is no request of an edit.
    Error(ErrorResponse),
    /// The file is not the one that the edit was made for; its SHA-256.
    Stale(String),
}

impl From<ErrorResponse> for Rejected {
    fn from(error: ErrorResponse) -> Rejected {
        Rejected::Error(error)
    }
}

/// Format of the response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ResponseFormat {
    /// A chat completion in one piece.
    Chat {
        /// The text is wrapped in `<updated-code>` tags.
        tagged: bool,
    },
    /// A chat completion in pieces.
    Stream {
        /// The text is wrapped in tags.
        tagged: bool,
        /// Token counts are requested.
        usage: bool,
    },
    /// The structured response.
    Structured,
}

impl ResponseFormat {
    /// Whether the response has token counts.
    pub fn has_usage(self) -> bool {
        !matches!(self, ResponseFormat::Stream { usage: false, .. })
    }

    /// Whether the text is wrapped in tags.
    pub fn is_tagged(self) -> bool {
        matches!(self, ResponseFormat::Chat { tagged: true } | ResponseFormat::Stream { tagged: true, .. })
    }
}

/// Fields beyond OpenAI's.
#[derive(Deserialize, Default, Debug)]
struct ExtraFields {
    on_refuse: Option<String>,
    path: Option<String>,
    language: Option<String>,
    format: Option<String>,
    original_sha256: Option<String>,
}

/// The structured body, with the field names of the services that have one.
#[derive(Deserialize, Debug)]
struct Structured {
    #[serde(alias = "initialCode")]
    initial_code: String,
    /// A text, or the edit as JSON: an object or a list.
    #[serde(alias = "editSnippet")]
    edit_snippet: Value,
    #[serde(alias = "instructions")]
    instruction: Option<String>,
    model: Option<String>,
    #[serde(alias = "onRefuse")]
    on_refuse: Option<String>,
    #[serde(alias = "filePath", alias = "file_path")]
    path: Option<String>,
    language: Option<String>,
    format: Option<String>,
    /// The SHA-256 of the file that the edit was made for.
    #[serde(alias = "originalSha256")]
    original_sha256: Option<String>,
}

impl ApplyRequest {
    /// Parses a chat completion request.
    pub fn chat(head: &Parts, body: &[u8], default: OnRefuse) -> Result<ApplyRequest, Rejected> {
        let routed = Routed { dialect: Dialect::OpenAiChat, model: None, shape: None };
        let request =
            decode_request(&routed, body).map_err(|error| ErrorResponse::bad_request(format!("failed to {error}")))?;
        check_model(&request.model)?;
        let extra = ExtraFields::read(&request.extra)?;
        let asked = request.messages.iter().rev().find(|message| message.role == Role::User);
        let content: String = asked.into_iter().flat_map(|message| message.texts()).collect();
        if content.trim().is_empty() {
            let message = "the messages hold no text of a user; write <code>the whole file</code>, then <update>the edit</update>";
            return Err(ErrorResponse::bad_request(message).into());
        }
        let read = read_chat(&content).map_err(|refused| ErrorResponse::bad_request(describe(&refused)))?;
        check_original(extra.original_sha256.as_deref(), &read.code)?;
        let tagged = read.tagged_answer;
        let form = match request.stream {
            true => ResponseFormat::Stream { tagged, usage: request.include_usage },
            false => ResponseFormat::Chat { tagged },
        };
        let options = Options {
            path: extra.path,
            language: language(extra.language.as_deref())?,
            format: format(extra.format.as_deref())?,
            instruction: read.instruction,
            ..Options::default()
        };
        Ok(ApplyRequest {
            edit: Edit { original: read.code, update: read.update, options },
            form,
            model: request.model,
            on_refuse: on_refuse(head, extra.on_refuse.as_deref(), default)?,
            messages: request.messages,
        })
    }

    /// Parses a structured request.
    pub fn structured(head: &Parts, body: &[u8], default: OnRefuse) -> Result<ApplyRequest, Rejected> {
        // serde would also accept an array with the fields in order.
        if !body.trim_ascii_start().starts_with(b"{") {
            return Err(ErrorResponse::bad_request("failed to read the request: it must be a JSON object").into());
        }
        let read: Structured = serde_json::from_slice(body)
            .map_err(|error| ErrorResponse::bad_request(format!("failed to read the request as JSON: {error}")))?;
        check_original(read.original_sha256.as_deref(), &read.initial_code)?;
        let update = match read.edit_snippet {
            Value::String(text) => text,
            edit @ (Value::Object(_) | Value::Array(_)) => edit.to_string(),
            _ => return Err(ErrorResponse::bad_request("`edit_snippet` must be a text, an object or a list").into()),
        };
        let model = read.model.unwrap_or_else(|| MODELS[0].to_owned());
        check_model(&model)?;
        let options = Options {
            path: read.path,
            language: language(read.language.as_deref())?,
            format: format(read.format.as_deref())?,
            instruction: read.instruction,
            ..Options::default()
        };
        Ok(ApplyRequest {
            edit: Edit { original: read.initial_code, update, options },
            form: ResponseFormat::Structured,
            model,
            on_refuse: on_refuse(head, read.on_refuse.as_deref(), default)?,
            messages: Vec::new(),
        })
    }
}

impl ApplyRequest {
    /// The texts that the caller sent.
    pub fn prompt(&self) -> impl Iterator<Item = &str> {
        let Edit { original, update, options } = &self.edit;
        let parts = [Some(original.as_str()), Some(update), options.instruction.as_deref()];
        let parts = if self.form == ResponseFormat::Structured { parts } else { [None; 3] };
        self.messages.iter().flat_map(Message::texts).chain(parts.into_iter().flatten())
    }
}

impl ExtraFields {
    fn read(extra: &[(String, String)]) -> Result<ExtraFields, ErrorResponse> {
        let text = |name: &str| -> Result<Option<String>, ErrorResponse> {
            let Some((_, json)) = extra.iter().rev().find(|(other, _)| other == name) else { return Ok(None) };
            serde_json::from_str(json).map_err(|_| ErrorResponse::bad_request(format!("`{name}` must be a string")))
        };
        let (on_refuse, path, original_sha256) = (text("on_refuse")?, text("path")?, text("original_sha256")?);
        Ok(ExtraFields { on_refuse, path, language: text("language")?, format: text("format")?, original_sha256 })
    }
}

/// How to respond to a refusal: from the query, else the header, else the body, else the default.
fn on_refuse(head: &Parts, body: Option<&str>, default: OnRefuse) -> Result<OnRefuse, ErrorResponse> {
    let query = head.uri.query().into_iter().flat_map(|query| query.split('&'));
    let query = query.filter_map(|pair| pair.strip_prefix("on_refuse=")).next();
    let header = head.headers.get(ON_REFUSE).map(|value| value.to_str().unwrap_or("?"));
    let Some(name) = query.or(header).or(body) else { return Ok(default) };
    OnRefuse::from_name(name).ok_or_else(|| ErrorResponse::bad_request("`on_refuse` must be `error` or `original`"))
}

fn language(name: Option<&str>) -> Result<Option<Language>, ErrorResponse> {
    let Some(name) = name else { return Ok(None) };
    let known = || Language::ALL.map(Language::name).join(", ");
    let language = Language::from_name(name);
    language.map(Some).ok_or_else(|| ErrorResponse::bad_request(format!("`language` must be one of {}", known())))
}

fn format(name: Option<&str>) -> Result<Option<Format>, ErrorResponse> {
    let Some(name) = name else { return Ok(None) };
    let known = || Format::ALL.map(Format::name).join(", ");
    let format = Format::from_name(name);
    format.map(Some).ok_or_else(|| ErrorResponse::bad_request(format!("`format` must be one of {}", known())))
}

/// Checks that an edit is made to the file that it was made for.
fn check_original(expected: Option<&str>, original: &str) -> Result<(), Rejected> {
    let Some(expected) = expected else { return Ok(()) };
    let now = sha256(original.as_bytes());
    if expected.strip_prefix("sha256:").unwrap_or(expected).eq_ignore_ascii_case(&now) {
        return Ok(());
    }
    Err(Rejected::Stale(now))
}

fn check_model(name: &str) -> Result<(), ErrorResponse> {
    if MODELS.contains(&name) {
        return Ok(());
    }
    // The name may have any length.
    let shown: String = name.chars().take(80).collect();
    Err(ErrorResponse::not_found(format!("there is no model `{shown}` here; the models are {}", MODELS.join(", "))))
}

/// A refusal in one sentence.
fn describe(refused: &tokrate_apply::Refused) -> String {
    match refused.hint.as_str() {
        "" => refused.message.clone(),
        hint => format!("{}; {hint}", refused.message),
    }
}
