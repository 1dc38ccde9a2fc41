//! SVG charts, HTML report pages and terminal plots, each chart with a table of the same numbers.
//!
//! Input is plain numbers and text, output is one string. A caller builds a chart ([`LineChart`], [`DistributionChart`],
//! [`TimelineChart`], [`BarChart`], [`BoxChart`], [`HeatMap`], [`ScatterChart`]), takes its [`Chart::svg`] and [`Chart::table`], or puts it
//! on a [`Page`].
//!
//! Architecture Invariant: everything here is a pure function. The same input gives the same bytes; no input panics; every
//! output is well-formed; every external text is escaped; a page loads nothing and runs nothing.

mod bars;
mod boxes;
mod dates;
mod distribution;
mod dots;
mod end_labels;
pub use tokrate_core::format;
mod heat;
mod labels;
mod line;
mod page;
mod plot;
mod rows;
mod scale;
mod scatter;
mod series;
mod sheet;
mod stacked;
mod svg;
mod table;
pub mod terminal;
mod text;
mod timeline;

pub use bars::{Bar, BarChart};
pub use boxes::{BoxChart, BoxRow};
pub use distribution::{DistributionChart, DistributionKind, Sample};
pub use heat::HeatMap;
pub use line::LineChart;
pub use page::{Block, Figure, Level, Notice, Page, Panel, Section};
pub use scale::{Axis, Scale};
pub use scatter::{ScatterChart, ScatterKind, ScatterPoint};
pub use series::{Band, Direction, Mark, Point, Series, SeriesStyle};
pub use sheet::{Chart, Sheet, Size};
pub use stacked::{StackedBar, StackedChart};
pub use svg::STYLE;
pub use table::{Align, Column, Table};
pub use text::escape;
pub use timeline::{Outcome, TimelineChart, TimelineRow};

#[cfg(test)]
mod tests;
