//! Charts of a report.
//!
//! Invariant: fitted lines are drawn as fits, measured points with their intervals.

use super::claims;
use super::samples::{LengthSamples, LoadSamples, Samples};
use super::tables::is_drawn;
use tokrate_charts::{
    Axis, Band, Block, Direction, DistributionChart, DistributionKind, LineChart, Mark, Outcome, Point, Sample, Series,
    SeriesStyle, TimelineChart, TimelineRow, format,
};
use tokrate_core::FailureKind;
use tokrate_record::curve::{CurveResult, LoadAxis, LoadFigure, LoadLevel, Measured};
use tokrate_record::{PhaseResult, Record};

/// Points of a fitted line.
const FIT_POINTS: usize = 60;
/// Speeds (tok/s) above which the bands of reading say nothing: twice what is faster than reading.
const FAR_FASTER_THAN_READING: f64 = 100.0;
/// Levels that one chart of distributions tells apart; more stand side by side.
const MAX_CURVES: usize = 4;

/// Throughput against load, for page and terminal; `None` unless there is a curve.
pub fn throughput_chart(record: &Record) -> Option<LineChart> {
    record.curve.as_ref().map(throughput)
}

/// Degradation curves: output speed, throughput and TTFT, each under what it shows.
pub(super) fn degradation(record: &Record, curve: &CurveResult) -> Vec<LineChart> {
    let streamed = record.conditions.streaming;
    let bands = comfort_bands([curve]);
    let reads = if bands.is_empty() { "" } else { "; the bands say how it reads" };
    let speed = LineChart {
        title: "Output speed of one request".to_owned(),
        description: format!("Median over requests, after the first chunk, with its interval{reads}."),
        x: axis(curve),
        y: Axis::linear("Output speed", "tok/s"),
        series: vec![measured("", curve, |level| level.output_speed)],
        marks: Vec::new(),
        bands,
    };
    let ttft = LineChart {
        title: "Time to first token".to_owned(),
        description: "Median over requests with its interval.".to_owned(),
        x: axis(curve),
        y: Axis::linear("TTFT", "ms"),
        series: vec![measured("", curve, |level| level.ttft)],
        marks: Vec::new(),
        bands: Vec::new(),
    };
    let mut charts = vec![claiming(throughput(curve), claims::throughput(curve))];
    if streamed {
        charts.insert(0, claiming(speed, claims::output_speed(curve)));
        charts.push(claiming(ttft, claims::ttft(curve)));
        charts.push(claiming(each_against_all(&[("", curve)]), claims::each_against_all(curve)));
    }
    charts
}

/// The chart under what it shows; what it is of then begins its description.
pub(super) fn claiming(chart: LineChart, claim: Option<String>) -> LineChart {
    match claim {
        Some(title) => LineChart { description: format!("{}. {}", chart.title, chart.description), title, ..chart },
        None => chart,
    }
}

/// Output speed against throughput, one line per target, points labelled with their loads.
pub(super) fn each_against_all(curves: &[(&str, &CurveResult)]) -> LineChart {
    let point = |level: &LoadLevel| {
        let all = level.throughput?;
        let (each, load) = (level.output_speed?.value, format::plain(level.load));
        Some(Point { x: each, y: Some(all.value), low: all.low, high: all.high, label: load })
    };
    let series = curves.iter().map(|(name, curve)| Series {
        name: (*name).to_owned(),
        points: curve.levels.iter().filter_map(|level| point(&level.level)).collect(),
        style: SeriesStyle::Measured,
    });
    let unit = match curves.first().map(|(_, curve)| curve.axis) {
        Some(LoadAxis::Rate) => "arrivals a second",
        _ => "requests in flight",
    };
    LineChart {
        title: "What one request gets against what all get".to_owned(),
        description: format!(
            "Further up more for the same hardware, further right faster for each user. Beside the points: {unit}."
        ),
        x: Axis::linear("Output speed of one request", "tok/s").holding([0.0]),
        y: Axis::linear("Throughput", "tok/s"),
        series: series.collect(),
        ..LineChart::default()
    }
}

fn throughput(curve: &CurveResult) -> LineChart {
    let mut series = vec![measured("", curve, |level| level.throughput)];
    let loads: Vec<f64> = curve.levels.iter().map(|level| level.level.load).collect();
    let drawn = curve.models.iter().find(|fit| is_drawn(fit)).map(|fit| &fit.model);
    if let (Some(model), Some(&first), Some(&last)) = (drawn, loads.first(), loads.last()) {
        let points = (0..FIT_POINTS).map(|step| {
            let x = first + (last - first) * step as f64 / (FIT_POINTS - 1) as f64;
            Point { x, y: Some(model.at(x)), ..Point::default() }
        });
        series.push(Series {
            name: format!("fit: {}", model.kind.text()),
            points: points.collect(),
            style: SeriesStyle::Fit,
        });
    }
    let mark = |figure: &LoadFigure, label: &str| {
        figure.load.map(|at| Mark {
            direction: Direction::Vertical,
            at,
            low: figure.low,
            high: figure.high,
            label: format!("{label} {at:.0}"),
        })
    };
    let marks = [mark(&curve.capacity.slows, "slows beyond"), mark(&curve.capacity.waits, "waits beyond")];
    LineChart {
        title: "Throughput of all requests together".to_owned(),
        description: match drawn {
            Some(_) => "Output tokens per second in the steady window, with the simplest model that the levels do not rule out.",
            None => "Output tokens per second in the steady window.",
        }
        .to_owned(),
        x: axis(curve),
        y: Axis::linear("Throughput", "tok/s"),
        series,
        marks: marks.into_iter().flatten().collect(),
        bands: Vec::new(),
    }
}

/// Times that a page shows the distribution of.
struct Times {
    /// What takes them, in the plural.
    what: &'static str,
    description: &'static str,
    /// Of the axis.
    label: &'static str,
    values: fn(&LoadSamples) -> &Vec<f64>,
    failed: fn(&LoadSamples) -> usize,
}

const TIMES: [Times; 3] = [
    Times {
        what: "the requests",
        description: "Time of a request.",
        label: "E2E",
        values: |load| &load.e2e,
        failed: |load| load.failed,
    },
    Times {
        what: "the first tokens",
        description: "Time to first token.",
        label: "TTFT",
        values: |load| &load.ttft,
        failed: |load| load.failed,
    },
    Times {
        what: "the gaps",
        description: "Gaps between chunks. Time between two arrivals of text, all requests together; at most 2,000 gaps are drawn.",
        label: "Chunk gap",
        values: |load| &load.gaps,
        failed: |_| 0,
    },
];

/// Distributions of TTFT and of the gaps between chunks: one curve for each level, or one chart where there are many.
pub(super) fn distributions(record: &Record, samples: &Samples) -> Vec<Block> {
    let loads = samples.by_load();
    if !record.conditions.streaming && loads.iter().all(|load| load.e2e.is_empty()) {
        return Vec::new();
    }
    let of = TIMES.iter().filter_map(|Times { what, description, label, values, failed }| {
        let sampled: Vec<LoadSamples> = loads.iter().filter(|load| !values(load).is_empty()).cloned().collect();
        let title = claims::medians(what, &sampled, values)?;
        let axis = Axis::log(*label, "s").holding(sampled.iter().flat_map(values).copied().collect::<Vec<f64>>());
        let sample =
            |load: &LoadSamples, name: String| Sample { name, values: values(load).clone(), failed: failed(load) };
        let chart = |title: String, samples: Vec<Sample>| DistributionChart {
            title,
            description: format!("{description} One curve for each load level."),
            x: axis.clone(),
            kind: DistributionKind::Cumulative,
            samples,
        };
        Some(if sampled.len() <= MAX_CURVES {
            let samples = sampled.iter().map(|load| sample(load, load.name()));
            Block::chart(&chart(title, samples.collect()))
        } else {
            let charts = sampled.iter().map(|load| {
                let within = claims::median(values(load)).map_or_else(String::new, |it| format!(": half within {it}"));
                chart(load.name() + &within, vec![sample(load, String::new())])
            });
            Block::multiples(
                title,
                format!("{description} One chart for each load level, all on one axis."),
                &charts.collect::<Vec<_>>(),
            )
        })
    });
    of.collect()
}

/// Lengths of prompts and answers over all levels, where they differ from request to request.
pub(super) fn lengths(samples: &Samples) -> Option<DistributionChart> {
    let of = |name: &str, values: fn(&LengthSamples) -> &Vec<f64>| {
        let values = samples.phases.iter().flat_map(|phase| values(&phase.lengths)).copied().collect();
        Sample { name: name.to_owned(), values, failed: 0 }
    };
    let drawn = [
        of("prompt", |lengths| &lengths.input),
        of("answer, asked for", |lengths| &lengths.asked),
        of("answer", |lengths| &lengths.output),
    ];
    let drawn: Vec<Sample> = drawn.into_iter().filter(|sample| !sample.values.is_empty()).collect();
    (!drawn.is_empty()).then(|| DistributionChart {
        title: "Lengths of prompts and answers".to_owned(),
        description: "Tokens of the measured requests of all levels; the plan asks for the first two.".to_owned(),
        x: Axis::log("Tokens", ""),
        kind: DistributionKind::Cumulative,
        samples: drawn,
    })
}

/// One timeline for each phase.
pub(super) fn timelines(record: &Record, samples: &Samples) -> Vec<TimelineChart> {
    let phases = record.phases.iter().zip(&samples.phases);
    phases
        .map(|(phase, random)| TimelineChart {
            title: random.name.clone(),
            description: thinned_note(phase, random.requests.len()),
            rows: random
                .requests
                .iter()
                .map(|request| TimelineRow {
                    label: format!("#{}", request.index),
                    start: request.sent,
                    first: request.first,
                    end: request.end,
                    outcome: match request.failure {
                        None => Outcome::Good,
                        Some(FailureKind::Cancelled) => Outcome::Cancelled,
                        Some(kind) => Outcome::Failed(kind.name().replace('_', " ")),
                    },
                })
                .collect(),
        })
        .collect()
}

fn thinned_note(phase: &PhaseResult, random: usize) -> String {
    let all = phase.counts.started;
    if random as u64 == all {
        format!("All {all} requests.")
    } else {
        format!("{random} of {all} requests, evenly chosen.")
    }
}

fn axis(curve: &CurveResult) -> Axis {
    match curve.axis {
        LoadAxis::Concurrency => Axis::linear("Requests in flight", ""),
        LoadAxis::Rate => Axis::linear("Arrivals", "req/s"),
    }
    .labelled_at(curve.levels.iter().map(|level| level.level.load))
}

fn measured(name: &str, curve: &CurveResult, of: impl Fn(&LoadLevel) -> Option<Measured>) -> Series {
    Series {
        name: name.to_owned(),
        points: curve.levels.iter().map(|level| measured_level(&level.level, &of)).collect(),
        style: SeriesStyle::Measured,
    }
}

/// One level's number as a point over its load.
pub(super) fn measured_level(level: &LoadLevel, of: impl Fn(&LoadLevel) -> Option<Measured>) -> Point {
    let seen = of(level);
    Point {
        x: level.load,
        y: seen.map(|seen| seen.value),
        low: seen.and_then(|seen| seen.low),
        high: seen.and_then(|seen| seen.high),
        ..Point::default()
    }
}

/// How speeds read; none where all of them are far faster than anybody reads, as a tint of everything tells nothing apart.
pub(super) fn comfort_bands<'c>(curves: impl IntoIterator<Item = &'c CurveResult>) -> Vec<Band> {
    let levels = curves.into_iter().flat_map(|curve| &curve.levels);
    let slowest =
        levels.filter_map(|row| row.level.output_speed).map(|speed| speed.value).fold(f64::INFINITY, f64::min);
    if slowest > FAR_FASTER_THAN_READING {
        return Vec::new();
    }
    let band = |from, to, name: &str| Band { direction: Direction::Horizontal, from, to, name: name.to_owned() };
    vec![
        band(0.0, 10.0, "slow"),
        band(10.0, 15.0, "hesitant"),
        band(15.0, 30.0, "comfortable to read"),
        band(30.0, 50.0, "fluid"),
        band(50.0, f64::INFINITY, "faster than reading"),
    ]
}
