//! The ranges of a file that a part of a snippet may take the place of, with what speaks against each.
//!
//! A part is laid over the file by a dynamic programme that begins only where one of its lines stands in the file, so that its
//! work is bounded by the places of these lines. Invariant: a range begins and ends with lines of the file that the part
//! shows, or stands right beside such a line.

use super::cells::{Ends, Kind, Row, Steps, TOLD, Trail, WHOLE};
use super::indent::indent;
use super::keys::declared_name;
use super::likeness::LineFeatures;
use super::lines::{MIN_INFORMATION, UNIT, is_blank, is_distinctive};
use super::part::{Became, Part};
use super::scopes::{self, is_annotation, is_closer, is_head};
use super::steps::{On, matched};
use super::weakness::Doubts;
use super::weights::Weights;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;

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
/// What speaks against a blank line as the only line that is shown at an end.
const BLANK_END: i32 = UNIT / 2;
/// What speaks against a blank line being new where the file has one right there.
const BLANK_BESIDE: i32 = UNIT;
/// What speaks against lines beyond an end without a marker, if others are written.
const UNMARKED: i32 = 2 * UNIT;
/// What speaks against each bracket more that opens or closes.
const UNBALANCED: i32 = 3 * UNIT;
/// What speaks against a part that changes nothing, and is not the head or the closer of what others are in.
const IDLE: i32 = 4 * UNIT;
/// Lines of a part that only leads up to the head of what is left out.
const MAX_LEADING: usize = 3;
/// Lines on each side of an end that may hold it.
const HELD_BY: usize = 8;
/// The bounds of cost within which candidates are looked for, one after the other. What costs more is never sure.
const BOUNDS: [i32; 4] = [9 * UNIT, 16 * UNIT, 26 * UNIT, 40 * UNIT];

/// A range of the file and the lines of a part that may take its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Candidate {
    pub lines: Range<usize>,
    pub tokens: Range<usize>,
    /// What speaks against it.
    pub cost: i32,
    /// What makes its ends or its place doubtful.
    pub doubts: Doubts,
    /// Whether it changes nothing.
    pub is_idle: bool,
    /// Whether it is only the head or the closer of what other parts are in.
    pub is_scope: bool,
}

/// What was found within a bound of cost.
#[derive(Default)]
struct Found {
    bound: i32,
    candidates: Vec<Candidate>,
}

/// Looks for the candidates of a part.
pub(super) struct Finder<'f> {
    pub(super) weights: &'f Weights<'f>,
    pub(super) part: Part,
    /// For each line of the part, the lines of the file that it may be, with what speaks against each.
    pub(super) places: Vec<Vec<(usize, i32)>>,
    /// The cost of the lines above and below each line of the part being new, if it may be an end.
    pub(super) leads: Vec<Option<i32>>,
    pub(super) tails: Vec<Option<i32>>,
    /// For each line of the part, the lines of the file that it may be another form of, with what speaks against each.
    pub(super) forms: Vec<Vec<(usize, i32)>>,
    /// The words and the name of each line of the part.
    pub(super) features: Vec<LineFeatures<'f>>,
    /// For each line of the part, its place in the file, if it is telling and stands there once.
    pub(super) only_places: Vec<Option<usize>>,
    /// What lines of the part may be of hidden ones beside it, of those that were asked for.
    pub(super) became: RefCell<BTreeMap<usize, Became>>,
    found: RefCell<Found>,
}

impl<'f> Finder<'f> {
    /// That of a part.
    pub fn new(weights: &'f Weights<'f>, part: Part) -> Finder<'f> {
        let count = part.last + 1 - part.first;
        let none = || vec![None; count];
        let mut finder = Finder {
            weights,
            features: (part.first..part.last + 1).map(|token| LineFeatures::of(weights.text(token))).collect(),
            part,
            places: Vec::new(),
            leads: none(),
            tails: none(),
            forms: Vec::new(),
            only_places: Vec::new(),
            became: RefCell::default(),
            found: RefCell::default(),
        };
        let tokens = || finder.part.first..finder.part.last + 1;
        finder.places = tokens().map(|token| weights.lines_of(token)).collect();
        finder.forms = tokens().map(|token| finder.forms_of(token)).collect();
        let only_place = |token: usize| {
            let id = weights.ids[token].filter(|_| weights.stands_once(token) && weights.is_telling[token]);
            id.and_then(|id| weights.lines.places_of(id).next())
        };
        finder.only_places = tokens().map(only_place).collect();
        let full = |token: &usize| !is_blank(weights.text(*token));
        for token in tokens().filter(full).collect::<Vec<usize>>() {
            let new = finder.part.first..token;
            let beside = || is_closer(weights.text(token)) && finder.are_deeper(new.clone(), token);
            finder.leads[token - finder.part.first] = Some(finder.cost_of_end(new.clone(), finder.part.first, beside));
        }
        for token in tokens().rev().filter(full).collect::<Vec<usize>>() {
            let new = token + 1..finder.part.last + 1;
            // What belongs to the line below it is not the last line that is shown, unless more of the kind follow.
            let mut others = new.clone().filter(full);
            if is_head(weights.text(token)) && others.any(|new| !is_head(weights.text(new))) {
                continue;
            }
            let cost = finder.cost_of_end(new.clone(), finder.part.last, || finder.are_deeper(new.clone(), token));
            finder.tails[token - finder.part.first] = Some(cost);
        }
        finder
    }

    /// All candidates that are worse than the best by no more than `kept`, the best first; none if they are too many to look at.
    pub fn candidates(&self, kept: i32) -> Vec<Candidate> {
        let mut found = self.found.borrow_mut();
        loop {
            let best = found.candidates.first().map(|candidate| candidate.cost);
            let next = match best {
                Some(best) if best.saturating_add(kept) <= found.bound => {
                    let kept = found.candidates.iter().take_while(|candidate| candidate.cost <= best + kept);
                    return kept.take(MAX_KEPT).cloned().collect();
                }
                Some(best) => Some(best.saturating_add(kept)),
                None => BOUNDS.into_iter().find(|bound| *bound > found.bound),
            };
            let Some(bound) = next else { return Vec::new() };
            *found = Found { bound, candidates: self.within(bound) };
            // What was not looked at could be meant as well.
            if self.weights.ways_left.get() == 0 {
                return Vec::new();
            }
        }
    }

    /// The candidates that cost no more than a bound.
    fn within(&self, bound: i32) -> Vec<Candidate> {
        let first = self.part.first;
        let mut found: Vec<Candidate> = Vec::new();
        let mut add = |it: Candidate| {
            if it.cost <= bound {
                found.push(it);
            }
        };
        let mut row = self.begun(bound);
        for token in first..self.part.last + 1 {
            let mut next = self.stepped(&row, token, bound);
            self.add_changed(token, &row, bound, &mut next, &mut add);
            if self.leads[token - first].is_some() {
                for &place in &self.places[token - first] {
                    self.enter(token, place, bound, &mut next);
                }
            }
            row = self.row(next);
            if self.tails[token - first].is_some() {
                row.matched().for_each(|(line, trail)| self.exit(token, line - 1, trail, bound, &mut add));
            }
        }
        self.end(&row, bound, &mut add);
        // Of those of the same lines the best is kept, and of equals the first that was found.
        let key = |it: &Candidate| [it.lines.start, it.lines.end, it.tokens.start, it.tokens.end];
        found.sort_by_key(|it| (key(it), it.cost, it.doubts.is_any()));
        found.dedup_by_key(|it| key(it));
        found.sort_by_key(|candidate| (candidate.cost, candidate.lines.start));
        found
    }

    /// The ways to begin with something else than a line of the part that has text: a blank line, or the first of the file.
    fn begun(&self, bound: i32) -> Row {
        let first = self.part.first;
        if self.part.blanks[0] > 0 {
            let entries = self.blank_ends(0).into_iter();
            let mut begun = Steps::of(bound);
            begun.extend(
                entries.map(|line| (line + 1, Kind::Matched, Trail::at(line, first - 1, BLANK_END, Doubts::NONE))),
            );
            return self.row(begun);
        }
        if self.part.goes_on[0] {
            // What is missing above may have gone.
            let mut begun = Steps::of(bound);
            begun.push((0, Kind::Matched, Trail::at(0, first, UNIT, Doubts::NONE)));
            return self.row(begun);
        }
        Row::default()
    }

    /// The ways to end with something else than a line of the part that has text: a blank line, the last of the file, or the
    /// end of a block.
    fn end(&self, row: &Row, bound: i32, add: &mut impl FnMut(Candidate)) {
        let Part { segment, last, .. } = &self.part;
        let (source, count) = (self.weights.source, self.weights.source.line_count());
        let blanks = if self.part.blanks[1] > 0 { self.blank_ends(1) } else { Vec::new() };
        let edge = Some(count).filter(|_| self.part.goes_on[1]);
        let mut ends = Ends::default();
        row.sweep(&self.weights.gone, bound, blanks.iter().copied().chain(edge), &mut ends);
        for (line, cell) in ends.cells {
            let with = |trail: &Trail, cost: i32| Trail { cost: trail.cost + cost, ..*trail };
            if blanks.binary_search(&line).is_ok() {
                let trails = cell.all().map(|trail| with(trail, BLANK_END));
                trails.for_each(|trail| add(self.candidate(&trail, line + 1, last + 2, Doubts::NONE)));
            }
            if edge == Some(line) {
                let trails = cell.all().map(|trail| with(trail, UNIT));
                trails.for_each(|trail| add(self.candidate(&trail, count, last + 1, Doubts::NONE)));
            }
        }
        if let Some(end) = scopes::end_of_block(self.weights.prepared, segment, source) {
            let cost = self.weights.new[segment.clone()].iter().sum::<i32>() + NEW_AT_END;
            let tokens = segment.start..last + 1;
            add(Candidate { lines: end..end, tokens, cost, doubts: Doubts::NONE, is_idle: false, is_scope: false });
        }
    }

    /// The ways on with the next line of the part.
    fn stepped(&self, row: &Row, token: usize, bound: i32) -> Steps {
        let places = &self.places[token - self.part.first];
        let mut stops: Vec<usize> = places.iter().map(|place| place.0).chain(self.weights.likes(token)).collect();
        stops.sort_unstable();
        stops.dedup();
        let mut on = On { weights: self.weights, token, places, next: Steps::of(bound) };
        row.sweep(&self.weights.gone, bound, stops.into_iter(), &mut on);
        on.next
    }

    fn row(&self, next: Steps) -> Row {
        let weights = self.weights;
        weights.ways_left.set(weights.ways_left.get().saturating_sub(next.met));
        if weights.ways_left.get() == 0 { Row::default() } else { Row::of(next.steps) }
    }

    /// The ways in which a part begins whose first line of the file is a token's, if they cost no more than a bound.
    fn enter(&self, token: usize, (line, against): (usize, i32), bound: i32, next: &mut Steps) {
        let (weights, first) = (self.weights, self.part.first);
        let (source, Some(lead)) = (weights.source, self.leads[token - first]) else { return };
        if least_of_end(lead) + against > bound {
            return;
        }
        let there = (0..line).rev().take_while(|&line| is_blank(source.line(line))).count();
        let hides = line > there;
        let is_shown = token == first;
        let shown = if is_shown || !self.part.is_padded { self.part.blanks[0] } else { 0 };
        let mut cost = lead;
        let from = if is_shown {
            cost += if shown > 0 && there == 0 && line > 0 { self.padding() } else { 0 };
            first
        } else {
            if shown > 0 && there > 0 || !self.part.is_marked[0] && !hides {
                // New lines between a blank line that is shown and a line of the file have an edge.
                cost = least_of_end(lead);
            }
            first - shown.saturating_sub(there)
        };
        cost += if self.part.goes_on[0] && hides { UNMARKED } else { 0 };
        if cost + against > bound {
            return;
        }
        // A blank line that is shown where the file has none begins lines that go, or sets new ones off.
        let begins = !is_shown && shown > 0 && there == 0 && hides && !is_closer(weights.text(token));
        let hidden = (0..line).rev().find(|&line| !is_blank(source.line(line)));
        let innermost = (from..token).rev().find(|&token| !is_blank(weights.text(token)));
        if hidden.zip(innermost).is_some_and(|(hidden, token)| self.is_copied(token, hidden)) {
            return;
        }
        let is_doubled = !is_shown && self.stands_for(&(from..token), hidden);
        cost += if is_shown { 0 } else { self.cost_of_staying(&(from..token), hidden) };
        let is_weak = !is_shown && (self.is_known(first) || !self.holds(token, line));
        let is_weak = is_weak && (self.part.is_marked[0] || line > 0 || self.is_known(first));
        let doubts = Doubts::SET_OFF.only_if(begins) | Doubts::WEAK_ABOVE.only_if(is_weak);
        let mut trail = Trail::at(line, from, cost, doubts | Doubts::DOUBLED.only_if(is_doubled));
        if from < token {
            trail = trail.changed(0);
        }
        trail = matched(self.weights, &trail, token, against);
        if weights.ids[token].is_none() {
            // A declaration that is rewritten says where it is.
            (trail.flags, trail.worth) = (trail.flags | TOLD, trail.worth + MIN_INFORMATION);
        }
        trail.flags |= if weights.places[token].closes.is_some() { WHOLE } else { 0 };
        if shown == 0 && there > 0 && self.are_above_own_blank(from..token) {
            // The blank line that is shown is the file's own, rather than one that would stand beside it.
            next.push((line + 1, Kind::Matched, Trail { start: (line - there) as u32, ..trail }));
            trail.cost += BLANK_BESIDE;
        }
        next.push((line + 1, Kind::Matched, trail));
    }

    /// The ways in which a part ends whose last line of the file is a token's, if they cost no more than a bound.
    fn exit(&self, token: usize, line: usize, trail: &Trail, bound: i32, add: &mut impl FnMut(Candidate)) {
        let (weights, last) = (self.weights, self.part.last);
        let (source, Some(tail)) = (weights.source, self.tails[token - self.part.first]) else { return };
        if trail.cost + least_of_end(tail) > bound {
            return;
        }
        let (next, count) = (line + 1, source.line_count());
        let there = (next..count).take_while(|&line| is_blank(source.line(line))).count();
        let hides = next + there < count;
        let is_shown = token == last;
        let shown = if is_shown || !self.part.is_padded { self.part.blanks[1] } else { 0 };
        let mut trail = *trail;
        trail.flags |= if weights.places[token].closes.is_some() { WHOLE } else { 0 };
        if is_shown && !hides && self.part.goes_on[1] {
            return add(self.candidate(&trail, count, self.part.segment.end, Doubts::NONE));
        }
        trail.cost += if self.part.goes_on[1] && hides { UNMARKED } else { 0 };
        if is_shown {
            trail.cost += if shown > 0 && there == 0 && next < count { self.padding() } else { 0 };
            return add(self.candidate(&trail, next, last + 1, Doubts::NONE));
        }
        let begins = (token + 1..last + 1).find(|&token| !is_blank(weights.text(token)));
        if hides && begins.is_some_and(|token| self.is_copied(token, next + there)) {
            return;
        }
        trail = trail.changed(0);
        let is_set = shown > 0 && there > 0 || !self.part.is_marked[1] && !hides;
        trail.cost += if is_set { least_of_end(tail) } else { tail };
        if trail.cost > bound {
            return;
        }
        let is_weak = self.is_known(last) || !self.holds(token, line);
        let is_weak = is_weak && (self.part.is_marked[1] || next < count || self.is_known(last));
        let (new, hidden) = (token + 1..last + 1, Some(next + there).filter(|_| hides));
        let is_doubled = self.stands_for(&new, hidden);
        trail.cost += self.cost_of_staying(&new, hidden);
        trail.doubts |= Doubts::WEAK_BELOW.only_if(is_weak) | Doubts::DOUBLED.only_if(is_doubled);
        let mut end = next;
        let is_set_off = is_blank(weights.text(token + 1)) && shown == 0 && there > 0;
        // A comment or annotation that ends the part belongs to the line below the blank one, and statements may.
        if is_set_off && is_head(weights.text(last)) {
            end += there;
        } else if is_set_off && begins.is_some_and(|token| declared_name(weights.text(token)).is_none()) {
            // The blank line that is shown is the file's own, rather than one that would stand beside it.
            add(self.candidate(&trail, next + there, last + 1, Doubts::NONE));
            trail.cost += BLANK_BESIDE;
        }
        let opens = weights.text(token).trim_end().ends_with(['{', '(', '[']);
        let set_off = Doubts::SET_OFF.only_if(shown > 0 && there == 0 && hides && !opens);
        add(self.candidate(&trail, end, last + 1 + shown.saturating_sub(there), set_off));
    }

    /// Whether the innermost of new lines at an end is the hidden line beyond them, which would stand twice: then it is that line, and only what
    /// lies beyond it is new. What heads a block may well be the head of another one.
    fn is_copied(&self, innermost: usize, hidden: usize) -> bool {
        let text = self.weights.text(innermost);
        if text != self.weights.source.line(hidden) || !text.contains(char::is_alphanumeric) {
            return false;
        }
        let depth = |text: &str| indent(text).len();
        let next = (innermost + 1..self.part.segment.end).find(|&next| !is_blank(self.weights.text(next)));
        let heads = next.is_some_and(|next| depth(self.weights.text(next)) > depth(text));
        !heads && !is_head(text) && !is_closer(text)
    }

    /// Whether one of the new lines at an end may be what became of the hidden line beyond them, which would stay.
    fn stands_for(&self, new: &Range<usize>, hidden: Option<usize>) -> bool {
        hidden.is_some_and(|line| self.became(line).heirs.is_any_in(new))
    }

    /// What speaks against a blank line that is shown beside a marker where the file has none.
    fn padding(&self) -> i32 {
        if self.part.is_padded { 0 } else { PADDING }
    }

    /// The candidate at the end of a trail.
    pub(super) fn candidate(&self, trail: &Trail, end: usize, to: usize, doubts: Doubts) -> Candidate {
        let mut doubts = doubts | trail.doubts | Doubts::UNANCHORED.only_if(!self.is_anchored(trail));
        let (start, tokens) = (trail.start as usize, trail.from as usize..to);
        let unbalanced = if trail.is_changed() { self.weights.unbalanced(start..end, tokens.clone()) } else { 0 };
        let mut cost = trail.cost + unbalanced * UNBALANCED;
        let is_idle = !trail.is_changed() && tokens.len() == end - start;
        let is_scope = !trail.is_changed() && self.is_scope(tokens.clone());
        if !trail.is_changed() {
            if is_scope {
                doubts = Doubts::NONE;
            } else {
                let segment = &self.part.segment;
                let is_weak = |token: usize| !is_distinctive(self.weights.text(token));
                cost += IDLE;
                doubts |= Doubts::IDLE.only_if(is_weak(segment.start) || is_weak(segment.end - 1));
            }
        }
        Candidate { lines: start..end, tokens, cost, doubts, is_idle, is_scope }
    }

    /// Whether enough of the lines of a trail are lines of the file to say where the part is.
    fn is_anchored(&self, trail: &Trail) -> bool {
        let Part { segment, last, .. } = &self.part;
        let prepared = self.weights.prepared;
        let is_told = trail.flags & TOLD != 0;
        let [at_first, at_last] = prepared.edges;
        // Many a file ends with a bracket.
        let is_edge = at_first && prepared.segments.first() == Some(segment)
            || at_last && prepared.segments.last() == Some(segment) && !is_closer(self.weights.text(*last));
        trail.flags & WHOLE != 0 || is_told && trail.worth >= MIN_INFORMATION || is_edge
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
        let stands = weights.ids[token].is_some() || weights.stands_elsewhere(token);
        stands && !weights.may_be_new(token) && !is_annotation(weights.text(token))
    }

    /// Whether a line of the file names a place well enough for new lines beside it, with the lines around it that are shown.
    fn holds(&self, token: usize, line: usize) -> bool {
        let is_same = |token: usize, line: usize| {
            self.weights.ids[token].is_some_and(|id| self.weights.numbers.get(line) == Some(&id))
        };
        let is_telling = |token: usize| {
            let place = &self.weights.places[token];
            let is_placed = place.is_same && place.line.is_some();
            is_distinctive(self.weights.text(token)) && (self.weights.stands_once(token) || is_placed)
        };
        let above = (0..HELD_BY).map_while(|off| token.checked_sub(off).zip(line.checked_sub(off)));
        let above = above.take_while(|&(token, line)| token >= self.part.first && is_same(token, line));
        let below = (0..HELD_BY).map(|off| (token + off, line + off));
        let below = below.take_while(|&(token, line)| token <= self.part.last && is_same(token, line));
        above.chain(below).any(|(token, _)| is_telling(token)) || self.weights.places[token].closes.is_some()
    }

    fn is_scope(&self, tokens: Range<usize>) -> bool {
        let places = &self.weights.places;
        let depth = indent(self.weights.text(self.part.last)).len();
        let marker = self.weights.prepared.marker_indent(self.part.segment.end);
        let is_above_deeper = |token: usize| token == self.part.last && marker.is_some_and(|marker| marker > depth);
        let heads = |token: usize| self.weights.heads[token] || is_above_deeper(token);
        let full: Vec<usize> = tokens.filter(|&token| !is_blank(self.weights.text(token))).collect();
        let closes = |token: usize| places[token].closes.is_some();
        // A block that is closed right above another one may say that what stood between them goes.
        let meets = full.windows(2).any(|pair| closes(pair[0]) && !closes(pair[1]));
        // A few lines above the head of what is left out say where it is.
        let leads_up = full.len() <= MAX_LEADING && full.last().is_some_and(|&last| heads(last) && !closes(full[0]));
        leads_up || !meets && full.iter().all(|&token| closes(token) || heads(token))
    }
}

/// What speaks at least against new lines at an end: those beside a blank line that is shown have an edge.
fn least_of_end(cost: i32) -> i32 {
    cost - cost.min(NEW_END - NEW_BESIDE_BLANK)
}
