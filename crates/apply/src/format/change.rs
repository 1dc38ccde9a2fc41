//! Replacements of lines as minimal changes of the file.
//!
//! Invariant: lines that old and new have in common keep the bytes of the file.

use super::find::{Finder, Place, Shift};
use super::lines::core;
use super::similar::quoted;
use crate::outcome::{Code, Refused};
use crate::source::Source;
use crate::splice::Splice;
use imara_diff::{Algorithm, Diff, InternedInput};
use std::ops::Range;

/// One edit of an update, located.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    /// Lines of the file that it shows.
    pub lines: Range<usize>,
    /// The changes in them, in order.
    pub splices: Vec<Splice>,
    /// Whether it had another indentation than the file.
    pub reindented: bool,
}

/// The change that an edit makes at the place of its old lines.
pub(crate) fn change(
    finder: &Finder<'_>,
    place: &Place<'_>,
    old: &[&str],
    new: &[&str],
    name: &str,
) -> Result<Change, Refused> {
    let blank = |line: &&&str| core(line).is_empty();
    // Blank lines that pad the old lines pad the new ones too.
    let first = new.iter().take(place.dropped.0).take_while(blank).count();
    let last = new[first..].iter().rev().take(place.dropped.1).take_while(blank).count();
    let old = &old[place.dropped.0..old.len() - place.dropped.1];
    let new = &new[first..new.len() - last];
    let splices = splices(finder.lines.source, place.lines.start, old, new, &place.shift, name)?;
    Ok(Change { lines: place.lines.clone(), splices, reindented: !place.shift.is_none() })
}

/// The lines that differ between old, which stand in the file from a line on, and new.
pub(crate) fn splices(
    source: &Source,
    start: usize,
    old: &[&str],
    new: &[&str],
    shift: &Shift<'_>,
    name: &str,
) -> Result<Vec<Splice>, Refused> {
    let same = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let (old, new, start) = (&old[same..], &new[same..], start + same);
    let same = old.iter().rev().zip(new.iter().rev()).take_while(|(old, new)| old == new).count();
    let (old, new) = (&old[..old.len() - same], &new[..new.len() - same]);
    if old.is_empty() && new.is_empty() {
        return Ok(Vec::new());
    }
    let splice = |lines: Range<usize>, new: &[&str]| -> Result<Splice, Refused> {
        Ok(Splice { old: source.bytes_of(start + lines.start..start + lines.end), new: shifted(new, shift, name)? })
    };
    if old.is_empty() || new.is_empty() {
        return Ok(vec![splice(0..old.len(), new)?]);
    }
    let mut input: InternedInput<&str> = InternedInput::default();
    input.update_before(old.iter().copied());
    input.update_after(new.iter().copied());
    let diff = Diff::compute(Algorithm::Histogram, &input);
    diff.hunks()
        .map(|hunk| {
            let new = &new[hunk.after.start as usize..hunk.after.end as usize];
            splice(hunk.before.start as usize..hunk.before.end as usize, new)
        })
        .collect()
}

/// New lines at the indentation of the file.
fn shifted(lines: &[&str], shift: &Shift<'_>, name: &str) -> Result<String, Refused> {
    let mut text = String::with_capacity(lines.iter().map(|line| line.len() + shift.added.len() + 1).sum());
    for line in lines {
        if core(line).is_empty() {
            text.push_str(line);
        } else {
            let Some(rest) = line.strip_prefix(shift.removed) else {
                let message =
                    format!("{name} stands further left in the file, and its line {} cannot go there", quoted(line));
                return Err(Refused::new(Code::NoAnchor, message, "write the lines at the indentation of the file"));
            };
            text.push_str(shift.added);
            text.push_str(rest);
        }
        text.push('\n');
    }
    Ok(text)
}

/// The splices of all edits. Changes that touch, of edits that do not overlap, become one.
///
/// # Errors
/// When nothing changes at all.
pub(crate) fn together(mut changes: Vec<Change>) -> Result<(Vec<Splice>, bool), Refused> {
    changes.sort_by_key(|change| (change.lines.start, change.lines.end));
    let reindented = changes.iter().any(|change| change.reindented);
    let mut splices: Vec<Splice> = Vec::new();
    let mut end = 0;
    for change in changes {
        let apart = change.lines.start >= end;
        end = end.max(change.lines.end);
        let mut rest = change.splices.into_iter();
        if let Some(first) = rest.next() {
            match splices.last_mut() {
                Some(last) if apart && last.old.end == first.old.start => {
                    last.old.end = first.old.end;
                    last.new.push_str(&first.new);
                }
                _ => splices.push(first),
            }
        }
        splices.extend(rest);
    }
    if splices.is_empty() {
        return Err(unchanged());
    }
    Ok((splices, reindented))
}

/// The refusal of an update that changes nothing.
pub(crate) fn unchanged() -> Refused {
    Refused::new(Code::NotAnEdit, "old and new lines are the same", "write what the lines are to become")
}

/// The refusal for new lines without any old ones.
pub(crate) fn nowhere(name: &str) -> Refused {
    let message = format!("{name} shows no line of the file, and the file is not empty");
    Refused::new(Code::NoAnchor, message, "show the line that the new ones follow")
}

/// The change that fills an empty file with a text as it is.
pub(crate) fn filled(text: &str) -> Change {
    Change { lines: 0..0, splices: vec![Splice { old: 0..0, new: text.to_owned() }], reindented: false }
}

/// The change that fills an empty file with lines.
pub(crate) fn filled_with(lines: &[&str]) -> Change {
    filled(&lines.iter().flat_map(|line| [*line, "\n"]).collect::<String>())
}
