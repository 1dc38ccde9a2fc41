//! The sections of a time range: figures, lanes, and how attempts, failures, TTFT and output speed went over time.
//!
//! Invariant: lanes are never summed up in times and speeds, because they were measured under different conditions; too few to say more
//! than what they were are marked; a part of the range without a call is a gap in the line.

use super::columns::{Counts, MAX_SERIES};
use super::grid::{Grid, Head, Html, Sorting};
use super::lanes::state_description;
use super::view::View;
use super::{Figure, chart_pair, course, figures, moment, share, usd};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use tokrate_charts::{Axis, LineChart, Point, Series, escape, format};
use tokrate_core::FailureKind;
use tokrate_gateway::telemetry::Snapshot;
use tokrate_stats::Quantile;
use tokrate_store::{Bucket, LaneReport, Report, Spread, Times};

/// Milliseconds of a day.
const DAY_MS: f64 = 86_400_000.0;

/// Orders of the table of lanes, the default first.
pub(crate) const LANE_SORTS: [&str; 7] = ["failed", "lane", "attempts", "ttft", "speed", "extra", "cost"];

/// The figures of the range, and what was cut.
pub(super) fn headline(out: &mut String, snapshot: &Snapshot, view: &View, report: &Report) {
    let total = &report.total;
    let calls = report.calls.unwrap_or_default();
    let unanswered = calls.failed + calls.broken;
    let overhead = snapshot.stats.overhead_since(snapshot.first_minute_of_hour());
    let quantile = |q| overhead.quantile(q).map_or_else(|| format::MISSING.to_owned(), super::nanos);
    let open = format!("{} open now", format::count(snapshot.open_calls as u64));
    let left = if calls.abandoned > 0 {
        format!(", {} left by their clients", format::count(calls.abandoned))
    } else {
        String::new()
    };
    figures(
        out,
        "headline",
        &[
            Figure { label: "Calls", value: format::count(calls.all), note: open },
            Figure {
                label: "Calls without an answer",
                value: share(unanswered as f64, calls.all as f64),
                note: format!(
                    "{} failed, {} broke off{left}",
                    format::count(calls.failed),
                    format::count(calls.broken)
                ),
            },
            Figure {
                label: "Attempts that failed",
                value: share(total.failed as f64, total.attempts as f64),
                note: format!("{} of {}", format::count(total.failed), format::count(total.attempts)),
            },
            Figure {
                label: "Cost",
                value: usd(total.cost_usd),
                note: cost_note(total.cost_unknown, total.cost_estimated),
            },
            Figure {
                label: "Cost of lost attempts",
                value: share(total.lost_cost_usd, total.cost_usd),
                note: format!("{} in {} attempts", usd(total.lost_cost_usd), format::count(total.lost)),
            },
            Figure {
                label: "Gateway overhead, p50",
                value: quantile(0.5),
                note: format!("p99 {}, last hour, all keys", quantile(0.99)),
            },
        ],
    );
    out.push_str("<div id=\"cut\">");
    if report.is_cut {
        let _ = write!(
            out,
            concat!(
                "<p class=\"note\">The log holds more than {} attempts of the range ({}). What follows is of the newest of them, ",
                "begun since {}; choose a shorter or an earlier range for the others.</p>"
            ),
            format::count(crate::reports::MAX_ROWS),
            escape(&view.range_in_words()),
            moment(report.from_unix_ms, snapshot.now_unix_ms)
        );
    }
    out.push_str("</div>\n");
}

fn cost_note(unknown: u64, estimated: u64) -> String {
    let said = |count: u64, what: &str| (count > 0).then(|| format!("{} {what}", format::count(count)));
    let notes: Vec<String> = [said(estimated, "estimated"), said(unknown, "unknown")].into_iter().flatten().collect();
    if notes.is_empty() { "of all attempts".to_owned() } else { notes.join(", ") }
}

/// A quantile in words, `~` before one of too few.
pub(super) fn quantile(quantile: &Quantile, text: impl Fn(f64) -> String) -> Option<String> {
    match (quantile.stated(), quantile.nearest_rank()) {
        (Some(value), _) => Some(text(value)),
        (None, Some(value)) => Some(format!("~{}", text(value))),
        (None, None) => None,
    }
}

/// Milliseconds in words.
pub(super) fn ms_in_words(ms: f64) -> String {
    format::seconds(ms / 1e3)
}

/// The output speed of a time per token (ms), in words.
pub(super) fn speed_in_words(tpot_ms: f64) -> String {
    format::quantity(1e3 / tpot_ms, "tok/s")
}

fn or_missing(text: Option<String>) -> String {
    text.unwrap_or_else(|| format::MISSING.to_owned())
}

/// The table of lanes.
pub(super) fn lanes(out: &mut String, snapshot: &Snapshot, view: &View, report: &Report) {
    out.push_str("<section id=\"range-lanes\"><h2>Lanes</h2>");
    if report.lanes.is_empty() {
        let _ = writeln!(
            out,
            "<p class=\"none\">No attempt in the range ({}).</p></section>",
            escape(&view.range_in_words())
        );
        return;
    }
    let heads = [
        Head::words("lane").sorted_by("lane"),
        Head::words("state now"),
        Head::numbers("attempts", "").sorted_by("attempts"),
        Head::numbers("failed", "of attempts").sorted_by("failed"),
        Head::numbers("TTFT p50", "streams").sorted_by("ttft"),
        Head::numbers("TTFT p90", "streams"),
        Head::numbers("whole answer p50", ""),
        Head::numbers("output speed p50", "").sorted_by("speed"),
        Head::numbers("hedges and races", "won of begun").sorted_by("extra"),
        Head::numbers("cost", "").sorted_by("cost"),
    ];
    let sort = view.sort.unwrap_or(LANE_SORTS[0]);
    let rows = sorted(report, sort).into_iter().map(|(name, lane)| row(snapshot, view, name, lane)).collect();
    Grid {
        caption: "Lanes",
        heads: &heads,
        rows,
        sorting: Some(Sorting { view, path: "/", more: &[], current: sort }),
    }
    .render(out);
    out.push_str("</section>\n");
}

/// Lanes in an order: the worst or the most first, names by the alphabet.
fn sorted<'r>(report: &'r Report, sort: &str) -> Vec<(&'r str, &'r LaneReport)> {
    let mut lanes: Vec<(&str, &LaneReport)> = report.lanes.iter().map(|(name, lane)| (name.as_str(), lane)).collect();
    let rank = |lane: &LaneReport| -> f64 {
        let slowest_first = |times: &Times| times.p50.nearest_rank().unwrap_or(-1.0);
        match sort {
            "attempts" => lane.tally.attempts as f64,
            "failed" => lane.tally.failed as f64,
            "ttft" => slowest_first(&lane.ttft),
            "speed" => slowest_first(&lane.tpot),
            "extra" => (lane.tally.hedges + lane.tally.races) as f64,
            "cost" => lane.tally.cost_usd,
            _ => 0.0,
        }
    };
    // Equal ones stay in the order of their names.
    lanes.sort_by(|(_, one), (_, other)| rank(other).total_cmp(&rank(one)));
    lanes
}

fn row(snapshot: &Snapshot, view: &View, name: &str, lane: &LaneReport) -> Vec<Html> {
    let state = match snapshot.lanes.iter().find(|known| known.name == name) {
        Some(known) => {
            let (class, words) = state_description(known.state);
            Html(format!("<span class=\"state {class}\">{}</span>", escape(&words)))
        }
        None => Html::text("not configured any more"),
    };
    let tally = &lane.tally;
    let failed = match tally.failed {
        0 => Html::text("0"),
        failed => Html(format!(
            "<b class=\"bad\">{}</b> {}",
            format::count(failed),
            escape(&share(failed as f64, tally.attempts as f64))
        )),
    };
    let (begun, won) = (tally.hedges + tally.races, tally.hedges_won + tally.races_won);
    let extra =
        if begun == 0 { "none".to_owned() } else { format!("{} of {}", format::count(won), format::count(begun)) };
    let text = |text: Option<String>| Html::text(&or_missing(text));
    vec![
        Html::link(&view.link("/lane", &[("lane", name)]), name),
        state,
        Html::text(&format::count(tally.attempts)),
        failed,
        text(quantile(&lane.ttft.p50, ms_in_words)),
        text(quantile(&lane.ttft.p90, ms_in_words)),
        text(quantile(&lane.answer.p50, ms_in_words)),
        text(quantile(&lane.tpot.p50, speed_in_words)),
        Html::text(&extra),
        Html::text(&usd(tally.cost_usd)),
    ]
}

/// Charts of TTFT and output speed by lane.
pub(super) fn speeds(out: &mut String, view: &View, report: &Report) {
    out.push_str("<section id=\"hour\"><h2>Speed over time</h2>");
    let mut lanes: Vec<(&String, &LaneReport)> = report.lanes.iter().filter(|(_, lane)| lane.ttft.n > 0).collect();
    if lanes.is_empty() {
        let _ = writeln!(
            out,
            "<p class=\"none\">No stream in the range ({}).</p></section>",
            escape(&view.range_in_words())
        );
        return;
    }
    lanes.sort_by_key(|(_, lane)| std::cmp::Reverse(lane.ttft.n));
    let left_out = lanes.len().saturating_sub(MAX_SERIES);
    lanes.truncate(MAX_SERIES);
    // Sorted by name, so that a lane keeps its colour from one update to the next.
    lanes.sort_by_key(|(name, _)| *name);
    let _ = write!(
        out,
        "<p class=\"intro\">By the time at which attempts began, in steps of {}: median, and a band from the 10th to the 90th percentile.",
        escape(&format::seconds(report.bucket_ms as f64 / 1e3))
    );
    if left_out > 0 {
        let _ = write!(out, " The {MAX_SERIES} lanes with most streams; {left_out} more are left out.");
    }
    out.push_str("</p>");
    let series = |of: fn(&Bucket) -> Option<Spread>, per: f64| -> Vec<Series> {
        lanes.iter().map(|(name, lane)| course(spreads(report, name, lane, of, per))).collect()
    };
    let speed = Axis::linear("Of one request after its first chunk", "tok/s");
    chart_pair(
        out,
        "hour",
        [
            over_time(
                report,
                "TTFT",
                Axis::linear("Sent to first output text", "s"),
                series(|bucket| bucket.ttft, 1e3),
            ),
            over_time(report, "Output speed", speed, series(|bucket| bucket.speed, 1.0)),
        ],
    );
    out.push_str("</section>\n");
}

/// A chart over the range.
pub(super) fn over_time(report: &Report, title: &str, y: Axis, series: Vec<Series>) -> LineChart {
    let ends = [report.from_unix_ms, report.until_unix_ms].map(|ms| ms as f64 / DAY_MS);
    let x = Axis::dates("Begun at (UTC)").holding(ends);
    LineChart { title: title.to_owned(), x, y, series, ..LineChart::default() }
}

/// A lane's values over time, with gaps where there were none.
pub(super) fn spreads(
    report: &Report,
    name: &str,
    lane: &LaneReport,
    of: fn(&Bucket) -> Option<Spread>,
    per: f64,
) -> Series {
    let point = |(index, bucket): (usize, &Bucket)| {
        let spread = of(bucket);
        Point {
            x: middle_of(report, index),
            y: spread.map(|spread| spread.median / per),
            low: spread.map(|spread| spread.low / per),
            high: spread.map(|spread| spread.high / per),
            ..Point::default()
        }
    };
    Series { name: name.to_owned(), points: lane.buckets.iter().enumerate().map(point).collect(), ..Series::default() }
}

/// The middle of a part of the range, in days since 1970.
fn middle_of(report: &Report, index: usize) -> f64 {
    (report.bucket_unix_ms(index) as f64 + report.bucket_ms as f64 / 2.0) / DAY_MS
}

/// Failures by kind over time, summed over lanes, the most frequent first; of one lane if `lane` says so.
pub(super) fn failures_over_time(report: &Report, lane: Option<&str>) -> Vec<Counts> {
    let mut kinds: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for ((_, kind), found) in report.failures.iter().filter(|((of, _), _)| lane.is_none_or(|lane| lane == of)) {
        let sums = kinds.entry(kind.map_or("unknown", FailureKind::name)).or_insert_with(|| vec![0; report.buckets]);
        sums.iter_mut().zip(&found.buckets).for_each(|(sum, count)| *sum += u64::from(*count));
    }
    let kinds = kinds.into_iter().map(|(name, counts)| Counts { name: name.replace('_', " "), counts });
    most_frequent_first(kinds.collect())
}

/// Attempts by lane over time, the most frequent first.
pub(super) fn attempts_over_time(report: &Report, lane: Option<&str>) -> Vec<Counts> {
    let lanes = report.lanes.iter().filter(|(name, _)| lane.is_none_or(|lane| lane == *name));
    let counts = |(name, lane): (&String, &LaneReport)| Counts {
        name: name.clone(),
        counts: lane.buckets.iter().map(|bucket| bucket.attempts).collect(),
    };
    most_frequent_first(lanes.map(counts).collect())
}

fn most_frequent_first(mut kinds: Vec<Counts>) -> Vec<Counts> {
    kinds.sort_by_key(|kind| std::cmp::Reverse(kind.counts.iter().sum::<u64>()));
    kinds
}
