//! Flags of `tokrate bench` that say what is asked for. Nothing is resolved or checked here beyond its form.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// What is asked for.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Request")]
pub struct Request {
    /// A reference workload: input/output tokens, or the levels of a system load test, or both
    #[arg(long, value_enum, value_name = "NAME,…", value_delimiter = ',')]
    pub workload: Vec<Workload>,
    /// Prompt length in o200k tokens, exact [default: 1000; embedded engine: 200]
    #[arg(long, value_name = "N")]
    pub input_tokens: Option<u32>,
    /// Output tokens asked for [default: 1000; embedded engine: 100]
    #[arg(long, value_name = "N")]
    pub output_tokens: Option<u32>,
    /// Leading prompt tokens that all requests share; the rest is unique per request [default: 0]
    #[arg(long, value_name = "N")]
    pub shared_prefix: Option<u32>,
    /// Prompts from a file: ShareGPT .json, .jsonl (prompt, text, question, messages), else one a line
    #[arg(long, value_name = "FILE", conflicts_with_all = ["input_tokens", "shared_prefix"])]
    pub prompts: Option<PathBuf>,
    /// The whole file of --prompts is one prompt
    #[arg(long)]
    pub prompts_whole: bool,
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

/// Reference workloads.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Workload {
    /// A short question: 100 in, 300 out
    #[value(name = "100/300", alias = "chat")]
    Chat,
    /// As much in as out: 1,000 each
    #[value(name = "1k/1k", alias = "balanced")]
    Balanced,
    /// A document: 10,000 in, 1,500 out
    #[value(name = "10k/1.5k", alias = "document")]
    Document,
    /// A long context: 100,000 in, 2,000 out
    #[value(name = "100k/2k", alias = "long")]
    Long,
    /// Concurrency 1, 2, 4 … 64, then 64 more at a time while throughput rises
    System,
}

impl Workload {
    /// Input and output tokens, if it sets them.
    pub fn lengths(self) -> Option<(u32, u32)> {
        Some(match self {
            Workload::Chat => (100, 300),
            Workload::Balanced => (1_000, 1_000),
            Workload::Document => (10_000, 1_500),
            Workload::Long => (100_000, 2_000),
            Workload::System => return None,
        })
    }
}
