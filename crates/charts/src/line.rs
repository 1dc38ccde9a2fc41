//! Line charts: measured points with intervals, fitted curves with bands, reference lines, marked values.
//!
//! Invariant: a missing value leaves a gap, never a zero; values that cannot be drawn are counted and reported.

use crate::dots;
use crate::end_labels::spread;
use crate::format::{self, MISSING};
use crate::labels::Labels;
use crate::plot::{Layout, Plot};
use crate::scale::Axis;
use crate::series::{Band, Direction, Mark, Point, Series, SeriesStyle};
use crate::sheet::{Chart, LINE, Sheet, TEXT};
use crate::svg::{Anchor, Path, SHAPES, Svg};
use crate::table::{Column, Table};
use crate::text::{WIDEST_FONT, shorten, width};

/// A line chart.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct LineChart {
    /// Title of the chart.
    pub title: String,
    /// Text alternative, and a summary for the reader.
    pub description: String,
    /// The x-axis.
    pub x: Axis,
    /// The y-axis; from zero if linear.
    pub y: Axis,
    /// The lines.
    pub series: Vec<Series>,
    /// Marked values.
    pub marks: Vec<Mark>,
    /// Tinted ranges.
    pub bands: Vec<Band>,
}

/// A point that can be drawn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drawable<'a> {
    label: &'a str,
    pub(crate) x: f64,
    pub(crate) y: f64,
    low: Option<f64>,
    high: Option<f64>,
}

impl LineChart {
    /// The drawable points of a series, sorted by x and split at missing values, and the number of points that cannot
    /// be drawn on these axes.
    pub(crate) fn runs<'s>(&self, series: &'s Series) -> (Vec<Vec<Drawable<'s>>>, usize) {
        let mut points: Vec<&Point> = series.points.iter().collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        let mut runs = vec![Vec::new()];
        let mut dropped = 0;
        for point in points {
            let end = |value: Option<f64>| value.filter(|v| self.y.accepts(*v));
            match point.y {
                Some(y) if self.x.accepts(point.x) && self.y.accepts(y) => {
                    let (low, high) = (end(point.low), end(point.high));
                    let drawable = Drawable { label: &point.label, x: point.x, y, low, high };
                    if let Some(run) = runs.last_mut() {
                        run.push(drawable);
                    }
                }
                other => {
                    dropped += usize::from(other.is_some());
                    runs.push(Vec::new());
                }
            }
        }
        runs.retain(|run| !run.is_empty());
        (runs, dropped)
    }

    /// All values that the axes must cover.
    pub(crate) fn extents(&self) -> (Vec<f64>, Vec<f64>) {
        let (mut xs, mut ys) = (Vec::new(), Vec::new());
        // Measured positions first: positions between them must not affect the ticks.
        let mut ordered: Vec<&Series> = self.series.iter().collect();
        ordered.sort_by_key(|s| s.style == SeriesStyle::Fit);
        for series in ordered {
            for point in self.runs(series).0.into_iter().flatten() {
                let (low, high) = bounds(&xs);
                if series.style != SeriesStyle::Fit || point.x < low || point.x > high {
                    xs.push(point.x);
                }
                ys.extend([Some(point.y), point.low, point.high].into_iter().flatten());
            }
        }
        for mark in self.marks.iter().filter(|m| m.at.is_finite()) {
            match mark.direction {
                Direction::Vertical if self.x.accepts(mark.at) && !xs.contains(&mark.at) => {
                    let (low, high) = bounds(&xs);
                    if mark.at < low || mark.at > high {
                        xs.push(mark.at);
                    }
                }
                Direction::Horizontal => ys.push(mark.at),
                Direction::Vertical => {}
            }
        }
        (xs, ys)
    }

    /// Remarks on what could not be drawn.
    pub(crate) fn remarks(&self) -> Vec<String> {
        let dropped: usize = self.series.iter().map(|s| self.runs(s).1).sum();
        let logarithmic = [&self.x, &self.y].iter().any(|axis| axis.scale == crate::scale::Scale::Log);
        let why = if logarithmic { "not finite, or not positive on a log scale" } else { "not finite" };
        let mut remarks = Vec::new();
        if self.series.iter().all(|s| self.runs(s).0.is_empty()) {
            remarks.push("No data to draw.".to_owned());
        }
        if dropped > 0 {
            let points = if dropped == 1 { "1 point is".to_owned() } else { format!("{dropped} points are") };
            remarks.push(format!("{points} not drawn: {why}."));
        }
        remarks
    }

    /// Index of the colour and shape of a series (see [`colour`] and [`shape`]). A fit shares it with the preceding
    /// measured series.
    pub(crate) fn tone(&self, index: usize) -> usize {
        let measured = |series: &&Series| matches!(series.style, SeriesStyle::Measured | SeriesStyle::Course);
        let before = self.series[..index].iter().filter(measured).count();
        let shares = self.series[index].style == SeriesStyle::Fit && before > 0;
        if shares { before - 1 } else { before }
    }

    /// Whether measured points are joined: not if a fitted curve runs through them.
    pub(crate) fn joins_points(&self) -> bool {
        self.series.iter().all(|s| s.style != SeriesStyle::Fit)
    }

    /// Whether a series has a name at the end of its line.
    fn is_named(series: &Series) -> bool {
        !series.name.is_empty() && !series.style.is_dots()
    }

    fn end_labels(&self, sheet: &Sheet) -> Option<(f64, Vec<String>)> {
        let named = self.series.iter().filter(|s| Self::is_named(s) && !self.runs(s).0.is_empty()).count();
        if sheet.is_narrow() || named == 0 || named > 12 {
            return None;
        }
        let limit = 190.0;
        let name =
            |series: &Series| if Self::is_named(series) { shorten(&series.name, limit, TEXT) } else { String::new() };
        let names: Vec<String> = self.series.iter().map(name).collect();
        Some((names.iter().map(|n| width(n, TEXT) * WIDEST_FONT).fold(0.0, f64::max) + 14.0, names))
    }

    fn draw_key(&self, sheet: &mut Sheet) {
        let shown: Vec<usize> = (0..self.series.len()).filter(|i| !self.series[*i].name.is_empty()).collect();
        let names: Vec<String> = shown.iter().map(|i| self.series[*i].name.clone()).collect();
        sheet.key(&names, |svg, row, (x, y)| {
            let index = shown[row];
            let series = &self.series[index];
            if series.style.is_dots() {
                (0..3).for_each(|i| {
                    svg.line(
                        (x + 3.0 + 7.0 * f64::from(i), y),
                        (x + 3.0 + 7.0 * f64::from(i), y),
                        &line_class(series.style, self.tone(index)),
                    )
                });
            } else if series.style != SeriesStyle::Measured || self.joins_points() {
                svg.line((x, y), (x + 20.0, y), &line_class(series.style, self.tone(index)));
            }
            if series.style == SeriesStyle::Measured {
                let tone = self.tone(index);
                svg.mark((x + 10.0, y), shape(tone), 4.0, &colour(tone), "");
            }
        });
    }

    fn draw_series(&self, svg: &mut Svg, plot: &Plot, index: usize, labels: &mut Labels) {
        let series = &self.series[index];
        let tone = self.tone(index);
        for run in self.runs(series).0 {
            if series.style.is_dots() {
                let class = if series.style == SeriesStyle::Grey {
                    "dots".to_owned()
                } else {
                    format!("dots {}", colour(tone))
                };
                let at = run.iter().map(|point| (plot.x.at(point.x), plot.y.at(point.y)));
                dots::draw(svg, at, &class);
                continue;
            }
            if series.style == SeriesStyle::Course && run.len() == 1 {
                self.draw_points(svg, plot, &run, (&series.name, tone), labels);
                continue;
            }
            let mut path = Path::default();
            for point in &run {
                path.to((plot.x.at(point.x), plot.y.at(point.y)));
            }
            if series.style != SeriesStyle::Measured {
                svg.path(&area(plot, &run), &format!("area {}", colour(tone)));
            }
            if series.style != SeriesStyle::Measured || self.joins_points() {
                svg.path(&path, &line_class(series.style, tone));
            }
            if series.style == SeriesStyle::Measured {
                self.draw_points(svg, plot, &run, (&series.name, tone), labels);
            }
        }
    }

    fn draw_points(
        &self,
        svg: &mut Svg,
        plot: &Plot,
        run: &[Drawable<'_>],
        (name, tone): (&str, usize),
        labels: &mut Labels,
    ) {
        let mut whiskers = Path::default();
        for point in run {
            if let (Some(low), Some(high)) = (point.low, point.high) {
                let x = plot.x.at(point.x);
                let (low, high) = (plot.y.at(low), plot.y.at(high));
                whiskers.segment((x, low), (x, high));
                whiskers.segment((x - 3.0, low), (x + 3.0, low));
                whiskers.segment((x - 3.0, high), (x + 3.0, high));
            }
        }
        svg.path(&whiskers, &format!("whisker {}", colour(tone)));
        let radius = if run.len() > 60 { 2.5 } else { 4.0 };
        for point in run {
            let words = self.words(name, point);
            svg.mark((plot.x.at(point.x), plot.y.at(point.y)), shape(tone), radius, &colour(tone), &words);
            labels.draw(svg, plot, (plot.x.at(point.x), plot.y.at(point.y)), point.label);
        }
    }

    fn words(&self, name: &str, point: &Drawable<'_>) -> String {
        let interval = match (point.low, point.high) {
            (Some(low), Some(high)) => format!(" ({})", format::interval(low, high)),
            _ => String::new(),
        };
        let named = [name, point.label].into_iter().filter(|name| !name.is_empty());
        let name: String = named.map(|name| format!("{name}, ")).collect();
        let unit = if self.x.unit.is_empty() {
            format!("{} {}", self.x.label, format::plain(point.x))
        } else {
            self.x.quantity(point.x)
        };
        format!("{name}{unit}: {}{interval}", format::quantity(point.y, &self.y.unit))
    }

    fn draw_bands(&self, svg: &mut Svg, plot: &Plot) {
        let mut stripe = 0;
        for band in &self.bands {
            let mapping = match band.direction {
                Direction::Horizontal => &plot.y,
                Direction::Vertical => &plot.x,
            };
            let Some((from, to)) = range_on(mapping, band.from, band.to) else { continue };
            let class = if stripe % 2 == 0 { "band1" } else { "band0" };
            stripe += 1;
            match band.direction {
                Direction::Horizontal => {
                    svg.rect((plot.left, to), (plot.right - plot.left, from - to), class);
                    if from - to >= 12.0 {
                        let upper = to + (12.0f64).min((from - to + 8.0) / 2.0);
                        self.draw_band_name(svg, plot, &band.name, [upper, upper.max(from - 5.0)]);
                    }
                }
                Direction::Vertical => {
                    svg.rect((from, plot.top), (to - from, plot.bottom - plot.top), class);
                    let name = shorten(&band.name, to - from - 8.0, 11.5);
                    if name.chars().count() > 2 {
                        svg.text((from + 4.0, plot.top + 13.0), Anchor::Start, "note", &name);
                    }
                }
            }
        }
    }

    /// Draws the name of a horizontal band where no line crosses it: left, right or centre, at the first baseline that is free.
    fn draw_band_name(&self, svg: &mut Svg, plot: &Plot, name: &str, baselines: [f64; 2]) {
        let name = shorten(name, (plot.right - plot.left) * 0.4, 11.5);
        let extent = width(&name, 11.5);
        let places = [plot.left + 8.0, plot.right - 8.0 - extent, (plot.left + plot.right - extent) / 2.0];
        let is_free = |(x, baseline): &(f64, f64)| {
            !self.lines_cross(plot, (*x, *x + extent), (*baseline - 11.0, *baseline + 3.0))
        };
        let free = baselines.into_iter().flat_map(|baseline| places.map(|x| (x, baseline))).find(is_free);
        svg.text(free.unwrap_or((places[1], baselines[0])), Anchor::Start, "note halo", &name);
    }

    fn lines_cross(&self, plot: &Plot, (left, right): (f64, f64), (top, bottom): (f64, f64)) -> bool {
        self.series.iter().flat_map(|s| self.runs(s).0).any(|run| {
            let points: Vec<(f64, f64)> = run.iter().map(|p| (plot.x.at(p.x), plot.y.at(p.y))).collect();
            let inside =
                |(x, y): (f64, f64)| (left - 6.0..=right + 6.0).contains(&x) && (top - 5.0..=bottom + 5.0).contains(&y);
            points.iter().any(|p| inside(*p))
                || points.windows(2).any(|pair| {
                    let ((ax, ay), (bx, by)) = (pair[0], pair[1]);
                    (0..=40).map(|i| f64::from(i) / 40.0).any(|t| inside((ax + t * (bx - ax), ay + t * (by - ay))))
                })
        })
    }

    fn draw_marks(&self, svg: &mut Svg, plot: &Plot, label_rows: &[(usize, f64)]) {
        for (index, mark) in self.marks.iter().enumerate() {
            let range = mark.low.zip(mark.high);
            match mark.direction {
                Direction::Vertical if self.x.accepts(mark.at) => {
                    if let Some((from, to)) = range.and_then(|(low, high)| range_on(&plot.x, low, high)) {
                        svg.rect((from, plot.top), (to - from, plot.bottom - plot.top), "span");
                    }
                    let x = plot.x.at(mark.at);
                    let row = label_rows.iter().find(|(i, _)| *i == index).map_or(0.0, |(_, row)| *row);
                    svg.line((x, plot.top - 4.0 - row * LINE), (x, plot.bottom), "ref");
                }
                Direction::Horizontal if self.y.accepts(mark.at) => {
                    if let Some((from, to)) = range.and_then(|(low, high)| range_on(&plot.y, low, high)) {
                        svg.rect((plot.left, to), (plot.right - plot.left, from - to), "span");
                    }
                    let y = plot.y.at(mark.at);
                    svg.line((plot.left, y), (plot.right, y), "ref");
                    let label = shorten(&mark.label, plot.right - plot.left - 16.0, TEXT);
                    let extent = width(&label, TEXT);
                    let places = [plot.right - 6.0 - extent, plot.left + 6.0];
                    let free =
                        places.into_iter().find(|x| !self.lines_cross(plot, (*x, *x + extent), (y - 16.0, y - 2.0)));
                    svg.text((free.unwrap_or(places[0]), y - 5.0), Anchor::Start, "label halo", &label);
                }
                _ => {}
            }
        }
    }

    fn draw_names(&self, svg: &mut Svg, plot: &Plot, names: &[String]) {
        let ends: Vec<(usize, f64, f64)> = (0..self.series.len())
            .filter(|i| !names[*i].is_empty())
            .filter_map(|i| {
                let last = *self.runs(&self.series[i]).0.last()?.last()?;
                Some((i, plot.x.at(last.x), plot.y.at(last.y)))
            })
            .collect();
        let wanted: Vec<f64> = ends.iter().map(|end| end.2 + 4.0).collect();
        let placed = spread(&wanted, plot.top + 8.0, plot.bottom);
        for ((index, x, y), label_y) in ends.into_iter().zip(placed) {
            if (label_y - 4.0 - y).abs() > 5.0 || plot.right - x > 24.0 {
                svg.line((x + 6.0, y), (plot.right + 3.0, label_y - 4.0), "leader");
            }
            svg.text((plot.right + 6.0, label_y), Anchor::Start, "label", &names[index]);
        }
    }

    /// Assigns label rows above the plot to vertical marks, counted upwards.
    fn label_rows(&self, sheet: &Sheet, x_of: impl Fn(f64) -> f64) -> Vec<(usize, f64)> {
        let mut rows: Vec<Vec<(f64, f64)>> = Vec::new();
        let mut out = Vec::new();
        for (index, mark) in self.marks.iter().enumerate() {
            if mark.direction != Direction::Vertical || !self.x.accepts(mark.at) {
                continue;
            }
            let (left, right) = mark_label_extent(sheet, &mark.label, x_of(mark.at));
            let free = |row: &Vec<(f64, f64)>| row.iter().all(|(l, r)| right + 8.0 < *l || left - 8.0 > *r);
            let row = rows.iter().position(free).unwrap_or_else(|| {
                rows.push(Vec::new());
                rows.len() - 1
            });
            rows[row].push((left, right));
            out.push((index, row as f64));
        }
        out
    }
}

impl Chart for LineChart {
    fn title(&self) -> &str {
        &self.title
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn draw(&self, sheet: &mut Sheet) {
        sheet.caption(&self.y.caption());
        let ends = self.end_labels(sheet);
        if ends.is_none() {
            self.draw_key(sheet);
        }
        let (xs, ys) = self.extents();
        if self.series.iter().all(|s| self.runs(s).0.is_empty()) {
            // No data, no axes.
            self.remarks().iter().for_each(|remark| sheet.note(remark));
            return;
        }
        let height = if sheet.is_narrow() { 230.0 } else { 320.0 };
        let right_room = ends.as_ref().map_or(0.0, |(room, _)| *room);
        let layout = Layout { x: &self.x, y: &self.y, xs: &xs, ys: &ys, right_room, height };
        let plan = Plot::lay(sheet, &layout);
        let rows = self.label_rows(sheet, |value| plan.x.at(value));
        if let Some(top_row) = rows.iter().map(|(_, row)| *row).reduce(f64::max) {
            sheet.y += (top_row + 1.0) * LINE + 4.0;
        }
        let plot = Plot::lay(sheet, &layout);
        self.draw_bands(&mut sheet.svg, &plot);
        plot.draw_axes(sheet, &self.x.caption());
        self.draw_marks(&mut sheet.svg, &plot, &rows);
        for (index, row) in &rows {
            let mark = &self.marks[*index];
            let (left, _) = mark_label_extent(sheet, &mark.label, plot.x.at(mark.at));
            let label = shorten(&mark.label, sheet.width() * 0.6, TEXT);
            sheet.svg.text((left, plot.top - 8.0 - row * LINE), Anchor::Start, "label halo strong", &label);
        }
        let mut labels = Labels::default();
        for index in 0..self.series.len() {
            self.draw_series(&mut sheet.svg, &plot, index, &mut labels);
        }
        if let Some((_, names)) = ends {
            self.draw_names(&mut sheet.svg, &plot, &names);
        }
        for remark in self.remarks() {
            sheet.note(&remark);
        }
    }

    fn table(&self) -> Table {
        let only_fits = self.series.iter().all(|s| s.style == SeriesStyle::Fit);
        let is_listed = |s: &&Series| !s.style.is_dots() && (only_fits || s.style != SeriesStyle::Fit);
        let listed: Vec<&Series> = self.series.iter().filter(is_listed).collect();
        let mut xs: Vec<f64> = listed.iter().flat_map(|s| s.points.iter().map(|p| p.x)).collect();
        xs.sort_by(f64::total_cmp);
        xs.dedup_by(|a, b| a == b || (a.is_nan() && b.is_nan()));
        let mut table = Table { caption: self.title.clone(), ..Table::default() };
        let mut cells: Vec<Vec<String>> = Vec::new();
        if listed.iter().flat_map(|series| &series.points).any(|point| !point.label.is_empty()) {
            table.columns.push(Column::words(""));
            cells.push(xs.iter().map(|x| labels_at(&listed, *x)).collect());
        }
        table.columns.push(Column::numbers(&self.x.label, self.x.column_unit()));
        cells.push(xs.iter().map(|x| self.x.cell(*x)).collect());
        for series in listed {
            let at = |x: &f64| series.points.iter().find(|p| p.x == *x || (p.x.is_nan() && x.is_nan()));
            let name = if series.name.is_empty() { &self.y.label } else { &series.name };
            let values: Vec<Option<f64>> = xs.iter().map(|x| at(x).and_then(|p| p.y)).collect();
            table.columns.push(Column::numbers(name, &self.y.unit));
            cells.push(format::column(&values));
            if series.points.iter().any(|p| p.low.is_some() || p.high.is_some()) {
                table.columns.push(Column::numbers("interval", &self.y.unit));
                cells.push(xs.iter().map(|x| interval_of(at(x))).collect());
            }
        }
        table.rows = (0..xs.len()).map(|row| cells.iter().map(|column| column[row].clone()).collect()).collect();
        table.notes = self.table_notes(only_fits);
        table
    }
}

impl LineChart {
    fn table_notes(&self, only_fits: bool) -> Vec<String> {
        let mut notes = Vec::new();
        for mark in &self.marks {
            let axis = if mark.direction == Direction::Vertical { &self.x } else { &self.y };
            let interval =
                mark.low.zip(mark.high).map_or_else(String::new, |(l, h)| format!(" ({})", format::interval(l, h)));
            notes.push(format!("Marked at {}{interval}: {}.", axis.quantity(mark.at), mark.label));
        }
        for band in &self.bands {
            let axis = if band.direction == Direction::Vertical { &self.x } else { &self.y };
            let range = match (band.from.is_finite(), band.to.is_finite()) {
                (_, false) => format!("above {}", axis.quantity(band.from)),
                (false, true) => format!("below {}", axis.quantity(band.to)),
                _ => format!("{} to {}", axis.cell(band.from), axis.quantity(band.to)),
            };
            notes.push(format!("{}: {range}.", band.name));
        }
        for fit in self.series.iter().filter(|s| s.style == SeriesStyle::Fit && !only_fits) {
            notes.push(format!("“{}” is a fitted curve, drawn but not listed.", fit.name));
        }
        notes.extend(self.remarks());
        notes
    }
}

/// The labels of all points at `x`.
fn labels_at(listed: &[&Series], x: f64) -> String {
    let points = listed.iter().flat_map(|series| &series.points).filter(|point| point.x == x);
    let labels: Vec<&str> = points.map(|point| point.label.as_str()).filter(|label| !label.is_empty()).collect();
    labels.join(", ")
}

fn interval_of(point: Option<&Point>) -> String {
    match point.map(|p| (p.low, p.high)) {
        Some((Some(low), Some(high))) => format::interval(low, high),
        _ => MISSING.to_owned(),
    }
}

fn bounds(values: &[f64]) -> (f64, f64) {
    values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(*v), high.max(*v)))
}

fn mark_label_extent(sheet: &Sheet, label: &str, x: f64) -> (f64, f64) {
    let label = shorten(label, sheet.width() * 0.6, TEXT);
    // Bold text is wider.
    let extent = width(&label, TEXT) * 1.1;
    let furthest = sheet.right() - extent * WIDEST_FONT - EDGE_AIR;
    let left = (x - extent / 2.0).clamp(sheet.left(), furthest.max(sheet.left()));
    (left, left + extent)
}

/// Room between a label and the right edge of the sheet, as between others.
const EDGE_AIR: f64 = 8.0;

/// The pixel range of a range of values; `None` if it lies off the axis.
fn range_on(mapping: &crate::scale::Mapping, from: f64, to: f64) -> Option<(f64, f64)> {
    let (low, high) = mapping.domain();
    if from.is_nan() || to.is_nan() || from >= to || from >= high || to <= low {
        return None;
    }
    Some((mapping.at(from.max(low)), mapping.at(to.min(high))))
}

/// The band between the ends of the intervals of a run; empty when a point lacks one.
fn area(plot: &Plot, run: &[Drawable<'_>]) -> Path {
    let mut path = Path::default();
    let upper: Option<Vec<(f64, f64)>> = run.iter().map(|p| Some((plot.x.at(p.x), plot.y.at(p.high?)))).collect();
    let lower: Option<Vec<(f64, f64)>> = run.iter().rev().map(|p| Some((plot.x.at(p.x), plot.y.at(p.low?)))).collect();
    if let (Some(mut outline), Some(lower)) = (upper, lower) {
        outline.extend(lower);
        path.polygon(&outline);
    }
    path
}

/// The colour class of the `tone`-th line.
fn colour(tone: usize) -> String {
    format!("c{}", tone % SHAPES)
}

/// Mark shape of the `tone`-th line: each round of colours shifts the shapes by one.
fn shape(tone: usize) -> usize {
    tone + tone / SHAPES
}

fn line_class(style: SeriesStyle, tone: usize) -> String {
    match style {
        SeriesStyle::Measured => format!("line thin {}", colour(tone)),
        SeriesStyle::Course | SeriesStyle::Fit => format!("line {}", colour(tone)),
        SeriesStyle::Reference => "ref".to_owned(),
        SeriesStyle::Dots => format!("dots {}", colour(tone)),
        SeriesStyle::Grey => "dots".to_owned(),
    }
}
