//! Cutting a text to an exact number of tokens.
//!
//! It knows nothing of why. Invariant: what it returns is a prefix on a character border, and its own count, taken as a
//! text by itself, is what the documentation of [`truncate`] says.

use crate::merge::Merger;
use crate::scan::piece_at;
use crate::vocabulary::Vocabulary;
use crate::{Encoding, count, token_ends};

/// A piece longer than this is cut near the end of the wanted token only; see [`truncate`].
const LONG_PIECE: usize = 2048;
/// How many characters beyond such a token's end are tried.
const TRIES: usize = 16;

/// The pieces of a text up to `end`: all texts that share the first `reach` bytes have them too.
#[derive(Clone, Copy)]
struct Settled {
    end: usize,
    reach: usize,
    tokens: usize,
}

/// The longest prefix whose own count is exactly `tokens`; where no prefix has that count (a character of several tokens,
/// or too short a text), the longest whose count is less.
///
/// "Own count" means of the prefix as a whole text: the first `tokens` tokens of a longer text are in general not
/// the tokens of any prefix, as the cut may lie inside a character or change the last pieces.
///
/// "Longest" holds for all text whose pre-token pieces are shorter than 2 KiB, which is all but hostile text. In a longer
/// piece only cuts up to 16 characters beyond the end of the wanted token are tried; the count is exact there too.
///
/// ```
/// use tokrate_tokens::{Encoding, count, truncate};
///
/// let text = "Time to first token, then a steady stream.";
/// assert_eq!(truncate(Encoding::O200kBase, text, 4), "Time to first token");
/// ```
pub fn truncate(encoding: Encoding, text: &str, tokens: usize) -> &str {
    let (settled, mut limit) = settled_pieces(encoding, text, tokens);
    let open = settled.last().map_or(0, |piece| piece.end);
    let mut tries = usize::MAX;
    if limit - open > LONG_PIECE {
        limit = limit.min(near_token_end(encoding, text, tokens, limit));
        tries = 2 * TRIES;
    }
    let mut known = settled.as_slice();
    let mut shorter = 0;
    for cut in (0..=limit).rev().filter(|&cut| text.is_char_boundary(cut)).take(tries) {
        while known.last().is_some_and(|piece| piece.reach > cut) {
            known = &known[..known.len() - 1];
        }
        let (start, before) = known.last().map_or((0, 0), |piece| (piece.end, piece.tokens));
        // A byte is at most one token: a tail this short cannot reach the wanted count.
        if shorter > 0 && before + (cut - start) < tokens {
            continue;
        }
        let total = before + count(encoding, &text[start..cut]);
        if total == tokens {
            return &text[..cut];
        }
        if total < tokens {
            shorter = shorter.max(cut);
        }
    }
    &text[..shorter]
}

/// The leading pieces that have at most `tokens` tokens together, and the longest prefix that can have as few.
fn settled_pieces(encoding: Encoding, text: &str, tokens: usize) -> (Vec<Settled>, usize) {
    let vocabulary = Vocabulary::of(encoding);
    let mut merger = Merger::for_text();
    let (bytes, mut at, mut total, mut settled) = (text.as_bytes(), 0, 0, Vec::new());
    while at < bytes.len() {
        let piece = piece_at(encoding, bytes, at);
        total += merger.count(vocabulary, &bytes[at..piece.end]);
        if total > tokens {
            return (settled, bytes.len().min(piece.reach));
        }
        at = piece.end;
        settled.push(Settled { end: piece.end, reach: piece.reach, tokens: total });
    }
    (settled, bytes.len())
}

/// A character border a little beyond the end of token number `tokens` of `text[..limit]`.
fn near_token_end(encoding: Encoding, text: &str, tokens: usize, limit: usize) -> usize {
    let limit = text.floor_char_boundary(limit);
    let mut ends = Vec::new();
    token_ends(encoding, &text[..limit], &mut ends);
    let end = tokens.checked_sub(1).map_or(0, |last| ends.get(last).copied().unwrap_or(limit));
    text[text.floor_char_boundary(end)..limit]
        .char_indices()
        .nth(TRIES)
        .map_or(limit, |(beyond, _)| text.floor_char_boundary(end) + beyond)
}
