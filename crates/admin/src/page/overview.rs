//! The overview: what is wrong, then the range by lane, by kind of error and over time, then what the gateway would do now.
//!
//! Without a log the range is the last hour, from memory.

use super::shell::{Shell, Tab};
use super::{
    Figure, Input, aliases, calls, changes, clock_time, errors, figures, lanes, last_hour, nanos, problems, range,
    share, uptime, usd,
};
use std::fmt::Write as _;
use tokrate_charts::{Column, Table, escape, format};
use tokrate_gateway::telemetry::Snapshot;

/// The whole page.
pub(crate) fn overview(input: &Input<'_>) -> String {
    let view = input.view;
    let sort: Vec<(&str, &str)> = view.sort.map(|sort| ("sort", sort)).into_iter().collect();
    let shell = input.shell(("", Tab::Overview, "/"), &sort, &[]);
    shell.document(&content(input))
}

/// The part that changes.
pub(super) fn content(input: &Input<'_>) -> String {
    let Input { snapshot, view, report } = input;
    let mut out = String::with_capacity(128 * 1024);
    let _ = writeln!(
        out,
        r#"<h1 class="asof" id="asof">Overview <span>{} UTC, up {}</span></h1>"#,
        clock_time(snapshot.now_unix_ms),
        uptime(snapshot)
    );
    problems::render(&mut out, snapshot, view, report.as_ref());
    match report {
        Some(Ok(report)) => {
            range::headline(&mut out, snapshot, view, report);
            range::lanes(&mut out, snapshot, view, report);
            errors::render(&mut out, snapshot, view, report, None);
            range::speeds(&mut out, view, report);
        }
        _ => {
            headline(&mut out, snapshot);
            last_hour::render(&mut out, snapshot);
            errors_in_memory(&mut out, snapshot);
        }
    }
    changes::render(&mut out, snapshot);
    aliases::render(&mut out, snapshot);
    lanes::render(&mut out, snapshot, view);
    calls::render(&mut out, snapshot, view);
    racing(&mut out, snapshot);
    log(&mut out, snapshot);
    out
}

/// Totals of all lanes in the last hour.
struct LastHourTotals {
    attempts: u64,
    failed: u64,
    extra_attempts: u64,
    cost_usd: f64,
    extra_usd: f64,
}

impl LastHourTotals {
    fn of(snapshot: &Snapshot) -> LastHourTotals {
        let mut sum = LastHourTotals { attempts: 0, failed: 0, extra_attempts: 0, cost_usd: 0.0, extra_usd: 0.0 };
        for minute in snapshot.stats.lanes.iter().flat_map(|lane| lane.minutes_since(snapshot.first_minute_of_hour())) {
            sum.attempts += minute.attempts;
            sum.failed += minute.failed.total();
            sum.extra_attempts += minute.extra_attempts;
            sum.cost_usd += minute.cost_usd;
            sum.extra_usd += minute.extra_usd;
        }
        sum
    }
}

fn headline(out: &mut String, snapshot: &Snapshot) {
    let hour = LastHourTotals::of(snapshot);
    let overhead = snapshot.stats.overhead_since(snapshot.first_minute_of_hour());
    let quantile = |q| overhead.quantile(q).map_or_else(|| format::MISSING.to_owned(), nanos);
    // A race may hold a first token back for far longer than all else takes.
    let held = if hour.extra_attempts > 0 { ", with what races held back" } else { "" };
    let memory = snapshot.resident_bytes.map_or_else(String::new, |bytes| format!("{} MiB of memory", bytes >> 20));
    figures(
        out,
        "headline",
        &[
            Figure { label: "Calls open", value: format::count(snapshot.open_calls as u64), note: memory },
            Figure {
                label: "Attempts, last hour",
                value: format::count(hour.attempts),
                note: format!("{} since the start", format::count(snapshot.stats.attempts)),
            },
            Figure {
                label: "Failed, last hour",
                value: share(hour.failed as f64, hour.attempts as f64),
                note: format!("{} attempts", format::count(hour.failed)),
            },
            Figure {
                label: "Gateway overhead, p50",
                value: quantile(0.5),
                note: format!("p99 {}{held}, n = {}", quantile(0.99), format::count(overhead.count())),
            },
            Figure {
                label: "Cost, last hour",
                value: usd(hour.cost_usd),
                note: format!("{} since the start", usd(snapshot.stats.cost_usd)),
            },
            Figure {
                label: "Share spent on racing",
                value: share(hour.extra_usd, hour.cost_usd),
                note: format!("{} in {} attempts", usd(hour.extra_usd), format::count(hour.extra_attempts)),
            },
        ],
    );
}

fn racing(out: &mut String, snapshot: &Snapshot) {
    let (hour, stats) = (LastHourTotals::of(snapshot), &snapshot.stats);
    out.push_str("<section id=\"racing\"><h2>What racing costs</h2><p class=\"intro\">Attempts beside the one that each call needed: hedges and races that did not win, and what they replaced.</p>\n");
    let mut table = Table { caption: "What racing costs".to_owned(), ..Table::default() };
    table.columns = vec![Column::words(""), Column::words("last hour"), Column::words("since the start")];
    let row = |name: &str, hour: String, start: String| vec![name.to_owned(), hour, start];
    table.rows = vec![
        row("extra attempts", format::count(hour.extra_attempts), format::count(stats.extra_attempts)),
        row(
            "share of all attempts",
            share(hour.extra_attempts as f64, hour.attempts as f64),
            share(stats.extra_attempts as f64, stats.attempts as f64),
        ),
        row("extra cost", usd(hour.extra_usd), usd(stats.extra_usd)),
        row("share of all cost", share(hour.extra_usd, hour.cost_usd), share(stats.extra_usd, stats.cost_usd)),
    ];
    out.push_str(&table.html());
    out.push_str("</section>\n");
}

/// Errors by kind, without a log.
fn errors_in_memory(out: &mut String, snapshot: &Snapshot) {
    use std::collections::BTreeMap;
    use tokrate_record::AttemptEnd;
    out.push_str("<section id=\"errors\"><h2>Errors by kind</h2>\n");
    let since = snapshot.first_minute_of_hour();
    let mut kinds: BTreeMap<(std::cmp::Reverse<u64>, &str, &str), u64> = BTreeMap::new();
    for lane in &snapshot.stats.lanes {
        let failures = lane.endings.iter().filter(|((_, end, _), _)| *end == AttemptEnd::Failed);
        let mut of_kind: BTreeMap<_, u64> = BTreeMap::new();
        failures.for_each(|((_, _, kind), count)| *of_kind.entry(*kind).or_default() += count);
        for (kind, count) in of_kind {
            let last_hour = lane.minutes_since(since).map(|minute| minute.failed.of(kind)).sum();
            let name = kind.map_or("unknown", tokrate_core::FailureKind::name);
            kinds.insert((std::cmp::Reverse(last_hour), name, &lane.name), count);
        }
    }
    if kinds.is_empty() {
        out.push_str("<p class=\"none\">No attempt has failed since the start.</p></section>\n");
        return;
    }
    let mut table = Table { caption: "Errors by kind".to_owned(), ..Table::default() };
    table.columns = vec![
        Column::words("kind"),
        Column::words("lane"),
        Column::numbers("last hour", ""),
        Column::numbers("since the start", ""),
    ];
    table.rows = kinds
        .into_iter()
        .map(|((last_hour, kind, lane), count)| {
            vec![kind.replace('_', " "), lane.to_owned(), format::count(last_hour.0), format::count(count)]
        })
        .collect();
    out.push_str(&table.html());
    out.push_str("</section>\n");
}

fn log(out: &mut String, snapshot: &Snapshot) {
    out.push_str("<section id=\"log\"><h2>Throughput log</h2>\n");
    let Some(log) = &snapshot.log else {
        out.push_str(
            "<p class=\"none\">No log is kept: what this page shows is lost when the gateway stops.</p></section>\n",
        );
        return;
    };
    let (class, word) = match (log.is_healthy, log.counts.lost + log.counts.lost_refusals) {
        (false, _) => ("bad", "rows do not reach the database"),
        (true, 0) => ("good", "every row is kept"),
        (true, _) => ("warning", "rows were lost"),
    };
    let _ = write!(out, r#"<p><span class="state {class}">{word}</span></p><dl class="terms">"#);
    let mut terms = vec![
        ("rows written", format::count(log.counts.written)),
        ("rows waiting", format::count(log.counts.waiting)),
        ("rows lost", format::count(log.counts.lost)),
        ("rows removed by retention", format::count(log.counts.pruned)),
        ("file", log.path.clone()),
    ];
    if log.counts.lost_refusals > 0 {
        terms.push(("refused requests lost", format::count(log.counts.lost_refusals)));
    }
    if let Some(error) = &log.error {
        terms.push((if log.is_healthy { "last error, over now" } else { "error" }, error.clone()));
    }
    for (term, meaning) in terms {
        let _ = write!(out, "<div><dt>{term}</dt><dd>{}</dd></div>", escape(&meaning));
    }
    out.push_str("</dl></section>\n");
}

/// A page that says why there is none.
pub(crate) fn error(snapshot: &Snapshot, status: http::StatusCode, message: &str) -> String {
    let title = status.canonical_reason().unwrap_or("Error");
    let shell = Shell {
        title,
        tab: Tab::Overview,
        view: None,
        has_range: false,
        path: "/",
        more: &[],
        is_live: false,
        has_filters: false,
        names: super::shell::Names::default(),
        version: snapshot.version,
        json: "/api/lanes".to_owned(),
    };
    shell.document(&format!(
        "<h1>{}</h1><p class=\"intro\">{}</p><p><a href=\"/\">To the overview</a></p>\n",
        escape(title),
        escape(message)
    ))
}
