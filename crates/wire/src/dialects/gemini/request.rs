//! Requests for Gemini: written for a server, and read as a server. The model and whether to stream stand in the path,
//! not here.
//!
//! Invariant: a conversation that is read and written again is the same to the model; fields of parts and of
//! declarations that [`ChatRequest`] has no place for are what is lost.

use super::decode::field;
use super::parts::{push_contents, push_parts, read_contents, read_instruction};
use crate::error::WireError;
use crate::object::{Object, read_array, read_text};
use crate::remainder::{Members, array_of, rest_of};
use tokrate_core::{ChatRequest, Content, Message, Role, Tool, ToolChoice};

const GENERATION: &str = "generationConfig";

/// The body of a request. What the dialect has no field for is left out: going on past the end, and asking for token
/// counts, which always come. Fields of `generationConfig` and entries of `tools` that came in [`ChatRequest::extra`] are
/// put beside those that are written here.
pub(crate) fn encode(request: &ChatRequest) -> Vec<u8> {
    let extra = |wanted: &str| request.extra.iter().any(|(name, _)| name == wanted);
    let mut body = Members::new();
    if !extra("contents") {
        push_contents(request, body.field("contents"));
    }
    let system = request.messages.iter().filter(|message| message.role == Role::System);
    let instructions: Vec<&Content> = system.flat_map(|message| &message.content).collect();
    if !instructions.is_empty() && !extra("systemInstruction") {
        let out = body.field("systemInstruction");
        out.extend_from_slice(b"{\"parts\":");
        push_parts(instructions.into_iter(), &[], out);
        out.push(b'}');
    }
    let generation = generation_config(request);
    if !generation.is_empty() && !extra(GENERATION) {
        body.json(GENERATION, &generation.clone().end());
    }
    if !request.tools.is_empty() && !extra("tools") {
        body.json("tools", &format!("[{}]", declarations(&request.tools)));
    }
    if let Some(choice) = &request.tool_choice
        && !extra("toolConfig")
    {
        push_tool_choice(choice, body.field("toolConfig"));
    }
    for (name, json) in &request.extra {
        match name.as_str() {
            GENERATION => body.json(name, &generation.clone().end_with(json)),
            "tools" if !request.tools.is_empty() => match read_array(json) {
                Ok(Some(rest)) => {
                    let ours = declarations(&request.tools);
                    let all: Vec<&str> = std::iter::once(ours.as_str()).chain(rest).collect();
                    body.json(name, &array_of(&all).expect("there is one at least"));
                }
                _ => body.json(name, json),
            },
            _ => body.json(name, json),
        }
    }
    body.end().into_bytes()
}

/// Reads the body of a request, except for the model and method, which are in its path. Both spellings of a name are understood.
///
/// # Errors
/// When the body is no JSON object, when `contents` is absent, or when a field has a value of a wrong type.
pub(crate) fn decode(body: &[u8]) -> Result<ChatRequest, WireError> {
    let text = std::str::from_utf8(body).map_err(|error| WireError::NotJson(error.to_string()))?;
    let root = Object::read(text)?.ok_or(WireError::NotAnObject)?;
    let mut request = ChatRequest { include_usage: true, ..ChatRequest::default() };
    let (mut system, mut turns) = (None, None);
    for (name, json) in root.fields().filter(|(_, json)| *json != "null") {
        match name {
            "contents" => turns = Some(read_contents(json)?),
            "systemInstruction" | "system_instruction" => {
                let content = read_instruction(json)?;
                system = Some(Message { role: Role::System, content });
            }
            "generationConfig" | "generation_config" => read_generation(json, &mut request)?,
            "tools" => read_tools(json, &mut request)?,
            "toolConfig" | "tool_config" => read_tool_config(json, &mut request)?,
            // It stands in the path as well, which decides.
            "model" => request.model = read_text(json)?.map(|model| model_name(&model)).unwrap_or_default(),
            _ => keep(&mut request, name, json),
        }
    }
    request.messages = system.into_iter().chain(turns.ok_or(WireError::Missing("contents"))?).collect();
    Ok(request)
}

fn keep(request: &mut ChatRequest, name: &str, json: &str) {
    request.extra.retain(|(earlier, _)| earlier != name);
    request.extra.push((name.to_owned(), json.to_owned()));
}

fn model_name(model: &str) -> String {
    model.strip_prefix("models/").unwrap_or(model).to_owned()
}

fn generation_config(request: &ChatRequest) -> Members {
    let mut generation = Members::new();
    if let Some(limit) = request.max_output_tokens {
        generation.json("maxOutputTokens", &limit.to_string());
    }
    generation.number("temperature", request.temperature);
    generation.number("topP", request.top_p);
    if !request.stop.is_empty() {
        generation.texts("stopSequences", &request.stop);
    }
    if let Some(seed) = request.seed {
        generation.json("seed", &seed.to_string());
    }
    generation
}

fn read_generation(json: &str, request: &mut ChatRequest) -> Result<(), WireError> {
    let object = Object::read(json)?.ok_or(WireError::Invalid { field: GENERATION, expected: "an object" })?;
    let limit = read_with(&object, "maxOutputTokens", "max_output_tokens", |json| json.parse().ok());
    let expected = "a whole number from 0 to 4294967295";
    request.max_output_tokens = limit.map_err(|()| invalid("generationConfig.maxOutputTokens", expected))?;
    let number = |camel, snake| read_with(&object, camel, snake, read_number);
    request.temperature =
        number("temperature", "temperature").map_err(|()| invalid("generationConfig.temperature", "a number"))?;
    request.top_p = number("topP", "top_p").map_err(|()| invalid("generationConfig.topP", "a number"))?;
    let stop = field(&object, "stopSequences", "stop_sequences").map_or(Some(Vec::new()), read_texts);
    request.stop = stop.ok_or(invalid("generationConfig.stopSequences", "an array of strings"))?;
    let mut known = vec!["maxOutputTokens", "max_output_tokens", "temperature", "topP", "top_p", "stopSequences"];
    known.push("stop_sequences");
    // A seed below zero has no place.
    if let Some(seed) = object.get("seed").and_then(|json| json.parse().ok()) {
        request.seed = Some(seed);
        known.push("seed");
    }
    if let Some(rest) = rest_of(&object, &known) {
        keep(request, GENERATION, &rest);
    }
    Ok(())
}

fn invalid(field: &'static str, expected: &'static str) -> WireError {
    WireError::Invalid { field, expected }
}

/// A field under either of its two spellings; `Err` if it cannot be read.
fn read_with<T>(object: &Object<'_>, camel: &str, snake: &str, read: fn(&str) -> Option<T>) -> Result<Option<T>, ()> {
    field(object, camel, snake).map(|json| read(json).ok_or(())).transpose()
}

/// The standard library reads a number to the nearest float, which serde_json does not by default.
fn read_number(json: &str) -> Option<f64> {
    json.parse().ok().filter(|number: &f64| number.is_finite())
}

fn read_texts(json: &str) -> Option<Vec<String>> {
    let texts = read_array(json).ok()??.into_iter().map(|json| read_text(json).ok()?.map(String::from));
    texts.collect()
}

fn declarations(tools: &[Tool]) -> String {
    let mut list = b"[".to_vec();
    for tool in tools {
        if list.len() > 1 {
            list.push(b',');
        }
        let mut declaration = Members::new();
        declaration.text("name", &tool.name);
        if let Some(description) = &tool.description {
            declaration.text("description", description);
        }
        if let Some(schema) = &tool.parameters {
            // `parameters` takes a part of the OpenAPI schema only and refuses these words of JSON Schema.
            let words = ["\"$", "\"additionalProperties\"", "\"patternProperties\"", "\"const\"", "\"oneOf\""];
            let strict = !words.iter().any(|word| schema.contains(word));
            declaration.json(if strict { "parameters" } else { "parametersJsonSchema" }, schema);
        }
        list.extend_from_slice(declaration.end().as_bytes());
    }
    list.push(b']');
    let list = String::from_utf8(list).expect("it was put together from texts");
    format!("{{\"functionDeclarations\":{list}}}")
}

/// Declarations become tools; search, code execution and the like stay as they are.
fn read_tools(json: &str, request: &mut ChatRequest) -> Result<(), WireError> {
    let elements = read_array(json)?.ok_or(invalid("tools", "an array of objects"))?;
    let mut rest = Vec::new();
    for json in elements {
        let object = Object::read(json)?.ok_or(invalid("tools", "an array of objects"))?;
        if let Some(list) = field(&object, "functionDeclarations", "function_declarations") {
            let expected = invalid("tools[].functionDeclarations", "an array of objects with a name");
            for json in read_array(list)?.ok_or_else(|| expected.clone())? {
                let declaration = Object::read(json)?.ok_or_else(|| expected.clone())?;
                let text = |name| declaration.text(name, &mut false).map(|text| text.map(String::from));
                let schema = field(&declaration, "parametersJsonSchema", "parameters_json_schema");
                request.tools.push(Tool {
                    name: text("name")?.ok_or_else(|| expected.clone())?,
                    description: text("description")?,
                    parameters: declaration.get("parameters").or(schema).map(str::to_owned),
                });
            }
        }
        rest.extend(rest_of(&object, &["functionDeclarations", "function_declarations"]));
    }
    let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
    if let Some(rest) = array_of(&rest) {
        keep(request, "tools", &rest);
    }
    Ok(())
}

fn push_tool_choice(choice: &ToolChoice, out: &mut Vec<u8>) {
    let mut calling = Members::new();
    let mode = match choice {
        ToolChoice::Auto => "AUTO",
        ToolChoice::Never => "NONE",
        ToolChoice::Required | ToolChoice::Named(_) => "ANY",
    };
    calling.text("mode", mode);
    if let ToolChoice::Named(name) = choice {
        calling.texts("allowedFunctionNames", std::slice::from_ref(name));
    }
    let mut config = Members::new();
    config.json("functionCallingConfig", &calling.end());
    out.extend_from_slice(config.end().as_bytes());
}

/// The mode becomes the choice; the whole is kept as well if it holds more than that.
fn read_tool_config(json: &str, request: &mut ChatRequest) -> Result<(), WireError> {
    let object = Object::read(json)?.ok_or(invalid("toolConfig", "an object"))?;
    let names = ["functionCallingConfig", "function_calling_config"];
    let mut whole = object.fields().all(|(name, _)| names.contains(&name));
    let Some(inner) = field(&object, names[0], names[1]) else {
        keep(request, "toolConfig", json);
        return Ok(());
    };
    let calling = Object::read(inner)?.ok_or(invalid("toolConfig.functionCallingConfig", "an object"))?;
    let allowed = field(&calling, "allowedFunctionNames", "allowed_function_names");
    let expected = invalid("toolConfig.functionCallingConfig.allowedFunctionNames", "an array of strings");
    let allowed = allowed.map_or(Some(Vec::new()), read_texts).ok_or(expected)?;
    let mode = calling.text("mode", &mut false)?.unwrap_or_default().to_ascii_uppercase();
    request.tool_choice = match (mode.as_str(), &allowed[..]) {
        ("ANY", [name]) => Some(ToolChoice::Named(name.clone())),
        ("ANY", _) => Some(ToolChoice::Required),
        ("NONE", _) => Some(ToolChoice::Never),
        ("AUTO", _) => Some(ToolChoice::Auto),
        _ => None,
    };
    whole &=
        calling.fields().all(|(name, _)| matches!(name, "mode" | "allowedFunctionNames" | "allowed_function_names"));
    whole &= match request.tool_choice {
        Some(ToolChoice::Named(_)) => true,
        Some(_) => allowed.is_empty(),
        None => false,
    };
    if !whole {
        keep(request, "toolConfig", json);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
