//! Traces in all three layouts: times begin at 0 and never fall, counts are within their bounds, and the first requests of a
//! trace do not depend on how many are read.
//!
//! It does not know real loads. Invariant: the first byte of the input says how many requests are read; a byte order mark before
//! the rest changes nothing.

use crate::text;
use tokrate_bench::trace::{BLOCK_TOKENS, Trace};
use tokrate_core::Span;

/// Panics if a property does not hold.
pub fn run(input: &[u8]) {
    let Some((&limit, bytes)) = input.split_first() else { return };
    let text = text(bytes);
    let limit = (limit != 0).then(|| u64::from(limit));
    let trace = match Trace::parse(text, limit) {
        Ok(trace) => trace,
        Err(bad) => {
            assert!(bad.line >= 1 && bad.column >= 1 && bad.line <= text.split('\n').count(), "{bad}");
            return;
        }
    };
    assert!(!trace.requests.is_empty());
    assert!(limit.is_none_or(|limit| trace.requests.len() as u64 <= limit));
    assert_eq!(trace.requests[0].at, Span::ZERO);
    assert!(trace.requests.is_sorted_by_key(|request| request.at));
    for request in &trace.requests {
        assert!(request.input_tokens > 0 && request.output_tokens > 0);
        assert!(request.blocks.len() as u64 <= u64::from(request.input_tokens.div_ceil(BLOCK_TOKENS)));
    }
    for speed in [1.0, 0.1, 7.0] {
        let due = trace.due(speed);
        assert!(due.len() == trace.requests.len() && due.is_sorted());
    }
    if !text.starts_with('\u{feff}') {
        let marked = Trace::parse(&format!("\u{feff}{text}"), limit).expect("a byte order mark changes nothing");
        assert_eq!(marked.requests, trace.requests);
    }
    // As long as there are as many rows, more of them being allowed changes nothing.
    let again = Trace::parse(text, Some(trace.requests.len() as u64)).expect("what could be read can be read again");
    assert_eq!(again.requests, trace.requests);
}
