//! Merges of any file and any update: nothing panics, and every line of a merged snippet comes from one of the two.
//!
//! It does not know what the right text is. Invariant: the first bytes of the input say the language and where the file
//! ends and the update begins.

use std::collections::BTreeSet;
use tokrate_apply::{Encoding, Format, Language, Options, Outcome, Patch, accept, merge, request::read_chat};

/// Panics if a property does not hold.
pub fn run(input: &[u8]) {
    let Some((&[language, cut, fine], body)) = input.split_first_chunk::<3>() else { return };
    let cut = (usize::from(cut) << 4 | usize::from(fine) & 15).min(body.len());
    let (original, update) = body.split_at(cut);
    let language = Language::ALL.get(usize::from(language) % (Language::ALL.len() + 1)).copied();
    let options = Options { language, without_tree: fine >> 7 == 1, ..Options::default() };
    if let Ok(text) = std::str::from_utf8(body) {
        let _ = (read_chat(text), Patch::read(text));
    }
    let Outcome::Merged(merged) = merge(original, update, &options) else { return };
    // The law of snippets, by a check that knows only the three texts.
    if matches!(merged.how.format, Format::Lazy | Format::Fragment) && !merged.is_unchanged() {
        let accepted = accept(original, update, &merged.text, &options);
        assert!(accepted.is_ok(), "a text of its own is not what the update says: {accepted:?}");
    }
    if !matches!(merged.how.format, Format::Lazy | Format::Fragment) {
        return;
    }
    let (original, _) = Encoding::decode(original);
    let known: BTreeSet<&str> = [&*original, text(update)].into_iter().flat_map(lines).collect();
    assert!(lines(&merged.text).all(|line| known.contains(line)), "a line is in neither");
}

/// The lines of a text, without their indentation and without byte order marks, which may stand behind one.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(|line| line.trim_matches(|sign: char| sign.is_whitespace() || sign == '\u{feff}'))
}

fn text(update: &[u8]) -> &str {
    std::str::from_utf8(update).expect("only updates of text are merged")
}
