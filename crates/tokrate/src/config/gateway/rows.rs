//! `[gateway]` of `tokrate.toml` as it is written. Unknown keys are refused, with their place.
//!
//! Invariant: every key says here what it means, and what it is if it is left out where `--check` does not tell;
//! docs/configuration.md is made of that.

use super::amounts::{Budget, Dollars, Percentage};
#[cfg(test)]
use crate::config::reference::forms;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;
#[cfg(test)]
use tokrate_gateway::WinRule;

/// `[gateway]`.
#[derive(Deserialize, Debug, Default, Clone)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct GatewayRow {
    /// Where clients are served; elsewhere than on loopback only with keys
    #[cfg_attr(test, schemars(with = "Option<forms::Address>"))]
    pub listen: Option<String>,
    /// Where the page, the metrics and the API of the log are served; `off` for none
    #[cfg_attr(test, schemars(with = "Option<forms::AddressOrOff>"))]
    pub admin: Option<String>,
    /// Environment variable with the key of the admin side: elsewhere than on loopback it needs one
    pub admin_key_env: Option<String>,
    /// File with that key
    #[cfg_attr(test, schemars(with = "Option<forms::File>"))]
    pub admin_key_file: Option<PathBuf>,
    /// Command that prints that key
    pub admin_key_cmd: Option<String>,
    /// Names under which both may be asked, such as `gateway.example`, beside the addresses that they listen on and `localhost`;
    /// with a port if only that one
    #[serde(default)]
    pub hosts: Vec<String>,
    /// Origins of other sites whose pages may ask, such as `https://app.example`
    #[serde(default)]
    pub origins: Vec<String>,
    /// Certificate with which clients are served over TLS [default: none, plain HTTP]
    pub tls: Option<TlsRow>,
    /// Throughput log (SQLite); `off` for none
    #[cfg_attr(test, schemars(with = "Option<forms::FileOrOff>"))]
    pub log: Option<String>,
    /// How long rows of the log are kept
    #[cfg_attr(test, schemars(with = "Option<forms::Time>"))]
    pub log_retention: Option<String>,
    /// ClickHouse beside the log's file, which gets every row too: `clickhouse://user@host:8123/database`, `clickhouses://` for TLS
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
    /// Region of this machine, as it stands in the log; `TOKRATE_REGION` wins over it
    pub region: Option<String>,
    /// Threads that serve, 1 to 1024 [default: one a core]
    pub workers: Option<usize>,
    /// How long open answers may go on at the end
    #[cfg_attr(test, schemars(with = "Option<forms::Time>"))]
    pub drain: Option<String>,
    /// Version of HTTP towards providers
    #[cfg_attr(test, schemars(with = "Option<forms::Http>"))]
    pub http: Option<String>,
    /// For how long after its last call a lane keeps an open connection on each thread, so that the next call needs no handshake; `0s`:
    /// a connection is opened when a call needs one
    #[cfg_attr(test, schemars(with = "Option<forms::Time>"))]
    pub keep_warm: Option<String>,
    /// PEM file with further certificate authorities, or with a provider's own certificate
    #[cfg_attr(test, schemars(with = "Option<forms::File>"))]
    pub ca_file: Option<PathBuf>,
    /// Seed of what is drawn
    pub seed: Option<u64>,
    /// Whether a model that no alias and no lane is called is taken for the alias `reason`, `apply`, `compact` or `search`, by what the
    /// request's system prompt says (docs/agents.md has the rules) [default: `false`]
    pub role_by_system_prompt: Option<bool>,
    /// Export of metrics and traces to an OpenTelemetry collector
    pub otel: Option<OtelRow>,
    /// What a call may take: time, bytes, places
    #[serde(default)]
    pub limits: LimitsRow,
    /// When lanes that fail are left out, and for how long
    #[serde(default)]
    pub breaker: BreakerRow,
    /// Ways to an answer, by their names: a provider, a model there and a key
    #[serde(default)]
    pub lanes: BTreeMap<String, LaneRow>,
    /// Names that clients ask for as `model`, with their lanes and how they are chosen
    #[serde(default)]
    pub aliases: BTreeMap<String, AliasRow>,
    /// Keys that clients show, by the names under which they are logged; with one of them, every client needs one
    #[serde(default)]
    pub keys: BTreeMap<String, KeyRow>,
}

/// `[gateway.tls]`: read again at SIGHUP, so that a renewed certificate needs no new start.
#[derive(Deserialize, Debug, Clone)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TlsRow {
    /// PEM file with the certificates, the gateway's own first
    #[cfg_attr(test, schemars(with = "forms::File"))]
    pub certificate: PathBuf,
    /// PEM file with its key
    #[cfg_attr(test, schemars(with = "forms::File"))]
    pub key: PathBuf,
    /// Whether the page, the metrics and the API of the log are served over TLS as well
    #[serde(default)]
    pub admin: bool,
}

/// `[gateway.otel]`.
#[derive(Deserialize, Debug, Default, Clone)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct OtelRow {
    /// Base URL for OTLP over HTTP; `OTEL_EXPORTER_OTLP_ENDPOINT` wins [default: `"http://localhost:4318"`]
    pub endpoint: Option<String>,
    /// Environment variable with a key that the collector asks for
    pub key_env: Option<String>,
    /// File with that key
    #[cfg_attr(test, schemars(with = "Option<forms::File>"))]
    pub key_file: Option<PathBuf>,
    /// Command that prints that key
    pub key_cmd: Option<String>,
    /// Header that takes the key as it is [default: `authorization`, as a bearer token]
    pub key_header: Option<String>,
    /// Further headers of every request: names and values; `OTEL_EXPORTER_OTLP_HEADERS` wins
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// From one export of the metrics to the next, 1s at least [default: `"60s"`]
    #[cfg_attr(test, schemars(with = "Option<forms::Time>"))]
    pub interval: Option<String>,
    /// Whether metrics are exported; `OTEL_METRICS_EXPORTER=none` wins [default: `true`]
    pub metrics: Option<bool>,
    /// Whether traces are exported; `OTEL_TRACES_EXPORTER=none` wins [default: `true`]
    pub traces: Option<bool>,
    /// Share of the traces that begin here which are kept, 0 to 1; calls that fail are kept beside them;
    /// `OTEL_TRACES_SAMPLER` with `OTEL_TRACES_SAMPLER_ARG` wins [default: `1.0`]
    pub trace_ratio: Option<f64>,
    /// Calls that take this long are kept whatever the share [default: none]
    #[cfg_attr(test, schemars(with = "Option<forms::Time>"))]
    pub trace_slow: Option<String>,
    /// Whether lanes get `traceparent` and `tracestate` [default: `false`]
    pub propagate: Option<bool>,
    /// Attributes of the resource; those of `OTEL_RESOURCE_ATTRIBUTES` and `OTEL_SERVICE_NAME` win
    #[serde(default)]
    pub resource: BTreeMap<String, String>,
}

/// `[gateway.limits]`.
#[derive(Deserialize, Debug, Default, Clone)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LimitsRow {
    /// To open a connection to a provider; then another lane is asked, or else the call ends with 502 or 504
    #[cfg_attr(test, schemars(with = "Option<forms::Time>"))]
    pub connect: Option<String>,
    /// For the whole request to come; then 408
    #[cfg_attr(test, schemars(with = "Option<forms::Time>"))]
    pub body: Option<String>,
    /// To the first token of an attempt; then another lane is asked, or else the call ends with 504. A call for an answer in one
    /// piece goes on while no other lane can be asked
    #[cfg_attr(test, schemars(with = "Option<forms::Time>"))]
    pub first_token: Option<String>,
    /// Between two tokens; then an error event, or for an answer in one piece another lane. Comments that keep a connection alive are
    /// no tokens
    #[cfg_attr(test, schemars(with = "Option<forms::Time>"))]
    pub gap: Option<String>,
    /// For one attempt at an answer in one piece; then another lane is asked, or else the call ends with 504 [default: an equal share
    /// of what is left of `total` for each attempt that the call may still have, and then only if another lane can be asked]
    #[cfg_attr(test, schemars(with = "Option<forms::Time>"))]
    pub attempt: Option<String>,
    /// For the whole call; then 504 or an error event
    #[cfg_attr(test, schemars(with = "Option<forms::Time>"))]
    pub total: Option<String>,
    /// Time in which a client must take something of what lies ready for it; one that takes nothing for so long is given up
    #[cfg_attr(test, schemars(with = "Option<forms::Time>"))]
    pub send: Option<String>,
    /// Time without a byte of a realtime session in either direction, pings included; then it is closed (1001)
    #[cfg_attr(test, schemars(with = "Option<forms::Time>"))]
    pub silence: Option<String>,
    /// Size of a request that is held (bytes); over it 413, but for forms with files
    pub request_bytes: Option<usize>,
    /// Size of a form with files (bytes), which is passed on as it comes beyond `request_bytes`; over it 413
    pub file_bytes: Option<u64>,
    /// Size of an answer (bytes); over it 502
    pub answer_bytes: Option<u64>,
    /// What the requests of all open calls may hold together (bytes), at least twice `request_bytes`; then 503 with Retry-After
    pub bodies_bytes: Option<usize>,
    /// What the answers of all open calls may hold together (bytes) until their clients have taken them; one for which there is no
    /// room fails, and another lane is asked, or else the call ends with 502
    pub answers_bytes: Option<usize>,
    /// Calls that are open at once; over it 503 with Retry-After
    pub calls: Option<usize>,
    /// Connections of clients open at once, over both addresses; then those without a key that have waited longest go [default: half
    /// of the process's open files]
    pub connections: Option<usize>,
    /// Those of one peer that has shown no key, if there are keys [default: 7/16 of `connections`]
    pub connections_by_peer: Option<usize>,
}

/// `[gateway.breaker]`.
#[derive(Deserialize, Debug, Default, Clone)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct BreakerRow {
    /// Failures of a lane in a row after which it is left out; so it is if half of its latest calls fail. Client errors do not count
    pub failures: Option<NonZeroU32>,
    /// How long it is left out the first time; each time that it fails again, twice as long
    #[cfg_attr(test, schemars(with = "Option<forms::Time>"))]
    pub cool_down: Option<String>,
    /// The longest that it is left out
    #[cfg_attr(test, schemars(with = "Option<forms::Time>"))]
    pub max_cool_down: Option<String>,
    /// How long a lane is left out whose key or model its provider refuses
    #[cfg_attr(test, schemars(with = "Option<forms::Time>"))]
    pub key_cool_down: Option<String>,
    /// The longest wait that a provider may ask for (`Retry-After`)
    #[cfg_attr(test, schemars(with = "Option<forms::Time>"))]
    pub max_retry_after: Option<String>,
    /// Whether the gateway itself asks a lane that failed whether it is back, with a short request of its own (`probe` in the log),
    /// so that no client's call does
    pub probe: Option<bool>,
}

/// `[gateway.lanes.NAME]`.
#[derive(Deserialize, Debug, Default, Clone)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LaneRow {
    /// `PROVIDER/MODEL` or `ENGINE@HOST:PORT/MODEL` of the catalog (`tokrate targets`): addresses, headers and prices are known
    pub target: Option<String>,
    /// An engine inside of this process: a simulated provider, or the merge engine
    #[cfg_attr(test, schemars(with = "Option<forms::LocalEngine>"))]
    pub local: Option<String>,
    /// Base URL of any other endpoint; needs `model`
    pub url: Option<String>,
    /// What is spoken there [default: `openai-chat` of a `url`; of a `target` all that it speaks]
    #[cfg_attr(test, schemars(with = "Option<forms::Dialect>"))]
    pub dialect: Option<String>,
    /// The model as the endpoint knows it [default: that of the `target`]
    pub model: Option<String>,
    /// Who is named in the log and in answers [default: the name in the catalog, or the host of the `url`]
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
    /// Names of headers of the client that are handed on
    #[serde(default)]
    pub forward_headers: Vec<String>,
    /// Whether answers that clients want in one piece are asked for as streams where another lane of the call could take over and that
    /// changes nothing in them, so that a lane that hangs is seen early and the time to the first token is known [default: true]
    pub stream_whole: Option<bool>,
    /// Whether it has embeddings [default: as `serves` says]
    pub embeddings: Option<bool>,
    /// What it has beside the generation of text: `embeddings`, `rerank`, `moderations`, `speech`, `transcriptions`, `translations`,
    /// `images`, `files`, `batches`, `count_tokens`, `invoke`, `realtime`, `live`, `show`, `ps` [default: all of its dialects, each until it answers that it has no such
    /// path; then not for an hour]
    pub serves: Option<Vec<String>>,
    /// The most that a call costs of what is not billed by tokens (USD), by the same names: `fees = { images = 0.2 }`. Keys with
    /// `usd_per_month` are not let to it without
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "BTreeMap<String, forms::Dollars>"))]
    pub fees: BTreeMap<String, Dollars>,
    /// What a million tokens cost (USD), zeros where nobody bills. Keys with `usd_per_month` are not let to lanes without a
    /// price [default: the price in the catalog, if it has one]
    pub price: Option<PriceRow>,
    /// Tokens of the longest answer that the model writes: what a call without a limit is reckoned at where a key has
    /// `usd_per_month`. Nothing is cut by it [default: 131072]
    pub max_output_tokens: Option<NonZeroU64>,
    /// Tokens of the longest prompt that the model takes: what a call with pictures, files or an earlier conversation is reckoned
    /// at there [default: 1048576]
    pub max_input_tokens: Option<NonZeroU64>,
    /// Calls that are open there at once [default: as many as come]
    pub max_in_flight: Option<u32>,
    /// A record of `tokrate bench --json`: how quick the lane is under which load, known from the start
    #[cfg_attr(test, schemars(with = "Option<forms::File>"))]
    pub curve: Option<PathBuf>,
    /// What becomes of an attempt that another one outran: closed and its bill estimated (`cancel`), read to its end
    /// and exact (`drain`), or closed and not billed (`free`)
    #[cfg_attr(test, schemars(with = "Option<forms::Loser>"))]
    pub loser: Option<String>,
}

/// `price = { input = 1.0, output = 2.0 }`: US dollars per million tokens. Each is at least 0
#[derive(Deserialize, Debug, Clone, Copy)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PriceRow {
    /// Tokens of the prompt (USD per million)
    #[cfg_attr(test, schemars(with = "forms::Dollars"))]
    pub input: Dollars,
    /// Tokens of the answer (USD per million)
    #[cfg_attr(test, schemars(with = "forms::Dollars"))]
    pub output: Dollars,
    /// Tokens of the prompt that the provider had kept (USD per million) [default: as `input`]
    #[cfg_attr(test, schemars(with = "Option<forms::Dollars>"))]
    pub cached: Option<Dollars>,
    /// Tokens of the prompt that the provider keeps from now on (USD per million) [default: as `input`; of Anthropic's dialect a
    /// quarter more, its price for five minutes]
    #[cfg_attr(test, schemars(with = "Option<forms::Dollars>"))]
    pub cache_write: Option<Dollars>,
    /// Tokens of sound in the prompt of a session (USD per million); without it a session with sound costs its fee
    #[cfg_attr(test, schemars(with = "Option<forms::Dollars>"))]
    pub audio_input: Option<Dollars>,
    /// Those of them that the provider had kept (USD per million) [default: as `audio_input`]
    #[cfg_attr(test, schemars(with = "Option<forms::Dollars>"))]
    pub audio_cached: Option<Dollars>,
    /// Tokens of sound in the answers of a session (USD per million); without it a session with sound costs its fee
    #[cfg_attr(test, schemars(with = "Option<forms::Dollars>"))]
    pub audio_output: Option<Dollars>,
}

/// `[gateway.aliases.NAME]`.
#[derive(Deserialize, Debug, Default, Clone)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct AliasRow {
    /// Names of its lanes, in the order that `fixed` goes by
    pub lanes: Vec<String>,
    /// What the best lane is
    #[cfg_attr(test, schemars(with = "Option<forms::Objective>"))]
    pub objective: Option<String>,
    /// One lane a call (`off`), a second one when the first is slow (`hedge`), or several at once (`race`, `race=N`)
    #[cfg_attr(test, schemars(with = "Option<forms::Mode>"))]
    pub mode: Option<String>,
    /// Attempts of a call at most, failed ones included, 1 to 16
    #[cfg_attr(test, schemars(extend("default" = super::aliases::DEFAULT_ATTEMPTS)))]
    pub attempts: Option<usize>,
    /// Of `cheapest`: the longest mean TTFT that a lane may have [default: any]
    #[cfg_attr(test, schemars(with = "Option<forms::Time>"))]
    pub ttft_most: Option<String>,
    /// Of `cheapest`: the least output speed that a lane may have (tok/s) [default: any]
    pub speed_least: Option<f64>,
    /// Of `weighted`, which needs it: what a second is worth (USD)
    pub usd_per_second: Option<f64>,
    /// Extra attempts as a share of calls, and one before any call has earned it [default: 0.1; of `race=N` N - 1]
    pub extra_share: Option<f64>,
    /// What extra attempts may cost, as a percentage of what calls cost without them [default: no limit]
    #[cfg_attr(test, schemars(with = "Option<forms::Percentage>"))]
    pub max_extra_cost_pct: Option<Percentage>,
    /// What extra attempts may cost in an hour (USD) [default: no limit]
    #[cfg_attr(test, schemars(with = "Option<forms::Dollars>"))]
    pub max_extra_usd_per_hour: Option<Dollars>,
    /// Which of several lanes a call is answered by
    #[cfg_attr(test, schemars(with = "Option<forms::Winner>"))]
    pub winner: Option<String>,
    /// Of `completion`: how long a first token is held at most, as a share of the time that this may save, 0 to 1
    #[cfg_attr(test, schemars(extend("default" = WinRule::DEFAULT_HOLD)))]
    pub hold_share: Option<f64>,
}

/// `[gateway.keys.NAME]`.
#[derive(Deserialize, Debug, Default, Clone)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct KeyRow {
    /// SHA-256 of the key in 64 hexadecimal digits, in place of the key itself
    #[cfg_attr(test, schemars(with = "Option<forms::Sha256>"))]
    pub sha256: Option<String>,
    /// Environment variable that holds the key
    pub key_env: Option<String>,
    /// File that holds the key
    #[cfg_attr(test, schemars(with = "Option<forms::File>"))]
    pub key_file: Option<PathBuf>,
    /// Command that prints the key
    pub key_cmd: Option<String>,
    /// Names that it may ask for [default: all]
    #[serde(default)]
    pub aliases: Vec<String>,
    /// Requests in a minute; over it 429 with Retry-After [default: no limit]
    pub requests_per_minute: Option<NonZeroU32>,
    /// Tokens in a minute, of prompts and answers; over it 429 with Retry-After [default: no limit]
    pub tokens_per_minute: Option<NonZeroU64>,
    /// Calls open at once; over it 429 [default: no limit]
    pub streams: Option<NonZeroU32>,
    /// Dollars in a calendar month (UTC), read back from the log at the start, without which it is refused; over it
    /// 429 [default: no limit]
    #[cfg_attr(test, schemars(with = "Option<forms::Budget>"))]
    pub usd_per_month: Option<Budget>,
}
