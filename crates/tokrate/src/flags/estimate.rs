//! The flags of `tokrate estimate`. Nothing is resolved or checked here beyond its form.

mod chain;
mod fleet;
mod hosted;
mod planning;

pub use chain::ChainFlags;
pub use fleet::FleetFlags;
pub use hosted::FitApiFlags;
pub use planning::{CapacityFlags, ClaimFlags, CostFlags, LoadFlags, ObjectiveFlags, Subject, WhatIfFlags};

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// `tokrate estimate`, as typed.
#[derive(Args, Debug, Default)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  tokrate estimate                                 a 70B model on four devices of three kinds
  tokrate estimate speed --model llama-3.3-70b --hardware h100-sxm --gpus 4 --precision fp8 -c 1,10,25,50
  tokrate estimate capacity --model llama-3.3-70b --hardware h100-sxm --gpus 4 --precision fp8 --users 500 --think 30s
  tokrate estimate fleet --model llama-3.3-70b --users 500 --think 30s
  tokrate estimate chain --example coding          20 edits by an agent: who answers which role, time, p95, cost
  tokrate estimate claim --params-b 7 --model '7B' --hardware h100-sxm --precision fp8 --speed 10500
  tokrate estimate --batch rows.jsonl              one JSON object a line, one answer a line

Numbers are computed, not measured; docs/estimate.md says how far they are off."
)]
pub struct Flags {
    /// What to estimate
    #[command(subcommand)]
    pub what: Option<What>,
    /// Answer every line of a file of JSON objects (`-` for standard input): model, hardware, n_gpus, tp, engine,
    /// weight_precision, weight_size_gib, concurrency, isl, osl, context_depth, or facts such as params_b
    #[arg(long, value_name = "FILE")]
    pub batch: Option<PathBuf>,
    /// Print the worked example as records of the kind `estimate`
    #[arg(long, conflicts_with = "batch")]
    pub json: bool,
}

/// What can be estimated.
#[derive(Subcommand, Debug)]
pub enum What {
    /// Speed, TTFT, what binds and cost of a model on devices, at each load
    Speed(Box<SpeedFlags>),
    /// How many users, or requests a second, keep objectives; with the curve
    Capacity(Box<CapacityFlags>),
    /// What a million tokens cost on own hardware at the load that keeps objectives, against API prices
    Cost(Box<CostFlags>),
    /// The cheapest devices that carry users or a rate within objectives, and what an API costs instead or for the peaks
    Fleet(Box<FleetFlags>),
    /// What one change does to speed, TTFT and cost: precision, devices, speculation, shared prompts and others
    #[command(name = "what-if")]
    Changes(Box<WhatIfFlags>),
    /// How long an agent takes, its p95, cost and critical path: calls and tools one after another or side by side
    Chain(ChainFlags),
    /// Whether a claimed speed can be, and what it would need
    Claim(Box<ClaimFlags>),
    /// Coefficients of one's own devices from a trace that was measured there, for --profile
    Calibrate(Box<CalibrateFlags>),
    /// How a hosted endpoint answers under load, from what was measured of it, for `chain` and for objectives
    #[command(name = "fit-api")]
    FitApi(FitApiFlags),
    /// TTFT, time a token and latency of each request of a trace, as an engine's scheduler would answer it
    Replay(ReplayFlags),
}

/// `tokrate estimate replay`, as typed.
#[derive(Args, Debug, Default)]
#[command(after_help = "\
The trace is a file of comma-separated values; its first line names the columns arrival_ms, input_tokens, output_tokens, and
optionally request and real_ttft_ms, real_tpot_ms, real_latency_ms, which are then held against what is computed. The
engine's settings are JSON with the names of vLLM's flags (max_num_seqs, max_num_batched_tokens, tensor_parallel_size, …).

Rows go to standard output, the summary to standard error. Exit codes: 0; 2 nothing could be answered.")]
pub struct ReplayFlags {
    /// The requests, or a record of `tokrate bench --json` (FILE.json) with its rows (--jsonl) beside it
    #[arg(long, value_name = "FILE")]
    pub trace: PathBuf,
    /// The engine's settings [default: vLLM's defaults]
    #[arg(long, value_name = "FILE")]
    pub engine_args: Option<PathBuf>,
    /// Name of the model [default: that of the settings]
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// Name of the device [default: that of the settings]
    #[arg(long, value_name = "NAME")]
    pub hardware: Option<String>,
    /// Scheduler: vllm, sglang, trtllm, static-batch or serial [default: vllm]
    #[arg(long, value_name = "NAME")]
    pub engine: Option<String>,
    /// Storage of the weights, such as bf16, fp8, int4 [default: that of the settings, else as published]
    #[arg(long, value_name = "FORMAT")]
    pub precision: Option<String>,
    /// Coefficients of `tokrate estimate calibrate`
    #[arg(long, value_name = "FILE")]
    pub profile: Option<PathBuf>,
    /// Print rows and summary as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// `tokrate estimate calibrate`, as typed.
#[derive(Args, Debug, Default)]
#[command(after_help = "\
The trace is that of `estimate replay` with the columns real_ttft_ms, real_tpot_ms and real_latency_ms, of ten requests or more,
or a record of `tokrate bench` with its rows: `bench … --json run.json --jsonl run.jsonl`, then `--trace run.json`.
Only the coefficients of the device's kind with its engine are fitted; they apply to every device of that kind. Exit codes: 0; 2
nothing could be fitted.")]
pub struct CalibrateFlags {
    #[command(flatten)]
    pub replay: ReplayFlags,
    /// Write the coefficients, for --profile
    #[arg(long, value_name = "FILE")]
    pub write: Option<PathBuf>,
}

/// `tokrate estimate speed`, as typed.
#[derive(Args, Debug, Default)]
pub struct SpeedFlags {
    #[command(flatten)]
    pub subject: Subject,
    /// Requests at once
    #[arg(short = 'c', long = "concurrency", value_name = "N,…", value_delimiter = ',', default_values_t = [1, 10, 25, 50])]
    pub concurrency: Vec<u32>,
    /// Tokens of a prompt
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub isl: u32,
    /// Tokens of an answer
    #[arg(long, value_name = "N", default_value_t = 300)]
    pub osl: u32,
    /// Hold a record of `tokrate bench` against the estimate; loads and lengths are then the record's
    #[arg(long, value_name = "RECORD", conflicts_with = "concurrency")]
    pub against: Option<PathBuf>,
    /// Write a page with the curve and the roofline
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print a record of the kind `estimate`, which `compare`, --baseline, a lane's `curve` and `monitor add` read; with
    /// --against what was compared
    #[arg(long)]
    pub json: bool,
}
