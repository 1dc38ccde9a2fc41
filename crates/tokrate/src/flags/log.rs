//! The flags of `tokrate log`.

use super::source::Source;
use clap::Args;
use std::path::PathBuf;

/// `tokrate log`, as typed.
#[derive(Args, Debug, Default)]
#[command(after_help = "\
Exit codes: 0 good; 1 a regression (--regressions); 2 could not be read, or nothing could be compared.

Examples:
  tokrate log                                  the last 24 hours, lane by lane
  tokrate log --since 7d --by lane,hour
  tokrate log --calls 5 --alias code           the latest calls with their attempts
  tokrate log --since 24h --regressions        the last 24 hours against the 24 before
  tokrate log --session run-17                 the calls of an agent's run, and where its time went
  tokrate log --refused --key ada              requests that the gateway refused, and why
  tokrate log --source monitor --since 30d     probes of `tokrate monitor`, endpoint by endpoint
  tokrate log --since 2026-11-01 --until 2026-11-02T12:00 --json")]
pub struct Flags {
    /// What is read: a gateway's throughput log, or of a monitor's database its probes, or the bench runs that were added to it;
    /// never two of them together
    #[arg(long, value_name = "SOURCE", value_enum, default_value_t)]
    pub source: Source,
    /// The log, or the monitor's database, or clickhouse://USER@HOST/DATABASE [default: `store`, else the file of tokrate.toml, else
    /// tokrate-log.db or tokrate-monitor.db]
    #[arg(long, value_name = "FILE")]
    pub db: Option<PathBuf>,
    /// Attempts begun since then: a time back from the end such as 90m, 24h or 7d, a UTC date such as 2026-11-21 or
    /// 2026-11-21T08:00, or `all` [default: 24h]
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Attempts begun before then, written like --since [default: now]
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,
    /// Only this lane, or endpoint
    #[arg(long, value_name = "LANE", conflicts_with = "refused")]
    pub lane: Option<String>,
    /// Only calls that asked for this name, or this workload
    #[arg(long, value_name = "ALIAS")]
    pub alias: Option<String>,
    /// Only calls with this virtual key (its name)
    #[arg(long, value_name = "NAME")]
    pub key: Option<String>,
    /// Show a session's calls as a chain, with what its end waited for: the name that clients send as x-tokrate-session
    #[arg(long, value_name = "NAME", conflicts_with_all = ["calls", "refused", "regressions", "by"])]
    pub session: Option<String>,
    /// A row for each lane (or endpoint), alias (or workload), hour (UTC), several of them, or `all` for a single one; or for
    /// each `session`
    /// [default: lane; of probes and bench runs lane,workload]
    #[arg(long, value_name = "WHAT,…", value_delimiter = ',', conflicts_with_all = ["calls", "regressions", "refused"])]
    pub by: Vec<String>,
    /// Show the latest N calls with all their attempts
    #[arg(long, value_name = "N", conflicts_with = "regressions")]
    pub calls: Option<usize>,
    /// Show the requests that the gateway refused before it asked a lane, by key, name asked for and reason
    #[arg(long, conflicts_with_all = ["calls", "regressions"])]
    pub refused: bool,
    /// Hold the time from --since against the same length of time before it, like with like
    #[arg(long)]
    pub regressions: bool,
    /// Relative change for the worse above which it is a regression, such as 5% or 0.05 [default: 5%]
    #[arg(long, value_name = "SHARE", requires = "regressions")]
    pub threshold: Option<String>,
    /// Write JSON instead of tables
    #[arg(long)]
    pub json: bool,
}
