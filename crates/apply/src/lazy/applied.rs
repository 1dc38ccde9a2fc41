//! A quick check whether a snippet has been applied already.
//!
//! Invariant: if it holds, merging the snippet into the text changes nothing: each part occurs once, in order, and
//! each marker has lines to stand for. Otherwise nothing is known.

use super::lines::is_blank;
use super::markers::{is_marker, lines_with_dots};
use super::snippet::{Piece, Snippet};
use crate::source::line_around;
use memchr::memmem;
use std::ops::Range;

/// Occurrences of the longest line that are compared with the whole part, to bound the work.
const MAX_TRIED_PLACES: usize = 64;

/// Whether each part of a snippet occurs in a text line by line, at one place, in the order of the snippet, so that it cannot
/// change the text any more. False for snippets that ask for removals.
pub(crate) fn is_applied(text: &str, update: &str) -> bool {
    let snippet = Snippet::read(update, |_| false);
    // If the text has a line like a marker of the snippet, the marker may be content.
    if !snippet.removals.is_empty() || lines_with_dots(update).any(|line| is_marker(line) && has_line(text, line)) {
        return false;
    }
    let (mut at, mut hides) = (0, false);
    for part in snippet.pieces.split_inclusive(|piece| matches!(piece, Piece::Marker(_))) {
        let lines = part.iter().filter_map(|piece| match piece {
            Piece::Line(line) => Some(*line),
            Piece::Marker(_) => None,
        });
        let lines: Vec<&str> = lines.collect();
        let is_full = |line: &&str| !is_blank(line);
        if let Some(first) = lines.iter().position(is_full) {
            let last = lines.iter().rposition(is_full).unwrap_or(first);
            let needle = lines[first..=last].join("\n");
            let Some(place) = only_place(text.as_bytes(), needle.as_bytes()) else { return false };
            let is_next = place >= at && is_whole(text, place..place + needle.len());
            if !is_next || (hides && is_blank(&text[at..place])) {
                return false;
            }
            (at, hides) = (place + needle.len(), false);
        }
        hides |= matches!(part.last(), Some(Piece::Marker(_)));
    }
    !(hides && is_blank(&text[at..]))
}

/// Whether a text has a line of these words, however it is indented.
fn has_line(text: &str, line: &str) -> bool {
    let words = line.trim();
    memmem::find_iter(text.as_bytes(), words.as_bytes()).any(|place| text[line_around(text, place)].trim() == words)
}

/// Whether bytes of a text are whole lines, without the end of the last.
fn is_whole(text: &str, bytes: Range<usize>) -> bool {
    (bytes.start == 0 || text.as_bytes()[bytes.start - 1] == b'\n')
        && matches!(text.as_bytes().get(bytes.end), None | Some(b'\n'))
}

/// Where lines occur in a text, if at one place only.
fn only_place(text: &[u8], lines: &[u8]) -> Option<usize> {
    // Preparing a search takes longer than searching, so only the longest line is searched for.
    let mut at = 0;
    let within = lines.split_inclusive(|byte| *byte == b'\n').map(|line| {
        at += line.len();
        (at - line.len(), line)
    });
    let (before, line) = within.max_by_key(|(_, line)| line.len())?;
    let mut only: Option<usize> = None;
    for (tried, place) in memmem::find_iter(text, line).enumerate() {
        if tried == MAX_TRIED_PLACES {
            return None;
        }
        match place.checked_sub(before).filter(|&start| text[start..].starts_with(lines)) {
            Some(_) if only.is_some() => return None,
            Some(start) => only = Some(start),
            None => {}
        }
    }
    only
}
