//! The turns of a conversation in Gemini's requests and the parts that they consist of, both ways.
//!
//! Invariant: a part of a kind that has no place stays the JSON it was.

use super::decode::field;
use crate::calls::{called_name, push_arguments_as_object};
use crate::error::WireError;
use crate::json_text::push_comma;
use crate::object::{Object, read_array, read_text, without_whitespace};
use crate::remainder::Members;
use serde_json::value::RawValue;
use tokrate_core::{ChatRequest, Content, Image, Message, Role};

const CONTENTS: &str = "contents";
const PARTS: &str = "contents[].parts";

/// Turns of the user and the model; results of tools are the user's.
pub(super) fn push_contents(request: &ChatRequest, out: &mut Vec<u8>) {
    out.push(b'[');
    for message in request.messages.iter().filter(|message| message.role != Role::System) {
        push_comma(out);
        let model = message.role == Role::Assistant;
        out.extend_from_slice(if model {
            br#"{"role":"model","parts":"#.as_slice()
        } else {
            br#"{"role":"user","parts":"#
        });
        push_parts(message.content.iter(), &request.messages, out);
        out.push(b'}');
    }
    out.push(b']');
}

/// Writes parts. Reasoning with a signature and without text is the signature of the part that follows it.
pub(super) fn push_parts<'c>(contents: impl Iterator<Item = &'c Content>, history: &[Message], out: &mut Vec<u8>) {
    let mut contents = contents.peekable();
    let mut part_signature = None;
    out.push(b'[');
    while let Some(content) = contents.next() {
        if let Content::Reasoning { text, signature: Some(signature) } = content
            && text.is_empty()
            && part_signature.is_none()
            && matches!(contents.peek(), Some(Content::Text(_) | Content::ToolCall { .. }))
        {
            part_signature = Some(signature);
            continue;
        }
        push_comma(out);
        push_part(content, part_signature.take(), history, out);
    }
    out.push(b']');
}

fn push_part(content: &Content, part_signature: Option<&String>, history: &[Message], out: &mut Vec<u8>) {
    let mut part = Members::new();
    match content {
        Content::Text(text) => part.text("text", text),
        Content::Reasoning { text, signature } => {
            part.text("text", text);
            if signature.is_none() || !text.is_empty() {
                part.json("thought", "true");
            }
            if let Some(signature) = signature {
                part.text("thoughtSignature", signature);
            }
        }
        Content::Image(image) => push_image(image, &mut part),
        Content::ToolCall { id, name, arguments } => {
            let mut call = Members::new();
            if !id.is_empty() {
                call.text("id", id);
            }
            call.text("name", name);
            push_arguments_as_object(arguments, call.field("args"));
            part.json("functionCall", &call.end());
        }
        Content::ToolResult { id, name, text, failed } => {
            let mut result = Members::new();
            if !id.is_empty() {
                result.text("id", id);
            }
            result.text("name", if name.is_empty() { called_name(history, id) } else { name });
            result.json("response", &written_result(text, *failed));
            part.json("functionResponse", &result.end());
        }
        Content::Other(json) => {
            let json = if serde_json::from_str::<&RawValue>(json).is_ok() { json } else { "{}" };
            return out.extend_from_slice(json.as_bytes());
        }
    }
    if let Some(part_signature) = part_signature {
        part.text("thoughtSignature", part_signature);
    }
    out.extend_from_slice(part.end().as_bytes());
}

/// A result must be an object: one that is is sent as it is, any other text stands in one.
pub(super) fn written_result(text: &str, failed: bool) -> String {
    if matches!(Object::read(text), Ok(Some(_))) && read_result(text) == (text.to_owned(), failed) {
        return text.to_owned();
    }
    let mut result = Members::new();
    result.text(if failed { "error" } else { "output" }, text);
    result.end()
}

/// The text of a result, and whether the tool failed: that of its only field if it is one of those that usually hold it.
pub(super) fn read_result(json: &str) -> (String, bool) {
    if let Ok(Some(object)) = Object::read(json) {
        let mut fields = object.fields();
        if let (Some((name, value)), None) = (fields.next(), fields.next())
            && let Ok(Some(text)) = read_text(value)
            && matches!(name, "output" | "result" | "error")
        {
            return (text.into_owned(), name == "error");
        }
    }
    (without_whitespace(json).into_owned(), false)
}

fn push_image(image: &Image, part: &mut Members) {
    match image {
        Image::Data { media_type, base64 } => {
            let mut data = Members::new();
            data.text("mimeType", media_type);
            data.text("data", base64);
            part.json("inlineData", &data.end());
        }
        Image::Url(url) => {
            let mut file = Members::new();
            if let Some(media_type) = media_type_of(url) {
                file.text("mimeType", media_type);
            }
            file.text("fileUri", url);
            part.json("fileData", &file.end());
        }
    }
}

/// The media type that the end of an address suggests; Vertex wants one.
fn media_type_of(url: &str) -> Option<&'static str> {
    const TYPES: [(&str, &str); 6] = [
        (".png", "image/png"),
        (".jpg", "image/jpeg"),
        (".jpeg", "image/jpeg"),
        (".webp", "image/webp"),
        (".gif", "image/gif"),
        (".heic", "image/heic"),
    ];
    let path = url.split(['?', '#']).next().unwrap_or(url).to_ascii_lowercase();
    TYPES.iter().find(|(end, _)| path.ends_with(end)).map(|(_, media_type)| *media_type)
}

/// Reads the turns: an array of contents, or one content.
pub(super) fn read_contents(json: &str) -> Result<Vec<Message>, WireError> {
    let invalid = || WireError::Invalid { field: CONTENTS, expected: "an array of objects with a role and parts" };
    let elements = match read_array(json)? {
        Some(elements) => elements,
        None => vec![json],
    };
    let mut messages = Vec::new();
    for json in elements {
        let content = Object::read(json)?.ok_or_else(invalid)?;
        let parts = content.get("parts").map_or(Ok(Vec::new()), read_parts)?;
        let results = parts.iter().all(|part| matches!(part, Content::ToolResult { .. })) && !parts.is_empty();
        let role = match content.text("role", &mut false)?.as_deref() {
            Some("model") => Role::Assistant,
            Some("system") => Role::System,
            Some("user" | "function" | "tool" | "") | None if results => Role::Tool,
            Some("user" | "") | None => Role::User,
            Some("function" | "tool") => Role::Tool,
            Some(_) => return Err(WireError::Invalid { field: "contents[].role", expected: "user or model" }),
        };
        messages.push(Message { role, content: parts });
    }
    Ok(messages)
}

/// Reads the system's instruction: a content, or as some clients send it, a text.
pub(super) fn read_instruction(json: &str) -> Result<Vec<Content>, WireError> {
    if let Some(text) = read_text(json)? {
        return Ok(vec![Content::Text(text.into_owned())]);
    }
    let invalid = WireError::Invalid { field: "systemInstruction", expected: "an object with parts" };
    Object::read(json)?.ok_or(invalid)?.get("parts").map_or(Ok(Vec::new()), read_parts)
}

/// An array of parts, or one part.
fn read_parts(json: &str) -> Result<Vec<Content>, WireError> {
    let mut contents = Vec::new();
    match read_array(json)? {
        Some(parts) => {
            for part in parts {
                read_part(part, &mut contents)?;
            }
        }
        None => read_part(json, &mut contents)?,
    }
    Ok(contents)
}

fn read_part(json: &str, contents: &mut Vec<Content>) -> Result<(), WireError> {
    let part = Object::read(json)?.ok_or(WireError::Invalid { field: PARTS, expected: "an array of objects" })?;
    let text = |object: &Object<'_>, name: &str| object.text(name, &mut false).map(|text| text.map(String::from));
    let part_signature = match field(&part, "thoughtSignature", "thought_signature") {
        Some(json) => read_text(json)?.map(String::from),
        None => None,
    };
    if let Some(words) = text(&part, "text")? {
        if part.get("thought") == Some("true") {
            contents.push(Content::Reasoning { text: words, signature: part_signature });
            return Ok(());
        }
        let is_signed = part_signature.is_some();
        contents.extend(part_signature.map(signature_only));
        if !(is_signed && words.is_empty()) {
            contents.push(Content::Text(words));
        }
        return Ok(());
    }
    if let Some(json) = field(&part, "functionCall", "function_call") {
        let expected =
            WireError::Invalid { field: "contents[].parts[].functionCall", expected: "an object with a name" };
        let call = Object::read(json)?.ok_or_else(|| expected.clone())?;
        contents.extend(part_signature.map(signature_only));
        contents.push(Content::ToolCall {
            id: text(&call, "id")?.unwrap_or_default(),
            name: text(&call, "name")?.ok_or(expected)?,
            arguments: call.get("args").map_or("{}".into(), without_whitespace).into_owned(),
        });
        return Ok(());
    }
    if let Some(json) = field(&part, "functionResponse", "function_response") {
        let expected =
            WireError::Invalid { field: "contents[].parts[].functionResponse", expected: "an object with a response" };
        let result = Object::read(json)?.ok_or_else(|| expected.clone())?;
        let (words, failed) = read_result(result.get("response").ok_or(expected)?);
        let (id, name) = (text(&result, "id")?.unwrap_or_default(), text(&result, "name")?.unwrap_or_default());
        contents.push(Content::ToolResult { id, name, text: words, failed });
        return Ok(());
    }
    contents.push(read_image(&part)?.map_or_else(|| Content::Other(json.to_owned()), Content::Image));
    Ok(())
}

fn signature_only(signature: String) -> Content {
    Content::Reasoning { text: String::new(), signature: Some(signature) }
}

/// A picture, whole or by reference. Sounds, films and documents have no place.
fn read_image(part: &Object<'_>) -> Result<Option<Image>, WireError> {
    let kinds = [("inlineData", "inline_data", "data", "data"), ("fileData", "file_data", "fileUri", "file_uri")];
    if part.fields().count() != 1 {
        // How a film is to be cut, for one.
        return Ok(None);
    }
    for (camel, snake, value_camel, value_snake) in kinds {
        let Some(Some(object)) = field(part, camel, snake).map(Object::read).transpose()? else { continue };
        let words = |camel: &str, snake: &str| field(&object, camel, snake).map(read_text).transpose();
        let media_type = words("mimeType", "mime_type")?.flatten();
        let Some(value) = words(value_camel, value_snake)?.flatten() else { continue };
        return Ok(match media_type {
            Some(media_type) if !media_type.starts_with("image/") => None,
            Some(media_type) if camel == "inlineData" => {
                Some(Image::Data { media_type: media_type.into_owned(), base64: value.into_owned() })
            }
            _ if camel == "inlineData" => None,
            _ => Some(Image::Url(value.into_owned())),
        });
    }
    Ok(None)
}
