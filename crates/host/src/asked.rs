//! What an answer is other than words: a call of a tool, JSON, JSON of a schema, what a script says.
//!
//! The engine knows nothing of it but how many tokens it has. Invariant: the tokens of the content are those of o200k, each is written
//! with the emission that stands for it, and the same request is answered with the same content.

use crate::schema::value_of;
use crate::script::ScriptRule;
use serde_json::{Value, json};
use std::hash::{DefaultHasher, Hash, Hasher};
use tokrate_core::{Channel, ChatRequest, FinishReason, ToolChoice};
use tokrate_tokens::{Encoding, token_ends};
use tokrate_wire::{Dialect, Piece, Routed, translate_request};

/// The top-level fields in which dialects ask for JSON; a request without them is not looked at any further.
const FORMAT_FIELDS: [&str; 7] =
    ["response_format", "text", "format", "generationConfig", "generation_config", "output_format", "output_config"];

/// The content of an answer, and how much of it is written.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Content {
    parts: Vec<Part>,
    /// Tokens of all parts that are written.
    written: usize,
}

/// A text of an answer, or a call of a tool.
#[derive(Clone, PartialEq, Debug)]
struct Part {
    /// The tool that is called: identifier and name.
    tool: Option<(String, String)>,
    text: String,
    /// Where each token of the text ends (bytes).
    ends: Vec<usize>,
}

/// A call of a tool, as far as it is written.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct WrittenCall {
    pub id: String,
    pub name: String,
    pub arguments: String,
}

/// Whether a request may ask for something other than words; then [`content_of`] says for what.
pub(crate) fn may_ask_for_content(chat: &ChatRequest) -> bool {
    is_forced(chat) || chat.extra.iter().any(|(name, _)| FORMAT_FIELDS.contains(&name.as_str()))
}

fn is_forced(chat: &ChatRequest) -> bool {
    matches!(chat.tool_choice, Some(ToolChoice::Required | ToolChoice::Named(_)))
}

/// What a request asks for; `None` for words. It may take milliseconds, and is not for the engine's thread.
///
/// # Errors
/// Why there is no such answer, as a sentence.
pub(crate) fn content_of(routed: &Routed, chat: &ChatRequest, body: &[u8]) -> Result<Option<Content>, String> {
    if !may_ask_for_content(chat) {
        return Ok(None);
    }
    let is_forced = is_forced(chat);
    let mut hasher = DefaultHasher::new();
    body.hash(&mut hasher);
    let seed = hasher.finish();
    // One form for all dialects.
    let translated = match translate_request(routed, Dialect::OpenAiChat, "", body) {
        Ok(translated) => translated,
        // Words in place of JSON would only fail in the client's parser.
        Err(error) if is_forced || chat.extra.iter().any(|(name, json)| asks_for_json(name, json)) => {
            return Err(format!("`{}`: {}; such an answer is not made here", error.field, error.why));
        }
        Err(_) => return Ok(None),
    };
    if is_forced {
        return forced_call(&translated.request, seed).map(Some);
    }
    let format = translated.request.extra.iter().find(|(name, _)| name == "response_format");
    let Some(format) = format.and_then(|(_, json)| serde_json::from_str::<Value>(json).ok()) else { return Ok(None) };
    let value = match format.get("type").and_then(Value::as_str) {
        Some("json_object") => value_of(&any_object(), seed)?,
        Some("json_schema") => value_of(format.pointer("/json_schema/schema").unwrap_or(&json!(true)), seed)?,
        _ => return Ok(None),
    };
    Ok(Some(Content::new(vec![Part::new(None, value.to_string())])))
}

/// Whether a field of a request asks for something other than text.
fn asks_for_json(name: &str, json: &str) -> bool {
    let Ok(value) = serde_json::from_str::<Value>(json) else { return false };
    let is_other = |kind: Option<&Value>| {
        kind.is_some_and(|kind| !kind.is_null() && !matches!(kind.as_str(), Some("" | "text" | "text/plain")))
    };
    let has = |keys: &[&str]| keys.iter().any(|key| is_other(value.get(key)));
    match name {
        "response_format" | "output_format" => is_other(value.get("type").or(Some(&value))),
        "text" | "output_config" => is_other(value.pointer("/format/type").or_else(|| value.get("format"))),
        "format" => is_other(Some(&value)),
        "generationConfig" | "generation_config" => has(&[
            "responseMimeType",
            "response_mime_type",
            "responseSchema",
            "response_schema",
            "responseJsonSchema",
            "response_json_schema",
        ]),
        _ => false,
    }
}

/// The call of a tool that the request demands.
fn forced_call(request: &ChatRequest, seed: u64) -> Result<Content, String> {
    let tool = match &request.tool_choice {
        Some(ToolChoice::Named(name)) => request.tools.iter().find(|tool| tool.name == *name),
        _ => request.tools.get((seed % request.tools.len().max(1) as u64) as usize),
    };
    let tool = tool.ok_or("`tool_choice` demands a tool that is not among `tools`")?;
    let parameters = tool.parameters.as_deref().unwrap_or("{\"type\":\"object\"}");
    let schema = serde_json::from_str(parameters);
    let schema: Value =
        schema.map_err(|error| format!("the parameters of the tool `{}` are no JSON: {error}", tool.name))?;
    let arguments = value_of(&schema, seed).map_err(|error| format!("the tool `{}`: {error}", tool.name))?;
    let tool = (format!("call_{seed:016x}"), tool.name.clone());
    Ok(Content::new(vec![Part::new(Some(tool), arguments.to_string())]))
}

/// An object as a model makes one that is only told to write JSON.
fn any_object() -> Value {
    json!({"type": "object", "properties": {"answer": {"type": "string"}, "score": {"type": "integer"}}})
}

/// What a script's rule answers a request with.
pub(crate) fn content_of_rule(rule: &ScriptRule, body: &[u8]) -> Content {
    let mut hasher = DefaultHasher::new();
    body.hash(&mut hasher);
    let seed = hasher.finish();
    let text = (!rule.text.is_empty()).then(|| Part::new(None, rule.text.clone()));
    let calls = rule.calls.iter().enumerate().map(|(number, call)| {
        let id = format!("call_{:016x}", seed.wrapping_add(number as u64));
        Part::new(Some((id, call.tool.clone())), call.arguments.clone())
    });
    Content::new(text.into_iter().chain(calls).collect())
}

impl Part {
    fn new(tool: Option<(String, String)>, text: String) -> Part {
        let mut ends = Vec::new();
        token_ends(Encoding::O200kBase, &text, &mut ends);
        // A token may end inside of a character; what is written must not.
        let mut end = 0;
        for place in &mut ends {
            end = (*place..=text.len()).find(|&at| text.is_char_boundary(at)).unwrap_or(text.len()).max(end);
            *place = end;
        }
        Part { tool, text, ends }
    }

    /// The text of its first tokens.
    fn text_of(&self, tokens: usize) -> &str {
        let end = tokens.min(self.ends.len()).checked_sub(1).map_or(0, |last| self.ends[last]);
        &self.text[..end]
    }
}

impl Content {
    fn new(parts: Vec<Part>) -> Content {
        Content { parts, written: 0 }
    }

    /// How many tokens it has.
    pub fn tokens(&self) -> u32 {
        u32::try_from(self.all()).unwrap_or(u32::MAX)
    }

    fn all(&self) -> usize {
        self.parts.iter().map(|part| part.ends.len()).sum()
    }

    /// Gives the next tokens to `write`, piece by piece.
    pub fn take(&mut self, tokens: u32, mut write: impl FnMut(&Piece<'_>)) {
        let from = self.written;
        self.written = (from + tokens as usize).min(self.all());
        let (mut before, mut index) = (0, 0);
        for part in &self.parts {
            let place = before;
            before += part.ends.len();
            let call = index;
            index += u32::from(part.tool.is_some());
            if before <= from || place >= self.written {
                continue;
            }
            if let Some((id, name)) = part.tool.as_ref().filter(|_| place >= from) {
                write(&Piece::ToolCall { index: call, id, name });
            }
            let (done, until) = (from.saturating_sub(place), self.written - place);
            let text = &part.text[part.text_of(done).len()..part.text_of(until).len()];
            if !text.is_empty() {
                let channel = if part.tool.is_some() { Channel::Tool } else { Channel::Answer };
                write(&Piece::Text { channel, text });
            }
        }
    }

    /// What is written, in one piece: the text, and the calls that were begun.
    pub fn written(&self) -> (String, Vec<WrittenCall>) {
        let (mut answer, mut calls) = (String::new(), Vec::new());
        let mut left = self.written;
        for part in &self.parts {
            if left == 0 {
                break;
            }
            let text = part.text_of(left);
            left = left.saturating_sub(part.ends.len());
            match &part.tool {
                None => answer.push_str(text),
                Some((id, name)) => {
                    calls.push(WrittenCall { id: id.clone(), name: name.clone(), arguments: text.to_owned() });
                }
            }
        }
        (answer, calls)
    }

    /// Why the answer ends, if its engine says this: a call that is whole is a call.
    pub fn finish(&self, finish: FinishReason) -> FinishReason {
        let is_whole = self.written == self.all();
        let calls = self.parts.iter().any(|part| part.tool.is_some());
        if is_whole && calls && finish == FinishReason::Stop { FinishReason::ToolCalls } else { finish }
    }
}
