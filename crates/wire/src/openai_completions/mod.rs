//! OpenAI's older text completions as engines really send them, both ways.
//!
//! It refuses to know framing. Invariant: nothing in here returns an error for a broken answer; what does not fit is
//! counted and the rest is kept.

mod encode;
mod request;
mod said;

pub(crate) use encode::TextWriter;
pub(crate) use request::{decode, encode, prompt_of};
pub(crate) use said::TextSpeech;
