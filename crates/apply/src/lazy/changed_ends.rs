//! Ends of a part that are lines of the file in another form: the new line beside a marker stands for the hidden one that it is like.
//!
//! Invariant: such an end takes the place of one line, next to what the part shows of the file.

use super::candidates::{Candidate, Finder};
use super::cells::{Ends, Kind, REPLACED, RUN, Row, Step, Steps, TOLD, Trail};
use super::indent::indent;
use super::keys::declared_name;
use super::likeness::LineFeatures;
use super::lines::{UNIT, is_distinctive};
use super::part::{Became, Outermost};
use super::weakness::Doubts;
use std::ops::Range;

/// What speaks at least against an end being another form of a hidden line, and how much more for each percent of its words that differ.
const CHANGED_END: i32 = UNIT / 2;
const OF_PERCENT: i32 = UNIT / 20;
/// Lines of a part on each side that are looked at for where a changed one stands, and how often they may stand in the file.
const NEAR: usize = 3;
const MAX_PLACES: usize = 8;
/// What speaks against a new line at an end that is another form of the hidden one beyond it, which would stay; of those that have so much in
/// common (percent).
const STANDS_BEYOND: i32 = 3 * UNIT;
const SURE_SHARE: i32 = 80;
/// Lines beyond as many as come that are looked at for a copy.
const REACH: usize = 2;
/// What counts as the share where a block has another name.
const RENAMED_SHARE: i32 = 80;
/// Longer blocks are not looked through for the only line of a part (lines).
const MAX_SCANNED: usize = 2_000;
/// Lines with less in common are not each other's other form (percent).
pub(super) const MIN_SHARE: i32 = 55;

impl Finder<'_> {
    /// The lines of the file that a new line may be another form of, with what speaks against each.
    pub(super) fn forms_of(&self, token: usize) -> Vec<(usize, i32)> {
        let weights = self.weights;
        if weights.ids[token].is_some() || !weights.is_telling[token] || weights.prepared.is_apart(token) {
            return Vec::new();
        }
        let new = &self.features[token - self.part.first];
        let mut lines: Vec<usize> =
            weights.likes(token).chain(self.beside(token)).chain(self.only_form(token)).collect();
        lines.sort_unstable();
        lines.dedup();
        let share = |&line: &usize| {
            let share = new.share_with(&LineFeatures::of(weights.source.line(line)));
            if share == 0 && self.is_renamed(token, line) { RENAMED_SHARE } else { share }
        };
        let shares = lines.iter().map(|line| (*line, share(line))).filter(|(_, share)| *share >= MIN_SHARE);
        shares.map(|(line, share)| (line, CHANGED_END + (100 - share) * OF_PERCENT)).collect()
    }

    /// Whether a line declares another name than one of the file, as deep, above the same line: the first of the block.
    fn is_renamed(&self, token: usize, line: usize) -> bool {
        let weights = self.weights;
        let (new, old) = (weights.text(token), weights.source.line(line));
        let declare = declared_name(new).is_some() && declared_name(old).is_some() && indent(new) == indent(old);
        let next = weights.ids.get(token + 1).copied().flatten().filter(|_| token < self.part.last);
        declare
            && next.is_some_and(|id| weights.numbers.get(line + 1) == Some(&id))
            && is_distinctive(weights.text(token + 1))
    }

    /// What speaks against new lines at an end beyond which a hidden line stays that one of them is another form of.
    pub(super) fn cost_of_staying(&self, new: &Range<usize>, hidden: Option<usize>) -> i32 {
        let Some(hidden) = hidden else { return 0 };
        // A block of which a hidden one beside it has a line that stands nowhere else is that one, by another name.
        let reach = new.len() + REACH;
        let is_copy = |token: usize| {
            let at = token.checked_sub(self.part.first).and_then(|at| self.only_places.get(at).copied().flatten());
            at.is_some_and(|at| at.abs_diff(hidden) <= reach)
        };
        if self.became(hidden).forms.is_any_in(new) || new.clone().any(is_copy) { STANDS_BEYOND } else { 0 }
    }

    /// The lines of the part that may be what became of a hidden line beside it.
    pub(super) fn became(&self, hidden: usize) -> Became {
        if let Some(known) = self.became.borrow().get(&hidden) {
            return *known;
        }
        let weights = self.weights;
        let old = LineFeatures::of(weights.source.line(hidden));
        let is_new = |token: usize| weights.ids[token].is_none() && weights.is_telling[token];
        let is_form = |token: &usize| {
            let may_be = is_new(*token) && !weights.prepared.is_apart(*token);
            may_be && self.features[*token - self.part.first].share_with(&old) >= SURE_SHARE
        };
        let replaces = |token: &usize| is_new(*token) && weights.replaces(*token, hidden);
        let tokens = self.part.first..self.part.last + 1;
        let became = Became { forms: Outermost::of(&tokens, is_form), heirs: Outermost::of(&tokens, replaces) };
        self.became.borrow_mut().insert(hidden, became);
        became
    }

    /// A part whose only line is another form of one of the file.
    fn only_changed(&self, forms: &[(usize, i32)], add: &mut impl FnMut(Candidate)) {
        for &(line, against) in forms.iter().filter(|_| self.part.first == self.part.last) {
            let mut trail = Trail::at(line, self.part.first, 0, Doubts::NONE).changed(against + RUN);
            trail.flags |= TOLD;
            add(self.candidate(&trail, line + 1, self.part.last + 1, Doubts::NONE));
        }
    }

    /// The lines of the file that the only line of a part may be another form of: the one in the block around it that holds all its words.
    fn only_form(&self, token: usize) -> Option<usize> {
        let weights = self.weights;
        if self.part.first != self.part.last {
            return None;
        }
        let inside = weights.places[token].inside.clone().unwrap_or(0..weights.source.line_count());
        if inside.len() > MAX_SCANNED {
            return None;
        }
        let new = &self.features[token - self.part.first];
        let is_form = |line: &usize| {
            let text = weights.source.line(*line);
            is_distinctive(text) && new.share_with(&LineFeatures::of(text)) == 100
        };
        let mut found = inside.filter(is_form);
        found.next().filter(|_| found.next().is_none())
    }

    /// The lines of the file next to those that the nearest lines of the part may be.
    fn beside(&self, token: usize) -> impl Iterator<Item = usize> {
        let count = self.weights.source.line_count();
        let near =
            (1..=NEAR).flat_map(move |off| [token.checked_sub(off).map(|at| (at, true)), Some((token + off, false))]);
        let inside = move |(at, is_above): (usize, bool)| {
            let places = self.places.get(at.checked_sub(self.part.first)?)?;
            let off = at.abs_diff(token);
            (places.len() <= MAX_PLACES).then(|| {
                places
                    .iter()
                    .filter_map(move |place| if is_above { Some(place.0 + off) } else { place.0.checked_sub(off) })
            })
        };
        near.flatten().filter_map(inside).flatten().filter(move |line| *line < count)
    }

    /// The ways in which a part begins with another form of a line, and the candidates that end with one, at the next line of the part.
    pub(super) fn add_changed(
        &self,
        token: usize,
        row: &Row,
        bound: i32,
        next: &mut Steps,
        add: &mut impl FnMut(Candidate),
    ) {
        let at = token - self.part.first;
        let forms = &self.forms[at];
        if forms.is_empty() {
            return;
        }
        self.only_changed(forms, add);
        if let Some(tail) = self.tails[at] {
            self.exit_changed(row, tail, forms, bound, add);
        }
        next.extend(self.leads[at].into_iter().flat_map(|lead| self.enter_changed(lead, forms)));
    }

    /// The ways in which a part begins with another form of a line.
    fn enter_changed(&self, lead: i32, forms: &[(usize, i32)]) -> impl Iterator<Item = Step> {
        forms.iter().map(move |&(line, against)| {
            let cost = lead + against + RUN + self.weights.gone.line(line) / REPLACED;
            (line + 1, Kind::Gap, Trail::at(line, self.part.first, 0, Doubts::NONE).changed(cost))
        })
    }

    /// The ways in which a part ends with another form of a line.
    fn exit_changed(&self, row: &Row, tail: i32, forms: &[(usize, i32)], bound: i32, add: &mut impl FnMut(Candidate)) {
        let mut at = Ends::default();
        row.sweep(&self.weights.gone, bound, forms.iter().map(|form| form.0), &mut at);
        for (line, cell) in at.cells {
            let Ok(place) = forms.binary_search_by_key(&line, |form| form.0) else { continue };
            let cost = tail + forms[place].1 + self.weights.gone.line(line) / REPLACED;
            let trails = cell.matched.iter().map(|trail| trail.changed(cost + RUN));
            for mut trail in trails.chain(cell.gap.iter().map(|trail| trail.changed(cost))) {
                trail.flags |= TOLD;
                if trail.cost <= bound {
                    add(self.candidate(&trail, line + 1, self.part.last + 1, Doubts::NONE));
                }
            }
        }
    }
}
