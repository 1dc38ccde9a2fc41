//! Trace contexts of clients: any bytes are no context, or one that is sent on as a valid one.
//!
//! It does not know what trackers put into `tracestate`. Invariant: the input is the value of `traceparent` up to the first line
//! feed, and one of `tracestate` in each line behind it.

use http::{HeaderMap, HeaderName, HeaderValue};
use tokrate_gateway::fuzzing::trace_context;

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
/// `00-`, 32 digits, `-`, 16 digits, `-`, 2 digits.
const PARENT_BYTES: usize = 55;
/// As the recommendation bounds it.
const MAX_STATE_BYTES: usize = 512;

/// Panics if a property does not hold.
pub fn run(input: &[u8]) {
    let mut received = HeaderMap::new();
    for (number, line) in input.split(|byte| *byte == b'\n').enumerate() {
        if let Ok(value) = HeaderValue::from_bytes(line) {
            received.append(if number == 0 { TRACEPARENT } else { TRACESTATE }, value);
        }
    }
    let Some(sent) = trace_context(&received) else { return };
    let parent = sent[TRACEPARENT].as_bytes();
    assert_eq!(parent.len(), PARENT_BYTES);
    assert!(parent.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b'-')));
    assert_eq!(parent[3..52], received[TRACEPARENT].as_bytes()[3..52], "the same trace and span");
    if let Some(state) = sent.get(TRACESTATE) {
        assert!(state.len() <= MAX_STATE_BYTES && state.as_bytes().iter().all(|byte| matches!(byte, b' '..=b'~')));
    }
    assert_eq!(trace_context(&sent), Some(sent), "read again it is the same");
}
