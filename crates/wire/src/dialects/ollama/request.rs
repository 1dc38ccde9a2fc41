//! Requests for Ollama: written for a server, and read as a server.
//!
//! Invariant: a conversation that is read and written again is the same to the model; options that [`ChatRequest`] has
//! no place for stay the JSON they were.

use super::Method;
use crate::calls::{called_name, push_arguments_as_object};
use crate::error::WireError;
use crate::json_text::push_comma;
use crate::object::{Object, read_array, read_text, without_whitespace};
use crate::remainder::{Members, array_of, rest_of};
use tokrate_core::{ChatRequest, Content, Image, Message, Role, Tool};

/// The body of a request. What the dialect has no field for is left out: going on past the end, asking for token counts,
/// which always come, and choosing a tool. Entries of `options` and `tools` that came in [`ChatRequest::extra`] are put
/// beside those that are written here. `stream` is always written, because the dialect streams by default.
pub(crate) fn encode(method: Method, request: &ChatRequest) -> Vec<u8> {
    let extra = |wanted: &str| request.extra.iter().any(|(name, _)| name == wanted);
    let mut body = Members::new();
    if !extra("model") {
        body.text("model", &request.model);
    }
    match method {
        Method::Chat if extra("messages") => {}
        Method::Chat => push_messages(&request.messages, body.field("messages")),
        Method::Generate => push_prompt(&request.messages, &extra, &mut body),
    }
    if !extra("stream") {
        body.json("stream", if request.stream { "true" } else { "false" });
    }
    let options = options(request);
    if !options.is_empty() && !extra("options") {
        body.json("options", &options.clone().end());
    }
    let tools =
        array_of(&request.tools.iter().map(tool).collect::<Vec<_>>().iter().map(String::as_str).collect::<Vec<_>>());
    if let Some(tools) = &tools
        && !extra("tools")
    {
        body.json("tools", tools);
    }
    for (name, json) in &request.extra {
        match (name.as_str(), &tools) {
            ("options", _) => body.json(name, &options.clone().end_with(json)),
            ("tools", Some(tools)) => {
                let both = read_array(json).ok().flatten().and_then(|rest| array_of(&rest));
                let both = both.map(|rest| format!("{},{}", &tools[..tools.len() - 1], &rest[1..]));
                body.json(name, both.as_ref().unwrap_or(json));
            }
            _ => body.json(name, json),
        }
    }
    body.end().into_bytes()
}

/// Reads the body of a request.
///
/// # Errors
/// When the body is no JSON object, when `model`, or for `/api/chat` `messages`, is absent, or when a field has a value of a
/// wrong type.
pub(crate) fn decode(method: Method, body: &[u8]) -> Result<ChatRequest, WireError> {
    let text = std::str::from_utf8(body).map_err(|error| WireError::NotJson(error.to_string()))?;
    let root = Object::read(text)?.ok_or(WireError::NotAnObject)?;
    let mut request = ChatRequest { stream: true, include_usage: true, ..ChatRequest::default() };
    let (mut model, mut messages) = (None, None);
    let mut prompt = Prompt::default();
    for (name, json) in root.fields().filter(|(_, json)| *json != "null") {
        match (name, method) {
            ("model", _) => model = Some(read_text(json)?.ok_or(invalid("model", "a string"))?.into_owned()),
            ("stream", _) => request.stream = read_flag(json)?,
            ("options", _) => read_options(json, &mut request)?,
            ("tools", _) => read_tools(json, &mut request)?,
            ("messages", Method::Chat) => messages = Some(read_messages(json)?),
            ("system", Method::Generate) => {
                prompt.system = Some(read_text(json)?.ok_or(invalid("system", "a string"))?.into_owned());
            }
            ("prompt", Method::Generate) => {
                prompt.text = Some(read_text(json)?.ok_or(invalid("prompt", "a string"))?.into_owned());
            }
            ("images", Method::Generate) => prompt.images = read_images("images", json)?,
            _ => keep(&mut request, name, json),
        }
    }
    request.model = model.ok_or(WireError::Missing("model"))?;
    request.messages = match method {
        Method::Chat => messages.ok_or(WireError::Missing("messages"))?,
        Method::Generate => prompt.messages(),
    };
    Ok(request)
}

/// What `/api/generate` takes in place of messages.
#[derive(Default)]
struct Prompt {
    system: Option<String>,
    text: Option<String>,
    images: Vec<Content>,
}

impl Prompt {
    fn messages(self) -> Vec<Message> {
        let mut messages: Vec<Message> =
            self.system.into_iter().map(|system| Message::text(Role::System, system)).collect();
        let content: Vec<Content> = self.text.map(Content::Text).into_iter().chain(self.images).collect();
        // Without a prompt the model is only loaded.
        if !content.is_empty() {
            messages.push(Message { role: Role::User, content });
        }
        messages
    }
}

fn invalid(field: &'static str, expected: &'static str) -> WireError {
    WireError::Invalid { field, expected }
}

fn keep(request: &mut ChatRequest, name: &str, json: &str) {
    request.extra.retain(|(earlier, _)| earlier != name);
    request.extra.push((name.to_owned(), json.to_owned()));
}

fn read_flag(json: &str) -> Result<bool, WireError> {
    match json {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(invalid("stream", "true or false")),
    }
}

fn options(request: &ChatRequest) -> Members {
    let mut options = Members::new();
    if let Some(limit) = request.max_output_tokens {
        options.json("num_predict", &limit.to_string());
    }
    options.number("temperature", request.temperature);
    options.number("top_p", request.top_p);
    if let Some(seed) = request.seed {
        options.json("seed", &seed.to_string());
    }
    if !request.stop.is_empty() {
        options.texts("stop", &request.stop);
    }
    options
}

fn read_options(json: &str, request: &mut ChatRequest) -> Result<(), WireError> {
    let options = Object::read(json)?.ok_or(invalid("options", "an object"))?;
    let mut known = vec!["temperature", "top_p", "stop"];
    // Below zero, both mean things that have no place: no limit, a seed of chance.
    if let Some(limit) = options.get("num_predict").and_then(|json| json.parse().ok()) {
        request.max_output_tokens = Some(limit);
        known.push("num_predict");
    }
    if let Some(seed) = options.get("seed").and_then(|json| json.parse().ok()) {
        request.seed = Some(seed);
        known.push("seed");
    }
    // The standard library reads a number to the nearest float, which serde_json does not by default.
    let number = |name: &str, field: &'static str| match options.get(name) {
        None => Ok(None),
        Some(json) => match json.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Some(number)),
            _ => Err(invalid(field, "a number")),
        },
    };
    request.temperature = number("temperature", "options.temperature")?;
    request.top_p = number("top_p", "options.top_p")?;
    if let Some(json) = options.get("stop") {
        let expected = invalid("options.stop", "an array of strings");
        request.stop = match (read_text(json)?, read_array(json)?) {
            (Some(text), _) => vec![text.into_owned()],
            (None, Some(texts)) => read_texts(texts)?.ok_or(expected)?,
            (None, None) => return Err(expected),
        };
    }
    if let Some(rest) = rest_of(&options, &known) {
        keep(request, "options", &rest);
    }
    Ok(())
}

fn read_texts(elements: Vec<&str>) -> Result<Option<Vec<String>>, WireError> {
    let texts = elements.into_iter().map(|json| Ok(read_text(json)?.map(String::from)));
    texts.collect::<Result<Option<Vec<_>>, WireError>>()
}

/// One prompt is all that the endpoint takes: of several turns it is their texts in order, a blank line between them.
fn push_prompt(messages: &[Message], extra: &impl Fn(&str) -> bool, body: &mut Members) {
    let (system, turns): (Vec<&Message>, Vec<&Message>) =
        messages.iter().partition(|message| message.role == Role::System);
    let texts = |messages: &[&Message]| {
        let texts = messages.iter().map(|message| message.texts().collect::<String>());
        texts.collect::<Vec<_>>().join("\n\n")
    };
    if !system.is_empty() && !extra("system") {
        body.text("system", &texts(&system));
    }
    if !turns.is_empty() && !extra("prompt") {
        body.text("prompt", &texts(&turns));
    }
    let images: Vec<String> = turns.iter().flat_map(|message| images(&message.content)).collect();
    if !images.is_empty() && !extra("images") {
        body.texts("images", &images);
    }
}

fn push_messages(messages: &[Message], out: &mut Vec<u8>) {
    out.push(b'[');
    for message in messages {
        // Each result is a message of its own here.
        for content in &message.content {
            if let Content::ToolResult { id, name, text, .. } = content {
                push_result(id, if name.is_empty() { called_name(messages, id) } else { name }, text, out);
            }
        }
        let results = message.content.iter().filter(|content| matches!(content, Content::ToolResult { .. })).count();
        if results == 0 || results < message.content.len() {
            push_message(message, out);
        }
    }
    out.push(b']');
}

fn push_result(id: &str, name: &str, text: &str, out: &mut Vec<u8>) {
    let mut result = Members::new();
    result.text("role", "tool");
    result.text("content", text);
    if !name.is_empty() {
        result.text("tool_name", name);
    }
    if !id.is_empty() {
        result.text("tool_call_id", id);
    }
    push_comma(out);
    out.extend_from_slice(result.end().as_bytes());
}

fn push_message(message: &Message, out: &mut Vec<u8>) {
    let (mut text, mut thinking, mut calls) = (String::new(), String::new(), Vec::new());
    for content in &message.content {
        match content {
            Content::Text(words) => text.push_str(words),
            Content::Reasoning { text, .. } => thinking.push_str(text),
            Content::ToolCall { id, name, arguments } => calls.push(call(id, name, arguments)),
            // Pictures follow; results are written already; a part of another dialect has no place.
            Content::Image(_) | Content::ToolResult { .. } | Content::Other(_) => {}
        }
    }
    let mut members = Members::new();
    members.text("role", message.role.name());
    members.text("content", &text);
    if !thinking.is_empty() {
        members.text("thinking", &thinking);
    }
    let images: Vec<String> = images(&message.content).collect();
    if !images.is_empty() {
        members.texts("images", &images);
    }
    if let Some(calls) = array_of(&calls.iter().map(String::as_str).collect::<Vec<_>>()) {
        members.json("tool_calls", &calls);
    }
    push_comma(out);
    out.extend_from_slice(members.end().as_bytes());
}

fn call(id: &str, name: &str, arguments: &str) -> String {
    let mut function = Members::new();
    function.text("name", name);
    push_arguments_as_object(arguments, function.field("arguments"));
    let mut call = Members::new();
    if !id.is_empty() {
        call.text("id", id);
    }
    call.json("function", &function.end());
    call.end()
}

/// The pictures in base64. An address is sent as it is: the server refuses it, which is better than to answer without it.
fn images(contents: &[Content]) -> impl Iterator<Item = String> {
    contents.iter().filter_map(|content| match content {
        Content::Image(Image::Data { base64, .. }) => Some(base64.clone()),
        Content::Image(Image::Url(url)) => {
            Some(match url.strip_prefix("data:").and_then(|data| data.split_once("base64,")) {
                Some((_, base64)) => base64.to_owned(),
                None => url.clone(),
            })
        }
        _ => None,
    })
}

fn tool(tool: &Tool) -> String {
    let mut function = Members::new();
    function.text("name", &tool.name);
    if let Some(description) = &tool.description {
        function.text("description", description);
    }
    if let Some(schema) = &tool.parameters {
        function.json("parameters", schema);
    }
    let mut tool = Members::new();
    tool.text("type", "function");
    tool.json("function", &function.end());
    tool.end()
}

fn read_tools(json: &str, request: &mut ChatRequest) -> Result<(), WireError> {
    let expected = || invalid("tools", "an array of objects");
    let mut rest = Vec::new();
    for json in read_array(json)?.ok_or_else(expected)? {
        let tool = Object::read(json)?.ok_or_else(expected)?;
        let function = tool.object("function", &mut false)?.unwrap_or_default();
        match function.text("name", &mut false)? {
            Some(name) => request.tools.push(Tool {
                name: name.into_owned(),
                description: function.text("description", &mut false)?.map(String::from),
                parameters: function.get("parameters").map(str::to_owned),
            }),
            None => rest.push(json),
        }
    }
    if let Some(rest) = array_of(&rest) {
        keep(request, "tools", &rest);
    }
    Ok(())
}

fn read_messages(json: &str) -> Result<Vec<Message>, WireError> {
    let expected = || invalid("messages", "an array of objects with a role and a content");
    let mut messages = Vec::new();
    for json in read_array(json)?.ok_or_else(expected)? {
        messages.push(read_message(&Object::read(json)?.ok_or_else(expected)?)?);
    }
    Ok(messages)
}

fn read_message(message: &Object<'_>) -> Result<Message, WireError> {
    let text = |name: &str, field: &'static str| match message.get(name) {
        Some(json) => read_text(json)?.map(|text| Some(text.into_owned())).ok_or(invalid(field, "a string")),
        None => Ok(None),
    };
    let role = match message.text("role", &mut false)?.as_deref() {
        Some("system" | "developer") => Role::System,
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("tool") => Role::Tool,
        _ => return Err(invalid("messages[].role", "system, user, assistant or tool")),
    };
    let words = text("content", "messages[].content")?;
    if role == Role::Tool {
        let id = text("tool_call_id", "messages[].tool_call_id")?.unwrap_or_default();
        let name = text("tool_name", "messages[].tool_name")?.unwrap_or_default();
        let result = Content::ToolResult { id, name, text: words.unwrap_or_default(), failed: false };
        return Ok(Message { role, content: vec![result] });
    }
    let mut content = Vec::new();
    if let Some(thinking) = text("thinking", "messages[].thinking")?.filter(|thinking| !thinking.is_empty()) {
        content.push(Content::Reasoning { text: thinking, signature: None });
    }
    content.extend(words.clone().filter(|words| !words.is_empty()).map(Content::Text));
    if let Some(json) = message.get("images") {
        content.extend(read_images("messages[].images", json)?);
    }
    if let Some(json) = message.get("tool_calls") {
        read_calls(json, &mut content)?;
    }
    if content.is_empty() {
        content.extend(words.map(Content::Text));
    }
    Ok(Message { role, content })
}

fn read_calls(json: &str, content: &mut Vec<Content>) -> Result<(), WireError> {
    let expected = || invalid("messages[].tool_calls", "an array of objects with a function");
    for json in read_array(json)?.ok_or_else(expected)? {
        let call = Object::read(json)?.ok_or_else(expected)?;
        let function = call.object("function", &mut false)?.ok_or_else(expected)?;
        let arguments = match function.get("arguments") {
            Some(json) => read_text(json)?.unwrap_or_else(|| without_whitespace(json)).into_owned(),
            None => "{}".to_owned(),
        };
        content.push(Content::ToolCall {
            id: call.text("id", &mut false)?.unwrap_or_default().into_owned(),
            name: function.text("name", &mut false)?.ok_or_else(expected)?.into_owned(),
            arguments,
        });
    }
    Ok(())
}

fn read_images(field: &'static str, json: &str) -> Result<Vec<Content>, WireError> {
    let expected = || invalid(field, "an array of pictures in base64");
    let texts = read_texts(read_array(json)?.ok_or_else(expected)?)?.ok_or_else(expected)?;
    Ok(texts.into_iter().map(|text| Content::Image(image(text))).collect())
}

/// The dialect has no media type for a picture; its first bytes show it.
fn image(text: String) -> Image {
    const STARTS: [(&str, &str); 4] =
        [("/9j/", "image/jpeg"), ("R0lGOD", "image/gif"), ("UklGR", "image/webp"), ("iVBORw0KGgo", "image/png")];
    if text.starts_with("http://") || text.starts_with("https://") {
        return Image::Url(text);
    }
    let known = STARTS.iter().find(|(start, _)| text.starts_with(start));
    Image::Data { media_type: known.map_or("image/png", |(_, media_type)| media_type).to_owned(), base64: text }
}

#[cfg(test)]
mod tests;
