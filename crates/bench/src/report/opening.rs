//! Requests for which a connection was opened, in a report: what a process pays that has just begun, step by step.
//!
//! Invariant: the picture shows means, as only these add up; the table has the quantiles.

use super::tables::{MISSING, quantile};
use tokrate_charts::{Axis, Block, Column, Section, StackedBar, StackedChart, Table, format};
use tokrate_record::run::{OpeningSummary, Rounds, STEPS, by_load};
use tokrate_record::{Metric, Record};
use tokrate_stats::Level;

/// The figures of the table: every step, and the whole.
const FIGURES: [Metric; 6] = [
    Metric::NameLookup,
    Metric::TcpConnect,
    Metric::TlsHandshake,
    Metric::RequestWrite,
    Metric::ResponseHead,
    Metric::ColdTtft,
];

/// The section, if requests opened connections.
pub(super) fn section(record: &Record) -> Option<Section> {
    let loads: Vec<Rounds<'_>> = by_load(&record.phases).into_iter().filter(|load| openings(load) > 0).collect();
    if loads.is_empty() {
        return None;
    }
    let bar =
        |load: &Rounds<'_>| Some(StackedBar { label: load.name().to_owned(), values: mean_steps(load)?.to_vec() });
    let chart = StackedChart {
        title: "From nothing to the first token".to_owned(),
        description: "Means over the requests that opened a connection; each bar ends at the mean cold TTFT."
            .to_owned(),
        axis: Axis::linear("Since the request began", "ms"),
        parts: STEPS.map(str::to_owned).to_vec(),
        bars: loads.iter().filter_map(bar).collect(),
    };
    let picture = (!chart.bars.is_empty()).then(|| Block::chart(&chart));
    Some(Section {
        title: "New connections".to_owned(),
        intro: "A process that has just begun looks the name up, connects, shakes hands and sends; only then does the time to first \
                token begin that a kept connection pays."
            .to_owned(),
        blocks: picture.into_iter().chain([Block::Table(by_level(&loads))]).collect(),
    })
}

/// Requests of a load that opened a connection.
fn openings(load: &Rounds<'_>) -> u64 {
    load.count(|phase| phase.opening().map_or(0, |opening| opening.n))
}

/// The means of the steps over all rounds together.
fn mean_steps(load: &Rounds<'_>) -> Option<[f64; 6]> {
    let of_round = |opening: &OpeningSummary| opening.mean_steps().map(|steps| (opening.n as f64, steps));
    let rounds: Vec<(f64, [f64; 6])> =
        load.phases.iter().filter_map(|phase| phase.opening()).map(of_round).collect::<Option<_>>()?;
    let n: f64 = rounds.iter().map(|(n, _)| n).sum();
    (n > 0.0).then(|| std::array::from_fn(|step| rounds.iter().map(|(of, steps)| of * steps[step]).sum::<f64>() / n))
}

fn by_level(loads: &[Rounds<'_>]) -> Table {
    let level = |load: &Rounds<'_>| {
        let resumed = load.count(|phase| phase.opening().map_or(0, |opening| opening.tls_resumed));
        let counts = [format::count(openings(load)), format::count(resumed)];
        let times = FIGURES.iter().flat_map(|metric| {
            let times = load.times(*metric);
            [Level::P50, Level::P95]
                .map(|level| times.as_ref().map_or_else(|| MISSING.to_owned(), |times| quantile(times.quantile(level))))
        });
        std::iter::once(load.name().to_owned()).chain(counts).chain(times).collect()
    };
    let heads = FIGURES.iter().flat_map(|metric| {
        [Level::P50, Level::P95].map(|level| Column::numbers(format!("{} {}", metric.label(), level.name()), "ms"))
    });
    Table {
        caption: "Steps by level".to_owned(),
        columns: [Column::words("level"), Column::numbers("opened", ""), Column::numbers("TLS resumed", "")]
            .into_iter()
            .chain(heads)
            .collect(),
        rows: loads.iter().map(level).collect(),
        notes: Vec::new(),
    }
}
