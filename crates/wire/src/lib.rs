//! Provider dialects as sans-IO encoders and decoders: bytes in, [`tokrate_core::EventBatch`] out, and the way back.
//!
//! It refuses to know sockets, clocks and measurements: a tick is handed in with the bytes and handed on with the events.
//!
//! Architecture Invariant: a decoder never fails and never panics. Broken input becomes events and counted oddities,
//! and any chunking of the same bytes gives the same events.

mod decoder;
mod dialect;
mod encoder;
mod error;
pub mod frame;
mod json_text;
mod openai_chat;
mod refusal;
mod request;

pub use decoder::Decoder;
pub use dialect::{Dialect, Shape};
pub use encoder::{Encoder, Piece, encode_refusal};
pub use error::WireError;
pub use refusal::{Refusal, refusal};
pub use request::{decode_request, encode_request};
