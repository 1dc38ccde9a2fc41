//! Content blocks of Converse's requests, both ways.
//!
//! Invariant: a block that has no place of its own in [`Content`] stays the JSON it is.

use crate::calls::push_arguments_as_object;
use crate::error::WireError;
use crate::json_text::{push_comma, push_string};
use crate::message_blocks::{Block, ResultBlock, blocks};
use crate::object::{Object, read_array, without_whitespace};
use serde_json::value::RawValue;
use tokrate_core::{Content, Image, Message, Role};

/// Pictures are named by the ends of their media types here.
const IMAGE: &str = "image/";

/// Writes the turns. Results of tools are the user's turn here, and turns of one side in succession are one: the service wants both sides
/// to take turns.
pub(super) fn push_messages(messages: &[Message], out: &mut Vec<u8>) {
    out.push(b'[');
    let mut rest = messages;
    while let Some(first) = rest.first() {
        let is_assistant = first.role == Role::Assistant;
        let length = rest.iter().take_while(|message| (message.role == Role::Assistant) == is_assistant).count();
        let (turn, after) = rest.split_at(length);
        push_comma(out);
        out.extend_from_slice(if is_assistant {
            br#"{"role":"assistant","content":["#
        } else {
            br#"{"role":"user","content":["#
        });
        for message in turn {
            push_blocks(message, out);
        }
        out.extend_from_slice(b"]}");
        rest = after;
    }
    out.push(b']');
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
        out.extend_from_slice(br#"{"toolResult":{"toolUseId":"#);
        push_string(id, out);
        out.extend_from_slice(b",\"content\":[{\"text\":");
        push_string(text, out);
        out.push(b'}');
        for content in more {
            push_comma(out);
            push_block(content, out);
        }
        out.extend_from_slice(if failed { b"],\"status\":\"error\"}}" } else { b"]}}" });
    }
}

pub(super) fn push_block(content: &Content, out: &mut Vec<u8>) {
    let mut begin = |start: &str, text: &str| {
        out.extend_from_slice(start.as_bytes());
        push_string(text, out);
    };
    match content {
        Content::Text(text) | Content::ToolResult { text, .. } => begin(r#"{"text":"#, text),
        Content::Reasoning { text, signature } => {
            begin(r#"{"reasoningContent":{"reasoningText":{"text":"#, text);
            if let Some(signature) = signature {
                begin(r#","signature":"#, signature);
            }
            out.extend_from_slice(b"}}");
        }
        Content::Image(Image::Data { media_type, base64 }) => {
            begin(r#"{"image":{"format":"#, media_type.strip_prefix(IMAGE).unwrap_or(media_type));
            begin(r#","source":{"bytes":"#, base64);
            out.extend_from_slice(b"}}");
        }
        // The service fetches from its own store only; a translation refuses others before.
        Content::Image(Image::Url(url)) => {
            begin(r#"{"image":{"source":{"s3Location":{"uri":"#, url);
            out.extend_from_slice(b"}}}");
        }
        Content::ToolCall { id, name, arguments } => {
            begin(r#"{"toolUse":{"toolUseId":"#, id);
            begin(r#","name":"#, name);
            out.extend_from_slice(b",\"input\":");
            push_arguments_as_object(arguments, out);
            out.push(b'}');
        }
        Content::Other(json) => {
            let json = if serde_json::from_str::<&RawValue>(json).is_ok() { json } else { "{}" };
            return out.extend_from_slice(json.as_bytes());
        }
    }
    out.push(b'}');
}

/// Reads a turn; results of tools become messages of their own, before what else the user writes.
pub(super) fn read_message(message: &Object<'_>, messages: &mut Vec<Message>) -> Result<(), WireError> {
    const CONTENT: &str = "messages[].content";
    let role = match message.text("role", &mut false)?.as_deref() {
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        _ => return Err(WireError::Invalid { field: "messages[].role", expected: "user or assistant" }),
    };
    let expected = WireError::Invalid { field: CONTENT, expected: "an array of blocks" };
    let json = message.get("content").ok_or(WireError::Missing(CONTENT))?;
    let mut content = Vec::new();
    for json in read_array(json)?.ok_or_else(|| expected.clone())? {
        let block = Object::read(json)?.ok_or_else(|| expected.clone())?;
        match block.object("toolResult", &mut false)? {
            Some(result) => messages.push(Message { role: Role::Tool, content: read_result(&result)? }),
            None => content.extend(read_block(json, &block)?),
        }
    }
    if !content.is_empty() {
        messages.push(Message { role, content });
    }
    Ok(())
}

/// The result of a tool: its texts, then what else is in it. JSON is told as its text.
fn read_result(result: &Object<'_>) -> Result<Vec<Content>, WireError> {
    const CONTENT: &str = "messages[].content[].toolResult.content";
    let field = "messages[].content[].toolResult.toolUseId";
    let id = result.text("toolUseId", &mut false)?.ok_or(WireError::Missing(field))?.into_owned();
    let failed = result.get("status") == Some("\"error\"");
    let expected = WireError::Invalid { field: CONTENT, expected: "an array of blocks" };
    let (mut text, mut contents) = (String::new(), Vec::new());
    for json in read_array(result.get("content").unwrap_or("[]"))?.ok_or_else(|| expected.clone())? {
        let block = Object::read(json)?.ok_or_else(|| expected.clone())?;
        match (block.get("json"), read_block(json, &block)?) {
            (Some(json), _) => text.push_str(&without_whitespace(json)),
            (None, Some(Content::Text(part))) => text.push_str(&part),
            (None, content) => contents.extend(content),
        }
    }
    contents.insert(0, Content::ToolResult { id, name: String::new(), text, failed });
    Ok(contents)
}

/// Reads a block; one that has no place of its own, or lacks what its kind needs, stays the JSON it is. A mark for the cache says nothing.
pub(super) fn read_block(json: &str, block: &Object<'_>) -> Result<Option<Content>, WireError> {
    if block.fields().all(|(name, _)| name == "cachePoint") {
        return Ok(None);
    }
    let text = |object: &Object<'_>, name: &str| object.text(name, &mut false).map(|text| text.map(String::from));
    let content = if block.get("text").is_some() {
        text(block, "text")?.map(Content::Text)
    } else if let Some(call) = block.object("toolUse", &mut false)? {
        match (text(&call, "toolUseId")?, text(&call, "name")?, call.get("input")) {
            (Some(id), Some(name), Some(input)) => {
                Some(Content::ToolCall { id, name, arguments: without_whitespace(input).into_owned() })
            }
            _ => None,
        }
    } else if let Some(image) = block.object("image", &mut false)? {
        read_image(&image)?.map(Content::Image)
    } else if let Some(reasoning) = block.object("reasoningContent", &mut false)? {
        let inside = reasoning.object("reasoningText", &mut false)?.unwrap_or_default();
        let signature = text(&inside, "signature")?;
        text(&inside, "text")?.map(|text| Content::Reasoning { text, signature })
    } else {
        None
    };
    Ok(Some(content.unwrap_or_else(|| Content::Other(json.to_owned()))))
}

fn read_image(image: &Object<'_>) -> Result<Option<Image>, WireError> {
    let source = image.object("source", &mut false)?.unwrap_or_default();
    let format = image.text("format", &mut false)?;
    let bytes = source.text("bytes", &mut false)?;
    Ok(format.zip(bytes).map(|(format, base64)| Image::Data {
        media_type: if format.contains('/') { format.into_owned() } else { format!("{IMAGE}{format}") },
        base64: base64.into_owned(),
    }))
}
