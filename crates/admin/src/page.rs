//! The live page: rendered by the server, kept up to date by a small script, complete without one.
//!
//! Invariant: every text from outside is escaped; nothing is loaded from elsewhere; neither styles nor scripts are
//! inline, so that the content security policy can forbid both.

mod aliases;
mod calls;
mod changes;
mod keys;
mod lanes;
mod last_hour;

use std::fmt::Write as _;
use tokrate_charts::{Point, Series, SeriesStyle, Table, escape, format};
use tokrate_gateway::telemetry::Snapshot;

/// The charts' style sheet, then the page's own.
pub(crate) fn style() -> String {
    format!("{}{}", tokrate_charts::STYLE, include_str!("page/page.css"))
}

/// Keeps the page up to date.
pub(crate) const SCRIPT: &str = include_str!("page/live.js");
/// How often a browser without scripts reloads (s).
const REFRESH_SECONDS: u32 = 5;

/// The content security policy: own styles, own script, requests to this server, nothing else.
pub(crate) const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; \
                                 img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The whole page.
pub(crate) fn page(snapshot: &Snapshot) -> String {
    let mut out = String::with_capacity(128 * 1024);
    let _ = write!(
        out,
        concat!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n",
            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n",
            "<meta name=\"color-scheme\" content=\"light dark\">\n",
            "<title>tokrate gateway</title>\n<link rel=\"icon\" href=\"data:,\">\n",
            "<link rel=\"stylesheet\" href=\"/style.css\">\n",
            "<noscript><meta http-equiv=\"refresh\" content=\"{}\"></noscript>\n",
            "<script src=\"/live.js\" defer></script>\n</head>\n<body>\n",
            "<header><h1>tokrate <span>gateway</span></h1>",
            "<p id=\"pulse\" role=\"status\"><noscript>As of when this page was loaded; it reloads every {} s.</noscript></p>",
            "</header>\n<main id=\"live\">\n"
        ),
        REFRESH_SECONDS, REFRESH_SECONDS
    );
    out.push_str(&fragment(snapshot));
    let _ = write!(
        out,
        concat!(
            "</main>\n<footer><p>tokrate {}. For machines: <a href=\"/metrics\">/metrics</a>, ",
            "<a href=\"/api/lanes\">/api/lanes</a>, <a href=\"/api/calls\">/api/calls</a>, ",
            "<a href=\"/api/summary?since=24h&amp;by=lane\">/api/summary</a>, ",
            "<a href=\"/api/attempts?limit=20\">/api/attempts</a>.</p>",
            "<p>Output speed is that of one request after its first chunk; TTFT runs from sent to first output text, ",
            "reasoning included; percentiles of the last hour within 0.6 %.</p></footer>\n</body>\n</html>\n"
        ),
        escape(snapshot.version)
    );
    out
}

/// The part that changes.
pub(crate) fn fragment(snapshot: &Snapshot) -> String {
    let mut out = String::with_capacity(96 * 1024);
    headline(&mut out, snapshot);
    aliases::render(&mut out, snapshot);
    changes::render(&mut out, snapshot);
    lanes::render(&mut out, snapshot);
    last_hour::render(&mut out, snapshot);
    calls::render(&mut out, snapshot);
    racing(&mut out, snapshot);
    errors(&mut out, snapshot);
    keys::render(&mut out, snapshot);
    log(&mut out, snapshot);
    out
}

/// A number with its label.
struct Figure {
    label: &'static str,
    value: String,
    note: String,
}

fn figures(out: &mut String, id: &str, figures: &[Figure]) {
    let _ = write!(out, r#"<dl class="figures" id="{id}">"#);
    for Figure { label, value, note } in figures {
        let _ = write!(out, "<div><dt>{}</dt><dd class=\"value\">{}</dd>", escape(label), with_small_unit(value));
        if !note.is_empty() {
            let _ = write!(out, "<dd class=\"aside\">{}</dd>", escape(note));
        }
        out.push_str("</div>");
    }
    out.push_str("</dl>\n");
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
    let _ = writeln!(
        out,
        r#"<p class="asof" id="asof">{} UTC, up {}</p>"#,
        clock_time(snapshot.now_unix_ms),
        uptime(snapshot)
    );
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
    use tokrate_charts::Column;
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

fn errors(out: &mut String, snapshot: &Snapshot) {
    use std::collections::BTreeMap;
    use tokrate_charts::Column;
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

/// Known points of a course from which on they are joined by a line: two would be a straight one that nobody has seen.
const MIN_JOINED_POINTS: usize = 3;

/// A series as a line, or its points one by one where they are too few for one.
fn course(series: Series) -> Vec<Series> {
    let style = SeriesStyle::Course;
    let known = series.points.iter().filter(|point| point.y.is_some()).count();
    if known >= MIN_JOINED_POINTS {
        return vec![Series { style, ..series }];
    }
    // A point without neighbours is drawn by itself.
    let Series { name, points, .. } = series;
    let gap = |x: f64| Point { x, ..Point::default() };
    let apart = points.into_iter().flat_map(|point| {
        let gap = gap(point.x);
        [point, gap]
    });
    let points = apart.collect();
    vec![Series { name, points, style }]
}

/// Nanoseconds in a suitable unit.
fn nanos(nanos: u64) -> String {
    format::seconds(nanos as f64 / 1e9)
}

/// A ratio as per cent; missing where the whole is 0.
fn share(part: f64, whole: f64) -> String {
    if whole > 0.0 { format::percent(part / whole) } else { format::MISSING.to_owned() }
}

/// An amount of money: cents from a dollar on, three digits below, and never zero for something.
pub(crate) fn usd(amount: f64) -> String {
    let digits = match amount {
        a if !a.is_finite() => return format::MISSING.to_owned(),
        0.0 => "0".to_owned(),
        a if a >= 100.0 => format::number(a),
        a if a >= 1.0 => format!("{a:.2}"),
        a if a >= 1e-6 => {
            let places = 2 - a.log10().floor() as i32;
            let digits = format!("{a:.*}", places.clamp(2, 8) as usize);
            digits.trim_end_matches('0').to_owned()
        }
        _ => "< 0.000001".to_owned(),
    };
    // A no-break space keeps number and unit on one line.
    format!("{digits}\u{a0}USD")
}

/// The time of day in UTC.
fn clock_time(unix_ms: u64) -> String {
    let second = unix_ms / 1000 % 86_400;
    format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
}

fn uptime(snapshot: &Snapshot) -> String {
    // Whole seconds are enough for a page that updates every two.
    format::seconds(snapshot.uptime.as_secs_f64().floor())
}

/// Sets the unit of a number smaller.
fn with_small_unit(value: &str) -> String {
    match value.rsplit_once([' ', '\u{a0}']) {
        Some((number, unit)) => format!("{} <small>{}</small>", escape(number), escape(unit)),
        None => escape(value),
    }
}

#[cfg(test)]
pub(crate) mod tests;
