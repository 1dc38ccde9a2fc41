//! Plots, bars and sparklines in characters, for a terminal.
//!
//! Width, height and Unicode support are arguments; colour is never used. Invariant: no line is wider than requested or
//! ends in a space, and without `unicode` every byte is ASCII.

use crate::line::LineChart;
use crate::scale::{Mapping, Origin};
use crate::series::{Direction, SeriesStyle};
use crate::text::{cells, columns, shorten_columns};

/// Characters for marks of measured series, in the order of the series.
const MARKS: [char; 6] = ['●', '■', '▲', '◆', '×', '○'];
const ASCII_MARKS: [char; 6] = ['o', '#', '^', '+', 'x', '*'];

/// The chart in at most `width` columns (at least 24) and about `height` lines (at least 8): measured points as marks,
/// lines as dots, marked values as dotted lines with labels.
pub fn plot(chart: &LineChart, width: usize, height: usize, unicode: bool) -> String {
    let (width, height) = (width.clamp(24, 400), height.clamp(8, 200));
    let mut lines = Vec::new();
    for text in [&chart.title, &chart.y.caption()] {
        if !text.is_empty() {
            lines.push(shorten_columns(text, width, unicode));
        }
    }
    let labels = vertical_labels(chart);
    let below = 3 + chart.series.len().min(6) + chart.remarks().len();
    let rows = height.saturating_sub(lines.len() + labels.len() + below).max(5);
    let canvas = Canvas::of(chart, width, rows, unicode);
    for (value, label) in labels {
        lines.push(canvas.label_line(value, label, unicode));
    }
    lines.extend(canvas.lines(unicode));
    lines.extend(canvas.x_axis(chart, unicode));
    lines.extend(key(chart, width, unicode));
    lines.extend(chart.remarks().iter().map(|r| shorten_columns(r, width, unicode)));
    lines.iter().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// One character per value; a missing value is a space. The baseline is zero if no value is negative, so that heights
/// are comparable.
pub fn sparkline(values: &[Option<f64>], unicode: bool) -> String {
    let levels: &[char] = if unicode {
        &['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█']
    } else {
        &['_', '.', '-', '=', '+', '#']
    };
    let drawable = |v: &Option<f64>| v.filter(|v| v.abs() <= crate::scale::LARGEST);
    let (low, high) = values.iter().filter_map(drawable).fold((0.0f64, 0.0f64), |(l, h), v| (l.min(v), h.max(v)));
    let top = (levels.len() - 1) as f64;
    let level = |v: f64| if high > low { ((v - low) / (high - low) * top).round() as usize } else { 0 };
    values.iter().map(|v| drawable(v).map_or(' ', |v| levels[level(v).min(levels.len() - 1)])).collect()
}

/// A horizontal bar of `share` (0 to 1) in `width` columns, padded with spaces.
pub fn bar(share: f64, width: usize, unicode: bool) -> String {
    let width = width.min(400);
    let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
    let eighths = (share * width as f64 * 8.0).round() as usize;
    let mut out = String::new();
    if unicode {
        out.extend(std::iter::repeat_n('█', eighths / 8));
        out.extend(['▏', '▎', '▍', '▌', '▋', '▊', '▉'].get((eighths % 8).wrapping_sub(1)));
    } else {
        out.extend(std::iter::repeat_n('#', (eighths + 4) / 8));
    }
    out.extend(std::iter::repeat_n(' ', width - out.chars().count().min(width)));
    out
}

fn vertical_labels(chart: &LineChart) -> Vec<(f64, &str)> {
    let vertical = chart.marks.iter().filter(|m| m.direction == Direction::Vertical && chart.x.accepts(m.at));
    vertical.map(|m| (m.at, m.label.as_str())).take(4).collect()
}

/// Braille dots (two by four per character) below characters.
struct Canvas {
    x: Mapping,
    y: Mapping,
    gutter: usize,
    wide: usize,
    rows: usize,
    dots: Vec<u8>,
    marks: Vec<Option<char>>,
}

impl Canvas {
    fn of(chart: &LineChart, width: usize, rows: usize, unicode: bool) -> Canvas {
        let (xs, ys) = chart.extents();
        let fit = |from: f64, to: f64, target| Mapping::fit(&chart.y, &ys, Origin::Zero, (from, to), target);
        let y = fit(rows as f64 * 4.0 - 2.0, 1.0, (rows / 3).clamp(2, 6));
        let gutter = y.labelled().map(|(_, label)| columns(label)).max().unwrap_or(0).min(width / 3);
        let wide = width - gutter - 2;
        let x = Mapping::fit(&chart.x, &xs, Origin::Near, (1.0, wide as f64 * 2.0 - 2.0), (wide / 9).clamp(2, 9));
        let cells = wide * rows;
        let mut canvas = Canvas { x, y, gutter, wide, rows, dots: vec![0; cells], marks: vec![None; cells] };
        canvas.draw_marks(chart, unicode);
        for style in [SeriesStyle::Reference, SeriesStyle::Fit, SeriesStyle::Course, SeriesStyle::Measured] {
            for (index, series) in chart.series.iter().enumerate().filter(|(_, s)| s.style == style) {
                for run in chart.runs(series).0 {
                    let points: Vec<(f64, f64)> = run.iter().map(|p| (canvas.x.at(p.x), canvas.y.at(p.y))).collect();
                    let gap = if style == SeriesStyle::Reference { 3 } else { 1 };
                    let joined = style != SeriesStyle::Measured || chart.joins_points();
                    points.windows(2).filter(|_| joined).for_each(|pair| canvas.stroke(pair[0], pair[1], gap));
                    if style == SeriesStyle::Measured {
                        points.iter().for_each(|point| canvas.mark(*point, mark_of(chart, index, unicode)));
                    } else if let Some(point) = points.first() {
                        canvas.stroke(*point, *point, 1);
                    }
                }
            }
        }
        canvas
    }

    fn draw_marks(&mut self, chart: &LineChart, unicode: bool) {
        let (vertical, level) = if unicode { ('┊', '┈') } else { (':', '-') };
        for mark in &chart.marks {
            match mark.direction {
                Direction::Vertical if chart.x.accepts(mark.at) => {
                    let column = self.column_of(mark.at);
                    (0..self.rows).for_each(|row| self.marks[row * self.wide + column] = Some(vertical));
                }
                Direction::Horizontal if chart.y.accepts(mark.at) => {
                    let row = self.row_of(mark.at);
                    (0..self.wide).for_each(|column| self.marks[row * self.wide + column] = Some(level));
                    let label = shorten_columns(&mark.label, self.wide.saturating_sub(4), unicode);
                    let start = row * self.wide + self.wide.saturating_sub(columns(&label) + 1);
                    let places = self.marks[..(row + 1) * self.wide].iter_mut().skip(start);
                    for (place, c) in places.zip(label.chars().flat_map(in_columns)) {
                        *place = Some(c);
                    }
                }
                _ => {}
            }
        }
    }

    fn column_of(&self, value: f64) -> usize {
        ((self.x.at(value) / 2.0) as usize).min(self.wide - 1)
    }

    fn row_of(&self, value: f64) -> usize {
        ((self.y.at(value) / 4.0) as usize).min(self.rows - 1)
    }

    fn stroke(&mut self, (ax, ay): (f64, f64), (bx, by): (f64, f64), gap: usize) {
        let steps = (bx - ax).abs().max((by - ay).abs()).ceil().max(1.0) as usize;
        for step in (0..=steps).step_by(gap) {
            let t = step as f64 / steps as f64;
            let (x, y) = ((ax + t * (bx - ax)).round() as usize, (ay + t * (by - ay)).round() as usize);
            let (column, row) = ((x / 2).min(self.wide - 1), (y / 4).min(self.rows - 1));
            self.dots[row * self.wide + column] |= braille_bit(x % 2, y % 4);
        }
    }

    fn mark(&mut self, (x, y): (f64, f64), mark: char) {
        let (column, row) = ((x / 2.0) as usize, (y / 4.0) as usize);
        self.marks[row.min(self.rows - 1) * self.wide + column.min(self.wide - 1)] = Some(mark);
    }

    /// The rows with tick labels on the left.
    fn lines(&self, unicode: bool) -> Vec<String> {
        let (axis, tick) = if unicode { ('│', '┤') } else { ('|', '+') };
        let labels: Vec<(usize, &str)> = self.y.fitting(4.0).iter().map(|(v, l)| (self.row_of(*v), *l)).collect();
        (0..self.rows)
            .map(|row| {
                let label = labels.iter().find(|(at, _)| *at == row).map(|(_, label)| *label);
                let text = shorten_columns(&ascii_minus(label.unwrap_or(""), unicode), self.gutter, unicode);
                let padding = " ".repeat(self.gutter - columns(&text));
                let edge = if label.is_some() { tick } else { axis };
                let cells = self.row_text(row, unicode);
                format!("{padding}{text} {edge}{cells}")
            })
            .collect()
    }

    /// The characters of a row. A wide character whose second column was overwritten by a mark becomes a space.
    fn row_text(&self, row: usize, unicode: bool) -> String {
        let chars: Vec<char> = (0..self.wide).map(|column| self.cell(row, column, unicode)).collect();
        let whole = |i: usize| cells(chars[i]) == 2 && chars.get(i + 1) == Some(&WIDE_TAIL);
        let shown = |i: usize| match chars[i] {
            WIDE_TAIL if i > 0 && whole(i - 1) => None,
            c if cells(c) == 1 && c != WIDE_TAIL || whole(i) => Some(c),
            _ => Some(' '),
        };
        (0..chars.len()).filter_map(shown).collect()
    }

    fn cell(&self, row: usize, column: usize, unicode: bool) -> char {
        let (dots, mark) = (self.dots[row * self.wide + column], self.marks[row * self.wide + column]);
        let guide = |c: &char| matches!(c, '┊' | '┈' | ':' | '-');
        match mark {
            Some(mark) if dots == 0 || !guide(&mark) => mark,
            _ if dots == 0 => ' ',
            _ if unicode => char::from_u32(0x2800 + u32::from(dots)).unwrap_or('.'),
            _ => '.',
        }
    }

    fn label_line(&self, value: f64, label: &str, unicode: bool) -> String {
        let room = self.gutter + 1 + self.wide;
        let label = shorten_columns(label, room, unicode);
        let centre = self.gutter + 2 + self.column_of(value);
        let start = centre.saturating_sub(columns(&label) / 2).min(room + 1 - columns(&label).min(room + 1));
        format!("{}{label}", " ".repeat(start))
    }

    fn x_axis(&self, chart: &LineChart, unicode: bool) -> Vec<String> {
        let (corner, flat, tick) = if unicode { ('└', '─', '┴') } else { ('+', '-', '+') };
        // Two dots per column; labels stay between the axis and the right edge.
        let edges = (-2.0 * (self.gutter + 2) as f64, 2.0 * self.wide as f64);
        let mut rule = vec![flat; self.wide];
        let mut labels = vec![' '; self.gutter + 2 + self.wide];
        for place in self.x.placed(|label| columns(label) as f64 * 2.0, 4.0, edges) {
            let chars: Vec<char> = ascii_minus(place.label, unicode).chars().collect();
            let wanted = (self.gutter + 2 + self.column_of(place.value)).saturating_sub(chars.len() / 2);
            let start = wanted.min(labels.len().saturating_sub(chars.len()));
            rule[self.column_of(place.value)] = tick;
            for (slot, c) in labels.iter_mut().skip(start).zip(chars) {
                *slot = c;
            }
        }
        let caption = shorten_columns(&chart.x.caption(), self.wide, unicode);
        let indent = self.gutter + 2 + (self.wide - columns(&caption)) / 2;
        vec![
            format!("{} {corner}{}", " ".repeat(self.gutter), rule.iter().collect::<String>()),
            labels.into_iter().collect(),
            format!("{}{caption}", " ".repeat(indent)),
        ]
    }
}

/// Placeholder for the second column of a wide character.
const WIDE_TAIL: char = '\0';

/// One entry per terminal column of a character.
fn in_columns(c: char) -> impl Iterator<Item = char> {
    [c, WIDE_TAIL].into_iter().take(cells(c))
}

fn ascii_minus(text: &str, unicode: bool) -> String {
    if unicode { text.to_owned() } else { text.replace('−', "-").replace('µ', "u") }
}

fn braille_bit(x: usize, y: usize) -> u8 {
    [[0x01, 0x02, 0x04, 0x40], [0x08, 0x10, 0x20, 0x80]][x][y]
}

fn mark_of(chart: &LineChart, index: usize, unicode: bool) -> char {
    let marks = if unicode { MARKS } else { ASCII_MARKS };
    marks[chart.tone(index) % marks.len()]
}

fn key(chart: &LineChart, width: usize, unicode: bool) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for (index, series) in chart.series.iter().enumerate().filter(|(_, s)| !s.name.is_empty() && !s.style.is_dots()) {
        let sign = match series.style {
            SeriesStyle::Measured => mark_of(chart, index, unicode).to_string(),
            SeriesStyle::Course | SeriesStyle::Fit => if unicode { "⠒⠒" } else { ".." }.to_owned(),
            SeriesStyle::Reference | SeriesStyle::Dots | SeriesStyle::Grey => {
                if unicode { "⠂⠐" } else { ". ." }.to_owned()
            }
        };
        let entry = shorten_columns(&format!("{sign} {}", series.name), width.saturating_sub(2), unicode);
        match lines.last_mut() {
            Some(line) if columns(line) + 3 + columns(&entry) <= width => line.extend(["   ", &entry]),
            _ => lines.push(format!("  {entry}")),
        }
    }
    lines
}
