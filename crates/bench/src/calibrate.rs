//! The client's own error: what it adds to TTFT and gaps, found against an engine whose every write is logged.
//!
//! It refuses to know the endpoint that is measured: only the load on the client is repeated. Invariant: an error that
//! could not be measured is absent, never 0.

use crate::config::{Calibration, Limits, RequestOptions};
use crate::drive::{Job, run_phase};
use crate::exchange::Bodies;
use crate::patience::Patience;
use crate::plan::{Backoff, Extent, Load, PhaseSpec};
use crate::progress::Progress;
use crate::prompts::{PromptSource, PromptSpec, Prompts};
use crate::{BenchError, Stop};
use http::HeaderMap;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use tokrate_core::{Rng, Sketch, Span, Tick};
use tokrate_host::{Host, HostConfig, Truth, TruthLog};
use tokrate_meter::{ClientError, ClientErrorSource, RequestNumbers};
use tokrate_net::{ClientConfig, Clock, HttpVersion, Route, Secrets, Target};
use tokrate_sim::{Faults, Law, WORDS};
use tokrate_wire::{Dialect, Shape};

/// TTFT of the calibration's engine.
const DELAY: Span = Span::from_millis(60);
/// How long each calibrated stream writes, about.
const STREAM_SECONDS: f64 = 0.8;
/// Tokens of a calibration's stream: enough gaps, never too many.
const TOKENS: std::ops::RangeInclusive<f64> = 24.0..=400.0;
/// Requests per slot, so that low concurrencies have samples too.
const REQUESTS_LEAST: u64 = 12;
/// Event rates are calibrated in steps of this factor, so that a cached result can serve a like load.
const RATE_STEP: f64 = 2.0;
const CACHE_FILE: &str = "calibration-v1.json";

/// Measures the client's error at a load, or finds it among earlier ones.
#[derive(Debug)]
pub(crate) struct Calibrator {
    mode: Calibration,
    clock: Clock,
    http: HttpVersion,
}

/// The load on the client that a calibration repeats.
#[derive(Clone, Copy, PartialEq, Debug)]
struct ClientLoad {
    concurrency: u32,
    /// Events per second of one stream.
    stream_rate: f64,
    workers: u32,
}

/// The file of earlier calibrations.
#[derive(Serialize, Deserialize, Default)]
struct Cache {
    entries: BTreeMap<String, ClientError>,
}

impl Calibrator {
    pub fn new(mode: Calibration, clock: Clock, http: HttpVersion) -> Calibrator {
        Calibrator { mode, clock, http }
    }

    /// The client's error at the load that these rows put on it; `None` if it is switched off or could not be found.
    pub fn error_at(
        &self,
        rows: &[RequestNumbers],
        spec: &PhaseSpec,
        workers: u32,
        stop: &Stop,
        calibrating: &mut dyn FnMut(),
    ) -> Option<ClientError> {
        let load = ClientLoad::seen(rows, spec, workers)?;
        let file = match &self.mode {
            Calibration::Off => return None,
            Calibration::Run => None,
            Calibration::Cached(folder) => Some(folder.join(CACHE_FILE)),
        };
        let key = self.key(&load);
        if let Some(mut error) = file.as_ref().and_then(|file| read_cache(file).entries.remove(&key)) {
            error.source = ClientErrorSource::Cached;
            return Some(error);
        }
        calibrating();
        let error = self.measure(&load, stop).ok()?;
        if let Some(file) = file.filter(|_| !stop.is_set() && error.n > 0) {
            write_cache(&file, key, &error);
        }
        Some(error)
    }

    /// Runs the same load against the embedded engine on loopback.
    fn measure(&self, load: &ClientLoad, stop: &Stop) -> Result<ClientError, BenchError> {
        let tokens = (load.stream_rate * STREAM_SECONDS).clamp(*TOKENS.start(), *TOKENS.end()).round() as u32;
        let host = Host::start(HostConfig {
            law: Law {
                slots: load.concurrency.max(1),
                base_delay: DELAY,
                prefill_tokens_per_second: f64::INFINITY,
                stream_tokens_per_second: load.stream_rate,
                contention: 0.0,
                coherency: 0.0,
                ..Law::default()
            },
            faults: Faults::default(),
            truth: TruthLog::Memory,
            ..HostConfig::default()
        })?;
        let target = Target::parse(&format!("http://{}/v1", host.address()))?;
        let client = ClientConfig { http: self.http, ..ClientConfig::default() };
        let route = Route::resolve_blocking(&target, &client, self.clock)?;
        let requests = (u64::from(load.concurrency) * 2).max(REQUESTS_LEAST);
        let progress = Arc::new(Progress::default());
        let job = Arc::new(Job {
            spec: PhaseSpec {
                load: Load::Closed { concurrency: load.concurrency },
                extent: Extent::Requests(requests),
                warmup: u64::from(load.concurrency),
                backoff: Backoff::Obey,
            },
            bodies: Arc::new(bodies(tokens)),
            client,
            route,
            path: target.path_with(&Dialect::OpenAiChat.path("sim", Shape::Stream)),
            headers: HeaderMap::new(),
            secrets: Secrets::default(),
            id_prefix: "calibration".to_owned(),
            limits: Limits {
                connect: Span::from_secs(5),
                idle: Span::from_secs(5),
                total: Span::from_secs(20),
                wait: Span::ZERO,
                max_body_bytes: 1 << 24,
            },
            workers: load.workers,
            arrivals: Rng::root(0),
            first_prompt: 0,
            money: None,
            patience: Patience::new(Span::ZERO, Arc::clone(&progress)),
            progress,
            clock: self.clock,
            stop: stop.clone(),
        });
        let mut output = run_phase(&job)?;
        let rows = output.take_rows();
        let mut error = against_truth(&rows, &job.id_prefix, &host.truth(), host.lateness());
        host.stop();
        error.concurrency = Some(load.concurrency);
        error.events_per_second = Some(load.stream_rate * f64::from(load.concurrency));
        error.timer_lag_p50_ns = output.timer_lag.quantile(0.5);
        error.timer_lag_p99_ns = output.timer_lag.quantile(0.99);
        Ok(error)
    }

    fn key(&self, load: &ClientLoad) -> String {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        format!(
            "{} {} c={} rate={:.3} workers={} cores={cores}",
            env!("CARGO_PKG_VERSION"),
            self.http.name(),
            load.concurrency,
            load.stream_rate,
            load.workers
        )
    }
}

impl ClientLoad {
    /// The load that a phase put on the client; `None` if no stream was seen.
    fn seen(rows: &[RequestNumbers], spec: &PhaseSpec, workers: u32) -> Option<ClientLoad> {
        let concurrency = match spec.load {
            Load::Closed { concurrency } => concurrency,
            // The mean in flight by Little's law: busy time over the phase's time.
            _ => {
                let busy: u128 = rows.iter().map(|row| u128::from(row.ended_at_ns - row.due_at_ns)).sum();
                let first = rows.iter().map(|row| row.due_at_ns).min()?;
                let last = rows.iter().map(|row| row.ended_at_ns).max()?;
                (busy as f64 / (last - first).max(1) as f64).ceil().max(1.0) as u32
            }
        };
        let rates = rows.iter().filter_map(|row| {
            let window = row.last_text_at_ns? - row.first_text_at_ns?;
            (window > 0 && row.text_events > 1).then(|| (row.text_events - 1) as f64 / (window as f64 / 1e9))
        });
        let mut rates: Vec<f64> = rates.collect();
        rates.sort_unstable_by(f64::total_cmp);
        let median = *rates.get(rates.len() / 2)?;
        // Rounded up to the next step: a calibration never runs at less load than the phase.
        let stream_rate = RATE_STEP.powf(median.log(RATE_STEP).ceil()).clamp(1.0, 1e6);
        Some(ClientLoad { concurrency, stream_rate, workers })
    }
}

/// Compares what the client measured with what the engine wrote, request by request.
///
/// Added TTFT = the client's TTFT minus (first text written minus request received). Added gap = how much the delay
/// between a write and its arrival changed from one chunk to the next.
pub(crate) fn against_truth(rows: &[RequestNumbers], id_prefix: &str, truth: &Truth, lateness: Sketch) -> ClientError {
    let mut ttft_added = Vec::new();
    let mut gap_added = Vec::new();
    let (mut gaps_seen, mut gaps_written, mut window_moved) = (Vec::new(), Vec::new(), Vec::new());
    for row in rows.iter().filter(|row| row.failure.is_none() && !row.warmup) {
        let Some(written) = truth.request(&format!("{id_prefix}-{}", row.index)) else { continue };
        let Some(first) = written.writes.iter().find(|write| write.tokens > 0) else { continue };
        if let Some(ttft) = row.ttft_ns {
            let served = first.written_at - written.received_at;
            ttft_added.push(ttft as i64 - served.as_nanos() as i64);
        }
        let arrivals = arrivals(row, &written.writes);
        for pair in arrivals.windows(2) {
            let (seen, written) = (pair[1].0 - pair[0].0, pair[1].1 - pair[0].1);
            gap_added.push((seen.as_nanos() as i64 - written.as_nanos() as i64).unsigned_abs());
            gaps_seen.push(seen.as_nanos() as i64);
            gaps_written.push(written.as_nanos() as i64);
        }
        if let [first, .., last] = arrivals[..] {
            let (seen, written) = (last.0 - first.0, last.1 - first.1);
            window_moved.push((seen.as_nanos() as i64 - written.as_nanos() as i64).unsigned_abs());
        }
    }
    ttft_added.sort_unstable();
    for gaps in [&mut gaps_seen, &mut gaps_written] {
        gaps.sort_unstable();
    }
    for sizes in [&mut gap_added, &mut window_moved] {
        sizes.sort_unstable();
    }
    let moved = |q: f64| Some(rank(&gaps_seen, q)? - rank(&gaps_written, q)?);
    ClientError {
        source: ClientErrorSource::Calibrated,
        ttft_added_p50_ns: rank(&ttft_added, 0.5),
        ttft_added_p99_ns: rank(&ttft_added, 0.99),
        gap_added_p50_ns: rank(&gap_added, 0.5),
        gap_added_p99_ns: rank(&gap_added, 0.99),
        gap_moved_p50_ns: moved(0.5),
        gap_moved_p99_ns: moved(0.99),
        window_moved_p50_ns: rank(&window_moved, 0.5),
        engine_lateness_p99_ns: lateness.quantile(0.99),
        n: ttft_added.len() as u64,
        ..ClientError::default()
    }
}

/// When each chunk that the client saw arrived, and when its last byte was written.
fn arrivals(row: &RequestNumbers, writes: &[tokrate_host::WriteTruth]) -> Vec<(Tick, Tick)> {
    // A chunk that the client saw ends with the write up to which the engine had written as many tokens.
    let mut arrivals = Vec::with_capacity(row.chunk_list.len());
    let (mut seen, mut written, mut position) = (0_u64, 0_u64, 0);
    for chunk in &row.chunk_list {
        seen += u64::from(chunk.tokens);
        while position < writes.len() && written < seen {
            written += u64::from(writes[position].tokens);
            position += 1;
        }
        if written == seen && position > 0 {
            arrivals.push((chunk.at, writes[position - 1].written_at));
        }
    }
    arrivals
}

/// The nearest-rank quantile of sorted values.
fn rank<T: Copy>(sorted: &[T], q: f64) -> Option<T> {
    let rank = ((q * sorted.len() as f64).ceil() as usize).max(1);
    sorted.get(rank - 1).copied()
}

fn bodies(output_tokens: u32) -> Bodies {
    Bodies {
        dialect: Dialect::OpenAiChat,
        model: "calibration".to_owned(),
        options: RequestOptions {
            stream: true,
            include_usage: true,
            output_tokens,
            ignore_eos: false,
            legacy_max_tokens: false,
            temperature: None,
            extra: Vec::new(),
            keep_unknown: false,
        },
        prompts: Prompts::new(
            &PromptSource::Synthetic(PromptSpec { input_tokens: 20, shared_prefix_tokens: 0 }),
            WORDS,
            Rng::root(0),
        ),
    }
}

fn read_cache(file: &PathBuf) -> Cache {
    // A cache that cannot be read is as good as none: the calibration runs again.
    std::fs::read_to_string(file).ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

fn write_cache(file: &PathBuf, key: String, error: &ClientError) {
    let mut cache = read_cache(file);
    cache.entries.insert(key, error.clone());
    let Ok(text) = serde_json::to_string_pretty(&cache) else { return };
    // A cache that cannot be written costs time in the next run and nothing else.
    if let Some(folder) = file.parent() {
        let _ = std::fs::create_dir_all(folder);
    }
    let part = file.with_extension("part");
    if std::fs::write(&part, text).is_ok() {
        let _ = std::fs::rename(&part, file);
    }
}
