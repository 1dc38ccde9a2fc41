//! The files of a unified diff: changed, made, deleted and moved.
//!
//! Invariant: what a diff says of a file that cannot be carried out here is refused, and not left out.

use super::super::files::{PatchAction, PatchedFile};
use super::super::hunk::HunkLine;
use super::{Section, read, unquoted};
use crate::outcome::{Code, Format, Refused};

/// The files of a diff, a section each.
pub(in crate::format) fn files(lines: &[&str]) -> Result<Vec<PatchedFile>, Refused> {
    let sections = read(lines)?;
    if sections.is_empty() {
        return Err(Refused::new(Code::InvalidFormat, "the diff has no hunk", "begin each with `@@`"));
    }
    sections.iter().map(|section| file(section, lines)).collect()
}

fn file(section: &Section<'_>, lines: &[&str]) -> Result<PatchedFile, Refused> {
    let at = section.lines.start + 1;
    let Some(path) = &section.path else {
        let message = format!("the section in line {at} of the diff names no file");
        return Err(Refused::new(Code::InvalidFormat, message, "write `--- path` and `+++ path` above its hunks"));
    };
    let refused = |what: &str, hint: &str| Err(Refused::new(Code::InvalidFormat, format!("{path}: {what}"), hint));
    if let Some(beyond) = section.git.beyond {
        let what = format!("the diff says `{}`, which is not carried out here", super::super::short(beyond));
        return refused(&what, "only lines are changed: leave it out of the diff, and do it by hand");
    }
    let has_git_head = !section.git.names.is_empty();
    if has_git_head && (section.git.is_new, section.git.deleted) != (section.is_new, section.deleted) {
        return refused("the lines of git above it and its `---` and `+++` lines disagree", "write the section anew");
    }
    if let Some(old) = section.old.as_ref().filter(|old| *old != path && !section.deleted)
        && section.git.renamed_from.map(unquoted).as_ref() != Some(old)
    {
        let what = format!("the diff names {old} before and {path} after, and no `rename from`");
        return refused(&what, "name the same file twice, or begin with git's lines `rename from` and `rename to`");
    }
    let action = if section.deleted {
        // git shows no lines of an empty file only.
        PatchAction::Delete { shown: Some(side(section, false)) }
    } else if section.is_new {
        if section.hunks.iter().flat_map(|it| &it.hunk.lines).any(|line| matches!(line, HunkLine::Minus(_))) {
            return refused("the diff makes this file and takes lines from it", "mark all of its lines with `+`");
        }
        PatchAction::Add { content: side(section, true) }
    } else {
        let changes = section.hunks.iter().any(|it| it.hunk.changes());
        let moved = section.git.renamed_from.map(unquoted);
        if !changes && moved.is_none() {
            return refused("the diff changes no line of it", "mark lines with `-` and `+`");
        }
        let section = match changes {
            true => lines[section.lines.clone()].iter().flat_map(|line| [*line, "\n"]).collect(),
            false => String::new(),
        };
        let format = Format::UnifiedDiff;
        return Ok(match moved {
            None => PatchedFile { path: path.clone(), action: PatchAction::Update { section, format, moved_to: None } },
            Some(from) => PatchedFile {
                path: from,
                action: PatchAction::Update { section, format, moved_to: Some(path.clone()) },
            },
        });
    };
    Ok(PatchedFile { path: path.clone(), action })
}

/// The text before or after, of a section that shows all of it.
fn side(section: &Section<'_>, after: bool) -> String {
    let mut text = String::new();
    for numbered in &section.hunks {
        for line in &numbered.hunk.lines {
            let (HunkLine::Context(line, _) | HunkLine::Minus(line) | HunkLine::Plus(line)) = line;
            text.push_str(line);
            text.push('\n');
        }
    }
    if after && section.hunks.last().is_some_and(|last| last.cut) {
        text.pop();
    }
    text
}
