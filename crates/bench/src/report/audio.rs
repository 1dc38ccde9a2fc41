//! Sound in a report: when the first came, how fast it was made or heard against how long it plays, and where players ran dry.
//!
//! Invariant: sound whose length is not known is counted and said, and is in no figure of length.

use super::sentences;
use super::tables::{MISSING, level_cell, number};
use tokrate_charts::{
    Axis, Bar, BarChart, Block, Column, Figure, LineChart, Point, Section, Series, SeriesStyle, Table, format,
};
use tokrate_record::run::{Load, PhaseResult, Rounds, by_load};
use tokrate_record::{Metric, Record};
use tokrate_stats::Level;

/// Key figures: the first sound and the real-time factor at the lowest load, and the most sound a second.
pub(super) fn headline(loads: &[Rounds<'_>]) -> Vec<Figure> {
    let measured = || loads.iter().filter(|load| load.has_audio());
    let Some(first) = measured().next() else { return Vec::new() };
    let of = |metric: Metric| {
        let times = first.times(metric).filter(|times| !times.is_empty())?;
        Some(Figure {
            label: format!("{}, median, {}", capitalised(metric.row().words), first.name()),
            value: number(times.p50.nearest_rank()),
            unit: metric.unit().to_owned(),
            interval: sentences::interval(times.p50.low, times.p50.high, times.p50.confidence),
            note: sentences::sample(times.p50.status, times.p50.floor, times.n),
        })
    };
    let figures = [Metric::TimeToFirstAudio, Metric::Ttft, Metric::RealTimeFactor].into_iter().filter_map(of);
    let rate = |load: &Rounds<'_>| load.audio_throughput().unwrap_or(0.0);
    let most = measured().max_by(|a, b| rate(a).total_cmp(&rate(b))).filter(|most| rate(most) > 0.0);
    let most = most.map(|most| Figure {
        label: "Most sound".to_owned(),
        value: format::number(rate(most)),
        unit: Metric::AudioThroughput.unit().to_owned(),
        interval: String::new(),
        note: format!("seconds of sound a second, at {}", most.name()),
    });
    figures.chain(most).collect()
}

fn capitalised(words: &str) -> String {
    let mut characters = words.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

/// The section, if there was sound.
pub(super) fn section(record: &Record) -> Option<Section> {
    let loads: Vec<Rounds<'_>> = by_load(&record.phases).into_iter().filter(Rounds::has_audio).collect();
    let first = loads.first()?;
    let charts = over_loads(&loads);
    let mut blocks: Vec<Block> = charts.iter().map(Block::chart).collect();
    if charts.is_empty() {
        blocks.push(Block::chart(&of_load(first)));
    }
    blocks.push(Block::Table(table(&loads)));
    Some(Section {
        title: "Sound".to_owned(),
        intro: "A player can begin with the first sound. It plays without a gap while sound comes faster than it is played: a real-time factor \
                below 1, and no time without sound to play."
            .to_owned(),
        blocks,
    })
}

fn in_flight(load: &Rounds<'_>) -> Option<f64> {
    if let Load::Closed { concurrency } = load.load { Some(f64::from(concurrency)) } else { None }
}

/// What an answer goes through since it was asked for.
const STEPS: [(Metric, &str); 5] = [
    (Metric::SessionOpen, "opening of the session"),
    (Metric::Ttft, "first text"),
    (Metric::TimeToFirstAudio, "first audio"),
    (Metric::StalledTime, "without sound to play"),
    (Metric::E2e, "whole answer"),
];

/// Times, real-time factor and throughput over the requests in flight; nothing below two such loads.
fn over_loads(loads: &[Rounds<'_>]) -> Vec<LineChart> {
    let at: Vec<f64> = loads.iter().filter_map(in_flight).collect();
    if at.len() < 2 {
        return Vec::new();
    }
    let line = |metric: Metric, name: &str| Series {
        name: name.to_owned(),
        points: loads
            .iter()
            .filter_map(|load| {
                let p50 = load.times(metric).filter(|times| !times.is_empty())?.p50;
                let (low, high) = (p50.low, p50.high);
                Some(Point { x: in_flight(load)?, y: p50.nearest_rank(), low, high, ..Point::default() })
            })
            .collect(),
        style: SeriesStyle::Measured,
    };
    let chart = |title: &str, description: &str, axis: Axis, series: Vec<Series>| LineChart {
        title: title.to_owned(),
        description: description.to_owned(),
        x: Axis::linear("Requests in flight", "").labelled_at(at.clone()),
        y: axis.holding([0.0]),
        series: series.into_iter().filter(|series| !series.points.is_empty()).collect(),
        ..LineChart::default()
    };
    let throughput = loads
        .iter()
        .filter_map(|load| Some(Point { x: in_flight(load)?, y: Some(load.audio_throughput()?), ..Point::default() }));
    let throughput =
        Series { name: "all requests".to_owned(), points: throughput.collect(), style: SeriesStyle::Measured };
    vec![
        chart(
            "From request to sound",
            "Medians over requests with their intervals.",
            Axis::linear("Time", "ms"),
            STEPS.iter().map(|(metric, name)| line(*metric, name)).collect(),
        ),
        chart(
            "Real-time factor",
            "E2E divided by how long the sound plays; median over requests. Below 1 is faster than playing it.",
            Axis::linear("Real-time factor", "s/s").holding([1.0]),
            vec![line(Metric::RealTimeFactor, "a request")],
        ),
        chart(
            "Sound of all requests together",
            "Seconds of sound per second of the steady window.",
            Axis::linear("Sound", "s/s"),
            vec![throughput],
        ),
    ]
}

/// The times of one load.
fn of_load(load: &Rounds<'_>) -> BarChart {
    let bar = |(metric, name): &(Metric, &str)| {
        let p50 = load.times(*metric).filter(|times| !times.is_empty())?.p50;
        let (low, high) = (p50.low, p50.high);
        Some(Bar { label: (*name).to_owned(), value: p50.nearest_rank(), low, high, ..Bar::default() })
    };
    BarChart {
        title: format!("From request to sound, {}", load.name()),
        description: "Medians over requests with their intervals.".to_owned(),
        axis: Axis::linear("Time", "ms"),
        bars: STEPS.iter().filter_map(bar).collect(),
    }
}

/// Answers at which a player would run dry, and all whose length is known.
fn stalled(load: &Rounds<'_>) -> String {
    match load.count(|phase| phase.audio.with_length()) {
        0 => MISSING.to_owned(),
        of => format!("{} of {}", format::count(load.count(|phase| phase.audio.stalled_answers)), format::count(of)),
    }
}

fn table(loads: &[Rounds<'_>]) -> Table {
    let rows = loads.iter().map(|load| {
        vec![
            load.name().to_owned(),
            level_cell(load, Metric::TimeToFirstAudio, Level::P50),
            level_cell(load, Metric::TimeToFirstAudio, Level::P95),
            level_cell(load, Metric::RealTimeFactor, Level::P50),
            level_cell(load, Metric::RealTimeFactor, Level::P95),
            number(load.audio_throughput()),
            number(load.rate(|phase| phase.audio.characters_per_second)),
            stalled(load),
            level_cell(load, Metric::StalledTime, Level::P95),
        ]
    });
    Table {
        caption: "By level".to_owned(),
        columns: vec![
            Column::words("level"),
            Column::numbers("first audio p50", "ms"),
            Column::numbers("first audio p95", "ms"),
            Column::numbers("real-time factor p50", "s/s"),
            Column::numbers("real-time factor p95", "s/s"),
            Column::numbers("sound", "s/s"),
            Column::numbers("characters", "1/s"),
            Column::words("answers that stall"),
            Column::numbers("stalled p95", "ms"),
        ],
        rows: rows.collect(),
        notes: notes(loads),
    }
}

/// How the sound was written, where its length is not known, and how many words were wrong.
fn notes(loads: &[Rounds<'_>]) -> Vec<String> {
    let phases = || loads.iter().flat_map(|load| &load.phases).copied();
    let mut formats: Vec<&str> =
        phases().flat_map(|phase: &PhaseResult| &phase.audio.formats).filter_map(|seen| seen.name.as_deref()).collect();
    formats.sort_unstable();
    formats.dedup();
    let (n, unknown) = phases().fold((0, 0), |sum, phase| (sum.0 + phase.audio.n, sum.1 + phase.audio.unknown_length));
    let unknown = (unknown > 0)
        .then(|| format!("Of {unknown} of {n} answers the bytes do not say how long the sound plays: they are in no figure of length."));
    let formats = (!formats.is_empty()).then(|| format!("The sound came as {}.", formats.join(", ")));
    formats.into_iter().chain(unknown).chain(word_errors(loads)).collect()
}

/// How many words of transcripts are wrong.
fn word_errors(loads: &[Rounds<'_>]) -> Option<String> {
    let (words, errors) = loads.iter().fold((0, 0), |sum, load| {
        (sum.0 + load.count(|phase| phase.audio.words), sum.1 + load.count(|phase| phase.audio.word_errors))
    });
    (words > 0).then(|| {
        let share = format::number(100.0 * errors as f64 / words as f64);
        format!("Word error rate {share} %: {errors} of {words} words are missing, wrong or too many.")
    })
}
