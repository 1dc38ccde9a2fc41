//! One entry of a file of prompts or of a dataset: which column holds the prompt, and how long its answer was.
//!
//! Invariant: a prompt of which a part would not be sent is refused, unless the user names the column that is to be sent.

use super::{EXPECTED, tokens_of};
use crate::bad_input::shown;
use crate::prompts::Prompt;
use serde::Deserialize;
use serde_json::{Map, Value};
use tokrate_core::{Content, Message, Role};
use tokrate_wire::{Dialect, Routed, decode_request};

/// Which columns of the entries are read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Columns {
    /// The prompt; `None` finds it by the names in use.
    pub prompt: Option<String>,
    /// The answer, of which only the length is used; `None` takes that of a conversation.
    pub answer: Option<String>,
}

/// An object that holds a prompt in one of the usual ways.
#[derive(Deserialize)]
pub(super) struct Entry {
    conversations: Option<Vec<ShareGptTurn>>,
    messages: Option<Vec<ChatMessage>>,
    prompt: Option<String>,
    text: Option<String>,
    question: Option<String>,
    /// Everything else: ids and the like.
    #[serde(flatten)]
    others: Map<String, Value>,
}

/// Columns that published datasets keep their prompts in, beside the fields of an entry: Alpaca, Dolly, MT-bench, MATH and others.
const FURTHER: [&str; 5] = ["instruction", "turns", "problem", "query", "article"];
/// What an instruction is about, where a column of its own says (Alpaca, Dolly).
const SUBJECTS: [&str; 2] = ["input", "context"];

/// Fields that belong to what a model is asked, and that are not sent: leaving them out would be another measurement.
const UNSENT: [&str; 12] = [
    "image",
    "images",
    "image_url",
    "picture",
    "pictures",
    "audio",
    "video",
    "file",
    "files",
    "tools",
    "functions",
    "response_format",
];

/// A turn as ShareGPT spells it.
#[derive(Deserialize)]
struct ShareGptTurn {
    from: String,
    value: String,
}

/// A message as chat APIs spell it.
#[derive(Deserialize)]
struct ChatMessage {
    role: String,
    content: ChatContent,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum ChatContent {
    Text(String),
    Parts(Vec<Value>),
}

/// What is sent of an entry.
struct Asked {
    messages: Vec<Message>,
    /// Tokens of the first answer, if there is one.
    answer_tokens: Option<u32>,
    /// Whether it goes on after that answer.
    is_cut: bool,
}

impl Entry {
    /// The prompt: of a conversation what precedes its first answer; and whether it goes on after that.
    pub(super) fn prompt(mut self, columns: &Columns) -> Result<(Prompt, bool), String> {
        let answer = columns.answer.as_ref().map(|name| Ok::<_, String>(text_of(&self.take(name)?)?.to_owned()));
        let answer_tokens = answer.transpose()?.map(|text| tokens_of(&text) as u32);
        let asked = match &columns.prompt {
            Some(name) => asked_by(self.take(name)?)?,
            None => {
                self.check_unsent()?;
                self.asked()?
            }
        };
        let tokens: usize = asked.messages.iter().flat_map(|message| message.texts()).map(tokens_of).sum();
        if tokens == 0 {
            return Err("a prompt with text, and it is empty".to_owned());
        }
        let output_tokens = answer_tokens.or(asked.answer_tokens).filter(|tokens| *tokens > 0);
        Ok((Prompt { messages: asked.messages, input_tokens: tokens as u64, output_tokens }, asked.is_cut))
    }

    fn check_unsent(&self) -> Result<(), String> {
        let is_there = |field: &&str| self.others.get(*field).is_some_and(|value| !value.is_null());
        let Some(field) = UNSENT.into_iter().find(is_there) else { return Ok(()) };
        let instead = match field {
            "tools" | "functions" | "response_format" => "leave it out, or send one for all with --body",
            _ => "leave it out, or write it as a part of a message: `messages` with `image_url`",
        };
        Err(format!("a prompt without `{field}`, which is not sent from here; {instead}"))
    }

    /// What is asked, by the names in use.
    fn asked(mut self) -> Result<Asked, String> {
        if let Some(turns) = self.conversations {
            return until_answered(
                turns.into_iter().map(|turn| Ok((role_of(&turn.from), vec![Content::Text(turn.value)]))),
            );
        }
        if let Some(spoken) = self.messages {
            return until_answered(
                spoken.into_iter().map(|spoken| Ok((role_of(&spoken.role), spoken.content.read()?))),
            );
        }
        if let Some(text) = self.prompt.or(self.text).or(self.question) {
            return Ok(Asked::of(text));
        }
        let found = FURTHER.into_iter().find_map(|name| self.others.remove(name).filter(|value| !value.is_null()));
        let mut asked = asked_by(found.ok_or_else(|| EXPECTED.to_owned())?)?;
        let subject =
            SUBJECTS.into_iter().find_map(|name| self.others.get(name)?.as_str().filter(|text| !text.is_empty()));
        if let (Some(subject), [message]) = (subject, &mut asked.messages[..]) {
            message.content.push(Content::Text(format!("\n\n{subject}")));
            // One text, as these datasets are used.
            *message = Message::text(Role::User, message.texts().collect::<String>());
        }
        Ok(asked)
    }

    /// The value of a column that the user names.
    fn take(&mut self, name: &str) -> Result<Value, String> {
        let known = |text: &Option<String>| text.clone().map(Value::String);
        let value = match name {
            "prompt" => known(&self.prompt),
            "text" => known(&self.text),
            "question" => known(&self.question),
            "conversations" => self.conversations.as_ref().map(|turns| {
                turns.iter().map(|turn| serde_json::json!({ "from": turn.from, "value": turn.value })).collect()
            }),
            "messages" => self.messages.as_ref().map(|spoken| {
                let content = |content: &ChatContent| match content {
                    ChatContent::Text(text) => Value::String(text.clone()),
                    ChatContent::Parts(parts) => Value::Array(parts.clone()),
                };
                spoken
                    .iter()
                    .map(|it| serde_json::json!({ "role": it.role, "content": content(&it.content) }))
                    .collect()
            }),
            other => self.others.get(other).cloned(),
        };
        value.filter(|value| !value.is_null()).ok_or_else(|| {
            let fixed = [
                ("prompt", self.prompt.is_some()),
                ("text", self.text.is_some()),
                ("question", self.question.is_some()),
                ("conversations", self.conversations.is_some()),
                ("messages", self.messages.is_some()),
            ];
            let fixed = fixed.into_iter().filter(|(_, is_there)| *is_there).map(|(name, _)| name);
            let there: Vec<&str> = fixed.chain(self.others.keys().map(String::as_str)).collect();
            format!("an object with `{name}`; there is {}", there.join(", "))
        })
    }
}

impl Asked {
    fn of(text: String) -> Asked {
        Asked { messages: vec![Message::text(Role::User, text)], answer_tokens: None, is_cut: false }
    }
}

/// What a column asks: a text, the first of a list of texts, or a conversation.
fn asked_by(value: Value) -> Result<Asked, String> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Turn {
        Chat(ChatMessage),
        ShareGpt(ShareGptTurn),
    }
    if let Ok(text) = text_of(&value) {
        return Ok(Asked::of(text.to_owned()));
    }
    const EXPECTED: &str = "a text, a list of texts, or a conversation of `role` and `content`, or `from` and `value`";
    let found = shown(&value.to_string());
    let turns: Vec<Turn> = serde_json::from_value(value).map_err(|_| format!("{EXPECTED}; there is {found}"))?;
    until_answered(turns.into_iter().map(|turn| match turn {
        Turn::Chat(spoken) => Ok((role_of(&spoken.role), spoken.content.read()?)),
        Turn::ShareGpt(turn) => Ok((role_of(&turn.from), vec![Content::Text(turn.value)])),
    }))
}

/// A text, or the first of a list of them.
fn text_of(value: &Value) -> Result<&str, String> {
    value
        .as_str()
        .or_else(|| value.as_array().and_then(|texts| texts.first())?.as_str())
        .ok_or_else(|| format!("a text; there is {}", shown(&value.to_string())))
}

impl ChatContent {
    /// The parts, as the OpenAI chat API spells them: text and images. Parts that not every server accepts are rejected.
    fn read(self) -> Result<Vec<Content>, String> {
        let parts = match self {
            ChatContent::Text(text) => return Ok(vec![Content::Text(text)]),
            ChatContent::Parts(parts) => parts,
        };
        let message = serde_json::json!({ "role": "user", "content": parts });
        let body = serde_json::json!({ "model": "", "messages": [message] }).to_string();
        let read = decode_request(&Routed::from(Dialect::OpenAiChat), body.as_bytes());
        let read = read.map_err(|error| format!("parts of a message as the OpenAI chat API spells them: {error}"))?;
        let parts: Vec<Content> = read.messages.into_iter().flat_map(|message| message.content).collect();
        let is_sent = |part: &&Content| match part {
            Content::Text(_) | Content::Image(_) => true,
            Content::Other(json) => is_detailed_image(json),
            _ => false,
        };
        const SENT: &str = "parts of type `text`, or `image_url` with a `url` and a `detail`";
        match parts.iter().find(|part| !is_sent(part)) {
            Some(Content::Other(json)) => Err(format!("{SENT}; there is {}", shown(json))),
            Some(_) => Err(SENT.to_owned()),
            None => Ok(parts),
        }
    }
}

/// Whether a part is an image with a `detail`, which is sent as it is.
fn is_detailed_image(json: &str) -> bool {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Part {
        r#type: String,
        image_url: Linked,
    }
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Linked {
        #[serde(rename = "url")]
        _url: String,
        #[serde(rename = "detail")]
        _detail: String,
    }
    serde_json::from_str::<Part>(json).is_ok_and(|Part { r#type, image_url: Linked { .. } }| r#type == "image_url")
}

/// Role, if known, and content.
type Turn = (Option<Role>, Vec<Content>);

fn until_answered(turns: impl Iterator<Item = Result<Turn, String>>) -> Result<Asked, String> {
    let mut asked = Asked { messages: Vec::new(), answer_tokens: None, is_cut: false };
    let mut turns = turns;
    while let Some(turn) = turns.next() {
        let (role, content) = turn?;
        match role {
            Some(Role::Assistant) if asked.messages.iter().any(|message: &Message| message.role == Role::User) => {
                let answer: usize = Message { role: Role::Assistant, content }.texts().map(tokens_of).sum();
                asked.answer_tokens = Some(answer as u32);
                asked.is_cut = turns.next().is_some();
                break;
            }
            // A conversation that begins with an answer was cut; everything before the first question is dropped.
            Some(Role::Assistant) => {}
            Some(role) => asked.messages.push(Message { role, content }),
            None => return Err("the speakers human, user, system, gpt or assistant".to_owned()),
        }
    }
    if asked.messages.iter().all(|message| message.role != Role::User) {
        return Err("a conversation in which somebody asks (`human` or `user`)".to_owned());
    }
    Ok(asked)
}

/// Who speaks, by the names in use.
fn role_of(name: &str) -> Option<Role> {
    match name.to_ascii_lowercase().as_str() {
        "human" | "user" => Some(Role::User),
        "system" | "developer" => Some(Role::System),
        "gpt" | "assistant" | "chatgpt" | "bing" | "bard" | "model" => Some(Role::Assistant),
        _ => None,
    }
}
