//! The flags of `tokrate feel`.

use clap::Args;
use std::path::PathBuf;

/// `tokrate feel`, as typed.
#[derive(Args, Debug, Default)]
#[command(after_help = "\
Examples:
  tokrate feel 30                       how 30 tokens per second read
  tokrate feel 8 20 40 120 --seconds 6  one after the other
  tokrate feel 50 --ttft 2s             with the wait for the first token")]
pub struct Flags {
    /// Output speed in o200k tokens per second; several are shown one after the other
    #[arg(value_name = "TOK_PER_S", required = true, allow_negative_numbers = true)]
    pub speeds: Vec<f64>,
    /// Wait before the first token, such as 500ms
    #[arg(long, value_name = "TIME")]
    pub ttft: Option<String>,
    /// Seconds of text at each speed; a file is shown to its end instead [default: 10]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub seconds: Option<f64>,
    /// File whose text is shown instead of the built-in one
    #[arg(long, value_name = "FILE")]
    pub text: Option<PathBuf>,
}
