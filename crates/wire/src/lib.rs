//! Provider dialects as sans-IO encoders and decoders: bytes in, [`tokrate_core::EventBatch`] out, and the way back.
//!
//! A dialect is a folder below `dialects` with one descriptor (its facts) and one `Codec` (its formats), registered in
//! `dialects.rs` and nowhere else.
//!
//! Architecture Invariant: a decoder never fails and never panics. Broken input becomes events and counted anomalies,
//! and any chunking of the same bytes gives the same events.

mod assembly;
mod base64;
pub mod batch_api;
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
mod error_response;
pub mod event_stream;
mod external_input;
pub mod frame;
mod hosting;
mod invoke_answer;
mod items;
mod json_schema;
mod json_text;
mod lines;
pub mod live;
mod made_images;
pub mod media;
mod message_blocks;
mod model_path;
mod object;
pub mod peek;
mod prompt_parts;
pub mod realtime;
mod remainder;
mod request;
mod request_body;
mod response;
pub mod sound;
pub mod speech;
mod stream_assembly;
mod template;
mod timings;
pub mod transcription;
pub mod translate;
mod usage_filter;
pub mod websocket;

pub use assembly::AnswerAssembler;
pub use codec::{Framing, KeyHeader, Operation, ServerTimesField, Shape, UsageInStream};
pub use decoder::Decoder;
pub use dialect::{Dialect, Routed};
pub use encoder::{Encoder, encode_error_response};
pub use error::WireError;
pub use error_response::{ErrorResponse, decode_error_response};
pub use external_input::{ExternalInput, external_input};
pub use hosting::{anthropic_on_bedrock, anthropic_on_vertex};
pub use invoke_answer::InvokeAnswer;
pub use items::{ItemDecoder, ItemForm, ItemRequest, ItemTask};
pub use json_schema::{JsonSchema, SchemaViolation};
pub use made_images::ImageOptions;
pub use peek::{Changes, Lengths, Limit, PeekError, RequestPeek};
pub use prompt_parts::PromptParts;
pub use request::{decode_request, encode_request};
pub use response::{Answer, Piece, ToolCall};
pub use translate::{
    AnswerTranslator, Progress, TranslateError, TranslatedRequest, error_event, status_of, translate_request,
};
pub use usage_filter::{Passage, UsageFilter};
