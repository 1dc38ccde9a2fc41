//! One row for each load level, for spreadsheets and scripts.
//!
//! It refuses to round. Invariant: the columns are the same for every run, units stand in their names, and what is missing
//! is empty, never 0.

use tokrate_meter::run::{Load, SpeedQuantile, absences};
use tokrate_meter::stats::Quantile;
use tokrate_meter::{PhaseResult, Record};

type Column = (&'static str, fn(&PhaseResult) -> Option<String>);

const COLUMNS: &[Column] = &[
    ("level", |phase| Some(phase.name.clone())),
    ("model", |phase| Some(phase.conditions.model.clone())),
    ("endpoint", |phase| Some(phase.conditions.endpoint.clone())),
    ("dialect", |phase| Some(phase.conditions.dialect.clone())),
    ("input_tokens", |phase| Some(phase.conditions.input_tokens.to_string())),
    ("output_tokens", |phase| Some(phase.conditions.output_tokens.to_string())),
    ("streamed", |phase| Some(phase.conditions.streaming.to_string())),
    ("arrivals", |phase| Some(phase.conditions.arrivals.clone())),
    ("concurrency", |phase| match phase.load {
        Load::Closed { concurrency } => Some(concurrency.to_string()),
        _ => None,
    }),
    ("rate_per_second", |phase| match phase.load {
        Load::Open { rate, .. } => Some(rate.to_string()),
        _ => None,
    }),
    ("valid", |phase| Some(phase.is_valid().to_string())),
    ("started", |phase| Some(phase.counts.started.to_string())),
    ("answered", |phase| Some(phase.counts.answered.to_string())),
    ("failed", |phase| Some(phase.counts.failed.to_string())),
    ("rate_limited", |phase| Some(phase.counts.rate_limited.to_string())),
    ("measured_n", |phase| Some(phase.counts.measured.to_string())),
    ("ttft_p50_ms", |phase| seen(&phase.ttft.p50)),
    ("ttft_p50_low_ms", |phase| number(phase.ttft.p50.low)),
    ("ttft_p50_high_ms", |phase| number(phase.ttft.p50.high)),
    ("ttft_p95_ms", |phase| seen(&phase.ttft.p95)),
    ("ttft_p99_ms", |phase| seen(&phase.ttft.p99)),
    ("ttft_p99_stated", |phase| Some(phase.ttft.p99.value.is_some().to_string())),
    ("itl_p50_ms", |phase| seen(&phase.itl.p50)),
    ("itl_p99_ms", |phase| seen(&phase.itl.p99)),
    ("e2e_p50_ms", |phase| seen(&phase.e2e.p50)),
    ("e2e_p99_ms", |phase| seen(&phase.e2e.p99)),
    ("output_speed_median_tok_s", |phase| speed(&phase.output_speed.median)),
    ("output_speed_median_low_tok_s", |phase| number(phase.output_speed.median.low)),
    ("output_speed_median_high_tok_s", |phase| number(phase.output_speed.median.high)),
    ("output_speed_slowest_5_percent_tok_s", |phase| speed(&phase.output_speed.slowest_5_percent)),
    ("output_speed_n", |phase| Some(phase.output_speed.n.to_string())),
    ("output_speed_missing_share", |phase| number(phase.output_speed.missing_share)),
    ("throughput_tok_s", |phase| number(phase.throughput.as_ref().map(|seen| seen.tokens_per_second))),
    ("throughput_requests_s", |phase| number(phase.throughput.as_ref().map(|seen| seen.requests_per_second))),
    ("client_ttft_added_p50_ms", |phase| added(phase.client_error.as_ref()?.ttft_added_p50_ns.map(|ns| ns as f64))),
    ("client_timer_lag_p99_ms", |phase| added(phase.timer_lag.p99_ns.map(|ns| ns as f64))),
    ("absent", |phase| Some(absences(std::slice::from_ref(phase)).join(" "))),
];

/// The whole file (RFC 4180, line ends as LF). Names and records belong together.
pub fn of(names: &[String], records: &[Record]) -> String {
    let head = std::iter::once("target").chain(COLUMNS.iter().map(|(name, _)| *name));
    let mut text = head.collect::<Vec<&str>>().join(",") + "\n";
    for (name, record) in names.iter().zip(records) {
        for phase in &record.phases {
            let cells = COLUMNS.iter().map(|(_, of)| of(phase).unwrap_or_default());
            let row: Vec<String> = std::iter::once(name.clone()).chain(cells).map(|cell| quoted(&cell)).collect();
            text += &(row.join(",") + "\n");
        }
    }
    text
}

/// A cell, in quotes where it has to be. One that a spreadsheet would take for a formula gets a quote before it.
fn quoted(cell: &str) -> String {
    let formula =
        cell.starts_with(['=', '+', '@', '\t', '\r']) || cell.starts_with('-') && cell.parse::<f64>().is_err();
    let cell = if formula { format!("'{cell}") } else { cell.to_owned() };
    if cell.contains([',', '"', '\n', '\r']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell }
}

fn number(value: Option<f64>) -> Option<String> {
    value.map(|value| value.to_string())
}

/// The quantile as it was seen; the column beside it says where the sample carries it.
fn seen(quantile: &Quantile) -> Option<String> {
    number(quantile.nearest_rank())
}

fn speed(quantile: &SpeedQuantile) -> Option<String> {
    number(quantile.value.or(quantile.descriptive))
}

fn added(nanoseconds: Option<f64>) -> Option<String> {
    number(nanoseconds.map(|ns| ns / 1e6))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_neither_two_cells_nor_a_formula() {
        let cells = ["plain", "a,b", "say \"hi\"", "=cmd|' /C calc'!A0", "-1.5", "-x", "two\nlines"].map(quoted);
        assert_eq!(
            cells,
            ["plain", "\"a,b\"", "\"say \"\"hi\"\"\"", "'=cmd|' /C calc'!A0", "-1.5", "'-x", "\"two\nlines\""]
        );
    }
}
