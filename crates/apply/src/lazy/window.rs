//! The window of the file in which each segment is searched.
//!
//! Invariant: a narrowed window keeps the lines that it was narrowed by, so that an alignment which matches none of
//! them can be detected.

use super::align::{Alignment, Step};
use super::lines::{Lines, MIN_INFORMATION, is_blank};
use super::prepared::PreparedSnippet;
use crate::source::Source;
use std::ops::Range;

/// Shorter files are searched from end to end (lines).
const SMALL: usize = 200;
/// How far around its unique lines a segment may reach, beyond its own length.
const REACH: usize = 64;

/// What an alignment may read.
pub(super) struct Windows {
    /// For each number of tokens read, the numbers of lines that may be read by then.
    pub rows: Vec<Range<usize>>,
    /// For each segment that was narrowed, the lines of it that stand once in the file.
    anchors: Vec<Vec<usize>>,
}

impl Windows {
    /// In a long file, segments are looked for around those of their lines that stand once in it.
    pub fn near(prepared: &PreparedSnippet<'_>, lines: &Lines<'_>, source: &Source) -> Windows {
        let count = source.line_count();
        let mut windows = Self::whole(prepared, source);
        let anchors = if count > SMALL { narrow(&mut windows, prepared, lines, count) } else { Vec::new() };
        Windows { rows: rows(prepared, source, &windows), anchors }
    }

    /// Every segment anywhere.
    pub fn wide(prepared: &PreparedSnippet<'_>, source: &Source) -> Windows {
        Windows { rows: rows(prepared, source, &Self::whole(prepared, source)), anchors: Vec::new() }
    }

    /// Whether the alignment matches, in every narrowed segment, one of the lines that it was narrowed by.
    pub fn hold(&self, alignment: &Alignment) -> bool {
        let matched = |&token: &usize| matches!(alignment.steps[token], Step::Matched(_));
        self.anchors.iter().all(|tokens| tokens.iter().any(matched))
    }

    fn whole(prepared: &PreparedSnippet<'_>, source: &Source) -> Vec<Range<usize>> {
        vec![0..source.line_count() + 1; prepared.segments.len()]
    }
}

fn rows(prepared: &PreparedSnippet<'_>, source: &Source, windows: &[Range<usize>]) -> Vec<Range<usize>> {
    let count = source.line_count();
    let mut rows: Vec<Range<usize>> = Vec::with_capacity(prepared.len() + 1);
    rows.push(0..1);
    let mut segment = 0;
    for token in 0..prepared.len() {
        while segment + 1 < prepared.segments.len() && prepared.segments[segment].end <= token {
            segment += 1;
        }
        // After a marker the next segment begins; after a line its own goes on.
        rows.push(windows[segment].clone());
        let is_last = token + 1 == prepared.len();
        if is_last {
            rows[token + 1] = count..count + 1;
        }
    }
    let blank_head = source.lines().take_while(|line| is_blank(line)).count();
    if prepared.edges[0] {
        rows[1] = 0..(blank_head + 1).min(count + 1);
    }
    if prepared.edges[1] {
        let last_line = prepared.len() - 1;
        let blank_tail = (0..count).rev().take_while(|&line| is_blank(source.line(line))).count();
        rows[last_line] = rows[last_line].start.max(count - blank_tail).min(count)..count + 1;
    }
    rows
}

/// Narrows windows; the lines that each was narrowed by.
fn narrow(
    windows: &mut [Range<usize>],
    prepared: &PreparedSnippet<'_>,
    lines: &Lines<'_>,
    count: usize,
) -> Vec<Vec<usize>> {
    let mut anchors: Vec<(usize, usize, usize)> = Vec::new();
    for (number, segment) in prepared.segments.iter().enumerate() {
        for token in segment.clone() {
            let unique = prepared.known[token].filter(|known| known.count == 1 && known.worth >= MIN_INFORMATION);
            if let Some(place) = unique.and_then(|known| lines.place_of_first(known.id)) {
                anchors.push((number, token, place));
            }
        }
    }
    let places: Vec<usize> = anchors.iter().map(|anchor| anchor.2).collect();
    let kept = longest_rising(&places);
    let mut narrowed = Vec::new();
    for mine in kept.chunk_by(|&one, &other| anchors[one].0 == anchors[other].0) {
        let (number, first, last) = (anchors[mine[0]].0, places[mine[0]], places[mine[mine.len() - 1]]);
        let reach = REACH + prepared.segments[number].len();
        windows[number] = first.saturating_sub(reach)..(last + reach).min(count) + 1;
        narrowed.push(mine.iter().map(|&at| anchors[at].1).collect());
    }
    // A segment between two located ones lies between them.
    for number in 1..windows.len() {
        windows[number].start = windows[number].start.max(windows[number - 1].start);
    }
    for number in (0..windows.len().saturating_sub(1)).rev() {
        windows[number].end = windows[number].end.min(windows[number + 1].end);
    }
    narrowed
}

/// Positions of a longest strictly rising subsequence.
fn longest_rising(values: &[usize]) -> Vec<usize> {
    let mut tails: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = vec![None; values.len()];
    for (at, value) in values.iter().enumerate() {
        let length = tails.partition_point(|&tail| values[tail] < *value);
        before[at] = length.checked_sub(1).map(|shorter| tails[shorter]);
        if length == tails.len() { tails.push(at) } else { tails[length] = at }
    }
    let mut chain: Vec<usize> = std::iter::successors(tails.last().copied(), |&at| before[at]).collect();
    chain.reverse();
    chain
}
