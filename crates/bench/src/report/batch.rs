//! Batches in a report: when each level's were done and how sure that is, how much a second, and how their requests ended.
//!
//! Invariant: what the grain of the questions leaves open stands beside every time.

use super::tables::{MISSING, number, quantile};
use tokrate_charts::{Axis, Bar, BarChart, Block, Column, Section, Table, format};
use tokrate_record::run::BatchSummary;
use tokrate_record::{PhaseResult, Record};

/// The section, if requests were sent as batches.
pub(super) fn section(record: &Record) -> Option<Section> {
    let phases: Vec<(&PhaseResult, &BatchSummary)> =
        record.phases.iter().filter_map(|phase| Some((phase, phase.batches()?))).collect();
    if phases.is_empty() {
        return None;
    }
    Some(Section {
        title: "Batches".to_owned(),
        intro: "A batch is uploaded, begun, and asked after until it has ended. It may have ended any time since the question before.".to_owned(),
        blocks: vec![Block::chart(&chart(&phases)), Block::Table(table(&phases))],
    })
}

/// The time until a batch was done, from the earliest that it can have been to when it was seen.
fn chart(phases: &[(&PhaseResult, &BatchSummary)]) -> BarChart {
    let bar = |(phase, batches): &(&PhaseResult, &BatchSummary)| {
        let seen = phase.e2e.p50.nearest_rank();
        let low = seen.zip(batches.late_at_most.max).map(|(seen, late)| (seen - late).max(0.0));
        Bar { label: phase.name.clone(), value: seen, low, high: seen, ..Bar::default() }
    };
    BarChart {
        title: "From upload to done".to_owned(),
        description: "Medians over batches; the mark goes back to the earliest that they can have ended.".to_owned(),
        axis: Axis::linear("Since the upload began", "ms"),
        bars: phases.iter().map(bar).collect(),
    }
}

fn table(phases: &[(&PhaseResult, &BatchSummary)]) -> Table {
    let rows = phases.iter().map(|(phase, batches)| {
        let share = batches.failed_share().map_or_else(|| MISSING.to_owned(), |share| format::number(share * 100.0));
        vec![
            phase.name.clone(),
            format::count(batches.n),
            quantile(&phase.e2e.p50),
            quantile(&batches.late_at_most.p50),
            quantile(&batches.begun.p50),
            quantile(&batches.read.p50),
            number(batches.requests_per_second),
            number(batches.input_tokens_per_second),
            number(batches.output_tokens_per_second),
            format!("{} of {}", format::count(batches.requests - batches.succeeded), format::count(batches.requests)),
            share,
        ]
    });
    Table {
        caption: "By level".to_owned(),
        columns: vec![
            Column::words("level"),
            Column::numbers("batches", ""),
            Column::numbers("done p50", "ms"),
            Column::numbers("ended earlier by at most", "ms"),
            Column::numbers("begun after", "ms"),
            Column::numbers("results read in", "ms"),
            Column::numbers("requests", "1/s"),
            Column::numbers("tokens in", "tok/s"),
            Column::numbers("tokens out", "tok/s"),
            Column::words("requests that failed"),
            Column::numbers("failed", "%"),
        ],
        rows: rows.collect(),
        notes: vec!["Rates are over the whole time, waiting included; the reading of results is not in it.".to_owned()],
    }
}
