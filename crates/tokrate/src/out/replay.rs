//! What a replay found, as a table and as JSON.
//!
//! It does not estimate. Invariant: what was measured and what is estimated are never in one column, and below the
//! limits of coverage no estimate is shown.

use super::log::dollars;
use crate::config::log::date;
use serde_json::{Value, json};
use tokrate_charts::format::number;
use tokrate_charts::{Column, Table};
use tokrate_core::{Price, Span};
use tokrate_route::{Means, Percentile, Policy, Report};
use tokrate_stats::{Level, Quantile};

/// Below this share of calls nothing is claimed: those that are left out are not like the others.
const COVERAGE_LEAST: f64 = 0.8;
/// From fewer calls nothing is claimed: their standard error would not be worth much.
const CALLS_LEAST: usize = 30;
/// A difference below so many standard errors may be chance.
const ERRORS_LEAST: f64 = 2.0;
const LEVELS: [Level; 3] = [Level::P50, Level::P90, Level::P99];

/// What a replay found of one name.
pub struct Replayed {
    /// The name that clients ask for.
    pub alias: String,
    /// The lanes that could be chosen, in their order.
    pub lanes: Vec<String>,
    /// Whether the order is the user's.
    pub listed: bool,
    /// For each lane its attempts, and those with a TTFT and an output speed.
    pub measurable: Vec<(usize, usize)>,
    /// Attempts aborted before their first output: the TTFT of the slow ones among them is in no estimate.
    pub given_up_early: usize,
    /// For each lane its price, as far as its costs follow one.
    pub prices: Vec<Option<Price>>,
    /// The earliest attempt (ms since 1970).
    pub from_unix_ms: u64,
    /// The latest attempt (ms since 1970).
    pub until_unix_ms: u64,
    /// Time to the first token of each answered call (ms), rising.
    pub ttft_ms: Vec<f64>,
    /// Time to the end of each answered call (ms), rising.
    pub completion_ms: Vec<f64>,
    /// Time to each answer that came in one piece (ms), rising.
    pub answer_ms: Vec<f64>,
    /// How lanes were chosen instead.
    pub policy: Policy,
    /// Whether it was one lane a call.
    pub one_lane: bool,
    /// Whether it was a second one when the first was slow.
    pub hedged: bool,
    /// How near an attempt has to be.
    pub near: Span,
    /// How many of them it takes.
    pub neighbours_least: usize,
    /// The estimate.
    pub report: Report,
}

impl Replayed {
    /// Why nothing is claimed; `None` if something is.
    pub fn refusal(&self, instead: &str) -> Option<String> {
        let report = &self.report;
        let why = if report.calls == 0 && report.whole > 0 {
            format!("all of its {} answers came in one piece, and such answers have no TTFT", report.whole)
        } else if report.calls == 0 {
            "no call of it was answered".to_owned()
        } else if report.coverage() < COVERAGE_LEAST {
            format!(
                "only {} of its {} answered calls ({}) had {} attempts with a TTFT and an output speed within {} on the lanes that \
                 would have been chosen, and {} are needed",
                report.covered,
                report.calls,
                share(report.coverage()),
                self.neighbours_least,
                self.near,
                share(COVERAGE_LEAST)
            )
        } else if report.covered < CALLS_LEAST {
            format!("only {} calls could be estimated, and {CALLS_LEAST} are needed", report.covered)
        } else {
            return None;
        };
        let lanes = self.lanes.iter().zip(&self.measurable);
        let lanes: Vec<String> = lanes.map(|(lane, (all, usable))| format!("{lane} {usable} of {all}")).collect();
        Some(format!(
            "nothing is known of {} with {instead}: {why} (attempts with both: {}); a longer --since, or traffic on more lanes, helps",
            self.alias,
            lanes.join(", ")
        ))
    }

    /// As JSON: times in ms, `estimated` and what follows from it absent where nothing is claimed.
    pub fn json(&self, instead: &str) -> Value {
        let report = &self.report;
        let refusal = self.refusal(instead);
        let is_stated = refusal.is_none();
        let means = |means: &Means| {
            json!({
                "ttft_ms": means.ttft * 1e3,
                "completion_ms": means.completion * 1e3,
                "usd_per_call": means.usd,
                "attempts_per_call": means.attempts,
            })
        };
        let quantiles = |sorted: &[f64]| {
            let each = LEVELS.map(|level| {
                let quantile = Quantile::of_sorted(sorted, 0, level);
                (level.name().to_owned(), json!({ "value": quantile.value, "descriptive": quantile.descriptive }))
            });
            Value::Object(each.into_iter().collect())
        };
        let lanes = self.lanes.iter().zip(&self.measurable).zip(&self.prices);
        let lanes: Vec<Value> = lanes
            .map(|((lane, (attempts, usable)), price)| {
                json!({
                    "lane": lane,
                    "attempts": attempts,
                    "attempts_with_ttft_and_speed": usable,
                    "fitted_input_usd_per_million": price.map(|price| price.input.as_usd()),
                    "fitted_output_usd_per_million": price.map(|price| price.output.as_usd()),
                })
            })
            .collect();
        json!({
            "alias": self.alias,
            "from_unix_ms": self.from_unix_ms,
            "until_unix_ms": self.until_unix_ms,
            "lanes": lanes,
            "given_up_before_first_output": self.given_up_early,
            "calls_answered": report.calls,
            "calls_answered_in_one_piece": report.whole,
            "calls_covered": report.covered,
            "coverage": report.coverage(),
            "coverage_least": COVERAGE_LEAST,
            "as_done": (is_stated && self.one_lane).then_some(report.same_choice),
            "measured_all": {
                "ttft_ms": quantiles(&self.ttft_ms),
                "completion_ms": quantiles(&self.completion_ms),
                "answer_ms": quantiles(&self.answer_ms),
            },
            "measured_covered": is_stated.then(|| means(&report.measured)),
            "estimated": is_stated.then(|| means(&report.estimated)),
            "completion_difference_ms": is_stated.then(|| self.saved() * -1e3),
            "completion_standard_error_ms": is_stated.then_some(report.completion_error * 1e3),
            "ttft_difference_ms": is_stated.then_some((report.estimated.ttft - report.measured.ttft) * 1e3),
            "ttft_standard_error_ms": is_stated.then_some(report.ttft_error * 1e3),
            "usd_standard_error": report.usd_error.filter(|_| is_stated),
            "attempts_behind_the_estimate": is_stated.then_some(report.attempts),
            "percentiles": is_stated.then(|| {
                json!({
                    "ttft_ms": self.percentiles_json(&report.ttft, true),
                    "completion_ms": self.percentiles_json(&report.completion, false),
                })
            }),
            "refusal": refusal,
        })
    }

    /// Whether more can be said of an estimated percentile than what the attempts behind it were. When a hedge begins is itself
    /// uncertain, which moves its longest times to the first token by more than their interval says.
    fn is_stated(&self, level: Level, ttft: bool) -> bool {
        self.report.attempts as u64 >= level.floor() && !(self.hedged && ttft && level == Level::P99)
    }

    fn percentiles_json(&self, percentiles: &[Percentile; 3], ttft: bool) -> Value {
        let each = LEVELS.into_iter().zip(percentiles).map(|(level, found)| {
            let stated = self.is_stated(level, ttft);
            let value = json!({
                "measured": found.measured * 1e3,
                "estimated": found.estimated * 1e3,
                "low": stated.then_some(found.low * 1e3),
                "high": stated.then_some(found.high * 1e3),
                "confidence": stated.then_some(0.95),
                "difference_standard_error": stated.then_some(found.difference_error * 1e3),
                "descriptive": !stated,
            });
            (level.name().to_owned(), value)
        });
        Value::Object(each.collect())
    }

    /// The row of a percentile.
    fn percentile_row(&self, what: &str, level: Level, found: &Percentile) -> Vec<String> {
        let stated = self.is_stated(level, what == "TTFT");
        let marked = |stated: bool, value: f64| format!("{}{}", if stated { "" } else { "~" }, number(value * 1e3));
        let was_stated = self.report.covered as u64 >= level.floor();
        vec![
            format!("{what} {}, ms", level.name()),
            marked(was_stated, found.measured),
            marked(stated, found.estimated),
            signed((found.estimated - found.measured) * 1e3, number),
            if stated { number(found.difference_error * 1e3) } else { "-".to_owned() },
        ]
    }

    /// Mean seconds that the other policy is estimated to have saved in a call.
    fn saved(&self) -> f64 {
        self.report.measured.completion - self.report.estimated.completion
    }
}

/// The table with what it rests on; `None` if nothing is claimed.
pub fn text(replayed: &Replayed, instead: &str) -> Option<String> {
    if replayed.refusal(instead).is_some() {
        return None;
    }
    let report = &replayed.report;
    let (was, would) = (&report.measured, &report.estimated);
    let mean = |label: &str, was: f64, would: f64, error: String| {
        vec![label.to_owned(), number(was), number(would), signed(would - was, number), error]
    };
    let unknown = || "unknown".to_owned();
    let usd = |usd: Option<f64>| usd.map_or_else(unknown, dollars);
    let mut rows = vec![
        mean(
            "completion mean, ms",
            was.completion * 1e3,
            would.completion * 1e3,
            number(report.completion_error * 1e3),
        ),
        mean("TTFT mean, ms", was.ttft * 1e3, would.ttft * 1e3, number(report.ttft_error * 1e3)),
        vec![
            "cost of a call, USD".to_owned(),
            usd(was.usd),
            usd(would.usd),
            was.usd.zip(would.usd).map_or_else(unknown, |(was, would)| signed(would - was, dollars)),
            report.usd_error.map_or_else(|| "-".to_owned(), dollars),
        ],
        mean("extra attempts a call", was.attempts - 1.0, would.attempts - 1.0, "-".to_owned()),
    ];
    for (what, percentiles) in [("completion", &report.completion), ("TTFT", &report.ttft)] {
        let each = LEVELS.into_iter().zip(percentiles);
        rows.extend(each.map(|(level, found)| replayed.percentile_row(what, level, found)));
    }
    let table = Table {
        caption: format!(
            "{}: {} answered calls from {} to {} UTC, instead with {instead}",
            replayed.alias,
            report.calls,
            date(replayed.from_unix_ms),
            date(replayed.until_unix_ms)
        ),
        columns: vec![
            Column::words(""),
            Column::numbers("was", ""),
            Column::numbers("estimate", ""),
            Column::numbers("difference", ""),
            Column::numbers("standard error", ""),
        ],
        rows,
        notes: notes(replayed),
    };
    Some(table.text())
}

/// What it comes to and what it rests on.
fn notes(replayed: &Replayed) -> Vec<String> {
    let report = &replayed.report;
    let mut notes = vec![String::new(), sentence(replayed), String::new()];
    notes.push(format!(
        "coverage {}: {} of {} calls had {} attempts or more with a TTFT and an output speed within {}",
        share(report.coverage()),
        report.covered,
        report.calls,
        replayed.neighbours_least,
        replayed.near
    ));
    notes.push("on each lane that would have been chosen; all figures are of these calls".to_owned());
    if replayed.one_lane {
        notes.push(format!(
            "in {} of them it would have done what was done",
            share(report.same_choice as f64 / report.covered as f64)
        ));
    }
    let order = if replayed.listed { "as listed" } else { "by name; --lanes sets another order" };
    match replayed.policy {
        Policy::Fixed => notes.push(format!("fixed order of the lanes: {} ({order})", replayed.lanes.join(", "))),
        _ => notes.push(format!("lanes to choose from: {}", replayed.lanes.join(", "))),
    }
    notes.extend(prices(replayed));
    if report.whole > 0 {
        notes.push(format!(
            "left out: {} calls whose answers came in one piece, which have no TTFT (median time to the answer {} ms)",
            report.whole,
            number(Quantile::of_sorted(&replayed.answer_ms, 0, Level::P50).descriptive.unwrap_or_default())
        ));
    }
    if replayed.given_up_early > 0 {
        notes.push(format!(
            "aborted before their first output: {} attempts, so that lanes which lost look faster than they are",
            replayed.given_up_early
        ));
    }
    let is_marked = |level: Level| {
        (report.covered as u64) < level.floor() || !replayed.is_stated(level, true) || !replayed.is_stated(level, false)
    };
    if LEVELS.into_iter().any(is_marked) {
        notes.push("~ marks a percentile of too few attempts to say more than what they were".to_owned());
    }
    notes.push(
        "the estimate takes other attempts of the chosen lane near each call for what the call would have met;"
            .to_owned(),
    );
    notes.push(
        "it cannot know what other loads its choices would have made, and its standard error leaves that out"
            .to_owned(),
    );
    notes
}

fn sentence(replayed: &Replayed) -> String {
    let (saved, report) = (replayed.saved(), &replayed.report);
    let by = format!(
        "{} ms ({}; standard error {} ms)",
        number(saved.abs() * 1e3),
        share(saved.abs() / report.measured.completion.max(f64::MIN_POSITIVE)),
        number(report.completion_error * 1e3)
    );
    match saved {
        saved if saved.abs() <= ERRORS_LEAST * report.completion_error => {
            format!("Estimate: mean completion differs by {by}, which may be chance.")
        }
        saved if saved > 0.0 => format!("Estimate: mean completion would have been shorter by {by}."),
        _ => format!("Estimate: mean completion would have been longer by {by}."),
    }
}

fn prices(replayed: &Replayed) -> Vec<String> {
    let lanes = || replayed.lanes.iter().zip(&replayed.prices);
    let known: Vec<String> = lanes()
        .filter_map(|(lane, price)| price.map(|price| (lane, price)))
        .map(|(lane, Price { input, output, .. })| {
            format!("{lane} {} in, {} out", dollars(input.as_usd()), dollars(output.as_usd()))
        })
        .collect();
    let unknown: Vec<&str> = lanes().filter(|(_, price)| price.is_none()).map(|(lane, _)| lane.as_str()).collect();
    let mut lines = Vec::new();
    if !known.is_empty() {
        lines.push(format!("prices fitted to the log's costs (USD per million tokens): {}", known.join("; ")));
    }
    if !unknown.is_empty() {
        lines.push(format!("the log's costs do not follow one price on: {}", unknown.join(", ")));
    }
    lines
}

pub fn signed(value: f64, shown: impl Fn(f64) -> String) -> String {
    // What is shown as nothing has no sign.
    match shown(value.abs()) {
        text if text.bytes().all(|byte| matches!(byte, b'0' | b'.')) => text,
        text if value < 0.0 => format!("-{text}"),
        text => format!("+{text}"),
    }
}

fn share(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
