//! The summary table: one row per load, rounds pooled.
//!
//! Invariant: columns without values are omitted, and a note below the table says why a figure is missing.

use super::tables::MISSING;
use tokrate_charts::{Column, Table, format};
use tokrate_record::run::{Rounds, by_load, missing_figures};
use tokrate_record::{Metric, PhaseResult};
use tokrate_stats::Level;

/// A column of the table.
enum Figure {
    /// A label and a unit of its own.
    Own(&'static str, &'static str, fn(&Rounds<'_>) -> Option<String>),
    /// A quantile of a time.
    Quantile(Metric, Level),
}

const FIGURES: [Figure; 24] = [
    Figure::Own("n", "", |rounds| Some(rounds.count(|phase| phase.counts.measured).to_string())),
    Figure::Own("failed", "", |rounds| {
        let failed = rounds.count(|phase| phase.counts.failed);
        (failed > 0).then(|| failed.to_string())
    }),
    Figure::Own("limited", "", |rounds| {
        let limited = rounds.count(|phase| phase.counts.rate_limited);
        (limited > 0).then(|| limited.to_string())
    }),
    Figure::Quantile(Metric::Ttft, Level::P50),
    Figure::Quantile(Metric::Ttft, Level::P95),
    Figure::Own("cold TTFT p50", "ms", |rounds| {
        // One of a few connections that were lost is no figure of the load.
        rounds.opens_connections().then(|| quantile(rounds, Metric::ColdTtft, Level::P50, |time| time)).flatten()
    }),
    Figure::Quantile(Metric::E2e, Level::P50),
    Figure::Own("E2E p95", "ms", |rounds| {
        rounds.has_items().then(|| quantile(rounds, Metric::E2e, Level::P95, |time| time)).flatten()
    }),
    Figure::Quantile(Metric::TimePerItem, Level::P50),
    Figure::Own("items", "1/s", |rounds| rounds.item_throughput().map(format::number)),
    Figure::Quantile(Metric::TimeToFirstImage, Level::P50),
    Figure::Own("images", "1/s", |rounds| {
        rounds.rate(|phase| phase.media.as_ref()?.images_per_second).map(format::number)
    }),
    Figure::Own("megapixels", "1/s", |rounds| {
        rounds.rate(|phase| phase.media.as_ref()?.megapixels_per_second).map(format::number)
    }),
    Figure::Quantile(Metric::TimeToFirstAudio, Level::P50),
    Figure::Quantile(Metric::TimeToFirstAudio, Level::P95),
    Figure::Quantile(Metric::RealTimeFactor, Level::P50),
    Figure::Own("sound", "s/s", |rounds| rounds.audio_throughput().map(format::number)),
    Figure::Quantile(Metric::TimeToFirstArgument, Level::P50),
    Figure::Quantile(Metric::TimeToValid, Level::P50),
    Figure::Own("valid", "%", |rounds| {
        rounds.valid().map(|(n, valid)| format::number(100.0 * valid as f64 / n as f64))
    }),
    Figure::Quantile(Metric::SessionTime, Level::P50),
    Figure::Own("each", "tok/s", |rounds| quantile(rounds, Metric::Tpot, Level::P50, |time| 1e3 / time)),
    Figure::Own("in all", "tok/s", throughput),
    Figure::Own("--slo kept", "%", |rounds| rounds.goodput_share().map(|share| format::number(100.0 * share))),
];

impl Figure {
    fn column(&self) -> Column {
        match self {
            Figure::Own(label, unit, _) => Column::numbers(*label, *unit),
            Figure::Quantile(metric, level) => {
                Column::numbers(format!("{} {}", metric.label(), level.name()), metric.unit())
            }
        }
    }

    fn cell(&self, rounds: &Rounds<'_>) -> Option<String> {
        match self {
            Figure::Own(_, _, of) => of(rounds),
            Figure::Quantile(metric, level) => quantile(rounds, *metric, *level, |time| time),
        }
    }
}

/// The loads of these phases, a row each.
pub fn loads(phases: &[PhaseResult]) -> Table {
    let loads = by_load(phases);
    let shown: Vec<&Figure> =
        FIGURES.iter().filter(|figure| loads.iter().any(|rounds| figure.cell(rounds).is_some())).collect();
    let figures = shown.iter().map(|figure| figure.column());
    let rows = loads.iter().map(|rounds| {
        let cells = shown.iter().map(|figure| figure.cell(rounds).unwrap_or_else(|| MISSING.to_owned()));
        std::iter::once(rounds.load.short()).chain(cells).collect()
    });
    Table {
        caption: "By load".to_owned(),
        columns: std::iter::once(Column::words("load")).chain(figures).collect(),
        rows: rows.collect(),
        notes: missing_figures(phases).into_iter().chain(loads.iter().flat_map(partial)).collect(),
    }
}

/// What is known of a part of a load's answers only. That output speeds are missing, and why, is a note of the record.
fn partial(rounds: &Rounds<'_>) -> Option<String> {
    let (_, undecided, of) = rounds.goodput_counts();
    (undecided > 0).then(|| {
        let name = rounds.name();
        format!("Of {undecided} of {of} requests at {name} it is not known whether they keep every --slo: they lack a metric.")
    })
}

/// Tokens per second of all requests, marked where the sample is too small to state them.
fn throughput(rounds: &Rounds<'_>) -> Option<String> {
    let mark = if rounds.is_throughput_stated() { "" } else { "~" };
    Some(format!("{mark}{}", format::number(rounds.throughput()?)))
}

/// A quantile of all rounds together, marked where they are too few to state it.
fn quantile(rounds: &Rounds<'_>, metric: Metric, level: Level, shown: fn(f64) -> f64) -> Option<String> {
    let pooled = rounds.times(metric)?;
    let quantile = pooled.quantile(level);
    let mark = if quantile.stated().is_some() { "" } else { "~" };
    Some(format!("{mark}{}", format::number(shown(quantile.nearest_rank()?))))
}
