//! Places a snippet by ranges: each part takes the place of one range of lines of the file, and all else stays.
//!
//! It does not say what the parts change, so it agrees with nothing that was found otherwise. Invariant: an answer is given
//! only if every choice of ranges that explains the snippet nearly as well gives the same text, and no line of the file goes
//! that a choice which is only a little worse leaves where it is.

use super::candidates::{Candidate, candidates};
use super::keys::declared_name;
use super::lines::{Lines, UNIT, is_blank, is_distinctive};
use super::prepared::PreparedSnippet;
use super::scopes::is_annotation;
use super::weights::Weights;
use crate::format::replaced;
use crate::source::Source;
use crate::splice::Splice;
use imara_diff::{Algorithm, Diff, InternedInput, Interner};
use std::ops::Range;

/// Choices that are worse by no more than this are rivals.
const MARGIN: i32 = UNIT;
/// The same, for a choice that leaves a line where it is which goes by the better one.
const MARGIN_OF_LINES: i32 = 3 * UNIT;
/// What speaks against a marker that stands for no line with text.
const EMPTY_MARKER: i32 = 3 * UNIT;
/// Of more lines that go, with nothing that stands for them, a marker may have been forgotten.
const FORGOTTEN: usize = 3;
/// A cost that no choice has.
const FAR: i32 = i32::MAX / 4;

/// Why a snippet was not placed.
pub(super) enum Failed {
    /// A part has no place, or a weak one.
    NoPlace,
    /// These lines of the file, and others, could be meant.
    Ambiguous(Vec<(usize, usize)>),
}

/// Places a snippet.
pub(super) fn locate(
    source: &Source,
    lines: &Lines<'_>,
    prepared: &PreparedSnippet<'_>,
) -> Result<Vec<Splice>, Failed> {
    let weights = Weights::of(source, lines, prepared);
    let full = |segment: &&Range<usize>| (*segment).clone().any(|token| !is_blank(prepared.text(token)));
    let parts: Vec<Vec<Candidate>> =
        prepared.segments.iter().filter(full).map(|segment| candidates(&weights, segment)).collect();
    Choice::best(&weights, &parts).ok_or(Failed::NoPlace)?.checked()
}

/// The cheapest choice of a candidate for each part, in the order of the file.
struct Choice<'c> {
    weights: &'c Weights<'c>,
    parts: &'c [Vec<Candidate>],
    best: Vec<usize>,
    /// For each candidate, the cost of the cheapest choice with it.
    through: Vec<Vec<i32>>,
}

impl<'c> Choice<'c> {
    fn best(weights: &'c Weights<'c>, parts: &'c [Vec<Candidate>]) -> Option<Choice<'c>> {
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
        Some(Choice { weights, parts, best, through })
    }

    fn chosen(&self) -> impl Iterator<Item = &Candidate> {
        self.parts.iter().zip(&self.best).map(|(candidates, &at)| &candidates[at])
    }

    /// The changes, if nothing else could be meant.
    fn checked(&self) -> Result<Vec<Splice>, Failed> {
        if self.chosen().any(|candidate| candidate.is_unsure) {
            return Err(Failed::NoPlace);
        }
        for (part, chosen) in self.chosen().enumerate() {
            let total = self.through[part][self.best[part]];
            for (other, through) in self.parts[part].iter().zip(&self.through[part]) {
                let worse = through - total;
                let is_near = worse <= MARGIN || worse <= MARGIN_OF_LINES && self.loses(chosen, other);
                if is_near && other != chosen && !self.are_same(chosen, other) {
                    return Err(Failed::Ambiguous(vec![self.shown(chosen), self.shown(other)]));
                }
            }
        }
        if !self.stands_once() {
            return Err(Failed::Ambiguous(self.chosen().map(|candidate| self.shown(candidate)).collect()));
        }
        let change = |candidate: &Candidate| {
            let old: Vec<&str> = candidate.lines.clone().map(|line| self.weights.source.line(line)).collect();
            let new: Vec<&str> = candidate.tokens.clone().map(|token| self.weights.text(token)).collect();
            replaced(self.weights.source, candidate.lines.start, &old, &new)
        };
        if let Some(gone) = self.chosen().find_map(|candidate| self.doubtful(candidate)) {
            return Err(Failed::Ambiguous(vec![gone]));
        }
        Ok(self.chosen().flat_map(change).collect())
    }

    /// Lines that go with too little to show that they should: a marker may be missing there, or a line that is shown be
    /// another one that is equal.
    fn doubtful(&self, candidate: &Candidate) -> Option<(usize, usize)> {
        let kept = self.kept(candidate);
        let hunk = self.hunks(candidate).into_iter().find(|[gone, comes]| {
            let lost = self.lost(gone.clone(), comes.clone());
            let new = comes.clone().filter(|&token| !is_blank(self.weights.text(token))).count();
            let declares = |line: &usize| declared_name(self.weights.source.line(*line)).is_some();
            let is_much = lost.len() > FORGOTTEN || lost.iter().any(declares);
            let above = kept.iter().rev().skip_while(|(_, line)| *line >= gone.start);
            let above = above.zip((0..gone.start).rev()).take_while(|(pair, line)| pair.1 == *line);
            let below = kept.iter().skip_while(|(_, line)| *line < gone.end);
            let below = below.zip(gone.end..).take_while(|(pair, line)| pair.1 == *line);
            let is_held = above.map(|(pair, _)| pair).any(|pair| self.holds(pair.0))
                && below.map(|(pair, _)| pair).any(|pair| self.holds(pair.0));
            new > 0 && lost.len() > FORGOTTEN + new || is_much && !is_held
        });
        hunk.map(|[gone, _]| (gone.start, gone.end - 1))
    }

    /// Whether a line stands once in the file and stands for itself.
    fn holds(&self, token: usize) -> bool {
        let text = self.weights.text(token);
        let place = &self.weights.places[token];
        self.weights.stands_once(token) && is_distinctive(text) && !is_annotation(text)
            || place.closes.is_some() && place.line.is_some()
    }

    /// The lines of a candidate, as a refusal names them.
    fn shown(&self, candidate: &Candidate) -> (usize, usize) {
        let last = self.weights.source.line_count().saturating_sub(1);
        let Range { start, end } = candidate.lines;
        (start.min(last), end.saturating_sub(1).max(start).min(last))
    }

    /// Whether a line goes by one candidate that another one leaves where it is.
    fn loses(&self, chosen: &Candidate, other: &Candidate) -> bool {
        let weights = self.weights;
        let stands =
            |line: usize| chosen.tokens.clone().any(|token| weights.ids[token] == Some(weights.lines.ids[line]));
        let mut alone = chosen.lines.clone().filter(|line| !other.lines.contains(line));
        alone.any(|line| !is_blank(weights.source.line(line)) && !stands(line))
    }

    /// Whether two candidates of a part give the same text.
    fn are_same(&self, one: &Candidate, other: &Candidate) -> bool {
        let (start, end) = (one.lines.start.min(other.lines.start), one.lines.end.max(other.lines.end));
        let text = |candidate: &Candidate| {
            let (above, below) = (start..candidate.lines.start, candidate.lines.end..end);
            let old = |lines: Range<usize>| lines.map(|line| self.weights.source.line(line));
            let new = candidate.tokens.clone().map(|token| self.weights.text(token));
            old(above).chain(new).chain(old(below)).collect::<Vec<&str>>()
        };
        one.tokens.len() + other.lines.len() == other.tokens.len() + one.lines.len() && text(one) == text(other)
    }

    /// Whether the lines that stay can stand in the file in one way only: in runs that are unbroken there, in their order.
    fn stands_once(&self) -> bool {
        // Ends of the runs so far, and the ways in which they can end there.
        let mut ends: Vec<(usize, usize)> = vec![(0, 1)];
        for candidate in self.chosen() {
            for run in self.kept(candidate).chunk_by(|one, other| one.1 + 1 == other.1) {
                let (mut seen, mut sum) = (0, 0_usize);
                let mut next = Vec::new();
                for place in self.places_of(run) {
                    while seen < ends.len() && ends[seen].0 <= place {
                        sum = (sum + ends[seen].1).min(2);
                        seen += 1;
                    }
                    if sum > 0 {
                        next.push((place + run.len(), sum));
                    }
                }
                ends = next;
            }
        }
        ends.iter().map(|(_, ways)| ways).sum::<usize>() == 1
    }

    /// Where a run of lines, each with its line of the snippet, can stand: where it does if the blocks around it or an edge of
    /// the file say so.
    fn places_of(&self, run: &[(usize, usize)]) -> Vec<usize> {
        let Weights { source, lines, prepared, places, .. } = self.weights;
        let is_placed = |&(token, line): &(usize, usize)| {
            let place = &places[token];
            place.is_same && place.line == Some(line) && (place.closes.is_some() || place.inside.is_some())
        };
        let [no_first, no_last] = prepared.implied;
        let (first, last) = (run[0].1, run[run.len() - 1].1);
        let is_at_edge = no_first && first == 0 || no_last && last + 1 == source.line_count();
        if is_at_edge || run.iter().any(is_placed) {
            return vec![first];
        }
        let ids: Vec<u32> = run.iter().map(|(_, line)| lines.ids[*line]).collect();
        lines.runs(&ids).collect()
    }

    /// The lines with text that go, and for which none of those stands that come.
    fn lost(&self, gone: Range<usize>, comes: Range<usize>) -> Vec<usize> {
        let stands = |line: usize| {
            let text = self.weights.source.line(line).trim();
            comes.clone().any(|token| self.weights.replaces(token, line) || self.weights.text(token).trim() == text)
        };
        gone.filter(|&line| !is_blank(self.weights.source.line(line)) && !stands(line)).collect()
    }

    /// The lines of a candidate that stay: token and line.
    fn kept(&self, candidate: &Candidate) -> Vec<(usize, usize)> {
        let (mut token, mut line) = (candidate.tokens.start, candidate.lines.start);
        let mut kept = Vec::new();
        let end = [candidate.lines.end..candidate.lines.end, candidate.tokens.end..candidate.tokens.end];
        for [gone, comes] in self.hunks(candidate).into_iter().chain([end]) {
            kept.extend((token..comes.start).zip(line..gone.start));
            (token, line) = (comes.end, gone.end);
        }
        kept
    }

    /// Where the lines of the file and those of the snippet differ.
    fn hunks(&self, candidate: &Candidate) -> Vec<[Range<usize>; 2]> {
        let ids = &self.weights.lines.ids[candidate.lines.clone()];
        let interner = Interner::new(ids.len() + candidate.tokens.len());
        let mut input = InternedInput { before: Vec::new(), after: Vec::new(), interner };
        input.update_before(ids.iter().copied());
        input.update_after(candidate.tokens.clone().map(|token| self.weights.ids[token].unwrap_or(u32::MAX)));
        let from = |start: usize, range: Range<u32>| start + range.start as usize..start + range.end as usize;
        Diff::compute(Algorithm::Histogram, &input)
            .hunks()
            .map(|hunk| [from(candidate.lines.start, hunk.before), from(candidate.tokens.start, hunk.after)])
            .collect()
    }
}
