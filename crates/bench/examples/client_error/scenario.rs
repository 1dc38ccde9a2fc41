//! Test scenarios for the client error: few and many streams, slow and fast engines, cores busy with other work.
//!
//! Invariant: a seed gives the same scenario on every machine; how the machine copes with it differs.

#![allow(clippy::disallowed_methods, reason = "measures real time")]

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokrate_bench::plan::{Backoff, Extent, Load, PhaseSpec};
use tokrate_bench::prompts::{Lengths, PromptSource};
use tokrate_bench::schedule::ScheduleMode;
use tokrate_bench::{Calibration, Config, Limits, Remote, RequestOptions, Sampling, Target};
use tokrate_core::{Rng, Span};
use tokrate_net::HttpVersion;
use tokrate_sim::Law;
use tokrate_wire::Dialect;

/// An engine, the load on it, and what else the machine does.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The engine.
    pub law: Law,
    concurrency: u32,
    requests: u64,
    output_tokens: u32,
    /// Threads that do nothing but turn.
    busy: u32,
    /// Whether they rest in between: 20 ms of work, 30 ms of rest.
    rests: bool,
    http: HttpVersion,
}

impl Scenario {
    /// The scenario of this seed: 1 to 256 streams, 15 to 3,000 tokens a second of each, at most 60,000 of all.
    pub fn random(seed: u64) -> Scenario {
        let mut rng = Rng::root(seed);
        let mut between = |least: f64, most: f64| least * (most / least).powf(rng.unit());
        let concurrency = between(1.0, 257.0) as u32;
        let events_most = between(2_000.0, 60_000.0);
        let speed = between(15.0, 3_000.0).min(events_most / f64::from(concurrency)).max(5.0);
        let delay = between(0.005, 0.4);
        let output_tokens = between(24.0, 400.0).min(speed * 2.0).max(20.0) as u32;
        let rounds = between(1.0, 3.0) / (delay + f64::from(output_tokens) / speed);
        let requests = (rounds * f64::from(concurrency)) as u64;
        let mut pick = |of: &[f64]| of[rng.below(of.len() as u64) as usize];
        Scenario {
            law: Law {
                slots: concurrency + 8,
                base_delay: Span::from_secs_f64(delay),
                prefill_tokens_per_second: f64::INFINITY,
                stream_tokens_per_second: speed,
                contention: 0.0,
                coherency: 0.0,
                gap_jitter: pick(&[0.0, 0.0, 0.1, 0.3, 1.0]),
                ttft_jitter: pick(&[0.0, 0.05, 0.2, 0.5]),
                tokens_per_chunk: pick(&[1.0, 1.0, 1.0, 2.0, 4.0]) as u32,
                ..Law::default()
            },
            concurrency,
            requests: requests.clamp(u64::from(concurrency) + 8, 6_000),
            output_tokens,
            busy: pick(&[0.0, 0.0, 0.0, 1.0, 2.0, 4.0]) as u32,
            rests: pick(&[0.0, 1.0]) > 0.0,
            http: if pick(&[0.0, 0.0, 0.0, 1.0]) > 0.0 { HttpVersion::Http2 } else { HttpVersion::Http1 },
        }
    }

    /// What kind of scenario it is.
    pub fn kind(&self) -> String {
        let cores = if self.busy == 0 { "idle cores" } else { "busy cores" };
        let load = match (self.law.stream_tokens_per_second, self.concurrency) {
            (500.0.., _) => "500 tok/s a stream and more",
            (_, 50..) => "50 streams and more",
            _ => "few streams",
        };
        format!("{cores}, {load}")
    }

    /// Starts what else the machine does.
    pub fn keep_busy(&self) -> Busy {
        let stop = Arc::new(AtomicBool::new(false));
        let turn = |stop: Arc<AtomicBool>, rests: bool| {
            while !stop.load(Ordering::Relaxed) {
                let began = Instant::now();
                while began.elapsed() < Duration::from_millis(20) {
                    std::hint::spin_loop();
                }
                if rests {
                    std::thread::sleep(Duration::from_millis(30));
                }
            }
        };
        let threads = (0..self.busy).map(|_| {
            let (stop, rests) = (Arc::clone(&stop), self.rests);
            std::thread::spawn(move || turn(stop, rests))
        });
        Busy { threads: threads.collect(), stop }
    }

    /// The measurement of an engine of this law at `url`.
    pub fn config(&self, url: &str) -> Result<Config, Box<dyn Error>> {
        Ok(Config {
            target: Target::Remote(Box::new(Remote {
                provider: None,
                dialect: Dialect::OpenAiChat,
                price: None,
                server_metrics: None,
                engine_host: None,
                base: tokrate_net::Target::parse(url)?,
                model: "sim".to_owned(),
                headers: http::HeaderMap::new(),
                authorizer: None,
                key_origin: None,
                http: self.http,
                new_connections: false,
                tls_resume: false,
                http2: tokrate_net::Sharing::default(),
                ca_file: None,
                insecure: false,
                unix_socket: None,
                proxy: None,
            })),
            phases: vec![PhaseSpec {
                load: Load::Closed { concurrency: self.concurrency },
                extent: Extent::Requests(self.requests),
                warmup: u64::from(self.concurrency),
                backoff: Backoff::Obey,
            }],
            schedule_mode: ScheduleMode::Listed,
            request: RequestOptions {
                batches: None,
                images: None,
                structure: None,
                attachments: None,
                adapters: None,
                tool_turns: None,
                items: None,
                audio: None,
                stream: true,
                include_usage: true,
                output_tokens: Lengths::Fixed(self.output_tokens),
                ignore_eos: false,
                legacy_max_tokens: false,
                temperature: None,
                extra: Vec::new(),
                keep_unknown: false,
            },
            prompts: PromptSource::synthetic(30, 0),
            limits: Limits {
                connect: Span::from_secs(5),
                idle: Span::from_secs(20),
                total: Span::from_secs(60),
                wait: Span::from_secs(60),
                max_body_bytes: 1 << 24,
            },
            probe: false,
            keep_going: true,
            slos: Vec::new(),
            max_cost_usd: None,
            workers: None,
            sampling: Sampling::default(),
            calibration: Calibration::Run,
            seed: 0,
            text_seed: 0,
            host: String::new(),
            machine: String::new(),
            region: String::new(),
            version: String::new(),
        })
    }
}

/// Threads that keep cores busy until they are stopped.
pub struct Busy {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Busy {
    /// Ends them.
    pub fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}
