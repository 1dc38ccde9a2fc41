//! The scorecard: the place of each endpoint in every respect at once.
//!
//! Invariant: there is no sum of points: how much a fast start is worth against a low price is for the reader to say.

use crate::board::Board;
use crate::data::Metric;
use crate::html::{Frame, name, page, usd};
use crate::links::{Links, Mode, Ranked, Target};
use crate::pages::filters;
use crate::view::{Group, Row, View};
use std::fmt::Write as _;
use tokrate_charts::format;

const RANKED: [(Metric, &str); 5] = [
    (Metric::OutputSpeed, "Output speed"),
    (Metric::Ttft, "TTFT"),
    (Metric::E2e, "Total time"),
    (Metric::GapP99, "Gap p99"),
    (Metric::Errors, "Failed"),
];

/// The page.
pub(crate) fn render(board: &Board, target: &Target, view: &View, mode: Mode) -> String {
    let links = Links::from(board, target, mode);
    let mut out = String::from("<h1>Scorecard</h1>\n");
    let _ = writeln!(out, "<p class=\"subtitle\">{}</p>", filters::sentence(&links, view));
    filters::render(&mut out, &links, Ranked::Scorecard, view);
    let _ = writeln!(
        out,
        "<p class=\"lead\">Places within each model. A range means that the order within it is open; <b class=\"first\">bold</b> may be the first. {}</p>",
        links.link(&Target::Method, "How places come about.")
    );
    out.push_str("<table class=\"board score\"><thead><tr><th scope=\"col\">Endpoint</th>");
    for (_, words) in RANKED {
        let _ = write!(out, "<th scope=\"col\" class=\"n\">{words}</th>");
    }
    out.push_str("<th scope=\"col\" class=\"n\">Steadiness <small>middle half / median</small></th><th scope=\"col\" class=\"n\">Price <small>per M tokens, 3:1</small></th></tr></thead>\n");
    let groups = board.groups(view);
    for group in &groups {
        body(&mut out, &links, view, group);
    }
    out.push_str("</table>\n");
    if groups.is_empty() {
        out.push_str("<p class=\"none\">Nothing was measured here in this window.</p>\n");
    }
    let description = "The place of each endpoint in every respect.".to_owned();
    page(&links, &Frame { title: "Scorecard".to_owned(), description, target }, &out)
}

fn body(out: &mut String, links: &Links<'_>, view: &View, group: &Group<'_>) {
    let board = links.board;
    let model = group.model();
    let _ = writeln!(
        out,
        "<tbody><tr class=\"group\"><th scope=\"rowgroup\" colspan=\"8\">{} <small>{}</small></th></tr>",
        links.link(&Target::Model(model), &name(&board.models[model])),
        crate::pages::leaderboard::counted(group.rows.len(), "endpoint", "endpoints"),
    );
    let cheapest =
        group.rows.iter().filter_map(|row| board.blended_price(row.entry.endpoint)).fold(f64::INFINITY, f64::min);
    for row in &group.rows {
        line(out, links, (view, group), row, cheapest);
    }
    out.push_str("</tbody>\n");
}

fn line(out: &mut String, links: &Links<'_>, (view, group): (&View, &Group<'_>), row: &Row<'_>, cheapest: f64) {
    let ranked = |metric| group.ranked(view, metric).max(2);
    let (board, entry) = (links.board, row.entry);
    let _ = write!(
        out,
        "<tr><th scope=\"row\">{}</th>",
        links.link(&Target::Endpoint(entry.endpoint), &name(&board.endpoints[entry.endpoint]))
    );
    for (metric, words) in RANKED {
        let cell = match entry.ranks(view.load, view.window, metric) {
            // A place that all share says nothing.
            Some(ranks) if ranks.best == 1 && (ranks.worst as usize) < ranked(metric) => {
                format!("<b class=\"first\">{ranks}</b>")
            }
            Some(ranks) => ranks.to_string(),
            None => "<small>too few</small>".to_owned(),
        };
        let _ = write!(out, "<td class=\"n\" data-name=\"{words}\">{cell}</td>");
    }
    let spread = row
        .summary
        .speed_spread
        .map_or_else(|| format::MISSING.to_owned(), |spread| format::percent((spread * 100.0).round() / 100.0));
    let price = board.blended_price(entry.endpoint);
    let cell = match price {
        Some(price) if price <= cheapest => format!("<b class=\"first\">{}</b>", usd(price)),
        Some(price) => usd(price),
        None => "<small>unknown</small>".to_owned(),
    };
    let _ = writeln!(
        out,
        "<td class=\"n\" data-name=\"Steadiness\">{spread}</td><td class=\"n\" data-name=\"Price\">{cell}</td></tr>"
    );
}
