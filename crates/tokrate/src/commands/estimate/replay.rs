//! `tokrate estimate replay`: the requests of a trace as an engine would answer them.

use super::profile::coefficients;
use crate::commands::Verdict;
use crate::flags::estimate::ReplayFlags;
use crate::out::estimate_replay::{Shown, csv, json, text};
use crate::out::records::{read_record, read_rows};
use anyhow::{Context, Result, anyhow, ensure};
use std::path::Path;
use tokrate_estimate::Estimator;
use tokrate_estimate::coefficients::Coefficients;
use tokrate_estimate::names::mentioned;
use tokrate_estimate::replay::{EngineSettings, Outcome, Replay, SettingsFile, Times, TraceRequest, parse_trace};
use tokrate_meter::RequestNumbers;
use tokrate_targets::reading::{self, MAX_DATA_BYTES, MAX_SETTINGS_BYTES};

/// Replays and prints: rows on standard output, the summary on standard error; with `--json` both as one object.
pub fn run(flags: &ReplayFlags) -> Result<Verdict> {
    let trace = trace(&flags.trace)?;
    let coefficients = coefficients(flags.profile.as_deref())?;
    let printed = replayed(&trace, &settings(flags)?, &coefficients, flags.json)?;
    crate::out::stdout::write(&printed.rows)?;
    anstream::eprint!("{}", printed.summary);
    Ok(if printed.answered { Verdict::Good } else { Verdict::NotMeasured })
}

/// Reads a trace: its own form, or the requests of a bench.
pub(super) fn trace(path: &Path) -> Result<Vec<TraceRequest>> {
    let shown = path.display();
    if path.extension().is_some_and(|extension| extension == "json") {
        let record = read_record(path)?;
        let beside = path.with_extension("jsonl");
        ensure!(
            beside.is_file(),
            "read the trace {shown}: the requests of the record are not beside it, in {}; measure with --jsonl as well",
            beside.display()
        );
        return of_rows(&read_rows(&beside, &record)?).with_context(|| format!("read the trace {shown}"));
    }
    let text = reading::text_of(path, MAX_DATA_BYTES).with_context(|| format!("read the trace {shown}"))?;
    parse_trace(&text).map_err(|error| anyhow!("read the trace {shown}: {error}"))
}

/// The answered requests of a bench in the order in which they were sent, warm-up included: they load the engine, too, and have
/// no times that are held against it.
pub(super) fn of_rows(phases: &[Vec<RequestNumbers>]) -> Result<Vec<TraceRequest>> {
    let mut sent: Vec<(u64, &RequestNumbers)> = phases
        .iter()
        .flatten()
        .filter_map(|row| Some((row.sent_at_ns?, row)))
        .filter(|(_, row)| row.is_answered())
        .collect();
    sent.sort_by_key(|(at, _)| *at);
    let first = sent.first().map(|(at, _)| *at).context("no request of it was answered")?;
    let tokens = |count: Option<u64>| count.and_then(|count| u32::try_from(count).ok()).filter(|count| *count > 0);
    let request = |(place, (at, row)): (usize, (u64, &RequestNumbers))| {
        let real = || {
            let ms = |ns: u64| ns as f64 / 1e6;
            Some(Times { ttft_ms: ms(row.ttft_ns?), tpot_ms: row.tpot_ms?, latency_ms: ms(row.e2e_ns?) })
        };
        Some(TraceRequest {
            request: place.to_string(),
            arrival_ms: (at - first) as f64 / 1e6,
            input_tokens: tokens(row.input_reported.or(row.input_asked))?,
            output_tokens: tokens(row.tokens_reported.or(Some(row.tokens_std)))?,
            real: if row.warmup { None } else { real() },
        })
    };
    Ok(sent.into_iter().enumerate().filter_map(request).collect())
}

/// What is printed of a replay.
pub(super) struct Printed {
    /// For standard output.
    pub rows: String,
    /// For standard error.
    pub summary: String,
    answered: bool,
}

/// Replays a trace.
pub(super) fn replayed(
    trace: &[TraceRequest],
    settings: &EngineSettings,
    coefficients: &Coefficients,
    as_json: bool,
) -> Result<Printed> {
    let facts = Estimator::embedded().facts;
    let engine = Replay::new(settings, &facts, coefficients).map_err(|error| anyhow!("estimate: {error}"))?;
    let (assumed, args) = (engine.assumed.clone(), engine.args.clone());
    let named = (engine.model.clone(), engine.device.clone(), engine.devices);
    let replayed = engine.run(trace);
    let shown = Shown { trace, replayed: &replayed, assumed: &assumed, args: &args, named: &named };
    let is_answered = |outcome: &Outcome| matches!(outcome, Outcome::Answered { .. });
    Ok(Printed {
        rows: if as_json { format!("{}\n", json(&shown)) } else { csv(&shown) },
        summary: if as_json { String::new() } else { text(&shown) },
        answered: replayed.outcomes.iter().any(is_answered),
    })
}

/// The file's settings, with the flags' over them.
pub(super) fn settings(flags: &ReplayFlags) -> Result<EngineSettings> {
    let mut source = String::new();
    let mut settings = match &flags.engine_args {
        None => EngineSettings::default(),
        Some(path) => {
            let text = reading::text_of(path, MAX_SETTINGS_BYTES)
                .with_context(|| format!("read the engine's settings {}", path.display()))?;
            let file: SettingsFile = serde_json::from_str(&text)
                .with_context(|| format!("understand the engine's settings {}", path.display()))?;
            source = format!("{} {}", shown_name(path), file.source.clone().unwrap_or_default());
            file.settings()
        }
    };
    let given = [
        (&flags.model, &mut settings.model),
        (&flags.hardware, &mut settings.hardware),
        (&flags.engine, &mut settings.engine),
        (&flags.precision, &mut settings.quantization),
    ];
    for (flag, setting) in given {
        if flag.is_some() {
            setting.clone_from(flag);
        }
    }
    if settings.hardware.is_none() {
        settings.hardware = device_of_names(&format!("{} {source}", shown_name(&flags.trace)));
    }
    Ok(settings)
}

fn shown_name(path: &Path) -> String {
    path.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned())
}

/// The device that files speak of in their names and sources, where nothing names it; said, as it may be wrong.
fn device_of_names(text: &str) -> Option<String> {
    let devices = Estimator::embedded().facts.devices;
    let place = mentioned(text, devices.iter().map(|device| device.aliases.as_str()))?;
    let name = devices[place].name.clone();
    anstream::eprintln!(
        "The settings name no hardware; {name}, as the files' names or source say. --hardware sets it."
    );
    Some(name)
}
