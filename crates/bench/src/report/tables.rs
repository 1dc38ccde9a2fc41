//! Tables of a report.
//!
//! Invariant: a missing value is shown as missing, never as 0.

mod audio;

use tokrate_charts::{Column, Table, format};
use tokrate_meter::ClientErrorSource;
use tokrate_record::curve::{CurveResult, ModelFit};
use tokrate_record::run::Rounds;
use tokrate_record::{EngineHost, Metric, PhaseResult, Record};
use tokrate_stats::{Level, Quantile, QuantileStatus};

pub(super) const MISSING: &str = "–";

/// A cell of a table by level: a quantile of a metric's times, all rounds together.
pub(super) fn level_cell(load: &Rounds<'_>, metric: Metric, level: Level) -> String {
    load.times(metric).map_or_else(|| MISSING.to_owned(), |times| quantile(times.quantile(level)))
}

/// Adds a row: its label, and what stands in it for each phase.
type AddRow<'a> = dyn FnMut(&str, &dyn Fn(&PhaseResult) -> String) + 'a;

/// Rows of pictures and sound, where there were any.
fn media_rows(phases: &[PhaseResult], row: &mut AddRow<'_>) {
    if phases.iter().all(|phase| phase.media.is_none()) {
        return;
    }
    let of = |phase: &PhaseResult, of: fn(&tokrate_record::run::MediaSummary) -> Option<f64>| {
        number(phase.media.as_ref().and_then(of))
    };
    for level in QUANTILES {
        let label = format!("time to first image {} (ms)", level.name());
        row(&label, &|phase| quantile(phase.time_to_first_image.quantile(level)));
    }
    row("images per second", &|phase| of(phase, |media| media.images_per_second));
    row("megapixels per second", &|phase| of(phase, |media| media.megapixels_per_second));
    row("sound per second (s)", &|phase| of(phase, |media| media.sound_per_second));
}

/// Rows of answers that a program reads, where there were any.
fn structure_rows(phases: &[PhaseResult], row: &mut AddRow<'_>) {
    if phases.iter().all(|phase| phase.structure.is_none()) {
        return;
    }
    for level in QUANTILES {
        let label = format!("time to first argument {} (ms)", level.name());
        row(&label, &|phase| quantile(phase.time_to_first_argument.quantile(level)));
        let label = format!("time to a valid whole {} (ms)", level.name());
        row(&label, &|phase| quantile(phase.time_to_valid.quantile(level)));
    }
    let share = |phase: &PhaseResult| phase.structure.as_ref().map(|seen| 100.0 * seen.valid_share());
    row("valid by the schema (%)", &|phase| number(share(phase)));
}

/// All levels: rows are numbers, columns are levels.
pub(super) fn levels(phases: &[PhaseResult]) -> Table {
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut row = |label: &str, of: &dyn Fn(&PhaseResult) -> String| {
        rows.push(std::iter::once(label.to_owned()).chain(phases.iter().map(of)).collect());
    };
    row("answered / started", &|phase| format!("{} / {}", phase.counts.answered, phase.counts.started));
    row("measured (n)", &|phase| format::count(phase.counts.measured));
    let shown = DISTRIBUTIONS.into_iter().filter(|metric| *metric != Metric::Ttfat || phases.iter().any(has_reasoning));
    for metric in shown {
        for level in QUANTILES {
            let label = format!("{} {} ({})", metric.label(), level.name(), metric.unit());
            row(&label, &|phase| {
                metric.times(phase).map_or_else(|| MISSING.to_owned(), |times| quantile(times.quantile(level)))
            });
        }
    }
    for level in QUANTILES {
        let label = format!("E2E from due, failures as infinite {} (ms)", level.name());
        row(&label, &|phase| quantile(phase.adj_e2e_from_due.quantile(level)));
    }
    lengths(phases, &mut row);
    if phases.iter().any(|phase| phase.items.is_some()) {
        for level in QUANTILES {
            let label = format!("time per item {} (ms)", level.name());
            row(&label, &|phase| quantile(phase.time_per_item.quantile(level)));
        }
        let of = |phase: &PhaseResult, of: fn(&tokrate_record::run::ItemSummary) -> Option<f64>| {
            number(phase.items.as_ref().and_then(of))
        };
        row("items per second", &|phase| of(phase, |items| items.per_second));
        row("input tokens per second", &|phase| of(phase, |items| items.input_tokens_per_second));
    }
    media_rows(phases, &mut row);
    structure_rows(phases, &mut row);
    audio::figures(phases, &mut row);
    row("answer length p50 (tokens)", &|phase| quantile(&phase.tokens.std_per_request.p50));
    row("output speed, median (tok/s)", &|phase| quantile(&phase.output_speed.median));
    row("output speed, slowest 5 % (tok/s)", &|phase| quantile(&phase.output_speed.slowest_5_percent));
    row("end-to-end speed, median (tok/s)", &|phase| quantile(&phase.e2e_speed.median));
    row("throughput (tok/s)", &|phase| throughput(phase, |seen| seen.tokens_per_second));
    row("throughput, busiest second (tok/s)", &|phase| throughput(phase, |seen| seen.peak_tokens_per_second));
    row("requests per second", &|phase| throughput(phase, |seen| seen.requests_per_second));
    row("in flight, mean / peak", &|phase| {
        phase
            .concurrency
            .mean
            .map_or_else(|| MISSING.to_owned(), |mean| format!("{mean:.1} / {}", phase.concurrency.peak))
    });
    let columns = std::iter::once(Column::words("number"));
    Table {
        caption: "Every number".to_owned(),
        columns: columns.chain(phases.iter().map(|phase| Column::numbers(phase.name.clone(), ""))).collect(),
        rows,
        notes: vec!["Percentiles of samples too few to state them are marked ~.".to_owned()],
    }
}

/// How long prompts were, where they differ.
fn lengths(phases: &[PhaseResult], row: &mut AddRow<'_>) {
    if phases.iter().any(|phase| phase.lengths.is_some()) {
        let of = |phase: &PhaseResult, level| {
            let lengths = phase.lengths.as_ref();
            lengths.map_or_else(|| MISSING.to_owned(), |lengths| quantile(lengths.input_asked.quantile(level)))
        };
        row("prompt length p50 (tokens)", &|phase| of(phase, Level::P50));
        row("prompt length p90 (tokens)", &|phase| of(phase, Level::P90));
    }
}

/// Whether text of an answer came later than any text: without reasoning its time is that of the first token, said twice.
fn has_reasoning(phase: &PhaseResult) -> bool {
    let (answer, any) = (phase.ttfat.p50.nearest_rank(), phase.ttft.p50.nearest_rank());
    answer.zip(any).is_some_and(|(answer, any)| answer > any)
}

const QUANTILES: [Level; 4] = [Level::P50, Level::P90, Level::P95, Level::P99];
const DISTRIBUTIONS: [Metric; 5] = [Metric::Ttft, Metric::Ttfat, Metric::Itl, Metric::ChunkGap, Metric::E2e];

/// How many requests read how.
pub(super) fn comfort(phases: &[PhaseResult]) -> Table {
    let bands =
        ["slow (< 10)", "hesitant (10–15)", "comfortable (15–30)", "fluid (30–50)", "faster than reading (> 50)"];
    let rows = phases.iter().map(|phase| {
        let bands = &phase.comfort;
        let counts = [bands.slow, bands.hesitant, bands.comfortable, bands.fluid, bands.faster_than_reading];
        std::iter::once(phase.name.clone()).chain(counts.map(format::count)).collect()
    });
    Table {
        caption: "Requests by comfort band of their output speed (tok/s)".to_owned(),
        columns: std::iter::once(Column::words("level")).chain(bands.map(|band| Column::numbers(band, ""))).collect(),
        rows: rows.collect(),
        notes: vec![
            "People read 200 to 250 words a minute; above 50 tok/s speed matters to agents, not to readers.".to_owned(),
        ],
    }
}

/// The degradation table.
pub(super) fn degradation(curve: &CurveResult) -> Table {
    let share = |value: Option<f64>| value.map_or_else(|| MISSING.to_owned(), format::percent);
    let rows = curve.levels.iter().map(|level| {
        vec![
            format::plain(level.level.load),
            share(level.relative_output_speed),
            share(level.efficiency),
            level.relative_ttft.map_or_else(|| MISSING.to_owned(), |times| format!("× {}", format::number(times))),
        ]
    });
    Table {
        caption: "Compared with the lowest load".to_owned(),
        columns: vec![
            Column::numbers("load", ""),
            Column::numbers("output speed", ""),
            Column::numbers("throughput per unit of load", ""),
            Column::numbers("TTFT", ""),
        ],
        rows: rows.collect(),
        notes: Vec::new(),
    }
}

/// The largest error at levels that a model was not fitted to with which it is drawn: one that misses them by more, or that no level could
/// judge, would only invent what lies between the points.
const MAX_DRAWN_ERROR: f64 = 0.1;

/// Whether a model is drawn through the points.
pub(super) fn is_drawn(fit: &ModelFit) -> bool {
    fit.chosen && fit.held_out_error.is_some_and(|error| error <= MAX_DRAWN_ERROR)
}

/// How well each model of throughput predicts levels that it was not fitted to; `None` where the levels are too few to judge any.
pub(super) fn models(curve: &CurveResult) -> Option<Table> {
    let row = |fit: &ModelFit| {
        let verdict = match (fit.chosen, fit.admitted) {
            (true, _) if is_drawn(fit) => "chosen and drawn",
            (true, _) => "chosen, too far off to be drawn",
            (false, true) => "not ruled out",
            (false, false) => "ruled out",
        };
        let error = fit.held_out_error.map_or_else(|| "too few levels".to_owned(), format::percent);
        vec![fit.model.kind.text().to_owned(), error, verdict.to_owned()]
    };
    curve.models.iter().any(|fit| fit.held_out_error.is_some()).then(|| Table {
        caption: "Models of throughput".to_owned(),
        columns: vec![
            Column::words("model"),
            Column::numbers("off at levels left out of its fit", ""),
            Column::words("verdict"),
        ],
        rows: curve.models.iter().map(row).collect(),
        notes: Vec::new(),
    })
}

/// Failures by kind; `None` without any.
pub(super) fn failures(phases: &[PhaseResult]) -> Option<Table> {
    let mut rows = Vec::new();
    for phase in phases {
        for failure in &phase.failures {
            rows.push(vec![
                phase.name.clone(),
                failure.kind.name().replace('_', " "),
                format::count(failure.count),
                format::percent(failure.share),
                failure.message.clone().unwrap_or_default(),
                failure.hint.clone(),
            ]);
        }
        if phase.rate_limited.count > 0 {
            let waits = phase.rate_limited.retry_after_total_ms;
            rows.push(vec![
                phase.name.clone(),
                "rate-limited".to_owned(),
                format::count(phase.rate_limited.count),
                phase.rate_limited.share.map_or_else(String::new, format::percent),
                waits
                    .map_or_else(String::new, |waits| format!("asked to wait {} in all", format::seconds(waits / 1e3))),
                tokrate_core::FailureKind::RateLimited.hint().to_owned(),
            ]);
        }
    }
    let columns = ["level", "kind"].map(Column::words).into_iter();
    let numbers = ["requests", "share"].map(|label| Column::numbers(label, "")).into_iter();
    (!rows.is_empty()).then(|| Table {
        caption: "Failures by kind".to_owned(),
        columns: columns.chain(numbers).chain(["first message", "what to do"].map(Column::words)).collect(),
        rows,
        notes: Vec::new(),
    })
}

/// The server's metrics; `None` without any.
pub(super) fn server(phases: &[PhaseResult]) -> Option<Table> {
    let whole = |value: Option<u64>| value.map_or_else(|| MISSING.to_owned(), format::count);
    let rows = phases.iter().filter_map(|phase| {
        let server = phase.server.as_ref()?;
        let ttft = server.ttft.as_ref();
        let between = ttft.and_then(|ttft| ttft.p50).map_or_else(
            || MISSING.to_owned(),
            |p50| match p50.high_ms {
                Some(high) => format!("{} to {}", format::number(p50.low_ms), format::number(high)),
                None => format!("above {}", format::number(p50.low_ms)),
            },
        );
        Some(vec![
            phase.name.clone(),
            whole(server.requests),
            whole(server.output_tokens),
            server.output_tokens_apart.map_or_else(|| MISSING.to_owned(), |apart| format!("{:+.1} %", apart * 100.0)),
            number(ttft.map(|ttft| ttft.mean_ms)),
            between,
            number(server.client.ttft_mean_ms),
            number(server.ttft_gap_ms),
            number(server.queue.as_ref().map(|queue| queue.mean_ms)),
            number(server.decode_speed()),
        ])
    });
    let rows: Vec<Vec<String>> = rows.collect();
    let numbers = [
        ("requests", ""),
        ("output tokens", ""),
        ("beside the answers' own", ""),
        ("TTFT, mean", "ms"),
        ("TTFT p50, in the bucket", "ms"),
        ("TTFT of the client, mean", "ms"),
        ("gap", "ms"),
        ("queue, mean", "ms"),
        ("speed while writing", "tok/s"),
    ];
    let columns = numbers.into_iter().map(|(label, unit)| Column::numbers(label, unit));
    (!rows.is_empty()).then(|| Table {
        caption: "The server's own metrics".to_owned(),
        columns: std::iter::once(Column::words("level")).chain(columns).collect(),
        rows,
        notes: Vec::new(),
    })
}

/// What the client adds, level by level.
pub(super) fn client_error(phases: &[PhaseResult]) -> Table {
    let added = |value: Option<f64>| value.map_or_else(|| MISSING.to_owned(), |ns| format!("{:.3}", ns / 1e6));
    let rows = phases.iter().map(|phase| {
        let error = phase.client_error.clone().unwrap_or_default();
        let source = match error.source {
            ClientErrorSource::Truth => "this very run",
            ClientErrorSource::Calibrated => "measured now",
            ClientErrorSource::Cached => "measured earlier",
            ClientErrorSource::Off => "not measured",
        };
        vec![
            phase.name.clone(),
            source.to_owned(),
            format::count(error.n),
            added(error.ttft_added_p50_ns.map(|ns| ns as f64)),
            added(error.ttft_added_p99_ns.map(|ns| ns as f64)),
            added(error.gap_added_p50_ns.map(|ns| ns as f64)),
            added(error.gap_added_p99_ns.map(|ns| ns as f64)),
            added(error.timer_lag_p99_ns.map(|ns| ns as f64)),
            error.reason.clone().unwrap_or_else(|| "none".to_owned()),
        ]
    });
    let numbers = ["TTFT + p50", "TTFT + p99", "gap ± p50", "gap ± p99", "timer lag p99"];
    Table {
        caption: "What the client adds".to_owned(),
        columns: ["level", "source"]
            .map(Column::words)
            .into_iter()
            .chain([Column::numbers("n", "")])
            .chain(numbers.map(|label| Column::numbers(label, "ms")))
            .chain([Column::words("figures not valid")])
            .collect(),
        rows: rows.collect(),
        notes: Vec::new(),
    }
}

/// Every condition of the run.
pub(super) fn conditions(record: &Record) -> Vec<(String, String)> {
    let conditions = tokrate_core::Conditions::from(&record.conditions);
    let engine = record.engine_host.as_ref().map(|host| ("engine's machine".to_owned(), machine(host)));
    let price = record.price.as_ref().map(|price| {
        // A price that was given with the run has no date.
        let date = if price.date.is_empty() { String::new() } else { format!(" ({})", price.date) };
        let (input, output) = (price.price.input.as_usd(), price.price.output.as_usd());
        let text = format!("{input} USD per million tokens in, {output} out{date}");
        ("price".to_owned(), text)
    });
    conditions
        .entries()
        .into_iter()
        .filter(|(name, value)| match *name {
            // Those of the run as a whole are the sum of its levels.
            "concurrency" | "rate" | "batch" => value != "none",
            "task" => value != "chat",
            _ => !value.is_empty(),
        })
        .map(|(name, value)| (name.replace('_', " "), value))
        .chain(engine)
        .chain(price)
        .collect()
}

/// A machine in one line.
fn machine(host: &EngineHost) -> String {
    let cores = host.cores.map(|cores| format!("{cores} cores"));
    let gibibytes = |bytes: u64| format!("{:.0} GiB", bytes as f64 / f64::from(1 << 30));
    let gpus = host.gpus.iter().flatten().map(|gpu| match gpu.memory_bytes {
        Some(bytes) => format!("{} ({})", gpu.name, gibibytes(bytes)),
        None => gpu.name.clone(),
    });
    let memory = host.memory_bytes.map(gibibytes);
    host.cpu.iter().cloned().chain(cores).chain(memory).chain(gpus).collect::<Vec<_>>().join(", ")
}

/// How warm-up and drain were cut.
pub(super) fn windows(phases: &[PhaseResult]) -> Option<Table> {
    let rows = phases.iter().map(|phase| {
        let steady = phase.steady.as_ref();
        let rule = steady.map(|steady| steady.rule.clone()).or_else(|| phase.steady_missing.clone());
        vec![
            phase.name.clone(),
            phase.warmup_rule.clone(),
            steady.map_or_else(|| MISSING.to_owned(), |steady| format::seconds(steady.span().as_secs_f64())),
            rule.unwrap_or_default(),
        ]
    });
    (!phases.is_empty()).then(|| Table {
        caption: "Warm-up and steady window".to_owned(),
        columns: vec![
            Column::words("level"),
            Column::words("warm-up"),
            Column::numbers("window", ""),
            Column::words("rule"),
        ],
        rows: rows.collect(),
        notes: Vec::new(),
    })
}

/// A number, or the mark of one that is missing.
pub(super) fn number(value: Option<f64>) -> String {
    value.map_or_else(|| MISSING.to_owned(), format::number)
}

pub(super) fn quantile(quantile: &Quantile) -> String {
    match (quantile.value, quantile.low, quantile.high) {
        (Some(value), Some(low), Some(high)) => format!("{} [{}]", format::number(value), format::interval(low, high)),
        (Some(value), ..) => format::number(value),
        _ if quantile.infinite => "failed".to_owned(),
        _ => few(quantile.status, quantile.descriptive),
    }
}

fn few(status: QuantileStatus, descriptive: Option<f64>) -> String {
    match (status, descriptive) {
        (QuantileStatus::NotEnoughSamples, Some(value)) => format!("~{}", format::number(value)),
        _ => MISSING.to_owned(),
    }
}

fn throughput(phase: &PhaseResult, of: impl Fn(&tokrate_record::run::Throughput) -> f64) -> String {
    phase.throughput.as_ref().map_or_else(|| MISSING.to_owned(), |seen| format::number(of(seen)))
}
