//! Measures the client's own error: the same load is repeated against the embedded engine, which logs every write.
//!
//! Invariant: an error that could not be measured is absent, never 0.

mod load;

use crate::abort::AbortPolicy;
use crate::bodies::Bodies;
use crate::config::{Calibration, Limits, RequestOptions};
use crate::drive::run_phase;
use crate::ground_truth::compare_with_log;
use crate::job::Job;
use crate::plan::{Backoff, Extent, Load, PhaseSpec};
use crate::progress::Progress;
use crate::prompts::{Lengths, PromptSource, Prompts};
use crate::{BenchError, Stop};
use http::HeaderMap;
pub(crate) use load::{ClientLoad, MAX_SECONDS};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use tokrate_core::{Rng, Span};
use tokrate_host::{Host, HostConfig, TruthLog};
use tokrate_meter::{ClientError, ClientErrorSource, RequestNumbers};
use tokrate_net::{ClientConfig, Clock, Route, Secrets, Sharing, Target};
use tokrate_sim::{Faults, Law, WORDS};
use tokrate_wire::{Dialect, Shape};

const CACHE_FILE: &str = "calibration-v2.json";

/// Measures the client's error at a load, or takes it from the cache.
#[derive(Debug)]
pub(crate) struct Calibrator {
    mode: Calibration,
    clock: Clock,
    /// HTTP version, and how streams share connections.
    client: ClientConfig,
}

/// The file of earlier calibrations.
#[derive(Serialize, Deserialize, Default)]
struct Cache {
    entries: BTreeMap<String, ClientError>,
}

impl Calibrator {
    /// Of a client that is like `client` in version and streams.
    pub fn new(mode: Calibration, clock: Clock, client: &ClientConfig) -> Calibrator {
        let client =
            ClientConfig { http: client.http, http2: client.http2, rx_timestamps: true, ..ClientConfig::default() };
        Calibrator { mode, clock, client }
    }

    /// The load that these rows put on the client, as it is calibrated: rounded if calibrations are cached. `None` if no stream was
    /// seen.
    pub fn load(&self, rows: &[RequestNumbers], spec: &PhaseSpec, workers: u32) -> Option<ClientLoad> {
        let seen = ClientLoad::seen(rows, spec, workers)?;
        Some(if self.file().is_some() { seen.rounded() } else { seen })
    }

    /// The client's error at a load; `None` if it is switched off or could not be found. An earlier calibration at a similar load is
    /// used where the mode allows it.
    pub fn error(&self, load: &ClientLoad, stop: &Stop, calibrating: &mut dyn FnMut()) -> Option<ClientError> {
        self.earlier(load).or_else(|| self.now(load, stop, calibrating))
    }

    /// The cache file, if calibrations are cached.
    fn file(&self) -> Option<PathBuf> {
        match &self.mode {
            Calibration::Cached(folder) => Some(folder.join(CACHE_FILE)),
            Calibration::Run | Calibration::Off => None,
        }
    }

    fn earlier(&self, load: &ClientLoad) -> Option<ClientError> {
        let error = read_cache(&self.file()?).entries.remove(&self.key(load))?;
        Some(ClientError { source: ClientErrorSource::Cached, ..error })
    }

    /// The same, measured now: a cached calibration may have coincided with other work.
    pub fn now(&self, load: &ClientLoad, stop: &Stop, calibrating: &mut dyn FnMut()) -> Option<ClientError> {
        if matches!(self.mode, Calibration::Off) {
            return None;
        }
        calibrating();
        // What an interrupt cut short says nothing.
        let error = self.measure(load, stop).ok().filter(|_| !stop.is_set())?;
        if let Some(file) = self.file().filter(|_| error.n > 0) {
            write_cache(&file, self.key(load), &error);
        }
        Some(error)
    }

    /// Runs the same load against the embedded engine on loopback.
    fn measure(&self, load: &ClientLoad, stop: &Stop) -> Result<ClientError, BenchError> {
        let (delay, events) = (load.delay(), load.events_of_answer());
        let host = Host::start(HostConfig {
            law: Law {
                slots: load.concurrency.max(1),
                base_delay: delay,
                prefill_tokens_per_second: f64::INFINITY,
                stream_tokens_per_second: load.event_rate * f64::from(load.event_tokens),
                tokens_per_chunk: load.event_tokens,
                ttft_jitter: load.ttft_spread,
                gap_jitter: load.gap_spread,
                contention: 0.0,
                coherency: 0.0,
                ..Law::default()
            },
            faults: Faults::default(),
            truth: TruthLog::Memory,
            ..HostConfig::default()
        })?;
        let target = Target::parse(&format!("http://{}/v1", host.address()))?;
        let client = self.client.clone();
        let route = Route::resolve_blocking(&target, &client, self.clock)?;
        let requests = load.requests();
        let warmup = u64::from(load.concurrency);
        let progress = Arc::new(Progress::default());
        let job = Arc::new(Job {
            spec: PhaseSpec {
                load: Load::Closed { concurrency: load.concurrency },
                extent: Extent::Requests(requests),
                warmup,
                backoff: Backoff::Obey,
            },
            bodies: Arc::new(bodies(events as u32 * load.event_tokens)),
            client,
            route,
            origin: String::new(),
            path: target.path_with(&Dialect::OpenAiChat.path("sim", Shape::Stream)),
            headers: HeaderMap::new(),
            authorizer: None,
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
            cost_limit: None,
            abort: AbortPolicy::new(Span::ZERO, Arc::clone(&progress)),
            progress,
            answer_within: None,
            clock: self.clock,
            stop: stop.clone(),
        });
        let mut output = run_phase(&job)?;
        let rows = output.take_rows(&job);
        let mut error =
            compare_with_log(ClientErrorSource::Calibrated, &rows, &job.id_prefix, &host.truth(), &host.lateness());
        host.stop();
        error.concurrency = Some(load.concurrency);
        error.events_per_second = Some(load.event_rate * f64::from(load.concurrency));
        Ok(error)
    }

    fn key(&self, load: &ClientLoad) -> String {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let Sharing { connections, streams } = self.client.http2;
        let sharing = [("connections", connections), ("streams", streams)];
        let sharing = sharing.iter().filter_map(|(name, value)| Some(format!(" {name}={}", (*value)?)));
        let sharing: String = sharing.collect();
        format!("{} {}{sharing} {load:?} cores={cores}", env!("CARGO_PKG_VERSION"), self.client.http.name())
    }
}

fn bodies(output_tokens: u32) -> Bodies {
    Bodies {
        dialect: Dialect::OpenAiChat,
        model: "calibration".to_owned(),
        options: RequestOptions { output_tokens: Lengths::Fixed(output_tokens), ..RequestOptions::plain() },
        prompts: Prompts::new(&PromptSource::synthetic(20, 0), WORDS, &Rng::root(0), Rng::root(0)),
        lengths: Rng::root(0),
        text: Rng::root(0),
        items: None,
    }
}

fn read_cache(file: &PathBuf) -> Cache {
    // An unreadable cache is ignored: the calibration runs again.
    std::fs::read_to_string(file).ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

fn write_cache(file: &PathBuf, key: String, error: &ClientError) {
    let mut cache = read_cache(file);
    cache.entries.insert(key, error.clone());
    let Ok(text) = serde_json::to_string_pretty(&cache) else { return };
    // If the cache cannot be written, the next run calibrates again.
    if let Some(folder) = file.parent() {
        let _ = std::fs::create_dir_all(folder);
    }
    let part = file.with_extension("part");
    if std::fs::write(&part, text).is_ok() {
        let _ = std::fs::rename(&part, file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOAD: ClientLoad = ClientLoad {
        concurrency: 1,
        event_rate: 2_000.0,
        event_tokens: 1,
        events: 20.0,
        ttft: Span::from_millis(1),
        ttft_spread: 0.0,
        gap_spread: 0.0,
        workers: 1,
    };

    #[test]
    fn an_earlier_calibration_does_until_one_is_asked_for_now_which_is_kept_instead() {
        let folder = std::env::temp_dir().join(format!("tokrate-calibration-{}", std::process::id()));
        let calibrator = |mode| Calibrator::new(mode, Clock::monotonic(), &ClientConfig::default());
        let cached = calibrator(Calibration::Cached(folder.clone()));
        let file = cached.file().expect("it is kept");
        // Taken on a machine that was busy.
        write_cache(
            &file,
            cached.key(&LOAD),
            &ClientError { n: 1, ttft_added_p50_ns: Some(9_000_000_000), ..ClientError::default() },
        );
        let earlier = cached.earlier(&LOAD).expect("it is there");
        assert_eq!((earlier.source, earlier.ttft_added_p50_ns), (ClientErrorSource::Cached, Some(9_000_000_000)));

        let mut calibrated = 0;
        let now = cached.now(&LOAD, &Stop::default(), &mut || calibrated += 1).expect("loopback answers");
        assert_eq!((now.source, calibrated), (ClientErrorSource::Calibrated, 1));
        let kept = cached.earlier(&LOAD).expect("it is there");
        assert_eq!((kept.source, kept.ttft_added_p50_ns), (ClientErrorSource::Cached, now.ttft_added_p50_ns));
        assert!(calibrator(Calibration::Off).now(&LOAD, &Stop::default(), &mut || calibrated += 1).is_none());
        assert_eq!(calibrated, 1, "what is switched off is not measured");
        std::fs::remove_dir_all(folder).expect("it was made here");
    }
}
