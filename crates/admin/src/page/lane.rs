//! The page of one lane: its state and since when, its measured curve, its range over time, its errors, hedges, prices and limits.
//!
//! Invariant: measured points stand apart from what was learned, with their intervals; two points are not joined.

use super::columns::{Columns, Counts};
use super::lanes::state_description;
use super::range::{over_time, spreads};
use super::shell::Tab;
use super::view::View;
use super::{Figure, Input, apart_if_few, chart_pair, course, errors, figures, moment, share, usd};
use std::fmt::Write as _;
use tokrate_charts::{Axis, LineChart, Point, Series, SeriesStyle, escape, format};
use tokrate_core::Money;
use tokrate_gateway::telemetry::{BreakerChange, LaneStatus, Snapshot};
use tokrate_route::LoserPolicy;
use tokrate_stats::{Quantile, QuantileStatus};
use tokrate_store::{Bucket, LaneReport, LoadPoint, Report};

/// The whole page. `loads` is what was measured at each load in the range.
pub(crate) fn lane(input: &Input<'_>, name: &str, loads: &[LoadPoint]) -> String {
    let more = [("lane", name)];
    let shell = input.shell((name, Tab::Overview, "/lane"), &more, &more);
    shell.document(&content(input, name, loads))
}

fn content(input: &Input<'_>, name: &str, loads: &[LoadPoint]) -> String {
    let Input { snapshot, view, report } = input;
    let status = snapshot.lanes.iter().find(|lane| lane.name == name);
    let mut out = String::new();
    let time = super::clock_time(snapshot.now_unix_ms);
    let _ = writeln!(out, "<h1 id=\"asof\">Lane {} <span>{time} UTC</span></h1>", escape(name));
    state(&mut out, snapshot, status);
    match report {
        Some(Ok(report)) => of_range(&mut out, input, name, status, report, loads),
        Some(Err(error)) => {
            let _ = writeln!(
                out,
                "<section id=\"range\"><p class=\"state bad\">the throughput log cannot be read: {}</p></section>",
                escape(error)
            );
        }
        None => {
            out.push_str("<section id=\"range\"><p class=\"none\">Without a log its past is not known.</p></section>\n")
        }
    }
    if let Some(status) = status {
        facts(&mut out, snapshot, view, status);
    }
    out
}

fn state(out: &mut String, snapshot: &Snapshot, status: Option<&LaneStatus>) {
    out.push_str("<section id=\"state\" aria-label=\"State\">");
    let Some(status) = status else {
        out.push_str("<p class=\"none\">It is not configured any more.</p></section>\n");
        return;
    };
    let (class, words) = state_description(status.state);
    let _ = write!(out, "<p class=\"state {class}\">{}</p>", escape(&words));
    if status.breaker_changes.is_empty() {
        out.push_str("<p class=\"note\">Its breaker has not opened since the start.</p></section>\n");
        return;
    }
    let count = status.breaker_changes.len();
    let _ = write!(
        out,
        "<p class=\"note\">Its breaker {}</p><details id=\"breaker\"><summary id=\"breaker-head\">The last {count} times that it opened or closed</summary><ol class=\"changes\">",
        change_in_words(snapshot, &status.breaker_changes[0])
    );
    for change in &status.breaker_changes {
        let _ = write!(out, "<li>{}</li>", change_in_words(snapshot, change));
    }
    out.push_str("</ol></details></section>\n");
}

/// A change of the breaker, as markup.
fn change_in_words(snapshot: &Snapshot, change: &BreakerChange) -> String {
    let time = moment(change.at_unix_ms, snapshot.now_unix_ms);
    match change.opened_for {
        Some(span) => {
            let cause = change.cause.as_deref().unwrap_or("it failed");
            format!(
                "<span class=\"state bad\">opened</span> at <time>{time}</time> for {}: {}",
                escape(&format::span(span)),
                escape(cause)
            )
        }
        None => format!("<span class=\"state good\">closed</span> at <time>{time}</time>: it answered"),
    }
}

fn of_range(
    out: &mut String,
    input: &Input<'_>,
    name: &str,
    status: Option<&LaneStatus>,
    report: &Report,
    loads: &[LoadPoint],
) {
    let Input { snapshot, view, .. } = input;
    let Some(lane) = report.lanes.get(name) else {
        let _ = writeln!(
            out,
            "<section id=\"range\"><p class=\"none\">No attempt of it in the range ({}).</p></section>",
            escape(&view.range_in_words())
        );
        return;
    };
    range_figures(out, lane);
    out.push_str("<div id=\"cut\">");
    if report.is_cut {
        let _ = write!(
            out,
            "<p class=\"note\">Of the newest {} attempts of the range, begun since {}.</p>",
            format::count(crate::reports::MAX_ROWS),
            moment(report.from_unix_ms, snapshot.now_unix_ms)
        );
    }
    out.push_str("</div>\n");
    over(out, report, name, lane);
    curve(out, status, loads);
    errors::render(out, snapshot, view, report, Some(name));
    hedges(out, report, lane);
}

fn range_figures(out: &mut String, lane: &LaneReport) {
    use super::range::{ms_in_words, quantile, speed_in_words};
    let tally = &lane.tally;
    let or_missing = |text: Option<String>| text.unwrap_or_else(|| format::MISSING.to_owned());
    let n = |count: u64, of: &str| format!("n = {} {of}", format::count(count));
    let models: Vec<&str> = lane.models.iter().map(String::as_str).collect();
    let mixed = if models.len() > 1 { format!("; mixed: {}", models.join(", ")) } else { String::new() };
    let cache = lane.cache.cached_share().zip(lane.cache.expected_share()).map(|(cached, expected)| Figure {
        label: "Prompt from the cache",
        value: share(cached, 1.0),
        note: format!("{} expected, {}", share(expected, 1.0), n(lane.cache.attempts, "attempts")),
    });
    let mut shown = vec![
        Figure {
            label: "Attempts",
            value: format::count(tally.attempts),
            note: format!("{} answered, {} lost{mixed}", format::count(tally.answered), format::count(tally.lost)),
        },
        Figure {
            label: "Failed",
            value: share(tally.failed as f64, tally.attempts as f64),
            note: format!("{} attempts", format::count(tally.failed)),
        },
        Figure {
            label: "TTFT, p50",
            value: or_missing(quantile(&lane.ttft.p50, ms_in_words)),
            note: format!("p90 {}, {}", or_missing(quantile(&lane.ttft.p90, ms_in_words)), n(lane.ttft.n, "streams")),
        },
        Figure {
            label: "Output speed, p50",
            value: or_missing(quantile(&lane.tpot.p50, speed_in_words)),
            note: format!(
                "slowest tenth {}, {}",
                or_missing(quantile(&lane.tpot.p90, speed_in_words)),
                n(lane.tpot.n, "")
            ),
        },
        Figure {
            label: "Whole answers, p50",
            value: or_missing(quantile(&lane.answer.p50, ms_in_words)),
            note: n(lane.answer.n, "in one piece"),
        },
        Figure {
            label: "Cost",
            value: usd(tally.cost_usd),
            note: format!("{} for attempts that lost", usd(tally.lost_cost_usd)),
        },
    ];
    shown.extend(cache);
    figures(out, "headline", &shown);
}

fn over(out: &mut String, report: &Report, name: &str, lane: &LaneReport) {
    let _ = write!(
        out,
        "<section id=\"hour\"><h2>Speed over time</h2><p class=\"intro\">By the time at which attempts began, in steps of {}: median, and a band from the 10th to the 90th percentile.</p>",
        escape(&format::seconds(report.bucket_ms as f64 / 1e3))
    );
    let ttft = course(Series { name: String::new(), ..spreads(report, name, lane, |bucket| bucket.ttft, 1e3) });
    let speed = course(Series { name: String::new(), ..spreads(report, name, lane, |bucket| bucket.speed, 1.0) });
    chart_pair(
        out,
        "hour",
        [
            over_time(report, "TTFT", Axis::linear("Sent to first output text", "s"), vec![ttft]),
            over_time(
                report,
                "Output speed",
                Axis::linear("Of one request after its first chunk", "tok/s"),
                vec![speed],
            ),
        ],
    );
    out.push_str("</section>\n");
}

/// What was measured at each load, and what was learned beside it.
fn curve(out: &mut String, status: Option<&LaneStatus>, loads: &[LoadPoint]) {
    out.push_str(concat!(
        "<section id=\"curve\"><h2>Under load</h2><p class=\"intro\">Points: medians of the range with their 95 % intervals, by the calls ",
        "that the lane had open; ~ marks too few for one. Line: what the router has learned and goes by.</p>"
    ));
    if loads.is_empty() {
        out.push_str("<p class=\"none\">No stream in the range.</p></section>\n");
        return;
    }
    let x = |load: &LoadPoint| (f64::from(load.in_flight.0) * f64::from(load.in_flight.1)).sqrt();
    let point = |load: &LoadPoint, quantile: &Quantile, scaled: &dyn Fn(f64) -> f64| {
        let is_stated = quantile.status == QuantileStatus::Stated;
        let [one, other] = [quantile.low, quantile.high].map(|end| end.map(scaled));
        let ends = one.zip(other).map(|(one, other)| (one.min(other), one.max(other)));
        Point {
            x: x(load),
            y: quantile.nearest_rank().map(scaled),
            low: ends.map(|ends| ends.0),
            high: ends.map(|ends| ends.1),
            label: if is_stated { String::new() } else { "~".to_owned() },
        }
    };
    let most = loads.iter().map(|load| load.in_flight.1).max().unwrap_or(1);
    let learned = |of: &dyn Fn(&tokrate_route::Expectation) -> f64| -> Vec<Point> {
        let known = status.into_iter().flat_map(|lane| &lane.curve).filter(|point| point.in_flight <= most);
        let points = known.filter_map(|point| Some((point.in_flight, point.expectation?)));
        points.map(|(load, e)| Point { x: f64::from(load), y: Some(of(&e)), ..Point::default() }).collect()
    };
    let chart = |title: &str, y: Axis, measured: Vec<Point>, learned: Vec<Point>| {
        let measured =
            apart_if_few(Series { name: "measured".to_owned(), points: measured, style: SeriesStyle::Measured });
        let mut series = vec![measured];
        // A straight line through two learned points would be one that nobody has seen.
        if learned.len() >= super::MIN_JOINED_POINTS {
            series.push(Series { name: "learned".to_owned(), points: learned, style: SeriesStyle::Fit });
        }
        LineChart { title: title.to_owned(), x: Axis::log("Calls in flight", ""), y, series, ..LineChart::default() }
    };
    let speed =
        loads.iter().filter(|load| load.tpot.n > 0).map(|load| point(load, &load.tpot.p50, &|ms| 1e3 / ms)).collect();
    let ttft =
        loads.iter().filter(|load| load.ttft.n > 0).map(|load| point(load, &load.ttft.p50, &|ms| ms / 1e3)).collect();
    chart_pair(
        out,
        "curve",
        [
            chart(
                "Output speed under load",
                Axis::linear("Output speed of one request", "tok/s"),
                speed,
                learned(&|e| e.speed),
            ),
            chart("TTFT under load", Axis::linear("TTFT, p50", "s"), ttft, learned(&|e| e.ttft_p50.as_secs_f64())),
        ],
    );
    out.push_str("</section>\n");
}

fn hedges(out: &mut String, report: &Report, lane: &LaneReport) {
    let tally = &lane.tally;
    out.push_str("<section id=\"hedges\"><h2>Hedges and races</h2>");
    if tally.hedges + tally.races == 0 {
        out.push_str(
            "<p class=\"none\">It was asked for no hedge and in no race as the second in the range.</p></section>\n",
        );
        return;
    }
    let _ = write!(
        out,
        "<p class=\"intro\">Attempts that were begun at this lane beside another: {} of {} hedges and {} of {} races were won.</p>",
        format::count(tally.hedges_won),
        format::count(tally.hedges),
        format::count(tally.races_won),
        format::count(tally.races)
    );
    let counts = |name: &str, of: fn(&Bucket) -> u64| Counts {
        name: name.to_owned(),
        counts: lane.buckets.iter().map(of).collect(),
    };
    let kinds = vec![counts("won", |part| part.extra_won), counts("did not win", |part| part.extra - part.extra_won)];
    out.push_str("<div class=\"pair\">");
    Columns { title: "Begun beside another", caption: "Hedges and races", report, kinds }.render(out, "hedges");
    out.push_str("</div>");
    out.push_str("</section>\n");
}

fn facts(out: &mut String, snapshot: &Snapshot, view: &View, lane: &LaneStatus) {
    out.push_str("<section id=\"facts\"><h2>As it is configured</h2><dl class=\"terms\">");
    let missing = || "not known".to_owned();
    let per_million = |money: Money| format!("{} per million tokens", usd(money.as_usd()));
    let cap = match (lane.cap, lane.learned_cap) {
        (Some(cap), Some(_)) => format!("{} of {cap} in flight (learned from refusals)", lane.in_flight),
        (Some(cap), None) => format!("{} of {cap} in flight", lane.in_flight),
        (None, _) => format!("{} in flight, no limit", lane.in_flight),
    };
    let tokens = |limit: Option<u64>| limit.map_or_else(missing, |tokens| format!("{} tokens", format::count(tokens)));
    let loser = match lane.loser {
        LoserPolicy::CancelEstimate => "cancelled, its bill is estimated".to_owned(),
        LoserPolicy::DrainExact { max_time, .. } => format!("read to its end, for {} at most", format::span(max_time)),
        LoserPolicy::Free => "cancelled, nobody bills it".to_owned(),
    };
    let price = lane.price;
    let mut terms = vec![
        ("provider and model", format!("{} / {}", lane.provider, lane.model)),
        ("load", cap),
        ("price of input", price.map_or_else(missing, |price| per_million(price.input))),
        ("price of output", price.map_or_else(missing, |price| per_million(price.output))),
    ];
    if let Some(price) = price {
        terms.extend(price.cached_input.map(|money| ("price of cache reads", per_million(money))));
        terms.extend(price.cache_write.map(|money| ("price of cache writes", per_million(money))));
        terms.extend(price.audio_input.map(|money| ("price of sound in", per_million(money))));
        terms.extend(price.audio_cached.map(|money| ("price of cached sound", per_million(money))));
        terms.extend(price.audio_output.map(|money| ("price of sound out", per_million(money))));
    }
    terms.extend(lane.fees.iter().map(|(service, fee)| ("fee", format!("{service}: {} at most", usd(fee.as_usd())))));
    terms.extend([
        ("longest prompt", tokens(lane.max_tokens.0)),
        ("longest answer", tokens(lane.max_tokens.1)),
        ("an attempt that lost is", loser),
    ]);
    for (term, meaning) in terms {
        let _ = write!(out, "<div><dt>{term}</dt><dd>{}</dd></div>", escape(&meaning));
    }
    let index = snapshot.lanes.iter().position(|other| other.name == lane.name);
    let aliases = snapshot.aliases.iter().filter(|alias| alias.lanes.iter().any(|(lane, _)| Some(*lane) == index));
    let aliases: Vec<String> = aliases
        .map(|alias| {
            format!("<a href=\"{}\">{}</a>", view.link("/calls", &[("alias", &alias.name)]), escape(&alias.name))
        })
        .collect();
    if !aliases.is_empty() {
        let _ = write!(out, "<div><dt>aliases with it</dt><dd>{}</dd></div>", aliases.join(", "));
    }
    out.push_str("</dl></section>\n");
}
