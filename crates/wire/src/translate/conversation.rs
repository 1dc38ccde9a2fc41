//! A conversation that was read in one dialect made fit for another.
//!
//! Invariant: no word of the conversation is lost but earlier reasoning, which its provider signed or leaves out itself; what
//! the target has no place for is an error.

use super::TranslateError;
use crate::codec::Roles;
use crate::dialect::Dialect;
use crate::object::Object;
use std::collections::BTreeSet;
use tokrate_core::{ChatRequest, Content, Message, Role, ToolChoice};

/// Where a conversation cannot be carried over, and why.
type Refused = (String, String);

/// Makes the conversation fit.
pub(super) fn adapt(request: &mut ChatRequest, from: Dialect, to: Dialect) -> Result<(), TranslateError> {
    let refused = |(field, why): Refused| TranslateError { from, to, field, why };
    for message in &mut request.messages {
        for content in &mut message.content {
            read_refusal(content);
        }
        let kept = std::mem::take(&mut message.content);
        message.content = kept.into_iter().filter_map(|content| without_signature(content, to)).collect();
        mark_failures(message, to);
        drop_empty_texts(message);
    }
    // What held nothing but reasoning is empty now.
    request.messages.retain(|message| !message.content.is_empty());
    name_calls(&mut request.messages, to).map_err(refused)?;
    if let Some(Content::Other(_)) = request.messages.iter().flat_map(|message| &message.content).find(is_other) {
        return Err(refused(("messages".to_owned(), "a part of the conversation is of an unknown kind".to_owned())));
    }
    (to.codec().prepare_import)(request);
    check_roles(&request.messages, to).map_err(refused)?;
    check_fields(request, to).map_err(refused)
}

fn is_other(content: &&Content) -> bool {
    matches!(content, Content::Other(_))
}

/// A refusal of the model is text.
fn read_refusal(content: &mut Content) {
    if let Content::Other(json) = &*content
        && let Ok(Some(part)) = Object::read(json)
        && part.get("type") == Some("\"refusal\"")
        && let Ok(Some(text)) = part.text("refusal", &mut false)
    {
        *content = Content::Text(text.into_owned());
    }
}

/// A signature is worth something to the provider alone who made it: signed reasoning stays behind. Reasoning without one
/// comes from servers that want it back, and only some dialects have a place for it.
fn without_signature(content: Content, to: Dialect) -> Option<Content> {
    match content {
        Content::Reasoning { text, signature } => {
            let is_unsigned = signature.is_none_or(|signature| signature.is_empty()) && !text.is_empty();
            let wanted = to.descriptor().request.unsigned_reasoning;
            (is_unsigned && wanted).then_some(Content::Reasoning { text, signature: None })
        }
        content => Some(content),
    }
}

/// Where no field marks the result of a tool as failed, its text does.
fn mark_failures(message: &mut Message, to: Dialect) {
    if to.descriptor().request.tool_error_flag {
        return;
    }
    for content in &mut message.content {
        if let Content::ToolResult { text, failed, .. } = content
            && std::mem::replace(failed, false)
            && !text.trim_start().get(..5).is_some_and(|start| start.eq_ignore_ascii_case("error"))
        {
            *text = format!("Error: {text}");
        }
    }
}

/// Empty texts beside other parts: some servers refuse them, and nothing is lost.
fn drop_empty_texts(message: &mut Message) {
    let is_empty = |content: &Content| matches!(content, Content::Text(text) if text.is_empty());
    if !message.content.iter().all(is_empty) {
        message.content.retain(|content| !is_empty(content));
    }
}

/// Gives identifiers to calls that have none, and to their results the same; some dialects allow few characters only.
fn name_calls(messages: &mut [Message], to: Dialect) -> Result<(), Refused> {
    let mut taken: BTreeSet<String> = BTreeSet::new();
    for content in messages.iter().flat_map(|message| &message.content) {
        if let Content::ToolCall { id, .. } = content {
            taken.insert(id.clone());
        }
    }
    let mut open: Vec<(String, String)> = Vec::new();
    let mut count = 0;
    for content in messages.iter_mut().flat_map(|message| &mut message.content) {
        match content {
            Content::ToolCall { id, name, .. } if id.is_empty() => {
                while taken.contains(&format!("call_{count}")) {
                    count += 1;
                }
                *id = format!("call_{count}");
                taken.insert(id.clone());
                open.push((name.clone(), id.clone()));
            }
            Content::ToolResult { id, name, .. } if id.is_empty() => {
                let position = open.iter().position(|(called, _)| name.is_empty() || called == name);
                let position = position.ok_or_else(|| {
                    let why = format!("the result of the tool `{name}` answers no call of it");
                    ("messages".to_owned(), why)
                })?;
                *id = open.remove(position).1;
            }
            _ => {}
        }
        if to.descriptor().request.plain_call_ids
            && let Content::ToolCall { id, .. } | Content::ToolResult { id, .. } = content
        {
            let fits = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
            *id = id.chars().map(|letter| if fits(letter) { letter } else { '_' }).collect();
        }
    }
    Ok(())
}

/// Which roles may stand where.
fn check_roles(messages: &[Message], to: Dialect) -> Result<(), Refused> {
    let refused = |index: usize, why: &str| Err((format!("messages[{index}]"), format!("{} {why}", to.name())));
    let leading = || messages.iter().take_while(|message| message.role == Role::System).count();
    match to.descriptor().request.roles {
        Roles::Any => Ok(()),
        Roles::SystemFirst => {
            let leading = leading();
            let late = messages[leading..].iter().position(|message| message.role == Role::System);
            late.map_or(Ok(()), |late| refused(leading + late, "takes instructions at the beginning only"))
        }
        Roles::OnePrompt { system } => {
            let system = if system { leading() } else { 0 };
            match &messages[system..] {
                [Message { role: Role::User, .. }] => Ok(()),
                [] => refused(0, "needs a prompt"),
                [Message { role: Role::User, .. }, ..] => refused(system + 1, "takes one prompt and no conversation"),
                _ => refused(system, "takes one prompt of the user and nothing else"),
            }
        }
    }
}

/// Fields of the request that not every dialect has.
fn check_fields(request: &mut ChatRequest, to: Dialect) -> Result<(), Refused> {
    let features = to.descriptor().request;
    let refused = |field: &str| Err((field.to_owned(), format!("{} has no place for it", to.name())));
    if !features.tool_choice {
        match request.tool_choice {
            // The default.
            None | Some(ToolChoice::Auto) => request.tool_choice = None,
            Some(_) => return refused("tool_choice"),
        }
    }
    if request.tool_choice == Some(ToolChoice::Never) && !features.forbids_tools {
        return refused("tool_choice");
    }
    if request.seed.is_some() && !features.seed {
        return refused("seed");
    }
    if !request.stop.is_empty() && !features.stop {
        return refused("stop");
    }
    if request.ignore_eos && !features.ignore_eos {
        return refused("ignore_eos");
    }
    Ok(())
}
