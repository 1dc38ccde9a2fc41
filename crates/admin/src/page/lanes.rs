//! The section of lanes: the state of each, what it is expected to do, and its curve under load.
//!
//! Invariant: a curve is drawn as far as the lane was ever loaded, and no further.

use super::{View, course, share, usd};
use std::fmt::Write as _;
use tokrate_charts::{Axis, Chart, Direction, LineChart, Mark, Point, Series, Size, escape, format};
use tokrate_core::Sketch;
use tokrate_gateway::telemetry::{Distribution, LaneState, LaneStatus, Minute, OPEN_MINUTES, SPEED_STEPS, Snapshot};
use tokrate_record::AttemptEnd;
use tokrate_route::{Blame, Expectation, LaneSnapshot};
use tokrate_stats::Level;

/// Renders the section.
pub(super) fn render(out: &mut String, snapshot: &Snapshot, view: &View) {
    let _ = writeln!(
        out,
        concat!(
            "<section id=\"lanes\"><h2>Lanes now</h2><p class=\"intro\">Measured on the streams of the last {} minutes; ~ marks too few to ",
            "say more than what they were. Where nothing was measured, what a call with a prompt of {} tokens may expect by all that went ",
            "there, marked as inferred. The curves are learned likewise.</p><div class=\"cards\">"
        ),
        OPEN_MINUTES,
        format::count(LaneSnapshot::PROMPT_TOKENS)
    );
    for (index, lane) in snapshot.lanes.iter().enumerate() {
        card(out, view, (index, lane), snapshot.minute().saturating_sub(OPEN_MINUTES));
    }
    out.push_str("</div></section>\n");
}

fn card(out: &mut String, view: &View, (index, lane): (usize, &LaneStatus), since: u64) {
    let (class, word) = state_description(lane.state);
    let _ = write!(
        out,
        concat!(
            "<article class=\"card\" id=\"lane-{}\"><h3><a href=\"{}\">{}</a></h3><p class=\"state {}\">{}</p>",
            "<p class=\"of\">{} · {}</p>"
        ),
        index,
        view.link("/lane", &[("lane", &lane.name)]),
        escape(&lane.name),
        class,
        escape(&word),
        escape(&lane.provider),
        escape(&lane.model)
    );
    load(out, lane);
    out.push_str("<dl class=\"numbers\">");
    let stats = lane.stats.as_ref();
    let recent = |of: fn(&Minute) -> &Distribution| stats.map_or_else(Sketch::new, |stats| stats.recent(since, of));
    let (ttft, speed) = (recent(|minute| &minute.ttft), recent(|minute| &minute.output_speed));
    let inferred = |of: fn(&Expectation) -> String| match &lane.expected {
        Some(expected) => format!("{} (inferred)", of(expected)),
        None => format::MISSING.to_owned(),
    };
    let ttft = |level: Level, of: fn(&Expectation) -> String| {
        measured(&ttft, level, |nanos| format::seconds(nanos as f64 / 1e9)).unwrap_or_else(|| inferred(of))
    };
    let speed = measured(&speed, Level::P50, |steps| format::quantity(steps as f64 / SPEED_STEPS, "tok/s"));
    let attempts = stats.map_or(0, |stats| stats.count(|_| true));
    let failed = stats.map_or(0, |stats| stats.count(|(_, end, _)| *end == AttemptEnd::Failed));
    let numbers = [
        ("TTFT p50", ttft(Level::P50, |e| format::span(e.ttft_p50))),
        ("TTFT p90", ttft(Level::P90, |e| format::span(e.ttft_p90))),
        ("output speed", speed.unwrap_or_else(|| inferred(|e| format::quantity(e.speed, "tok/s")))),
        ("failing now", share((lane.failing * 1e4).round() / 1e4, f64::from(u8::from(attempts > 0)))),
        ("failed so far", share(failed as f64, attempts as f64)),
        ("cost so far", stats.map_or_else(|| usd(0.0), |stats| usd(stats.cost()))),
    ];
    for (name, value) in numbers {
        let _ = write!(out, "<div><dt>{name}</dt><dd>{}</dd></div>", escape(&value));
    }
    out.push_str("</dl>");
    curve(out, index, lane);
    out.push_str("</article>\n");
}

/// A quantile of what was measured, marked if there is too little for it; `None` if there is nothing.
fn measured(values: &Sketch, level: Level, text: impl Fn(u64) -> String) -> Option<String> {
    let value = text(values.quantile(level.share())?);
    Some(if values.count() < level.floor() { format!("~{value}") } else { value })
}

/// Attempts in flight, as a bar against the cap if there is one.
fn load(out: &mut String, lane: &LaneStatus) {
    let learned = lane.learned_cap.is_some_and(|learned| lane.cap == Some(learned as u32));
    let description = match lane.cap {
        Some(cap) if learned => format!("{} of {cap} in flight (learned from refusals)", lane.in_flight),
        Some(cap) => format!("{} of {cap} in flight", lane.in_flight),
        None => format!("{} in flight", lane.in_flight),
    };
    let _ = write!(out, "<p class=\"load\">{}</p>", escape(&description));
    if let Some(cap) = lane.cap {
        let full = 100.0 * f64::from(lane.in_flight.min(cap)) / f64::from(cap.max(1));
        let _ = write!(
            out,
            concat!(
                "<svg class=\"bar\" viewBox=\"0 0 100 4\" preserveAspectRatio=\"none\" aria-hidden=\"true\">",
                "<rect class=\"back\" width=\"100\" height=\"4\"/><rect class=\"fill\" width=\"{:.1}\" height=\"4\"/></svg>"
            ),
            full
        );
    }
}

/// A state in words, with its class in the style sheet.
pub(super) fn state_description(state: LaneState) -> (&'static str, String) {
    match state {
        LaneState::Ready => ("good", "ready".to_owned()),
        LaneState::Full => ("warning", "full".to_owned()),
        LaneState::OnTrial => ("warning", "half-open: one call probes it".to_owned()),
        LaneState::Unresolved => ("bad", "its name has no address; resolved again every minute".to_owned()),
        LaneState::CoolingDown { left, why } => {
            let why = match why {
                Blame::Key => "its key or its model was refused",
                Blame::Load => "it limits our rate",
                _ => "it failed",
            };
            let left = match left.as_secs_f64().ceil() {
                seconds if seconds < 120.0 => format!("{seconds} s"),
                seconds => format::seconds(seconds),
            };
            ("bad", format!("breaker open for {left} more: {why}"))
        }
    }
}

fn curve(out: &mut String, index: usize, lane: &LaneStatus) {
    let seen = lane.stats.as_ref().map_or(0, |stats| stats.peak_in_flight).max(lane.in_flight);
    let most = seen.next_power_of_two().max(2);
    let points: Vec<(f64, Expectation)> = lane
        .curve
        .iter()
        .filter(|point| point.in_flight <= most)
        .filter_map(|point| Some((f64::from(point.in_flight), point.expectation?)))
        .collect();
    if points.is_empty() {
        out.push_str("<p class=\"none\">Its speed is not known yet.</p>");
        return;
    }
    let speed = |(x, e): &(f64, Expectation)| Point { x: *x, y: Some(e.speed), ..Point::default() };
    let ttft = |(x, e): &(f64, Expectation)| Point {
        x: *x,
        y: Some(e.ttft_p50.as_secs_f64()),
        low: Some(e.ttft_p50.as_secs_f64()),
        high: Some(e.ttft_p90.as_secs_f64()),
        ..Point::default()
    };
    let name = format!("Output speed under load, {}", lane.name);
    let chart = chart(lane, name, Axis::linear("Output speed of one request", "tok/s"), points.iter().map(speed));
    let _ = write!(out, "<figure>{}</figure>", chart.panel(Size::Narrow));
    let name = format!("TTFT under load, {}", lane.name);
    let chart = chart_of_ttft(lane, name, points.iter().map(ttft));
    let weight = lane.expected.map_or(0.0, |expected| expected.weight);
    let _ = write!(
        out,
        concat!(
            "<details id=\"ttft-{}\"><summary id=\"ttft-{}-head\">TTFT under load, and the numbers</summary>",
            "<figure>{}</figure>{}<p class=\"note\">Estimated from the weight of {} recent calls; older calls count less.</p>",
            "</details>"
        ),
        index,
        index,
        chart.panel(Size::Narrow),
        numbers(lane, &points).html(),
        format::number(weight.max(0.0))
    );
}

fn chart_of_ttft(lane: &LaneStatus, title: String, points: impl Iterator<Item = Point>) -> LineChart {
    chart(lane, title, Axis::linear("TTFT, p50 with its band up to p90", "s"), points)
}

fn chart(lane: &LaneStatus, title: String, y: Axis, points: impl Iterator<Item = Point>) -> LineChart {
    let now = Mark {
        direction: Direction::Vertical,
        at: f64::from(lane.in_flight),
        low: None,
        high: None,
        label: format!("now {} in flight", lane.in_flight),
    };
    LineChart {
        title,
        x: Axis::log("Calls in flight", ""),
        y,
        series: vec![course(Series { name: String::new(), points: points.collect(), ..Series::default() })],
        marks: Some(now).filter(|now| now.at > 0.0).into_iter().collect(),
        ..LineChart::default()
    }
}

fn numbers(lane: &LaneStatus, points: &[(f64, Expectation)]) -> tokrate_charts::Table {
    use tokrate_charts::{Column, Table};
    let column = |of: fn(&Expectation) -> f64| {
        format::column(&points.iter().map(|(_, expected)| Some(of(expected))).collect::<Vec<_>>())
    };
    let columns = [
        points.iter().map(|(load, _)| format::plain(*load)).collect(),
        column(|expected| expected.speed),
        column(|expected| expected.ttft_p50.as_secs_f64() * 1e3),
        column(|expected| expected.ttft_p90.as_secs_f64() * 1e3),
    ];
    Table {
        caption: format!("What to expect of {}", lane.name),
        columns: vec![
            Column::numbers("in flight", ""),
            Column::numbers("output speed", "tok/s"),
            Column::numbers("TTFT p50", "ms"),
            Column::numbers("TTFT p90", "ms"),
        ],
        rows: (0..points.len())
            .map(|row| columns.iter().map(|cells: &Vec<String>| cells[row].clone()).collect())
            .collect(),
        notes: Vec::new(),
    }
}
