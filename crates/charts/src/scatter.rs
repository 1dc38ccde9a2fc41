//! Points on two measured axes, with the front of those that no other beats on both.
//!
//! Invariant: only ranked points make the front; a point that cannot be drawn is listed in the table and counted; labels never
//! overlap, and one without room is only in the table.

use crate::format::{self, MISSING};
use crate::labels::Labels;
use crate::plot::{Layout, Plot};
use crate::scale::Axis;
use crate::sheet::{Chart, Sheet, TEXT};
use crate::svg::{Anchor, Path, Svg};
use crate::table::{Column, Table};
use crate::text::shorten;

/// What a point stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ScatterKind {
    /// Measured: may be on the front.
    #[default]
    Measured,
    /// Somebody's word: a hollow mark, never on the front.
    Claim,
}

/// A point.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct ScatterPoint {
    /// Its name.
    pub label: String,
    /// Where it is from left to right; `None` if missing.
    pub x: Option<f64>,
    /// Where it is from bottom to top; `None` if missing.
    pub y: Option<f64>,
    /// The interval of `x`.
    pub x_interval: Option<(f64, f64)>,
    /// The interval of `y`.
    pub y_interval: Option<(f64, f64)>,
    /// What it stands for.
    pub kind: ScatterKind,
}

/// A chart of points. More is better upwards, less is better to the right of nothing: the best corner is the upper left.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct ScatterChart {
    /// Title of the chart.
    pub title: String,
    /// Text alternative, and a summary for the reader.
    pub description: String,
    /// Less is better: a price, a time.
    pub x: Axis,
    /// More is better: a speed.
    pub y: Axis,
    /// The points.
    pub points: Vec<ScatterPoint>,
    /// Whether only points of the front are named, because there are too many.
    pub only_front_labelled: bool,
}

impl ScatterChart {
    /// The names of the front, from left to right.
    pub fn front_labels(&self) -> Vec<&str> {
        self.front().into_iter().map(|index| self.points[index].label.as_str()).collect()
    }

    fn position(&self, point: &ScatterPoint) -> Option<(f64, f64)> {
        let (x, y) = (point.x?, point.y?);
        (self.x.accepts(x) && self.y.accepts(y)).then_some((x, y))
    }

    /// The measured points that no other measured point beats, from left to right.
    fn front(&self) -> Vec<usize> {
        let measured = |index: &usize| self.points[*index].kind == ScatterKind::Measured;
        let mut order: Vec<(usize, (f64, f64))> = (0..self.points.len())
            .filter(measured)
            .filter_map(|index| Some((index, self.position(&self.points[index])?)))
            .collect();
        order.sort_by(|(_, a), (_, b)| a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1)));
        let mut highest = f64::NEG_INFINITY;
        order.retain(|(_, (_, y))| {
            let beats = *y > highest;
            highest = highest.max(*y);
            beats
        });
        order.into_iter().map(|(index, _)| index).collect()
    }

    fn draw_front(&self, svg: &mut Svg, plot: &Plot, front: &[usize]) {
        let mut path = Path::default();
        let mut last: Option<(f64, f64)> = None;
        for (x, y) in front.iter().filter_map(|index| self.position(&self.points[*index])) {
            let at = (plot.x.at(x), plot.y.at(y));
            // A step: between two points nothing better is known than the earlier one.
            if let Some(last) = last {
                path.to((at.0, last.1));
            }
            path.to(at);
            last = Some(at);
        }
        if let Some((_, y)) = last {
            path.to((plot.right, y));
        }
        svg.path(&path, "line thin c0");
    }

    fn draw_whiskers(&self, svg: &mut Svg, plot: &Plot, front: &[usize]) {
        for (index, point) in self.points.iter().enumerate() {
            let Some((x, y)) = self.position(point) else { continue };
            let (x, y) = (plot.x.at(x), plot.y.at(y));
            let mut path = Path::default();
            if let Some((low, high)) = point.x_interval.filter(|(l, h)| self.x.accepts(*l) && self.x.accepts(*h)) {
                path.segment((plot.x.at(low), y), (plot.x.at(high), y));
            }
            if let Some((low, high)) = point.y_interval.filter(|(l, h)| self.y.accepts(*l) && self.y.accepts(*h)) {
                path.segment((x, plot.y.at(low)), (x, plot.y.at(high)));
            }
            svg.path(&path, if front.contains(&index) { "whisker c0" } else { "whisker grey" });
        }
    }

    fn words(&self, point: &ScatterPoint) -> String {
        let of =
            |axis: &Axis, value: Option<f64>| value.map_or_else(|| MISSING.to_owned(), |value| axis.quantity(value));
        format!("{}: {}, {}", point.label, of(&self.x, point.x), of(&self.y, point.y))
    }

    fn draw_key(&self, sheet: &mut Sheet, front: &[usize]) {
        let has =
            |kind: ScatterKind| self.points.iter().any(|point| point.kind == kind && self.position(point).is_some());
        let mut kinds = vec![("nothing measured is better in both", 0)];
        if self
            .points
            .iter()
            .enumerate()
            .any(|(i, p)| p.kind == ScatterKind::Measured && self.position(p).is_some() && !front.contains(&i))
        {
            kinds.push(("something is better in both", 1));
        }
        if has(ScatterKind::Claim) {
            kinds.push(("claimed", 2));
        }
        let names: Vec<String> = kinds.iter().map(|(name, _)| (*name).to_owned()).collect();
        sheet.key(&names, |svg, row, (x, y)| match kinds[row].1 {
            0 => {
                svg.line((x, y), (x + 20.0, y), "line thin c0");
                svg.mark((x + 10.0, y), 0, 4.5, "c0", "");
            }
            1 => svg.mark((x + 10.0, y), 0, 4.5, "grey", ""),
            _ => svg.mark((x + 10.0, y), 5, 4.5, "grey", ""),
        });
    }
}

impl Chart for ScatterChart {
    fn title(&self) -> &str {
        &self.title
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn draw(&self, sheet: &mut Sheet) {
        let drawn: Vec<(f64, f64)> = self.points.iter().filter_map(|point| self.position(point)).collect();
        if drawn.is_empty() {
            sheet.note("No data to draw.");
            return;
        }
        let front = self.front();
        self.draw_key(sheet, &front);
        sheet.y += 6.0;
        sheet.caption(&self.y.caption());
        let ends = |interval: Option<(f64, f64)>| interval.into_iter().flat_map(|(low, high)| [low, high]);
        let xs: Vec<f64> =
            drawn.iter().map(|at| at.0).chain(self.points.iter().flat_map(|p| ends(p.x_interval))).collect();
        let ys: Vec<f64> =
            drawn.iter().map(|at| at.1).chain(self.points.iter().flat_map(|p| ends(p.y_interval))).collect();
        let height = if sheet.is_narrow() { 280.0 } else { 380.0 };
        let plot = Plot::lay(sheet, &Layout { x: &self.x, y: &self.y, xs: &xs, ys: &ys, right_room: 0.0, height });
        plot.draw_axes(sheet, &self.x.caption());
        let svg = &mut sheet.svg;
        svg.text((plot.left + 8.0, plot.top + 12.0), Anchor::Start, "note", "↖ better");
        self.draw_front(svg, &plot, &front);
        self.draw_whiskers(svg, &plot, &front);
        let mut labels = Labels::beside_first();
        labels.reserve([plot.left, plot.left + 64.0, plot.top, plot.top + 16.0]);
        for point in &self.points {
            if let Some((x, y)) = self.position(point) {
                let (x, y) = (plot.x.at(x), plot.y.at(y));
                labels.reserve([x - 5.0, x + 5.0, y - 5.0, y + 5.0]);
            }
        }
        // The front is labelled first: it is what the chart is for.
        let others = (0..self.points.len()).filter(|index| !front.contains(index));
        for index in front.iter().copied().chain(others) {
            let point = &self.points[index];
            let Some((x, y)) = self.position(point) else { continue };
            let (class, shape) = match point.kind {
                ScatterKind::Claim => ("grey", 5),
                ScatterKind::Measured if front.contains(&index) => ("c0", 0),
                ScatterKind::Measured => ("grey", 0),
            };
            let at = (plot.x.at(x), plot.y.at(y));
            svg.mark(at, shape, 5.0, class, &self.words(point));
            if self.only_front_labelled && !front.contains(&index) {
                continue;
            }
            labels.draw(svg, &plot, at, &shorten(&point.label, 170.0, TEXT));
        }
        let missing = self.points.len() - drawn.len();
        if missing > 0 {
            let are = if missing == 1 { "1 is".to_owned() } else { format!("{missing} are") };
            sheet.note(&format!("{are} not drawn: a value is missing. The table has all."));
        }
    }

    fn table(&self) -> Table {
        let mut table = Table { caption: self.title.clone(), ..Table::default() };
        let interval =
            |interval: Option<(f64, f64)>| interval.map_or_else(String::new, |(l, h)| format::interval(l, h));
        table.columns = vec![
            Column::words(""),
            Column::numbers(&self.x.label, &self.x.unit),
            Column::numbers("interval", &self.x.unit),
            Column::numbers(&self.y.label, &self.y.unit),
            Column::numbers("interval", &self.y.unit),
            Column::words("remark"),
        ];
        let front = self.front();
        for (index, point) in self.points.iter().enumerate() {
            let number = |value: Option<f64>| value.map_or_else(|| MISSING.to_owned(), format::number);
            let remark = match point.kind {
                ScatterKind::Claim => "claimed",
                ScatterKind::Measured if front.contains(&index) => "nothing is better in both",
                ScatterKind::Measured => "",
            };
            table.rows.push(vec![
                point.label.clone(),
                number(point.x),
                interval(point.x_interval),
                number(point.y),
                interval(point.y_interval),
                remark.to_owned(),
            ]);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(label: &str, x: f64, y: f64) -> ScatterPoint {
        ScatterPoint { label: label.to_owned(), x: Some(x), y: Some(y), ..ScatterPoint::default() }
    }

    #[test]
    fn the_front_is_what_nothing_measured_beats() {
        let claim = ScatterPoint { kind: ScatterKind::Claim, ..point("claim", 0.1, 900.0) };
        let missing = ScatterPoint { x: None, ..point("no price", 1.0, 500.0) };
        let points = vec![
            point("a", 1.0, 100.0),
            point("b", 2.0, 90.0),
            point("c", 2.0, 200.0),
            claim,
            missing,
            point("d", 1.0, 80.0),
        ];
        let chart = ScatterChart {
            x: Axis::linear("Price", "USD"),
            y: Axis::linear("Speed", "tok/s"),
            points,
            ..ScatterChart::default()
        };
        assert_eq!(chart.front(), [0, 2]);
        let svg = chart.panel(crate::sheet::Size::Wide);
        assert!(svg.contains("1 is not drawn") && svg.contains(">claimed<"), "{svg}");
        assert_eq!(chart.table().rows[4][1], "n/a");
        assert!(ScatterChart::default().panel(crate::sheet::Size::Narrow).contains("No data to draw"));
    }

    #[test]
    fn a_label_before_its_point_ends_there_whatever_the_font() {
        let points = vec![point("the one at the far end", 9.0, 50.0), point("near", 1.0, 90.0)];
        let (x, y) = (Axis::linear("Price", "USD"), Axis::linear("Speed", "tok/s"));
        let svg = ScatterChart { x, y, points, ..ScatterChart::default() }.panel(crate::sheet::Size::Wide);
        let label = svg.split("<text").find(|text| text.contains(">the one at the far end<")).expect("it has room");
        assert!(label.contains("text-anchor=\"end\""), "{label}");
    }
}
