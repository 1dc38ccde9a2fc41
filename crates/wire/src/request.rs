//! Chat requests: written for a server, and read as a server.
//!
//! Invariant: what is not set is not written, and a field without a name of its own in [`ChatRequest`] survives reading and
//! writing in its dialect as the JSON it was.

use crate::codec::Shape;
use crate::dialect::{Dialect, Routed};
use crate::error::WireError;
use tokrate_core::ChatRequest;

/// The body of a request.
///
/// A field in [`ChatRequest::extra`] replaces the field of that name which would be written otherwise. What a dialect has no
/// field for is left out. A number that is not finite is left out: JSON has none.
pub fn encode_request(dialect: Dialect, request: &ChatRequest) -> Vec<u8> {
    (dialect.codec().encode_request)(request)
}

/// Reads the body of a request that was sent to a path ([`Dialect::of_path`]). Of a repeated field the last counts.
///
/// # Errors
/// When the body is no JSON object, when a field that every request needs is absent, or when a field has a value of a wrong
/// type.
pub fn decode_request(routed: &Routed, body: &[u8]) -> Result<ChatRequest, WireError> {
    let mut request = (routed.dialect.codec().decode_request)(body)?;
    if let Some(model) = &routed.model {
        request.model.clone_from(model);
    }
    if let Some(shape) = routed.shape {
        request.stream = shape != Shape::Whole;
        // Dialects whose paths show it send token counts unasked.
        request.include_usage = request.stream;
    }
    Ok(request)
}

#[cfg(test)]
mod tests;
