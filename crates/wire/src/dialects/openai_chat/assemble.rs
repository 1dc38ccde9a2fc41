//! A streamed chat completion, or text completion, as one body.
//!
//! Invariant: what stands in a chunk under a name that is not known here is in the body too, and then the body is not exact.

use crate::assembly::{Joined, JoinedFields, LastValues};
use crate::object::{Object, elements};
use crate::remainder::Members;
use crate::stream_assembly::{Assembly, Document};

/// Fields of a chunk that its server would not put into a body.
const ONLY_IN_CHUNKS: [&str; 3] = ["choices", "object", "obfuscation"];
/// Fields of a delta that are joined as they are known to be.
const JOINED: [&str; 6] = ["content", "refusal", "reasoning", "reasoning_content", "reasoning_text", "annotations"];

/// Collects the chunks of one choice.
#[derive(Debug)]
pub(crate) struct CompletionAssembly {
    /// `object` of the body.
    object: &'static str,
    /// Whether the choice has a message, and not a text.
    is_chat: bool,
    top: LastValues,
    choice: LastValues,
    logprobs: Option<JoinedFields>,
    role: Option<String>,
    message: JoinedFields,
    calls: Vec<Call>,
    has_choice: bool,
    is_exact: bool,
}

/// A tool call so far.
#[derive(Debug, Default)]
struct Call {
    index: u64,
    fields: LastValues,
    function: LastValues,
    arguments: Joined,
}

impl CompletionAssembly {
    /// For chat completions.
    pub(crate) fn chat() -> CompletionAssembly {
        CompletionAssembly::new("\"chat.completion\"", true)
    }

    /// For text completions.
    pub(crate) fn text() -> CompletionAssembly {
        CompletionAssembly::new("\"text_completion\"", false)
    }

    fn new(object: &'static str, is_chat: bool) -> CompletionAssembly {
        CompletionAssembly {
            object,
            is_chat,
            top: LastValues::default(),
            choice: LastValues::default(),
            logprobs: None,
            role: None,
            message: JoinedFields::default(),
            calls: Vec::new(),
            has_choice: false,
            is_exact: true,
        }
    }

    fn take_choice(&mut self, choice: &Object<'_>) {
        if choice.get("index").is_some_and(|index| index != "0") {
            // Nobody asked for it.
            self.is_exact = false;
            return;
        }
        self.has_choice = true;
        for (name, json) in choice.fields() {
            match name {
                "index" => {}
                "delta" if self.is_chat => match Object::within(json) {
                    Ok(Some(delta)) => self.take_delta(&delta),
                    _ => self.is_exact &= json == "null",
                },
                "text" if !self.is_chat => self.is_exact &= self.message.field("text").take(json),
                "logprobs" => self.take_logprobs(json),
                _ => self.choice.take(name, json),
            }
        }
    }

    fn take_logprobs(&mut self, json: &str) {
        let Ok(Some(logprobs)) = Object::within(json) else { return self.choice.take("logprobs", json) };
        let joined = self.logprobs.get_or_insert_default();
        for (name, json) in logprobs.fields() {
            self.is_exact &= joined.field(name).take(json);
        }
    }

    fn take_delta(&mut self, delta: &Object<'_>) {
        for (name, json) in delta.fields() {
            match name {
                "role" if json != "null" => drop(self.role.get_or_insert_with(|| json.to_owned())),
                "role" => {}
                "tool_calls" => {
                    for (position, call) in elements(json).into_iter().flatten().enumerate() {
                        self.take_call(position, call);
                    }
                }
                _ => {
                    let is_known = JOINED.contains(&name) && !json.starts_with('{');
                    // Parts of a content come one at a time, and nothing shows which of them belong together.
                    let is_parts = name == "content" && json.starts_with('[');
                    let fits = self.message.field(name).take(json);
                    self.is_exact &= fits && !is_parts && (is_known || json == "null");
                }
            }
        }
    }

    fn take_call(&mut self, position: usize, json: &str) {
        let Ok(Some(call)) = Object::within(json) else { return self.is_exact = false };
        let index = call.count("index", &mut false).unwrap_or(position as u64);
        let id = call.get("id").filter(|id| *id != "\"\"");
        let known = self.calls.iter().rposition(|known| known.index == index);
        // Some servers number every call 0; each has an identifier of its own.
        let is_same = |place: &usize| {
            let before = self.calls[*place].fields.get("id");
            id.is_none_or(|id| before.is_none_or(|before| before == id || before == "\"\""))
        };
        let place = known.filter(is_same).unwrap_or_else(|| {
            self.calls.push(Call { index, ..Call::default() });
            self.calls.len() - 1
        });
        let known = &mut self.calls[place];
        for (name, json) in call.fields() {
            match name {
                "index" => {}
                "function" => {
                    let Ok(Some(function)) = Object::within(json) else { continue };
                    for (name, json) in function.fields() {
                        match name {
                            "arguments" => self.is_exact &= known.arguments.take(json),
                            _ if json == "\"\"" && known.function.get(name).is_some() => {}
                            _ => known.function.take(name, json),
                        }
                    }
                }
                "id" if id.is_none() && known.fields.get("id").is_some() => {}
                _ => known.fields.take(name, json),
            }
        }
    }

    fn message(&self) -> String {
        let mut message = Members::new();
        message.json("role", self.role.as_deref().unwrap_or("\"assistant\""));
        // A call or a refusal without a text has none, and not an empty one.
        let has_text = |name: &str| self.message.get(name).is_some_and(|text| *text != Joined::Text(String::new()));
        let has_refusal = self.message.get("refusal").is_some_and(|refusal| matches!(refusal, Joined::Text(_)));
        match self.message.get("content").filter(|_| has_text("content") || self.calls.is_empty() && !has_refusal) {
            Some(Joined::Absent) | None => message.json("content", "null"),
            Some(content) => content.write("content", &mut message),
        }
        for (name, value) in self.message.iter().filter(|(name, _)| *name != "content") {
            value.write(name, &mut message);
        }
        if !self.calls.is_empty() {
            let calls: Vec<String> = self.calls.iter().map(Call::json).collect();
            message.json("tool_calls", &format!("[{}]", calls.join(",")));
        }
        message.end()
    }

    fn choice(&self) -> String {
        let mut choice = Members::new();
        choice.json("index", "0");
        match self.is_chat {
            true => choice.json("message", &self.message()),
            false => self.message.write(&mut choice),
        }
        if let Some(logprobs) = &self.logprobs {
            let mut joined = Members::new();
            logprobs.write(&mut joined);
            choice.json("logprobs", &joined.end());
        }
        for (name, json) in self.choice.iter() {
            if name != "logprobs" || self.logprobs.is_none() {
                choice.json(name, json);
            }
        }
        choice.end()
    }
}

impl Assembly for CompletionAssembly {
    fn take(&mut self, document: &Document<'_>) {
        if document.json == "[DONE]" {
            return;
        }
        let Ok(Some(chunk)) = Object::read(document.json) else { return self.is_exact = false };
        for (name, json) in chunk.fields().filter(|(name, _)| !ONLY_IN_CHUNKS.contains(name)) {
            self.top.take(name, json);
        }
        for choice in chunk.array("choices", &mut false).unwrap_or_default() {
            match Object::within(choice) {
                Ok(Some(choice)) => self.take_choice(&choice),
                _ => self.is_exact = false,
            }
        }
    }

    fn body(&mut self) -> Option<String> {
        if !self.has_choice {
            return None;
        }
        // It was asked for.
        self.is_exact &= self.top.get("usage").is_some_and(|usage| usage != "null");
        let mut body = Members::new();
        let (first, rest): (Vec<_>, Vec<_>) = self.top.iter().partition(|(name, _)| *name == "id");
        first.into_iter().for_each(|(name, json)| body.json(name, json));
        body.json("object", self.object);
        rest.into_iter().filter(|(name, _)| *name != "usage").for_each(|(name, json)| body.json(name, json));
        body.json("choices", &format!("[{}]", self.choice()));
        if let Some(usage) = self.top.get("usage").filter(|usage| *usage != "null") {
            body.json("usage", usage);
        }
        Some(body.end())
    }

    fn is_exact(&self) -> bool {
        self.is_exact
    }

    fn held_bytes(&self) -> usize {
        let calls = self
            .calls
            .iter()
            .map(|call| call.fields.held_bytes() + call.function.held_bytes() + call.arguments.held_bytes());
        self.top.held_bytes()
            + self.choice.held_bytes()
            + self.logprobs.as_ref().map_or(0, JoinedFields::held_bytes)
            + self.message.held_bytes()
            + calls.sum::<usize>()
    }
}

impl Call {
    fn json(&self) -> String {
        let mut function = Members::new();
        self.function.write(&mut function);
        match inside_is_empty(&self.arguments) {
            true => function.text("arguments", ""),
            false => self.arguments.write("arguments", &mut function),
        }
        let mut call = Members::new();
        self.fields.write(&mut call);
        call.json("function", &function.end());
        call.end()
    }
}

fn inside_is_empty(arguments: &Joined) -> bool {
    matches!(arguments, Joined::Absent | Joined::Null)
}
