//! The page of a model: its endpoints against each other.
//!
//! Invariant: charts and ranks hold endpoints of one workload, place, load, source and fingerprint: the usual view of the model.

use crate::board::{Board, Entry};
use crate::data::Metric;
use crate::html::{Frame, half_chart, name, page};
use crate::links::{Links, Mode, Ranked, Target};
use crate::pages::{answer, bars, course, filters, leaderboard, quadrants};
use crate::view::{Group, Row, View};
use crate::window::Window;
use std::fmt::Write as _;
use tokrate_charts::{Axis, BoxChart, BoxRow};

/// Lines in one chart of courses.
const MAX_LINES: usize = 6;

/// The page.
pub(crate) fn render(board: &Board, target: &Target, model: usize, mode: Mode) -> String {
    let links = Links::from(board, target, mode);
    let label = board.models[model].label.clone();
    let mut out = format!("<h1>{}</h1>\n", name(&board.models[model]));
    if let Some(view) = usual_view(board, model) {
        let groups = board.groups(&view);
        let _ = writeln!(out, "<p class=\"subtitle\">{}</p>", filters::sentence(&links, &view));
        leaderboard::notices(&mut out, board);
        answer::cards(&mut out, &links, &view, &groups);
        let table = links.link(&Target::Ranked(Ranked::Leaderboard, view), "Its table, with every filter");
        let _ = writeln!(out, "<p class=\"note\">{table}.</p>");
        let mut largest: Vec<&Group<'_>> = groups.iter().collect();
        largest.sort_by_key(|group| std::cmp::Reverse(group.rows.len()));
        if let Some(group) = largest.first() {
            sections(&mut out, &links, &view, group);
        }
        pairs(&mut out, &links, &groups);
    }
    let description = format!("Which endpoint answers fastest with {label}, and how sure that is.");
    page(&links, &Frame { title: label, description, target }, &out)
}

/// The view with the most requests of a model.
fn usual_view(board: &Board, model: usize) -> Option<View> {
    let usual = board.default_view()?;
    let of_model = |entry: &&Entry| entry.model == model;
    let is_usual =
        |entry: &Entry| (entry.source, entry.workload, entry.place) == (usual.source, usual.workload, usual.place);
    if board.entries.iter().filter(of_model).any(is_usual) {
        return Some(View { model: Some(model), ..usual });
    }
    let main = board.entries.iter().filter(of_model).max_by_key(|entry| entry.loads.values().sum::<usize>())?;
    let view =
        View { source: main.source, workload: main.workload, place: main.place, load: main.usual_load(), ..usual };
    Some(View { model: Some(model), ..view })
}

fn sections(out: &mut String, links: &Links<'_>, view: &View, group: &Group<'_>) {
    let board = links.board;
    let mut by_speed = group.rows.clone();
    by_speed.sort_by(|a, b| {
        let low = |row: &Row<'_>| row.summary.median(Metric::OutputSpeed).low.unwrap_or(0.0);
        low(b).total_cmp(&low(a)).then(a.entry.endpoint.cmp(&b.entry.endpoint))
    });
    out.push_str("<section class=\"pair\"><h2>How soon, and how sure</h2>\n");
    half_chart(out, &bars::of_rows(board, view, &by_speed, Metric::Ttft));
    half_chart(out, &bars::of_rows(board, view, &by_speed, Metric::E2e));
    out.push_str("</section>\n<section class=\"pair\"><h2>Against price, and request by request</h2>\n");
    let reliable: Vec<Row<'_>> = by_speed.iter().filter(|row| !row.summary.fails()).copied().collect();
    half_chart(out, &quadrants::by_price(board, view, &reliable));
    half_chart(out, &boxes(board, view, &by_speed));
    out.push_str("</section>\n<section class=\"pair\"><h2>Day by day</h2>\n");
    let lines: Vec<(String, &Entry)> = by_speed
        .iter()
        .take(MAX_LINES)
        .map(|row| (board.providers[row.entry.provider].label.clone(), row.entry))
        .collect();
    half_chart(out, &course::of_entries(board, &lines, view.load, Metric::OutputSpeed));
    half_chart(out, &course::of_entries(board, &lines, view.load, Metric::Ttft));
    if by_speed.len() > MAX_LINES {
        let _ = write!(out, "<p class=\"note\">The {MAX_LINES} fastest of {}.</p>", by_speed.len());
    }
    out.push_str("</section>\n");
}

fn boxes(board: &Board, view: &View, rows: &[Row<'_>]) -> BoxChart {
    let row = |row: &Row<'_>| {
        let values = row
            .entry
            .summary(view.load, Window::TwoWeeks)
            .map_or(&[][..], |summary| summary.values(Metric::OutputSpeed));
        let n = values.len();
        let rank = |share: f64| values[((n as f64 * share).ceil() as usize).clamp(1, n) - 1];
        BoxRow {
            label: board.providers[row.entry.provider].label.clone(),
            // Ten percent of fewer than twenty is one request.
            values: (n >= 20).then(|| [rank(0.1), rank(0.25), rank(0.5), rank(0.75), rank(0.9)]),
            n: n as u64,
        }
    };
    let spread = |row: &&Row<'_>| row.summary.speed_spread.unwrap_or(f64::INFINITY);
    let steadiest = rows.iter().min_by(|a, b| spread(a).total_cmp(&spread(b)));
    BoxChart {
        title: steadiest.map_or_else(String::new, |row| {
            format!("{} is the steadiest from request to request", board.providers[row.entry.provider].label)
        }),
        description: "Output speed of single requests, last 14 days.".to_owned(),
        axis: Axis::linear("Output speed of one request", "tok/s"),
        percentiles: ["p10", "p25", "p50", "p75", "p90"].map(str::to_owned),
        rows: rows.iter().map(row).collect(),
    }
}

/// Links to the comparisons of two.
fn pairs(out: &mut String, links: &Links<'_>, groups: &[Group<'_>]) {
    let board = links.board;
    let mut endpoints: Vec<(usize, usize)> =
        groups.iter().flat_map(|group| &group.rows).map(|row| (row.entry.endpoint, row.entry.provider)).collect();
    endpoints.sort_unstable();
    endpoints.dedup();
    if endpoints.len() < 2 || endpoints.len() > crate::links::MAX_COMPARED {
        return;
    }
    out.push_str("<section><h2>Two at a time</h2>\n<ul class=\"pairs\">");
    for (place, (a, of_a)) in endpoints.iter().enumerate() {
        for (b, of_b) in &endpoints[place + 1..] {
            let words = format!("{} and {}", name(&board.providers[*of_a]), name(&board.providers[*of_b]));
            let _ = write!(out, "<li>{}</li>", links.link(&Target::ComparePair(*a.min(b), *a.max(b)), &words));
        }
    }
    out.push_str("</ul></section>\n");
}
