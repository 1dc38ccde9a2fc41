//! Flags of `tokrate bench` that say what is asked for. Nothing is resolved or checked here beyond its form.

use clap::Args;

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
