//! Groups of attempts as a table.
//!
//! It does not count. Invariant: a percentile of too few samples is marked `~`; what differs within a line stands
//! below.

use super::{date, dollars};
use crate::flags::source::Source;
use std::collections::BTreeSet;
use tokrate_charts::format::number;
use tokrate_charts::{Column, Table};
use tokrate_core::FailureKind;
use tokrate_stats::Quantile;
use tokrate_store::{Grouping, Mixture, Summary};

/// The groups, and what must be known to read them.
pub fn groups(groups: &[Summary], by: Grouping, source: Source) -> String {
    let heads = [
        "n",
        "answered",
        "failed",
        "lost",
        "left",
        "open",
        "TTFT p50",
        "p90",
        "p99",
        "speed p50",
        "p10",
        "in",
        "out",
        "USD",
        "lost USD",
    ];
    let has_whole = groups.iter().any(|group| group.answer.n > 0);
    let has_cache = groups.iter().any(|group| group.cache.attempts > 0);
    let whole = ["answer p50", "p90"].into_iter().filter(|_| has_whole);
    let cache = ["cached %", "expected %"].into_iter().filter(|_| has_cache);
    let heads = heads[..TIMES].iter().copied().chain(whole).chain(heads[TIMES..].iter().copied()).chain(cache);
    let (lane, alias) = if source == Source::Gateway { ("lane", "alias") } else { ("endpoint", "workload") };
    let names = [(by.hour, "hour (UTC)"), (by.lane, lane), (by.alias, alias)];
    let names = names.into_iter().filter(|(is, _)| *is).map(|(_, name)| name);
    let columns = names.map(Column::words).chain(heads.map(|label| Column::numbers(label, "")));
    let table = Table {
        caption: String::new(),
        columns: columns.collect(),
        rows: groups.iter().map(|group| row(group, has_whole, has_cache)).collect(),
        notes: notes(groups, by, source),
    };
    table.text()
}

/// Columns before those of answers in one piece.
const TIMES: usize = 9;

fn row(group: &Summary, has_whole: bool, has_cache: bool) -> Vec<String> {
    let count = |n: u64| if n == 0 { "-".to_owned() } else { n.to_string() };
    let mut cells = Vec::new();
    cells.extend(group.hour_unix_ms.map(|hour| date(hour)[..16].to_owned()));
    cells.extend([&group.lane, &group.alias].into_iter().filter_map(Clone::clone));
    cells.extend([group.attempts, group.answered, group.failures(), group.lost, group.abandoned].map(count));
    cells.extend(group.mixture.in_flight.map(|(least, most)| match least == most {
        true => least.to_string(),
        false => format!("{least}-{most}"),
    }));
    cells.extend([&group.ttft.p50, &group.ttft.p90, &group.ttft.p99].map(|quantile| marked(quantile, |ms| ms)));
    let whole = [&group.answer.p50, &group.answer.p90].into_iter().filter(|_| has_whole);
    cells.extend(whole.map(|quantile| marked(quantile, |ms| ms)));
    // The slow tenth of the speeds is the long tenth of the times per token.
    cells.extend([&group.tpot.p50, &group.tpot.p90].map(|quantile| marked(quantile, |ms| 1e3 / ms)));
    cells.extend([group.input_tokens, group.output_tokens_std].map(count));
    cells.extend([dollars(group.cost_usd), dollars(group.lost_cost_usd)]);
    let percent = |share: Option<f64>| share.map_or_else(|| "-".to_owned(), |share| format!("{:.1}", share * 100.0));
    let cache = [group.cache.cached_share(), group.cache.expected_share()].into_iter().filter(|_| has_cache);
    cells.extend(cache.map(percent));
    cells
}

/// A percentile, marked if the sample only describes itself.
fn marked(quantile: &Quantile, of: impl Fn(f64) -> f64) -> String {
    match (quantile.value, quantile.descriptive) {
        (Some(value), _) => number(of(value)),
        (None, Some(value)) => format!("~{}", number(of(value))),
        (None, None) => "-".to_owned(),
    }
}

/// What must be known to read the table; what holds for several groups is noted once.
fn notes(groups: &[Summary], by: Grouping, source: Source) -> Vec<String> {
    let mut notes_of: Vec<(String, Vec<String>)> = Vec::new();
    for group in groups {
        for text in
            [failures(group), mixed(&group.mixture, by), renamed(&group.mixture), left_out(group)].into_iter().flatten()
        {
            match notes_of.iter_mut().find(|(known, _)| *known == text) {
                Some((_, names)) => names.push(name(group)),
                None => notes_of.push((text, vec![name(group)])),
            }
        }
    }
    let several = |(text, names): (String, Vec<String>)| match names.as_slice() {
        [name] if name.is_empty() => text,
        [_] | [_, _] => format!("{}: {text}", names.join(" and ")),
        [first, ..] => format!("{first} and {} more rows: {text}", names.len() - 1),
        [] => text,
    };
    let few = |quantile: &Quantile| quantile.value.is_none() && quantile.descriptive.is_some();
    let times = |group: &Summary| {
        let shown =
            [&group.ttft.p50, &group.ttft.p99, &group.answer.p50, &group.answer.p90, &group.tpot.p50, &group.tpot.p90];
        shown.into_iter().any(few)
    };
    let mut notes: Vec<String> = notes_of.into_iter().map(several).collect();
    if groups.iter().any(times) {
        notes.push("~ marks a percentile of too few attempts to say more than what they were".to_owned());
    }
    if source == Source::Gateway {
        notes.push(LEGEND_OF_CALLS.to_owned());
    }
    notes.push(LEGEND.to_owned());
    if groups.iter().any(|group| group.answer.n > 0) {
        notes.push(
            "answer: sent to the last byte (ms), of answers that came in one piece; they have no TTFT and no speed"
                .to_owned(),
        );
    }
    if groups.iter().any(|group| group.cache.attempts > 0) {
        notes.push(LEGEND_OF_CACHES.to_owned());
    }
    notes.insert(0, String::new());
    notes
}

/// Columns that only attempts of a gateway's calls have.
const LEGEND_OF_CALLS: &str =
    "lost: another attempt of the call won; left: the client went away; open: calls that the lane had open";
const LEGEND: &str = "TTFT in ms; speed: output speed in tok/s (o200k) after the first chunk; in, out: tokens; lost USD: paid for the lost";

const LEGEND_OF_CACHES: &str = "cached %: share of prompt tokens that the provider read from its cache; expected %: what the objective cache counted on";

/// What a row is called.
fn name(group: &Summary) -> String {
    let parts = [group.hour_unix_ms.map(|hour| date(hour)[..16].to_owned()), group.lane.clone(), group.alias.clone()];
    parts.into_iter().flatten().collect::<Vec<String>>().join(" ")
}

fn failures(group: &Summary) -> Option<String> {
    let kinds = group.failed.iter().map(|(kind, n)| format!("{} {n}", kind.map_or("unknown", FailureKind::name)));
    let kinds: Vec<String> = kinds.collect();
    (!kinds.is_empty()).then(|| format!("failed: {}", kinds.join(", ")))
}

/// What the numbers cannot show.
fn left_out(group: &Summary) -> Option<String> {
    let mut parts = Vec::new();
    if group.given_up_early > 0 {
        parts.push(format!("given up before their first text, so in no percentile: {}", group.given_up_early));
    }
    if group.cost_unknown > 0 {
        parts.push(format!("of unknown cost: {}", group.cost_unknown));
    }
    if group.cost_estimated > 0 {
        parts.push(format!("of estimated cost: {}", group.cost_estimated));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn mixed(mixture: &Mixture, by: Grouping) -> Option<String> {
    let mut parts = Vec::new();
    if !by.lane {
        parts.extend(several("lanes", &mixture.lanes));
    }
    parts.extend(several("models", &mixture.models));
    let dialects = mixture.dialects.iter().map(|(client, lane)| match client == lane {
        true => client.clone(),
        false => format!("{client} to {lane}"),
    });
    parts.extend(several("dialects", &dialects.collect()));
    if mixture.stream.len() > 1 {
        parts.push("streamed and whole answers".to_owned());
    }
    parts.extend(several("versions", &mixture.versions));
    parts.extend(several("regions", &mixture.regions));
    parts.extend(several("tokenizers", &mixture.tokenizers));
    parts.extend(several("conditions", &mixture.fingerprints));
    (!parts.is_empty()).then(|| format!("mixed: {}", parts.join("; ")))
}

/// Models whose answers named another one.
fn renamed(mixture: &Mixture) -> Option<String> {
    let names = &mixture.models_answered;
    (!names.is_empty()).then(|| format!("answered as {}", listed(names)))
}

fn several(what: &str, names: &BTreeSet<String>) -> Option<String> {
    (names.len() > 1).then(|| format!("{what} {}", listed(names)))
}

/// The first few, and how many more.
fn listed(names: &BTreeSet<String>) -> String {
    const SHOWN: usize = 4;
    let shown: Vec<&str> = names.iter().take(SHOWN).map(String::as_str).collect();
    let more = names.len().saturating_sub(SHOWN);
    if more > 0 { format!("{} and {more} more", shown.join(", ")) } else { shown.join(", ") }
}
