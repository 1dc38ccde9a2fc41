//! The page of an endpoint: how fast as a rule, when slow, what changed, under which conditions.
//!
//! Invariant: charts show one series, the one with the most requests, named at the top; every other series has its row.

use crate::board::{Board, DAY_MS, Entry};
use crate::data::{Change, Metric, Point};
use crate::html::{Frame, estimate, half_chart, moment, name, page, share, text, usd};
use crate::links::{Links, Mode, Ranked, Target};
use crate::pages::{answer, course, leaderboard};
use crate::view::View;
use crate::window::{Estimate, Load, Summary, Window, slots};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use tokrate_charts::{
    Axis, Column, DistributionChart, HeatMap, LineChart, Sample, Series, SeriesStyle, Table, escape, format,
};
use tokrate_stats::Level;

/// Rows of the newest requests.
const MAX_ROWS: usize = 24;
/// Hours of a cell of the week.
const CELL_HOURS: i64 = 3;
const CELLS: usize = (24 / CELL_HOURS) as usize;
/// Fewest requests of a day that has a median to compare with.
const MIN_IN_DAY: usize = 4;
/// Fewest requests of a cell.
const MIN_IN_CELL: usize = 2;

/// The page.
pub(crate) fn render(board: &Board, target: &Target, endpoint: usize, mode: Mode) -> String {
    let links = Links::from(board, target, mode);
    let entries: Vec<&Entry> = board.entries.iter().filter(|entry| entry.endpoint == endpoint).collect();
    let label = &board.endpoints[endpoint].label;
    let mut out = format!("<h1>{}</h1>\n", escape(label));
    if let Some(main) = board.main_entry(endpoint) {
        let load = main.usual_load();
        head(&mut out, &links, main, load);
        leaderboard::notices(&mut out, board);
        figures(&mut out, &links, main, load);
        events(&mut out, &links, endpoint);
        over_time(&mut out, board, main, load);
        when_and_how(&mut out, board, main, load, &entries);
        errors(&mut out, board, main);
        all_series(&mut out, &links, &entries);
        conditions(&mut out, &links, &entries);
        newest(&mut out, board, main);
    }
    let description = format!("How fast {label} answers, when it is slow and what changed.");
    page(&links, &Frame { title: label.clone(), description, target }, &out)
}

fn head(out: &mut String, links: &Links<'_>, main: &Entry, load: Load) {
    let board = links.board;
    let provider = links.link(&Target::Provider(main.provider), &name(&board.providers[main.provider]));
    let model = links.link(&Target::Model(main.model), &name(&board.models[main.model]));
    let _ = writeln!(
        out,
        "<p class=\"subtitle\">{provider} · {model} · {} · from {} · {} · {}</p>",
        name(&board.workloads[main.workload]),
        name(&board.places[main.place]),
        load.words(),
        main.source.words(),
    );
}

fn figures(out: &mut String, links: &Links<'_>, main: &Entry, load: Load) {
    let board = links.board;
    let window = Window::ThreeDays;
    let Some(summary) = main.summary(load, window) else { return };
    out.push_str("<dl class=\"headline\">");
    let mut figure = |label: &str, html: String, note: String| {
        let _ =
            write!(out, "<div><dt>{label}</dt><dd class=\"value\">{html}</dd><dd class=\"aside\">{note}</dd></div>");
    };
    let rank = |metric| {
        let view = View {
            model: Some(main.model),
            workload: main.workload,
            place: main.place,
            load,
            source: main.source,
            window,
            sort: crate::view::Sort::By(metric),
        };
        match main.ranks(load, window, metric) {
            Some(ranks) => format!(
                "{} among its model's",
                links.link(&Target::Ranked(Ranked::Leaderboard, view), &format!("place {ranks}"))
            ),
            None => "not ranked".to_owned(),
        }
    };
    let n = summary.errors.n;
    figure(
        "Output speed, median of 72 h",
        estimate(Metric::OutputSpeed, &summary.median(Metric::OutputSpeed)),
        format!("n = {n}, {}", rank(Metric::OutputSpeed)),
    );
    figure(
        "TTFT, median of 72 h",
        estimate(Metric::Ttft, &summary.median(Metric::Ttft)),
        format!("n = {n}, {}", rank(Metric::Ttft)),
    );
    figure("Failed in 72 h", share(&summary.errors), format!("{} of {n}", summary.errors.hits));
    if let Some(month) = main.summary(load, Window::Month) {
        figure(
            "5 % of requests are slower than",
            tail(Metric::OutputSpeed, &month.speed_p5),
            "last 30 days".to_owned(),
        );
        figure("5 % wait longer than", tail(Metric::Ttft, &month.ttft_p95), "last 30 days".to_owned());
    }
    if let Some(tasks) = board.tasks(main.endpoint) {
        let (value, latest) = answered(&tasks);
        figure("Tasks answered right, 14 days", value, latest);
    }
    if let Some(price) = board.price(main.endpoint) {
        let cost = summary.cost.value.map_or_else(String::new, |cost| format!("a request {}", usd(cost)));
        figure(
            "Price per M tokens, in / out",
            format!(
                "<b>{}</b> <small>/ {}</small>",
                usd(price.input_usd_per_million),
                usd(price.output_usd_per_million)
            ),
            [text(&price.source), text(&price.date), cost]
                .into_iter()
                .filter(|part| !part.is_empty())
                .collect::<Vec<_>>()
                .join(", "),
        );
    }
    out.push_str("</dl>\n");
}

/// How many tasks were answered right, and the latest that was not.
fn answered(tasks: &crate::board::Tasks<'_>) -> (String, String) {
    let interval = tokrate_stats::wilson_interval(tasks.right, tasks.asked, 0.95);
    let interval =
        interval.map_or_else(String::new, |it| format!(" <small>{}</small>", escape(&interval_of(it.low, it.high))));
    let latest = tasks.latest_wrong.map_or_else(
        || "none was wrong".to_owned(),
        |(at, why)| format!("last wrong on {}: {}", crate::html::day(at), text(why)),
    );
    (format!("<b>{} of {}</b>{interval}", format::count(tasks.right), format::count(tasks.asked)), latest)
}

fn interval_of(low: f64, high: f64) -> String {
    crate::html::interval(Metric::Errors, low, high)
}

fn tail(metric: Metric, tail: &Estimate) -> String {
    match tail.value {
        Some(_) => estimate(metric, tail),
        None => format!(
            "<span class=\"lacks\">{} more needed</span> <small>n = {} of {}</small>",
            tail.missing(),
            tail.n,
            tail.floor
        ),
    }
}

fn events(out: &mut String, links: &Links<'_>, endpoint: usize) {
    let board = links.board;
    let full = &board.endpoints[endpoint].full;
    let changes: Vec<&Change> = board.changes.iter().filter(|change| change.endpoint == *full).collect();
    out.push_str("<section><h2>What changed</h2>");
    if changes.is_empty() {
        out.push_str("<p class=\"none\">Nothing that can be told from chance.</p>");
    } else {
        out.push_str("<ul class=\"changes\">");
        for change in changes.iter().take(12) {
            answer::change_line(out, links, change);
            remarks(out, change);
        }
        out.push_str("</ul>");
    }
    out.push_str("</section>\n");
}

pub(crate) fn remarks(out: &mut String, change: &Change) {
    for remark in change.remarks.iter().take(6) {
        let _ = write!(out, "<li class=\"remark\">{}</li>", text(remark));
    }
}

fn over_time(out: &mut String, board: &Board, main: &Entry, load: Load) {
    out.push_str("<section class=\"pair\"><h2>Day by day</h2>\n");
    half_chart(out, &course::of_entry(board, main, load, Metric::OutputSpeed));
    half_chart(out, &course::of_entry(board, main, load, Metric::Ttft));
    out.push_str("</section>\n");
}

/// The week, the distribution, the length of the prompt and the load.
fn when_and_how(out: &mut String, board: &Board, main: &Entry, load: Load, entries: &[&Entry]) {
    out.push_str("<section class=\"pair\"><h2>When, and how much requests differ</h2>\n");
    half_chart(out, &week(board, main, load));
    half_chart(out, &distribution(board, main, load, Metric::Ttft));
    out.push_str("</section>\n");
    let alike: Vec<&Entry> =
        entries.iter().copied().filter(|entry| (entry.source, entry.place) == (main.source, main.place)).collect();
    let charts: Vec<LineChart> = [by_length(board, &alike), by_load(board, &alike)].into_iter().flatten().collect();
    if charts.is_empty() {
        return;
    }
    out.push_str("<section class=\"pair\"><h2>Longer prompts, more load</h2>\n");
    charts.iter().for_each(|chart| half_chart(out, chart));
    out.push_str("</section>\n");
}

const WEEK: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/// Output speed by hour of the week, each request against the median of its own day, so that a change of level is no pattern.
fn week(board: &Board, main: &Entry, load: Load) -> HeatMap {
    let mut by_day: BTreeMap<i64, Vec<(i64, f64)>> = BTreeMap::new();
    for point in slots(board.points(main)).filter(|point| Load::of(point.in_flight) == load) {
        if let Some(speed) = Metric::OutputSpeed.of(point) {
            by_day.entry(point.at.div_euclid(DAY_MS)).or_default().push((point.at.rem_euclid(DAY_MS), speed));
        }
    }
    let mut cells: Vec<Vec<Vec<f64>>> = vec![vec![Vec::new(); CELLS]; 7];
    for (day, requests) in by_day.iter().filter(|(_, requests)| requests.len() >= MIN_IN_DAY) {
        let mut speeds: Vec<f64> = requests.iter().map(|(_, speed)| *speed).collect();
        speeds.sort_unstable_by(f64::total_cmp);
        let median = tokrate_stats::median(&speeds);
        // The first of January 1970 was a Thursday.
        let weekday = (day + 3).rem_euclid(7) as usize;
        for (at, speed) in requests {
            cells[weekday][(at * CELLS as i64 / DAY_MS) as usize].push(speed / median * 100.0);
        }
    }
    let title = slowest_hours(&cells);
    let median = |values: &Vec<f64>| {
        let mut values = values.clone();
        values.sort_unstable_by(f64::total_cmp);
        (values.len() >= MIN_IN_CELL).then(|| tokrate_stats::median(&values).round())
    };
    let rows = cells.iter().zip(WEEK).map(|(cells, name)| (name.to_owned(), cells.iter().map(median).collect()));
    HeatMap {
        title,
        description: "Output speed by hour of the week, in per cent of the same day's median, last 30 days; a dash: fewer than two requests."
            .to_owned(),
        label: "Output speed against its day; hours in UTC".to_owned(),
        from_lowest: true,
        unit: "%".to_owned(),
        columns: (0..CELLS).map(|cell| format!("{:02}", cell as i64 * CELL_HOURS)).collect(),
        rows: rows.collect(),
    }
}

/// What the week says: the slowest hours of the day, if they can be told from the others.
fn slowest_hours(cells: &[Vec<Vec<f64>>]) -> String {
    let of = |wanted: usize, same: bool| -> Vec<f64> {
        let columns = cells.iter().flat_map(|day| day.iter().enumerate());
        columns.filter(|(column, _)| (*column == wanted) == same).flat_map(|(_, values)| values.clone()).collect()
    };
    let mut slowest: Option<(f64, usize)> = None;
    for column in 0..CELLS {
        let (mut inside, outside) = (of(column, true), of(column, false));
        if inside.len() < MIN_IN_CELL * 3 || outside.len() < MIN_IN_CELL * 3 {
            continue;
        }
        // As many looks as there are hours to choose from.
        let p = tokrate_stats::rank_sum_p(&inside, &outside) * CELLS as f64;
        inside.sort_unstable_by(f64::total_cmp);
        let median = tokrate_stats::median(&inside);
        if p <= crate::rank::SIGNIFICANCE && median < 100.0 && slowest.is_none_or(|(lowest, _)| median < lowest) {
            slowest = Some((median, column));
        }
    }
    slowest.map_or_else(
        || "No hours of the day that can be told from the others".to_owned(),
        |(median, column)| {
            let hour = column as i64 * CELL_HOURS;
            let below = format::fixed(100.0 - median, 0);
            format!("Slowest from {hour:02} to {:02} UTC: {below} % below the day", hour + CELL_HOURS)
        },
    )
}

fn distribution(board: &Board, main: &Entry, load: Load, metric: Metric) -> DistributionChart {
    let from = board.data.now_unix_ms - Window::TwoWeeks.millis();
    let points: Vec<&Point> =
        slots(board.points(main)).filter(|point| point.at > from && Load::of(point.in_flight) == load).collect();
    let values: Vec<f64> = points.iter().filter_map(|point| Some(course::on_axis(metric, metric.of(point)?))).collect();
    let failed = points.iter().filter(|point| point.failure.is_some()).count();
    let mut sorted = values.clone();
    sorted.sort_unstable_by(f64::total_cmp);
    let title = if sorted.len() >= 8 {
        let (low, high) = (sorted[sorted.len().div_ceil(10) - 1], sorted[sorted.len() - sorted.len().div_ceil(10)]);
        format!("Four of five requests begin after {} to {}", format::seconds(low), format::seconds(high))
    } else {
        "Time to first text: too few requests yet".to_owned()
    };
    DistributionChart {
        title,
        description: "Share of requests that had begun by then, last 14 days; failed ones never begin.".to_owned(),
        // A request that took a hundred times as long must not leave the others on one line.
        x: Axis::log("Time to first text", "s"),
        samples: vec![Sample { name: "requests".to_owned(), values, failed }],
        ..DistributionChart::default()
    }
}

/// A median with its interval at a position.
fn at(x: f64, mut values: Vec<f64>, metric: Metric, label: String) -> Option<tokrate_charts::Point> {
    values.sort_unstable_by(f64::total_cmp);
    let estimate = Estimate::of(&values, Level::P50);
    let scaled = |value: Option<f64>| value.map(|value| course::on_axis(metric, value));
    Some(tokrate_charts::Point {
        x,
        y: Some(scaled(estimate.value)?),
        low: scaled(estimate.low),
        high: scaled(estimate.high),
        label,
    })
}

/// TTFT against the length of the prompt, one request at a time.
fn by_length(board: &Board, entries: &[&Entry]) -> Option<LineChart> {
    let mut points: Vec<tokrate_charts::Point> = Vec::new();
    for entry in entries {
        let alone = || slots(board.points(entry)).filter(|point| Load::of(point.in_flight) == Load::One);
        let mut lengths: Vec<f64> = alone().filter_map(|point| point.input_tokens).map(f64::from).collect();
        lengths.sort_unstable_by(f64::total_cmp);
        if lengths.is_empty() {
            continue;
        }
        let values = alone().filter_map(|point| Metric::Ttft.of(point)).collect();
        let label = board.workloads[entry.workload].label.clone();
        points.extend(at(tokrate_stats::median(&lengths), values, Metric::Ttft, label));
    }
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    let (first, last) = (points.first()?, points.last()?);
    if first.x >= last.x {
        return None;
    }
    let times = |point: &tokrate_charts::Point| point.y.map_or_else(String::new, format::seconds);
    Some(LineChart {
        title: format!("TTFT grows from {} at {} tokens to {} at {}", times(first), format::plain(first.x), times(last), format::plain(last.x)),
        description: "Median and 95 % interval by the length of the prompt, one request at a time, last 30 days; each workload at its own length.".to_owned(),
        x: Axis::log("Tokens of the prompt", "").labelled_at(points.iter().map(|point| point.x)),
        y: course::axis(Metric::Ttft),
        series: vec![Series { name: String::new(), points, style: SeriesStyle::Measured }],
        ..LineChart::default()
    })
}

/// The degradation curve: output speed against requests in flight.
fn by_load(board: &Board, entries: &[&Entry]) -> Option<LineChart> {
    let mut series = Vec::new();
    for entry in entries {
        let mut by_load: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for point in slots(board.points(entry)) {
            by_load.entry(point.in_flight.max(1)).or_default().extend(Metric::OutputSpeed.of(point));
        }
        let points: Vec<tokrate_charts::Point> = by_load
            .into_iter()
            .filter_map(|(load, values)| at(f64::from(load), values, Metric::OutputSpeed, String::new()))
            .collect();
        if points.len() > 1 {
            series.push(Series {
                name: board.workloads[entry.workload].label.clone(),
                points,
                style: SeriesStyle::Measured,
            });
        }
    }
    let curve = series.first()?;
    let (first, last) = (curve.points.first()?, curve.points.last()?);
    let (alone, crowded) = (first.y?, last.y?);
    Some(LineChart {
        title: format!(
            "At {} in flight each request has {} of its speed",
            format::plain(last.x),
            format::percent((crowded / alone * 100.0).round() / 100.0)
        ),
        description: "Median and 95 % interval of the output speed by requests in flight, last 30 days.".to_owned(),
        x: Axis::log("Requests in flight", ""),
        y: course::axis(Metric::OutputSpeed),
        series,
        ..LineChart::default()
    })
}

fn errors(out: &mut String, board: &Board, main: &Entry) {
    let mut kinds: BTreeMap<&str, (u64, Option<&Point>)> = BTreeMap::new();
    let mut missing: BTreeMap<&str, u64> = BTreeMap::new();
    let mut quarantined: BTreeMap<&str, u64> = BTreeMap::new();
    for point in board.points(main) {
        if let Some(why) = &point.quarantine {
            *quarantined.entry(why).or_default() += 1;
        } else if let Some(kind) = point.failure {
            let entry = kinds.entry(kind.name()).or_default();
            entry.0 += 1;
            entry.1 = Some(point);
        } else if let Some(why) = &point.reason {
            *missing.entry(why).or_default() += 1;
        }
    }
    out.push_str("<section><h2>Errors, and numbers that are missing</h2>\n");
    if kinds.is_empty() && missing.is_empty() && quarantined.is_empty() {
        out.push_str(
            "<p class=\"none\">No request failed and none lacks a number in the last 30 days.</p></section>\n",
        );
        return;
    }
    let mut table = Table { caption: "Errors, and numbers that are missing".to_owned(), ..Table::default() };
    table.columns =
        vec![Column::words("what"), Column::numbers("requests", ""), Column::words("latest, and its message")];
    for (kind, (count, latest)) in kinds {
        let latest = latest.map_or_else(String::new, |point| {
            let message = point.reason.as_deref().unwrap_or_default();
            format!(
                "{} {}",
                crate::html::day(point.at),
                tokrate_core::one_line(message, crate::names::MAX_SENTENCE_BYTES)
            )
        });
        table.rows.push(vec![format!("failed: {}", kind.replace('_', " ")), format::count(count), latest]);
    }
    let bounded = |why: &str| tokrate_core::one_line(why, crate::names::MAX_SENTENCE_BYTES);
    for (why, count) in missing.into_iter().take(20) {
        table.rows.push(vec!["answered, without a number".to_owned(), format::count(count), bounded(why)]);
    }
    for (why, count) in quarantined.into_iter().take(20) {
        table.rows.push(vec!["in quarantine, not counted".to_owned(), format::count(count), bounded(why)]);
    }
    out.push_str(&table.html());
    out.push_str("</section>\n");
}

fn all_series(out: &mut String, links: &Links<'_>, entries: &[&Entry]) {
    let board = links.board;
    out.push_str("<section><h2>Everything measured here, last 72 hours</h2>\n<table class=\"board\"><thead><tr><th scope=\"col\">Workload</th><th scope=\"col\">From</th><th scope=\"col\">Load</th><th scope=\"col\">Source</th><th scope=\"col\" class=\"n\">Output speed</th><th scope=\"col\" class=\"n\">TTFT</th><th scope=\"col\" class=\"n\">Failed</th><th scope=\"col\" class=\"n\">n</th></tr></thead><tbody>");
    for entry in entries {
        for load in entry.loads.keys() {
            let empty = Summary::default();
            let summary = entry.summary(*load, Window::ThreeDays).unwrap_or(&empty);
            let _ = write!(
                out,
                "<tr><th scope=\"row\">{}</th><td data-name=\"From\">{}</td><td data-name=\"Load\">{}</td><td data-name=\"Source\">{}</td><td class=\"n\" data-name=\"Output speed\">{}</td><td class=\"n\" data-name=\"TTFT\">{}</td><td class=\"n\" data-name=\"Failed\">{}</td><td class=\"n\" data-name=\"Samples\">{}</td></tr>",
                name(&board.workloads[entry.workload]),
                name(&board.places[entry.place]),
                load.words(),
                entry.source.name(),
                estimate(Metric::OutputSpeed, &summary.median(Metric::OutputSpeed)),
                estimate(Metric::Ttft, &summary.median(Metric::Ttft)),
                share(&summary.errors),
                summary.errors.n,
            );
        }
    }
    out.push_str("</tbody></table></section>\n");
}

fn conditions(out: &mut String, links: &Links<'_>, entries: &[&Entry]) {
    let board = links.board;
    out.push_str("<section><h2 id=\"conditions\">Conditions</h2>\n<p class=\"lead\">What the numbers depend on. Only rows with the same conditions are ranked together.</p>\n");
    let mut shown: Vec<usize> = entries.iter().map(|entry| entry.fingerprint).collect();
    shown.sort_unstable();
    shown.dedup();
    for fingerprint in shown {
        let Some(entry) = entries.iter().find(|entry| entry.fingerprint == fingerprint) else { continue };
        let _ = write!(
            out,
            "<dl class=\"terms\"><div><dt>fingerprint</dt><dd>{}</dd></div>",
            name(&board.fingerprints[fingerprint])
        );
        for (term, value) in board.data.series[entry.series].conditions.iter().take(60) {
            let _ = write!(out, "<div><dt>{}</dt><dd>{}</dd></div>", text(term), text(value));
        }
        out.push_str("</dl>\n");
    }
    let Some(entry) = entries.first() else { return };
    let endpoint = entry.endpoint;
    let _ = writeln!(
        out,
        "<p class=\"note\">All requests of the last 30 days as {}; numbers as {}; a {} for your page.</p></section>",
        links.link(&Target::EndpointCsv(endpoint), "CSV"),
        links.link(&Target::EndpointJson(endpoint), "JSON"),
        links.link(&Target::Badge(endpoint), "badge"),
    );
}

fn newest(out: &mut String, board: &Board, main: &Entry) {
    out.push_str("<section><h2 id=\"rows\">The newest requests</h2>\n<table class=\"board\"><thead><tr><th scope=\"col\">Sent</th><th scope=\"col\" class=\"n\">TTFT</th><th scope=\"col\" class=\"n\">Output speed <small>tok/s</small></th><th scope=\"col\" class=\"n\">Total</th><th scope=\"col\" class=\"n\">In flight</th><th scope=\"col\">Remark</th></tr></thead><tbody>");
    for point in board.points(main).iter().rev().take(MAX_ROWS) {
        let cell = |metric: Metric| {
            metric.of(point).map_or_else(
                || format::MISSING.to_owned(),
                |value| crate::html::quantity(metric, value).replace(" tok/s", ""),
            )
        };
        let reason = point.reason.as_deref().map_or_else(String::new, text);
        let remark = match (&point.quarantine, point.failure) {
            (Some(why), _) => format!("in quarantine: {}", text(why)),
            (None, Some(kind)) => format!("failed: {} {reason}", kind.name().replace('_', " ")),
            (None, None) => reason,
        };
        let class = if point.quarantine.is_some() { " class=\"grey\"" } else { "" };
        let _ = write!(
            out,
            "<tr{class}><th scope=\"row\">{}</th><td class=\"n\" data-name=\"TTFT\">{}</td><td class=\"n\" data-name=\"Output speed, tok/s\">{}</td><td class=\"n\" data-name=\"Total\">{}</td><td class=\"n\" data-name=\"In flight\">{}</td><td data-name=\"Remark\">{remark}</td></tr>",
            moment(point.at),
            cell(Metric::Ttft),
            cell(Metric::OutputSpeed),
            cell(Metric::E2e),
            point.in_flight.max(1),
        );
    }
    out.push_str("</tbody></table></section>\n");
}
