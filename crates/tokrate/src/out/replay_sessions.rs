//! What a replay found of sessions that moved, as a table and as JSON. It does not estimate.

use super::log::dollars;
use super::replay::signed;
use serde_json::{Value, json};
use tokrate_charts::format::number;
use tokrate_charts::{Column, Table};
use tokrate_route::{Change, MAX_SESSION_PAUSE, SessionReport};

/// From fewer calls nothing is claimed.
const CALLS_LEAST: usize = 30;
/// Below this share of the moved calls nothing is claimed: those that are left out are not like the others.
const COVERAGE_LEAST: f64 = 0.8;
/// Standard errors of a 95 % interval.
const INTERVAL: f64 = 1.96;

/// What was found of one name.
pub struct Sessions {
    /// The name that clients ask for.
    pub alias: String,
    /// Answered calls, of sessions or not.
    pub answered: usize,
    /// Answered calls of which the provider reported no cached tokens, not even none.
    pub unreported: usize,
    /// The estimate.
    pub report: SessionReport,
}

impl Sessions {
    /// Why nothing is claimed; `None` if something is.
    pub fn refusal(&self) -> Option<String> {
        let report = &self.report;
        let why = if report.calls == 0 {
            format!(
                "none of its {} answered calls has both a session, which clients name by `x-tokrate-session`, and reported counts of \
                 cached tokens ({} have none)",
                self.answered, self.unreported
            )
        } else if report.moved < CALLS_LEAST {
            format!(
                "only {} further calls of a session went to another lane, and {CALLS_LEAST} are needed",
                report.moved
            )
        } else if (report.covered as f64) < COVERAGE_LEAST * report.moved as f64 || report.covered < CALLS_LEAST {
            format!(
                "only of {} of the {} calls that moved is it known what those found who stayed on the lane they left",
                report.covered, report.moved
            )
        } else {
            return None;
        };
        Some(format!("nothing is known of {} with its sessions kept on their lanes: {why}", self.alias))
    }

    /// As JSON.
    pub fn json(&self) -> Value {
        let (report, refusal) = (&self.report, self.refusal());
        let change = |change: Change, unit: f64| {
            let difference = (change.would - change.was) * unit;
            let reach = INTERVAL * change.error * unit;
            json!({
                "was": change.was * unit,
                "estimated": change.would * unit,
                "difference": difference,
                "standard_error": change.error * unit,
                "low": difference - reach,
                "high": difference + reach,
                "confidence": 0.95,
            })
        };
        let stated = refusal.is_none();
        json!({
            "alias": self.alias,
            "calls_answered": self.answered,
            "calls_of_sessions": report.calls,
            "sessions": report.sessions,
            "further_calls": report.further,
            "moved": report.moved,
            "covered": report.covered,
            "cached_share": stated.then(|| change(report.cached, 1.0)),
            "usd_per_call": report.usd.filter(|_| stated).map(|usd| change(usd, 1.0)),
            "ttft_ms": report.ttft.filter(|_| stated).map(|ttft| change(ttft, 1e3)),
            "refusal": refusal,
        })
    }

    /// As a table; `None` if nothing is claimed.
    pub fn text(&self) -> Option<String> {
        if self.refusal().is_some() {
            return None;
        }
        let report = &self.report;
        let row = |name: &str, change: Change, unit: f64, shown: &dyn Fn(f64) -> String| {
            let difference = (change.would - change.was) * unit;
            let reach = INTERVAL * change.error * unit;
            let interval = format!("{} to {}", signed(difference - reach, shown), signed(difference + reach, shown));
            let would = shown(change.would * unit);
            vec![name.to_owned(), shown(change.was * unit), would, signed(difference, shown), interval]
        };
        let mut rows = vec![row("prompt from the cache, %", report.cached, 100.0, &number)];
        rows.extend(report.usd.map(|usd| row("cost of a call, USD", usd, 1.0, &dollars)));
        rows.extend(report.ttft.map(|ttft| row("TTFT mean, ms", ttft, 1e3, &number)));
        let mut notes = vec![String::new()];
        if let Some(usd) = report.usd {
            let saved = (usd.was - usd.would) * report.covered as f64;
            let reach = INTERVAL * usd.error * report.covered as f64;
            notes.push(format!(
                "Estimate: {} USD less in all, give or take {} (95 %).",
                dollars(saved),
                dollars(reach)
            ));
            notes.push(String::new());
        }
        notes.push(format!(
            "{} of {} further calls of a session ({} sessions, {} calls) went to another lane than the one before",
            report.moved, report.further, report.sessions, report.calls
        ));
        notes.push(format!(
            "all figures are of {} of these calls; of the others too few stayed after a like pause to compare",
            report.covered
        ));
        notes.extend(
            [
                "what they would have found is what those found who stayed on the lane they left;",
                "money and time follow from that lane's costs and times to first token by new and cached tokens",
                "it cannot know what other loads this would have made, prompts that several sessions share,",
                "calls without a session, or whether a session that stayed is like one that moved",
            ]
            .map(str::to_owned),
        );
        notes.push(format!("a pause above {MAX_SESSION_PAUSE} begins a session anew"));
        if report.usd.is_none() {
            notes.push(
                "the log's costs do not follow one price for new, cached and output tokens: no money is claimed"
                    .to_owned(),
            );
        }
        let table = Table {
            caption: format!(
                "{}: calls whose session had moved, instead with each session kept on its lane",
                self.alias
            ),
            columns: vec![
                Column::words(""),
                Column::numbers("was", ""),
                Column::numbers("estimate", ""),
                Column::numbers("difference", ""),
                Column::numbers("95 % interval", ""),
            ],
            rows,
            notes,
        };
        Some(table.text())
    }
}
