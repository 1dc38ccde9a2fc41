//! Clients in both layouts: what is drawn lies in its excerpt, in order, with lengths of at least a token; what is refused is refused at a place.
//!
//! It does not know real loads. Invariant: drawing again draws the same.

use crate::text;
use tokrate_bench::clients::{Clients, Excerpt};
use tokrate_core::{Rng, Span};

/// Panics if a property does not hold. ServeGen's trace ends, and its dataset begins, at the first line of `---`.
pub fn run(input: &[u8]) {
    let text = text(input);
    let clients = match text.split_once("\n---\n") {
        None => Clients::parse(text).map_err(|bad| (0, bad)),
        Some(pair) => Clients::parse_servegen(&[pair]),
    };
    let clients = match clients {
        Ok(clients) => clients,
        Err((file, bad)) => {
            assert!(file < 2 && bad.line >= 1 && bad.column >= 1, "{bad}");
            return;
        }
    };
    assert!(!clients.is_empty());
    let excerpt = Excerpt { from: Span::from_secs(30), length: Span::from_secs(90), rate: Some(3.0) };
    let draw = || clients.draw(excerpt, &Rng::root(7));
    if let Ok(trace) = draw() {
        assert!(trace.requests.is_sorted_by_key(|request| request.at));
        for request in &trace.requests {
            assert!(request.at <= excerpt.length && request.input_tokens > 0 && request.output_tokens > 0);
        }
        assert_eq!(draw().as_ref(), Ok(&trace));
    }
}
