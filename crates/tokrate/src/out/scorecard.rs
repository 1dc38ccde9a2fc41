//! A scorecard as a table: a row for each criterion, a column for each target.
//!
//! It does not add criteria up to one score. Invariant: a rank that chance could change is shown as a range.

use super::markdown_text::{self, plain};
use super::paragraph::note;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::ops::Range;
use tokrate_bench::report::ranking;
use tokrate_charts::format::number;
use tokrate_charts::{Block, Column, Section, Table};
use tokrate_judge::scorecard::{RankedMedian, ScoreRow, Scorecard, Share, SpeedUnderLoad, Tail};
use tokrate_record::curve::Measured;

/// Longest name of a target that may head a column of the terminal's table.
const MAX_HEAD: usize = 24;

/// For a terminal of this width: as many targets beside each other as it has room for, then the next.
pub fn text(card: &Scorecard, width: usize) -> String {
    let whole = table(card);
    let mut text = format!("{}\n", whole.caption);
    let (heads, legend) = heads(card);
    text.extend(legend.iter().map(|line| note(line, width)));
    let table = |targets: Range<usize>| Table {
        caption: String::new(),
        columns: std::iter::once(Column::words(""))
            .chain(heads[targets.clone()].iter().map(|head| Column::numbers(head.clone(), "")))
            .collect(),
        rows: whole.rows.iter().map(|row| [&row[..1], &row[1 + targets.start..1 + targets.end]].concat()).collect(),
        notes: Vec::new(),
    };
    let fits = |text: &str| text.lines().all(|line| line.chars().count() <= width);
    let mut first = 0;
    while first < heads.len() {
        let several = (first + 1..=heads.len()).rev().map(|end| (end, table(first..end).text()));
        let (end, block) = several
            .into_iter()
            .find(|(end, block)| *end == first + 1 || fits(block))
            .expect("one target is always shown");
        text += &if first == 0 { block } else { format!("\n{block}") };
        first = end;
    }
    text.extend(whole.notes.iter().map(|text| note(text, width)));
    text
}

/// The heads of the columns, and lines that say whom they stand for where a name is too long for one.
fn heads(card: &Scorecard) -> (Vec<String>, Vec<String>) {
    let names: Vec<String> = card.rows.iter().map(|row| row.target.clone()).collect();
    if names.iter().all(|name| name.chars().count() <= MAX_HEAD) {
        return (names, Vec::new());
    }
    let legend = names.iter().enumerate().map(|(place, name)| format!("[{}] {name}", place + 1));
    ((1..=names.len()).map(|number| format!("[{number}]")).collect(), legend.collect())
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
    ("rank by output speed", |row| rank(&row.output_speed)),
    ("TTFT p50 (ms)", |row| median(&row.ttft)),
    ("rank by TTFT", |row| rank(&row.ttft)),
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
    ("tokens of an answer", |row| row.answer_tokens.map_or_else(missing, number)),
    ("cost of a completed answer (USD)", |row| row.usd_per_answer.map_or_else(missing, money)),
    ("integrity checks", |row| {
        let findings: Vec<String> = row.suspicions.iter().map(|kind| kind.name().replace('_', " ")).collect();
        if findings.is_empty() { "no finding".to_owned() } else { findings.join(", ") }
    }),
];

fn table(card: &Scorecard) -> Table {
    let row = |label: String, cell: &dyn Fn(&ScoreRow) -> String| -> Vec<String> {
        std::iter::once(label).chain(card.rows.iter().map(cell)).collect()
    };
    let plain = |&(label, cell): &(&str, Cell)| row(label.to_owned(), &cell);
    let under_load = steps(card).into_iter().flat_map(|(of, concurrency)| {
        let load = if of == 1 { " in flight".to_owned() } else { format!(", against {of}") };
        [
            row(format!("output speed kept at {concurrency}{load}"), &|row| kept(row, concurrency)),
            row("  change each time it doubles".to_owned(), &|row| per_doubling(row, concurrency)),
        ]
    });
    let rows = SPEEDS.iter().map(plain).chain(under_load).chain(OTHERS.iter().map(plain));
    let level = card.level.as_deref().map_or_else(String::new, |level| format!(" at {level}"));
    let names = card.rows.iter().map(|row| Column::numbers(row.target.clone(), ""));
    Table {
        caption: format!("Scorecard: speeds, times and ranks{level}"),
        columns: std::iter::once(Column::words("")).chain(names).collect(),
        rows: rows.collect(),
        notes: notes(card),
    }
}

/// The loads at which a speed was kept: the reference load, and requests in flight.
fn steps(card: &Scorecard) -> BTreeSet<(u32, u32)> {
    let kept = card.rows.iter().flat_map(|row| &row.degradation);
    kept.map(|kept| (kept.of, kept.concurrency)).collect()
}

fn notes(card: &Scorecard) -> Vec<String> {
    let mut notes = vec![format!(
        "[a..b] is the 95 % interval; ~ describes too few samples. Targets of one rank a-b do not differ by more than chance \
         explains, by the comparison's test: {} test{}, which together find a difference that is none in at most {:.0} % of runs (Holm).",
        card.family,
        if card.family == 1 { "" } else { "s" },
        card.alpha * 100.0
    )];
    if card.level.is_none() {
        notes.push("The targets have no load level in common, so they have no ranks.".to_owned());
    }
    notes.extend(detectable(card));
    let has_speed = |row: &&ScoreRow| row.output_speed.median.is_some();
    let without: Vec<&str> = card.rows.iter().filter(|row| !has_speed(row)).map(|row| row.target.as_str()).collect();
    if card.level.is_some() && !without.is_empty() {
        notes.push(format!("{} has no output speed there; its own table says why.", without.join(", ")));
    }
    if card.rows.iter().filter(has_speed).any(|row| row.degradation.is_empty()) {
        let note = "Speed kept under load takes two concurrencies that all targets were measured at, such as --concurrency 1,10,50.";
        notes.push(note.to_owned());
    }
    if let Some(lengths) = &card.unlike_lengths {
        notes.push(format!("{}: neither times of whole answers nor their costs compare.", capitalised(lengths)));
    }
    for differing in &card.unlike {
        notes.push(format!("Different condition: {} ({}).", differing.name, differing.values.join("; ")));
    }
    if card.rows.iter().any(|row| row.usd_per_answer.is_some()) {
        notes.push("A completed answer also pays for the warm-up and for those that failed.".to_owned());
    }
    notes
}

/// What difference would have been seen, and whether it is the number of rounds that hides smaller ones; `None` where all are told apart.
fn detectable(card: &Scorecard) -> Option<String> {
    let rounds = card.rounds?;
    let seen = card.detectable.iter().map(|seen| {
        let least = if rounds == 1 { Scorecard::MIN_DIFFERENCE_OF_SINGLE_ROUNDS } else { 0.0 };
        format!("{:.1} % in {}", 100.0 * seen.change.max(least), seen.metric.label())
    });
    let seen = seen.collect::<Vec<String>>().join(" and ");
    let enough = Scorecard::ENOUGH_ROUNDS;
    (!seen.is_empty()).then(|| match rounds {
        1 => format!(
            "One round each: too few to see less than {seen}, as nobody knows by how much rounds differ; --rounds {enough} shows smaller differences."
        ),
        few if few < enough => format!(
            "Too few rounds ({few} each) to see less than {seen}; --rounds {enough} shows smaller differences."
        ),
        rounds => format!("Where targets share a rank, {rounds} rounds each would have shown differences from {seen} on."),
    })
}

/// With a capital.
fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect()
}

fn missing() -> String {
    "-".to_owned()
}

fn median(ranked: &RankedMedian) -> String {
    let Some(median) = ranked.median else { return missing() };
    match ends(&median) {
        Some((low, high)) => format!("{} [{}..{}]", number(median.value), number(low), number(high)),
        None => format!("~{}", number(median.value)),
    }
}

fn rank(ranked: &RankedMedian) -> String {
    match (ranked.first, ranked.last) {
        (Some(first), Some(last)) if first == last => first.to_string(),
        (Some(first), Some(last)) => format!("{first}-{last}"),
        _ => missing(),
    }
}

fn degradation(row: &ScoreRow, concurrency: u32) -> Option<&SpeedUnderLoad> {
    row.degradation.iter().find(|seen| seen.concurrency == concurrency)
}

fn kept(row: &ScoreRow, concurrency: u32) -> String {
    let Some(seen) = degradation(row, concurrency) else { return missing() };
    let percent = |share: f64| format!("{:.0}", share * 100.0);
    match ends(&seen.kept) {
        Some((low, high)) => format!("{} % [{}..{}]", percent(seen.kept.value), percent(low), percent(high)),
        None => format!("~{} %", percent(seen.kept.value)),
    }
}

fn per_doubling(row: &ScoreRow, concurrency: u32) -> String {
    degradation(row, concurrency).map_or_else(missing, |seen| format!("{:+.1} %", seen.per_doubling * 100.0))
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

#[cfg(test)]
mod tests {
    use super::*;
    use tokrate_judge::scorecard::Detectable;
    use tokrate_record::{Metric, Record};

    fn card(names: &[&str]) -> Scorecard {
        let record = Record::parse(include_str!("testdata/record.json")).expect("a record");
        let named: Vec<(&str, &Record)> = names.iter().map(|name| (*name, &record)).collect();
        Scorecard::of(&named)
    }

    #[test]
    fn too_few_rounds_are_said_with_the_difference_that_they_hide() {
        let seen = |rounds| {
            let change = |metric, change| Detectable { metric, change };
            let detectable = vec![change(Metric::OutputSpeed, 0.123), change(Metric::Ttft, 0.031)];
            super::detectable(&Scorecard { rounds: Some(rounds), detectable, ..card(&["a", "b"]) })
                .expect("ranks are shared")
        };
        insta::assert_snapshot!("scorecard_rounds", [1, 2, 4].map(seen).join("\n"));
        assert_eq!(
            super::detectable(&Scorecard { rounds: Some(2), detectable: Vec::new(), ..card(&["a", "b"]) }),
            None
        );
    }

    #[test]
    fn a_scorecard_shows_as_many_targets_beside_each_other_as_there_is_room_for() {
        let three = card(&["vllm/sim", "sglang/sim", "openrouter/meta-llama/llama-3.3-70b-instruct"]);
        insta::assert_snapshot!("scorecard_60", text(&three, 60));
        insta::assert_snapshot!("scorecard_100", text(&three, 100));
        insta::assert_snapshot!("scorecard_80", text(&card(&["vllm/sim", "sglang/sim"]), 80));
        for width in [60, 80, 100] {
            let widest = text(&three, width).lines().map(|line| line.chars().count()).max();
            assert!(widest.is_some_and(|widest| widest <= width), "{widest:?} at {width}");
        }
    }
}
