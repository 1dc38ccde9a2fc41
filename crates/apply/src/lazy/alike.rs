//! Lines that look like each other: about the same name at the same indentation, or mostly of the same words.
//!
//! It refuses to know a language. Invariant: what is read off a line is read once, however many lines it is held against.

use super::indent::indent;
use super::keys::{Key, key};
use super::lines::is_blank;
use std::cell::OnceCell;

/// Share of words that lines have in common if they look alike.
const ALIKE: f64 = 0.55;

/// A line with what it is compared by, as far as that was asked for.
pub(super) struct Looks<'l> {
    line: &'l str,
    indent: &'l str,
    key: OnceCell<Option<Key<'l>>>,
    words: OnceCell<Vec<&'l [u8]>>,
}

impl<'l> Looks<'l> {
    /// The looks of a line.
    pub fn of(line: &'l str) -> Looks<'l> {
        Looks { line, indent: indent(line), key: OnceCell::new(), words: OnceCell::new() }
    }

    /// Whether two lines look alike.
    pub fn are_like(&self, other: &Looks<'_>) -> bool {
        let is_same_thing = self.indent == other.indent && self.key().is_some_and(|name| other.key() == Some(name));
        is_same_thing || self.likeness(other) >= ALIKE
    }

    fn key(&self) -> Option<Key<'l>> {
        *self.key.get_or_init(|| key(self.line))
    }

    fn words(&self) -> &[&'l [u8]] {
        self.words.get_or_init(|| words(self.line))
    }

    /// The share of words that two lines have in common (Dice's coefficient).
    fn likeness(&self, other: &Looks<'_>) -> f64 {
        let (first, second) = (self.words(), other.words());
        if first.is_empty() && second.is_empty() {
            // Two lines of brackets alone.
            return if is_blank(other.line) { 0.0 } else { 1.0 };
        }
        let (mut one, mut two, mut common) = (0, 0, 0);
        while one < first.len() && two < second.len() {
            match first[one].cmp(second[two]) {
                std::cmp::Ordering::Less => one += 1,
                std::cmp::Ordering::Greater => two += 1,
                std::cmp::Ordering::Equal => (one, two, common) = (one + 1, two + 1, common + 1),
            }
        }
        2.0 * common as f64 / (first.len() + second.len()).max(1) as f64
    }
}

/// Whether two lines look alike.
pub(super) fn are_alike(one: &str, other: &str) -> bool {
    Looks::of(one).are_like(&Looks::of(other))
}

/// The words of a line, sorted.
fn words(line: &str) -> Vec<&[u8]> {
    let full = |word: &&[u8]| !word.is_empty();
    let mut words: Vec<&[u8]> = if line.is_ascii() {
        line.as_bytes().split(|byte| !(byte.is_ascii_alphanumeric() || *byte == b'_')).filter(full).collect()
    } else {
        line.split(|c: char| !(c.is_alphanumeric() || c == '_')).map(str::as_bytes).filter(full).collect()
    };
    words.sort_unstable();
    words
}
