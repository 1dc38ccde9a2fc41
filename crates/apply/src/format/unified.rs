//! Unified diffs, also those with wrong line numbers or none.
//!
//! Lines decide where a hunk belongs; its line number only if they fit several places. Invariant: of several files in one diff, only the one at hand
//! is changed.

mod files;

pub(super) use files::files;

use super::change::together;
use super::find::{Finder, Wanted};
use super::hunk::{Hunk, HunkLine};
use super::{Located, path};
use crate::outcome::{Code, Refused, Stage};
use crate::source::Source;
use std::ops::Range;

/// The section of a diff for one file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Section<'u> {
    path: Option<String>,
    /// Its name before, if the section has one.
    old: Option<String>,
    /// Whether the file is to be made.
    is_new: bool,
    /// Whether the file is to go.
    deleted: bool,
    /// What git says above the names.
    git: GitHead<'u>,
    hunks: Vec<Numbered<'u>>,
    /// Its lines in the update.
    lines: Range<usize>,
}

/// The lines of git above a section, as far as they matter.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct GitHead<'u> {
    /// Line of the update, counted from 0.
    at: usize,
    /// The names in its first line.
    names: &'u str,
    renamed_from: Option<&'u str>,
    is_new: bool,
    deleted: bool,
    /// What is no change of lines: binary content, a copy, a mode.
    beyond: Option<&'u str>,
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
    /// Whether the last new line is said to have no end.
    cut: bool,
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
        _ if names_files(lines, 0) => true,
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

/// Whether two lines name the files of a section.
pub(super) fn names_files(lines: &[&str], at: usize) -> bool {
    matches!(lines.get(at..), Some([old, new, ..]) if old.starts_with("--- ") && new.starts_with("+++ "))
}

/// Locates all hunks.
pub(super) fn locate(source: &Source, update: &str) -> Result<Located, Refused> {
    let lines: Vec<&str> = update.lines().collect();
    let sections = read(&lines)?;
    path::of_one_file(&sections, |section| section.path.as_deref())?;
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
    Ok(Located { splices, stage: Stage::Lines, reindented, evidence: None })
}

/// Reads all sections.
///
/// # Errors
/// When changed lines stand outside of a hunk, or another patch begins: neither may be left out.
fn read<'u>(lines: &[&'u str]) -> Result<Vec<Section<'u>>, Refused> {
    let mut sections: Vec<Section<'u>> = Vec::new();
    // The hunk that is being read, if any.
    let mut open: Option<Numbered<'u>> = None;
    // What git says of the section that is to come.
    let mut head: Option<GitHead<'u>> = None;
    let mut at = 0;
    while at < lines.len() {
        let line = lines[at];
        if names_files(lines, at) && (open.is_none() || lines.get(at + 2).is_some_and(|next| next.starts_with("@@"))) {
            close(&mut sections, open.take());
            let git = head.take().unwrap_or(GitHead { at, ..GitHead::default() });
            begin(&mut sections, section(line, lines[at + 1], git));
            at += 2;
            continue;
        }
        if line.starts_with("diff --git ") || line.starts_with("Index: ") {
            close(&mut sections, open.take());
            sections_of_git(&mut sections, head.take());
            let names = line.strip_prefix("diff --git ").unwrap_or_default();
            head = Some(GitHead { at, names, ..GitHead::default() });
        } else if line.starts_with("@@") {
            sections_of_git(&mut sections, head.take());
            close(&mut sections, open.take());
            open = Some(Numbered { at, numbers: numbers(line), ..Numbered::default() });
        } else if let Some(numbered) = &mut open {
            if line.starts_with("\\ ") {
                numbered.hunk.ends_file();
                numbered.cut |= matches!(numbered.hunk.lines.last(), Some(HunkLine::Plus(_)));
            } else if is_over(numbered, line) {
                close(&mut sections, open.take());
            } else {
                numbered.push(line);
            }
        } else if let Some(head) = &mut head {
            head.push(line);
        } else if line.starts_with([' ', '+', '-']) && sections.last().is_some_and(|it| it.hunks.is_empty()) {
            // Changed lines right below the names of the files.
            let mut numbered = Numbered { at, ..Numbered::default() };
            numbered.push(line);
            open = Some(numbered);
        } else if !sections.is_empty() {
            check_outside(lines, at)?;
        }
        at += 1;
    }
    open.as_ref().map_or(Ok(()), refuse_cut)?;
    close(&mut sections, open);
    sections_of_git(&mut sections, head);
    if let Some(last) = sections.last_mut() {
        last.lines.end = lines.len();
    }
    Ok(sections)
}

/// Refuses a last hunk that ends with a line that goes, where its header is right in what is shown and says that more lines are to come: it may have
/// been cut off. Headers that are wrong in both say nothing.
fn refuse_cut(last: &Numbered<'_>) -> Result<(), Refused> {
    let ends_gone = matches!(last.hunk.lines.last(), Some(HunkLine::Minus(_)));
    let is_cut = |(_, old, new): &(usize, usize, usize)| ends_gone && last.read.0 == *old && last.read.1 < *new;
    let Some((_, _, new)) = last.numbers.filter(is_cut) else { return Ok(()) };
    let message = format!(
        "the hunk in line {} of the update ends with a line that goes, and its header says that {} more come: it may be cut off",
        last.at + 1,
        new - last.read.1
    );
    let hint = "send the hunk whole, or `@@` without numbers";
    Err(Refused::new(Code::InvalidFormat, message, hint))
}

/// A line below a hunk that its header says is complete. `-- ` is the line above a mail's signature.
fn check_outside(lines: &[&str], at: usize) -> Result<(), Refused> {
    super::no_other_patch(lines, at)?;
    let line = lines[at];
    if line.starts_with(['+', '-']) && line.trim_end() != "--" {
        let message = format!("line {} of the update is outside of a hunk: {}", at + 1, super::quoted(line));
        let hint = "the header of the hunk above counts too few lines: write the right counts, or `@@` without numbers";
        return Err(Refused::new(Code::InvalidFormat, message, hint));
    }
    Ok(())
}

fn begin<'u>(sections: &mut Vec<Section<'u>>, section: Section<'u>) {
    if let Some(last) = sections.last_mut() {
        last.lines.end = section.lines.start;
    }
    sections.push(section);
}

/// A section of git that has no lines of names: a file that is only moved, empty, or has another mode.
fn sections_of_git<'u>(sections: &mut Vec<Section<'u>>, head: Option<GitHead<'u>>) {
    let Some(git) = head.filter(|git| !git.names.is_empty()) else { return };
    let path = git.path();
    let lines = git.at..git.at;
    begin(
        sections,
        Section { path, old: None, is_new: git.is_new, deleted: git.deleted, git, hunks: Vec::new(), lines },
    );
}

impl<'u> GitHead<'u> {
    fn push(&mut self, line: &'u str) {
        if let Some(name) = line.strip_prefix("rename from ") {
            self.renamed_from = Some(name);
        }
        self.is_new |= line.starts_with("new file mode ");
        self.deleted |= line.starts_with("deleted file mode ");
        const BEYOND: [&str; 4] = ["Binary files ", "GIT binary patch", "copy from ", "new mode "];
        // Links, other repositories and programs have other modes than a plain file.
        let is_plain = line.strip_prefix("new file mode ").is_none_or(|mode| mode.trim() == "100644");
        if !is_plain || BEYOND.iter().any(|sign| line.starts_with(sign)) {
            self.beyond = Some(line);
        }
    }

    /// The new name in its first line: the two are of one length, but for a move.
    fn path(&self) -> Option<String> {
        let middle = self.names.len() / 2;
        let new = match (self.names.is_char_boundary(middle), self.renamed_from) {
            (_, Some(old)) => self.names.strip_prefix("a/").unwrap_or(self.names).strip_prefix(old)?.trim_start(),
            (true, None) => self.names[middle..].trim_start(),
            (false, None) => return None,
        };
        let new = unquoted(new);
        Some(new.strip_prefix("b/").map(str::to_owned).unwrap_or(new))
    }
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

/// A section from the two lines that name the file. The signs that git puts before the names go together.
fn section<'u>(old: &str, new: &str, git: GitHead<'u>) -> Section<'u> {
    const NONE: &str = "/dev/null";
    let name = |line: &str| unquoted(line[4..].split('\t').next().unwrap_or_default().trim());
    let (old, new) = (name(old), name(new));
    let (is_new, deleted) = (old == NONE, new == NONE);
    let has_signs = (is_new || old.starts_with("a/")) && (deleted || new.starts_with("b/"));
    let without_sign = |path: String| if has_signs { path[2..].to_owned() } else { path };
    let old = if is_new { None } else { Some(without_sign(old)) };
    let path = if deleted { old.clone() } else { Some(without_sign(new)) };
    let lines = git.at..git.at;
    Section { path: path.filter(|path| !path.is_empty()), old, is_new, deleted, git, hunks: Vec::new(), lines }
}

/// A name without the quotes and escapes that git writes around bytes beyond ASCII.
fn unquoted(name: &str) -> String {
    let Some(inside) = name.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else { return name.to_owned() };
    let mut bytes = Vec::with_capacity(inside.len());
    let mut rest = inside.bytes().peekable();
    while let Some(byte) = rest.next() {
        match (byte, rest.peek().copied()) {
            (b'\\', Some(b'0'..=b'7')) => {
                let mut value = 0_u32;
                for _ in 0..3 {
                    let Some(digit) = rest.next_if(|it| (b'0'..=b'7').contains(it)) else { break };
                    value = value * 8 + u32::from(digit - b'0');
                }
                bytes.push(value as u8);
            }
            (b'\\', Some(sign)) => {
                rest.next();
                bytes.push(match sign {
                    b'n' => b'\n',
                    b't' => b'\t',
                    other => other,
                });
            }
            _ => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
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
