//! Answers and errors as an engine or a gateway writes them, in any dialect.
//!
//! Invariant: a decoder gives back the pieces that were encoded, as far as the dialect has a place for them.

use crate::codec::Shape;
use crate::dialect::Dialect;
use crate::response::{Answer, Piece, ResponseEncoder};

/// Writes one answer; what all its events share is prepared once.
#[derive(Debug)]
pub struct Encoder(Box<dyn ResponseEncoder>);

impl Encoder {
    /// An encoder for the answer `id` of `model`, created at `created` seconds since 1970, that is asked for in `shape`.
    pub fn new(dialect: Dialect, shape: Shape, id: &str, model: &str, created: u64) -> Encoder {
        Encoder((dialect.codec().encoder)(shape, id, model, created))
    }

    /// Appends the bytes of one piece, framing included.
    pub fn encode_event(&mut self, piece: &Piece<'_>, out: &mut Vec<u8>) {
        self.0.encode_event(piece, out);
    }

    /// Number of the next event, in the dialect that counts them.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.0.next_sequence()
    }

    /// The answer as one JSON body.
    pub fn encode_whole(&self, answer: &Answer<'_>) -> Vec<u8> {
        self.0.encode_whole(answer)
    }
}

/// The body of an error response.
pub fn encode_error_response(dialect: Dialect, status: u16, message: &str) -> Vec<u8> {
    (dialect.codec().encode_error)(status, message)
}
