//! New declarations beside lines that an update names: it shows the heads and closers of blocks, lines that stand once in these, markers, and whole
//! declarations that the file does not have. Below a marker that nothing follows they belong at the end of the file.
//!
//! It does not weigh anything: what is not certain by the blocks and lines alone is left to the other readings. Invariant: no line of the file goes but
//! blank ones beside what is new.

mod declarations;

use super::indent::indent;
use super::lines::{Lines, is_blank, is_distinctive};
use super::moved;
use super::scopes::{self, Place, belongs_to_the_next, ends_with_its_last_lines, is_closer};
use super::snippet::{Piece, Snippet};
use crate::format::replaced;
use crate::source::Source;
use crate::splice::Splice;
use declarations::Declarations;
use std::ops::Range;

/// The changes that put new declarations where an update says, if it shows nothing else.
pub(super) fn located(source: &Source, lines: &Lines<'_>, snippet: &Snippet<'_>) -> Option<Vec<Splice>> {
    if !snippet.has_markers() || !snippet.removals.is_empty() {
        return None;
    }
    let update = Update::of(source, lines, snippet);
    let runs = update.runs();
    if runs.is_empty() || !update.stands_but_for(&runs) {
        return None;
    }
    let mut splices = Vec::new();
    for run in runs {
        let Placed { gone, comes } = update.placed(&run)?;
        let old: Vec<&str> = gone.clone().map(|line| source.line(line)).collect();
        let new: Vec<&str> = comes.map(|token| update.text(token)).collect();
        (!moved::stands_at_another_depth(source, lines, &new)).then_some(())?;
        splices.extend(replaced(source, gone.start, &old, &new));
    }
    Some(splices)
}

/// Lines of an update between markers and lines of the file.
struct Run {
    /// With the blank lines around them.
    all: Range<usize>,
    first: usize,
    /// Behind the last one with text.
    end: usize,
    /// The line that heads the block which they are in.
    parent: Option<usize>,
}

impl Run {
    /// Whether it begins with a blank line.
    fn is_set_off(&self) -> bool {
        self.all.start < self.first
    }
}

/// The blank lines of the file that go, and the lines of the update that come in their place.
struct Placed {
    gone: Range<usize>,
    comes: Range<usize>,
}

/// An update, line by line, with what the lines are in the file.
struct Update<'u> {
    source: &'u Source,
    lines: &'u Lines<'u>,
    /// `None` stands for a marker.
    texts: Vec<Option<&'u str>>,
    /// How far each marker is indented.
    marker_depths: Vec<usize>,
    places: Vec<Place>,
    /// The line of the file that each line is, if it heads or closes a block, or stands once in the block around it.
    known: Vec<Option<usize>>,
}

impl<'u> Update<'u> {
    fn of(source: &'u Source, lines: &'u Lines<'u>, snippet: &Snippet<'u>) -> Update<'u> {
        let text = |piece: &Piece<'u>| match piece {
            Piece::Line(text) => Some(*text),
            Piece::Marker(_) => None,
        };
        let depth = |piece: &Piece<'u>| match piece {
            Piece::Line(_) => 0,
            Piece::Marker(marker) => indent(marker.line).len(),
        };
        let mut texts: Vec<Option<&str>> = snippet.pieces.iter().map(text).collect();
        while texts.pop_if(|text| text.is_some_and(is_blank)).is_some() {}
        let marker_depths = snippet.pieces.iter().map(depth).collect();
        let places = scopes::places(texts.iter().copied(), source, lines);
        let mut heads = vec![false; texts.len()];
        places.iter().flat_map(|place| [place.parent, place.closes]).flatten().for_each(|head| heads[head] = true);
        // An annotation, a comment or the parameters of a template may stand above what is new as well.
        let is_telling = |token: usize| {
            let is_told = texts[token].is_some_and(is_distinctive);
            (is_told || heads[token]) && !texts[token].is_some_and(belongs_to_the_next)
        };
        let known = |token: usize| {
            let place: &Place = &places[token];
            let is_named = || place.closes.is_some() || place.opens.is_some() || is_telling(token);
            place.line.filter(|_| place.is_same && is_named())
        };
        let known = (0..texts.len()).map(known).collect();
        Update { source, lines, texts, marker_depths, places, known }
    }

    fn text(&self, token: usize) -> &'u str {
        self.texts[token].unwrap_or_default()
    }

    fn is_marker(&self, token: usize) -> bool {
        self.texts[token].is_none()
    }

    fn is_blank(&self, token: usize) -> bool {
        self.texts[token].is_some_and(is_blank)
    }

    /// The runs of lines between markers and those of the file, but for blank ones alone.
    fn runs(&self) -> Vec<Run> {
        let is_in = |token: &usize| !self.is_marker(*token) && self.known[*token].is_none();
        let mut all: Vec<Range<usize>> = Vec::new();
        for token in (0..self.texts.len()).filter(is_in) {
            match all.last_mut().filter(|run| run.end == token) {
                Some(run) => run.end += 1,
                None => all.push(token..token + 1),
            }
        }
        all.into_iter().filter_map(|all| self.run(all)).collect()
    }

    fn run(&self, all: Range<usize>) -> Option<Run> {
        let is_full = |token: &usize| !self.is_blank(*token);
        let first = all.clone().find(is_full)?;
        let end = all.clone().rev().find(is_full)? + 1;
        Some(Run { all, first, end, parent: self.places[first].parent })
    }

    /// Whether lines of the file without a marker between stand in it as they do here, but for what is new.
    fn stands_but_for(&self, runs: &[Run]) -> bool {
        let shown: Vec<(usize, usize)> =
            self.known.iter().enumerate().filter_map(|(token, line)| Some((token, (*line)?))).collect();
        shown.windows(2).all(|pair| {
            let [(one, from), (other, to)] = [pair[0], pair[1]];
            let is_apart = (one..other).any(|token| self.is_marker(token));
            let has_run = runs.iter().any(|run| one < run.first && run.first < other);
            from < to && (is_apart || has_run || to - from == other - one && self.are_blank(from + 1..to))
        })
    }

    fn are_blank(&self, mut lines: Range<usize>) -> bool {
        lines.all(|line| is_blank(self.source.line(line)))
    }

    /// What comes of a run; `None` if that is not certain.
    fn placed(&self, run: &Run) -> Option<Placed> {
        let inside = match run.parent {
            Some(parent) => self.known[parent].and(self.places[run.first].inside.clone())?,
            None => 0..self.source.line_count(),
        };
        let texts: Vec<&str> = (run.first..run.end).map(|token| self.text(token)).collect();
        let new = Declarations::of(self.source, self.lines, &texts, inside.clone());
        let above = run.all.start.checked_sub(1)?;
        let is_set_off = run.is_set_off() || self.is_head_of(above, run);
        if !new.are_whole(is_set_off) || !new.are_new() {
            return None;
        }
        let below = Some(run.all.end).filter(|&below| below < self.texts.len());
        let known_below = below.and_then(|below| Some((below, self.known[below]?)));
        if let Some(line) = self.known[above] {
            let is_head = self.is_head_of(above, run);
            let is_below = is_head || self.is_beside(above, run.first) && !self.is_head(above);
            return match known_below.filter(|_| is_below) {
                Some((below, next)) => self.between(line, below, next, run),
                None => self.below(line, run).filter(|_| is_below && below.is_some()),
            };
        }
        let placed = match (known_below, run.parent) {
            (Some((below, line)), _) => self.above(below, line, &inside, run),
            (None, None) if below.is_none() => self.at_end_of_file(run),
            (None, parent) => self.at_end_of_block(parent?, below, &inside, run),
        }?;
        // It is not said whether a blank line is to be above them, where others have one.
        let is_apart = placed.gone.start.checked_sub(1).is_some_and(|above| is_blank(self.source.line(above)));
        (run.is_set_off() || is_apart || !new.have_blank_lines_between()).then_some(placed)
    }

    /// Whether a line of the file is as deep as another of the update, in the same block.
    fn is_beside(&self, known: usize, token: usize) -> bool {
        self.places[known].parent == self.places[token].parent && indent(self.text(known)) == indent(self.text(token))
    }

    /// Whether deeper lines follow a line in the file.
    fn is_head(&self, known: usize) -> bool {
        let depth = indent(self.text(known)).len();
        let below = self.known[known].map_or(0, |line| line + 1)..self.source.line_count();
        let next = below.map(|line| self.source.line(line)).find(|text| !is_blank(text));
        next.is_some_and(|text| indent(text).len() > depth)
    }

    /// A place between two lines of the file.
    fn between(&self, line: usize, below: usize, next: usize, run: &Run) -> Option<Placed> {
        let is_above = self.is_beside(below, run.first) || self.closes(below, run);
        (is_above && self.are_blank(line + 1..next)).then(|| Placed { gone: line + 1..next, comes: run.all.clone() })
    }

    /// A place between a line of the file and what a marker stands for.
    fn below(&self, line: usize, run: &Run) -> Option<Placed> {
        let next = line + 1;
        let text = (next < self.source.line_count()).then(|| self.source.line(next));
        if text.is_some_and(stays_first) {
            return None;
        }
        let is_apart = text.is_none_or(|text| is_blank(text) || is_closer(text));
        let end = match run.all.end > run.end {
            true if is_apart => run.end,
            // The blank line may be the marker's.
            true if self.is_padded() => return None,
            _ => run.all.end,
        };
        // Where the file has more blank lines than are shown above what is new, and none is shown below it, those that are shown are of them.
        let shown = run.first - run.all.start;
        let is_of_them = run.all.end == run.end && self.blanks_from(next) > shown;
        let gone = next..if is_of_them { next + shown } else { next };
        Some(Placed { gone, comes: run.all.start..end })
    }

    /// How many blank lines follow one another from a line on.
    fn blanks_from(&self, line: usize) -> usize {
        (line..self.source.line_count()).take_while(|&line| is_blank(self.source.line(line))).count()
    }

    /// A place between what a marker stands for and a line of the file: the closer of the block, or the head of the next one.
    fn above(&self, below: usize, line: usize, inside: &Range<usize>, run: &Run) -> Option<Placed> {
        if self.is_padded() {
            return None;
        }
        let closes = self.closes(below, run);
        if closes || self.is_beside(below, run.first) {
            let end = self.end(&(inside.start..line));
            // What stands right above the head of the next block may belong to it.
            let is_its_own = || !closes && belongs_to_the_next(self.source.line(end - 1));
            // The blank lines that are shown above are the last of those of the file.
            let start = line - (line - end).min(run.first - run.all.start);
            return (end > inside.start && !is_its_own() && !(closes && self.is_left(end - 1, run)))
                .then(|| Placed { gone: start..line, comes: run.all.clone() });
        }
        let is_out = indent(self.text(below)).len() < indent(self.text(run.first)).len();
        let (_, closer) = self.block(run.parent?)?;
        let is_end = is_out && closer.is_none() && inside.end <= line && self.are_blank(inside.end..line);
        let end = self.end(inside);
        (is_end && !self.is_left(end - 1, run)).then(|| Placed { gone: end..line, comes: run.all.clone() })
    }

    /// A place at the end of a block that no line closes.
    fn at_end_of_block(&self, parent: usize, below: Option<usize>, inside: &Range<usize>, run: &Run) -> Option<Placed> {
        let depth = indent(self.text(run.first)).len();
        let is_end = below.is_none_or(|below| self.marker_depths[below] < depth);
        let (_, closer) = self.block(parent)?;
        let end = self.end(inside);
        (is_end && closer.is_none() && !self.is_padded() && !self.is_left(end - 1, run))
            .then_some(Placed { gone: end..end, comes: run.all.start..run.end })
    }

    /// A place behind all lines of the file, for what names no block of it.
    fn at_end_of_file(&self, run: &Run) -> Option<Placed> {
        let is_alone = run.all.start == 1 && self.known.iter().all(Option::is_none);
        let all = 0..self.source.line_count();
        let end = self.end(&all);
        if !is_alone || end == 0 || self.ends_inside(end - 1) || ends_with_its_last_lines(self.source, 0..end) {
            return None;
        }
        // Blank lines at the end of the file may be the ones that are shown.
        (end == all.end || !run.is_set_off()).then(|| Placed { gone: all.end..all.end, comes: run.all.clone() })
    }

    /// Whether a line heads the block that a run is in, or opens it below its head.
    fn is_head_of(&self, token: usize, run: &Run) -> bool {
        run.parent.is_some() && (run.parent == Some(token) || self.places[token].opens == run.parent)
    }

    /// Whether the last line of the block that a run is in leaves it: nothing belongs behind that.
    fn is_left(&self, last: usize, run: &Run) -> bool {
        let text = self.source.line(last);
        indent(text) == indent(self.text(run.first)) && scopes::leaves(text)
    }

    /// Whether a line closes the block that a run is in.
    fn closes(&self, token: usize, run: &Run) -> bool {
        run.parent.is_some() && self.places[token].closes == run.parent
    }

    /// Whether the last line of the file closes a block whose lines are not indented, such as a namespace: what is new may belong in it.
    fn ends_inside(&self, last: usize) -> bool {
        let text = self.source.line(last);
        if !is_closer(text) || !indent(text).is_empty() {
            return false;
        }
        let above = (0..last).rev().map(|line| self.source.line(line)).find(|text| !is_blank(text));
        above.is_some_and(|text| indent(text).is_empty() && !text.trim_end().ends_with(['{', '(', '[', ',', ':']))
    }

    fn block(&self, head: usize) -> Option<(Range<usize>, Option<usize>)> {
        Some(scopes::block_of(self.source, self.known[head]?))
    }

    /// The line below the last one with text of lines of the file.
    fn end(&self, lines: &Range<usize>) -> usize {
        let full = |line: &usize| !is_blank(self.source.line(*line));
        lines.clone().rev().find(full).map_or(lines.start, |line| line + 1)
    }

    /// Whether there are several markers, all with a blank line on both sides: these may be theirs.
    fn is_padded(&self) -> bool {
        let mut markers = (0..self.texts.len()).filter(|&token| self.is_marker(token));
        let beside = |token: Option<usize>| token.filter(|&token| token < self.texts.len());
        let is_set_off = |token: usize| {
            [beside(token.checked_sub(1)), beside(Some(token + 1))]
                .into_iter()
                .flatten()
                .all(|token| self.is_blank(token))
        };
        let count = markers.clone().count();
        count > 1 && markers.all(is_set_off)
    }
}

/// Whether a line of a block comes before all declarations: the text that documents it, or a label of what is seen from outside.
fn stays_first(text: &str) -> bool {
    let words = text.trim();
    let is_label = || ["public:", "protected:", "private:"].contains(&words);
    ["\"\"\"", "'''", "r\"\"\""].iter().any(|quote| words.starts_with(quote)) || is_label()
}
