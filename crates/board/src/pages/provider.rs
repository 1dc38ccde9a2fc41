//! The page of a provider: all of its endpoints, from every place.
//!
//! Invariant: each row is one series at one load; nothing is summed over places or models.

use crate::board::{Board, Entry};
use crate::data::{Change, Metric};
use crate::html::{Frame, estimate, name, page, share};
use crate::links::{Links, Mode, Target};
use crate::pages::{answer, leaderboard};
use crate::window::{Summary, Window};
use std::fmt::Write as _;

/// Changes that are listed.
const MAX_CHANGES: usize = 20;

/// The page.
pub(crate) fn render(board: &Board, target: &Target, provider: usize, mode: Mode) -> String {
    let links = Links::from(board, target, mode);
    let entries: Vec<&Entry> = board.entries.iter().filter(|entry| entry.provider == provider).collect();
    let label = board.providers[provider].label.clone();
    let mut out = format!("<h1>{}</h1>\n", name(&board.providers[provider]));
    let mut endpoints: Vec<usize> = entries.iter().map(|entry| entry.endpoint).collect();
    endpoints.sort_unstable();
    endpoints.dedup();
    let _ = writeln!(
        out,
        "<p class=\"subtitle\">{} · last 72 hours</p>",
        leaderboard::counted(endpoints.len(), "endpoint", "endpoints")
    );
    table(&mut out, &links, &entries);
    let of_provider =
        |change: &&Change| board.endpoints.index(&change.endpoint).is_some_and(|index| endpoints.contains(&index));
    let changes: Vec<&Change> = board.changes.iter().filter(of_provider).take(MAX_CHANGES).collect();
    out.push_str("<section><h2>What changed</h2>");
    if changes.is_empty() {
        out.push_str("<p class=\"none\">Nothing that can be told from chance.</p>");
    } else {
        out.push_str("<ul class=\"changes\">");
        changes.into_iter().for_each(|change| answer::change_line(&mut out, &links, change));
        out.push_str("</ul>");
    }
    out.push_str("</section>\n");
    let description = format!("How fast the endpoints of {label} answer.");
    page(&links, &Frame { title: label, description, target }, &out)
}

fn table(out: &mut String, links: &Links<'_>, entries: &[&Entry]) {
    let board = links.board;
    out.push_str("<table class=\"board\"><thead><tr><th scope=\"col\">Model</th><th scope=\"col\">Workload</th><th scope=\"col\">From</th><th scope=\"col\" class=\"n\">Place by speed</th><th scope=\"col\" class=\"n\">Output speed</th><th scope=\"col\" class=\"n\">TTFT</th><th scope=\"col\" class=\"n\">Failed</th><th scope=\"col\" class=\"n\">n</th></tr></thead><tbody>");
    for entry in entries {
        for load in entry.loads.keys() {
            let empty = Summary::default();
            let summary = entry.summary(*load, Window::ThreeDays).unwrap_or(&empty);
            let ranks = entry.ranks(*load, Window::ThreeDays, Metric::OutputSpeed);
            let _ = writeln!(
                out,
                "<tr><th scope=\"row\">{}</th><td data-name=\"Workload\">{}</td><td data-name=\"From\">{}</td><td class=\"n\" data-name=\"Place by speed\">{}</td><td class=\"n\" data-name=\"Output speed\">{}</td><td class=\"n\" data-name=\"TTFT\">{}</td><td class=\"n\" data-name=\"Failed\">{}</td><td class=\"n\" data-name=\"Samples\">{}</td></tr>",
                links.link(&Target::Endpoint(entry.endpoint), &name(&board.models[entry.model])),
                name(&board.workloads[entry.workload]),
                name(&board.places[entry.place]),
                ranks.map_or_else(|| "–".to_owned(), |ranks| ranks.to_string()),
                estimate(Metric::OutputSpeed, &summary.median(Metric::OutputSpeed)),
                estimate(Metric::Ttft, &summary.median(Metric::Ttft)),
                share(&summary.errors),
                summary.errors.n,
            );
        }
    }
    out.push_str("</tbody></table>\n");
}
