//! The drawing surface of a chart, and the trait that all charts implement.
//!
//! Charts are drawn for several widths, because text in a picture scaled down to a phone is unreadable. Invariant: what a
//! chart leaves out is stated on its sheet and in its table.

use crate::svg::{Anchor, STYLE, Svg};
use crate::table::Table;
use crate::text::{WIDEST_FONT, width, wrap};

/// Width of a chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Size {
    /// 800 pixels: desktop, print, README.
    #[default]
    Wide,
    /// 560 pixels: two side by side on a desktop.
    Half,
    /// 360 pixels: phone, portrait.
    Narrow,
}

impl Size {
    fn pixels(self) -> f64 {
        match self {
            Size::Wide => 800.0,
            Size::Half => 560.0,
            Size::Narrow => 360.0,
        }
    }
}

/// A chart: pictures of several widths, and the same numbers as a table.
pub trait Chart {
    /// Title of the chart, one line.
    fn title(&self) -> &str;

    /// Text alternative, and a summary for the reader.
    fn description(&self) -> &str;

    /// The same content as a table.
    fn table(&self) -> Table;

    /// Draws the chart from the current position downwards.
    fn draw(&self, sheet: &mut Sheet);

    /// A stand-alone SVG file with title and light and dark colours.
    fn svg(&self) -> String {
        let mut sheet = Sheet::new(Size::Wide);
        sheet.margin = 16.0;
        sheet.y = 12.0;
        sheet.title(self.title());
        self.draw(&mut sheet);
        sheet.finish(self.title(), self.description(), STYLE)
    }

    /// Only the picture, for a page that has the title and style sheet.
    fn panel(&self, size: Size) -> String {
        let mut sheet = Sheet::new(size);
        self.draw(&mut sheet);
        sheet.finish(self.title(), self.description(), "")
    }
}

/// The drawing surface.
#[derive(Debug)]
pub struct Sheet {
    pub(crate) svg: Svg,
    pub(crate) size: Size,
    /// Current position from the top.
    pub(crate) y: f64,
    margin: f64,
}

/// Font size of ticks and labels.
pub(crate) const TEXT: f64 = 12.0;
/// Height of a line of text.
pub(crate) const LINE: f64 = 16.0;

impl Sheet {
    fn new(size: Size) -> Sheet {
        Sheet { svg: Svg::default(), size, y: 0.0, margin: 0.0 }
    }

    /// Left edge of the drawing area.
    pub(crate) fn left(&self) -> f64 {
        self.margin
    }

    /// Right edge of the drawing area.
    pub(crate) fn right(&self) -> f64 {
        self.size.pixels() - self.margin
    }

    /// Width of the drawing area.
    pub(crate) fn width(&self) -> f64 {
        self.right() - self.left()
    }

    pub(crate) fn is_narrow(&self) -> bool {
        self.size == Size::Narrow
    }

    fn title(&mut self, title: &str) {
        for line in wrap(title, self.width(), 17.0, 2) {
            self.y += 22.0;
            self.svg.text((self.left(), self.y - 6.0), Anchor::Start, "title", &line);
        }
        self.y += 8.0;
    }

    /// The caption of an axis, at most two lines, from the left edge.
    pub(crate) fn caption(&mut self, caption: &str) {
        for line in wrap(caption, self.width(), TEXT, 2) {
            self.y += LINE;
            self.svg.text((self.left(), self.y - 4.0), Anchor::Start, "axis", &line);
        }
    }

    /// A small remark below the chart, wrapped.
    pub(crate) fn note(&mut self, note: &str) {
        self.y += 2.0;
        for line in wrap(note, self.width(), 11.5, 4) {
            self.y += LINE;
            self.svg.text((self.left(), self.y - 4.0), Anchor::Start, "note", &line);
        }
    }

    /// Draws a legend, wrapped to the width. `draw` draws the sample at its left end (20 pixels wide).
    pub(crate) fn key(&mut self, names: &[String], mut draw: impl FnMut(&mut Svg, usize, (f64, f64))) {
        if names.is_empty() {
            return;
        }
        let mut x = self.left();
        self.y += LINE + 2.0;
        for (index, name) in names.iter().enumerate() {
            let name = crate::text::shorten(name, (self.width() - 30.0) / WIDEST_FONT, TEXT);
            let needed = 26.0 + width(&name, TEXT);
            if x > self.left() && x + 26.0 + width(&name, TEXT) * WIDEST_FONT > self.right() {
                x = self.left();
                self.y += LINE + 2.0;
            }
            draw(&mut self.svg, index, (x, self.y - 8.0));
            self.svg.text((x + 26.0, self.y - 4.0), Anchor::Start, "label", &name);
            x += needed + 16.0;
        }
        self.y += 2.0;
    }

    fn finish(self, title: &str, description: &str, style: &str) -> String {
        let size = (self.size.pixels(), (self.y + self.margin.max(2.0)).ceil());
        self.svg.finish(title, description, size, style)
    }
}
