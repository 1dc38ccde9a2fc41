//! Requests for the Responses API: written for a server, and read as a server. Responses kept by the server are not
//! resolved.
//!
//! Invariant: a conversation that is read and written again is the same to the model. The output of one turn is one
//! message here and several items there: reasoning opens a message, a text joins reasoning before it, a call joins
//! whatever the model wrote before it.

use crate::error::WireError;
use crate::json_text::push_string;
use crate::object::{Object, read_array, read_text};
use crate::remainder::Members;
use crate::request_body::{Body, keep, read_flag, read_limit, read_number, read_required_text};
use serde_json::value::RawValue;
use tokrate_core::{ChatRequest, Content, Image, Message, Role, Tool, ToolChoice};

const ITEM: &str = "input[]";

/// The body of a request. What the dialect has no field for is left out: the seed, stop texts, and asking for token counts,
/// which always come.
pub(crate) fn encode(request: &ChatRequest) -> Vec<u8> {
    let mut body = Body::new(request);
    body.text("model", &request.model);
    let mut messages = request.messages.as_slice();
    if let [Message { role: Role::System, content }, rest @ ..] = messages
        && let [Content::Text(instructions)] = content.as_slice()
        && !rest.is_empty()
    {
        body.text("instructions", instructions);
        messages = rest;
    }
    if let Some(out) = body.field("input") {
        push_input(messages, out);
    }
    if request.stream {
        body.plain("stream", "true");
    }
    if let Some(limit) = request.max_output_tokens {
        body.plain("max_output_tokens", &limit.to_string());
    }
    if request.ignore_eos {
        body.plain("ignore_eos", "true");
    }
    body.number("temperature", request.temperature);
    body.number("top_p", request.top_p);
    if !request.tools.is_empty()
        && let Some(out) = body.field("tools")
    {
        out.push(b'[');
        for tool in &request.tools {
            push_tool(tool, out);
        }
        out.push(b']');
    }
    if let Some(choice) = &request.tool_choice
        && let Some(out) = body.field("tool_choice")
    {
        match choice {
            ToolChoice::Auto => push_string("auto", out),
            ToolChoice::Never => push_string("none", out),
            ToolChoice::Required => push_string("required", out),
            ToolChoice::Named(name) => {
                out.extend_from_slice(br#"{"type":"function","name":"#);
                push_string(name, out);
                out.push(b'}');
            }
        }
    }
    body.end()
}

/// A tool with its `strict` flag.
pub(super) fn strict_tool(tool: &Tool, strict: bool) -> String {
    let mut own = Members::new();
    own.text("type", "function");
    own.text("name", &tool.name);
    if let Some(description) = &tool.description {
        own.text("description", description);
    }
    if let Some(schema) = &tool.parameters {
        own.json("parameters", schema);
    }
    own.json("strict", if strict { "true" } else { "false" });
    own.end()
}

/// Reads the body of a request.
pub(crate) fn decode(body: &[u8]) -> Result<ChatRequest, WireError> {
    let text = std::str::from_utf8(body).map_err(|error| WireError::NotJson(error.to_string()))?;
    let object = Object::read(text)?.ok_or(WireError::NotAnObject)?;
    let mut request = ChatRequest { model: read_required_text(&object, "model")?, ..ChatRequest::default() };
    if let Some(instructions) = object.get("instructions") {
        let invalid = WireError::Invalid { field: "instructions", expected: "a string" };
        request.messages.push(Message::text(Role::System, read_text(instructions)?.ok_or(invalid)?));
    }
    read_input(object.get("input").ok_or(WireError::Missing("input"))?, &mut request.messages)?;
    for (name, json) in object.fields() {
        match name {
            "model" | "instructions" | "input" => {}
            _ if json == "null" => {}
            "stream" => request.stream = read_flag("stream", json)?,
            "max_output_tokens" => request.max_output_tokens = Some(read_limit("max_output_tokens", json)?),
            "ignore_eos" => request.ignore_eos = read_flag("ignore_eos", json)?,
            "temperature" => request.temperature = Some(read_number("temperature", json)?),
            "top_p" => request.top_p = Some(read_number("top_p", json)?),
            "tools" => {
                let (tools, whole) = read_tools(json)?;
                request.tools = tools;
                if !whole {
                    keep(&mut request.extra, name, json);
                }
            }
            "tool_choice" => {
                request.tool_choice = read_tool_choice(json)?;
                if request.tool_choice.is_none() {
                    keep(&mut request.extra, name, json);
                }
            }
            _ => keep(&mut request.extra, name, json),
        }
    }
    // The dialect always sends them.
    request.include_usage = request.stream;
    Ok(request)
}

fn comma(out: &mut Vec<u8>) {
    if !matches!(out.last(), Some(b'[')) {
        out.push(b',');
    }
}

/// A single text of the user stands for itself, everything else is a list of items.
fn push_input(messages: &[Message], out: &mut Vec<u8>) {
    if let [Message { role: Role::User, content }] = messages
        && let [Content::Text(text)] = content.as_slice()
    {
        return push_string(text, out);
    }
    out.push(b'[');
    for message in messages {
        push_items(message, out);
    }
    out.push(b']');
}

/// Writes a message as items: its texts and pictures together, everything else apart.
fn push_items(message: &Message, out: &mut Vec<u8>) {
    let mut contents = message.content.as_slice();
    if contents.is_empty() {
        push_message(message.role, &[], out);
    }
    while let Some((content, after)) = contents.split_first() {
        let parts = contents.iter().take_while(|content| is_part(message.role, content)).count();
        if parts > 0 {
            push_message(message.role, &contents[..parts], out);
            contents = &contents[parts..];
            continue;
        }
        contents = after;
        comma(out);
        match content {
            Content::Reasoning { text, signature } => push_reasoning(text, signature.as_deref(), out),
            Content::ToolCall { id, name, arguments } => {
                out.extend_from_slice(br#"{"type":"function_call","call_id":"#);
                push_string(id, out);
                out.extend_from_slice(b",\"name\":");
                push_string(name, out);
                out.extend_from_slice(b",\"arguments\":");
                push_string(arguments, out);
                out.push(b'}');
            }
            Content::ToolResult { id, text, .. } => {
                // What follows a result in its own message is part of it.
                let more = if message.role == Role::Tool {
                    after.iter().take_while(|content| is_part(message.role, content)).count()
                } else {
                    0
                };
                push_result(id, text, &after[..more], out);
                contents = &after[more..];
            }
            Content::Other(json) => push_other(json, out),
            Content::Text(_) | Content::Image(_) => unreachable!("these are parts"),
        }
    }
}

/// Whether it belongs into a message of that role, and is no item of its own. Items of other kinds stand as the model's.
fn is_part(role: Role, content: &Content) -> bool {
    match content {
        Content::Text(_) | Content::Image(_) => true,
        Content::Other(_) if role != Role::Assistant => true,
        Content::Other(json) => {
            let kind = Object::read(json).ok().flatten().and_then(|object| object.text("type", &mut false).ok()?);
            kind.is_some_and(|kind| kind.starts_with("input_") || kind.starts_with("output_") || kind == "refusal")
        }
        _ => false,
    }
}

fn push_message(role: Role, parts: &[Content], out: &mut Vec<u8>) {
    comma(out);
    out.extend_from_slice(match role {
        Role::System => br#"{"role":"system","content":"#,
        // The result of a tool without the identifier of a call.
        Role::User | Role::Tool => br#"{"role":"user","content":"#,
        Role::Assistant => br#"{"role":"assistant","content":"#,
    });
    if let [Content::Text(text)] = parts {
        push_string(text, out);
    } else {
        push_parts(role, parts, out);
    }
    out.push(b'}');
}

fn push_parts(role: Role, parts: &[Content], out: &mut Vec<u8>) {
    out.push(b'[');
    for part in parts {
        comma(out);
        match part {
            Content::Text(text) => {
                let kind = if role == Role::Assistant { "output_text" } else { "input_text" };
                out.extend_from_slice(b"{\"type\":\"");
                out.extend_from_slice(kind.as_bytes());
                out.extend_from_slice(b"\",\"text\":");
                push_string(text, out);
                out.push(b'}');
            }
            Content::Image(image) => {
                out.extend_from_slice(br#"{"type":"input_image","image_url":"#);
                match image {
                    Image::Url(url) => push_string(url, out),
                    Image::Data { media_type, base64 } => {
                        push_string(&format!("data:{media_type};base64,{base64}"), out);
                    }
                }
                out.push(b'}');
            }
            Content::Other(json) => push_other(json, out),
            _ => unreachable!("only parts are handed in"),
        }
    }
    out.push(b']');
}

fn push_other(json: &str, out: &mut Vec<u8>) {
    let json = if serde_json::from_str::<&RawValue>(json).is_ok() { json } else { "{}" };
    out.extend_from_slice(json.as_bytes());
}

fn push_reasoning(text: &str, signature: Option<&str>, out: &mut Vec<u8>) {
    out.extend_from_slice(br#"{"type":"reasoning","summary":["#);
    if !text.is_empty() {
        out.extend_from_slice(br#"{"type":"summary_text","text":"#);
        push_string(text, out);
        out.push(b'}');
    }
    out.push(b']');
    if let Some(signature) = signature {
        out.extend_from_slice(b",\"encrypted_content\":");
        push_string(signature, out);
    }
    out.push(b'}');
}

fn push_result(id: &str, text: &str, more: &[Content], out: &mut Vec<u8>) {
    out.extend_from_slice(br#"{"type":"function_call_output","call_id":"#);
    push_string(id, out);
    out.extend_from_slice(b",\"output\":");
    if more.is_empty() {
        push_string(text, out);
    } else {
        let mut parts = Vec::with_capacity(more.len() + 1);
        if !text.is_empty() {
            parts.push(Content::Text(text.to_owned()));
        }
        parts.extend_from_slice(more);
        push_parts(Role::Tool, &parts, out);
    }
    out.push(b'}');
}

fn push_tool(tool: &Tool, out: &mut Vec<u8>) {
    comma(out);
    out.extend_from_slice(br#"{"type":"function","name":"#);
    push_string(&tool.name, out);
    if let Some(description) = &tool.description {
        out.extend_from_slice(b",\"description\":");
        push_string(description, out);
    }
    if let Some(parameters) = &tool.parameters {
        out.extend_from_slice(b",\"parameters\":");
        out.extend_from_slice(parameters.as_bytes());
    }
    out.push(b'}');
}

fn read_input(json: &str, messages: &mut Vec<Message>) -> Result<(), WireError> {
    if let Some(text) = read_text(json)? {
        messages.push(Message::text(Role::User, text));
        return Ok(());
    }
    let invalid = || WireError::Invalid { field: "input", expected: "a string or an array of items" };
    // Whether a call or a text may still join the last message.
    let mut last = LastItem::Nothing;
    for json in read_array(json)?.ok_or_else(invalid)? {
        let item = Object::read(json)?.ok_or_else(invalid)?;
        last = read_item(json, &item, last, messages)?;
    }
    Ok(())
}

/// What the model wrote last.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LastItem {
    /// Nothing: the last item was not the model's.
    Nothing,
    /// Reasoning only.
    Reasoning,
    /// Texts or calls.
    More,
}

fn read_item(
    json: &str,
    item: &Object<'_>,
    last: LastItem,
    messages: &mut Vec<Message>,
) -> Result<LastItem, WireError> {
    let kind = item.text("type", &mut false)?;
    let kind = kind.as_deref().unwrap_or("message");
    let (content, joins, last) = match kind {
        "message" => {
            let role = read_role(item)?;
            let content = read_message_content(item)?;
            if role != Role::Assistant {
                messages.push(Message { role, content });
                return Ok(LastItem::Nothing);
            }
            (content, last == LastItem::Reasoning, LastItem::More)
        }
        "function_call" => (vec![read_call(item)?], last != LastItem::Nothing, LastItem::More),
        "reasoning" => (vec![read_reasoning(item)?], last == LastItem::Reasoning, LastItem::Reasoning),
        "function_call_output" => {
            messages.push(Message { role: Role::Tool, content: read_result(item)? });
            return Ok(LastItem::Nothing);
        }
        _ => {
            // Items of the server's own tools, references to what it keeps: as they are.
            let content = vec![Content::Other(json.to_owned())];
            messages.push(Message { role: Role::Assistant, content });
            return Ok(LastItem::Nothing);
        }
    };
    match messages.last_mut().filter(|_| joins) {
        Some(message) => message.content.extend(content),
        None => messages.push(Message { role: Role::Assistant, content }),
    }
    Ok(last)
}

fn read_role(item: &Object<'_>) -> Result<Role, WireError> {
    match item.text("role", &mut false)?.as_deref() {
        Some("user") => Ok(Role::User),
        Some("assistant") => Ok(Role::Assistant),
        Some("system" | "developer") => Ok(Role::System),
        _ => Err(WireError::Invalid { field: "input[].role", expected: "user, assistant, system or developer" }),
    }
}

fn read_message_content(item: &Object<'_>) -> Result<Vec<Content>, WireError> {
    read_parts(item.get("content").ok_or(WireError::Missing("input[].content"))?, "input[].content")
}

/// A string, or an array of parts.
fn read_parts(json: &str, field: &'static str) -> Result<Vec<Content>, WireError> {
    if let Some(text) = read_text(json)? {
        return Ok(vec![Content::Text(text.into_owned())]);
    }
    let invalid = || WireError::Invalid { field, expected: "a string or an array of parts" };
    let mut contents = Vec::new();
    for json in read_array(json)?.ok_or_else(invalid)? {
        let part = Object::read(json)?.ok_or_else(invalid)?;
        let content = match &*part.text("type", &mut false)?.unwrap_or_default() {
            "input_text" | "output_text" | "text" => part.text("text", &mut false)?.map(text_content),
            "refusal" => {
                let refusal = part.text("refusal", &mut false)?;
                refusal.or(part.text("text", &mut false)?).map(text_content)
            }
            "input_image" => part.text("image_url", &mut false)?.map(|url| Content::Image(read_image(&url))),
            _ => None,
        };
        contents.push(content.unwrap_or_else(|| Content::Other(json.to_owned())));
    }
    Ok(contents)
}

fn text_content(text: std::borrow::Cow<'_, str>) -> Content {
    Content::Text(text.into_owned())
}

/// A picture by its address; one that is a `data:` URL in base64 is the picture itself.
fn read_image(url: &str) -> Image {
    let data = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    match data {
        Some((media_type, base64)) => Image::Data { media_type: media_type.to_owned(), base64: base64.to_owned() },
        None => Image::Url(url.to_owned()),
    }
}

fn read_call(item: &Object<'_>) -> Result<Content, WireError> {
    let text = |name: &str, field| -> Result<String, WireError> {
        Ok(item.text(name, &mut false)?.ok_or(WireError::Missing(field))?.into_owned())
    };
    Ok(Content::ToolCall {
        id: text("call_id", "input[].call_id")?,
        name: text("name", "input[].name")?,
        arguments: text("arguments", "input[].arguments")?,
    })
}

fn read_reasoning(item: &Object<'_>) -> Result<Content, WireError> {
    let mut text = String::new();
    for field in ["summary", "content"] {
        for json in item.array(field, &mut false)? {
            let part = Object::read(json)?.ok_or(WireError::Invalid { field: ITEM, expected: "an item" })?;
            text.push_str(&part.text("text", &mut false)?.unwrap_or_default());
        }
    }
    let signature = item.text("encrypted_content", &mut false)?.map(String::from);
    Ok(Content::Reasoning { text, signature })
}

/// The result of a tool: its text, then what else is in it.
fn read_result(item: &Object<'_>) -> Result<Vec<Content>, WireError> {
    let id = item.text("call_id", &mut false)?.ok_or(WireError::Missing("input[].call_id"))?.into_owned();
    let output = item.get("output").ok_or(WireError::Missing("input[].output"))?;
    let (mut text, mut contents) = (String::new(), Vec::new());
    for content in read_parts(output, "input[].output")? {
        match content {
            Content::Text(part) => text.push_str(&part),
            content => contents.push(content),
        }
    }
    contents.insert(0, Content::ToolResult { id, name: String::new(), text, failed: false });
    Ok(contents)
}

/// The client's functions, and whether that is all of the JSON: tools of the server's own are not among them.
fn read_tools(json: &str) -> Result<(Vec<Tool>, bool), WireError> {
    let invalid = || WireError::Invalid { field: "tools", expected: "an array of objects" };
    let (mut tools, mut whole) = (Vec::new(), true);
    for json in read_array(json)?.ok_or_else(invalid)? {
        let object = Object::read(json)?.ok_or_else(invalid)?;
        let text = |name: &str| Ok::<_, WireError>(object.text(name, &mut false)?.map(String::from));
        let known = |name: &str| matches!(name, "type" | "name" | "description" | "parameters");
        whole &= object.fields().all(|(name, _)| known(name));
        let function = object.get("type") == Some("\"function\"");
        match text("name")?.filter(|_| function) {
            Some(name) => {
                let parameters = object.get("parameters").map(str::to_owned);
                tools.push(Tool { name, description: text("description")?, parameters });
            }
            None => whole = false,
        }
    }
    Ok((tools, whole))
}

/// The choice, if it is one that all dialects know.
fn read_tool_choice(json: &str) -> Result<Option<ToolChoice>, WireError> {
    let choice = match read_text(json)?.as_deref() {
        Some("auto") => Some(ToolChoice::Auto),
        Some("none") => Some(ToolChoice::Never),
        Some("required") => Some(ToolChoice::Required),
        Some(_) => None,
        None => {
            let expected = "auto, none, required or an object";
            let object = Object::read(json)?.ok_or(WireError::Invalid { field: "tool_choice", expected })?;
            let function = object.get("type") == Some("\"function\"");
            let name = object.text("name", &mut false)?.filter(|_| function);
            name.map(|name| ToolChoice::Named(name.into_owned()))
        }
    };
    Ok(choice)
}
