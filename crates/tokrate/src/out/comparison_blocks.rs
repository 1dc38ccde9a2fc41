//! A comparison for the terminal: a block for each level, as wide as the terminal allows.
//!
//! Invariant: no line but a single long word is wider than the width; what a narrow terminal leaves out of the rows stands in a note
//! or in `--json` and `--markdown`.

use super::comparison::{Sides, differences, row_notes, sentence, value_number, wide};
use super::paragraph::{note, wrapped};
use super::stdout;
use std::fmt::Write;
use tokrate_charts::{Column, Table};
use tokrate_judge::compare::{CompareReport, CompareRow, CompareVerdict};
use tokrate_record::Metric;
use tokrate_stats::{Interval, IntervalMethod};

/// Longest name of a side that may head a column.
const MAX_HEAD: usize = 12;
/// Columns that a narrow terminal goes without, in this order.
const SPARED: [&str; 2] = ["p", DETECTABLE];
const DETECTABLE: &str = "detectable";

/// Most columns that are used of a wide terminal.
pub const MAX_WIDTH: usize = 100;

/// The report for this terminal; with `--wide` the whole table.
pub fn shown(report: &CompareReport, sides: Sides<'_>, is_wide: bool) -> String {
    let width = stdout::width(MAX_WIDTH);
    if is_wide { wide(report, sides, width) } else { text(report, sides, width) }
}

/// The report for a terminal of this width.
fn text(report: &CompareReport, sides: Sides<'_>, width: usize) -> String {
    let (a, b) = sides.heads();
    // Letters take less room than names, and a list needs no columns at all.
    let is_short = |heads: &[&str; 2]| heads.iter().all(|head| head.chars().count() <= MAX_HEAD);
    let tables = [[a, b], ["A", "B"]].into_iter().filter(is_short);
    let tables = tables.into_iter().find_map(|heads| Some((heads, table_blocks(report, sides, heads, width)?)));
    let named = matches!(sides, Sides::Targets { .. });
    let (legend, body, is_detectable_in_rows) = match tables {
        Some((heads, (tables, spared))) => {
            let legend = (heads != [a, b]).then(|| format!("A is {a}, B is {b}."));
            (legend, tables, !spared.contains(&DETECTABLE))
        }
        None => (named.then(|| format!("{a} → {b}")), lists(report, sides, width), true),
    };
    let lines = |lines: Vec<String>| -> String { lines.iter().map(|line| note(line, width)).collect() };
    let above: Vec<String> = differences(report, sides).into_iter().chain(legend).collect();
    let below = lines(notes(report, sides, is_detectable_in_rows));
    format!("{}{body}{below}\n{}", lines(above), lines(vec![sentence(report, sides)]))
}

/// The rows of each level, in their order.
fn levels(report: &CompareReport) -> Vec<(&str, Vec<&CompareRow>)> {
    let mut levels: Vec<(&str, Vec<&CompareRow>)> = Vec::new();
    for row in &report.rows {
        match levels.iter_mut().find(|(level, _)| *level == row.level) {
            Some((_, rows)) => rows.push(row),
            None => levels.push((&row.level, vec![row])),
        }
    }
    levels
}

/// A level and the requests behind it on either side; from the fewest to the most where metrics differ.
fn title(level: &str, rows: &[&CompareRow]) -> String {
    let counted = || rows.iter().filter(|row| row.metric.is_time_of_requests() || row.metric == Metric::OutputSpeed);
    let range = |n: fn(&CompareRow) -> u64| {
        let (least, most) = (counted().map(|row| n(row)).min()?, counted().map(|row| n(row)).max()?);
        Some(if least == most { least.to_string() } else { format!("{least} to {most}") })
    };
    match (range(|row| row.n_a), range(|row| row.n_b)) {
        (Some(a), Some(b)) => format!("{level} (n = {a} / {b})"),
        _ => level.to_owned(),
    }
}

/// A table for each level, all with the same columns, and the columns that are left out; `None` where the width is too small for those
/// that are needed.
fn table_blocks(
    report: &CompareReport,
    sides: Sides<'_>,
    heads: [&str; 2],
    width: usize,
) -> Option<(String, &'static [&'static str])> {
    (0..=SPARED.len()).find_map(|spared| {
        let spared = &SPARED[..spared];
        let mut text = String::new();
        for (level, rows) in levels(report) {
            let table = table(&rows, sides, heads, spared).text();
            let _ = writeln!(text, "{}\n{table}", title(level, &rows));
        }
        text.lines().all(|line| line.chars().count() <= width).then_some((text, spared))
    })
}

fn table(rows: &[&CompareRow], sides: Sides<'_>, [a, b]: [&str; 2], spared: &[&str]) -> Table {
    type Cell = fn(&CompareRow) -> String;
    let numbers: [(&str, Cell); 6] = [
        (a, |row| value_number(row, row.a)),
        (b, |row| value_number(row, row.b)),
        ("change", change),
        (interval_head(rows), |row| row.interval.map_or_else(missing, |seen| interval(row, seen))),
        (DETECTABLE, |row| row.smallest_visible.map_or_else(missing, |share| size(row, share))),
        ("p", |row| row.p_adjusted.map_or_else(missing, probability)),
    ];
    let numbers = || numbers.iter().filter(|(label, _)| !spared.contains(label));
    let row = |row: &&CompareRow| {
        let cells = numbers().map(|(_, cell)| cell(row));
        std::iter::once(metric(row)).chain(cells).chain([verdict(row, sides).to_owned()]).collect()
    };
    Table {
        caption: String::new(),
        columns: std::iter::once(Column::words("metric"))
            .chain(numbers().map(|(label, _)| Column::numbers(*label, "")))
            .chain([Column::words("verdict")])
            .collect(),
        rows: rows.iter().map(row).collect(),
        notes: Vec::new(),
    }
}

/// How sure the intervals of rows are.
fn interval_head(rows: &[&CompareRow]) -> &'static str {
    let is_estimate = |row: &&CompareRow| row.interval.is_some_and(|seen| seen.method == IntervalMethod::Estimate);
    if rows.iter().any(is_estimate) { "80 % interval" } else { "95 % interval" }
}

/// The same without columns, for terminals that are narrower than a table.
fn lists(report: &CompareReport, sides: Sides<'_>, width: usize) -> String {
    let mut text = String::new();
    for (level, rows) in levels(report) {
        let _ = writeln!(text, "{}", title(level, &rows));
        for row in rows {
            let interval = row.interval.map_or_else(String::new, |seen| format!(" [{}]", interval(row, seen)));
            let detectable =
                row.smallest_visible.map_or_else(String::new, |share| format!(", detectable {}", size(row, share)));
            let (a, b) = (value_number(row, row.a), value_number(row, row.b));
            let seen = format!("{}: {a} → {b}, {}{interval}{detectable}", metric(row), change(row));
            let seen = format!("{seen}: {}", verdict(row, sides));
            for (place, line) in wrapped(&seen, width.saturating_sub(4)).into_iter().enumerate() {
                let _ = writeln!(text, "{}{line}", if place == 0 { "  " } else { "    " });
            }
        }
        text.push('\n');
    }
    text
}

/// What the rows do not say themselves: why some are undecided, with their levels, and how to read the columns.
fn notes(report: &CompareReport, sides: Sides<'_>, is_detectable_in_rows: bool) -> Vec<String> {
    let mut notes = row_notes(report);
    if report.rows.iter().any(|row| row.smallest_visible.is_some()) {
        let list = if is_detectable_in_rows { String::new() } else { format!(": {}", detectable(report)) };
        notes.push(format!("detectable, the smallest change that so many requests show with 80 % probability{list}."));
    }
    let below = |row: &CompareRow| row.verdict == CompareVerdict::Worse && !row.regression;
    if matches!(sides, Sides::BeforeAfter) && report.rows.iter().any(below) {
        let threshold = report.threshold * 100.0;
        notes.push(format!("worse: by less than the threshold ({threshold:.1} %); WORSE: by more."));
    }
    notes.extend(report.notes.iter().map(|note| format!("{note}.")));
    notes
}

/// The smallest change of each row that shows, level by level.
fn detectable(report: &CompareReport) -> String {
    let of_level = |(level, rows): (&str, Vec<&CompareRow>)| {
        let each = rows
            .into_iter()
            .filter_map(|row| Some(format!("{} {}", row.metric.label(), size(row, row.smallest_visible?))));
        let each: Vec<String> = each.collect();
        (!each.is_empty()).then(|| format!("{level}: {}", each.join(", ")))
    };
    levels(report).into_iter().filter_map(of_level).collect::<Vec<String>>().join("; ")
}

fn metric(row: &CompareRow) -> String {
    let unit = if row.metric == Metric::FailureShare { "%" } else { row.unit.as_str() };
    format!("{} ({unit})", row.metric.label())
}

fn verdict(row: &CompareRow, sides: Sides<'_>) -> &'static str {
    match row.verdict {
        CompareVerdict::Worse if matches!(sides, Sides::BeforeAfter) && row.regression => "WORSE",
        CompareVerdict::NoDifference => "no difference",
        verdict => verdict.words(),
    }
}

fn missing() -> String {
    "-".to_owned()
}

fn probability(p: f64) -> String {
    if p < 0.001 { "< 0.001".to_owned() } else { format!("{p:.3}") }
}

/// Percentage points of a share, per cent of anything else.
fn unit(row: &CompareRow) -> &'static str {
    if row.metric == Metric::FailureShare { "pp" } else { "%" }
}

fn signed(row: &CompareRow, change: f64) -> String {
    let percent = if row.metric == Metric::FailureShare { change * 100.0 } else { (change - 1.0) * 100.0 };
    if percent.abs() >= 100.0 {
        return format!("{percent:+.0}");
    }
    // Adding 0 takes the sign from a zero.
    format!("{:+.1}", (percent * 10.0).round() / 10.0 + 0.0)
}

fn change(row: &CompareRow) -> String {
    row.change.map_or_else(missing, |change| format!("{} {}", signed(row, change), unit(row)))
}

fn interval(row: &CompareRow, interval: Interval) -> String {
    format!("{}..{} {}", signed(row, interval.low), signed(row, interval.high), unit(row))
}

fn size(row: &CompareRow, share: f64) -> String {
    format!("{:.1} {}", share * 100.0, unit(row))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokrate_judge::compare::{CompareOptions, compare};
    use tokrate_record::{Record, RunSamples};

    fn shown(sides: Sides<'_>, width: usize) -> String {
        let a = Record::parse(include_str!("testdata/record.json")).expect("a record");
        let b = a.clone();
        let samples = |record: &Record| RunSamples::of_record(record);
        let report = compare(&samples(&a), &samples(&b), &CompareOptions::default()).expect("the conditions are alike");
        text(&report, sides, width)
    }

    #[test]
    fn a_comparison_in_a_terminal() {
        insta::assert_snapshot!("comparison_60", shown(Sides::BeforeAfter, 60));
        insta::assert_snapshot!("comparison_80", shown(Sides::BeforeAfter, 80));
        insta::assert_snapshot!("comparison_100", shown(Sides::BeforeAfter, 100));
    }

    #[test]
    fn long_names_stand_above_the_columns() {
        let names = ["openrouter/meta-llama/llama-3.3-70b-instruct", "vllm@127.0.0.1:8402/sim"];
        let text = shown(Sides::Targets { a: names[0], b: names[1] }, 80);
        let legend = text.split_whitespace().collect::<Vec<&str>>().join(" ");
        assert!(legend.contains(&format!("A is {}, B is {}.", names[0], names[1])), "{text}");
        for width in [60, 80, 100] {
            let text = shown(Sides::Targets { a: names[0], b: names[1] }, width);
            let widest = text.lines().map(|line| line.chars().count()).max();
            assert!(widest.is_some_and(|widest| widest <= width), "{widest:?} at {width}\n{text}");
        }
    }

    #[test]
    fn what_holds_at_every_level_is_said_once() {
        let text = shown(Sides::BeforeAfter, 100);
        assert_eq!(text.matches("p are corrected").count(), 1, "{text}");
        assert_eq!(text.matches("detectable, the smallest").count(), 1, "{text}");
    }
}
