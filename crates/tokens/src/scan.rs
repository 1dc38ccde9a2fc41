//! Cuts text into the pieces that the published pre-tokenisation patterns of o200k_base and cl100k_base cut it into.
//!
//! It knows nothing of tokens. The patterns are leftmost-first alternations with greedy runs; each function below states
//! the alternative it stands for. Invariant: the pieces are not empty and cover the text; and a piece depends on no byte
//! at or beyond its `reach`, so any longer text with the same bytes before `reach` has the same piece.

use crate::Encoding;
use crate::class::{BREAK, Class, END, LETTER, LOWER, MARK, NUMBER, SPACE, UPPER, class_at};

/// One piece, from the position that was asked about to `end`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Piece {
    /// Offset of the first byte after the piece.
    pub(crate) end: usize,
    /// Offset of the first byte that was not looked at; beyond the text's length where the end of the text was.
    pub(crate) reach: usize,
}

/// The piece that starts at `start`, which must lie on a character before the end of `text`.
#[inline]
pub(crate) fn piece_at(encoding: Encoding, text: &[u8], start: usize) -> Piece {
    match encoding {
        Encoding::O200kBase => o200k_piece(text, start),
        Encoding::Cl100kBase => cl100k_piece(text, start),
    }
}

#[inline]
fn o200k_piece(text: &[u8], start: usize) -> Piece {
    let (first, width) = class_at(text, start);
    if first & (BREAK | NUMBER) == 0 {
        let from = if first & LETTER != 0 { start } else { start + width };
        if let Some(word) = o200k_word(text, start, from, first) {
            let (end, reach) = contraction(text, word.end);
            return Piece { end: end.unwrap_or(word.end), reach: reach.max(word.reach) };
        }
    }
    if first & NUMBER != 0 {
        return number(text, start);
    }
    symbols(text, start, |byte| matches!(byte, b'\r' | b'\n' | b'/')).unwrap_or_else(|| white_space(text, start, false))
}

#[inline]
fn cl100k_piece(text: &[u8], start: usize) -> Piece {
    if let (Some(end), reach) = contraction(text, start) {
        return Piece { end, reach };
    }
    let (first, width) = class_at(text, start);
    if first & (BREAK | NUMBER) == 0 {
        let from = if first & LETTER != 0 { start } else { start + width };
        let end = run(text, from, |class| class & LETTER != 0);
        if end > from {
            return Piece { end, reach: after(text, end) };
        }
    }
    if first & NUMBER != 0 {
        return number(text, start);
    }
    symbols(text, start, |byte| matches!(byte, b'\r' | b'\n')).unwrap_or_else(|| white_space(text, start, true))
}

/// The first two alternatives of o200k without their contraction, over one upper-case run from `from`:
/// `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+` wins where the run is followed by a
/// lower-case letter or holds a character that is in both sets (the last such is where backtracking stops); else
/// a leading mark alone satisfies it; else the second alternative takes the upper-case run.
#[inline(always)]
fn o200k_word(text: &[u8], start: usize, from: usize, first: Class) -> Option<Piece> {
    let mut at = from;
    let mut last_lower = None;
    let (mut class, mut width) = class_at(text, at);
    while class & UPPER != 0 {
        at += width;
        if class & LOWER != 0 {
            last_lower = Some(at);
        }
        (class, width) = class_at(text, at);
    }
    if class & LOWER != 0 {
        let end = run(text, at, |class| class & LOWER != 0);
        return Some(Piece { end, reach: after(text, end) });
    }
    let reach = after(text, at);
    if let Some(end) = last_lower {
        return Some(Piece { end, reach });
    }
    if first & MARK == MARK && first & LETTER == 0 {
        return Some(Piece { end: start + class_at(text, start).1, reach });
    }
    (at > from).then_some(Piece { end: at, reach })
}

/// `(?i:'s|'t|'re|'ve|'m|'ll|'d)` at `at`: its end, if it is there, and its reach. Case folding adds U+017F to "s".
#[inline(always)]
fn contraction(text: &[u8], at: usize) -> (Option<usize>, usize) {
    let Some(&quote) = text.get(at) else { return (None, at + 1) };
    if quote != b'\'' {
        return (None, 0);
    }
    match text.get(at + 1) {
        None => (None, at + 2),
        Some(b's' | b'S' | b't' | b'T' | b'm' | b'M' | b'd' | b'D') => (Some(at + 2), at + 2),
        Some(0xc5) if text.get(at + 2) == Some(&0xbf) => (Some(at + 3), at + 3),
        Some(second @ (b'r' | b'R' | b'v' | b'V' | b'l' | b'L')) => match (second | 0x20, text.get(at + 2)) {
            (b'l', Some(b'l' | b'L')) | (b'r' | b'v', Some(b'e' | b'E')) => (Some(at + 3), at + 3),
            _ => (None, after(text, at + 2)),
        },
        Some(_) => (None, after(text, at + 1)),
    }
}

/// `\p{N}{1,3}`
#[inline(always)]
fn number(text: &[u8], start: usize) -> Piece {
    let mut at = start;
    for _ in 0..3 {
        let (class, width) = class_at(text, at);
        if class & NUMBER == 0 {
            return Piece { end: at, reach: after(text, at) };
        }
        at += width;
    }
    Piece { end: at, reach: at }
}

/// ` ?[^\s\p{L}\p{N}]+` and then any run of the bytes that `tail` names.
#[inline(always)]
fn symbols(text: &[u8], start: usize, tail: impl Fn(u8) -> bool) -> Option<Piece> {
    let from = start + usize::from(text.get(start) == Some(&b' '));
    let mut end = run(text, from, |class| class & (SPACE | LETTER | NUMBER | END) == 0);
    if end == from {
        return None;
    }
    while text.get(end).is_some_and(|&byte| tail(byte)) {
        end += 1;
    }
    Some(Piece { end, reach: after(text, end) })
}

/// `\s*[\r\n]+|\s+(?!\S)|\s+`: up to the last line break of the run, else the run without its last character unless
/// the text ends there or it is the only one. cl100k has `\s++$` before these (`whole_at_end`).
#[inline(always)]
fn white_space(text: &[u8], start: usize, whole_at_end: bool) -> Piece {
    let (mut at, mut last, mut last_break) = (start, start, None);
    let (mut class, mut width) = class_at(text, at);
    while class & SPACE != 0 {
        last = at;
        at += width;
        if class & BREAK != 0 {
            last_break = Some(at);
        }
        (class, width) = class_at(text, at);
    }
    let reach = after(text, at);
    let end = match last_break {
        Some(end) if class != END || !whole_at_end => end,
        _ if class == END || last == start => at,
        _ => last,
    };
    // Nothing starts outside these classes; the step keeps the scan moving even over bytes that are not text.
    Piece { end: end.max(start + 1), reach }
}

#[inline(always)]
fn run(text: &[u8], mut at: usize, belongs: impl Fn(Class) -> bool) -> usize {
    loop {
        let (class, width) = class_at(text, at);
        if !belongs(class) || width == 0 {
            return at;
        }
        at += width;
    }
}

/// Reach of a scan that stopped because of the character at `at`, or because the text ended there.
#[inline(always)]
fn after(text: &[u8], at: usize) -> usize {
    at + class_at(text, at).1.max(1)
}
