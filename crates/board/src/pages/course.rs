//! Numbers over time: daily medians, single requests, changes, quarantine.
//!
//! Invariant: a day with too few requests is a gap; requests in quarantine are grey and in no median.

use crate::board::{Board, DAY_MS, Entry};
use crate::data::{Change, ChangeKind, Metric};
use crate::html::{day, in_days, metric_words, quantity, signed_percent};
use crate::window::{Load, slots};
use tokrate_charts::{Axis, Band, Direction, LineChart, Mark, Point, Series, SeriesStyle};

/// Fewest requests of a day for its median, and for its middle half.
const MIN_FOR_MEDIAN: usize = 3;
const MIN_FOR_HALF: usize = 4;
/// Changes marked in one chart: more do not fit side by side.
const MAX_MARKS: usize = 4;

/// One day's requests: when it ended, the median and the middle half.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Day {
    middle: i64,
    median: Option<f64>,
    half: Option<(f64, f64)>,
}

/// Days that a chart shows: 14, or 30 where there are points as old.
pub(crate) fn days(board: &Board, entry: &Entry) -> usize {
    let first = board.points(entry).first().map_or(board.data.now_unix_ms, |point| point.at);
    if board.data.now_unix_ms - first > 15 * DAY_MS { 30 } else { 14 }
}

fn daily(board: &Board, entry: &Entry, load: Load, metric: Metric) -> Vec<Day> {
    let (now, count) = (board.data.now_unix_ms, days(board, entry));
    let mut values: Vec<Vec<f64>> = vec![Vec::new(); count];
    for point in slots(board.points(entry)).filter(|point| Load::of(point.in_flight) == load) {
        let ago = ((now - point.at) / DAY_MS) as usize;
        if let (Some(value), true) = (metric.of(point), ago < count) {
            values[count - 1 - ago].push(value);
        }
    }
    let of_day = |(index, mut values): (usize, Vec<f64>)| {
        values.sort_unstable_by(f64::total_cmp);
        let n = values.len();
        let ago = (count - 1 - index) as i64;
        Day {
            middle: now - ago * DAY_MS - DAY_MS / 2,
            median: (n >= MIN_FOR_MEDIAN).then(|| tokrate_stats::median(&values)),
            half: (n >= MIN_FOR_HALF).then(|| (values[n.div_ceil(4) - 1], values[n - n.div_ceil(4)])),
        }
    };
    values.into_iter().enumerate().map(of_day).collect()
}

/// A value in the unit of the axis: seconds for times.
pub(crate) fn on_axis(metric: Metric, value: f64) -> f64 {
    if metric == Metric::OutputSpeed { value } else { value / 1_000.0 }
}

/// The axis of a metric.
pub(crate) fn axis(metric: Metric) -> Axis {
    match metric {
        Metric::OutputSpeed => Axis::linear("Output speed of one request", "tok/s"),
        Metric::Ttft => Axis::linear("Time to first text", "s"),
        Metric::E2e => Axis::linear("Time to the end", "s"),
        Metric::GapP99 => Axis::linear("p99 of chunk gaps", "s"),
        Metric::Errors => Axis::linear("Failed requests", "%"),
    }
}

fn course(days: &[Day], metric: Metric, name: &str) -> Series {
    let point = |day: &Day| Point {
        x: in_days(day.middle),
        y: day.median.map(|value| on_axis(metric, value)),
        low: day.half.map(|(low, _)| on_axis(metric, low)),
        high: day.half.map(|(_, high)| on_axis(metric, high)),
        label: String::new(),
    };
    Series { name: name.to_owned(), points: days.iter().map(point).collect(), style: SeriesStyle::Course }
}

fn dots(board: &Board, entry: &Entry, load: Load, metric: Metric, quarantined: bool) -> Series {
    let oldest = board.data.now_unix_ms - days(board, entry) as i64 * DAY_MS;
    let shown = board.points(entry).iter().filter(|point| {
        Load::of(point.in_flight) == load && point.quarantine.is_some() == quarantined && point.at > oldest
    });
    let points = shown.filter_map(|point| {
        let y = Some(on_axis(metric, metric.of(point)?));
        Some(Point { x: in_days(point.at), y, ..Point::default() })
    });
    let (name, style) =
        if quarantined { ("in quarantine", SeriesStyle::Grey) } else { ("one request", SeriesStyle::Dots) };
    Series { name: name.to_owned(), points: points.collect(), style }
}

/// Changes of a series in a metric that a chart can mark, the most urgent kept.
fn marked<'a>(board: &'a Board, entry: &'a Entry, metric: Metric) -> Vec<&'a Change> {
    let oldest = board.data.now_unix_ms - days(board, entry) as i64 * DAY_MS;
    let mut changes: Vec<&Change> = board
        .changes_of(entry)
        .filter(|change| change.metric == metric.name() && change.since > oldest)
        .filter(|change| !matches!(change.kind, ChangeKind::Quarantine | ChangeKind::Suspect))
        .collect();
    changes.truncate(MAX_MARKS);
    changes
}

/// What a chart says: its changes, else how far the daily medians went.
fn claim(days: &[Day], changes: &[&Change], metric: Metric) -> String {
    let what = crate::html::title_case(metric.words());
    if let Some(change) = changes.iter().find(|change| change.change.is_some()) {
        let size = change.change.map_or_else(String::new, |size| signed_percent(size, &change.metric));
        let at = match change.kind {
            ChangeKind::Cycle => " at some hours of the day",
            _ => "",
        };
        return format!("{what}: {size}{at} since {}", day(change.since));
    }
    let medians: Vec<f64> = days.iter().filter_map(|day| day.median).collect();
    let (low, high) = medians.iter().fold((f64::INFINITY, 0.0f64), |(l, h), v| (l.min(*v), h.max(*v)));
    if medians.is_empty() {
        return format!("{what}: no day with enough requests");
    }
    format!("{what}: days between {} and {}", quantity(metric, low), quantity(metric, high))
}

/// One series over time.
pub(crate) fn of_entry(board: &Board, entry: &Entry, load: Load, metric: Metric) -> LineChart {
    let days = daily(board, entry, load, metric);
    let changes = marked(board, entry, metric);
    let mut series = vec![dots(board, entry, load, metric, true), dots(board, entry, load, metric, false)];
    let has_grey = series.iter().any(|series| series.style == SeriesStyle::Grey && !series.points.is_empty());
    let grey = if has_grey { ", grey in quarantine" } else { "" };
    let beyond = cut_outliers(&mut series, &days, metric);
    series.retain(|series| !series.points.is_empty());
    series.push(course(&days, metric, "daily median"));
    let mark = |change: &&Change| Mark {
        direction: Direction::Vertical,
        at: in_days(change.since),
        low: Some(in_days(change.since_earliest)),
        high: Some(in_days(change.since_latest)),
        label: change.change.map_or_else(|| metric_words(&change.metric), |size| signed_percent(size, &change.metric)),
    };
    LineChart {
        title: claim(&days, &changes, metric),
        description: format!(
            "Line: median of each 24 hours; band: the middle half of them; dots: single requests{grey}.{beyond}"
        ),
        x: Axis::dates("Day"),
        y: axis(metric),
        series,
        marks: changes.iter().map(mark).collect(),
        bands: quarantines(board, entry),
    }
}

/// Requests beyond this many times the highest daily median would press everything else to the ground.
const MAX_OVER_MEDIAN: f64 = 3.0;

/// Takes out the dots that are far above the course, and says how many there were and how far they went.
fn cut_outliers(series: &mut [Series], days: &[Day], metric: Metric) -> String {
    let highest = days.iter().filter_map(|day| day.half.map(|(_, high)| high).or(day.median)).fold(0.0, f64::max);
    let limit = on_axis(metric, highest * MAX_OVER_MEDIAN);
    if limit <= 0.0 {
        return String::new();
    }
    let (mut cut, mut most) = (0, 0.0f64);
    for series in series {
        series.points.retain(|point| {
            let y = point.y.unwrap_or(0.0);
            if y > limit {
                cut += 1;
                most = most.max(y);
            }
            y <= limit
        });
    }
    let value = if metric == Metric::OutputSpeed { most } else { most * 1_000.0 };
    match cut {
        0 => String::new(),
        1 => format!(" One request is off the chart, at {}.", quantity(metric, value)),
        cut => format!(" {cut} requests are off the chart, up to {}.", quantity(metric, value)),
    }
}

/// Times of quarantine as bands.
fn quarantines(board: &Board, entry: &Entry) -> Vec<Band> {
    let mut bands: Vec<(i64, i64)> = Vec::new();
    for point in board.points(entry).iter().filter(|point| point.quarantine.is_some()) {
        match bands.last_mut() {
            // Probes of one outage: no more than half a day apart.
            Some((_, to)) if point.at - *to < DAY_MS / 2 => *to = point.at,
            _ => bands.push((point.at, point.at)),
        }
    }
    let hour = DAY_MS / 24;
    let band = |(from, to): (i64, i64)| Band {
        direction: Direction::Vertical,
        from: in_days(from - hour),
        to: in_days(to + hour),
        name: "quarantine".to_owned(),
    };
    bands.into_iter().map(band).collect()
}

/// Several series over time, as daily medians.
pub(crate) fn of_entries(board: &Board, entries: &[(String, &Entry)], load: Load, metric: Metric) -> LineChart {
    let series = entries.iter().map(|(name, entry)| {
        let mut course = course(&daily(board, entry, load, metric), metric, name);
        // Bands of several lines hide each other.
        for point in &mut course.points {
            (point.low, point.high) = (None, None);
        }
        course
    });
    LineChart {
        title: format!("{}, day by day", crate::html::title_case(metric.words())),
        description: "Medians of each 24 hours. Whether a difference is more than chance: the table of ranks says so."
            .to_owned(),
        x: Axis::dates("Day"),
        y: axis(metric),
        series: series.collect(),
        ..LineChart::default()
    }
}
