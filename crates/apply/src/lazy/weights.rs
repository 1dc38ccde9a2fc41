//! What it costs that a line of the file goes, or that a line of a snippet is new; and which lines may be each other.
//!
//! Invariant: a line that the file has costs more as a new one than a line that it does not have.

use super::indent::indent;
use super::keys::declared_name;
use super::lines::{Lines, UNIT, is_blank, is_distinctive};
use super::prepared::PreparedSnippet;
use super::scopes::{self, Place, is_annotation, is_closer};
use crate::source::Source;
use std::cell::Cell;
use std::ops::Range;

/// How many times its worth a line costs as a new one that stands once in the file: it would be doubled.
const DOUBLED: i32 = 6;
/// Cost of a new line that declares or assigns what one line of the file does, as deep.
const DECLARED_TWICE: i32 = 5 * UNIT;
/// Cost of a line that the file has in a new block, where it may well be written once more.
const IN_NEW_BLOCK: i32 = UNIT / 20;
/// What speaks against a line being one outside of the block that the snippet shows around it.
const OUTSIDE: i32 = 4 * UNIT;
/// What speaks against a line being another one that declares the same.
const REWRITTEN: i32 = UNIT;
/// Signs at the beginning of lines that are like each other.
const KIN: usize = 10;
/// A line that stands more often is shown for another reason than to hold a part.
const MAX_CONTEXT_PLACES: usize = 2;

/// Pairs of lines that are compared to place all parts of an update, to bound the work: about thirty milliseconds. What has more is refused.
const MAX_COMPARISONS: usize = 300_000;

/// A snippet beside a file, line by line.
pub(super) struct Weights<'w> {
    /// Pairs of lines that may still be compared.
    pub comparisons_left: Cell<usize>,
    pub source: &'w Source,
    pub lines: &'w Lines<'w>,
    pub prepared: &'w PreparedSnippet<'w>,
    /// Where each line of the snippet is by the blocks around it.
    pub places: Vec<Place>,
    /// The number of each line of the snippet that the file has.
    pub ids: Vec<Option<u32>>,
    /// The cost of each line of the file if it goes.
    pub gone: Vec<i32>,
    /// The cost of each line of the snippet if it is new.
    pub new: Vec<i32>,
    /// Whether each line of the snippet lies in a block of its part whose head the file does not have.
    in_new_block: Vec<bool>,
    /// What lines of the file and of the snippet begin with, as numbers.
    kin: [Vec<u32>; 2],
}

impl<'w> Weights<'w> {
    /// Those of a snippet and a file.
    pub fn of(source: &'w Source, lines: &'w Lines<'w>, prepared: &'w PreparedSnippet<'w>) -> Weights<'w> {
        let texts = || (0..prepared.len()).map(|token| prepared.is_line(token).then(|| prepared.text(token)));
        let places = scopes::places(texts(), source, lines);
        let ids: Vec<Option<u32>> = texts().map(|text| text.and_then(|text| lines.id_of(text))).collect();
        let in_new_block = in_new_blocks(prepared, &ids, &places);
        let cost = |token: usize| {
            let Some(id) = ids[token] else {
                return if prepared.namesakes(token).next().is_some() { DECLARED_TWICE } else { 0 };
            };
            let text = prepared.text(token);
            let cost = cost_of_line(text);
            match () {
                () if in_new_block[token] || prepared.is_apart(token) => IN_NEW_BLOCK.min(cost),
                () if is_distinctive(text) && lines.count_of(id) == 1 => DOUBLED * cost,
                () => cost,
            }
        };
        let new = (0..prepared.len()).map(cost).collect();
        let gone = source.lines().map(cost_of_line).collect();
        let kin = [source.lines().map(kin).collect(), texts().map(|text| text.map_or(0, kin)).collect()];
        let comparisons_left = Cell::new(MAX_COMPARISONS);
        Weights { comparisons_left, source, lines, prepared, places, ids, gone, new, in_new_block, kin }
    }

    /// The text of a line of the snippet.
    pub fn text(&self, token: usize) -> &str {
        self.prepared.text(token)
    }

    /// Whether a line of the snippet stands once in the file.
    pub fn stands_once(&self, token: usize) -> bool {
        self.ids[token].is_some_and(|id| self.lines.count_of(id) == 1)
    }

    /// Whether a line of the snippet is one of the file that is shown to hold a part.
    pub fn is_context(&self, token: usize) -> bool {
        self.ids[token].is_some_and(|id| self.lines.count_of(id) <= MAX_CONTEXT_PLACES)
            && is_distinctive(self.text(token))
            && !is_annotation(self.text(token))
            && !self.prepared.is_apart(token)
            && !self.may_be_new(token)
    }

    /// Whether a line of the snippet belongs to a block whose head the file does not have.
    pub fn may_be_new(&self, token: usize) -> bool {
        self.places[token].closes_new || self.in_new_block[token]
    }

    /// The lines of the file that a line of the snippet may be, with what speaks against each.
    pub fn lines_of(&self, token: usize) -> Vec<(usize, i32)> {
        let place = &self.places[token];
        if self.prepared.is_apart(token) {
            return Vec::new();
        }
        let Some(id) = self.ids[token] else {
            let declared = place.line.filter(|_| place.closes.is_none());
            let mut lines: Vec<usize> = declared.into_iter().chain(self.prepared.namesakes(token)).collect();
            lines.sort_unstable();
            lines.dedup();
            return lines.into_iter().map(|line| (line, REWRITTEN)).collect();
        };
        let against = |line: usize| {
            let is_outside = match place.closes {
                Some(_) => place.line != Some(line),
                None => place.inside.as_ref().is_some_and(|inside| !inside.contains(&line)),
            };
            if is_outside { OUTSIDE } else { 0 }
        };
        self.lines.places_of(id).map(|line| (line, against(line))).collect()
    }

    /// Whether a line of the snippet may be what became of one of the file: it declares the same, or begins
    /// alike or is similar and declares nothing else.
    pub fn replaces(&self, token: usize, line: usize) -> bool {
        let [old, new] = [self.kin[0][line], self.kin[1][token]];
        let is_alike = new != 0 && old == new || self.prepared.is_similar(token, line);
        match (declared_name(self.text(token)), declared_name(self.source.line(line))) {
            (Some(new), Some(old)) => new == old,
            _ => is_alike,
        }
    }

    /// By how many brackets, at most two, lines of the snippet in the place of lines of the file change how many open.
    pub fn unbalanced(&self, lines: Range<usize>, tokens: Range<usize>) -> i32 {
        let mut sums = [0; 3];
        lines.for_each(|line| count_brackets(self.source.line(line), -1, &mut sums));
        tokens.for_each(|token| count_brackets(self.text(token), 1, &mut sums));
        sums.iter().map(|sum| sum.abs()).sum::<i32>().min(2)
    }
}

/// Whether each line lies in a block of its part whose head the file does not have, the closer included.
fn in_new_blocks(prepared: &PreparedSnippet<'_>, ids: &[Option<u32>], places: &[Place]) -> Vec<bool> {
    let mut inside = vec![false; prepared.len()];
    for segment in &prepared.segments {
        let mut head: Option<usize> = None;
        let full = |token: &usize| !is_blank(prepared.text(*token));
        for token in segment.clone().filter(full) {
            let text = prepared.text(token);
            let depth = indent(text).len();
            if head.is_some_and(|head| depth > head || depth == head && is_closer(text)) {
                inside[token] = true;
                continue;
            }
            let next = (token + 1..segment.end).find(full);
            let opens = next.is_some_and(|next| indent(prepared.text(next)).len() > depth);
            head = (opens && ids[token].is_none() && places[token].line.is_none()).then_some(depth);
        }
    }
    inside
}

fn cost_of_line(line: &str) -> i32 {
    match () {
        () if is_blank(line) => UNIT / 10,
        () if is_distinctive(line) => UNIT,
        () => UNIT / 2,
    }
}

/// What a line begins with, as a number (FNV-1a); nothing for short lines.
fn kin(line: &str) -> u32 {
    let (mut hash, mut count) = (0x811c_9dc5_u32, 0);
    for byte in line.bytes().filter(|byte| !byte.is_ascii_whitespace()).take(KIN) {
        hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        count += 1;
    }
    if count < KIN { 0 } else { hash | 1 }
}

fn count_brackets(text: &str, sign: i32, sums: &mut [i32; 3]) {
    for byte in text.bytes() {
        match byte {
            b'(' => sums[0] += sign,
            b')' => sums[0] -= sign,
            b'[' => sums[1] += sign,
            b']' => sums[1] -= sign,
            b'{' => sums[2] += sign,
            b'}' => sums[2] -= sign,
            _ => {}
        }
    }
}
