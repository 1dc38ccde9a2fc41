//! Provider dialects as sans-IO encoders and decoders: bytes in, [`tokrate_core::EventBatch`] out, and the way back.
//!
//! It refuses to know sockets, clocks and measurements: a tick is handed in with the bytes and handed on with the events.
//!
//! Architecture Invariant: a decoder never fails and never panics. Broken input becomes events and counted oddities,
//! and any chunking of the same bytes gives the same events.

mod anthropic;
mod calls;
mod counts;
mod decoder;
mod dialect;
mod document;
mod elements;
mod encoder;
mod error;
pub mod frame;
mod gemini;
pub mod glance;
mod json_text;
mod lines;
mod llama;
mod object;
mod ollama;
mod openai_chat;
mod openai_completions;
mod openai_responses;
mod read;
mod references;
mod refusal;
mod remainder;
mod request;
mod speech;
mod template;
mod timings;
pub mod translate;
mod usage_filter;

pub use decoder::Decoder;
pub use dialect::{Dialect, Routed, Shape};
pub use encoder::{Answer, Encoder, Piece, ToolCall, encode_refusal};
pub use error::WireError;
pub use glance::{Glance, GlanceError, Lengths, Limit};
pub use references::{BesideBody, beside_body};
pub use refusal::{Refusal, refusal};
pub use request::{decode_request, encode_request};
pub use translate::{
    AnswerTranslator, Progress, TranslateError, TranslatedRequest, error_event, status_of, translate_request,
};
pub use usage_filter::{Passage, UsageFilter};
