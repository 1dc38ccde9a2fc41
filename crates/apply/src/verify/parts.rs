//! Holds a merged text against the update that it was made by: see [`crate::lazy::law`] for the law of snippets.
//!
//! Invariant: a snippet's text that breaks the law is refused with the line of the original in question, and a whole file's
//! text is the update.

use crate::lazy::law::{self, Breach};
use crate::lazy::{self, Snippet};
use crate::outcome::{Code, Format, Refused};
use crate::source::Source;

/// Checks a merged text, with LF, by the update.
pub(crate) fn check(source: &Source, merged: &str, update: &str, format: Format) -> Result<(), Refused> {
    match format {
        Format::WholeFile if merged.split_terminator('\n').eq(update.split_terminator('\n')) => Ok(()),
        Format::WholeFile => Err(Refused::new(
            Code::AmbiguousLocation,
            "the merged text is not the whole file that the update is",
            "report this as a defect",
        )),
        Format::Lazy | Format::Fragment => check_snippet(source, merged, update),
        _ => Ok(()),
    }
}

fn check_snippet(source: &Source, merged: &str, update: &str) -> Result<(), Refused> {
    let snippet = Snippet::read(update, |_| false);
    let removed =
        snippet.removals.iter().map(|removal| lazy::removed_lines(source, removal)).collect::<Result<Vec<_>, _>>()?;
    let kept = |line: &usize| !removed.iter().any(|lines| lines.contains(line));
    // Where nothing is asked to be removed the original is the file.
    let all: Vec<usize> = (0..source.line_count()).filter(|line| !removed.is_empty() && kept(line)).collect();
    let without = (!removed.is_empty()).then(|| Source::of_lines(all.iter().map(|&line| source.line(line))));
    let original = without.as_ref().unwrap_or(source);
    let kept = |line: usize| if removed.is_empty() { line } else { all[line] };
    let Err(breach) = law::check(original, &snippet, merged) else { return Ok(()) };
    // The file may hold lines that read like markers; then those of the update may be content.
    let has = |line: &str| source.lines().any(|it| it == line);
    let is_literal = lazy::lines_with_dots(update).any(|line| lazy::is_marker(line) && has(line));
    let is_literal = is_literal && lazy::MarkerLines::of(&source.text).are_content(update);
    if is_literal && law::check(original, &Snippet::read(update, has), merged).is_ok() {
        return Ok(());
    }
    Err(refused(source, kept, breach))
}

fn refused(source: &Source, kept: impl Fn(usize) -> usize, breach: Breach) -> Refused {
    let shown = |line: usize| crate::format::quoted(source.line(line));
    let (code, message, hint, line) = match breach {
        Breach::NotTheParts => (
            Code::AmbiguousLocation,
            "the update cannot be laid over the file: its parts would not stand between unbroken lines of it"
                .to_owned(),
            "show the lines of the file above and below each change, and a marker wherever lines are left out",
            None,
        ),
        Breach::Lost(line) => (
            Code::AmbiguousDeletion,
            format!("line {} would go, and nothing in the update stands for it: {}", kept(line) + 1, shown(kept(line))),
            "to keep it, show it; to delete it, show the two lines before and the line after it without a marker between",
            Some(kept(line)),
        ),
        Breach::Inserted(line) => (
            Code::AmbiguousLocation,
            format!(
                "the update shows line {} beside a marker, where it does not stand: {}",
                kept(line) + 1,
                shown(kept(line))
            ),
            "show beside each marker a line as it stands there in the file",
            Some(kept(line)),
        ),
        Breach::Twice(line) => (
            Code::AmbiguousLocation,
            format!("a part of the update stands in the file from line {} on, and would stand twice", kept(line) + 1),
            "leave out what is there already, or show the lines above and below the copy",
            Some(kept(line)),
        ),
        Breach::TooMuch => (
            Code::TooLarge,
            "the update could be laid over the file in too many ways to check".to_owned(),
            "split the update, or show lines that stand once in the file",
            None,
        ),
    };
    Refused::new(code, message, hint).at(line.map(|line| (line, line)))
}
