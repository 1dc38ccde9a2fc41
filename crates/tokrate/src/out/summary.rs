//! What is printed at the end: warnings first, the table, the curve, what the endpoint carries, where the files are.

use super::comparison::{self, Sides};
use super::{scorecard, table};
use crate::config::bench::Outputs;
use std::fmt::Write;
use tokrate_charts::terminal;
use tokrate_meter::{Comparison, Record, Status};

/// Width of the curve when the terminal does not tell its own.
const WIDTH: usize = 80;
const HEIGHT: usize = 14;

/// The whole text. The names are those of the targets, in the order of the records.
pub fn of(names: &[String], results: &Comparison, outputs: &Outputs) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = render(&mut text, names, results, outputs);
    text
}

fn render(text: &mut String, names: &[String], results: &Comparison, outputs: &Outputs) -> std::fmt::Result {
    let records = &results.records;
    for (name, record) in names.iter().zip(records) {
        if records.len() > 1 {
            writeln!(text, "== {name} ==")?;
        }
        target(text, record)?;
        if records.len() > 1 {
            writeln!(text)?;
        }
    }
    for against in &results.against_first {
        let table = comparison::text(&against.report, Sides::of(against));
        writeln!(text, "{} held against {}:\n{table}", against.target, against.first)?;
    }
    if let Some(card) = &results.scorecard {
        writeln!(text, "{}", scorecard::text(card))?;
    }
    for (name, path) in outputs.files() {
        writeln!(text, "{name}: {}", path.display())?;
    }
    Ok(())
}

/// One target: its warnings first, its table, its curve.
fn target(text: &mut String, record: &Record) -> std::fmt::Result {
    let conditions = &record.conditions;
    writeln!(text, "{} at {}", conditions.model, conditions.endpoint)?;
    writeln!(
        text,
        "{} tokens in, {} out, {}, {}, {}; {:.0} s on {}",
        conditions.input_tokens,
        conditions.output_tokens,
        if conditions.streaming { "streamed" } else { "not streamed" },
        conditions.http_version,
        conditions.dialect,
        record.wall_seconds,
        conditions.host,
    )?;
    match (record.status, &record.reason) {
        (Status::Complete, _) => {}
        (status, reason) => {
            let label = if status == Status::Failed { "FAILED" } else { "PARTIAL" };
            writeln!(text, "\n{label}: {}", reason.as_deref().unwrap_or("see the warnings"))?;
        }
    }
    for warning in &record.warnings {
        writeln!(text, "\nwarning: {warning}")?;
    }
    for note in &record.notes {
        writeln!(text, "\nnote: {note}")?;
    }
    for (message, count) in first_messages(record) {
        writeln!(text, "  first message of {count}: {message}")?;
    }
    writeln!(text, "\n{}", table::phases(&record.phases))?;
    writeln!(text, "[a..b] is the confidence interval; ~ describes too few samples to state a percentile")?;
    if let Some(chart) = tokrate_bench::report::throughput_chart(record) {
        writeln!(text, "\n{}", terminal::plot(&chart, WIDTH, HEIGHT, true))?;
    }
    if let Some(curve) = &record.curve {
        for sentence in tokrate_bench::report::capacity_sentences(curve) {
            writeln!(text, "{sentence}")?;
        }
    }
    if !record.assertions.is_empty() {
        writeln!(text, "\nDemands:")?;
    }
    for outcome in &record.assertions {
        let place = outcome.phase.as_deref().unwrap_or("-");
        writeln!(text, "  {:<18}  {}  ({place}: {})", outcome.status.name(), outcome.assertion, outcome.detail)?;
    }
    Ok(())
}

/// The first message of each failure, over all phases.
fn first_messages(record: &Record) -> Vec<(&str, u64)> {
    let mut messages: Vec<(&str, u64)> = Vec::new();
    for failure in record.phases.iter().flat_map(|phase| &phase.failures) {
        let Some(message) = failure.message.as_deref() else { continue };
        match messages.iter_mut().find(|(known, _)| *known == message) {
            Some((_, count)) => *count += failure.count,
            None => messages.push((message, failure.count)),
        }
    }
    messages
}
