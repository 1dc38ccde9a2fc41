//! The ranges of a file that a part of a snippet may take the place of, with what speaks against each.
//!
//! Invariant: a range begins and ends with lines of the file that the part shows, or stands right beside such a line.

use super::distance::{Costs, distance};
use super::indent::indent;
use super::keys::declared_name;
use super::lines::{MIN_INFORMATION, UNIT, is_blank, is_distinctive};
use super::scopes::{self, is_annotation, is_closer, is_head};
use super::weights::Weights;
use std::ops::Range;

/// Candidates that are worse than the best of their part by more than this are not kept.
const KEPT: i32 = 20 * UNIT;
/// As many candidates of a part are kept.
const MAX_KEPT: usize = 64;
/// What speaks against new lines at an end of a part, where a line of the file is usually shown.
const NEW_END: i32 = 6 * UNIT;
/// The same where they are inside of the block that the line beside them heads or closes.
const NEW_INSIDE: i32 = 2 * UNIT;
/// The same where a blank line is shown beside them, or the edge of the file is.
const NEW_BESIDE_BLANK: i32 = UNIT;
/// The same at the end of a block that no line closes.
const NEW_AT_END: i32 = 3 * UNIT;
/// What speaks against a line at an end being new although the file has it.
const KNOWN_END: i32 = 6 * UNIT;
/// What speaks against a blank line beside a marker that the file does not have there.
const PADDING: i32 = 2 * UNIT;
/// What speaks against a blank line above new lines and a closer being one further up.
const SET_OFF: i32 = 2 * UNIT;
/// What speaks against lines beyond an end without a marker, if others are written.
const UNMARKED: i32 = 2 * UNIT;
/// What speaks against each bracket more that opens or closes.
const UNBALANCED: i32 = 3 * UNIT;
/// What speaks against a part that changes nothing, and is not the head or the closer of what others are in.
const IDLE: i32 = 4 * UNIT;
/// Blank lines beyond an end that may be the one which a part shows there.
const BLANKS: usize = 3;
/// Places of ends that are looked at, to bound the work.
const MAX_ENDS: usize = 2_000;
/// Lines on each side of an end that may hold it.
const RUN: usize = 8;
/// For each first line so many last lines are tried, the nearest to the length of the part.
const NEAR: usize = 8;
/// Pairs of a first and a last line that are looked at for a part, to bound the work, and those that are tried.
const MAX_PAIRS: usize = 20_000;
const MAX_TRIED: usize = 400;

/// A range of the file and the lines of a part that may take its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Candidate {
    pub lines: Range<usize>,
    pub tokens: Range<usize>,
    /// What speaks against it.
    pub cost: i32,
    /// Whether it is too weak to be answered with, and only keeps others from being so.
    pub is_unsure: bool,
}

/// A line of a part that may be the first or the last that the file has.
#[derive(Clone, Copy)]
struct End {
    token: usize,
    line: usize,
    cost: i32,
    is_unsure: bool,
}

/// Where a candidate begins or ends.
struct Edge {
    line: usize,
    token: usize,
    cost: i32,
    is_unsure: bool,
}

/// The lines between two ends, and their distance.
struct Core {
    lines: Range<usize>,
    tokens: Range<usize>,
    cost: i32,
}

/// A part of the snippet.
struct Part {
    segment: Range<usize>,
    /// Its first and its last line that is not blank.
    first: usize,
    last: usize,
    /// Whether a marker is written above it, and below.
    is_marked: [bool; 2],
    /// Whether other parts or markers stand above it, and below.
    goes_on: [bool; 2],
    /// Blank lines at its ends that are not mere padding of markers.
    blanks: [usize; 2],
}

/// All candidates of the part in a segment, the best first.
pub(super) fn candidates(weights: &Weights<'_>, segment: &Range<usize>) -> Vec<Candidate> {
    let full = |token: &usize| !is_blank(weights.text(*token));
    let prepared = weights.prepared;
    let (Some(first), Some(last)) = (segment.clone().find(full), segment.clone().rev().find(full)) else {
        return Vec::new();
    };
    let [no_first, no_last] = prepared.implied;
    let ends = [prepared.segments.first() == Some(segment), prepared.segments.last() == Some(segment)];
    let is_marked = [!(ends[0] && no_first), !(ends[1] && no_last)];
    let blanks = if prepared.is_padded() { [0, 0] } else { [first - segment.start, segment.end - 1 - last] };
    let says_more = prepared.segments.len() > 1 || is_marked.contains(&true);
    let goes_on = [ends[0] && !is_marked[0] && says_more, ends[1] && !is_marked[1] && says_more];
    Finder { weights, part: Part { segment: segment.clone(), first, last, is_marked, goes_on, blanks } }.candidates()
}

struct Finder<'f> {
    weights: &'f Weights<'f>,
    part: Part,
}

impl Finder<'_> {
    fn candidates(&self) -> Vec<Candidate> {
        let (tops, bottoms) = (self.tops(), self.bottoms());
        let mut found: Vec<Candidate> = Vec::new();
        for (top, bottom) in pairs(&tops, bottoms).into_iter().take(MAX_TRIED) {
            self.between(&top, &bottom, &mut found);
            // What was not compared could be meant as well.
            if self.weights.comparisons_left.get() == 0 {
                return Vec::new();
            }
        }
        let Part { segment, last, .. } = &self.part;
        if let Some(end) = scopes::end_of_block(self.weights.prepared, segment, self.weights.source) {
            let cost = self.weights.new[segment.clone()].iter().sum::<i32>() + NEW_AT_END;
            found.push(Candidate { lines: end..end, tokens: segment.start..last + 1, cost, is_unsure: false });
        }
        found.sort_by_key(|candidate| (candidate.cost, candidate.lines.start));
        let best = found.first().map_or(0, |candidate| candidate.cost);
        found.retain(|candidate| candidate.cost <= best.saturating_add(KEPT));
        found.truncate(MAX_KEPT);
        found
    }

    fn full(&self) -> impl DoubleEndedIterator<Item = usize> {
        (self.part.first..self.part.last + 1).filter(|&token| !is_blank(self.weights.text(token)))
    }

    /// The lines that the first line which the file has may be.
    fn tops(&self) -> Vec<End> {
        let mut tops = Vec::new();
        for token in self.full() {
            let new = self.part.first..token;
            let beside = || is_closer(self.weights.text(token)) && self.are_deeper(new.clone(), token);
            let cost = self.cost_of_end(new.clone(), self.part.first, beside);
            if self.push_ends(token, cost, new.is_empty(), self.part.first, &mut tops) {
                break;
            }
        }
        tops
    }

    /// The same for the last line.
    fn bottoms(&self) -> Vec<End> {
        let mut bottoms = Vec::new();
        for token in self.full().rev() {
            let new = token + 1..self.part.last + 1;
            // What belongs to the line below it is not the last line that is shown.
            if !new.is_empty() && is_head(self.weights.text(token)) {
                continue;
            }
            let cost = self.cost_of_end(new.clone(), self.part.last, || self.are_deeper(new.clone(), token));
            if self.push_ends(token, cost, new.is_empty(), self.part.last, &mut bottoms) {
                break;
            }
        }
        bottoms
    }

    /// Adds the lines that an end may be; whether no other line of the part need be looked at.
    fn push_ends(&self, token: usize, cost: i32, is_shown: bool, outermost: usize, ends: &mut Vec<End>) -> bool {
        let is_unsure = |line: usize| !is_shown && (self.is_known(outermost) || !self.holds(token, line));
        let found = self.weights.lines_of(token).into_iter();
        let end = |(line, against)| End { token, line, cost: cost + against, is_unsure: is_unsure(line) };
        ends.extend(found.map(end));
        self.weights.is_context(token) || ends.len() > MAX_ENDS
    }

    /// What speaks against lines at an end being new.
    fn cost_of_end(&self, new: Range<usize>, outermost: usize, is_inside: impl Fn() -> bool) -> i32 {
        if new.is_empty() {
            return 0;
        }
        let doubled: i32 = self.weights.new[new].iter().sum();
        doubled + if is_inside() { NEW_INSIDE } else { NEW_END } + if self.is_known(outermost) { KNOWN_END } else { 0 }
    }

    fn are_deeper(&self, mut tokens: Range<usize>, than: usize) -> bool {
        let depth = |token: usize| indent(self.weights.text(token)).len();
        tokens.all(|token| is_blank(self.weights.text(token)) || depth(token) > depth(than))
    }

    /// Whether the file has a line, which as a new one belongs to no new block or declaration.
    fn is_known(&self, token: usize) -> bool {
        let weights = self.weights;
        weights.ids[token].is_some() && !weights.may_be_new(token) && !is_annotation(weights.text(token))
    }

    /// Whether a line of the file names a place well enough for new lines beside it, with the lines around it that are shown.
    fn holds(&self, token: usize, line: usize) -> bool {
        let is_same = |token: usize, line: usize| {
            self.weights.ids[token].is_some_and(|id| self.weights.lines.ids.get(line) == Some(&id))
        };
        let is_telling = |token: usize| {
            let place = &self.weights.places[token];
            let is_placed = place.is_same && place.line.is_some();
            is_distinctive(self.weights.text(token)) && (self.weights.stands_once(token) || is_placed)
        };
        let above = (0..RUN).map_while(|off| token.checked_sub(off).zip(line.checked_sub(off)));
        let above = above.take_while(|&(token, line)| token >= self.part.first && is_same(token, line));
        let below = (0..RUN).map(|off| (token + off, line + off));
        let below = below.take_while(|&(token, line)| token <= self.part.last && is_same(token, line));
        above.chain(below).any(|(token, _)| is_telling(token)) || self.weights.places[token].closes.is_some()
    }

    fn distance(&self, lines: Range<usize>, tokens: Range<usize>) -> Option<i32> {
        let replaces = |token: usize, line: usize| self.weights.replaces(tokens.start + token, lines.start + line);
        let left = self.weights.comparisons_left.get().saturating_sub(lines.len().saturating_mul(tokens.len()));
        self.weights.comparisons_left.set(left);
        if left == 0 {
            return None;
        }
        let (gone, new) = (&self.weights.gone[lines.clone()], &self.weights.new[tokens.clone()]);
        let costs = Costs { gone, new, replaces: &replaces };
        distance(&self.weights.lines.ids[lines.clone()], &self.weights.ids[tokens.clone()], &costs)
    }

    /// The candidates between two ends.
    fn between(&self, top: &End, bottom: &End, found: &mut Vec<Candidate>) {
        let (lines, tokens) = (top.line..bottom.line + 1, top.token..bottom.token + 1);
        let Some(cost) = self.distance(lines.clone(), tokens.clone()) else { return };
        let core = Core { lines, tokens, cost };
        let is_anchored = self.is_anchored(&core);
        for above in self.above(top, &core) {
            for below in self.below(bottom, &core) {
                let (lines, tokens) = (above.line..below.line, above.token..below.token);
                let at_edge = [above.line == 0, below.line == self.weights.source.line_count()];
                let is_unsure = |end: &End, at: usize| {
                    let outermost = [self.part.first, self.part.last][at];
                    end.is_unsure && (self.part.is_marked[at] || !at_edge[at] || self.is_known(outermost))
                };
                let is_unsure =
                    !is_anchored || is_unsure(top, 0) || is_unsure(bottom, 1) || above.is_unsure || below.is_unsure;
                let unbalanced = self.weights.unbalanced(lines.clone(), tokens.clone());
                let cost = core.cost + above.cost + below.cost + unbalanced * UNBALANCED;
                found.push(self.with_idleness(Candidate { lines, tokens, cost, is_unsure }));
            }
        }
    }

    /// Where candidates begin whose first line of the file is the top.
    fn above(&self, top: &End, core: &Core) -> Vec<Edge> {
        let (source, first) = (self.weights.source, self.part.first);
        let blank = |line: &usize| is_blank(source.line(*line));
        let there = (0..top.line).rev().take_while(blank).count();
        let shown = self.part.blanks[0];
        let is_shown = top.token == first;
        let hides = (0..top.line).any(|line| !is_blank(source.line(line)));
        let mut edges = Vec::new();
        let mut cost = top.cost;
        if is_shown {
            cost += if shown > 0 && there == 0 && top.line > 0 { PADDING } else { 0 };
        } else if shown > 0 && there > 0 || !self.part.is_marked[0] && !hides {
            // New lines between a blank line that is shown and a line of the file have an edge.
            cost -= top.cost.min(NEW_END - NEW_BESIDE_BLANK);
        }
        let token = if is_shown { first } else { first - shown.saturating_sub(there) };
        // Above a closer the blank line sets new lines off, and is hardly one further up.
        let set_off = if !is_shown && is_closer(self.weights.text(top.token)) { SET_OFF } else { 0 };
        // A blank line that is shown where the file has none begins lines that go, or sets new ones off.
        let is_unsure = !is_shown && shown > 0 && there == 0 && hides && !is_closer(self.weights.text(top.token));
        edges.push(Edge { line: top.line, token, cost, is_unsure });
        if shown > 0 {
            // The blank line that is shown may be one further up.
            let blanks = (0..top.line - there).rev().filter(blank).take(BLANKS);
            edges.extend(blanks.enumerate().map_while(|(count, line)| {
                let is_near = self.weights.gone[line + 1..top.line].iter().sum::<i32>() <= KEPT;
                let all = is_near.then(|| self.distance(line..core.lines.end, first - 1..core.tokens.end)).flatten()?;
                Some(Edge {
                    line,
                    token: first - 1,
                    cost: set_off + all - core.cost + count as i32 * UNIT / 2,
                    is_unsure: false,
                })
            }));
        }
        if self.part.goes_on[0] && hides {
            edges.iter_mut().for_each(|edge| edge.cost += UNMARKED);
            let is_near = self.weights.gone[..top.line].iter().sum::<i32>() <= KEPT;
            if let Some(all) = is_near.then(|| self.distance(0..core.lines.end, first..core.tokens.end)).flatten() {
                edges.push(Edge { line: 0, token: first, cost: UNIT + all - core.cost, is_unsure: false });
            }
        }
        edges
    }

    /// Where candidates end whose last line of the file is the bottom.
    fn below(&self, bottom: &End, core: &Core) -> Vec<Edge> {
        let (source, last) = (self.weights.source, self.part.last);
        let (next, count) = (bottom.line + 1, source.line_count());
        let blank = |line: &usize| is_blank(source.line(*line));
        let there = (next..count).take_while(blank).count();
        let shown = self.part.blanks[1];
        let is_shown = bottom.token == last;
        let hides = (next..count).any(|line| !is_blank(source.line(line)));
        if is_shown && !hides && self.part.goes_on[1] {
            return vec![Edge { line: count, token: self.part.segment.end, cost: bottom.cost, is_unsure: false }];
        }
        let mut edges = Vec::new();
        let mut cost = bottom.cost;
        let mut line = next;
        if is_shown {
            cost += if shown > 0 && there == 0 && next < count { PADDING } else { 0 };
        } else {
            if shown > 0 && there > 0 || !self.part.is_marked[1] && !hides {
                cost -= bottom.cost.min(NEW_END - NEW_BESIDE_BLANK);
            }
            let is_set_off = is_blank(self.weights.text(bottom.token + 1)) && shown == 0 && there > 0;
            let begins = (bottom.token + 1..last + 1).find(|&token| !is_blank(self.weights.text(token)));
            // A comment or annotation that ends the part belongs to the line below the blank one, and statements may.
            if is_set_off && is_head(self.weights.text(last)) {
                line += there;
            } else if is_set_off && begins.is_some_and(|token| declared_name(self.weights.text(token)).is_none()) {
                edges.push(Edge { line: next + there, token: last + 1, cost, is_unsure: false });
            }
        }
        let token = if is_shown { last + 1 } else { last + 1 + shown.saturating_sub(there) };
        let opens = self.weights.text(bottom.token).trim_end().ends_with(['{', '(', '[']);
        edges.push(Edge { line, token, cost, is_unsure: !is_shown && shown > 0 && there == 0 && hides && !opens });
        if shown > 0 {
            let blanks = (next + there..count).filter(blank).take(BLANKS);
            edges.extend(blanks.enumerate().map_while(|(blanks, line)| {
                let is_near = self.weights.gone[next..line].iter().sum::<i32>() <= KEPT;
                let all = is_near
                    .then(|| self.distance(core.lines.start..line + 1, core.tokens.start..last + 2))
                    .flatten()?;
                Some(Edge {
                    line: line + 1,
                    token: last + 2,
                    cost: all - core.cost + blanks as i32 * UNIT / 2,
                    is_unsure: false,
                })
            }));
        }
        if self.part.goes_on[1] && hides {
            edges.iter_mut().for_each(|edge| edge.cost += UNMARKED);
            let is_near = self.weights.gone[next..].iter().sum::<i32>() <= KEPT;
            let all = is_near.then(|| self.distance(core.lines.start..count, core.tokens.start..last + 1)).flatten();
            edges.extend(all.map(|all| Edge {
                line: count,
                token: last + 1,
                cost: UNIT + all - core.cost,
                is_unsure: false,
            }));
        }
        edges
    }

    /// A part that only shows heads and closers of blocks around others changes nothing; any other part should.
    fn with_idleness(&self, mut candidate: Candidate) -> Candidate {
        let weights = self.weights;
        let Candidate { lines, tokens, .. } = &candidate;
        let is_same = |(line, token): (usize, usize)| weights.ids[token] == Some(weights.lines.ids[line]);
        if lines.len() != tokens.len() || !lines.clone().zip(tokens.clone()).all(is_same) {
            return candidate;
        }
        let segment = &self.part.segment;
        if self.is_scope(tokens.clone()) {
            candidate.is_unsure = false;
            return candidate;
        }
        let is_weak = |token: usize| !is_distinctive(weights.text(token));
        candidate.cost += IDLE;
        candidate.is_unsure |= is_weak(segment.start) || is_weak(segment.end - 1);
        candidate
    }

    fn is_scope(&self, tokens: Range<usize>) -> bool {
        let places = &self.weights.places;
        let depth = indent(self.weights.text(self.part.last)).len();
        let marker = self.weights.prepared.marker_indent(self.part.segment.end);
        let is_above_deeper = |token: usize| token == self.part.last && marker.is_some_and(|marker| marker > depth);
        let heads = |token: usize| {
            places.iter().any(|it| it.parent == Some(token) || it.closes == Some(token)) || is_above_deeper(token)
        };
        let mut full = tokens.filter(|&token| !is_blank(self.weights.text(token)));
        full.all(|token| places[token].closes.is_some() || heads(token))
    }

    /// Whether enough of the lines between two ends are lines of the file to say where the part is.
    fn is_anchored(&self, core: &Core) -> bool {
        let Part { segment, first, last, .. } = &self.part;
        let prepared = self.weights.prepared;
        let ids = &self.weights.lines.ids[core.lines.clone()];
        let mut worth = 0;
        let is_whole = core.tokens == (*first..last + 1);
        let mut is_told = false;
        for token in core.tokens.clone() {
            let text = self.weights.text(token);
            let stats = self.weights.lines.stats(text).filter(|stats| !is_blank(text) && ids.contains(&stats.id));
            worth += stats.map_or(0, |stats| stats.worth);
            is_told |= stats.is_some() && is_distinctive(text);
        }
        let [at_first, at_last] = prepared.edges;
        // Many a file ends with a bracket.
        let is_edge = at_first && prepared.segments.first() == Some(segment)
            || at_last && prepared.segments.last() == Some(segment) && !is_closer(self.weights.text(*last));
        // A declaration that is rewritten says where it is.
        let is_rewritten = |token: usize, line: usize| {
            self.weights.ids[token].is_none() && self.weights.lines_of(token).iter().any(|(old, _)| *old == line)
        };
        if is_rewritten(core.tokens.start, core.lines.start) {
            (is_told, worth) = (true, worth + MIN_INFORMATION);
        }
        let closes = |token: usize| self.weights.places[token].closes.is_some();
        let is_scope = closes(core.tokens.start) || closes(core.tokens.end - 1);
        is_scope || is_told && worth >= MIN_INFORMATION || is_edge && (is_told || is_whole)
    }
}

/// Ends that fit each other, those of the length of the part first.
fn pairs(tops: &[End], mut bottoms: Vec<End>) -> Vec<(End, End)> {
    bottoms.sort_by_key(|bottom| bottom.line);
    let mut pairs: Vec<(i32, End, End)> = Vec::new();
    for top in tops {
        let mut near: Vec<(i32, End, End)> = Vec::new();
        for bottom in &bottoms[bottoms.partition_point(|bottom| bottom.line < top.line)..] {
            let (lines, tokens) = (bottom.line - top.line, bottom.token.saturating_sub(top.token));
            if near.len() >= NEAR && lines > 3 * tokens + 40 {
                break;
            }
            let is_same = [top.token == bottom.token, lines == 0];
            if is_same == [true; 2] || is_same == [false; 2] && top.token < bottom.token {
                let apart = (lines.abs_diff(tokens) as i32).saturating_mul(UNIT / 10);
                near.push((apart + top.cost + bottom.cost, *top, *bottom));
            }
        }
        near.sort_by_key(|pair| pair.0);
        near.truncate(NEAR);
        pairs.append(&mut near);
        if pairs.len() > MAX_PAIRS {
            break;
        }
    }
    pairs.sort_by_key(|pair| pair.0);
    pairs.into_iter().map(|(_, top, bottom)| (top, bottom)).collect()
}
