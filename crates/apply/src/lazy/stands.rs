//! Whether a text already is as a snippet wants it.
//!
//! It does not locate anything: a no says nothing. Invariant: after a yes, merging the snippet into the text changes
//! nothing, for each part stands once, in order, and each marker has lines to stand for.

use super::lines::is_blank;
use super::markers::{is_marker, lines_with_dots};
use super::snippet::{Piece, Snippet};
use crate::source::line_around;
use memchr::memmem;
use std::ops::Range;

/// So many places of one line of several are held against all of them.
const TRIED_MOST: usize = 64;

/// Whether each part of a snippet stands in a text line by line, at one place, in the order of the snippet: then there is
/// nothing in it that could still change the text. A snippet that asks for more than lines says so by a no.
pub(crate) fn stands(text: &str, update: &str) -> bool {
    let snippet = Snippet::read(update, |_| false);
    // A text with a line like a marker of the snippet may be meant to have it there.
    if !snippet.gone.is_empty() || lines_with_dots(update).any(|line| is_marker(line) && has_line(text, line)) {
        return false;
    }
    let (mut at, mut hides) = (0, false);
    for part in snippet.pieces.split_inclusive(|piece| matches!(piece, Piece::Marker(_))) {
        let lines = part.iter().filter_map(|piece| match piece {
            Piece::Line(line) => Some(*line),
            Piece::Marker(_) => None,
        });
        let lines: Vec<&str> = lines.collect();
        let told = |line: &&str| !is_blank(line);
        if let Some(first) = lines.iter().position(told) {
            let last = lines.iter().rposition(told).unwrap_or(first);
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

/// Where lines stand in a text, if that is at one place.
fn only_place(text: &[u8], lines: &[u8]) -> Option<usize> {
    // To set a search up takes longer than to search, so of many lines only the longest is looked for.
    let mut at = 0;
    let within = lines.split_inclusive(|byte| *byte == b'\n').map(|line| {
        at += line.len();
        (at - line.len(), line)
    });
    let (before, line) = within.max_by_key(|(_, line)| line.len())?;
    let mut only: Option<usize> = None;
    for (tried, place) in memmem::find_iter(text, line).enumerate() {
        if tried == TRIED_MOST {
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
