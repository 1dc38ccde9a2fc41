//! Lines that look like each other: about the same name at the same indentation, or mostly of the same words.
//!
//! Invariant: what is read off a line is read once, however many lines it is held against.

use super::indent::indent;
use super::keys::{Key, key};
use super::lines::is_blank;
use std::cell::OnceCell;

/// Share of words that lines have in common if they look alike.
const ALIKE: f64 = 0.55;
/// Room for a word is made for so many bytes of a line.
const USUAL: usize = 5;
/// Of so many lines what is read off them is kept.
const KEPT_MOST: usize = 1_000;

/// Whether each byte is one of a word.
const IS_WORD: [bool; 256] = {
    let (mut is_word, mut byte) = ([false; 256], 0_u8);
    while byte.is_ascii() {
        is_word[byte as usize] = byte.is_ascii_alphanumeric() || byte == b'_';
        byte += 1;
    }
    is_word
};

/// A line with what it is compared by, as far as that was asked for.
pub(super) struct Looks<'l> {
    line: &'l str,
    indent: &'l str,
    key: OnceCell<Option<Key<'l>>>,
    words: OnceCell<Vec<Word<'l>>>,
}

/// A word. Most are told apart by their first bytes, as a number.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Word<'l> {
    first: u64,
    all: &'l [u8],
}

impl<'l> Word<'l> {
    fn of(all: &'l [u8]) -> Word<'l> {
        let first = all.iter().take(8).fold(0, |first, &byte| first << 8 | u64::from(byte));
        Word { first, all }
    }
}

impl<'l> Looks<'l> {
    /// The looks of a line.
    pub fn of(line: &'l str) -> Looks<'l> {
        Looks { line, indent: indent(line), key: OnceCell::new(), words: OnceCell::new() }
    }

    /// Whether two lines look alike.
    pub fn are_like(&self, other: &Looks<'_>) -> bool {
        let is_same_thing = self.indent == other.indent && self.key().is_some_and(|name| other.key() == Some(name));
        is_same_thing || self.have_words_in_common(other)
    }

    fn key(&self) -> Option<Key<'l>> {
        *self.key.get_or_init(|| key(self.line))
    }

    fn words(&self) -> &[Word<'l>] {
        self.words.get_or_init(|| words(self.line))
    }

    /// Whether two lines have enough words in common (Dice's coefficient).
    fn have_words_in_common(&self, other: &Looks<'_>) -> bool {
        let (first, second) = (self.words(), other.words());
        if first.is_empty() && second.is_empty() {
            // Two lines of brackets alone.
            return !is_blank(other.line);
        }
        let is_enough = |common: usize| 2.0 * common as f64 / (first.len() + second.len()) as f64 >= ALIKE;
        if !is_enough(first.len().min(second.len())) {
            return false;
        }
        let (mut one, mut two, mut common) = (0, 0, 0);
        while one < first.len() && two < second.len() {
            match first[one].cmp(&second[two]) {
                std::cmp::Ordering::Less => one += 1,
                std::cmp::Ordering::Greater => two += 1,
                std::cmp::Ordering::Equal => (one, two, common) = (one + 1, two + 1, common + 1),
            }
        }
        is_enough(common)
    }
}

/// Lines that others are held against, one after another.
pub(super) struct Many<'l, L> {
    kept: Vec<Looks<'l>>,
    rest: L,
}

impl<'l, L: Iterator<Item = &'l str> + Clone> Many<'l, L> {
    /// The looks of lines.
    pub fn of(mut lines: L) -> Many<'l, L> {
        Many { kept: lines.by_ref().take(KEPT_MOST).map(Looks::of).collect(), rest: lines }
    }

    /// Whether a comparison holds for any of them, which are tried in order.
    pub fn any(&self, mut comparison: impl FnMut(&Looks<'_>) -> bool) -> bool {
        self.kept.iter().any(&mut comparison) || self.rest.clone().any(|line| comparison(&Looks::of(line)))
    }
}

/// Whether two lines look alike.
pub(crate) fn are_alike(one: &str, other: &str) -> bool {
    Looks::of(one).are_like(&Looks::of(other))
}

/// The words of a line, sorted.
fn words(line: &str) -> Vec<Word<'_>> {
    let mut words = Vec::with_capacity(line.len() / USUAL + 1);
    let full = |word: &&[u8]| !word.is_empty();
    if line.is_ascii() {
        let all = line.as_bytes().split(|&byte| !IS_WORD[usize::from(byte)]);
        words.extend(all.filter(full).map(Word::of));
    } else {
        let all = line.split(|c: char| !(c.is_alphanumeric() || c == '_')).map(str::as_bytes);
        words.extend(all.filter(full).map(Word::of));
    }
    words.sort_unstable();
    words
}
