//! Requests as horizontal bars over the time of a run.
//!
//! A few named rows get a line each; many share lanes, each lane holding one request at a time, so that the height of the
//! picture is the number in flight.
//!
//! Invariant: if there are too many rows, every k-th is drawn and that is stated; failed rows are always drawn as long as
//! they fit, and always counted.

use std::collections::BTreeSet;

use crate::format;
use crate::scale::{Axis, Mapping, Origin};
use crate::sheet::{Chart, LINE, Sheet, TEXT};
use crate::svg::{Anchor, Path};
use crate::table::{Column, Table};
use crate::text::{shorten, width};

/// How a request ended.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Outcome {
    /// Completed.
    #[default]
    Good,
    /// Failed, with the kind of failure.
    Failed(String),
    /// Cancelled by the client.
    Cancelled,
}

/// One request. Times are seconds since the run began.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct TimelineRow {
    /// Its name, shown if there are few rows; empty for none.
    pub label: String,
    /// When it was sent (or due).
    pub start: f64,
    /// When its first text arrived; `None` if there was none.
    pub first: Option<f64>,
    /// When it ended.
    pub end: f64,
    /// How it ended.
    pub outcome: Outcome,
}

/// Requests over the time of a run.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct TimelineChart {
    /// Title of the chart.
    pub title: String,
    /// Text alternative, and a summary for the reader.
    pub description: String,
    /// The requests.
    pub rows: Vec<TimelineRow>,
}

/// Limit for drawn rows, which bounds the size of the file.
const MAX_ROWS: usize = 4_000;
/// Limit for rows with a line and a name each.
const MAX_NAMED_ROWS: usize = 30;
/// Limit for lanes: more than a pixel each at a height of 300 pixels.
const MAX_LANES: usize = 240;
/// Limit for rows of the table.
const MAX_TABLE_ROWS: usize = 200;

impl TimelineChart {
    fn valid_rows(&self) -> Vec<&TimelineRow> {
        let axis = Axis::linear("", "s");
        let mut rows: Vec<&TimelineRow> =
            self.rows.iter().filter(|r| axis.accepts(r.start) && axis.accepts(r.end) && r.end >= r.start).collect();
        rows.sort_by(|a, b| a.start.total_cmp(&b.start));
        rows
    }

    /// The rows to draw, and remarks on the others.
    fn select_rows<'a>(&self, valid: &[&'a TimelineRow]) -> (Vec<&'a TimelineRow>, Vec<String>) {
        let mut remarks = Vec::new();
        let invalid = self.rows.len() - valid.len();
        if invalid > 0 {
            remarks.push(format!("{} not drawn: times are not finite or run backwards.", rows_in_words(invalid)));
        }
        if valid.is_empty() {
            remarks.push("No requests to draw.".to_owned());
        }
        let peak = lanes(valid).1;
        if valid.len() <= MAX_ROWS && peak <= MAX_LANES {
            return (valid.to_vec(), remarks);
        }
        let stride = valid.len().div_ceil(MAX_ROWS).max(peak.div_ceil(MAX_LANES));
        let failed = valid.iter().filter(|r| is_failed(r)).count();
        let keep_failed = failed <= MAX_LANES / 2;
        let selected = |(index, row): &(usize, &&TimelineRow)| index % stride == 0 || (keep_failed && is_failed(row));
        let rows = valid.iter().enumerate().filter(selected).map(|(_, row)| *row).collect();
        let also = if keep_failed && failed > 0 { ", and every failed one" } else { "" };
        remarks.push(format!(
            "Every {} of {} requests is drawn{also}.",
            ordinal(stride),
            format::count(valid.len() as u64)
        ));
        (rows, remarks)
    }

    fn failures(&self) -> Vec<(String, usize)> {
        let mut kinds: Vec<(String, usize)> = Vec::new();
        for row in &self.rows {
            let kind = match &row.outcome {
                Outcome::Good => continue,
                Outcome::Failed(kind) => kind.clone(),
                Outcome::Cancelled => "cancelled".to_owned(),
            };
            match kinds.iter_mut().find(|(name, _)| *name == kind) {
                Some((_, count)) => *count += 1,
                None => kinds.push((kind, 1)),
            }
        }
        kinds.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        kinds
    }

    fn draw_key(&self, sheet: &mut Sheet) {
        let mut names = vec!["waiting for the first text".to_owned(), "text arriving".to_owned()];
        let kinds = self.failures();
        if !kinds.is_empty() {
            let total: usize = kinds.iter().map(|(_, count)| count).sum();
            let listed: Vec<String> = kinds.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
            names.push(format!("failed or cancelled {total}: {}", listed.join(", ")));
        }
        sheet.key(&names, |svg, index, (x, y)| match index {
            0 => svg.rect((x, y - 0.8), (20.0, 1.6), "solid c0"),
            1 => svg.rect((x, y - 4.0), (20.0, 8.0), "solid c0"),
            _ => svg.mark((x + 10.0, y), 4, 3.5, "bad", ""),
        });
    }
}

impl Chart for TimelineChart {
    fn title(&self) -> &str {
        &self.title
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn draw(&self, sheet: &mut Sheet) {
        self.draw_key(sheet);
        let valid = self.valid_rows();
        let (rows, remarks) = self.select_rows(&valid);
        let named = rows.len() <= MAX_NAMED_ROWS && rows.iter().any(|r| !r.label.is_empty());
        let (lane_of, lanes) = if named { ((0..rows.len()).collect(), rows.len()) } else { lanes(&rows) };
        let step = if named { 16.0 } else { (300.0 / lanes.max(1) as f64).clamp(1.5, 12.0) };
        let limit = sheet.width() * 0.25;
        let names: Vec<String> = rows.iter().filter(|_| named).map(|r| shorten(&r.label, limit, TEXT)).collect();
        let widest = names.iter().map(|n| width(n, TEXT)).fold(-8.0, f64::max);
        let left = sheet.left() + widest + 8.0;
        let (top, right) = (sheet.y + 8.0, sheet.right() - 14.0);
        let bottom = top + step * lanes.max(4) as f64 + 4.0;
        let ends: Vec<f64> = rows.iter().flat_map(|r| [r.start, r.end]).collect();
        let target = if sheet.is_narrow() { 5 } else { 8 };
        let axis = Axis::linear("Time since the start", "s");
        let x = Mapping::fit(&axis, &ends, Origin::Zero, (left, right), target);
        draw_time_axis(sheet, &x, (left, right), (top, bottom));
        let heights: Vec<f64> = lane_of.iter().map(|lane| top + 2.0 + step * (*lane as f64 + 0.5)).collect();
        draw_rows(sheet, &rows, &x, &heights, step);
        for (name, y) in names.iter().zip(&heights) {
            sheet.svg.text((left - 8.0, y + 4.0), Anchor::End, "label", name);
        }
        sheet.y = bottom + 6.0 + 2.0 * LINE;
        sheet.svg.text(((left + right) / 2.0, sheet.y - 2.0), Anchor::Middle, "axis", &axis.caption());
        if !named && rows.len() > 1 {
            let peak = crate::timeline::lanes(&valid).1;
            sheet.note(&format!(
                "A lane holds one request at a time. At most {} were in flight.",
                format::count(peak as u64)
            ));
        }
        for remark in remarks {
            sheet.note(&remark);
        }
    }

    fn table(&self) -> Table {
        let valid = self.valid_rows();
        let stride = valid.len().div_ceil(MAX_TABLE_ROWS).max(1);
        let listed: Vec<&&TimelineRow> = valid.iter().step_by(stride).collect();
        let seconds = |value: &dyn Fn(&TimelineRow) -> Option<f64>| {
            format::column(&listed.iter().map(|r| value(r)).collect::<Vec<_>>())
        };
        let (starts, firsts) = (seconds(&|r| Some(r.start)), seconds(&|r| r.first.map(|first| first - r.start)));
        let lengths = seconds(&|r| Some(r.end - r.start));
        let mut table = Table { caption: self.title.clone(), ..Table::default() };
        table.columns = vec![
            Column::words("request"),
            Column::numbers("start", "s"),
            Column::numbers("to first text", "s"),
            Column::numbers("to end", "s"),
            Column::words("outcome"),
        ];
        for (index, row) in listed.iter().enumerate() {
            let name =
                if row.label.is_empty() { format::count((index * stride + 1) as u64) } else { row.label.clone() };
            let outcome = match &row.outcome {
                Outcome::Good => "completed".to_owned(),
                Outcome::Failed(kind) => format!("failed: {kind}"),
                Outcome::Cancelled => "cancelled".to_owned(),
            };
            table.rows.push(vec![name, starts[index].clone(), firsts[index].clone(), lengths[index].clone(), outcome]);
        }
        if stride > 1 {
            table.notes.push(format!(
                "Every {} of {} requests is listed.",
                ordinal(stride),
                format::count(valid.len() as u64)
            ));
        }
        for (kind, count) in self.failures() {
            table.notes.push(format!("{kind}: {}.", format::count(count as u64)));
        }
        table.notes.extend(self.select_rows(&valid).1);
        table
    }
}

fn draw_time_axis(sheet: &mut Sheet, x: &Mapping, (left, right): (f64, f64), (top, bottom): (f64, f64)) {
    for tick in x.placed(|label| width(label, TEXT), 8.0, (sheet.left(), sheet.right())) {
        let at = x.at(tick.value);
        sheet.svg.line((at, top), (at, bottom + 4.0), "grid");
        sheet.svg.text((tick.middle, bottom + 17.0), Anchor::Middle, "tick", tick.label);
    }
    sheet.svg.line((left, bottom), (right, bottom), "base");
}

/// The lane of each row and the number of lanes. Rows must be sorted by start; each takes the first free lane.
fn lanes(rows: &[&TimelineRow]) -> (Vec<usize>, usize) {
    let mut free: BTreeSet<usize> = BTreeSet::new();
    let mut busy: BTreeSet<(u64, usize)> = BTreeSet::new();
    let mut count = 0;
    let lane_of = rows.iter().map(|row| {
        while let Some((end, lane)) = busy.first().copied().filter(|(end, _)| *end <= ordered(row.start)) {
            busy.remove(&(end, lane));
            free.insert(lane);
        }
        let lane = free.pop_first().unwrap_or_else(|| {
            count += 1;
            count - 1
        });
        busy.insert((ordered(row.end), lane));
        lane
    });
    (lane_of.collect(), count)
}

/// An integer with the same order as the finite number.
fn ordered(value: f64) -> u64 {
    let bits = (value + 0.0).to_bits();
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}

fn draw_rows(sheet: &mut Sheet, rows: &[&TimelineRow], x: &Mapping, heights: &[f64], step: f64) {
    let (mut waits, mut bars) = (Path::default(), Path::default());
    for (row, y) in rows.iter().zip(heights) {
        let from = x.at(row.start);
        let end = x.at(row.end).max(from + 0.6);
        let first_x = row.first.filter(|f| f.is_finite()).map_or(end, |f| x.at(f).clamp(from, end));
        waits.level(from, first_x, *y);
        bars.level(first_x, end, *y);
    }
    sheet.svg.stroke(&waits, "wait c0", (step * 0.14).max(0.5));
    sheet.svg.stroke(&bars, "text c0", (step * 0.72).max(1.0));
    let radius = (step * 0.35).clamp(2.2, 4.0);
    for (row, y) in rows.iter().zip(heights).filter(|(row, _)| is_failed(row)) {
        let words = match &row.outcome {
            Outcome::Failed(kind) => kind.as_str(),
            _ => "cancelled",
        };
        sheet.svg.mark((x.at(row.end), *y), 4, radius, "bad", words);
    }
}

fn is_failed(row: &TimelineRow) -> bool {
    row.outcome != Outcome::Good
}

fn rows_in_words(count: usize) -> String {
    if count == 1 { "1 request is".to_owned() } else { format!("{} requests are", format::count(count as u64)) }
}

fn ordinal(n: usize) -> String {
    let ending = match (n % 10, n % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    if n == 2 { "second".to_owned() } else { format!("{n}{ending}") }
}
