//! The frame of a page and the small pieces that pages share.
//!
//! Invariant: nothing is inline that a content security policy forbids: no scripts, no style attributes, no event handlers.
//! Every text from outside passes through [`text`] or [`Name::label`].

use crate::board::{Board, DAY_MS};
use crate::data::{Change, ChangeKind, Metric};
use crate::links::{Links, Mode, Ranked, Target};
use crate::names::{MAX_SENTENCE_BYTES, Name};
use crate::window::{Estimate, Share};
use std::fmt::Write as _;
use tokrate_charts::{Block, Chart, Size, escape, format};
use tokrate_core::{Date, one_line, rfc3339};

/// The content security policy for every page: own styles, own pictures, own forms, nothing else.
pub const POLICY: &str = "default-src 'none'; style-src 'self'; img-src 'self' data:; base-uri 'none'; \
                          form-action 'self'; frame-ancestors 'none'";

/// The style sheet: the charts', then the board's own.
pub(crate) fn style() -> String {
    format!("{}{}", tokrate_charts::STYLE, include_str!("board.css"))
}

/// A text from outside, bounded and escaped.
pub(crate) fn text(text: &str) -> String {
    escape(&one_line(text, MAX_SENTENCE_BYTES))
}

/// A name, escaped.
pub(crate) fn name(name: &Name) -> String {
    escape(&name.label)
}

/// What a page is called and what of the navigation is current.
pub(crate) struct Frame<'a> {
    pub(crate) title: String,
    pub(crate) description: String,
    pub(crate) target: &'a Target,
}

/// The whole page around its content.
pub(crate) fn page(links: &Links<'_>, frame: &Frame<'_>, content: &str) -> String {
    let board = links.board;
    let site = text(&board.data.title);
    let title = if frame.title.is_empty() { site.clone() } else { format!("{} · {site}", escape(&frame.title)) };
    let mut out = String::with_capacity(content.len() + 4_096);
    let _ = write!(
        out,
        concat!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n",
            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n",
            "<meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"referrer\" content=\"no-referrer\">\n",
            "<meta name=\"description\" content=\"{}\">\n<title>{}</title>\n<link rel=\"icon\" href=\"data:,\">\n",
            "<link rel=\"stylesheet\" href=\"{}\">\n",
            "<link rel=\"alternate\" type=\"application/atom+xml\" title=\"Changes\" href=\"{}\">\n</head>\n<body>\n",
            "<a class=\"skip\" href=\"#main\">To the content</a>\n<header class=\"top\"><p class=\"brand\">{}</p>\n"
        ),
        escape(&frame.description),
        title,
        links.always(&Target::Style),
        links.always(&Target::Feed),
        links.link(&home(board), &site),
    );
    navigation(&mut out, links, frame.target);
    let _ = writeln!(out, "</header>\n<main id=\"main\">\n{content}</main>");
    let _ = write!(
        out,
        concat!(
            "<footer><p>As of {}. Medians with 95 % intervals; ranks are ranges: {}.</p>",
            "<p>For machines: {}, {}, {}. tokrate {}.</p></footer>\n</body>\n</html>\n"
        ),
        moment(board.data.now_unix_ms),
        links.link(&Target::Method, "how to read this"),
        links.link(&Target::Api, "JSON"),
        links.link(&ranked(board, Ranked::Csv), "CSV"),
        links.link(&Target::Feed, "Atom feed of changes"),
        env!("CARGO_PKG_VERSION"),
    );
    out
}

/// The usual view of a ranked page.
pub(crate) fn ranked(board: &Board, ranked: Ranked) -> Target {
    board.default_view().map_or(Target::Empty(ranked), |view| Target::Ranked(ranked, view))
}

fn home(board: &Board) -> Target {
    ranked(board, Ranked::Leaderboard)
}

fn navigation(out: &mut String, links: &Links<'_>, current: &Target) {
    out.push_str("<nav aria-label=\"Board\"><ul>");
    let kind = |target: &Target| match target {
        Target::Ranked(ranked, _) | Target::Empty(ranked) => Some(*ranked),
        _ => None,
    };
    let items = [
        (home(links.board), "Leaderboard"),
        (ranked(links.board, Ranked::Quadrants), "Price and speed"),
        (ranked(links.board, Ranked::Scorecard), "Scorecard"),
        (Target::Compare, "Compare"),
        (Target::Changes, "Changes"),
        (Target::Places, "Places"),
        (Target::Method, "Methodology"),
    ];
    for (target, words) in items {
        let is_current = target == *current
            || kind(&target).is_some_and(|kind_of| Some(kind_of) == kind(current))
            || (target == Target::Compare && matches!(current, Target::ComparePair(..)));
        let current = if is_current { " aria-current=\"page\"" } else { "" };
        let _ = write!(out, "<li><a href=\"{}\"{current}>{words}</a></li>", links.always(&target));
    }
    out.push_str("</ul></nav>");
}

/// A chart with its heading, both sizes and its table.
pub(crate) fn figure(out: &mut String, chart: &impl Chart, heading: &str) {
    let Block::Chart { title, description, wide, narrow, table } = Block::chart(chart) else { return };
    let _ = write!(
        out,
        concat!(
            "<figure><{h}>{title}</{h}><p class=\"lead\">{description}</p><div class=\"wide\">{wide}</div>",
            "<div class=\"narrow\">{narrow}</div><details><summary>The numbers as a table</summary>{table}</details></figure>\n"
        ),
        h = heading,
        title = escape(&title),
        description = escape(&description),
        wide = wide,
        narrow = narrow,
        table = table.html(),
    );
}

/// A chart that is half as wide as the page on a desktop.
pub(crate) fn half_chart(out: &mut String, chart: &impl Chart) {
    let _ = write!(
        out,
        concat!(
            "<figure><h3>{}</h3><p class=\"lead\">{}</p><div class=\"wide\">{}</div><div class=\"narrow\">{}</div>",
            "<details><summary>The numbers as a table</summary>{}</details></figure>\n"
        ),
        escape(chart.title()),
        escape(chart.description()),
        chart.panel(Size::Half),
        chart.panel(Size::Narrow),
        chart.table().html(),
    );
}

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

fn seconds(unix_ms: i64) -> u64 {
    u64::try_from(unix_ms.div_euclid(1_000)).unwrap_or(0)
}

/// A day: "21 Nov".
pub(crate) fn day(unix_ms: i64) -> String {
    let date = Date::of_seconds(seconds(unix_ms));
    let month = MONTHS.get((date.month as usize).wrapping_sub(1)).copied().unwrap_or("?");
    format!("{} {month}", date.day)
}

/// A time for machines.
pub(crate) fn rfc(unix_ms: i64) -> String {
    rfc3339(seconds(unix_ms))
}

/// A time as an element: "21 Nov 14:25 UTC".
pub(crate) fn moment(unix_ms: i64) -> String {
    let second = seconds(unix_ms) % 86_400;
    let machine = rfc(unix_ms);
    format!("<time datetime=\"{machine}\">{} {:02}:{:02} UTC</time>", day(unix_ms), second / 3_600, second / 60 % 60)
}

/// Days since 1970, for axes.
pub(crate) fn in_days(unix_ms: i64) -> f64 {
    unix_ms as f64 / DAY_MS as f64
}

/// A value of a metric with its unit: "284 tok/s", "312 ms".
pub(crate) fn quantity(metric: Metric, value: f64) -> String {
    match metric {
        Metric::OutputSpeed => format!("{} tok/s", format::number(value)),
        Metric::Errors => format::percent(value),
        _ => format::seconds(value / 1_000.0),
    }
}

/// An interval of a metric, in the unit that fits both ends: "271–301", "290–340 ms".
pub(crate) fn interval(metric: Metric, low: f64, high: f64) -> String {
    let dash = |low: f64, high: f64| {
        let ends = format::column(&[Some(low), Some(high)]);
        format!("{}–{}", ends[0], ends[1])
    };
    match metric {
        Metric::OutputSpeed => dash(low, high),
        Metric::Errors => {
            let tenths = |share: f64| format::fixed(rounded(share * 100.0), 1).trim_end_matches(".0").to_owned();
            format!("{}–{} %", tenths(low), tenths(high))
        }
        _ if high >= 999.5 => format!("{} s", dash(low / 1_000.0, high / 1_000.0)),
        _ => format!("{} ms", dash(low, high)),
    }
}

/// Per cent to a tenth: what a share of a few hundred requests can say.
fn rounded(percent: f64) -> f64 {
    (percent * 10.0).round() / 10.0
}

/// A median with its interval, or what it lacks.
pub(crate) fn estimate(metric: Metric, estimate: &Estimate) -> String {
    match (estimate.value, estimate.low, estimate.high) {
        (Some(value), Some(low), Some(high)) => format!(
            "<b>{}</b> <small>{}</small>",
            escape(&quantity(metric, value)),
            escape(&interval(metric, low, high))
        ),
        (Some(value), ..) => format!("<b>{}</b>", escape(&quantity(metric, value))),
        (None, ..) => format!("<small>{}</small>", lacking(estimate)),
    }
}

/// Why there is no number.
pub(crate) fn lacking(estimate: &Estimate) -> String {
    match estimate.n {
        0 => "no value".to_owned(),
        n => format!("n = {n}, {} more needed", estimate.missing()),
    }
}

/// A share of failures with its interval.
pub(crate) fn share(share: &Share) -> String {
    match (share.value(), share.interval) {
        (Some(value), Some((low, high))) => format!(
            "<b>{}</b> <small>{}</small>",
            escape(&format::percent(rounded(value * 100.0) / 100.0)),
            escape(&interval(Metric::Errors, low, high))
        ),
        _ => "<small>no request</small>".to_owned(),
    }
}

/// An amount of money, escaped: cents from a dollar on, two or three digits below; what is no amount is missing.
pub(crate) fn usd(amount: f64) -> String {
    match amount {
        a if !(0.0..1e15).contains(&a) => format::MISSING.to_owned(),
        a if a >= 100.0 => format!("${}", format::number(a)),
        a if a >= 1.0 => format!("${a:.2}"),
        0.0 => "free".to_owned(),
        a if a >= 1e-6 => {
            let places = (1 - a.log10().floor() as i32).clamp(2, 8) as usize;
            format!("${a:.places$}")
        }
        _ => "&lt; $0.000001".to_owned(),
    }
}

/// A change in a few words: "output speed −23 % since 21 Nov".
pub(crate) fn change_words(change: &Change) -> String {
    let what = metric_words(&change.metric);
    let since = day(change.since);
    let size = change.change.map(|size| signed_percent(size, &change.metric));
    match (change.kind, size) {
        (ChangeKind::Quarantine, _) => format!("probes quarantined since {since}: the prober was at fault"),
        (ChangeKind::Cycle, Some(size)) => format!("{what} {size} at some hours of the day since {since}"),
        (ChangeKind::Cycle, None) => format!("{what} worse at some hours of the day since {since}"),
        (ChangeKind::Spread, _) => format!("{what} scatters differently since {since}"),
        (ChangeKind::Fidelity, Some(size)) => format!("wrong answers to tasks {size} since {since}"),
        (ChangeKind::Stream, _) => format!("the stream has another form since {since}"),
        (_, Some(size)) => format!("{what} {size} since {since}"),
        (_, None) => format!("{what} changed on {since}"),
    }
}

/// The name of a metric of the detector in sentences; bounded, not escaped.
pub(crate) fn metric_words(metric: &str) -> String {
    let known = Metric::ALL.into_iter().find(|known| known.name() == metric);
    known.map_or_else(|| one_line(&metric.replace('_', " "), 40), |known| known.words().to_owned())
}

/// A relative change, or a difference of shares in points.
pub(crate) fn signed_percent(change: f64, metric: &str) -> String {
    let sign = if change > 0.0 { "+" } else { "" };
    // Tripled and more reads better as a factor.
    if metric != "errors" && change >= 2.0 {
        return format!("× {}", format::plain((change + 1.0).clamp(0.0, 1e6)));
    }
    let percent = format::fixed((change * 100.0).clamp(-1e6, 1e6), 0);
    if metric == "errors" { format!("{sign}{percent} points") } else { format!("{sign}{percent} %") }
}

/// Class and word of a kind of change.
pub(crate) fn kind_words(kind: ChangeKind) -> (&'static str, &'static str) {
    match kind {
        ChangeKind::Regression => ("bad", "worse"),
        ChangeKind::Improvement => ("good", "better"),
        ChangeKind::Suspect => ("soft", "suspect"),
        ChangeKind::Spread => ("warning", "scatter"),
        ChangeKind::Cycle => ("warning", "daily cycle"),
        ChangeKind::Errors => ("warning", "errors"),
        ChangeKind::Fidelity => ("bad", "wrong answers"),
        ChangeKind::Quarantine => ("soft", "quarantine"),
        ChangeKind::Stream => ("info", "stream"),
        ChangeKind::Other => ("info", "other"),
    }
}

/// A note that ranked numbers are files in a folder and not every combination is there.
pub(crate) fn folder_note(links: &Links<'_>) -> &'static str {
    match links.mode {
        Mode::Served => "",
        Mode::Files => {
            "<p class=\"note\">These are files: filters combine two at a time. A served board combines all.</p>"
        }
    }
}

/// Whether an address may become a link.
pub(crate) fn is_web(url: &str) -> bool {
    (url.starts_with("https://") || url.starts_with("http://"))
        && url.len() <= 500
        && !url.contains(char::is_whitespace)
}

/// The first letter large.
pub(crate) fn title_case(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
