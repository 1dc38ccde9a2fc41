//! The native completion of llama.cpp's server (`POST /completion`), both ways.
//!
//! It refuses to know framing. Invariant: nothing in here returns an error for a broken answer; what does not fit is
//! counted and the rest is kept.

mod encode;
mod request;
mod said;

pub(crate) use encode::CompletionWriter;
pub(crate) use request::{decode, encode};
pub(crate) use said::CompletionSpeech;

#[cfg(test)]
mod tests;
