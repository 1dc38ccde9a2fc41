//! Requests for Anthropic's messages: written for a server, and read as a server.
//!
//! Invariant: a conversation that is read and written again is the same to the model; `cache_control` on single blocks
//! is the one thing that [`ChatRequest`] has no place for.

use crate::calls::push_arguments_as_object;
use crate::error::WireError;
use crate::json_text::{push_comma, push_string};
use crate::message_blocks::{Block, ResultBlock, blocks};
use crate::object::{Object, read_array, read_text, without_whitespace};
use crate::remainder::Members;
use crate::request_body::{
    Body, keep, push_list, read_flag, read_limit, read_number, read_required_text, read_strings,
};
use serde_json::value::RawValue;
use tokrate_core::{ChatRequest, Content, Image, Message, Role, Tool, ToolChoice};

/// The limit that is sent when none is set, because the dialect demands one.
pub(crate) const DEFAULT_MAX_TOKENS: u32 = 4096;

/// The body of a request. What the dialect has no field for is left out: the seed, going on past the end, and asking for
/// token counts, which always come.
pub(crate) fn encode(request: &ChatRequest) -> Vec<u8> {
    let mut body = Body::new(request);
    body.text("model", &request.model);
    body.plain("max_tokens", &request.max_output_tokens.unwrap_or(DEFAULT_MAX_TOKENS).to_string());
    let leading = request.messages.iter().take_while(|message| message.role == Role::System).count();
    let (system, turns) = request.messages.split_at(leading);
    if !system.is_empty()
        && let Some(out) = body.field("system")
    {
        push_system(system, out);
    }
    if let Some(out) = body.field("messages") {
        push_messages(turns, out);
    }
    if request.stream {
        body.plain("stream", "true");
    }
    if !request.stop.is_empty()
        && let Some(out) = body.field("stop_sequences")
    {
        push_list(&request.stop, out, |stop, out| push_string(stop, out));
    }
    body.number("temperature", request.temperature);
    body.number("top_p", request.top_p);
    if !request.tools.is_empty()
        && let Some(out) = body.field("tools")
    {
        push_list(&request.tools, out, push_tool);
    }
    if let Some(choice) = &request.tool_choice
        && let Some(out) = body.field("tool_choice")
    {
        push_tool_choice(choice, out);
    }
    body.end()
}

/// A tool with its `strict` flag.
pub(super) fn strict_tool(tool: &Tool, strict: bool) -> String {
    let mut own = Members::new();
    own.text("name", &tool.name);
    if let Some(description) = &tool.description {
        own.text("description", description);
    }
    own.json("input_schema", tool.parameters.as_deref().unwrap_or(r#"{"type":"object"}"#));
    own.json("strict", if strict { "true" } else { "false" });
    own.end()
}

/// Reads the body of a request.
pub(crate) fn decode(body: &[u8]) -> Result<ChatRequest, WireError> {
    let text = std::str::from_utf8(body).map_err(|error| WireError::NotJson(error.to_string()))?;
    let object = Object::read(text)?.ok_or(WireError::NotAnObject)?;
    let mut request = ChatRequest { model: read_required_text(&object, "model")?, ..ChatRequest::default() };
    if let Some(system) = object.get("system") {
        for content in read_content(system, "system", "a string or an array of text blocks")? {
            request.messages.push(Message { role: Role::System, content: vec![content] });
        }
    }
    let messages = object.get("messages").ok_or(WireError::Missing("messages"))?;
    let expected = "an array of objects with role and content";
    let messages = read_array(messages)?.ok_or(WireError::Invalid { field: "messages", expected })?;
    for json in messages {
        let message = Object::read(json)?.ok_or(WireError::Invalid { field: "messages", expected })?;
        read_message(&message, &mut request.messages)?;
    }
    for (name, json) in object.fields() {
        match name {
            "model" | "messages" | "system" => {}
            _ if json == "null" => {}
            "max_tokens" => request.max_output_tokens = Some(read_limit("max_tokens", json)?),
            "stream" => request.stream = read_flag("stream", json)?,
            "stop_sequences" => request.stop = read_strings("stop_sequences", json)?,
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
                let (choice, whole) = read_tool_choice(json)?;
                request.tool_choice = choice;
                if !whole {
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

fn push_system(messages: &[Message], out: &mut Vec<u8>) {
    if let [Message { content, .. }] = messages
        && let [Content::Text(text)] = content.as_slice()
    {
        return push_string(text, out);
    }
    let contents: Vec<&Content> = messages.iter().flat_map(|message| &message.content).collect();
    push_list(&contents, out, |content, out| push_block(content, out));
}

/// Writes the turns. Results of tools are the user's turn here, those of one round in one turn, and what the user writes to
/// them in the same.
fn push_messages(messages: &[Message], out: &mut Vec<u8>) {
    out.push(b'[');
    let mut rest = messages;
    while let Some(first) = rest.first() {
        let mut length = rest.iter().take_while(|message| message.role == Role::Tool).count();
        if length == 0 || rest.get(length).is_some_and(|next| next.role == Role::User) {
            length += 1;
        }
        let (turn, after) = rest.split_at(length);
        push_comma(out);
        push_turn(first.role, turn, out);
        rest = after;
    }
    out.push(b']');
}

fn push_turn(role: Role, turn: &[Message], out: &mut Vec<u8>) {
    out.extend_from_slice(match role {
        Role::System => br#"{"role":"system","content":"#,
        Role::User | Role::Tool => br#"{"role":"user","content":"#,
        Role::Assistant => br#"{"role":"assistant","content":"#,
    });
    if let [Message { content, .. }] = turn
        && let [Content::Text(text)] = content.as_slice()
    {
        push_string(text, out);
    } else {
        out.push(b'[');
        for message in turn {
            push_blocks(message, out);
        }
        out.push(b']');
    }
    out.push(b'}');
}

/// Writes the blocks of a message; what follows a tool's result in its own message is part of that result.
fn push_blocks(message: &Message, out: &mut Vec<u8>) {
    for block in blocks(message) {
        push_comma(out);
        let ResultBlock { id, text, failed, more } = match block {
            Block::Content(content) => {
                push_block(content, out);
                continue;
            }
            Block::Result(result) => result,
        };
        out.extend_from_slice(br#"{"type":"tool_result","tool_use_id":"#);
        push_string(id, out);
        if failed {
            out.extend_from_slice(b",\"is_error\":true");
        }
        out.extend_from_slice(b",\"content\":");
        if more.is_empty() {
            push_string(text, out);
        } else {
            out.push(b'[');
            if !text.is_empty() {
                push_block(&Content::Text(text.to_owned()), out);
            }
            for content in more {
                push_comma(out);
                push_block(content, out);
            }
            out.push(b']');
        }
        out.push(b'}');
    }
}

fn push_block(content: &Content, out: &mut Vec<u8>) {
    let mut begin = |start: &str, text: &str| {
        out.extend_from_slice(start.as_bytes());
        push_string(text, out);
    };
    match content {
        Content::Text(text) => begin(r#"{"type":"text","text":"#, text),
        Content::Reasoning { text, signature } => {
            begin(r#"{"type":"thinking","thinking":"#, text);
            if let Some(signature) = signature {
                begin(r#","signature":"#, signature);
            }
        }
        Content::Image(Image::Url(url)) => {
            begin(r#"{"type":"image","source":{"type":"url","url":"#, url);
            out.push(b'}');
        }
        Content::Image(Image::Data { media_type, base64 }) => {
            begin(r#"{"type":"image","source":{"type":"base64","media_type":"#, media_type);
            begin(r#","data":"#, base64);
            out.push(b'}');
        }
        Content::ToolCall { id, name, arguments } => {
            begin(r#"{"type":"tool_use","id":"#, id);
            begin(r#","name":"#, name);
            out.extend_from_slice(b",\"input\":");
            push_arguments_as_object(arguments, out);
        }
        Content::ToolResult { id, text, .. } => {
            begin(r#"{"type":"tool_result","tool_use_id":"#, id);
            begin(r#","content":"#, text);
        }
        Content::Other(json) => {
            let json = if serde_json::from_str::<&RawValue>(json).is_ok() { json } else { "{}" };
            return out.extend_from_slice(json.as_bytes());
        }
    }
    out.push(b'}');
}

fn push_tool(tool: &Tool, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"name\":");
    push_string(&tool.name, out);
    if let Some(description) = &tool.description {
        out.extend_from_slice(b",\"description\":");
        push_string(description, out);
    }
    // The schema is required.
    out.extend_from_slice(b",\"input_schema\":");
    out.extend_from_slice(tool.parameters.as_deref().unwrap_or(r#"{"type":"object"}"#).as_bytes());
    out.push(b'}');
}

fn push_tool_choice(choice: &ToolChoice, out: &mut Vec<u8>) {
    out.extend_from_slice(match choice {
        ToolChoice::Auto => br#"{"type":"auto""#.as_slice(),
        ToolChoice::Never => br#"{"type":"none""#,
        ToolChoice::Required => br#"{"type":"any""#,
        ToolChoice::Named(_) => br#"{"type":"tool","name":"#,
    });
    if let ToolChoice::Named(name) = choice {
        push_string(name, out);
    }
    out.push(b'}');
}

/// Reads a turn; results of tools become messages of their own, before what else the user writes.
fn read_message(message: &Object<'_>, messages: &mut Vec<Message>) -> Result<(), WireError> {
    const CONTENT: &str = "messages[].content";
    let role = match message.text("role", &mut false)?.as_deref() {
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("system") => Role::System,
        _ => {
            return Err(WireError::Invalid { field: "messages[].role", expected: "user, assistant or system" });
        }
    };
    let json = message.get("content").ok_or(WireError::Missing(CONTENT))?;
    let expected = "a string or an array of blocks";
    if let Some(text) = read_text(json)? {
        messages.push(Message::text(role, text));
        return Ok(());
    }
    let mut content = Vec::new();
    for json in read_array(json)?.ok_or(WireError::Invalid { field: CONTENT, expected })? {
        let block = Object::read(json)?.ok_or(WireError::Invalid { field: CONTENT, expected })?;
        if block.get("type") == Some("\"tool_result\"") {
            messages.push(Message { role: Role::Tool, content: read_result(&block)? });
        } else {
            content.push(read_block(json, &block)?);
        }
    }
    if !content.is_empty() {
        messages.push(Message { role, content });
    }
    Ok(())
}

/// The result of a tool: its text, then what else is in it.
fn read_result(block: &Object<'_>) -> Result<Vec<Content>, WireError> {
    let field = "messages[].content[].tool_use_id";
    let id = block.text("tool_use_id", &mut false)?.ok_or(WireError::Missing(field))?.into_owned();
    let failed = block.get("is_error") == Some("true");
    let (mut text, mut contents) = (String::new(), Vec::new());
    if let Some(json) = block.get("content") {
        for content in read_content(json, "messages[].content[].content", "a string or an array of blocks")? {
            match content {
                Content::Text(part) => text.push_str(&part),
                content => contents.push(content),
            }
        }
    }
    contents.insert(0, Content::ToolResult { id, name: String::new(), text, failed });
    Ok(contents)
}

/// A string, or an array of blocks.
fn read_content(json: &str, field: &'static str, expected: &'static str) -> Result<Vec<Content>, WireError> {
    if let Some(text) = read_text(json)? {
        return Ok(vec![Content::Text(text.into_owned())]);
    }
    let invalid = || WireError::Invalid { field, expected };
    let mut contents = Vec::new();
    for json in read_array(json)?.ok_or_else(invalid)? {
        let block = Object::read(json)?.ok_or_else(invalid)?;
        contents.push(read_block(json, &block)?);
    }
    Ok(contents)
}

/// Reads a block; one that has no place of its own, or lacks what its kind needs, stays the JSON it is.
fn read_block(json: &str, block: &Object<'_>) -> Result<Content, WireError> {
    let text = |name: &str| Ok::<_, WireError>(block.text(name, &mut false)?.map(String::from));
    let content = match &*block.text("type", &mut false)?.unwrap_or_default() {
        "text" => text("text")?.map(Content::Text),
        "thinking" => match text("thinking")? {
            Some(thinking) => Some(Content::Reasoning { text: thinking, signature: text("signature")? }),
            None => None,
        },
        "image" => read_image(block)?.map(Content::Image),
        "tool_use" => match (text("id")?, text("name")?, block.get("input")) {
            (Some(id), Some(name), Some(input)) => {
                Some(Content::ToolCall { id, name, arguments: without_whitespace(input).into_owned() })
            }
            _ => None,
        },
        _ => None,
    };
    Ok(content.unwrap_or_else(|| Content::Other(json.to_owned())))
}

fn read_image(block: &Object<'_>) -> Result<Option<Image>, WireError> {
    let source = block.object("source", &mut false)?.unwrap_or_default();
    let text = |name: &str| Ok::<_, WireError>(source.text(name, &mut false)?.map(String::from));
    Ok(match source.get("type") {
        Some("\"url\"") => text("url")?.map(Image::Url),
        Some("\"base64\"") => match (text("media_type")?, text("data")?) {
            (Some(media_type), Some(base64)) => Some(Image::Data { media_type, base64 }),
            _ => None,
        },
        _ => None,
    })
}

/// The client's tools, and whether that is all of the JSON: tools of the provider's own are not among them.
fn read_tools(json: &str) -> Result<(Vec<Tool>, bool), WireError> {
    let invalid = || WireError::Invalid { field: "tools", expected: "an array of objects" };
    let (mut tools, mut whole) = (Vec::new(), true);
    for json in read_array(json)?.ok_or_else(invalid)? {
        let object = Object::read(json)?.ok_or_else(invalid)?;
        let text = |name: &str| Ok::<_, WireError>(object.text(name, &mut false)?.map(String::from));
        let custom = object.get("type").is_none_or(|kind| kind == "\"custom\"");
        let known = |name: &str| matches!(name, "type" | "name" | "description" | "input_schema");
        whole &= custom && object.get("input_schema").is_some() && object.fields().all(|(name, _)| known(name));
        if custom && let Some(name) = text("name")? {
            let parameters = object.get("input_schema").map(str::to_owned);
            tools.push(Tool { name, description: text("description")?, parameters });
        } else {
            whole = false;
        }
    }
    Ok((tools, whole))
}

fn read_tool_choice(json: &str) -> Result<(Option<ToolChoice>, bool), WireError> {
    let expected = "an object with type auto, any, tool or none";
    let object = Object::read(json)?.ok_or(WireError::Invalid { field: "tool_choice", expected })?;
    let choice = match &*object.text("type", &mut false)?.unwrap_or_default() {
        "auto" => Some(ToolChoice::Auto),
        "any" => Some(ToolChoice::Required),
        "none" => Some(ToolChoice::Never),
        "tool" => object.text("name", &mut false)?.map(|name| ToolChoice::Named(name.into_owned())),
        _ => None,
    };
    let whole = choice.is_some() && object.fields().all(|(name, _)| matches!(name, "type" | "name"));
    Ok((choice, whole))
}
