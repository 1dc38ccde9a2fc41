//! Box plots: five percentiles of a distribution per row.
//!
//! Percentiles are computed by the caller, who knows which ones the sample size allows. Invariant: the key says which
//! percentiles the whiskers are; nothing is called an outlier.

use crate::format;
use crate::rows::Rows;
use crate::scale::Axis;
use crate::sheet::{Chart, Sheet, TEXT};
use crate::svg::{Anchor, Path};
use crate::table::{Column, Table};
use crate::text::width;

/// One distribution. It is drawn only if the five values are increasing.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct BoxRow {
    /// Its name.
    pub label: String,
    /// The five [`BoxChart::percentiles`], increasing; `None` if there are not enough samples.
    pub values: Option<[f64; 5]>,
    /// Number of samples.
    pub n: u64,
}

/// A box plot chart.
#[derive(Clone, Debug, PartialEq)]
pub struct BoxChart {
    /// Title of the chart.
    pub title: String,
    /// Text alternative, and a summary for the reader.
    pub description: String,
    /// The value axis.
    pub axis: Axis,
    /// Names of the five percentiles: whisker, box, middle, box, whisker.
    pub percentiles: [String; 5],
    /// The distributions, top to bottom.
    pub rows: Vec<BoxRow>,
}

impl Default for BoxChart {
    fn default() -> BoxChart {
        BoxChart {
            title: String::new(),
            description: String::new(),
            axis: Axis::default(),
            percentiles: ["p5", "p25", "p50", "p75", "p95"].map(str::to_owned),
            rows: Vec::new(),
        }
    }
}

impl BoxChart {
    fn drawable(&self, row: &BoxRow) -> Option<[f64; 5]> {
        let valid = |v: &[f64; 5]| v.iter().all(|v| self.axis.accepts(*v)) && v.windows(2).all(|p| p[0] <= p[1]);
        row.values.filter(valid)
    }
}

impl Chart for BoxChart {
    fn title(&self) -> &str {
        &self.title
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn draw(&self, sheet: &mut Sheet) {
        let [outer_low, low, middle, high, outer_high] = &self.percentiles;
        let key = [format!("{low} to {high}"), middle.clone(), format!("{outer_low} to {outer_high}")];
        sheet.key(&key, |svg, index, (x, y)| match index {
            0 => svg.rect((x, y - 5.0), (20.0, 10.0), "box c0"),
            1 => svg.line((x + 10.0, y - 6.0), (x + 10.0, y + 6.0), "line c0"),
            _ => svg.line((x, y), (x + 20.0, y), "whisker c0"),
        });
        let drawable: Vec<Option<[f64; 5]>> = self.rows.iter().map(|r| self.drawable(r)).collect();
        let values: Vec<f64> = drawable.iter().flatten().flatten().copied().collect();
        let sizes: Vec<String> = self.rows.iter().map(|r| format!("n = {}", format::count(r.n))).collect();
        let room = sizes.iter().map(|t| width(t, TEXT)).fold(0.0, f64::max) + 16.0;
        let names: Vec<&str> = self.rows.iter().map(|r| r.label.as_str()).collect();
        let rows = Rows::draw(sheet, &self.axis, &values, &names, room);
        for (index, values) in drawable.iter().enumerate() {
            let y = rows.centre_of(index);
            sheet.svg.text((sheet.right(), y + 4.0), Anchor::End, "faint", &sizes[index]);
            let Some(values) = values else {
                sheet.svg.text((rows.left + 6.0, y + 4.0), Anchor::Start, "note halo", "not enough samples");
                continue;
            };
            let [a, b, c, d, e] = values.map(|v| rows.x.at(v));
            let mut whiskers = Path::default();
            whiskers.segment((a, y), (b, y));
            whiskers.segment((d, y), (e, y));
            for x in [a, e] {
                whiskers.segment((x, y - 4.0), (x, y + 4.0));
            }
            sheet.svg.path(&whiskers, "whisker c0");
            sheet.svg.rect((b, y - 8.0), ((d - b).max(1.0), 16.0), "box c0");
            sheet.svg.line((c, y - 8.0), (c, y + 8.0), "line c0");
        }
        if values.is_empty() {
            sheet.note("No data to draw.");
        }
    }

    fn table(&self) -> Table {
        let mut table = Table { caption: self.title.clone(), ..Table::default() };
        table.columns = vec![Column::words(""), Column::numbers("n", "")];
        table.columns.extend(self.percentiles.iter().map(|p| Column::numbers(p, &self.axis.unit)));
        let columns: Vec<Vec<String>> = (0..5)
            .map(|i| format::column(&self.rows.iter().map(|r| r.values.map(|v| v[i])).collect::<Vec<_>>()))
            .collect();
        for (index, row) in self.rows.iter().enumerate() {
            let mut cells = vec![row.label.clone(), format::count(row.n)];
            cells.extend(columns.iter().map(|column| column[index].clone()));
            table.rows.push(cells);
        }
        let invalid = self.rows.iter().filter(|r| r.values.is_some() && self.drawable(r).is_none()).count();
        if invalid > 0 {
            table.notes.push(format!("{invalid} not drawn: values are not finite, not rising or not on the axis."));
        }
        table
    }
}
