//! The section of the last hour by minute: TTFT and output speed of the lanes that answered most.
//!
//! Lanes are never summed up, because they were measured under different conditions. Invariant: a minute without a call
//! is a gap in the line, and a minute holds the attempts that started in it.

use super::{chart_pair, course};
use std::fmt::Write as _;
use tokrate_charts::{Axis, LineChart, Point, Series};
use tokrate_gateway::telemetry::Snapshot;
use tokrate_gateway::telemetry::{Distribution, LaneStats, MINUTES, Minute, OPEN_MINUTES, SPEED_STEPS};

/// Lanes in one chart: more cannot be told apart.
const MAX_LANES: usize = 6;

/// Renders the section.
pub(super) fn render(out: &mut String, snapshot: &Snapshot) {
    out.push_str("<section id=\"hour\"><h2>The last hour</h2>");
    let since = snapshot.first_minute_of_hour();
    let answered = |lane: &LaneStats| -> u64 {
        lane.minutes_since(since).filter_map(|minute| minute.ttft.band()).map(|band| u64::from(band.count)).sum()
    };
    let mut lanes: Vec<(&LaneStats, u64)> = snapshot.stats.lanes.iter().map(|lane| (lane, answered(lane))).collect();
    lanes.retain(|(_, answers)| *answers > 0);
    if lanes.is_empty() {
        out.push_str("<p class=\"none\">No answer started within the last hour.</p></section>\n");
        return;
    }
    lanes.sort_by_key(|(_, answers)| std::cmp::Reverse(*answers));
    let left_out = lanes.len().saturating_sub(MAX_LANES);
    lanes.truncate(MAX_LANES);
    // Sorted by name, so that a lane keeps its colour from one update to the next.
    lanes.sort_by_key(|(lane, _)| lane.identity());
    let _ = write!(
        out,
        concat!(
            "<p class=\"intro\">By the minute in which attempts started: median, and a band from the 10th to the 90th ",
            "percentile, of those that ended within {} minutes."
        ),
        OPEN_MINUTES
    );
    if left_out > 0 {
        let _ = write!(out, " The {MAX_LANES} lanes that answered most; {left_out} more are left out.");
    }
    out.push_str("</p>");
    let lane_series = |of: fn(&Minute) -> &Distribution, per: f64| -> Vec<Series> {
        lanes.iter().map(|(lane, _)| course(series(snapshot, lane, of, per))).collect()
    };
    let ttft = Axis::linear("Sent to first output text", "s");
    let speed = Axis::linear("Of one request after its first chunk", "tok/s");
    chart_pair(
        out,
        "hour",
        [
            chart("TTFT", ttft, lane_series(|minute| &minute.ttft, 1e9)),
            chart("Output speed", speed, lane_series(|minute| &minute.output_speed, SPEED_STEPS)),
        ],
    );
    out.push_str("</section>\n");
}

fn chart(title: &str, y: Axis, series: Vec<Series>) -> LineChart {
    LineChart { title: title.to_owned(), x: Axis::linear("Time from now", "min"), y, series, ..LineChart::default() }
}

/// A lane's values over time, with gaps where there were none.
fn series(snapshot: &Snapshot, lane: &LaneStats, of: fn(&Minute) -> &Distribution, per: f64) -> Series {
    let now = snapshot.minute();
    let point = |ago: u64| {
        let band = lane.minutes.since(now.saturating_sub(ago)).next().filter(|(number, _)| number + ago == now);
        let band = band.and_then(|(_, minute)| of(minute).band());
        let scaled = |value: f32| f64::from(value) / per;
        Point {
            x: -(ago as f64),
            y: band.map(|band| scaled(band.median)),
            low: band.map(|band| scaled(band.low)),
            high: band.map(|band| scaled(band.high)),
            ..Point::default()
        }
    };
    let oldest = lane.minutes.oldest().map_or(0, |oldest| now.saturating_sub(oldest)).min(MINUTES - 1);
    let points = (0..=oldest).rev().map(point).collect();
    Series { name: name_of(snapshot, lane), points, ..Series::default() }
}

/// Its name, and its model if another lane of that name has been configured since.
fn name_of(snapshot: &Snapshot, lane: &LaneStats) -> String {
    let namesakes = snapshot.stats.lanes.iter().filter(|other| other.name == lane.name).count();
    if namesakes > 1 { format!("{} ({})", lane.name, lane.model) } else { lane.name.to_string() }
}
