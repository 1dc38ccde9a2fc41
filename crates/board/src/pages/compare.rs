//! Two endpoints against each other.
//!
//! Invariant: both sides are of one group: the same model, workload, place, load, source and fingerprint; two that share none are
//! shown apart, with the reason and without a verdict.

use crate::board::{Board, Entry};
use crate::data::Metric;
use crate::html::{Frame, estimate, half_chart, name, page, share, usd};
use crate::links::{Links, Mode, Target};
use crate::names::Name;
use crate::pages::course;
use crate::rank::SIGNIFICANCE;
use crate::window::{Load, Summary, Window};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use tokrate_charts::{DistributionChart, Sample, escape, format};
use tokrate_core::Rng;
use tokrate_stats::{rank_sum_p, ratio_of_medians};

/// The window of a comparison: that of the leaderboard, as a longer one mixes levels from before and after a change.
const WINDOW: Window = Window::ThreeDays;

/// The page on which two are chosen.
pub(crate) fn index(board: &Board, target: &Target, mode: Mode) -> String {
    let links = Links::from(board, target, mode);
    let mut out = String::from("<h1>Compare two endpoints</h1>\n");
    if mode == Mode::Served && board.endpoints.len() > 1 {
        form(&mut out, board);
    }
    out.push_str("<p class=\"lead\">Endpoints of one model, two at a time.</p>\n");
    for (model, named) in board.models.iter().enumerate() {
        let mut members: Vec<(usize, usize)> = board
            .entries
            .iter()
            .filter(|entry| entry.model == model)
            .map(|entry| (entry.endpoint, entry.provider))
            .collect();
        members.sort_unstable();
        members.dedup();
        if members.len() < 2 || members.len() > crate::links::MAX_COMPARED {
            continue;
        }
        let _ = write!(out, "<section><h2>{}</h2><ul class=\"pairs\">", name(named));
        for (place, (a, of_a)) in members.iter().enumerate() {
            for (b, of_b) in &members[place + 1..] {
                let words = format!("{} and {}", name(&board.providers[*of_a]), name(&board.providers[*of_b]));
                let _ = write!(out, "<li>{}</li>", links.link(&Target::ComparePair(*a.min(b), *a.max(b)), &words));
            }
        }
        out.push_str("</ul></section>\n");
    }
    let description = "Two endpoints against each other.".to_owned();
    page(&links, &Frame { title: "Compare".to_owned(), description, target }, &out)
}

fn form(out: &mut String, board: &Board) {
    // Nobody wants to know how one does against itself: two of one model are chosen beforehand.
    let (first, second) = pair_of_one_model(board).unwrap_or((0, 1));
    let options = |chosen: usize| -> String {
        let option = |(endpoint, named): (usize, &Name)| {
            let selected = if endpoint == chosen { " selected" } else { "" };
            format!("<option value=\"{}\"{selected}>{}</option>", named.slug, name(named))
        };
        board.endpoints.iter().enumerate().map(option).collect()
    };
    let _ = writeln!(
        out,
        "<form class=\"compare\" action=\"compare.html\" method=\"get\"><label>One <select name=\"a\">{}</select></label> <label>the other <select name=\"b\">{}</select></label> <button>Compare</button></form>",
        options(first),
        options(second)
    );
}

/// The first endpoint that has another of its model, and that one.
fn pair_of_one_model(board: &Board) -> Option<(usize, usize)> {
    let mut of_model: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for entry in &board.entries {
        of_model.entry(entry.model).or_default().insert(entry.endpoint);
    }
    let pairs = of_model.values().filter_map(|members| {
        let mut members = members.iter().copied();
        Some((members.next()?, members.next()?))
    });
    pairs.min()
}

/// The page of a pair.
pub(crate) fn pair(board: &Board, target: &Target, (a, b): (usize, usize), mode: Mode) -> String {
    let links = Links::from(board, target, mode);
    let (name_a, name_b) = (&board.endpoints[a], &board.endpoints[b]);
    let mut out = format!("<h1>{} <small>and</small> {}</h1>\n", name(name_a), name(name_b));
    match shared(board, a, b) {
        Some((of_a, of_b, load)) => {
            let _ = writeln!(
                out,
                "<p class=\"subtitle\">{} · {} · from {} · {} · last {}</p>",
                links.link(&Target::Model(of_a.model), &name(&board.models[of_a.model])),
                name(&board.workloads[of_a.workload]),
                name(&board.places[of_a.place]),
                load.words(),
                WINDOW.words()
            );
            body(&mut out, &links, of_a, of_b, load);
        }
        None => {
            out.push_str("<p class=\"none\">They have no model, workload, place and conditions in common, so that nothing of theirs can be compared. Each has its own page: ");
            let _ = writeln!(
                out,
                "{}, {}.</p>",
                links.link(&Target::Endpoint(a), &name(name_a)),
                links.link(&Target::Endpoint(b), &name(name_b))
            );
        }
    }
    let title = format!("{} and {}", name_a.label, name_b.label);
    let description = format!("{title}: which is faster, and how sure that is.");
    page(&links, &Frame { title, description, target }, &out)
}

/// The series of both with the most requests among those that may be compared.
fn shared(board: &Board, a: usize, b: usize) -> Option<(&Entry, &Entry, Load)> {
    let key = |entry: &Entry| (entry.source, entry.model, entry.workload, entry.place, entry.fingerprint);
    let of = |endpoint: usize| board.entries.iter().filter(move |entry| entry.endpoint == endpoint);
    let pairs = of(a).flat_map(|x| of(b).filter(move |y| key(x) == key(y)).map(move |y| (x, y)));
    let loads = pairs.flat_map(|(x, y)| {
        let both = x.loads.iter().filter_map(|(load, n)| Some((*load, *n.min(y.loads.get(load)?))));
        both.map(move |(load, n)| (n, x, y, load)).collect::<Vec<_>>()
    });
    loads
        .max_by_key(|(n, x, y, load)| (board.is_usual(x), *n, std::cmp::Reverse((x.series, y.series, *load))))
        .map(|(_, x, y, load)| (x, y, load))
}

/// The verdict on one metric, in words, and the ratio of the medians.
fn verdict(board: &Board, metric: Metric, (of_a, a): (&Entry, &Summary), (of_b, b): (&Entry, &Summary)) -> String {
    let (values_a, values_b) = (a.values(metric), b.values(metric));
    let (Some(median_a), Some(median_b)) = (a.median(metric).value, b.median(metric).value) else {
        return "too few samples".to_owned();
    };
    let p = rank_sum_p(values_a, values_b);
    if p > SIGNIFICANCE {
        return format!("cannot be told apart (p = {})", format::number(p));
    }
    let a_is_better = (median_a > median_b) == metric.more_is_better();
    let (winner, slower, faster) = if a_is_better { (of_a, values_b, values_a) } else { (of_b, values_a, values_b) };
    let seed = Rng::root(0).child(metric.name());
    let ratio = ratio_of_medians(slower, faster, &seed);
    let words = if metric.more_is_better() { "faster" } else { "less" };
    let size = |ratio: f64| format::fixed(if metric.more_is_better() { ratio - 1.0 } else { 1.0 - ratio } * 100.0, 0);
    let provider = &board.providers[winner.provider].label;
    match ratio {
        Some((interval, _)) => {
            let (low, high) =
                if metric.more_is_better() { (interval.low, interval.high) } else { (interval.high, interval.low) };
            if interval.low <= 1.0 && interval.high >= 1.0 {
                return format!("{provider} is ahead more often than not; by how much is open");
            }
            format!("{provider}: {} to {} % {words}", size(low), size(high))
        }
        None => format!("{provider} is ahead"),
    }
}

fn body(out: &mut String, links: &Links<'_>, of_a: &Entry, of_b: &Entry, load: Load) {
    let board = links.board;
    let empty = Summary::default();
    let (a, b) = (of_a.summary(load, WINDOW).unwrap_or(&empty), of_b.summary(load, WINDOW).unwrap_or(&empty));
    let head = |entry: &Entry| links.link(&Target::Endpoint(entry.endpoint), &name(&board.providers[entry.provider]));
    let _ = writeln!(
        out,
        "<table class=\"board\"><thead><tr><th scope=\"col\">Median, 95 %</th><th scope=\"col\" class=\"n\">{}</th><th scope=\"col\" class=\"n\">{}</th><th scope=\"col\">Verdict</th></tr></thead><tbody>",
        head(of_a),
        head(of_b)
    );
    let (label_a, label_b) = (name(&board.providers[of_a.provider]), name(&board.providers[of_b.provider]));
    let mut row = |words: &str, x: String, y: String, verdict: String| {
        let _ = writeln!(
            out,
            "<tr><th scope=\"row\">{words}</th><td class=\"n\" data-name=\"{label_a}\">{x}</td><td class=\"n\" data-name=\"{label_b}\">{y}</td><td data-name=\"Verdict\">{verdict}</td></tr>"
        );
    };
    for metric in [Metric::OutputSpeed, Metric::Ttft, Metric::E2e] {
        let words = crate::html::title_case(metric.words());
        let verdict = escape(&verdict(board, metric, (of_a, a), (of_b, b)));
        row(&words, estimate(metric, &a.median(metric)), estimate(metric, &b.median(metric)), verdict);
    }
    let p = tokrate_stats::fisher_p(a.errors.hits, a.errors.n, b.errors.hits, b.errors.n);
    let fewer = if a.errors.value() < b.errors.value() { &label_a } else { &label_b };
    let failed = if p > SIGNIFICANCE { "cannot be told apart".to_owned() } else { format!("{fewer} fails less often") };
    row("Failed", share(&a.errors), share(&b.errors), failed);
    let price = |entry: &Entry| board.blended_price(entry.endpoint);
    let cheaper = match (price(of_a), price(of_b)) {
        (Some(x), Some(y)) if x < y => format!("{label_a} is cheaper"),
        (Some(x), Some(y)) if x > y => format!("{label_b} is cheaper"),
        (Some(_), Some(_)) => "equal".to_owned(),
        _ => "unknown".to_owned(),
    };
    let money = |entry: &Entry| price(entry).map_or_else(|| "<small>unknown</small>".to_owned(), usd);
    row("Price per M tokens, 3:1", money(of_a), money(of_b), cheaper);
    row("Requests", a.errors.n.to_string(), b.errors.n.to_string(), String::new());
    out.push_str("</tbody></table>\n<section class=\"pair\"><h2>Day by day</h2>\n");
    let named = |entry: &Entry| board.providers[entry.provider].label.clone();
    let lines = [(named(of_a), of_a), (named(of_b), of_b)];
    half_chart(out, &course::of_entries(board, &lines, load, Metric::OutputSpeed));
    half_chart(out, &course::of_entries(board, &lines, load, Metric::Ttft));
    out.push_str("</section>\n<section class=\"pair\"><h2>Request by request</h2>\n");
    for metric in [Metric::OutputSpeed, Metric::Ttft] {
        let sample = |entry: &Entry, summary: &Summary| Sample {
            name: named(entry),
            values: summary.values(metric).iter().map(|value| course::on_axis(metric, *value)).collect(),
            failed: 0,
        };
        half_chart(
            out,
            &DistributionChart {
                title: format!("{} of single requests", crate::html::title_case(metric.words())),
                description: "Share of answered requests at or below a value.".to_owned(),
                x: course::axis(metric),
                samples: vec![sample(of_a, a), sample(of_b, b)],
                ..DistributionChart::default()
            },
        );
    }
    out.push_str("</section>\n");
}
