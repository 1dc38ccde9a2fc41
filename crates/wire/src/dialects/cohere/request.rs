//! Requests for Cohere's chat: written for a server, and read as a server.
//!
//! Messages and tools are written and read by OpenAI's chat, whose forms they have; the fields around them have other names here. Invariant: a
//! conversation that is read and written again is the same to the model, but for earlier reasoning.

use crate::dialects::openai_chat::request as chat;
use crate::error::WireError;
use crate::object::Object;
use crate::remainder::Members;
use crate::request_body::read_body;
use tokrate_core::{ChatRequest, Content, ToolChoice};

/// Names here and in OpenAI's chat.
const NAMES: [(&str, &str); 2] = [("p", "top_p"), ("stop_sequences", "stop")];

/// The body of a request. What the dialect has no field for is left out: going on past the end, the choice of a certain tool, and asking
/// for token counts, which always come.
pub(crate) fn encode(request: &ChatRequest) -> Vec<u8> {
    let mut plain = ChatRequest {
        legacy_max_tokens: true,
        include_usage: false,
        ignore_eos: false,
        extra: Vec::new(),
        ..request.clone()
    };
    for message in &mut plain.messages {
        message.content.retain(|content| !matches!(content, Content::Reasoning { .. }));
        for content in &mut message.content {
            // Results do not name their tool here.
            if let Content::ToolResult { name, .. } = content {
                name.clear();
            }
        }
    }
    plain.messages.retain(|message| !message.content.is_empty());
    let body = chat::encode(&plain);
    let text = String::from_utf8(body).unwrap_or_default();
    let object = Object::read(&text).ok().flatten().unwrap_or_default();
    let is_extra = |name: &str| request.extra.iter().any(|(extra, _)| extra == name);
    let mut own = Members::new();
    for (name, json) in object.fields() {
        let name = NAMES.iter().find(|(_, other)| *other == name).map_or(name, |(own, _)| *own);
        if !is_extra(name) && name != "tool_choice" {
            own.json(name, json);
        }
    }
    let choice = match request.tool_choice {
        Some(ToolChoice::Required | ToolChoice::Named(_)) => Some("REQUIRED"),
        Some(ToolChoice::Never) => Some("NONE"),
        Some(ToolChoice::Auto) | None => None,
    };
    if let Some(choice) = choice.filter(|_| !is_extra("tool_choice")) {
        own.text("tool_choice", choice);
    }
    for (name, json) in &request.extra {
        own.json(name, json);
    }
    own.end().into_bytes()
}

/// Reads the body of a request.
pub(crate) fn decode(body: &[u8]) -> Result<ChatRequest, WireError> {
    let object = read_body(body)?;
    let mut plain = Members::new();
    for (name, json) in object.fields() {
        let name = NAMES.iter().find(|(own, _)| *own == name).map_or(name, |(_, other)| *other);
        match (name, json) {
            ("tool_choice", "\"REQUIRED\"") => plain.text(name, "required"),
            ("tool_choice", "\"NONE\"") => plain.text(name, "none"),
            _ => plain.json(name, json),
        }
    }
    let mut request = chat::decode(plain.end().as_bytes())?;
    request.legacy_max_tokens = false;
    // The dialect always sends them.
    request.include_usage = request.stream;
    Ok(request)
}

/// A certain tool cannot be chosen here: it is the only one that is shown, and one must be called.
pub(super) fn prepare_import(request: &mut ChatRequest) {
    if let Some(ToolChoice::Named(named)) = &request.tool_choice
        && request.tools.iter().any(|tool| tool.name == *named)
    {
        let named = named.clone();
        request.tools.retain(|tool| tool.name == named);
        request.tool_choice = Some(ToolChoice::Required);
    }
}
