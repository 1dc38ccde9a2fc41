//! Requests for Converse: written for a server, and read as a server. The model and whether to stream stand in the path, not here.
//!
//! Invariant: a conversation that is read and written again is the same to the model; marks for the cache are what is lost.

use super::content::{push_block, push_messages, read_block, read_message};
use crate::error::WireError;
use crate::json_text::push_string;
use crate::object::{Object, read_array};
use crate::remainder::{Members, rest_of};
use crate::request_body::{push_list, read_limit, read_number, read_strings};
use tokrate_core::{ChatRequest, Content, Message, Role, Tool, ToolChoice};

const CONFIG: &str = "inferenceConfig";
const TOOLS: &str = "toolConfig";

/// The body of a request. What the dialect has no field for is left out: the seed, going on past the end, a choice of no tool, and asking
/// for token counts, which always come.
pub(crate) fn encode(request: &ChatRequest) -> Vec<u8> {
    let extra = |wanted: &str| request.extra.iter().any(|(name, _)| name == wanted);
    let leading = request.messages.iter().take_while(|message| message.role == Role::System).count();
    let (system, turns) = request.messages.split_at(leading);
    let mut body = Members::new();
    if !system.is_empty() && !extra("system") {
        let contents: Vec<_> = system.iter().flat_map(|message| &message.content).collect();
        push_list(&contents, body.field("system"), |content, out| push_block(content, out));
    }
    if !extra("messages") {
        push_messages(turns, body.field("messages"));
    }
    let config = inference_config(request);
    if !config.is_empty() && !extra(CONFIG) {
        body.json(CONFIG, &config.clone().end());
    }
    let tools = tool_config(request);
    if !tools.is_empty() && !extra(TOOLS) {
        body.json(TOOLS, &tools.clone().end());
    }
    for (name, json) in &request.extra {
        match name.as_str() {
            CONFIG => body.json(name, &config.clone().end_with(json)),
            // A list of tools with their flags, or what else stood beside the tools.
            "tools" => body.json(TOOLS, &tools.clone().end_with(&format!("{{\"tools\":{json}}}"))),
            TOOLS => body.json(name, &tools.clone().end_with(json)),
            _ => body.json(name, json),
        }
    }
    body.end().into_bytes()
}

fn inference_config(request: &ChatRequest) -> Members {
    let mut config = Members::new();
    if let Some(limit) = request.max_output_tokens {
        config.json("maxTokens", &limit.to_string());
    }
    config.number("temperature", request.temperature);
    config.number("topP", request.top_p);
    if !request.stop.is_empty() {
        config.texts("stopSequences", &request.stop);
    }
    config
}

fn tool_config(request: &ChatRequest) -> Members {
    let mut config = Members::new();
    if !request.tools.is_empty() {
        push_list(&request.tools, config.field("tools"), |tool, out| {
            out.extend_from_slice(tool_of(tool, None).as_bytes());
        });
    }
    let choice = request.tool_choice.as_ref().and_then(|choice| match choice {
        ToolChoice::Auto => Some(r#"{"auto":{}}"#.to_owned()),
        ToolChoice::Required => Some(r#"{"any":{}}"#.to_owned()),
        ToolChoice::Named(name) => {
            let mut out = b"{\"tool\":{\"name\":".to_vec();
            push_string(name, &mut out);
            out.extend_from_slice(b"}}");
            String::from_utf8(out).ok()
        }
        ToolChoice::Never => None,
    });
    if let Some(choice) = choice {
        config.json("toolChoice", &choice);
    }
    config
}

/// A tool with its `strict` flag.
pub(super) fn strict_tool(tool: &Tool, strict: bool) -> String {
    tool_of(tool, Some(strict))
}

fn tool_of(tool: &Tool, strict: Option<bool>) -> String {
    let mut own = Members::new();
    own.text("name", &tool.name);
    if let Some(description) = &tool.description {
        own.text("description", description);
    }
    // The schema is required.
    own.json("inputSchema", &format!("{{\"json\":{}}}", tool.parameters.as_deref().unwrap_or(r#"{"type":"object"}"#)));
    if let Some(strict) = strict {
        own.json("strict", if strict { "true" } else { "false" });
    }
    format!("{{\"toolSpec\":{}}}", own.end())
}

/// Reads the body of a request, except for the model and method, which are in its path.
pub(crate) fn decode(body: &[u8]) -> Result<ChatRequest, WireError> {
    let text = std::str::from_utf8(body).map_err(|error| WireError::NotJson(error.to_string()))?;
    let root = Object::read(text)?.ok_or(WireError::NotAnObject)?;
    let mut request = ChatRequest { include_usage: true, ..ChatRequest::default() };
    let expected = |field| WireError::Invalid { field, expected: "an array of objects" };
    if let Some(system) = root.get("system").filter(|json| *json != "null") {
        for json in read_array(system)?.ok_or_else(|| expected("system"))? {
            let block = Object::read(json)?.ok_or_else(|| expected("system"))?;
            let content: Vec<_> = read_block(json, &block)?.into_iter().collect();
            request.messages.extend((!content.is_empty()).then_some(Message { role: Role::System, content }));
        }
    }
    let messages = root.get("messages").ok_or(WireError::Missing("messages"))?;
    for json in read_array(messages)?.ok_or_else(|| expected("messages"))? {
        let message = Object::read(json)?.ok_or_else(|| expected("messages"))?;
        read_message(&message, &mut request.messages)?;
    }
    for (name, json) in root.fields().filter(|(_, json)| *json != "null") {
        match name {
            "messages" | "system" => {}
            CONFIG => read_config(json, &mut request)?,
            TOOLS => read_tools(json, &mut request)?,
            // It stands in the path, which decides.
            "modelId" => {}
            _ => keep(&mut request, name, json),
        }
    }
    Ok(request)
}

fn keep(request: &mut ChatRequest, name: &str, json: &str) {
    request.extra.retain(|(earlier, _)| earlier != name);
    request.extra.push((name.to_owned(), json.to_owned()));
}

fn read_config(json: &str, request: &mut ChatRequest) -> Result<(), WireError> {
    let config = Object::read(json)?.ok_or(WireError::Invalid { field: CONFIG, expected: "an object" })?;
    let mut known = Vec::new();
    for (name, json) in config.fields() {
        match (name, json) {
            (_, "null") => {}
            ("maxTokens", _) => request.max_output_tokens = Some(read_limit("inferenceConfig.maxTokens", json)?),
            ("temperature", _) => request.temperature = Some(read_number("inferenceConfig.temperature", json)?),
            ("topP", _) => request.top_p = Some(read_number("inferenceConfig.topP", json)?),
            ("stopSequences", _) => request.stop = read_strings("inferenceConfig.stopSequences", json)?,
            _ => continue,
        }
        known.push(name.to_owned());
    }
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    if let Some(rest) = rest_of(&config, &known) {
        keep(request, CONFIG, &rest);
    }
    Ok(())
}

/// Tools by their schemas and the choice of one; the whole is kept as well if it holds more than that.
fn read_tools(json: &str, request: &mut ChatRequest) -> Result<(), WireError> {
    let invalid = |field| WireError::Invalid { field, expected: "an object with tools" };
    let config = Object::read(json)?.ok_or_else(|| invalid(TOOLS))?;
    let mut rest = Vec::new();
    let mut is_whole = true;
    for json in config.get("tools").filter(|json| *json != "null").map_or(Ok(None), read_array)?.unwrap_or_default() {
        let tool = Object::read(json)?.ok_or_else(|| invalid("toolConfig.tools"))?;
        let spec = tool.object("toolSpec", &mut false)?;
        match spec {
            Some(spec) => {
                let text = |name: &str| spec.text(name, &mut false).map(|text| text.map(String::from));
                let schema = spec.object("inputSchema", &mut false)?.unwrap_or_default();
                is_whole &= spec.fields().all(|(name, _)| ["name", "description", "inputSchema"].contains(&name));
                request.tools.push(Tool {
                    name: text("name")?.ok_or(WireError::Missing("toolConfig.tools[].toolSpec.name"))?,
                    description: text("description")?,
                    parameters: schema.get("json").map(str::to_owned),
                });
            }
            None => rest.extend(rest_of(&tool, &["cachePoint"])),
        }
    }
    if let Some(choice) = config.object("toolChoice", &mut false)? {
        let named = choice.object("tool", &mut false)?;
        let named = named.map_or(Ok(None), |tool| tool.text("name", &mut false).map(|name| name.map(String::from)))?;
        request.tool_choice = match named {
            Some(name) => Some(ToolChoice::Named(name)),
            None if choice.get("any").is_some() => Some(ToolChoice::Required),
            None if choice.get("auto").is_some() => Some(ToolChoice::Auto),
            None => None,
        };
    }
    is_whole &= rest.is_empty() && config.fields().all(|(name, _)| ["tools", "toolChoice"].contains(&name));
    if !is_whole {
        keep(request, TOOLS, json);
    }
    Ok(())
}

/// What a translation leaves of a choice of no tool: without tools there is nothing to choose.
pub(super) fn prepare_import(request: &mut ChatRequest) {
    let is_of_tools = |message: &Message| {
        message.content.iter().any(|content| matches!(content, Content::ToolCall { .. } | Content::ToolResult { .. }))
    };
    if request.tool_choice == Some(ToolChoice::Never) && !request.messages.iter().any(is_of_tools) {
        request.tools.clear();
        request.tool_choice = None;
    }
}
