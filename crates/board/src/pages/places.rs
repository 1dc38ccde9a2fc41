//! Places: who measures from where, whether they still do, and how providers look from each.
//!
//! Invariant: a cell of the matrix is one series: an endpoint with the usual workload from one place; nothing is averaged over places.

use crate::board::{Board, Entry};
use crate::data::{Metric, Prober};
use crate::html::{Frame, moment, name, page, quantity, text};
use crate::links::{Links, Mode, Target};
use crate::window::Window;
use std::fmt::Write as _;
use tokrate_charts::{escape, format};

/// A clock that is further off than this is worth a remark (ms).
const NOTABLE_SKEW_MS: f64 = 1_000.0;

/// Whether a prober has not been heard from for longer than it may be away.
pub(crate) fn is_silent(prober: &Prober, now_unix_ms: i64) -> bool {
    prober.last_seen_unix_ms.is_none_or(|seen| now_unix_ms.saturating_sub(seen) > prober.silent_after_ms.max(60_000))
}

/// The page.
pub(crate) fn render(board: &Board, target: &Target, mode: Mode) -> String {
    let links = Links::from(board, target, mode);
    let mut out = String::from(
        "<h1>Places</h1>\n<p class=\"subtitle\">Who measures, from where, and whether they still do.</p>\n",
    );
    probers(&mut out, board);
    matrix(&mut out, &links);
    let description = "Who measures from where, and how providers look from each place.".to_owned();
    page(&links, &Frame { title: "Places".to_owned(), description, target }, &out)
}

fn probers(out: &mut String, board: &Board) {
    if board.data.probers.is_empty() {
        out.push_str("<p class=\"none\">No prober is known.</p>\n");
        return;
    }
    out.push_str("<table class=\"board\"><thead><tr><th scope=\"col\">Prober</th><th scope=\"col\">Place</th><th scope=\"col\">State</th><th scope=\"col\">Last heard from</th><th scope=\"col\" class=\"n\">Clock</th><th scope=\"col\" class=\"n\">Probes</th><th scope=\"col\" class=\"n\">Missed</th><th scope=\"col\" class=\"n\">In quarantine</th><th scope=\"col\">Remark</th></tr></thead><tbody>\n");
    for prober in &board.data.probers {
        let state = match is_silent(prober, board.data.now_unix_ms) {
            true => "<span class=\"state bad\">silent</span>",
            false => "<span class=\"state good\">measuring</span>",
        };
        let skew = prober.clock_skew_ms.filter(|skew| skew.is_finite()).map_or_else(
            || format::MISSING.to_owned(),
            |skew| {
                let words = format::seconds(skew / 1_000.0);
                if skew.abs() > NOTABLE_SKEW_MS { format!("<span class=\"bad\">{words}</span>") } else { words }
            },
        );
        let seen = prober.last_seen_unix_ms.map_or_else(|| "never".to_owned(), moment);
        let _ = writeln!(
            out,
            "<tr><th scope=\"row\">{}</th><td data-name=\"Place\">{}</td><td data-name=\"State\">{state}</td><td data-name=\"Last heard from\">{seen}</td><td class=\"n\" data-name=\"Clock\">{skew}</td><td class=\"n\" data-name=\"Probes\">{}</td><td class=\"n\" data-name=\"Missed\">{}</td><td class=\"n\" data-name=\"In quarantine\">{}</td><td data-name=\"Remark\">{}</td></tr>",
            text(&prober.name),
            text(&prober.place),
            format::count(prober.probes),
            format::count(prober.missed),
            format::count(prober.quarantined),
            text(&prober.note),
        );
    }
    out.push_str("</tbody></table>\n");
}

fn matrix(out: &mut String, links: &Links<'_>) {
    let board = links.board;
    let Some(usual) = board.default_view() else { return };
    let relevant: Vec<&Entry> =
        board.entries.iter().filter(|entry| (entry.source, entry.workload) == (usual.source, usual.workload)).collect();
    let mut places: Vec<usize> = relevant.iter().map(|entry| entry.place).collect();
    places.sort_unstable();
    places.dedup();
    let _ = write!(
        out,
        "<section><h2>Time to first text by endpoint and place</h2>\n<p class=\"lead\">{}, last 72 hours, median. The way to a place is part of its TTFT.</p>\n<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"Endpoints by place\"><table><thead><tr><th scope=\"col\">Endpoint</th>",
        name(&board.workloads[usual.workload])
    );
    for place in &places {
        let _ = write!(out, "<th scope=\"col\" class=\"n\">{}</th>", name(&board.places[*place]));
    }
    out.push_str("</tr></thead><tbody>");
    let mut endpoints: Vec<usize> = relevant.iter().map(|entry| entry.endpoint).collect();
    endpoints.sort_unstable();
    endpoints.dedup();
    for endpoint in endpoints {
        let _ = write!(
            out,
            "<tr><th scope=\"row\">{}</th>",
            links.link(&Target::Endpoint(endpoint), &name(&board.endpoints[endpoint]))
        );
        for place in &places {
            let entry = relevant.iter().find(|entry| (entry.endpoint, entry.place) == (endpoint, *place));
            let value =
                entry.and_then(|entry| entry.summary(usual.load, Window::ThreeDays)?.median(Metric::Ttft).value);
            let cell = value.map_or_else(|| "–".to_owned(), |value| escape(&quantity(Metric::Ttft, value)));
            let _ = write!(out, "<td class=\"n\">{cell}</td>");
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div></section>\n");
}
