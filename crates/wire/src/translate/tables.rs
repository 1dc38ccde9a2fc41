//! What each dialect's requests may say, and what becomes of it in a translation.
//!
//! It refuses to know targets. Invariant: a row that drops a field has its reason in `docs/dialects.md`.

mod anthropic;
mod gemini;
mod ollama;
mod openai_chat;
mod openai_responses;
mod plain;

use super::clean::Table;
use crate::dialect::Dialect;

/// The table of a dialect's requests.
pub(super) fn table_of(dialect: Dialect) -> &'static Table {
    match dialect {
        Dialect::OpenAiChat => &openai_chat::REQUEST,
        Dialect::OpenAiCompletions => &plain::COMPLETIONS,
        Dialect::OpenAiResponses => &openai_responses::REQUEST,
        Dialect::Anthropic => &anthropic::REQUEST,
        Dialect::Gemini => &gemini::REQUEST,
        Dialect::OllamaChat => &ollama::CHAT,
        Dialect::OllamaGenerate => &ollama::GENERATE,
        Dialect::LlamaCompletion => &plain::LLAMA,
    }
}

/// A table with one kind of object.
const fn single(kinds: &'static [super::clean::Kind]) -> Table {
    Table { tag: "", default: "", kinds }
}
