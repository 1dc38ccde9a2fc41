//! One row for each load level, for spreadsheets and scripts.
//!
//! It does not round. Invariant: the columns are the same for every run, units stand in their names, and what is
//! missing is empty, never 0.

use tokrate_record::run::{Load, by_rising_load, missing_figures};
use tokrate_record::{Metric, PhaseResult, Record};
use tokrate_stats::Level;

/// A column of the file.
enum Column {
    /// A name of its own.
    Own(&'static str, fn(&PhaseResult) -> Option<String>),
    /// A quantile of a metric, named after both and the unit.
    Quantile(Metric, Level, Part),
}

/// What of a quantile.
enum Part {
    Value,
    Low,
    High,
}

const COLUMNS: &[Column] = &[
    Column::Own("level", |phase| Some(phase.name.clone())),
    Column::Own("model", |phase| Some(phase.conditions.model.clone())),
    Column::Own("endpoint", |phase| Some(phase.conditions.endpoint.clone())),
    Column::Own("dialect", |phase| Some(phase.conditions.dialect.clone())),
    Column::Own("input_tokens", |phase| Some(phase.conditions.input_tokens.to_string())),
    Column::Own("output_tokens", |phase| Some(phase.conditions.output_tokens.to_string())),
    Column::Own("streamed", |phase| Some(phase.conditions.streaming.to_string())),
    Column::Own("arrivals", |phase| Some(phase.conditions.arrivals.clone())),
    Column::Own("concurrency", |phase| match phase.load {
        Load::Closed { concurrency } | Load::Batched { concurrency, .. } => Some(concurrency.to_string()),
        _ => None,
    }),
    Column::Own("rate_per_second", |phase| match phase.load {
        Load::Open { rate, .. } => Some(rate.to_string()),
        _ => None,
    }),
    Column::Own("valid", |phase| Some(phase.is_valid().to_string())),
    Column::Own("started", |phase| Some(phase.counts.started.to_string())),
    Column::Own("answered", |phase| Some(phase.counts.answered.to_string())),
    Column::Own("failed", |phase| Some(phase.counts.failed.to_string())),
    Column::Own("rate_limited", |phase| Some(phase.counts.rate_limited.to_string())),
    Column::Own("measured_n", |phase| Some(phase.counts.measured.to_string())),
    Column::Quantile(Metric::Ttft, Level::P50, Part::Value),
    Column::Quantile(Metric::Ttft, Level::P50, Part::Low),
    Column::Quantile(Metric::Ttft, Level::P50, Part::High),
    Column::Quantile(Metric::Ttft, Level::P95, Part::Value),
    Column::Quantile(Metric::Ttft, Level::P99, Part::Value),
    Column::Own("ttft_p99_stated", |phase| Some(phase.ttft.p99.value.is_some().to_string())),
    Column::Quantile(Metric::Itl, Level::P50, Part::Value),
    Column::Quantile(Metric::Itl, Level::P99, Part::Value),
    Column::Quantile(Metric::E2e, Level::P50, Part::Value),
    Column::Quantile(Metric::E2e, Level::P99, Part::Value),
    Column::Own("output_speed_median_tok_s", |phase| number(phase.output_speed.median.nearest_rank())),
    Column::Own("output_speed_median_low_tok_s", |phase| number(phase.output_speed.median.low)),
    Column::Own("output_speed_median_high_tok_s", |phase| number(phase.output_speed.median.high)),
    Column::Own("output_speed_slowest_5_percent_tok_s", |phase| {
        number(phase.output_speed.slowest_5_percent.nearest_rank())
    }),
    Column::Own("output_speed_n", |phase| Some(phase.output_speed.n.to_string())),
    Column::Own("output_speed_missing_share", |phase| number(phase.output_speed.missing_share)),
    Column::Own("throughput_tok_s", |phase| number(phase.throughput.as_ref().map(|seen| seen.tokens_per_second))),
    Column::Own("throughput_requests_s", |phase| {
        number(phase.throughput.as_ref().map(|seen| seen.requests_per_second))
    }),
    Column::Own("client_ttft_added_p50_ms", |phase| {
        added(phase.client_error.as_ref()?.ttft_added_p50_ns.map(|ns| ns as f64))
    }),
    Column::Own("client_timer_lag_p99_ms", |phase| added(phase.timer_lag.p99_ns.map(|ns| ns as f64))),
    Column::Own("absent", |phase| Some(missing_figures(std::slice::from_ref(phase)).join(" "))),
    Column::Own("answer_length_mean_tokens", |phase| number(phase.tokens.std_per_request.mean)),
    Column::Own("answer_length_standard_deviation_tokens", |phase| {
        number(phase.tokens.std_per_request.standard_deviation)
    }),
    Column::Own("answer_length_shortest_tokens", |phase| number(phase.tokens.std_per_request.min)),
    Column::Own("answer_length_longest_tokens", |phase| number(phase.tokens.std_per_request.max)),
    Column::Own("batch", |phase| phase.conditions.batch.map(|batch| batch.to_string())),
    Column::Quantile(Metric::TimePerItem, Level::P50, Part::Value),
    Column::Quantile(Metric::TimeToFirstArgument, Level::P50, Part::Value),
    Column::Quantile(Metric::TimeToValid, Level::P50, Part::Value),
    Column::Own("valid_share", |phase| number(phase.structure.as_ref().map(|seen| seen.valid_share()))),
    Column::Own("http2_connections", |phase| phase.streams().map(|streams| streams.connections.to_string())),
    Column::Quantile(Metric::StreamWait, Level::P50, Part::Value),
    Column::Quantile(Metric::NameLookup, Level::P50, Part::Value),
    Column::Quantile(Metric::TcpConnect, Level::P50, Part::Value),
    Column::Quantile(Metric::TlsHandshake, Level::P50, Part::Value),
    Column::Quantile(Metric::RequestWrite, Level::P50, Part::Value),
    Column::Quantile(Metric::ResponseHead, Level::P50, Part::Value),
    Column::Quantile(Metric::ColdTtft, Level::P50, Part::Value),
    Column::Quantile(Metric::SessionOpen, Level::P50, Part::Value),
    Column::Quantile(Metric::TimeToFirstAudio, Level::P50, Part::Value),
    Column::Quantile(Metric::TimeToFirstAudio, Level::P95, Part::Value),
    Column::Quantile(Metric::RealTimeFactor, Level::P50, Part::Value),
    Column::Quantile(Metric::RealTimeFactor, Level::P95, Part::Value),
    Column::Quantile(Metric::StalledTime, Level::P95, Part::Value),
    Column::Own("stalled_answers", |phase| {
        (phase.audio.with_length() > 0).then(|| phase.audio.stalled_answers.to_string())
    }),
    Column::Own("audio_seconds_per_second", |phase| number(phase.audio.seconds_per_second)),
    Column::Own("characters_per_second", |phase| number(phase.audio.characters_per_second)),
    Column::Own("word_error_rate", |phase| number(phase.audio.word_error_rate())),
    Column::Own("items_per_second", |phase| number(phase.items.as_ref().and_then(|items| items.per_second))),
    Column::Own("batch_late_at_most_p50_ms", |phase| number(phase.batches()?.late_at_most.p50.nearest_rank())),
    Column::Own("batch_requests_per_second", |phase| number(phase.batches()?.requests_per_second)),
    Column::Own("batch_output_tokens_per_second", |phase| number(phase.batches()?.output_tokens_per_second)),
    Column::Own("batch_failed_share", |phase| number(phase.batches()?.failed_share())),
    Column::Own("media", |phase| Some(phase.conditions.media.clone())),
    Column::Quantile(Metric::TimeToFirstImage, Level::P50, Part::Value),
    Column::Own("images_per_second", |phase| number(phase.media.as_ref()?.images_per_second)),
    Column::Own("megapixels_per_second", |phase| number(phase.media.as_ref()?.megapixels_per_second)),
    Column::Own("ttft_per_image_ms", |phase| number(phase.media.as_ref()?.per_image_ms.map(|slope| slope.value))),
];

/// The whole file (RFC 4180, line ends as LF). Names and records belong together.
pub fn of(names: &[String], records: &[Record]) -> String {
    let head = std::iter::once("target".to_owned()).chain(COLUMNS.iter().map(Column::name));
    let head = head.chain(["certificate_checked".to_owned()]);
    let mut text = head.collect::<Vec<String>>().join(",") + "\n";
    for (name, record) in names.iter().zip(records) {
        for phase in by_rising_load(&record.phases) {
            let cells = COLUMNS.iter().map(|column| column.cell(phase).unwrap_or_default());
            // Only TLS shows one.
            let checked = record.conditions.tls.then(|| (!tokrate_bench::is_unchecked(record)).to_string());
            let row = std::iter::once(name.clone()).chain(cells).chain([checked.unwrap_or_default()]);
            let row: Vec<String> = row.map(|cell| quoted(&cell)).collect();
            text += &(row.join(",") + "\n");
        }
    }
    text
}

/// The columns of a level that are numbers.
pub fn numbers(phase: &PhaseResult) -> Vec<(String, f64)> {
    let each = COLUMNS.iter().filter_map(|column| Some((column.name(), column.cell(phase)?.parse().ok()?)));
    each.collect()
}

impl Column {
    fn name(&self) -> String {
        match self {
            Column::Own(name, _) => (*name).to_owned(),
            Column::Quantile(metric, level, part) => {
                let part = match part {
                    Part::Value => "",
                    Part::Low => "_low",
                    Part::High => "_high",
                };
                // A factor has a unit in tables only: seconds for a second.
                let unit = if metric.is_in_milliseconds() { "_ms" } else { "" };
                format!("{}_{}{part}{unit}", metric.name(), level.name())
            }
        }
    }

    fn cell(&self, phase: &PhaseResult) -> Option<String> {
        match self {
            Column::Own(_, of) => of(phase),
            Column::Quantile(metric, level, part) => {
                let quantile = metric.times(phase)?.quantile(*level);
                match part {
                    // As it was seen; the columns beside it say where the sample carries it.
                    Part::Value => number(quantile.nearest_rank()),
                    Part::Low => number(quantile.low),
                    Part::High => number(quantile.high),
                }
            }
        }
    }
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
