//! The tables on standard output: a row for each level, or with `--wide` a column with every number, what failed first.

mod audio;

use super::paragraph::note;
use comfy_table::{Cell, CellAlignment, LineStyle, Table, presets};
use tokrate_bench::report;
use tokrate_charts::format::number;
use tokrate_record::run::{Rounds, ServerTimingSummary, Slope, TimingMedian, by_rising_load};
use tokrate_record::timeline::{Gauge, Sampled};
use tokrate_record::{Metric, PhaseResult};
use tokrate_stats::{Level, Quantile, QuantileStatus};

/// The numbers of all phases.
pub fn phases(phases: &[PhaseResult]) -> String {
    let (head, rows) = cells(phases);
    let loads: Vec<f64> = by_rising_load(phases).iter().map(|phase| phase.load.amount()).collect();
    let tables = report::column_groups(&loads).into_iter().map(|columns| {
        let mut table = Table::new();
        table.load_style(presets::UTF8_HORIZONTAL_ONLY.row_separator(LineStyle::none()));
        table.set_header(std::iter::once(Cell::new("")).chain(head[columns.clone()].iter().map(|cell| right(cell))));
        for (label, cells) in &rows {
            table.add_row(
                std::iter::once(Cell::new(label)).chain(cells[columns.clone()].iter().map(|cell| right(cell))),
            );
        }
        table.to_string()
    });
    tables.collect::<Vec<String>>().join("\n")
}

/// What a narrow terminal goes without, in this order.
const SPARED: [&str; 4] = ["E2E p50", "TTFT p95", "--slo kept", "n"];

/// The numbers that most readers want, a row for each load, and why numbers are missing. Where it is wider than the terminal some
/// columns are left out.
pub fn loads(phases: &[PhaseResult], width: usize) -> String {
    let loads = report::loads(phases);
    let mut text = String::new();
    for spared in 0..=SPARED.len() {
        let is_shown = |place: &usize| !SPARED[..spared].contains(&loads.columns[*place].label.as_str());
        let shown: Vec<usize> = (0..loads.columns.len()).filter(is_shown).collect();
        let mut table = Table::new();
        table.load_style(presets::UTF8_HORIZONTAL_ONLY.row_separator(LineStyle::none()));
        table.set_header(shown.iter().map(|&place| right(&head(&loads.columns[place]))));
        for row in &loads.rows {
            table.add_row(shown.iter().map(|&place| right(&row[place])));
        }
        text = table.to_string();
        if text.lines().all(|line| line.chars().count() <= width) {
            break;
        }
    }
    let notes = loads.notes.iter().map(|text| format!("\n{}", note(text, width).trim_end()));
    text.extend(notes);
    text
}

/// A column head, its unit below it.
fn head(column: &tokrate_charts::Column) -> String {
    if column.unit.is_empty() { column.label.clone() } else { format!("{}\n({})", column.label, column.unit) }
}

/// The numbers of all phases: column heads, then a label and a cell for each phase, row by row.
pub fn cells(phases: &[PhaseResult]) -> (Vec<String>, Vec<(String, Vec<String>)>) {
    let phases = by_rising_load(phases);
    let rows = ROWS
        .iter()
        .chain(audio::ROWS)
        .map(|row| (row.label(), phases.iter().map(|phase| row.cell(phase)).collect::<Vec<String>>()));
    // A row that says nothing in any level is left out, such as reasoning of a model without any.
    let shown = rows.filter(|(_, cells)| cells.iter().any(|cell| cell != "-"));
    (phases.iter().map(|phase| level(phase)).collect(), shown.collect())
}

/// A row of the table.
enum Row {
    /// A label of its own.
    Own(&'static str, fn(&PhaseResult) -> String),
    /// A quantile of a metric, labelled with both and the unit.
    Quantile(Metric, Level),
}

impl Row {
    fn label(&self) -> String {
        match self {
            Row::Own(label, _) => (*label).to_owned(),
            Row::Quantile(metric, level) => format!("{} {} ({})", metric.label(), level.name(), metric.unit()),
        }
    }

    fn cell(&self, phase: &PhaseResult) -> String {
        match self {
            Row::Own(_, of) => of(phase),
            Row::Quantile(metric, level) => {
                metric.times(phase).map_or_else(|| "-".to_owned(), |times| shown(times.quantile(*level)))
            }
        }
    }
}

const ROWS: &[Row] = &[
    Row::Own("requests answered / started", |phase| format!("{} / {}", phase.counts.answered, phase.counts.started)),
    Row::Own("failed", |phase| count(phase.counts.failed)),
    Row::Own("rate-limited", |phase| count(phase.counts.rate_limited)),
    Row::Own("withheld arrivals (429)", |phase| count(phase.counts.withheld)),
    Row::Own("held back by 429 (s)", |phase| {
        let limited = &phase.rate_limited;
        match (limited.held_back_seconds.filter(|seconds| *seconds > 0.0), limited.held_back_share) {
            (Some(seconds), Some(share)) => format!("{} ({:.0} %)", number(seconds), share * 100.0),
            _ => "-".to_owned(),
        }
    }),
    Row::Own("sessions completed / started", |phase| {
        let sessions = phase.sessions.as_ref();
        sessions.map_or_else(|| "-".to_owned(), |seen| format!("{} / {}", seen.completed, seen.started))
    }),
    Row::Own("TTFT p50, first / last turn (ms)", |phase| {
        let turns = phase.sessions.as_ref().map(|sessions| sessions.turns.as_slice());
        match turns {
            Some([first, .., last]) => {
                let p50 = |turn: &tokrate_record::run::TurnSummary| {
                    turn.ttft.p50.nearest_rank().map_or_else(|| "-".to_owned(), number)
                };
                format!("{} / {}", p50(first), p50(last))
            }
            _ => "-".to_owned(),
        }
    }),
    Row::Own("TTFT p50 by model, slowest / fastest (ms)", |phase| {
        let medians = phase.adapters.iter().filter_map(|row| row.ttft.p50.nearest_rank());
        let (least, most) = medians.fold((f64::INFINITY, 0.0_f64), |(least, most), it| (least.min(it), most.max(it)));
        if least > most { "-".to_owned() } else { format!("{} / {}", number(most), number(least)) }
    }),
    Row::Own("HTTP/2 connections (streams on one, most)", |phase| {
        let streams = phase.streams();
        streams.map_or_else(|| "-".to_owned(), |seen| format!("{} ({})", seen.connections, seen.most_sharing))
    }),
    Row::Own("requests that waited for a stream", |phase| {
        phase.streams().map_or_else(|| "-".to_owned(), |seen| count(seen.waited))
    }),
    Row::Quantile(Metric::StreamWait, Level::P50),
    Row::Quantile(Metric::StreamWait, Level::P95),
    Row::Quantile(Metric::NameLookup, Level::P50),
    Row::Quantile(Metric::NameLookup, Level::P95),
    Row::Quantile(Metric::TcpConnect, Level::P50),
    Row::Quantile(Metric::TcpConnect, Level::P95),
    Row::Quantile(Metric::TlsHandshake, Level::P50),
    Row::Quantile(Metric::TlsHandshake, Level::P95),
    Row::Quantile(Metric::RequestWrite, Level::P50),
    Row::Quantile(Metric::RequestWrite, Level::P95),
    Row::Quantile(Metric::ResponseHead, Level::P50),
    Row::Quantile(Metric::ResponseHead, Level::P95),
    Row::Quantile(Metric::ColdTtft, Level::P50),
    Row::Quantile(Metric::ColdTtft, Level::P95),
    Row::Own("TLS resumed / connections opened", |phase| {
        let opening = phase.opening().filter(|opening| opening.tls_handshake.n > 0);
        opening.map_or_else(|| "-".to_owned(), |opening| format!("{} / {}", opening.tls_resumed, opening.n))
    }),
    Row::Own("agents' sessions completed / started", |phase| {
        let agents = phase.agents.as_ref();
        agents.map_or_else(|| "-".to_owned(), |seen| format!("{} / {}", seen.completed, seen.started))
    }),
    Row::Quantile(Metric::SessionTime, Level::P50),
    Row::Quantile(Metric::SessionTime, Level::P95),
    Row::Own("steps of a session, on its critical path / in all", |phase| {
        let agents = phase.agents.as_ref().and_then(|seen| seen.path_steps_mean.zip(seen.steps_mean));
        agents.map_or_else(|| "-".to_owned(), |(path, all)| format!("{} / {}", number(path), number(all)))
    }),
    Row::Own("model calls on the critical path (%)", |phase| {
        let share = phase.agents.as_ref().and_then(|seen| seen.model_share);
        share.map_or_else(|| "-".to_owned(), |share| number(share * 100.0))
    }),
    Row::Own("cancelled", |phase| count(phase.counts.cancelled)),
    Row::Own("forfeited arrivals", |phase| count(phase.counts.forfeited)),
    Row::Own("measured (n)", |phase| phase.counts.measured.to_string()),
    Row::Quantile(Metric::Ttft, Level::P50),
    Row::Quantile(Metric::Ttft, Level::P95),
    Row::Quantile(Metric::Ttft, Level::P99),
    Row::Own("TTFAT p50 (ms)", |phase| match (phase.ttfat.p50.nearest_rank(), phase.ttft.p50.nearest_rank()) {
        (Some(answer), Some(any)) if answer > any => shown(&phase.ttfat.p50),
        _ => "-".to_owned(),
    }),
    Row::Quantile(Metric::Itl, Level::P50),
    Row::Quantile(Metric::Itl, Level::P99),
    Row::Quantile(Metric::E2e, Level::P50),
    Row::Own("E2E from due p99 (ms)", |phase| {
        if phase.load.is_closed() { "-".to_owned() } else { shown(&phase.e2e_from_due.p99) }
    }),
    Row::Own("E2E p95 (ms)", |phase| phase.items.as_ref().map_or_else(|| "-".to_owned(), |_| shown(&phase.e2e.p95))),
    Row::Quantile(Metric::TimePerItem, Level::P50),
    Row::Own("items per second", |phase| {
        let items = phase.items.as_ref().and_then(|items| items.per_second);
        items.map_or_else(|| "-".to_owned(), number)
    }),
    Row::Own("input tokens per second", |phase| {
        let tokens = phase.items.as_ref().and_then(|items| items.input_tokens_per_second);
        tokens.map_or_else(|| "-".to_owned(), number)
    }),
    Row::Own("batch ended earlier by at most, p50 (ms)", |phase| {
        phase.batches().map_or_else(|| "-".to_owned(), |batches| shown(&batches.late_at_most.p50))
    }),
    Row::Own("batch requests per second", |phase| {
        rate(phase.batches().and_then(|batches| batches.requests_per_second))
    }),
    Row::Own("batch output tokens per second", |phase| {
        rate(phase.batches().and_then(|batches| batches.output_tokens_per_second))
    }),
    Row::Own("batch requests failed (%)", |phase| {
        rate(phase.batches().and_then(|batches| batches.failed_share()).map(|share| share * 100.0))
    }),
    Row::Quantile(Metric::TimeToFirstImage, Level::P50),
    Row::Quantile(Metric::TimeToFirstImage, Level::P95),
    Row::Own("images per second", |phase| rate(phase.media.as_ref().and_then(|media| media.images_per_second))),
    Row::Own("megapixels per second", |phase| rate(phase.media.as_ref().and_then(|media| media.megapixels_per_second))),
    Row::Own("sound per second (s)", |phase| rate(phase.media.as_ref().and_then(|media| media.sound_per_second))),
    Row::Own("one more image, until the first token (ms)", |phase| {
        slope(phase.media.as_ref().and_then(|media| media.per_image_ms))
    }),
    Row::Own("one more image, prompt tokens by the server", |phase| {
        slope(phase.media.as_ref().and_then(|media| media.tokens_per_image))
    }),
    Row::Quantile(Metric::TimeToFirstArgument, Level::P50),
    Row::Quantile(Metric::TimeToFirstArgument, Level::P95),
    Row::Quantile(Metric::TimeToValid, Level::P50),
    Row::Quantile(Metric::TimeToValid, Level::P95),
    Row::Own("valid by the schema (%)", |phase| {
        phase.structure.as_ref().map_or_else(|| "-".to_owned(), |seen| number(seen.valid_share() * 100.0))
    }),
    Row::Own("answer length, mean ± SD (tokens)", |phase| {
        if !phase.is_text() {
            return "-".to_owned();
        }
        let length = &phase.tokens.std_per_request;
        let spread = length.standard_deviation.map_or_else(String::new, |spread| format!(" ± {}", number(spread)));
        length.mean.map_or_else(|| "-".to_owned(), |mean| format!("{}{spread}", number(mean)))
    }),
    Row::Own("answer length, least..most (tokens)", |phase| {
        if !phase.is_text() {
            return "-".to_owned();
        }
        let ends = phase.tokens.std_per_request.min.zip(phase.tokens.std_per_request.max);
        ends.map_or_else(|| "-".to_owned(), |(min, max)| format!("{min:.0}..{max:.0}"))
    }),
    Row::Own("output speed p50 (tok/s)", |phase| shown(&phase.output_speed.median)),
    Row::Own("output speed, slowest 5 % (tok/s)", |phase| shown(&phase.output_speed.slowest_5_percent)),
    Row::Own("answers without output speed (%)", |phase| {
        let share = phase.output_speed.missing_share.filter(|share| *share > 0.0 && phase.is_text());
        share.map_or_else(|| "-".to_owned(), |share| number(share * 100.0))
    }),
    Row::Own("throughput (tok/s)", |phase| {
        let load = Rounds { load: phase.load, phases: vec![phase] };
        if !load.is_text() {
            return "-".to_owned();
        }
        let mark = if load.is_throughput_stated() { "" } else { "~" };
        let throughput = phase.throughput.as_ref();
        throughput.map_or_else(|| "-".to_owned(), |all| format!("{mark}{}", number(all.tokens_per_second)))
    }),
    Row::Own("requests per second", |phase| {
        phase.throughput.as_ref().map_or_else(|| "-".to_owned(), |throughput| number(throughput.requests_per_second))
    }),
    Row::Own("goodput (req/s that keep every --slo)", |phase| {
        let per_second = phase.goodput.as_ref().and_then(|goodput| goodput.per_second);
        per_second.map_or_else(|| "-".to_owned(), number)
    }),
    Row::Own("requests that keep every --slo (%)", |phase| {
        let goodput = phase.goodput.as_ref().and_then(|goodput| goodput.share.zip(goodput.interval));
        goodput.map_or_else(
            || "-".to_owned(),
            |(share, interval)| {
                format!("{:.1} [{:.1}..{:.1}]", share * 100.0, interval.low * 100.0, interval.high * 100.0)
            },
        )
    }),
    Row::Own("requests of which that is not known", |phase| {
        phase.goodput.as_ref().map_or_else(|| "-".to_owned(), |goodput| count(goodput.undecided))
    }),
    Row::Own("server: prefill p50 (ms)", |phase| server(phase, |times| &times.prefill)),
    Row::Own("server: decode p50 (ms)", |phase| server(phase, |times| &times.decode)),
    Row::Own("TTFT beyond server's queue + load + prefill, p50 (ms)", |phase| {
        server(phase, |times| &times.ttft_beyond_server)
    }),
    Row::Own("decode window beyond server's, p50 (ms)", |phase| server(phase, |times| &times.decode_beyond_server)),
    Row::Own("concurrency seen, mean / peak", |phase| {
        phase.concurrency.mean.map_or_else(|| "-".to_owned(), |mean| format!("{mean:.1} / {}", phase.concurrency.peak))
    }),
    Row::Own("server: TTFT mean (ms)", |phase| of_server(phase, |server| Some(number(server.ttft.as_ref()?.mean_ms)))),
    Row::Own("server: TTFT p50 between (ms)", |phase| {
        of_server(phase, |server| {
            let p50 = server.ttft.as_ref()?.p50?;
            let high = p50.high_ms.map_or_else(|| "∞".to_owned(), number);
            Some(format!("{}..{high}", number(p50.low_ms)))
        })
    }),
    Row::Own("TTFT gap, client - server (ms)", |phase| of_server(phase, |server| server.ttft_gap_ms.map(number))),
    Row::Own("server: output tokens (beside the answers')", |phase| {
        of_server(phase, |server| {
            let tokens = server.output_tokens?;
            let apart = server.output_tokens_apart.map(|apart| format!(" ({:+.1} %)", apart * 100.0));
            Some(format!("{tokens}{}", apart.unwrap_or_default()))
        })
    }),
    Row::Own("server: speed while writing (tok/s)", |phase| {
        of_server(phase, |server| server.decode_speed().map(number))
    }),
    Row::Own("engine: running, mean / most", |phase| of_sampled(phase, |sampled| sampled.running.map(mean_and_most))),
    Row::Own("engine: waiting, mean / most", |phase| of_sampled(phase, |sampled| sampled.waiting.map(mean_and_most))),
    Row::Own("engine: KV cache in use (%)", |phase| {
        of_sampled(phase, |sampled| Some(number(sampled.kv_cache_use?.mean * 100.0)))
    }),
    Row::Own("GPU: power, all of them (W)", |phase| of_sampled(phase, |sampled| Some(number(sampled.power?.mean)))),
    Row::Own("GPU: energy a token (J)", |phase| of_sampled(phase, |sampled| sampled.joules_per_token.map(number))),
    Row::Own("client adds to TTFT, p50 / p99 (ms)", |phase| {
        added(phase, |error| Some((error.ttft_added_p50_ns? as f64, error.ttft_added_p99_ns? as f64)))
    }),
    Row::Own("client adds to gaps, p50 / p99 (ms)", |phase| {
        added(phase, |error| Some((error.gap_added_p50_ns? as f64, error.gap_added_p99_ns? as f64)))
    }),
    Row::Own("client timer lag p99 (ms)", |phase| {
        phase.timer_lag.p99_ns.map_or_else(|| "-".to_owned(), |lag| format!("{:.3}", lag as f64 / 1e6))
    }),
];

/// A level in few words, for a column head.
fn level(phase: &PhaseResult) -> String {
    let round = phase.name.rsplit_once(", round ").map_or_else(String::new, |(_, round)| format!(" ({round})"));
    format!("{}{round}", phase.load.short())
}

/// The median of a time that the server states, or of the gap to what the client saw.
fn server(phase: &PhaseResult, of: impl Fn(&ServerTimingSummary) -> &Option<TimingMedian>) -> String {
    let timing = phase.server_timings.as_ref().and_then(|times| of(times).as_ref());
    timing.map_or_else(|| "-".to_owned(), |timing| shown(&timing.median))
}

fn right(text: &str) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

fn count(n: u64) -> String {
    if n == 0 { "-".to_owned() } else { n.to_string() }
}

fn rate(rate: Option<f64>) -> String {
    rate.map_or_else(|| "-".to_owned(), number)
}

/// What one more adds, with its standard error.
fn slope(slope: Option<Slope>) -> String {
    slope.map_or_else(|| "-".to_owned(), |slope| format!("{} ± {}", number(slope.value), number(slope.error)))
}

/// A quantile with its interval; marked `~` when the sample only describes itself.
fn shown(quantile: &Quantile) -> String {
    match (quantile.value, quantile.low, quantile.high) {
        (Some(value), Some(low), Some(high)) => format!("{} [{}..{}]", number(value), number(low), number(high)),
        (Some(value), _, _) => number(value),
        (None, ..) if quantile.infinite => "failed".to_owned(),
        _ => few(quantile.status, quantile.descriptive),
    }
}

fn few(status: QuantileStatus, descriptive: Option<f64>) -> String {
    match (status, descriptive) {
        (QuantileStatus::NotEnoughSamples, Some(value)) => format!("~{}", number(value)),
        _ => "-".to_owned(),
    }
}

fn of_server(
    phase: &PhaseResult,
    of: impl Fn(&tokrate_meter::server_metrics::ServerReport) -> Option<String>,
) -> String {
    phase.server.as_ref().and_then(of).unwrap_or_else(|| "-".to_owned())
}

fn of_sampled(phase: &PhaseResult, of: impl Fn(&Sampled) -> Option<String>) -> String {
    phase.sampled.as_ref().and_then(of).unwrap_or_else(|| "-".to_owned())
}

fn mean_and_most(gauge: Gauge) -> String {
    format!("{} / {}", number(gauge.mean), number(gauge.max))
}

fn added(phase: &PhaseResult, of: impl Fn(&tokrate_meter::ClientError) -> Option<(f64, f64)>) -> String {
    phase
        .client_error
        .as_ref()
        .and_then(of)
        .map_or_else(|| "-".to_owned(), |(p50, p99)| format!("{:.3} / {:.3}", p50 / 1e6, p99 / 1e6))
}
