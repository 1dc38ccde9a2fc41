//! The section of keys: what each has spent, and what it may.
//!
//! Invariant: a key is shown by its name; nothing of the key itself is known here.

use super::usd;
use tokrate_charts::{Column, Table, format};
use tokrate_gateway::telemetry::{KeyStatus, Snapshot};

/// Renders the section; nothing where there are no keys.
pub(super) fn render(out: &mut String, snapshot: &Snapshot) {
    if snapshot.keys.is_empty() {
        return;
    }
    out.push_str(concat!(
        "<section id=\"keys\"><h2>Keys</h2><p class=\"intro\">Spent in this month (UTC): by the log where a key has a monthly budget, ",
        "else since the gateway was started. Reserved is what calls in progress may cost at most.</p>\n"
    ));
    let mut table = Table { caption: "Keys".to_owned(), ..Table::default() };
    table.columns = ["key", "spent", "reserved", "budget", "calls open", "limits"].map(Column::words).to_vec();
    table.rows = snapshot.keys.iter().map(row).collect();
    out.push_str(&table.html());
    out.push_str("</section>\n");
}

fn row(key: &KeyStatus) -> Vec<String> {
    let missing = || format::MISSING.to_owned();
    let limits = &key.limits;
    let per_minute = |count: Option<u64>, what: &str| count.map(|count| format!("{} {what}", format::count(count)));
    let said = [
        per_minute(limits.requests_per_minute.map(u64::from), "requests a minute"),
        per_minute(limits.tokens_per_minute, "tokens a minute"),
        per_minute(limits.streams.map(u64::from), "calls at once"),
    ];
    let said: Vec<String> = said.into_iter().flatten().collect();
    vec![
        key.name.clone(),
        usd(key.spending.spent.as_usd()),
        usd(key.spending.reserved.as_usd()),
        limits.usd_per_month.map_or_else(missing, |budget| usd(budget.as_usd())),
        format::count(u64::from(key.open_calls)),
        if said.is_empty() { missing() } else { said.join(", ") },
    ]
}
