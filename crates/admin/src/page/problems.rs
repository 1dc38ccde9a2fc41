//! The first section: whether something is wrong, with which lane, since when.
//!
//! Invariant: "nothing is wrong" is only said of what was looked at, and what was looked at is said.

use super::lanes::state_description;
use super::view::View;
use super::{moment, share};
use std::fmt::Write as _;
use tokrate_charts::{escape, format};
use tokrate_gateway::telemetry::{LaneState, Snapshot};
use tokrate_store::Report;

/// Renders the section.
pub(super) fn render(
    out: &mut String,
    snapshot: &Snapshot,
    view: &View,
    report: Option<&Result<std::sync::Arc<Report>, String>>,
) {
    let mut problems = String::new();
    let mut problem = |class: &str, html: String| {
        let _ = write!(problems, "<li><span class=\"state {class}\">{html}</span></li>");
    };
    for lane in snapshot.lanes.iter().filter(|lane| lane.state != LaneState::Ready) {
        let (class, words) = state_description(lane.state);
        let link = view.link("/lane", &[("lane", &lane.name)]);
        problem(class, format!("<a href=\"{link}\">{}</a>: {}", escape(&lane.name), escape(&words)));
    }
    match report {
        Some(Ok(report)) => {
            if let Some(words) = unanswered(snapshot, view, report) {
                problem("bad", words);
            }
        }
        Some(Err(error)) => problem("bad", format!("the throughput log cannot be read: {}", escape(error))),
        None => {}
    }
    if let Some(log) = snapshot.log.as_ref().filter(|log| !log.is_healthy) {
        let error = log.error.as_deref().unwrap_or("no reason is known");
        problem("bad", format!("rows do not reach the throughput log: {}", escape(error)));
    }
    out.push_str("<section id=\"problems\" aria-label=\"What is wrong\"><ul class=\"problems\">");
    if problems.is_empty() {
        let lanes = match snapshot.lanes.len() {
            1 => "the lane is".to_owned(),
            count => format!("all {count} lanes are"),
        };
        let calls = match report {
            Some(Ok(_)) => format!(", and no call was left without an answer ({})", escape(&view.range_in_words())),
            _ => String::new(),
        };
        let _ = write!(out, "<li><span class=\"state good\">{lanes} ready{calls}</span></li>");
    }
    out.push_str(&problems);
    out.push_str("</ul></section>\n");
}

/// Calls that got no answer or half of one.
fn unanswered(snapshot: &Snapshot, view: &View, report: &Report) -> Option<String> {
    let calls = report.calls?;
    let count = calls.failed + calls.broken;
    let newest = report.failures.values().max_by_key(|failure| failure.last_unix_ms)?;
    (count > 0).then(|| {
        format!(
            "<a href=\"{}\">{} of {} calls</a> ({}) got no whole answer; the last attempt that failed began at {}",
            view.link("/calls", &[("end", "failed")]),
            format::count(count),
            format::count(calls.all),
            escape(&share(count as f64, calls.all as f64)),
            moment(newest.last_unix_ms, snapshot.now_unix_ms)
        )
    })
}
