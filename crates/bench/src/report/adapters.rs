//! Several models behind one endpoint in a report: figures by the model that was asked for.

use super::tables::quantile;
use tokrate_charts::{Axis, Bar, BarChart, Block, Column, Section, Table, format};
use tokrate_record::run::AdapterSummary;
use tokrate_record::{PhaseResult, Record};

/// Models that are drawn; the table has all.
const MAX_DRAWN: usize = 20;

/// The section, if requests asked for several models.
pub(super) fn section(record: &Record) -> Option<Section> {
    let phases: Vec<&PhaseResult> = record.phases.iter().filter(|phase| !phase.adapters.is_empty()).collect();
    let last = phases.last()?;
    let chart = chart(last).map(|chart| Block::chart(&chart));
    Some(Section {
        title: "Models (adapters)".to_owned(),
        intro: "Requests ask for several models of one endpoint; a model that has to be loaded first shows as a long time to first token."
            .to_owned(),
        blocks: chart.into_iter().chain([Block::Table(table(&phases))]).collect(),
    })
}

/// TTFT by model at a level, the slowest first.
fn chart(phase: &PhaseResult) -> Option<BarChart> {
    let mut rows: Vec<&AdapterSummary> = phase.adapters.iter().filter(|row| !row.ttft.is_empty()).collect();
    let value = |row: &AdapterSummary| row.ttft.p50.nearest_rank().unwrap_or(0.0);
    rows.sort_by(|a, b| value(b).total_cmp(&value(a)));
    let bar = |row: &&AdapterSummary| {
        let p50 = &row.ttft.p50;
        Bar { label: row.name.clone(), value: p50.nearest_rank(), low: p50.low, high: p50.high, ..Bar::default() }
    };
    (!rows.is_empty()).then(|| BarChart {
        title: format!("Time to first token by model, {}", phase.name),
        description: format!("Medians with their intervals, slowest first; at most {MAX_DRAWN} models."),
        axis: Axis::linear("TTFT p50", "ms"),
        bars: rows.iter().take(MAX_DRAWN).map(bar).collect(),
    })
}

fn table(phases: &[&PhaseResult]) -> Table {
    let row = |phase: &PhaseResult, row: &AdapterSummary| {
        vec![
            phase.name.clone(),
            row.name.clone(),
            format::count(row.n),
            format::count(row.failed),
            quantile(&row.ttft.p50),
            quantile(&row.ttft.p95),
            quantile(&row.tpot.p50),
            quantile(&row.e2e.p50),
        ]
    };
    let rows = phases.iter().flat_map(|phase| phase.adapters.iter().map(|it| row(phase, it)));
    Table {
        caption: "By model".to_owned(),
        columns: vec![
            Column::words("level"),
            Column::words("model"),
            Column::numbers("answered", ""),
            Column::numbers("failed", ""),
            Column::numbers("TTFT p50", "ms"),
            Column::numbers("TTFT p95", "ms"),
            Column::numbers("TPOT p50", "ms"),
            Column::numbers("E2E p50", "ms"),
        ],
        rows: rows.collect(),
        notes: Vec::new(),
    }
}
