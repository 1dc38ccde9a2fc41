//! Heat maps: numbers in a grid of tinted cells.
//!
//! Colour is never the only information: every cell wide enough prints its number, and the table has them all. Invariant: a
//! missing value is an empty cell with a dash, never the palest tint.

use crate::format;
use crate::sheet::{Chart, LINE, Sheet, TEXT};
use crate::svg::Anchor;
use crate::table::{Column, Table};
use crate::text::{shorten, width};

/// A heat map.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct HeatMap {
    /// Title of the chart.
    pub title: String,
    /// Text alternative, and a summary for the reader.
    pub description: String,
    /// What the cells measure. The tint goes from zero (or the lowest value if negative) to the highest.
    pub label: String,
    /// Whether the tint begins at the lowest value instead, so that small differences show.
    pub from_lowest: bool,
    /// The unit of the cells.
    pub unit: String,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Names of the rows, each with its cells.
    pub rows: Vec<(String, Vec<Option<f64>>)>,
}

impl HeatMap {
    fn cell(&self, row: usize, column: usize) -> Option<f64> {
        self.rows[row].1.get(column).copied().flatten().filter(|v| v.is_finite() && v.abs() < 1e200)
    }

    fn tint(&self, value: f64) -> usize {
        let all = (0..self.rows.len()).flat_map(|r| (0..self.columns.len()).filter_map(move |c| self.cell(r, c)));
        let start = if self.from_lowest { (f64::INFINITY, f64::NEG_INFINITY) } else { (0.0, f64::MIN_POSITIVE) };
        let (low, high) = all.fold(start, |(l, h), v| (l.min(v), h.max(v)));
        // All values equal: the middle tint.
        if high <= low {
            return 2;
        }
        ((value - low) / (high - low) * 5.999).clamp(0.0, 5.0) as usize
    }
}

/// A cell's number; whole ones without decimals.
fn written(value: f64) -> String {
    if value == value.trunc() { format::plain(value) } else { format::number(value) }
}

impl Chart for HeatMap {
    fn title(&self) -> &str {
        &self.title
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn draw(&self, sheet: &mut Sheet) {
        let unit = if self.unit.is_empty() { String::new() } else { format!(", {}", self.unit) };
        sheet.caption(&format!("{}{unit}", self.label));
        let limit = sheet.width() * 0.25;
        let names: Vec<String> = self.rows.iter().map(|(name, _)| shorten(name, limit, TEXT)).collect();
        let left = sheet.left() + names.iter().map(|n| width(n, TEXT)).fold(0.0, f64::max) + 12.0;
        let step = (sheet.right() - left) / self.columns.len().max(1) as f64;
        sheet.y += LINE + 6.0;
        for (index, name) in self.columns.iter().enumerate() {
            let name = shorten(name, step - 4.0, TEXT);
            let centre = left + step * (index as f64 + 0.5);
            sheet.svg.text((centre, sheet.y - 5.0), Anchor::Middle, "tick", &name);
        }
        for (row, name) in names.iter().enumerate() {
            sheet.svg.text((left - 8.0, sheet.y + 17.0), Anchor::End, "label", name);
            for column in 0..self.columns.len() {
                let corner = (left + step * column as f64 + 1.0, sheet.y + 1.0);
                let middle = (corner.0 + step / 2.0 - 1.0, sheet.y + 17.0);
                let Some(value) = self.cell(row, column) else {
                    sheet.svg.text(middle, Anchor::Middle, "faint", "–");
                    continue;
                };
                let tint = self.tint(value);
                sheet.svg.rect(corner, (step - 2.0, 24.0), &format!("tint{tint}"));
                let text = written(value);
                if width(&text, TEXT) <= step - 2.0 {
                    let class = if tint >= 3 { "light" } else { "label" };
                    sheet.svg.text(middle, Anchor::Middle, class, &text);
                }
            }
            sheet.y += 26.0;
        }
        if self.rows.is_empty() || self.columns.is_empty() {
            sheet.note("No data to draw.");
        }
    }

    fn table(&self) -> Table {
        let mut table = Table { caption: self.title.clone(), ..Table::default() };
        table.columns.push(Column::words(""));
        table.columns.extend(self.columns.iter().map(|name| Column::numbers(name, &self.unit)));
        for row in 0..self.rows.len() {
            let mut cells = vec![self.rows[row].0.clone()];
            cells.extend(
                (0..self.columns.len()).map(|c| self.cell(row, c).map_or_else(|| format::MISSING.to_owned(), written)),
            );
            table.rows.push(cells);
        }
        table
    }
}
