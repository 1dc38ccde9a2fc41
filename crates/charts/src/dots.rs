//! Single measurements as small dots behind a course: thousands of them in one path.
//!
//! Invariant: dots stay below lines and are never joined; the table lists the course, not the dots.

use crate::line::Drawable;
use crate::plot::Plot;
use crate::svg::{Path, Svg};

/// Draws the dots of a run: a zero-length segment each, which a round line end makes a disc.
pub(crate) fn draw(svg: &mut Svg, plot: &Plot, run: &[Drawable<'_>], class: &str) {
    let mut path = Path::default();
    for point in run {
        path.dot((plot.x.at(point.x), plot.y.at(point.y)));
    }
    svg.path(&path, class);
}
