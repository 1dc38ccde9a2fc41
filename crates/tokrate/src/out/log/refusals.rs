//! Requests that the gateway refused before it asked a lane: a line, and a table. Invariant: each is counted once.

use super::date;
use std::collections::BTreeMap;
use tokrate_charts::{Column, Table};
use tokrate_record::Refusal;

/// Most reasons named in one line, so that it fits a terminal.
const MAX_REASONS: usize = 3;

/// What refusals of one line of the table have in common: key, alias, reason, status.
type Group<'a> = (Option<&'a str>, Option<&'a str>, &'static str, u16);

/// A line below the attempts, of refused requests by reason; empty if nothing was refused.
pub fn refused_line(counts: &BTreeMap<&'static str, u64>) -> String {
    if counts.is_empty() {
        return String::new();
    }
    let total: u64 = counts.values().sum();
    let mut reasons: Vec<(&str, u64)> = counts.iter().map(|(reason, count)| (*reason, *count)).collect();
    reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let shown = &reasons[..reasons.len().min(MAX_REASONS)];
    let rest = total - shown.iter().map(|(_, count)| count).sum::<u64>();
    let named = shown.iter().map(|(reason, count)| format!("{reason} {count}"));
    let named: Vec<String> = named.chain((rest > 0).then(|| format!("others {rest}"))).collect();
    let requests = if total == 1 { "request" } else { "requests" };
    format!("refused: {total} {requests} ({}); --refused shows whose\n", named.join(", "))
}

/// A line for each key, alias, reason and status, the most requests first.
pub fn refusals(refusals: &[Refusal]) -> String {
    let mut groups: BTreeMap<Group<'_>, Refusal> = BTreeMap::new();
    for row in refusals {
        let group = (row.key.as_deref(), row.alias.as_deref(), row.reason.name(), row.status);
        groups.entry(group).and_modify(|known| known.merge(row)).or_insert_with(|| row.clone());
    }
    let mut rows: Vec<Refusal> = groups.into_values().collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.count));
    let name = |name: &Option<String>| name.clone().unwrap_or_else(|| "-".to_owned());
    let cells = |row: &Refusal| {
        vec![
            name(&row.key),
            name(&row.alias),
            row.reason.name().to_owned(),
            row.status.to_string(),
            row.count.to_string(),
            date(row.first_unix_ms),
            date(row.last_unix_ms),
        ]
    };
    let words = ["key", "model", "reason"].map(Column::words).into_iter();
    let numbers = ["status", "requests"].map(|label| Column::numbers(label, "")).into_iter();
    let table = Table {
        caption: String::new(),
        columns: words.chain(numbers).chain(["first (UTC)", "last (UTC)"].map(Column::words)).collect(),
        rows: rows.iter().map(cells).collect(),
        notes: notes(refusals),
    };
    table.text()
}

/// What a missing name means.
fn notes(refusals: &[Refusal]) -> Vec<String> {
    let key = refusals.iter().any(|row| row.key.is_none());
    let alias = refusals.iter().any(|row| row.alias.is_none());
    let key = key.then_some("key -: none or an unknown one was presented, or the gateway asks for none");
    let alias = alias
        .then_some("model -: the request was not read that far, or asked for a name that the gateway does not have");
    key.into_iter().chain(alias).map(str::to_owned).collect()
}
