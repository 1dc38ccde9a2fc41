//! Counts over a time range as stacked columns, with the same numbers as a table.
//!
//! A count belongs to its step of the range and to nothing between two steps, so that no line joins them. Invariant: columns begin at
//! zero and heights are counts; what is beyond the colours that can be told apart is summed up as the last one.

use std::fmt::Write as _;
use tokrate_charts::{Column, Table, escape, format};
use tokrate_core::{Date, rfc3339};
use tokrate_store::{Report, USUAL_LENGTHS_MS};

/// Counts of one kind, one for each step of the range.
pub(super) struct Counts {
    /// What is counted.
    pub name: String,
    /// How many in each step.
    pub counts: Vec<u64>,
}

/// A chart.
pub(super) struct Columns<'a> {
    /// Its title.
    pub title: &'static str,
    /// What a height is.
    pub caption: &'static str,
    /// The range.
    pub report: &'a Report,
    /// The kinds, from the bottom up.
    pub kinds: Vec<Counts>,
}

/// Lanes or kinds in one chart: more cannot be told apart.
pub(super) const MAX_SERIES: usize = 6;
/// Their colours in the charts' style sheet.
const TONES: [&str; MAX_SERIES] = ["c0", "c1", "c2", "c3", "c4", "c5"];
/// Sizes in the units of the view box: width of the sheet, room for labels at its left, height of the plot.
const SIZES: [(&str, f64, u64); 2] = [("wide", 560.0, 6), ("narrow", 360.0, 4)];
const LEFT: f64 = 40.0;
const HEIGHT: f64 = 190.0;
const LINE: f64 = 18.0;
/// A letter's width at the size of labels, for a wide font.
const LETTER: f64 = 7.0;

impl Columns<'_> {
    /// Writes the figure; `section` makes its names unique.
    pub fn render(mut self, out: &mut String, section: &str) {
        self.fold();
        let id = format!("{section}-{}", self.title.to_lowercase().replace(' ', "-"));
        let _ = write!(out, "<figure><h3>{}</h3>", escape(self.title));
        for (class, width, ticks) in SIZES {
            let _ = write!(out, "<div class=\"{class}\">{}</div>", self.picture(width, ticks));
        }
        let _ = write!(
            out,
            "<details id=\"{id}\"><summary id=\"{id}-head\">The numbers as a table</summary>{}</details></figure>",
            self.table().html()
        );
    }

    /// Sums up the rarest kinds, where there are more than colours.
    fn fold(&mut self) {
        if self.kinds.len() > MAX_SERIES {
            let rest = self.kinds.split_off(MAX_SERIES - 1);
            let sum = |step: usize| rest.iter().map(|kind| kind.counts[step]).sum();
            let counts = (0..self.report.buckets).map(sum).collect();
            self.kinds.push(Counts { name: "others".to_owned(), counts });
        }
    }

    fn sum_of(&self, step: usize) -> u64 {
        self.kinds.iter().map(|kind| kind.counts[step]).sum()
    }

    fn picture(&self, width: f64, ticks: u64) -> String {
        let steps = self.report.buckets;
        let most = (0..steps).map(|step| self.sum_of(step)).max().unwrap_or(0);
        let (tick, top) = scale_of(most);
        let key_lines = self.key_lines(width);
        let plot = LINE + key_lines.len() as f64 * LINE + 10.0;
        let height = plot + HEIGHT + 40.0;
        let total: u64 = (0..steps).map(|step| self.sum_of(step)).sum();
        let said =
            format!("{}, {} in all, at most {} in a step", self.title, format::count(total), format::count(most));
        let mut svg = format!(
            "<svg class=\"tk\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\"><text class=\"axis\" x=\"0\" y=\"12\">{}, in steps of {}</text>",
            escape(&said),
            escape(self.caption),
            escape(&format::seconds(self.report.bucket_ms as f64 / 1e3))
        );
        self.key(&mut svg, &key_lines);
        let y = |count: u64| plot + HEIGHT - HEIGHT * count as f64 / top as f64;
        let mut mark = 0;
        while mark <= top {
            let at = y(mark);
            let class = if mark == 0 { "base" } else { "grid" };
            let _ = write!(
                svg,
                "<path class=\"{class}\" d=\"M{LEFT} {at:.1}H{width}\"/><text class=\"tick\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 6.0,
                at + 4.0,
                format::count(mark)
            );
            mark += tick;
        }
        let step_width = (width - LEFT) / steps as f64;
        for step in 0..steps {
            let mut below = 0;
            for (tone, kind) in TONES.iter().zip(&self.kinds) {
                let count = kind.counts[step];
                if count > 0 {
                    let (from, to) = (y(below), y(below + count));
                    let _ = write!(
                        svg,
                        "<rect class=\"solid {tone}\" x=\"{:.1}\" y=\"{to:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
                        LEFT + step_width * step as f64 + step_width * 0.1,
                        step_width * 0.8,
                        from - to
                    );
                }
                below += count;
            }
        }
        self.times(&mut svg, (width, ticks), plot + HEIGHT, step_width);
        svg + "</svg>"
    }

    /// The kinds in as many lines as they need: index, place and name.
    fn key_lines(&self, width: f64) -> Vec<Vec<(usize, f64, &str)>> {
        let mut lines = vec![Vec::new()];
        let mut x = 0.0;
        for (index, kind) in self.kinds.iter().enumerate().filter(|(_, kind)| !kind.name.is_empty()) {
            let needed = 18.0 + LETTER * kind.name.chars().count() as f64 + 14.0;
            if x > 0.0 && x + needed > width {
                lines.push(Vec::new());
                x = 0.0;
            }
            if let Some(line) = lines.last_mut() {
                line.push((index, x, kind.name.as_str()));
            }
            x += needed;
        }
        lines.retain(|line| !line.is_empty());
        lines
    }

    fn key(&self, svg: &mut String, lines: &[Vec<(usize, f64, &str)>]) {
        for (number, line) in (1..).zip(lines) {
            let y = LINE * f64::from(number) + 12.0;
            for (index, x, name) in line {
                let tone = TONES.get(*index).unwrap_or(&TONES[0]);
                let _ = write!(
                    svg,
                    "<rect class=\"solid {tone}\" x=\"{x:.1}\" y=\"{:.1}\" width=\"12\" height=\"10\"/><text class=\"label\" x=\"{:.1}\" y=\"{y:.1}\">{}</text>",
                    y - 9.0,
                    x + 17.0,
                    escape(name)
                );
            }
        }
    }

    /// Round times below the columns, the date where it is new.
    fn times(&self, svg: &mut String, (width, ticks): (f64, u64), bottom: f64, step_width: f64) {
        let report = self.report;
        let (first, length) = (report.bucket_unix_ms(0), report.bucket_ms * report.buckets as u64);
        let distance = USUAL_LENGTHS_MS.into_iter().find(|tick| length / tick <= ticks).unwrap_or(length.max(1));
        let mut last_day = None;
        let mut unix_ms = first.div_ceil(distance) * distance;
        while unix_ms < first + length {
            let x = LEFT + step_width * (unix_ms - first) as f64 / report.bucket_ms as f64;
            let (label, day) = (clock(unix_ms), unix_ms / 86_400_000);
            let Date { year, month, day: of_month } = Date::of_seconds(unix_ms / 1_000);
            let date = format!("{year:04}-{month:02}-{of_month:02}");
            let mut write = |y: f64, text: &str| {
                // No label goes over the edge.
                if x + LETTER * text.len() as f64 <= width {
                    let _ = write!(svg, "<text class=\"tick\" x=\"{x:.1}\" y=\"{y:.1}\">{text}</text>");
                }
            };
            write(bottom + 16.0, &label);
            if last_day != Some(day) {
                write(bottom + 32.0, &date);
            }
            let _ = write!(svg, "<path class=\"base\" d=\"M{x:.1} {bottom:.1}v4\"/>");
            last_day = Some(day);
            unix_ms += distance;
        }
    }

    fn table(&self) -> Table {
        let name = |kind: &Counts| if kind.name.is_empty() { "count".to_owned() } else { kind.name.clone() };
        let mut columns = vec![Column::words("step begins (UTC)")];
        columns.extend(self.kinds.iter().map(|kind| Column::numbers(name(kind), "")));
        let row = |step: usize| {
            let mut row = vec![rfc3339(self.report.bucket_unix_ms(step) / 1_000)];
            row.extend(self.kinds.iter().map(|kind| format::count(kind.counts[step])));
            row
        };
        // Of nothing there is nothing to read.
        let rows = (0..self.report.buckets).filter(|step| self.sum_of(*step) > 0).map(row).collect();
        let notes = vec!["Steps in which there was none are left out.".to_owned()];
        Table { caption: self.title.to_owned(), columns, rows, notes }
    }
}

/// The time of day: "14:05", with seconds where steps are shorter than a minute.
fn clock(unix_ms: u64) -> String {
    let second = unix_ms / 1_000 % 86_400;
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    if second == 0 { format!("{hour:02}:{minute:02}") } else { format!("{hour:02}:{minute:02}:{second:02}") }
}

/// A round distance between marks, and the last one, for counts up to `most`.
fn scale_of(most: u64) -> (u64, u64) {
    let rough = most.div_ceil(5).max(1);
    let power = 10u64.pow(rough.ilog10());
    let tick = [1, 2, 5, 10].into_iter().map(|digit| digit * power).find(|tick| *tick >= rough).unwrap_or(10 * power);
    (tick, most.div_ceil(tick).max(1) * tick)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_has_few_round_marks_and_covers_what_is_there() {
        for most in [0, 1, 2, 7, 49, 1_234, 9_999_999] {
            let (tick, top) = scale_of(most);
            assert!(top >= most && top % tick == 0 && (1..=6).contains(&(top / tick)), "{most}: {tick} {top}");
        }
    }

    #[test]
    fn kinds_beyond_the_colours_are_summed_up() {
        let report = Report { buckets: 2, bucket_ms: 60_000, until_unix_ms: 120_000, ..Report::default() };
        let kinds = (0..9).map(|n| Counts { name: format!("kind-{n}"), counts: vec![n, 1] }).collect();
        let mut chart = Columns { title: "Failed", caption: "Attempts", report: &report, kinds };
        chart.fold();
        assert_eq!((chart.kinds.len(), chart.kinds[5].counts.clone()), (6, vec![5 + 6 + 7 + 8, 4]));
        let picture = chart.picture(560.0, 6);
        assert_eq!(picture.matches("<rect class=\"solid").count(), 6 + 11, "a zero has no column: {picture}");
    }
}
