//! The role that a request's instructions are those of, for a model that nobody has configured; only where the settings ask for it.
//!
//! It reads words and understands nothing. Invariant: the rules are a closed list, looked at in its order, and the same
//! instructions give the same role.

use tokrate_core::{ChatRequest, Role};

/// Of longer instructions only the beginning counts: what an agent is stands there, rules for its tools and files of the user's behind
/// it (bytes).
const MAX_BYTES: usize = 2 * 1024;
/// What holds where no other rule does.
const DEFAULT: &str = "reason";

/// A role, and groups of words: of one group all have to stand in the instructions.
type Rule = (&'static str, &'static [&'static [&'static str]]);

/// The rules. Words are in lower case; a word that is cut off stands for all that begin with it.
const RULES: &[Rule] = &[
    ("apply", &[&["<updated-code>"], &["apply", "edit", "<code>"], &["merge", "edit", "into a file"]]),
    (
        "compact",
        &[&["summar", "conversation"], &["compact", "conversation"], &["title generator"], &["generate a title"]],
    ),
    ("search", &[&["file search"], &["search", "codebase"], &["explor", "codebase"], &["search specialist"]]),
];

/// The role of a request.
pub(super) fn role_of(request: &ChatRequest) -> &'static str {
    let system = request.messages.iter().filter(|message| message.role == Role::System);
    let mut instructions = String::new();
    for text in system.flat_map(|message| message.texts()) {
        let left = MAX_BYTES.saturating_sub(instructions.len());
        instructions.push_str(&text[..text.floor_char_boundary(left.min(text.len()))]);
        instructions.push('\n');
    }
    instructions.make_ascii_lowercase();
    let holds = |words: &&[&str]| words.iter().all(|word| instructions.contains(word));
    RULES.iter().find(|(_, groups)| groups.iter().any(&holds)).map_or(DEFAULT, |(role, _)| role)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokrate_core::Message;

    fn role(instructions: &[&str]) -> &'static str {
        let system = instructions.iter().map(|text| Message::text(Role::System, *text));
        let messages = system.chain([Message::text(Role::User, "summarize the conversation")]).collect();
        role_of(&ChatRequest { messages, ..ChatRequest::default() })
    }

    #[test]
    fn the_instructions_say_the_role_and_the_users_words_do_not() {
        for (instructions, expected) in [
            ("You are a coding agent running in a terminal.", "reason"),
            ("", "reason"),
            ("You Summarize a conversation between a user and an agent.", "compact"),
            ("You are a title generator. You output ONLY a thread title.", "compact"),
            ("You are a file search specialist.", "search"),
            ("Explore the codebase and report what you find.", "search"),
            ("You merge an edit into a file. Answer between <updated-code> and </updated-code>.", "apply"),
        ] {
            assert_eq!(role(&[instructions]), expected, "{instructions}");
        }
        assert_eq!(role(&["Be brief.", "Summarise the conversation."]), "compact", "of several messages");
    }

    #[test]
    fn only_the_beginning_of_long_instructions_counts() {
        let long = "ä".repeat(MAX_BYTES) + " title generator";
        assert_eq!(role(&[&long]), "reason");
        assert_eq!(role(&[&long, "title generator"]), "reason");
    }
}
