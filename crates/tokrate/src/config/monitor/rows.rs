//! `[monitor]` of `tokrate.toml` as it is written. Unknown keys are refused, with their place.
//!
//! Invariant: every key says here what it means, and what it is if it is left out; docs/configuration.md is made of that.

use crate::config::gateway::amounts::Budget;
use crate::config::gateway::rows::PriceRow;
use crate::config::lists;
#[cfg(test)]
use crate::config::reference::forms;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;
use toml::Spanned;

/// What a receiver of alerts can be.
pub const RECEIVER_KINDS: [&str; 5] = ["webhook", "slack", "alertmanager", "email", "command"];

/// `[monitor]`.
#[derive(Deserialize, Debug, Default, Clone)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct MonitorRow {
    /// What is probed: targets by name as in `tokrate bench` (`openai/gpt-5`, `vllm@127.0.0.1:8000/MODEL`), and names of
    /// `[monitor.targets.NAME]`; only a hub can do without
    #[serde(default, deserialize_with = "endpoint_names")]
    #[cfg_attr(test, schemars(with = "Vec<String>"))]
    pub endpoints: Vec<Spanned<String>>,
    /// What is asked: built-in workloads, `artificial-analysis`, names of `[monitor.workload.NAME]` [default: `["1k-1k"]`]
    #[serde(default, deserialize_with = "workload_names")]
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
    /// Throughput log of a gateway on this machine, or `clickhouse://user@host:8123/database`, whose traffic the board shows beside the probes, as a source of its own
    #[cfg_attr(test, schemars(with = "Option<forms::File>"))]
    pub log: Option<PathBuf>,
    /// How long probes are kept, at least 35 days, which the detector looks back [default: `"9600h"`]
    #[cfg_attr(test, schemars(with = "Option<forms::Time>"))]
    pub retention: Option<Spanned<String>>,
    /// ClickHouse beside the database, which gets probes and changes too and is what board and exports read: `clickhouse://user@host:8123/database`, `clickhouses://` for TLS
    pub store: Option<String>,
    /// Environment variable with the password of its user
    pub store_key_env: Option<String>,
    /// File with that password
    #[cfg_attr(test, schemars(with = "Option<forms::File>"))]
    pub store_key_file: Option<PathBuf>,
    /// Command that prints that password
    pub store_key_cmd: Option<String>,
    /// How long rows are kept there [default: for ever]
    #[cfg_attr(test, schemars(with = "Option<forms::Time>"))]
    pub store_retention: Option<String>,
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
    /// Who gets messages of what
    #[serde(default)]
    pub alerts: AlertsRow,
    /// The hub that gets what is kept here
    pub push: Option<PushRow>,
    /// Probers elsewhere that push to the board of this monitor
    pub hub: Option<HubRow>,
}

fn endpoint_names<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Spanned<String>>, D::Error> {
    lists::names(deserializer, "endpoints", "monitor.targets")
}

fn workload_names<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Spanned<String>>, D::Error> {
    lists::names(deserializer, "workloads", "monitor.workload")
}

/// `[monitor.push]`; the key is made by `tokrate monitor push-key`.
#[derive(Deserialize, Debug, Clone)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PushRow {
    /// Address of the hub's board, such as `https://board.example`
    #[cfg_attr(test, schemars(with = "String"))]
    pub hub: Spanned<String>,
    /// Environment variable that holds this prober's key
    pub key_env: Option<String>,
    /// File that holds the key
    #[cfg_attr(test, schemars(with = "Option<forms::File>"))]
    pub key_file: Option<PathBuf>,
    /// Command that prints the key
    pub key_cmd: Option<String>,
    /// PEM file with a further certificate authority [default: that of `[monitor]`]
    #[cfg_attr(test, schemars(with = "Option<forms::File>"))]
    pub ca_file: Option<PathBuf>,
}

/// `[monitor.hub]`.
#[derive(Deserialize, Debug, Default, Clone)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct HubRow {
    /// Who may push, by the name of the prober
    #[cfg_attr(test, schemars(with = "BTreeMap<String, KnownProberRow>"))]
    pub probers: BTreeMap<Spanned<String>, KnownProberRow>,
}

/// `[monitor.hub.probers.NAME]`.
#[derive(Deserialize, Debug, Default, Clone)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct KnownProberRow {
    /// Its public key, as `tokrate monitor push-key` prints it
    pub public_key: String,
}

/// `[monitor.alerts]`.
#[derive(Deserialize, Debug, Default, Clone)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct AlertsRow {
    /// Address of the board, for a link in messages
    pub board_url: Option<String>,
    /// Who can get messages
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "BTreeMap<String, ReceiverRow>"))]
    pub receivers: BTreeMap<Spanned<String>, ReceiverRow>,
    /// When they get one [default: one rule `changes`, of regressions and errors, for all receivers]
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "BTreeMap<String, RuleRow>"))]
    pub rules: BTreeMap<Spanned<String>, RuleRow>,
}

/// `[monitor.alerts.receivers.NAME]`.
#[derive(Deserialize, Debug, Clone)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ReceiverRow {
    /// What it is
    #[cfg_attr(test, schemars(with = "forms::ReceiverKind"))]
    pub kind: String,
    /// Where: an http or https URL (of `alertmanager` without `/api/v2/alerts`); of `email` the server, `smtps://HOST:465` or
    /// `smtp://HOST:587` (STARTTLS)
    pub url: Option<String>,
    /// Environment variable that holds the URL, where it is a secret as that of Slack
    pub url_env: Option<String>,
    /// File that holds the URL
    #[cfg_attr(test, schemars(with = "Option<forms::File>"))]
    pub url_file: Option<PathBuf>,
    /// Environment variable that holds a key: of `webhook` that of signatures, of `alertmanager` and `slack` a bearer token, of `email`
    /// the password
    pub key_env: Option<String>,
    /// File that holds the key
    #[cfg_attr(test, schemars(with = "Option<forms::File>"))]
    pub key_file: Option<PathBuf>,
    /// Command that prints the key
    pub key_cmd: Option<String>,
    /// Further headers of every request: names and values
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// PEM file with a further certificate authority [default: that of `[monitor]`]
    #[cfg_attr(test, schemars(with = "Option<forms::File>"))]
    pub ca_file: Option<PathBuf>,
    /// User name at the mail server
    pub user: Option<String>,
    /// From whom e-mails are
    pub from: Option<String>,
    /// Who gets them
    #[serde(default)]
    pub to: Vec<String>,
    /// Of `command`: a program and its arguments, without a shell
    #[serde(default)]
    pub command: Vec<String>,
}

/// `[monitor.alerts.rules.NAME]`: about changes that the detector finds, objectives that probes miss, or silent probers; one of them.
#[derive(Deserialize, Debug, Default, Clone)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RuleRow {
    /// Kinds of changes: `regression`, `errors`, `fidelity`, `improvement`, `spread`, `cycle`, `stream`, `quarantine` [default: the first three,
    /// where
    /// there is no `slo` and no `silent`]
    #[cfg_attr(test, schemars(with = "Option<Vec<String>>"))]
    pub changes: Option<Vec<Spanned<String>>>,
    /// Objectives of a probe, such as `ttft<2s` or `output_speed>30`; of `ttfb`, `ttft`, `ttfat`, `e2e`, `output_speed`. A failed probe
    /// misses them
    #[cfg_attr(test, schemars(with = "Option<Vec<String>>"))]
    pub slo: Option<Vec<Spanned<String>>>,
    /// A prober that was not seen for so long, at least `20m`
    #[cfg_attr(test, schemars(with = "Option<forms::Time>"))]
    pub silent: Option<Spanned<String>>,
    /// Endpoints that it is about: names, or beginnings of names with `*` at their end [default: all]
    #[serde(default)]
    pub endpoints: Vec<String>,
    /// Workloads that it is about, written alike [default: all]
    #[serde(default)]
    pub workloads: Vec<String>,
    /// So many of the latest `of` probes of a place must miss; as many good ones in a row end it [default: 1; only with `slo`]
    pub failing: Option<NonZeroU32>,
    /// See `failing`; at most 64 [default: as `failing`]
    pub of: Option<NonZeroU32>,
    /// In so many places at once [default: 1]
    pub places: Option<NonZeroU32>,
    /// So long the first message waits for others of the same provider [default: `"5m"`]
    #[cfg_attr(test, schemars(with = "Option<forms::Time>"))]
    pub group_wait: Option<Spanned<String>>,
    /// A message again after so long, while it lasts [default: none]
    #[cfg_attr(test, schemars(with = "Option<forms::Time>"))]
    pub remind_after: Option<Spanned<String>>,
    /// A change is over after so long without another, as it has become usual [default: `"168h"`]
    #[cfg_attr(test, schemars(with = "Option<forms::Time>"))]
    pub resolve_after: Option<Spanned<String>>,
    /// Hours of the day (UTC) in which messages wait, such as `22:00-07:00` [default: none]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub quiet: Option<Spanned<String>>,
    /// Who gets its messages [default: all receivers]
    #[cfg_attr(test, schemars(with = "Option<Vec<String>>"))]
    pub receivers: Option<Vec<Spanned<String>>>,
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
