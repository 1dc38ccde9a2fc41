//! One item of a response's output: a message, reasoning, a call.
//!
//! Invariant: reasoning that stands as a summary and in full with the same text is taken once.

use crate::object::Object;
use serde_json::Error;
use std::borrow::Cow;
use tokrate_core::Channel;

/// The content of an item.
#[derive(Default)]
pub(super) struct Item<'a> {
    /// Non-empty texts in their order.
    pub(super) texts: Vec<(Channel, Cow<'a, str>)>,
    pub(super) call: Option<Call<'a>>,
    /// Something that is no text: a picture, or a call of a kind of its own that the client has to carry out.
    pub(super) opaque: Option<Opaque>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Opaque {
    Picture,
    Call,
}

/// A call of a tool.
pub(super) struct Call<'a> {
    /// The identifier that the answer to it must name.
    pub(super) id: Cow<'a, str>,
    /// The identifier that further events name.
    pub(super) item_id: Cow<'a, str>,
    pub(super) name: Cow<'a, str>,
    /// The client has to carry it out.
    pub(super) client: bool,
}

/// Reads the items of an array.
pub(super) fn read_items<'a>(array: &[&'a str], malformed: &mut bool) -> Result<Vec<Item<'a>>, Error> {
    let mut items = Vec::with_capacity(array.len());
    for json in array {
        match Object::within(json)? {
            Some(object) => items.push(read_item(&object, malformed)?),
            None => *malformed = true,
        }
    }
    Ok(items)
}

/// Reads an item; one of a kind that holds no text of the model is empty.
pub(super) fn read_item<'a>(object: &Object<'a>, malformed: &mut bool) -> Result<Item<'a>, Error> {
    let mut item = Item::default();
    let (input, client) = match &*object.text("type", malformed)?.unwrap_or_default() {
        "message" | "reasoning" => {
            for field in ["summary", "content"] {
                for part in object.array(field, malformed)? {
                    match Object::within(part)? {
                        Some(part) => read_part(&part, &mut item.texts, malformed)?,
                        None => *malformed = true,
                    }
                }
            }
            return Ok(item);
        }
        "function_call" => ("arguments", true),
        "custom_tool_call" => ("input", true),
        "mcp_call" => ("arguments", false),
        "code_interpreter_call" => ("code", false),
        "image_generation_call" => {
            item.opaque = object.get("result").map(|_| Opaque::Picture);
            return Ok(item);
        }
        "computer_call" | "local_shell_call" | "shell_call" | "apply_patch_call" => {
            item.opaque = Some(Opaque::Call);
            return Ok(item);
        }
        _ => return Ok(item),
    };
    let item_id = object.text("id", malformed)?.unwrap_or_default();
    let id = object.text("call_id", malformed)?.unwrap_or_else(|| item_id.clone());
    let name = object.text("name", malformed)?.unwrap_or_default();
    item.call = Some(Call { id, item_id, name, client });
    push(&mut item.texts, Channel::Tool, object.text(input, malformed)?);
    Ok(item)
}

/// Reads a part of a message or of reasoning.
pub(super) fn read_part<'a>(
    part: &Object<'a>,
    texts: &mut Vec<(Channel, Cow<'a, str>)>,
    malformed: &mut bool,
) -> Result<(), Error> {
    let (field, channel) = match &*part.text("type", malformed)?.unwrap_or_default() {
        "output_text" | "text" => ("text", Channel::Answer),
        "refusal" => ("refusal", Channel::Answer),
        "summary_text" | "reasoning_text" => ("text", Channel::Reasoning),
        _ => return Ok(()),
    };
    push(texts, channel, part.text(field, malformed)?);
    Ok(())
}

fn push<'a>(texts: &mut Vec<(Channel, Cow<'a, str>)>, channel: Channel, text: Option<Cow<'a, str>>) {
    let Some(text) = text.filter(|text| !text.is_empty()) else { return };
    let repeated = channel == Channel::Reasoning && texts.iter().any(|(_, earlier)| *earlier == text);
    if !repeated {
        texts.push((channel, text));
    }
}
