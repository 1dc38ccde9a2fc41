//! HTML report of a run. Everything shown is taken from the record and the samples; nothing is computed here.
//!
//! Invariant: warnings stand above all numbers.

mod adapters;
mod agents;
mod audio;
mod batch;
mod charts;
mod checks;
mod claims;
mod comparison;
mod items;
mod loads;
mod media;
mod opening;
mod over_time;
mod ranking;
mod samples;
mod sentences;
mod streams;
mod structure;
mod tables;

pub use crate::shown_figures::shows;
pub use agents::agent_sentence;
pub use charts::throughput_chart;
pub use comparison::{Subject, comparison_html};
pub use loads::loads;
pub use ranking::ranking;
pub use samples::Samples;
pub use sentences::{capacity_sentences, sign_sentences};

use std::ops::Range;
use tokrate_charts::{Block, Figure, Level, Notice, Page, Section, format};
use tokrate_record::curve::{FigureStatus, LoadAxis, LoadFigure};
use tokrate_record::run::{Rounds, by_load, by_rising_load, most_throughput};
use tokrate_record::{Metric, PhaseResult, PrecisionStatus, Record, Status};

const NOT_MEASURED: &str = "not measured";

/// Columns of phases that a table has at most: more are wider than a page and than most terminals.
const MAX_PHASE_COLUMNS: usize = 8;

/// Phases of rising loads in groups of as many columns as a table takes, the rounds of a load in one group where they fit into one.
pub fn column_groups(loads: &[f64]) -> Vec<Range<usize>> {
    let mut groups: Vec<Range<usize>> = Vec::new();
    for rounds in loads.chunk_by(|a, b| a == b) {
        let from = groups.last().map_or(0, |group| group.end);
        match groups.last_mut() {
            Some(group) if group.len() + rounds.len() <= MAX_PHASE_COLUMNS => group.end += rounds.len(),
            _ => groups.extend(
                (from..from + rounds.len())
                    .step_by(MAX_PHASE_COLUMNS)
                    .map(|start| start..(start + MAX_PHASE_COLUMNS).min(from + rounds.len())),
            ),
        }
    }
    groups
}

/// The whole file. `verdicts` are sections made elsewhere (against a baseline), shown before the charts.
pub fn html(record: &Record, samples: &Samples, verdicts: Vec<Section>) -> String {
    let (record, samples) = (&by_load_rising(record), &samples.by_rising_load());
    let conditions = &record.conditions;
    Page {
        title: claims::page(record),
        subtitle: format!(
            "{}, measured from {} on {}, {}",
            conditions.endpoint, conditions.host, record.started_at, conditions.lengths()
        ),
        notices: notices(record),
        headline: headline(record),
        sections: verdicts.into_iter().chain(sections(record, samples)).collect(),
        footer: format!(
            "{} {}, record {}, conditions {}. The words are defined in docs/glossary.md of tokrate, the methods in docs/method.md.",
            record.tool.name, record.tool.version, record.schema, conditions.fingerprint
        ),
    }
    .html()
}

fn sections(record: &Record, samples: &Samples) -> impl Iterator<Item = Section> {
    let sections = [
        degradation(record),
        items::section(record),
        audio::section(record),
        agents::section(record),
        adapters::section(record),
        structure::section(record),
        media::section(record),
        batch::section(record),
        opening::section(record),
        streams::section(record),
        distributions(record, samples),
        lengths(samples),
        over_time::section(record),
        timeline(record, samples),
        assertions(record),
        objectives(record),
        checks(record),
        every_number(record),
        server_times(record),
        failures(record),
        client_error(record),
        server(record),
        conditions_section(record),
    ];
    sections.into_iter().flatten()
}

/// The record with its phases from the lowest load to the highest, in whatever order they ran.
fn by_load_rising(record: &Record) -> Record {
    let phases = by_rising_load(&record.phases).into_iter().cloned().collect();
    Record { phases, ..record.clone() }
}

fn notices(record: &Record) -> Vec<Notice> {
    let mut notices = record_notices(record);
    if notices.iter().all(|notice| notice.level == Level::Info) {
        notices.push(no_warnings(record));
    }
    notices
}

/// The notice of a result without warnings; not a positive one where the client's own error was not measured.
fn no_warnings(record: &Record) -> Notice {
    let complete = "All phases are complete, the numbers agree with each other";
    let of = |of: fn(&PhaseResult) -> bool| record.phases.iter().all(of);
    match (of(PhaseResult::is_client_error_known), of(PhaseResult::is_valid)) {
        (true, true) => Notice { level: Level::Good, text: format!("{complete}, and the client was fast enough.") },
        (true, false) => {
            let text = format!("{complete}, and the client was fast enough for every figure of the table by load.");
            Notice { level: Level::Info, text }
        }
        (false, _) => {
            let text = format!("{complete}; what the client itself adds was not measured in every phase.");
            Notice { level: Level::Info, text }
        }
    }
}

/// A record's status, warnings and notes.
fn record_notices(record: &Record) -> Vec<Notice> {
    let mut notices = Vec::new();
    let reason = record.reason.clone().unwrap_or_default();
    match record.status {
        Status::Complete => {}
        Status::Partial => notices.push(Notice { level: Level::Warning, text: format!("Partial result: {reason}.") }),
        Status::Failed => {
            notices.push(Notice { level: Level::Bad, text: format!("Nothing could be measured: {reason}.") })
        }
    }
    let invalid = crate::warnings::invalid_results(&record.phases);
    notices.extend(record.warnings.iter().map(|text| {
        match text.strip_prefix("not valid by ") {
            // The notice level already says "not valid".
            Some(by) if invalid.contains(text) => Notice { level: Level::Bad, text: format!("By {by}.") },
            _ if invalid.contains(text) => Notice { level: Level::Bad, text: text.clone() },
            _ => Notice { level: Level::Warning, text: text.clone() },
        }
    }));
    // What the run was to go on for and did not reach is no side note.
    let missed = |text: &String| {
        let asked = record.until.iter().flat_map(|until| &until.conditions);
        asked.into_iter().any(|it| it.status == PrecisionStatus::NotReached && it.sentence == *text)
    };
    let level = |text: &String| if missed(text) { Level::Warning } else { Level::Info };
    notices.extend(record.notes.iter().map(|text| Notice { level: level(text), text: text.clone() }));
    notices
}

/// Key figures: speed and TTFT at the lowest level, highest throughput, capacity loads.
fn headline(record: &Record) -> Vec<Figure> {
    let mut figures = Vec::new();
    let loads = by_load(&record.phases);
    if loads.iter().any(Rounds::has_items) {
        return items::headline(&loads);
    }
    if loads.iter().any(Rounds::has_audio) {
        return audio::headline(&loads);
    }
    if let Some(first) = loads.iter().find(|load| load.count(|phase| phase.counts.measured) > 0) {
        figures.push(speed_figure(first, format!("Output speed, median request, {}", first.name())));
        figures.push(ttft_figure(first));
    }
    if let Some(best) = most_throughput(&loads) {
        figures.push(Figure {
            label: "Most throughput".to_owned(),
            value: format::number(best.throughput().unwrap_or(0.0)),
            unit: "tok/s".to_owned(),
            interval: String::new(),
            note: format!("at {}, the least load with as much (within 2 %)", best.name()),
        });
    }
    if let Some(curve) = &record.curve {
        let unit = if curve.axis == LoadAxis::Concurrency { "in flight" } else { "req/s" };
        figures.extend(load_figure("A request slows beyond", &curve.capacity.slows, unit));
        figures.extend(load_figure("Requests begin to wait beyond", &curve.capacity.waits, unit));
    }
    figures
}

/// A load that was found.
fn load_figure(label: &str, figure: &LoadFigure, unit: &str) -> Option<Figure> {
    Some(Figure {
        label: label.to_owned(),
        value: format::number(figure.load.filter(|_| figure.status == FigureStatus::Found)?),
        unit: unit.to_owned(),
        interval: sentences::interval(figure.low, figure.high, 0.95),
        note: String::new(),
    })
}

/// The median output speed of a load.
fn speed_figure(load: &Rounds<'_>, label: String) -> Figure {
    let Some(speed) = load.output_speed() else { return absent_figure(load, Metric::OutputSpeed, label) };
    Figure {
        label,
        value: speed.value.or(speed.descriptive).map_or_else(|| NOT_MEASURED.to_owned(), format::number),
        unit: Metric::OutputSpeed.unit().to_owned(),
        interval: sentences::interval(speed.low, speed.high, speed.confidence),
        note: sentences::sample(speed.status, speed.floor, load.with_speed()),
    }
}

/// The median time to first token of a load.
fn ttft_figure(load: &Rounds<'_>) -> Figure {
    let label = format!("TTFT, median, {}", load.name());
    let Some(times) = load.times(Metric::Ttft) else { return absent_figure(load, Metric::Ttft, label) };
    let ttft = &times.p50;
    Figure {
        label,
        value: ttft.nearest_rank().map_or_else(|| NOT_MEASURED.to_owned(), format::number),
        unit: Metric::Ttft.unit().to_owned(),
        interval: sentences::interval(ttft.low, ttft.high, ttft.confidence),
        note: sentences::sample(ttft.status, ttft.floor, times.n),
    }
}

/// A figure that a load lacks, and why.
fn absent_figure(load: &Rounds<'_>, metric: Metric, label: String) -> Figure {
    Figure {
        label,
        value: NOT_MEASURED.to_owned(),
        unit: String::new(),
        interval: String::new(),
        note: load.missing_reason(metric).unwrap_or_default(),
    }
}

fn degradation(record: &Record) -> Option<Section> {
    let curve = record.curve.as_ref()?;
    let mut blocks: Vec<Block> = charts::degradation(record, curve).iter().map(Block::chart).collect();
    blocks.extend(capacity_sentences(curve).into_iter().map(Block::Paragraph));
    blocks.extend(sign_sentences(curve).into_iter().map(Block::Paragraph));
    blocks.push(Block::Table(tables::degradation(curve)));
    blocks.extend(tables::models(curve).map(Block::Table));
    Some(Section {
        title: "Degradation with load".to_owned(),
        intro: "What each request gets, and what all of them together get, at each load.".to_owned(),
        blocks,
    })
}

fn distributions(record: &Record, samples: &Samples) -> Option<Section> {
    let blocks = charts::distributions(record, samples);
    (!blocks.is_empty()).then(|| Section {
        title: "Distributions".to_owned(),
        intro: "The share of requests (or gaps) that are at most as long as x; failed requests never arrive."
            .to_owned(),
        blocks,
    })
}

fn lengths(samples: &Samples) -> Option<Section> {
    let chart = charts::lengths(samples)?;
    Some(Section {
        title: "Lengths".to_owned(),
        intro: "The share of requests whose prompt or answer is at most as long as x.".to_owned(),
        blocks: vec![Block::chart(&chart)],
    })
}

fn timeline(record: &Record, samples: &Samples) -> Option<Section> {
    let charts = charts::timelines(record, samples);
    (!charts.is_empty()).then(|| Section {
        title: "Requests over time".to_owned(),
        intro: "Each request from sent to end; the first part is its TTFT.".to_owned(),
        blocks: vec![Block::multiples("", "", &charts)],
    })
}

fn assertions(record: &Record) -> Option<Section> {
    let table = checks::assertions(record)?;
    Some(Section { title: "Assertions".to_owned(), intro: String::new(), blocks: vec![Block::Table(table)] })
}

fn objectives(record: &Record) -> Option<Section> {
    let table = checks::goodput(&record.phases)?;
    Some(Section { title: "Goodput".to_owned(), intro: String::new(), blocks: vec![Block::Table(table)] })
}

fn checks(record: &Record) -> Option<Section> {
    let table = checks::suspicions(&record.phases)?;
    Some(Section {
        title: "Integrity checks".to_owned(),
        intro: "A finding is not proof: it says what was seen, and what it could mean.".to_owned(),
        blocks: vec![Block::Table(table)],
    })
}

fn server_times(record: &Record) -> Option<Section> {
    let table = checks::server_timings(&record.phases)?;
    Some(Section { title: "What the server says".to_owned(), intro: String::new(), blocks: vec![Block::Table(table)] })
}

fn every_number(record: &Record) -> Option<Section> {
    (!record.phases.is_empty()).then(|| Section {
        title: "All levels in numbers".to_owned(),
        intro: "Rounds at one load are pooled in the first table and stand by themselves in the second. Intervals in brackets; ~ marks \
                a value that only describes too few samples."
            .to_owned(),
        blocks: numbers(&record.phases),
    })
}

/// The loads in few figures, every number of every phase, and how they read.
fn numbers(phases: &[PhaseResult]) -> Vec<Block> {
    let amounts: Vec<f64> = phases.iter().map(|phase| phase.load.amount()).collect();
    let levels = column_groups(&amounts).into_iter().map(|columns| tables::levels(&phases[columns]));
    let tables = std::iter::once(loads(phases)).chain(levels).chain([tables::comfort(phases)]);
    tables.map(Block::Table).collect()
}

fn failures(record: &Record) -> Option<Section> {
    let table = tables::failures(&record.phases)?;
    Some(Section { title: "Failures".to_owned(), intro: String::new(), blocks: vec![Block::Table(table)] })
}

fn client_error(record: &Record) -> Option<Section> {
    (!record.phases.is_empty()).then(|| Section {
        title: "The client's own error".to_owned(),
        intro: "What measuring itself adds, found at the same load against an engine whose every write is logged."
            .to_owned(),
        blocks: vec![Block::Table(tables::client_error(&record.phases))],
    })
}

fn server(record: &Record) -> Option<Section> {
    Some(Section {
        title: "What the server says".to_owned(),
        intro: "The server's own metrics, read before and after each level, beside the client's numbers for the same requests \
                (warm-up included). The gap is network, client, and what stands in front of the server's clock."
            .to_owned(),
        blocks: vec![Block::Table(tables::server(&record.phases)?)],
    })
}

fn conditions_section(record: &Record) -> Option<Section> {
    let mut terms = tables::conditions(record);
    terms.push(("wall time".to_owned(), format!("{:.1} s", record.wall_seconds)));
    Some(Section {
        title: "Conditions".to_owned(),
        intro: "Numbers taken under other conditions are other numbers.".to_owned(),
        blocks: std::iter::once(Block::DefinitionList(terms))
            .chain(tables::windows(&record.phases).map(Block::Table))
            .collect(),
    })
}

#[cfg(test)]
mod tests;
