//! The live page: rendered by the server, kept up to date by a small script, complete without one.
//!
//! Invariant: every text from outside is escaped; nothing is loaded from elsewhere; neither styles nor scripts are
//! inline, so that the content security policy can forbid both.

mod aliases;
mod call_list;
mod calls;
mod changes;
mod columns;
mod errors;
mod grid;
mod keys;
mod lane;
mod lanes;
mod last_hour;
mod overview;
mod problems;
mod range;
mod settings;
mod shell;
mod trail;
mod view;

pub(crate) use call_list::{CALL_SORTS, PAGE_CALLS, call_list};
pub(crate) use keys::{KEY_SORTS, keys};
pub(crate) use lane::lane;
pub(crate) use overview::{error, overview};
pub(crate) use range::LANE_SORTS;
pub(crate) use settings::settings;
pub(crate) use trail::{found, trail};
pub(crate) use view::View;

use std::fmt::Write as _;
use std::sync::Arc;
use tokrate_charts::{Chart, LineChart, Point, Series, SeriesStyle, Size, escape, format};
use tokrate_core::Date;
use tokrate_gateway::telemetry::Snapshot;
use tokrate_store::Report;

/// The charts' style sheet, then the page's own.
pub(crate) fn style() -> String {
    format!("{}{}", tokrate_charts::STYLE, include_str!("page/page.css"))
}

/// Keeps the page up to date.
pub(crate) const SCRIPT: &str = include_str!("page/live.js");

/// The content security policy: own styles, own script, requests and forms to this server, nothing else.
pub(crate) const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; \
                                 img-src data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// What a page is made of.
pub(crate) struct Input<'a> {
    /// The gateway now.
    pub snapshot: &'a Snapshot,
    /// What was asked for.
    pub view: &'a View,
    /// What the log says of the range, or why it cannot be read; `None` without a log.
    pub report: Option<Result<Arc<Report>, String>>,
}

impl Input<'_> {
    /// The frame of a page about the range: its title, place in the navigation and path, with parameters of its own and those of its JSON.
    fn shell<'a>(
        &'a self,
        (title, tab, path): (&'a str, shell::Tab, &'a str),
        more: &'a [(&'a str, &'a str)],
        of_json: &[(&str, &str)],
    ) -> shell::Shell<'a> {
        let has_report = self.report.is_some();
        shell::Shell {
            title,
            tab,
            view: Some(self.view),
            has_range: has_report,
            path,
            more,
            is_live: self.view.is_live(),
            has_filters: has_report,
            names: self.names(),
            version: self.snapshot.version,
            json: if has_report { self.view.link("/api/report", of_json) } else { "/api/lanes".to_owned() },
        }
    }

    /// Names that filters offer: those of the settings, and those of the range.
    fn names(&self) -> shell::Names {
        let mut names = shell::Names {
            keys: self.snapshot.keys.iter().map(|key| key.name.clone()).collect(),
            aliases: self.snapshot.aliases.iter().map(|alias| alias.name.clone()).collect(),
        };
        if let Some(Ok(report)) = &self.report {
            names.keys.extend(report.keys.keys().flatten().cloned());
            names.aliases.extend(report.aliases.keys().cloned());
        }
        names
    }
}

/// A number with its label.
struct Figure {
    label: &'static str,
    value: String,
    note: String,
}

fn figures(out: &mut String, id: &str, figures: &[Figure]) {
    let _ = write!(out, r#"<dl class="figures" id="{id}">"#);
    for Figure { label, value, note } in figures {
        let _ = write!(out, "<div><dt>{}</dt><dd class=\"value\">{}</dd>", escape(label), with_small_unit(value));
        if !note.is_empty() {
            let _ = write!(out, "<dd class=\"aside\">{}</dd>", escape(note));
        }
        out.push_str("</div>");
    }
    out.push_str("</dl>\n");
}

/// Two charts side by side, each with its table.
fn chart_pair(out: &mut String, section: &str, charts: [LineChart; 2]) {
    out.push_str("<div class=\"pair\">");
    for chart in charts {
        let id = chart.title.to_lowercase().replace(' ', "-");
        let _ = write!(
            out,
            concat!(
                "<figure><h3>{}</h3><div class=\"wide\">{}</div><div class=\"narrow\">{}</div>",
                "<details id=\"{}-{}\"><summary id=\"{}-{}-head\">The numbers as a table</summary>{}</details></figure>"
            ),
            escape(&chart.title),
            chart.panel(Size::Half),
            chart.panel(Size::Narrow),
            section,
            id,
            section,
            id,
            chart.table().html()
        );
    }
    out.push_str("</div>");
}

/// Known points of a course from which on they are joined by a line: two would be a straight one that nobody has seen.
const MIN_JOINED_POINTS: usize = 3;

/// A series as a line, or its points one by one where they are too few for one.
fn course(series: Series) -> Series {
    apart_if_few(Series { style: SeriesStyle::Course, ..series })
}

/// A series whose points are not joined where they are too few for a line.
fn apart_if_few(series: Series) -> Series {
    let known = series.points.iter().filter(|point| point.y.is_some()).count();
    if known >= MIN_JOINED_POINTS {
        return series;
    }
    // A point without neighbours is drawn by itself.
    let gap = |x: f64| Point { x, ..Point::default() };
    let apart = series.points.into_iter().flat_map(|point| {
        let gap = gap(point.x);
        [point, gap]
    });
    Series { points: apart.collect(), ..series }
}

/// Nanoseconds in a suitable unit.
fn nanos(nanos: u64) -> String {
    format::seconds(nanos as f64 / 1e9)
}

/// A ratio as per cent; missing where the whole is 0.
fn share(part: f64, whole: f64) -> String {
    if whole > 0.0 { format::percent(part / whole) } else { format::MISSING.to_owned() }
}

/// An amount of money: cents from a dollar on, three digits below, and never zero for something.
pub(crate) fn usd(amount: f64) -> String {
    let digits = match amount {
        a if !a.is_finite() => return format::MISSING.to_owned(),
        0.0 => "0".to_owned(),
        a if a >= 100.0 => format::number(a),
        a if a >= 1.0 => format!("{a:.2}"),
        a if a >= 1e-6 => {
            let places = 2 - a.log10().floor() as i32;
            let digits = format!("{a:.*}", places.clamp(2, 8) as usize);
            digits.trim_end_matches('0').to_owned()
        }
        _ => "< 0.000001".to_owned(),
    };
    // A no-break space keeps number and unit on one line.
    format!("{digits}\u{a0}USD")
}

/// A time in UTC: of the day of `now` without its date.
fn moment(unix_ms: u64, now_unix_ms: u64) -> String {
    const DAY_MS: u64 = 86_400_000;
    let time = clock_time(unix_ms);
    if unix_ms / DAY_MS == now_unix_ms / DAY_MS {
        return time;
    }
    let Date { year, month, day } = Date::of_seconds(unix_ms / 1_000);
    format!("{year:04}-{month:02}-{day:02} {time}")
}

/// The time of day in UTC.
fn clock_time(unix_ms: u64) -> String {
    let second = unix_ms / 1000 % 86_400;
    format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
}

fn uptime(snapshot: &Snapshot) -> String {
    // Whole seconds are enough for a page that updates every two.
    format::seconds(snapshot.uptime.as_secs_f64().floor())
}

/// Sets the unit of a number smaller.
fn with_small_unit(value: &str) -> String {
    match value.rsplit_once([' ', '\u{a0}']) {
        Some((number, unit)) => format!("{} <small>{}</small>", escape(number), escape(unit)),
        None => escape(value),
    }
}

#[cfg(test)]
pub(crate) mod tests;
