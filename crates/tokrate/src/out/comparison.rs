//! A comparison as one table with a row for each level and metric: in Markdown, in the report, and in the terminal with `--wide`.
//!
//! Invariant: every row says what was seen, how sure it is, and what would have been seen.

use super::markdown_text::{self, plain};
use super::paragraph::note;
use std::collections::BTreeSet;
use std::fmt::Write;
use tokrate_charts::{Block, Column, Section, Table};
use tokrate_judge::ComparisonWithFirst;
use tokrate_judge::compare::{CompareOutcome, CompareReport, CompareRow, CompareVerdict};
use tokrate_judge::scorecard::NAMING;
use tokrate_record::Metric;

/// What the two sides of a report are called.
#[derive(Clone, Copy)]
pub enum Sides<'a> {
    /// One target, measured twice.
    BeforeAfter,
    /// Two targets.
    Targets { a: &'a str, b: &'a str },
}

impl<'a> Sides<'a> {
    /// Of a target that is compared with the first.
    pub fn of(against: &'a ComparisonWithFirst) -> Sides<'a> {
        Sides::Targets { a: &against.first, b: &against.target }
    }

    /// The names of both.
    pub fn heads(self) -> (&'a str, &'a str) {
        match self {
            Sides::BeforeAfter => ("before", "after"),
            Sides::Targets { a, b } => (a, b),
        }
    }
}

/// For a wide terminal: the whole table, and sentences in lines of `width`.
pub fn wide(report: &CompareReport, sides: Sides<'_>, width: usize) -> String {
    let mut table = table(report, sides);
    let notes = std::mem::take(&mut table.notes);
    let lines = |lines: &[String]| lines.iter().map(|line| note(line, width)).collect::<String>();
    let (above, below) = (lines(&differences(report, sides)), lines(&notes));
    format!("{above}{}{below}\n{}", table.text(), note(&sentence(report, sides), width))
}

/// For a pull request.
pub fn markdown(report: &CompareReport, sides: Sides<'_>) -> String {
    let table = table(report, sides);
    let mut text = format!("**{}**\n\n", plain(&sentence(report, sides)));
    for line in differences(report, sides) {
        let _ = writeln!(text, "> {}\n", plain(&line));
    }
    text += &markdown_text::table(&table);
    for note in &table.notes {
        let _ = write!(text, "\n{}\n", plain(note));
    }
    text
}

/// For the report.
pub fn section(report: &CompareReport, sides: Sides<'_>) -> Section {
    let (a, b) = sides.heads();
    let mut blocks: Vec<Block> = differences(report, sides).into_iter().map(Block::Paragraph).collect();
    let mut table = table(report, sides);
    // A level is one word to a browser, which would break it in every row of a table with so many columns.
    table.rows.iter_mut().filter_map(|row| row.first_mut()).for_each(|level| *level = level.replace(' ', "\u{a0}"));
    blocks.push(Block::Table(table));
    Section { title: format!("{b} compared with {a}"), intro: sentence(report, sides), blocks }
}

/// What it comes to, in one sentence.
pub fn sentence(report: &CompareReport, sides: Sides<'_>) -> String {
    if !report.computed.is_empty() {
        return estimate_sentence(report, sides);
    }
    match sides {
        Sides::BeforeAfter => regression_sentence(report),
        Sides::Targets { a, b } => targets_sentence(report, a, b),
    }
}

/// How a measurement lies to an estimate, or one estimate to another.
fn estimate_sentence(report: &CompareReport, sides: Sides<'_>) -> String {
    let (a, b) = sides.heads();
    if report.computed.len() > 1 {
        return format!("Both {a} and {b} are computed, not measured: nothing is tested.");
    }
    let (measured, is_first) = if report.computed == ["a"] { (b, true) } else { (a, false) };
    let count = |verdict| report.rows.iter().filter(|row| row.verdict == verdict).count();
    let (better, worse) = (count(CompareVerdict::Better), count(CompareVerdict::Worse));
    // Verdicts are of b.
    let (faster, slower) = if is_first { (better, worse) } else { (worse, better) };
    let within = count(CompareVerdict::WithinEstimate);
    let all = within + better + worse;
    format!(
        "Measured ({measured}) against computed: {within} of {all} figures within the estimate's interval, {faster} better, {slower} worse."
    )
}

/// How one target differs from another, metric by metric.
fn targets_sentence(report: &CompareReport, a: &str, b: &str) -> String {
    let levels = report.rows.iter().map(|row| &row.level).collect::<BTreeSet<_>>().len();
    let metrics_of = |verdict: CompareVerdict| {
        let words = Metric::ALL.into_iter().filter_map(|metric| {
            let found = report.rows.iter().filter(|row| row.metric == metric && row.verdict == verdict).count();
            (found > 0).then(|| format!("{} ({found} of {levels} levels)", metric.label()))
        });
        words.collect::<Vec<String>>().join(", ")
    };
    let found = [("better", CompareVerdict::Better), ("worse", CompareVerdict::Worse)]
        .map(|(word, verdict)| (word, metrics_of(verdict)))
        .into_iter()
        .filter(|(_, metrics)| !metrics.is_empty())
        .map(|(word, metrics)| format!("{word} in {metrics}"))
        .collect::<Vec<String>>();
    match (report.outcome, found.is_empty()) {
        (CompareOutcome::NothingCompared, _) => "Nothing could be tested: too few samples on one side.".to_owned(),
        (_, true) => format!("No row shows a difference between {b} and {a}."),
        (_, false) => format!("{b} against {a}: {}.", found.join("; ")),
    }
}

fn regression_sentence(report: &CompareReport) -> String {
    let worse: Vec<String> = report
        .rows
        .iter()
        .filter(|row| row.regression)
        .map(|row| format!("{} at {} ({})", row.metric.label(), row.level, change(row)))
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

/// Conditions and levels that only one side has, and rounds that are not compared.
pub fn differences(report: &CompareReport, sides: Sides<'_>) -> Vec<String> {
    let named = |name: &str| matches!(sides, Sides::Targets { .. }) && NAMING.contains(&name);
    let differing = report.unlike.iter().filter(|it| !named(&it.name));
    let differing = differing.map(|it| match sides {
        Sides::BeforeAfter => format!("different condition, ignored: {} was {:?}, is {:?}", it.name, it.a, it.b),
        Sides::Targets { a, b } => {
            format!("different condition: {} is {:?} for {a}, {:?} for {b}", it.name, it.a, it.b)
        }
    });
    let (a, b) = sides.heads();
    let alone = [(a, &report.only_in_a), (b, &report.only_in_b)];
    let alone = alone.into_iter().filter(|(_, levels)| !levels.is_empty());
    let alone = alone.map(|(side, levels)| format!("only measured {side}: {}", levels.join(", ")));
    let (a, b) = match sides {
        Sides::BeforeAfter => ("the run before", "the run after"),
        Sides::Targets { a, b } => (a, b),
    };
    differing.chain(alone).chain(report.cut_rounds.sentences(a, b)).collect()
}

fn table(report: &CompareReport, sides: Sides<'_>) -> Table {
    let rows = report.rows.iter().map(|row| {
        vec![
            row.level.clone(),
            row.metric.label().to_owned(),
            value(row, row.a),
            value(row, row.b),
            format!("{} / {}", row.n_a, row.n_b),
            change(row),
            row.interval.map_or_else(
                || "-".to_owned(),
                // The unit once: the column is the widest.
                |interval| format!("{} to {}", number_of(row, interval.low), points(row, interval.high)),
            ),
            row.smallest_visible.map_or_else(|| "-".to_owned(), |change| detectable(row, change)),
            row.p_adjusted
                .map_or_else(|| "-".to_owned(), |p| if p < 0.001 { "< 0.001".to_owned() } else { format!("{p:.3}") }),
            verdict(row, sides).to_owned(),
        ]
    });
    let (a, b) = sides.heads();
    let interval = if report.computed.is_empty() { "95 % interval" } else { "80 % interval" };
    let numbers = [a, b, "n", "change", interval, "detectable", "p"];
    Table {
        caption: String::new(),
        columns: ["level", "metric"]
            .map(Column::words)
            .into_iter()
            .chain(numbers.map(|label| Column::numbers(label, "")))
            .chain([Column::words("verdict")])
            .collect(),
        rows: rows.collect(),
        notes: row_notes(report).into_iter().chain(report.notes.iter().map(|note| format!("{note}."))).collect(),
    }
}

/// What the rows do not say themselves, each sentence once with its levels. Of a row that was tested and shows nothing, the column
/// "detectable" says as much as its note.
pub fn row_notes(report: &CompareReport) -> Vec<String> {
    let mut groups: Vec<(Metric, &str, Vec<&str>)> = Vec::new();
    for row in &report.rows {
        let is_in_row = row.smallest_visible.is_some() && row.p_adjusted.is_some_and(|p| p >= report.alpha);
        let Some(note) = row.note.as_deref().filter(|_| !is_in_row) else { continue };
        match groups.iter_mut().find(|(metric, known, _)| *metric == row.metric && *known == note) {
            Some((.., levels)) => levels.push(&row.level),
            None => groups.push((row.metric, note, vec![&row.level])),
        }
    }
    let all = report.rows.iter().map(|row| &row.level).collect::<BTreeSet<_>>().len();
    let sentence = |(metric, note, levels): (Metric, &str, Vec<&str>)| {
        let at = if levels.len() == all { "every level".to_owned() } else { levels.join(", ") };
        format!("{} at {at}: {note}.", metric.label())
    };
    groups.into_iter().map(sentence).collect()
}

fn verdict(row: &CompareRow, sides: Sides<'_>) -> &'static str {
    let twice = matches!(sides, Sides::BeforeAfter);
    match row.verdict {
        CompareVerdict::Worse if twice && row.regression => "WORSE",
        CompareVerdict::Worse if twice => "worse, below the threshold",
        verdict => verdict.words(),
    }
}

/// The smallest change that would have been seen.
fn detectable(row: &CompareRow, change: f64) -> String {
    let unit = if row.metric == Metric::FailureShare { "points" } else { "%" };
    format!("{:.1} {unit}", change * 100.0)
}

fn value(row: &CompareRow, value: Option<f64>) -> String {
    let unit = if row.metric == Metric::FailureShare { "%" } else { row.unit.as_str() };
    if value.is_none() { "-".to_owned() } else { format!("{} {unit}", value_number(row, value)) }
}

/// A value without its unit; that of a share is per cent.
pub fn value_number(row: &CompareRow, value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(share) if row.metric == Metric::FailureShare => format!("{:.2}", share * 100.0),
        Some(value) => tokrate_charts::format::number(value),
    }
}

fn change(row: &CompareRow) -> String {
    row.change.map_or_else(|| "-".to_owned(), |change| points(row, change))
}

/// A ratio as a relative change; a difference of shares in percentage points.
fn points(row: &CompareRow, change: f64) -> String {
    let unit = if row.metric == Metric::FailureShare { "points" } else { "%" };
    format!("{} {unit}", number_of(row, change))
}

/// The same without its unit.
fn number_of(row: &CompareRow, change: f64) -> String {
    if row.metric == Metric::FailureShare {
        format!("{:+.2}", change * 100.0)
    } else {
        format!("{:+.1}", (change - 1.0) * 100.0)
    }
}
