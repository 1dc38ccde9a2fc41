//! The flags of `tokrate estimate fit-api`.

use crate::flags::source::Source;
use clap::Args;
use std::path::PathBuf;

/// `tokrate estimate fit-api`, as typed.
#[derive(Args, Debug, Default)]
#[command(after_help = "\
Files are records of `tokrate bench --json` (with the rows of --jsonl beside them, if there are any), a gateway's log, a monitor's
database, or `clickhouse://…`. Several loads are needed to know what load does, and several lengths of prompts to know what those do.

Examples:
  tokrate bench openai/gpt-5-mini -c 1,4,16 --json run.json --jsonl run.jsonl
  tokrate estimate fit-api run.json --slo 'ttft p95 < 2s' --write gpt-5-mini.json
  tokrate estimate fit-api gateway.db --lane groq -c 8

In a chain `curve = \"gpt-5-mini.json\"` with `users` takes the law. Exit codes: 0; 1 the objectives are kept at no measured load;
2 no law.")]
pub struct FitApiFlags {
    /// What was measured of one endpoint
    #[arg(value_name = "FILE", required = true)]
    pub records: Vec<PathBuf>,
    /// Lane of a gateway's log, or endpoint of a monitor's database
    #[arg(long, value_name = "NAME")]
    pub lane: Option<String>,
    /// Whose rows of a database that has several [default: monitor]
    #[arg(long, value_enum, value_name = "SOURCE")]
    pub source: Option<Source>,
    /// What the endpoint is called [default: as the files do]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Say what is expected with so many requests in flight
    #[arg(short = 'c', long = "concurrency", value_name = "N,…", value_delimiter = ',')]
    pub concurrency: Vec<u32>,
    /// Tokens of a prompt that is asked about [default: the median of what was measured]
    #[arg(long, value_name = "N")]
    pub isl: Option<u32>,
    /// Tokens of an answer that is asked about
    #[arg(long, value_name = "N", default_value_t = 300)]
    pub osl: u32,
    /// Say up to which load an objective is kept; repeatable
    #[arg(long = "slo", value_name = "OBJECTIVE")]
    pub slos: Vec<String>,
    /// Write the law, for chains
    #[arg(long, value_name = "FILE")]
    pub write: Option<PathBuf>,
    /// Write a page with the law over the load
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
