//! Calls of tools and JSON in a report: when the first argument came, when the whole was there, and how many were valid.
//!
//! Invariant: times of answers that are not valid are in no time to a valid whole.

use super::charts::claiming;
use super::claims;
use super::tables::{level_cell, number};
use tokrate_charts::{
    Axis, Bar, BarChart, Block, Column, LineChart, Point, Section, Series, SeriesStyle, Table, format,
};
use tokrate_record::run::{Load, Rounds, by_load};
use tokrate_record::{Metric, Record};
use tokrate_stats::Level;

/// What an answer goes through, in its order.
const STEPS: [(Metric, &str); 3] = [
    (Metric::Ttft, "first token"),
    (Metric::TimeToFirstArgument, "first argument"),
    (Metric::TimeToValid, "valid whole"),
];

/// The section, if answers were to be calls or JSON.
pub(super) fn section(record: &Record) -> Option<Section> {
    let loads: Vec<Rounds<'_>> = by_load(&record.phases).into_iter().filter(|load| load.valid().is_some()).collect();
    if loads.is_empty() {
        return None;
    }
    let chart = over_loads(&loads).map(|chart| Block::chart(&chart));
    let chart = chart.or_else(|| Some(Block::chart(&of_load(loads.first()?))));
    let reasons = reasons(&loads);
    let tables = [Some(by_level(&loads)), (!reasons.rows.is_empty()).then_some(reasons)];
    Some(Section {
        title: "Answers that a program reads".to_owned(),
        intro: "A program can begin with the first argument, and act when the whole is there and valid by its schema."
            .to_owned(),
        blocks: chart.into_iter().chain(tables.into_iter().flatten().map(Block::Table)).collect(),
    })
}

/// The steps over the requests in flight; `None` below two such loads.
fn over_loads(loads: &[Rounds<'_>]) -> Option<LineChart> {
    let in_flight = |load: &Rounds<'_>| match load.load {
        Load::Closed { concurrency } => Some(f64::from(concurrency)),
        _ => None,
    };
    let at: Vec<f64> = loads.iter().filter_map(in_flight).collect();
    let series = STEPS.iter().map(|(metric, name)| {
        let point = |load: &Rounds<'_>| {
            let p50 = load.times(*metric).filter(|times| !times.is_empty())?.p50;
            Some(Point { x: in_flight(load)?, y: p50.nearest_rank(), low: p50.low, high: p50.high, ..Point::default() })
        };
        Series {
            name: (*name).to_owned(),
            points: loads.iter().filter_map(point).collect(),
            style: SeriesStyle::Measured,
        }
    });
    let series: Vec<Series> = series.filter(|series| !series.points.is_empty()).collect();
    let whole = series.iter().find(|series| series.name == "valid whole");
    let claim = whole.and_then(|whole| claims::ends_of(whole, "The valid whole is there after", "ms", "in flight"));
    let chart = (at.len() > 1).then(|| LineChart {
        title: "From request to a valid whole".to_owned(),
        description: "Medians over requests with their intervals.".to_owned(),
        x: Axis::linear("Requests in flight", "").labelled_at(at),
        y: Axis::linear("Since sent", "ms").holding([0.0]),
        series,
        ..LineChart::default()
    });
    chart.map(|chart| claiming(chart, claim))
}

/// The steps of one load.
fn of_load(load: &Rounds<'_>) -> BarChart {
    let bar = |(metric, name): &(Metric, &str)| {
        let p50 = load.times(*metric).filter(|times| !times.is_empty())?.p50;
        let (low, high) = (p50.low, p50.high);
        Some(Bar { label: (*name).to_owned(), value: p50.nearest_rank(), low, high, ..Bar::default() })
    };
    BarChart {
        title: format!("From request to a valid whole, {}", load.name()),
        description: "Medians over requests with their intervals.".to_owned(),
        axis: Axis::linear("Since sent", "ms"),
        bars: STEPS.iter().filter_map(bar).collect(),
    }
}

fn by_level(loads: &[Rounds<'_>]) -> Table {
    let rows = loads.iter().map(|load| {
        let (n, valid) = load.valid().unwrap_or_default();
        vec![
            load.name().to_owned(),
            level_cell(load, Metric::TimeToFirstArgument, Level::P50),
            level_cell(load, Metric::TimeToFirstArgument, Level::P95),
            level_cell(load, Metric::TimeToValid, Level::P50),
            level_cell(load, Metric::TimeToValid, Level::P95),
            format!("{} of {}", format::count(valid), format::count(n)),
            number(load.calls_per_answer()),
        ]
    });
    Table {
        caption: "By level".to_owned(),
        columns: vec![
            Column::words("level"),
            Column::numbers("first argument p50", "ms"),
            Column::numbers("first argument p95", "ms"),
            Column::numbers("valid whole p50", "ms"),
            Column::numbers("valid whole p95", "ms"),
            Column::words("valid"),
            Column::numbers("calls an answer", ""),
        ],
        rows: rows.collect(),
        notes: Vec::new(),
    }
}

/// Why answers are not valid, by level.
fn reasons(loads: &[Rounds<'_>]) -> Table {
    let of_phase = |load: &Rounds<'_>| -> Vec<Vec<String>> {
        let seen = load.phases.iter().filter_map(|phase| phase.structure.as_ref());
        let reasons = seen.flat_map(|structure| &structure.invalid);
        let row = |reason: &tokrate_record::run::NameCount| {
            vec![load.name().to_owned(), reason.name.clone().unwrap_or_default(), format::count(reason.count)]
        };
        reasons.map(row).collect()
    };
    Table {
        caption: "Why answers are not valid".to_owned(),
        columns: vec![Column::words("level"), Column::words("reason"), Column::numbers("answers", "")],
        rows: loads.iter().flat_map(of_phase).collect(),
        notes: Vec::new(),
    }
}
