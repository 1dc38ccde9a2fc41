//! A small SVG writer.
//!
//! Colours are CSS classes in `chart.css`, so that one style sheet serves stand-alone files, pages, dark mode and print.
//! Invariant: every element is closed, every text escaped and every coordinate finite with at most two decimals.

use std::fmt::Write as _;

use crate::text::escape;

/// The style sheet of all charts, light and dark: for pages that show panels.
pub const STYLE: &str = include_str!("chart.css");

/// Horizontal alignment of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// Markup under construction.
#[derive(Debug, Default)]
pub(crate) struct Svg {
    out: String,
}

impl Svg {
    pub(crate) fn line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), class: &str) {
        let (x1, y1, x2, y2) = (coordinate(x1), coordinate(y1), coordinate(x2), coordinate(y2));
        let _ = write!(self.out, r#"<path class="{class}" d="M{x1} {y1}L{x2} {y2}"/>"#);
    }

    pub(crate) fn rect(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), class: &str) {
        let (x, y, width, height) =
            (coordinate(x), coordinate(y), coordinate(width.max(0.0)), coordinate(height.max(0.0)));
        let _ = write!(self.out, r#"<rect class="{class}" x="{x}" y="{y}" width="{width}" height="{height}"/>"#);
    }

    pub(crate) fn path(&mut self, path: &Path, class: &str) {
        if !path.data.is_empty() {
            let _ = write!(self.out, r#"<path class="{class}" d="{}"/>"#, path.data);
        }
    }

    /// Draws a path with the given stroke width.
    pub(crate) fn stroke(&mut self, path: &Path, class: &str, width: f64) {
        if !path.data.is_empty() {
            let width = coordinate(width);
            let _ = write!(self.out, r#"<path class="{class}" stroke-width="{width}" d="{}"/>"#, path.data);
        }
    }

    pub(crate) fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => r#" text-anchor="middle""#,
            Anchor::End => r#" text-anchor="end""#,
        };
        let (x, y) = (coordinate(x), coordinate(y));
        let _ = write!(self.out, r#"<text class="{class}" x="{x}" y="{y}"{anchor}>{}</text>"#, escape(text));
    }

    /// Draws a mark. The shape identifies the series as well as the colour: disc, square, triangle, diamond, cross,
    /// ring. `words` is the tooltip.
    pub(crate) fn mark(&mut self, (x, y): (f64, f64), shape: usize, radius: f64, class: &str, words: &str) {
        let path = mark_path((x, y), shape, radius);
        let kind = if shape % SHAPES >= 4 { "open" } else { "mark" };
        let _ = write!(self.out, r#"<path class="{kind} {class}" d="{}""#, path.data);
        if words.is_empty() {
            self.out.push_str("/>");
        } else {
            let _ = write!(self.out, "><title>{}</title></path>", escape(words));
        }
    }

    /// The complete element: size in pixels, accessible name and description.
    pub(crate) fn finish(self, name: &str, description: &str, (width, height): (f64, f64), style: &str) -> String {
        let (width, height) = (coordinate(width), coordinate(height));
        // HTML implies the namespace; a stand-alone file must declare it.
        let (namespace, style) = match style {
            "" => ("", String::new()),
            style => (r#" xmlns="http://www.w3.org/2000/svg""#, format!("<style>{style}</style>")),
        };
        let description =
            if description.is_empty() { String::new() } else { format!("<desc>{}</desc>", escape(description)) };
        format!(
            concat!(
                r#"<svg{} class="tk" role="img" viewBox="0 0 {} {}" "#,
                r#"width="{}" height="{}"><title>{}</title>{}{}{}</svg>"#
            ),
            namespace,
            width,
            height,
            width,
            height,
            escape(name),
            description,
            style,
            self.out
        )
    }
}

/// Number of shapes of [`Svg::mark`].
pub(crate) const SHAPES: usize = 6;

fn mark_path((x, y): (f64, f64), shape: usize, r: f64) -> Path {
    let mut path = Path::default();
    match shape % SHAPES {
        0 => path.disc((x, y), r),
        1 => path.polygon(
            &[(x - r, y - r), (x + r, y - r), (x + r, y + r), (x - r, y + r)].map(|p| shrunk(p, (x, y), 0.88)),
        ),
        2 => path.polygon(&[(x, y - r * 1.2), (x + r * 1.1, y + r * 0.8), (x - r * 1.1, y + r * 0.8)]),
        3 => path.polygon(&[(x, y - r * 1.25), (x + r * 1.25, y), (x, y + r * 1.25), (x - r * 1.25, y)]),
        4 => {
            path.segment((x - r, y - r), (x + r, y + r));
            path.segment((x - r, y + r), (x + r, y - r));
        }
        _ => path.disc((x, y), r),
    }
    path
}

fn shrunk((x, y): (f64, f64), (cx, cy): (f64, f64), by: f64) -> (f64, f64) {
    (cx + (x - cx) * by, cy + (y - cy) * by)
}

/// The `d` attribute of a path.
#[derive(Clone, Debug, Default)]
pub(crate) struct Path {
    data: String,
    drawing: bool,
}

impl Path {
    /// Continues to the point, or starts there.
    pub(crate) fn to(&mut self, (x, y): (f64, f64)) {
        let command = if self.drawing { 'L' } else { 'M' };
        let _ = write!(self.data, "{command}{} {}", coordinate(x), coordinate(y));
        self.drawing = true;
    }

    /// The next point starts a new segment.
    pub(crate) fn lift(&mut self) {
        self.drawing = false;
    }

    pub(crate) fn segment(&mut self, from: (f64, f64), to: (f64, f64)) {
        self.lift();
        self.to(from);
        self.to(to);
        self.lift();
    }

    /// A horizontal segment in short form, because there may be thousands; nothing if it has no length.
    pub(crate) fn level(&mut self, from: f64, to: f64, y: f64) {
        let tenth = |v: f64| coordinate((v * 10.0).round() / 10.0);
        if to - from >= 0.05 {
            let _ = write!(self.data, "M{} {}h{}", tenth(from), tenth(y), tenth(to - from));
        }
        self.lift();
    }

    /// A segment without length, in short form.
    pub(crate) fn dot(&mut self, (x, y): (f64, f64)) {
        let tenth = |v: f64| coordinate((v * 10.0).round() / 10.0);
        let _ = write!(self.data, "M{} {}h0", tenth(x), tenth(y));
        self.lift();
    }

    pub(crate) fn polygon(&mut self, points: &[(f64, f64)]) {
        self.lift();
        for point in points {
            self.to(*point);
        }
        if !points.is_empty() {
            self.data.push('Z');
        }
        self.lift();
    }

    fn disc(&mut self, (x, y): (f64, f64), r: f64) {
        let (left, y, d) = (coordinate(x - r), coordinate(y), coordinate(2.0 * r));
        let r = coordinate(r);
        let _ = write!(self.data, "M{left} {y}a{r} {r} 0 1 0 {d} 0a{r} {r} 0 1 0 -{d} 0Z");
        self.drawing = false;
    }
}

/// A coordinate with at most two decimals; 0 for NaN and infinity.
pub(crate) fn coordinate(value: f64) -> String {
    let value = if value.is_finite() { (value.clamp(-1e6, 1e6) * 100.0).round() / 100.0 } else { 0.0 };
    let value = if value == 0.0 { 0.0 } else { value };
    format!("{value}")
}
