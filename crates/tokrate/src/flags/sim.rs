//! The flags of `tokrate sim`.

use clap::Args;
use std::path::PathBuf;

/// `tokrate sim`, as typed.
#[derive(Args, Debug, Default)]
#[command(after_help = "\
Examples:
  tokrate sim                                        on 127.0.0.1:8400, model `sim`
  tokrate sim --slots 8 --speed 60 --fault rate_limited=0.05 --fault disconnect@20=0.01
  tokrate sim --truth-log truth.jsonl                every write with its nanosecond
  tokrate sim --engine vllm --model llama-3.1-8b --hardware h100-sxm --precision fp8
                                                     the scheduler of vLLM with step times of that hardware
  tokrate sim --script examples/agent-script.toml    an agent's whole task, with calls of tools
  tokrate sim --personas examples/personas.toml      several providers, each with its own character

Dialects, by path: OpenAI's and Anthropic's under /v1, Gemini's under /v1beta, Ollama's under /api,
llama.cpp's at /completion. What the engine counts itself is at /metrics.")]
pub struct Flags {
    /// Address to listen on [default: 127.0.0.1:8400]
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<String>,
    /// Name under which it may be asked, beside the addresses that it listens on and `localhost`; repeatable
    #[arg(long = "allow-host", value_name = "NAME")]
    pub allow_hosts: Vec<String>,
    /// File of virtual providers to serve in place of one engine (TOML, see examples/personas.toml)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["Law", "model", "key_env", "faults"])]
    pub personas: Option<PathBuf>,
    /// File of scripted answers: which text and which calls of tools a request gets in place of words (TOML, see
    /// examples/agent-script.toml)
    #[arg(long, value_name = "FILE")]
    pub script: Option<PathBuf>,
    /// Model name that answers carry; with --engine the model whose speed is estimated
    #[arg(long, value_name = "NAME", default_value = "sim")]
    pub model: String,
    /// Environment variable that holds the API key to demand
    #[arg(long, value_name = "VAR")]
    pub key_env: Option<String>,
    /// Seed of everything that is drawn
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// File for the truth log (JSONL): every write handed to the socket with its monotonic nanosecond
    #[arg(long, value_name = "FILE")]
    pub truth_log: Option<PathBuf>,
    /// Power of each of its devices (--gpus, or one), published at /gpu-metrics as DCGM-exporter does: idle, with every place taken,
    /// and the cap at which clocks fall instead, such as 100:700:500 (W)
    #[arg(long, value_name = "IDLE:PEAK[:CAP]", conflicts_with = "personas")]
    pub power: Option<String>,
    #[command(flatten)]
    pub engine: EngineFlags,
    #[command(flatten)]
    pub law: Law,
    /// Fault and its probability, KIND=P or KIND@TOKEN=P; repeatable.
    /// Kinds: rate_limited, server_error, stall, disconnect, malformed,
    /// error_event, missing_usage, empty, no_done, burst, replay, repeat,
    /// other_model, short, usage_inflated, hidden_reasoning, same_start
    #[arg(long = "fault", value_name = "KIND[@TOKEN]=P", verbatim_doc_comment)]
    pub faults: Vec<String>,
}

/// An engine in place of the law.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Engine (a scheduler in steps of batches, with step times of `tokrate estimate`)")]
pub struct EngineFlags {
    /// Scheduler: vllm, sglang, trtllm, static-batch or serial
    #[arg(long, value_name = "NAME", requires = "hardware", conflicts_with_all = ["Law", "personas"])]
    pub engine: Option<String>,
    /// Name of the device, such as h100-sxm, rtx-4090, m4-max
    #[arg(long, value_name = "NAME", requires = "engine")]
    pub hardware: Option<String>,
    /// Devices in all [default: 1]
    #[arg(long, value_name = "N", requires = "engine")]
    pub gpus: Option<u32>,
    /// Devices that share one copy of the model [default: all]
    #[arg(long, value_name = "N", requires = "engine")]
    pub tp: Option<u32>,
    /// Storage of the weights, such as bf16, fp8, int4 [default: as published]
    #[arg(long, value_name = "FORMAT", requires = "engine")]
    pub precision: Option<String>,
    /// Most requests of a copy that run at once
    #[arg(long, value_name = "N", requires = "engine")]
    pub max_num_seqs: Option<u32>,
    /// Most tokens of a step
    #[arg(long, value_name = "N", requires = "engine")]
    pub max_num_batched_tokens: Option<u32>,
    /// Speculative decoding: tokens that a draft proposes, and the chance of each to be accepted, such as 3:0.7
    #[arg(long, value_name = "TOKENS:SHARE", requires = "engine")]
    pub speculation: Option<String>,
}

/// The engine's law.
#[derive(Args, Debug, Default)]
#[command(
    next_help_heading = "Law (TTFT = queue + delay + prompt / prefill; speed(n) = speed / (1 + alpha (n-1) + beta n (n-1)))"
)]
pub struct Law {
    /// Requests that run at once; the rest queue [default: 32]
    #[arg(long, value_name = "N")]
    pub slots: Option<u32>,
    /// Delay before the first token [default: 40ms]
    #[arg(long, value_name = "TIME")]
    pub delay: Option<String>,
    /// Prompt tokens read per second [default: 20000]
    #[arg(long, allow_negative_numbers = true, value_name = "TOK_PER_S")]
    pub prefill: Option<f64>,
    /// Pixels of pictures that are encoded per second, before the prompt is read [default: inf]
    #[arg(long, allow_negative_numbers = true, value_name = "PX_PER_S")]
    pub encoder_pixels: Option<f64>,
    /// Seconds of sound that are encoded per second [default: inf]
    #[arg(long, allow_negative_numbers = true, value_name = "S_PER_S")]
    pub encoder_sound: Option<f64>,
    /// A picture that was encoded before takes no time again
    #[arg(long)]
    pub encoder_cache: bool,
    /// Pixels per second and step of an image that is painted alone [default: 2e7: 20 steps of 1024x1024 take 1.05 s]
    #[arg(long, allow_negative_numbers = true, value_name = "PX_PER_S")]
    pub painter: Option<f64>,
    /// Tokens per second of a stream that runs alone; `inf` for as fast as possible [default: 120]
    #[arg(long, allow_negative_numbers = true, value_name = "TOK_PER_S")]
    pub speed: Option<f64>,
    /// Contention: how much each further stream slows all [default: 0.02]
    #[arg(long, allow_negative_numbers = true, value_name = "A")]
    pub alpha: Option<f64>,
    /// Coherency: how much each pair of streams slows all [default: 0.0005]
    #[arg(long, allow_negative_numbers = true, value_name = "B")]
    pub beta: Option<f64>,
    /// Tokens per chunk [default: 1]
    #[arg(long, value_name = "N")]
    pub tokens_per_chunk: Option<u32>,
    /// Coefficient of variation of the gaps [default: 0]
    #[arg(long, allow_negative_numbers = true, value_name = "CV")]
    pub jitter: Option<f64>,
    /// Reasoning tokens before the answer [default: 0]
    #[arg(long, value_name = "N")]
    pub reasoning_tokens: Option<u32>,
    /// Hand out chunks only at multiples of this time [default: at once]
    #[arg(long, value_name = "TIME")]
    pub coalesce: Option<String>,
    /// Begin with a chunk that carries only the role [default: true]
    #[arg(long, value_name = "BOOL")]
    pub role_first: Option<bool>,
    /// Report usage in every chunk
    #[arg(long)]
    pub usage_every_chunk: bool,
}
