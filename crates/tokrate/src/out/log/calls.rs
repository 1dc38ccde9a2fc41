//! A call with the trail of its attempts.
//!
//! It does not read the log. Invariant: every attempt is one line, in the order in which they were begun.

use super::{date, dollars};
use tokrate_charts::format::number;
use tokrate_charts::{Column, Table};
use tokrate_core::Span;
use tokrate_record::{Attempt, AttemptEnd, CostBasis};

/// A call: a head line, and a line for each attempt.
pub fn call(attempts: &[Attempt]) -> String {
    let Some(first) = attempts.first() else { return String::new() };
    let begun = attempts.iter().map(|row| row.sample.started_unix_ms).min().unwrap_or(0);
    let mut head = format!("{} UTC  {}  {}", date(begun), first.alias, first.call);
    if let Some(key) = &first.key {
        head += &format!("  key {key}");
    }
    let cost: f64 = attempts.iter().filter_map(|row| row.sample.cost_usd).sum();
    let unknown = attempts.iter().filter(|row| row.sample.cost_basis == CostBasis::Unknown).count();
    head += &match unknown {
        0 => format!("  {} USD", dollars(cost)),
        _ if unknown == attempts.len() => "  cost unknown".to_owned(),
        _ => format!("  {} USD and {unknown} of unknown cost", dollars(cost)),
    };
    let table = Table {
        caption: head,
        columns: ["", "began", "lane", "ended"]
            .map(Column::words)
            .into_iter()
            .chain(
                [
                    ("after", ""),
                    ("TTFT", ""),
                    ("answer", ""),
                    ("speed", "tok/s"),
                    ("in", "tok"),
                    ("out", "tok"),
                    ("cost", "USD"),
                ]
                .map(|(label, unit)| Column::numbers(label, unit)),
            )
            .collect(),
        rows: attempts.iter().map(|row| line(row, begun)).collect(),
        notes: Vec::new(),
    };
    table.text()
}

fn line(row: &Attempt, begun: u64) -> Vec<String> {
    let absent = || "-".to_owned();
    let time = |ns: Option<u64>| ns.map_or_else(absent, |ns| Span::from_nanos(ns).to_string());
    let later = Span::from_millis(row.sample.started_unix_ms.saturating_sub(begun));
    let began = if later.is_zero() { row.role.name().to_owned() } else { format!("{} +{later}", row.role.name()) };
    let cost = match (row.sample.cost_usd, row.sample.cost_basis) {
        (Some(cost), CostBasis::Estimated) => format!("~{}", dollars(cost)),
        (Some(cost), _) => dollars(cost),
        (None, CostBasis::Free) => "0".to_owned(),
        (None, _) => absent(),
    };
    vec![
        row.attempt.to_string(),
        began,
        row.lane.clone(),
        ended(row),
        Span::from_nanos(row.sample.total_ns).to_string(),
        time(row.sample.ttft_ns),
        time(row.sample.answer_ns),
        row.sample.output_speed.map_or_else(absent, number),
        row.sample.input_tokens.or(row.sample.input_tokens_std).map_or_else(absent, |tokens| tokens.to_string()),
        row.sample.output_tokens_std.to_string(),
        cost,
    ]
}

fn ended(row: &Attempt) -> String {
    let mut text = row.end.name().to_owned();
    if row.end == AttemptEnd::Failed {
        text += &row.sample.failure.map_or_else(String::new, |kind| format!(": {}", kind.name()));
        text += &row
            .sample
            .status
            .filter(|status| *status != 200)
            .map_or_else(String::new, |status| format!(" ({status})"));
        text += if row.won { ", its beginning was given on" } else { "" };
    } else if row.end == AttemptEnd::Answered && row.sample.failure.is_some() {
        text += ", not all of it could be read";
    }
    text
}
