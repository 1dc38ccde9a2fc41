//! How many words of an update the file does not have: an update of another file shows mostly such.
//!
//! Invariant: a word counts once, however often it stands.

use super::weights::Weights;
use std::collections::BTreeSet;

/// Bytes of a word at least: shorter ones are the same in all files, such as keywords and `i`.
const MIN_WORD: usize = 4;

/// The share of the words that the lines of an update show and the file has nowhere (percent); 0 of an update without words.
pub(super) fn foreign_words(weights: &Weights<'_>) -> i32 {
    let prepared = weights.prepared;
    let shown = (0..prepared.len()).filter(|&token| prepared.is_line(token)).map(|token| prepared.text(token));
    let mut foreign: BTreeSet<&str> = shown.flat_map(words).collect();
    let all = foreign.len();
    for word in weights.source.lines().flat_map(words) {
        if foreign.is_empty() {
            break;
        }
        foreign.remove(word);
    }
    (100 * foreign.len()).checked_div(all).unwrap_or(0) as i32
}

/// The words of a line: letters, digits and underscores.
fn words(line: &str) -> impl Iterator<Item = &str> {
    let is_between = |sign: char| !sign.is_alphanumeric() && sign != '_';
    line.split(is_between).filter(|word| word.len() >= MIN_WORD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_counted_once_and_short_ones_never() {
        assert_eq!(
            words("  if (user_id == größe) { call(a, b2c4); }").collect::<Vec<_>>(),
            ["user_id", "größe", "call", "b2c4"]
        );
    }
}
