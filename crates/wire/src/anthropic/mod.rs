//! Anthropic's messages (`POST /v1/messages`), both ways.
//!
//! It refuses to know framing. Invariant: nothing in here returns an error for a broken answer; what does not fit is
//! counted and the rest is kept.

mod encode;
mod request;
mod said;
mod usage;

pub(crate) use encode::{MessageWriter, refusal};
pub(crate) use request::{DEFAULT_MAX_TOKENS, decode, encode};
pub(crate) use said::Messages;

#[cfg(test)]
mod tests;
