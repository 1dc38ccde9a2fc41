//! How many words of a transcript are wrong: the fewest words that have to be put in, left out or replaced.
//!
//! Words are compared without case and punctuation. Numbers, abbreviations and spellings are not made alike, as the normalisers of leaderboards
//! do: rates are higher than theirs. Invariant: exact by the table of all ways, whatever the texts.

/// Longer texts are compared in their first words only (a table of so many squared).
const MAX_WORDS: usize = 5_000;

/// Words of what was said, and how many of the transcript are missing, wrong or too many.
pub(super) fn errors(said: &str, heard: &str) -> (u64, u64) {
    let (said, heard) = (words(said), words(heard));
    let mut row: Vec<u64> = (0..=heard.len() as u64).collect();
    for (place, word) in said.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], place as u64 + 1);
        for (at, other) in heard.iter().enumerate() {
            let replaced = diagonal + u64::from(word != other);
            diagonal = row[at + 1];
            row[at + 1] = replaced.min(diagonal + 1).min(row[at] + 1);
        }
    }
    (said.len() as u64, row.last().copied().unwrap_or(0))
}

/// Lower case; letters, digits, and apostrophes within a word.
fn words(text: &str) -> Vec<String> {
    let text = text.replace('\u{2019}', "'").to_lowercase();
    let parts = text.split(|symbol: char| !symbol.is_alphanumeric() && symbol != '\'');
    let words = parts.map(|part| part.trim_matches('\'')).filter(|word| !word.is_empty());
    words.take(MAX_WORDS).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    #[test]
    fn words_that_are_missing_wrong_or_too_many_are_counted() {
        assert_eq!(errors("One, two. Three!", "one two three"), (3, 0), "case and punctuation are nothing");
        assert_eq!(errors("one two three", "one three"), (3, 1));
        assert_eq!(errors("one two three", "one too three four"), (3, 2));
        assert_eq!(errors("it\u{2019}s 'here'", "it's here"), (2, 0));
        assert_eq!(errors("one", ""), (1, 1));
        assert_eq!(errors("", "a b"), (0, 2));
    }

    proptest! {
        #[test]
        fn errors_are_as_many_as_the_texts_allow(said in "[ab ]{0,20}", heard in "[ab ]{0,20}") {
            let (n, wrong) = errors(&said, &heard);
            let other = words(&heard).len() as u64;
            prop_assert!(wrong >= n.abs_diff(other) && wrong <= n.max(other));
            prop_assert_eq!(wrong, errors(&heard, &said).1);
            prop_assert_eq!(errors(&said, &said).1, 0);
        }
    }
}
