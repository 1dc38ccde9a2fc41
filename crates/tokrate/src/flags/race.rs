//! The flags of `tokrate race`.

use clap::Args;
use std::path::PathBuf;

/// `tokrate race`, as typed.
#[derive(Args, Debug, Default)]
#[command(after_help = "\
Examples:
  tokrate race \"Write a haiku about latency\"                       three simulated lanes
  tokrate race \"Write a haiku about latency\" groq/openai/gpt-oss-20b cerebras/gpt-oss-120b
  tokrate race \"Write a haiku about latency\" fast strong            lanes of tokrate.toml

Every lane answers to its end, so that the whole of it can be compared.")]
pub struct Flags {
    /// What to ask
    #[arg(value_name = "PROMPT")]
    pub prompt: String,
    /// Lanes: names under [gateway.lanes], or PROVIDER/MODEL [default: all configured lanes, or three simulated ones]
    #[arg(value_name = "LANE")]
    pub lanes: Vec<String>,
    /// Settings file [default: tokrate.toml, if it is there]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Upper limit of output tokens
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub output_tokens: u32,
    /// Time for all of it
    #[arg(long, value_name = "TIME", default_value = "2m")]
    pub timeout: String,
}
