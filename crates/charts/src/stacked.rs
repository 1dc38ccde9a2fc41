//! Horizontal bars made of parts that add up, such as the steps of a request; each part is named where it lies.
//!
//! Invariant: lengths are ratios, from zero on a linear axis; a part that is too narrow for its name is named behind its bar, so that none
//! goes unnamed.

use crate::format::{self, MISSING};
use crate::rows::Rows;
use crate::scale::{Axis, Scale};
use crate::sheet::{Chart, Sheet, TEXT};
use crate::svg::Anchor;
use crate::table::{Column, Table};
use crate::text::{WIDEST_FONT, shorten, width};

/// Fills, light to dark in the order of the parts; from [`LIGHT_TEXT`] on, the text upon them is light.
const TINTS: [&str; 6] = ["tint0", "tint1", "tint2", "tint3", "tint4", "tint5"];
const LIGHT_TEXT: usize = 3;

/// A bar and the values of its parts, in the order of [`StackedChart::parts`].
#[derive(Clone, Debug, PartialEq, Default)]
pub struct StackedBar {
    /// Its name.
    pub label: String,
    /// Its parts.
    pub values: Vec<f64>,
}

/// Bars of parts.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct StackedChart {
    /// Title of the chart.
    pub title: String,
    /// Text alternative, and a summary for the reader.
    pub description: String,
    /// The value axis, always linear from zero.
    pub axis: Axis,
    /// Names of the parts, first to last; at most six have a colour of their own.
    pub parts: Vec<String>,
    /// The bars, top to bottom.
    pub bars: Vec<StackedBar>,
}

impl StackedChart {
    fn axis(&self) -> Axis {
        Axis { scale: Scale::Linear, ..self.axis.clone() }
    }

    /// The parts of a bar that can be drawn: place and value.
    fn drawn<'a>(&'a self, bar: &'a StackedBar) -> impl Iterator<Item = (usize, f64)> + 'a {
        let values = bar.values.iter().copied().take(self.parts.len()).enumerate();
        values.filter(|(_, value)| value.is_finite() && *value > 0.0)
    }

    /// What all parts of a bar come to; `None` if that cannot be drawn.
    fn total(&self, bar: &StackedBar) -> Option<f64> {
        let total = self.drawn(bar).map(|(_, value)| value).sum::<f64>();
        Some(total).filter(|total| *total > 0.0 && self.axis().accepts(*total))
    }

    fn named(&self, (place, value): (usize, f64)) -> String {
        format!("{} {}", self.parts[place], format::number(value))
    }
}

impl Chart for StackedChart {
    fn title(&self) -> &str {
        &self.title
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn draw(&self, sheet: &mut Sheet) {
        let axis = self.axis();
        let names: Vec<&str> = self.bars.iter().map(|bar| bar.label.as_str()).collect();
        let totals: Vec<f64> = self.bars.iter().filter_map(|bar| self.total(bar)).collect();
        let rows = Rows::draw(sheet, &axis, &totals, &names, sheet.width() * 0.3);
        let zero = rows.x.at(0.0);
        for (index, bar) in self.bars.iter().enumerate() {
            let y = rows.centre_of(index);
            let Some(total) = self.total(bar) else {
                sheet.svg.text((zero + 7.0, y + 4.0), Anchor::Start, "label halo", MISSING);
                continue;
            };
            let (mut before, mut behind) = (0.0, Vec::new());
            for part in self.drawn(bar) {
                let (from, to) = (rows.x.at(before), rows.x.at(before + part.1));
                before += part.1;
                sheet.svg.rect((from, y - 9.0), (to - from, 18.0), TINTS[part.0.min(TINTS.len() - 1)]);
                let name = self.named(part);
                if width(&name, TEXT) * WIDEST_FONT + 6.0 <= to - from {
                    let class = if part.0 >= LIGHT_TEXT { "label light" } else { "label" };
                    sheet.svg.text(((from + to) / 2.0, y + 4.0), Anchor::Middle, class, &name);
                } else {
                    behind.push(name);
                }
            }
            let end = rows.x.at(total);
            let mut words = format::number(total);
            if !behind.is_empty() {
                words = format!("{words} (with {})", behind.join(", "));
            }
            let words = shorten(&words, (sheet.right() - end - 10.0) / WIDEST_FONT, TEXT);
            sheet.svg.text((end + 7.0, y + 4.0), Anchor::Start, "label halo", &words);
        }
        if totals.is_empty() {
            sheet.note("No data to draw.");
        }
    }

    fn table(&self) -> Table {
        let unit = &self.axis.unit;
        let columns = self.parts.iter().map(|part| Column::numbers(part, unit));
        let rows = self.bars.iter().map(|bar| {
            let cell = |place: usize| bar.values.get(place).map_or(MISSING.to_owned(), |value| format::number(*value));
            let total = self.total(bar).map_or(MISSING.to_owned(), format::number);
            std::iter::once(bar.label.clone()).chain((0..self.parts.len()).map(cell)).chain([total]).collect()
        });
        Table {
            caption: self.title.clone(),
            columns: std::iter::once(Column::words(""))
                .chain(columns)
                .chain([Column::numbers("in all", unit)])
                .collect(),
            rows: rows.collect(),
            notes: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(values: &[f64]) -> StackedChart {
        StackedChart {
            title: "Steps".to_owned(),
            axis: Axis::linear("Since begun", "ms"),
            parts: vec!["TLS".to_owned(), "head".to_owned()],
            bars: vec![StackedBar { label: "c = 1".to_owned(), values: values.to_vec() }],
            ..StackedChart::default()
        }
    }

    #[test]
    fn a_part_is_named_where_it_lies_or_behind_its_bar() {
        let svg = chart(&[40.0, 60.0]).svg();
        assert!(svg.contains(">TLS 40.0<") && svg.contains(">head 60.0<") && svg.contains(">100<"), "{svg}");
        let svg = chart(&[0.1, 99.9]).svg();
        assert!(svg.contains("100 (with TLS 0.1") && svg.contains(">head 99.9<"), "{svg}");
    }

    #[test]
    fn what_cannot_be_drawn_is_said_and_the_table_has_every_part() {
        assert!(chart(&[f64::NAN, -1.0]).svg().contains("No data to draw."));
        let table = chart(&[40.0]).table();
        assert_eq!(table.rows, [["c = 1", "40.0", MISSING, "40.0"]]);
        assert_eq!(table.columns.len(), 4);
    }
}
