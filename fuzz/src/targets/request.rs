//! Requests in every dialect: what is read can be written, in its own dialect and in all others, and is read again there.
//!
//! It does not know limits. Invariant: the first byte of the input says the dialect.

use tokrate_wire::{Dialect, Shape, decode_request, encode_request};

/// Panics if a property does not hold.
pub fn run(input: &[u8]) {
    let Some((&dialect, body)) = input.split_first() else { return };
    let dialect = Dialect::ALL[usize::from(dialect) % Dialect::ALL.len()];
    let path = dialect.path("model", Shape::Stream);
    let routed = Dialect::of_path(&path).expect("a path of ours");
    let Ok(request) = decode_request(&routed, body) else { return };
    let written = encode_request(dialect, &request);
    assert!(decode_request(&routed, &written).is_ok(), "what is written can be read");
    for other in Dialect::ALL {
        let _ = encode_request(other, &request);
    }
}
