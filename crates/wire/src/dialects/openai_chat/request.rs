//! Requests for OpenAI's chat completions: written for a server, and read as a server.
//!
//! Invariant: a conversation that is read and written again is the same to the model.

use crate::error::WireError;
use crate::json_text::{push_comma, push_string};
use crate::object::{Object, read_array, read_text};
use crate::remainder::Members;
use crate::request_body::{
    Body, keep, push_list, read_body, read_flag, read_limit, read_number, read_required_text, read_string_or_strings,
};
use tokrate_core::{ChatRequest, Content, Image, Message, Role, Tool, ToolChoice};

/// The body of a request. Token counts are asked for only together with a stream, because OpenAI refuses `stream_options`
/// without one.
pub(crate) fn encode(request: &ChatRequest) -> Vec<u8> {
    let mut body = Body::new(request);
    body.text("model", &request.model);
    if let Some(out) = body.field("messages") {
        push_messages(&request.messages, out);
    }
    push_sampling(request, &mut body);
    body.list("tools", &request.tools, push_tool);
    if let Some(choice) = &request.tool_choice
        && let Some(out) = body.field("tool_choice")
    {
        push_tool_choice(choice, out);
    }
    body.end()
}

/// The fields that chat and text completions share.
pub(crate) fn push_sampling(request: &ChatRequest, body: &mut Body<'_>) {
    if request.stream {
        body.plain("stream", "true");
        if request.include_usage {
            body.plain("stream_options", r#"{"include_usage":true}"#);
        }
    }
    if let Some(limit) = request.max_output_tokens {
        let name = if request.legacy_max_tokens { "max_tokens" } else { "max_completion_tokens" };
        body.plain(name, &limit.to_string());
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
}

/// A tool with its `strict` flag.
pub(super) fn strict_tool(tool: &Tool, strict: bool) -> String {
    let mut function = Members::new();
    function.text("name", &tool.name);
    if let Some(description) = &tool.description {
        function.text("description", description);
    }
    if let Some(schema) = &tool.parameters {
        function.json("parameters", schema);
    }
    function.json("strict", if strict { "true" } else { "false" });
    format!("{{\"type\":\"function\",\"function\":{}}}", function.end())
}

/// Reads the body of a request.
pub(crate) fn decode(body: &[u8]) -> Result<ChatRequest, WireError> {
    let object = read_body(body)?;
    let mut request = ChatRequest { model: read_required_text(&object, "model")?, ..ChatRequest::default() };
    let messages = object.get("messages").ok_or(WireError::Missing("messages"))?;
    let expected = "an array of objects with role and content";
    for json in read_array(messages)?.ok_or(WireError::Invalid { field: "messages", expected })? {
        let message = Object::read(json)?.ok_or(WireError::Invalid { field: "messages", expected })?;
        request.messages.push(read_message(&message)?);
    }
    let mut limits = Limits::default();
    for (name, json) in object.fields() {
        match name {
            "model" | "messages" => {}
            _ if json == "null" => {}
            "tools" => match read_tools(json)? {
                Some(tools) => request.tools = tools,
                None => keep(&mut request.extra, name, json),
            },
            "tool_choice" => match read_tool_choice(json)? {
                Some(choice) => request.tool_choice = Some(choice),
                None => keep(&mut request.extra, name, json),
            },
            _ => read_sampling(name, json, &mut request, &mut limits)?,
        }
    }
    limits.settle(&mut request);
    Ok(request)
}

/// The two names of the output limit, as they were set.
#[derive(Default)]
pub(crate) struct Limits {
    newer: Option<u32>,
    older: Option<u32>,
}

impl Limits {
    /// The newer name counts; the older one survives beside it.
    pub(crate) fn settle(self, request: &mut ChatRequest) {
        request.max_output_tokens = self.newer.or(self.older);
        request.legacy_max_tokens = self.newer.is_none() && self.older.is_some();
        if let (Some(_), Some(older)) = (self.newer, self.older) {
            keep(&mut request.extra, "max_tokens", &older.to_string());
        }
    }
}

/// Reads a field that chat and text completions share, or keeps it.
pub(crate) fn read_sampling(
    name: &str,
    json: &str,
    request: &mut ChatRequest,
    limits: &mut Limits,
) -> Result<(), WireError> {
    match name {
        "stream" => request.stream = read_flag("stream", json)?,
        "stream_options" => read_stream_options(json, request)?,
        "max_completion_tokens" => limits.newer = Some(read_limit("max_completion_tokens", json)?),
        "max_tokens" => limits.older = Some(read_limit("max_tokens", json)?),
        "ignore_eos" => request.ignore_eos = read_flag("ignore_eos", json)?,
        "temperature" => request.temperature = Some(read_number("temperature", json)?),
        "top_p" => request.top_p = Some(read_number("top_p", json)?),
        "stop" => request.stop = read_string_or_strings("stop", json)?,
        "seed" => match json.parse() {
            Ok(seed) => request.seed = Some(seed),
            Err(_) => keep(&mut request.extra, name, json),
        },
        _ => keep(&mut request.extra, name, json),
    }
    Ok(())
}

/// `include_usage` has a name of its own; options beside it are kept as they are.
fn read_stream_options(json: &str, request: &mut ChatRequest) -> Result<(), WireError> {
    let invalid = WireError::Invalid { field: "stream_options", expected: "an object" };
    let options = Object::read(json)?.ok_or(invalid)?;
    request.include_usage = options.get("include_usage") == Some("true");
    if options.fields().any(|(name, _)| name != "include_usage") {
        keep(&mut request.extra, "stream_options", json);
    }
    Ok(())
}

fn read_message(message: &Object<'_>) -> Result<Message, WireError> {
    let invalid = |field, expected| WireError::Invalid { field, expected };
    let mut wrong = false;
    let role = match message.text("role", &mut wrong)?.as_deref() {
        Some("system" | "developer") => Role::System,
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("tool" | "function") => Role::Tool,
        _ => return Err(invalid("messages[].role", "system, developer, user, assistant or tool")),
    };
    let mut content = Vec::new();
    let mut text = |name: &str| -> Result<String, WireError> {
        Ok(message.text(name, &mut wrong)?.unwrap_or_default().into_owned())
    };
    let reasoning = text("reasoning_content")?;
    let (id, name) = (text("tool_call_id")?, text("name")?);
    if !reasoning.is_empty() {
        content.push(Content::Reasoning { text: reasoning, signature: None });
    }
    read_content(message, &mut content)?;
    if role == Role::Tool {
        let text = content.iter().filter_map(|part| match part {
            Content::Text(text) => Some(text.as_str()),
            _ => None,
        });
        let result = Content::ToolResult { id, name, text: text.collect(), failed: false };
        return Ok(Message { role, content: vec![result] });
    }
    for call in message.array("tool_calls", &mut wrong)? {
        read_call(call, &mut content)?;
    }
    Ok(Message { role, content })
}

fn read_content(message: &Object<'_>, content: &mut Vec<Content>) -> Result<(), WireError> {
    let Some(json) = message.get("content") else { return Ok(()) };
    if let Some(text) = read_text(json)? {
        content.push(Content::Text(text.into_owned()));
        return Ok(());
    }
    let invalid = WireError::Invalid { field: "messages[].content", expected: "a string or an array of parts" };
    for part in read_array(json)?.ok_or(invalid)? {
        content.push(read_part(part)?);
    }
    Ok(())
}

fn read_part(json: &str) -> Result<Content, WireError> {
    if let Some(text) = read_text(json)? {
        return Ok(Content::Text(text.into_owned()));
    }
    let other = || Content::Other(json.to_owned());
    let Some(part) = Object::read(json)? else { return Ok(other()) };
    let mut wrong = false;
    let kind = part.text("type", &mut wrong)?;
    if matches!(kind.as_deref(), None | Some("text"))
        && part.fields().all(|(name, _)| name == "type" || name == "text")
        && let Some(text) = part.text("text", &mut wrong)?
    {
        return Ok(Content::Text(text.into_owned()));
    }
    if kind.as_deref() == Some("image_url")
        && let Some(image) = part.object("image_url", &mut wrong)?
        && image.fields().all(|(name, _)| name == "url")
        && let Some(url) = image.text("url", &mut wrong)?
    {
        return Ok(Content::Image(image_of(&url)));
    }
    Ok(other())
}

/// A picture at a URL, which may be the picture itself.
pub(crate) fn image_of(url: &str) -> Image {
    let data = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    match data {
        Some((media_type, base64)) => Image::Data { media_type: media_type.to_owned(), base64: base64.to_owned() },
        None => Image::Url(url.to_owned()),
    }
}

/// The URL of a picture.
pub(crate) fn url_of(image: &Image) -> String {
    match image {
        Image::Url(url) => url.clone(),
        Image::Data { media_type, base64 } => format!("data:{media_type};base64,{base64}"),
    }
}

fn read_call(json: &str, content: &mut Vec<Content>) -> Result<(), WireError> {
    let invalid = || WireError::Invalid { field: "messages[].tool_calls", expected: "an array of calls of functions" };
    let mut wrong = false;
    let call = Object::read(json)?.ok_or_else(invalid)?;
    let Some(function) = call.object("function", &mut wrong)? else {
        content.push(Content::Other(json.to_owned()));
        return Ok(());
    };
    content.push(Content::ToolCall {
        id: call.text("id", &mut wrong)?.unwrap_or_default().into_owned(),
        name: function.text("name", &mut wrong)?.ok_or_else(invalid)?.into_owned(),
        arguments: function.text("arguments", &mut wrong)?.unwrap_or_default().into_owned(),
    });
    Ok(())
}

/// The tools; `None` if one of them has more to it than has a place.
fn read_tools(json: &str) -> Result<Option<Vec<Tool>>, WireError> {
    let invalid = || WireError::Invalid { field: "tools", expected: "an array of functions" };
    let mut tools = Vec::new();
    for json in read_array(json)?.ok_or_else(invalid)? {
        let tool = Object::read(json)?.ok_or_else(invalid)?;
        let mut wrong = false;
        let Some(function) = tool.object("function", &mut wrong)? else { return Ok(None) };
        let known = ["name", "description", "parameters"];
        let plain = tool.fields().all(|(name, _)| name == "type" || name == "function")
            && function.fields().all(|(name, _)| known.contains(&name));
        let name = function.text("name", &mut wrong)?.ok_or_else(invalid)?.into_owned();
        if !plain {
            return Ok(None);
        }
        tools.push(Tool {
            name,
            description: function.text("description", &mut wrong)?.map(|text| text.into_owned()),
            parameters: function.get("parameters").map(str::to_owned),
        });
    }
    Ok(Some(tools))
}

fn read_tool_choice(json: &str) -> Result<Option<ToolChoice>, WireError> {
    if let Some(word) = read_text(json)? {
        return Ok(match &*word {
            "auto" => Some(ToolChoice::Auto),
            "none" => Some(ToolChoice::Never),
            "required" => Some(ToolChoice::Required),
            _ => None,
        });
    }
    let Some(choice) = Object::read(json)? else { return Ok(None) };
    let mut wrong = false;
    let Some(function) = choice.object("function", &mut wrong)? else { return Ok(None) };
    Ok(function.text("name", &mut wrong)?.map(|name| ToolChoice::Named(name.into_owned())))
}

fn push_messages(messages: &[Message], out: &mut Vec<u8>) {
    out.push(b'[');
    for message in messages {
        let (results, others): (Vec<&Content>, Vec<&Content>) =
            message.content.iter().partition(|content| matches!(content, Content::ToolResult { .. }));
        for result in &results {
            push_result(result, out);
        }
        if results.is_empty() || !others.is_empty() {
            push_message(message.role, &others, out);
        }
    }
    out.push(b']');
}

fn begin_message(role: &str, out: &mut Vec<u8>) {
    push_comma(out);
    out.extend_from_slice(b"{\"role\":\"");
    out.extend_from_slice(role.as_bytes());
    out.push(b'"');
}

fn push_named(name: &str, text: &str, out: &mut Vec<u8>) {
    out.push(b',');
    push_string(name, out);
    out.push(b':');
    push_string(text, out);
}

/// Each tool's result is a message of its own.
fn push_result(content: &Content, out: &mut Vec<u8>) {
    let Content::ToolResult { id, name, text, .. } = content else { return };
    begin_message("tool", out);
    if !id.is_empty() {
        push_named("tool_call_id", id, out);
    }
    if !name.is_empty() {
        push_named("name", name, out);
    }
    push_named("content", text, out);
    out.push(b'}');
}

fn push_message(role: Role, content: &[&Content], out: &mut Vec<u8>) {
    begin_message(role.name(), out);
    for part in content {
        if let Content::Reasoning { text, .. } = part {
            push_named("reasoning_content", text, out);
        }
    }
    let parts: Vec<&&Content> = content
        .iter()
        .filter(|part| matches!(part, Content::Text(_) | Content::Image(_) | Content::Other(_)))
        .collect();
    out.extend_from_slice(b",\"content\":");
    let calls: Vec<&&Content> = content.iter().filter(|part| matches!(part, Content::ToolCall { .. })).collect();
    match parts[..] {
        [] if calls.is_empty() => push_string("", out),
        [] => out.extend_from_slice(b"null"),
        [Content::Text(text)] => push_string(text, out),
        _ => push_list(&parts, out, |part, out| push_part(part, out)),
    }
    if !calls.is_empty() {
        out.extend_from_slice(b",\"tool_calls\":");
        push_list(&calls, out, |call, out| push_call(call, out));
    }
    out.push(b'}');
}

fn push_part(part: &Content, out: &mut Vec<u8>) {
    match part {
        Content::Text(text) => {
            out.extend_from_slice(b"{\"type\":\"text\",\"text\":");
            push_string(text, out);
            out.push(b'}');
        }
        Content::Image(image) => {
            out.extend_from_slice(b"{\"type\":\"image_url\",\"image_url\":{\"url\":");
            push_string(&url_of(image), out);
            out.extend_from_slice(b"}}");
        }
        Content::Other(json) => out.extend_from_slice(json.as_bytes()),
        Content::Reasoning { .. } | Content::ToolCall { .. } | Content::ToolResult { .. } => {}
    }
}

fn push_call(call: &Content, out: &mut Vec<u8>) {
    let Content::ToolCall { id, name, arguments } = call else { return };
    out.extend_from_slice(b"{\"id\":");
    push_string(id, out);
    out.extend_from_slice(b",\"type\":\"function\",\"function\":{\"name\":");
    push_string(name, out);
    push_named("arguments", arguments, out);
    out.extend_from_slice(b"}}");
}

fn push_tool(tool: &Tool, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"type\":\"function\",\"function\":{\"name\":");
    push_string(&tool.name, out);
    if let Some(description) = &tool.description {
        push_named("description", description, out);
    }
    if let Some(parameters) = &tool.parameters {
        out.extend_from_slice(b",\"parameters\":");
        out.extend_from_slice(parameters.as_bytes());
    }
    out.extend_from_slice(b"}}");
}

fn push_tool_choice(choice: &ToolChoice, out: &mut Vec<u8>) {
    match choice {
        ToolChoice::Auto => push_string("auto", out),
        ToolChoice::Never => push_string("none", out),
        ToolChoice::Required => push_string("required", out),
        ToolChoice::Named(name) => {
            out.extend_from_slice(b"{\"type\":\"function\",\"function\":{\"name\":");
            push_string(name, out);
            out.extend_from_slice(b"}}");
        }
    }
}
