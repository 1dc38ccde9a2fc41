//! The flags of `tokrate compare`.

use super::source::Source;
use clap::Args;
use std::path::PathBuf;

/// `tokrate compare`, as typed.
#[derive(Args, Debug, Default)]
#[command(after_help = "\
Exit codes: 0 no regression; 1 a regression (worse than chance explains, and by more than --threshold); 2 cannot compare.

Examples:
  tokrate compare before.json after.json
  tokrate compare before.json after.json --threshold 10% --markdown -
  tokrate compare groq.json local.json --ignore model,provider,endpoint,tls
  tokrate compare run.json tokrate-log.db --lane groq --since 7d --ignore all
  tokrate compare run.json tokrate-monitor.db --lane openai/gpt-5-mini --workload 1k-1k --ignore all")]
pub struct Flags {
    /// Record of the measurement before; rows beside it (the same name with .jsonl) make the samples exact. Or the throughput log of a
    /// gateway, or the database of a monitor: the rows that the flags below choose. clickhouse://USER@HOST/DATABASE stands for either
    #[arg(value_name = "BEFORE")]
    pub before: PathBuf,
    /// The measurement after, likewise
    #[arg(value_name = "AFTER")]
    pub after: PathBuf,
    /// Conditions that may differ, `all` for every one
    #[arg(long, value_name = "CONDITION,…", value_delimiter = ',')]
    pub ignore: Vec<String>,
    /// What is compared [default: ttft,output_speed,e2e,throughput,failure_share]
    #[arg(long = "metric", value_name = "METRIC,…", value_delimiter = ',')]
    pub metrics: Vec<String>,
    /// Of a monitor's database: its probes, or the bench runs that were added; of a ClickHouse also a gateway's traffic [default:
    /// monitor]
    #[arg(long, value_name = "SOURCE", value_enum)]
    pub source: Option<Source>,
    /// Of a log or a database: this lane, or endpoint
    #[arg(long, value_name = "LANE")]
    pub lane: Option<String>,
    /// Of a log or a database: this workload, or name asked for
    #[arg(long, value_name = "NAME")]
    pub workload: Option<String>,
    /// Of a log or a database: what was begun since then, written as for `tokrate log` [default: all]
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Of a log or a database: what was begun before then [default: now]
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,
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
