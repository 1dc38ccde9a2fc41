//! Ends of segments that do not say how far a change reaches.
//!
//! It does not look for other alignments. Invariant: the work is bounded whatever the update: what is too much to
//! compare is not doubted.

use super::align::{Alignment, Step};
use super::alike::{Looks, Many, are_alike};
use super::carry::Change;
use super::keys::{declared_name, key};
use super::lines::{Lines, UNIT, information, is_blank, tells_much};
use super::segments::Laid;
use crate::outcome::{Code, Refused};
use crate::source::Source;
use std::cell::Cell;
use std::ops::Range;

/// So many hidden lines are looked at beside a segment.
const REACH: usize = 40;
/// What a line tells that is more than a word of syntax.
const BORDER_LEAST: i32 = 3 * UNIT;
/// Lines of a long file.
const LONG: usize = 60;
/// More lines than this beyond an edge do not go unsaid.
const EDGE_MOST: usize = 3;
/// Shorter names say nothing when a line mentions them.
const NAME_LEAST: usize = 4;

/// So many pairs of lines are held against each other; what is left after that is not doubted.
const PAIRS_MOST: usize = 1_000_000;
/// So many lines of the file are read to find two that stand beside each other.
const READ_MOST: usize = 50_000_000;

/// An update with its alignment.
pub(super) struct Doubt<'d> {
    source: &'d Source,
    lines: &'d Lines<'d>,
    laid: &'d Laid<'d>,
    alignment: &'d Alignment,
    /// What it changes.
    found: &'d [Change],
    /// Whether that is nothing at all.
    is_idle: bool,
    /// Whether blank lines beside markers belong to them.
    is_padded: bool,
    /// Whether each token is a line that comes, is no part of a new declaration, and takes the place of nothing like it.
    fresh: Vec<bool>,
    pairs: Cell<usize>,
}

/// Where a segment meets a marker.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Above,
    Below,
}

impl<'d> Doubt<'d> {
    /// The doubts about an alignment.
    pub fn new(
        source: &'d Source,
        lines: &'d Lines<'d>,
        laid: &'d Laid<'d>,
        alignment: &'d Alignment,
        found: &'d [Change],
        is_idle: bool,
    ) -> Doubt<'d> {
        let (is_padded, fresh, pairs) = (laid.is_padded(), Vec::new(), Cell::new(PAIRS_MOST));
        let mut doubt = Doubt { source, lines, laid, alignment, found, is_idle, is_padded, fresh, pairs };
        let mut fresh = vec![false; alignment.steps.len()];
        for change in found {
            let gone = Many::of((change.start..change.end).map(|line| source.line(line)));
            for &token in &change.new {
                let text = laid.text(token);
                let new = Looks::of(text);
                let comes = matches!(alignment.steps[token], Step::New(_)) && !is_blank(text) && !laid.is_apart(token);
                fresh[token] = comes && !gone.any(|old| doubt.compared(|| old.are_like(&new)));
            }
        }
        doubt.fresh = fresh;
        doubt
    }

    /// What a comparison of two lines says; no after too many of them.
    fn compared(&self, comparison: impl FnOnce() -> bool) -> bool {
        let left = self.pairs.get();
        self.pairs.set(left.saturating_sub(1));
        left > 0 && comparison()
    }

    /// Passes segments whose ends say where the change ends.
    pub fn check(&self) -> Result<(), Refused> {
        self.check_rivals()?;
        self.check_part()?;
        self.check_markers()?;
        self.check_edges()?;
        self.check_doubles()?;
        for segment in &self.laid.segments {
            self.check_borders(segment)?;
            self.check_reach(segment)?;
            self.check_outermost(segment)?;
            for side in [Side::Above, Side::Below] {
                if self.marker(segment, side).is_none() {
                    continue;
                }
                if !self.is_padded {
                    self.check_blanks(segment, side)?;
                }
                self.check_end(segment, side)?;
            }
        }
        Ok(())
    }

    /// A marker between new lines that stands for nothing is rather a line of them.
    fn check_markers(&self) -> Result<(), Refused> {
        let steps = &self.alignment.steps;
        let is_new = |token: Option<usize>| token.is_some_and(|token| matches!(steps[token], Step::New(_)));
        for (segment, next) in self.laid.segments.iter().zip(self.laid.segments.iter().skip(1)) {
            let is_empty = |lines: &Range<usize>| lines.clone().all(|line| is_blank(self.source.line(line)));
            let Some(hidden) = self.marker(segment, Side::Below).filter(is_empty) else { continue };
            let full = |token: &usize| !is_blank(self.laid.text(*token));
            let above = self.tokens(segment, Side::Below).into_iter().find(full);
            let below = self.tokens(next, Side::Above).into_iter().find(full);
            if is_new(above) && is_new(below) {
                let line = hidden.start.min(self.source.line_count().saturating_sub(1));
                return Err(Refused::new(
                    Code::MarkerUnresolved,
                    format!("a marker stands among new lines above line {} and leaves nothing out", line + 1),
                    "leave the marker out, or write it so that it does not read like one",
                )
                .at([(line, line)]));
            }
        }
        Ok(())
    }

    /// Without markers, nearly the whole file from one of its edges on: the rest may be left out, or may be meant to go.
    fn check_part(&self) -> Result<(), Refused> {
        let [first, last] = self.laid.edges;
        let steps = &self.alignment.steps;
        if self.laid.implied != [true; 2] || self.laid.segments.len() != 1 || first == last {
            return Ok(());
        }
        let Step::Kept(from, to) = steps[if first { steps.len() - 1 } else { 0 }] else { return Ok(()) };
        let full = |lines: Range<usize>| lines.filter(|&line| !is_blank(self.source.line(line))).count();
        let (hidden, all) = (full(from..to), full(0..self.source.line_count()));
        // Of a long file nobody shows half for an excerpt.
        let shown_least = if all >= LONG { 2 } else { 4 };
        if hidden == 0 || hidden * shown_least > all {
            return Ok(());
        }
        Err(Refused::new(
            Code::AmbiguousDeletion,
            format!("it is not clear whether lines {} to {} are left out or are to go", from + 1, to),
            "put a marker where lines stay that are not shown, or write the whole file",
        )
        .at([(from, to - 1)]))
    }

    /// New lines that the file has where no marker says that it goes on: they have moved, and their old place is not shown.
    fn check_doubles(&self) -> Result<(), Refused> {
        let steps = &self.alignment.steps;
        let hidden = |token: usize, is_implied: bool| match steps[token] {
            Step::Kept(from, to) if is_implied => from..to.min(from + REACH),
            _ => 0..0,
        };
        let [first, last] = self.laid.implied;
        let lines = hidden(0, first).chain(hidden(steps.len() - 1, last));
        let told = |line: &usize| information(self.source.line(*line)) >= BORDER_LEAST;
        let comes = |line: &usize| {
            let old = self.source.line(*line).trim();
            (0..steps.len()).any(|token| {
                matches!(steps[token], Step::New(_)) && self.laid.is_line(token) && self.laid.text(token).trim() == old
            })
        };
        let is_marked = !first || !last || self.laid.segments.len() > 1;
        match lines.filter(told).find(|line| is_marked && comes(line)) {
            Some(line) => Err(unclear(line, line)),
            None => Ok(()),
        }
    }

    /// A line beside a marker that the file has, and that is read as a new one.
    fn check_outermost(&self, segment: &Range<usize>) -> Result<(), Refused> {
        for side in [Side::Above, Side::Below] {
            if self.marker(segment, side).is_none() {
                continue;
            }
            let full = |token: &usize| !is_blank(self.laid.text(*token));
            let Some(token) = self.tokens(segment, side).into_iter().find(full) else { continue };
            let known = self.laid.known[token].filter(|_| tells_much(self.laid.text(token)));
            let place = known.and_then(|known| self.lines.place_of_first(known.id));
            if let Some(place) = place.filter(|_| matches!(self.alignment.steps[token], Step::New(_))) {
                return Err(Refused::new(
                    Code::AmbiguousLocation,
                    format!(
                        "the update ends beside a marker with a line that stands at line {}, not where it fits",
                        place + 1
                    ),
                    "show an unchanged line between the change and the marker",
                )
                .at([(place, place)]));
            }
        }
        Ok(())
    }

    /// Lines at an end that stand among those that go as well: the change may end there.
    fn check_reach(&self, segment: &Range<usize>) -> Result<(), Refused> {
        for side in [Side::Above, Side::Below] {
            let run = self.weak_run(segment, side);
            let Some(&(_, near)) = run.last() else { continue };
            let beside = |it: &&Change| match side {
                Side::Above => it.start == near + 1,
                Side::Below => it.end == near,
            };
            let Some(change) = self.found.iter().find(beside) else { continue };
            let mut texts: Vec<&str> = run.iter().map(|(_, line)| self.source.line(*line)).collect();
            if side == Side::Below {
                texts.reverse();
            }
            if !texts.iter().any(|text| tells_much(text)) {
                continue;
            }
            let gone: Vec<&str> = (change.start..change.end).map(|line| self.source.line(line)).collect();
            if gone.windows(texts.len()).any(|lines| lines == texts) {
                return Err(unclear(change.start, change.end - 1));
            }
        }
        Ok(())
    }

    /// The lines at an end of a segment that match the file and do not stand once, from the end inwards.
    fn weak_run(&self, segment: &Range<usize>, side: Side) -> Vec<(usize, usize)> {
        let is_weak = |token: usize| {
            !self.laid.known[token].is_some_and(|known| known.count == 1 && tells_much(self.laid.text(token)))
        };
        let matched = |token: usize| match self.alignment.steps[token] {
            Step::Matched(line) if is_weak(token) => Some((token, line)),
            _ => None,
        };
        self.tokens(segment, side).into_iter().take(REACH).map_while(matched).collect()
    }

    /// Where markers stand for what is left out, none at an edge says that the file begins or ends there: a few lines beyond it
    /// may be meant to go.
    fn check_edges(&self) -> Result<(), Refused> {
        let steps = &self.alignment.steps;
        let [first, last] = self.laid.implied;
        if first && last && self.laid.segments.len() == 1 {
            return Ok(());
        }
        for (token, is_implied) in [(0, first), (steps.len() - 1, last)] {
            let Step::Kept(from, to) = steps[token] else { continue };
            // The head of what the change is in begins nothing.
            let is_head =
                token == 0 && declared_name(self.laid.text(1)).is_some() && matches!(steps[1], Step::Matched(_));
            if !is_implied || is_head {
                continue;
            }
            let told = (from..to).filter(|&line| tells_much(self.source.line(line))).take(EDGE_MOST + 1).count();
            if (1..=EDGE_MOST).contains(&told) {
                return Err(unclear(from, to - 1));
            }
        }
        Ok(())
    }

    /// A block that fits between lines at several places does not take the place of lines at one of them.
    fn check_rivals(&self) -> Result<(), Refused> {
        for (segment, places) in &self.laid.rivals {
            let goes = |it: &Change| it.end > it.start && it.new.iter().any(|token| segment.contains(token));
            if self.found.iter().any(goes) {
                let [one, other] = *places;
                return Err(Refused::new(
                    Code::AmbiguousLocation,
                    format!("the block could come above line {} as well as above line {}", one + 1, other + 1),
                    "show more of the lines above and below the change",
                )
                .at([(one, one), (other, other)]));
            }
        }
        Ok(())
    }

    /// The marker beside a segment and the lines that it hides, if it is written.
    fn marker(&self, segment: &Range<usize>, side: Side) -> Option<Range<usize>> {
        let token = match side {
            Side::Above => segment.start - 1,
            Side::Below => segment.end,
        };
        let last = self.alignment.steps.len() - 1;
        let [first_is_implied, last_is_implied] = self.laid.implied;
        let is_written = !(token == 0 && first_is_implied || token == last && last_is_implied);
        match self.alignment.steps[token] {
            Step::Kept(from, to) if is_written => Some(from..to),
            _ => None,
        }
    }

    /// Whether nothing comes or goes in a segment.
    fn is_shown_only(&self, segment: &Range<usize>) -> bool {
        let mut lines = segment.clone().map(|token| match self.alignment.steps[token] {
            Step::Matched(line) => Some(line),
            _ => None,
        });
        let Some(Some(first)) = lines.next() else { return false };
        lines.zip(first + 1..).all(|(line, next)| line == Some(next))
    }

    /// The tokens of a segment from a side on, without a blank line there that belongs to the marker.
    fn tokens(&self, segment: &Range<usize>, side: Side) -> Vec<usize> {
        let is_padding = |&token: &usize| {
            let is_new = matches!(self.alignment.steps[token], Step::New(_));
            self.is_padded && is_new && is_blank(self.laid.text(token))
        };
        let mut tokens: Vec<usize> = match side {
            Side::Above => segment.clone().collect(),
            Side::Below => segment.clone().rev().collect(),
        };
        if tokens.first().is_some_and(is_padding) {
            tokens.remove(0);
        }
        tokens
    }

    /// Blank lines beside a marker that the file has not there: padding, or the line after what is to go.
    fn check_blanks(&self, segment: &Range<usize>, side: Side) -> Result<(), Refused> {
        let tokens = self.tokens(segment, side);
        let blanks = tokens.iter().take_while(|&&token| is_blank(self.laid.text(token))).count();
        let Some(&token) = tokens.get(blanks) else { return Ok(()) };
        let Step::Matched(line) = self.alignment.steps[token] else { return Ok(()) };
        let missed = tokens[..blanks].iter().any(|&blank| !matches!(self.alignment.steps[blank], Step::Matched(_)));
        let Some(hidden) = self.marker(segment, side).filter(|_| missed) else { return Ok(()) };
        let next = match side {
            Side::Above => hidden.rev().take(REACH).find(|&line| is_blank(self.source.line(line))),
            Side::Below => hidden.take(REACH).find(|&line| is_blank(self.source.line(line))),
        };
        match next {
            Some(next) => Err(unclear(line, next)),
            None => Ok(()),
        }
    }

    /// Lines at an end that stand elsewhere beside it too, where lines like new ones lie between.
    fn check_end(&self, segment: &Range<usize>, side: Side) -> Result<(), Refused> {
        let steps = &self.alignment.steps;
        let tokens = self.tokens(segment, side);
        let run = self.weak_run(segment, side);
        let inner = tokens.get(run.len()).copied();
        // A line that stands once holds the end, unless what lies beyond it has moved.
        let is_idle = self.is_idle || self.is_shown_only(segment);
        let is_held = !is_idle && inner.is_none_or(|token| matches!(steps[token], Step::Matched(_)));
        if is_held && run.is_empty() {
            return Ok(());
        }
        let Some(hidden) = self.marker(segment, side) else { return Ok(()) };
        // From the segment outwards.
        let hidden: Vec<usize> = match side {
            Side::Above => hidden.rev().take(REACH).collect(),
            Side::Below => hidden.take(REACH).collect(),
        };
        let texts: Vec<&str> = run.iter().rev().map(|(_, line)| self.source.line(*line)).collect();
        let next = match run.is_empty() {
            true => hidden.len(),
            false => {
                let stands = |at: &usize| {
                    texts
                        .iter()
                        .enumerate()
                        .all(|(off, text)| hidden.get(at + off).is_some_and(|&line| self.source.line(line) == *text))
                };
                let Some(next) = (0..hidden.len()).find(stands) else { return Ok(()) };
                next
            }
        };
        let between = &hidden[..next];
        let fresh: Vec<usize> = segment.clone().filter(|&token| self.fresh[token]).collect();
        let told = |line: &&usize| tells_much(self.source.line(**line));
        let doubtful = between.iter().filter(told).find(|&&line| {
            let old = self.source.line(line);
            fresh.iter().any(|&token| self.compared(|| same_thing(old, self.laid.text(token))))
        });
        if is_held {
            return match self.has_moved(between) {
                true => Err(unclear(run[0].1, between[between.len() - 1])),
                false => Ok(()),
            };
        }
        let tells = run.iter().any(|(token, _)| tells_much(self.laid.text(*token)));
        let idle = is_idle && (tells || self.is_idle) && inner.is_some() && !run.is_empty();
        match doubtful.or_else(|| between.iter().find(told).filter(|_| idle)) {
            Some(&line) => Err(unclear(run.first().map_or(line, |(_, line)| *line), line)),
            None => Ok(()),
        }
    }

    /// Whether half of these lines or more come again with the update.
    fn has_moved(&self, lines: &[usize]) -> bool {
        let told = lines.iter().map(|&line| self.source.line(line)).filter(|line| tells_much(line));
        let (mut all, mut again) = (0, 0);
        for old in told {
            all += 1;
            let mut fresh = (0..self.fresh.len()).filter(|&token| self.fresh[token]);
            again += usize::from(fresh.any(|token| {
                let new = self.laid.text(token);
                self.compared(|| old.trim() == new.trim() || same_thing(old, new))
            }));
        }
        again >= 2 && 2 * again >= all
    }

    /// Two lines, one of the file and one that comes, which stand beside each other elsewhere: that may be the place.
    fn check_borders(&self, segment: &Range<usize>) -> Result<(), Refused> {
        let steps = &self.alignment.steps;
        // Two reads of the file for each pair would be many for hostile updates.
        if segment.len().saturating_mul(self.lines.ids.len()) > READ_MOST {
            return Ok(());
        }
        for pair in (segment.start..segment.end).zip(segment.start + 1..segment.end) {
            let (old, new) = match (steps[pair.0], steps[pair.1]) {
                (Step::Matched(line), Step::New(_)) => (line, pair.1),
                (Step::New(_), Step::Matched(line)) => (line, pair.0),
                _ => continue,
            };
            let told = |token: usize| information(self.laid.text(token)) >= BORDER_LEAST;
            let known = |token: usize| self.laid.known[token].map(|known| known.id);
            if !told(pair.0) || !told(pair.1) || known(new).is_none() {
                continue;
            }
            let (Some(one), Some(other)) = (known(pair.0), known(pair.1)) else { continue };
            if let Some(place) = self.lines.runs(&[one, other]).next() {
                return Err(Refused::new(
                    Code::AmbiguousLocation,
                    format!(
                        "line {} and the one after it are shown as they stand, and so is line {}",
                        place + 1,
                        old + 1
                    ),
                    "show a line that stands only once beside the change",
                )
                .at([(place, place + 1), (old, old)]));
            }
        }
        Ok(())
    }
}

/// A refusal of lines that may stay or go.
pub(super) fn unclear(one: usize, other: usize) -> Refused {
    let (first, last) = (one.min(other), one.max(other));
    Refused::new(
        Code::AmbiguousDeletion,
        format!("it is not clear whether lines {} to {} stay or go", first + 1, last + 1),
        "show an unchanged line that stands only once between the change and each marker",
    )
    .at([(first, last)])
}

/// Whether a line of the file may be what a new line stands for.
fn same_thing(old: &str, new: &str) -> bool {
    let mentions = |name: &str| {
        name.len() >= NAME_LEAST && new.split(|c: char| !(c.is_alphanumeric() || c == '_')).any(|word| word == name)
    };
    let goes_on = tells_much(old) && new.trim_end().starts_with(old.trim_end());
    old != new && (goes_on || key(old).is_some_and(|key| mentions(key.name())) || are_alike(old, new))
}
