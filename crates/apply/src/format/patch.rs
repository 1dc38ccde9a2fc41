//! Patches of several files: V4A, unified diffs, and blocks of search and replacement below the names of files.
//!
//! Invariant: no path occurs twice in what is read, and nothing of the patch is left out.

use super::files::{PatchAction, PatchedFile};
use super::{detect, search_replace, unified, v4a};
use crate::outcome::{Code, Format, Refused};
use std::collections::BTreeMap;

/// The files of a patch, to be carried out all or none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Patch {
    /// In the order of the patch; no path occurs twice.
    pub files: Vec<PatchedFile>,
}

impl Patch {
    /// Reads the files of a patch.
    ///
    /// # Errors
    /// When it is none, names no file, or names a file twice in ways that do not go together.
    pub fn read(update: &str) -> Result<Patch, Refused> {
        let given = update.strip_prefix('\u{feff}').unwrap_or(update);
        let update = crate::source::with_lf(given);
        let update = super::unwrapped(&update);
        let lines: Vec<&str> = update.lines().collect();
        let files = match detect::explicit(update).or_else(|| further_down(&lines)) {
            Some(Format::V4a) => v4a::files(&lines)?,
            Some(Format::UnifiedDiff) => unified::files(&lines)?,
            Some(Format::SearchReplace) => search_replace::files(&lines)?,
            _ => {
                let message = "this is no patch of files";
                let hint = "write `*** Begin Patch`, a unified diff, or SEARCH/REPLACE blocks below the names of files";
                return Err(Refused::new(Code::InvalidFormat, message, hint));
            }
        };
        let mut files = joined(files)?;
        if ends_with_crlf(given) {
            for file in &mut files {
                if let PatchAction::Add { content } = &mut file.action {
                    *content = content.replace('\n', "\r\n");
                }
            }
        }
        Ok(Patch { files })
    }
}

/// Whether what a patch makes gets CRLF: all added lines of the patch have it, or, where nothing marks them, all lines.
pub(super) fn ends_with_crlf(patch: &str) -> bool {
    let is_added = |line: &&str| line.starts_with('+') && !line.starts_with("+++ ");
    let has_added = patch.split_inclusive('\n').any(|line| is_added(&line));
    let mut lines = patch.split_inclusive('\n').filter(|line| !has_added || is_added(line)).peekable();
    lines.peek().is_some() && lines.all(|line| line.ends_with("\r\n"))
}

/// The format of a patch with words above it.
fn further_down(lines: &[&str]) -> Option<Format> {
    lines.iter().enumerate().find_map(|(at, line)| match line {
        _ if search_replace::opens(line) => Some(Format::SearchReplace),
        _ if unified::begins(&lines[at..(at + 3).min(lines.len())]) && !line.starts_with("@@") => {
            Some(Format::UnifiedDiff)
        }
        _ => None,
    })
}

/// One entry for each file.
fn joined(parts: Vec<PatchedFile>) -> Result<Vec<PatchedFile>, Refused> {
    let mut files: Vec<PatchedFile> = Vec::new();
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    for part in parts {
        let at = *known.entry(part.path.clone()).or_insert(files.len());
        let Some(file) = files.get_mut(at) else {
            files.push(part);
            continue;
        };
        match (&mut file.action, part.action) {
            (
                PatchAction::Update { section: first, format, moved_to: None },
                PatchAction::Update { section: more, moved_to: None, .. },
            ) if !first.is_empty() && !more.is_empty() => {
                if *format == Format::V4a {
                    v4a::append(first, &more);
                } else {
                    first.push_str(&more);
                }
            }
            _ => {
                let message = format!("the patch does two things with {}", part.path);
                return Err(Refused::new(Code::InvalidFormat, message, "write one section for each file"));
            }
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests;
