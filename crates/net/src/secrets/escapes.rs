//! Finds a secret in a text, however JSON or a URL escape its letters.
//!
//! Invariant: searching a text without a secret copies nothing, and is a plain byte search as long as nothing is escaped.

use super::MASK;
use memchr::memmem::Finder;
use std::ops::Range;

/// Most backslashes before one letter: a quote in JSON within JSON within JSON has four.
const MAX_BACKSLASHES: usize = 4;
/// Longest escape of one letter: backslashes, `u` and four digits.
pub(super) const MAX_LETTER_BYTES: usize = MAX_BACKSLASHES + 5;

/// A secret to search for.
#[derive(Clone, Debug)]
pub(super) struct SecretPattern {
    secret: Vec<u8>,
    plain: Finder<'static>,
    /// Whether it has letters that JSON may escape with a backslash.
    has_slash: bool,
}

/// Result of matching a secret at a position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Match {
    None,
    /// The secret, ending there.
    Complete(usize),
    /// The text ends after so many letters of the secret.
    Truncated(usize),
}

/// Result of matching one letter at the start of a text.
enum LetterMatch {
    No,
    /// Matched, with so many bytes.
    Yes(usize),
    /// The text ends within the letter.
    Truncated,
}

impl SecretPattern {
    pub fn new(secret: Vec<u8>) -> SecretPattern {
        let plain = Finder::new(&secret).into_owned();
        SecretPattern { has_slash: secret.iter().any(|byte| matches!(byte, b'/' | b'"' | b'\\')), plain, secret }
    }

    /// Its length.
    pub fn bytes(&self) -> usize {
        self.secret.len()
    }

    /// The first occurrence.
    pub fn find(&self, text: &[u8]) -> Option<Range<usize>> {
        let plain = self.plain.find(text);
        if !self.may_be_escaped(text) {
            return plain.map(|at| at..at + self.secret.len());
        }
        let match_letter = self.candidates(text).find_map(|at| match self.at(text, at) {
            Match::Complete(end) => Some(at..end),
            _ => None,
        });
        // A secret with a backslash occurs unescaped in a text that is not JSON.
        match_letter.or_else(|| plain.map(|at| at..at + self.secret.len()))
    }

    /// Where it begins at the end of a truncated text, and how many of its letters are there.
    pub fn cut_match(&self, text: &[u8]) -> Option<(usize, usize)> {
        let last = *text.last()?;
        let may_end_so = last.is_ascii_hexdigit() || matches!(last, b'\\' | b'u' | b'%') || self.secret.contains(&last);
        if !may_end_so {
            return None;
        }
        let from = text.len().saturating_sub(self.secret.len() * MAX_LETTER_BYTES);
        self.candidates(&text[from..]).find_map(|at| match self.at(text, from + at) {
            Match::Truncated(letters) => Some((from + at, letters)),
            _ => None,
        })
    }

    /// Positions at which it may begin.
    fn candidates(&self, text: &[u8]) -> impl Iterator<Item = usize> {
        memchr::memchr3_iter(self.secret[0], b'\\', b'%', text)
            // A run of backslashes is one candidate.
            .filter(|&at| !(at > 0 && text[at] == b'\\' && text[at - 1] == b'\\'))
    }

    /// Whether the text may contain escaped letters.
    fn may_be_escaped(&self, text: &[u8]) -> bool {
        memchr::memchr2_iter(b'\\', b'%', text).any(|at| match text.get(at + 1) {
            Some(b'u') | None => true,
            Some(_) => text[at] == b'%' || self.has_slash,
        })
    }

    fn at(&self, text: &[u8], start: usize) -> Match {
        let mut at = start;
        for (letters, &letter) in self.secret.iter().enumerate() {
            match match_letter(&text[at..], letter) {
                LetterMatch::No => return Match::None,
                LetterMatch::Yes(bytes) => at += bytes,
                LetterMatch::Truncated => return Match::Truncated(letters),
            }
        }
        Match::Complete(at)
    }
}

fn match_letter(text: &[u8], letter: u8) -> LetterMatch {
    if text.first() == Some(&letter) && letter != b'\\' {
        return LetterMatch::Yes(1);
    }
    let backslashes = text.iter().take(MAX_BACKSLASHES).take_while(|byte| **byte == b'\\').count();
    let Some(&next) = text.get(backslashes) else { return LetterMatch::Truncated };
    if backslashes > 0 && next == b'u' {
        return match_hex(&text[backslashes + 1..], 4, letter, backslashes + 5);
    }
    if backslashes == 0 && next == b'%' {
        return match_hex(&text[1..], 2, letter, 3);
    }
    match letter {
        b'\\' if backslashes > 0 => LetterMatch::Yes(backslashes.min(2)),
        b'/' | b'"' if backslashes > 0 && next == letter => LetterMatch::Yes(backslashes + 1),
        _ => LetterMatch::No,
    }
}

/// Matches a letter written as hexadecimal digits; `bytes` is the length with the prefix.
fn match_hex(text: &[u8], digits: usize, letter: u8, bytes: usize) -> LetterMatch {
    let there = &text[..digits.min(text.len())];
    let mut value = 0;
    for digit in there {
        let Some(digit) = char::from(*digit).to_digit(16) else { return LetterMatch::No };
        value = value << 4 | digit;
    }
    match there.len() == digits {
        false => LetterMatch::Truncated,
        true if value == u32::from(letter) => LetterMatch::Yes(bytes),
        true => LetterMatch::No,
    }
}

/// Masks all secrets; `None` if the text contains none.
pub(super) fn mask_all(text: &[u8], patterns: &[SecretPattern]) -> Option<Vec<u8>> {
    let mut rest = text;
    let mut out = Vec::new();
    loop {
        let matched = patterns.iter().filter_map(|pattern| pattern.find(rest));
        let Some(matched) = matched.min_by_key(|matched| (matched.start, usize::MAX - matched.end)) else { break };
        out.extend_from_slice(&rest[..matched.start]);
        out.extend_from_slice(MASK);
        rest = &rest[matched.end..];
    }
    if rest.len() == text.len() {
        return None;
    }
    out.extend_from_slice(rest);
    Some(out)
}

/// Where a text ends with at least `min_letters` letters of the beginning of a secret.
pub(super) fn cut_match(text: &[u8], patterns: &[SecretPattern], min_letters: usize) -> Option<usize> {
    let begun = patterns.iter().filter_map(|pattern| pattern.cut_match(text));
    begun.filter(|(_, letters)| *letters >= min_letters).map(|(at, _)| at).min()
}
