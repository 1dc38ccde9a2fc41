//! Unified diffs, also those with wrong line numbers or none.
//!
//! Lines decide where a hunk belongs; its line number only if they fit several places. Invariant: of several files in one diff, only the one at hand
//! is changed.

use super::change::together;
use super::find::{Finder, Wanted};
use super::hunk::Hunk;
use super::{Located, path};
use crate::outcome::{Code, Refused, Stage};
use crate::source::Source;

/// The section of a diff for one file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Section<'u> {
    path: Option<String>,
    /// Whether the file is to go.
    deleted: bool,
    hunks: Vec<Numbered<'u>>,
}

/// A hunk with its header.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Numbered<'u> {
    hunk: Hunk<'u>,
    /// Line of the update, counted from 0.
    at: usize,
    /// First line (counted from 1) and number of lines before, and number of lines after.
    numbers: Option<(usize, usize, usize)>,
    /// Lines before and after that were read; counted as they come, as there may be many.
    read: (usize, usize),
}

impl<'u> Numbered<'u> {
    fn push(&mut self, line: &'u str) {
        self.hunk.push(line);
        self.read.0 += usize::from(!line.starts_with('+'));
        self.read.1 += usize::from(!line.starts_with('-'));
    }
}

/// Whether lines begin as a diff.
pub(super) fn begins(lines: &[&str]) -> bool {
    let is_header = |line: &str| line.starts_with("diff --git ") || line.starts_with("Index: ");
    match lines {
        [first, ..] if is_header(first) => lines.iter().any(|line| line.starts_with("@@") || line.starts_with("+++ ")),
        [first, second, ..] if first.starts_with("--- ") && second.starts_with("+++ ") => true,
        [first, rest @ ..] if first.starts_with("@@") => {
            let bare = *first == "@@" || first.len() > 4 && first[2..].starts_with(' ') && first[3..].contains("@@");
            let signed = rest.iter().any(|line| line.starts_with(['+', '-']));
            signed
                && (numbers(first).is_some()
                    || bare
                        && rest
                            .iter()
                            .all(|line| line.is_empty() || line.starts_with([' ', '+', '-', '\\', '@', '\t'])))
        }
        _ => false,
    }
}

/// Locates all hunks.
pub(super) fn locate(source: &Source, update: &str, path: Option<&str>) -> Result<Located, Refused> {
    let lines: Vec<&str> = update.lines().collect();
    let sections = path::chosen(read(&lines), |section| section.path.as_deref(), path)?;
    if sections.iter().any(|section| section.deleted) {
        return Err(Refused::new(Code::NotAnEdit, "the diff deletes the file", "delete the file itself"));
    }
    let hunks: Vec<&Numbered<'_>> =
        sections.iter().flat_map(|section| &section.hunks).filter(|it| it.hunk.changes()).collect();
    if hunks.is_empty() {
        return Err(Refused::new(
            Code::NotAnEdit,
            "the diff has no line that goes or comes",
            "mark lines with `-` and `+`",
        ));
    }
    let finder = Finder::new(source);
    let mut changes = Vec::with_capacity(hunks.len());
    for (number, Numbered { hunk, at, numbers, .. }) in hunks.iter().enumerate() {
        let name = match hunks.len() {
            1 => "the hunk".to_owned(),
            _ => format!("hunk {} (line {} of the update)", number + 1, at + 1),
        };
        // A header whose counts are right was written by a tool, so its line may be too.
        let near =
            numbers.filter(|&(_, old, new)| hunk.counts() == (old, new)).map(|(line, ..)| line.saturating_sub(1));
        let wanted = Wanted { near, trusted: true, at_end: hunk.at_end, ..Wanted::anywhere(&name, source) };
        changes.push(hunk.locate(&finder, &wanted)?);
    }
    let (splices, reindented) = together(changes)?;
    Ok(Located { splices, stage: Stage::Lines, reindented })
}

/// Reads all sections.
fn read<'u>(lines: &[&'u str]) -> Vec<Section<'u>> {
    let mut sections: Vec<Section<'u>> = Vec::new();
    // The hunk that is being read, if any.
    let mut open: Option<Numbered<'u>> = None;
    let mut at = 0;
    while at < lines.len() {
        let line = lines[at];
        let header = line.starts_with("--- ") && lines.get(at + 1).is_some_and(|next| next.starts_with("+++ "));
        if header && (open.is_none() || lines.get(at + 2).is_some_and(|next| next.starts_with("@@"))) {
            close(&mut sections, open.take());
            sections.push(section(line, lines[at + 1]));
            at += 2;
            continue;
        }
        if line.starts_with("diff --git ") || line.starts_with("Index: ") {
            close(&mut sections, open.take());
        } else if line.starts_with("@@") {
            close(&mut sections, open.take());
            open = Some(Numbered { at, numbers: numbers(line), ..Numbered::default() });
        } else if let Some(numbered) = &mut open {
            if line.starts_with("\\ ") {
                numbered.hunk.ends_file();
            } else if is_over(numbered, line) {
                close(&mut sections, open.take());
            } else {
                numbered.push(line);
            }
        } else if line.starts_with([' ', '+', '-']) && sections.last().is_some_and(|it| it.hunks.is_empty()) {
            // Changed lines right below the names of the files.
            let mut numbered = Numbered { at, ..Numbered::default() };
            numbered.push(line);
            open = Some(numbered);
        }
        at += 1;
    }
    close(&mut sections, open);
    sections
}

/// Whether a line follows a hunk that is complete by its own numbers, and is none of it.
fn is_over(numbered: &Numbered<'_>, line: &str) -> bool {
    let complete = numbered.numbers.is_some_and(|(_, old, new)| numbered.read == (old, new));
    complete && (line == "-- " || !line.starts_with([' ', '+', '-']))
}

fn close<'u>(sections: &mut Vec<Section<'u>>, open: Option<Numbered<'u>>) {
    let Some(mut numbered) = open else { return };
    if numbered.numbers.is_none_or(|(_, old, new)| numbered.hunk.counts() != (old, new)) {
        numbered.hunk.trim_end();
    }
    if sections.is_empty() {
        sections.push(Section::default());
    }
    sections.last_mut().expect("one was put there").hunks.push(numbered);
}

/// A section from the two lines that name the file.
fn section<'u>(old: &str, new: &str) -> Section<'u> {
    let name = |line: &str| line[4..].split('\t').next().unwrap_or_default().trim().trim_matches('"').to_owned();
    let (old, new) = (name(old), name(new));
    let bare = |name: &str, prefix: &str| name.strip_prefix(prefix).unwrap_or(name).to_owned();
    let deleted = new == "/dev/null";
    let path = if deleted { bare(&old, "a/") } else { bare(&new, "b/") };
    Section { path: Some(path).filter(|path| !path.is_empty()), deleted, hunks: Vec::new() }
}

/// The numbers of a header such as `@@ -12,5 +12,6 @@`.
fn numbers(line: &str) -> Option<(usize, usize, usize)> {
    let rest = line.strip_prefix("@@ -")?;
    let (old, rest) = rest.split_once(" +")?;
    let (new, _) = rest.split_once(" @@")?;
    let range = |text: &str| -> Option<(usize, usize)> {
        match text.split_once(',') {
            Some((line, count)) => Some((line.parse().ok()?, count.parse().ok()?)),
            None => Some((text.parse().ok()?, 1)),
        }
    };
    let ((line, old), (_, new)) = (range(old)?, range(new)?);
    Some((line, old, new))
}

#[cfg(test)]
mod tests;
