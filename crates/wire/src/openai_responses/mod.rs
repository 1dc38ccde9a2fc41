//! OpenAI's Responses API (`POST /v1/responses`), both ways.
//!
//! It refuses to know framing. Invariant: nothing in here returns an error for a broken answer; what does not fit is
//! counted and the rest is kept.

mod encode;
mod item;
mod request;
mod said;

pub(crate) use encode::{ResponseWriter, refusal};
pub(crate) use request::{decode, encode};
pub(crate) use said::Responses;

#[cfg(test)]
mod tests;
