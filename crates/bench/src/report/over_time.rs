//! The run over time: small multiples that share the axis of time, and what limits each level.
//!
//! Invariant: every point is a slice of the record's timeline.

use tokrate_charts::{
    Axis, Band, Block, Column, Direction, LineChart, Point, Section, Series, SeriesStyle, Table, format,
};
use tokrate_record::timeline::{TimeSeries, Timeline};
use tokrate_record::{PhaseResult, Record};

/// A picture: its title, its unit, and its lines with the factor that each is drawn with.
struct Picture {
    title: &'static str,
    unit: &'static str,
    lines: &'static [(TimeSeries, &'static str, f64)],
}

const PICTURES: [Picture; 9] = [
    Picture {
        title: "Requests in flight",
        unit: "",
        lines: &[
            (TimeSeries::InFlight, "in flight", 1.0),
            (TimeSeries::Running, "engine: running", 1.0),
            (TimeSeries::Waiting, "engine: waiting", 1.0),
        ],
    },
    Picture {
        title: "Requests in each slice",
        unit: "",
        lines: &[
            (TimeSeries::Begun, "begun", 1.0),
            (TimeSeries::Answered, "answered", 1.0),
            (TimeSeries::Failed, "failed", 1.0),
        ],
    },
    Picture {
        title: "Output tokens per second",
        unit: "tok/s",
        lines: &[(TimeSeries::Throughput, "client", 1.0), (TimeSeries::EngineThroughput, "engine", 1.0)],
    },
    Picture {
        title: "TTFT",
        unit: "ms",
        lines: &[(TimeSeries::TtftP50, "p50", 1.0), (TimeSeries::TtftP99, "p99", 1.0)],
    },
    Picture {
        title: "Caches and speculation",
        unit: "%",
        lines: &[
            (TimeSeries::CacheUse, "KV in use", 100.0),
            (TimeSeries::CacheHits, "prefix hits", 100.0),
            (TimeSeries::Accepted, "accepted", 100.0),
        ],
    },
    Picture { title: "Preemptions in each slice", unit: "", lines: &[(TimeSeries::Preemptions, "preemptions", 1.0)] },
    Picture { title: "GPU power", unit: "W", lines: &[(TimeSeries::Power, "all GPUs", 1.0)] },
    Picture { title: "GPU clock", unit: "MHz", lines: &[(TimeSeries::Clock, "mean", 1.0)] },
    Picture { title: "GPU busy", unit: "%", lines: &[(TimeSeries::Busy, "mean", 100.0)] },
];

/// Levels that are tinted at most; more are stripes without a name.
const MAX_BANDS: usize = 16;

/// The section of a record, if anything is known over time.
pub(super) fn section(record: &Record) -> Option<Section> {
    let timeline = record.timeline.as_ref()?;
    let charts: Vec<LineChart> = PICTURES.iter().filter_map(|picture| chart(picture, timeline)).collect();
    let sampled = timeline.sampled_every_seconds.filter(|every| *every > 0.0);
    let sampled = sampled.map_or_else(String::new, |every| {
        format!(" Engine and processors were read every {} s.", format::number(every))
    });
    let mut blocks = vec![Block::multiples("", levels(&record.phases), &charts)];
    if !timeline.gpus.is_empty() {
        blocks.push(Block::Paragraph(format!("Counted: {}.", timeline.gpus.join(", "))));
    }
    blocks.extend(energy(&record.phases).map(Block::Table));
    blocks.extend(limits(&record.phases).map(Block::Table));
    Some(Section {
        title: "The run over time".to_owned(),
        intro: format!("Slices of {} s; a tinted range is a level.{sampled}", format::number(timeline.slice_seconds)),
        blocks,
    })
}

/// The levels in the order in which they ran, as the tints show them.
fn levels(phases: &[PhaseResult]) -> String {
    let mut ran: Vec<&PhaseResult> = phases.iter().collect();
    ran.sort_by_key(|phase| phase.started_at_ns);
    let named: Vec<String> = ran.iter().map(|phase| phase.load.short()).collect();
    if named.is_empty() { String::new() } else { format!("From left to right: {}.", named.join(", ")) }
}

/// A picture, if any of its lines has a value that is not 0 or it is of the client's load.
fn chart(picture: &Picture, timeline: &Timeline) -> Option<LineChart> {
    let middle = |slice: usize| (slice as f64 + 0.5) * timeline.slice_seconds;
    let mut series = Vec::new();
    for (of, name, factor) in picture.lines {
        let Some(values) = timeline.values(*of) else { continue };
        // A line of nothing but zeros says nothing that the others do not.
        let is_rare = matches!(
            of,
            TimeSeries::Failed
                | TimeSeries::Preemptions
                | TimeSeries::CacheUse
                | TimeSeries::CacheHits
                | TimeSeries::Accepted
                | TimeSeries::Throughput
        );
        if is_rare && values.iter().flatten().all(|value| *value == 0.0) {
            continue;
        }
        let point = |(slice, value): (usize, &Option<f64>)| Point {
            x: middle(slice),
            y: value.map(|value| value * factor),
            ..Point::default()
        };
        let points = values.iter().enumerate().map(point).collect();
        series.push(Series { name: (*name).to_owned(), points, style: SeriesStyle::Course });
    }
    let slices = timeline.series.iter().map(|row| row.values.len()).max()?;
    let x = Axis {
        holds: Some((0.0, slices as f64 * timeline.slice_seconds)),
        ..Axis::linear("Time since the run began", "s")
    };
    let shown = if timeline.phases.len() > MAX_BANDS { &[] } else { timeline.phases.as_slice() };
    let bands = shown.iter().map(|phase| Band {
        direction: Direction::Vertical,
        from: phase.start,
        to: phase.end,
        name: phase.name.clone(),
    });
    (!series.is_empty()).then(|| LineChart {
        title: picture.title.to_owned(),
        description: String::new(),
        x,
        // The title says what it is.
        y: Axis::linear(picture.unit, ""),
        series,
        marks: Vec::new(),
        bands: bands.collect(),
    })
}

/// What each level drew, if power is known at any.
fn energy(phases: &[PhaseResult]) -> Option<Table> {
    let mut table = Table { caption: "Energy".to_owned(), ..Table::default() };
    table.columns = vec![
        Column::words("level"),
        Column::numbers("GPUs", ""),
        Column::numbers("mean power", "W"),
        Column::numbers("energy", "J"),
        Column::numbers("energy a token", "J"),
        Column::words("why not"),
    ];
    let is_missing =
        |phase: &PhaseResult| phase.sampled.as_ref().is_some_and(|sampled| sampled.joules_missing.is_some());
    if !phases.iter().any(is_missing) {
        table.columns.pop();
    }
    for phase in phases {
        let Some(sampled) = phase.sampled.as_ref().filter(|sampled| sampled.gpus > 0) else { continue };
        let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), format::number);
        table.rows.push(vec![
            phase.name.clone(),
            sampled.gpus.to_string(),
            number(sampled.power.map(|power| power.mean)),
            number(sampled.joules),
            number(sampled.joules_per_token),
            sampled.joules_missing.clone().unwrap_or_default(),
        ]);
        let width = table.columns.len();
        table.rows.iter_mut().for_each(|row| row.truncate(width));
    }
    (!table.rows.is_empty()).then_some(table)
}

/// What limits each level, if anything is known to.
fn limits(phases: &[PhaseResult]) -> Option<Table> {
    let mut table = Table { caption: "What limits".to_owned(), ..Table::default() };
    table.columns = vec![Column::words("level"), Column::words("evidence")];
    let rows = phases.iter().filter_map(|phase| Some(vec![phase.name.clone(), phase.limit.as_ref()?.sentence.clone()]));
    table.rows = rows.collect();
    (!table.rows.is_empty()).then_some(table)
}
