//! Ollama's `/api/chat` and `/api/generate`, both ways.
//!
//! It refuses to know framing and paths. Invariant: nothing in here returns an error for a broken answer; what does not fit
//! is counted and the rest is kept.

mod encode;
mod request;
mod said;

pub(crate) use encode::{LineWriter, refusal};
pub(crate) use request::{decode, encode};
pub(crate) use said::Lines;

/// Which of the two endpoints; they differ in where the text stands and in how a conversation is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Endpoint {
    /// `/api/chat`: messages, the answer in `message.content`.
    Chat,
    /// `/api/generate`: one prompt, the answer in `response`.
    Generate,
}
