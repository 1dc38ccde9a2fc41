//! A secret in a text, however JSON or a URL spell its letters.
//!
//! It does not know what is text and what is bytes. Invariant: looking through a text without a secret copies nothing, and
//! takes a byte search as long as nothing in it is escaped.

use super::MASK;
use memchr::memmem::Finder;
use std::ops::Range;

/// Backslashes before one letter: JSON within JSON within JSON has four of them before a quote.
const BACKSLASHES_MOST: usize = 4;
/// Bytes of the longest spelling of one letter: backslashes, `u` and four digits.
pub(super) const LETTER_BYTES_MOST: usize = BACKSLASHES_MOST + 5;

/// A secret, ready to be looked for.
#[derive(Clone, Debug)]
pub(super) struct Needle {
    secret: Vec<u8>,
    plain: Finder<'static>,
    /// Letters that JSON may put a backslash before.
    has_slash: bool,
}

/// What stands at a place of a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Found {
    Nothing,
    /// The secret, up to there.
    Whole(usize),
    /// The text ends after so many of its letters.
    Cut(usize),
}

/// How a letter is spelt at the beginning of a text.
enum Spelt {
    Not,
    /// In so many bytes.
    In(usize),
    /// The text ends within it.
    Cut,
}

impl Needle {
    pub fn new(secret: Vec<u8>) -> Needle {
        let plain = Finder::new(&secret).into_owned();
        Needle { has_slash: secret.iter().any(|byte| matches!(byte, b'/' | b'"' | b'\\')), plain, secret }
    }

    /// Where it stands first.
    pub fn find(&self, text: &[u8]) -> Option<Range<usize>> {
        let plain = self.plain.find(text);
        if !self.may_be_escaped(text) {
            return plain.map(|at| at..at + self.secret.len());
        }
        let spelt = self.places(text).find_map(|at| match self.at(text, at) {
            Found::Whole(end) => Some(at..end),
            _ => None,
        });
        // One with a backslash of its own stands plainly in a text that is no JSON.
        spelt.or_else(|| plain.map(|at| at..at + self.secret.len()))
    }

    /// Where it begins at the end of a text that is cut, and how many of its letters stand there.
    pub fn beginning(&self, text: &[u8]) -> Option<(usize, usize)> {
        let last = *text.last()?;
        let may_end_so = last.is_ascii_hexdigit() || matches!(last, b'\\' | b'u' | b'%') || self.secret.contains(&last);
        if !may_end_so {
            return None;
        }
        let from = text.len().saturating_sub(self.secret.len() * LETTER_BYTES_MOST);
        self.places(&text[from..]).find_map(|at| match self.at(text, from + at) {
            Found::Cut(letters) => Some((from + at, letters)),
            _ => None,
        })
    }

    /// Where it may begin.
    fn places(&self, text: &[u8]) -> impl Iterator<Item = usize> {
        memchr::memchr3_iter(self.secret[0], b'\\', b'%', text)
            // A run of backslashes belongs together.
            .filter(|&at| !(at > 0 && text[at] == b'\\' && text[at - 1] == b'\\'))
    }

    /// Whether any letter may be spelt in another way than plainly.
    fn may_be_escaped(&self, text: &[u8]) -> bool {
        memchr::memchr2_iter(b'\\', b'%', text).any(|at| match text.get(at + 1) {
            Some(b'u') | None => true,
            Some(_) => text[at] == b'%' || self.has_slash,
        })
    }

    fn at(&self, text: &[u8], start: usize) -> Found {
        let mut at = start;
        for (letters, &letter) in self.secret.iter().enumerate() {
            match spelt(&text[at..], letter) {
                Spelt::Not => return Found::Nothing,
                Spelt::In(bytes) => at += bytes,
                Spelt::Cut => return Found::Cut(letters),
            }
        }
        Found::Whole(at)
    }
}

fn spelt(text: &[u8], letter: u8) -> Spelt {
    if text.first() == Some(&letter) && letter != b'\\' {
        return Spelt::In(1);
    }
    let backslashes = text.iter().take(BACKSLASHES_MOST).take_while(|byte| **byte == b'\\').count();
    let Some(&next) = text.get(backslashes) else { return Spelt::Cut };
    if backslashes > 0 && next == b'u' {
        return of_hex(&text[backslashes + 1..], 4, letter, backslashes + 5);
    }
    if backslashes == 0 && next == b'%' {
        return of_hex(&text[1..], 2, letter, 3);
    }
    match letter {
        b'\\' if backslashes > 0 => Spelt::In(backslashes.min(2)),
        b'/' | b'"' if backslashes > 0 && next == letter => Spelt::In(backslashes + 1),
        _ => Spelt::Not,
    }
}

/// A letter as so many digits in base 16, which are `bytes` with what stands before.
fn of_hex(text: &[u8], digits: usize, letter: u8, bytes: usize) -> Spelt {
    let there = &text[..digits.min(text.len())];
    let mut value = 0;
    for digit in there {
        let Some(digit) = char::from(*digit).to_digit(16) else { return Spelt::Not };
        value = value << 4 | digit;
    }
    match there.len() == digits {
        false => Spelt::Cut,
        true if value == u32::from(letter) => Spelt::In(bytes),
        true => Spelt::Not,
    }
}

/// The text with a mask for each of the secrets; `None` if it holds none.
pub(super) fn masked(text: &[u8], needles: &[Needle]) -> Option<Vec<u8>> {
    let mut rest = text;
    let mut out = Vec::new();
    loop {
        let found = needles.iter().filter_map(|needle| needle.find(rest));
        let Some(found) = found.min_by_key(|found| (found.start, usize::MAX - found.end)) else { break };
        out.extend_from_slice(&rest[..found.start]);
        out.extend_from_slice(MASK);
        rest = &rest[found.end..];
    }
    if rest.len() == text.len() {
        return None;
    }
    out.extend_from_slice(rest);
    Some(out)
}

/// Where a text ends with at least so many letters of the beginning of a secret.
pub(super) fn beginning(text: &[u8], needles: &[Needle], letters_least: usize) -> Option<usize> {
    let begun = needles.iter().filter_map(|needle| needle.beginning(text));
    begun.filter(|(_, letters)| *letters >= letters_least).map(|(at, _)| at).min()
}
