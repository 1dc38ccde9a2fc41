//! Single measurements as small dots behind a course: thousands of them in one path.
//!
//! Invariant: dots stay below lines and are never joined; the table lists the course, not the dots.

use crate::svg::{Path, Svg};

/// Draws dots: a segment without length each, which a round line end makes a disc.
pub(crate) fn draw(svg: &mut Svg, at: impl Iterator<Item = (f64, f64)>, class: &str) {
    let mut path = Path::default();
    at.for_each(|point| path.dot(point));
    svg.path(&path, class);
}
