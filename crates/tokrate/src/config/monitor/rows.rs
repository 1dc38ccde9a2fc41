//! `[monitor]` of `tokrate.toml` as it is written. Unknown keys are refused, with their place.
//!
//! Invariant: every key says here what it means, and what it is if it is left out; docs/configuration.md is made of that.

use crate::config::gateway::amounts::Budget;
use crate::config::gateway::rows::PriceRow;
#[cfg(test)]
use crate::config::reference::forms;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;
use toml::Spanned;

/// `[monitor]`.
#[derive(Deserialize, Debug, Default, Clone)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct MonitorRow {
    /// What is probed: targets by name as in `tokrate bench` (`openai/gpt-5`, `vllm@127.0.0.1:8000/MODEL`), and names of
    /// `[monitor.targets.NAME]`
    #[cfg_attr(test, schemars(with = "Vec<String>"))]
    pub endpoints: Vec<Spanned<String>>,
    /// What is asked: built-in workloads, `artificial-analysis`, names of `[monitor.workload.NAME]` [default: `["1k-1k"]`]
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "Vec<String>"))]
    pub workloads: Vec<Spanned<String>>,
    /// Cycles a day, 1 to 17280, each at a random time in a slot of its own [default: 8]
    #[cfg_attr(test, schemars(with = "Option<u32>"))]
    pub slots: Option<Spanned<NonZeroU32>>,
    /// Dollars in a calendar month (UTC); needs the price of each endpoint [default: no limit]
    #[cfg_attr(test, schemars(with = "Option<forms::Budget>"))]
    pub usd_per_month: Option<Spanned<Budget>>,
    /// Tokens of prompts and answers on a day (UTC) [default: no limit]
    #[cfg_attr(test, schemars(with = "Option<u64>"))]
    pub tokens_per_day: Option<Spanned<NonZeroU64>>,
    /// Where this machine stands, as it is shown, such as `fra` [default: `here`]
    pub place: Option<String>,
    /// Address of the board, on loopback, or `off` [default: `127.0.0.1:8413`]
    pub board: Option<String>,
    /// Names under which the board may be asked, such as that of a proxy in front of it [default: none but `localhost`]
    #[serde(default)]
    pub board_hosts: Vec<String>,
    /// Name of this prober, unique on a board [default: the machine's name]
    pub prober: Option<String>,
    /// Database (SQLite) [default: `"tokrate-monitor.db"`]
    #[cfg_attr(test, schemars(with = "Option<forms::File>"))]
    pub database: Option<PathBuf>,
    /// Throughput log of a gateway on this machine, whose traffic the board shows beside the probes, as a source of its own
    #[cfg_attr(test, schemars(with = "Option<forms::File>"))]
    pub log: Option<PathBuf>,
    /// How long probes are kept, at least 35 days, which the detector looks back [default: `"9600h"`]
    #[cfg_attr(test, schemars(with = "Option<forms::Time>"))]
    pub retention: Option<Spanned<String>>,
    /// Endpoints that are probed at the same time at most, and always fewer than all of them [default: 4]
    pub max_in_flight: Option<NonZeroU32>,
    /// Longest time without a byte [default: `"60s"`]
    #[cfg_attr(test, schemars(with = "Option<forms::Time>"))]
    pub idle_timeout: Option<Spanned<String>>,
    /// For a whole request [default: `"5m"`]
    #[cfg_attr(test, schemars(with = "Option<forms::Time>"))]
    pub timeout: Option<Spanned<String>>,
    /// PEM file with further certificate authorities
    #[cfg_attr(test, schemars(with = "Option<forms::File>"))]
    pub ca_file: Option<PathBuf>,
    /// Regressions that may be reported by chance, for one endpoint, workload and place in 30 days (0.0001 to 10) [default: 0.042]
    #[cfg_attr(test, schemars(with = "Option<f64>"))]
    pub false_alarms: Option<Spanned<f64>>,
    /// Seed of all times [default: one of the prober's name]
    pub seed: Option<u64>,
    /// Endpoints that need more than a name
    #[serde(default)]
    pub targets: BTreeMap<String, TargetRow>,
    /// Workloads of one's own
    #[serde(default)]
    pub workload: BTreeMap<String, WorkloadRow>,
}

/// `[monitor.targets.NAME]`.
#[derive(Deserialize, Debug, Default, Clone)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TargetRow {
    /// `PROVIDER/MODEL` or `ENGINE@HOST:PORT/MODEL` of the catalog (`tokrate targets`)
    pub target: Option<String>,
    /// Base URL of any other endpoint; needs `model`
    pub url: Option<String>,
    /// What is spoken there [default: `openai-chat` of a `url`; of a `target` what it speaks first]
    #[cfg_attr(test, schemars(with = "Option<forms::Dialect>"))]
    pub dialect: Option<String>,
    /// The model as the endpoint knows it [default: that of the `target`]
    pub model: Option<String>,
    /// Who runs it [default: the name in the catalog, or the host of the `url`]
    pub provider: Option<String>,
    /// Environment variable that holds the key [default: the provider's own]
    pub key_env: Option<String>,
    /// File that holds the key
    #[cfg_attr(test, schemars(with = "Option<forms::File>"))]
    pub key_file: Option<PathBuf>,
    /// Command that prints the key
    pub key_cmd: Option<String>,
    /// Further headers of every request: names and values
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// What a million tokens cost (USD) [default: the price in the catalog, if it has one]
    pub price: Option<PriceRow>,
    /// Workloads of this endpoint alone [default: those of `[monitor]`]
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "Option<Vec<String>>"))]
    pub workloads: Option<Vec<Spanned<String>>>,
}

/// `[monitor.workload.NAME]`: prompts of one's own, or made-up ones of a length.
#[derive(Deserialize, Debug, Clone)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WorkloadRow {
    /// File of prompts, in the forms of `tokrate bench --prompts`; each request has the next one, made unique by a line before it
    #[cfg_attr(test, schemars(with = "Option<forms::File>"))]
    pub prompts: Option<Spanned<PathBuf>>,
    /// Tokens of made-up prompts, in place of a file
    pub input_tokens: Option<NonZeroU32>,
    /// Most tokens of an answer
    pub output_tokens: NonZeroU32,
    /// Requests that are sent at once [default: 1]
    pub requests: Option<NonZeroU32>,
    /// How often [default: `cycle`]
    #[cfg_attr(test, schemars(with = "Option<forms::Cadence>"))]
    pub every: Option<Spanned<String>>,
}
