//! The flags of `tokrate bench`.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// `tokrate bench`, as typed.
#[derive(Args, Debug, Default)]
#[command(after_help = "\
Examples:
  tokrate bench                                  the embedded engine, no key, no network
  tokrate bench --url http://127.0.0.1:8000/v1 --model llama --concurrency 1,10,25,50
  tokrate bench --url https://api.example.com/v1 --model m --key-env API_KEY --rate 5 --arrivals poisson --duration 60s")]
pub struct Flags {
    #[command(flatten)]
    pub target: Target,
    #[command(flatten)]
    pub load: Load,
    #[command(flatten)]
    pub request: Request,
    #[command(flatten)]
    pub limits: Limits,
    #[command(flatten)]
    pub output: Output,
}

/// What is measured.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Target")]
pub struct Target {
    /// Base URL of an OpenAI-compatible endpoint, such as http://127.0.0.1:8000/v1 [default: an embedded engine]
    #[arg(long, value_name = "BASE")]
    pub url: Option<String>,
    /// Model name as the endpoint knows it
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// Environment variable that holds the API key
    #[arg(long, value_name = "VAR", conflicts_with_all = ["key_file", "key_cmd"])]
    pub key_env: Option<String>,
    /// File that holds the API key
    #[arg(long, value_name = "FILE", conflicts_with = "key_cmd")]
    pub key_file: Option<PathBuf>,
    /// Command that prints the API key
    #[arg(long, value_name = "COMMAND")]
    pub key_cmd: Option<String>,
    /// Further request header, "Name: value"; repeatable
    #[arg(long = "header", value_name = "HEADER")]
    pub headers: Vec<String>,
    /// HTTP version; h2 multiplexes and is a condition of its own
    #[arg(long, value_enum, value_name = "VERSION")]
    pub http: Option<HttpVersion>,
    /// Open a new connection for every request instead of reusing them
    #[arg(long)]
    pub new_connections: bool,
    /// PEM file with further certificate authorities
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// Region or place of the measuring machine, kept with the result
    #[arg(long, value_name = "NAME")]
    pub region: Option<String>,
    /// Settings file [default: tokrate.toml in this folder, if there is one]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// How requests arrive.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Load")]
pub struct Load {
    /// Closed loop: requests in flight; a list is a sweep [default: 1,10,25,50]
    #[arg(long, short = 'c', value_name = "N,…", value_delimiter = ',', conflicts_with = "rate")]
    pub concurrency: Option<Vec<u32>>,
    /// Open loop: arrivals per second on an absolute schedule; a list is a sweep
    #[arg(long, allow_negative_numbers = true, value_name = "R,…", value_delimiter = ',')]
    pub rate: Option<Vec<f64>>,
    /// How the arrivals of an open loop are spaced [default: poisson]
    #[arg(long, value_enum, requires = "rate")]
    pub arrivals: Option<Arrivals>,
    /// Open loop: requests in flight above which an arrival is forfeited (and counted) [default: 4096]
    #[arg(long, value_name = "N", requires = "rate")]
    pub max_in_flight: Option<u32>,
    /// Measured requests per load level [default: 3 per slot, at least 20; embedded engine: 8 s per level]
    #[arg(long, short = 'n', value_name = "N", conflicts_with = "duration")]
    pub requests: Option<u64>,
    /// Time per load level, such as 30s or 2m
    #[arg(long, short = 'd', value_name = "TIME")]
    pub duration: Option<String>,
    /// Requests sent first at each level and kept out of the numbers [default: one per slot; open loop: 0]
    #[arg(long, value_name = "N")]
    pub warmup: Option<u64>,
    /// Seed of prompts and arrivals [default: 0]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Client threads [default: chosen from the cores and the load]
    #[arg(long, value_name = "N")]
    pub workers: Option<u32>,
}

/// What is asked for.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Request")]
pub struct Request {
    /// Prompt length in o200k tokens, exact [default: 1000; embedded engine: 200]
    #[arg(long, value_name = "N")]
    pub input_tokens: Option<u32>,
    /// Output tokens asked for [default: 1000; embedded engine: 100]
    #[arg(long, value_name = "N")]
    pub output_tokens: Option<u32>,
    /// Leading prompt tokens that all requests share; the rest is unique per request [default: 0]
    #[arg(long, value_name = "N")]
    pub shared_prefix: Option<u32>,
    /// Ask for whole answers instead of streams
    #[arg(long)]
    pub no_stream: bool,
    /// Do not ask for token counts in the stream (some endpoints refuse stream_options)
    #[arg(long)]
    pub no_usage: bool,
    /// Send ignore_eos, so that engines that know it write the full length (vLLM, SGLang, llama.cpp)
    #[arg(long)]
    pub ignore_eos: bool,
    /// Send the output limit as max_tokens (older engines) instead of max_completion_tokens
    #[arg(long)]
    pub max_tokens_field: bool,
    /// Sampling temperature [default: not sent]
    #[arg(long, allow_negative_numbers = true, value_name = "T")]
    pub temperature: Option<f64>,
    /// Further body field, NAME=JSON; repeatable
    #[arg(long = "body", value_name = "NAME=JSON")]
    pub body: Vec<String>,
}

/// When to give up.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Limits")]
pub struct Limits {
    /// Time to open a connection [default: 10s]
    #[arg(long, value_name = "TIME")]
    pub connect_timeout: Option<String>,
    /// Time without a byte after which a request counts as stalled [default: 60s]
    #[arg(long, value_name = "TIME")]
    pub idle_timeout: Option<String>,
    /// Time for a whole request [default: 10m]
    #[arg(long, value_name = "TIME")]
    pub timeout: Option<String>,
    /// Share of failed requests above which the exit code is 1 [default: 0.01]
    #[arg(long, allow_negative_numbers = true, value_name = "SHARE")]
    pub max_failures: Option<f64>,
    /// Exit with 2 when the client was too slow for the result to count
    #[arg(long)]
    pub strict: bool,
    /// How the client's own error is found: by a run against the embedded engine at the same load, from an earlier one
    /// of this machine, or not at all [default: cached]
    #[arg(long, value_enum)]
    pub calibration: Option<Calibration>,
}

/// Where results go.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Output")]
pub struct Output {
    /// Write the record (JSON) to a file, `-` for standard output
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write one line of JSON per request to a file
    #[arg(long, value_name = "FILE")]
    pub jsonl: Option<PathBuf>,
    /// Write the report (one self-contained HTML file) [default without --url: tokrate-report.html]
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Do not write an HTML report
    #[arg(long, conflicts_with = "html")]
    pub no_html: bool,
    /// No progress and no table, only files and errors
    #[arg(long, short)]
    pub quiet: bool,
}

/// HTTP versions.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum HttpVersion {
    /// HTTP/1.1, one request at a time per connection
    #[value(name = "1.1")]
    Http1,
    /// HTTP/2
    #[value(name = "2")]
    Http2,
}

/// Arrival processes.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrivals {
    /// Equal gaps
    Constant,
    /// Exponential gaps
    Poisson,
}

/// Ways to know the client's own error.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Calibration {
    /// Measure it now
    Run,
    /// Take it from an earlier run of this machine at a like load, else measure it
    Cached,
    /// Leave it unknown
    Off,
}
