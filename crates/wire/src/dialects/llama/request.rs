//! Requests for llama.cpp's native completion: written for a server, and read as a server.
//!
//! Invariant: a prompt is one text; a conversation is joined into one as for OpenAI's text completions.

use crate::dialects::openai_completions::prompt_of;
use crate::error::WireError;
use crate::json_text::push_string;
use crate::object::read_text;
use crate::request_body::{Body, keep, read_body, read_flag, read_limit, read_number, read_strings};
use tokrate_core::{ChatRequest, Message, Role};

/// The body of a request. The server has one model, so that its name is only sent for those who read along.
pub(crate) fn encode(request: &ChatRequest) -> Vec<u8> {
    let mut body = Body::new(request);
    if !request.model.is_empty() {
        body.text("model", &request.model);
    }
    body.text("prompt", &prompt_of(request));
    if request.stream {
        body.plain("stream", "true");
    }
    if let Some(limit) = request.max_output_tokens {
        body.plain("n_predict", &limit.to_string());
    }
    if request.ignore_eos {
        body.plain("ignore_eos", "true");
    }
    body.number("temperature", request.temperature);
    body.number("top_p", request.top_p);
    body.list("stop", &request.stop, |stop, out| push_string(stop, out));
    if let Some(seed) = request.seed {
        body.plain("seed", &seed.to_string());
    }
    body.end()
}

/// Reads the body of a request.
pub(crate) fn decode(body: &[u8]) -> Result<ChatRequest, WireError> {
    let object = read_body(body)?;
    let prompt = object.get("prompt").ok_or(WireError::Missing("prompt"))?;
    let prompt = read_text(prompt)?.ok_or(WireError::Invalid { field: "prompt", expected: "a string" })?;
    let mut request = ChatRequest { messages: vec![Message::text(Role::User, prompt)], ..ChatRequest::default() };
    for (name, json) in object.fields() {
        match name {
            "prompt" => {}
            _ if json == "null" => {}
            "model" => {
                let invalid = WireError::Invalid { field: "model", expected: "a string" };
                request.model = read_text(json)?.ok_or(invalid)?.into_owned();
            }
            "stream" => request.stream = read_flag("stream", json)?,
            // -1 means no limit.
            "n_predict" if json == "-1" => keep(&mut request.extra, name, json),
            "n_predict" => request.max_output_tokens = Some(read_limit("n_predict", json)?),
            "ignore_eos" => request.ignore_eos = read_flag("ignore_eos", json)?,
            "temperature" => request.temperature = Some(read_number("temperature", json)?),
            "top_p" => request.top_p = Some(read_number("top_p", json)?),
            "stop" => request.stop = read_strings("stop", json)?,
            "seed" => match json.parse() {
                Ok(seed) => request.seed = Some(seed),
                Err(_) => keep(&mut request.extra, name, json),
            },
            _ => keep(&mut request.extra, name, json),
        }
    }
    // The last event always holds the counts.
    request.include_usage = request.stream;
    Ok(request)
}
