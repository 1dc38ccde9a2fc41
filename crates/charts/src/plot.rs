//! The plot area: two axes with grid, ticks and captions.
//!
//! Invariant: tick labels never overlap and never leave the sheet.

use crate::scale::{Axis, Mapping, Origin};
use crate::sheet::{LINE, Sheet, TEXT};
use crate::svg::Anchor;
use crate::text::width;

/// Two axes laid out on a sheet.
#[derive(Debug)]
pub(crate) struct Plot {
    pub(crate) x: Mapping,
    pub(crate) y: Mapping,
    pub(crate) left: f64,
    pub(crate) right: f64,
    pub(crate) top: f64,
    pub(crate) bottom: f64,
}

/// Data and size of a plot.
pub(crate) struct Layout<'a> {
    pub(crate) x: &'a Axis,
    pub(crate) y: &'a Axis,
    pub(crate) xs: &'a [f64],
    pub(crate) ys: &'a [f64],
    /// Space reserved on the right for line labels.
    pub(crate) right_room: f64,
    pub(crate) height: f64,
}

impl Plot {
    /// Lays out the plot below the current position. Nothing is drawn yet.
    pub(crate) fn lay(sheet: &Sheet, layout: &Layout<'_>) -> Plot {
        let top = sheet.y + 8.0;
        let bottom = top + layout.height;
        let y = Mapping::fit(layout.y, layout.ys, Origin::Zero, (bottom, top), if sheet.is_narrow() { 5 } else { 6 });
        let widest = y.labelled().map(|(_, label)| width(label, TEXT)).fold(0.0, f64::max);
        let left = sheet.left() + widest + 8.0;
        let right = (sheet.right() - layout.right_room.max(8.0)).max(left + 60.0);
        let target = if sheet.is_narrow() { 5 } else { 8 };
        // Keeps the marks of the first and last value off the edge.
        let x = Mapping::fit(layout.x, layout.xs, Origin::Near, (left + 8.0, right - 8.0), target);
        Plot { x, y, left, right, top, bottom }
    }

    /// Draws grid, ticks and the caption of the x-axis, and moves the sheet below them.
    pub(crate) fn draw_axes(&self, sheet: &mut Sheet, x_caption: &str) {
        for (value, label) in self.y.fitting(TEXT + 4.0) {
            let y = self.y.at(value);
            let class = if value == 0.0 || (y - self.bottom).abs() < 0.5 { "base" } else { "grid" };
            sheet.svg.line((self.left, y), (self.right, y), class);
            sheet.svg.text((self.left - 6.0, y + 4.0), Anchor::End, "tick", label);
        }
        sheet.svg.line((self.left, self.bottom), (self.right, self.bottom), "base");
        self.draw_x_ticks(sheet);
        sheet.y = self.bottom + 6.0 + LINE;
        draw_centred(sheet, (self.left + self.right) / 2.0, x_caption);
    }

    fn draw_x_ticks(&self, sheet: &mut Sheet) {
        for tick in self.x.placed(|label| width(label, TEXT), 8.0, (sheet.left(), sheet.right())) {
            let x = self.x.at(tick.value);
            sheet.svg.line((x, self.bottom), (x, self.bottom + 4.0), "base");
            sheet.svg.text((tick.middle, self.bottom + 17.0), Anchor::Middle, "tick", tick.label);
        }
    }
}

fn draw_centred(sheet: &mut Sheet, centre: f64, caption: &str) {
    for line in crate::text::wrap(caption, sheet.width(), TEXT, 2) {
        sheet.y += LINE;
        let half = width(&line, TEXT) / 2.0;
        let x = centre.min(sheet.right() - half).max(sheet.left() + half);
        sheet.svg.text((x, sheet.y - 2.0), Anchor::Middle, "axis", &line);
    }
}
