//! Blank lines at the ends of a part: which of the file's they may be.
//!
//! Invariant: only those near a line that the part shows are looked at.

use super::candidates::Finder;
use super::keys::declared_name;
use super::lines::is_blank;
use super::scopes::is_head;
use std::ops::Range;

/// Lines around those that may be ends in which a blank line is looked at as one.
const BLANK_REACH: usize = 12;

impl Finder<'_> {
    /// The blank lines of the file that may be the one which is shown above the part, or below it: those near lines that may
    /// be its ends.
    pub(super) fn blank_ends(&self, side: usize) -> Vec<usize> {
        let (source, first) = (self.weights.source, self.part.first);
        let is_full = |at: &usize| !is_blank(self.weights.text(first + at));
        let mut near: Vec<Range<usize>> = Vec::new();
        for at in (0..self.places.len()).filter(is_full) {
            let beyond = if side == 0 { at } else { self.part.last - first - at };
            let reach = beyond + BLANK_REACH;
            let lines = self.places[at].iter().map(|place| place.0);
            if side == 0 {
                near.extend(lines.map(|line| line.saturating_sub(reach)..line));
            } else {
                near.extend(lines.map(|line| line + 1..(line + 1 + reach).min(source.line_count())));
            }
        }
        near.sort_unstable_by_key(|lines| lines.start);
        let mut seen = 0;
        let fresh = near.into_iter().flat_map(|lines| {
            let from = lines.start.max(seen);
            seen = seen.max(lines.end);
            from..lines.end
        });
        fresh.filter(|&line| is_blank(source.line(line))).collect()
    }

    /// Whether new lines end with a blank one and declare nothing, as fields and imports above what is set apart from them.
    pub(super) fn are_above_own_blank(&self, new: Range<usize>) -> bool {
        let text = |token: usize| self.weights.text(token);
        new.clone().last().is_some_and(|token| is_blank(text(token)))
            && new.into_iter().all(|token| declared_name(text(token)).is_none() && !is_head(text(token)))
    }
}
