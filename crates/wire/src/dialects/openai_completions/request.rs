//! Requests for OpenAI's text completions: written for a server, and read as a server.
//!
//! Invariant: a prompt is one text; a conversation is joined into one by writing its texts one below the other, without
//! roles.

use crate::dialects::openai_chat::{Limits, push_sampling, read_sampling};
use crate::error::WireError;
use crate::object::{read_array, read_text};
use crate::request_body::{Body, keep, read_body, read_required_text};
use tokrate_core::{ChatRequest, Message, Role};

/// The body of a request. Tools and pictures have no place in it.
pub(crate) fn encode(request: &ChatRequest) -> Vec<u8> {
    let mut body = Body::new(request);
    body.text("model", &request.model);
    body.text("prompt", &prompt_of(request));
    // The newer name of the limit does not exist here.
    let request = ChatRequest { legacy_max_tokens: true, extra: Vec::new(), ..request.clone() };
    push_sampling(&request, &mut body);
    body.end()
}

/// The texts of a conversation as one.
pub(crate) fn prompt_of(request: &ChatRequest) -> String {
    request.messages.iter().flat_map(Message::texts).collect::<Vec<&str>>().join("\n\n")
}

/// Reads the body of a request. Of several prompts only the first is taken, and the others are refused.
pub(crate) fn decode(body: &[u8]) -> Result<ChatRequest, WireError> {
    let object = read_body(body)?;
    let mut request = ChatRequest { model: read_required_text(&object, "model")?, ..ChatRequest::default() };
    let prompt = object.get("prompt").ok_or(WireError::Missing("prompt"))?;
    request.messages.push(Message::text(Role::User, read_prompt(prompt)?));
    let mut limits = Limits::default();
    for (name, json) in object.fields() {
        match name {
            "model" | "prompt" => {}
            _ if json == "null" => {}
            "max_completion_tokens" => keep(&mut request.extra, name, json),
            _ => read_sampling(name, json, &mut request, &mut limits)?,
        }
    }
    limits.settle(&mut request);
    Ok(request)
}

fn read_prompt(json: &str) -> Result<String, WireError> {
    let invalid = || WireError::Invalid { field: "prompt", expected: "a string, or an array of one string" };
    if let Some(text) = read_text(json)? {
        return Ok(text.into_owned());
    }
    match read_array(json)?.as_deref() {
        Some([one]) => Ok(read_text(one)?.ok_or_else(invalid)?.into_owned()),
        _ => Err(invalid()),
    }
}
