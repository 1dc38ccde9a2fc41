//! Flags of `tokrate bench` that say how requests arrive. Nothing is resolved or checked here beyond its form.

use crate::config::quantity::share;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// How requests arrive.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Load")]
pub struct Load {
    /// Closed loop: requests in flight; a list is a sweep [default: 1,10,25,50; where tokens are paid for: 1,2,4,8; --until: 1]
    #[arg(long, short = 'c', allow_negative_numbers = true, value_name = "N,…", value_delimiter = ',', group = "shape", value_parser = level)]
    pub concurrency: Option<Vec<u32>>,
    /// Open loop: arrivals per second on an absolute schedule; a list is a sweep
    #[arg(long, allow_negative_numbers = true, value_name = "R,…", value_delimiter = ',', group = "shape")]
    pub rate: Option<Vec<f64>>,
    /// How the arrivals of an open loop are spaced [default: poisson]
    #[arg(long, value_enum)]
    pub arrivals: Option<Arrivals>,
    /// Shape of gamma arrivals: 1 is Poisson, less comes in bursts, more is more even [default: 1]
    #[arg(long, allow_negative_numbers = true, value_name = "SHAPE")]
    pub burstiness: Option<f64>,
    /// Closed loop whose concurrency goes from one number to another over --duration
    #[arg(long, value_name = "N..M", group = "shape", conflicts_with_all = ["requests", "warmup"])]
    pub ramp: Option<String>,
    /// Open loop whose rate goes from one to another over --duration
    #[arg(long, value_name = "R..S", group = "shape", conflicts_with_all = ["requests", "warmup"])]
    pub ramp_rate: Option<String>,
    /// How a ramp goes: by equal steps or by equal factors [default: linear]
    #[arg(long, value_enum)]
    pub ramp_growth: Option<Growth>,
    /// Replay a trace on its own times and lengths: Mooncake JSONL, Azure LLM inference CSV, BurstGPT CSV
    #[arg(long, value_name = "FILE", group = "shape", conflicts_with_all = ["input_tokens", "output_tokens", "prompts"])]
    pub trace: Option<PathBuf>,
    /// Send what clients send, each with its own rate, burstiness and lengths: JSON Lines, or a folder of ServeGen's files
    #[arg(long, value_name = "FILE", group = "shape", conflicts_with_all = ["input_tokens", "output_tokens", "prompts", "requests"])]
    pub clients: Option<PathBuf>,
    /// Where in the clients' own time to begin, such as 20h [default: 0s]
    #[arg(long, value_name = "TIME")]
    pub clients_from: Option<String>,
    /// Requests per second of all clients together, each keeping its share [default: their own]
    #[arg(long, allow_negative_numbers = true, value_name = "R")]
    pub clients_rate: Option<f64>,
    /// Replay sessions of agents, whose steps wait for each other and for tools: steps as JSON Lines, OpenTelemetry spans (OTLP JSON), Weka traces; a file or a folder
    #[arg(long, value_name = "FILE", group = "shape", conflicts_with_all = ["input_tokens", "output_tokens", "prompts", "requests"])]
    pub agents: Option<PathBuf>,
    /// Sessions of --agents at the same time; a list is a sweep [default: each begins at its own time; without times 1]
    #[arg(long, allow_negative_numbers = true, value_name = "N,…", value_delimiter = ',', value_parser = level)]
    pub agents_at_once: Option<Vec<u32>>,
    /// How many times as fast a trace is replayed, tools of agents included [default: 1]
    #[arg(long, allow_negative_numbers = true, value_name = "FACTOR")]
    pub trace_speed: Option<f64>,
    /// Only so many requests of a trace, or sessions of --agents, from its beginning
    #[arg(long, allow_negative_numbers = true, value_name = "N")]
    pub trace_limit: Option<u64>,
    /// Conversations at the same time, each turn with the turns before it; a list is a sweep
    #[arg(long, allow_negative_numbers = true, value_name = "N,…", value_delimiter = ',', group = "shape", value_parser = level)]
    pub sessions: Option<Vec<u32>>,
    /// Turns of each session [default: 5]
    #[arg(long, allow_negative_numbers = true, value_name = "N")]
    pub turns: Option<u32>,
    /// Time between an answer and the next turn: 2s, or exp:2s for an exponential of that mean [default: 0s]
    #[arg(long, value_name = "TIME")]
    pub think: Option<String>,
    /// With --sessions and --task tools: so many calls after each prompt, each answered with the tool's result, before the model answers with text
    #[arg(long, allow_negative_numbers = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub tool_turns: Option<u32>,
    /// How long a tool of --tool-turns takes: 2s, or exp:2s for an exponential of that mean [default: 0s]
    #[arg(long, value_name = "TIME")]
    pub tool_time: Option<String>,
    /// Length of a result of --tool-turns, as --input-tokens takes it [default: 200]
    #[arg(long, value_name = "TOKENS")]
    pub tool_tokens: Option<String>,
    /// Go on sending when the server says that it is too much (429), instead of waiting as long as it asks
    #[arg(long)]
    pub no_backoff: bool,
    /// Open loop: requests in flight above which an arrival is forfeited (and counted) [default: 4096]
    #[arg(long, allow_negative_numbers = true, value_name = "N")]
    pub max_in_flight: Option<u32>,
    /// After a sweep, add up to so many levels where it is not known well what the endpoint carries [default: 3 if N is left out]
    #[arg(long, allow_negative_numbers = true, value_name = "N", num_args = 0..=1, default_missing_value = "3", require_equals = true)]
    pub refine: Option<u32>,
    /// Find the highest concurrency or rate at which --slo-share of the requests keep every --slo
    #[arg(long, value_enum, group = "shape", conflicts_with_all = ["refine", "duration"])]
    pub search: Option<Axis>,
    /// Share of the requests that has to keep the objectives of a search, such as 99% or 0.99 [default: 95%]
    #[arg(long, allow_negative_numbers = true, value_name = "SHARE", value_parser = share)]
    pub slo_share: Option<f64>,
    /// The highest load that a search or the system workload tries [default: 256, 100 req/s, 1024]
    #[arg(long, allow_negative_numbers = true, value_name = "LOAD")]
    pub max_load: Option<f64>,
    /// Requests after which a search, or --until, does not measure a level again; a searched rate gets ten minutes at most [default: 2000]
    #[arg(long, allow_negative_numbers = true, value_name = "N")]
    pub max_requests: Option<u64>,
    /// Measured requests per load level; with --sessions the last of them may cut sessions short, which is said [default: 3 per slot, at least 20, in four rounds 10 each; embedded engine: 8 s per level]
    #[arg(long, short = 'n', allow_negative_numbers = true, value_name = "N", conflicts_with = "duration")]
    pub requests: Option<u64>,
    /// Time per load level, such as 30s or 2m
    #[arg(long, short = 'd', value_name = "TIME")]
    pub duration: Option<String>,
    /// Requests sent first at each level and kept out of the numbers [default: one per slot; open loop: 0]
    #[arg(long, allow_negative_numbers = true, value_name = "N")]
    pub warmup: Option<u64>,
    /// How often each load level runs [default: 1; several targets: 4, in turns A-B-B-A-A-B-B-A; with a baseline and neither --requests nor --duration: 4]
    #[arg(long, allow_negative_numbers = true, value_name = "N")]
    pub rounds: Option<u32>,
    /// Seed of arrivals and of prompts, words included, so that a run can be repeated [default: 0, but with words of the run's own,
    /// which no server has in its prompt cache]
    #[arg(long, allow_negative_numbers = true, value_name = "N")]
    pub seed: Option<u64>,
    /// Client threads [default: chosen from the cores and the load]
    #[arg(long, allow_negative_numbers = true, value_name = "N")]
    pub workers: Option<u32>,
}

impl Load {
    /// Whether requests have times and lengths of their own.
    pub fn is_trace(&self) -> bool {
        self.trace.is_some() || self.clients.is_some()
    }
}

/// Reads one level of a sweep.
fn level(text: &str) -> Result<u32, String> {
    let example = "write a list such as 1,10,50, or --ramp 1..50 for a load that rises";
    let text = text.trim();
    let is_number = !text.is_empty() && text.bytes().all(|sign| sign.is_ascii_digit());
    let wrong = if is_number { "it is too large" } else { "it is no whole number" };
    text.parse().map_err(|_| format!("{wrong}; {example}"))
}

/// Arrival processes.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrivals {
    /// Equal gaps
    Constant,
    /// Exponential gaps
    Poisson,
    /// Gamma-distributed gaps; see --burstiness
    Gamma,
}

/// What a search varies.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Axis {
    /// Requests in flight
    Concurrency,
    /// Arrivals per second
    Rate,
}

/// How a ramp goes.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Growth {
    /// By equal steps
    Linear,
    /// By equal factors
    Exponential,
}
