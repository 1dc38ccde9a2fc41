//! `[gateway]` of `tokrate.toml` as it is written. Unknown keys are refused, with their place.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// `[gateway]`.
#[derive(Deserialize, Debug, Default, Clone)]
#[serde(deny_unknown_fields)]
pub struct GatewayRow {
    pub listen: Option<String>,
    pub admin: Option<String>,
    pub log: Option<String>,
    pub log_retention: Option<String>,
    pub workers: Option<usize>,
    pub drain: Option<String>,
    pub http: Option<String>,
    pub ca_file: Option<PathBuf>,
    pub seed: Option<u64>,
    #[serde(default)]
    pub limits: LimitsRow,
    #[serde(default)]
    pub lanes: BTreeMap<String, LaneRow>,
    #[serde(default)]
    pub aliases: BTreeMap<String, AliasRow>,
    #[serde(default)]
    pub keys: BTreeMap<String, KeyRow>,
}

/// `[gateway.limits]`.
#[derive(Deserialize, Debug, Default, Clone)]
#[serde(deny_unknown_fields)]
pub struct LimitsRow {
    pub connect: Option<String>,
    pub body: Option<String>,
    pub first_token: Option<String>,
    pub gap: Option<String>,
    pub total: Option<String>,
    /// Time in which a client must take something of what lies ready for it; one that takes nothing for so long is given up
    pub send: Option<String>,
    pub request_bytes: Option<usize>,
    pub answer_bytes: Option<u64>,
    pub calls: Option<usize>,
}

/// `[gateway.lanes.NAME]`.
#[derive(Deserialize, Debug, Default, Clone)]
#[serde(deny_unknown_fields)]
pub struct LaneRow {
    /// `PROVIDER/MODEL` or `ENGINE@HOST:PORT/MODEL`, as the catalog names them.
    pub target: Option<String>,
    /// `sim` or `apply`: an engine inside of this process.
    pub local: Option<String>,
    pub url: Option<String>,
    pub dialect: Option<String>,
    pub model: Option<String>,
    pub provider: Option<String>,
    pub key_env: Option<String>,
    pub key_file: Option<PathBuf>,
    pub key_cmd: Option<String>,
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    #[serde(default)]
    pub forward_headers: Vec<String>,
    pub price: Option<PriceRow>,
    pub max_in_flight: Option<u32>,
    /// A record of `tokrate bench`.
    pub curve: Option<PathBuf>,
    pub loser: Option<String>,
}

/// `price = { input = 1.0, output = 2.0 }`: US dollars per million tokens.
#[derive(Deserialize, Debug, Clone, Copy)]
#[serde(deny_unknown_fields)]
pub struct PriceRow {
    pub input: f64,
    pub output: f64,
    pub cached: Option<f64>,
}

/// `[gateway.aliases.NAME]`.
#[derive(Deserialize, Debug, Default, Clone)]
#[serde(deny_unknown_fields)]
pub struct AliasRow {
    pub lanes: Vec<String>,
    pub objective: Option<String>,
    pub mode: Option<String>,
    pub attempts: Option<usize>,
    pub ttft_most: Option<String>,
    pub speed_least: Option<f64>,
    pub usd_per_second: Option<f64>,
    pub extra_share: Option<f64>,
    pub max_extra_cost_pct: Option<f64>,
    pub max_extra_usd_per_hour: Option<f64>,
    pub second_look: Option<String>,
}

/// `[gateway.keys.NAME]`.
#[derive(Deserialize, Debug, Default, Clone)]
#[serde(deny_unknown_fields)]
pub struct KeyRow {
    pub sha256: Option<String>,
    pub key_env: Option<String>,
    pub key_file: Option<PathBuf>,
    pub key_cmd: Option<String>,
    #[serde(default)]
    pub aliases: Vec<String>,
    pub requests_per_minute: Option<u32>,
    pub tokens_per_minute: Option<u64>,
    pub streams: Option<u32>,
    pub usd_per_month: Option<f64>,
}
