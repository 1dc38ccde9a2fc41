//! The table that most readers want: a row for each load, its rounds pooled.
//!
//! It refuses to judge. Invariant: a column that no load has is left out, and a figure that is missing says why below the table.

use super::tables::MISSING;
use tokrate_charts::{Column, Table, format};
use tokrate_meter::PhaseResult;
use tokrate_meter::run::{Rounds, absences, by_load};
use tokrate_meter::stats::{Distribution, Level};

type Figure = fn(&Rounds<'_>) -> Option<String>;

/// Each with its unit, which stands below it.
const FIGURES: &[(&str, &str, Figure)] = &[
    ("n", "", |rounds| Some(rounds.count(|phase| phase.counts.measured).to_string())),
    ("failed", "", |rounds| {
        let failed = rounds.count(|phase| phase.counts.failed + phase.counts.rate_limited);
        (failed > 0).then(|| failed.to_string())
    }),
    ("TTFT p50", "ms", |rounds| quantile(rounds, |phase| &phase.ttft, Level::P50, |time| time)),
    ("TTFT p95", "ms", |rounds| quantile(rounds, |phase| &phase.ttft, Level::P95, |time| time)),
    ("E2E p50", "ms", |rounds| quantile(rounds, |phase| &phase.e2e, Level::P50, |time| time)),
    ("each", "tok/s", |rounds| quantile(rounds, |phase| &phase.tpot, Level::P50, |time| 1e3 / time)),
    ("in all", "tok/s", |rounds| rounds.throughput().map(format::number)),
    ("--slo kept", "%", |rounds| rounds.kept_share().map(|share| format::number(100.0 * share))),
];

/// The loads of these phases, a row each.
pub fn loads(phases: &[PhaseResult]) -> Table {
    let loads = by_load(phases);
    let told: Vec<&(&str, &str, Figure)> =
        FIGURES.iter().filter(|(_, _, of)| loads.iter().any(|rounds| of(rounds).is_some())).collect();
    let figures = told.iter().map(|(label, unit, _)| Column::numbers(*label, *unit));
    let rows = loads.iter().map(|rounds| {
        let cells = told.iter().map(|(_, _, of)| of(rounds).unwrap_or_else(|| MISSING.to_owned()));
        std::iter::once(rounds.load.short()).chain(cells).collect()
    });
    Table {
        caption: "By load".to_owned(),
        columns: std::iter::once(Column::words("load")).chain(figures).collect(),
        rows: rows.collect(),
        notes: absences(phases),
    }
}

/// A quantile of all rounds together, marked where they are too few to state it.
fn quantile(
    rounds: &Rounds<'_>,
    of: fn(&PhaseResult) -> &Distribution,
    level: Level,
    shown: fn(f64) -> f64,
) -> Option<String> {
    let pooled = rounds.distribution(of)?;
    let quantile = pooled.quantile(level);
    let mark = if quantile.stated().is_some() { "" } else { "~" };
    Some(format!("{mark}{}", format::number(shown(quantile.nearest_rank()?))))
}
