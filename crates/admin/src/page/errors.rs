//! The section of errors by kind: at which lane, how many, since when, for whom, and what can be done.
//!
//! Invariant: what is advised changes settings or looks at a call, and never promises that the provider is well.

use super::columns::Columns;
use super::grid::{Grid, Head, Html};
use super::range::{attempts_over_time, failures_over_time};
use super::view::View;
use super::{moment, share};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use tokrate_charts::{escape, format};
use tokrate_core::FailureKind;
use tokrate_gateway::telemetry::Snapshot;
use tokrate_store::{FailureReport, Report};

/// Rows of the table; the most frequent ones.
const MAX_ROWS: usize = 40;
/// Keys that are named in a row.
const MAX_KEYS: usize = 3;

/// Renders the section; of one lane if `lane` says so.
pub(super) fn render(out: &mut String, snapshot: &Snapshot, view: &View, report: &Report, lane: Option<&str>) {
    out.push_str("<section id=\"errors\"><h2>Errors by kind</h2>");
    let mut found: Vec<(&(String, Option<FailureKind>), &FailureReport)> =
        report.failures.iter().filter(|((of, _), _)| lane.is_none_or(|lane| lane == of)).collect();
    if found.is_empty() {
        let _ =
            write!(out, "<p class=\"none\">No attempt failed in the range ({}).</p>", escape(&view.range_in_words()));
    } else {
        found.sort_by_key(|(_, failure)| std::cmp::Reverse(failure.count));
        let left_out = found.len().saturating_sub(MAX_ROWS);
        found.truncate(MAX_ROWS);
        let heads = [
            Head::words("kind"),
            Head::words("lane"),
            Head::numbers("attempts", "of the lane's"),
            Head::words("first and last"),
            Head::words("over time"),
            Head::words("keys"),
            Head::words("what to do"),
        ];
        let rows =
            found.iter().map(|((lane, kind), failure)| row(snapshot, view, report, lane, *kind, failure)).collect();
        Grid { caption: "Errors by kind", heads: &heads, rows, sorting: None }.render(out);
        if left_out > 0 {
            let _ = write!(out, "<p class=\"note\">{left_out} rarer ones are left out; /api/report has them.</p>");
        }
    }
    if !report.lanes.is_empty() {
        let columns = |title, caption, kinds| Columns { title, caption, report, kinds };
        out.push_str("<div class=\"pair\">");
        columns("Attempts", "Attempts by lane", attempts_over_time(report, lane)).render(out, "errors");
        columns("Failed attempts", "Failed attempts by kind", failures_over_time(report, lane)).render(out, "errors");
        out.push_str("</div>");
    }
    out.push_str("</section>\n");
}

fn row(
    snapshot: &Snapshot,
    view: &View,
    report: &Report,
    lane: &str,
    kind: Option<FailureKind>,
    failure: &FailureReport,
) -> Vec<Html> {
    let name = kind.map_or("unknown", FailureKind::name);
    let of_lane = report.lanes.get(lane).map_or(0, |lane| lane.tally.attempts);
    let calls = match kind {
        Some(kind) => view.link("/calls", &[("lane", lane), ("failure", kind.name())]),
        None => view.link("/calls", &[("lane", lane), ("end", "failed")]),
    };
    let time = |ms| moment(ms, snapshot.now_unix_ms);
    let seen = format!(
        "{} – {} <a href=\"{}\">newest</a>",
        time(failure.first_unix_ms),
        time(failure.last_unix_ms),
        view.link("/call", &[("call", &failure.last_call)])
    );
    vec![
        Html::link(&calls, &name.replace('_', " ")),
        Html::link(&view.link("/lane", &[("lane", lane)]), lane),
        Html(format!(
            "<b>{}</b> {}",
            format::count(failure.count),
            escape(&share(failure.count as f64, of_lane as f64))
        )),
        Html(seen),
        Html(sparkline(&failure.buckets)),
        Html::text(&keys(&failure.keys)),
        Html::text(advice(kind)),
    ]
}

/// Those who met it most.
fn keys(keys: &BTreeMap<Option<String>, u64>) -> String {
    let mut keys: Vec<(&str, u64)> =
        keys.iter().map(|(key, count)| (key.as_deref().unwrap_or("no key"), *count)).collect();
    keys.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let more = keys.len().saturating_sub(MAX_KEYS);
    let mut named: Vec<String> =
        keys.iter().take(MAX_KEYS).map(|(key, count)| format!("{key} {}", format::count(*count))).collect();
    if more > 0 {
        named.push(format!("{more} more"));
    }
    named.join(", ")
}

/// Counts over the range as small bars; the chart below has a table of them.
pub(super) fn sparkline(counts: &[u32]) -> String {
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    let mut svg = format!(
        "<svg class=\"spark\" viewBox=\"0 0 {} 12\" preserveAspectRatio=\"none\" aria-hidden=\"true\">",
        counts.len().max(1)
    );
    for (index, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let height = (12.0 * f64::from(*count) / f64::from(most)).max(1.5);
        let _ = write!(svg, "<rect x=\"{index}\" y=\"{:.1}\" width=\".8\" height=\"{height:.1}\"/>", 12.0 - height);
    }
    svg + "</svg>"
}

/// What whoever is on call may do about it.
fn advice(kind: Option<FailureKind>) -> &'static str {
    use FailureKind as Kind;
    match kind {
        Some(Kind::Dns) => "check the host in its url; names are looked up again every minute",
        Some(Kind::Connect | Kind::Closed | Kind::ConnectTimeout) => {
            "check that the endpoint is up and reachable from here"
        }
        Some(Kind::Tls) => "check its certificate, ca_file and the clock",
        Some(Kind::Proxy) => "check the proxy's address and rights",
        Some(Kind::Unauthorized) => "correct its key or its credit, then send SIGHUP",
        Some(Kind::ModelNotFound) => "correct its model, then send SIGHUP",
        Some(Kind::NotFound) => "check its url and what the client named",
        Some(Kind::BadRequest | Kind::EditRefused) => "look at a call: the client's request was refused",
        Some(Kind::RateLimited) => "lower max_in_flight, raise the quota or add a lane",
        Some(Kind::Overloaded | Kind::ServerError | Kind::UnexpectedStatus) => {
            "the provider's trouble: add a lane to the alias, or wait"
        }
        Some(Kind::NotJson | Kind::Protocol | Kind::Empty | Kind::Truncated | Kind::ErrorInStream) => {
            "look at a call: the answer was not whole; if it goes on, take the lane out"
        }
        Some(Kind::Untranslatable) => "use a lane of the client's dialect",
        Some(Kind::Stalled | Kind::FirstTokenTimeout | Kind::TimedOut) => {
            "compare its TTFT with the limits; hedge, or raise the limit"
        }
        Some(Kind::TooLarge) => "raise answer_bytes if such answers are wanted",
        Some(Kind::ClientStalled) => "the client reads too slowly; nothing to do here",
        Some(_) | None => "look at a call",
    }
}
