//! The frame of bar charts and box plots: rows with names on the left (above them on a phone) and one value axis below.
//!
//! Invariant: names never overlap the plot.

use crate::scale::{Axis, Mapping, Origin};
use crate::sheet::{LINE, Sheet, TEXT};
use crate::svg::Anchor;
use crate::text::{WIDEST_FONT, shorten, width};

/// Share of the width that names beside the bars may take: a provider with its address and model is long.
const MOST_FOR_NAMES: f64 = 0.42;

/// Rows laid out on a sheet.
#[derive(Debug)]
pub(crate) struct Rows {
    pub(crate) x: Mapping,
    pub(crate) left: f64,
    pub(crate) right: f64,
    top: f64,
    step: f64,
    /// Distance from the top of a row to its centre line.
    middle: f64,
    count: usize,
}

impl Rows {
    /// Lays out one row per name and draws names, grid and ticks. `room` is reserved on the right for text.
    pub(crate) fn draw(sheet: &mut Sheet, axis: &Axis, values: &[f64], names: &[&str], room: f64) -> Rows {
        let above = sheet.is_narrow();
        let limit = if above { sheet.width() } else { sheet.width() * MOST_FOR_NAMES };
        let names: Vec<String> = names.iter().map(|n| shorten(n, limit / WIDEST_FONT, TEXT)).collect();
        let widest = names.iter().map(|n| width(n, TEXT) * WIDEST_FONT).fold(0.0, f64::max);
        let left = sheet.left() + if above || widest == 0.0 { 2.0 } else { widest + 12.0 };
        let (step, middle) = if above { (42.0, 28.0) } else { (28.0, 14.0) };
        let right = (sheet.right() - room).max(left + 60.0);
        let target = if above { 4 } else { 7 };
        let x = Mapping::fit(axis, values, Origin::Zero, (left, right), target);
        let rows = Rows { x, left, right, top: sheet.y + 6.0, step, middle, count: names.len() };
        rows.draw_axis(sheet, axis);
        for (index, name) in names.iter().enumerate() {
            let y = rows.centre_of(index);
            if above {
                sheet.svg.text((left, y - 12.0), Anchor::Start, "label halo", name);
            } else {
                sheet.svg.text((left - 10.0, y + 4.0), Anchor::End, "label", name);
            }
        }
        rows
    }

    /// Y coordinate of the centre line of a row.
    pub(crate) fn centre_of(&self, index: usize) -> f64 {
        self.top + self.step * index as f64 + self.middle
    }

    fn draw_axis(&self, sheet: &mut Sheet, axis: &Axis) {
        let bottom = self.top + self.step * self.count.max(1) as f64 + 4.0;
        for tick in self.x.placed(|label| width(label, TEXT), 8.0, (sheet.left(), sheet.right())) {
            let x = self.x.at(tick.value);
            let class = if tick.value == 0.0 { "base" } else { "grid" };
            sheet.svg.line((x, self.top), (x, bottom), class);
            sheet.svg.text((tick.middle, bottom + 15.0), Anchor::Middle, "tick", tick.label);
        }
        sheet.y = bottom + 4.0 + LINE;
        for line in crate::text::wrap(&axis.caption(), sheet.width(), TEXT, 2) {
            sheet.y += LINE;
            let half = width(&line, TEXT) / 2.0;
            let centre = ((self.left + self.right) / 2.0).min(sheet.right() - half).max(sheet.left() + half);
            sheet.svg.text((centre, sheet.y - 2.0), Anchor::Middle, "axis", &line);
        }
    }
}
