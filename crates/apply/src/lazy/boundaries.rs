//! Checks that the ends of segments show how far a change reaches.
//!
//! Invariant: the work is bounded whatever the update; pairs of lines beyond the bound are not compared.

use super::align::{Alignment, Step};
use super::changes::Change;
use super::keys::{declared_name, key};
use super::likeness::{LineFeatures, Many, are_similar};
use super::lines::{Lines, UNIT, information, is_blank, is_distinctive};
use super::prepared::PreparedSnippet;
use crate::outcome::{Code, Refused};
use crate::source::Source;
use std::cell::Cell;
use std::ops::Range;

/// Hidden lines that are checked beside a segment.
const REACH: usize = 40;
/// Information of a line that is more than a keyword.
const MIN_BOUNDARY_INFORMATION: i32 = 3 * UNIT;
/// From this many lines on a file is long: an excerpt of half of it is no longer likely.
const LONG: usize = 60;
/// More lines beyond an edge are not deleted implicitly.
const MAX_HIDDEN_EDGE_LINES: usize = 3;
/// Mentions of shorter names are no evidence.
const MIN_NAME_LENGTH: usize = 4;

/// Pairs of lines that are compared, to bound the work.
const MAX_COMPARED_PAIRS: usize = 1_000_000;
/// Lines of the file that are read to find two adjacent ones, to bound the work.
const MAX_READ_LINES: usize = 50_000_000;

/// An update with its alignment.
pub(super) struct Boundaries<'d> {
    source: &'d Source,
    lines: &'d Lines<'d>,
    prepared: &'d PreparedSnippet<'d>,
    alignment: &'d Alignment,
    /// Its changes.
    found: &'d [Change],
    /// Whether nothing changes at all.
    is_unchanged: bool,
    /// Whether blank lines beside markers belong to them.
    is_padded: bool,
    /// Whether each token is a new line outside of new declarations that replaces no similar line.
    fresh: Vec<bool>,
    pairs: Cell<usize>,
}

/// Where a segment meets a marker.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Above,
    Below,
}

impl<'d> Boundaries<'d> {
    /// The checks of an alignment.
    pub fn new(
        source: &'d Source,
        lines: &'d Lines<'d>,
        prepared: &'d PreparedSnippet<'d>,
        alignment: &'d Alignment,
        found: &'d [Change],
        is_unchanged: bool,
    ) -> Boundaries<'d> {
        let (is_padded, fresh, pairs) = (prepared.is_padded(), Vec::new(), Cell::new(MAX_COMPARED_PAIRS));
        let mut boundaries =
            Boundaries { source, lines, prepared, alignment, found, is_unchanged, is_padded, fresh, pairs };
        let mut fresh = vec![false; alignment.steps.len()];
        for change in found {
            let gone = Many::of((change.start..change.end).map(|line| source.line(line)));
            for &token in &change.new {
                let text = prepared.text(token);
                let new = LineFeatures::of(text);
                let comes =
                    matches!(alignment.steps[token], Step::New(_)) && !is_blank(text) && !prepared.is_apart(token);
                fresh[token] = comes && !gone.any(|old| boundaries.compared(|| old.is_similar_to(&new)));
            }
        }
        boundaries.fresh = fresh;
        boundaries
    }

    /// The result of a comparison of two lines; false once the bound is reached.
    fn compared(&self, comparison: impl FnOnce() -> bool) -> bool {
        let left = self.pairs.get();
        self.pairs.set(left.saturating_sub(1));
        left > 0 && comparison()
    }

    /// Checks all segments.
    pub fn check(&self) -> Result<(), Refused> {
        self.check_rivals()?;
        self.check_part()?;
        self.check_markers()?;
        self.check_edges()?;
        self.check_doubles()?;
        for segment in &self.prepared.segments {
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

    /// Refuses a marker between new lines that stands for no lines: it may be one of them.
    fn check_markers(&self) -> Result<(), Refused> {
        let steps = &self.alignment.steps;
        let is_new = |token: Option<usize>| token.is_some_and(|token| matches!(steps[token], Step::New(_)));
        for (segment, next) in self.prepared.segments.iter().zip(self.prepared.segments.iter().skip(1)) {
            let is_empty = |lines: &Range<usize>| lines.clone().all(|line| is_blank(self.source.line(line)));
            let Some(hidden) = self.marker(segment, Side::Below).filter(is_empty) else { continue };
            let full = |token: &usize| !is_blank(self.prepared.text(*token));
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

    /// Refuses nearly the whole file from one of its edges on, without markers: the rest may be left out or deleted.
    fn check_part(&self) -> Result<(), Refused> {
        let [first, last] = self.prepared.edges;
        let steps = &self.alignment.steps;
        if self.prepared.implied != [true; 2] || self.prepared.segments.len() != 1 || first == last {
            return Ok(());
        }
        let Step::Kept(from, to) = steps[if first { steps.len() - 1 } else { 0 }] else { return Ok(()) };
        let full = |lines: Range<usize>| lines.filter(|&line| !is_blank(self.source.line(line))).count();
        let (hidden, all) = (full(from..to), full(0..self.source.line_count()));
        // Half of a long file is too much for an excerpt.
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

    /// Refuses new lines that the file has at a place which the snippet does not show: they may have moved.
    fn check_doubles(&self) -> Result<(), Refused> {
        let steps = &self.alignment.steps;
        let hidden = |token: usize, is_implied: bool| match steps[token] {
            Step::Kept(from, to) if is_implied => from..to.min(from + REACH),
            _ => 0..0,
        };
        let [first, last] = self.prepared.implied;
        let lines = hidden(0, first).chain(hidden(steps.len() - 1, last));
        let informative = |line: &usize| information(self.source.line(*line)) >= MIN_BOUNDARY_INFORMATION;
        let comes = |line: &usize| {
            let old = self.source.line(*line).trim();
            (0..steps.len()).any(|token| {
                matches!(steps[token], Step::New(_))
                    && self.prepared.is_line(token)
                    && self.prepared.text(token).trim() == old
            })
        };
        let is_marked = !first || !last || self.prepared.segments.len() > 1;
        match lines.filter(informative).find(|line| is_marked && comes(line)) {
            Some(line) => Err(unclear(line, line)),
            None => Ok(()),
        }
    }

    /// Refuses a line beside a marker that the file has and the alignment takes as new.
    fn check_outermost(&self, segment: &Range<usize>) -> Result<(), Refused> {
        for side in [Side::Above, Side::Below] {
            if self.marker(segment, side).is_none() {
                continue;
            }
            let full = |token: &usize| !is_blank(self.prepared.text(*token));
            let Some(token) = self.tokens(segment, side).into_iter().find(full) else { continue };
            let known = self.prepared.known[token].filter(|_| is_distinctive(self.prepared.text(token)));
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

    /// Refuses lines at an end that also occur among the deleted ones: the change may end there.
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
            if !texts.iter().any(|text| is_distinctive(text)) {
                continue;
            }
            let gone: Vec<&str> = (change.start..change.end).map(|line| self.source.line(line)).collect();
            if gone.windows(texts.len()).any(|lines| lines == texts) {
                return Err(unclear(change.start, change.end - 1));
            }
        }
        Ok(())
    }

    /// The matched lines at an end of a segment that occur more than once, from the end inwards.
    fn weak_run(&self, segment: &Range<usize>, side: Side) -> Vec<(usize, usize)> {
        let is_weak = |token: usize| {
            !self.prepared.known[token]
                .is_some_and(|known| known.count == 1 && is_distinctive(self.prepared.text(token)))
        };
        let matched = |token: usize| match self.alignment.steps[token] {
            Step::Matched(line) if is_weak(token) => Some((token, line)),
            _ => None,
        };
        self.tokens(segment, side).into_iter().take(REACH).map_while(matched).collect()
    }

    /// In a snippet with markers, an edge without one is the file's edge, so that a few lines beyond it may be deleted.
    fn check_edges(&self) -> Result<(), Refused> {
        let steps = &self.alignment.steps;
        let [first, last] = self.prepared.implied;
        if first && last && self.prepared.segments.len() == 1 {
            return Ok(());
        }
        for (token, is_implied) in [(0, first), (steps.len() - 1, last)] {
            let Step::Kept(from, to) = steps[token] else { continue };
            // The head of what the change is in begins nothing.
            let is_head =
                token == 0 && declared_name(self.prepared.text(1)).is_some() && matches!(steps[1], Step::Matched(_));
            if !is_implied || is_head {
                continue;
            }
            let informative = (from..to)
                .filter(|&line| is_distinctive(self.source.line(line)))
                .take(MAX_HIDDEN_EDGE_LINES + 1)
                .count();
            if (1..=MAX_HIDDEN_EDGE_LINES).contains(&informative) {
                return Err(unclear(from, to - 1));
            }
        }
        Ok(())
    }

    /// Refuses a block that fits at several places and replaces lines at one of them.
    fn check_rivals(&self) -> Result<(), Refused> {
        for (segment, places) in &self.prepared.rivals {
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
        let [first_is_implied, last_is_implied] = self.prepared.implied;
        let is_written = !(token == 0 && first_is_implied || token == last && last_is_implied);
        match self.alignment.steps[token] {
            Step::Kept(from, to) if is_written => Some(from..to),
            _ => None,
        }
    }

    /// Whether nothing changes in a segment.
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
            self.is_padded && is_new && is_blank(self.prepared.text(token))
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

    /// Refuses blank lines beside a marker that the file does not have there: padding, or the line after deleted ones.
    fn check_blanks(&self, segment: &Range<usize>, side: Side) -> Result<(), Refused> {
        let tokens = self.tokens(segment, side);
        let blanks = tokens.iter().take_while(|&&token| is_blank(self.prepared.text(token))).count();
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

    /// Refuses lines at an end that recur nearby with lines between them that resemble the new ones.
    fn check_end(&self, segment: &Range<usize>, side: Side) -> Result<(), Refused> {
        let steps = &self.alignment.steps;
        let tokens = self.tokens(segment, side);
        let run = self.weak_run(segment, side);
        let inner = tokens.get(run.len()).copied();
        // A line that occurs once anchors the end, unless the lines beyond it have moved.
        let is_unchanged = self.is_unchanged || self.is_shown_only(segment);
        let is_held = !is_unchanged && inner.is_none_or(|token| matches!(steps[token], Step::Matched(_)));
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
        let informative = |line: &&usize| is_distinctive(self.source.line(**line));
        let doubtful = between.iter().filter(informative).find(|&&line| {
            let old = self.source.line(line);
            fresh.iter().any(|&token| self.compared(|| same_thing(old, self.prepared.text(token))))
        });
        if is_held {
            return match self.has_moved(between) {
                true => Err(unclear(run[0].1, between[between.len() - 1])),
                false => Ok(()),
            };
        }
        let has_distinctive = run.iter().any(|(token, _)| is_distinctive(self.prepared.text(*token)));
        let idle = is_unchanged && (has_distinctive || self.is_unchanged) && inner.is_some() && !run.is_empty();
        match doubtful.or_else(|| between.iter().find(informative).filter(|_| idle)) {
            Some(&line) => Err(unclear(run.first().map_or(line, |(_, line)| *line), line)),
            None => Ok(()),
        }
    }

    /// Whether the update has half of these lines or more.
    fn has_moved(&self, lines: &[usize]) -> bool {
        let informative = lines.iter().map(|&line| self.source.line(line)).filter(|line| is_distinctive(line));
        let (mut all, mut again) = (0, 0);
        for old in informative {
            all += 1;
            let mut fresh = (0..self.fresh.len()).filter(|&token| self.fresh[token]);
            again += usize::from(fresh.any(|token| {
                let new = self.prepared.text(token);
                self.compared(|| old.trim() == new.trim() || same_thing(old, new))
            }));
        }
        again >= 2 && 2 * again >= all
    }

    /// Refuses a line of the file and a new one that are adjacent elsewhere in the file: that may be the place.
    fn check_borders(&self, segment: &Range<usize>) -> Result<(), Refused> {
        let steps = &self.alignment.steps;
        // Two reads of the file for each pair would be many for hostile updates.
        if segment.len().saturating_mul(self.lines.ids.len()) > MAX_READ_LINES {
            return Ok(());
        }
        for pair in (segment.start..segment.end).zip(segment.start + 1..segment.end) {
            let (old, new) = match (steps[pair.0], steps[pair.1]) {
                (Step::Matched(line), Step::New(_)) => (line, pair.1),
                (Step::New(_), Step::Matched(line)) => (line, pair.0),
                _ => continue,
            };
            let informative = |token: usize| information(self.prepared.text(token)) >= MIN_BOUNDARY_INFORMATION;
            let known = |token: usize| self.prepared.known[token].map(|known| known.id);
            if !informative(pair.0) || !informative(pair.1) || known(new).is_none() {
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

/// The refusal if lines may stay or be deleted.
pub(super) fn unclear(one: usize, other: usize) -> Refused {
    let (first, last) = (one.min(other), one.max(other));
    Refused::new(
        Code::AmbiguousDeletion,
        format!("it is not clear whether lines {} to {} stay or go", first + 1, last + 1),
        "show an unchanged line that stands only once between the change and each marker",
    )
    .at([(first, last)])
}

/// Whether a new line may replace a line of the file.
fn same_thing(old: &str, new: &str) -> bool {
    let mentions = |name: &str| {
        name.len() >= MIN_NAME_LENGTH
            && new.split(|c: char| !(c.is_alphanumeric() || c == '_')).any(|word| word == name)
    };
    let goes_on = is_distinctive(old) && new.trim_end().starts_with(old.trim_end());
    old != new && (goes_on || key(old).is_some_and(|key| mentions(key.name())) || are_similar(old, new))
}
