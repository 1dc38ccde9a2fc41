//! From one dialect into another: a client's request for a server that speaks differently, and the server's answer back.
//!
//! It refuses to know servers, models and what a translation is for. Invariant: nothing is dropped silently. What the other
//! dialect has no place for is an error that names the field, unless its absence cannot change the answer; those fields are
//! listed with their reasons in `docs/dialects.md`. An answer that breaks off never ends like one that is complete.

mod answer;
mod call_order;
mod clean;
mod collected;
mod conversation;
mod fault;
mod grant;
mod request;
mod schema;
mod tables;
mod wish;

pub use answer::{AnswerTranslator, Progress};
pub use fault::{error_event, status_of};
pub use request::{TranslateError, TranslatedRequest, translate_request};

use crate::dialect::Dialect;

/// Dialects with one text and nothing else: neither tools nor a channel for thoughts.
fn is_plain(dialect: Dialect) -> bool {
    matches!(dialect, Dialect::OpenAiCompletions | Dialect::LlamaCompletion)
}
