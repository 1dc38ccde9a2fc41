//! The cheapest choice of a range of the file for each part of a snippet, in the order of the file.
//!
//! Invariant: for each candidate the cost of the cheapest choice with it is known.

use super::candidates::Candidate;
use super::lines::{UNIT, is_blank};
use super::weights::Weights;
use imara_diff::{Algorithm, Diff, InternedInput, Interner};
use std::ops::Range;

/// What speaks against a marker that stands for no line with text.
const EMPTY_MARKER: i32 = 3 * UNIT;
/// A cost that no choice has.
const FAR: i32 = i32::MAX / 4;

/// The cheapest choice of a candidate for each part, in the order of the file.
pub(super) struct Choice<'c> {
    pub weights: &'c Weights<'c>,
    pub parts: &'c [Vec<Candidate>],
    pub best: Vec<usize>,
    /// For each candidate, the cost of the cheapest choice with it.
    pub through: Vec<Vec<i32>>,
    /// For each part, where the lines of the file and those of the chosen candidate differ.
    pub hunks: Vec<Vec<[Range<usize>; 2]>>,
    /// For each part, the lines of the chosen candidate that stay: token and line.
    pub kept: Vec<Vec<(usize, usize)>>,
}

impl<'c> Choice<'c> {
    /// The cheapest choice, if the parts have candidates in their order.
    pub fn best(weights: &'c Weights<'c>, parts: &'c [Vec<Candidate>]) -> Option<Choice<'c>> {
        if parts.is_empty() || parts.iter().any(Vec::is_empty) {
            return None;
        }
        let step = |one: &Candidate, other: &Candidate| match other.lines.start.checked_sub(one.lines.end) {
            None => FAR,
            Some(0..3) if (one.lines.end..other.lines.start).all(|line| is_blank(weights.source.line(line))) => {
                EMPTY_MARKER
            }
            Some(_) => 0,
        };
        // The cheapest way up to each candidate, itself included, and where it comes from.
        let mut ahead: Vec<Vec<(i32, usize)>> = vec![parts[0].iter().map(|it| (it.cost, 0)).collect()];
        for pair in parts.windows(2) {
            let before = &ahead[ahead.len() - 1];
            let to = |candidate: &Candidate| {
                let ways = pair[0].iter().zip(before).enumerate();
                let costs = ways.map(|(at, (one, way))| (way.0.saturating_add(step(one, candidate)), at));
                let (cost, from) = costs.min().unwrap_or((FAR, 0));
                (cost.saturating_add(candidate.cost).min(FAR), from)
            };
            ahead.push(pair[1].iter().map(to).collect());
        }
        // The cheapest way on from each candidate, itself left out.
        let mut behind: Vec<Vec<i32>> = vec![vec![0; parts[parts.len() - 1].len()]];
        for pair in parts.windows(2).rev() {
            let after = &behind[behind.len() - 1];
            let from = |candidate: &Candidate| {
                let ways = pair[1].iter().zip(after);
                let costs =
                    ways.map(|(other, way)| step(candidate, other).saturating_add(other.cost).saturating_add(*way));
                costs.min().unwrap_or(FAR).min(FAR)
            };
            behind.push(pair[0].iter().map(from).collect());
        }
        behind.reverse();
        let sum = |(ahead, behind): (&Vec<(i32, usize)>, &Vec<i32>)| -> Vec<i32> {
            ahead.iter().zip(behind).map(|(one, other)| one.0.saturating_add(*other).min(FAR)).collect()
        };
        let through = ahead.iter().zip(&behind).map(sum).collect();
        let last = &ahead[ahead.len() - 1];
        let mut at = (0..last.len()).min_by_key(|&at| last[at].0).filter(|&at| last[at].0 < FAR)?;
        let mut best = vec![0; parts.len()];
        for part in (0..parts.len()).rev() {
            best[part] = at;
            at = ahead[part][at].1;
        }
        let chosen = || parts.iter().zip(&best).map(|(candidates, &at)| &candidates[at]);
        let hunks: Vec<Vec<[Range<usize>; 2]>> = chosen().map(|candidate| hunks(weights, candidate)).collect();
        let kept = chosen().zip(&hunks).map(|(candidate, hunks)| kept(candidate, hunks)).collect();
        Some(Choice { weights, parts, best, through, hunks, kept })
    }

    /// The candidates that are chosen.
    pub fn chosen(&self) -> impl Iterator<Item = &Candidate> {
        self.parts.iter().zip(&self.best).map(|(candidates, &at)| &candidates[at])
    }

    /// Its cost.
    pub fn total(&self) -> i32 {
        self.through[0][self.best[0]]
    }

    /// The lines that come in the place of those of a part. Those that stay are the file's own.
    pub fn text_of(&self, part: usize) -> Vec<&str> {
        let candidate = &self.parts[part][self.best[part]];
        let (mut line, mut text) = (candidate.lines.start, Vec::new());
        for [gone, comes] in &self.hunks[part] {
            text.extend((line..gone.start).map(|line| self.weights.source.line(line)));
            text.extend(comes.clone().map(|token| self.weights.text(token)));
            line = gone.end;
        }
        text.extend((line..candidate.lines.end).map(|line| self.weights.source.line(line)));
        text
    }

    /// The lines of a candidate, as a refusal names them.
    pub fn shown(&self, candidate: &Candidate) -> (usize, usize) {
        let last = self.weights.source.line_count().saturating_sub(1);
        let Range { start, end } = candidate.lines;
        (start.min(last), end.saturating_sub(1).max(start).min(last))
    }

    /// Whether two candidates of a part give the same text, or the same but for blank lines.
    pub fn are_same(&self, one: &Candidate, other: &Candidate, with_blanks: bool) -> bool {
        let all = one.lines.start.min(other.lines.start)..one.lines.end.max(other.lines.end);
        self.text_in(&all, one, with_blanks).eq(self.text_in(&all, other, with_blanks))
    }

    /// The lines of a range with those of a candidate in their place, or all but the blank ones.
    fn text_in<'t>(
        &'t self,
        all: &Range<usize>,
        candidate: &Candidate,
        with_blanks: bool,
    ) -> impl Iterator<Item = &'t str> {
        let weights = self.weights;
        let old = move |lines: Range<usize>| lines.map(move |line| weights.source.line(line));
        let new = candidate.tokens.clone().map(move |token| weights.text(token));
        let lines = old(all.start..candidate.lines.start).chain(new).chain(old(candidate.lines.end..all.end));
        lines.filter(move |line| with_blanks || !is_blank(line))
    }
}

/// The lines of a candidate that stay: token and line.
fn kept(candidate: &Candidate, hunks: &[[Range<usize>; 2]]) -> Vec<(usize, usize)> {
    let (mut token, mut line) = (candidate.tokens.start, candidate.lines.start);
    let mut kept = Vec::new();
    for [gone, comes] in hunks {
        kept.extend((token..comes.start).zip(line..gone.start));
        (token, line) = (comes.end, gone.end);
    }
    kept.extend((token..candidate.tokens.end).zip(line..candidate.lines.end));
    kept
}

/// Where the lines of the file and those of a candidate differ.
fn hunks(weights: &Weights<'_>, candidate: &Candidate) -> Vec<[Range<usize>; 2]> {
    let ids = &weights.numbers[candidate.lines.clone()];
    let interner = Interner::new(ids.len() + candidate.tokens.len());
    let mut input = InternedInput { before: Vec::new(), after: Vec::new(), interner };
    input.update_before(ids.iter().copied());
    input.update_after(candidate.tokens.clone().map(|token| weights.ids[token].unwrap_or(u32::MAX)));
    let from = |start: usize, range: Range<u32>| start + range.start as usize..start + range.end as usize;
    Diff::compute(Algorithm::Histogram, &input)
        .hunks()
        .map(|hunk| [from(candidate.lines.start, hunk.before), from(candidate.tokens.start, hunk.after)])
        .collect()
}
