//! Vectors, scores and images in a report: how long a request takes by its size, and how many items come a second.
//!
//! Invariant: one line for each concurrency where sizes are swept, else one for each size over the concurrency.

use super::charts::claiming;
use super::tables::{MISSING, level_cell, number};
use super::{claims, sentences};
use std::collections::BTreeSet;
use tokrate_charts::{Axis, Block, Column, Figure, LineChart, Point, Section, Series, SeriesStyle, Table, format};
use tokrate_record::run::{Load, Rounds, by_load};
use tokrate_record::{Metric, Record};
use tokrate_stats::Level;

/// Key figures: an answer at the lowest load, and the most items a second.
pub(super) fn headline(loads: &[Rounds<'_>]) -> Vec<Figure> {
    let measured = || loads.iter().filter(|load| load.count(|phase| phase.counts.measured) > 0);
    let first = measured().find_map(|load| Some((load, load.times(Metric::E2e)?)));
    let first = first.map(|(load, times)| Figure {
        label: format!("A request, median, {}", load.name()),
        value: number(times.p50.nearest_rank()),
        unit: Metric::E2e.unit().to_owned(),
        interval: sentences::interval(times.p50.low, times.p50.high, times.p50.confidence),
        note: sentences::sample(times.p50.status, times.p50.floor, times.n),
    });
    let rate = |load: &Rounds<'_>| load.item_throughput().unwrap_or(0.0);
    let most = measured().max_by(|a, b| rate(a).total_cmp(&rate(b))).filter(|most| rate(most) > 0.0);
    let most = most.map(|most| Figure {
        label: "Most items".to_owned(),
        value: format::number(rate(most)),
        unit: Metric::ItemThroughput.unit().to_owned(),
        interval: String::new(),
        note: format!("at {}", most.name()),
    });
    first.into_iter().chain(most).collect()
}

/// The section, if items were asked for.
pub(super) fn section(record: &Record) -> Option<Section> {
    let loads: Vec<Rounds<'_>> = by_load(&record.phases).into_iter().filter(Rounds::has_items).collect();
    if loads.is_empty() {
        return None;
    }
    let charts = charts(&loads);
    Some(Section {
        title: "Items".to_owned(),
        intro: match asked(&loads) {
            "images" => "A request asks for images of a prompt.".to_owned(),
            "requests" => "A batch holds several requests, which the server answers when it has time.".to_owned(),
            _ => "A request holds several texts, and its answer a vector or a score for each of them.".to_owned(),
        },
        blocks: charts.iter().map(Block::chart).chain([Block::Table(table(&loads))]).collect(),
    })
}

/// What a request has several of.
fn asked(loads: &[Rounds<'_>]) -> &'static str {
    let mut phases = loads.iter().flat_map(|load| &load.phases);
    match phases.next().map(|phase| phase.conditions.task.as_str()) {
        Some("images") => "images",
        Some("batch") => "requests",
        _ => "texts",
    }
}

/// Concurrency and size of a load.
fn size(load: &Load) -> Option<(u32, u32)> {
    if let Load::Batched { concurrency, batch } = *load { Some((concurrency, batch)) } else { None }
}

/// What the axis of sizes is called.
fn size_name(loads: &[Rounds<'_>]) -> &'static str {
    match asked(loads) {
        "images" => "Images of a request",
        "requests" => "Requests of a batch",
        _ => "Texts of a request",
    }
}

fn line_name(line: u32, by_size: bool, loads: &[Rounds<'_>]) -> String {
    if by_size { format!("concurrency {line}") } else { format!("{line} {} a request", asked(loads)) }
}

fn charts(loads: &[Rounds<'_>]) -> Vec<LineChart> {
    let sizes: Vec<(u32, u32)> = loads.iter().filter_map(|load| size(&load.load)).collect();
    let by_size = sizes.iter().map(|size| size.1).collect::<BTreeSet<u32>>().len() > 1;
    let split = |(concurrency, batch): (u32, u32)| if by_size { (concurrency, batch) } else { (batch, concurrency) };
    let lines: BTreeSet<u32> = sizes.iter().map(|size| split(*size).0).collect();
    if sizes.len() < 2 {
        return Vec::new();
    }
    let chart = |title: &str, description: &str, axis: Axis, point: &dyn Fn(&Rounds<'_>) -> Option<Point>| {
        let series = lines.iter().map(|line| Series {
            // One line needs no name.
            name: if lines.len() == 1 { String::new() } else { line_name(*line, by_size, loads) },
            points: loads
                .iter()
                .filter(|load| size(&load.load).is_some_and(|size| split(size).0 == *line))
                .filter_map(|load| Some(Point { x: f64::from(split(size(&load.load)?).1), ..point(load)? }))
                .collect(),
            style: SeriesStyle::Measured,
        });
        let x = if by_size { size_name(loads) } else { "Requests in flight" };
        let at = sizes.iter().map(|size| f64::from(split(*size).1)).collect::<Vec<f64>>();
        LineChart {
            title: title.to_owned(),
            description: description.to_owned(),
            x: Axis::linear(x, "").labelled_at(at),
            y: axis,
            series: series.collect(),
            ..LineChart::default()
        }
    };
    let time = |load: &Rounds<'_>| {
        let times = load.times(Metric::E2e)?;
        Some(Point { y: times.p50.nearest_rank(), low: times.p50.low, high: times.p50.high, ..Point::default() })
    };
    let rate = |load: &Rounds<'_>| Some(Point { y: load.item_throughput(), ..Point::default() });
    // Of several lines no one speaks for the others.
    let claimed = |chart: LineChart, what: &str, unit: &str| {
        let axis = if by_size { asked(loads) } else { "in flight" };
        let claim = match &chart.series[..] {
            [line] => claims::ends_of(line, what, unit, axis),
            _ => None,
        };
        claiming(chart, claim)
    };
    let charts = [
        chart(
            "Time of a request",
            "Median E2E over requests with its interval.",
            Axis::linear("E2E", "ms").holding([0.0]),
            &time,
        ),
        chart(
            "Items of all requests together",
            "Vectors, scores or images per second in the steady window.",
            Axis::linear("Items", "1/s").holding([0.0]),
            &rate,
        ),
    ];
    let [time, rate] = charts;
    vec![claimed(time, "A request takes", "ms"), claimed(rate, "All together get", "items/s")]
}

fn table(loads: &[Rounds<'_>]) -> Table {
    let rows = loads.iter().map(|load| {
        let batch = load.phases.first().and_then(|phase| phase.conditions.batch);
        vec![
            load.name().to_owned(),
            batch.map_or_else(|| MISSING.to_owned(), |batch| format::count(u64::from(batch))),
            level_cell(load, Metric::E2e, Level::P50),
            level_cell(load, Metric::E2e, Level::P95),
            level_cell(load, Metric::TimePerItem, Level::P50),
            level_cell(load, Metric::TimeToFirstImage, Level::P50),
            number(load.item_throughput()),
        ]
    });
    Table {
        caption: "By size of a request".to_owned(),
        columns: vec![
            Column::words("level"),
            Column::numbers(format!("{} a request", asked(loads)), ""),
            Column::numbers("E2E p50", "ms"),
            Column::numbers("E2E p95", "ms"),
            Column::numbers("time per item p50", "ms"),
            Column::numbers("first image p50", "ms"),
            Column::numbers("items", "1/s"),
        ],
        rows: rows.collect(),
        notes: Vec::new(),
    }
}
