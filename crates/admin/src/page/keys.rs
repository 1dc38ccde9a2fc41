//! The page of keys: what each spent in the range, what it may still spend, what it was refused.
//!
//! Invariant: a key is shown by its name; nothing of the key itself is known here.

use super::grid::{Grid, Head, Html, Sorting};
use super::shell::Tab;
use super::{Input, clock_time, share, usd};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use tokrate_charts::{escape, format};
use tokrate_core::Money;
use tokrate_gateway::telemetry::KeyStatus;
use tokrate_record::Refusal;
use tokrate_store::{Report, Tally};

/// Orders of the table, the default first.
pub(crate) const KEY_SORTS: [&str; 4] = ["cost", "key", "attempts", "failed"];
/// Rows of the table of refused requests.
const MAX_REFUSALS: usize = 40;

/// The whole page. `refused` are the refused requests of the range.
pub(crate) fn keys(input: &Input<'_>, refused: &[Refusal]) -> String {
    let view = input.view;
    let sort: Vec<(&str, &str)> = view.sort.map(|sort| ("sort", sort)).into_iter().collect();
    let shell = input.shell(("Keys", Tab::Keys, "/keys"), &sort, &[]);
    shell.document(&content(input, refused))
}

fn content(input: &Input<'_>, refused: &[Refusal]) -> String {
    let Input { snapshot, view, report } = input;
    let mut out = String::new();
    let time = clock_time(snapshot.now_unix_ms);
    let _ = writeln!(out, "<h1 id=\"asof\">Keys <span>{time} UTC</span></h1>");
    out.push_str("<section id=\"spent\"><h2>What keys spent</h2>");
    let report = match report {
        Some(Ok(report)) => Some(&**report),
        Some(Err(error)) => {
            let _ = write!(out, "<p class=\"state bad\">the throughput log cannot be read: {}</p>", escape(error));
            None
        }
        None => None,
    };
    let range = report.map_or_else(
        || "Without a log nothing is known of a range.".to_owned(),
        |_| format!("Attempts, failures and cost are those of the range ({}).", escape(&view.range_in_words())),
    );
    let _ = write!(
        out,
        concat!(
            "<p class=\"intro\">{} Spent is in this month (UTC): by the log where a key has a monthly budget, else since the gateway ",
            "was started. Reserved is what calls in progress may cost at most.</p>"
        ),
        range
    );
    table(&mut out, input, report);
    out.push_str("</section>\n");
    refusals(&mut out, refused, report.is_some());
    out
}

/// What is known of a key: its settings and its rows.
struct Line<'a> {
    name: Option<&'a str>,
    status: Option<&'a KeyStatus>,
    tally: Tally,
}

fn table(out: &mut String, input: &Input<'_>, report: Option<&Report>) {
    let view = input.view;
    let configured = input.snapshot.keys.iter().map(|key| Some(key.name.as_str()));
    let configured = configured.filter(|name| view.query.key.is_none() || view.query.key.as_deref() == *name);
    let logged = report.into_iter().flat_map(|report| report.keys.keys().map(Option::as_deref));
    let names: BTreeSet<Option<&str>> = configured.chain(logged).collect();
    if names.is_empty() {
        out.push_str("<p class=\"none\">No key is configured, and no attempt is in the range.</p>");
        return;
    }
    let status = |name| input.snapshot.keys.iter().find(|key| Some(key.name.as_str()) == name);
    let tally = |name: Option<&str>| report.and_then(|report| report.keys.get(&name.map(str::to_owned)));
    let line = |name| Line { name, status: status(name), tally: tally(name).copied().unwrap_or_default() };
    let mut lines: Vec<Line<'_>> = names.into_iter().map(line).collect();
    let sort = view.sort.unwrap_or(KEY_SORTS[0]);
    let rank = |line: &Line<'_>| match sort {
        "cost" => line.tally.cost_usd,
        "attempts" => line.tally.attempts as f64,
        "failed" => line.tally.failed as f64,
        _ => 0.0,
    };
    lines.sort_by(|one, other| rank(other).total_cmp(&rank(one)));
    let heads = [
        Head::words("key").sorted_by("key"),
        Head::numbers("attempts", "").sorted_by("attempts"),
        Head::numbers("failed", "of attempts").sorted_by("failed"),
        Head::numbers("cost", "of the range").sorted_by("cost"),
        Head::numbers("lost attempts", "cost"),
        Head::numbers("spent", "this month"),
        Head::numbers("reserved", ""),
        Head::numbers("left", "of the budget"),
        Head::numbers("calls open", ""),
        Head::words("limits"),
    ];
    let rows = lines.iter().map(|line| row(input, line)).collect();
    Grid {
        caption: "What keys spent",
        heads: &heads,
        rows,
        sorting: Some(Sorting { view, path: "/keys", more: &[], current: sort }),
    }
    .render(out);
}

fn row(input: &Input<'_>, line: &Line<'_>) -> Vec<Html> {
    let missing = || format::MISSING.to_owned();
    let tally = &line.tally;
    let name = match line.name {
        Some(name) => Html::link(&input.view.link("/calls", &[("key", name)]), name),
        None => Html::text("no key, the gateway's own probes included"),
    };
    let failed = if tally.failed == 0 {
        "0".to_owned()
    } else {
        format!("{} {}", format::count(tally.failed), share(tally.failed as f64, tally.attempts as f64))
    };
    let spending = line.status.map(|key| key.spending);
    let budget = line.status.and_then(|key| key.limits.usd_per_month);
    let left = budget.zip(spending).map(|(budget, spending)| {
        let left = (budget.as_usd() - spending.spent.as_usd() - spending.reserved.as_usd()).max(0.0);
        format!("{} of {}", usd(left), usd(budget.as_usd()))
    });
    let amount = |money: Option<Money>| money.map_or_else(missing, |money| usd(money.as_usd()));
    [
        format::count(tally.attempts),
        failed,
        usd(tally.cost_usd),
        usd(tally.lost_cost_usd),
        amount(spending.map(|spending| spending.spent)),
        amount(spending.map(|spending| spending.reserved)),
        left.unwrap_or_else(|| "no budget".to_owned()),
        line.status.map_or_else(missing, |key| format::count(u64::from(key.open_calls))),
        line.status.map_or_else(|| "not configured".to_owned(), limits),
    ]
    .into_iter()
    .fold(vec![name], |mut cells, text| {
        cells.push(Html::text(&text));
        cells
    })
}

fn limits(key: &KeyStatus) -> String {
    let limits = &key.limits;
    let per_minute = |count: Option<u64>, what: &str| count.map(|count| format!("{} {what}", format::count(count)));
    let said = [
        per_minute(limits.requests_per_minute.map(u64::from), "requests a minute"),
        per_minute(limits.tokens_per_minute, "tokens a minute"),
        per_minute(limits.streams.map(u64::from), "calls at once"),
    ];
    let said: Vec<String> = said.into_iter().flatten().collect();
    if said.is_empty() { "none".to_owned() } else { said.join(", ") }
}

fn refusals(out: &mut String, refused: &[Refusal], has_log: bool) {
    out.push_str(concat!(
        "<section id=\"refused\"><h2>Refused requests</h2><p class=\"intro\">Answered with an error before a lane was asked: ",
        "wrong keys, limits, spent budgets, requests that cannot be read.</p>"
    ));
    let mut sums: BTreeMap<(Option<&str>, &str, u16), (u64, u64)> = BTreeMap::new();
    for refusal in refused {
        let sum = sums.entry((refusal.key.as_deref(), refusal.reason.name(), refusal.status)).or_default();
        *sum = (sum.0 + refusal.count, sum.1.max(refusal.last_unix_ms));
    }
    if sums.is_empty() {
        let none = if has_log { "None in the range." } else { "Without a log only /metrics counts them." };
        let _ = writeln!(out, "<p class=\"none\">{none}</p></section>");
        return;
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
    sums.truncate(MAX_REFUSALS);
    let heads = [
        Head::words("key"),
        Head::words("reason"),
        Head::numbers("status", ""),
        Head::numbers("requests", ""),
        Head::words("last"),
    ];
    let row = |((key, reason, status), (count, last)): ((Option<&str>, &str, u16), (u64, u64))| {
        vec![
            Html::text(key.unwrap_or("none or an unknown one")),
            Html::text(&reason.replace('_', " ")),
            Html::text(&status.to_string()),
            Html::text(&format::count(count)),
            Html::text(&tokrate_core::rfc3339(last / 1_000)),
        ]
    };
    Grid { caption: "Refused requests", heads: &heads, rows: sums.into_iter().map(row).collect(), sorting: None }
        .render(out);
    out.push_str("</section>\n");
}
