//! Paths that an update names, and whether it means the file at hand.
//!
//! Invariant: an update for several files is no update of one.

use crate::outcome::{Code, Refused};

/// Whether two paths name one file: the same, or one the end of the other.
pub(crate) fn same(a: &str, b: &str) -> bool {
    let parts = |path: &str| -> Vec<String> {
        path.split(['/', '\\']).filter(|part| !part.is_empty() && *part != ".").map(str::to_owned).collect()
    };
    let (a, b) = (parts(a), parts(b));
    !a.is_empty() && !b.is_empty() && (a.ends_with(&b) || b.ends_with(&a))
}

/// The names of the files that the parts of an update are for; a part without a name goes with the one before it.
fn names<P>(parts: &[P], named: impl Fn(&P) -> Option<&str>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in parts.iter().filter_map(named) {
        if !names.iter().any(|known| same(known, name)) {
            names.push(name.to_owned());
        }
    }
    names
}

/// Checks that the parts of an update are for one file at most: what is for another one would be lost.
///
/// # Errors
/// When they name several files.
pub(crate) fn of_one_file<P>(parts: &[P], named: impl Fn(&P) -> Option<&str>) -> Result<(), Refused> {
    let names = names(parts, named);
    let [first, second, ..] = &names[..] else { return Ok(()) };
    let message = format!("the update names {} files, {first} and {second} among them, and one is edited", names.len());
    let hint = "carry all of it out with `tokrate apply --patch`, or write one update for each file";
    Err(Refused::new(Code::InvalidFormat, message, hint))
}

/// The path in the last line before a block, if it is alone there, a fence between them or not.
pub(crate) fn before<'u>(lines: &[&'u str]) -> Option<&'u str> {
    of_line(above(lines)?)
}

/// The same where the name of a file is expected: a word is one, whatever it looks like.
pub(crate) fn word_before<'u>(lines: &[&'u str]) -> Option<&'u str> {
    let line = above(lines)?;
    of_line(line).or_else(|| {
        let line = bare(line);
        let is_word = !line.is_empty() && line.chars().all(|sign| sign.is_alphanumeric() || "._-".contains(sign));
        is_word.then_some(line)
    })
}

/// The last line with text that opens or closes no fence.
fn above<'u>(lines: &[&'u str]) -> Option<&'u str> {
    let mut lines = lines.iter().rev().map(|line| line.trim()).filter(|line| !line.is_empty());
    let line = lines.next()?;
    if line.starts_with("```") || line.starts_with("~~~") { lines.next() } else { Some(line) }
}

/// The path that a line consists of, in whatever dress: `**src/a.rs**`, `src/a.rs:`, `# src/a.rs`.
pub(crate) fn of_line(line: &str) -> Option<&str> {
    let text = bare(line);
    let name = text.rsplit(['/', '\\']).next()?;
    let ending = name.rsplit_once('.').map(|(_, ending)| ending);
    let looks = text.contains('/')
        || ending
            .is_some_and(|it| !it.is_empty() && it.len() <= 10 && it.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    let plain = !text.is_empty()
        && text.len() <= 300
        && !text.contains(char::is_whitespace)
        && !text.contains(['<', '>', '(', ')', ';', '{', '}', '"']);
    (looks && plain && !name.is_empty()).then_some(text)
}

/// A line without its dress.
fn bare(line: &str) -> &str {
    line.trim().trim_start_matches(['#', '*', '`', ' ']).trim_end_matches(['*', '`', ':', ' '])
}
