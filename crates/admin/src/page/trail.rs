//! The page of one call: its attempts as a waterfall on the call's own time scale, and every number of it as a table.
//!
//! Invariant: what was not measured is not drawn; an attempt that was cancelled before its first token has no mark of one.

use super::calls::{description, outcome};
use super::grid::{Grid, Head, Html};
use super::shell::{Names, Shell, Tab};
use super::view::View;
use super::{moment, nanos, usd};
use std::fmt::Write as _;
use tokrate_charts::{escape, format};
use tokrate_core::rfc3339;
use tokrate_gateway::telemetry::{AttemptTrace, CallTrace, Snapshot};
use tokrate_record::{Attempt, AttemptEnd};

/// A picture of the call for a width of the window.
struct Size {
    class: &'static str,
    width: f64,
    /// Letters that fit beside or above a bar.
    letters: usize,
    /// Marks on the time scale at most.
    ticks: f64,
    row: f64,
}

const SIZES: [Size; 2] = [
    Size { class: "wide", width: 1160.0, letters: 150, ticks: 8.0, row: 46.0 },
    Size { class: "narrow", width: 358.0, letters: 48, ticks: 3.0, row: 62.0 },
];
/// Height of the time scale.
const SCALE: f64 = 24.0;
const BAR: f64 = 14.0;

/// The page of a call. `rows` are those of the log, with all that it knows; without a log there is only what memory keeps.
pub(crate) fn trail(snapshot: &Snapshot, view: &View, trace: &CallTrace, rows: &[Attempt]) -> String {
    let mut out = String::new();
    let (class, words) = outcome(trace);
    let _ = writeln!(
        out,
        "<h1>Call <code>{}</code></h1><p class=\"state {class}\">{}</p>",
        escape(&trace.call),
        escape(&words)
    );
    facts(&mut out, snapshot, view, trace, rows);
    out.push_str("<section id=\"waterfall\"><h2>What happened</h2>");
    legend(&mut out);
    for size in &SIZES {
        let _ = write!(out, "<figure class=\"{}\">{}</figure>", size.class, waterfall(trace, rows, size));
    }
    out.push_str("</section>\n<section id=\"numbers\"><h2>The numbers</h2>");
    table(&mut out, view, trace, rows);
    out.push_str("</section>\n");
    document(snapshot, view, "Call", &out, &view.link("/api/attempts", &[("since", "all"), ("call", &trace.call)]))
}

/// The page of calls whose names begin so.
pub(crate) fn found(snapshot: &Snapshot, view: &View, text: &str, calls: &[(String, u64)], is_cut: bool) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "<h1>Calls whose names begin with <code>{}</code></h1>", escape(text));
    let heads = [Head::words("call"), Head::words("begun")];
    let row = |(call, started): &(String, u64)| {
        vec![Html::link(&view.link("/call", &[("call", call)]), call), Html::text(&rfc3339(started / 1_000))]
    };
    Grid { caption: "Calls", heads: &heads, rows: calls.iter().map(row).collect(), sorting: None }.render(&mut out);
    if is_cut {
        out.push_str("<p class=\"note\">There are more; write more of the name.</p>");
    }
    document(snapshot, view, "Calls", &out, "/api/calls")
}

fn document(snapshot: &Snapshot, view: &View, title: &str, content: &str, json: &str) -> String {
    let shell = Shell {
        title,
        tab: Tab::Calls,
        view: Some(view),
        has_range: false,
        path: "/call",
        more: &[],
        is_live: false,
        has_filters: false,
        names: Names::default(),
        version: snapshot.version,
        json: json.to_owned(),
    };
    shell.document(content)
}

fn facts(out: &mut String, snapshot: &Snapshot, view: &View, trace: &CallTrace, rows: &[Attempt]) {
    let started = trace.started_unix_ms();
    let mut facts: Vec<(&str, Html)> = vec![
        ("begun", Html::text(&format!("{} UTC", moment(started, snapshot.now_unix_ms)))),
        ("alias", Html::link(&view.link("/calls", &[("alias", &trace.alias)]), &trace.alias)),
    ];
    if let Some(first) = rows.first() {
        facts.push(match &first.key {
            Some(key) => ("key", Html::link(&view.link("/calls", &[("key", key)]), key)),
            None => ("key", Html::text("no key")),
        });
        facts.extend(first.session.as_ref().map(|session| ("session", Html::text(session))));
        facts.push(("dialect of the client", Html::text(&first.dialect_in)));
        let kind = if first.sample.stream { "a stream" } else { "an answer in one piece" };
        facts.push(("the first lane was asked for", Html::text(kind)));
    }
    facts.extend(trace.cost_usd().map(|cost| ("cost of all attempts", Html::text(&usd(cost)))));
    let lost = rows.iter().filter(|row| row.end == AttemptEnd::Lost).filter_map(|row| row.sample.cost_usd);
    facts.extend(
        lost.reduce(|sum, cost| sum + cost).map(|cost| ("of it for attempts that lost", Html::text(&usd(cost)))),
    );
    if let Some(overhead) = rows.iter().find(|row| row.won).and_then(|row| row.overhead_ns) {
        let held = if trace.held().is_some() { ", with what a first token was held back" } else { "" };
        facts.push(("the gateway's own time", Html::text(&format!("{}{held}", nanos(overhead)))));
    }
    if let Some((number, hold)) = trace.held() {
        let lane = trace.attempts.iter().find(|attempt| attempt.number == number).map_or("", |attempt| &*attempt.lane);
        let text = format!("{} of {lane}, for a lane that was expected to complete earlier", nanos(hold));
        facts.push(("a first token was held back", Html::text(&text)));
    }
    out.push_str("<dl class=\"terms\">");
    for (term, meaning) in facts {
        let _ = write!(out, "<div><dt>{term}</dt><dd>{}</dd></div>", meaning.0);
    }
    out.push_str("</dl>\n");
}

fn legend(out: &mut String) {
    out.push_str("<p class=\"intro legend\">");
    let keys = [
        ("opening", "opening a connection"),
        ("wait", "waiting for one"),
        ("before won", "up to the first token"),
        ("after won", "the answer"),
        ("held", "a first token that was held back"),
        ("after lost", "an attempt that lost"),
        ("after failed", "one that failed"),
    ];
    for (class, words) in keys {
        let _ = write!(
            out,
            "<span class=\"key\"><svg viewBox=\"0 0 20 10\" class=\"sample\" aria-hidden=\"true\"><rect class=\"{class}\" width=\"20\" height=\"10\"/></svg> {words}</span> "
        );
    }
    out.push_str("</p>");
}

/// An attempt on the call's time scale (ns since its beginning).
struct Leg {
    begin: f64,
    opened: f64,
    sent: f64,
    first_byte: Option<f64>,
    first_token: Option<f64>,
    /// Until when its first token was held back.
    held_until: Option<f64>,
    end: f64,
}

impl Leg {
    fn of(trace: &CallTrace, attempt: &AttemptTrace, row: Option<&Attempt>) -> Leg {
        let begin = attempt.started_unix_ms.saturating_sub(trace.started_unix_ms()) as f64 * 1e6;
        let end = begin + attempt.total_ns as f64;
        let sent = (begin + attempt.wait_ns.unwrap_or(0) as f64).min(end);
        let sample = row.map(|row| &row.sample);
        let opening = sample.map_or(0, |sample| {
            [sample.dns_ns, sample.connect_ns, sample.tls_ns].into_iter().flatten().fold(0, u64::saturating_add)
        });
        let after_sent = |span: Option<u64>| span.map(|span| (sent + span as f64).min(end));
        let first_token = after_sent(attempt.ttft_ns);
        let hold = trace.held().filter(|(number, _)| *number == attempt.number).map(|(_, hold)| hold as f64);
        Leg {
            begin,
            opened: (begin + opening as f64).min(sent),
            sent,
            first_byte: after_sent(sample.and_then(|sample| sample.ttfb_ns)),
            first_token,
            held_until: first_token.zip(hold).map(|(from, hold)| (from + hold).min(end)),
            end,
        }
    }
}

fn row_of<'r>(rows: &'r [Attempt], attempt: &AttemptTrace) -> Option<&'r Attempt> {
    rows.iter().find(|row| row.attempt == attempt.number)
}

/// The class of a bar.
fn class_of(attempt: &AttemptTrace) -> &'static str {
    match (attempt.won, attempt.end) {
        (_, AttemptEnd::Failed) => "failed",
        (true, _) => "won",
        (false, _) => "lost",
    }
}

fn waterfall(trace: &CallTrace, rows: &[Attempt], size: &Size) -> String {
    let legs: Vec<Leg> = trace.attempts.iter().map(|attempt| Leg::of(trace, attempt, row_of(rows, attempt))).collect();
    let whole = legs.iter().map(|leg| leg.end).fold(1.0, f64::max);
    let height = SCALE + size.row * legs.len() as f64 + 4.0;
    let mut svg = format!(
        "<svg class=\"fall\" viewBox=\"0 0 {} {height}\" role=\"img\" aria-label=\"{}\">",
        size.width,
        escape(&format!("{} attempts in {}; the table has every number", legs.len(), nanos(whole as u64)))
    );
    // Room on the right for the last label of the scale.
    let scale = size.width - 2.0;
    let at = |ns: f64| (ns / whole * scale).clamp(0.0, scale);
    let step = tick_step(whole, size.ticks);
    let mut tick = 0.0;
    while tick <= whole {
        let x = at(tick);
        // The last label ends before the edge.
        let anchor = if x > scale - 60.0 { "end" } else { "start" };
        let shift = if anchor == "end" { -4.0 } else { 4.0 };
        let label = if tick == 0.0 { "0".to_owned() } else { format::seconds(tick / 1e9) };
        let _ = write!(
            svg,
            "<path class=\"scale\" d=\"M{x:.1} 0V{height}\"/><text class=\"tick\" x=\"{:.1}\" y=\"13\" text-anchor=\"{anchor}\">{}</text>",
            x + shift,
            escape(&label)
        );
        tick += step;
    }
    for (index, (attempt, leg)) in trace.attempts.iter().zip(&legs).enumerate() {
        bar(&mut svg, trace, (attempt, leg), SCALE + size.row * index as f64, size, &at);
    }
    svg + "</svg>"
}

fn bar(
    svg: &mut String,
    trace: &CallTrace,
    (attempt, leg): (&AttemptTrace, &Leg),
    top: f64,
    size: &Size,
    at: &dyn Fn(f64) -> f64,
) {
    let lane: String = attempt.lane.to_string();
    let words = description(trace, attempt);
    let won = if attempt.won { " · won" } else { "" };
    let _ = if size.class == "wide" {
        let letters = size.letters.saturating_sub(lane.chars().count());
        write!(
            svg,
            "<text x=\"2\" y=\"{:.1}\"><tspan class=\"lane\">{}</tspan>{won} · {}</text>",
            top + 14.0,
            escape(&cut(&lane, 60)),
            escape(&cut(&words, letters))
        )
    } else {
        write!(
            svg,
            "<text x=\"2\" y=\"{:.1}\"><tspan class=\"lane\">{}</tspan>{won}</text><text x=\"2\" y=\"{:.1}\">{}</text>",
            top + 14.0,
            escape(&cut(&lane, 34)),
            top + 30.0,
            escape(&cut(&words, size.letters))
        )
    };
    let y = top + size.row - BAR - 10.0;
    let class = class_of(attempt);
    let first = leg.first_token.unwrap_or(leg.end);
    let parts = [
        ("opening".to_owned(), leg.begin, leg.opened),
        ("wait".to_owned(), leg.opened, leg.sent),
        (format!("before {class}"), leg.sent, first),
        (format!("after {class}"), first, leg.end),
    ];
    for (class, from, to) in parts {
        if to > from {
            // Wide enough to be seen.
            let width = (at(to) - at(from)).max(1.5);
            let x = at(from).min(size.width - width);
            let _ = write!(
                svg,
                "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{BAR}\"/>"
            );
        }
    }
    if let (Some(from), Some(to)) = (leg.first_token, leg.held_until) {
        let width = (at(to) - at(from)).max(1.5);
        let x = at(from).min(size.width - width);
        let _ = write!(
            svg,
            "<rect class=\"held\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{:.1}\"/>",
            y + BAR / 2.0 - 2.0,
            4.0
        );
    }
    let marks = [("byte", leg.first_byte), ("token", leg.first_token)];
    for (class, moment) in marks.into_iter().filter_map(|(class, moment)| Some((class, moment?))) {
        let _ = write!(svg, "<path class=\"{class}\" d=\"M{:.1} {:.1}v{:.1}\"/>", at(moment), y - 3.0, BAR + 6.0);
    }
}

/// A text of at most so many letters.
fn cut(text: &str, letters: usize) -> String {
    if text.chars().count() <= letters {
        return text.to_owned();
    }
    text.chars().take(letters.saturating_sub(1)).chain(['…']).collect()
}

/// A round distance between marks (ns).
fn tick_step(whole: f64, ticks: f64) -> f64 {
    let rough = whole / ticks;
    let power = 10f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|digit| digit * power).find(|step| *step >= rough).unwrap_or(10.0 * power)
}

fn table(out: &mut String, view: &View, trace: &CallTrace, rows: &[Attempt]) {
    let heads = [
        Head::words("attempt"),
        Head::words("lane"),
        Head::words("why"),
        Head::numbers("begun", "after the call"),
        Head::numbers("connection", "names, TCP, TLS"),
        Head::numbers("waited", "begun to sent"),
        Head::numbers("first byte", "after sent"),
        Head::numbers("first token", "after sent"),
        Head::numbers("held back", "its first token"),
        Head::numbers("ended", "after begun"),
        Head::words("end"),
        Head::numbers("output speed", ""),
        Head::numbers("tokens out", ""),
        Head::numbers("cost", ""),
    ];
    let line = |attempt: &AttemptTrace| {
        let sample = row_of(rows, attempt).map(|row| &row.sample);
        let or_missing = |text: Option<String>| Html::text(&text.unwrap_or_else(|| format::MISSING.to_owned()));
        let opening = sample.map(|sample| match (sample.dns_ns, sample.connect_ns, sample.tls_ns) {
            (None, None, None) => "was open".to_owned(),
            parts => [parts.0, parts.1, parts.2].map(|part| part.map_or_else(|| "–".to_owned(), nanos)).join(", "),
        });
        let failure = attempt.failure.map(|kind| format!(", {}", kind.name().replace('_', " "))).unwrap_or_default();
        let status = attempt.status.map(|status| format!(" ({status})")).unwrap_or_default();
        let won = if attempt.won { ", won" } else { "" };
        let end = format!("{}{won}{failure}{status}", attempt.end.name());
        vec![
            Html::text(&attempt.number.to_string()),
            Html::link(&view.link("/lane", &[("lane", &attempt.lane)]), &attempt.lane),
            Html::text(attempt.role.name()),
            Html::text(&nanos(attempt.started_unix_ms.saturating_sub(trace.started_unix_ms()) * 1_000_000)),
            or_missing(opening),
            or_missing(attempt.wait_ns.map(nanos)),
            or_missing(sample.and_then(|sample| sample.ttfb_ns).map(nanos)),
            or_missing(attempt.ttft_ns.map(nanos)),
            or_missing(trace.held().filter(|(number, _)| *number == attempt.number).map(|(_, hold)| nanos(hold))),
            Html::text(&nanos(attempt.total_ns)),
            Html::text(&end),
            or_missing(attempt.output_speed.map(|speed| format::quantity(speed, "tok/s"))),
            Html::text(&format::count(attempt.output_tokens)),
            or_missing(attempt.cost_usd.map(|cost| match attempt.cost_basis.name() {
                "estimated" => format!("about {}", usd(cost)),
                _ => usd(cost),
            })),
        ]
    };
    let rows = trace.attempts.iter().map(line).collect();
    Grid { caption: "The attempts of the call", heads: &heads, rows, sorting: None }.render(out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_a_scale_are_round_and_few() {
        for whole in [1.0, 999.0, 1e6, 2.4e9, 6e11] {
            for ticks in [3.0, 8.0] {
                let step = tick_step(whole, ticks);
                assert!(whole / step <= ticks && whole / step > ticks / 3.0, "{whole}: {step}");
            }
        }
        assert_eq!(tick_step(2.4e9, 8.0), 5e8);
    }
}
