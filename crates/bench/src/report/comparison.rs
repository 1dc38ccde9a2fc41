//! HTML report of several targets: every chart with one line per target. Ranks and tests come from the scorecard and the
//! comparisons.
//!
//! Invariant: warnings of every target stand above all numbers; conditions that differ between targets are listed.

use super::charts::{claiming, comfort_bands, each_against_all, measured_level};
use super::claims;
use super::samples::{LoadSamples, Samples};
use super::{by_load_rising, capacity_sentences, over_time, record_notices, tables};
use tokrate_charts::{
    Axis, Block, Column, DistributionChart, DistributionKind, Figure, Level, LineChart, Notice, Page, Sample, Section,
    Series, SeriesStyle, Table, format,
};
use tokrate_judge::scorecard::differing_conditions;
use tokrate_record::curve::{CurveResult, LoadAxis, LoadLevel, Measured};
use tokrate_record::run::by_load;
use tokrate_record::{PhaseResult, Record};

/// One target of a comparison.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Name to show, unique among the subjects.
    pub name: &'a str,
    /// Its record.
    pub record: &'a Record,
    /// Samples of its rows.
    pub samples: &'a Samples,
}

/// The whole file. `verdicts` are sections made elsewhere (scorecard, tests), shown before the charts.
pub fn comparison_html(subjects: &[Subject<'_>], verdicts: Vec<Section>) -> String {
    let records: Vec<Record> = subjects.iter().map(|subject| by_load_rising(subject.record)).collect();
    let in_order = subjects.iter().zip(&records).map(|(subject, record)| Subject { record, ..*subject });
    let subjects = &in_order.collect::<Vec<Subject<'_>>>()[..];
    let names: Vec<&str> = subjects.iter().map(|subject| subject.name).collect();
    let first = subjects.first().map(|subject| subject.record);
    let mut sections = verdicts;
    sections.extend([degradation(subjects), distributions(subjects)].into_iter().flatten());
    sections.extend(subjects.iter().filter_map(|subject| {
        let section = over_time::section(subject.record)?;
        Some(Section { title: format!("{}: the run over time", subject.name), ..section })
    }));
    sections.extend(subjects.iter().map(every_number));
    sections.extend([failures(subjects), client_error(subjects)].into_iter().flatten());
    sections.push(conditions(subjects));
    Page {
        title: format!("{}: how fast they answer", names.join(", ")),
        subtitle: first.map_or_else(String::new, |record| {
            format!(
                "Measured in turns from {} on {}, {}",
                record.conditions.host,
                record.started_at,
                record.conditions.lengths()
            )
        }),
        notices: notices(subjects),
        headline: subjects.iter().flat_map(headline).collect(),
        sections,
        footer: first.map_or_else(String::new, |record| {
            format!(
                "{} {}, records {}. The words are defined in docs/glossary.md of tokrate, the methods in docs/method.md.",
                record.tool.name, record.tool.version, record.schema
            )
        }),
    }
    .html()
}

fn notices(subjects: &[Subject<'_>]) -> Vec<Notice> {
    let mut sentence: Vec<(Notice, Vec<&str>)> = Vec::new();
    for subject in subjects {
        for notice in record_notices(subject.record) {
            match sentence.iter_mut().find(|(known, _)| *known == notice) {
                Some((_, names)) => names.push(subject.name),
                None => sentence.push((notice, vec![subject.name])),
            }
        }
    }
    // Invalid results come first.
    sentence.sort_by_key(|(notice, _)| std::cmp::Reverse(notice.level as u8));
    let named = |(notice, names): (Notice, Vec<&str>)| {
        let names = if names.len() == subjects.len() { "all".to_owned() } else { names.join(", ") };
        Notice { text: format!("{names}: {}", notice.text), ..notice }
    };
    let mut notices: Vec<Notice> = sentence.into_iter().map(named).collect();
    let records: Vec<&Record> = subjects.iter().map(|subject| subject.record).collect();
    let differing = differing_conditions(&records);
    let differing: Vec<&str> = differing.iter().map(|condition| condition.name.as_str()).collect();
    if !differing.is_empty() {
        let text =
            format!("The targets were measured under different conditions ({}); see below.", differing.join(", "));
        notices.insert(0, Notice { level: Level::Warning, text });
    }
    notices
}

/// Each target's output speed at the lowest load.
fn headline(subject: &Subject<'_>) -> Option<Figure> {
    let loads = by_load(&subject.record.phases);
    let first = loads.iter().find(|load| load.count(|phase| phase.counts.measured) > 0)?;
    Some(super::speed_figure(first, format!("{}: output speed, median request, {}", subject.name, first.name())))
}

fn degradation(subjects: &[Subject<'_>]) -> Option<Section> {
    let curves: Vec<(&str, &CurveResult)> = subjects
        .iter()
        .filter_map(|subject| subject.record.curve.as_ref().map(|curve| (subject.name, curve)))
        .collect();
    let axis = match curves.first()?.1.axis {
        LoadAxis::Concurrency => Axis::linear("Requests in flight", ""),
        LoadAxis::Rate => Axis::linear("Arrivals", "req/s"),
    };
    type Of = fn(&LoadLevel) -> Option<Measured>;
    let charts: [(&str, &str, &str, &str, Of); 3] = [
        ("Output speed of one request", "Median over requests with its interval.", "Output speed", "tok/s", |level| {
            level.output_speed
        }),
        ("Throughput of all requests together", "In the steady window.", "Throughput", "tok/s", |level| {
            level.throughput
        }),
        ("Time to first token", "Median over requests with its interval.", "TTFT", "ms", |level| level.ttft),
    ];
    let mut blocks = Vec::new();
    for (title, description, label, unit, of) in charts {
        let series = curves.iter().map(|(name, curve)| Series {
            name: (*name).to_owned(),
            points: curve.levels.iter().map(|level| measured_level(&level.level, of)).collect(),
            style: SeriesStyle::Measured,
        });
        let chart = LineChart {
            title: title.to_owned(),
            description: description.to_owned(),
            x: axis.clone(),
            y: Axis::linear(label, unit),
            series: series.collect(),
            marks: Vec::new(),
            bands: if label == "Output speed" {
                comfort_bands(curves.iter().map(|(_, curve)| *curve))
            } else {
                Vec::new()
            },
        };
        blocks.push(Block::chart(&claiming(chart, claims::of_targets(label, unit, &curves, of))));
    }
    if subjects.iter().any(|subject| subject.record.conditions.streaming) {
        blocks.push(Block::chart(&each_against_all(&curves)));
    }
    // What is true of several targets is said once.
    let mut said: Vec<(String, Vec<&str>)> = Vec::new();
    for (name, curve) in &curves {
        let sentences = capacity_sentences(curve).join(" ");
        match said.iter_mut().find(|(known, _)| *known == sentences) {
            Some((_, names)) => names.push(*name),
            None => said.push((sentences, vec![*name])),
        }
    }
    blocks.extend(said.into_iter().map(|(text, names)| Block::Paragraph(format!("{}: {text}", names.join(", ")))));
    Some(Section {
        title: "Degradation with load".to_owned(),
        intro: "What each request gets, and what all of them together get, at each load.".to_owned(),
        blocks,
    })
}

/// TTFT of every target, one chart for each load that at least two of them have, all on one axis.
fn distributions(subjects: &[Subject<'_>]) -> Option<Section> {
    let all: Vec<(&str, Vec<LoadSamples>)> =
        subjects.iter().map(|subject| (subject.name, subject.samples.by_load())).collect();
    let mut loads: Vec<String> = Vec::new();
    for load in all.iter().flat_map(|(_, loads)| loads).map(LoadSamples::name) {
        if !loads.contains(&load) {
            loads.push(load);
        }
    }
    let values = all.iter().flat_map(|(_, loads)| loads).flat_map(|load| load.ttft.iter().copied());
    let axis = Axis::log("TTFT", "s").holding(values);
    let charts = loads.into_iter().filter_map(|load| {
        let samples = all.iter().filter_map(|(target, loads)| {
            let random = loads.iter().find(|random| random.name() == load && !random.ttft.is_empty())?;
            Some(Sample { name: (*target).to_owned(), values: random.ttft.clone(), failed: random.failed })
        });
        let samples: Vec<Sample> = samples.collect();
        (samples.len() > 1).then(|| DistributionChart {
            title: load,
            description: String::new(),
            x: axis.clone(),
            kind: DistributionKind::Cumulative,
            samples,
        })
    });
    let charts: Vec<DistributionChart> = charts.collect();
    (!charts.is_empty()).then(|| Section {
        title: "Distributions".to_owned(),
        intro:
            "The share of requests whose TTFT is at most x, one curve for each target; failed requests never arrive."
                .to_owned(),
        blocks: vec![Block::multiples("Time to first token", "", &charts)],
    })
}

fn every_number(subject: &Subject<'_>) -> Section {
    Section {
        title: format!("{} in numbers", subject.name),
        intro: String::new(),
        blocks: super::numbers(&subject.record.phases),
    }
}

/// One table for each target, with its name before the caption.
fn tables_of(subjects: &[Subject<'_>], table: impl Fn(&[PhaseResult]) -> Option<Table>) -> Vec<Block> {
    subjects
        .iter()
        .filter_map(|subject| {
            let table = table(&subject.record.phases)?;
            Some(Block::Table(Table { caption: format!("{}: {}", subject.name, table.caption), ..table }))
        })
        .collect()
}

fn failures(subjects: &[Subject<'_>]) -> Option<Section> {
    let blocks = tables_of(subjects, tables::failures);
    (!blocks.is_empty()).then(|| Section { title: "Failures".to_owned(), intro: String::new(), blocks })
}

fn client_error(subjects: &[Subject<'_>]) -> Option<Section> {
    let blocks = tables_of(subjects, |phases| (!phases.is_empty()).then(|| tables::client_error(phases)));
    (!blocks.is_empty()).then(|| Section {
        title: "The client's own error".to_owned(),
        intro: "What measuring itself adds, found at the same load against an engine whose every write is logged."
            .to_owned(),
        blocks,
    })
}

fn conditions(subjects: &[Subject<'_>]) -> Section {
    let records: Vec<&Record> = subjects.iter().map(|subject| subject.record).collect();
    let differing = differing_conditions(&records);
    let columns = std::iter::once(Column::words("condition"));
    let names = subjects.iter().map(|subject| Column::words(subject.name.to_owned()));
    let mut rows: Vec<Vec<String>> = Vec::new();
    let all: Vec<Vec<(String, String)>> = records.iter().map(|record| tables::conditions(record)).collect();
    if let Some(first) = all.first() {
        for (name, value) in first {
            let of = |entries: &Vec<(String, String)>| {
                entries.iter().find(|(other, _)| other == name).map_or_else(String::new, |(_, value)| value.clone())
            };
            let values: Vec<String> = all.iter().map(of).collect();
            if values.iter().any(|other| other != value) {
                rows.push(std::iter::once(name.clone()).chain(values).collect());
            }
        }
    }
    let same: Vec<(String, String)> = all
        .first()
        .into_iter()
        .flatten()
        .filter(|(name, _)| !rows.iter().any(|row| row[0] == *name))
        .cloned()
        .collect();
    let mut blocks = Vec::new();
    if !rows.is_empty() {
        blocks.push(Block::Table(Table {
            caption: "Where the targets differ".to_owned(),
            columns: columns.chain(names).collect(),
            rows,
            notes: Vec::new(),
        }));
    }
    blocks.push(Block::DefinitionList(same));
    let wall: f64 = records.iter().map(|record| record.wall_seconds).fold(0.0, f64::max);
    Section {
        title: "Conditions".to_owned(),
        intro: if differing.is_empty() {
            format!("All targets were measured under the same conditions, in turns, within {}.", format::seconds(wall))
        } else {
            "Numbers taken under other conditions are other numbers.".to_owned()
        },
        blocks,
    }
}
