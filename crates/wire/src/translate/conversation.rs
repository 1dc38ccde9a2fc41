//! A conversation that was read in one dialect made fit for another.
//!
//! It refuses to know top-level fields. Invariant: no word of the conversation is lost but earlier thoughts, which their
//! provider sealed or leaves out itself; what the target cannot say is an error.

use super::TranslateError;
use crate::dialect::Dialect;
use crate::object::Object;
use std::collections::BTreeSet;
use tokrate_core::{ChatRequest, Content, Message, Role, ToolChoice};

/// Why and where a conversation cannot be told.
type Refusal = (String, String);

/// Makes the conversation fit.
pub(super) fn adapt(request: &mut ChatRequest, from: Dialect, to: Dialect) -> Result<(), TranslateError> {
    let refused = |(field, why): Refusal| TranslateError { from, to, field, why };
    for message in &mut request.messages {
        for content in &mut message.content {
            read_refusal(content);
        }
        let kept = std::mem::take(&mut message.content);
        message.content = kept.into_iter().filter_map(|content| without_seal(content, to)).collect();
        mark_failures(message, to);
        drop_empty_texts(message);
    }
    // What only held thoughts holds nothing now.
    request.messages.retain(|message| !message.content.is_empty());
    name_calls(&mut request.messages, to).map_err(refused)?;
    if let Some(Content::Other(_)) = request.messages.iter().flat_map(|message| &message.content).find(is_other) {
        return Err(refused(("messages".to_owned(), "a part of the conversation is of an unknown kind".to_owned())));
    }
    if to == Dialect::Gemini {
        join_results(&mut request.messages);
        request.messages.iter_mut().for_each(seal_calls);
    }
    check_roles(&request.messages, to).map_err(refused)?;
    check_fields(request, to).map_err(refused)
}

fn is_other(content: &&Content) -> bool {
    matches!(content, Content::Other(_))
}

/// What the model refused with is what it said.
fn read_refusal(content: &mut Content) {
    if let Content::Other(json) = &*content
        && let Ok(Some(part)) = Object::read(json)
        && part.get("type") == Some("\"refusal\"")
        && let Ok(Some(text)) = part.text("refusal", &mut false)
    {
        *content = Content::Text(text.into_owned());
    }
}

/// A seal is worth something to the provider alone who set it; thoughts under one, or without any where one is needed, stay
/// behind. Thoughts without a seal come from servers that want them back, and such servers speak these two dialects.
fn without_seal(content: Content, to: Dialect) -> Option<Content> {
    match content {
        Content::Reasoning { text, signature } => {
            let unsealed = signature.is_none_or(|signature| signature.is_empty()) && !text.is_empty();
            let wanted = matches!(to, Dialect::OpenAiChat | Dialect::OllamaChat);
            (unsealed && wanted).then_some(Content::Reasoning { text, signature: None })
        }
        content => Some(content),
    }
}

/// Where a failed tool cannot be told from another by a field, its words say it.
fn mark_failures(message: &mut Message, to: Dialect) {
    if matches!(to, Dialect::Anthropic | Dialect::Gemini) {
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

/// Texts without a word beside other parts: some servers refuse them, and nothing is lost.
fn drop_empty_texts(message: &mut Message) {
    let is_empty = |content: &Content| matches!(content, Content::Text(text) if text.is_empty());
    if !message.content.iter().all(is_empty) {
        message.content.retain(|content| !is_empty(content));
    }
}

/// Gives identifiers to calls that have none, and to their results the same; Anthropic's may hold few characters only.
fn name_calls(messages: &mut [Message], to: Dialect) -> Result<(), Refusal> {
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
        if to == Dialect::Anthropic
            && let Content::ToolCall { id, .. } | Content::ToolResult { id, .. } = content
        {
            let fits = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
            *id = id.chars().map(|letter| if fits(letter) { letter } else { '_' }).collect();
        }
    }
    Ok(())
}

/// Gemini refuses a call without its seal; this is Google's word for one that another model made.
fn seal_calls(message: &mut Message) {
    let signature = Some("skip_thought_signature_validator".to_owned());
    let first = message.content.iter().position(|content| matches!(content, Content::ToolCall { .. }));
    if let Some(first) = first {
        message.content.insert(first, Content::Reasoning { text: String::new(), signature });
    }
}

/// Gemini wants the results of all calls of a turn in one turn.
fn join_results(messages: &mut Vec<Message>) {
    messages.dedup_by(|later, earlier| {
        let both = later.role == Role::Tool && earlier.role == Role::Tool;
        if both {
            earlier.content.append(&mut later.content);
        }
        both
    });
}

/// Who may speak when.
fn check_roles(messages: &[Message], to: Dialect) -> Result<(), Refusal> {
    let refused = |index: usize, why: &str| Err((format!("messages[{index}]"), format!("{} {why}", to.name())));
    match to {
        Dialect::Gemini => {
            let leading = messages.iter().take_while(|message| message.role == Role::System).count();
            let late = messages[leading..].iter().position(|message| message.role == Role::System);
            late.map_or(Ok(()), |late| refused(leading + late, "takes instructions at the beginning only"))
        }
        Dialect::OpenAiCompletions | Dialect::LlamaCompletion | Dialect::OllamaGenerate => {
            let instructed = to == Dialect::OllamaGenerate;
            let system = messages.iter().take_while(|message| instructed && message.role == Role::System).count();
            match &messages[system..] {
                [Message { role: Role::User, .. }] => Ok(()),
                [] => refused(0, "needs a prompt"),
                [Message { role: Role::User, .. }, ..] => refused(system + 1, "takes one prompt and no conversation"),
                _ => refused(system, "takes one prompt of the user and nothing else"),
            }
        }
        _ => Ok(()),
    }
}

/// Fields of the request that not every dialect has.
fn check_fields(request: &mut ChatRequest, to: Dialect) -> Result<(), Refusal> {
    use Dialect::*;
    let refused = |field: &str| Err((field.to_owned(), format!("{} has no place for it", to.name())));
    if to == OllamaChat {
        match request.tool_choice {
            // What happens anyway.
            None | Some(ToolChoice::Auto) => request.tool_choice = None,
            Some(_) => return refused("tool_choice"),
        }
    }
    if request.seed.is_some() && matches!(to, Anthropic | OpenAiResponses) {
        return refused("seed");
    }
    if !request.stop.is_empty() && to == OpenAiResponses {
        return refused("stop");
    }
    if request.ignore_eos && matches!(to, Anthropic | Gemini | OllamaChat | OllamaGenerate) {
        return refused("ignore_eos");
    }
    Ok(())
}
