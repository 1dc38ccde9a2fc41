//! Horizontal bar charts with intervals.
//!
//! Invariant: bars start at zero on a linear axis, so that their lengths are ratios; a missing value is written as text,
//! never drawn as a bar of length zero.

use crate::format::{self, MISSING};
use crate::rows::Rows;
use crate::scale::{Axis, Scale};
use crate::sheet::{Chart, Sheet, TEXT};
use crate::svg::{Anchor, Path};
use crate::table::{Column, Table};
use crate::text::{WIDEST_FONT, shorten, width};

/// One bar.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Bar {
    /// Its name.
    pub label: String,
    /// Its value; `None` if missing.
    pub value: Option<f64>,
    /// Lower end of its interval.
    pub low: Option<f64>,
    /// Upper end of its interval.
    pub high: Option<f64>,
    /// A remark, such as why the value is missing; empty for none.
    pub note: String,
}

/// A bar chart.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct BarChart {
    /// Title of the chart.
    pub title: String,
    /// Text alternative, and a summary for the reader.
    pub description: String,
    /// The value axis, always linear from zero.
    pub axis: Axis,
    /// The bars, top to bottom.
    pub bars: Vec<Bar>,
}

impl BarChart {
    fn axis(&self) -> Axis {
        Axis { scale: Scale::Linear, ..self.axis.clone() }
    }

    fn values(&self) -> Vec<f64> {
        let axis = self.axis();
        self.bars.iter().flat_map(|b| [b.value, b.low, b.high]).flatten().filter(|v| axis.accepts(*v)).collect()
    }

    /// The values as they are written: times in their own unit, other numbers with equal decimals.
    fn texts(&self) -> Vec<String> {
        if self.axis.is_time() {
            return self.bars.iter().map(|bar| bar.value.map_or_else(|| MISSING.to_owned(), format::seconds)).collect();
        }
        format::column(&self.bars.iter().map(|bar| bar.value).collect::<Vec<_>>())
    }

    fn words(bar: &Bar, text: &str, drawable: bool) -> String {
        let value = if drawable { text.to_owned() } else { MISSING.to_owned() };
        if bar.note.is_empty() { value } else { format!("{value} ({})", bar.note) }
    }
}

impl Chart for BarChart {
    fn title(&self) -> &str {
        &self.title
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn draw(&self, sheet: &mut Sheet) {
        let axis = self.axis();
        let names: Vec<&str> = self.bars.iter().map(|b| b.label.as_str()).collect();
        let drawable = |v: Option<f64>| v.filter(|v| axis.accepts(*v));
        let texts = self.texts();
        let words: Vec<String> =
            self.bars.iter().zip(&texts).map(|(b, text)| Self::words(b, text, drawable(b.value).is_some())).collect();
        // Room for the longest words, but most of the width is the bars'.
        let longest = words.iter().map(|words| width(words, TEXT)).fold(0.0, f64::max);
        let room = (longest * WIDEST_FONT).min(sheet.width() * 0.34) + 14.0;
        let rows = Rows::draw(sheet, &axis, &self.values(), &names, room);
        let zero = rows.x.at(0.0);
        for (index, bar) in self.bars.iter().enumerate() {
            let y = rows.centre_of(index);
            let mut end = zero;
            if let Some(value) = drawable(bar.value) {
                let to = rows.x.at(value);
                sheet.svg.rect((zero.min(to), y - 8.0), ((to - zero).abs(), 16.0), "solid c0");
                end = end.max(to);
            }
            if let (Some(_), Some(low), Some(high)) = (drawable(bar.value), drawable(bar.low), drawable(bar.high)) {
                let (low, high) = (rows.x.at(low), rows.x.at(high));
                let mut halo = Path::default();
                halo.segment((low, y), (high, y));
                let mut path = halo.clone();
                for x in [low, high] {
                    path.segment((x, y - 4.0), (x, y + 4.0));
                }
                sheet.svg.path(&halo, "cut");
                sheet.svg.path(&path, "whisker ink");
                end = end.max(high);
            }
            let words = shorten(&words[index], (sheet.right() - end - 14.0) / WIDEST_FONT, TEXT);
            sheet.svg.text((end + 7.0, y + 4.0), Anchor::Start, "label halo", &words);
        }
        if self.values().is_empty() {
            sheet.note("No data to draw.");
        }
    }

    fn table(&self) -> Table {
        let values: Vec<Option<f64>> = self.bars.iter().map(|b| b.value).collect();
        let texts = format::column(&values);
        let intervals = self.bars.iter().any(|b| b.low.is_some() || b.high.is_some());
        let notes = self.bars.iter().any(|b| !b.note.is_empty());
        let mut table = Table { caption: self.title.clone(), ..Table::default() };
        table.columns = vec![Column::words(""), Column::numbers(&self.axis.label, &self.axis.unit)];
        if intervals {
            table.columns.push(Column::numbers("interval", &self.axis.unit));
        }
        if notes {
            table.columns.push(Column::words("remark"));
        }
        for (bar, text) in self.bars.iter().zip(texts) {
            let mut row = vec![bar.label.clone(), text];
            if intervals {
                row.push(format::interval(bar.low.unwrap_or(f64::NAN), bar.high.unwrap_or(f64::NAN)));
            }
            if notes {
                row.push(bar.note.clone());
            }
            table.rows.push(row);
        }
        table
    }
}
