//! What a request asks for: read from OpenAI's chat completions, or from the structured body.
//!
//! It refuses to merge. Invariant: what is read names a known model and holds an edit whole; anything else is an answer that
//! says what is wrong.

use crate::config::OnRefuse;
use crate::reply::Denied;
use crate::settled::Edit;
use http::request::Parts;
use serde::Deserialize;
use tokrate_apply::request::read_chat;
use tokrate_apply::{Language, Options};
use tokrate_core::{Message, Role};
use tokrate_wire::{Dialect, Routed, decode_request};

/// Header that says what to answer to a refused edit.
const ON_REFUSE: &str = "x-tokrate-on-refuse";
/// Models whose requests are served, each in the same way.
pub const MODELS: [&str; 5] = ["auto", "apply", "morph-v3-fast", "morph-v3-large", "relace-apply-3"];

/// A request that was understood.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Ask {
    pub edit: Edit,
    pub form: Form,
    pub model: String,
    pub on_refuse: OnRefuse,
    /// The conversation of a chat, for its token counts.
    pub messages: Vec<Message>,
}

/// How the answer is to be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// A chat completion in one piece.
    Chat {
        /// The text is wanted in `<updated-code>` tags.
        tagged: bool,
    },
    /// A chat completion in pieces.
    Stream {
        /// As above.
        tagged: bool,
        /// Token counts are wanted.
        usage: bool,
    },
    /// The structured answer.
    Structured,
}

impl Form {
    /// Whether the answer says how many tokens there were.
    pub fn has_usage(self) -> bool {
        !matches!(self, Form::Stream { usage: false, .. })
    }

    /// Whether the text is wanted in tags.
    pub fn is_tagged(self) -> bool {
        matches!(self, Form::Chat { tagged: true } | Form::Stream { tagged: true, .. })
    }
}

/// Fields beyond OpenAI's that a request may carry.
#[derive(Deserialize, Default, Debug)]
struct Further {
    on_refuse: Option<String>,
    path: Option<String>,
    language: Option<String>,
}

/// The structured body, in the spellings of the services that have one.
#[derive(Deserialize, Debug)]
struct Structured {
    #[serde(alias = "initialCode")]
    initial_code: String,
    #[serde(alias = "editSnippet")]
    edit_snippet: String,
    #[serde(alias = "instructions")]
    instruction: Option<String>,
    model: Option<String>,
    #[serde(alias = "onRefuse")]
    on_refuse: Option<String>,
    #[serde(alias = "filePath", alias = "file_path")]
    path: Option<String>,
    language: Option<String>,
}

impl Ask {
    /// Reads a chat completion's request.
    pub fn chat(head: &Parts, body: &[u8], usual: OnRefuse) -> Result<Ask, Denied> {
        let routed = Routed { dialect: Dialect::OpenAiChat, model: None, shape: None };
        let request =
            decode_request(&routed, body).map_err(|error| Denied::bad_request(format!("failed to {error}")))?;
        check_model(&request.model)?;
        let further = Further::read(&request.extra)?;
        let asked = request.messages.iter().rev().find(|message| message.role == Role::User);
        let content: String = asked.into_iter().flat_map(|message| message.texts()).collect();
        if content.trim().is_empty() {
            return Err(Denied::bad_request(
                "the messages hold no text of a user; write <code>the whole file</code>, then <update>the edit</update>",
            ));
        }
        let read = read_chat(&content).map_err(|refused| Denied::bad_request(spoken(&refused)))?;
        let tagged = read.tagged_answer;
        let form = match request.stream {
            true => Form::Stream { tagged, usage: request.include_usage },
            false => Form::Chat { tagged },
        };
        let options = Options {
            path: further.path,
            language: language(further.language.as_deref())?,
            instruction: read.instruction,
            ..Options::default()
        };
        Ok(Ask {
            edit: Edit { original: read.code, update: read.update, options },
            form,
            model: request.model,
            on_refuse: on_refuse(head, further.on_refuse.as_deref(), usual)?,
            messages: request.messages,
        })
    }

    /// Reads a structured request.
    pub fn structured(head: &Parts, body: &[u8], usual: OnRefuse) -> Result<Ask, Denied> {
        // An array with the fields in order would be read as well.
        if !body.trim_ascii_start().starts_with(b"{") {
            return Err(Denied::bad_request("failed to read the request: it must be a JSON object"));
        }
        let read: Structured = serde_json::from_slice(body)
            .map_err(|error| Denied::bad_request(format!("failed to read the request as JSON: {error}")))?;
        let model = read.model.unwrap_or_else(|| MODELS[0].to_owned());
        check_model(&model)?;
        let options = Options {
            path: read.path,
            language: language(read.language.as_deref())?,
            instruction: read.instruction,
            ..Options::default()
        };
        Ok(Ask {
            edit: Edit { original: read.initial_code, update: read.edit_snippet, options },
            form: Form::Structured,
            model,
            on_refuse: on_refuse(head, read.on_refuse.as_deref(), usual)?,
            messages: Vec::new(),
        })
    }
}

impl Ask {
    /// The texts that the caller sent.
    pub fn prompt(&self) -> impl Iterator<Item = &str> {
        let Edit { original, update, options } = &self.edit;
        let parts = [Some(original.as_str()), Some(update), options.instruction.as_deref()];
        let parts = if self.form == Form::Structured { parts } else { [None; 3] };
        self.messages.iter().flat_map(Message::texts).chain(parts.into_iter().flatten())
    }
}

impl Further {
    fn read(extra: &[(String, String)]) -> Result<Further, Denied> {
        let text = |name: &str| -> Result<Option<String>, Denied> {
            let Some((_, json)) = extra.iter().rev().find(|(other, _)| other == name) else { return Ok(None) };
            serde_json::from_str(json).map_err(|_| Denied::bad_request(format!("`{name}` must be a string")))
        };
        Ok(Further { on_refuse: text("on_refuse")?, path: text("path")?, language: text("language")? })
    }
}

/// What the request says of refusals: its query, else its header, else its body, else what is usual here.
fn on_refuse(head: &Parts, body: Option<&str>, usual: OnRefuse) -> Result<OnRefuse, Denied> {
    let query = head.uri.query().into_iter().flat_map(|query| query.split('&'));
    let query = query.filter_map(|pair| pair.strip_prefix("on_refuse=")).next();
    let header = head.headers.get(ON_REFUSE).map(|value| value.to_str().unwrap_or("?"));
    let Some(name) = query.or(header).or(body) else { return Ok(usual) };
    OnRefuse::from_name(name).ok_or_else(|| Denied::bad_request("`on_refuse` must be `error` or `original`"))
}

fn language(name: Option<&str>) -> Result<Option<Language>, Denied> {
    let Some(name) = name else { return Ok(None) };
    let known = || Language::ALL.map(Language::name).join(", ");
    let language = Language::from_name(name);
    language.map(Some).ok_or_else(|| Denied::bad_request(format!("`language` must be one of {}", known())))
}

fn check_model(name: &str) -> Result<(), Denied> {
    if MODELS.contains(&name) {
        return Ok(());
    }
    // A name of any length may come in.
    let shown: String = name.chars().take(80).collect();
    Err(Denied::not_found(format!("there is no model `{shown}` here; the models are {}", MODELS.join(", "))))
}

/// A refusal of a request that is no request, in a sentence.
fn spoken(refused: &tokrate_apply::Refused) -> String {
    match refused.hint.as_str() {
        "" => refused.message.clone(),
        hint => format!("{}; {hint}", refused.message),
    }
}
