//! A scorecard as a table: a row for each criterion, a column for each target.
//!
//! It does not add criteria up to one score. Invariant: a place that chance could change is shown as a range.

use super::markdown_text::{self, plain};
use std::collections::BTreeSet;
use std::fmt::Write;
use tokrate_bench::report::ranking;
use tokrate_charts::format::number;
use tokrate_charts::{Block, Column, Section, Table};
use tokrate_judge::scorecard::{RankedMedian, ScoreRow, Scorecard, Share, Tail};
use tokrate_record::curve::Measured;

/// For the terminal.
pub fn text(card: &Scorecard) -> String {
    table(card).text()
}

/// For a pull request.
pub fn markdown(card: &Scorecard) -> String {
    let table = table(card);
    let mut text = format!("### {}\n\n", plain(&table.caption));
    text += &markdown_text::table(&table);
    for note in &table.notes {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n{}\n", plain(note));
    }
    text + "\n"
}

/// For the report.
pub fn section(card: &Scorecard) -> Section {
    let table = table(card);
    Section {
        title: "Scorecard".to_owned(),
        intro: "No single score: what matters depends on what the answers are for.".to_owned(),
        blocks: ranking(card).into_iter().chain([Block::Table(table)]).collect(),
    }
}

type Cell = fn(&ScoreRow) -> String;

const SPEEDS: &[(&str, Cell)] = &[
    ("output speed p50 (tok/s)", |row| median(&row.output_speed)),
    ("place by output speed", |row| place(&row.output_speed)),
    ("TTFT p50 (ms)", |row| median(&row.ttft)),
    ("place by TTFT", |row| place(&row.ttft)),
];

const OTHERS: &[(&str, Cell)] = &[
    ("TTFT p99 / p50", |row| tail(&row.ttft_tail)),
    ("chunk gap p99 / p50", |row| tail(&row.gap_tail)),
    ("rate-limited requests", |row| share(&row.rate_limited)),
    ("failed requests", |row| share(&row.failed)),
    ("price of 1M tokens, in / out (USD)", |row| {
        let price = row.price.as_ref().map(|of| of.price);
        price.map_or_else(missing, |price| format!("{} / {}", price.input.as_usd(), price.output.as_usd()))
    }),
    ("cost of a completed answer (USD)", |row| row.usd_per_answer.map_or_else(missing, money)),
    ("signs of fooling", |row| {
        let signs: Vec<String> = row.suspicions.iter().map(|kind| kind.name().replace('_', " ")).collect();
        if signs.is_empty() { "none seen".to_owned() } else { signs.join(", ") }
    }),
];

fn table(card: &Scorecard) -> Table {
    let row = |label: String, cell: &dyn Fn(&ScoreRow) -> String| -> Vec<String> {
        std::iter::once(label).chain(card.rows.iter().map(cell)).collect()
    };
    let plain = |&(label, cell): &(&str, Cell)| row(label.to_owned(), &cell);
    let under_load = steps(card).into_iter().map(|(of, concurrency)| {
        let than = if of == 1 { String::new() } else { format!(", of that at {of}") };
        row(format!("output speed kept at {concurrency} in flight{than}"), &|row| kept(row, concurrency))
    });
    let rows = SPEEDS.iter().map(plain).chain(under_load).chain(OTHERS.iter().map(plain));
    let level = card.level.as_deref().map_or_else(String::new, |level| format!(" at {level}"));
    let names = card.rows.iter().map(|row| Column::numbers(row.target.clone(), ""));
    Table {
        caption: format!("Scorecard: speeds, times and places{level}"),
        columns: std::iter::once(Column::words("")).chain(names).collect(),
        rows: rows.collect(),
        notes: notes(card),
    }
}

/// The loads at which a speed was kept: what it is held against, and requests in flight.
fn steps(card: &Scorecard) -> BTreeSet<(u32, u32)> {
    let kept = card.rows.iter().flat_map(|row| &row.degradation);
    kept.map(|kept| (kept.of, kept.concurrency)).collect()
}

fn notes(card: &Scorecard) -> Vec<String> {
    let mut notes = vec![format!(
        "[a..b] is the 95 % interval; ~ describes too few samples. A place a-b cannot be told apart from its neighbours: \
         permutation test of ranks, {} tests, a chance of {:.0} % that any difference among them is none (Holm).",
        card.family,
        card.alpha * 100.0
    )];
    if card.level.is_none() {
        notes.push("The targets have no load level in common, so they have no places.".to_owned());
    }
    if card.rows.iter().any(|row| row.degradation.is_empty()) {
        let note = "Speed kept under load takes two concurrencies that all targets were measured at, such as --concurrency 1,10,50.";
        notes.push(note.to_owned());
    }
    for unlike in &card.unlike {
        notes.push(format!("Unlike condition: {} ({}).", unlike.name, unlike.values.join("; ")));
    }
    if card.rows.iter().any(|row| row.usd_per_answer.is_some()) {
        notes.push("A completed answer also pays for the warm-up and for those that failed.".to_owned());
    }
    notes
}

fn missing() -> String {
    "-".to_owned()
}

fn median(standing: &RankedMedian) -> String {
    let Some(median) = standing.median else { return missing() };
    match ends(&median) {
        Some((low, high)) => format!("{} [{}..{}]", number(median.value), number(low), number(high)),
        None => format!("~{}", number(median.value)),
    }
}

fn place(standing: &RankedMedian) -> String {
    match (standing.first, standing.last) {
        (Some(first), Some(last)) if first == last => first.to_string(),
        (Some(first), Some(last)) => format!("{first}-{last}"),
        _ => missing(),
    }
}

fn kept(row: &ScoreRow, concurrency: u32) -> String {
    let Some(seen) = row.degradation.iter().find(|seen| seen.concurrency == concurrency) else { return missing() };
    let percent = |share: f64| format!("{:.0}", share * 100.0);
    let per_doubling = format!("{:+.1} % a doubling", seen.per_doubling * 100.0);
    match ends(&seen.kept) {
        Some((low, high)) => {
            format!("{} % [{}..{}], {per_doubling}", percent(seen.kept.value), percent(low), percent(high))
        }
        None => format!("~{} %, {per_doubling}", percent(seen.kept.value)),
    }
}

fn tail(tail: &Tail) -> String {
    let Some(ratio) = tail.ratio else { return missing() };
    format!("{}{ratio:.2}", if tail.stated { "" } else { "~" })
}

fn share(share: &Share) -> String {
    let (Some(value), Some(interval)) = (share.share, share.interval) else { return missing() };
    let percent = |share: f64| format!("{:.1}", share * 100.0);
    format!("{} % [{}..{}]", percent(value), percent(interval.low), percent(interval.high))
}

/// Three significant digits, without an exponent.
fn money(usd: f64) -> String {
    let decimals = if usd > 0.0 { (2 - usd.log10().floor() as i32).clamp(2, 15) as usize } else { 2 };
    format!("{usd:.decimals$}")
}

fn ends(measured: &Measured) -> Option<(f64, f64)> {
    measured.low.zip(measured.high)
}
