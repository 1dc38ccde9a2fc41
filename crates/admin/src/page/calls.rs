//! The section of recent calls: each call's attempts on one time scale.
//!
//! Invariant: an attempt that was cancelled before its first token is shown as that, with no guess at its time; names
//! that providers chose are escaped.

use super::{View, clock_time, nanos, usd};
use std::fmt::Write as _;
use tokrate_charts::{escape, format};
use tokrate_core::FailureKind;
use tokrate_gateway::telemetry::Snapshot;
use tokrate_gateway::telemetry::{AttemptTrace, CallTrace};
use tokrate_record::{AttemptEnd, AttemptRole, CostBasis};

/// Calls that are shown.
const MAX_CALLS: usize = 20;
/// Width of a bar's view box; it is stretched to its place.
const WIDTH: f64 = 1000.0;

/// Renders the section.
pub(super) fn render(out: &mut String, snapshot: &Snapshot, view: &View) {
    let _ = writeln!(
        out,
        concat!(
            "<section id=\"calls\"><h2>The last calls</h2><p class=\"intro\">The latest {}, each with its attempts on the ",
            "call's own time scale: {} up to the first token,</span> {} the answer,</span> ",
            "{} an attempt that lost,</span> {} one that failed.</span></p>"
        ),
        MAX_CALLS,
        sample("before won"),
        sample("after won"),
        sample("after lost"),
        sample("after failed")
    );
    let calls = snapshot.stats.calls(MAX_CALLS);
    if calls.is_empty() {
        out.push_str("<p class=\"none\">No call has ended yet.</p></section>\n");
        return;
    }
    out.push_str("<ol class=\"calls\">");
    for trace in calls {
        call(out, view, &trace);
    }
    out.push_str("</ol></section>\n");
}

/// A sample bar for the legend; its meaning follows.
fn sample(class: &str) -> String {
    format!(
        concat!(
            "<span class=\"key\"><svg viewBox=\"0 0 20 10\" class=\"sample\" aria-hidden=\"true\">",
            "<rect class=\"{}\" width=\"20\" height=\"10\"/></svg>"
        ),
        class
    )
}

fn call(out: &mut String, view: &View, trace: &CallTrace) {
    let (class, outcome) = outcome(trace);
    let _ = write!(
        out,
        "<li><p class=\"call\"><a href=\"{}\"><time>{}</time></a> <b>{}</b> <span class=\"state {class}\">{}</span>",
        view.link("/call", &[("call", &trace.call)]),
        clock_time(trace.started_unix_ms()),
        escape(&trace.alias),
        escape(&outcome)
    );
    if let Some(winner) = trace.winner() {
        if let Some(ttft) = trace.first_token_ns(winner) {
            let _ = write!(out, " <span>first token after {}</span>", nanos(ttft));
        }
        if let Some(speed) = winner.output_speed {
            let _ = write!(out, " <span>{}</span>", escape(&format::quantity(speed, "tok/s")));
        }
        let _ = write!(out, " <span>{} tokens</span>", format::count(winner.output_tokens));
    }
    if let Some(cost) = trace.cost_usd() {
        let about = trace.attempts.iter().any(|attempt| attempt.cost_basis == CostBasis::Estimated);
        let _ = write!(out, " <span>{}{}</span>", if about { "about " } else { "" }, escape(&usd(cost)));
    }
    out.push_str("</p><ol class=\"trail\">");
    let started = trace.started_unix_ms();
    let offset = |attempt: &AttemptTrace| (attempt.started_unix_ms.saturating_sub(started) * 1_000_000) as f64;
    let whole = trace.attempts.iter().map(|attempt| offset(attempt) + attempt.total_ns as f64).fold(1.0, f64::max);
    for attempt in &trace.attempts {
        let _ = write!(out, "<li><span class=\"lane\">{}</span>", escape(&attempt.lane));
        bar(out, attempt, offset(attempt), whole);
        let _ = write!(out, "<span class=\"words\">{}</span></li>", escape(&description(trace, attempt)));
    }
    out.push_str("</ol></li>\n");
}

/// The bar of an attempt between the call's start and end.
fn bar(out: &mut String, attempt: &AttemptTrace, offset: f64, whole: f64) {
    let at = |nanos: f64| (nanos / whole * WIDTH).clamp(0.0, WIDTH);
    let end = at(offset + attempt.total_ns as f64);
    let begin = at(offset).min(end);
    let first = attempt.ttft_ns.map(|ttft| offset + (attempt.wait_ns.unwrap_or(0) + ttft) as f64);
    let first = first.map_or(end, at).clamp(begin, end);
    let class = match (attempt.won, attempt.end) {
        (_, AttemptEnd::Failed) => "failed",
        (true, _) => "won",
        (false, _) => "lost",
    };
    out.push_str("<svg class=\"course\" viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\" aria-hidden=\"true\">");
    let mut rect = |class: &str, from: f64, to: f64| {
        if to > from || class.starts_with("before") {
            // Wide enough to be seen.
            let width = (to - from).max(3.0);
            let x = from.min(WIDTH - width);
            let _ = write!(out, "<rect class=\"{class}\" x=\"{x:.1}\" width=\"{width:.1}\" height=\"10\"/>");
        }
    };
    rect(&format!("before {class}"), begin, first);
    rect(&format!("after {class}"), first, end);
    out.push_str("</svg>");
}

/// A token that was held came earlier by this at least (ns, negative): attempts begin at whole milliseconds in the log.
const HELD_LEAST_NS: i64 = -1_000_000;

/// How the call ended, and by how much it was won.
pub(super) fn outcome(trace: &CallTrace) -> (&'static str, String) {
    let Some(winner) = trace.winner() else {
        let mut abandoned = trace.attempts.iter().filter(|attempt| attempt.end == AttemptEnd::Abandoned);
        let abandoned = abandoned.next();
        let failed = trace.attempts.iter().all(|attempt| attempt.end == AttemptEnd::Failed);
        return match (abandoned, failed) {
            (Some(attempt), _) => ("", client_disconnected(attempt).to_owned()),
            (None, true) => ("bad", "no answer".to_owned()),
            (None, false) => ("", "the winner has not ended".to_owned()),
        };
    };
    let (class, outcome) = match winner.end {
        AttemptEnd::Answered => ("good", format!("answered by {}", winner.lane)),
        AttemptEnd::Failed => ("bad", format!("broke off at {}", winner.lane)),
        AttemptEnd::Lost | AttemptEnd::Abandoned => ("", client_disconnected(winner).to_owned()),
    };
    let first_token = trace.first_token_ns(winner).map(u64::cast_signed);
    let beside = trace.attempts.iter().filter(|attempt| attempt.end == AttemptEnd::Lost);
    let margin = beside.filter_map(|attempt| Some(trace.first_token_ns(attempt)?.cast_signed() - first_token?)).min();
    let margin = match margin {
        Some(ahead @ 0..) => format!(", won by {}", nanos(ahead.unsigned_abs())),
        Some(behind @ ..=HELD_LEAST_NS) => {
            format!(", expected to complete first: a token that came {} earlier was held", nanos(behind.unsigned_abs()))
        }
        Some(_) | None => String::new(),
    };
    (class, outcome + &margin)
}

fn client_disconnected(attempt: &AttemptTrace) -> &'static str {
    match attempt.failure {
        Some(FailureKind::ClientStalled) => "its client read nothing for too long",
        _ => "its client disconnected",
    }
}

pub(super) fn description(trace: &CallTrace, attempt: &AttemptTrace) -> String {
    let mut description = Vec::new();
    let after = nanos(attempt.started_unix_ms.saturating_sub(trace.started_unix_ms()) * 1_000_000);
    match attempt.role {
        AttemptRole::First => {}
        AttemptRole::Race => description.push("race".to_owned()),
        AttemptRole::Probe => description.push("probe".to_owned()),
        AttemptRole::Hedge => description.push(format!("hedge after {after}")),
        AttemptRole::Failover => description.push(format!("failover after {after}")),
    }
    if let Some(ttft) = attempt.ttft_ns {
        description.push(format!("TTFT {}", nanos(ttft)));
    }
    let total = nanos(attempt.total_ns);
    description.push(match (attempt.end, attempt.ttft_ns) {
        (AttemptEnd::Answered, _) if attempt.failure.is_some() => {
            format!("ended after {total}, parts could not be decoded")
        }
        (AttemptEnd::Answered, _) => format!("complete after {total}"),
        (AttemptEnd::Lost, None) => format!("cancelled after {total}, no token yet"),
        (AttemptEnd::Lost, Some(_)) => format!("lost, ended after {total}"),
        (AttemptEnd::Abandoned, _) if attempt.failure == Some(FailureKind::ClientStalled) => {
            format!("cancelled after {total}, its client read nothing")
        }
        (AttemptEnd::Abandoned, _) => format!("client disconnected after {total}"),
        (AttemptEnd::Failed, _) => {
            let kind = attempt.failure.map_or("unknown", tokrate_core::FailureKind::name).replace('_', " ");
            let status = attempt.status.filter(|status| *status >= 300);
            let status = status.map_or_else(String::new, |status| format!(" ({status})"));
            format!("{kind}{status} after {total}")
        }
    });
    if let Some(cost) = attempt.cost_usd.filter(|_| trace.attempts.len() > 1) {
        description.push(usd(cost));
    }
    if let Some(model) = &attempt.model_answered {
        description.push(format!("answered as {model}"));
    }
    description.join(" · ")
}
