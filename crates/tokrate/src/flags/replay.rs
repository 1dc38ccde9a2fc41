//! The flags of `tokrate replay`.

use clap::Args;
use std::path::PathBuf;
use tokrate_route::Policy;

/// `tokrate replay`, as typed.
#[derive(Args, Debug, Default)]
#[command(after_help = "\
Every figure of the other policy is an estimate from attempts that were measured near each call; docs/replay.md says how.

Exit codes: 0 estimated; 2 could not be read, or too little was measured to claim anything.

Examples:
  tokrate replay tokrate-log.db --policy own-completion
  tokrate replay tokrate-log.db --policy completion --mode hedge --since 7d --alias code
  tokrate replay tokrate-log.db --policy fixed --lanes groq,cerebras --mode race=2
  tokrate replay tokrate-log.db --policy cheapest --ttft-most 800ms --speed-least 50 --json")]
pub struct Flags {
    /// The gateway's throughput log
    #[arg(value_name = "LOG")]
    pub log: PathBuf,
    #[arg(long, value_name = "POLICY", help = policy_help())]
    pub policy: String,
    /// How many at once: off (one lane a call), hedge, race or race=N [default: off]
    #[arg(long, value_name = "MODE")]
    pub mode: Option<String>,
    /// Calls begun since then: a time back from now such as 90m, 24h or 7d, a UTC date such as 2026-11-21 or
    /// 2026-11-21T08:00, or `all` [default: 24h]
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Only calls that asked for this name [default: every name by itself]
    #[arg(long, value_name = "ALIAS")]
    pub alias: Option<String>,
    /// Only these lanes, in this order, which `fixed` goes by [default: all that the name was sent to, by their names]
    #[arg(long, value_name = "LANE,…", value_delimiter = ',')]
    pub lanes: Vec<String>,
    /// Of the policy cheapest: the longest mean TTFT that a lane may have, such as 800ms
    #[arg(long, value_name = "TIME")]
    pub ttft_most: Option<String>,
    /// Of the policy cheapest: the least output speed that a lane may have (tok/s)
    #[arg(long, value_name = "SPEED")]
    pub speed_least: Option<f64>,
    /// Of the policy weighted: what a second is worth (USD)
    #[arg(long, value_name = "USD")]
    pub usd_per_second: Option<f64>,
    /// Write JSON instead of tables
    #[arg(long)]
    pub json: bool,
}

fn policy_help() -> String {
    let [first @ .., last] = &Policy::NAMES;
    format!("How lanes are chosen: {} or {last}", first.join(", "))
}
