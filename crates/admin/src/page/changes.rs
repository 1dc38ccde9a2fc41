//! The section of changes that were found in the traffic of lanes.

use std::fmt::Write as _;
use tokrate_charts::{Column, Table, format};
use tokrate_core::rfc3339;
use tokrate_gateway::telemetry::{LaneChange, Snapshot};

/// Changes on the page; the API has them all.
const MAX_ROWS: usize = 12;

/// Renders the section; nothing where nobody watches.
pub(super) fn render(out: &mut String, snapshot: &Snapshot) {
    let Some(changes) = &snapshot.changes else { return };
    out.push_str(concat!(
        "<section id=\"changes\"><h2>What changed</h2><p class=\"intro\">Found in the traffic, each lane against itself at like load ",
        "and prompt length; it takes ten days to learn what is usual.</p>\n"
    ));
    if changes.is_empty() {
        out.push_str(
            "<p class=\"none\">No lane has changed in the last 25 days, as far as the log tells.</p></section>\n",
        );
        return;
    }
    let mut table = Table { caption: "What changed".to_owned(), ..Table::default() };
    table.columns = vec![
        Column::words("since"),
        Column::words("lane"),
        Column::words("asked for"),
        Column::words("what"),
        Column::numbers("change", ""),
        Column::words("95 % interval"),
        Column::numbers("quarters of an hour", ""),
    ];
    table.rows = changes.iter().take(MAX_ROWS).map(row).collect();
    out.push_str(&table.html());
    if changes.len() > MAX_ROWS {
        let _ = write!(out, "<p class=\"aside\">{} earlier ones are in /api/changes.</p>", changes.len() - MAX_ROWS);
    }
    out.push_str("</section>\n");
}

fn row(change: &LaneChange) -> Vec<String> {
    let lane = if change.lane == "*" { "many at once" } else { &change.lane };
    let metric = change.metric.strip_suffix("_ms").unwrap_or(change.metric).replace('_', " ");
    let what = if change.kind == "errors" { "errors".to_owned() } else { format!("{} of {metric}", change.kind) };
    let (size, interval) = match change.kind {
        // Of many at once no size is known.
        "quarantine" => (format::MISSING.to_owned(), String::new()),
        _ => (percent(change.change), format!("{} to {}", percent(change.low), percent(change.high))),
    };
    vec![
        rfc3339(change.since_unix_ms / 1_000),
        lane.to_owned(),
        change.alias.clone(),
        what,
        size,
        interval,
        format::count(change.n),
    ]
}

fn percent(share: f64) -> String {
    format!("{:+.0} %", 100.0 * share)
}
