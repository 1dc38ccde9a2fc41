//! Line numbers before the lines of an update, as tools show files to models: `12 | code`, `12→code`, `12<tab>code`.
//!
//! Invariant: numbers are taken off only where all lines have them and they agree with the file.

use super::lines::core;
use crate::source::Source;

/// The number before a line, and the line.
fn numbered(line: &str) -> Option<(usize, &str)> {
    let text = line.trim_start_matches(' ');
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number = text[..digits].parse().ok().filter(|&number| number > 0)?;
    let rest = &text[digits..];
    let bare = rest.strip_prefix('→').or_else(|| rest.strip_prefix('\t')).or_else(|| {
        let rest = rest.strip_prefix(" |").or_else(|| rest.strip_prefix('|'))?;
        // An empty line may be written without the blank.
        rest.strip_prefix(' ').or_else(|| rest.is_empty().then_some(rest))
    })?;
    Some((number, bare))
}

/// All lines without their numbers; none if a line has none. Blank lines need none.
fn all<'u>(lines: &[&'u str]) -> Option<(Vec<usize>, Vec<&'u str>)> {
    let mut numbers = Vec::with_capacity(lines.len());
    let mut bare = Vec::with_capacity(lines.len());
    for line in lines {
        match numbered(line) {
            Some((number, rest)) => {
                numbers.push(number);
                bare.push(rest);
            }
            None if core(line).is_empty() => bare.push(*line),
            None => return None,
        }
    }
    (!numbers.is_empty()).then_some((numbers, bare))
}

/// Whether a line of the file has this number and text.
fn agrees(source: &Source, line: &str) -> bool {
    numbered(line).is_some_and(|(number, text)| {
        (1..=source.line_count()).contains(&number) && source.line(number - 1).trim_end() == text.trim_end()
    })
}

/// An edit without the numbers of a shown file.
pub(super) struct Bare<'u> {
    /// The line that the old ones begin at, counted from 0.
    pub near: usize,
    pub old: Vec<&'u str>,
    pub new: Vec<&'u str>,
}

/// The old and the new lines of an edit without the numbers of a shown file: every old line has the number and the text of a
/// line of the file, and the new ones have numbers too, or none of them has.
pub(super) fn without<'u>(source: &Source, old: &[&'u str], new: &[&'u str]) -> Option<Bare<'u>> {
    let (numbers, bare) = all(old)?;
    let leading = old.iter().take_while(|line| core(line).is_empty()).count();
    let near = (numbers[0] - 1).checked_sub(leading)?;
    if !old.iter().all(|line| core(line).is_empty() || agrees(source, line)) {
        return None;
    }
    let new = match all(new) {
        Some((_, new)) => new,
        None if new.iter().all(|line| numbered(line).is_none()) => new.to_vec(),
        None => return None,
    };
    Some(Bare { near, old: bare, new })
}

/// A snippet without the numbers of a shown file: they rise, and most lines with text are those of the file with these numbers.
pub(crate) fn stripped(source: &Source, update: &str) -> Option<String> {
    let lines: Vec<&str> = update.lines().collect();
    // Most updates have none, which their first line tells.
    numbered(lines.iter().find(|line| !core(line).is_empty())?)?;
    let (numbers, bare) = all(&lines)?;
    let rises = numbers.windows(2).all(|pair| pair[0] < pair[1]);
    let shown = lines.iter().filter(|line| numbered(line).is_some_and(|(_, text)| !core(text).is_empty()));
    let (mut known, mut count) = (0, 0);
    for line in shown {
        count += 1;
        known += usize::from(agrees(source, line));
    }
    // A file that is itself such a listing has these lines as they are.
    let is_listing = lines.iter().any(|line| numbered(line).is_some() && source.lines().any(|own| own == *line));
    (rises && !is_listing && known * 2 >= count && known > 0).then(|| {
        let mut text = bare.join("\n");
        text.push('\n');
        text
    })
}

#[cfg(test)]
mod tests {
    use crate::{Outcome, edit};

    const FILE: &str = "def f():\n    a = 1\n    b = 2\n    return a + b\n";

    fn edited(update: &str) -> Option<String> {
        match edit("x.py", FILE, update, None) {
            Outcome::Merged(merged) => Some(merged.text),
            Outcome::Refused(_) => None,
        }
    }

    #[test]
    fn numbers_that_agree_with_the_file_are_taken_off() {
        let expected = Some(FILE.replace("b = 2", "b = 3"));
        for sign in ["→", " | ", "\t", "| "] {
            let line = |number: usize, text: &str| format!("{number:>6}{sign}{text}\n");
            let (old, new) =
                (line(2, "    a = 1") + &line(3, "    b = 2"), line(2, "    a = 1") + &line(3, "    b = 3"));
            let block = |new: &str| format!("<<<<<<< SEARCH\n{old}=======\n{new}>>>>>>> REPLACE\n");
            assert_eq!(edited(&block(&new)), expected, "{sign}");
            assert_eq!(edited(&block("    a = 1\n    b = 3\n")), expected, "{sign}: none on the new side");
            let pair = serde_json::json!({"old_string": old, "new_string": new}).to_string();
            assert_eq!(edited(&pair), expected, "{sign}");
            let snippet = line(1, "def f():") + &new + &line(4, "    return a + b");
            assert_eq!(edited(&snippet), expected, "{sign}");
        }
    }

    #[test]
    fn numbers_that_do_not_agree_stay() {
        let block = |old: &str, new: &str| format!("<<<<<<< SEARCH\n{old}=======\n{new}>>>>>>> REPLACE\n");
        assert_eq!(edited(&block("3 |     a = 1\n", "3 |     a = 2\n")), None, "another line has this number");
        assert_eq!(edited(&block("2 |     a = 1\n", "2 |     a = 2\n    c = 3\n")), None, "some have one and some not");
        let listing = "1 | one\n2 | two\n3 | three\n";
        let update = block("2 | two\n", "2 | zwei\n");
        let Outcome::Merged(merged) = edit("x.txt", listing, &update, None) else { panic!("refused") };
        assert_eq!(merged.text, listing.replace("two", "zwei"), "a file with numbers of its own");
    }
}
