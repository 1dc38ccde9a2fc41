//! The page of calls: filtered, sorted, page by page.
//!
//! Invariant: what was looked at is said, and every filter and order stands in the address.

use super::calls::outcome;
use super::grid::{Grid, Head, Html, Sorting};
use super::shell::{Shell, Tab, select};
use super::view::View;
use super::{Input, clock_time, moment, nanos, usd};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use tokrate_charts::{escape, format};
use tokrate_core::FailureKind;
use tokrate_gateway::telemetry::{CallTrace, Snapshot};
use tokrate_record::{Attempt, AttemptEnd, CostBasis};
use tokrate_store::{CallList, CallOrder};

/// Calls on a page.
pub(crate) const PAGE_CALLS: usize = 50;
/// Orders of the list, the default first.
pub(crate) const CALL_SORTS: [&str; 5] = [
    CallOrder::Newest.name(),
    CallOrder::Longest.name(),
    CallOrder::Ttft.name(),
    CallOrder::Cost.name(),
    CallOrder::Attempts.name(),
];

/// The whole page.
pub(crate) fn call_list(input: &Input<'_>, list: Option<&CallList>) -> String {
    let view = input.view;
    let more = view.of_list();
    let shell = Shell {
        title: "Calls",
        tab: Tab::Calls,
        view: Some(view),
        has_range: list.is_some(),
        path: "/calls",
        more: &more,
        is_live: view.is_live() && view.after.is_none(),
        has_filters: list.is_some(),
        names: input.names(),
        version: input.snapshot.version,
        json: match list {
            Some(_) => view.link("/api/log/calls", &more),
            None => "/api/calls".to_owned(),
        },
    };
    let mut out = String::new();
    let _ = writeln!(out, "<h1 id=\"asof\">Calls <span>{} UTC</span></h1>", clock_time(input.snapshot.now_unix_ms));
    match list {
        Some(list) => content(&mut out, input, list),
        None => out.push_str(
            "<section id=\"list\"><p class=\"none\">Without a log only the last calls are known; they are on the overview.</p></section>\n",
        ),
    }
    shell.document(&out)
}

fn content(out: &mut String, input: &Input<'_>, list: &CallList) {
    let Input { snapshot, view, .. } = input;
    filters(out, input);
    out.push_str("<section id=\"list\"><h2 class=\"quiet\">Calls that fit</h2>");
    let found = format::count(list.found);
    let from = moment(list.range.from_unix_ms, snapshot.now_unix_ms);
    let scope = match (list.range.is_cut, view.sort) {
        (true, None | Some("newest")) => {
            format!("{found} and more; the next pages go on to the beginning of the range")
        }
        (true, Some(_)) => format!(
            "{found} among the newest {} attempts, begun since {from}",
            format::count(crate::reports::MAX_LIST_ROWS)
        ),
        (false, _) => found,
    };
    let _ = write!(
        out,
        "<p class=\"intro\">Calls of which an attempt fits, each with all its attempts. {} ({}).</p>",
        escape(&scope),
        escape(&view.range_in_words())
    );
    if list.calls.is_empty() {
        out.push_str("<p class=\"none\">No call fits.</p>");
        if list.range.is_cut {
            let until = list.range.from_unix_ms.to_string();
            let link = view.link("/calls", &with(&view.of_list(), ("until", &until)));
            let _ = write!(out, "<p><a href=\"{link}\">Look further back, before {from}</a></p>");
        }
        out.push_str("</section>\n");
        return;
    }
    let heads = [
        Head::words("begun").sorted_by("newest"),
        Head::words("alias"),
        Head::words("key"),
        Head::words("outcome"),
        Head::numbers("attempts", "").sorted_by("attempts"),
        Head::numbers("first token", "").sorted_by("ttft"),
        Head::numbers("took", "").sorted_by("longest"),
        Head::numbers("output speed", ""),
        Head::numbers("cost", "").sorted_by("cost"),
    ];
    let sort = view.sort.unwrap_or(CALL_SORTS[0]);
    let rows = list.calls.iter().filter_map(|rows| row(snapshot, view, rows)).collect();
    let more = view.of_list();
    Grid {
        caption: "Calls",
        heads: &heads,
        rows,
        sorting: Some(Sorting { view, path: "/calls", more: &more, current: sort }),
    }
    .render(out);
    out.push_str("<nav class=\"pager\" aria-label=\"Pages of the list\">");
    if view.after.is_some() {
        let _ = write!(out, "<a href=\"{}\">First page</a>", view.link("/calls", &more));
    }
    if let Some(next) = &list.next {
        let _ = write!(out, "<a href=\"{}\">Next {PAGE_CALLS}</a>", view.link("/calls", &with(&more, ("after", next))));
    }
    out.push_str("</nav></section>\n");
}

fn with<'a>(more: &[(&'a str, &'a str)], one: (&'a str, &'a str)) -> Vec<(&'a str, &'a str)> {
    more.iter().copied().chain([one]).collect()
}

fn filters(out: &mut String, input: &Input<'_>) {
    let view = input.view;
    out.push_str("<form class=\"filters list\" action=\"/calls\" id=\"list-filters\">");
    for (name, value) in view.common() {
        let _ = write!(out, "<input type=\"hidden\" name=\"{name}\" value=\"{}\">", escape(value));
    }
    if let Some(sort) = view.sort {
        let _ = write!(out, "<input type=\"hidden\" name=\"sort\" value=\"{sort}\">");
    }
    let lanes: BTreeSet<String> = input.snapshot.lanes.iter().map(|lane| lane.name.clone()).collect();
    let ends: BTreeSet<String> = AttemptEnd::ALL.iter().map(|end| end.name().to_owned()).collect();
    let kinds: BTreeSet<String> = FailureKind::ALL.iter().map(|kind| kind.name().to_owned()).collect();
    select(out, "lane", "Lane", "any lane", &lanes, view.query.lane.as_deref());
    select(out, "end", "An attempt was", "anything", &ends, view.query.end.map(AttemptEnd::name));
    select(out, "failure", "Error", "any or none", &kinds, view.query.failure.map(FailureKind::name));
    out.push_str("<button>Filter</button></form>\n");
}

fn row(snapshot: &Snapshot, view: &View, rows: &[Attempt]) -> Option<Vec<Html>> {
    let trace = CallTrace::of_rows(rows)?;
    let first = rows.first()?;
    let started = trace.started_unix_ms();
    let end = |row: &Attempt| row.sample.started_unix_ms.saturating_sub(started) * 1_000_000 + row.sample.total_ns;
    let took = rows.iter().map(end).max().unwrap_or(0);
    let (class, words) = outcome(&trace);
    let winner = trace.winner();
    let or_missing = |text: Option<String>| text.unwrap_or_else(|| format::MISSING.to_owned());
    let ttft = winner.and_then(|winner| trace.first_token_ns(winner)).map(nanos);
    let speed = winner.and_then(|winner| winner.output_speed).map(|speed| format::quantity(speed, "tok/s"));
    let about = if rows.iter().any(|row| row.sample.cost_basis == CostBasis::Estimated) { "about " } else { "" };
    let kinds = rows.iter().filter_map(|row| row.sample.failure).map(|kind| kind.name().replace('_', " "));
    let kinds: BTreeSet<String> = kinds.collect();
    let kinds = kinds.into_iter().collect::<Vec<_>>().join(", ");
    let outcome = format!(
        "<span class=\"state {class}\">{}</span>{}",
        escape(&words),
        if kinds.is_empty() { String::new() } else { format!(" <span class=\"note\">{}</span>", escape(&kinds)) }
    );
    Some(vec![
        Html::link(&view.link("/call", &[("call", &trace.call)]), &moment(started, snapshot.now_unix_ms)),
        Html::text(&trace.alias),
        Html::text(first.key.as_deref().unwrap_or("no key")),
        Html(outcome),
        Html::text(&format::count(rows.len() as u64)),
        Html::text(&or_missing(ttft)),
        Html::text(&nanos(took)),
        Html::text(&or_missing(speed)),
        Html::text(&or_missing(trace.cost_usd().map(|cost| format!("{about}{}", usd(cost))))),
    ])
}
