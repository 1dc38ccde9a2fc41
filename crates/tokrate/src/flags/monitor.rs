//! The flags of `tokrate monitor`.

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// `tokrate monitor`, as typed.
#[derive(Args, Debug)]
pub struct Flags {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The parts of the monitor.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Say what changed in a file of samples: since when, by how much, how sure that is
    Replay(ReplayFlags),
}

/// `tokrate monitor replay`, as typed.
#[derive(Args, Debug)]
#[command(after_help = "\
A sample is a JSON object a line: `at` (RFC 3339), `endpoint`, `workload`, `place`, `ttft_ms`, `output_speed`, `e2e_ms`, `ok`,
`error`. All but `at` and `endpoint` may be missing; other keys are passed over. An event is a JSON object a line on standard
output; see docs/monitor.md.

Examples:
  tokrate monitor replay samples.jsonl
  tokrate monitor replay samples.jsonl --false-alarms 0.01     fewer false alarms, found later
  zcat samples.jsonl.gz | tokrate monitor replay -")]
pub struct ReplayFlags {
    /// File of samples; `-` for standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Regressions that may be reported by chance, for one endpoint, workload and place in 30 days (0.0001 to 10)
    #[arg(long, value_name = "N", default_value_t = 0.042)]
    pub false_alarms: f64,
}
