//! Sentences for a terminal: lines of a width, broken at spaces, those after the first indented.
//!
//! Every note and warning goes through here. Invariant: no word is lost, a number keeps its unit, and no line but one of a single
//! long word is wider than the width.

use tokrate_charts::format::with_units_kept;

/// Indentation of the further lines against the first, where that has no label.
const STEP: usize = 2;
/// Longest label that the further lines stand beside; below a longer one they are indented by [`LONG_LABEL_INDENT`].
const MAX_LABEL: usize = 12;
const LONG_LABEL_INDENT: usize = 4;

/// A label and a text, with a line break at the end: the label may be coloured, or only indentation. Further lines stand below the
/// text's first.
pub fn hanging(label: &str, text: &str, width: usize) -> String {
    let plain = anstream::adapter::strip_str(label).to_string();
    let indent = match plain.chars().count() {
        blank if plain.trim().is_empty() => blank + STEP,
        label if label > MAX_LABEL => LONG_LABEL_INDENT,
        label => label,
    };
    let mut paragraph = label.to_owned();
    let mut used = plain.chars().count();
    let mut is_at_start = true;
    for word in words(text) {
        let length = word.chars().count();
        if !is_at_start && used + 1 + length > width {
            paragraph.push('\n');
            paragraph.extend(std::iter::repeat_n(' ', indent));
            (used, is_at_start) = (indent, true);
        }
        if !is_at_start {
            paragraph.push(' ');
            used += 1;
        }
        paragraph.push_str(&word);
        used += length;
        is_at_start = false;
    }
    paragraph + "\n"
}

/// A sentence that stands by itself.
pub fn note(text: &str, width: usize) -> String {
    hanging("", text, width)
}

/// A text in lines of at most so many characters, for whoever puts something before each.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words(text) {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    lines
}

/// What must not be broken; a number and its unit are one.
fn words(text: &str) -> impl Iterator<Item = String> {
    let kept = with_units_kept(text);
    let words: Vec<String> = kept.split([' ', '\n']).map(|word| word.replace('\u{a0}', " ")).collect();
    words.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_are_broken_at_spaces_and_lose_nothing() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("a-word-longer-than-that b", 7), ["a-word-longer-than-that", "b"]);
        assert_eq!(wrapped("one two three", 80), ["one two three"]);
        assert_eq!(wrapped("it grew by 30.0 %.", 15), ["it grew by", "30.0 %."], "a number keeps its unit");
    }

    #[test]
    fn further_lines_stand_below_the_text_of_the_first() {
        assert_eq!(hanging("note: ", "one two three", 13), "note: one two\n      three\n");
        assert_eq!(
            hanging("\u{1b}[33mnote:\u{1b}[0m ", "one two three", 13),
            "\u{1b}[33mnote:\u{1b}[0m one two\n      three\n"
        );
        assert_eq!(note("one two three", 9), "one two\n  three\n");
        let label = "a target with a long name: ";
        assert_eq!(hanging(label, "one two", 32), format!("{label}one\n    two\n"));
        assert_eq!(hanging("    ", "one two three", 11), "    one two\n      three\n");
        assert_eq!(hanging("  - ", "", 40), "  - \n");
    }

    proptest! {
        #[test]
        fn a_line_is_wide_only_where_one_word_is(text in "[a-z0-9% ms]{0,200}", width in 20usize..100) {
            let paragraph = hanging("note: ", &text, width);
            let folded = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            prop_assert_eq!(folded(&paragraph)[1..].to_vec(), folded(&text));
            for line in paragraph.lines().filter(|line| line.chars().count() > width) {
                let line = line.strip_prefix("note: ").unwrap_or(line).trim_start();
                prop_assert!(words(line).filter(|word| !word.is_empty()).count() <= 1, "{}", line);
            }
        }
    }
}
