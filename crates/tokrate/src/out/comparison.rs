//! A comparison as a table, in the terminal and in Markdown.
//!
//! It refuses to judge. Invariant: every row says what was seen, how sure it is, and what would have been seen.

use super::markdown::plain;
use std::fmt::Write;
use tokrate_charts::{Column, Table};
use tokrate_meter::compare::{CompareOutcome, CompareReport, CompareRow, CompareVerdict, Metric};

/// For the terminal.
pub fn text(report: &CompareReport) -> String {
    let mut text = String::new();
    for line in differences(report) {
        let _ = writeln!(text, "{line}");
    }
    let _ = write!(text, "{}\n{}\n", table(report).text(), sentence(report));
    text
}

/// For a pull request.
pub fn markdown(report: &CompareReport) -> String {
    let table = table(report);
    let mut text = format!("**{}**\n\n", plain(&sentence(report)));
    for line in differences(report) {
        let _ = writeln!(text, "> {}\n", plain(&line));
    }
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    text += &line(table.columns.iter().map(|column| plain(&column.label)).collect());
    text += &format!("|---|---|{}---|---|\n", "---:|".repeat(table.columns.len() - 4));
    for row in &table.rows {
        text += &line(row.iter().map(|cell| plain(cell)).collect());
    }
    for note in &table.notes {
        let _ = write!(text, "\n{}\n", plain(note));
    }
    text
}

/// What it comes to, in one sentence.
pub fn sentence(report: &CompareReport) -> String {
    let worse: Vec<String> = report
        .rows
        .iter()
        .filter(|row| row.regression)
        .map(|row| format!("{} at {} ({})", row.metric.name(), row.level, change(row)))
        .collect();
    let undecided = report.rows.iter().filter(|row| row.verdict == CompareVerdict::Undecided).count();
    let left = if undecided > 0 {
        format!("; {undecided} of {} rows are undecided", report.rows.len())
    } else {
        String::new()
    };
    match report.outcome {
        CompareOutcome::Regression => format!("Regression: {}.", worse.join(", ")),
        CompareOutcome::NoRegression => {
            format!("No regression beyond {:.1} % was seen{left}.", report.threshold * 100.0)
        }
        CompareOutcome::NothingCompared => "Nothing could be tested: too few samples on one side.".to_owned(),
    }
}

fn differences(report: &CompareReport) -> Vec<String> {
    let unlike =
        report.unlike.iter().map(|it| format!("unlike condition, ignored: {} was {:?}, is {:?}", it.name, it.a, it.b));
    let alone = [("before", &report.only_in_a), ("after", &report.only_in_b)];
    let alone = alone.into_iter().filter(|(_, levels)| !levels.is_empty());
    unlike.chain(alone.map(|(side, levels)| format!("only measured {side}: {}", levels.join(", ")))).collect()
}

fn table(report: &CompareReport) -> Table {
    let rows = report.rows.iter().map(|row| {
        vec![
            row.level.clone(),
            row.metric.name().to_owned(),
            value(row, row.a),
            value(row, row.b),
            format!("{} / {}", row.n_a, row.n_b),
            change(row),
            row.interval.map_or_else(
                || "-".to_owned(),
                |interval| format!("{} to {}", points(row, interval.low), points(row, interval.high)),
            ),
            row.p_adjusted
                .map_or_else(|| "-".to_owned(), |p| if p < 0.001 { "< 0.001".to_owned() } else { format!("{p:.3}") }),
            verdict(row),
            row.note.clone().unwrap_or_default(),
        ]
    });
    let numbers = ["before", "after", "n", "change", "95 % interval", "p"];
    Table {
        caption: String::new(),
        columns: ["level", "metric"]
            .map(Column::words)
            .into_iter()
            .chain(numbers.map(|label| Column::numbers(label, "")))
            .chain(["verdict", ""].map(Column::words))
            .collect(),
        rows: rows.collect(),
        notes: report.notes.clone(),
    }
}

fn verdict(row: &CompareRow) -> String {
    match (row.verdict, row.smallest_visible) {
        (CompareVerdict::Worse, _) if row.regression => "WORSE".to_owned(),
        (CompareVerdict::Worse, _) => "worse, below the threshold".to_owned(),
        (CompareVerdict::NoDifference, Some(visible)) => {
            let unit = if row.metric == Metric::FailureShare { "points" } else { "%" };
            format!("no difference seen ({:.1} {unit} would be)", visible * 100.0)
        }
        (verdict, _) => verdict.words().to_owned(),
    }
}

fn value(row: &CompareRow, value: Option<f64>) -> String {
    let Some(value) = value else { return "-".to_owned() };
    if row.metric == Metric::FailureShare {
        return format!("{:.2} %", value * 100.0);
    }
    format!("{} {}", tokrate_charts::format::number(value), row.unit)
}

fn change(row: &CompareRow) -> String {
    row.change.map_or_else(|| "-".to_owned(), |change| points(row, change))
}

/// A ratio as a relative change; a difference of shares in percentage points.
fn points(row: &CompareRow, change: f64) -> String {
    if row.metric == Metric::FailureShare {
        format!("{:+.2} points", change * 100.0)
    } else {
        format!("{:+.1} %", (change - 1.0) * 100.0)
    }
}
