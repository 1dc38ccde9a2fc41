//! Exact o200k_base and cl100k_base token counts, incremental and linear in time.
//!
//! The crate knows text and counts, nothing of models, requests or time; it does no I/O and keeps no global state.
//! Invariant: for every `&str` each count equals that of the reference implementation of the encoding, and
//! the work is proportional to the text's length whatever the text is.
//!
//! The vocabularies are static tables inside the binary (`data/README.md` names their source), so the first count costs
//! what every count costs. Special tokens such as `<|endoftext|>` are ordinary text here: the output of a model is measured
//! as text.

#![forbid(unsafe_code)]

mod class;
mod layout;
mod merge;
mod scan;
mod stream;
mod truncate;
mod vocabulary;

pub use stream::StreamCounter;
pub use truncate::truncate;

use merge::Merger;
use scan::piece_at;
use vocabulary::Vocabulary;

/// A published byte-pair encoding.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Encoding {
    /// `o200k_base`, the encoding in which all standard token counts are given.
    O200kBase,
    /// `cl100k_base`, its predecessor.
    Cl100kBase,
}

impl Encoding {
    /// The published name.
    pub fn name(self) -> &'static str {
        match self {
            Encoding::O200kBase => "o200k_base",
            Encoding::Cl100kBase => "cl100k_base",
        }
    }
}

impl std::fmt::Display for Encoding {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name())
    }
}

/// How many tokens the text has.
///
/// ```
/// use tokrate_tokens::{Encoding, count};
///
/// assert_eq!(count(Encoding::O200kBase, "How fast is it?"), 5);
/// ```
pub fn count(encoding: Encoding, text: &str) -> usize {
    count_bytes(encoding, text.as_bytes())
}

/// How many tokens the text has, or `None` if they are more than `limit`; stops as soon as that is known.
pub fn count_within(encoding: Encoding, text: &str, limit: usize) -> Option<usize> {
    let vocabulary = Vocabulary::of(encoding);
    let mut merger = Merger::for_text();
    let (text, mut at, mut total) = (text.as_bytes(), 0, 0);
    while at < text.len() {
        let end = piece_at(encoding, text, at).end;
        total += merger.count(vocabulary, &text[at..end]);
        if total > limit {
            return None;
        }
        at = end;
    }
    Some(total)
}

/// Appends to `out` the byte offset at which each token of the whole text ends, in order; the last is the text's length.
///
/// An end may lie inside a character: a token is bytes. A token belongs to the chunk that carries its last byte, so the
/// tokens of a chunk that covers the bytes `from..to` of the text are the ends in `from + 1..=to`.
///
/// ```
/// use tokrate_tokens::{Encoding, token_ends};
///
/// let mut ends = Vec::new();
/// token_ends(Encoding::O200kBase, "Hello world!", &mut ends);
/// assert_eq!(ends, [5, 11, 12]);
/// ```
pub fn token_ends(encoding: Encoding, text: &str, out: &mut Vec<usize>) {
    let vocabulary = Vocabulary::of(encoding);
    let mut merger = Merger::for_text();
    let (text, mut at) = (text.as_bytes(), 0);
    while at < text.len() {
        let end = piece_at(encoding, text, at).end;
        merger.push_ends(vocabulary, &text[at..end], at, out);
        at = end;
    }
}

fn count_bytes(encoding: Encoding, text: &[u8]) -> usize {
    let vocabulary = Vocabulary::of(encoding);
    let mut merger = Merger::for_text();
    let (mut at, mut total) = (0, 0);
    while at < text.len() {
        let end = piece_at(encoding, text, at).end;
        total += merger.count(vocabulary, &text[at..end]);
        at = end;
    }
    total
}

#[cfg(test)]
mod tests;
