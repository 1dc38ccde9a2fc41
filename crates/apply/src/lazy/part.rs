//! A part of a snippet: the lines between two markers.
//!
//! Invariant: it begins and ends with a line that has text, but for the blank lines at its ends.

use super::lines::is_blank;
use super::prepared::PreparedSnippet;
use std::ops::Range;

/// A part of the snippet.
pub(super) struct Part {
    pub segment: Range<usize>,
    /// Its first and its last line that is not blank.
    pub first: usize,
    pub last: usize,
    /// Whether a marker is written above it, and below.
    pub is_marked: [bool; 2],
    /// Whether other parts or markers stand above it, and below.
    pub goes_on: [bool; 2],
    /// Blank lines at its ends.
    pub blanks: [usize; 2],
    /// Whether these may be mere padding of markers.
    pub is_padded: bool,
}

impl Part {
    /// That of a segment; none if all its lines are blank.
    pub fn of(prepared: &PreparedSnippet<'_>, segment: &Range<usize>) -> Option<Part> {
        let full = |token: &usize| !is_blank(prepared.text(*token));
        let (first, last) = (segment.clone().find(full)?, segment.clone().rev().find(full)?);
        let [no_first, no_last] = prepared.implied;
        let ends = [prepared.segments.first() == Some(segment), prepared.segments.last() == Some(segment)];
        let is_marked = [!(ends[0] && no_first), !(ends[1] && no_last)];
        let is_padded = prepared.is_padded();
        // Blank lines around all of several parts are hardly those of the file.
        let is_padding = is_padded && prepared.segments.len() > 1;
        let blanks = if is_padding { [0, 0] } else { [first - segment.start, segment.end - 1 - last] };
        let says_more = prepared.segments.len() > 1 || is_marked.contains(&true);
        let goes_on = [ends[0] && !is_marked[0] && says_more, ends[1] && !is_marked[1] && says_more];
        Some(Part { segment: segment.clone(), first, last, is_marked, goes_on, blanks, is_padded })
    }
}

/// The lines of a part that may be what became of a hidden line.
#[derive(Clone, Copy)]
pub(super) struct Became {
    /// Those that are another form of it.
    pub forms: Outermost,
    /// Those that may take its place.
    pub heirs: Outermost,
}

/// The first and the last of some lines of a part.
#[derive(Clone, Copy)]
pub(super) struct Outermost(Option<[usize; 2]>);

impl Outermost {
    /// Those of lines for which a test holds.
    pub fn of(tokens: &Range<usize>, is_one: impl Fn(&usize) -> bool) -> Outermost {
        let first = tokens.clone().find(&is_one);
        let last = first.and_then(|first| (first..tokens.end).rev().find(&is_one));
        Outermost(first.zip(last).map(<[usize; 2]>::from))
    }

    /// Whether one of them is among lines at an end of the part.
    pub fn is_any_in(self, end: &Range<usize>) -> bool {
        self.0.is_some_and(|outermost| outermost.iter().any(|token| end.contains(token)))
    }
}
