//! Places labels next to points without overlap.
//!
//! Invariant: a label lies inside the plot and does not overlap an earlier one; points that lie on each other and have the same
//! label share one.

use crate::plot::Plot;
use crate::sheet::TEXT;
use crate::svg::{Anchor, Svg};
use crate::text::width;

/// Points nearer than this, in pixels, are one to a reader.
const SAME_POINT: f64 = 8.0;

/// The labels placed so far.
#[derive(Default)]
pub(crate) struct Labels {
    /// Their points and texts.
    labelled: Vec<((f64, f64), String)>,
    /// Left, right, top and bottom of each label.
    taken: Vec<[f64; 4]>,
    /// Whether labels go beside their points where they can, because intervals stand above and below.
    beside_first: bool,
}

impl Labels {
    /// Labels that go beside their points where they can.
    pub(crate) fn beside_first() -> Labels {
        Labels { beside_first: true, ..Labels::default() }
    }

    /// Keeps labels off an area: left, right, top and bottom.
    pub(crate) fn reserve(&mut self, area: [f64; 4]) {
        self.taken.push(area);
    }

    /// Draws the label of a point above, below or beside it; one without room is only in the table.
    pub(crate) fn draw(&mut self, svg: &mut Svg, plot: &Plot, (x, y): (f64, f64), label: &str) {
        let is_there =
            |((at_x, at_y), text): &((f64, f64), String)| text == label && (at_x - x).hypot(at_y - y) < SAME_POINT;
        if label.is_empty() || self.labelled.iter().any(is_there) {
            return;
        }
        let extent = width(label, TEXT);
        let centred = (x - extent / 2.0).min(plot.right - extent).max(plot.left);
        let (after, before) = (x + 8.0, x - 8.0);
        // What ends before its point is held at its end, as a reader's font may be wider than was thought.
        let mut places = [
            (Anchor::Start, centred, y - 9.0),
            (Anchor::Start, centred, y + 18.0),
            (Anchor::Start, after, y + 4.0),
            (Anchor::End, before, y + 4.0),
        ];
        if self.beside_first {
            places.rotate_left(2);
        }
        let area = |(anchor, at, baseline): (Anchor, f64, f64)| {
            let left = if anchor == Anchor::End { at - extent } else { at };
            [left, left + extent, baseline - 10.0, baseline + 3.0]
        };
        let free = |place: &(Anchor, f64, f64)| {
            let [left, right, top, bottom] = area(*place);
            let inside = left >= plot.left && right <= plot.right && top >= plot.top && bottom <= plot.bottom;
            inside && self.taken.iter().all(|[l, r, t, b]| right <= *l || left >= *r || bottom <= *t || top >= *b)
        };
        if let Some(place) = places.into_iter().find(free) {
            svg.text((place.1, place.2), place.0, "label halo", label);
            self.taken.push(area(place));
            self.labelled.push(((x, y), label.to_owned()));
        }
    }
}
