//! Provider dialects as sans-IO encoders and decoders: bytes in, [`tokrate_core::EventBatch`] out, and the way back.
//!
//! A dialect is a folder below `dialects` with one descriptor (its facts) and one `Codec` (its formats), registered in
//! `dialects.rs` and nowhere else.
//!
//! Architecture Invariant: a decoder never fails and never panics. Broken input becomes events and counted oddities,
//! and any chunking of the same bytes gives the same events.

mod calls;
mod codec;
mod counts;
mod decoder;
mod dialect;
mod dialects;
mod document;
mod document_decoder;
mod elements;
mod encoder;
mod error;
mod external_input;
pub mod frame;
pub mod glance;
mod json_text;
mod lines;
mod object;
mod refusal;
mod remainder;
mod request;
mod request_body;
mod response;
mod template;
mod timings;
pub mod translate;
mod usage_filter;

pub use codec::{Framing, KeyHeader, Operation, ServerTimesField, Shape, UsageInStream};
pub use decoder::Decoder;
pub use dialect::{Dialect, Routed};
pub use encoder::{Encoder, encode_refusal};
pub use error::WireError;
pub use external_input::{ExternalInput, external_input};
// The names that the gateway still uses.
pub use glance::{Glance, GlanceError, Lengths, Limit};

pub use refusal::{Refusal, refusal};
pub use request::{decode_request, encode_request};
pub use response::{Answer, Piece, ToolCall};
pub use translate::{
    AnswerTranslator, Progress, TranslateError, TranslatedRequest, error_event, status_of, translate_request,
};
pub use usage_filter::{Passage, UsageFilter};
