//! The leaderboard: the answer for each model, what changed this week, and the ranked rows.
//!
//! Invariant: rows are ranked within their group only; a row without enough samples, a claim, and requests in quarantine have
//! no rank.

use crate::board::{Board, COURSE_DAYS, DAY_MS};
use crate::data::{ChangeKind, Claim, Metric};
use crate::html::{Frame, change_words, estimate, kind_words, name, page, quantity, share, text, usd};
use crate::links::{Links, Mode, Ranked, Target};
use crate::pages::{answer, filters};
use crate::view::{Group, Row, Sort, View};
use crate::window::Load;
use std::fmt::Write as _;
use tokrate_charts::escape;
use tokrate_charts::format;

/// Width of a picture of an interval, in pixels.
const BAR: f64 = 150.0;

/// The page.
pub(crate) fn render(board: &Board, target: &Target, view: &View, mode: Mode) -> String {
    let links = Links::from(board, target, mode);
    let groups = board.groups(view);
    let mut out = String::with_capacity(256 * 1024);
    let heading = match view.model {
        Some(model) => format!("Which endpoint for {}", name(&board.models[model])),
        None => "Which endpoint to use now".to_owned(),
    };
    let _ = writeln!(out, "<h1>{heading}</h1>\n<p class=\"subtitle\">{}</p>", filters::sentence(&links, view));
    notices(&mut out, board);
    filters::render(&mut out, &links, Ranked::Leaderboard, view);
    if groups.is_empty() {
        out.push_str(
            "<p class=\"none\">Nothing was measured here in this window. A longer one may have something.</p>\n",
        );
    } else {
        answer::cards(&mut out, &links, view, &groups);
    }
    answer::week(&mut out, &links, view.model);
    if !groups.is_empty() {
        table(&mut out, &links, view, &groups);
    }
    let title = view.model.map_or_else(String::new, |model| board.models[model].label.clone());
    let description =
        "Which endpoint is fastest for a model now, how sure that is and what changed this week.".to_owned();
    page(&links, &Frame { title, description, target }, &out)
}

/// The page of a board without data.
pub(crate) fn empty(board: &Board, target: &Target, mode: Mode) -> String {
    let links = Links::from(board, target, mode);
    let mut out = String::from("<h1>Nothing measured yet</h1>\n");
    notices(&mut out, board);
    out.push_str("<p>As soon as the first probes are done, they are here. A median needs six of them.</p>\n");
    let description = "Nothing measured yet.".to_owned();
    page(&links, &Frame { title: String::new(), description, target }, &out)
}

/// What a reader must know before any number.
pub(crate) fn notices(out: &mut String, board: &Board) {
    let silent =
        board.data.probers.iter().filter(|prober| crate::pages::places::is_silent(prober, board.data.now_unix_ms));
    let silent: Vec<String> = silent.map(|prober| text(&prober.name)).collect();
    if board.data.notices.is_empty() && silent.is_empty() {
        return;
    }
    out.push_str("<ul class=\"notices\">");
    for notice in &board.data.notices {
        let _ = write!(out, "<li>{}</li>", text(notice));
    }
    if !silent.is_empty() {
        let _ = write!(out, "<li>Silent: {}. What they measured is not up to date.</li>", silent.join(", "));
    }
    out.push_str("</ul>\n");
}

fn table(out: &mut String, links: &Links<'_>, view: &View, groups: &[Group<'_>]) {
    let second = if view.sort == Sort::By(Metric::E2e) { Metric::E2e } else { Metric::Ttft };
    let _ = writeln!(
        out,
        "<section><h2 id=\"all\">All endpoints</h2>\n<p class=\"lead\">Ranked within each model by {}: places that cannot be told apart are shared. {} Sorted by the end of the interval that a cautious reader takes.</p>",
        view.sort.metric().words(),
        links.link(&Target::Method, "What a shared place means."),
    );
    out.push_str("<table class=\"board\"><thead><tr><th scope=\"col\">Rank</th>");
    head(out, links, view, Sort::Name, "Endpoint");
    head(out, links, view, Sort::By(Metric::OutputSpeed), "Output speed <small>tok/s, median, 95 %</small>");
    head(
        out,
        links,
        view,
        Sort::By(second),
        if second == Metric::Ttft {
            "TTFT <small>median, 95 %</small>"
        } else {
            "Total time <small>median, 95 %</small>"
        },
    );
    head(out, links, view, Sort::By(Metric::Errors), "Failed <small>of requests</small>");
    head(out, links, view, Sort::Price, "Price <small>per M tokens, 3:1</small>");
    out.push_str("<th scope=\"col\" class=\"n\">n</th><th scope=\"col\">14 days <small>daily median speed</small></th><th scope=\"col\">This week</th></tr></thead>\n");
    for group in groups {
        let is_split = groups.iter().filter(|other| other.model() == group.model()).count() > 1;
        body(out, links, view, (group, is_split), second);
    }
    out.push_str("</table>\n");
    let other = if second == Metric::Ttft { Sort::By(Metric::E2e) } else { Sort::By(Metric::Ttft) };
    let target = Target::Ranked(Ranked::Leaderboard, View { sort: other, ..*view });
    let csv = Target::Ranked(Ranked::Csv, *view);
    let json = Target::Ranked(Ranked::Json, *view);
    let _ = writeln!(
        out,
        "<p class=\"note\">{}. These rows as {} or {}. This address is the link to share: it holds every filter.</p></section>",
        links.link(&target, &format!("Sort by {}", other.words())),
        links.link(&csv, "CSV"),
        links.link(&json, "JSON"),
    );
}

fn head(out: &mut String, links: &Links<'_>, view: &View, sort: Sort, words: &str) {
    let class = if sort == Sort::Name { "" } else { " class=\"n\"" };
    if view.sort == sort {
        let falls = sort == Sort::By(Metric::OutputSpeed);
        let (direction, arrow) = if falls { ("descending", "\u{a0}↓") } else { ("ascending", "\u{a0}↑") };
        let words = words.replacen(" <small>", &format!("{arrow} <small>"), 1);
        let arrow = if words.contains(arrow) { "" } else { arrow };
        let _ = write!(out, "<th scope=\"col\"{class} aria-sort=\"{direction}\">{words}{arrow}</th>");
        return;
    }
    let target = Target::Ranked(Ranked::Leaderboard, View { sort, ..*view });
    let (linked, rest) =
        words.split_once(" <small>").map_or((words, String::new()), |(a, b)| (a, format!(" <small>{b}")));
    let _ = write!(out, "<th scope=\"col\"{class}>{}{rest}</th>", links.link(&target, linked));
}

fn body(out: &mut String, links: &Links<'_>, view: &View, (group, is_split): (&Group<'_>, bool), second: Metric) {
    let board = links.board;
    let model = group.model();
    let conditions = &board.fingerprints[group.fingerprint()];
    let split = if is_split { format!(" <small>conditions {}</small>", name(conditions)) } else { String::new() };
    let _ = writeln!(
        out,
        "<tbody><tr class=\"group\"><th scope=\"rowgroup\" colspan=\"9\">{}{split}</th></tr>",
        links.link(&Target::Model(model), &name(&board.models[model]))
    );
    let claims: Vec<&Claim> = board
        .data
        .claims
        .iter()
        .filter(|claim| {
            claim.model == board.models[model].full
                && claim.metric == Metric::OutputSpeed
                && claim.value.is_finite()
                && is_of_view(claim, board, view)
        })
        .collect();
    let speeds = group.rows.iter().filter_map(|row| {
        let speed = row.summary.median(Metric::OutputSpeed);
        speed.high.or(speed.value)
    });
    let most = speeds.chain(claims.iter().map(|claim| claim.value)).fold(0.0, f64::max);
    for row in &group.rows {
        line(out, links, view, row, second, most);
    }
    for claim in claims {
        claim_line(out, claim, most);
    }
    out.push_str("</tbody>\n");
}

fn line(out: &mut String, links: &Links<'_>, view: &View, row: &Row<'_>, second: Metric, most: f64) {
    let (board, entry, summary) = (links.board, row.entry, row.summary);
    let ranks = entry.ranks(view.load, view.window, view.sort.metric());
    let rank = ranks.map_or_else(|| "–".to_owned(), |ranks| ranks.to_string());
    let class = if row.summary.fails() { " class=\"fails\"" } else { "" };
    let speed = summary.median(Metric::OutputSpeed);
    let address = links.always(&Target::Endpoint(entry.endpoint));
    let _ = write!(
        out,
        "<tr{class}><td class=\"rank\">{rank}</td><th scope=\"row\"><a href=\"{address}\">{}</a></th>",
        name(&board.endpoints[entry.endpoint])
    );
    let _ = write!(
        out,
        "<td class=\"n speed\" data-name=\"Output speed, tok/s\">{}{}{}</td>",
        bar(&speed, most),
        estimate(Metric::OutputSpeed, &speed).replace(" tok/s", ""),
        wrong_answers(board, entry.endpoint)
    );
    let words = if second == Metric::Ttft { "TTFT" } else { "Total time" };
    let _ = write!(out, "<td class=\"n\" data-name=\"{words}\">{}</td>", estimate(second, &summary.median(second)));
    let warning = if row.summary.fails() { " bad" } else { "" };
    let _ = write!(out, "<td class=\"n{warning}\" data-name=\"Failed\">{}</td>", share(&summary.errors));
    let price = board.blended_price(entry.endpoint).map_or_else(|| "<small>unknown</small>".to_owned(), usd);
    let _ = write!(out, "<td class=\"n\" data-name=\"Price per M tokens\">{price}</td>");
    let grey = if summary.quarantined > 0 {
        format!(" <small class=\"grey\">+{} quarantined</small>", summary.quarantined)
    } else {
        String::new()
    };
    let _ = write!(
        out,
        "<td class=\"n\" data-name=\"Samples\"><a href=\"{address}#conditions\">{}</a>{grey}</td>",
        summary.errors.n
    );
    let _ = write!(out, "<td class=\"spark\" data-name=\"14 days\">{}</td>", spark(board, row, view));
    let week = board.main_change(entry).map_or_else(String::new, |change| {
        let (class, word) = kind_words(change.kind);
        format!("<span class=\"state {class}\">{word}</span> <small>{}</small>", escape(&change_words(change)))
    });
    let _ = writeln!(out, "<td class=\"week\" data-name=\"This week\">{week}</td></tr>");
}

/// That an endpoint answers tasks wrong, next to how fast it does.
fn wrong_answers(board: &Board, endpoint: usize) -> String {
    let wrong = board.tasks(endpoint).filter(|tasks| tasks.right < tasks.asked);
    wrong.map_or_else(String::new, |tasks| {
        let (wrong, asked) = (tasks.asked - tasks.right, counted(tasks.asked as usize, "task", "tasks"));
        format!("<span class=\"state bad wrong\">{} of {asked} answered wrong</span>", format::count(wrong))
    })
}

/// Whether a claim belongs in a view: what was computed does for its workload and load only.
pub(crate) fn is_of_view(claim: &Claim, board: &Board, view: &View) -> bool {
    claim
        .computed
        .as_ref()
        .is_none_or(|it| it.workload == board.workloads[view.workload].full && Load::of(it.in_flight) == view.load)
}

fn claim_line(out: &mut String, claim: &Claim, most: f64) {
    let by = text(&claim.source);
    let by = if crate::html::is_web(&claim.url) {
        format!("<a href=\"{}\" rel=\"nofollow\">{by}</a>", escape(&claim.url))
    } else {
        by
    };
    let (verb, words) = if claim.computed.is_some() { ("computed", "Computed") } else { ("claimed", "Claimed") };
    let interval = claim.computed.as_ref().map_or_else(String::new, |it| {
        let end = |value| escape(&quantity(claim.metric, value).replace(" tok/s", ""));
        format!("{} to {}", end(it.interval.0), end(it.interval.1))
    });
    let at = claim.value / most.max(f64::MIN_POSITIVE) * (BAR - 8.0) + 4.0;
    let _ = write!(
        out,
        concat!(
            "<tr class=\"claim\"><td class=\"rank\">–</td><th scope=\"row\">{} <small>{verb} by {}, {}</small></th>",
            "<td class=\"n speed\" data-name=\"{words} speed, tok/s\"><svg class=\"bar\" viewBox=\"0 0 {b} 16\" aria-hidden=\"true\"><circle class=\"hollow\" cx=\"{:.1}\" cy=\"8\" r=\"4\"/></svg>",
            "<b>{}</b><small>{interval}</small></td><td colspan=\"6\"><small>not measured, never ranked</small></td></tr>\n"
        ),
        text(&claim.endpoint),
        by,
        text(&claim.date),
        at,
        escape(&quantity(claim.metric, claim.value).replace(" tok/s", "")),
        b = BAR,
        verb = verb,
        words = words,
        interval = interval,
    );
}

/// A picture of a median and its interval on a scale from 0 to `most`; the number stands next to it.
pub(crate) fn bar(estimate: &crate::window::Estimate, most: f64) -> String {
    let Some(value) = estimate.value.filter(|_| most > 0.0) else { return String::new() };
    let at = |value: f64| (value / most).clamp(0.0, 1.0) * (BAR - 4.0) + 2.0;
    let (low, high) = (at(estimate.low.unwrap_or(value)), at(estimate.high.unwrap_or(value)));
    format!(
        "<svg class=\"bar\" viewBox=\"0 0 {BAR} 16\" aria-hidden=\"true\"><path class=\"track\" d=\"M0 8h{BAR}\"/><path class=\"range\" d=\"M{low:.1} 8H{high:.1}\"/><path class=\"median\" d=\"M{:.1} 2v12\"/></svg>",
        at(value)
    )
}

const SPARK_WIDTH: f64 = 84.0;
const SPARK_HEIGHT: f64 = 20.0;

/// The daily medians of 14 days, with a dot where a lasting regression began. The page of the endpoint has the numbers.
fn spark(board: &Board, row: &Row<'_>, view: &View) -> String {
    let course: Vec<Option<f64>> = row.entry.course(view.load).iter().map(|value| value.map(f64::from)).collect();
    let values = || course.iter().flatten();
    let (low, high) = values().fold((f64::INFINITY, 0.0f64), |(l, h), v| (l.min(*v), h.max(*v)));
    if values().count() < 2 {
        return String::new();
    }
    // A little below the lowest, so that a change of a tenth shows and noise does not fill the height.
    let bottom = low * 0.8;
    let x = |day: f64| 2.0 + day / (COURSE_DAYS - 1) as f64 * (SPARK_WIDTH - 4.0);
    let y = |value: f64| SPARK_HEIGHT - 2.0 - (value - bottom) / (high - bottom).max(1e-9) * (SPARK_HEIGHT - 4.0);
    let mut path = String::new();
    let mut is_open = false;
    for (day, value) in course.iter().enumerate() {
        if let Some(value) = value {
            let command = if is_open { 'L' } else { 'M' };
            let _ = write!(path, "{command}{:.0} {:.1}", x(day as f64), y(*value));
        }
        is_open = value.is_some();
    }
    let began = board.changes_of(row.entry).find(|change| {
        change.kind == ChangeKind::Regression && change.until.is_none() && change.metric == Metric::OutputSpeed.name()
    });
    let dot = began.map_or_else(String::new, |change| {
        let ago = (board.data.now_unix_ms - change.since) / DAY_MS;
        let day = COURSE_DAYS as i64 - 1 - ago;
        let at = usize::try_from(day).ok().and_then(|day| course.get(day).copied().flatten().map(|v| (day, v)));
        at.map_or_else(String::new, |(day, value)| {
            format!("<circle class=\"drop\" cx=\"{:.0}\" cy=\"{:.1}\" r=\"2.5\"/>", x(day as f64), y(value))
        })
    });
    format!(
        "<svg class=\"course\" viewBox=\"0 0 {SPARK_WIDTH} {SPARK_HEIGHT}\" aria-hidden=\"true\"><path d=\"{path}\"/>{dot}</svg>"
    )
}

/// A number of rows in words.
pub(crate) fn counted(n: usize, one: &str, many: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{} {many}", format::count(n as u64)) }
}
