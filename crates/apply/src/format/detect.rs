//! Detects the format of an update and removes the fence around it.
//!
//! Only its beginning counts: a file may contain a diff, or describe edit formats. Invariant: a file that itself begins as a format is edited as a text, unless the update begins with another line.

use super::lines::core;
use super::{Format, editor, path, search_replace, string_replace, targets, unified, v4a};
use crate::lazy;
use crate::options::Options;
use crate::outcome::{Code, Refused};
use crate::source::{Source, line_around};
use memchr::memmem;
use std::collections::{BTreeMap, BTreeSet};

/// Lines at an edge of a file that are looked for when the edge itself is new.
const EDGE_LINES: usize = 4;
/// Lines at an edge of an update in which they are looked for.
const EDGE_REACH: usize = 12;
/// Lines at an edge of a long file that an update may delete with the edge.
const MAX_DELETED_EDGE_LINES: usize = 8;
/// An update with more different markers has some that the file does not, so that they need not all be searched for.
const MAX_MARKERS: usize = 16;
/// Nobody writes this many lines of a file, without a marker, for an excerpt of it.
const LONG: usize = 40;

/// Ends of paths of files that may hold fences.
const PROSE: [&str; 8] = [".md", ".mdx", ".markdown", ".rst", ".txt", ".adoc", ".qmd", ".Rmd"];

/// The format of an update, by its own syntax.
pub(crate) fn detect(source: &Source, update: &str) -> Format {
    if let Some(format) = explicit(update) {
        let first = |text: &str| text.lines().map(str::trim_end).find(|line| !line.is_empty()).map(str::to_owned);
        // A diff kept as a file, and its next version.
        if explicit(&source.text) != Some(format) || first(&source.text) != first(update) {
            return format;
        }
    }
    match () {
        () if has_marker_of_its_own(source, update) => Format::Lazy,
        () if is_whole(source, update) => Format::WholeFile,
        () if lazy::has_marker(update) => Format::Lazy,
        () => Format::Fragment,
    }
}

/// The format that the caller states, or that the update has by its own syntax.
///
/// # Errors
/// When a text has fences that no file of its kind has: what is around them may be prose.
pub(crate) fn of(source: &Source, update: &str, options: &Options) -> Result<Format, Refused> {
    let format = options.format.unwrap_or_else(|| detect(source, update));
    if format.is_text() && options.format != Some(Format::WholeFile) {
        refuse_open_fence(source, update)?;
    }
    if !format.is_text() || options.format == Some(Format::WholeFile) {
        return Ok(format);
    }
    let fence_of = |text: &str| text.lines().position(|line| is_fence(line).is_some());
    let may_hold_fences = options.path.as_deref().is_some_and(|path| PROSE.iter().any(|end| path.ends_with(end)));
    match fence_of(update).filter(|_| fence_of(&source.text).is_none()) {
        Some(at) if !may_hold_fences || quotes_the_file(source, update) => Err(Refused::new(
            Code::InvalidFormat,
            format!("line {} of the update is a fence, and it is not clear what around it is code", at + 1),
            "give the edit alone, or one fence around all of it; for a whole file with fences in it, state the format",
        )),
        _ => Ok(format),
    }
}

/// Whether at least half of what the fences of an update hold are lines of the file: then these are parts of it in an answer.
fn quotes_the_file(source: &Source, update: &str) -> bool {
    let lines: Vec<&str> = update.lines().collect();
    let known: BTreeSet<&str> = source.lines().map(str::trim_end).filter(|line| lazy::is_distinctive(line)).collect();
    let (mut at, mut all, mut own) = (0, 0, 0);
    while at < lines.len() {
        let Some(close) = is_fence(lines[at]).and_then(|_| closing(&lines, at)) else {
            at += 1;
            continue;
        };
        let inside = lines[at + 1..close].iter().map(|line| line.trim_end());
        let told: Vec<&str> = inside.filter(|line| lazy::is_distinctive(line)).collect();
        all += told.len();
        own += told.iter().filter(|line| known.contains(*line)).count();
        at = close + 1;
    }
    all > 0 && 2 * own >= all
}

/// Refuses a first line that opens a fence which nothing closes: it was to be around all of the update. An excerpt may begin with one that
/// the file has.
fn refuse_open_fence(source: &Source, update: &str) -> Result<(), Refused> {
    let lines: Vec<&str> = update.lines().collect();
    let Some(first) = lines.iter().position(|line| !core(line).is_empty()) else { return Ok(()) };
    let is_open = is_fence(lines[first]).is_some() && closing(&lines, first).is_none();
    if !is_open || source.lines().any(|line| line.trim_end() == lines[first].trim_end()) {
        return Ok(());
    }
    Err(Refused::new(
        Code::InvalidFormat,
        format!("line {} of the update opens a fence that nothing closes", first + 1),
        "close the fence around the edit, or leave it out",
    ))
}

/// Whether the update has a marker that is no line of the file.
fn has_marker_of_its_own(source: &Source, update: &str) -> bool {
    let mut markers: BTreeMap<&str, usize> = BTreeMap::new();
    for line in lazy::lines_with_dots(update).filter(|line| lazy::is_marker(line)) {
        *markers.entry(core(line)).or_default() += 1;
    }
    // The file is read once for each marker, of which most updates have one.
    markers.len() > MAX_MARKERS
        || markers.iter().any(|(marker, &count)| count > lines_that_are(&source.text, marker, count))
        || !markers.is_empty() && !lazy::MarkerLines::of(&source.text).are_content(update)
}

/// How many lines of a text are these words and blanks; no more than `most` are counted.
fn lines_that_are(text: &str, words: &str, most: usize) -> usize {
    let places = memmem::find_iter(text.as_bytes(), words.as_bytes());
    places.filter(|&place| core(&text[line_around(text, place)]) == words).take(most).count()
}

/// The format by the first line, after a path or the opening of a fence.
pub(super) fn explicit(update: &str) -> Option<Format> {
    if string_replace::begins(update) {
        return Some(Format::StringReplace);
    }
    if editor::begins(update) {
        return Some(Format::TextEditor);
    }
    if targets::begins(update) {
        return Some(Format::Targets);
    }
    let start = begin(update);
    let line = start.lines().next()?;
    if v4a::begins(line) {
        return Some(Format::V4a);
    }
    if search_replace::opens(line) {
        return Some(Format::SearchReplace);
    }
    let lines: Vec<&str> = start.lines().take(MAX_CHECKED_LINES).collect();
    unified::begins(&lines).then_some(Format::UnifiedDiff)
}

/// Lines that are checked for the hunk of a diff.
const MAX_CHECKED_LINES: usize = 200;

/// The update from the first line on that is neither blank nor a path nor the opening of a fence.
fn begin(update: &str) -> &str {
    let mut rest = update;
    let (mut path, mut fence) = (false, false);
    loop {
        let line = rest.lines().next().unwrap_or_default();
        let is_path = !path && !fence && path::of_line(line).is_some();
        let is_fence = !fence && is_fence(line).is_some();
        if rest.is_empty() || !(line.trim().is_empty() || is_path || is_fence) {
            return rest;
        }
        (path, fence) = (path || is_path, fence || is_fence);
        rest = rest[line.len()..]
            .strip_prefix("\r\n")
            .or_else(|| rest[line.len()..].strip_prefix('\n'))
            .unwrap_or_default();
    }
}

/// Whether lines without markers are the whole file: three quarters as many as it has, and the same at both edges. An edge
/// may be new: then what stood at it in the file still stands near it, and the update's own edge is no line from elsewhere
/// in the file, as it would be in an excerpt.
fn is_whole(source: &Source, update: &str) -> bool {
    fn is_text(line: &&str) -> bool {
        !core(line).is_empty()
    }
    let new: Vec<&str> = update.lines().map(str::trim_end).filter(is_text).collect();
    // Counts no further than needed to see that the file has too many lines.
    let most = new.len() * 4 / 3 + 1;
    let old: Vec<&str> = source.lines().map(str::trim_end).filter(is_text).take(most).collect();
    if old.is_empty() || new.is_empty() {
        return old.is_empty();
    }
    if new.len() * 4 < old.len() * 3 {
        return false;
    }
    let (first, last) = (old[0] == new[0], old[old.len() - 1] == new[new.len() - 1]);
    if first && last {
        return true;
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for line in &old {
        *counts.entry(line).or_default() += 1;
    }
    let is_new = |line: &str| !counts.contains_key(line);
    let (starts_new, ends_new) = (is_new(new[0]), is_new(new[new.len() - 1]));
    let mut common = 0;
    for line in &new {
        if let Some(count) = counts.get_mut(line).filter(|count| **count > 0) {
            *count -= 1;
            common += 1;
        }
    }
    if old.len() >= LONG && common * 5 >= old.len() * 4 {
        // An update that ends with a line from further up, or within a line, was cut off.
        let end = new[new.len() - 1];
        let is_cut = !last && (!ends_new || old.iter().any(|line| line.starts_with(end)));
        // With the same end and no fewer lines, none was cut off there.
        let is_ended = (last && new.len() >= old.len()) || edge_gone(old.iter().rev(), new.iter().rev());
        return !is_cut && is_ended && edge_gone(old.iter(), new.iter());
    }
    if !(first || starts_new) || !(last || ends_new) {
        return false;
    }
    let kept = (first || edge_kept(old.iter(), new.iter())) && (last || edge_kept(old.iter().rev(), new.iter().rev()));
    // An update with nearly all lines of the file that begins and ends with new ones is the whole file.
    common * 5 >= old.len() * if kept { 3 } else { 4 }
}

/// Whether at least two of the first lines of a file stand, in order, among the first of the update.
fn edge_kept<'l>(old: impl Iterator<Item = &'l &'l str>, new: impl Iterator<Item = &'l &'l str>) -> bool {
    let new: Vec<&&str> = new.take(EDGE_REACH).collect();
    let mut rest = &new[..];
    let mut kept = 0;
    for line in old.take(EDGE_LINES) {
        if let Some(at) = rest.iter().position(|new| *new == line) {
            kept += 1;
            rest = &rest[at + 1..];
        }
    }
    kept >= 2
}

/// Whether the update begins with one of the first informative lines of the file.
fn edge_gone<'l>(old: impl Iterator<Item = &'l &'l str>, new: impl Iterator<Item = &'l &'l str>) -> bool {
    let old: Vec<&&str> = old.take(MAX_DELETED_EDGE_LINES).collect();
    new.take(EDGE_REACH).any(|line| lazy::is_distinctive(line) && old.contains(&line))
}

/// The update without the fence around it, and without the path above that.
///
/// Only what wraps everything is taken off: a file may begin and end with fences of its own. Prose around a fence is left
/// out only if what is inside is an edit by its own signs and what is outside is short and none.
pub(super) fn unwrapped(update: &str) -> &str {
    let lines: Vec<&str> = update.split_inclusive('\n').collect();
    let is_text = |line: &str| !line.trim().is_empty();
    let Some(mut first) = lines.iter().position(|line| is_text(line)) else { return update };
    let end = lines.iter().rposition(|line| is_text(line)).map_or(0, |last| last + 1);
    let inside = |open: usize, close: usize| -> &str {
        let start: usize = lines[..=open].iter().map(|line| line.len()).sum();
        let length: usize = lines[open + 1..close].iter().map(|line| line.len()).sum();
        &update[start..start + length]
    };
    if is_fence(lines[first]).is_none() && path::of_line(lines[first]).is_some() {
        let next = lines[first + 1..end].iter().position(|line| is_text(line)).map(|at| first + 1 + at);
        first = next.filter(|&next| is_fence(lines[next]).is_some()).unwrap_or(first);
    }
    if is_fence(lines[first]).is_some() {
        return match closing(&lines[..end], first) {
            Some(close) if close + 1 == end => without_path(inside(first, close)),
            _ => update,
        };
    }
    let Some(open) = lines[first..end].iter().position(|line| is_fence(line).is_some()).map(|at| first + at) else {
        return update;
    };
    match closing(&lines[..end], open) {
        Some(close) if is_prose(&lines[first..open], &lines[close + 1..end]) => {
            let text = inside(open, close);
            let is_edit = lazy::has_marker(text) || explicit(text).is_some();
            if is_edit { without_path(text) } else { update }
        }
        _ => update,
    }
}

/// The text below a first line that is marked as a path: `// filepath: src/a.ts`.
fn without_path(text: &str) -> &str {
    let Some((line, rest)) = text.split_once('\n') else { return text };
    let words = line.trim().trim_start_matches(['/', '#', '-', '*', '<', '!', ' ']);
    let Some(path) = words.strip_prefix("filepath:") else { return text };
    let path = path.trim().trim_end_matches("-->").trim_end_matches("*/").trim();
    if path::of_line(path).is_some() { rest } else { text }
}

/// Lines outside of a fence that say nothing but what the fence holds.
fn is_prose(before: &[&str], after: &[&str]) -> bool {
    let is_plain = |line: &&str| {
        let starts = ["#", "-", "*", "|", ">", "<", "    ", "\t"].iter().any(|it| line.starts_with(it));
        !starts && is_fence(line).is_none() && !lazy::has_marker(line) && explicit(line).is_none()
    };
    let text = |lines: &[&str]| lines.iter().filter(|line| !line.trim().is_empty()).count();
    text(before) <= 3
        && text(after) <= 6
        && before.iter().chain(after).all(is_plain)
        && before
            .iter()
            .rev()
            .find(|line| !line.trim().is_empty())
            .is_none_or(|line| line.trim_end().ends_with([':', '.']))
}

/// A line that opens or closes a fence: its character, their number, and the info string.
fn is_fence(line: &str) -> Option<(u8, usize, &str)> {
    let sign = *line.as_bytes().first()?;
    let count = line.bytes().take_while(|&byte| byte == sign).count();
    let info = line[if matches!(sign, b'`' | b'~') { count } else { 0 }..].trim();
    (matches!(sign, b'`' | b'~') && count >= 3 && !info.contains('`')).then_some((sign, count, info))
}

/// The line that closes a fence; fences inside it that say what they hold have lines of their own that close them.
fn closing(lines: &[&str], open: usize) -> Option<usize> {
    let (sign, count, _) = is_fence(lines[open])?;
    let mut depth = 1;
    for (at, line) in lines.iter().enumerate().skip(open + 1) {
        match is_fence(line) {
            Some((here, many, info)) if here == sign && many >= count => {
                depth = if info.is_empty() { depth - 1 } else { depth + 1 };
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests;
