//! A trace of requests as an engine would answer it: the scheduler in virtual time, with step times of the formulas.
//!
//! Invariant: every request of a trace becomes one row, answered or refused, in the order of the trace.

mod settings;

use crate::asked::{Asked, Facts};
use crate::coefficients::Coefficients;
use crate::csv;
use crate::engine_time::EngineTime;
use crate::hardware::{Class, Device, GIB};
use serde::Serialize;
use std::collections::BTreeMap;
use tokrate_core::{Span, Tick};
use tokrate_engine::{Cluster, Emission, Engine, EngineArgs, EngineStats, Policy, Request, Speculation};

pub use settings::{EngineSettings, SettingsFile, SpeculativeConfig};

/// A request of a trace.
#[derive(Clone, PartialEq, Debug)]
pub struct TraceRequest {
    /// Its name in the trace.
    pub request: String,
    /// When it was sent (ms since the trace's start).
    pub arrival_ms: f64,
    /// Tokens of its prompt.
    pub input_tokens: u32,
    /// Tokens of its answer.
    pub output_tokens: u32,
    /// What was measured of it, where the trace says so: columns `real_ttft_ms`, `real_tpot_ms`, `real_latency_ms`.
    pub real: Option<Times>,
}

/// Times of one request (ms).
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Times {
    /// Sent to first token.
    pub ttft_ms: f64,
    /// Mean time of a token after the first; 0 of an answer of one token.
    pub tpot_ms: f64,
    /// Sent to last token.
    pub latency_ms: f64,
}

/// Reads a trace: comma-separated values with a head that names `arrival_ms`, `input_tokens`, `output_tokens`, and optionally
/// `request` and what was measured.
///
/// # Errors
/// The line that is wrong, and what it should hold.
pub fn parse_trace(text: &str) -> Result<Vec<TraceRequest>, String> {
    let head = csv::columns(text);
    for column in ["arrival_ms", "input_tokens", "output_tokens"] {
        if !head.iter().any(|name| name == column) {
            return Err(format!("line 1 has no column `{column}`; a trace begins with a line that names its columns"));
        }
    }
    let lines =
        text.lines().enumerate().skip(1).filter(|(_, line)| !line.trim().is_empty()).map(|(place, _)| place + 1);
    let requests: Vec<TraceRequest> =
        csv::rows(text).iter().zip(lines).map(|(row, line)| trace_request(row, line)).collect::<Result<_, _>>()?;
    match requests.is_empty() {
        true => Err("there is no request below the first line".to_owned()),
        false => Ok(requests),
    }
}

fn trace_request(row: &csv::Row, line: usize) -> Result<TraceRequest, String> {
    let tokens = |column: &str| {
        let read = row.number(column).filter(|value| *value >= 1.0 && value.fract() == 0.0 && *value <= 1e9);
        let wrong =
            || format!("line {line}: `{column}` is {:.40?}; give a whole number of at least 1", row.text(column));
        read.map(|value| value as u32).ok_or_else(wrong)
    };
    let arrival = row.number("arrival_ms").filter(|value| (0.0..=1e12).contains(value));
    let real = |column: &str| row.number(column).filter(|value| *value >= 0.0);
    let name = row.text("request");
    Ok(TraceRequest {
        request: if name.is_empty() { format!("{}", line - 1) } else { name.to_owned() },
        arrival_ms: arrival.ok_or_else(|| {
            format!("line {line}: `arrival_ms` is {:.40?}; give milliseconds since the start", row.text("arrival_ms"))
        })?,
        input_tokens: tokens("input_tokens")?,
        output_tokens: tokens("output_tokens")?,
        real: real("real_ttft_ms")
            .zip(real("real_tpot_ms"))
            .zip(real("real_latency_ms"))
            .map(|((ttft_ms, tpot_ms), latency_ms)| Times { ttft_ms, tpot_ms, latency_ms }),
    })
}

/// Where vLLM ends a prompt's part by default behind a server, and its requests at once: on devices from 70 GiB on (A100
/// apart), and on smaller ones (0.19, from memory).
const USUAL_ON_LARGE: (u32, u32) = (8_192, 1_024);
const USUAL_ON_SMALL: (u32, u32) = (2_048, 256);
const LARGE_FROM: f64 = 70.0 * GIB;
/// Fewest blocks that are worth a replay; a cache of less holds no conversation.
const FEWEST_BLOCKS: f64 = 16.0;

/// An engine that was set up for a trace.
pub struct Replay {
    cluster: Cluster<EngineTime>,
    /// What was assumed, in words.
    pub assumed: Vec<String>,
    /// Settings of each copy.
    pub args: EngineArgs,
    /// Name of the model in the table.
    pub model: String,
    /// Name of the device in the table.
    pub device: String,
    /// Devices in all.
    pub devices: u32,
    /// Class of the device.
    pub class: Class,
    /// Engine, as far as its speed is concerned.
    pub engine: crate::coefficients::Engine,
}

/// What came of a request.
#[derive(Clone, PartialEq, Debug)]
pub enum Outcome {
    /// It was answered.
    Answered {
        /// Sent to the step that first worked on it (ms).
        queue_ms: f64,
        /// Times.
        times: Times,
    },
    /// It can never run; why.
    Refused(String),
}

/// What came of a trace.
#[derive(Clone, PartialEq, Debug)]
pub struct Replayed {
    /// A row a request, in the order of the trace.
    pub outcomes: Vec<Outcome>,
    /// From the first arrival to the last token (s).
    pub seconds: f64,
    /// State and counts of the copies at the end.
    pub stats: Vec<EngineStats>,
}

impl Replay {
    /// Sets up an engine.
    ///
    /// # Errors
    /// A fact that is missing, unknown or impossible.
    pub fn new(settings: &EngineSettings, facts: &Facts, coefficients: &Coefficients) -> Result<Replay, String> {
        let engine = settings.engine.as_deref().unwrap_or("vllm");
        let policy = Policy::from_name(engine).ok_or_else(|| {
            let names: Vec<&str> = Policy::NAMED.iter().map(|(name, _)| *name).collect();
            format!("unknown engine {engine:?}; one of {}", names.join(", "))
        })?;
        let tensor = settings.tensor_parallel_size.unwrap_or(1).max(1);
        let copies = settings.data_parallel_size.unwrap_or(1).max(1);
        let mut resolved = asked(settings, policy, engine)?.resolve(facts)?;
        if settings.enforce_eager == Some(true) {
            resolved.assumed.push("graphs, though enforce_eager is set: small steps take longer without".to_owned());
        }
        let (model, device) = (resolved.question.model.name.clone(), resolved.question.device.name.clone());
        let (class, kind) = (resolved.question.device.class, resolved.question.engine);
        let usual = EngineArgs {
            max_model_len: resolved.question.model.max_context.unwrap_or(131_072.0) as u32,
            ..usual(&resolved.question.device)
        };
        let time = EngineTime::new(resolved.question, coefficients);
        let block_size = settings.block_size.unwrap_or(usual.block_size).max(1);
        let fitting = time.cache_tokens() / f64::from(block_size);
        if settings.num_gpu_blocks.is_none() && fitting < FEWEST_BLOCKS {
            return Err(format!("the memory beside the weights holds {fitting:.0} cache blocks; take more devices"));
        }
        let num_blocks = settings.num_gpu_blocks.unwrap_or_else(|| {
            resolved.assumed.push(format!("{fitting:.0} cache blocks of {block_size} tokens fit"));
            fitting.min(f64::from(u32::MAX / 2)) as u32
        });
        let args = EngineArgs {
            policy,
            max_num_seqs: settings.max_num_seqs.unwrap_or(usual.max_num_seqs),
            max_num_batched_tokens: settings.max_num_batched_tokens.unwrap_or(usual.max_num_batched_tokens),
            max_model_len: settings.max_model_len.unwrap_or(usual.max_model_len),
            block_size,
            num_blocks,
            prefix_caching: settings.enable_prefix_caching.unwrap_or(true),
            chunked_prefill: settings.enable_chunked_prefill.unwrap_or(true),
            long_prefill_token_threshold: settings.long_prefill_token_threshold.unwrap_or(0),
            speculation: speculation(settings)?,
            seed: 0,
        };
        let engines: Result<Vec<_>, _> = (0..copies).map(|_| Engine::new(args.clone(), time.clone())).collect();
        let cluster = engines.and_then(Cluster::new).map_err(|error| error.to_string())?;
        Ok(Replay {
            cluster,
            assumed: resolved.assumed,
            args,
            model,
            device,
            devices: tensor * copies,
            class,
            engine: kind,
        })
    }

    /// Runs a trace.
    pub fn run(mut self, trace: &[TraceRequest]) -> Replayed {
        let mut order: Vec<usize> = (0..trace.len()).collect();
        order.sort_by(|one, other| trace[*one].arrival_ms.total_cmp(&trace[*other].arrival_ms));
        let mut seen = Seen::default();
        let mut refused = BTreeMap::new();
        let mut emitted = Vec::new();
        for place in order {
            let request = &trace[place];
            let arrival = tick(request.arrival_ms);
            self.advance(arrival, &mut seen, &mut emitted);
            let unique = Request::unique(place as u64, request.input_tokens, request.output_tokens);
            match self.cluster.submit(&unique) {
                Ok(()) => self.cluster.poll(arrival, &mut emitted),
                Err(error) => {
                    refused.insert(place, error.to_string());
                }
            }
            seen.admit(&self.cluster);
        }
        while let Some(at) = self.cluster.wake_at() {
            self.advance(at, &mut seen, &mut emitted);
        }
        seen.take(&mut emitted);
        let outcome = |(place, request): (usize, &TraceRequest)| match refused.get(&place) {
            Some(why) => Outcome::Refused(why.clone()),
            None => seen.outcome(place as u64, request),
        };
        let start = trace.iter().map(|request| request.arrival_ms).fold(f64::INFINITY, f64::min);
        Replayed {
            outcomes: trace.iter().enumerate().map(outcome).collect(),
            seconds: (seen.end.since(Tick::ZERO).as_millis_f64() - start).max(0.0) / 1e3,
            stats: self.cluster.stats().collect(),
        }
    }

    /// Steps until `now`, one end at a time, so that the beginning of every step is seen.
    fn advance(&mut self, now: Tick, seen: &mut Seen, emitted: &mut Vec<(Tick, Emission)>) {
        while let Some(at) = self.cluster.wake_at().filter(|at| *at <= now) {
            self.cluster.poll(at, emitted);
            seen.take(emitted);
            seen.admit(&self.cluster);
        }
    }
}

/// The question that an engine's settings ask.
fn asked(settings: &EngineSettings, policy: Policy, engine: &str) -> Result<Asked, String> {
    let missing = |what: &str| format!("the engine's settings name no {what}; give `{what}`");
    if let Some(stages) = settings.pipeline_parallel_size.filter(|stages| *stages > 1) {
        return Err(format!(
            "pipeline_parallel_size is {stages}: pipelines are not modelled; use tensor_parallel_size"
        ));
    }
    let (tensor, copies) =
        (settings.tensor_parallel_size.unwrap_or(1).max(1), settings.data_parallel_size.unwrap_or(1).max(1));
    let (all, is_vllm) = (f64::from(tensor) * f64::from(copies), policy == Policy::Vllm);
    Ok(Asked {
        model: settings.model.clone().ok_or_else(|| missing("model"))?,
        hardware: settings.hardware.clone().ok_or_else(|| missing("hardware"))?,
        n_gpus: Some(all),
        tp: Some(f64::from(tensor)),
        // Copies of vLLM share their experts, whole or cut.
        attention_dp: (is_vllm && copies > 1).then_some(f64::from(copies)),
        ep: is_vllm.then_some(if settings.enable_expert_parallel == Some(true) { all } else { 1.0 }),
        memory_share: settings.gpu_memory_utilization,
        cache_value_bytes: cache_value_bytes(settings, is_vllm)?,
        engine: Some(if policy == Policy::Serial { "llama.cpp" } else { engine }.to_owned()),
        weight_precision: precision(settings),
        concurrency: Some(1.0),
        ..Asked::default()
    })
}

/// Settings that vLLM takes on a device where none are given.
fn usual(device: &Device) -> EngineArgs {
    let is_large = device.memory >= LARGE_FROM && !device.name.starts_with("A100");
    let (max_num_batched_tokens, max_num_seqs) = if is_large { USUAL_ON_LARGE } else { USUAL_ON_SMALL };
    EngineArgs { max_num_batched_tokens, max_num_seqs, ..EngineArgs::default() }
}

/// Bytes a value of the cache: vLLM keeps it in 16 bits unless it is told otherwise, whatever the weights are.
fn cache_value_bytes(settings: &EngineSettings, is_vllm: bool) -> Result<Option<f64>, String> {
    match settings.kv_cache_dtype.as_deref().map(str::to_lowercase).as_deref() {
        None | Some("auto") => Ok(is_vllm.then_some(2.0)),
        Some("bfloat16" | "bf16" | "float16" | "fp16" | "half") => Ok(Some(2.0)),
        Some(name) if name.starts_with("fp8") => Ok(Some(1.0)),
        Some("float32") => Ok(Some(4.0)),
        Some(name) => Err(format!("unknown kv_cache_dtype {name:?}; one of auto, bfloat16, float16, fp8")),
    }
}

fn tick(ms: f64) -> Tick {
    Tick::ZERO + Span::from_secs_f64(ms / 1e3)
}

fn precision(settings: &EngineSettings) -> Option<String> {
    let named = settings.quantization.clone().or_else(|| settings.dtype.clone());
    named
        .map(|name| name.trim_start_matches("torch.").to_owned())
        .filter(|name| name != "auto")
        .map(|name| if name == "bfloat16" || name == "float16" { "bf16".to_owned() } else { name })
}

fn speculation(settings: &EngineSettings) -> Result<Option<Speculation>, String> {
    let nested = settings.speculative_config.clone().unwrap_or_default();
    let tokens = settings.num_speculative_tokens.or(nested.num_speculative_tokens);
    match (tokens, settings.acceptance.or(nested.acceptance)) {
        (None | Some(0), _) => Ok(None),
        (Some(draft_tokens), Some(acceptance)) => Ok(Some(Speculation { draft_tokens, acceptance })),
        (Some(_), None) => {
            Err("num_speculative_tokens without `acceptance`: give the share of proposed tokens that is accepted"
                .to_owned())
        }
    }
}

/// When each request was first worked on, got its first and its last token.
#[derive(Default)]
struct Seen {
    begun: BTreeMap<u64, Tick>,
    first: BTreeMap<u64, Tick>,
    last: BTreeMap<u64, Tick>,
    end: Tick,
}

impl Seen {
    fn take(&mut self, emitted: &mut Vec<(Tick, Emission)>) {
        for (at, emission) in emitted.drain(..) {
            self.first.entry(emission.id).or_insert(at);
            self.last.insert(emission.id, at);
            self.end = self.end.max(at);
        }
    }

    fn admit(&mut self, cluster: &Cluster<EngineTime>) {
        for step in cluster.steps() {
            for (id, _) in &step.admitted {
                self.begun.entry(*id).or_insert(step.started_at);
            }
        }
    }

    fn outcome(&self, id: u64, request: &TraceRequest) -> Outcome {
        let sent = tick(request.arrival_ms);
        let since = |at: &Tick| at.since(sent).as_millis_f64();
        match (self.begun.get(&id), self.first.get(&id), self.last.get(&id)) {
            (Some(begun), Some(first), Some(last)) => {
                let later = f64::from(request.output_tokens.saturating_sub(1)).max(1.0);
                let times = Times {
                    ttft_ms: since(first),
                    tpot_ms: (since(last) - since(first)) / later,
                    latency_ms: since(last),
                };
                Outcome::Answered { queue_ms: since(begun), times }
            }
            _ => Outcome::Refused("the engine ended without answering it".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests;
