//! Token counts: a text counted piece by piece has the tokens of the whole.
//!
//! It refuses to know any reference. Invariant: for every text and every cut, the incremental count is the final one, and
//! the ends of the tokens rise up to the end of the text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tokrate_tokens::{Encoding, StreamCounter, count, token_ends};

fuzz_target!(|input: (u16, &str)| {
    let (cut, text) = input;
    let cut = text.floor_char_boundary(usize::from(cut) % (text.len() + 1));
    for encoding in [Encoding::O200kBase, Encoding::Cl100kBase] {
        let whole = count(encoding, text);
        let mut counter = StreamCounter::new(encoding);
        counter.push(&text[..cut]);
        counter.push(&text[cut..]);
        assert_eq!(counter.finish(), whole);
        let mut ends = Vec::new();
        token_ends(encoding, text, &mut ends);
        assert_eq!(ends.len(), whole);
        assert!(ends.is_sorted() && ends.last().is_none_or(|&end| end == text.len()));
    }
});
