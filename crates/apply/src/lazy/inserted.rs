//! Blocks inserted between two adjacent lines: a run of lines whose head and tail the file has right
//! after one another, at one place only.
//!
//! If more than one place, or more than one way to cut the run, fits, there is no answer. Invariant: the
//! work is bounded by the places of the last line and the reach on each side of it.

use super::keys::key;
use super::likeness::are_similar;
use super::lines::{Lines, is_blank, is_distinctive};
use std::ops::Range;

/// Lines that are compared on each side of a block.
const REACH: usize = 40;
/// A last line that occurs at more places is not tried, to bound the work.
const MAX_PLACES: usize = 64;

/// A run of lines of a snippet, as text and as the numbers that the file has for them.
pub(super) struct Run<'r> {
    pub texts: &'r [&'r str],
    pub ids: &'r [Option<u32>],
}

/// A block between two adjacent lines.
pub(super) enum Block {
    /// None was found.
    None,
    /// Lines, counted from the first of the run.
    One(Range<usize>),
    /// A block that fits above either of these lines of the file.
    Several([usize; 2]),
}

impl Run<'_> {
    /// The block, if there is one and its first line is none of the file.
    pub fn block(&self, lines: &Lines<'_>) -> Block {
        let Some(Some(last)) = self.ids.last().copied() else { return Block::None };
        let places: Vec<usize> = lines.places_of(last).take(MAX_PLACES + 1).collect();
        if places.len() > MAX_PLACES {
            return Block::None;
        }
        // By where the run begins and ends in the file: that makes the text.
        let mut found: Option<((usize, usize), Range<usize>)> = None;
        for place in places {
            for cut in self.cuts(lines, place) {
                let (start, block) = cut;
                match &found {
                    _ if !self.begins_new(&block, lines) || self.stands_in_place(start, &block, place, lines) => {}
                    Some((known, _)) if *known != (start, place) => return Block::Several([known.1, place]),
                    Some(_) => {}
                    None => found = Some(((start, place), block)),
                }
            }
        }
        found.map_or(Block::None, |(_, block)| Block::One(block))
    }

    /// The ways to cut the run so that it ends at a line: where the head begins in the file, and the block.
    fn cuts(&self, lines: &Lines<'_>, place: usize) -> Vec<(usize, Range<usize>)> {
        let (ids, count) = (lines.ids, self.ids.len());
        let same = |token: usize, line: usize| self.ids[token] == Some(ids[line]);
        let tail_most =
            (1..count.min(place + 1).min(REACH)).take_while(|&tail| same(count - tail, place + 1 - tail)).count();
        let mut cuts = Vec::new();
        for tail in 1..=tail_most {
            let before = place + 1 - tail;
            for head in 1..(count - tail).min(before + 1).min(REACH) {
                let fits = (0..head).rev().all(|token| same(token, before - head + token));
                if fits && self.holds(head, tail) {
                    cuts.push((before - head, head..count - tail));
                }
            }
        }
        cuts
    }

    /// Whether there are lines on both sides and one of them is distinctive.
    fn holds(&self, head: usize, tail: usize) -> bool {
        let count = self.texts.len();
        let full = |lines: Range<usize>| self.texts[lines].iter().any(|text| !is_blank(text));
        let informative = |lines: Range<usize>| self.texts[lines].iter().any(|text| is_distinctive(text));
        full(0..head) && full(count - tail..count) && (informative(0..head) || informative(count - tail..count))
    }

    /// Whether the block looks like as many lines that the file has there: then it may as well take their place. With a distinctive
    /// line on both sides there is nothing between them to replace; and a block set apart by blank lines is likely new.
    fn stands_in_place(&self, start: usize, block: &Range<usize>, place: usize, lines: &Lines<'_>) -> bool {
        let blank = |token: usize| self.texts.get(token).is_some_and(|text| is_blank(text));
        if blank(block.start.wrapping_sub(1)) && (blank(block.end - 1) || blank(block.end)) {
            return false;
        }
        let informative = |lines: Range<usize>| self.texts[lines].iter().any(|text| is_distinctive(text));
        let (head, tail) = (informative(0..block.start), informative(block.end..self.texts.len()));
        let below = start + block.start;
        let above = (place + 1 + block.end).checked_sub(self.texts.len() + block.len());
        let alike = |first: Option<usize>| first.is_some_and(|first| self.is_like(block, first, lines));
        (!head && alike(above)) || (!tail && alike(Some(below)))
    }

    /// Whether three in four lines of a block are like those of the file from a line on, and none is about another name.
    fn is_like(&self, block: &Range<usize>, first: usize, lines: &Lines<'_>) -> bool {
        let (mut all, mut like) = (0, 0);
        for (token, line) in block.clone().zip(first..) {
            let (Some(&id), text) = (lines.ids.get(line), self.texts[token]) else { return false };
            if is_blank(text) {
                continue;
            }
            all += 1;
            let old = lines.text(id);
            let is_same = self.ids[token] == Some(id);
            if !is_same && key(old).is_some() && key(old) != key(text) {
                return false;
            }
            like += usize::from(is_same || are_similar(old, text));
        }
        all > 0 && like * 4 >= all * 3
    }

    /// Whether the first distinctive line of a block, common lines of syntax aside, is new.
    fn begins_new(&self, block: &Range<usize>, lines: &Lines<'_>) -> bool {
        let first = block.clone().filter(|&at| is_distinctive(self.texts[at])).find(|&at| match self.ids[at] {
            None => true,
            Some(id) => lines.count_of(id) == 1,
        });
        first.is_some_and(|at| self.ids[at].is_none())
    }
}
