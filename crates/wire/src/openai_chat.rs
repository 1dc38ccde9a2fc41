//! OpenAI's chat completions as engines and providers really send them.
//!
//! It refuses to know framing and the way back to the wire. Invariant: nothing in here returns an error to its caller;
//! what does not fit is counted and the rest is kept.

mod chunk;
mod read;
mod stream;
mod template;
mod usage;

pub(crate) use stream::{ChatStream, Part, Source};
