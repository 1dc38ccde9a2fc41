//! What is printed at the end: warnings first, what the run comes to in a few lines, the levels, notes, the curve.

use super::comparison::Sides;
use super::paragraph::{hanging, note, wrapped};
use super::stdout::MAX_TEXT_WIDTH;
use super::{comparison_blocks, headline, scorecard, stdout, table};
use crate::config::bench::Outputs;
use std::fmt::Write;
use tokrate_charts::terminal;
use tokrate_judge::Comparison;
use tokrate_record::run::missing_figures;
use tokrate_record::{AssertionStatus, ConditionsRow, Record, Status, UntilResult};

/// Width of the labels before the lines.
const LABEL: usize = 10;
const BOLD: &str = "\u{1b}[1m";
const YELLOW: &str = "\u{1b}[33m";
const RESET: &str = "\u{1b}[0m";
const HEIGHT: usize = 14;

/// The whole text. The names are those of the targets, in the order of the records.
pub fn of(names: &[String], results: &Comparison, outputs: &Outputs) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = render(&mut text, names, results, outputs);
    text
}

/// What went wrong, for whoever asked for nothing else: a line each.
pub fn troubles(names: &[String], results: &Comparison) -> String {
    let mut text = String::new();
    for (name, record) in names.iter().zip(&results.records) {
        let status = match record.status {
            Status::Complete => None,
            Status::Partial => Some("partial"),
            Status::Failed => Some("failed"),
        };
        let reason = record.reason.as_deref().unwrap_or("see the warnings");
        let status = status.map(|status| format!("{status}: {reason}"));
        let unmet = record.assertions.iter().filter(|outcome| outcome.status != AssertionStatus::Met);
        let unmet =
            unmet.map(|outcome| format!("{}: {} ({})", outcome.status.name(), outcome.assertion, outcome.detail));
        let unreached = record.until.iter().filter(|until| !until.is_reached()).flat_map(UntilResult::sentences);
        let unreached = unreached.map(str::to_owned);
        for trouble in status.into_iter().chain(record.warnings.iter().cloned()).chain(unmet).chain(unreached) {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "tokrate: {name}: {trouble}");
        }
    }
    text
}

fn render(text: &mut String, names: &[String], results: &Comparison, outputs: &Outputs) -> std::fmt::Result {
    let records = &results.records;
    for (name, record) in names.iter().zip(records) {
        if records.len() > 1 {
            writeln!(text, "== {name} ==")?;
        }
        target(text, record, outputs.wide, stdout::width(MAX_TEXT_WIDTH))?;
        if records.len() > 1 {
            writeln!(text)?;
        }
    }
    for name in results.uncompared(names) {
        let sentence = format!(
            "{name} is compared with nothing: it and {} have no load level of which both came to an end",
            names[0]
        );
        writeln!(text, "{}", note(&sentence, stdout::width(MAX_TEXT_WIDTH)))?;
    }
    for against in &results.against_first {
        let table = comparison_blocks::shown(&against.report, Sides::of(against), outputs.wide);
        writeln!(text, "{} compared with {}:\n{table}", against.target, against.first)?;
    }
    if let Some(check) = &results.self_check {
        writeln!(text, "{}", note(&check.sentence, stdout::width(MAX_TEXT_WIDTH)))?;
    }
    if let Some(card) = &results.scorecard {
        writeln!(text, "{}", scorecard::text(card, stdout::width(comparison_blocks::MAX_WIDTH)))?;
    }
    Ok(())
}

/// One target: its warnings first, its headline, its table, its notes, its curve.
fn target(text: &mut String, record: &Record, wide: bool, width: usize) -> std::fmt::Result {
    let conditions = &record.conditions;
    text.push_str(&note(&format!("{} at {}", conditions.model, conditions.endpoint), width));
    let measured = format!(
        "{}, {}, {}, {}; {:.0} s on {}",
        conditions.lengths(),
        match conditions.task.as_str() {
            "" | "chat" if conditions.streaming => "streamed",
            "" | "chat" => "not streamed",
            task => task,
        },
        conditions.http_version,
        conditions.dialect,
        record.wall_seconds,
        conditions.host,
    );
    text.push_str(&note(&measured, width));
    if conditions.prompts != ConditionsRow::SYNTHETIC {
        text.push_str(&note(&format!("prompts: {}", conditions.prompts), width));
    }
    match (record.status, &record.reason) {
        (Status::Complete, _) => {}
        (status, reason) => {
            let label = if status == Status::Failed { "FAILED" } else { "PARTIAL" };
            let reason = reason.as_deref().unwrap_or("see the warnings");
            write!(text, "\n{}", hanging(&format!("{label}: "), reason, width))?;
        }
    }
    for (place, warning) in record.warnings.iter().enumerate() {
        let label = format!("{YELLOW}warning:{RESET} ");
        write!(text, "{}{}", if place == 0 { "\n" } else { "" }, hanging(&label, warning, width))?;
    }
    for (message, count) in first_messages(record) {
        text.push_str(&hanging("  ", &format!("first message of {count}: {message}"), width));
    }
    let headline = headline::lines(record);
    if !headline.is_empty() {
        writeln!(text)?;
    }
    for (label, line) in headline {
        for (place, part) in wrapped(&line, width - LABEL).into_iter().enumerate() {
            let label = if place == 0 { label } else { "" };
            writeln!(text, "{BOLD}{label:<LABEL$}{RESET}{part}")?;
        }
    }
    if wide {
        writeln!(text, "\n{}", table::phases(&record.phases))?;
        text.extend(missing_figures(&record.phases).iter().map(|reason| note(reason, width)));
    } else if !record.phases.is_empty() {
        writeln!(text, "\n{}", table::loads(&record.phases, width))?;
    }
    notes(text, record, width)?;
    if let Some(chart) = tokrate_bench::report::throughput_chart(record) {
        writeln!(text, "\n{}", terminal::plot(&chart, width, HEIGHT, true))?;
    }
    if !record.assertions.is_empty() {
        writeln!(text, "\nAssertions:")?;
    }
    for outcome in &record.assertions {
        let place = outcome.phase.as_deref().unwrap_or("-");
        let label = format!("  {:<18}  ", outcome.status.name());
        let outcome = format!("{}  ({place}: {})", outcome.assertion, outcome.detail);
        text.push_str(&hanging(&label, &outcome, width));
    }
    Ok(())
}

/// The notes that do not stand in the headline.
fn notes(text: &mut String, record: &Record, width: usize) -> std::fmt::Result {
    // What a search has found, and what was asked, stands in the headline.
    let asked = record.until.iter().flat_map(UntilResult::sentences);
    let told: Vec<&str> = record.search.iter().map(|search| search.sentence.as_str()).chain(asked).collect();
    for (place, note) in record.notes.iter().filter(|note| !told.contains(&note.as_str())).enumerate() {
        write!(text, "{}{}", if place == 0 { "\n" } else { "" }, hanging("note: ", note, width))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A sweep of the embedded engine, its second level in two rounds.
    fn shown(wide: bool, width: usize) -> String {
        let record = Record::parse(include_str!("testdata/record.json")).expect("a record");
        let mut text = String::new();
        target(&mut text, &record, wide, width).expect("a string takes all");
        text
    }

    #[test]
    fn a_sweep_in_a_terminal() {
        insta::assert_snapshot!("sweep_80", anstream::adapter::strip_str(&shown(false, 80)).to_string());
        insta::assert_snapshot!("sweep_60", anstream::adapter::strip_str(&shown(false, 60)).to_string());
        insta::assert_snapshot!("sweep_wide", anstream::adapter::strip_str(&shown(true, 80)).to_string());
    }

    #[test]
    fn without_a_table_what_went_wrong_is_printed() {
        let mut record = Record::parse(include_str!("testdata/record.json")).expect("a record");
        let names = ["sim".to_owned()];
        record.warnings.clear();
        let lines = |record: &Record| troubles(&names, &Comparison::of(vec![record.clone()]));
        assert_eq!(lines(&record), "");
        (record.status, record.reason) = (Status::Failed, Some("401 from the provider".to_owned()));
        record.warnings.push("4 % of the requests failed".to_owned());
        assert_eq!(
            lines(&record),
            "tokrate: sim: failed: 401 from the provider\ntokrate: sim: 4 % of the requests failed\n"
        );
    }

    fn folded(text: &str) -> String {
        text.split_whitespace().collect::<Vec<&str>>().join(" ")
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let mut record = Record::parse(include_str!("testdata/record.json")).expect("a record");
        let long =
            "one of two levels was measured while another program used the cores of this machine, so it may be slow";
        (record.status, record.reason) = (Status::Partial, Some(long.to_owned()));
        record.warnings.push(long.to_owned());
        record.notes.push(long.to_owned());
        for width in [40, 60, 80] {
            let mut text = String::new();
            target(&mut text, &record, false, width).expect("a string takes all");
            let text = anstream::adapter::strip_str(&text).to_string();
            assert_eq!(folded(&text).matches(long).count(), 3, "{text}");
            let widest = text.lines().map(|line| line.chars().count()).max();
            assert!(widest.is_some_and(|widest| widest <= width), "{widest:?} at {width}\n{text}");
        }
    }
}
