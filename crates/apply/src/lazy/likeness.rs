//! Similarity of lines: the same key at the same indentation, or mostly the same words.
//!
//! Invariant: the features of a line are computed once, however many lines it is compared with.

use super::indent::indent;
use super::keys::{Key, bring_others, is_statement, key};
use super::lines::is_blank;
use std::cell::OnceCell;

/// Least share of common words (Dice's coefficient) of similar lines.
const MIN_SIMILARITY: f64 = 0.55;
/// A line of fewer words says too little for one that has them all to be another form of it.
const MIN_HELD: usize = 2;
/// What lines that differ in numbers alone have in common (percent).
const OTHER_NUMBERS: i32 = 80;
/// Shorter words say too little at the beginning of lines.
const MIN_FIRST: usize = 5;
/// Bytes per word that the word list is sized for.
const DEFAULT_CAPACITY: usize = 5;
/// Lines whose features are cached.
const MAX_CACHED_LINES: usize = 1_000;

/// Whether each byte is one of a word.
const IS_WORD: [bool; 256] = {
    let (mut is_word, mut byte) = ([false; 256], 0_u8);
    while byte.is_ascii() {
        is_word[byte as usize] = byte.is_ascii_alphanumeric() || byte == b'_';
        byte += 1;
    }
    is_word
};

/// The features of a line, computed when needed.
pub(super) struct LineFeatures<'l> {
    line: &'l str,
    indent: &'l str,
    key: OnceCell<Option<Key<'l>>>,
    words: OnceCell<Vec<Word<'l>>>,
}

/// A word. Most differ in their first eight bytes, which are compared as a number.
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

impl<'l> LineFeatures<'l> {
    /// The features of a line.
    pub fn of(line: &'l str) -> LineFeatures<'l> {
        LineFeatures { line, indent: indent(line), key: OnceCell::new(), words: OnceCell::new() }
    }

    /// Whether two lines are similar.
    pub fn is_similar_to(&self, other: &LineFeatures<'_>) -> bool {
        if self.indent == other.indent && self.is_same_thing(other) {
            return true;
        }
        let (first, second) = (self.words().len(), other.words().len());
        if first + second == 0 {
            // Two lines of brackets alone.
            return !is_blank(other.line) && !bring_others(self.line, other.line);
        }
        let common = self.common_words(other);
        let has_enough = 2.0 * common as f64 / (first + second) as f64 >= MIN_SIMILARITY;
        let is_similar = has_enough || self.may_be_form_of(other) && self.share(common, other) >= OTHER_NUMBERS;
        is_similar && !bring_others(self.line, other.line)
    }

    fn key(&self) -> Option<Key<'l>> {
        *self.key.get_or_init(|| key(self.line))
    }

    fn words(&self) -> &[Word<'l>] {
        self.words.get_or_init(|| words(self.line))
    }

    /// How much of one line the other one is another form of (percent): all, where one has all words of the other, else the share of common
    /// words. Nothing where they are of other depths, or name or bring something else.
    pub fn share_with(&self, other: &LineFeatures<'_>) -> i32 {
        let may_be = self.may_be_form_of(other) && !bring_others(self.line, other.line);
        if may_be { self.share(self.common_words(other), other) } else { 0 }
    }

    /// Whether both lines have words, as deep, and do not name two things.
    fn may_be_form_of(&self, other: &LineFeatures<'_>) -> bool {
        let name_two = || self.key().zip(other.key()).is_some_and(|(one, two)| one.name() != two.name());
        self.indent == other.indent && !self.words().is_empty() && !other.words().is_empty() && !name_two()
    }

    /// The share of so many common words.
    fn share(&self, common: usize, other: &LineFeatures<'_>) -> i32 {
        let (first, second) = (self.words().len(), other.words().len());
        let holds_all = common == first.min(second) && (common >= MIN_HELD || begins_alike(self.line, other.line));
        match () {
            () if holds_all || self.is_same_thing(other) => 100,
            () if self.is_same_but_for_numbers(other) => OTHER_NUMBERS,
            () => (200 * common / (first + second)) as i32,
        }
    }

    /// Whether two lines declare or assign the same.
    fn is_same_thing(&self, other: &LineFeatures<'_>) -> bool {
        self.key().is_some_and(|name| other.key() == Some(name))
    }

    /// Whether two lines differ in numbers alone.
    fn is_same_but_for_numbers(&self, other: &LineFeatures<'_>) -> bool {
        self.line.bytes().any(|byte| byte.is_ascii_digit()) && signs(self.line).eq(signs(other.line))
    }

    /// How many words two lines have in common.
    fn common_words(&self, other: &LineFeatures<'_>) -> usize {
        let (first, second) = (self.words(), other.words());
        let (mut one, mut two, mut common) = (0, 0, 0);
        while one < first.len() && two < second.len() {
            match first[one].cmp(&second[two]) {
                std::cmp::Ordering::Less => one += 1,
                std::cmp::Ordering::Greater => two += 1,
                std::cmp::Ordering::Equal => (one, two, common) = (one + 1, two + 1, common + 1),
            }
        }
        common
    }
}

/// The bytes of a line but for digits and the blanks around it.
fn signs(line: &str) -> impl Iterator<Item = u8> {
    line.trim().bytes().filter(|byte| !byte.is_ascii_digit())
}

/// Whether two lines begin with the same word, and a telling one.
fn begins_alike(one: &str, other: &str) -> bool {
    let word = |line: &'_ str| -> String {
        line.trim_start().chars().take_while(|sign| sign.is_alphanumeric() || matches!(sign, '_' | '@' | '.')).collect()
    };
    let first = word(one);
    first.len() >= MIN_FIRST && first == word(other) && !is_statement(&first)
}

/// Lines that others are compared with.
pub(super) struct Many<'l, L> {
    kept: Vec<LineFeatures<'l>>,
    rest: L,
}

impl<'l, L: Iterator<Item = &'l str> + Clone> Many<'l, L> {
    /// The features of lines.
    pub fn of(mut lines: L) -> Many<'l, L> {
        Many { kept: lines.by_ref().take(MAX_CACHED_LINES).map(LineFeatures::of).collect(), rest: lines }
    }

    /// Whether a comparison holds for any of them, in order.
    pub fn any(&self, mut comparison: impl FnMut(&LineFeatures<'_>) -> bool) -> bool {
        self.kept.iter().any(&mut comparison) || self.rest.clone().any(|line| comparison(&LineFeatures::of(line)))
    }
}

/// Whether two lines are similar.
pub(crate) fn are_similar(one: &str, other: &str) -> bool {
    LineFeatures::of(one).is_similar_to(&LineFeatures::of(other))
}

/// The words of a line, sorted.
fn words(line: &str) -> Vec<Word<'_>> {
    let mut words = Vec::with_capacity(line.len() / DEFAULT_CAPACITY + 1);
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
