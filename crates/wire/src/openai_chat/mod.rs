//! OpenAI's chat completions as engines and providers really send them, both ways.
//!
//! It refuses to know framing. Invariant: nothing in here returns an error for a broken answer; what does not fit is
//! counted and the rest is kept.

mod chunk;
mod encode;
mod request;
mod said;
mod usage;

pub(crate) use chunk::finish_reason;
pub(crate) use encode::{ChatWriter, push_counts, push_error, push_head, push_middle, push_usage, refusal};
pub(crate) use request::{Limits, decode, encode, push_sampling, read_sampling};
pub(crate) use said::ChatSpeech;
pub(crate) use usage::read_usage;
