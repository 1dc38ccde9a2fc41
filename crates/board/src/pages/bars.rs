//! Medians with their intervals as bars, the safest first.
//!
//! Invariant: a row without enough samples has no bar and says how many are missing; one that fails says so in place of its rank.

use crate::board::Board;
use crate::data::Metric;
use crate::html::{lacking, title_case};
use crate::pages::course;
use crate::view::{Row, View};
use tokrate_charts::{Bar, BarChart, format};

/// Bars of rows of one group. `metric` is one of single requests; errors have no median and are drawn by output speed.
pub(crate) fn of_rows(board: &Board, view: &View, rows: &[Row<'_>], metric: Metric) -> BarChart {
    let metric = if metric == Metric::Errors { Metric::OutputSpeed } else { metric };
    let mut rows = rows.to_vec();
    let cautious = |row: &Row<'_>| {
        let value = row.summary.median(metric).worse_end(metric).unwrap_or(f64::NAN);
        if metric.more_is_better() { -value } else { value }
    };
    rows.sort_by(|a, b| cautious(a).total_cmp(&cautious(b)).then(a.entry.endpoint.cmp(&b.entry.endpoint)));
    let model = rows.first().map_or("", |row| board.models[row.entry.model].label.as_str());
    BarChart {
        title: format!("{} of {model}: {}", title_case(metric.words()), leader(board, view, &rows, metric)),
        description: "Median and 95 % interval. Endpoints that cannot be told apart share places.".to_owned(),
        axis: course::axis(metric),
        bars: rows.iter().map(|row| bar(board, view, row, metric)).collect(),
    }
}

fn bar(board: &Board, view: &View, row: &Row<'_>, metric: Metric) -> Bar {
    let estimate = row.summary.median(metric);
    let scaled = |value: Option<f64>| value.map(|value| course::on_axis(metric, value));
    let failed = row.summary.errors.value().filter(|_| row.summary.fails());
    Bar {
        label: board.providers[row.entry.provider].label.clone(),
        value: scaled(estimate.value),
        low: scaled(estimate.low),
        high: scaled(estimate.high),
        note: match (failed, row.entry.ranks(view.load, view.window, metric)) {
            (Some(share), _) => format!("{} fail", format::percent((share * 100.0).round() / 100.0)),
            (None, Some(ranks)) => format!("place {ranks}"),
            (None, None) => lacking(&estimate),
        },
    }
}

/// Who is ahead among those that answer, in words.
fn leader(board: &Board, view: &View, rows: &[Row<'_>], metric: Metric) -> String {
    let first =
        |row: &&Row<'_>| row.entry.reliable_ranks(view.load, view.window, metric).is_some_and(|ranks| ranks.best == 1);
    let names: Vec<&str> =
        rows.iter().filter(first).map(|row| board.providers[row.entry.provider].label.as_str()).collect();
    match names.as_slice() {
        [] => "too few samples".to_owned(),
        [one] => format!("{one} is ahead"),
        [one, other] => format!("{one} or {other}"),
        [one, other, rest @ ..] => format!("{one}, {other} or {} more", rest.len()),
    }
}
