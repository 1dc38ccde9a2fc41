//! The flags of `tokrate estimate capacity`, `cost`, `what-if` and `claim`, and what they share with `speed`.

use clap::Args;
use std::path::PathBuf;

/// A model on devices.
#[derive(Args, Debug, Default, Clone)]
pub struct Subject {
    /// Name of the model, such as llama-3.3-70b, or a file that describes it: its config.json or GGUF file
    #[arg(long, value_name = "NAME")]
    pub model: String,
    /// Name of the device, such as h100-sxm, rtx-4090, m4-max, or with how many of them, such as 4xh100-sxm
    #[arg(long, value_name = "NAME")]
    pub hardware: String,
    /// Devices in all
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub gpus: u32,
    /// Devices that share one copy of the model [default: all]
    #[arg(long, value_name = "N")]
    pub tp: Option<u32>,
    /// Storage of the weights, such as bf16, fp8, nvfp4, int4, Q4_K_M [default: as published]
    #[arg(long, value_name = "FORMAT")]
    pub precision: Option<String>,
    /// Engine: vllm, sglang, trtllm, llama.cpp [default: by the kind of device]
    #[arg(long, value_name = "NAME")]
    pub engine: Option<String>,
    /// Parameters of a model that is in no table, billions
    #[arg(long, value_name = "N")]
    pub params_b: Option<f64>,
    /// Parameters that a token uses of it, billions
    #[arg(long, value_name = "N")]
    pub active_params_b: Option<f64>,
    /// Memory of a device that is in no table, GB
    #[arg(long, value_name = "N")]
    pub memory_gb: Option<f64>,
    /// Memory bandwidth of a device, GB/s
    #[arg(long, value_name = "N")]
    pub memory_bandwidth_gbps: Option<f64>,
    /// Dense 16-bit peak of a device, TFLOP/s
    #[arg(long, value_name = "N")]
    pub tflops: Option<f64>,
    /// Price of one device, dollars an hour [default: a range of rents, where one is known]
    #[arg(long, value_name = "DOLLARS")]
    pub price: Option<f64>,
    /// Coefficients of `tokrate estimate calibrate`
    #[arg(long, value_name = "FILE")]
    pub profile: Option<PathBuf>,
}

/// What requests look like, and the scheduler before them.
#[derive(Args, Debug, Default, Clone)]
pub struct LoadFlags {
    /// Tokens of a prompt
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub isl: u32,
    /// Tokens of an answer
    #[arg(long, value_name = "N", default_value_t = 300)]
    pub osl: u32,
    /// First tokens of every prompt that are the same in all, such as instructions
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub shared_prefix: u32,
    /// How much lengths vary: standard deviation over the mean
    #[arg(long, value_name = "CV", default_value_t = 0.2)]
    pub length_cv: f64,
    /// Scheduler: vllm, sglang, trtllm, static-batch or serial [default: by the engine]
    #[arg(long, value_name = "NAME")]
    pub scheduler: Option<String>,
    /// Most requests of a copy that run at once
    #[arg(long, value_name = "N")]
    pub max_num_seqs: Option<u32>,
    /// Most tokens of a step
    #[arg(long, value_name = "N")]
    pub max_num_batched_tokens: Option<u32>,
    /// Speculative decoding: tokens that a draft proposes, and the chance of each to be accepted, such as 3:0.7
    #[arg(long, value_name = "TOKENS:SHARE")]
    pub speculation: Option<String>,
}

/// What requests have to keep.
#[derive(Args, Debug, Default, Clone)]
pub struct ObjectiveFlags {
    /// Objective; repeatable
    #[arg(long = "slo", value_name = "OBJECTIVE", default_values_t = ["ttft p95 < 2s".to_owned(), "output_speed p5 > 20".to_owned()])]
    pub slos: Vec<String>,
}

/// `tokrate estimate capacity`, as typed.
#[derive(Args, Debug, Default)]
#[command(after_help = "\
An objective is a metric of one request (ttft, tpot, output_speed, e2e), the percentile that has to keep it (p95 of times and
p5 of speeds, if none is said), and a bound: 'ttft p95 < 1s', 'output_speed p5 > 30', 'e2e p99 < 20s'.

Each load is run through the engine's scheduler in virtual time. Exit codes: 0; 1 not even the smallest load keeps the
objectives, or --users or --rate is more than is carried; 2 no answer.")]
pub struct CapacityFlags {
    #[command(flatten)]
    pub subject: Subject,
    #[command(flatten)]
    pub load: LoadFlags,
    #[command(flatten)]
    pub objectives: ObjectiveFlags,
    /// Search requests a second (arrivals at random) instead of users, and say what carries this many, such as 12/s or 300/min
    #[arg(long, value_name = "RATE", conflicts_with_all = ["users", "think"])]
    pub rate: Option<String>,
    /// Say what carries so many users
    #[arg(long, value_name = "N")]
    pub users: Option<u32>,
    /// How long a user waits between an answer and the next request, mean [default: not at all]
    #[arg(long, value_name = "TIME")]
    pub think: Option<String>,
    /// Write a page with the curve
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `tokrate estimate cost`, as typed.
#[derive(Args, Debug, Default)]
#[command(after_help = "\
Own hardware is counted at the most requests a second that keep the objectives (see `estimate capacity`); API prices are
those of the catalog for the same model, and --api-price for any other. Exit codes: 0; 1 nothing keeps the objectives; 2 no
answer.")]
pub struct CostFlags {
    #[command(flatten)]
    pub subject: Subject,
    #[command(flatten)]
    pub load: LoadFlags,
    #[command(flatten)]
    pub objectives: ObjectiveFlags,
    /// Price of an API, dollars a million tokens: NAME=INPUT:OUTPUT or NAME=INPUT:OUTPUT:CACHED; repeatable
    #[arg(long, value_name = "NAME=IN:OUT")]
    pub api_price: Vec<String>,
    /// Law of an API by `estimate fit-api`, to say whether it keeps the objectives; repeatable, in the order of --api-price
    #[arg(long, value_name = "FILE", requires = "api_price")]
    pub api_curve: Vec<PathBuf>,
    /// Requests a month
    #[arg(long, value_name = "N")]
    pub requests_a_month: Option<f64>,
    /// How many times the mean the busiest hour has
    #[arg(long, value_name = "FACTOR", default_value_t = 3.0)]
    pub peak: f64,
    /// Write a page with the break-even
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `tokrate estimate what-if`, as typed.
#[derive(Args, Debug, Default)]
#[command(after_help = "\
Changes: precision, hardware, gpus, tp, engine, users, isl, osl, shared (prompt tokens that all share), max-num-seqs,
max-num-batched-tokens, speculation=TOKENS:ACCEPTANCE. Each is made alone; without --change the usual ones are tried.")]
pub struct WhatIfFlags {
    #[command(flatten)]
    pub subject: Subject,
    #[command(flatten)]
    pub load: LoadFlags,
    /// Users who ask again at once
    #[arg(short = 'c', long, value_name = "N", default_value_t = 16)]
    pub users: u32,
    /// One thing to change; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    pub change: Vec<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `tokrate estimate claim`, as typed.
#[derive(Args, Debug, Default)]
#[command(group = clap::ArgGroup::new("claimed").required(true).args(["speed", "speedup"]), after_help = "\
The claim is held against what streaming the weights and the arithmetic allow at the peaks, and against the estimate with its
interval. Exit codes: 0 plausible; 1 it needs more than was said of it, or is impossible; 2 no answer.")]
pub struct ClaimFlags {
    #[command(flatten)]
    pub subject: Subject,
    /// Claimed tokens/s of one request
    #[arg(long, value_name = "TOK_PER_S")]
    pub speed: Option<f64>,
    /// Claimed factor of the speed of one request, against the same with the weights as --from
    #[arg(long, value_name = "FACTOR", requires = "from")]
    pub speedup: Option<f64>,
    /// What the claimed factor is of: storage of the weights before, such as bf16
    #[arg(long, value_name = "FORMAT")]
    pub from: Option<String>,
    /// Requests at once
    #[arg(short = 'c', long, value_name = "N", default_value_t = 1)]
    pub concurrency: u32,
    /// Tokens of a prompt
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub isl: u32,
    /// Tokens of an answer
    #[arg(long, value_name = "N", default_value_t = 300)]
    pub osl: u32,
    /// Whoever claims it says that no draft is used
    #[arg(long)]
    pub no_speculation: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
