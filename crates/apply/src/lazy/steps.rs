//! The steps of the programme that lays a part of a snippet over a file: what the next line of the part may be.
//!
//! Invariant: a line comes, or is one of the file, or takes the place of one that it is like.

use super::cells::{Cell, Kind, LONG, REPLACED, RUN, Steps, TOLD, Trail, Visit};
use super::lines::is_blank;
use super::weights::Weights;

/// The next line of a part, laid over the file.
pub(super) struct On<'o> {
    pub weights: &'o Weights<'o>,
    pub token: usize,
    /// The lines of the file that it may be, with what speaks against each.
    pub places: &'o [(usize, i32)],
    /// The ways on.
    pub next: Steps,
}

impl Visit for On<'_> {
    fn asks(&self) -> bool {
        self.weights.has_kin(self.token)
    }

    fn next(&self, from: usize, before: usize) -> Option<usize> {
        self.weights.next_of_kin(self.token, from, before)
    }

    fn way(&mut self, line: usize, kind: Kind, trail: &Trail) {
        let new = self.weights.new[self.token];
        if kind != Kind::Matched {
            return self.next.push((line, kind, trail.changed(new)));
        }
        // What goes below it may be much or little.
        self.next
            .extend([(Kind::Gap, RUN), (Kind::Long, LONG)].map(|(kind, cost)| (line, kind, trail.changed(cost + new))));
    }

    fn cell(&mut self, line: usize, cell: &Cell) {
        let (weights, token) = (self.weights, self.token);
        if line == weights.source.line_count() {
            return;
        }
        if let Ok(at) = self.places.binary_search_by_key(&line, |place| place.0) {
            let matched = cell.all().map(|trail| matched(weights, trail, token, self.places[at].1));
            self.next.extend(matched.map(|trail| (line + 1, Kind::Matched, trail)));
        }
        if weights.replaces(token, line) {
            let cost = (weights.gone.line(line) + weights.new[token]) / REPLACED;
            let gap = |trail: &Trail, cost: i32| (line + 1, Kind::Gap, trail.changed(cost));
            self.next.extend(cell.matched.iter().map(|trail| gap(trail, RUN + cost)));
            self.next.extend(cell.gap.iter().map(|trail| gap(trail, cost)));
        }
    }
}

/// The way on with a line of the snippet that is one of the file, or rewrites one of its name.
pub(super) fn matched(weights: &Weights<'_>, trail: &Trail, token: usize, against: i32) -> Trail {
    let mut trail = Trail { cost: trail.cost + against, ..*trail };
    if weights.ids[token].is_none() {
        // Another line of the same name.
        return trail.changed(0);
    }
    if !is_blank(weights.text(token)) {
        trail.worth = trail.worth.saturating_add(weights.worth[token]);
        trail.flags |= if weights.is_telling[token] { TOLD } else { 0 };
    }
    trail
}
