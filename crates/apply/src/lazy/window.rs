//! Where in a file each segment is looked for.
//!
//! It does not place anything. Invariant: a window that was narrowed names the lines that it was narrowed by, so that
//! an alignment that takes none of them for lines of the file can be found out.

use super::align::{Alignment, Step};
use super::lines::{INFORMATIVE, Lines, is_blank};
use super::segments::Laid;
use crate::source::Source;
use std::ops::Range;

/// Files of fewer lines are searched from end to end.
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
    pub fn near(laid: &Laid<'_>, lines: &Lines<'_>, source: &Source) -> Windows {
        let count = source.line_count();
        let mut windows = Self::whole(laid, source);
        let anchors = if count > SMALL { narrow(&mut windows, laid, lines, count) } else { Vec::new() };
        Windows { rows: rows(laid, source, &windows), anchors }
    }

    /// Every segment anywhere.
    pub fn wide(laid: &Laid<'_>, source: &Source) -> Windows {
        Windows { rows: rows(laid, source, &Self::whole(laid, source)), anchors: Vec::new() }
    }

    /// Whether every segment that was narrowed holds one of the lines that it was narrowed by.
    pub fn hold(&self, alignment: &Alignment) -> bool {
        let matched = |&token: &usize| matches!(alignment.steps[token], Step::Matched(_));
        self.anchors.iter().all(|tokens| tokens.iter().any(matched))
    }

    fn whole(laid: &Laid<'_>, source: &Source) -> Vec<Range<usize>> {
        vec![0..source.line_count() + 1; laid.segments.len()]
    }
}

fn rows(laid: &Laid<'_>, source: &Source, windows: &[Range<usize>]) -> Vec<Range<usize>> {
    let count = source.line_count();
    let mut rows: Vec<Range<usize>> = Vec::with_capacity(laid.len() + 1);
    rows.push(0..1);
    let mut segment = 0;
    for token in 0..laid.len() {
        while segment + 1 < laid.segments.len() && laid.segments[segment].end <= token {
            segment += 1;
        }
        // After a marker the next segment begins; after a line its own goes on.
        rows.push(windows[segment].clone());
        let is_last = token + 1 == laid.len();
        if is_last {
            rows[token + 1] = count..count + 1;
        }
    }
    let blank_head = source.lines().take_while(|line| is_blank(line)).count();
    if laid.edges[0] {
        rows[1] = 0..(blank_head + 1).min(count + 1);
    }
    if laid.edges[1] {
        let last_line = laid.len() - 1;
        let blank_tail = (0..count).rev().take_while(|&line| is_blank(source.line(line))).count();
        rows[last_line] = rows[last_line].start.max(count - blank_tail).min(count)..count + 1;
    }
    rows
}

/// Narrows windows; the lines that each was narrowed by.
fn narrow(windows: &mut [Range<usize>], laid: &Laid<'_>, lines: &Lines<'_>, count: usize) -> Vec<Vec<usize>> {
    let mut anchors: Vec<(usize, usize, usize)> = Vec::new();
    for (number, segment) in laid.segments.iter().enumerate() {
        for token in segment.clone() {
            let unique = laid.known[token].filter(|known| known.count == 1 && known.worth >= INFORMATIVE);
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
        let reach = REACH + laid.segments[number].len();
        windows[number] = first.saturating_sub(reach)..(last + reach).min(count) + 1;
        narrowed.push(mine.iter().map(|&at| anchors[at].1).collect());
    }
    // What stands between two located segments lies between them.
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
