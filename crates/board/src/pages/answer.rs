//! The answer of a ranked page: which endpoint to use for a model, how sure that is, what changed.
//!
//! Invariant: a name is put forward only from rows that may be in the first place and do not fail for sure; without enough samples
//! it says how many are missing.

use crate::board::Board;
use crate::data::{Change, ChangeKind, Metric};
use crate::html::{
    change_words, estimate, half_chart, interval, kind_words, lacking, name, quantity, share, title_case, usd,
};
use crate::links::{Links, Target};
use crate::pages::bars;
use crate::view::{Group, Row, View};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use tokrate_charts::{escape, format};

/// Cards on the first screen.
pub(crate) const MAX_CARDS: usize = 6;
/// Names in one answer; more are counted.
const MAX_NAMES: usize = 3;
/// Changes in the list of the week.
const MAX_CHANGES: usize = 6;

/// The cards of the groups with the most rows.
pub(crate) fn cards(out: &mut String, links: &Links<'_>, view: &View, groups: &[Group<'_>]) {
    let mut order: Vec<usize> = (0..groups.len()).collect();
    order.sort_by_key(|index| (std::cmp::Reverse(groups[*index].rows.len()), *index));
    order.truncate(MAX_CARDS);
    order.sort_unstable();
    let _ = writeln!(out, "<div class=\"answers{}\">", if order.len() == 1 { " single" } else { "" });
    for index in &order {
        let group = &groups[*index];
        let is_split = groups.iter().filter(|other| other.model() == group.model()).count() > 1;
        card(out, links, view, group, is_split);
    }
    if let [only] = order.as_slice() {
        let group = &groups[*only];
        out.push_str("<div class=\"beside\">");
        half_chart(out, &bars::of_rows(links.board, view, &group.rows, view.sort.metric()));
        out.push_str("</div>");
    }
    out.push_str("</div>\n");
    if groups.len() > order.len() {
        let _ = writeln!(
            out,
            "<p class=\"note\">The {} models with the most endpoints. The table has all {}; the filter picks one.</p>",
            order.len(),
            groups.len()
        );
    }
}

fn card(out: &mut String, links: &Links<'_>, view: &View, group: &Group<'_>, is_split: bool) {
    let board = links.board;
    let metric = view.sort.metric();
    let model = links.link(&Target::Model(group.model()), &name(&board.models[group.model()]));
    let split = if is_split {
        format!(" <small>{}</small>", name(&board.fingerprints[group.fingerprint()]))
    } else {
        String::new()
    };
    let _ = write!(out, "<section class=\"answer\"><h2>{model}{split}</h2>");
    let best = group.best(view, metric);
    let Some(first) = best.first() else {
        no_answer(out, view, group, metric);
        out.push_str("</section>\n");
        return;
    };
    let _ = write!(
        out,
        "<p class=\"pick\">{}</p>",
        links.link(&Target::Endpoint(first.entry.endpoint), &provider(board, first))
    );
    figure(out, first, metric);
    certainty(out, links, view, group, &best, metric);
    out.push_str("<dl class=\"facts\">");
    let other = if metric == Metric::OutputSpeed { Metric::Ttft } else { Metric::OutputSpeed };
    let _ = write!(
        out,
        "<div><dt>{}</dt><dd>{}</dd></div>",
        title_case(other.words()),
        estimate(other, &first.summary.median(other))
    );
    if metric != Metric::Errors {
        let _ = write!(out, "<div><dt>Failed</dt><dd>{}</dd></div>", share(&first.summary.errors));
    }
    if let Some(price) = board.blended_price(first.entry.endpoint) {
        let _ = write!(out, "<div><dt>Price</dt><dd><b>{}</b> <small>per M tokens</small></dd></div>", usd(price));
    }
    out.push_str("</dl>");
    left_out(out, links, view, group, metric);
    others(out, links, view, group, first);
    changed(out, links, group);
    out.push_str("</section>\n");
}

fn no_answer(out: &mut String, view: &View, group: &Group<'_>, metric: Metric) {
    if group.ranked(view, metric) > 0 {
        out.push_str("<p class=\"pick none\">none to recommend</p><p class=\"sure\">Each of them fails in more than 5 % of requests.</p>");
        return;
    }
    let most = group.rows.iter().map(|row| row.summary.median(metric)).max_by_key(|estimate| estimate.n);
    let _ = write!(
        out,
        "<p class=\"pick none\">not enough samples</p><p class=\"sure\">{}.</p>",
        escape(&most.map_or_else(|| "No value".to_owned(), |most| lacking(&most)))
    );
}

fn figure(out: &mut String, row: &Row<'_>, metric: Metric) {
    if metric == Metric::Errors {
        let _ =
            write!(out, "<p class=\"figure\">{} failed, n = {}</p>", share(&row.summary.errors), row.summary.errors.n);
        return;
    }
    let estimate = row.summary.median(metric);
    let value = estimate.value.map_or_else(String::new, |value| quantity(metric, value));
    let (number, unit) = value.split_once(' ').unwrap_or((&value, ""));
    let _ = write!(out, "<p class=\"figure\"><b>{}</b> {}", escape(number), escape(unit));
    if let (Some(low), Some(high)) = (estimate.low, estimate.high) {
        let _ = write!(out, " <small>95 %: {}, n = {}</small>", escape(&interval(metric, low, high)), estimate.n);
    }
    out.push_str("</p>");
}

fn certainty(out: &mut String, links: &Links<'_>, view: &View, group: &Group<'_>, best: &[Row<'_>], metric: Metric) {
    let board = links.board;
    let ranked =
        group.rows.iter().filter(|row| row.entry.reliable_ranks(view.load, view.window, metric).is_some()).count();
    let what = match metric {
        Metric::OutputSpeed => "fastest",
        Metric::Ttft => "first to start",
        Metric::Errors => "most reliable",
        _ => "soonest done",
    };
    if ranked < 2 {
        let _ = write!(out, "<p class=\"sure\">Nothing to compare it with.</p>");
    } else if best.len() == 1 {
        let _ = writeln!(out, "<p class=\"sure good\">{} of {ranked}, for sure</p>", title_case(what));
    } else {
        let names: Vec<String> = best[1..]
            .iter()
            .take(MAX_NAMES)
            .map(|row| links.link(&Target::Endpoint(row.entry.endpoint), &provider(board, row)))
            .collect();
        let more = best.len() - 1 - names.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let _ = write!(out, "<p class=\"sure open\">Cannot be told apart from {}{more}</p>", names.join(", "));
    }
}

/// Who may be ahead, but fails.
fn left_out(out: &mut String, links: &Links<'_>, view: &View, group: &Group<'_>, metric: Metric) {
    let ahead = |row: &&Row<'_>| {
        row.summary.fails() && row.entry.ranks(view.load, view.window, metric).is_some_and(|ranks| ranks.best == 1)
    };
    for row in group.rows.iter().filter(ahead).take(MAX_NAMES) {
        let share = row
            .summary
            .errors
            .value()
            .map_or_else(String::new, |share| format::percent((share * 100.0).round() / 100.0));
        let named = links.link(&Target::Endpoint(row.entry.endpoint), &provider(links.board, row));
        let _ = writeln!(out, "<p class=\"also\">Left out: {named}, which fails in {share} of requests</p>");
    }
}

/// Who is ahead in another respect.
fn others(out: &mut String, links: &Links<'_>, view: &View, group: &Group<'_>, first: &Row<'_>) {
    let board = links.board;
    let mut said = Vec::new();
    let named = |row: &Row<'_>| links.link(&Target::Endpoint(row.entry.endpoint), &provider(board, row));
    let ttft = Metric::Ttft;
    let quickest = group.best(view, ttft);
    if !quickest.is_empty()
        && view.sort.metric() != ttft
        && quickest.iter().all(|row| row.entry.endpoint != first.entry.endpoint)
    {
        let value = quickest[0].summary.median(ttft).value.map_or_else(String::new, |value| quantity(ttft, value));
        said.push(format!("Starts first: {} {}", named(&quickest[0]), escape(&value)));
    }
    let priced = group.rows.iter().filter(|row| !row.summary.fails());
    let priced = priced.filter_map(|row| Some((board.blended_price(row.entry.endpoint)?, row)));
    if let Some((price, row)) = priced.min_by(|a, b| a.0.total_cmp(&b.0))
        && row.entry.endpoint != first.entry.endpoint
    {
        said.push(format!("Cheapest: {} {}", named(row), usd(price)));
    }
    if !said.is_empty() {
        let _ = write!(out, "<p class=\"also\">{}</p>", said.join(" · "));
    }
}

/// What changed this week in a group: what is worse first.
fn changed(out: &mut String, links: &Links<'_>, group: &Group<'_>) {
    let board = links.board;
    let mut changes: Vec<(&Row<'_>, &Change)> =
        group.rows.iter().filter_map(|row| Some((row, board.main_change(row.entry)?))).collect();
    changes.sort_by_key(|(_, change)| (urgency(change.kind), std::cmp::Reverse(change.at)));
    for (row, change) in changes.into_iter().take(2) {
        let (class, _) = kind_words(change.kind);
        let _ = write!(
            out,
            "<p class=\"changed {class}\">{}: {}</p>",
            links.link(&Target::Endpoint(row.entry.endpoint), &provider(board, row)),
            escape(&change_words(change))
        );
    }
}

fn urgency(kind: ChangeKind) -> u8 {
    match kind {
        ChangeKind::Regression => 0,
        ChangeKind::Errors | ChangeKind::Fidelity => 1,
        ChangeKind::Cycle => 2,
        ChangeKind::Improvement => 3,
        _ => 4,
    }
}

/// The changes of this week, the most urgent first: all, or those of a model and of whole places.
pub(crate) fn week(out: &mut String, links: &Links<'_>, model: Option<usize>) {
    let board = links.board;
    let of_model: BTreeSet<&str> = board
        .entries
        .iter()
        .filter(|entry| model.is_none_or(|model| entry.model == model))
        .map(|entry| board.endpoints[entry.endpoint].full.as_str())
        .collect();
    let is_shown =
        |change: &&Change| model.is_none() || change.endpoint.is_empty() || of_model.contains(change.endpoint.as_str());
    let mut changes: Vec<&Change> = board
        .changes
        .iter()
        .filter(|change| board.is_of_this_week(change) && change.kind != ChangeKind::Suspect)
        .filter(is_shown)
        .collect();
    changes.sort_by_key(|change| (urgency(change.kind), std::cmp::Reverse(change.at)));
    out.push_str("<section class=\"week\"><h2>What changed this week</h2>");
    if changes.is_empty() {
        out.push_str("<p class=\"none\">Nothing that can be told from chance.</p></section>\n");
        return;
    }
    out.push_str("<ul class=\"changes\">");
    for change in changes.iter().take(MAX_CHANGES) {
        change_line(out, links, change);
    }
    out.push_str("</ul>");
    let _ = writeln!(
        out,
        "<p class=\"note\">{}</p></section>",
        links.link(&Target::Changes, &format!("All changes ({})", board.changes.len()))
    );
}

/// One change as an item of a list.
pub(crate) fn change_line(out: &mut String, links: &Links<'_>, change: &Change) {
    let board = links.board;
    let (class, word) = kind_words(change.kind);
    let named = match board.endpoints.index(&change.endpoint) {
        Some(index) => links.link(&Target::Endpoint(index), &name(&board.endpoints[index])),
        None if change.endpoint.is_empty() => "all endpoints".to_owned(),
        None => crate::html::text(&change.endpoint),
    };
    // Changes of one endpoint differ by what it was asked.
    let of = |before: &str, what: &str| match what.is_empty() {
        true => String::new(),
        false => format!("{before}{}", crate::html::text(what)),
    };
    let workload = if change.endpoint.is_empty() { "" } else { &change.workload };
    let asked = of(", ", workload) + &of(" from ", &change.place);
    let sure = change.interval.map_or_else(String::new, |(low, high)| {
        format!(
            " <small>95 %: {} to {}, n = {}</small>",
            escape(&crate::html::signed_percent(low, &change.metric)),
            escape(&crate::html::signed_percent(high, &change.metric)),
            change.n
        )
    });
    let over =
        change.until.map_or_else(String::new, |until| format!(" <small>over on {}</small>", crate::html::day(until)));
    let _ = write!(
        out,
        "<li><span class=\"state {class}\">{word}</span> <span>{named}{asked}: {}{sure}{over}</span></li>",
        escape(&change_words(change))
    );
}

/// Who runs the endpoint of a row, escaped.
pub(crate) fn provider(board: &Board, row: &Row<'_>) -> String {
    name(&board.providers[row.entry.provider])
}
