//! Token counts: a text counted piece by piece has the tokens of the whole.
//!
//! It does not know any reference. Invariant: for every text and every cut, the incremental count is the final one, and
//! the ends of the tokens rise up to the end of the text; the first two bytes of the input say where to cut.

use crate::text;
use tokrate_tokens::{Encoding, StreamCounter, count, token_ends};

/// Panics if a property does not hold.
pub fn run(input: &[u8]) {
    let Some((&[cut, fine], bytes)) = input.split_first_chunk::<2>() else { return };
    let (cut, text) = (u16::from_le_bytes([fine, cut]), text(bytes));
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
}
