//! Distributions of samples: cumulative (empirical) distributions, or histograms with one strip per sample.
//!
//! Failures count as infinite: they keep a curve below 100 %. Invariant: a percentile of too small a sample is reported as
//! missing, never drawn. The minimum sample sizes are those that give a percentile an upper bound with 99 % confidence
//! (MLPerf): p90 64, p95 130, p99 662.

use crate::format;
use crate::plot::{Layout, Plot};
use crate::scale::{Axis, Mapping, Origin};
use crate::sheet::{Chart, LINE, Sheet, TEXT};
use crate::svg::{Anchor, Path, SHAPES, Svg};
use crate::table::{Column, Table};
use crate::text::{shorten, width};

/// The form of the chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum DistributionKind {
    /// Cumulative share of samples, one curve per sample.
    #[default]
    Cumulative,
    /// Counts per range of x, one strip per sample.
    Histogram,
}

/// A named sample, such as the times at one concurrency.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Sample {
    /// Its name.
    pub name: String,
    /// Its values, in any order.
    pub values: Vec<f64>,
    /// Failed attempts: they count as infinite.
    pub failed: usize,
}

/// Distributions of one or more samples.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct DistributionChart {
    /// Title of the chart.
    pub title: String,
    /// Text alternative, and a summary for the reader.
    pub description: String,
    /// The value axis; logarithmic suits times.
    pub x: Axis,
    /// The form of the chart.
    pub kind: DistributionKind,
    /// The samples, in the order of their names.
    pub samples: Vec<Sample>,
}

/// Name, share and minimum sample size of the percentiles.
const PERCENTILES: [(&str, f64, usize); 3] = [("p50", 0.50, 6), ("p95", 0.95, 130), ("p99", 0.99, 662)];
/// Mark shape of each percentile (see `Svg::mark`).
const PERCENTILE_SHAPES: [usize; 3] = [0, 2, 3];

/// The drawable values of a sample, sorted, and counts of the others.
struct Sorted {
    values: Vec<f64>,
    dropped: usize,
    failed: usize,
}

impl Sorted {
    fn of(sample: &Sample, axis: &Axis) -> Sorted {
        let mut values: Vec<f64> = sample.values.iter().copied().filter(|v| axis.accepts(*v)).collect();
        values.sort_by(f64::total_cmp);
        Sorted { dropped: sample.values.len() - values.len(), failed: sample.failed, values }
    }

    fn n(&self) -> usize {
        self.values.len().saturating_add(self.failed)
    }

    /// The nearest-rank percentile; infinite when failures reach down to it; `None` below the floor.
    fn percentile(&self, share: f64, floor: usize) -> Option<f64> {
        if self.n() < floor {
            return None;
        }
        let rank = ((self.n() as f64 * share).ceil() as usize).max(1);
        Some(self.values.get(rank - 1).copied().unwrap_or(f64::INFINITY))
    }

    /// The percentiles with enough samples: name, value, mark shape.
    fn known_percentiles(&self) -> Vec<(&'static str, f64, usize)> {
        let all = PERCENTILES.iter().zip(PERCENTILE_SHAPES);
        all.filter_map(|((name, share, floor), shape)| Some((*name, self.percentile(*share, *floor)?, shape))).collect()
    }
}

impl DistributionChart {
    fn sorted(&self) -> Vec<Sorted> {
        self.samples.iter().map(|s| Sorted::of(s, &self.x)).collect()
    }

    fn remarks(&self, sorted: &[Sorted]) -> Vec<String> {
        let mut remarks = Vec::new();
        if sorted.iter().all(|s| s.values.is_empty()) {
            remarks.push("No samples to draw.".to_owned());
        }
        let dropped: usize = sorted.iter().map(|s| s.dropped).sum();
        if dropped > 0 {
            remarks.push(format!(
                "{} left out: not finite, or not positive on a log scale.",
                format::count(dropped as u64)
            ));
        }
        let failed: usize = sorted.iter().map(|s| s.failed).sum();
        if failed > 0 {
            remarks.push(format!("{} failed: counted as never finished.", format::count(failed as u64)));
        }
        for (name, _, floor) in PERCENTILES {
            let few: Vec<usize> = sorted.iter().map(Sorted::n).filter(|n| *n > 0 && n < &floor).collect();
            if let Some(smallest) = few.iter().min() {
                let of = if few.len() == sorted.len() {
                    String::new()
                } else {
                    format!(" for {} of {}", few.len(), sorted.len())
                };
                remarks.push(format!("{name}{of}: not enough samples (n = {smallest}, {floor} needed)."));
            }
        }
        remarks
    }

    fn draw_cumulative(&self, sheet: &mut Sheet, sorted: &[Sorted]) {
        sheet.caption("Share at or below, %");
        let names: Vec<String> = self.samples.iter().map(|s| s.name.clone()).collect();
        let ends = !sheet.is_narrow() && names.len() <= 12 && names.iter().any(|n| !n.is_empty());
        if !ends && names.iter().any(|n| !n.is_empty()) {
            sheet.key(&names, |svg, index, (x, y)| svg.line((x, y), (x + 20.0, y), &curve_class(index)));
        }
        let marked: Vec<usize> = (0..3)
            .filter(|i| sorted.iter().any(|s| s.percentile(PERCENTILES[*i].1, PERCENTILES[*i].2).is_some()))
            .collect();
        let marked_names: Vec<String> = marked.iter().map(|i| PERCENTILES[*i].0.to_owned()).collect();
        sheet.key(&marked_names, |svg, row, (x, y)| {
            svg.mark((x + 12.0, y), PERCENTILE_SHAPES[marked[row]], 4.0, "ink", "")
        });
        let xs: Vec<f64> = sorted.iter().flat_map(|s| s.values.iter().copied()).collect();
        let height = if sheet.is_narrow() { 220.0 } else { 300.0 };
        let y = Axis::linear("", "%");
        let layout = Layout { x: &self.x, y: &y, xs: &xs, ys: &[0.0, 100.0], right_room: 12.0, height };
        let plot = Plot::lay(sheet, &layout);
        plot.draw_axes(sheet, &self.x.caption());
        let mut labels = Labels::default();
        for (index, sample) in sorted.iter().enumerate() {
            sheet.svg.path(&steps(sample, &plot), &curve_class(index));
        }
        for (index, sample) in sorted.iter().enumerate() {
            self.draw_percentiles(&mut sheet.svg, &plot, sample, index);
            if ends && !sample.values.is_empty() {
                labels.place(&mut sheet.svg, &plot, sorted, (index, &names[index]));
            }
        }
    }

    fn draw_percentiles(&self, svg: &mut Svg, plot: &Plot, sample: &Sorted, index: usize) {
        for (name, value, shape) in sample.known_percentiles().into_iter().filter(|(_, value, _)| value.is_finite()) {
            let share = PERCENTILES.iter().find(|p| p.0 == name).map_or(0.0, |p| p.1);
            let words = format!("{} {name}: {}", self.samples[index].name, self.x.quantity(value));
            let class = format!("c{}", index % SHAPES);
            svg.mark((plot.x.at(value), plot.y.at(share * 100.0)), shape, 4.0, &class, words.trim());
        }
    }

    fn draw_strips(&self, sheet: &mut Sheet, sorted: &[Sorted]) {
        let xs: Vec<f64> = sorted.iter().flat_map(|s| s.values.iter().copied()).collect();
        let target = if sheet.is_narrow() { 5 } else { 8 };
        let (left, right) = (sheet.left() + 2.0, sheet.right() - 10.0);
        let x = Mapping::fit(&self.x, &xs, Origin::Near, (left, right), target);
        // On a phone, name and percentiles take a line each.
        let words = if sheet.is_narrow() { 2.0 * LINE } else { LINE };
        let step = words + STRIP + 14.0;
        let top = sheet.y;
        let bottom = top + step * sorted.len().max(1) as f64;
        for tick in x.placed(|label| width(label, TEXT), 8.0, (sheet.left(), sheet.right())) {
            for strip in 0..sorted.len() {
                let base = top + step * (strip + 1) as f64;
                sheet.svg.line((x.at(tick.value), base - STRIP), (x.at(tick.value), base), "grid");
            }
            sheet.svg.text((tick.middle, bottom + 15.0), Anchor::Middle, "tick", tick.label);
        }
        for (index, sample) in sorted.iter().enumerate() {
            let base = top + step * (index + 1) as f64;
            self.draw_words(sheet, sample, index, base - STRIP - 6.0);
            draw_strip(sheet, &x, sample, (left, right), base);
        }
        sheet.y = bottom + 4.0 + 2.0 * LINE;
        sheet.svg.text(((left + right) / 2.0, sheet.y - 2.0), Anchor::Middle, "axis", &self.x.caption());
    }

    /// Writes name, sample size and percentiles of a strip, ending at `y`.
    fn draw_words(&self, sheet: &mut Sheet, sample: &Sorted, index: usize, y: f64) {
        let written = |v: f64| if v.is_finite() { self.x.quantity(v) } else { "failed".to_owned() };
        let values: Vec<String> =
            sample.known_percentiles().iter().map(|(name, v, _)| format!("{name} {}", written(*v))).collect();
        let size = format!("n = {}", format::count(sample.n() as u64));
        let name = |room: f64| shorten(&self.samples[index].name, room.max(40.0), TEXT);
        let (left, right) = (sheet.left() + 2.0, sheet.right());
        if sheet.is_narrow() {
            sheet.svg.text(
                (left, y - LINE),
                Anchor::Start,
                "label strong",
                &name(right - left - width(&size, TEXT) - 16.0),
            );
            sheet.svg.text((right, y - LINE), Anchor::End, "faint", &size);
            sheet.svg.text((left, y), Anchor::Start, "faint", &values.join(", "));
        } else {
            let summary = [vec![size], values].concat().join(", ");
            sheet.svg.text(
                (left, y),
                Anchor::Start,
                "label strong",
                &name(right - left - width(&summary, TEXT) - 16.0),
            );
            sheet.svg.text((right, y), Anchor::End, "faint", &summary);
        }
    }
}

/// Height of a strip of a histogram.
const STRIP: f64 = 48.0;

fn draw_strip(sheet: &mut Sheet, x: &Mapping, sample: &Sorted, (left, right): (f64, f64), base: f64) {
    let bins = if sheet.is_narrow() { 48 } else { 90 };
    let step = (right - left) / bins as f64;
    let mut counts = vec![0u32; bins];
    for value in &sample.values {
        counts[(((x.at(*value) - left) / step) as usize).min(bins - 1)] += 1;
    }
    let peak = f64::from(counts.iter().copied().max().unwrap_or(0).max(1));
    let mut path = Path::default();
    for (bin, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let (from, to) = (left + step * bin as f64 + 0.5, left + step * (bin + 1) as f64 - 0.5);
        let top = base - f64::from(*count) / peak * (STRIP - 4.0);
        path.polygon(&[(from, base), (from, top), (to, top), (to, base)]);
    }
    sheet.svg.path(&path, "soft c0");
    sheet.svg.line((left, base), (right, base), "base");
    for (_, value, shape) in sample.known_percentiles().into_iter().filter(|(_, value, _)| value.is_finite()) {
        sheet.svg.line((x.at(value), base), (x.at(value), base - STRIP + 4.0), "whisker ink");
        sheet.svg.mark((x.at(value), base - STRIP + 4.0), shape, 3.5, "ink", "");
    }
}

impl Chart for DistributionChart {
    fn title(&self) -> &str {
        &self.title
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn draw(&self, sheet: &mut Sheet) {
        let sorted = self.sorted();
        let kind = if sorted.iter().all(|s| s.values.is_empty()) { None } else { Some(self.kind) };
        match kind {
            Some(DistributionKind::Cumulative) => self.draw_cumulative(sheet, &sorted),
            Some(DistributionKind::Histogram) => self.draw_strips(sheet, &sorted),
            // No data, no axes.
            None => {}
        }
        for remark in self.remarks(&sorted) {
            sheet.note(&remark);
        }
    }

    fn table(&self) -> Table {
        let sorted = self.sorted();
        let mut table = Table { caption: self.title.clone(), ..Table::default() };
        table.columns = vec![Column::words(""), Column::numbers("n", ""), Column::numbers("failed", "")];
        table.columns.push(Column::numbers("least", ""));
        table.columns.extend(PERCENTILES.iter().map(|(name, _, _)| Column::numbers(*name, "")));
        table.columns.push(Column::numbers("most", ""));
        let written = |value: Option<f64>| match value {
            None => "not enough samples".to_owned(),
            Some(v) if !v.is_finite() => "failed".to_owned(),
            Some(v) => format::quantity(v, &self.x.unit),
        };
        for (sample, sorted) in self.samples.iter().zip(&sorted) {
            let mut row =
                vec![sample.name.clone(), format::count(sorted.n() as u64), format::count(sorted.failed as u64)];
            row.push(
                sorted
                    .values
                    .first()
                    .map_or_else(|| format::MISSING.to_owned(), |v| format::quantity(*v, &self.x.unit)),
            );
            row.extend(PERCENTILES.iter().map(|(_, share, floor)| written(sorted.percentile(*share, *floor))));
            row.push(
                sorted.values.last().map_or_else(|| format::MISSING.to_owned(), |v| format::quantity(*v, &self.x.unit)),
            );
            table.rows.push(row);
        }
        table.notes = self.remarks(&sorted);
        table
    }
}

/// The step function of a sample; steps too small to see are skipped.
fn steps(sample: &Sorted, plot: &Plot) -> Path {
    let mut path = Path::default();
    let n = sample.n() as f64;
    let Some(first) = sample.values.first() else { return path };
    let (mut x, mut y) = (plot.x.at(*first), plot.bottom);
    path.to((x, y));
    for (index, value) in sample.values.iter().enumerate() {
        let (next_x, next_y) = (plot.x.at(*value), plot.y.at((index + 1) as f64 / n * 100.0));
        let last = index + 1 == sample.values.len();
        if (next_x - x).abs() >= 0.7 || (y - next_y).abs() >= 1.5 || last {
            path.to((next_x, y));
            path.to((next_x, next_y));
            (x, y) = (next_x, next_y);
        }
    }
    path.to((plot.right, y));
    path
}

fn curve_class(index: usize) -> String {
    let tone = index % SHAPES;
    if tone == 0 { "line c0".to_owned() } else { format!("line c{tone} dash{tone}") }
}

/// Places names in the plot next to their curves, each at its own height so that none overlaps another.
#[derive(Debug, Default)]
struct Labels {
    placed: Vec<(f64, f64, f64)>,
}

impl Labels {
    fn place(&mut self, svg: &mut Svg, plot: &Plot, all: &[Sorted], (index, name): (usize, &str)) {
        let name = shorten(name, 150.0, TEXT);
        let extent = width(&name, TEXT);
        // Curves are usually ordered along a diagonal: later, slower ones are labelled lower down.
        let preferred = 0.80 - 0.62 * (index as f64 + 0.5) / all.len().max(1) as f64;
        let mut shares: Vec<f64> = (1..19).map(|i| f64::from(i) * 0.05).collect();
        shares.sort_by(|a, b| (a - preferred).abs().total_cmp(&(b - preferred).abs()));
        let spots = shares
            .iter()
            .filter_map(|share| Some((curve_at(&all[index], plot, *share)?, plot.y.at(share * 100.0) + 4.0)));
        let sides = spots.flat_map(|(x, y)| [(x + 8.0, y), (x - 8.0 - extent, y)]);
        let sides: Vec<(f64, f64)> = sides.filter(|(x, _)| *x >= plot.left && x + extent <= plot.right + 8.0).collect();
        let free = sides.iter().find(|(x, y)| self.is_free(plot, all, (*x, x + extent), *y));
        if let Some((x, y)) = free.or(sides.first()).copied() {
            self.placed.push((x, x + extent, y));
            svg.text((x, y), Anchor::Start, "label halo", &name);
        }
    }

    fn is_free(&self, plot: &Plot, all: &[Sorted], (left, right): (f64, f64), y: f64) -> bool {
        let apart = |(l, r, h): &(f64, f64, f64)| (h - y).abs() >= 14.0 || left > *r + 4.0 || right < *l - 4.0;
        let crossed = |sample: &Sorted| {
            (0..=6).any(|i| {
                let share = plot.y.share_at(y + 3.0 - f64::from(i) * 2.5);
                curve_at(sample, plot, share).is_some_and(|x| x > left - 4.0 && x < right + 4.0)
            })
        };
        self.placed.iter().all(apart) && !all.iter().any(crossed)
    }
}

/// The x pixel at which the curve of a sample reaches a share; `None` if it never does.
fn curve_at(sample: &Sorted, plot: &Plot, share: f64) -> Option<f64> {
    let rank = ((sample.n() as f64 * share).ceil() as usize).max(1);
    sample.values.get(rank - 1).map(|value| plot.x.at(*value))
}
