//! A conversation of another dialect as Gemini wants it.

use tokrate_core::{Content, Message, Role};

/// Google's signature for a call that another model made.
const FOREIGN_SIGNATURE: &str = "skip_thought_signature_validator";

/// Joins the results of the calls of a turn, and signs the calls.
pub(super) fn prepare(messages: &mut Vec<Message>) {
    join_results(messages);
    messages.iter_mut().for_each(sign_calls);
}

/// Gemini refuses calls of a turn without a signature on the first.
fn sign_calls(message: &mut Message) {
    let first = message.content.iter().position(|content| matches!(content, Content::ToolCall { .. }));
    if let Some(first) = first {
        let signature = Some(FOREIGN_SIGNATURE.to_owned());
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
