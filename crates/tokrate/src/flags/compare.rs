//! The flags of `tokrate compare`.

use clap::Args;
use std::path::PathBuf;

/// `tokrate compare`, as typed.
#[derive(Args, Debug, Default)]
#[command(after_help = "\
Exit codes: 0 no regression; 1 a regression (worse than chance explains, and by more than --threshold); 2 cannot compare.

Examples:
  tokrate compare before.json after.json
  tokrate compare before.json after.json --threshold 10% --markdown -
  tokrate compare groq.json local.json --ignore model,provider,endpoint,tls")]
pub struct Flags {
    /// Record of the measurement before. Rows beside it (the same name with .jsonl) make the samples exact
    #[arg(value_name = "BEFORE")]
    pub before: PathBuf,
    /// Record of the measurement after
    #[arg(value_name = "AFTER")]
    pub after: PathBuf,
    /// Conditions that may differ, `all` for every one
    #[arg(long, value_name = "CONDITION,…", value_delimiter = ',')]
    pub ignore: Vec<String>,
    /// What is compared [default: ttft,output_speed,e2e,throughput,failure_share]
    #[arg(long = "metric", value_name = "METRIC,…", value_delimiter = ',')]
    pub metrics: Vec<String>,
    /// Relative change for the worse above which it is a regression, such as 5% or 0.05 [default: 5%]
    #[arg(long, value_name = "SHARE")]
    pub threshold: Option<String>,
    /// Write the comparison (JSON) to a file, `-` for standard output
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the table for a pull request (Markdown) to a file, `-` for standard output
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
}
