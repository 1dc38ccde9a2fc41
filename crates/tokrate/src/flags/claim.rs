//! The flags of `tokrate claim`.

use clap::Args;
use std::path::PathBuf;

/// `tokrate claim`, as typed.
#[derive(Args, Debug, Default)]
#[command(after_help = "\
Examples:
  tokrate claim \"800 tok/s\"
  tokrate claim \"10,500 tok/s throughput on 8 x H100, batch 64\"
  tokrate claim \"Llama 3.3 70B at 1.8M tokens/min, TTFT 200 ms\"
  tokrate claim \"120 tok/s per user\" --record record.json     compared with what was measured")]
pub struct Flags {
    /// What somebody says, with its words
    #[arg(value_name = "TEXT")]
    pub text: String,
    /// Record of `tokrate bench --json` to hold it against
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
}
