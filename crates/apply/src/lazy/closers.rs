//! Segments that change nothing: whether the brackets and blank lines at their ends leave the change open.
//!
//! Invariant: the walk in the file is bounded.

use super::align::{Alignment, Step};
use super::indent::indent;
use super::lines::is_blank;
use super::prepared::PreparedSnippet;
use super::scopes::is_closer;
use crate::source::Source;
use std::ops::Range;

/// Longer blocks are not walked (lines).
const MAX_BLOCK_LINES: usize = 10_000;

/// Whether each line of a segment closes a block that an earlier line of the update opens, where the file closes it.
pub(super) fn close_what_is_shown(
    source: &Source,
    prepared: &PreparedSnippet<'_>,
    alignment: &Alignment,
    segment: &Range<usize>,
) -> bool {
    let mut left = MAX_BLOCK_LINES;
    segment.clone().filter(|&token| !is_blank(prepared.text(token))).all(|token| {
        let Step::Matched(end) = alignment.steps[token] else { return false };
        let depth = indent(prepared.text(token)).len();
        let is_out = |&token: &usize| {
            prepared.is_line(token) && !is_blank(prepared.text(token)) && indent(prepared.text(token)).len() <= depth
        };
        let opener = (0..token).rev().find(is_out);
        let Some(Step::Matched(begin) | Step::Replaces(begin)) = opener.map(|opener| alignment.steps[opener]) else {
            return false;
        };
        let opens = opener.is_some_and(|it| indent(prepared.text(it)).len() == depth && !is_closer(prepared.text(it)));
        left = left.saturating_sub(end.saturating_sub(begin));
        let is_inside = |line: &str| is_blank(line) || indent(line).len() > depth;
        is_closer(prepared.text(token))
            && opens
            && left > 0
            && (begin + 1..end).all(|line| is_inside(source.line(line)))
    })
}

/// Whether a blank line beside a marker is the only one there: without another among what the marker stands for, no block
/// between two of them can be meant to go.
pub(super) fn is_gap(
    source: &Source,
    prepared: &PreparedSnippet<'_>,
    steps: &[Step],
    token: usize,
    marker: usize,
) -> bool {
    let Some(&Step::Kept(from, to)) = steps.get(marker) else { return false };
    is_blank(prepared.text(token))
        && to.saturating_sub(from) <= MAX_BLOCK_LINES
        && !(from..to).any(|line| is_blank(source.line(line)))
}
